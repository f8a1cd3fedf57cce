"""Strict PNS from trials: point estimates, standard errors, intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import (
    KERNELS,
    combine,
    effective_size,
    wilson,
)
from fans.engine.moments import Moments, Point, point
from fans.engine.neighbourhood import InputBatch, subset_distance
from fans.engine.perturbation import perturbed_changes
from fans.engine.settings import Search, Settings
from fans.engine.trials import Trials, run_trials
from fans.engine.uncertainty import N_RESAMPLED, variances
from fans.errors import warn
from fans.result import PNS
from fans.task import Task

HANDFUL = 5.0
"""Fewer effective samples than this earn a warning."""


def closeness(trials: Trials, radius: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Return `k_b` of the distance on each subset and on its rest, `(J, S)` each.

    With s = all there is no rest whose perturbation could be the event not-A: its kernel counts for nothing. Of the
    joint PNS both are the closeness on all features, the same for all subsets of an input, with a mean of 1; NaN where
    no sample is within the radius.
    """
    kernel = KERNELS[settings.kernel]
    sizes = trials.pool.units.sizes_of(trials.owner)
    if settings.joint:
        squared = subset_distance(trials.distances, trials.subset | trials.rest, sizes, settings.distance)
        if settings.kernel == "gaussian":  # a factor in common does not matter, and without it all might underflow
            squared = squared - squared.amin(1, keepdim=True)
        near = kernel(squared, radius[:, None])
        near = near / near.mean(1, keepdim=True)
        return near, near
    on_subset, on_rest = (
        kernel(subset_distance(trials.distances, chosen, sizes, settings.distance), radius[:, None])
        for chosen in (trials.subset, trials.rest)
    )
    return on_subset, on_rest.masked_fill(~trials.rest.any(1)[:, None], 0.0)


def moments(near: tuple[Tensor, Tensor], trials: Trials, tolerance: Tensor, settings: Settings) -> Moments:
    """Reduce trials to per-sample moments, given the closeness and one tolerance a subset `(J,)`."""
    c = tolerance[:, None, None]
    average = partial(torch.einsum, "jsk,jk->js")
    on_subset, on_rest = trials.on_subset.change, trials.on_rest.change
    # Weights are to be exactly 0 where nothing changed, or all did, though shares add up to 1 only up to rounding.
    unchanged_subset = 1 - average(1 - settings.unchanged(on_subset, c), trials.factual[0])
    unchanged_rest = average(settings.unchanged(on_rest, c), trials.factual[1])
    changed_subset, changed_rest = (
        average(draws.numbers(change > c, torch.float64), share)
        for change, share in zip((on_subset, on_rest), trials.interventional, strict=True)
    )
    return Moments(*near, unchanged_subset, unchanged_rest, changed_subset, 1 - changed_rest)


@dataclass(frozen=True)
class Estimate:
    """Strict estimates of J subsets with their errors; shapes as in `fans.PNS`, plus model rows spent `(J,)`."""

    point: Point
    se: Tensor
    interval: Tensor
    share_se: Tensor
    share_interval: Tensor
    ess_nc: Tensor
    ess_sf: Tensor
    n_rows: Tensor


