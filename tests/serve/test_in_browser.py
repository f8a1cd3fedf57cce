"""The explorer in a browser: every flow, all modalities, the saved file, the keyboard. Figures are held to `score`."""

import re
import time
from typing import Any

import numpy as np
import pytest

import fans
from fans.report.sentences import percent
from fans.serve import InMemory, serve
from tests.report.made import table as made_table
from tests.serve.subjects import SUBJECTS

EVIL = ('<script>alert("a")</script>', '"><img src=x onerror=alert(1)>', "a*b*c & <b>d</b>")

pytestmark = pytest.mark.long("uses the page as a reader would, in a browser")


@pytest.fixture(scope="module")
def subjects():
    return {name: make() for name, make in SUBJECTS.items()}


@pytest.fixture(scope="module", params=list(SUBJECTS))
def served(request, subjects):
    explainer, explanation, extra = subjects[request.param]
    with serve(InMemory(explanation, explainer, **extra), port=0, wait=False) as server:
        yield server, explainer, explanation


@pytest.fixture
def page(browser):
    """A tab in which nothing may go wrong, and which asks nobody but its own server."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    tab.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("dialog", lambda shown: problems.append(f"a dialog: {shown.message}"))
    local = ("http://localhost:", "file:", "data:", "blob:")
    tab.on("request", lambda asked: None if asked.url.startswith(local) else problems.append(asked.url))
    tab.problems = problems
    yield tab
    tab.close()
    assert not problems


def opened(tab: Any, server: Any, address: str = "") -> None:
    tab.goto(server.url + address)
    tab.wait_for_selector("main:not([aria-busy]) h1")


def open_input(tab: Any, server: Any, i: int = 0, query: str = "") -> None:
    opened(tab, server, f"#/input/{i}{query}")
    tab.wait_for_selector("svg.curve")


def until(tab: Any, script: str, *given: Any) -> None:
    """Wait until a script says yes; the page's own policy forbids what `wait_for_function` does."""
    end = time.monotonic() + 20
    while not tab.evaluate(script, *given):
        assert time.monotonic() < end, script
        tab.wait_for_timeout(20)


def figures(tab: Any) -> dict[str, str]:
    return {name: tab.locator(f".figure.{name} .value").inner_text() for name in ("keep", "change", "both")}


def expected(keep: float, change: float, both: float) -> dict[str, str]:
    return {"keep": percent(keep), "change": percent(change), "both": percent(both)}


def own(e: fans.Explanation, i: int) -> dict[str, str]:
    return expected(e.holds[i], e.changes[i], e.pns[i])


def chosen(tab: Any) -> set[int]:
    rows = tab.locator("[role=option][aria-selected=true]").all()
    return {int(row.get_attribute("data-f")) for row in rows}


def scored(explainer: fans.Explainer, e: fans.Explanation, i: int, subset: set[int]) -> dict[str, str]:
    mask = np.isin(np.arange(e.scores.shape[1]), list(subset))
    found = explainer.score(explainer.inputs_of(e[i]), mask, target=e.target[i : i + 1], ids=e.ids[i : i + 1])
    return expected(found.holds[0], found.changes[0], found.pns[0])


def settled(tab: Any) -> None:
    tab.wait_for_selector(".figures[aria-busy=false]")


def along(explainer: fans.Explainer, e: fans.Explanation, i: int, k: int, t: int) -> dict[str, str]:
    curve = explainer.curve(e[i])
    found = expected(*(float(np.round(getattr(curve, name)[0, k, t], 4)) for name in ("holds", "changes", "pns")))
    return found if curve.sizes[0, k] else found | {"change": "-", "both": "-"}  # nothing is changed alone


def slide(tab: Any, name: str, value: int) -> None:
    tab.locator(f"#{name}").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); "
        "slider.dispatchEvent(new Event('change')); }",
        value,
    )


