"""Strict PNS from trials: point estimates, their errors, the choice of radius and tolerance, and `fans.pns`."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fans import draws
from fans.core import PNS, InputError, choose, join_pns, warn
from fans.pns import (
    KERNELS,
    LITERAL,
    Change,
    Closeness,
    Estimator,
    Kernel,
    Moments,
    Point,
    Scale,
    Search,
    Settings,
    combine,
    effective_size,
    ess_radius,
    gaussian,
    paper_radius,
    point,
    scott_radius,
    wilson,
)
from fans.spaces import named_space
from fans.spaces._shared import Distance, FeatureSpace, Units
from fans.task import Output, Task, TaskKind
from fans.trials import (
    Block,
    Reference,
    Trials,
    noise_tolerance,
    perturbed_changes,
    run_trials,
    subset_distance,
)
from fans.uncertainty import variances

BATCHES = 32
"""Of the model, in a stage of a block of inputs: of every stage the last batch is not full."""

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
        variance, n_rows = variance + extra_variance, n_rows + spent
    full, empty = ~trials.rest.any(1), ~trials.subset.any(1)
    found = replace(found, pn=found.pn.masked_fill(full, 1.0), holds=found.holds.masked_fill(full, 1.0))
    fixed = torch.stack([empty, full, torch.zeros_like(full)], 1)  # known by definition, whatever the sample
    se = variance.clamp(min=0).sqrt().masked_fill(fixed, 0.0)
    ess = [effective_size(m.necessity), effective_size(m.sufficiency)]
    of_pns = effective_size(m.near_subset) if settings.joint else torch.full_like(ess[0], m.p_changed.shape[1])
    unit = torch.tensor([2 * settings.prior, 1.0, 1.0], dtype=torch.float64)
    values = torch.stack([found.pns, found.pn, found.ps], 1)
    support = torch.stack([of_pns, ess[0], ess[1]], 1)
    interval = wilson(values / unit, se / unit, support, settings.confidence) * unit[:, None]
    interval = torch.where(fixed[..., None], values[..., None], interval)
    se = se.masked_fill(values.isnan(), math.nan)
    if settings.joint:  # one neighbourhood behind everything
        ess = [of_pns, of_pns]
    return Estimate(found, se, interval, ess[0], ess[1], n_rows)


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


# --- Radius and tolerance --------------------------------------------------------------------------------------------

RADII = ("scott", "ess", "paper")
TOLERANCES = ("noise", "paper")


def given_radius(radius: Any, n_inputs: int) -> Tensor | str | None:
    """Check the user's radius: numbers become one per input, names must be known."""
    if radius is None:
        return None
    if isinstance(radius, str):
        return choose("`radius`", radius, RADII)
    return _per_input("radius", radius, n_inputs, positive=True)


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


def given_tolerance(tolerance: Any, n_inputs: int) -> Tensor | str | None:
    """Check the user's tolerance: numbers become one per input, names must be known."""
    if tolerance is None:
        return None
    if isinstance(tolerance, str):
        return choose("`tolerance`", tolerance, TOLERANCES)
    return _per_input("tolerance", tolerance, n_inputs, positive=False)


SAYABLE = 0.1
"""The tolerance by default: of a probability, or of the standard deviation of an output that is none."""


def class_tolerance(
    bound: Task, tolerance: str | None, change: Change, seed: int, n_background: int | None = None
) -> Tensor:
    """Return c for each output `(C,)`: by default one that can be said aloud, else by a named rule."""
    if tolerance is not None:
        return noise_tolerance(bound, change, seed, relative=tolerance == "noise", n_background=n_background)
    n_outputs = bound.outputs.shape[1]
    if change == "label":
        return torch.full((n_outputs,), 0.5, dtype=torch.float64)
    if bound.predict.kind == "probability":
        return torch.full((n_outputs,), SAYABLE, dtype=torch.float64)
    spread = bound.outputs.std(0, correction=0)
    if change == "l2":
        spread = spread.norm().expand(n_outputs)
    return SAYABLE * spread.double()


def _per_input(name: str, value: Any, n_inputs: int, *, positive: bool) -> Tensor:
    try:
        numbers = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"Expected `{name}` as a number or one per input ({n_inputs}), got {value!r}") from None
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) != n_inputs):
        raise InputError(
            f"Expected `{name}` as a number or one per input ({n_inputs}), got shape {tuple(numbers.shape)}"
        )
    low = "above 0" if positive else "of at least 0"
    if not torch.isfinite(numbers).all() or (numbers < 0).any() or (positive and (numbers == 0).any()):
        raise InputError(f"Expected `{name}` {low}, got {value!r}")
    return numbers.expand(n_inputs).clone()


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


# --- The public function ---------------------------------------------------------------------------------------------


