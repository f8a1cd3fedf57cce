"""The documentation's site builds without a warning, loads nothing from the network, and has every public name."""

import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fans
from fans import spaces

pytestmark = pytest.mark.slow("builds the site")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "COLUMNS": "40"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


class Loaded(HTMLParser):
    """What a page loads when it is opened, and the ids on it."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag's source and id."""
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        found = given.get("src") or (given.get("href") if tag == "link" else "")
        if found:
            self.sources.append(found)


def read(page: Path) -> Loaded:
    """Read a page."""
    loaded = Loaded()
    loaded.feed(page.read_text())
    return loaded


def test_pages_load_nothing_from_the_network(site):
    for page in site.rglob("*.html"):
        if "results" not in page.parts:
            outside = [source for source in read(page).sources if re.match(r"(\w+:)?//", source)]
            assert not [source for source in outside if not source.startswith("data:")], page
    assert not re.search(r"@import|url\(['\"]?http", (site / "style" / "extra.css").read_text())


PACKAGES = ("fans.metrics", "fans.datasets", "fans.networks", "fans.runs", "fans.studies")


def test_every_public_name_is_on_the_pages_of_the_api(site):
    ids = set().union(*(read(page).ids for page in (site / "api").glob("*.html")))
    public = {f"fans.{name}" for name in fans.__all__ if name not in {"spaces", "__version__"}}
    for package in PACKAGES:
        public |= {f"{package}.{name}" for name in importlib.import_module(package).__all__}
    for name in dir(spaces):
        public.add(f"{getattr(spaces, name).__module__}.{name}")
    public |= {"fans.adapters.pyg.FANSExplainer", "fans.adapters.captum.FANS", "fans.adapters.quantus.explain"}
    assert not public - ids


def test_every_command_is_on_the_page_of_the_command_line(site):
    text = (site / "commands.html").read_text()
    parser = subprocess.run(
        [sys.executable, "-m", "fans.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"^    (\w+) ", parser, re.MULTILINE)
    assert {"demo", "run", "report", "list"} <= set(names)
    for name in names:
        assert f"usage: fans {name}" in text
    assert "--dry-run" in text


def test_the_search_finds_from_the_disk(site, browser):
    problems: list[str] = []
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda asked: problems.append(asked.url) if asked.url.startswith("http") else None)
    tab.goto((site / "index.html").as_uri())
    tab.fill("input.md-search__input", "tolerance")
    tab.wait_for_selector(".md-search-result__item", timeout=120_000)
    found = tab.locator(".md-search-result__item").all_inner_texts()
    tab.close()
    assert any("Choosing background" in text for text in found)
    assert not problems
