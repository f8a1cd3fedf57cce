"""Explained inputs of every modality, small enough to be explained in a test."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import fans

Subject = tuple[fans.Explainer, fans.Explanation, dict[str, Any]]


def model_of_table(x: Any) -> Any:
    """Say yes where the first column and the product of two others are large."""
    p = 1 / (1 + np.exp(-2 * (x[:, 0] + x[:, 1] * x[:, 2] - 0.5)))
    return np.stack([1 - p, p], 1)


def table() -> Subject:
    """Rows of five columns, of which the output has two in a product."""
    rows = np.random.default_rng(0).normal(0, 1.5, (120, 5))
    names = ["alpha", "beta", "gamma", "delta", "epsilon"]
    explainer = fans.Explainer(model_of_table, rows, target_names=["no", "yes"], feature_names=names, effort="low")
    return explainer, explainer(rows[:6]), {}


def image() -> Subject:
    """Grey images of which the upper left corner matters, in patches."""
    pixels = np.random.default_rng(1).random((40, 1, 12, 12)).astype(np.float32)
    pixels[:20, :, :4, :4] += 1.0

    def model(x):
        p = 1 / (1 + np.exp(-4 * (np.asarray(x)[:, 0, :4, :4].mean((1, 2)) - 1.0)))
        return np.stack([1 - p, p], 1)

    space = fans.spaces.Image("patch", patch=4)
    explainer = fans.Explainer(model, pixels, space=space, target_names=["dark", "bright"], effort="low")
    return explainer, explainer(pixels[:4]), {}


def text() -> Subject:
    """Sentences that are good as far as they say so."""
    texts = ["a good film with a really good end", "a bad film, and a long one", "the cast is good, the rest is not"]
    explainer = fans.Explainer(
        lambda some: np.array([min(1.0, s.count("good") / 2) for s in some]), texts, task="regression", effort="low"
    )
    return explainer, explainer(texts), {}


def series() -> Subject:
    """Two channels, of which the middle of the first matters."""
    values = np.random.default_rng(2).normal(0, 1, (40, 2, 60))
    values[:20, 0, 20:30] += 3

    def model(x):
        p = 1 / (1 + np.exp(-2 * (np.asarray(x)[:, 0, 20:30].mean(1) - 1.5)))
        return np.stack([1 - p, p], 1)

    space = fans.spaces.Series(window=10, channel_names=["pulse", "breath"])
    explainer = fans.Explainer(model, values, space=space, target_names=["calm", "raised"], effort="low")
    return explainer, explainer(values[:3]), {}


class Degree(torch.nn.Module):
    """Says of a node how many of its edges there are, compared with two."""

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        """Return the logits of few and many."""
        weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        total = torch.zeros(len(x)).index_add(0, edge_index[1], weight * x[edge_index[0], 0])
        return torch.stack([2 - total, total - 2], 1)


def graph() -> Subject:
    """Two nodes of a ring with chords; what counts is the number of their edges to marked nodes."""
    from types import SimpleNamespace

    pairs = [(k, (k + 1) % 9) for k in range(9)] + [(0, 3), (0, 5), (2, 6)]
    ends = torch.tensor([[u, v] for a, b in pairs for u, v in ((a, b), (b, a))]).T
    x = torch.ones(9, 1)
    x[5] = 0
    space = fans.spaces.GraphEdges(hops=2, node_names=[f"person {k}" if k else "Ada" for k in range(9)])
    data = SimpleNamespace(x=x, edge_index=ends)
    explainer = fans.Explainer(Degree(), data, space=space, target_names=["few", "many"], effort="low")
    return explainer, explainer([0, 2]), {}


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "table": table,
    "image": image,
    "text": text,
    "series": series,
    "graph": graph,
}
