"""Many perturbed copies of computation graphs side by side, as one graph that a model takes in one pass."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from fans.errors import ModelError, extra
from fans.modalities.graph.computation import ComputationGraph
from fans.modes import Held

WIDE = 64
"""More columns than this and copies of nodes share their first layer."""


@dataclass(frozen=True)
class Union:
    """Copies of a computation graph side by side, after others.

    Attributes:
        edge_index: `(2, M)` their edges.
        weight: `(M,)` of the edges.
        attributes: what else is told of them, `(M, ...)` by name; 0 of an edge that stands for several.
        target: `(r,)` the explained nodes.
        row_of_node: the row of each node.
    """

    edge_index: Tensor
    weight: Tensor
    attributes: Mapping[str, Tensor]
    target: Tensor
    row_of_node: Tensor


def copies(piece: ComputationGraph, kept: Tensor, n_nodes: int, n_rows: int, weighs: bool) -> Union:
    """Return one copy of a computation graph for each row of kept edges `(r, D)`.

    `n_nodes` and `n_rows` come before them. Where nothing can be weighed an edge is there or not.
    """
    count, size = len(kept), len(piece.nodes)
    offset = n_nodes + size * torch.arange(count)
    if weighs:
        edges = torch.cat([piece.edges, piece.context], 1)
        own = kept * piece.graph.weight[piece.source]
        weight = torch.cat([own, piece.context_weight.expand(count, -1)], 1).flatten()
        edge_index = (edges[:, None] + offset[:, None]).flatten(1)
        number = torch.cat([piece.source, piece.context_source]).repeat(count if piece.graph.attributes else 0)
    else:
        left = (kept > 0.5).flatten()
        inside = (piece.edges[:, None] + offset[:, None]).flatten(1)[:, left]
        edge_index = torch.cat([inside, (piece.outside[:, None] + offset[:, None]).flatten(1)], 1)
        number = torch.cat([piece.source.repeat(count)[left], piece.outside_source.repeat(count)])
        weight = piece.graph.weight[number]
    return Union(
        edge_index=edge_index,
        weight=weight,
        attributes={name: _taken(value, number) for name, value in piece.graph.attributes.items()},
        target=offset + max(piece.target, 0),
        row_of_node=(n_rows + torch.arange(count)).repeat_interleave(size),
    )


def _taken(value: Tensor, number: Tensor) -> Tensor:
    """Return what is said of edges by their numbers, 0 of those that have none."""
    out = value[number.clamp(min=0)]
    out[number < 0] = 0
    return out


def join_unions(parts: list[Union]) -> Union:
    """Return all copies of several computation graphs as one."""
    return Union(
        edge_index=torch.cat([part.edge_index for part in parts], 1),
        weight=torch.cat([part.weight.flatten() for part in parts]),
        attributes={name: torch.cat([part.attributes[name] for part in parts]) for name in parts[0].attributes},
        target=torch.cat([part.target for part in parts]),
        row_of_node=torch.cat([part.row_of_node for part in parts]),
    )


def linked(union: Union, links: Tensor) -> Union:
    """Return a union with more edges `(2, m)` of weight 1 between its nodes."""
    n = links.shape[1]
    return replace(
        union,
        edge_index=torch.cat([union.edge_index, links], 1),
        weight=torch.cat([union.weight, union.weight.new_ones(n)]),
        attributes={k: torch.cat([v, v.new_zeros(n, *v.shape[1:])]) for k, v in union.attributes.items()},
    )


@dataclass(frozen=True)
class Joined:
    """Cuttings side by side, as a network of ours reads them.

    Attributes:
        x: `(m, d)` what is known of the nodes, each node of a graph once.
        node: `(nodes,)` which of them each node is.
        origin: `(nodes,)` the number of each node in its own graph.
        edges: `(2, M)` the edges that are features, between nodes.
        feature: `(M,)` the feature of each, counted through: graph * F + feature.
        first, size: `(n,)` the first node of each graph and how many it has.
        target: `(n,)` the explained node of each, -1 for the graph as a whole.
    """

    x: Tensor
    node: Tensor
    origin: Tensor
    edges: Tensor
    feature: Tensor
    first: Tensor
    size: Tensor
    target: Tensor


def join(pieces: list[ComputationGraph], n_features: int) -> Joined:
    """Return computation graphs side by side."""
    size = torch.tensor([len(piece.nodes) for piece in pieces])
    first = size.cumsum(0) - size
    graphs = list({id(piece.graph): piece.graph for piece in pieces}.values())
    before = dict(zip(map(id, graphs), [0, *torch.tensor([len(g) for g in graphs]).cumsum(0).tolist()], strict=False))
    known, node = torch.unique(
        torch.cat([piece.nodes + before[id(piece.graph)] for piece in pieces]), return_inverse=True
    )
    everything = graphs[0].x if len(graphs) == 1 else torch.cat([graph.x for graph in graphs])
    target = torch.tensor([piece.target for piece in pieces])
    return Joined(
        x=everything[known],
        node=node,
        origin=torch.cat([piece.nodes for piece in pieces]),
        edges=torch.cat([piece.edges + start for piece, start in zip(pieces, first, strict=True)], 1),
        feature=torch.cat([piece.feature + i * n_features for i, piece in enumerate(pieces)]),
        first=first,
        size=size,
        target=torch.where(target >= 0, first + target, -1),
    )


def side_by_side(nodes: list[tuple[Tensor, int]], opened: list[bool]) -> Tensor:
    """Return what is known of all nodes of a union, `(nodes, d)`: each part's copies, or one and how many there are."""
    if all(x.ndim == 2 for x, _ in nodes) and nodes[0][0].shape[1] > WIDE and not opened:
        return _Tiled(nodes, opened)
    return torch.cat([x.repeat(count, 1) if x.ndim == 2 else x.flatten(0, 1) for x, count in nodes])


