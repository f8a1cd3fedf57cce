"""Graphs are drawn: whole where they are small, what matters where they are large."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fans.modalities.graph import drawing as graphs
from tests.report.made import graph_of, house
from tests.report.subjects import parsed

# Graphs.


def near(place: Any, start: Any, end: Any) -> float:
    """How far a place is from a line."""
    place, start, along = np.array(place), np.array(start), np.subtract(end, start)
    share = np.clip((place - start) @ along / (along @ along), 0, 1)
    return float(np.hypot(*(place - start - share * along)))


def test_a_small_graph_is_drawn_whole_with_no_node_on_an_edge_of_others():
    e = house(20)
    found = graphs.drawing(e, 0)
    assert found.n_hidden == 0
    assert len(found.lines) == e.present.sum() == 43
    assert found.explained == 24
    assert found.named == {20, 21, 22, 23, 24}
    assert sum(line.chosen for line in found.lines) == 6
    across = np.ptp(np.array(list(found.places.values())), 0).max()
    apart = [
        near(place, *line.ends) for place in found.places.values() for line in found.lines if place not in line.ends
    ]
    assert np.quantile(apart, 0.01) > 0.01 * across
    assert min(apart) > 0.004 * across
    again = graphs.drawing(e, 0)
    assert again.places == found.places


def test_a_large_graph_shows_what_was_chosen_its_node_and_the_best_others():
    hub = [(0, k) for k in range(1, 31)]
    chain = [(k, k + 1) for k in range(100, 250)]
    edges = [*hub, (30, 100), *chain]
    scores = np.linspace(1, 0, len(edges))
    subset = np.arange(len(edges)) == len(edges) - 1
    e = graph_of(edges, scores, subset, node=0)
    found = graphs.drawing(e, 0)
    assert len(found.lines) == graphs.MOST_EDGES
    assert found.n_hidden == len(edges) - graphs.MOST_EDGES
    assert set(range(31)) | {249, 250} <= set(found.places)
    assert f"{found.n_hidden} edges are not shown" in e._repr_html_()


def test_a_drawing_of_few_edges_or_none(tmp_path):
    for e in (
        graph_of([(0, 1)], [0.5], [True]),
        graph_of([(0, 0), (0, 1)], [0.5, 0.0], [False, False], node=3),
        graph_of([(-1, -1)], [0.0], [False]),
        graph_of([(0, 1), (2, 3)], [0.5, math.nan], [True, False]),
    ):
        e.plot(tmp_path / "e.png")
        assert (tmp_path / "e.png").stat().st_size > 1000
        parsed(e._repr_html_())


def test_of_a_crowd_only_nodes_of_note_have_long_names():
    hub = [(0, k) for k in range(1, 41)]
    scores, subset = np.where(np.arange(40) < 2, 1.0, 0.001), np.arange(40) == 0
    crowd = replace(graph_of(hub, scores, subset, node=0), node_names=tuple(f"a long name {k}" for k in range(41)))
    assert graphs.drawing(crowd, 0).names == {k: f"a long name {k}" for k in (0, 1, 2)}
    short = replace(crowd, node_names=tuple(f"n{k}" for k in range(41)))
    assert len(graphs.drawing(short, 0).names) == 41
    words = [text.get_text() for text in crowd.plot().axes[0].texts]
    assert {"a long name 0", "a long name 1", "a long name 2"} < set(words)
    assert "a long name 3" not in words


def test_the_picture_of_a_graph_has_a_legend(tmp_path):
    figure = house(20).plot(tmp_path / "graph.png")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["in the subset", "not in it (wider: higher score)", "explained node"]
    page = house(20).to_html(tmp_path / "graph.html").read_text()
    assert page.count("<line ") == 43
    assert page.count("<circle ") == 25
