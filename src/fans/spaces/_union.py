"""Many perturbed copies of cuttings side by side, as one graph that a model takes in one pass."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from fans.spaces._cutting import Cutting

WIDE = 64
"""More columns than this and copies of nodes share their first layer."""


@dataclass(frozen=True)
class Union:
    """Copies of a cutting side by side, after others."""

    edge_index: Tensor
    weight: Tensor
    attributes: Tensor | None
    target: Tensor
    row_of_node: Tensor


def copies(piece: Cutting, kept: Tensor, n_nodes: int, n_rows: int, weighs: bool) -> Union:
    """Return one copy of a cutting for each row of kept edges `(r, D)`.

    `n_nodes` and `n_rows` come before them. Without weights an edge is there or not, and a joint one is many.
    """
    count, size = len(kept), len(piece.nodes)
    offset = n_nodes + size * torch.arange(count)
    own, attributes = kept * piece.graph.weight[piece.source], None
    if weighs:
        edges = torch.cat([piece.edges, piece.context], 1)
        weight = torch.cat([own, piece.context_weight.expand(count, -1)], 1).flatten()
        edge_index = (edges[:, None] + offset[:, None]).flatten(1)
    else:
        left, weight = (kept > 0.5).flatten(), own
        repeats = torch.where(piece.context_source >= 0, 1, piece.context_weight.round().long())
        context = piece.context.repeat_interleave(repeats, 1)
        inside = (piece.edges[:, None] + offset[:, None]).flatten(1)[:, left]
        edge_index = torch.cat([inside, (context[:, None] + offset[:, None]).flatten(1)], 1)
        if piece.graph.attributes is not None:
            of_context = piece.graph.attributes[piece.context_source.clamp(min=0)]
            of_context = (of_context * (piece.context_source >= 0)[:, None]).repeat_interleave(repeats, 0)
            of_edges = piece.graph.attributes[piece.source].repeat(count, 1)[left]
            attributes = torch.cat([of_edges, of_context.repeat(count, 1)])
    return Union(
        edge_index=edge_index,
        weight=weight,
        attributes=attributes,
        target=offset + max(piece.target, 0),
        row_of_node=(n_rows + torch.arange(count)).repeat_interleave(size),
    )


def join_unions(parts: list[Union]) -> Union:
    """Return all copies of several cuttings as one."""
    attributes = [part.attributes for part in parts if part.attributes is not None]
    return Union(
        edge_index=torch.cat([part.edge_index for part in parts], 1),
        weight=torch.cat([part.weight.flatten() for part in parts]),
        attributes=torch.cat(attributes) if attributes else None,
        target=torch.cat([part.target for part in parts]),
        row_of_node=torch.cat([part.row_of_node for part in parts]),
    )


def linked(union: Union, links: Tensor) -> Union:
    """Return a union with more edges `(2, m)` of weight 1 between its nodes."""
    return replace(
        union,
        edge_index=torch.cat([union.edge_index, links], 1),
        weight=torch.cat([union.weight, union.weight.new_ones(links.shape[1])]),
    )


@dataclass(frozen=True)
class Joined:
    """Cuttings side by side, as a network of ours reads them.

    Attributes:
        x: `(m, d)` what is known of the nodes, each node of a graph once.
        node: `(nodes,)` which of them each node is.
        origin: `(nodes,)` the number of each node in its own graph.
        edges: `(2, M)` the edges that are features, between nodes.
        feature: `(M,)` the feature of each, counted through: cutting * F + feature.
        first, size: `(n,)` the first node of each cutting and how many it has.
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


def join(pieces: list[Cutting], n_features: int) -> Joined:
    """Return cuttings side by side."""
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


def run(model: Any, x: Tensor, edge_index: Tensor, extra: dict[str, Any]) -> Any:
    """Call the model with everything on its device."""
    device = next((p.device for p in model.parameters()), x.device) if isinstance(model, nn.Module) else x.device
    if isinstance(x, _Tiled):
        x = _Tiled([(part.to(device), count) for part, count in x.parts], x.opened)
    return model(x.to(device), edge_index.to(device), **{name: value.to(device) for name, value in extra.items()})