def strict_estimate(
    task: Task, block: Block, subset: Tensor, stage: str, settings: Settings
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


N_COPIES = 49
"""Copies of an input with features missing that are its reference set, besides itself, where there is no background."""


def blocks(n_inputs: int, rows_per_input: int, max_batch: int, least: int = 1) -> Iterator[slice]:
    """Cut inputs into blocks of some batches of model rows, so that memory does not grow with their number.

    `least` is how many inputs a block has at least.
    """
    size = max(least, BATCHES * max_batch // max(rows_per_input, 1))
    return (slice(i, min(i + size, n_inputs)) for i in range(0, n_inputs, size))


def check_change(task: Task, change: Change) -> None:
    """Refuse a change of label where there are no labels."""
    if change == "label" and task.outputs.shape[1] == 1:
        raise InputError(
            'Expected several class outputs for change="label", got a single one; use change="target"'
            f"{task.predict.if_logit}"
        )


def check_ids(ids: Sequence[int | str] | None, n_inputs: int, *, own: bool = True) -> list[int | str]:
    """Return one id per input, positions by default; `own`: no two alike."""
    if ids is None:
        return list(range(n_inputs))
    try:
        names = [i if isinstance(i, str) else operator.index(i) for i in ids]
    except TypeError:
        raise InputError(f"Expected `ids` as whole numbers or names, one per input, got {ids!r}") from None
    if any(isinstance(i, int) and not -(2**63) <= i < 2**63 for i in names):
        raise InputError(f"Expected `ids` that fit into 64 bits, got {ids!r}; pass long ones as text")
    if not own and len(names) != n_inputs:
        raise InputError(f"Expected one id for each of {n_inputs} inputs, got {len(names)}")
    if own and (len(names) != n_inputs or len(set(names)) != n_inputs):
        raise InputError(f"Expected one id of its own for each of {n_inputs} inputs, got {len(set(names))} different")
    return names


def check_seed(seed: Any) -> int:
    """Return the seed as a Python number; only a whole number keys the same draws everywhere."""
    try:
        return operator.index(seed)
    except TypeError:
        raise InputError(f"Expected `seed` as a whole number, got {seed!r}") from None


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


def pns(
    model: Any,
    x: Any,
    subset: Any,
    *,
    background: Any,
    baseline: Any = None,
    space: FeatureSpace | None = None,
    feature_names: Sequence[str] | None = None,
    radius: Any = None,
    tolerance: Any = None,
    kernel: Kernel = "gaussian",
    distance: Distance = "rms",
    change: Change = "target",
    target: Any = None,
    output: Output = "probability",
    task: TaskKind | None = None,
    estimator: Estimator = "weighted",
    n_factual: int = 32,
    n_perturb: int = 32,
    n_resample: int = 100,
    phi: float = 0.5,
    closeness: Closeness = "input",
    scale: Scale | None = None,
    search: bool = False,
    confidence: float = 0.95,
    max_batch: int | None = None,
    seed: int = 0,
    ids: Sequence[int | str] | None = None,
) -> PNS:
    """Estimate how necessary and how sufficient a subset of features is for a prediction.

    Args:
        model: a torch module, a scikit-learn estimator, or any callable on rows `(n, ...)`.
        x: one input, or a batch.
        subset: bool `(F,)` or `(B, F)`, or a list of feature names: the features under test.
        background: reference samples, used exactly as given.
        baseline: value of a feature considered missing: a number, a row, or a name the space knows (`None`: its
            default; a table draws background rows).
        space: what a feature is; guessed from the background by default.
        feature_names: of the columns of an array; a frame brings its own.
        radius: b, a number, one per input, or `"scott"`, `"ess"`, `"paper"`.
        tolerance: c, a number, one per input, or `"noise"`, `"paper"`; by default 0.1 of a probability, or a tenth of
            the outputs' standard deviation over the background.
        kernel: `"gaussian"` or `"indicator"`, for closeness and change alike.
        distance: `"rms"` (standardised root mean square) or `"l2"`.
        change: `"target"`, `"fall"`, `"l2"` or `"label"`: what a changed prediction is.
        target: explained class, one per input or one for all; the predicted class by default.
        output: `"raw"` leaves a module's logits as they are.
        task: how a torch module's or an estimator's outputs are read; guessed from the background by default.
            `"classification"`: a module's single output is the logit of class 1, or its probability. `"regression"`:
            outputs are numbers as they come, and an estimator is asked for `predict`.
        estimator: `"exact"`, `"weighted"` or `"resample"`.
        n_factual: perturbations of each sample behind its weight.
        n_perturb: perturbations of each sample behind PN and PS.
        n_resample: samples drawn by weight (`"resample"` only).
        phi: probability that a feature under test is hit.
        closeness: samples count by how close they are on all features (`"input"`), or, as in the paper, on the subset
            in one term of PNS and on the rest in the other (`"subset"`).
        scale: `"joint"` with closeness `"input"`; with `"subset"` `"unit"`, the default there, or `"paper"`, which
            drops the prior of 1/2.
        search: maximise over radius and tolerance (Definition 4), then estimate anew with fresh draws.
        confidence: of the intervals.
        max_batch: most rows the model sees at a time.
        seed: of all draws.
        ids: names of the inputs, which key their random draws; positions by default.

    Returns:
        `fans.PNS`, with a batch of 1 for one input.

    Example:
        >>> import numpy as np
        >>> f = lambda x: (x[:, 0] - x[:, 1] > 1).astype(float)
        >>> rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
        >>> float(pns(f, np.ones(3), [False, False, True], background=rows, baseline=0, estimator="exact").pns[0])
        0.0
    """
    settings = Settings(
        *(kernel, distance, change, estimator, n_factual, n_perturb, n_resample, phi, closeness, scale, confidence)
    )
    seed = check_seed(seed)
    space = named_space(background, feature_names, space)
    bound = Task.bind(model, background, space=space, baseline=baseline, output=output, task=task, max_batch=max_batch)
    check_change(bound, change)
    parts = parts_of(bound, x, target, ids)
    n_inputs = sum(len(part.at) for part in parts)
    b, c = given_radius(radius, n_inputs), given_tolerance(tolerance, n_inputs)
    grid, found = LITERAL if search else None, []
    with bound.predict.session():
        by_class = not isinstance(c, Tensor)
        if not isinstance(c, Tensor):
            c = class_tolerance(bound, c, change, seed)
        for part in parts:
            own = subset if len(parts) == 1 else subsets_of(subset, part.at)
            of_part = (b[part.at] if isinstance(b, Tensor) else b, c if by_class else c[part.at])
            found.append(_pns_of_part(part, own, *of_part, by_class, grid, settings, seed))
    joined = join_pns(found, [part.at for part in parts])
    warn_if_thin(effective(joined), reference_size(bound), "pass a larger background")
    return replace(joined, n_evaluations=joined.n_evaluations + (0 if parts[0].task is bound else bound.predict.n_rows))


@dataclass(frozen=True)
class Part:
    """Inputs of one row layout.

    Attributes:
        task: that takes the layout.
        rows: `(n, E)` the inputs.
        target: `(n,)` the explained classes, None for the predicted ones.
        ids: their names.
        at: their places among all inputs.
    """

    task: Task
    rows: Tensor
    target: Tensor | None
    ids: list[int | str]
    at: list[int]


def parts_of(task: Task, x: Any, target: Any, ids: Sequence[int | str] | None, *, own: bool = True) -> list[Part]:
    """Check what was asked of inputs, and put those of one row layout together.

    Ids are as given, as inputs are called by nature, or their places; `own`: no two alike.
    """
    split = task.split(x)
    names = check_ids(task.space.names(x) if ids is None else ids, sum(len(at) for *_, at in split), own=own)
    classes = None if target is None else task.targets(target, task.outputs[:1].expand(len(names), -1))
    return [
        Part(one, rows, None if classes is None else classes[at], [names[i] for i in at], at) for one, rows, at in split
    ]


def _pns_of_part(
    given: Part,
    subset: Any,
    radius: Tensor | str | None,
    tolerance: Tensor,
    by_class: bool,
    search: Search | None,
    settings: Settings,
    seed: int,
) -> PNS:
    """Estimate the PNS of inputs of one row layout; the tolerance is one an input, or one a class."""
    bound, rows, target, ids = given.task, given.rows, given.target, given.ids
    units = bound.space.units(rows)
    chosen = bound.space.feature_subset(subset, units, len(rows))
    if target is None:
        guess = bound.outputs.shape[1] > 1
        target = bound.targets(None, bound.predict(rows) if guess else bound.outputs[:1].expand(len(rows), -1))
    c = tolerance[target] if by_class else tolerance
    cost = 2 * reference_size(bound) * max(settings.n_factual, settings.n_perturb)
    found, radii, used = [], [], []
    for part in blocks(len(rows), cost, bound.predict.max_batch):
        if bound.space.has_background:
            pool = Reference.shared(bound, rows[part])
        else:
            pool, _ = Reference.around(bound, rows[part], ids[part], seed, 0, N_COPIES, 0.0)
        distances = bound.space.unit_distances(rows[part], pool.samples(), pool.units, settings.distance).double()
        b = resolve_radius(radius, part, distances, pool.units, settings.distance)
        block = Block(pool, distances, target[part], ids[part], b, c[part], search, seed)
        one, b, used_here = strict_estimate(bound, block, chosen[part], "pns", settings)
        found.append(one)
        radii.append(b)
        used.append(used_here)
    return gather(
        *(found, chosen, units.present, torch.cat(radii), torch.cat(used), settings, bound.predict.n_rows),
    )


def reference_size(bound: Task) -> int:
    """Return how many reference samples `pns` has."""
    return len(bound.background) if bound.space.has_background else 1 + N_COPIES


def effective(found: PNS) -> Tensor:
    """Return the effective numbers of samples `(B, 2)` behind PN and PS."""
    return torch.from_numpy(np.stack([found.ess_nc, found.ess_sf], 1))


def subsets_of(subset: Any, at: list[int]) -> Any:
    """Return the subsets of some inputs, where each has its own."""
    own = isinstance(subset, Tensor | np.ndarray) and subset.ndim > 1 and len(subset) > max(at)
    return subset[at] if own else subset


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
    rest = [torch.cat([getattr(p, name) for p in parts]) for name in ("se", "interval", "ess_nc", "ess_sf", "n_rows")]
    return Estimate(points, *rest)
