"""The neighbourhood of an input: its samples, how far they are, and how far is near."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import (
    effective_size,
    ess_radius,
    gaussian,
    paper_radius,
    perturb,
    scott_radius,
)
from fans.engine.inputs import per_input
from fans.engine.settings import Search
from fans.errors import choose
from fans.modalities.base import Distance, Fixed, Mixed, OfSample, Units
from fans.task import Task


@dataclass(frozen=True)
class Reference:
    """The samples E of each of B inputs, drawn from one pool so that shared ones are held and evaluated once.

    Attributes:
        pool: `(P, E)` all samples.
        outputs: `(P, C)` the model's outputs on them.
        of: `(P,)` which input each is a copy of, by its place among those of its layout; background rows are of none.
        index: `(B, S)` which of the pool are the samples of each input.
        source: `(P,)` the background row each pool sample is, or -1.
        units: the features of each input.
        missing: `(P, E)` each sample's own baseline, where it has one.
    """

    pool: Tensor
    of: Tensor
    outputs: Tensor
    index: Tensor
    source: Tensor
    units: Units
    missing: Tensor | None

    @classmethod
    def shared(cls, task: Task, x: Tensor) -> "Reference":
        """Use exactly the background for every input `(B, E)`."""
        rows = torch.arange(len(task.background))
        units, missing = task.space.units(x), own_baselines(task, task.background)
        nobody = torch.full_like(rows, -1)
        return cls(task.background, nobody, task.outputs, rows.expand(len(x), -1), rows, units, missing)

    @classmethod
    def around(
        cls,
        task: Task,
        x: Tensor,
        ids: Sequence[int | str],
        seed: int,
        n_background: int,
        n_local: int,
        noise: float,
        of: Tensor | None = None,
    ) -> tuple["Reference", Tensor]:
        """Give each input its own E: some background rows, the input itself, and local copies of it.

        In a local copy each feature is swapped with a background row's at a low rate, so that the neighbourhood is
        populated however high the dimension; or, if `noise` is above 0, every element gets normal noise of that many
        of its standard deviations. The background rows are the same for all inputs. `of` `(B,)` are the places of the
        inputs among those of their layout, by default from the first on.

        Returns:
            The reference set, and the outputs on `x` `(B, C)`. It costs `1 + n_local` model rows an input.
        """
        kept = background_sample(task, seed, n_background)
        of = torch.arange(len(x)) if of is None else of
        units = task.space.units(x, of)
        place = torch.arange(n_local).expand(len(x), -1)
        keys = [draws.stream_keys(seed, ids, f"local/{what}")[:, None].expand_as(place) for what in ("hit", "donor")]
        owner = torch.arange(len(x)).repeat_interleave(n_local)
        if noise:
            normals = draws.normal(keys[0].flatten()[:, None], task.space.draw_places(place.flatten()))
            copies = x[owner] + task.space.noise(normals, noise, relative=True).to(x.dtype)
        else:
            rate = max(task.space.swap_rate, 1 / task.space.n_features)
            hit = draw_features(task, keys[0].flatten(), place.flatten(), rate)
            hit &= units.present if units.shared else units.present[owner]
            donors = task.background[draws.integers(keys[1], place, len(task.background))].flatten(0, 1)
            copies = perturb(x[owner], units.spread(draws.numbers(hit, x.dtype), owner), donors)
        n_own = 1 + n_local
        own = torch.cat([x[:, None], copies.view(len(x), n_local, x.shape[1])], 1).flatten(0, 1)  # (B * n_own, E)
        of_own = of.repeat_interleave(n_own)
        outputs = task.predict(own, of_own)
        places_kept = torch.arange(len(kept)).expand(len(x), -1)
        places_own = len(kept) + torch.arange(len(own)).view(len(x), n_own)
        index = torch.cat([places_kept, places_own], 1)
        source = torch.cat([kept, torch.full((len(own),), -1)])
        rows = torch.cat([task.background[kept], own])
        whose = torch.cat([torch.full_like(kept, -1), of_own])
        answers = torch.cat([task.outputs[kept], outputs])
        return cls(rows, whose, answers, index, source, units, own_baselines(task, rows)), outputs[::n_own]

    def solid(self, task: Task) -> Tensor:
        """Tell which features of each input, `(B, F)` or `(1, F)`, are at their baseline in no sample at all."""
        units = self.units
        if isinstance(task.baseline, Fixed):
            differs = (self.pool != task.baseline.row).all(0)
        elif self.missing is not None:
            differs = (self.pool != self.missing).all(0)
        elif isinstance(task.baseline, Mixed):
            differs = torch.ones(self.pool.shape[1], dtype=torch.bool)
            for rows in torch.split(self.pool, task.predict.max_batch):
                for function in task.baseline.functions:
                    differs &= (rows != function(rows)).all(0)
        else:
            differs = torch.zeros(self.pool.shape[1], dtype=torch.bool)
        elements = differs.double().expand(len(units.of_element), 1, -1)
        return units.collect(elements)[:, 0] > 0

    def samples(self) -> Tensor:
        """Return `(B, S, E)`, or `(1, S, E)` where all inputs share them."""
        index = self.index[:1] if self.index.stride(0) == 0 else self.index
        return self.pool[index]


def draw_features(
    task: Task, keys: Tensor, place: Tensor, p: float, *, blocks: bool = True, offset: Tensor | None = None
) -> Tensor:
    """Draw features `(n, F)` with probability `p`: each alone, or on a fine grid in blocks at an offset of their own.

    `keys` `(n,)` and `place` `(n,)` say where the draws come from. `blocks=False` draws each alone on any grid;
    `offset` `(n, 2)` is for draws that are to share theirs.
    """
    grid = task.space.blocks() if blocks else None
    if grid is None:
        return draws.bernoulli(keys, place, task.space.n_features, p)
    if offset is None:  # from places that the bits do not use
        offset = draws.integers(keys[:, None], -1 - (2 * place[:, None] + torch.arange(2)), grid.side)
    return grid.masks(draws.bernoulli(keys, place, grid.n, p), offset)


def own_baselines(task: Task, rows: Tensor) -> Tensor | None:
    """Return the baseline of each sample `(n, E)`, where it is its own; those that are mixed are made when needed."""
    return task.baseline.function(rows) if isinstance(task.baseline, OfSample) else None


def background_sample(task: Task, seed: int, n: int | None) -> Tensor:
    """Return the places of `n` background rows (all by default), the same for every input."""
    everything = torch.arange(len(task.background))
    order = draws.words(draws.stream_keys(seed, [0], "reference"), everything).argsort()
    return everything if n is None else order[:n].sort().values


@dataclass(frozen=True)
class InputBatch:
    """Some inputs, ready for trials.

    Attributes:
        pool: their samples.
        distances: `(B, S, F)` squared distance by feature between each input and its samples.
        target: `(B,)` explained class.
        ids: names that key the draws.
        radius, tolerance: `(B,)` b and c.
        search: what to try for b and c, if they are only where a search starts (`fans.pns` alone).
        seed: of the draws.
        graded: whether a solver may count changes by their size, the user having set no tolerance.
    """

    pool: Reference
    distances: Tensor
    target: Tensor
    ids: Sequence[int | str]
    radius: Tensor
    tolerance: Tensor
    search: Search | None
    seed: int
    graded: bool = False

    @property
    def own(self) -> Tensor:
        """Where each input `(B, 1)` is in the pool: it is among its own samples, at distance 0."""
        shared = self.pool.source[self.pool.index] >= 0  # a background row may be the same, but counts as another
        place = self.distances.sum(2).masked_fill(shared, torch.inf).argmin(1, keepdim=True)
        return self.pool.index.gather(1, place)

    def at(self, some: Tensor) -> "InputBatch":
        """Return the block of some of its inputs `(n,)`."""
        return replace(
            self,
            pool=replace(self.pool, index=self.pool.index[some], units=self.pool.units.at(some)),
            distances=self.distances[some],
            target=self.target[some],
            ids=[self.ids[i] for i in some.tolist()],
            radius=self.radius[some],
            tolerance=self.tolerance[some],
        )

    def nearest(self, n: int) -> "InputBatch":
        """Return the block with the `n` nearest samples of each input."""
        place = self.distances.sum(2).argsort(dim=1, stable=True)[:, :n]
        distances = self.distances.gather(1, place[..., None].expand(-1, -1, self.distances.shape[2]))
        return replace(self, pool=replace(self.pool, index=self.pool.index.gather(1, place)), distances=distances)

    def keys(self, stage: str) -> Tensor:
        """Return the key `(B,)` of each input's own stream of draws in a stage."""
        return draws.stream_keys(self.seed, self.ids, stage)


