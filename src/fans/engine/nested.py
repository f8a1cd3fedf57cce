"""Nested subsets of one input, from nothing to everything, on the same draws at many tolerances."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fans.engine.estimate import Estimate, estimate
from fans.engine.neighbourhood import InputBatch
from fans.engine.settings import Settings
from fans.engine.trials import run_trials
from fans.task import Task
from fans.types import Array

MULTIPLES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
"""Tolerances, in units of the explanation's own."""

OWN = MULTIPLES.index(1.0)


def order_of(scores: Array, subset: Array, present: Array) -> Array:
    """Return the features that an input has `(n,)`: the subset's members first, higher scores before lower ones."""
    order = np.lexsort((np.arange(len(scores)), -scores, ~subset))
    return order[present[order]]


def size_grid(n: int, chosen: int, most: int) -> list[int]:
    """Return the sizes to look at of 0 to `n`: all, or about `most` of them, ever farther apart, with the chosen one.

    Example:
        >>> size_grid(4, 2, 24)
        [0, 1, 2, 3, 4]
        >>> size_grid(1000, 37, 8)
        [0, 1, 4, 16, 37, 63, 251, 1000]
    """
    if n < most:
        return list(range(n + 1))
    spread = np.geomspace(1, n, max(2, most - 2)).round().astype(int)
    return sorted({0, chosen, *spread.tolist()})


@dataclass(frozen=True)
class Nested:
    """What was found of K nested subsets at T tolerances.

    Attributes:
        shares: `(K, T, 3)` PNS, changes, holds.
        intervals: `(K, T, 3, 2)` theirs.
        tolerances: `(T,)`.
        n_rows: model rows.
    """

    shares: Tensor
    intervals: Tensor
    tolerances: Tensor
    n_rows: int


def nested(
    task: Task, one: InputBatch, order: Array, sizes: list[int], settings: Settings, stage: str = "strict"
) -> Nested:
    """Estimate the subsets of the first features of `order` `(n,)`, for the one input of a block.

    The draws are those of the explanation's own estimate. The estimator that draws samples anew for each subset gives
    way to the weighted one, of which it is an approximation.
    """
    if settings.estimator == "resample":
        settings = replace(settings, estimator="weighted")
    subsets = torch.zeros(1, len(sizes), task.space.n_features, dtype=torch.bool)
    for place, size in enumerate(sizes):
        subsets[0, place, order[:size].tolist()] = True
    trials = run_trials(task, one, subsets, stage, settings)
    tolerances = one.tolerance * torch.tensor(MULTIPLES, dtype=torch.float64)
    if settings.change == "label":  # a class changes or not
        tolerances = one.tolerance
    radius = one.radius.expand(len(sizes))
    found = [
        estimate(task, trials, radius, c.expand(len(sizes)), settings, lambda what: one.keys(f"{stage}/{what}"))
        for c in tolerances
    ]
    return Nested(
        torch.stack([_shares(each) for each in found], 1),
        torch.stack([torch.cat([each.interval[:, :1], each.share_interval], 1) for each in found], 1),
        tolerances,
        int(trials.n_rows.sum()),
    )


def _shares(found: Estimate) -> Tensor:
    """Return PNS, changes and holds `(J, 3)`."""
    return torch.stack([found.point.pns, found.point.changes, found.point.holds], 1)
