"""The documentation names files that there are, and links that lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ROOMS = (ROOT, ROOT / "src" / "fans", ROOT / "src", ROOT / "benchmarks")

EXAMPLES = {
    *("baskets.py", "src/fans/modalities/baskets/__init__.py", "steadiness.py", "mine.yaml", "pointed.yaml"),
    *("pointing.py", "striped.yaml", "stripes.py", "alone.py", "knockout.py"),
}
"""Files that a reader writes."""


def there(name: str) -> bool:
    """Whether a file is there, by its path from the root, from `fans`, or by its own name."""
    return any((room / name).is_file() for room in ROOMS) or ("/" not in name and any(ROOT.glob(f"[bst]*/**/{name}")))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    named = set(re.findall(r"`([\w./-]+\.(?:py|yaml|toml))(?:::\w+)?[`:]", text))
    gone = sorted(name for name in named - EXAMPLES if not there(name))
    assert not gone


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them, and the names on a page of the API."""
    text = page.read_text()
    found = set(re.findall(r"^::: ([\w.]+)", text, flags=re.M))
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.M):
        plain = re.sub(r"[^\w\s-]", "", heading.lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_list_has_a_line_of_its_own_before_it(page):
    """GitHub sees a list right below a paragraph, the site does not."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.strip("\n").splitlines()
        items = [re.match(r"(?:[-*]|\d+\.) ", line) for line in lines]
        assert not any(items) or items[0], lines[0]
