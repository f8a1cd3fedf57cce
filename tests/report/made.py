"""Explanations made up by hand: a table, images, a graph."""

from typing import Any

import networkx
import numpy as np

import fans


def explanation(scores: Any, subset: Any, **changes: Any) -> fans.Explanation:
    """An explanation of rows of a table with these scores and subsets; anything else as given, or as good as any."""
    scores, subset = np.asarray(scores, dtype=float), np.asarray(subset, dtype=bool)
    n, n_features = scores.shape
    names = tuple(f"x{k + 1}" for k in range(n_features))
    given: dict[str, Any] = {
        "scores": scores,
        "scores_se": np.full_like(scores, 0.02),
        "history": None,
        "subset": subset,
        "direction": np.where(np.arange(n_features) % 2, 0.05, -0.31) + np.zeros((n, 1)),
        "stability": subset.astype(float),
        "pns": np.full(n, 0.90),
        "pn": np.full(n, 0.93),
        "ps": np.full(n, 0.97),
        "changes": np.full(n, 0.97),
        "holds": np.full(n, 0.93),
        "interval": np.tile([[0.86, 0.93], [0.9, 0.95], [0.95, 0.99]], (n, 1, 1)),
        "share_interval": np.tile([[0.95, 0.99], [0.9, 0.95]], (n, 1, 1)),
        "ess": np.full((n, 2), 20.0),
        "radius": np.full(n, 0.42),
        "tolerance": np.full(n, 0.1),
        "target": np.arange(n) % 2,
        "prediction": np.full(n, 0.9),
        "ids": tuple(range(n)),
        "feature_names": names,
        "target_names": ("benign", "malignant"),
        "method": "fans",
        "settings": {},
        "seed": 0,
        "seconds": 1.0,
        "evaluations": {},
        "confidence": 0.95,
        "kind": "probability",
        "change": "target",
        "modality": "table",
        "inputs": np.linspace(0, 1, scores.size).reshape(scores.shape),
        "elements": np.arange(n_features),
        "element_names": names,
        "categories": {},
        "notes": ("",) * n,
    }
    return fans.Explanation(**given | changes)


def table(n: int = 4, **changes: Any) -> fans.Explanation:
    """Rows of three features, of which the first two are chosen, the second with the higher score."""
    return explanation(np.tile([0.2, 0.3, 0.01], (n, 1)), np.tile([True, True, False], (n, 1)), **changes)


LABELS = np.array([[[0, 0, 1], [0, 2, 1]], [[0, 1, 1], [0, 1, 1]]])
"""Two images of 2 x 3 pixels: the first has three superpixels, the second two of them."""

SCORES = np.array([[0.3, -0.1, 0.2], [0.5, -1.0, 9.0]])
SUBSET = np.array([[True, False, True], [False, True, False]])


def small_images(n: int = 2, channels: str = "first", **changes: Any) -> fans.Explanation:
    """`n` images (the two above in turn) with the channels where asked."""
    which = np.arange(n) % 2
    plane = np.array([[0.0, 0.1, 0.2], [0.3, 0.4, 1.0]])
    inputs, elements = np.stack([plane] * n), LABELS[which]
    if channels != "none":
        axis = 1 if channels == "first" else 3
        inputs = np.stack([inputs, inputs / 2, inputs / 4], axis)
        elements = np.stack([elements] * 3, axis)
    given: dict[str, Any] = {
        "scores": SCORES[which],
        "subset": SUBSET[which],
        "scores_se": None,
        "feature_names": ("superpixel 1", "superpixel 2", "superpixel 3"),
        "target_names": ("Sneaker", "<Bag>"),
        "modality": "image",
        "inputs": inputs,
        "elements": elements,
        "element_names": (),
    }
    return explanation(**given | changes)


def by_pixel(inputs: Any, scores: Any, subset: Any, **changes: Any) -> fans.Explanation:
    """Images `(n, channels, height, width)` with scores and subsets `(n, height, width)` by pixel."""
    n, channels, height, width = inputs.shape
    names = [f"row {r}, column {c}" for r in range(height) for c in range(width)]
    elements = np.broadcast_to(np.arange(height * width).reshape(height, width), (channels, height, width))
    given: dict[str, Any] = {
        "scores_se": None,
        "feature_names": tuple(names),
        "modality": "image",
        "inputs": np.asarray(inputs),
        "elements": elements,
        "element_names": (),
    }
    return explanation(np.reshape(scores, (n, -1)), np.reshape(subset, (n, -1)), **given | changes)


def graph_of(edges: Any, scores: Any, subset: Any, node: int = -1, **changes: Any) -> fans.Explanation:
    """One graph of edges `(n, 2)` that go both ways; the last feature is the one that no edge belongs to."""
    n = len(edges)
    both = np.concatenate([np.asarray(edges), np.asarray(edges)[:, ::-1]])
    given: dict[str, Any] = {
        "feature_names": tuple(f"edge {k}" for k in range(n + 1)),
        "modality": "graph",
        "inputs": np.ones((1, 2 * n)),
        "elements": np.tile(np.arange(n), 2)[None],
        "element_names": (),
        "edges": both[None],
        "nodes": np.array([node]),
    }
    return explanation([[*scores, 0.0]], [[*subset, False]], **given | changes)


def house(n_nodes: int = 30, seed: int = 0) -> fans.Explanation:
    """A house of five nodes, hung on a random graph of so many; its six edges are chosen and its roof is explained."""
    graph = networkx.barabasi_albert_graph(n_nodes, 2, seed=seed)
    five = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]
    edges = [(n_nodes + u, n_nodes + v) for u, v in five] + [(3, n_nodes + 2)] + list(graph.edges)
    draws = np.random.default_rng(seed)
    scores = np.concatenate([draws.uniform(0.08, 0.2, 6), draws.exponential(0.01, len(edges) - 6)])
    return graph_of(edges, scores, np.arange(len(edges)) < 6, n_nodes + 4, target_names=("roof", "wall"))