class _Tiled(Tensor):
    """Parts of rows `(n, d)`, each repeated so many times, that a linear layer need not go through more than once.

    Papers have thousands of words, and a first layer makes few numbers of them. Whatever else is done with the rows,
    they are repeated in earnest, and `opened` is no longer empty.
    """

    parts: list[tuple[Tensor, int]]
    opened: list[bool]

    @staticmethod
    def __new__(cls, parts: list[tuple[Tensor, int]], opened: list[bool]) -> "_Tiled":
        first, shape = parts[0][0], (sum(len(x) * count for x, count in parts), parts[0][0].shape[1])
        make: Any = Tensor._make_wrapper_subclass
        made: _Tiled = make(cls, shape, dtype=first.dtype, device=first.device)
        made.parts, made.opened = parts, opened
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Multiply each part once; do anything else with all rows."""
        place = {torch.ops.aten.mm.default: 0, torch.ops.aten.addmm.default: 1}.get(func)
        if place is not None and [isinstance(a, cls) for a in args].count(True) == 1 and isinstance(args[place], cls):
            return torch.cat(
                [
                    func(*args[:place], x, *args[place + 1 :], **(kwargs or {})).repeat(count, 1)
                    for x, count in args[place].parts
                ]
            )
        if func is torch.ops.aten.detach.default:
            return cls(args[0].parts, args[0].opened)
        return func(*tree_map(_untiled, args), **tree_map(_untiled, kwargs or {}))


def _untiled(value: Any) -> Any:
    if not isinstance(value, _Tiled):
        return value
    value.opened.append(True)
    return torch.cat([x.repeat(count, 1) for x, count in value.parts])


def fitting(model: Any, *values: Tensor) -> list[Tensor]:
    """Return tensors on the model's device, and numbers in its precision."""
    parameters = model.parameters() if isinstance(model, nn.Module) else []
    like = next((p for p in parameters if p.is_floating_point()), None)
    if like is None:
        return list(values)
    return [value.to(like.device, like.dtype if value.is_floating_point() else None) for value in values]


def run(model: Any, x: Tensor, edge_index: Tensor, also: dict[str, Any]) -> Any:
    """Call the model with everything as it takes it; no layer remembers other edges."""
    edge_index, *rest = fitting(model, edge_index, *also.values())
    if isinstance(x, _Tiled):
        x = _Tiled([(fitting(model, part)[0], count) for part, count in x.parts], x.opened)
    else:
        (x,) = fitting(model, x)
    with forgetting(model):
        return by_parts(model)(x, edge_index, **dict(zip(also, rest, strict=True)))


def takes_data(model: Any) -> bool:
    """Tell whether a model is called with a graph as one object, as `model(data)`: it asks for one thing alone."""
    function = model.forward if isinstance(model, nn.Module) else model
    own = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [one for one in inspect.signature(function).parameters.values() if one.kind in own]
    required = [one for one in known if one.default is inspect.Parameter.empty]
    return len(required) == 1 and "edge_index" not in {one.name for one in known}


def by_parts(model: Any) -> Any:
    """Return a model that is called with `(x, edge_index, ...)`, whatever it takes itself."""
    return OfData(model) if takes_data(model) else model


class OfData(nn.Module):
    """A model of whole graphs, called with the parts of one."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Any = None, edge_attr: Any = None, batch: Any = None
    ) -> Any:
        """Make a `Data` of the parts, and ask the model."""
        try:
            from torch_geometric.data import Data
        except ImportError:
            raise extra("torch_geometric", "graph", "a model that takes a graph as one object") from None
        n_graphs = {} if batch is None else {"num_graphs": int(batch.max()) + 1}
        data = Data(x=x, edge_index=edge_index, edge_weight=edge_weight, edge_attr=edge_attr, batch=batch, **n_graphs)
        try:
            return self.model(data)
        except (AttributeError, KeyError) as error:
            raise ModelError(
                "Expected a model that reads x, edge_index, edge_weight, edge_attr and batch of its graph, got "
                f"{type(error).__name__}: {error}; pass a function of (x, edge_index) that adds what else it reads"
            ) from error


def forgetting(model: Any) -> AbstractContextManager[None]:
    """Have layers with `cached=True` compute anew what they keep of the first edges they saw; restored afterwards."""
    layers = model.modules() if isinstance(model, nn.Module) else ()
    return _forgetting([layer for layer in layers if hasattr(layer, "cached")])


def _forget(layer: nn.Module) -> Callable[[], None] | None:
    if vars(layer).get("cached") is not True:
        return None
    known = {k: v for k, v in vars(layer).items() if k == "cached" or k.startswith("_cached")}
    vars(layer).update(dict.fromkeys(known), cached=False)
    return partial(vars(layer).update, known)


_forgetting: Held[nn.Module] = Held(_forget)
