"""Graphs: a feature is an edge that the explained prediction is computed from, and a missing feature is no edge.

An input is a node of the graph (or a graph among several). It is cut out of its graph first: the edges that reach its
prediction within the model's depth, and as much of their surroundings as keeps every degree what it was, so that the
model says of this computation graph what it says of the whole. Inputs of about one size go to the model together, many
perturbed copies of many of them in one disjoint union.

A row has one number per directed edge of an input: 1 is the edge as it is, 0 none. Which input it is a copy of, the
row does not tell: whoever asks about rows says so (`of`). The inputs themselves are in the `GraphBatch` of the space
that `split` returns.
"""

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, ModelError, check_whole, choose, warn
from fans.explanation import Attribution
from fans.modalities.base import Baseline, Caller, Distance, FeatureSpace, FittedSpace, OfSample, Units
from fans.modalities.graph.computation import ComputationGraph, EdgeArguments, Graph, cut, graphs_in, whole
from fans.modalities.graph.union import (
    WIDE,
    Joined,
    Union,
    copies,
    join,
    join_unions,
    linked,
    run,
    side_by_side,
    takes_data,
)
from fans.types import Array

Level = Literal["node", "graph"]

_CALIBRATING = 16
"""Inputs that the model is tried on before anything is explained."""

_SMALLEST = 16
_MESSAGE = 64
"""Numbers of a message that a row's cost reckons with: what layers pass is not known beforehand."""

_BATCH_BYTES = 28 * 2**20
"""What a layer's messages may take: several times as much is alive at once, and glibc gives blocks of more than 32 MiB
back after every batch, which takes its time."""


class _GraphSpace(FeatureSpace):
    """What the spaces of graphs have in common."""

    def __init__(
        self, hops: int | None = None, *, level: Level | None = None, node_names: Sequence[str] | None = None
    ) -> None:
        if hops is not None:
            check_whole("hops", hops, 1)
        if level is not None:
            choose("`level`", level, ("node", "graph"))
        self.hops, self.level, self.node_names = hops, level, node_names


