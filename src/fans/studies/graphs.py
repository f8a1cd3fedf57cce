"""What a cell of a graph experiment computes: explain a shard of nodes, then judge the scores of their edges."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial

import numpy as np
import torch
from torch import Tensor

from fans.datasets.graphs import Graph, load_graph
from fans.explainer import Explainer
from fans.metrics import metric
from fans.modalities.graph.space import GraphEdges
from fans.runs import Cell, Result
from fans.studies.base import Plain
from fans.studies.cells import checkpoint, identify, import_others, judged, kept, price_of_call, result, training
from fans.types import Array

__all__ = ["check_data", "do", "explainer", "identify", "nodes_in_order", "price", "subject", "training"]


def nodes_in_order(graph: Graph) -> list[int]:
    """Return the nodes that may be explained; a shard is a slice of them, and later ones are for choices.

    Where houses make the classes, the corners that the literature explains come first (400, 405, ..., 695), then the
    other nodes of houses of their community, and those of the second community, corners first. Elsewhere, the test
    nodes with edges in an order drawn once.
    """
    if graph.motif is not None:
        houses = np.flatnonzero(graph.motif >= 0)
        half = houses < len(graph) // 2
        first, second = houses[half].tolist(), houses[~half].tolist()
        corners = [node for node in first if 400 <= node < 700 and node % 5 == 0]
        others = [node for node in first if node not in set(corners)]
        return [*corners, *others, *sorted(second, key=lambda node: (node % 5, node))]
    linked = np.zeros(len(graph), dtype=bool)
    linked[graph.edge_index[1]] = True
    able = np.flatnonzero(graph.test_mask & linked)
    return [int(node) for node in np.random.default_rng(0).permutation(able)]


def apart(graph: Graph) -> Graph:
    """Return the graph with no node to learn from that the table explains or that settings are chosen on.

    Test nodes are none anyway; among houses, the corners of those from node 400 on are left out.
    """
    if graph.motif is None:
        return graph
    explained = (graph.motif >= 0) & (np.arange(len(graph)) >= 400) & (np.arange(len(graph)) % 5 == 0)
    return replace(graph, train_mask=graph.train_mask & ~explained)


class Subject:
    """A graph, its model, and the nodes that are explained."""

    def __init__(self, dataset: str, model: str) -> None:
        self.graph, self.model = apart(load_graph(dataset)), checkpoint(model)
        self.nodes = nodes_in_order(self.graph)
        with torch.no_grad():
            self.predicted: Tensor = self.model(*self.graph.tensors()).argmax(1)
        self.explainers: dict[str, Explainer] = {}
        self._n_features: dict[tuple[int, int], list[int]] = {}

    @cached_property
    def plain(self) -> Explainer:
        """An explainer that tells how many edges a node has in reach: each is a feature."""
        return Explainer(self.model, self.graph, space=GraphEdges())

    def truth(self, nodes: Sequence[int]) -> Array | None:
        """Return the edges of each node's own house `(B, edges)`, where there are houses."""
        graph = self.graph
        if graph.truth is None or graph.motif is None:
            return None
        house = graph.motif[graph.edge_index]  # (2, edges)
        return np.stack([graph.truth & (house == graph.motif[node]).all(0) for node in nodes])

    def n_features(self, start: int, stop: int) -> list[int]:
        """Return how many edges each node of a shard has in reach; looked up once for all rows."""
        if (start, stop) not in self._n_features:
            found = np.zeros(stop - start, dtype=int)
            for task, rows, at in self.plain.task.split(self.nodes[start:stop]):
                found[at] = task.space.units(rows).present.sum(1).numpy()
            self._n_features[start, stop] = found.tolist()
        return self._n_features[start, stop]


@lru_cache(maxsize=1)
def subject(dataset: str, model: str) -> Subject:
    """Return the subject of a dataset; the last one is kept."""
    return Subject(dataset, model)


def check_data(dataset: str) -> None:
    """Raise unless the files of a dataset are here; nothing is downloaded."""
    load_graph(dataset)


def explainer(spec: Plain) -> Explainer:
    """Return the explainer that a cell asks for."""
    given, space = subject(spec["dataset"], spec["model"]), GraphEdges(**(spec["call"]["space"] or {}))
    return kept(given.explainers, spec, partial(Explainer, given.model, given.graph, space=space))


def do(cell: Cell) -> Result:
    """Explain the shard's nodes with the predicted class as target, and judge the scores by every column."""
    spec, (start, stop) = cell.spec, cell.spec["shard"]
    import_others(spec)
    given, made = subject(spec["dataset"], spec["model"]), explainer(spec)
    nodes = given.nodes[start:stop]
    trained, before = made.prepare(), made.task.predict.n_rows
    attribution = made.attribute(nodes, given.predicted[nodes].tolist())
    n_explaining = made.task.predict.n_rows - before
    found = judged(spec, attribution, explainer=made, truth=given.truth(nodes))
    n_judging = sum(found.rows.values()) + found.shared_rows
    return result(found, attribution.seconds, n_explaining, trained, n_explaining + n_judging)


def price(spec: Plain, *, first: bool = True) -> int:  # noqa: ARG001 - nothing is shared by the cells of a shard
    """Return about how many model rows a cell takes."""
    start, stop = spec["shard"]
    given = subject(spec["dataset"], spec["model"])
    total = 0
    for i, n_features in enumerate(given.n_features(start, stop)):
        total += price_of_call(spec["call"], n_features) + 1
        for column in spec["columns"]:
            if column["limit"] is None or start + i < column["limit"]:
                total += max(0, metric(column["metric"], **column["settings"]).cost((n_features,)) - 1)
    return int(total)