def test_an_input_is_shown_clicked_and_slid(page, served):
    server, explainer, e = served
    open_input(page, server)
    assert page.locator("h1").inner_text().startswith(e.title(0))
    assert page.locator(".finding").inner_text() in e.sentences[0].replace("*", "")
    assert figures(page) == own(e, 0)
    if e.presenter.lists_features:
        assert page.locator("[role=option]").first.is_visible()
    else:
        page.locator("summary").click()
    assert chosen(page) == set(np.flatnonzero(e.subset[0]))

    curve = explainer.curve(e[0])
    outside = [int(f) for f in curve.order[0] if not e.subset[0, f]][-1]
    page.locator(f"[role=option][data-f='{outside}']").click()  # the last of the order: no subset of the curve
    until(page, "document.querySelector('.about').textContent.startsWith('Your own subset')")
    subset = {*np.flatnonzero(e.subset[0]).tolist(), outside}
    assert chosen(page) == subset
    assert figures(page) == scored(explainer, e, 0, subset)
    assert f"subset={'.'.join(map(str, sorted(subset)))}" in page.url
    assert page.locator("svg.curve .own").count() == 1

    page.get_by_text("Back to the explanation's own").click()
    assert figures(page) == own(e, 0)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    t = int(curve.used[0])
    for k, tolerance in ((0, t), (len(curve.sizes[0]) - 2, t), (int(curve.chosen[0]), 0), (1, 12)):
        slide(page, "size", k)
        if curve.tolerances.shape[1] > 1:
            slide(page, "tolerance", tolerance)
        assert figures(page) == along(explainer, e, 0, k, tolerance)
        assert chosen(page) == set(curve.order[0, : curve.sizes[0, k]].tolist()) & set(e.ranked(0).tolist())
    assert not [url for url in asked if "/api/score" in url or "/api/curve" in url]
    page.go_back()
    page.wait_for_selector("svg.curve")


def test_the_picture_is_clicked(page, served):
    server, explainer, e = served
    open_input(page, server)
    before = set(np.flatnonzero(e.subset[0]).tolist())
    if e.modality == "table":
        assert page.locator(".scene").count() == 0
        return
    if e.modality == "image":
        box = page.locator("canvas").bounding_box()
        page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9)  # the last patch
        feature = 8
        page.locator("summary").click()
    else:
        kind = {"graph": "line.hit", "text": ".word", "series": ".window"}[e.modality]
        feature = next(f for f in e.ranked(0).tolist()[::-1] if f not in before)
        page.locator(f"{kind}[data-f='{feature}']").first.dispatch_event("click")
    page.wait_for_selector(f"[role=option][data-f='{feature}'][aria-selected=true]", state="attached")
    settled(page)
    assert chosen(page) == before | {feature}
    if page.locator(".about").inner_text().startswith("Your own subset"):
        assert figures(page) == scored(explainer, e, 0, before | {feature})


def test_trials_and_other_methods_are_shown(page, served):
    server, explainer, e = served
    open_input(page, server)
    page.get_by_role("tab", name="Trials").click()
    page.wait_for_selector(".trial")
    found = explainer.trials(explainer.inputs_of(e[0]), e.subset[0], target=e.target[:1], ids=e.ids[:1])
    for side, heading in (("changed", "Change: only"), ("kept", "Keep: everything")):
        section = page.locator(".side", has_text=heading)
        for moved, kind in ((True, "moved"), (False, "stayed")):
            n = int((found.moved[side][0] == moved).sum())
            cards = section.locator(f".trials.{kind} .trial")
            more = sum(int(text.split()[0]) - 1 for text in cards.locator("> .faint").all_inner_texts())
            assert cards.count() + more == n
    page.get_by_role("tab", name="Methods side by side").click()
    until(page, "document.querySelectorAll('.methods tbody tr td.faint').length === 0")
    rows = page.locator(".methods tbody tr")
    assert rows.count() >= 3
    assert rows.locator(".error").count() == 0
    name = rows.nth(1).get_attribute("data-method")
    other = explainer.with_method(name)(explainer.inputs_of(e[0]), target=e.target[:1], ids=e.ids[:1])
    assert percent(other.pns[0]) in rows.nth(1).inner_text()
    rows.nth(1).get_by_role("button", name="Show").click()
    settled(page)
    assert page.url.endswith("tab=methods") or "subset=" in page.url or "k=" in page.url
    page.get_by_role("tab", name="Details").click()
    assert "confidence" in page.locator(".panel").inner_text()


