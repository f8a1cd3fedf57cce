"""A graph small enough to look at: its edges in reach, or the best of them, and where to put their nodes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fans.errors import extra
from fans.explanation import Explanation
from fans.report.colours import CHOSEN
from fans.types import Array

MOST_EDGES = 80
"""Edges shown of a larger graph: the chosen ones, the explained node's own, and the best others that touch these."""

GREYS = ("#cdd5dd", "#8c9aa8")
"""Of edges that were not chosen: most, and those with a score of note."""

NOTABLE = 0.3
"""Share of the largest score above which a score is one of note."""

ROOM = 0.026
"""Least distance of a node from an edge of others, as a share of the drawing's width."""

WITHIN = 4
"""Letters that fit into a node."""

CROWD = 25
"""Nodes of which long names would hide each other."""

Place = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """An edge: its nodes, their places, whether it was chosen, its score as a share of the largest, and its number."""

    nodes: tuple[int, int]
    ends: tuple[Place, Place]
    chosen: bool
    share: float
    feature: int = -1

    @property
    def width(self) -> float:
        """How wide to draw it, in points."""
        return 1.8 + 1.8 * self.share if self.chosen else 0.7 + 1.3 * self.share

    @property
    def colour(self) -> str:
        """In which colour."""
        return CHOSEN if self.chosen else GREYS[self.share > NOTABLE]


@dataclass(frozen=True)
class Drawing:
    """Where to put nodes by their numbers, which edges to draw, and how many edges are left out.

    Attributes:
        named: the nodes that matter: ends of chosen edges, and the explained one.
        names: what to write at a node; of a crowd of long names only those at edges of note.
    """

    places: dict[int, Place]
    lines: tuple[Line, ...]
    explained: int | None
    named: frozenset[int]
    n_hidden: int
    names: dict[int, str]

    @property
    def left_out(self) -> str:
        """What a caption ends with where edges are left out."""
        return f"; {self.n_hidden:,} edges are not shown" if self.n_hidden else ""


def drawing(e: Explanation, i: int) -> Drawing:
    """Lay out the part of input `i` that is worth showing."""
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
    others = [f for f in order if not e.subset[i, f]]
    shown = order if len(order) <= MOST_EDGES else [*chosen, *_around(chosen, others, ends, explained)]
    named = {node for f in chosen for node in ends[f]} | ({explained} if explained is not None else set())
    places = _laid_out([ends[f] for f in shown], named)
    largest = float(np.nanmax(np.abs(e.scores[i]), initial=0.0)) or 1.0
    lines = tuple(
        Line(
            nodes=ends[f],
            ends=(places[ends[f][0]], places[ends[f][1]]),
            chosen=bool(e.subset[i, f]),
            share=max(float(e.scores[i, f]), 0.0) / largest,
            feature=f,
        )
        for f in reversed(shown)
    )
    names = {node: e.node_name(node) for node in places}
    if len(places) > CROWD:
        of_note = named | {node for f in shown if e.scores[i, f] > NOTABLE * largest for node in ends[f]}
        names = {node: name for node, name in names.items() if node in of_note or fits(name)}
    return Drawing(places, lines, explained, frozenset(named), len(order) - len(shown), names)


def fits(name: str) -> bool:
    """Tell whether a name can be written within a node's circle."""
    return len(name) <= WITHIN


def _around(chosen: list[int], others: list[int], ends: dict[int, tuple[int, int]], explained: int | None) -> list[int]:
    """Return the explained node's own edges, then the best others, one after another, that touch what is shown."""
    own = [f for f in others if explained in ends[f]][: max(0, MOST_EDGES - len(chosen))]
    seen = {node for f in [*chosen, *own] for node in ends[f]}
    out, left = own, [f for f in others if f not in own]
    while len(chosen) + len(out) < MOST_EDGES and left:
        following = next((f for f in left if seen & set(ends[f])), left[0])
        left.remove(following)
        out.append(following)
        seen |= set(ends[following])
    return out


def _laid_out(edges: list[tuple[int, int]], named: set[int]) -> dict[int, Place]:
    """Return where to put the nodes: distances like those along edges, no node on an edge of others."""
    try:
        import networkx
    except ImportError:
        raise extra("networkx", "graph", "a drawn graph") from None
    graph = networkx.Graph(edges)
    graph.add_nodes_from(named)
    if not len(graph):
        return {}
    nodes = sorted(graph)
    where = {node: k for k, node in enumerate(nodes)}
    ends = np.array([(where[u], where[v]) for u, v in graph.edges if u != v], dtype=int).reshape(-1, 2)
    matter = np.isin(nodes, list(named))
    places = _laid_around(_distances(graph, nodes), matter)
    for anchor in sorted(named):
        for part in networkx.connected_components(graph.subgraph(set(graph) - {anchor})):
            if not part & named:
                places = _turned(places, where[anchor], [where[node] for node in part], ends, matter)
    places = _apart(places, ends)
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, places, strict=True)}


def _distances(graph: Any, nodes: list[int]) -> Array:
    """Return how many edges lie between any two nodes; those that nothing joins are a bit further than any others."""
    import networkx

    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    furthest = max(max(reached.values()) for reached in lengths.values())
    return np.array([[lengths[u].get(v, furthest + 1) for v in nodes] for u in nodes], dtype=float)


