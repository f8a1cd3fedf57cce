"""The additive game: random subsets against their complements, and a regression. No gradients, any black box."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fans import draws
from fans.explainers._shared import Scores, Without
from fans.pns import KERNELS, Settings
from fans.task import Task
from fans.trials import Block, Jobs, run, subset_distance

LEAST_PAIRS = 125
"""Pairs that a round of the game needs at least."""


@dataclass(frozen=True)
class Partition:
    """Features of each input put into groups that are drawn together.

    Attributes:
        of_feature: `(B, F)` the group of each feature.
        size: `(B, G)` features in each group; 0 for one that does not exist.
    """

    of_feature: Tensor
    size: Tensor

    @classmethod
    def of(cls, labels: Tensor, present: Tensor, n_groups: int) -> "Partition":
        """Count the groups that `labels` `(B, F)` name, over the features that are present."""
        size = torch.zeros(len(labels), n_groups, dtype=torch.float64)
        return cls(labels, size.scatter_add_(1, labels, present.expand_as(labels).double()))

    def spread(self, of_groups: Tensor) -> Tensor:
        """Give each feature its group's value: `(B, M, G)` to `(B, M, F)`."""
        index = self.of_feature[:, None].expand(-1, of_groups.shape[1], -1)
        return of_groups.gather(2, index)


