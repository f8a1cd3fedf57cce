"""A graph as tensors, and what of it one prediction is computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fans.errors import InputError


@dataclass(frozen=True)
class Graph:
    """A graph as tensors.

    Attributes:
        x: `(n, d)` what is known of each node, as numbers.
        like: what was given as `x`, without rows: whole numbers, or one a node, reach the model as they were.
        edge_index: `(2, m)` from, to.
        weight: `(m,)` of the edges, 1 where nothing tells otherwise.
        attributes: what else the model is told of the edges, `(m, ...)` by name.
        train: `(n,)` which nodes the model was trained on, where the graph says so.
    """

    x: Tensor
    like: Tensor
    edge_index: Tensor
    weight: Tensor
    attributes: Mapping[str, Tensor]
    train: Tensor | None

    @classmethod
    def of(cls, given: Any, what: str) -> "Graph":
        """Check a graph: anything with `x` and `edge_index`, as PyTorch Geometric's `Data` has."""
        if hasattr(given, "edge_types") or hasattr(given, "node_types"):
            raise InputError(
                f"Expected {what} with one kind of node and edge, got a heterogeneous graph; "
                "explain its to_homogeneous() form"
            )
        x, edges = getattr(given, "x", None), getattr(given, "edge_index", None)
        if x is None or edges is None:
            raise InputError(f"Expected {what} with `x` and `edge_index`, got {type(given).__name__}")
        x, edges = torch.as_tensor(x).detach().cpu(), torch.as_tensor(edges).detach().cpu()
        like = x[:0] if x.ndim else x
        if x.ndim == 1:
            x = x[:, None]
        if x.ndim != 2 or not len(x):
            raise InputError(f"Expected `x` of {what} of shape (nodes, columns), got {tuple(x.shape)}")
        if not torch.isfinite(x).all():
            raise InputError(f"Expected finite `x` in {what}, got NaN or infinity in {_count_bad(x)} nodes")
        if edges.ndim != 2 or len(edges) != 2 or edges.is_floating_point():
            raise InputError(
                f"Expected `edge_index` of {what} as whole numbers of shape (2, edges), got {tuple(edges.shape)} of "
                f"{edges.dtype}"
            )
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(x):
            raise InputError(
                f"Expected `edge_index` of {what} from 0 to {len(x) - 1}, one number per node, "
                f"got {int(edges.min())} to {int(edges.max())}"
            )
        train = getattr(given, "train_mask", None)
        if train is not None:
            train = torch.as_tensor(train).detach().cpu().bool()
            train = train if train.shape == x.shape[:1] else None  # Planetoid's relatives have ten splits
        n_edges = edges.shape[1]
        return cls(x.float(), like, edges.long(), torch.ones(n_edges), cls._attributes(given, n_edges, what), train)

    @staticmethod
    def _attributes(given: Any, n_edges: int, what: str) -> dict[str, Tensor]:
        """Return what a graph says of its edges, as it is."""
        out = {}
        for name in ("edge_weight", "edge_attr"):
            value = getattr(given, name, None)
            if value is None:
                continue
            value = torch.as_tensor(value).detach().cpu()
            if not value.ndim or len(value) != n_edges or not torch.isfinite(value).all():
                raise InputError(
                    f"Expected one finite `{name}` of {what} for each of {n_edges} edges, got {tuple(value.shape)}"
                )
            out[name] = value
        return out

    def with_arguments(self, weight: str, others: Sequence[str]) -> "Graph":
        """Return the graph with the weights called `weight`, if any, and what else is called so of the edges."""
        own = self.attributes[weight].flatten().float() if weight else torch.ones(self.edge_index.shape[1])
        return replace(self, weight=own, attributes={name: self.attributes[name] for name in others})

    def as_given(self, x: Tensor) -> Tensor:
        """Return nodes `(m, d)` in the form in which the graph's own were given."""
        x = x if self.like.ndim > 1 else x[:, 0]
        return x if self.like.is_floating_point() else x.to(self.like.dtype)

    def __len__(self) -> int:
        return len(self.x)


def _count_bad(x: Tensor) -> int:
    return int((~torch.isfinite(x)).any(1).sum())


@dataclass(frozen=True)
class EdgeArguments:
    """How a model takes what is known of edges, besides their ends.

    Attributes:
        gate: the argument that takes one weight an edge, "" if there is none.
        weight: the attribute of the graphs that holds the weights, "" if all are 1.
        column: whether the argument takes weights as a column `(m, 1)`.
        always: whether it must be passed even where no edge is perturbed by weight.
        others: further attributes of the graphs that are passed, each by the argument of its name.
    """

    gate: str = ""
    weight: str = ""
    column: bool = False
    always: bool = False
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Graph, names: Sequence[str], required: Sequence[str]) -> "EdgeArguments":
        """Match the edge attributes of a graph with the arguments of a model, some of them `required`.

        Each attribute goes to the argument of its name; one number an edge may also go to the other argument.
        """
        single = [name for name, value in graph.attributes.items() if value.shape[1:].numel() == 1]
        gate = next((name for name in names if name not in graph.attributes or name in single), "")
        borrowed = [name for name in single if name not in names]
        weight = gate if gate in graph.attributes else borrowed[0] if gate and borrowed else ""
        return cls(
            gate=gate,
            weight=weight,
            column=weight == gate != "" and graph.attributes[weight].ndim > 1,
            always=bool(weight) or gate in required,
            others=tuple(name for name in names if name in graph.attributes and name != gate),
        )

    def read(self, graph: Graph) -> Graph:
        """Return a graph with the attributes that the model takes."""
        lacking = [name for name in (self.weight, *self.others) if name and name not in graph.attributes]
        if lacking:
            raise InputError(f"Expected graphs that all have `{lacking[0]}`, as the first has, got one without")
        return graph.with_arguments(self.weight, self.others)


