"""Trials: subsets of features and their complements, perturbed on every sample near the input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fans.engine.neighbourhood import InputBatch, Reference
from fans.engine.perturbation import (
    Changes,
    Jobs,
    baselines,
    enumerated_changes,
    n_ways,
    perturbed_changes,
    whole_changes,
)
from fans.engine.settings import Settings
from fans.modalities.base import DrawnRows, Mixed, Noise
from fans.task import Task

ROUNDING = 1e-5
"""Of an input's largest element: less is no difference, but that of a mean or a blur to what it is of."""


@dataclass(frozen=True)
class Trials:
    """What perturbing n subsets of each of B inputs, and their complements, did: J = B * n, grouped by input.

    Attributes:
        pool: the samples.
        distances: `(B, S, F)` squared distance by feature between each input and its samples.
        owner: `(J,)` the input of each subset.
        subset: `(J, F)`.
        rest: `(J, F)` the features outside it.
        on_subset, on_rest: changes of perturbing s and its complement.
        jobs_subset, jobs_rest: where those came from.
        factual, interventional: shares `(J, K)` of each perturbation, of s and of the rest, in the weights, and in PN
            and PS.
    """

    pool: Reference
    distances: Tensor
    owner: Tensor
    subset: Tensor
    rest: Tensor
    on_subset: Changes
    on_rest: Changes
    jobs_subset: Jobs
    jobs_rest: Jobs
    factual: tuple[Tensor, Tensor]
    interventional: tuple[Tensor, Tensor]

    @property
    def n_rows(self) -> Tensor:
        """Model rows spent on each subset, `(J,)`."""
        return self.on_subset.n_rows + self.on_rest.n_rows


def run_trials(task: Task, block: InputBatch, subsets: Tensor, stage: str, settings: Settings) -> Trials:
    """Perturb n subsets `(B, n, F)` of each input, and their complements, on every sample of the input.

    One m serves both sides: they read it on disjoint features, so they stay independent. All subsets of an input share
    its draws, which makes their comparison sharper.
    """
    n_inputs, n_subsets, _ = subsets.shape
    owner = torch.arange(n_inputs).repeat_interleave(n_subsets)
    subset = subsets.flatten(0, 1)
    rest = ~subset & (block.pool.units.present if block.pool.units.shared else block.pool.units.present[owner])
    hit_keys = block.keys(f"{stage}/hit")[owner]
    sides = [
        Jobs(
            owner, block.pool.index[owner], chosen, block.target[owner], hit_keys, block.keys(f"{stage}/{side}")[owner]
        )
        for side, chosen in (("subset", subset), ("rest", rest))
    ]
    if settings.estimator == "exact":
        on_subset, on_rest = (
            enumerated_changes(task, block.pool, jobs, settings.phi, settings.change) for jobs in sides
        )
        factual = interventional = (on_subset.share, on_rest.share)
    elif n_ways(task, settings):
        both = whole_changes(task, block.pool, sides[0].join(sides[1]), settings.change)
        on_subset, on_rest = both.halves()
        factual = interventional = (on_subset.share, on_rest.share)
    else:
        n_kept = settings.n_perturb if settings.estimator == "weighted" else settings.n_factual
        # The joint PNS weighs with the same perturbations that it counts.
        n_factual = n_kept if settings.joint else settings.n_factual
        k = max(n_factual, n_kept)
        if settings.phi == 1 and not task.baseline.drawn:  # all perturbations of a sample are the same
            k = n_factual = n_kept = 1
        both = perturbed_changes(task, block.pool, sides[0].join(sides[1]), k, settings.phi, settings.change)
        on_subset, on_rest = both.halves()
        factual = (_first(k, n_factual, len(owner)),) * 2
        interventional = (_first(k, n_kept, len(owner)),) * 2
    return Trials(
        pool=block.pool,
        distances=block.distances,
        owner=owner,
        subset=subset,
        rest=rest,
        on_subset=on_subset,
        on_rest=on_rest,
        jobs_subset=sides[0],
        jobs_rest=sides[1],
        factual=factual,
        interventional=interventional,
    )


def _first(k: int, n: int, n_jobs: int) -> Tensor:
    """Return equal shares `(J, K)` of the first n of k perturbations."""
    return ((torch.arange(k) < n).double() / n).expand(n_jobs, -1)


def equals_baseline(task: Task, block: InputBatch) -> Tensor:
    """Tell which inputs `(B,)` no perturbation can change, as an image of one colour by its own mean."""
    own = block.own[:, 0]
    if isinstance(task.baseline, DrawnRows | Noise):
        return torch.zeros(len(own), dtype=torch.bool)
    turns = range(len(task.baseline.turns)) if isinstance(task.baseline, Mixed) else range(1)
    keys, x = block.keys("blank"), block.pool.pool[own]
    each = [baselines(task, block.pool, keys, torch.full_like(own, turn), own) for turn in turns]
    largest = x.abs() if task.space.own_scales else x.abs().amax(1, keepdim=True)
    return torch.stack([((missing - x).abs() <= ROUNDING * largest).all(1) for missing in each]).all(0)
