"""`fans.Explainer`: a model and its background in, an `Explanation` out."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import fans.methods  # noqa: F401 - registers the methods
from fans.curve import Curve, TrialSample, join_curves, join_samples
from fans.diagram import drawn, model_name, wants_text
from fans.engine.direction import Directions, directions
from fans.engine.estimate import effective, gather, notes, strict_estimate, warn_if_thin
from fans.engine.inputs import BATCHES, Part, blocks, check_change, check_seed, parts_of, subsets_of
from fans.engine.neighbourhood import RADII, InputBatch, Reference, given_radius, resolve_radius
from fans.engine.nested import OWN, nested, order_of, size_grid
from fans.engine.perturbation import n_ways
from fans.engine.samples import Shown, shown_trials
from fans.engine.settings import Settings
from fans.engine.tolerance import TOLERANCES, class_tolerance, given_tolerance
from fans.engine.trials import equals_baseline
from fans.errors import InputError, Interrupted, check_whole, checked_names, choose, is_number, quiet, warn
from fans.explanation import Attribution, Explanation, join
from fans.joining import in_order
from fans.methods.base import Method, Scores, check_modality
from fans.methods.fans.subset import Chosen, Members, Selection, clear_subset, fair_subset, n_sizes, smallest_subset
from fans.methods.problem import Problem
from fans.modalities.base import FeatureSpace
from fans.modalities.containers import unpacked
from fans.modalities.registry import guess_space, named_space
from fans.model import Output, TaskKind
from fans.progress import Progress, watching
from fans.result import PNS, join_pns
from fans.task import Task
from fans.types import Array

PHASES = ("reference", "scoring", "sweep", "direct", "strict")
"""What model rows are spent on: samples, scores, sizes, directions, and the estimate."""

WHOLE = 1.0
"""phi of an explainer: a trial perturbs the whole subset, so that "change these" means all of them."""

MOST_HELD = 64 * 2**20
"""Bytes that the inputs of a block may take together just to fill the model's batches."""

MORE_SAMPLES = "pass a larger `n_local`"
"""How to have more samples about an input."""

Effort = Literal["low", "normal", "high"]


EFFORTS: Mapping[str, Mapping[str, Any]] = {
    "low": {"n_local": 15, "n_perturb": 3, "n_sweep": 120},
    "normal": {"n_local": 49, "n_perturb": 4},
    "high": {"n_local": 199, "n_perturb": 16, "n_sweep": 8000},
}
"""Settings by effort, besides the method's own (`Method.efforts`); each may still be overridden."""

ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("class_names", "output_names"), "target_names=[...]"),
    **dict.fromkeys(("data", "training_data", "background_data"), "it as the background, the second argument"),
    **dict.fromkeys(("n_samples", "nsamples", "num_samples"), 'effort="low", "normal" or "high"'),
    **dict.fromkeys(("batch_size", "internal_batch_size", "perturbations_per_eval"), "max_batch=..."),
    **{name: f"it when explaining: explainer(x, {name}=...)" for name in ("target", "ids", "progress")},
    **dict.fromkeys(("columns", "column_names", "names"), "feature_names=[...]"),
    "baselines": "baseline=...",
    **dict.fromkeys(("categorical", "categorical_features"), "space=fans.spaces.Table(categorical=[...])"),
    "groups": "space=fans.spaces.Table(groups={...})",
    "feature_mask": "space=fans.spaces.FeatureMask(mask)",
    "link": 'output="raw" for logits',
    "mode": 'task="classification" or "regression"',
    "random_state": "seed=...",
}
"""What other libraries call settings, or ask for elsewhere, and what it is here."""


@dataclass(frozen=True)
class Neighbourhood:
    """What stands for "close to the input".

    Attributes:
        n_background: background rows among the reference samples of each input; by default none, as most are too far
            away to count.
        n_local: local copies of the input among them, besides the input itself: some of their features are swapped
            with a background row's.
        local_noise: if above 0, local copies carry normal noise of so many standard deviations instead.
        radius, tolerance: as in `fans.pns`.
    """

    n_background: int = 0
    n_local: int = 49
    local_noise: float = 0.0
    radius: Any = None
    tolerance: Any = None

    def __post_init__(self) -> None:
        check_whole("n_local", self.n_local, 0)
        check_whole("n_background", self.n_background, 0)
        if not is_number(self.local_noise) or not 0 <= self.local_noise < np.inf:
            raise InputError(f"Expected `local_noise` of at least 0, got {self.local_noise!r}")
        if isinstance(self.radius, str):
            choose("`radius`", self.radius, RADII)
        if isinstance(self.tolerance, str):
            choose("`tolerance`", self.tolerance, TOLERANCES)