class GraphEdges(_GraphSpace):
    """Edges of the graph that a prediction is computed from; what is missing is removed.

    Args:
        hops: how far from a node its prediction looks; by default as far as the model has message-passing layers,
            which is checked against the model's answer on the whole graph.
        tied: whether the two directions of an edge are one feature.
        level: `"node"` for one graph whose nodes are explained, `"graph"` for several that are explained as wholes;
            guessed from the background.
        node_names: of the one graph's nodes in order, for sentences, frames and drawings.
    """

    baselines = ("removed",)

    def __init__(
        self,
        hops: int | None = None,
        *,
        tied: bool = True,
        level: Level | None = None,
        node_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(hops, level=level, node_names=node_names)
        self.tied = tied

    def fit(self, background: Any) -> "FittedEdges":
        """Take the graph whose nodes are explained, or graphs like those that are."""
        return FittedEdges(self, background, tied=self.tied)


class GraphFeatures(_GraphSpace):
    """Columns of `x`, in all nodes that a prediction is computed from; a missing one is 0 in all of them.

    Args:
        hops, level, node_names: as in `GraphEdges`.
    """

    baselines = ("zero",)

    def fit(self, background: Any) -> "FittedFeatures":
        """Take the graph whose nodes are explained, or graphs like those that are."""
        return FittedFeatures(self, background, tied=True)


class GraphNodes(_GraphSpace):
    """Nodes that a prediction is computed from; the columns of `x` of a missing one are 0, its edges stay.

    Args:
        hops, level, node_names: as in `GraphEdges`.
    """

    baselines = ("zero",)

    def fit(self, background: Any) -> "FittedNodes":
        """Take the graph whose nodes are explained, or graphs like those that are."""
        return FittedNodes(self, background, tied=True)


@dataclass(frozen=True)
class GraphBatch:
    """Inputs of about one size, and what their rows stand for.

    Attributes:
        graphs: what the prediction of each is computed from.
        of_element: `(B, E)` the feature of each element, -1 for none: the rows of smaller inputs are filled up.
        size: `(B, F)` how many elements each feature has. F is the room of such inputs, which is more than any of them
            needs: inputs of the same room go to the model together, whichever they are.
        rows: `(B, E)` the inputs with all that they have.
        n_own: features that an input has at most.
    """

    graphs: tuple[ComputationGraph, ...]
    of_element: Tensor
    size: Tensor
    rows: Tensor
    n_own: int

    @classmethod
    def of(
        cls, graphs: Sequence[ComputationGraph], features: Sequence[Tensor], sizes: Sequence[Tensor], room: int
    ) -> "GraphBatch":
        """Put inputs together, each given with its elements' features and their sizes."""
        n_elements = max(map(len, features), default=0)
        of_element = torch.full((len(graphs), n_elements), -1)
        size, rows = torch.zeros(len(graphs), room), torch.zeros(len(graphs), n_elements)
        for i, (own, count) in enumerate(zip(features, sizes, strict=True)):
            of_element[i, : len(own)], rows[i, : len(own)], size[i, : len(count)] = own, 1, count
        return cls(tuple(graphs), of_element, size, rows, max(map(len, sizes), default=0))


class _FittedGraph(FittedSpace):
    """One graph's nodes, or graphs, and how the model takes them."""

    has_background: ClassVar[bool] = False
    swap_rate: ClassVar[float] = 0.05
    repeats: ClassVar[bool] = True
    unit: ClassVar[str]
    baselines: ClassVar[tuple[str, ...]]
    batch: GraphBatch

    def __init__(self, space: _GraphSpace, background: Any, *, tied: bool) -> None:
        super().__init__()
        given, several = graphs_in(background)
        self.level: Level = space.level or ("graph" if several else "node")
        self.tied = tied
        self._hops = space.hops
        if self.level == "node" and len(given) != 1:
            raise InputError(f'Expected one graph for level="node", got {len(given)}; pass level="graph"')
        self.graphs = [
            Graph.of(graph, "the graph" if len(given) == 1 else f"graph {i}") for i, graph in enumerate(given)
        ]
        self.node_names = self._checked_names(space.node_names)
        self._weighs, self._arguments, self._whole = True, EdgeArguments(), False
        # Not empty if copies have an `x` of their own, or the model does more with it than a linear layer does.
        self._opened: list[bool] = [] if self.modality == "graph" else [True]
        self._take([])

    def _checked_names(self, names: Any) -> tuple[str, ...]:
        if names is None:
            return ()
        given = [str(name) for name in names] if isinstance(names, Iterable) and not isinstance(names, str) else []
        n = len(self.graphs[0])
        if self.level == "graph" or len(given) != n:
            expected = "one graph, whose nodes are explained" if self.level == "graph" else f"{n} nodes"
            got = f"{len(given)} names; leave them out, or mend them"
            raise InputError(f"Expected `node_names` for {expected}, got {got}")
        return tuple(given)

    # --- The model -----------------------------------------------------------------------------------------------

    def bind_model(self, caller: Caller) -> "_FittedGraph":
        """Return the space that knows how the model takes edges and how far it looks, with some inputs to try it on."""
        bound = copy(self)
        bound._learn(caller)
        return bound._holding(bound._some())

    def _learn(self, caller: Caller) -> None:
        """Learn how the model takes edges and how far it looks, from its signature and its answers."""
        model = caller.model
        if not callable(model):
            raise ModelError(f"Expected a model that takes (x, edge_index, ...), got {type(model).__name__}")
        known = inspect.signature(model.forward if isinstance(model, nn.Module) else model).parameters
        self._whole = takes_data(model)
        names = [name for name in ("edge_weight", "edge_attr") if name in known]
        if self._whole:
            read = {"edge_weight": self._reads_weights(caller), "edge_attr": "edge_attr" in self.graphs[0].attributes}
            names = [name for name, is_read in read.items() if is_read]
        required = [name for name in names if name in known and known[name].default is inspect.Parameter.empty]
        self._arguments = EdgeArguments.of(self.graphs[0], names, required)
        self.graphs = [self._arguments.read(graph) for graph in self.graphs]
        self._weighs = bool(self._arguments.gate)
        if self.level == "graph" and "batch" not in known and not self._whole:
            raise ModelError(
                "Expected a model that takes `batch`, the graph of each node, for several graphs, "
                f"got {type(model).__name__} without; pass a single graph to explain its nodes"
            )
        if self.level == "node":
            self._settle_depth(caller, self._some()[:8])

    def _reads_weights(self, caller: Caller) -> bool:
        """Tell whether a model of whole graphs says something else where half of the edges weigh half as much."""
        graph = self.graphs[self._some()[0] if self.level == "graph" else 0]
        weight = torch.ones(graph.edge_index.shape[1])
        also: dict[str, Any] = dict(graph.attributes) | {"batch": torch.zeros(len(graph), dtype=torch.int64)}
        said = []
        for weights in (weight, weight - 0.5 * (torch.arange(len(weight)) % 2)):
            with caller.direct(1) as model:
                out = run(model, graph.as_given(graph.x), graph.edge_index, also | {"edge_weight": weights})
                said.append(_plain(self.unwrap(out, len(graph))))
        return not torch.equal(*said)

    def _some(self) -> list[int]:
        """Return some inputs that have edges, spread over all."""
        if self.level == "graph":
            able = [i for i, graph in enumerate(self.graphs) if graph.edge_index.shape[1]]
        else:
            start, end = self.graphs[0].edge_index
            able = torch.unique(end[start != end]).tolist()
        if not able:
            raise InputError(
                "Expected a graph with edges, got none between different nodes; there is nothing to explain"
            )
        n = min(_CALIBRATING, len(able))
        return [able[i * len(able) // n] for i in range(n)]

    def _settle_depth(self, caller: Caller, tried: list[int]) -> None:
        """Find the hop count at which the subgraph gives the full graph's output."""
        expected = _plain(self.ask_whole(caller))[tried]
        if len(expected) and expected.ndim != 2:
            raise ModelError(f"Expected outputs (nodes, classes) from the model, got {tuple(expected.shape)}")
        layers = len(message_layers(caller.model))
        candidates = [self._hops] if self._hops is not None else [*range(max(layers, 1), max(layers, 1) + 4)]
        for hops in candidates:
            self._hops = hops
            found = self._answers(caller, tried)
            if _alike(found, expected):
                return
        raise ModelError(
            f"Expected a node's prediction to be computed from {candidates[-1]} hops at most, "
            "got other outputs on the cut graph than on the whole; pass GraphEdges(hops=...) as large as its reach"
        )

    def ask_whole(self, caller: Caller) -> Any:
        """Run the model on the whole graph that nodes are of, which counts as one row."""
        graph = self.graphs[0]
        also = self._also(graph.weight, graph.attributes)
        with caller.direct(1) as model:
            return self.unwrap(run(model, graph.as_given(graph.x), graph.edge_index, also), len(graph))

    def _also(
        self, weight: Tensor, attributes: Mapping[str, Tensor], row_of_node: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return what the model takes besides nodes and edges, by name."""
        out = dict(attributes)
        if self._arguments.gate and (self._weighs or self._arguments.always):
            out[self._arguments.gate] = weight[:, None] if self._arguments.column else weight
        return out | ({"batch": row_of_node} if self.level == "graph" and row_of_node is not None else {})

    def _answers(self, caller: Caller, names: list[int], kept: float = 2.0) -> Tensor:
        """Return the model's outputs on inputs with some of their edges dropped, none by default."""
        tried = self._holding(names)
        rows = tried.rows_of_all()
        dropped = (torch.arange(rows.shape[1]) * 0.6180339887) % 1 >= kept  # spread evenly, no draws needed
        rows[:, dropped] = 0
        with caller.direct(len(rows)) as model:
            return _plain(tried.ask(model, rows))

    def copies_of(self, n_rows: int, of: Tensor | None) -> Tensor:
        """Return which input `(n,)` each row is a copy of: by default each comes once, or all are of the only one."""
        n_inputs = len(self.batch.graphs)
        if of is not None:
            return of
        if n_inputs == 1:
            return torch.zeros(n_rows, dtype=torch.int64)
        if n_rows != n_inputs:
            raise InputError(
                f"Expected `of`, the place of the input that each row is a copy of, for {n_rows} rows of {n_inputs} "
                "inputs, got none; pass it, as rows do not tell"
            )
        return torch.arange(n_inputs)

    def ask(self, model: Any, rows: Tensor, of: Tensor | None = None, links: Tensor | None = None) -> Any:
        """Run the model on the disjoint union of all rows' graphs, with `links` `(2, m)` between their nodes if asked.

        Nodes are counted through, one row's after another's.
        """
        inputs, counts = torch.unique_consecutive(self.copies_of(len(rows), of), return_counts=True)
        parts: list[Union] = []
        nodes: list[tuple[Tensor, int]] = []
        n_nodes = n_rows = 0
        for place, count in zip(inputs.tolist(), counts.tolist(), strict=True):
            piece, some = self.batch.graphs[place], rows[n_rows : n_rows + count]
            parts.append(copies(piece, self._kept(piece, some), n_nodes, n_rows, self._weighs))
            nodes.append((self._x(piece, some), count))
            n_rows, n_nodes = n_rows + count, n_nodes + count * len(piece.nodes)
        union = join_unions(parts)
        if links is not None:
            union = linked(union, links)
        also = self._also(union.weight, union.attributes, union.row_of_node)
        said = run(model, self.graphs[0].as_given(side_by_side(nodes, self._opened)), union.edge_index, also)
        out = self.unwrap(said, n_rows if self.level == "graph" else n_nodes)
        return out if self.level == "graph" else out[union.target]

    @abstractmethod
    def _kept(self, piece: ComputationGraph, rows: Tensor) -> Tensor:
        """Return how much of each edge `(r, D)` rows keep."""

    @abstractmethod
    def _x(self, piece: ComputationGraph, rows: Tensor) -> Tensor:
        """Return what is known of the nodes of each copy, `(r, n, d)`, or of all copies alike, `(n, d)`."""

    # --- Inputs --------------------------------------------------------------------------------------------------

    def inputs_of(self, e: Attribution) -> Any:
        """Return the nodes that an explanation is of; None where it is of graphs, of which it keeps the edges alone."""
        return None if e.nodes is None or (e.nodes < 0).any() else e.nodes

    def names(self, x: Any) -> list[int]:
        """Return how the inputs are called: nodes by their numbers, graphs by their places."""
        if self.level == "graph":
            return list(range(len(graphs_in(x)[0])))
        return self._nodes(x, "x")

    def _nodes(self, x: Any, what: str) -> list[int]:
        try:
            array = np.atleast_1d(np.asarray(x.cpu() if isinstance(x, Tensor) else x))
        except (TypeError, ValueError):
            array = np.array(["?"])
        if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
            raise InputError(f"Expected {what} as a node's number or several, got {x!r}")
        n = len(self.graphs[0])
        if array.min() < 0 or array.max() >= n:
            bad = array[(array < 0) | (array >= n)][0]
            raise InputError(f"Expected nodes from 0 to {n - 1}, got {bad}")
        return [int(i) for i in array]

    def _computation_graph(self, name: int) -> ComputationGraph:
        if self.level == "graph":
            return whole(self.graphs[name], -1, tied=self.tied)
        assert self._hops is not None
        return cut(self.graphs[0], name, self._hops, tied=self.tied)

    def split(self, x: Any) -> list[tuple[FittedSpace, Tensor, list[int]]]:
        """Put inputs of about one size together.

        Returns:
            For each size the space of those inputs, their rows, and their places among all. What a size is depends on
            the input alone, so that explaining it does not depend on its company.
        """
        graphs = self._cut_all(x)
        empty = [i for i, piece in enumerate(graphs) if not self._sizes(piece).any()]
        if empty:
            what, names = "node" if self.level == "node" else "graph", self.names(x)
            others = f" and {len(empty) - 1} others" if len(empty) > 1 else ""
            raise InputError(
                f"Expected {what}s with {self.unit}s to explain, got {what} {names[empty[0]]}{others} without any; "
                f"leave {'them' if others else 'it'} out"
            )
        out: list[tuple[FittedSpace, Tensor, list[int]]] = []
        rooms = [self._room(piece) for piece in graphs]
        for room in sorted(set(rooms)):
            at = [i for i, one in enumerate(rooms) if one == room]
            part = self._with([graphs[i] for i in at])
            out.append((part, part.rows_of_all(), at))
        return out

    def _cut_all(self, x: Any) -> list[ComputationGraph]:
        if self.level == "node":
            return [self._computation_graph(name) for name in self._nodes(x, "x")]
        made = [self._arguments.read(Graph.of(graph, f"graph {i} of x")) for i, graph in enumerate(graphs_in(x)[0])]
        width = self.graphs[0].x.shape[1]
        for i, graph in enumerate(made):
            if graph.x.shape[1] != width:
                raise InputError(
                    f"Expected {width} columns of `x` in graph {i}, as the background has, got {graph.x.shape[1]}"
                )
        return [whole(graph, -1, tied=self.tied) for graph in made]

    @abstractmethod
    def _elements(self, piece: ComputationGraph) -> Tensor:
        """Return the feature of each element of an input."""

    @abstractmethod
    def _room(self, piece: ComputationGraph) -> int:
        """Return how many features a row of such an input has room for: more than it has."""

    def _with(self, graphs: Sequence[ComputationGraph]) -> Self:
        """Return the space of these inputs."""
        out = copy(self)
        out._take(graphs)
        return out

    def _holding(self, names: Sequence[int]) -> Self:
        """Return the space of some of the background's inputs."""
        return self._with([self._computation_graph(name) for name in names])

    def _take(self, graphs: Sequence[ComputationGraph]) -> None:
        """Become the space of these inputs, while it is made."""
        features, sizes = [self._elements(piece) for piece in graphs], [self._sizes(piece) for piece in graphs]
        room = max((self._room(piece) for piece in graphs), default=_SMALLEST)
        self.batch = GraphBatch.of(graphs, features, sizes, room)
        self.feature_names = tuple(f"{self.unit} {i}" for i in range(room))
        self.shape = self.batch.rows.shape[1:]
        self.scale = torch.ones(self.shape)

    def _sizes(self, piece: ComputationGraph) -> Tensor:
        """Return how many elements each feature of an input has."""
        return torch.bincount(self._elements(piece)).float()

    def rows_of_all(self) -> Tensor:
        """Return the rows of all inputs of the batch, with all that they have."""
        return self.batch.rows.clone()

    def encode(self, inputs: Any, what: str) -> Tensor:  # noqa: ARG002
        """Return some of the background's inputs as rows: those that the model is tried on first."""
        return self.rows_of_all()

    def decode(self, rows: Tensor) -> Any:
        """Return the rows: `ask` reads them."""
        return rows

    @property
    def default_batch(self) -> int:
        """Rows that the model sees at a time, if the user does not say: by what a copy of the largest takes, about."""
        columns = self.graphs[0].x.shape[1]
        width = columns if self._opened else min(columns, WIDE)
        largest = max(_MESSAGE * piece.n_messages + width * len(piece.nodes) for piece in self.batch.graphs)
        return max(1, min(8192, _BATCH_BYTES // (4 * largest)))

    @property
    def network_batch(self) -> int:
        """All of them: a batch is as small as serves."""
        return self.default_batch

    @property
    def n_own(self) -> int:
        """How many features inputs have at most."""
        return self.batch.n_own

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the features that inputs have."""
        return self.feature_names[: self.n_own]

    def among_all(self, of_features: Array, fill: float = 0) -> Array:  # noqa: ARG002
        """Return what is said of the features `(n, n_own)` that inputs have."""
        return of_features[:, : self.n_own]

    def own(self, of_all: Any) -> Any:
        """Return what is said of inputs' features `(..., n)`, larger ones' among them perhaps, as `(..., F)`."""
        given = np.asarray(of_all)[..., : self.n_own]
        out = np.zeros((*given.shape[:-1], self.n_features), given.dtype)
        out[..., : given.shape[-1]] = given
        return out

    def draw_places(self, index: Tensor) -> Tensor:
        """Return where the draws of each element are; a row has one place more, the first, as in runs on record."""
        return index[:, None] * (1 + self.n_elements) + 1 + torch.arange(self.n_elements)

    def units(self, rows: Tensor, of: Tensor | None = None) -> Units:
        """Return the features of each input."""
        of = self.copies_of(len(rows), of)
        return Units(self.batch.of_element[of], self.batch.size[of], shared=False, padded=True)

    def baseline(self, value: Any, background: Tensor) -> Baseline:  # noqa: ARG002
        """Return nothing, the only baseline there is."""
        choose("`baseline`", value, self.baselines)
        return OfSample(self.zero)

    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:  # noqa: ARG002
        """Return how many elements of each feature differ."""
        return units.collect((x[:, None] - rows) ** 2)

    def deviations(self, background: Tensor) -> Tensor:
        """Return zeros: no scale is estimated."""
        return torch.zeros_like(background)

    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:  # noqa: ARG002
        """Return noise for weights; what can only be there or not gets none."""
        return normals * (0.0 if self.no_gradient else size)


class FittedEdges(_FittedGraph):
    """The edges of one graph's nodes, or of graphs."""

    modality: ClassVar[str] = "graph"
    kin: ClassVar[tuple[str, ...]] = ()
    may_follow_from_nothing: ClassVar[bool] = True
    unit: ClassVar[str] = "edge"
    baselines: ClassVar[tuple[str, ...]] = GraphEdges.baselines

    def _learn(self, caller: Caller) -> None:
        """Also see whether a weight of 0 is as good as no edge; where it is not, edges are removed instead."""
        super()._learn(caller)
        if not self._weighs:
            return
        tried = self._some()[:4]
        by_weight = self._answers(caller, tried, kept=0.5)
        self._weighs = False
        self._weighs = _alike(by_weight, self._answers(caller, tried, kept=0.5))
        if not self._weighs:
            warn(
                f"The model takes `{self._arguments.gate}`, but an edge of weight 0 is not like none to it; edges are "
                "removed instead, which has no gradient",
            )

    @property
    def no_gradient(self) -> str:
        """Why there is none, where edges can only be there or not."""
        return "" if self._weighs else "it does not take edges by their weight, so they can only be removed"

    def _kept(self, piece: ComputationGraph, rows: Tensor) -> Tensor:
        return rows[:, : piece.n_edges]

    def _x(self, piece: ComputationGraph, rows: Tensor) -> Tensor:  # noqa: ARG002
        return piece.graph.x[piece.nodes]

    def _elements(self, piece: ComputationGraph) -> Tensor:
        return piece.feature

    def _room(self, piece: ComputationGraph) -> int:
        """Return one of some sizes: inputs of different size that share one go to the model together."""
        size = _SMALLEST
        while size <= piece.n_features:
            size = -(-size * 3 // 2) if size & (size - 1) == 0 else -(-size * 4 // 3)
        return size

    def edges_of(self, of: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nodes `(n, E, 2)` that each element joins, and those explained `(n,)`; -1 is none."""
        edges = torch.full((len(of), self.n_elements, 2), -1)
        nodes = torch.full((len(of),), -1)
        for i, piece in enumerate(self._graphs_of(of)):
            edges[i, : piece.n_edges] = piece.nodes[piece.edges].T
            if piece.target >= 0:
                nodes[i] = piece.nodes[piece.target]
        return edges, nodes

    def _graphs_of(self, of: Tensor) -> list[ComputationGraph]:
        """Return what the predictions of the inputs `of` `(n,)` are computed from."""
        return [self.batch.graphs[place] for place in of.tolist()]

    def alone(self, place: int) -> tuple[Tensor, Tensor, dict[str, Tensor], int]:
        """Return the input at a place as the model takes it.

        Returns:
            What is known of its nodes, its edges (those of elements first), what else the model takes by name, and the
            place of the explained node, -1 for the graph as a whole.
        """
        piece = self.batch.graphs[place]
        union = copies(piece, torch.ones(1, piece.n_edges), 0, 0, self._weighs)
        also = self._also(union.weight, union.attributes, union.row_of_node)
        return piece.graph.as_given(piece.graph.x[piece.nodes]), union.edge_index, also, piece.target

    def learnable(self) -> list[int]:
        """Return what a method may learn from: nodes that the model was trained on, where the graph says so."""
        if self.level == "graph":
            return [i for i, graph in enumerate(self.graphs) if (graph.edge_index[0] != graph.edge_index[1]).any()]
        graph = self.graphs[0]
        start, end = graph.edge_index
        able = torch.unique(end[start != end])
        if graph.train is not None and graph.train[able].any():
            able = able[graph.train[able]]
        return [int(node) for node in able]

    def together(self, names: Sequence[int]) -> "tuple[FittedEdges, Tensor]":
        """Return the space of some of the background's inputs, whatever their sizes, and their rows."""
        part = self._holding(names)
        return part, part.rows_of_all()

    def joined(self, of: Tensor) -> Joined:
        """Return the graphs of the inputs `of` `(n,)` side by side, all edges as they are."""
        return join(self._graphs_of(of), self.n_features)

    def columns_of(self, of: Tensor) -> Tensor:
        """Return which column of its graph's `edge_index` each element `(n, E)` is, -1 for none, of inputs `of`."""
        out = torch.full((len(of), self.n_elements), -1)
        for i, piece in enumerate(self._graphs_of(of)):
            out[i, : piece.n_edges] = piece.source
        return out

    def feature_subset(self, subset: Any, units: Units, batch: int) -> Tensor:
        """Return `subset` as a bool tensor `(batch, F)`: given so, by edge of the graph, or as pairs of nodes."""
        pairs = _pairs(subset)
        if pairs is None:
            return super().feature_subset(subset, units, batch)
        return torch.stack([self._features_between(pairs, i) for i in range(batch)])

    def _features_between(self, pairs: list[tuple[int, int]], i: int) -> Tensor:
        """Return which features `(F,)` of an input join these pairs of nodes."""
        piece, chosen = self.batch.graphs[i], torch.zeros(self.n_features, dtype=torch.bool)
        ends = map(tuple, piece.nodes[piece.edges].T.tolist())
        joined = dict(zip(ends, piece.feature.tolist(), strict=True))
        for u, v in pairs:
            if (u, v) not in joined and not (self.tied and (v, u) in joined):
                raise InputError(
                    f"Expected edges that the prediction of input {i} is computed from, got {u} - {v}, which is none"
                )
            chosen[joined.get((u, v), joined.get((v, u), 0))] = True
        return chosen

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:  # noqa: ARG002
        """Read a mask of the graph's edges; and one of more features than these inputs have, of larger ones beside."""
        if self.level == "node" and mask.shape[-1] == self.graphs[0].edge_index.shape[1]:
            chosen = mask.expand(batch, -1)
            out = torch.zeros(batch, self.n_features, dtype=torch.bool)
            for i, piece in enumerate(self.batch.graphs):
                out[i, piece.feature[chosen[i, piece.source]]] = True
            return out
        return mask if mask.shape[-1] < self.n_own else torch.from_numpy(self.own(mask))


class _FittedContents(_FittedGraph):
    """What is known of nodes, `x`, while all edges stay."""

    own_scales: ClassVar[bool] = True

    def _kept(self, piece: ComputationGraph, rows: Tensor) -> Tensor:
        return torch.ones(len(rows), piece.n_edges)

    @property
    def element_names(self) -> tuple[str, ...]:
        """One name per feature."""
        return self.all_names

    def edges_of(self, of: Tensor) -> tuple[None, Tensor]:
        """Return the nodes explained `(n,)`, -1 for a graph as a whole."""
        pieces = [self.batch.graphs[place] for place in of.tolist()]
        return None, torch.tensor([-1 if piece.target < 0 else int(piece.nodes[piece.target]) for piece in pieces])

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:  # noqa: ARG002
        return mask if mask.shape[-1] != self.n_own else torch.from_numpy(self.own(mask))


class FittedFeatures(_FittedContents):
    """The columns of the nodes of one graph, or of graphs; those that are 0 in all nodes in reach are absent."""

    modality: ClassVar[str] = "table"
    unit: ClassVar[str] = "column"
    baselines: ClassVar[tuple[str, ...]] = GraphFeatures.baselines

    def _x(self, piece: ComputationGraph, rows: Tensor) -> Tensor:
        return piece.graph.x[piece.nodes] * rows[:, None, : piece.graph.x.shape[1]]

    def _elements(self, piece: ComputationGraph) -> Tensor:
        return torch.arange(piece.graph.x.shape[1])

    def _sizes(self, piece: ComputationGraph) -> Tensor:
        return (piece.graph.x[piece.nodes] != 0).any(0).float()

    def _room(self, piece: ComputationGraph) -> int:
        return piece.graph.x.shape[1] + 1


class FittedNodes(_FittedContents):
    """The nodes of one graph, or of graphs, by their numbers: a row has one number for each node of the whole graph.

    Those out of reach, and those of which nothing but 0 is known, are absent.
    """

    modality: ClassVar[str] = "nodes"
    unit: ClassVar[str] = "node"
    baselines: ClassVar[tuple[str, ...]] = GraphNodes.baselines

    def _x(self, piece: ComputationGraph, rows: Tensor) -> Tensor:
        return piece.graph.x[piece.nodes] * rows[:, piece.nodes, None]

    def _elements(self, piece: ComputationGraph) -> Tensor:
        return torch.where(self._sizes(piece) > 0, torch.arange(len(piece.graph)), -1)

    def _sizes(self, piece: ComputationGraph) -> Tensor:
        known = (piece.graph.x[piece.nodes] != 0).any(1).float()
        return torch.zeros(len(piece.graph)).index_put((piece.nodes,), known)

    def _room(self, piece: ComputationGraph) -> int:
        return len(piece.graph) + 1

    def details(self, rows: Tensor) -> dict[str, list[Any]]:
        """Return how many hops each node is from the explained one."""
        return {"hops": [_hops(piece) for piece in self.batch.graphs[: len(rows)]]}

    def _take(self, graphs: Sequence[ComputationGraph]) -> None:
        super()._take(graphs)
        if self.node_names:
            self.feature_names = (*self.node_names, self.feature_names[-1])


def _hops(piece: ComputationGraph) -> dict[str, int]:
    """Return how many edges lead from each node to the explained one, by its number; nothing of a whole graph."""
    out, ends, hops = dict[str, int](), torch.tensor([piece.target]), 0
    while piece.target >= 0 and len(ends):
        out |= {str(node): hops for node in piece.nodes[ends].tolist()}
        starts = torch.unique(piece.edges[0, torch.isin(piece.edges[1], ends)])
        ends, hops = starts[[str(node) not in out for node in piece.nodes[starts].tolist()]], hops + 1
    return out


def message_layers(model: Any) -> list[nn.Module]:
    """Return the layers of PyTorch Geometric in a model, in the order in which they were made."""
    if not isinstance(model, nn.Module):
        return []
    return [m for m in model.modules() if any(kind.__name__ == "MessagePassing" for kind in type(m).__mro__)]


def _pairs(subset: Any) -> list[tuple[int, int]] | None:
    """Return a subset that is given as pairs of nodes, or None."""
    if not isinstance(subset, list | tuple | set) or not subset:
        return None
    pairs = [pair for pair in subset if isinstance(pair, tuple | list) and len(pair) == 2]
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for pair in pairs for n in pair)
    return [(int(u), int(v)) for u, v in pairs] if len(pairs) == len(subset) and whole else None


def _alike(found: Tensor, expected: Tensor) -> bool:
    """Tell whether outputs are the same but for rounding."""
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max().clamp(min=1e-6)))


def _plain(out: Any) -> Tensor:
    if not isinstance(out, Tensor):
        raise ModelError(f"Expected a tensor of outputs (nodes, classes) from the model, got {type(out).__name__}")
    return out.detach().to("cpu", torch.float64)
