"""How sure an estimate is: its sampling variance over backgrounds and perturbation draws."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fans.engine.moments import Moments
from fans.engine.neighbourhood import subset_size, subset_sum
from fans.engine.perturbation import baseline_rows
from fans.engine.settings import Settings
from fans.engine.trials import Trials
from fans.modalities.base import DrawnRows
from fans.task import Task

N_RESAMPLED = 3
"""PNS, PN and PS, which come first, are estimated anew by resampling; changes and holds are not."""


def variances(task: Task, trials: Trials, m: Moments, radius: Tensor, tolerance: Tensor, settings: Settings) -> Tensor:
    """Return sampling variances `(J, 5)` of PNS, PN, PS, changes and holds as estimates of their population values.

    The infinitesimal jackknife: each estimate is a function of the weight of every sample and of what was measured on
    it, so its derivatives (by autograd) are the influence of each sample. A background row acts in up to three roles,
    and its influences add up before they are squared: as a sample of E; as a part of the standard deviations that scale
    distances; and as a drawn baseline. The noise of the perturbation draws is inside the first. Local copies of the
    input are samples of their own.
    """
    n_jobs, n_samples = m.p_changed.shape
    leaves = {
        "weight": torch.ones(n_jobs, n_samples, dtype=torch.float64),
        "log_scale": torch.zeros(n_jobs, task.space.n_features, dtype=torch.float64),
        "unchanged_subset": m.unchanged_subset.clone(),
        "p_changed": m.p_changed.clone(),
        "unchanged_rest": m.unchanged_rest.clone(),
        "p_unchanged": m.p_unchanged.clone(),
    }
    with torch.enable_grad():
        for leaf in leaves.values():
            leaf.requires_grad_()
        totals = [one.sum() for one in _estimates_from(trials, m, radius, settings, leaves)]
    sides = _sides(task, trials, m, tolerance, settings)
    out = []
    for place, total in enumerate(totals):  # each of J estimates depends on its own leaves alone
        grads = torch.autograd.grad(total, list(leaves.values()), retain_graph=True, allow_unused=True)
        slopes = {
            name: (g if g is not None else torch.zeros_like(leaf)).nan_to_num()
            for (name, leaf), g in zip(leaves.items(), grads, strict=True)
        }
        redrawn = settings.estimator == "resample" and place < N_RESAMPLED
        out.append(_variance(task, trials, sides, slopes, redrawn=redrawn))
    return torch.stack(out, 1)


def _estimates_from(
    trials: Trials, m: Moments, radius: Tensor, settings: Settings, leaves: dict[str, Tensor]
) -> tuple[Tensor, ...]:
    """Write PNS, PN, PS, changes and holds as differentiable functions of the leaves."""
    near = [m.near_subset, m.near_rest]
    chosen = [trials.subset | trials.rest] * 2 if settings.joint else [trials.subset, trials.rest]
    if settings.kernel == "gaussian" and settings.distance == "rms":
        # k_b depends on each feature's scale: d log k / d log var_f is the feature's share of d^2 / 2 b^2.
        sizes = trials.pool.units.sizes_of(trials.owner)
        for side, features in enumerate(chosen):
            size = subset_size(features, sizes)
            tilt = subset_sum(trials.distances, features * leaves["log_scale"])
            near[side] = near[side] * torch.exp(tilt / (2 * size * radius**2)[:, None])
    on_subset, on_rest = (leaves["weight"] * each for each in near)
    w_nc = on_subset * (1 - leaves["unchanged_subset"])
    w_sf = on_rest * leaves["unchanged_rest"]
    hits_nc, hits_sf = (w_nc * leaves["p_unchanged"]).sum(1), (w_sf * leaves["p_changed"]).sum(1)
    total = (on_subset if settings.joint else leaves["weight"]).sum(1)
    pns = settings.prior * (hits_nc + hits_sf) / total.clamp(min=1e-300)
    shares = ((on_subset, leaves["p_changed"]), (on_rest, leaves["p_unchanged"]))
    means = [(w_nc, leaves["p_unchanged"]), (w_sf, leaves["p_changed"]), *shares]
    return pns, *((weight * often).sum(1) / weight.sum(1).clamp(min=1e-300) for weight, often in means)


@dataclass(frozen=True)
class _Side:
    """What the perturbations of one side did beyond their samples' means.

    Attributes:
        soft, hard: the leaves they acted on: the weight, and PN or PS.
        excess_soft, excess_hard: `(J, S, K)` what each added to those.
        rows: `(J, S * K)` the background row each took its baseline from, or None if the baseline is fixed.
    """

    soft: str
    hard: str
    excess_soft: Tensor
    excess_hard: Tensor
    rows: Tensor | None


def _sides(task: Task, trials: Trials, m: Moments, tolerance: Tensor, settings: Settings) -> list[_Side]:
    """Return the excesses of perturbing the subset, and the rest."""
    c = tolerance[:, None, None]
    sides = (
        (trials.on_subset, trials.jobs_subset, "unchanged_subset", "p_changed"),
        (trials.on_rest, trials.jobs_rest, "unchanged_rest", "p_unchanged"),
    )
    out = []
    for (changes, jobs, soft, hard), factual, interventional in zip(
        sides, trials.factual, trials.interventional, strict=True
    ):
        moved = (changes.change > c).double()
        counted = moved if hard == "p_changed" else 1 - moved
        excess_soft = factual[:, None] * (settings.unchanged(changes.change, c) - getattr(m, soft)[..., None])
        excess_hard = interventional[:, None] * (counted - getattr(m, hard)[..., None])
        rows = None
        if isinstance(task.baseline, DrawnRows):
            n_samples, k = moved.shape[1:]
            source = trials.pool.source[jobs.index].repeat_interleave(k, 1)
            rows = baseline_rows(task, jobs.row_keys[:, None], torch.arange(n_samples * k), source)
        out.append(_Side(soft, hard, excess_soft, excess_hard, rows))
    return out


def _variance(task: Task, trials: Trials, sides: list[_Side], slopes: dict[str, Tensor], *, redrawn: bool) -> Tensor:
    """Add up the influence of each background row in all its roles, and square.

    `redrawn`: whether the estimate counts other perturbations than those of the trials, which stand in for them.
    """
    n_jobs, n_rows = len(trials.subset), len(task.background)
    source = trials.pool.source[trials.jobs_subset.index]  # (J, S)
    of_sample = slopes["weight"]
    local = (of_sample**2 * (source < 0)).sum(1)
    of_row = torch.zeros(n_jobs, n_rows, dtype=torch.float64)
    of_row.scatter_add_(1, source.clamp(min=0), of_sample * (source >= 0))
    # Within a feature the elements' variances are taken to count alike.
    units = trials.pool.units
    by_element = units.spread(slopes["log_scale"] / units.sizes_of(trials.owner).clamp(min=1), trials.owner)
    of_row += by_element @ task.deviations.T / n_rows
    noise = torch.zeros(n_jobs, dtype=torch.float64)
    for side in sides:
        of_hard = slopes[side.hard][..., None] * side.excess_hard
        if side.rows is not None:
            residual = (slopes[side.soft][..., None] * side.excess_soft + of_hard).flatten(1)
            of_row.scatter_add_(1, side.rows, residual)
            noise += (residual**2).sum(1)  # the draws' own noise is in the samples' influence already
        if redrawn:
            noise += (of_hard**2).sum((1, 2))
    squares = (of_row**2).sum(1)
    total = torch.maximum(squares - noise, squares / 4)  # in a small sample the noise may be overestimated
    return total * n_rows / max(n_rows - 1, 1) + local
