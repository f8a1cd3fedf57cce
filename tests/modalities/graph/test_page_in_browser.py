"""The drawing of a graph on a page: its nodes are moved by the pointer and by the keyboard, and put back."""

from dataclasses import replace

import pytest

from fans.modalities.graph.drawing import drawing
from fans.modalities.graph.page import drawn
from tests.report.made import graph_of, house
from tests.report.subjects import parsed

HOSTILE = "</script><script>document.title = 'run'</script>' onfocus='document.title=1"


@pytest.fixture
def tab(browser, tmp_path):
    e = house(20)
    e = replace(e, node_names=(*(f"n{k}" for k in range(24)), HOSTILE))
    page = browser.new_page(viewport={"width": 1000, "height": 1000})
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda asked: problems.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None
    )
    page.goto(e.to_html(tmp_path / "graph.html").as_uri())
    yield page
    assert problems == []
    assert page.title() == "fans: necessary and sufficient features"
    page.close()


def place(tab, node):
    """Where a node is drawn, by its circle's place and what moved it."""
    return tab.evaluate(
        """node => {
            const circle = document.querySelector(`circle[data-node='${node}']`);
            const moved = circle.transform.baseVal.consolidate()?.matrix ?? { e: 0, f: 0 };
            return [Number(circle.getAttribute("cx")) + moved.e, Number(circle.getAttribute("cy")) + moved.f];
        }""",
        node,
    )


def ends(tab, node):
    """Where the edges of a node end at it."""
    return tab.evaluate(
        """node => [...document.querySelectorAll("line")].flatMap(line => {
            const [u, v] = line.dataset.ends.split(" ");
            return (u === node ? [["x1", "y1"]] : []).concat(v === node ? [["x2", "y2"]] : [])
                .map(([x, y]) => [Number(line.getAttribute(x)), Number(line.getAttribute(y))]);
        })""",
        str(node),
    )


def drag(tab, node, dx, dy):
    box = tab.locator(f"circle[data-node='{node}']").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + dx, y + dy, steps=4)
    tab.mouse.up()


def test_a_node_is_dragged_with_its_edges_and_name_and_put_back(tab):
    before, others = place(tab, 24), [place(tab, node) for node in range(24)]
    assert len(ends(tab, 24)) == 2
    button = tab.get_by_role("button", name="Put all back")
    assert not button.is_visible()
    drag(tab, 24, 60, 40)
    after = place(tab, 24)
    assert after == pytest.approx([before[0] + 60, before[1] + 40], abs=0.6)
    assert all(end == pytest.approx(after) for end in ends(tab, 24))
    text = tab.locator("text[data-node='24']")
    assert text.get_attribute("transform") == tab.locator("circle[data-node='24']").get_attribute("transform")
    assert [place(tab, node) for node in range(24)] == others
    drag(tab, 24, 3000, -3000)  # it stays within the drawing
    box = tab.locator("figure.graph svg").bounding_box()
    assert place(tab, 24) == pytest.approx([box["width"] - 13, 13], abs=0.6)
    button.click()
    assert place(tab, 24) == before
    assert all(end == pytest.approx(before) for end in ends(tab, 24))
    assert not button.is_visible()


def test_nodes_are_chosen_and_moved_by_the_keyboard(tab):
    assert tab.locator("circle[tabindex='0']").count() == 1  # one stop on the way through the page
    explained = tab.locator("circle.explained")
    explained.focus()
    before = place(tab, 24)
    tab.keyboard.press("Shift+ArrowRight")
    tab.keyboard.press("Shift+ArrowDown")
    assert place(tab, 24) == pytest.approx([before[0] + 10, before[1] + 10])
    tab.keyboard.press("ArrowDown")
    label = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label.startswith(("node n20: ", "node n21: "))
    assert place(tab, label.split(":")[0].removeprefix("node n"))[1] > before[1]
    assert tab.locator("circle[tabindex='0']").get_attribute("aria-label") == label
    tab.keyboard.press("Escape")
    assert place(tab, 24) == before


def test_it_says_how_and_fits_a_narrow_screen(tab):
    assert "drag nodes, or move them with Shift and the arrow keys" in tab.locator("figcaption").inner_text()
    tab.set_viewport_size({"width": 400, "height": 800})
    assert tab.locator("figure.graph svg").bounding_box()["width"] <= 400
    drag(tab, 24, 20, 0)
    assert place(tab, 24)[0] > 0


def test_nodes_tell_their_edges():
    e = graph_of([(0, 1), (1, 2)], [0.5, 0.1], [True, False], node=1)
    found = drawing(e, 0)
    assert sorted(sorted(line.nodes) for line in found.lines) == [[0, 1], [1, 2]]
    page = parsed(drawn(e, 0))
    assert "node 1, explained: 2 edges, 1 in the subset" in drawn(e, 0)
    assert "node 2: 1 edge, 0 in the subset" in drawn(e, 0)
    assert "1 of 2 edges" in page.text


def test_a_notebook_has_no_script_and_a_page_has_it_once(tmp_path):
    assert "<script" not in house(20)._repr_html_()
    page = house(20).to_html(tmp_path / "graph.html").read_text()
    assert page.count("<script>") == 1
    parsed(page)
