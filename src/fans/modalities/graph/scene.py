"""Explained graphs as the explorer draws them: nodes with places, and the edges that join them."""

from typing import Any

import numpy as np

from fans.explanation import Explanation
from fans.modalities.graph.drawing import Line, drawing
from fans.types import Array


def scene(e: Explanation, i: int) -> dict[str, Any]:
    """Return the nodes with their places, from 0 to 1 along the longer side, y downward, and the edges."""
    found = drawing(e, i)
    places = np.array(list(found.places.values())).reshape(-1, 2)
    low = places.min(0) if len(places) else np.zeros(2)
    span = float(np.ptp(places, 0).max()) if len(places) else 1.0
    spots = (places - low) / (span or 1.0)
    tall = float(spots[:, 1].max(initial=0.0))
    nodes = [
        {
            "id": node,
            "name": found.names.get(node, ""),
            "x": round(float(x), 4),
            "y": round(tall - float(y), 4),
            "explained": node == found.explained,
        }
        for node, (x, y) in zip(found.places, spots, strict=True)
    ]
    edges = [_edge(e, i, line) for line in found.lines]
    return {"kind": "graph", "nodes": nodes, "edges": edges, "hidden": found.n_hidden}


def _edge(e: Explanation, i: int, line: Line) -> dict[str, Any]:
    """Return an edge, by the numbers of the nodes it joins, and whether it runs one way alone."""
    assert e.edges is not None
    joined = {(int(u), int(v)) for u, v in e.edges[i][e.elements[i] == line.feature] if u >= 0}
    u, v = min(joined)
    return {"f": line.feature, "u": u, "v": v, "arrow": (v, u) not in joined, "share": round(line.share, 4)}


def trial(e: Explanation, before: Array, after: Array) -> dict[str, Any]:
    """Return which edges were taken out."""
    elements = e.elements[0, : len(after)]  # the explanation may be one of several, the largest of which is larger
    gone = (before != 0) & (after == 0)
    features = dict.fromkeys(int(f) for f in elements[gone] if f >= 0)
    left = len({int(f) for f in elements[after != 0] if f >= 0})
    return {"kind": "gone", "names": [e.name(0, f) for f in list(features)[:12]], "n": len(features), "left": left}