def play(task: Task, block: Block, settings: Settings, n_pairs: int, ridge: float, without: Without) -> Scores:
    """Score every feature by its Banzhaf value in the game of PNS.

    Where there are too many features for one regression, and the space can group them (pixels into patches), the game
    is played on coarse groups first; the groups that matter most are then split, and the next round estimates how the
    parts differ from the share of the whole that fell to them.
    """
    present = block.pool.units.present.expand(len(block.target), -1)
    levels = _numbered(task.space.levels())
    n_rounds = max(1, min(len(levels), n_pairs // LEAST_PAIRS))
    density = torch.zeros(present.shape, dtype=torch.float64)  # of each feature: its group's score over its size
    variance, spent = torch.zeros_like(density), torch.zeros(len(present), dtype=torch.int64)
    depth = torch.zeros_like(present, dtype=torch.int64)  # which level's group each feature is in
    n_groups = int(levels[0].max()) + 1
    labels = levels[0].expand_as(depth)
    for i in range(n_rounds):
        if i:
            depth, n_groups = _split(labels, n_groups, depth, levels, density * present)
            labels = _renumbered(levels.T[torch.arange(depth.shape[1]), depth])
        parts = Partition.of(labels, present, n_groups)
        size = parts.size.clamp(min=1)
        stage = f"game/{i}" if i else "game"
        found = _round(task, block, settings, parts, density, n_pairs // n_rounds, ridge, stage, without)
        assert found.se is not None
        density = density + (found.scores / size).gather(1, labels)
        variance = (found.se / size).gather(1, labels) ** 2
        spent = spent + found.n_rows
    return Scores(density * present, variance.sqrt() * present, spent)


def _numbered(levels: list[Tensor]) -> Tensor:
    """Return the groupings as one table `(levels, F)`, no two levels sharing a number."""
    offset, out = 0, []
    for level in levels:
        out.append(level + offset)
        offset = int(out[-1].max()) + 1
    return torch.stack(out)


def _renumbered(labels: Tensor) -> Tensor:
    """Number the groups of each input `(B, F)` from 0 without gaps."""
    used = torch.zeros(len(labels), int(labels.max()) + 1, dtype=torch.int64).scatter_(1, labels, 1)
    return (used.cumsum(1) - 1).gather(1, labels)


def _split(labels: Tensor, n_groups: int, depth: Tensor, levels: Tensor, density: Tensor) -> tuple[Tensor, int]:
    """Send the quarter of groups with the largest total scores one level down.

    Returns:
        The new depth of each feature, and how many groups that makes at most, whatever the input.
    """
    n_split = max(1, n_groups // 4)
    total = torch.zeros(len(labels), n_groups, dtype=torch.float64).scatter_add_(1, labels, density)
    order = total.abs().argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    deeper = (order < n_split).gather(1, labels).long()
    pairs = [torch.unique(torch.stack([a, b], 1), dim=0)[:, 0] for a, b in itertools.pairwise(levels)]
    most_parts = max(int(parents.bincount().max()) for parents in pairs)
    return (depth + deeper).clamp(max=len(levels) - 1), n_groups + n_split * (most_parts - 1)


def _round(
    task: Task,
    block: Block,
    settings: Settings,
    parts: Partition,
    known: Tensor,
    n_pairs: int,
    ridge: float,
    stage: str,
    without: Without,
) -> Scores:
    """Draw pairs of subsets of groups, ask the model, and regress what is not `known` `(B, F)` yet on the groups."""
    exists = parts.size > 0
    subset, hit = (
        _bits(block, f"{stage}/{what}", p, n_pairs, parts.size.shape[1])
        for what, p in (("subset", 0.5), ("hit", settings.phi))
    )
    hit &= exists[:, None]
    sides = torch.cat([hit & subset, hit & ~subset])  # (2 B, M, G)
    plain = parts.size.shape[1] == parts.of_feature.shape[1]
    twice = Partition(parts.of_feature.repeat(2, 1), parts.size.repeat(2, 1))
    of_features = sides if plain else twice.spread(sides)  # (2 B, M, F)
    chosen = subset if plain else parts.spread(subset)
    sample, closeness = _samples(block, chosen, settings, f"{stage}/sample", without)  # (B, M) each
    index = block.pool.index.gather(1, sample)
    keys = torch.cat([block.keys(f"{stage}/subset/row"), block.keys(f"{stage}/rest/row")])
    owner = torch.arange(len(index)).repeat(2)
    jobs = Jobs(owner, index.repeat(2, 1), of_features[:, 0], block.target.repeat(2), keys, keys)
    change, n_rows = run(task, block.pool, jobs, 1, _lookup(of_features), settings.change)
    changed = _changed(torch.cat(change[..., 0].chunk(2), 1), block)  # (B, 2 M)
    y = closeness * (changed[:, :n_pairs] - changed[:, n_pairs:])
    design = sides[: len(index)].double() - sides[len(index) :].double()
    if known.any():
        total = torch.zeros_like(parts.size).scatter_add_(1, parts.of_feature, known)  # of each group, as known
        y = y - (design @ total[..., None])[..., 0] / settings.phi
    scores, se = _fit(design, y, sample, block.pool.index.shape[1], ridge)
    return Scores(settings.phi * scores, settings.phi * se, n_rows.view(2, -1).sum(0))


def _bits(block: Block, stage: str, p: float, n_pairs: int, n_groups: int) -> Tensor:
    """Return `(B, M, G)` Bernoulli draws."""
    place = torch.arange(n_pairs).repeat(len(block.target))
    flat = draws.bernoulli(block.keys(stage).repeat_interleave(n_pairs), place, n_groups, p)
    return flat.view(len(block.target), n_pairs, -1)


def _samples(block: Block, subset: Tensor, settings: Settings, stage: str, without: Without) -> tuple[Tensor, Tensor]:
    """Draw one sample a pair in proportion to its closeness on the subset `(B, M, F)` or outside it.

    One input at a time, in single precision, so that the closeness of all its pairs and samples stays in the cache.

    Returns:
        The sample's place in the input's reference set, and the mean closeness of all samples, `(B, M)` each.
    """
    n_pairs, n_samples = subset.shape[1], block.pool.index.shape[1]
    u = draws.uniform(block.keys(stage)[:, None], torch.arange(n_pairs))
    if without == "SR":  # no sampling by closeness: every sample counts alike
        return (u * n_samples).long(), torch.ones_like(u)
    places, means = [], []
    for i in range(len(subset)):
        near = _pair_closeness(block, i, subset[i], settings, without)
        cumulative = near.cumsum(1)  # (M, S)
        drawn = torch.searchsorted(cumulative, (u[i, :, None] * cumulative[:, -1:]).float())
        places.append(drawn[:, 0].clamp(max=n_samples - 1))
        means.append(cumulative[:, -1].double() / n_samples)
    return torch.stack(places), torch.stack(means)


def _lookup(hits: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the hits `(B, M, F)` as the function of (job, place) that `run` asks."""
    return lambda job, place: hits[job, place]


def _pair_closeness(block: Block, i: int, subset: Tensor, settings: Settings, without: Without) -> Tensor:
    """Return `(k_b(D_s) + k_b(D_not-s)) / 2` of every sample for every subset of one input, `(M, S)`.

    The first is the weight of the necessity term, the second of the sufficiency term: an ablation keeps the other.
    """
    kernel, units = KERNELS[settings.kernel], block.pool.units
    sizes = units.size if units.shared else units.size[i : i + 1]
    distances, radius = block.distances[i : i + 1].float(), block.radius[i].float()
    sides = {"NC": subset & (sizes > 0), "SF": ~subset & (sizes > 0)}
    if without is not None:
        del sides[without]
    near = [kernel(subset_distance(distances, s, sizes, settings.distance), radius) for s in sides.values()]
    return sum(near[1:], near[0]) / 2


def _changed(change: Tensor, block: Block) -> Tensor:
    """Say how much each change `(B, N)` counts as one.

    0 or 1 by the tolerance; or, where that is searched for, its mean over tolerances just below each change that
    exceeds the least the search tries: the share of those changes that are no larger.
    """
    if not block.search:
        return (change > block.tolerance[:, None]).double()
    least = block.search.tolerance_grid(block.tolerance, change.amax(1)).amin(1, keepdim=True)
    real = change > least
    no_larger = torch.searchsorted(change.sort(1).values, change, right=True) - (~real).sum(1, keepdim=True)
    return torch.where(real, no_larger / real.sum(1, keepdim=True), torch.zeros(())).double()


def _fit(design: Tensor, y: Tensor, sample: Tensor, n_samples: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Fit `y = design @ slopes` for each input by ridge regression; return slopes and standard errors `(B, F)`.

    The errors allow for unequal noise and for pairs that share a sample (`sample`: which one) erring together, so they
    cover the choice of samples as well as the draws.
    """
    gram = design.transpose(1, 2) @ design
    inverse = torch.linalg.inv(gram + torch.diag_embed(gram.diagonal(dim1=1, dim2=2) * ridge + 1e-9))
    slopes = (inverse @ (design.transpose(1, 2) @ y[..., None]))[..., 0]
    pull = design * (y - (design @ slopes[..., None])[..., 0])[..., None]  # (B, M, F)
    by_sample = torch.zeros(len(pull), n_samples, pull.shape[2], dtype=pull.dtype)
    by_sample.scatter_add_(1, sample[..., None].expand_as(pull), pull)
    n, n_features = design.shape[1:]
    covariance = inverse @ (by_sample.transpose(1, 2) @ by_sample) @ inverse * (n / max(n - n_features, 1))
    return slopes, covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