def estimate(
    task: Task,
    trials: Trials,
    radius: Tensor,
    tolerance: Tensor,
    settings: Settings,
    keys: Callable[[str], Tensor],
) -> Estimate:
    """Estimate PN, PS and PNS of J subsets from their trials, with standard errors and intervals.

    `keys(stage)` gives the streams `(J,)` of any further draws.
    """
    m = moments(closeness(trials, radius, settings), trials, tolerance, settings)
    found = point(m, settings)
    variance = variances(task, trials, m, radius, tolerance, settings)
    n_rows = trials.n_rows
    if settings.estimator == "resample":
        found, extra_variance, spent = _resampled(task, trials, m, found, tolerance, settings, keys)
        variance[:, :N_RESAMPLED] += extra_variance
        n_rows = n_rows + spent
    full, empty = ~trials.rest.any(1), ~trials.subset.any(1)
    found = replace(found, pn=found.pn.masked_fill(full, 1.0), holds=found.holds.masked_fill(full, 1.0))
    never = torch.zeros_like(full)
    fixed = torch.stack([empty, full, never, empty, full], 1)  # known by definition, whatever the sample
    se = variance.clamp(min=0).sqrt().masked_fill(fixed, 0.0)
    ess = [effective_size(m.necessity), effective_size(m.sufficiency)]
    near = [effective_size(m.near_subset), effective_size(m.near_rest)]
    of_pns = near[0] if settings.joint else torch.full_like(ess[0], m.p_changed.shape[1])
    unit = torch.tensor([2 * settings.prior, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    values = torch.stack([found.pns, found.pn, found.ps, found.changes, found.holds], 1)
    support = torch.stack([of_pns, *ess, *near], 1)
    interval = wilson(values / unit, se / unit, support, settings.confidence) * unit[:, None]
    interval = torch.where(fixed[..., None], values[..., None], interval)
    se = se.masked_fill(values.isnan(), math.nan)
    if settings.joint:  # one neighbourhood behind everything
        ess = [of_pns, of_pns]
    return Estimate(found, se[:, :3], interval[:, :3], se[:, 3:], interval[:, 3:], ess[0], ess[1], n_rows)


def _resampled(
    task: Task,
    trials: Trials,
    m: Moments,
    found: Point,
    tolerance: Tensor,
    settings: Settings,
    keys: Callable[[str], Tensor],
) -> tuple[Point, Tensor, Tensor]:
    """Redo the interventional stage the paper's way: draw samples by weight, perturb each anew (Eqs. 12, 14).

    Returns the point estimates, the variance `(J, 3)` that resampling adds to that of the weighted estimate, and the
    model rows spent `(J,)`.
    """
    draw = torch.arange(settings.n_resample)
    sides = []
    plan = (("subset", m.sufficiency, trials.jobs_subset), ("rest", m.necessity, trials.jobs_rest))
    for side, weights, jobs in plan:
        sample, hit, row = (keys(f"resample/{side}/{what}") for what in ("sample", "hit", "row"))
        cumulative = weights.cumsum(1) / weights.sum(1, keepdim=True).clamp(min=1e-300)
        place = torch.searchsorted(cumulative, draws.uniform(sample[:, None], draw)).clamp(max=weights.shape[1] - 1)
        drawn = replace(jobs, index=jobs.index.gather(1, place), hit_keys=hit, row_keys=row)
        sides.append(perturbed_changes(task, trials.pool, drawn, settings.n_perturb, settings.phi, settings.change))
    changed, unchanged = [((s.change > tolerance[:, None, None]).double()).mean(-1) for s in sides]  # (J, R)
    unchanged = 1 - unchanged
    ps = changed.mean(1).masked_fill(found.ps.isnan(), math.nan)
    pn = unchanged.mean(1).masked_fill(found.pn.isnan(), math.nan)
    prior = settings.prior
    pns = combine(pn, found.p_ab, ps, found.p_nab, prior)
    n = settings.n_resample
    # A single draw shows no spread of its own: take the largest a probability can have.
    spread = [v.var(1) if n > 1 else torch.full_like(ps, 0.25) for v in (unchanged, changed)]
    extra_pn, extra_ps = spread[0] / n, spread[1] / n
    extra_pns = prior**2 * (found.p_ab**2 * extra_pn + found.p_nab**2 * extra_ps)
    extra_variance = torch.stack([extra_pns, extra_pn, extra_ps], 1)
    again = replace(found, pns=pns, pn=pn, ps=ps)
    return again, extra_variance, sides[0].n_rows + sides[1].n_rows


def largest_change(trials: Trials) -> Tensor:
    """Return the largest change `(J,)` any perturbation made."""
    return torch.maximum(trials.on_subset.change.amax((1, 2)), trials.on_rest.change.amax((1, 2)))


def maximise(
    trials: Trials, radius: Tensor, tolerance: Tensor, settings: Settings, search: Search
) -> tuple[Tensor, Tensor]:
    """Return the radius and tolerance `(J,)` that maximise PNS over a grid (Definition 4).

    It costs no evaluation: radius and tolerance only weigh and count what the trials measured. Ties go to the first
    tried.
    """
    best = torch.full_like(radius, -1.0)
    best_radius, best_tolerance = radius, tolerance
    radii = [radius * factor for factor in search.radii]
    near = [closeness(trials, b, settings) for b in radii]
    for c in search.tolerance_grid(tolerance, largest_change(trials)).unbind(1):
        m = moments(near[0], trials, c, settings)
        for b, (near_subset, near_rest) in zip(radii, near, strict=True):
            value = point(replace(m, near_subset=near_subset, near_rest=near_rest), settings).pns
            better = value > best
            best = torch.where(better, value, best)
            best_radius = torch.where(better, b, best_radius)
            best_tolerance = torch.where(better, c, best_tolerance)
    return best_radius, best_tolerance


def strict_estimate(
    task: Task, block: InputBatch, subset: Tensor, stage: str, settings: Settings
) -> tuple[Estimate, Tensor, Tensor]:
    """Estimate one subset `(B, F)` per input of a block; return the estimate, the radius and the tolerance used.

    If the block asks for a search, they are chosen on draws of their own, and the estimate made on fresh ones.
    """
    radius, tolerance = block.radius, block.tolerance
    spent = torch.zeros(len(subset), dtype=torch.int64)
    trials = run_trials(task, block, subset[:, None], f"{stage}/search" if block.search else stage, settings)
    if block.search:
        radius, tolerance = maximise(trials, radius, tolerance, settings, block.search)
        if settings.estimator != "exact":  # enumeration has no draws to renew
            spent = trials.n_rows
            trials = run_trials(task, block, subset[:, None], stage, settings)
    found = estimate(task, trials, radius, tolerance, settings, lambda what: block.keys(f"{stage}/{what}"))
    return replace(found, n_rows=found.n_rows + spent), radius, tolerance


def warn_if_thin(ess: Tensor, n_samples: int, more: str) -> None:
    """Warn once if the weights of some input rest on less than a handful of samples; `more` is how to have more."""
    poor = (ess < HANDFUL) & (ess > 0)
    if poor.any():
        warn(
            f"{int(poor.any(-1).sum())} of {len(ess)} estimates rest on fewer than {HANDFUL:.0f} effective samples "
            f"(the least: {ess[ess > 0].min():.1f} of {n_samples}), so they follow a few rows; {more}, or widen the "
            'neighbourhood with radius="ess"',
        )


def notes(found: Point, subset: Tensor, present: Tensor, blank: Tensor | None = None) -> tuple[str, ...]:
    """Say for each input what could not be estimated, and why; `blank` `(B,)` equal their own baseline."""
    out = []
    full = (subset == present).all(1)
    blank = torch.zeros_like(full) if blank is None else blank
    for pns, pn, ps, chosen, whole, is_blank in zip(
        *(found.pns.tolist(), found.pn.tolist(), found.ps.tolist(), subset, full, blank.tolist()), strict=True
    ):
        if is_blank:
            out.append("it equals its baseline, so that nothing in it can be changed: pass another `baseline`")
            continue
        if math.isnan(pns):
            out.append("PNS is undefined: no reference sample is within the radius")
            continue
        why_pn = "perturbing the subset changed no nearby sample" if chosen.any() else "the subset is empty"
        why_ps = "nothing is left outside the subset" if whole else "perturbing the rest changed every nearby sample"
        reasons = [f"PN is undefined: {why_pn}"] * math.isnan(pn) + [f"PS is undefined: {why_ps}"] * math.isnan(ps)
        out.append("; ".join(reasons))
    return tuple(out)


def effective(found: PNS) -> Tensor:
    """Return the effective numbers of samples `(B, 2)` behind PN and PS."""
    return torch.from_numpy(np.stack([found.ess_nc, found.ess_sf], 1))


def gather(
    parts: list[Estimate],
    subset: Tensor,
    present: Tensor,
    radius: Tensor,
    tolerance: Tensor,
    settings: Settings,
    n_evaluations: int,
) -> PNS:
    """Join the estimates of all blocks."""
    whole = join(parts)
    return PNS(
        **{name: getattr(whole.point, name).numpy() for name in Point.__dataclass_fields__},
        se=whole.se.numpy(),
        interval=whole.interval.numpy(),
        share_se=whole.share_se.numpy(),
        share_interval=whole.share_interval.numpy(),
        ess_nc=whole.ess_nc.numpy(),
        ess_sf=whole.ess_sf.numpy(),
        radius=radius.numpy(),
        tolerance=tolerance.numpy(),
        phi=settings.phi,
        n_evaluations=n_evaluations,
        confidence=settings.confidence,
        estimator=settings.estimator,
        notes=notes(whole.point, subset, present),
    )


def join(parts: Sequence[Estimate]) -> Estimate:
    """Concatenate the estimates of several blocks."""
    points = Point(*(torch.cat([getattr(p.point, name) for p in parts]) for name in Point.__dataclass_fields__))
    others = [f.name for f in fields(Estimate) if f.name != "point"]
    return Estimate(points, *(torch.cat([getattr(p, name) for p in parts]) for name in others))