def test_the_saved_file_works_from_disk(page, served, tmp_path):
    server, explainer, e = served
    open_input(page, server)
    with page.expect_download() as saved:
        page.get_by_text("Save as one HTML file").click()
    path = tmp_path / "saved.html"
    saved.value.save_as(path)
    assert path.stat().st_size < 2_000_000
    asked: list[str] = []
    page.goto("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("svg.curve")
    assert figures(page) == own(e, 0)
    assert page.locator(".finding").inner_text() in e.sentences[0].replace("*", "")
    k = len(explainer.curve(e[0]).sizes[0]) - 2
    slide(page, "size", k)
    assert figures(page) == along(explainer, e, 0, k, int(explainer.curve(e[0]).used[0]))
    assert "no model to ask" in page.locator(".why").inner_text()
    page.get_by_role("tab", name="Details").click()
    assert "confidence" in page.locator(".panel").inner_text()
    page.get_by_role("button", name="Change to dark colours").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def test_a_subset_of_ones_own_is_saved_with_its_figures(page, subjects, tmp_path):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server, 1, "?subset=0.4")
        settled(page)
        until(page, "document.querySelector('.about').textContent.startsWith('Your own subset')")
        assert chosen(page) == {0, 4}
        assert figures(page) == scored(explainer, e, 1, {0, 4})
        with page.expect_download() as saved:
            page.get_by_text("Save as one HTML file").click()
        saved.value.save_as(tmp_path / "own.html")
    page.goto((tmp_path / "own.html").as_uri())
    page.wait_for_selector("svg.curve")
    assert chosen(page) == {0, 4}
    assert figures(page) == scored(explainer, e, 1, {0, 4})


def test_a_subset_saved_at_another_tolerance_has_that_ones_figures(page, subjects, tmp_path):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server, 1, "?subset=0.4&t=12")
        until(page, "document.querySelector('.about').textContent.startsWith('Your own subset')")
        page.wait_for_timeout(300)
        settled(page)
        shown = figures(page)
        tolerance = float(explainer.curve(e[1]).tolerances[0, 12])
        found = server._explorer._asked(tolerance).score(
            explainer.inputs_of(e[1]), np.isin(np.arange(5), [0, 4]), target=e.target[1:2], ids=e.ids[1:2]
        )
        assert shown == expected(found.holds[0], found.changes[0], found.pns[0])
        with page.expect_download() as saved:
            page.get_by_text("Save as one HTML file").click()
        saved.value.save_as(tmp_path / "own.html")
    page.goto((tmp_path / "own.html").as_uri())
    page.wait_for_selector("svg.curve")
    until(page, "document.querySelector('.about').textContent.startsWith('Your own subset')")
    assert figures(page) == shown
    slide(page, "tolerance", 3)  # which was not saved
    until(page, "document.querySelector('.note').textContent.includes('no model to ask')")


def test_everything_can_be_done_with_the_keyboard(page, subjects):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server, 2)
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('role')") == "option":
                break
        order = e.ranked(2).tolist()
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        assert page.evaluate("Number(document.activeElement.dataset.f)") == order[-2]
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Space")
        subset = set(np.flatnonzero(e.subset[2]).tolist()) ^ {order[-2]}
        until(page, "document.querySelector('.about').textContent.startsWith('Your own subset')")
        assert chosen(page) == subset
        assert figures(page) == scored(explainer, e, 2, subset)
        assert page.locator("[role=status][aria-live=polite]").inner_text() != ""
        page.locator("#size").focus()
        page.keyboard.press("Home")
        assert chosen(page) == set()
        assert figures(page)["both"] == "-"
        page.get_by_role("tab", name="Trials").focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", name="Methods side by side").get_attribute("aria-selected") == "true"
        page.locator("h1").click()
        page.keyboard.press("]")
        until(page, "document.querySelector('h1').textContent.startsWith('row 3')")
        page.keyboard.press("[")
        until(page, "document.querySelector('h1').textContent.startsWith('row 2')")