def graphs_in(given: Any) -> tuple[list[Any], bool]:
    """Return the graphs in a sequence, a dataset or a batch, else what is given; and whether they might be several.

    PyTorch Geometric's batches and datasets have an `edge_index` of their own, that of all their graphs side by side.
    """
    if is_dataset(given):
        return [given[i] for i in range(len(given))], len(given) != 1
    if hasattr(given, "to_data_list") and hasattr(given, "ptr"):
        return list(given.to_data_list()), True
    if isinstance(given, Sequence) and not hasattr(given, "edge_index"):
        return list(given), True
    return [given], False


def is_dataset(given: Any) -> bool:
    """Tell whether this is a dataset of PyTorch's or of PyTorch Geometric's, from which items are taken one by one."""
    return any(kind.__name__ == "Dataset" for kind in type(given).__mro__)


@dataclass(frozen=True)
class ComputationGraph:
    """The part of a graph that one prediction is computed from.

    Attributes:
        graph: it is cut out of.
        nodes: `(n,)` their numbers there.
        edges: `(2, D)` those that belong to features, between places in `nodes`.
        source: `(D,)` their numbers in the graph.
        feature: `(D,)` the feature of each.
        n_features: how many there are.
        context: `(2, C)` edges that are always there: loops, and for each node those left out, as one.
        context_weight: `(C,)`, of those left out their joint one.
        context_source: `(C,)` their numbers in the graph, or -1.
        outside: `(2, O)` the same, those left out one by one.
        outside_source: `(O,)` their numbers in the graph.
        target: place of the explained node, or -1 for the graph as a whole.
    """

    graph: Graph
    nodes: Tensor
    edges: Tensor
    source: Tensor
    feature: Tensor
    n_features: int
    context: Tensor
    context_weight: Tensor
    context_source: Tensor
    outside: Tensor
    outside_source: Tensor
    target: int

    @property
    def n_edges(self) -> int:
        """D."""
        return self.edges.shape[1]

    @property
    def n_messages(self) -> int:
        """D + C, all edges of a copy."""
        return self.edges.shape[1] + self.context.shape[1]


def _number_features(edges: Tensor, n_nodes: int, *, tied: bool) -> tuple[Tensor, int]:
    """Give parallel edges one feature, and where `tied` also those that run the other way."""
    low, high = (edges.min(0).values, edges.max(0).values) if tied else (edges[0], edges[1])
    _, feature = torch.unique(low * n_nodes + high, return_inverse=True)
    return feature, int(feature.max()) + 1 if len(feature) else 0


def whole(graph: Graph, target: int, *, tied: bool) -> ComputationGraph:
    """Cut nothing off."""
    return _assemble(
        graph, torch.arange(len(graph)), torch.ones_like(graph.edge_index[0], dtype=torch.bool), target, tied
    )


def cut(graph: Graph, node: int, hops: int, *, tied: bool) -> ComputationGraph:
    """Keep what reaches a node within so many hops.

    Edges into nodes nearer than the last hop carry messages. Those into a node at the last hop carry none, but they
    count in its degree, by which some layers divide: their number stays, in one edge of their joint weight.
    """
    start, end = graph.edge_index
    distance = torch.full((len(graph),), hops + 1)
    distance[node] = 0
    for hop in range(1, hops + 1):
        reached = start[distance[end] == hop - 1]
        distance[reached] = torch.minimum(distance[reached], torch.tensor(hop))
    carries = distance[end] < hops
    if tied:  # an edge and the one that runs back go together, so that both degrees know
        n = len(graph)
        carrying = torch.unique(start[carries] * n + end[carries])
        carries = carries | torch.isin(end * n + start, carrying)
    return _assemble(graph, (distance <= hops).nonzero()[:, 0], carries, node, tied)


def _assemble(graph: Graph, nodes: Tensor, chosen: Tensor, target: int, tied: bool) -> ComputationGraph:
    """Number nodes and features, and account for the edges that are left out."""
    start, end = graph.edge_index
    place = torch.full((len(graph),), -1)
    place[nodes] = torch.arange(len(nodes))
    loop = start == end
    source = (chosen & ~loop).nonzero()[:, 0]
    edges = place[graph.edge_index[:, source]]
    feature, n_features = _number_features(edges, len(nodes), tied=tied)
    # Loops stay: layers add them where there are none. Others into kept nodes stay in the degrees.
    inside = place[end] >= 0
    loops = (loop & inside).nonzero()[:, 0]
    other = (inside & ~loop & ~chosen).nonzero()[:, 0]
    into, weight = place[end[other]], graph.weight[other]
    joint = torch.zeros(len(nodes)).index_add_(0, into, weight)
    counted = torch.zeros(len(nodes), dtype=torch.bool).index_fill_(0, into, True).nonzero()[:, 0]
    kept = place[graph.edge_index[:, loops]]
    where = torch.full((), 0) if target < 0 else place[target]

    def into_those(ends: Tensor) -> Tensor:
        return torch.cat([kept, torch.stack([where.expand(len(ends)), ends])], 1)

    return ComputationGraph(
        graph=graph,
        nodes=nodes,
        edges=edges,
        source=source,
        feature=feature,
        n_features=n_features,
        context=into_those(counted),
        context_weight=torch.cat([graph.weight[loops], joint[counted]]),
        context_source=torch.cat([loops, torch.full((len(counted),), -1)]),
        outside=into_those(into),
        outside_source=torch.cat([loops, other]),
        target=-1 if target < 0 else int(where),
    )
