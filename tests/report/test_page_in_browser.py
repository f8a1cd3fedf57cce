"""The page in a browser: headless Chromium of the system, driven by Playwright."""

from pathlib import Path
from typing import Any

import pytest

from fans.files import write
from fans.report.study_page import page
from fans.runs import Run
from fans.studies.base import Study
from tests.report.sections import section

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """The page of both committed tables and a made-up section; nothing may go wrong while it is used."""
    sections = [section()]
    for name in ("table1", "table2"):
        run = Run.open(RESULTS / name)
        told = Study.kinds["table"].section(run)
        assert told is not None
        sections.append(told)
    path = write(tmp_path_factory.mktemp("page") / "paper.html", page(sections))
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    tab.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on(
        "request", lambda asked: problems.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None
    )
    tab.goto(path.as_uri())
    yield tab
    assert not problems


def shown(tab: Any, selector: str) -> list[str]:
    """The texts of what a selector finds and the reader sees."""
    return [each.inner_text() for each in tab.locator(selector).all() if each.is_visible()]


def test_everything_is_there(opened):
    assert opened.title().startswith("FANS (ICML 2024)")  # and not what a method's name would make it
    assert opened.locator("table.results").count() == 2 + 3 + 3
    assert opened.locator(".chart").count() == 2 + 1
    assert opened.locator(".chart svg[role=img]").count() == 4 + 6
    assert opened.locator(".chart svg[role=img] path.line").count() > 4
    images = opened.locator(".gallery img")
    assert images.count() == 3
    assert all(image.evaluate("i => i.complete && i.naturalWidth") for image in images.all())
    assert opened.locator(".claim").count() >= 3 + 11
    assert opened.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.fixture
def table(opened):
    return opened.locator("#s0-made-up .table")


def first_column(table: Any) -> list[str]:
    return shown(table, ".dataset tbody th")


def test_datasets_are_tabs(opened, table):
    assert shown(table, "caption") == ["Digits, 5 inputs"]
    table.locator("[role=tab]", has_text="Digits").focus()
    opened.keyboard.press("ArrowRight")
    assert shown(table, "caption") == ["Letters, 5 inputs"]
    assert table.locator("[role=tab][aria-selected=true]").inner_text() == "Letters"
    table.locator("[role=tab]", has_text="Digits").click()


def test_rows_are_sorted(table):
    before = first_column(table)
    head = table.locator(".dataset").first.locator("th.c0:not(.paper)")
    head.locator("button").focus()
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"  # the best first
    assert [first_column(table)[i] for i in (0, -1)] == ["FANS", "Steady"]  # nothing comes last
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [first_column(table)[i] for i in (0, -1)] == ["Plain", "Steady"]
    head.locator("button").press("Enter")
    assert (head.get_attribute("aria-sort"), first_column(table)) == ("none", before)


def test_rows_are_filtered(table):
    assert "Plain, our units" not in first_column(table)
    table.locator('input[data-group="our units"]').check()
    assert "Plain, our units" in first_column(table)
    table.locator("input[type=search]").fill("pLAin")
    assert first_column(table) == ["Plain", "Plain, our units"]
    table.locator("input[type=search]").fill("")
    table.locator('input[data-group="our units"]').uncheck()


def test_columns_are_chosen(table):
    def heads() -> list[str]:
        return [text.split("\n")[0] for text in shown(table, ".dataset thead th")]

    assert heads() == ["method", "IR ↑", "paper", "INF ↓", "paper"]
    table.get_by_text("Columns", exact=True).click()
    table.locator('input[data-column="c2"]').check()
    table.locator('input[data-column="c1"]').uncheck()
    assert heads() == ["method", "IR ↑", "paper", "SPA ↑"]
    table.locator("input[data-paper]").uncheck()
    assert heads() == ["method", "IR ↑", "SPA ↑"]
    assert shown(table, "tbody small")
    table.locator("input[data-interval]").uncheck()
    assert not shown(table, "tbody small")


def test_a_chart_tells_its_points_and_hides_its_lines(opened):
    chart = opened.locator("#s0-made-up .chart").first
    few = chart.locator("svg[role=img]").nth(1)
    few.hover(position={"x": 60, "y": 60})
    few.focus()
    opened.keyboard.press("ArrowRight")
    assert "steps: 2" in chart.locator(".tip").inner_text()
    opened.keyboard.press("ArrowDown")
    assert chart.locator(".tip").inner_text().startswith("FANS")
    lines = few.locator("path.line")
    assert lines.count() == 2
    entry = chart.locator(".legend button", has_text="FANS")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert lines.count() == 1
    chart.locator(".legend button", has_text="all").click()
    assert lines.count() == 2


def test_files_are_saved(opened):
    chart = opened.locator("#s0-made-up .chart").first
    for kind, words in (("csv", "panel,line,x axis"), ("svg", "<svg")):
        with opened.expect_download() as saved:
            chart.locator(f"button.{kind}").click()
        assert saved.value.suggested_filename == f"grown.{kind}"
        text = Path(saved.value.path()).read_text()
        assert words in text
        assert "var(--" not in text
    with opened.expect_download() as saved:
        opened.locator(".table .csv").first.click()
    assert Path(saved.value.path()).read_text().startswith("method,IR")


def test_it_can_be_read_in_the_dark_and_on_a_narrow_screen(browser, tmp_path):
    path = write(tmp_path / "page.html", page([section()]))
    tab = browser.new_page(viewport={"width": 900, "height": 900}, color_scheme="dark")
    tab.goto(path.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 900
    light = tab.evaluate("getComputedStyle(document.body).color")
    assert min(int(part) for part in light.removeprefix("rgb(").removesuffix(")").split(",")) > 200