def subset_sum(distances: Tensor, weights: Tensor) -> Tensor:
    """Sum distances by feature `(B, S, F)` over the weighted features `(J, F)` of each subset: `(J, S)`."""
    grouped = weights.to(distances.dtype).view(len(distances), -1, weights.shape[1])
    return (grouped @ distances.transpose(1, 2)).flatten(0, 1)


def subset_distance(distances: Tensor, subset: Tensor, sizes: Tensor, kind: Distance) -> Tensor:
    """Return squared distances `(J, S)` on the features of each subset `(J, F)`; 0 for an empty one.

    `sizes` `(J or 1, F)` says how many elements each feature counts for.
    """
    total = subset_sum(distances, draws.numbers(subset, distances.dtype))
    return total / subset_size(subset, sizes)[:, None].to(total.dtype) if kind == "rms" else total


def subset_size(subset: Tensor, sizes: Tensor) -> Tensor:
    """Return how many elements each subset has in a distance, `(J,)`, at least 1."""
    total = (
        draws.numbers(subset, torch.float64) @ sizes[0].double()
        if len(sizes) == 1
        else (subset * sizes.double()).sum(1)
    )
    return total.clamp(min=1)


RADII = ("scott", "ess", "paper")


def given_radius(radius: Any, n_inputs: int) -> Tensor | str | None:
    """Check the user's radius: numbers become one per input, names must be known."""
    if radius is None:
        return None
    if isinstance(radius, str):
        return choose("`radius`", radius, RADII)
    return per_input("radius", radius, n_inputs, positive=True)


def resolve_radius(radius: Tensor | str | None, part: slice, distances: Tensor, units: Units, kind: Distance) -> Tensor:
    """Return the radius of each input of a block `(B,)`: as given, or by a named rule.

    `None` is Scott's rule, or, where that leaves fewer than ten effective samples (counted over all features, so that
    all subsets of an input share the radius), the radius that has ten.
    """
    n_inputs, n_samples, _ = distances.shape
    if isinstance(radius, Tensor):
        return radius[part]
    if radius == "paper":
        each = [paper_radius(n_samples, int(n_dimensions)) for n_dimensions in units.size.sum(1)]
        return torch.tensor(each, dtype=torch.float64).expand(n_inputs)
    scott = torch.full((n_inputs,), scott_radius(n_samples), dtype=torch.float64)
    if radius == "scott":
        return scott
    squared = subset_distance(distances, units.present.expand(n_inputs, -1), units.size, kind)
    if radius == "ess":
        return ess_radius(squared, max(min(10.0, n_samples / 2), n_samples / 5))
    wanted = min(10.0, n_samples / 2)
    poor = effective_size(gaussian(squared, scott[:, None])) < wanted
    return torch.where(poor, torch.maximum(scott, ess_radius(squared, wanted)), scott) if poor.any() else scott