class Explainer:
    """Explain a model's predictions by the features that were necessary and sufficient for them.

    Args:
        model: a torch module, a scikit-learn estimator, or any callable on rows.
        background: real data: what the neighbourhood, scales and drawn baselines come from. It is evaluated once.
        space: what a feature is; guessed from the background by default.
        baseline: value of a feature considered missing (a name, a number or a row); by default the space's first: drawn
            background rows in tables, 0 in sparse rows, the image's own mean and border colours in images, no edge in
            graphs.
        method: a registered method.
        output: `"raw"` leaves a module's logits as they are.
        task: how a torch module's or an estimator's outputs are read; guessed from the background by default.
            `"classification"`: a module's single output is the logit of class 1, or its probability. `"regression"`:
            outputs are numbers as they come, and an estimator is asked for `predict`.
        target_names: names of the classes (or outputs), in the model's order.
        feature_names: of the columns of an array; a frame brings its own.
        seed: of all draws, which are keyed by (seed, id of the input, stage).
        max_batch: most rows the model sees at a time.
        effort: `"low"`, `"normal"` or `"high"`: how many model rows an input may cost.
        settings: of the method, the neighbourhood (`n_background`, `n_local`, `radius`, `tolerance`), the choice of the
            subset (`members`, `n_sweep`, `enough`) and the estimate (`kernel`, `distance`, `change`, `estimator`,
            `n_factual`, `n_perturb`, `n_resample`, `phi`, `closeness`, `scale`, `confidence`).

    Example:
        >>> rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
        >>> explainer = Explainer(lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, baseline=0.0)
        >>> explainer(np.array([3.0, 1.0, 1.0])).chosen_names()
        ['x1']
    """

    def __init__(
        self,
        model: Any,
        background: Any,
        *,
        space: FeatureSpace | None = None,
        baseline: Any = None,
        method: str = "fans",
        output: Output | None = None,
        task: TaskKind | None = None,
        target_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        seed: int = 0,
        max_batch: int | None = None,
        effort: Effort = "normal",
        **settings: Any,
    ) -> None:
        background = unpacked(background, "background")
        member: Any = Method.registry[choose("`method`", method, sorted(Method.registry))]
        member = member.taking(settings)
        kinds: list[Any] = [Settings, Neighbourhood, Selection, member]
        owners = {f.name: kind for kind in kinds for f in fields(kind)}
        _refuse_unknown(settings, owners)
        preset: dict[str, Any] = {}
        if settings.get("preset") is not None:
            preset |= member.presets[choose("`preset`", settings["preset"], member.presets)]
        own_output, unit, own_baseline = (preset.pop(name, None) for name in ("output", "unit", "baseline"))
        space = named_space(background, feature_names, space)
        own_unit = unit is None and space is None
        unit = unit or member.unit_for(model, settings)
        if space is None and unit is not None:
            space = guess_space(background, unit)
        if baseline is None and own_baseline in (space.baselines if space else ()):
            baseline = own_baseline
        chosen: dict[Any, dict[str, Any]] = {kind: {} for kind in kinds}
        choose("`effort`", effort, EFFORTS)
        usual = {"phi": WHOLE} | dict(EFFORTS[effort]) | dict(member.efforts.get(effort, {}))
        for name, value in (usual | preset | settings).items():
            chosen[owners[name]][name] = value
        self.settings = Settings(**chosen[Settings])
        self.neighbourhood = Neighbourhood(**chosen[Neighbourhood])
        self.selection = Selection(**chosen[Selection])
        self.method: Method = member(**chosen[member])
        self.seed = check_seed(seed)
        output = output or own_output or "probability"
        how: dict[str, Any] = {"baseline": baseline, "output": output, "task": task, "max_batch": max_batch}
        self.task = Task.bind(model, background, space=space, **how)
        check_change(self.task, self.settings.change)
        check_modality(self.method, self.task)
        self.method = self.method.settle(self.task, self.settings)
        if own_unit and unit != (unit := member.unit_for(model, settings | asdict(self.method))):
            with quiet():  # told of in the first units
                space, meter = guess_space(background, unit), self.task.predict.meter
                self.task = Task.bind(model, background, space=space, meter=meter, **how)
        if not self.task.space.has_background:  # neighbours are made from the input alone
            self.neighbourhood = replace(self.neighbourhood, n_background=0, local_noise=0.0)
        _warn_of_one_row(self.task)
        if target_names is not None:
            n_outputs, instead = self.task.outputs.shape[1], self.task.predict.if_logit
            self.task.predict.target_names = checked_names(
                "target_names", target_names, n_outputs, "output of the model", instead
            )
        self.method.check(self.task, self.settings)
        self.effort = effort
        self._given = frozenset(settings)
        self._shared = _Shared(self.task.predict.n_rows)

    def __repr__(self) -> str:
        space = self.task.space
        about = f"inputs={space.modality!r}, features={space.n_features}, method={self.method.name!r}, seed={self.seed}"
        return f"Explainer(model={model_name(self.task.predict.model)}, {about})"

    def _repr_html_(self) -> str | None:
        return None if wants_text() else drawn(self, self._given)

    def __call__(
        self, x: Any, target: Any = None, ids: Sequence[int | str] | None = None, progress: Progress = None
    ) -> Explanation:
        """Explain one input or a batch.

        Args:
            x: inputs like the background's rows.
            target: explained class (index or name), one for all or one per input; the predicted one by default.
            ids: names of the inputs, which key their draws; positions by default.
            progress: True shows a bar, False none, None one for long work on a terminal; or a function (done, total).

        Raises:
            Interrupted: on Ctrl-C; its `partial` holds the inputs already explained, as does any other error's.
        """
        started = time.perf_counter()
        parts = parts_of(self.task, x, target, ids)
        n_inputs, runs = sum(len(part.at) for part in parts), list[_Run]()
        try:
            self.prepare()
            with (
                self.task.predict.session(),
                watching(progress, n_inputs, self.rows_an_input) as watch,
                self.task.predict.telling(watch.heard),
            ):
                for explainer, part in self._each(parts):
                    before = sum(run.done.n for run in runs)
                    runs.append(run := _Run(explainer, part))
                    for block in explainer._blocks(len(part.rows)):
                        run.done.add(explainer._explain(run.inputs.block(block)))
                        watch.done(before + block.stop)
        except KeyboardInterrupt:
            n = sum(run.done.n for run in runs)
            how = f"x[{n}:] with ids={parts[0].ids[n : n + 1]}..." if len(parts) == 1 else "explaining the others"
            stopped = Interrupted(
                f"Interrupted after {n} of {n_inputs} inputs; those are in this error's `partial`, and "
                f"{how} gives the rest as it would have been"
            )
            stopped.partial = _joined(runs, started)
            raise stopped from None
        except Exception as error:  # the model's own errors too: what was paid for is not thrown away
            error.partial = _joined(runs, started)  # type: ignore[attr-defined]
            raise
        explanation = _joined(runs, started)
        assert explanation is not None
        warn_if_thin(torch.from_numpy(explanation.ess), self._n_samples, MORE_SAMPLES)
        return explanation

    def _each(self, parts: Sequence[Part]) -> "Iterator[tuple[Explainer, Part]]":
        """Yield each part with this explainer for inputs of its layout."""
        for part in parts:
            if part.task is self.task:
                yield self, part
                continue
            self.class_tolerance()  # one for all sizes
            child = copy(self)
            child.task = part.task
            yield child, part

    def with_method(self, method: str, **settings: Any) -> "Explainer":
        """Return this explainer with another method in place of its own, and that one's settings.

        Model, background, features, neighbourhood and estimate stay: explanations of both are of the same draws, so
        that their subsets can be compared.

        Example:
            >>> rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
            >>> explainer = Explainer(lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, baseline=0.0)
            >>> explainer.with_method("kernel_shap")(np.array([3.0, 1.0, 1.0])).method
            'kernel_shap'
        """
        member: Any = Method.registry[choose("`method`", method, sorted(Method.registry))]
        member = member.taking(settings)
        _refuse_unknown(settings, {f.name: member for f in fields(member)})
        usual = {k: v for k, v in member.efforts.get(self.effort, {}).items() if k in {f.name for f in fields(member)}}
        other = copy(self)
        other.method = member(**usual | settings)
        check_modality(other.method, self.task)
        other.method = other.method.settle(self.task, self.settings)
        other.method.check(self.task, self.settings)
        other._shared = _Shared(0)
        other._shared.tolerance, other._shared.repeats = self._shared.tolerance, self._shared.repeats
        return other

    def score(self, x: Any, subset: Any, target: Any = None, ids: Sequence[int | str] | None = None) -> PNS:
        """Estimate the PNS of the user's own hypothesis, with this explainer's settings and reference samples."""
        parts = parts_of(self.task, x, target, ids)
        self._check_repeats()
        found = [
            explainer._score(part, _chosen(part.task, part, subset, alone=len(parts) == 1))
            for explainer, part in self._each(parts)
        ]
        joined = join_pns(found, [part.at for part in parts])
        warn_if_thin(effective(joined), self._n_samples, MORE_SAMPLES)
        return joined

    def _score(self, given: Part, chosen: Tensor) -> PNS:
        """Estimate the PNS of subsets `(n, F)` of inputs of one row layout."""
        inputs, rows = _Inputs(self, given), given.rows
        found, radii, tolerances = [], [], []
        with self.task.predict.session(), self.task.predict.counting() as spent:
            for part in self._blocks(len(rows)):
                block = inputs.block(part).block
                estimate, b, c = strict_estimate(self.task, block, chosen[part], "score", self.settings)
                found.append(estimate)
                radii.append(b)
                tolerances.append(c)
        return gather(
            *(
                found,
                chosen,
                self.task.space.units(rows).present,
                torch.cat(radii),
                torch.cat(tolerances),
                self.settings,
                spent.n_rows,
            ),
        )

    def inputs_of(self, explanation: Attribution) -> Any:
        """Return the inputs that an explanation is of, as this explainer takes them.

        Raises:
            InputError: the explanation does not tell, as of sparse rows and of graphs as wholes.
        """
        found = self.task.space.inputs_of(explanation)
        if found is None:
            raise InputError(
                f"Expected the explained inputs, got an explanation of {self.task.space.modality} inputs, which does "
                "not tell; pass `x=` as well"
            )
        return found

    def curve(self, explanation: Explanation, x: Any = None, *, most: int = 24) -> Curve:
        """Return PNS against the size of the subset and the tolerance, for every input of an explanation.

        At the explanation's own size and tolerance the figures are its own, for the draws are the same.

        Args:
            explanation: of this explainer.
            x: the explained inputs; by default as the explanation tells.
            most: about how many sizes are looked at, if there are more.

        Example:
            >>> rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
            >>> explainer = Explainer(lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, baseline=0.0)
            >>> curve = explainer.curve(explainer(np.array([3.0, 1.0, 1.0])))
            >>> curve.sizes.tolist(), curve.pns[0, :, curve.used[0]].round(2).tolist()
            ([[0, 1, 2, 3]], [0.0, 0.93, 0.93, 0.93])
        """
        check_whole("most", most, 2)
        x = self.inputs_of(explanation) if x is None else x
        found, places, e = list[Curve](), list[list[int]](), explanation
        with quiet(), self.task.predict.session(), self.task.predict.counting() as spent:  # told of when explained
            for task, one, part, at in self._singly(parts_of(self.task, x, e.target, e.ids)):
                own, i = task.space.own, part.at[at]
                order = order_of(own(e.scores[i]), own(e.subset[i]), own(e.present[i]))
                n_chosen = int(own(e.subset[i]).sum())
                sizes = size_grid(len(order), n_chosen, most)
                along = nested(task, one, order, sizes, self.settings)
                shares = dict(zip(("pns", "changes", "holds"), along.shares[None].unbind(-1), strict=True))
                found.append(
                    Curve(
                        order=own(np.arange(e.scores.shape[1]))[order][None],
                        sizes=np.array([sizes]),
                        chosen=np.array([sizes.index(n_chosen)]),
                        tolerances=along.tolerances[None].numpy(),
                        used=np.array([len(along.tolerances) > 1 and OWN]).astype(np.int64),
                        **{name: values.numpy() for name, values in shares.items()},
                        intervals=along.intervals[None].numpy(),
                        ids=e.ids[i : i + 1],
                        confidence=e.confidence,
                        n_evaluations=0,
                    )
                )
                places.append([i])
        return replace(join_curves(found, places), n_evaluations=spent.n_rows)

    def trials(
        self, x: Any, subset: Any, *, n: int = 8, target: Any = None, ids: Sequence[int | str] | None = None
    ) -> TrialSample:
        """Return some of the trials behind `score(x, subset)`: inputs as they were perturbed, and what the model said.

        Trials that moved the prediction and trials that did not are shown in equal numbers, as far as there are any.
        """
        check_whole("n", n, 1)
        parts = parts_of(self.task, x, target, ids)
        found, places = list[TrialSample](), list[list[int]]()
        with self.task.predict.session(), self.task.predict.counting() as spent:
            for task, one, part, at in self._singly(parts):
                chosen = _chosen(task, part, subset, alone=len(parts) == 1)[at : at + 1]
                found.append(_sample(task, one.ids[0], shown_trials(task, one, chosen, n, self.settings)))
                places.append([part.at[at]])
        return replace(join_samples(found, places), n_evaluations=spent.n_rows)

    def _singly(self, parts: Sequence[Part]) -> Iterator[tuple[Task, InputBatch, Part, int]]:
        """Yield each input in a block of its own, with its task, its part and its place in that."""
        for explainer, part in self._each(parts):
            inputs = _Inputs(explainer, part)
            for at in range(len(part.at)):
                yield explainer.task, inputs.block(slice(at, at + 1)).block, part, at

    @property
    def rows_an_input(self) -> int:
        """About how many model rows an explanation of one input takes: multiply by your model's seconds a row.

        Of graphs it takes fewer, since perturbed copies that are the same are asked about once; of a table explained by
        walks too, where the subset is settled early or columns are often what they would be replaced by.
        """
        settings, n_local = self.settings, self.neighbourhood.n_local
        n_samples = self._n_samples + (settings.n_resample if settings.estimator == "resample" else 0)
        estimated = 2 * n_samples * (n_ways(self.task, settings) or settings.n_perturb)
        choosing = 0 if self._members == "share" else self.selection.n_sweep
        return 1 + n_local + self.method.cost(self.task.space.n_features) + choosing + estimated

    @property
    def _members(self) -> Members:
        """How the subset is chosen; `"auto"` is by fair shares where these are clear."""
        if self.selection.members != "auto":
            return self.selection.members
        if not self.method.shares:
            return "pns"
        return "auto" if self.task.space.sparse else "share"

    @property
    def _n_samples(self) -> int:
        return min(self.neighbourhood.n_background, len(self.task.background)) + self.neighbourhood.n_local + 1

    def _blocks(self, n_inputs: int, *, only_scores: bool = False) -> Iterator[slice]:
        """Cut inputs into blocks that fill the model's batches, also in a method that takes few rows at a time."""
        task = self.task
        n_features, n_elements = task.space.n_features, task.space.n_elements
        n_tried = max(n_sizes(n_features), self.settings.n_perturb)
        at_once = self.method.at_once(n_features)
        rows_per_input = max(at_once, self._n_samples)
        if not only_scores:
            rows_per_input = max(rows_per_input, self.selection.n_sweep, 2 * self._n_samples * n_tried)
        held = 8 * self.neighbourhood.n_local * n_elements + 16 * self._n_samples * n_features  # bytes, about
        held += 10 * at_once * n_features
        most = max(1, MOST_HELD // held)
        filling = max(1, min(task.predict.max_batch // at_once, most))
        rows_per_input = max(rows_per_input, BATCHES * task.predict.max_batch // most)
        return blocks(n_inputs, rows_per_input, task.predict.max_batch, filling)

    def attribute(self, x: Any, target: Any = None, ids: Sequence[int | str] | None = None) -> Attribution:
        """Return the scores of the features alone, with the inputs that they are of: far cheaper than an explanation.

        They are those an explanation would have; no subset is chosen and nothing is estimated. Inputs of one id get
        the same draws, so that their scores differ by the inputs alone. `fans.evaluate` takes the result.
        """
        started = time.perf_counter()
        parts = parts_of(self.task, x, target, ids, own=False)
        found = [explainer._attribute(part) for explainer, part in self._each(parts)]
        return replace(join(found, [part.at for part in parts]), seconds=time.perf_counter() - started)

    def _attribute(self, given: Part) -> Attribution:
        """Score inputs of one row layout."""
        inputs, done = _Inputs(self, given, alone=not self.method.looks_around), _Results(len(given.rows))
        with self.task.predict.session():
            for part in self._blocks(len(given.rows), only_scores=True):
                done.add(self._scored(inputs.block(part)))
        return Attribution(**self._about(done, inputs, ("reference", "scoring")))

    def scores(self, x: Any, target: Any = None, ids: Sequence[int | str] | None = None) -> Array:
        """Return only the scores of the features, `(B, F)`: those of `attribute`."""
        return self.attribute(x, target, ids).scores

    def sweep(self, x: Any, scores: Any, target: Any = None, ids: Sequence[int | str] | None = None) -> Array:
        """Return the subset `(B, F)` that anybody's scores `(B, F)` lead to: the smallest that does it.

        It is the one that an explanation with those scores would choose, with this explainer's neighbourhoods.
        """
        parts = parts_of(self.task, x, target, ids)
        n_inputs, n_features = sum(len(part.at) for part in parts), max(p.task.space.n_own for p in parts)
        given = np.asarray(scores, dtype=np.float64)
        if given.ndim != 2 or given.shape[0] != n_inputs or given.shape[1] < n_features:
            raise InputError(
                f"Expected `scores` of shape ({n_inputs}, {n_features}), one of each feature, got {given.shape}"
            )
        if not np.isfinite(given).all():
            raise InputError("Expected finite `scores`, got NaN or infinity")
        found = [
            part.task.space.among_all(explainer._sweep(part, torch.from_numpy(part.task.space.own(given[part.at]))))
            for explainer, part in self._each(parts)
        ]
        return in_order(found, [part.at for part in parts])

    def _sweep(self, given: Part, scores: Tensor) -> Array:
        """Sweep the scores of inputs of one row layout."""
        inputs = _Inputs(self, given)
        with self.task.predict.session():
            found = [
                self._choose(inputs.block(part).block, _plain(scores[part])).subset
                for part in self._blocks(len(given.rows))
            ]
        return torch.cat(found).numpy()

    def heatmaps(self, x: Any, target: Any = None, ids: Sequence[int | str] | None = None) -> Array:
        """Return the scores alone in the inputs' own shape, `(B, *input)`: every element carries its feature's."""
        return self.attribute(x, target, ids).heatmap.astype(np.float64)

    def on_elements(self, x: Any, scores: Array, *, parts: bool = False) -> Array:
        """Return scores `(B, F)` of these inputs in their own shape, `(B, *input)`.

        `parts`: where a feature's score is that of all its elements together, or a pixel's that of all its channels,
        each gets its share, so that sums over elements mean something.
        """
        with quiet():  # told of when they were explained
            split = self.task.split(x)
        out = []
        for task, rows, at in split:
            units, owner = task.space.units(rows), torch.arange(len(rows))
            values = torch.from_numpy(task.space.own(np.asarray(scores, dtype=np.float64)[at]))
            if parts and self.method.per_pixel:
                values = values / task.space.planes(rows[:1]).shape[1]
            elif parts and not self.method.per_element:
                values = values / units.n_elements
            out.append(task.space.shown(units.spread(values, owner)).numpy())
        return in_order(out, [at for *_, at in split])

    def _scored(self, ready: "_Ready", scored: Scores | None = None) -> "_Scored":
        """Score the inputs of one block, unless that is done."""
        block, units = ready.block, ready.block.pool.units
        scored = scored or self.method.attribute(Problem.of(self.task, block, self.settings))
        return _Scored(
            scores=scored.scores.numpy(),
            scores_se=None if scored.se is None else scored.se.numpy(),
            history=None if scored.history is None else scored.history.numpy(),
            target=block.target.numpy(),
            prediction=ready.outputs.gather(1, block.target[:, None])[:, 0].numpy(),
            reference=np.full(len(block.target), ready.n_own),
            scoring=scored.n_rows.numpy(),
            elements=None if units.shared else self.task.space.shown(units.of_element).numpy(),
        )

    def _explain(self, ready: "_Ready") -> "_Piece":
        """Score, choose and estimate the inputs of one block."""
        block, task = ready.block, self.task
        scored = self.method.attribute(Problem.of(task, block, self.settings))
        chosen = self._choose(block, scored)
        if scored.direction is None:
            direction = directions(task, block, scored.scores, chosen.subset)
        else:
            direction = Directions(scored.direction, torch.zeros_like(chosen.n_rows))
        found, radius, tolerance = strict_estimate(task, block, chosen.subset, "strict", self.settings)
        return _Piece(
            **vars(self._scored(ready, scored)),
            subset=chosen.subset.numpy(),
            direction=direction.values.numpy(),
            stability=chosen.stability.numpy(),
            changes=found.point.changes.numpy(),
            holds=found.point.holds.numpy(),
            pns=found.point.pns.numpy(),
            pn=found.point.pn.numpy(),
            ps=found.point.ps.numpy(),
            interval=found.interval.numpy(),
            share_interval=found.share_interval.numpy(),
            ess=torch.stack([found.ess_nc, found.ess_sf], 1).numpy(),
            radius=radius.numpy(),
            tolerance=tolerance.numpy(),
            sweep=chosen.n_rows.numpy(),
            direct=direction.n_rows.numpy(),
            strict=found.n_rows.numpy(),
            notes=notes(found.point, chosen.subset, block.pool.units.present, equals_baseline(task, block)),
        )

    def _choose(self, block: InputBatch, scored: Scores) -> Chosen:
        """Choose the subset of each input of a block."""
        if self._members == "share":
            return fair_subset(scored)
        choose = clear_subset if self._members == "auto" else smallest_subset
        return choose(self.task, block, scored, self.settings, self.selection)

    def _assemble(self, done: "_Results", inputs: "_Inputs") -> Explanation:
        """Make an explanation of what is done."""
        return Explanation(
            **self._about(done, inputs, PHASES),
            confidence=self.settings.confidence,
            change=self.settings.change,
            notes=tuple(done.notes),
        )

    def _about(self, done: "_Results", inputs: "_Inputs", phases: Sequence[str]) -> dict[str, Any]:
        """Return what is done, and what it is about, as the fields of an attribution or explanation."""
        joined, n = done.so_far(), done.n
        evaluations = {phase: joined.pop(phase) for phase in phases}
        space = self.task.space
        if joined["elements"] is None:  # the same features in every input
            joined["elements"] = space.elements(inputs.rows).numpy()
        for name in {"scores", "scores_se", "subset", "direction", "stability"} & joined.keys():
            if joined[name] is not None:
                joined[name] = space.among_all(joined[name], fill=np.nan if name == "direction" else 0)
        edges, nodes = space.edges_of(torch.arange(n))
        return joined | {
            "ids": tuple(inputs.ids[:n]),
            "feature_names": space.all_names,
            "target_names": self.task.predict.target_names or (),
            "method": self.method.name,
            "per_element": self.method.per_element,
            "per_pixel": self.method.per_pixel,
            "settings": self._plain_settings(),
            "seed": self.seed,
            "seconds": 0.0,
            "evaluations": evaluations | {"shared": np.array(self._shared.n_rows)},
            "kind": self.task.predict.kind,
            "modality": space.modality,
            "details": space.details(inputs.rows[:n]),
            "inputs": space.shown(space.told(inputs.rows[:n])).numpy().copy(),
            "edges": None if edges is None else edges.numpy(),
            "nodes": None if nodes is None else nodes.numpy(),
            "node_names": space.node_names,
            "sparse": space.sparse,
            "element_names": space.element_names,
            "categories": space.categories,
            "kinds": space.kinds,
        }

    def _plain_settings(self) -> dict[str, Any]:
        """Return all settings as JSON can hold them."""
        merged = asdict(self.settings) | asdict(self.neighbourhood) | asdict(self.selection) | asdict(self.method)
        return {
            k: np.asarray(v).tolist() if isinstance(v, np.generic | Sequence | np.ndarray | Tensor) else v
            for k, v in merged.items()
        }

    def class_tolerance(self) -> Tensor:
        """Return the tolerance of each output `(C,)` where the user set none for each input; found once."""
        with self._shared.lock:
            if self._shared.tolerance is None:
                rule = self.neighbourhood.tolerance
                kept = (self.neighbourhood.n_background or None) if self.task.space.has_background else None
                with self.task.predict.session(), self.task.predict.counting() as spent:
                    self._shared.tolerance = class_tolerance(
                        *(self.task, rule if isinstance(rule, str) else None, self.settings.change, self.seed), kept
                    )
                self._shared.n_once += spent.n_rows
            return self._shared.tolerance

    def prepare(self) -> Mapping[str, Any]:
        """Do what is done once for all inputs: train a method that has to be, find the tolerance.

        The first explanation would do it as well. Returns what training cost, where there was any.
        """
        with self._shared.lock, self.task.predict.session():
            self._check_repeats()
            self.class_tolerance()
            self._shared.training = self.method.prepare(self.task, self.seed)
            return self._shared.training

    def _check_repeats(self) -> None:
        """Warn, once, of a model that says something else when it is asked again."""
        with self._shared.lock:
            if not self._shared.repeats:
                with self.task.predict.session(), self.task.predict.counting() as spent:
                    self.task.predict.check_repeats(self.task.background, self.task.outputs)
                self._shared.n_once += spent.n_rows
                self._shared.repeats = True


class _Shared:
    """What is found once for all inputs, by whichever thread needs it first.

    Attributes:
        n_once: model rows spent on it, training aside.
        repeats: whether it was checked that the model says the same twice.
        tolerance: of each output `(C,)`, once it is found.
        training: what training the method cost, once that is done.
        lock: held while it is found.
    """

    def __init__(self, n_once: int) -> None:
        self.n_once = n_once
        self.repeats = False
        self.tolerance: Tensor | None = None
        self.training: Mapping[str, Any] = {}
        self.lock = threading.RLock()

    @property
    def n_rows(self) -> int:
        """Model rows spent, training included."""
        return self.n_once + int(self.training.get("rows", 0))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.RLock())


def _refuse_unknown(settings: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse settings that are none of the known ones, and say what those of other libraries are here."""
    for name in settings:
        if name in ELSEWHERE and name not in known:
            raise InputError(f"Expected a setting of `fans`, got {name!r}; pass {ELSEWHERE[name]}")
        choose("a setting", name, sorted(known))


def _warn_of_one_row(task: Task) -> None:
    """Warn of a table's background in which there is nothing to compare."""
    if task.space.own_scales and task.space.has_background and len(task.background) == 1:
        warn(
            "The background has one row, so that every other value is that row's and the outputs have no spread; "
            "pass rows of real data, a hundred or so"
        )


def _chosen(task: Task, given: Part, subset: Any, *, alone: bool) -> Tensor:
    """Return the subsets `(n, F)` that the user asked of, of inputs of one row layout; `alone`: there is no other."""
    own = subset if alone else subsets_of(subset, given.at)
    return task.space.feature_subset(own, task.space.units(given.rows), len(given.rows))


def _sample(task: Task, name: int | str, sides: Mapping[str, Shown]) -> TrialSample:
    """Return the trials of one input as users look at them."""
    space = task.space

    def shown(rows: Tensor) -> Array:
        found: Array = space.shown(space.told(rows)).numpy()[None]
        return found

    return TrialSample(
        inputs={side: shown(one.rows) for side, one in sides.items()},
        before={side: shown(one.before) for side, one in sides.items()},
        **{
            field: {side: getattr(one, field)[None].numpy() for side, one in sides.items()}
            for field in ("outputs", "outputs_before", "moved", "weights")
        },
        given={side: [space.decode(one.rows)] for side, one in sides.items()},
        ids=(name,),
        n_evaluations=0,
    )


def _plain(scores: Tensor) -> Scores:
    """Return scores of anybody's making."""
    return Scores(scores, None, torch.zeros(len(scores), dtype=torch.int64))


@dataclass(frozen=True)
class _Ready:
    """A block, the model's outputs on its inputs `(B, C)`, and the rows each input's own samples cost."""

    block: InputBatch
    outputs: Tensor
    n_own: int


@dataclass(frozen=True)
class _Scored:
    """The scores of one block, as the fields of `Attribution`; `reference` and `scoring` are model rows."""

    scores: Any
    scores_se: Any
    history: Any
    target: Any
    prediction: Any
    reference: Any
    scoring: Any
    elements: Any


@dataclass(frozen=True)
class _Piece(_Scored):
    """The results of one block, as the fields of `Explanation`; the last arrays are model rows by phase."""

    subset: Any
    direction: Any
    stability: Any
    pns: Any
    pn: Any
    ps: Any
    changes: Any
    holds: Any
    interval: Any
    share_interval: Any
    ess: Any
    radius: Any
    tolerance: Any
    sweep: Any
    direct: Any
    strict: Any
    notes: tuple[str, ...]


class _Results:
    """The results of the blocks done so far, in arrays for all inputs from the start.

    Small results of each block, kept among its large temporaries, would pin the heap in ever more pieces.
    """

    def __init__(self, n_inputs: int) -> None:
        self.n_inputs, self.n = n_inputs, 0
        self._arrays: dict[str, Any] = {}
        self.notes: list[str] = []

    def add(self, piece: _Scored) -> None:
        """Copy the results of one more block."""
        part = slice(self.n, self.n + len(piece.scores))
        for f in fields(piece):
            value = getattr(piece, f.name)
            if isinstance(value, np.ndarray):
                if not self.n:
                    self._arrays[f.name] = np.zeros((self.n_inputs, *value.shape[1:]), value.dtype)
                self._arrays[f.name][part] = value
        self.notes += piece.notes if isinstance(piece, _Piece) else ()
        self.n = part.stop

    def so_far(self) -> dict[str, Any]:
        """Return the arrays of `_Scored`, or of `_Piece`, for all inputs done."""
        arrays = {name: array[: self.n] for name, array in self._arrays.items()}
        return {"scores_se": None, "history": None, "elements": None} | arrays


class _Inputs:
    """The inputs of one call, cut into blocks with their own reference samples."""

    def __init__(self, explainer: Explainer, given: Part, *, alone: bool = False) -> None:
        self.explainer, self.rows, self.ids, self.target = explainer, given.rows, given.ids, given.target
        around = explainer.neighbourhood
        self.around = replace(around, n_background=0, n_local=0) if alone else around
        self.radius = given_radius(around.radius, len(self.rows))
        self.tolerance = given_tolerance(around.tolerance, len(self.rows))

    def block(self, part: slice) -> _Ready:
        """Prepare the inputs of a slice."""
        explainer, task = self.explainer, self.explainer.task
        around, settings = self.around, explainer.settings
        rows, ids, of = self.rows[part], self.ids[part], torch.arange(len(self.rows))[part]
        samples = (around.n_background, around.n_local, around.local_noise)
        pool, outputs = Reference.around(task, rows, ids, explainer.seed, *samples, of=of)
        target = task.targets(None, outputs) if self.target is None else self.target[part]
        distances = task.space.unit_distances(rows, pool.samples(), pool.units, settings.distance).double()
        radius = resolve_radius(self.radius, part, distances, pool.units, settings.distance)
        tolerance = self.tolerance[part] if isinstance(self.tolerance, Tensor) else explainer.class_tolerance()[target]
        graded = self.tolerance is None
        block = InputBatch(pool, distances, target, ids, radius, tolerance, None, explainer.seed, graded)
        return _Ready(block, outputs, 1 + around.n_local)


class _Run:
    """What is being explained of one part, and what is done of it."""

    def __init__(self, explainer: Explainer, part: Part) -> None:
        self.explainer, self.part = explainer, part
        self.inputs, self.done = _Inputs(explainer, part), _Results(len(part.rows))


def _joined(runs: Sequence[_Run], started: float) -> Explanation | None:
    """Return everything done so far as one explanation, in the order of the inputs; None where nothing is."""
    begun = [run for run in runs if run.done.n]
    if not begun:
        return None
    found = [run.explainer._assemble(run.done, run.inputs) for run in begun]
    whole = join(found, [run.part.at[: run.done.n] for run in begun])
    return replace(whole, seconds=time.perf_counter() - started)