@pytest.mark.parametrize("name", ["image", "graph", "text", "series"])
def test_arrow_keys_walk_over_a_picture(page, subjects, name):
    explainer, e, _ = subjects[name]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server)
        page.locator(".scene").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        first = page.locator(".hint").inner_text()
        assert re.search(r": (in|out)$", first)
        page.keyboard.press("Space")
        settled(page)
        changed = chosen(page) ^ set(np.flatnonzero(e.subset[0]).tolist())
        assert [e.name(0, f) for f in changed] == [first.rpartition(":")[0]]


def test_nodes_are_dragged(page, subjects):
    explainer, e, _ = subjects["graph"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server)
        node = page.locator("g.node circle").first
        box = node.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + 60, box["y"] + 40, steps=4)
        page.mouse.up()
        moved = node.bounding_box()
        assert abs(moved["x"] - box["x"]) > 25
        assert chosen(page) == set(np.flatnonzero(e.subset[0]).tolist())
        assert "Ada" in page.locator("svg.graph").text_content()


def test_the_gallery_is_filtered_and_the_address_says_so(page, subjects):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer, title="Made-up rows"), port=0, wait=False) as server:
        opened(page, server)
        assert page.locator(".card").count() == len(e)
        assert page.title() == "Inputs - Made-up rows"
        page.locator("select[name=sort]").select_option("pns")
        until(page, "location.hash.includes('sort=pns')")
        page.locator("input[name=down]").check()
        best = e.title(int(np.argmax(e.pns)))
        until(page, "name => document.querySelector('.card h2')?.textContent === name", best)
        page.go_back()
        worst = e.title(int(np.argmin(e.pns)))
        until(page, "name => document.querySelector('.card h2')?.textContent === name", worst)
        page.locator("select[name=feature]").select_option("1")
        until(page, f"document.querySelectorAll('.card').length === {int(e.subset[:, 1].sum())}")
        page.reload()
        page.wait_for_selector(".card")
        assert page.locator(".card").count() == e.subset[:, 1].sum()
        page.locator(".card a").first.click()
        page.wait_for_selector("svg.curve")
        page.go_back()
        page.wait_for_selector(".card")
        assert page.locator("select[name=feature]").input_value() == "1"
        page.locator("input[name=words]").fill("no such row")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=No input is like that.")


def test_the_global_view_leads_into_the_gallery(page, subjects):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        opened(page, server, "#/all")
        rows = page.locator(".often tbody tr")
        counts = {row.locator("th").inner_text(): int(row.locator("td").last.inner_text()) for row in rows.all()}
        assert counts == dict(zip(e.feature_names, e.subset.sum(0).tolist(), strict=True))
        page.locator("input[type=search]").fill("GAM")
        assert [row.locator("th").inner_text() for row in rows.all() if row.is_visible()] == ["gamma"]
        page.get_by_role("link", name="gamma").click()
        page.wait_for_selector(".card")
        assert page.locator(".card").count() == e.subset[:, 2].sum()
        page.go_back()
        page.wait_for_selector(".bars")
        bins = page.locator(".bars").last.locator("a")
        sizes = e.subset.sum(1)
        at = int(np.bincount(sizes).argmax())
        bins.nth(at).dispatch_event("click")
        page.wait_for_selector(".card")
        assert page.locator(".card").count() == (sizes == at).sum()


def test_states_go_back_and_forward(page, browser, subjects):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server, 1)
        slide(page, "size", 0)
        assert chosen(page) == set()
        slide(page, "size", 4)
        assert len(chosen(page)) == 4
        page.go_back()
        until(page, "document.querySelectorAll('[role=option][aria-selected=true]').length === 0")
        page.wait_for_selector("svg.curve")
        page.go_forward()
        until(page, "document.querySelectorAll('[role=option][aria-selected=true]').length === 4")
        address = page.url
        other = browser.new_page()
        other.goto(address)
        other.wait_for_selector("svg.curve")
        until(other, "document.querySelectorAll('[role=option][aria-selected=true]').length === 4")
        assert figures(other) == figures(page)
        other.close()


