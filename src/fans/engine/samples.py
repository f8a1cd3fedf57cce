"""Some of the trials behind an estimate, made again to be looked at."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fans.engine.estimate import closeness
from fans.engine.neighbourhood import InputBatch
from fans.engine.perturbation import Changes, Jobs, by_chance, n_ways, perturbed, whole
from fans.engine.settings import Settings
from fans.engine.trials import run_trials
from fans.errors import InputError
from fans.task import Task


@dataclass(frozen=True)
class Shown:
    """Some trials of one side of one input, the nearest first.

    Attributes:
        rows, before: `(n, E)` what was perturbed, and what it was made from.
        outputs, outputs_before: `(n,)` the explained output on both.
        moved: `(n,)` whether the prediction counts as changed.
        weights: `(n,)` how near what it was made from is, from 0 to 1.
    """

    rows: Tensor
    before: Tensor
    outputs: Tensor
    outputs_before: Tensor
    moved: Tensor
    weights: Tensor


def shown_trials(
    task: Task, one: InputBatch, subset: Tensor, n: int, settings: Settings, stage: str = "score"
) -> dict[str, Shown]:
    """Return `n` trials of each side for a subset `(1, F)` of the one input of a block.

    They are those of the estimate: the same draws are made again. Trials that moved the prediction and trials that did
    not are shown in equal numbers, as far as there are any, so that `moved.mean()` estimates nothing.
    """
    if settings.estimator == "exact":
        raise InputError('Expected trials that are drawn, got estimator="exact", which enumerates; use "weighted"')
    trials = run_trials(task, one, subset[:, None], stage, settings)
    near = closeness(trials, one.radius, settings)
    sides = {
        "changed": (trials.jobs_subset, trials.on_subset, near[0]),
        "kept": (trials.jobs_rest, trials.on_rest, near[1]),
    }
    return {name: _side(task, one, *side, n, settings) for name, side in sides.items()}


def _side(task: Task, one: InputBatch, jobs: Jobs, changes: Changes, near: Tensor, n: int, settings: Settings) -> Shown:
    """Choose trials of one side and make them again."""
    k = changes.change.shape[2]
    moved = (changes.change[0] > one.tolerance).flatten()  # (S * K,)
    weights = (near[0] / near[0].max().clamp(min=1e-300)).repeat_interleave(k)
    flat = _fairly(weights, moved, n)
    ways = whole(task, jobs)[0] if n_ways(task, settings) else by_chance(task, jobs, k, settings.phi)
    made = perturbed(task, one.pool, jobs, ways, flat)
    of = one.pool.of[made.origin]
    target = int(one.target)
    return Shown(
        made.rows,
        one.pool.pool[made.origin],
        task.predict(made.rows, of)[:, target],
        one.pool.outputs[made.origin][:, target],
        moved[flat],
        weights[flat],
    )


def _fairly(weights: Tensor, moved: Tensor, n: int) -> Tensor:
    """Return the places of `n` trials, the nearest of those that moved and of those that did not, nearest first."""
    nearest = weights.argsort(descending=True, stable=True)
    yes, no = nearest[moved[nearest]], nearest[~moved[nearest]]
    n_yes = max(min(len(yes), n // 2), min(len(yes), n - len(no)))
    chosen = torch.cat([yes[:n_yes], no[: n - n_yes]])
    return chosen[weights[chosen].argsort(descending=True, stable=True)]
