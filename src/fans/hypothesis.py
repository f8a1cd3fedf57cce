"""`fans.pns`: how necessary and sufficient a subset of the user's own choice is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fans.engine.equations import Change, Kernel
from fans.engine.estimate import effective, gather, strict_estimate, warn_if_thin
from fans.engine.inputs import Part, blocks, check_change, check_seed, parts_of, subsets_of
from fans.engine.neighbourhood import InputBatch, Reference, given_radius, resolve_radius
from fans.engine.settings import LITERAL, Closeness, Estimator, Scale, Search, Settings
from fans.engine.tolerance import class_tolerance, given_tolerance
from fans.modalities.base import Distance, FeatureSpace
from fans.modalities.containers import unpacked
from fans.modalities.registry import named_space
from fans.model import Output, TaskKind
from fans.result import PNS, join_pns
from fans.task import Task

N_COPIES = 49
"""Copies of an input with features missing that are its reference set, besides itself, where there is no background."""


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
    background = unpacked(background, "background")
    space = named_space(background, feature_names, space)
    bound = Task.bind(model, background, space=space, baseline=baseline, output=output, task=task, max_batch=max_batch)
    check_change(bound, change)
    parts = parts_of(bound, x, target, ids)
    n_inputs = sum(len(part.at) for part in parts)
    b, c = given_radius(radius, n_inputs), given_tolerance(tolerance, n_inputs)
    grid, found = LITERAL if search else None, []
    with bound.predict.session():
        bound.predict.check_repeats(bound.background, bound.outputs)
        by_class = not isinstance(c, Tensor)
        if not isinstance(c, Tensor):
            c = class_tolerance(bound, c, change, seed)
        for part in parts:
            own = subset if len(parts) == 1 else subsets_of(subset, part.at)
            of_part = (b[part.at] if isinstance(b, Tensor) else b, c if by_class else c[part.at])
            found.append(_pns_of_part(part, own, *of_part, by_class, grid, settings, seed))
    joined = join_pns(found, [part.at for part in parts])
    warn_if_thin(effective(joined), reference_size(bound), "pass a larger background")
    return replace(joined, n_evaluations=bound.predict.n_rows)


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
            pool, _ = Reference.around(
                *(bound, rows[part], ids[part], seed, 0, N_COPIES, 0.0), of=torch.arange(len(rows))[part]
            )
        distances = bound.space.unit_distances(rows[part], pool.samples(), pool.units, settings.distance).double()
        b = resolve_radius(radius, part, distances, pool.units, settings.distance)
        block = InputBatch(pool, distances, target[part], ids[part], b, c[part], search, seed)
        one, b, used_here = strict_estimate(bound, block, chosen[part], "pns", settings)
        found.append(one)
        radii.append(b)
        used.append(used_here)
    return gather(
        *(found, chosen, units.present, torch.cat(radii), torch.cat(used), settings, 0),
    )


def reference_size(bound: Task) -> int:
    """Return how many reference samples `pns` has."""
    return len(bound.background) if bound.space.has_background else 1 + N_COPIES