def test_a_tolerance_of_ones_own_subset_is_asked(page, subjects):
    explainer, e, _ = subjects["table"]
    with serve(InMemory(e, explainer), port=0, wait=False) as server:
        open_input(page, server, 1, "?subset=0.4")
        until(page, "document.querySelector('.about').textContent.startsWith('Your own subset')")
        settled(page)
        before = page.locator(".figure.keep p").inner_text()
        slide(page, "tolerance", 12)
        until(page, "text => document.querySelector('.figure.keep p').textContent !== text", before)
        settled(page)
        assert chosen(page) == {0, 4}
        tolerance = float(explainer.curve(e[1]).tolerances[0, 12])
        found = server._explorer._asked(tolerance).score(
            explainer.inputs_of(e[1]), np.isin(np.arange(5), [0, 4]), target=e.target[1:2], ids=e.ids[1:2]
        )
        assert found.tolerance[0] == tolerance
        assert figures(page) == expected(found.holds[0], found.changes[0], found.pns[0])


def test_without_a_model_the_page_says_why(page, subjects):
    _, e, _ = subjects["table"]
    with serve(InMemory(e), port=0, wait=False) as server:
        opened(page, server, "#/input/0")
        assert "no model to ask" in page.locator(".why").inner_text()
        before = chosen(page)
        page.locator("[role=option]").last.click()
        assert chosen(page) == before
        assert "No curve" in page.locator(".curve-place").inner_text()


@pytest.mark.parametrize("name", ["made", "text"])
def test_hostile_labels_are_words(page, name, tmp_path):
    if name == "made":
        e = made_table(3, feature_names=EVIL, element_names=EVIL, ids=EVIL, target_names=(EVIL[0], EVIL[1]))
        source = InMemory(e, title=EVIL[1])
    else:
        texts = [f"good {EVIL[0]} film", f"{EVIL[1]} good", "a film"]
        explainer = fans.Explainer(lambda some: np.array([float("good" in s) for s in some]), texts, effort="low")
        source = InMemory(explainer(texts), explainer, title=EVIL[0])
    with serve(source, port=0, wait=False) as server:
        for address in ("", "#/all", "#/input/0", "#/input/1?tab=trials"):
            opened(page, server, address)
            page.wait_for_timeout(200)
            assert page.locator("img[src=x]").count() == 0
            assert page.locator("script:not([src])").count() == 0
        if name == "made":
            assert EVIL[1] in page.locator("h1").inner_text()
            assert EVIL[0] in page.locator(".features").inner_text()
        page.goto(f"{server.url}#/input/0?subset=<script>&k=zz&t=-1&tab=%3Cimg%3E")
        page.wait_for_selector("main:not([aria-busy]) h1")
        with page.expect_download() as saved:
            page.get_by_text("Save as one HTML file").click()
        saved.value.save_as(tmp_path / "saved.html")
        page.goto((tmp_path / "saved.html").as_uri())
        page.wait_for_selector("h1")
        assert page.locator("img[src=x]").count() == 0


def test_addresses_that_lead_nowhere_are_told(page, subjects):
    _, e, _ = subjects["table"]
    with serve(InMemory(e), port=0, wait=False) as server:
        page.goto(f"{server.url}#/input/99")
        page.wait_for_selector("[role=alert]")
        assert "from 0 to 5" in page.locator("[role=alert]").inner_text()
        page.get_by_text("To all inputs").click()
        page.wait_for_selector(".card")
        page.problems.clear()  # the browser itself notes the refusal


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_is_readable_on_any_screen(browser, subjects, scheme, width):
    for name in SUBJECTS:
        explainer, e, extra = subjects[name]
        with serve(InMemory(e, explainer, **extra), port=0, wait=False) as server:
            tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            for address in ("", "#/all", "#/input/0?tab=trials", "#/input/0?tab=methods"):
                opened(tab, server, address)
                tab.wait_for_timeout(150)
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, (name, address)
            ink, paper = (
                [int(part) for part in tab.evaluate(f"getComputedStyle(document.body).{which}")[4:-1].split(",")]
                for which in ("color", "backgroundColor")
            )
            assert (sum(ink) > sum(paper)) == (scheme == "dark")
            tab.close()
