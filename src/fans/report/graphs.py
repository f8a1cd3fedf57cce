"""A graph small enough to look at: the chosen edges, the next best ones, and where to put their nodes."""

from dataclasses import dataclass

import numpy as np

from fans.core import Explanation, extra

MOST_EDGES = 24
"""Edges shown besides the chosen ones: the best of those that touch what is shown already."""

Place = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """An edge: its ends, whether it was chosen, and its score as a share of the largest, from 0 to 1."""

    ends: tuple[Place, Place]
    chosen: bool
    share: float


@dataclass(frozen=True)
class Drawing:
    """Where to put nodes by their numbers, which edges to draw, the explained node, and how many edges are left out."""

    places: dict[int, Place]
    lines: tuple[Line, ...]
    explained: int | None
    n_hidden: int


def drawing(e: Explanation, i: int) -> Drawing:
    """Lay out the part of input `i` that is worth showing."""
    try:
        import networkx
    except ImportError:
        raise extra("networkx", "graph", "a drawn graph") from None
    assert e.edges is not None
    assert e.nodes is not None
    ends = {
        int(f): (int(u), int(v))
        for f, (u, v) in zip(e.elements[i].tolist(), e.edges[i].tolist(), strict=True)
        if u >= 0
    }
    order = [int(f) for f in e.ranked(i) if int(f) in ends]
    explained = int(e.nodes[i]) if e.nodes[i] >= 0 else None
    chosen = [f for f in order if e.subset[i, f]]
    shown = [*chosen, *_around(chosen, [f for f in order if not e.subset[i, f]], ends, explained)]
    graph = networkx.Graph([ends[f] for f in shown])
    if explained is not None:
        graph.add_node(explained)
    laid = networkx.spring_layout(graph, seed=0, iterations=300, k=2 / max(len(graph), 1) ** 0.5)
    places = {int(n): (float(x), float(y)) for n, (x, y) in laid.items()}
    largest = float(np.abs(e.scores[i]).max()) or 1.0
    lines = tuple(
        Line((places[ends[f][0]], places[ends[f][1]]), bool(e.subset[i, f]), max(float(e.scores[i, f]), 0.0) / largest)
        for f in reversed(shown)
    )
    return Drawing(places, lines, explained, len(order) - len(shown))


def _around(chosen: list[int], others: list[int], ends: dict[int, tuple[int, int]], explained: int | None) -> list[int]:
    """Return the best of the others, one after another, that touch chosen edges, the explained node or each other."""
    seen = {node for f in chosen for node in ends[f]} | ({explained} if explained is not None else set())
    out: list[int] = []
    while len(out) < MOST_EDGES:
        following = next((f for f in others if f not in out and seen & set(ends[f])), None)
        if following is None:
            break
        out.append(following)
        seen |= set(ends[following])
    return out