def _laid_around(distances: Array, named: Array) -> Array:
    """Return places for all nodes: the named ones first and with more room, the others around them."""
    both = named[:, None] & named
    wanted = distances * np.where(both, 1.6, 1.0)
    begun = _scaled(wanted)
    if named.any():
        core = wanted[np.ix_(named, named)]
        begun[named] = _aligned(_settled(core, _scaled(core)), begun[named])
    return _settled(wanted, begun, np.where(both, 30.0, 1.0))


def _settled(wanted: Array, places: Array, importance: float | Array = 1.0, rounds: int = 150) -> Array:
    """Return places moved until they are as far from each other as wanted (stress majorisation)."""
    one = np.eye(len(wanted))
    weights = (1 - one) * importance / (wanted + one) ** 2
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(rounds):
        apart = np.linalg.norm(places[:, None] - places, axis=-1)
        pull = -weights * wanted / np.maximum(apart, 1e-9)
        places = inverse @ ((pull - np.diag(pull.sum(1))) @ places)
    return places


def _aligned(places: Array, to: Array) -> Array:
    """Return places turned, mirrored and moved to lie as close as they can to others."""
    left, _, right = np.linalg.svd((places - places.mean(0)).T @ (to - to.mean(0)))
    out: Array = (places - places.mean(0)) @ left @ right + to.mean(0)
    return out


def _scaled(wanted: Array) -> Array:
    """Return first places by classical scaling; no two nodes at one place."""
    n = len(wanted)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ wanted**2 @ centre)
    turn = np.arange(n) * 2.399963  # the golden angle
    places: Array = 0.05 * np.stack([np.cos(turn), np.sin(turn)], 1)
    places[:, : min(n, 2)] += vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    return places


def _turned(places: Array, anchor: int, part: list[int], ends: Array, named: Array, n_angles: int = 16) -> Array:
    """Return the places with a part that hangs on one node turned around it, where it crosses fewer edges so."""
    fewest, centre = _crossings(places, ends, named), places[anchor]
    best = places
    for angle in 2 * np.pi * np.arange(1, n_angles if fewest else 1) / n_angles:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        tried = places.copy()
        tried[part] = centre + (places[part] - centre) @ turn.T
        if (n := _crossings(tried, ends, named) + _crowding(tried, part)) < fewest:
            fewest, best = n, tried
    return best


def _crowding(places: Array, part: list[int]) -> float:
    """Return how close a part comes to other nodes, from 0 (an edge's length away) to 1."""
    others = np.delete(places, part, 0)
    return max(0.0, 1 - float(np.linalg.norm(places[part][:, None] - others, axis=-1).min()))


def _crossings(places: Array, ends: Array, named: Array) -> float:
    """Return how many edges cross, those between named nodes counted ten times."""
    start, stop = places[ends[:, 0]], places[ends[:, 1]]

    def side(of: Array) -> Array:  # (edges, edges): which side of each edge a place lies on
        along, to = (stop - start)[:, None], of - start[:, None]
        out: Array = np.sign(along[..., 0] * to[..., 1] - along[..., 1] * to[..., 0])
        return out

    apart = side(start) * side(stop) < 0
    joined = (ends[:, None, :, None] == ends[None, :, None, :]).any((2, 3))
    weight = np.where(named[ends].all(1), 10, 1)
    return float(((apart & apart.T & ~joined) * np.maximum(weight, weight[:, None])).sum()) / 2


def _apart(places: Array, ends: Array, rounds: int = 200) -> Array:
    """Return the places after pushing nodes off each other, and off the edges that join others."""
    for _ in range(rounds):
        room = ROOM * float(np.ptp(places, 0).max())
        push = _from_nodes(places, 2.2 * room) + _from_edges(places, ends, room)
        if not push.any():
            break
        places = places + push
    return places


def _from_nodes(places: Array, room: float) -> Array:
    """Return by how much to move nodes that are closer to each other than `room`."""
    away = places[:, None] - places
    apart = np.linalg.norm(away, axis=-1) + np.eye(len(places)) * 2 * room
    short = np.maximum(room - apart, 0)
    out: Array = 0.3 * (away * (short / np.maximum(apart, 1e-9))[..., None]).sum(1)
    return out


def _from_edges(places: Array, ends: Array, room: float) -> Array:
    """Return by how much to move nodes that are closer than `room` to an edge of others, and the edge against them."""
    push = np.zeros_like(places)
    if not len(ends):
        return push
    start, along = places[ends[:, 0]], places[ends[:, 1]] - places[ends[:, 0]]
    share = ((places[:, None] - start) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-12)  # (nodes, edges)
    away = places[:, None] - (start + np.clip(share, 0, 1)[..., None] * along)
    apart = np.linalg.norm(away, axis=-1)
    across = np.stack([-along[:, 1], along[:, 0]], -1) / np.maximum(np.linalg.norm(along, axis=-1), 1e-9)[:, None]
    unit = np.where((apart > 1e-6)[..., None], away / np.maximum(apart, 1e-9)[..., None], across)
    own = (np.arange(len(places))[:, None, None] == ends).any(-1)
    step = 0.25 * unit * np.where(own, 0, np.maximum(room - apart, 0))[..., None]
    push += step.sum(1)
    for side in (0, 1):
        np.add.at(push, ends[:, side], -0.5 * step.sum(0))
    return push
