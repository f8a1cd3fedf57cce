"""What a run leaves for others to read: nothing in it runs, whatever inputs and columns are called."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fans
from fans.errors import InputError
from fans.own import store
from fans.own.store import Plan
from fans.own.written import write_results
from tests.own import made

EVIL = "<script>document.title='gone'</script>"
BREAKING = "\"><img src=x onerror=\"document.title='gone'\">'"


@pytest.fixture(scope="module")
def evil():
    rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
    names = [EVIL, BREAKING, "=HYPERLINK(1)"]
    explainer = fans.Explainer(
        lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, feature_names=names, target_names=[EVIL], effort="low"
    )
    return explainer(rows[:40], ids=[EVIL, BREAKING, "=1+1", "@x", "-1", *(f"{i}" for i in range(35))])


def written(folder, e, formats, block=16):
    plan = Plan(EVIL, len(e), block, {"kind": "table", "inputs": 99}, {}, {}, {"effort": EVIL}, {}, BREAKING)
    (folder / "shards").mkdir()
    for number in range(plan.n_shards):
        at = plan.inputs(number)
        e[at.start : at.stop].save(folder / "shards" / store.shard_name(number))
    return write_results(folder, plan, formats)


@pytest.mark.parametrize("n", [12, 40])
def test_nothing_on_a_page_runs_whatever_things_are_called(tmp_path, evil, n, browser):
    (index,) = written(tmp_path, evil[:n], ["html"])
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    tab.on("console", lambda said: problems.append(said.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(index.as_uri())
    title = tab.title()
    assert title.startswith("fans")
    assert tab.locator("h1").inner_text() == EVIL
    assert tab.locator("table.list tr").count() == n + 1
    links = [link.get_attribute("href") for link in tab.locator("table.list a").all()]
    assert len(links) == n
    tab.locator("table.list a").nth(n - 1).click()
    assert tab.url.endswith(f"#input-{n - 1}")
    assert tab.evaluate("document.querySelector(location.hash) !== null")
    assert tab.locator("script, img[src=x]").count() == 0
    assert tab.title() == title
    assert not problems
    tab.close()


def test_pages_of_many_inputs(tmp_path, evil):
    written(tmp_path, evil, ["html"])
    index = (tmp_path / "index.html").read_text()
    assert [path.name for path in sorted((tmp_path / "pages").iterdir())] == ["00000.html", "00001.html", "00002.html"]
    assert "pages/00002.html#input-39" in index
    assert "id='input-39'" in (tmp_path / "pages" / "00002.html").read_text()
    assert "40 of 99 rows explained" in index
    assert EVIL not in index
    found = evil.subset.any(1)
    assert f"found for {found.sum()} of 40 rows" in index
    mean, half = evil.pns[found].mean(), 1.959964 * evil.pns[found].std(ddof=1) / np.sqrt(found.sum())
    assert f"a mean PNS (both) of {mean:.2f} ± {half:.2f} (95 %)" in index


def test_a_spreadsheet_takes_nothing_for_a_formula(tmp_path, evil):
    (path,) = written(tmp_path, evil, ["csv"])
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["id"] for row in rows[:5]] == [EVIL, BREAKING, "'=1+1", "'@x", "'-1"]
    assert not [value for row in rows for value in row.values() if value.startswith(("=", "@"))]


def test_no_format_of_ours(tmp_path, evil):
    with pytest.raises(InputError, match="--format"):
        written(tmp_path, evil[:2], ["xls"])


def test_nothing_measured_is_told_as_null(tmp_path, evil):
    e = replace(evil[:2], pns=np.array([np.nan, 0.5]), share_interval=np.full((2, 2, 2), np.nan))
    (path,) = written(tmp_path, e, ["json"])
    listed = made.listed(path)
    assert [one["pns"] for one in listed] == [None, 0.5]
    assert listed[0]["keep_low"] is None


def test_a_folder_of_pages_that_leads_elsewhere_is_refused(tmp_path, evil):
    place, outside = tmp_path / "run", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    (place / "pages").symlink_to(outside)
    with pytest.raises(InputError, match="a symbolic link"):
        written(place, evil, ["html"])
    assert not list(outside.iterdir())


def test_long_runs_have_few_pages(tmp_path, evil, monkeypatch):
    from fans.own import written as module

    monkeypatch.setattr(module, "MOST_PAGED", 16)
    monkeypatch.setattr(module, "MOST_LISTED", 20)
    monkeypatch.setattr(module, "MOST_SEEN", 10)
    written(tmp_path, evil, ["html"])
    index = (tmp_path / "index.html").read_text()
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["00000.html"]
    assert index.count("<td class='said'>") == 20
    assert "20 more inputs are not listed here" in index
    assert "every 4th row" in index
    assert "10 explained rows" in index
    assert isinstance(tmp_path, Path)
