"""A model and its data, ready to be asked: any model as one batched function, and the `Task` that binds the two."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fans.boosters import Booster, is_booster
from fans.errors import FansError, InputError, ModelError, check_whole, choose, warn
from fans.modalities.base import Baseline, FeatureSpace, FittedSpace, shape_of
from fans.modalities.registry import guess_space
from fans.types import Kind

Output = Literal["probability", "raw"]
TaskKind = Literal["classification", "regression"]


class Predictor:
    """Any model as a function from rows `(n, E)` to outputs `(n, C)` in float64, in batches, with its rows counted.

    A torch module runs in evaluation mode without gradients (inside `session`), its logits turned into probabilities. A
    single output that is no probability on the background is a number, unless `task="classification"` says otherwise.
    A scikit-learn estimator answers with `predict_proba` if it has it, else `predict`. Any other callable's output is
    used as it is.

    Attributes:
        max_batch: most rows that exist at a time, with what the model makes of them.
        n_seen: most of them that the model sees in one call: all, but that a network on the CPU is faster with few.
        n_rows: rows the model was asked.
    """

    def __init__(self, model: Any, space: FittedSpace, *, output: Output, task: TaskKind | None) -> None:
        choose("`output`", output, ("probability", "raw"))
        if task is not None:
            choose("`task`", task, ("classification", "regression"))
        self.model = model
        self.space = space
        self.max_batch = self.n_seen = 1
        self.n_rows = 0
        self._tell: Callable[[int], None] = lambda _: None
        self.target_names: tuple[str, ...] | None = None
        self._squash: Callable[[Tensor], Tensor] | None = None
        self._n_outputs: int | None = None
        self._calibrated = False
        self._module = model if isinstance(model, nn.Module) else None
        self._wants_squash = self._module is not None and output == "probability" and task != "regression"
        self._task = task
        self._call = self._resolve(model, task)
        self.kind: Kind = "probability" if self._wants_squash or self.target_names is not None else "output"

    def _resolve(self, model: Any, task: TaskKind | None) -> Callable[[Tensor], Any]:
        """Return the function from rows to the model's own outputs."""
        if self._module is not None:
            return self._call_module
        if isinstance(model, type):
            raise ModelError(f"Expected a model, got the class {model.__name__} itself; pass a fitted instance of it")
        if is_booster(model):
            booster = Booster(model, self.space, classes=task != "regression")
            return lambda rows: booster(self.space.decode(rows))
        if hasattr(model, "predict_proba") and task != "regression":
            self.target_names = tuple(str(c) for c in getattr(model, "classes_", ())) or None
            return lambda rows: model.predict_proba(self.space.decode(rows))
        if hasattr(model, "predict") and hasattr(model, "classes_") and task != "regression":
            raise ModelError(
                f"Expected a classifier with predict_proba, got {type(model).__name__}, which has none; "
                "wrap it in sklearn.calibration.CalibratedClassifierCV, or pass its decision_function as the model"
            )
        if hasattr(model, "predict"):
            return lambda rows: model.predict(self.space.decode(rows))
        if callable(model):
            return lambda rows: self.space.ask(model, rows)
        raise ModelError(
            f"Expected a torch module, a scikit-learn estimator or a callable as model, got {type(model).__name__}"
        )

    def bound_batches(self, max_batch: int | None) -> None:
        """Let the model see at most `max_batch` rows at a time, or what serves rows of this size if that is None."""
        self.max_batch = self.n_seen = int(max_batch or self.space.default_batch)
        if max_batch is None and self._module is not None:
            on = {parameter.device.type for parameter in self._module.parameters()}
            self.n_seen = self.space.network_batch if on == {"cpu"} else self.max_batch

    def reading(self, space: FittedSpace, max_batch: int | None) -> "Predictor":
        """Return the same model for rows of another layout, its rows counted anew."""
        other = copy(self)
        other.space, other.n_rows = space, 0
        other.bound_batches(max_batch)
        other._call = other._resolve(other.model, other._task)
        return other

    def _call_module(self, rows: Tensor, **how: Any) -> Tensor:
        out = self.space.ask(self._module, rows, **how)
        return out if isinstance(out, Tensor) else _outputs(out)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Hold a module in evaluation mode with its parameters frozen, all restored afterwards, whatever happens.

        A caller's inference mode is left for as long: error bars need derivatives.
        """
        _keep_freed_memory()
        if self._module is None:
            with torch.inference_mode(False):
                yield
            return
        modes = [(part, part.training) for part in self._module.modules()]
        learning = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        try:
            self._module.eval()
            for parameter in learning:  # their gradients are never wanted here
                parameter.requires_grad_(False)
            with torch.inference_mode(False), torch.no_grad():
                yield
        finally:
            for part, mode in modes:
                part.training = mode
            for parameter in learning:
                parameter.requires_grad_()

    @contextmanager
    def telling(self, somebody: Callable[[int], None]) -> Iterator[None]:
        """Tell somebody of the rows that the model is asked, each time how many."""
        before, self._tell = self._tell, somebody
        try:
            yield
        finally:
            self._tell = before

    def calibrate(self, rows: Tensor) -> Tensor:
        """Evaluate the background once, decide how a module's outputs are read, and return them read so."""
        raw = self(rows)
        self._calibrated = True
        if self._wants_squash:
            self._squash = self._reading(raw)
        outputs = self._squash(raw) if self._squash else raw
        if self.target_names is None or len(self.target_names) != outputs.shape[1]:
            self.target_names = tuple(str(c) for c in range(outputs.shape[1]))
        if self.kind == "output" and outputs.shape[1] > 1 and _are_probabilities(outputs):
            self.kind = "probability"  # a callable that returns class probabilities
        return outputs

    def _reading(self, raw: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Return what makes probabilities of a module's outputs; None where they are some, or a number."""
        single = raw.shape[1] == 1
        if _are_probabilities(raw):
            return _checked_columns if single else None
        if not single:
            return _softmax
        if self._task == "classification":
            return _sigmoid
        self.kind = "output"
        warn(
            "The module has one output, which is no probability on the background, so it is explained as a number; "
            'pass task="classification" if it is the logit of a class, task="regression" if it is a number indeed'
        )
        return None

    @property
    def if_logit(self) -> str:
        """What to do, as the end of a sentence, if a number is the logit of a class; empty where nobody took it so."""
        taken = self._wants_squash and self.kind == "output"
        return '; pass task="classification" if the one output is the logit of a class' if taken else ""

    def __call__(self, rows: Tensor, *, fresh: bool = False) -> Tensor:
        """Return outputs `(n, C)`, evaluated in batches of at most `n_seen` rows.

        A model may overwrite what it is given, so it gets a copy, unless the rows are `fresh` and nobody else's.
        """
        if not len(rows):
            raise InputError("Expected at least one row to evaluate, got none")
        pieces = [rows[i : i + self.n_seen] for i in range(0, len(rows), self.n_seen)]
        parts = [self._checked(piece if fresh else piece.clone()) for piece in pieces]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _answer(self, rows: Tensor) -> Any:
        """Ask the model; where it fails for what it was not made for, or from the start, say so."""
        try:
            return self._call(rows)
        except FansError:
            raise
        except Exception as error:
            self._blame_oddities(rows, error)
            if self._calibrated or (self._module is None and not hasattr(self.model, "predict")):
                raise
            if self._module is None:
                raise self._misfit(error) from error
            shape = tuple(self.space.for_module(rows).shape)
            said = next(iter(str(error).splitlines()), "")
            raise ModelError(
                f"Expected a module that takes inputs of shape {shape}, got {type(error).__name__} from "
                f"{type(self._module).__name__}: {said}; pass a background of the shape the module was trained on"
            ) from error

    def _misfit(self, error: Exception) -> ModelError:
        """Return what to say of an estimator that fails on the background."""
        lines = "; ".join(line.strip().rstrip(".:") for line in str(error).splitlines() if line.strip())
        return ModelError(
            f"Expected {type(self.model).__name__} to take the background's {self.space.n_elements} columns as they "
            f"are, got {type(error).__name__}: {lines[:300]}; pass a background like the rows that it was fitted on"
        )

    def _blame_oddities(self, rows: Tensor, error: Exception) -> None:
        """Raise a sentence of our own if the model fails on rows that have something odd, and on no others."""
        said = next(iter(str(error).splitlines()), "").rstrip(".")
        for odd in self.space.oddities(rows):
            if self._takes(rows[~odd.at]):
                raise ModelError(
                    f"Expected a model that takes {odd.what}, got {type(error).__name__} from "
                    f"{type(self.model).__name__}: {said}; {odd.remedy}"
                ) from error

    def _takes(self, rows: Tensor) -> bool:
        """Tell whether the model has an answer for rows, or there are none."""
        try:
            return not len(rows) or self._call(rows) is not None
        except Exception:  # whatever it is
            return False

    def _checked(self, rows: Tensor) -> Tensor:
        out = _outputs(self._answer(rows))
        if out.ndim == 1:
            out = out[:, None]
        if out.ndim != 2 or len(out) != len(rows) or not out.shape[1]:
            raise ModelError(
                f"Expected the model to return ({len(rows)},) or ({len(rows)}, classes) for {len(rows)} rows, "
                f"got {tuple(out.shape)}; it must give one output row per input row"
            )
        if self._n_outputs not in (None, out.shape[1]):
            raise ModelError(
                f"Expected {self._n_outputs} outputs for every row, as the model gave before, got {out.shape[1]}"
            )
        self._n_outputs = out.shape[1]
        if not torch.isfinite(out).all():
            bad = (~torch.isfinite(out)).any(1)
            n_bad = int(bad.sum())
            for odd in self.space.oddities(rows):
                if odd.at[bad].all():
                    raise ModelError(
                        f"Expected finite outputs from the model, got NaN or infinity for {n_bad} of {len(rows)} rows, "
                        f"all of them with {odd.what}; {odd.remedy}"
                    )
            where = "perturbed inputs, or choose another baseline" if self._calibrated else "the background"
            raise ModelError(
                f"Expected finite outputs from the model, got NaN or infinity for {n_bad} of {len(rows)} rows; "
                f"check the model on {where}"
            )
        self._count(len(rows))
        return self._squash(out) if self._squash else out

    def _count(self, n_rows: int) -> None:
        self.n_rows += n_rows
        self._tell(n_rows)

    @property
    def returns_probabilities(self) -> bool:
        """Whether the model's own outputs are probabilities as they come."""
        return self.kind == "probability" and self._squash in (None, _checked_columns)

    @property
    def n_outputs(self) -> int | None:
        """How many outputs the model itself has; None before it was asked."""
        return self._n_outputs

    @property
    def is_module(self) -> bool:
        """Whether it is a torch module, which has gradients."""
        return self._module is not None

    def has_gradient(self, rows: Tensor) -> bool:
        """Tell whether outputs of these rows follow from them in torch, by asking; of graphs only whether they may."""
        if self._module is None or self.space.no_gradient or self.space.categories:
            return False
        if self.space.may_follow_from_nothing:
            return True
        self._count(len(rows))
        with torch.enable_grad():
            try:
                return self._call_module(rows.clone().requires_grad_().clone()).requires_grad
            except RuntimeError as error:
                if _LEFT_TORCH in str(error):
                    return False
                raise

    def check_gradients(self, asker: str, instead: str) -> None:
        """Refuse a model that has no gradient to somebody who needs one; `instead` is what to use."""
        if self._module is None:
            raise ModelError(f"Expected a torch module for {asker}, got {type(self.model).__name__}; use {instead}")
        if self.space.categories:
            raise InputError(
                f"Expected numbers in every column for {asker}, got categories, which have no gradient; "
                f"encode them as numbers, or use {instead}"
            )
        if self.space.no_gradient:
            raise ModelError(
                f"Expected a gradient for {asker}, got none from {type(self.model).__name__}: "
                f"{self.space.no_gradient}; use {instead}"
            )

    def differentiable(self, rows: Tensor, *, raw: bool = False, whole: bool = False, **how: Any) -> Tensor:
        """Return outputs `(n, C)` through which gradients flow back to `rows`.

        They go through the model in pieces, unless they must be `whole`: seen by the model together. The activations of
        more rows than `max_batch` are computed again on the way back. `raw`: as they come. What else is given goes to
        the space's `ask`.
        """
        if self.space.has_missing and bool((rows.abs() > FAR).any()):
            raise InputError(
                "Expected a value in every column of x for a method that follows gradients, as in the background, got "
                'missing ones; impute them, or use solver="walks"'
            )
        self._count(len(rows))
        if whole or len(rows) <= self.n_seen:
            return self._one_pass(rows, raw, **how)
        ask = self._one_pass
        if len(rows) > self.max_batch:
            ask = partial(checkpoint, self._one_pass, use_reentrant=False, preserve_rng_state=False)
        pieces: Sequence[Tensor] = torch.split(rows, self.n_seen)
        return torch.cat([ask(some, raw, **how) for some in pieces])

    def _one_pass(self, rows: Tensor, raw: bool, **how: Any) -> Tensor:
        try:
            out = self._call_module(rows.clone(), **how)  # a model may overwrite what it is given
        except RuntimeError as error:
            if _LEFT_TORCH in str(error):
                raise self._cut_off() from error
            raise
        out = (out[:, None] if out.ndim == 1 else out).to("cpu", torch.float64)
        if not torch.isfinite(out).all():
            raise ModelError("Expected finite outputs from the model, got NaN or infinity on perturbed inputs")
        if rows.requires_grad and not out.requires_grad:
            out = self._without_gradient(out, rows)
        return self._squash(out) if self._squash and not raw else out

    def _without_gradient(self, out: Tensor, rows: Tensor) -> Tensor:
        """Return outputs that do not follow from the rows, with a gradient of 0 where that may be so: in graphs.

        A node's class may depend on no edge at all; a module that ignores all of a table or image left torch somewhere.
        """
        if self.space.may_follow_from_nothing:
            return out + 0 * rows.sum()
        raise self._cut_off()

    def _cut_off(self) -> ModelError:
        return ModelError(
            "Expected a module through which gradients flow, got outputs that do not depend on the input in torch from "
            f"{type(self.model).__name__}; use a method that asks for outputs only, e.g. method='feature_ablation', or "
            'solver="game"'
        )


FAR = 2.0**96
"""Beyond any number of a table: what is missing, or a part of it."""

_LEFT_TORCH = "numpy() on Tensor that requires grad"
"""What torch says where a module goes on in NumPy with what has a gradient."""


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Make glibc keep up to half a GiB of what batches free, rather than give it back and fault every page in anew.

    Blocks of more than 32 MiB it gives back whatever one says. On other systems nothing happens.
    """
    try:
        tune: Any = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for option, value in ((_MMAP_THRESHOLD, 2**25), (_TRIM_THRESHOLD, 2**29)):
        tune(option, value)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of glibc's `mallopt`."""


def _outputs(out: Any) -> Tensor:
    """Return a model's outputs, of any library and memory layout, as float64."""
    try:
        given = out.detach() if isinstance(out, Tensor) else np.array(out)
    except (TypeError, ValueError, RuntimeError):  # uneven lists, say
        given = np.array(None)
    if isinstance(given, Tensor) and not given.is_complex():
        return given.to("cpu", torch.float64)
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiub":
        return torch.from_numpy(given.astype(np.float64))
    raise ModelError(
        f"Expected one array of numbers from the model, got {type(out).__name__} of {given.dtype}; "
        "wrap the model in a function that returns scores (n,) or (n, classes)"
    )


def _are_probabilities(out: Tensor) -> bool:
    """Tell whether all rows already are probabilities, be it with the rounding of bfloat16."""
    inside = bool(((out >= 0) & (out <= 1)).all())
    return inside and (out.shape[1] == 1 or bool(((out.sum(1) - 1).abs() < 1e-2).all()))


def _two_columns(p: Tensor) -> Tensor:
    """Return P(class 0), P(class 1) from P(class 1)."""
    return torch.cat([1 - p, p], 1)


def _checked_columns(p: Tensor) -> Tensor:
    """Return the same of what was a probability on all the background."""
    if not ((p > -0.01) & (p < 1.01)).all():
        raise ModelError(
            "Expected a probability from a module with one output, as on the background, "
            f"got {float(p.abs().max()):.4g}; "
            'pass task="regression" if it is a number, or add a sigmoid if it is a logit'
        )
    return _two_columns(p)


def _softmax(out: Tensor) -> Tensor:
    """Return softmax over the classes; along the first dimension torch vectorises it over rows, which are many."""
    return torch.softmax(out.T, 0).T


def _sigmoid(out: Tensor) -> Tensor:
    return _two_columns(torch.sigmoid(out))


@dataclass(frozen=True)
class Task:
    """What every method and metric works on: a model, a feature space, the background and the baseline.

    Attributes:
        predict: the model.
        space: the fitted feature space.
        background: `(n, E)` reference samples.
        outputs: `(n, C)` the model's outputs on them, evaluated once.
        baseline: what stands in for a feature considered missing.
        max_batch: as the user gave it.
    """

    predict: Predictor
    space: FittedSpace
    background: Tensor
    outputs: Tensor
    baseline: Baseline
    max_batch: int | None = None

    @classmethod
    def bind(
        cls,
        model: Any,
        background: Any,
        *,
        space: FeatureSpace | None = None,
        baseline: Any = None,
        output: Output = "probability",
        task: TaskKind | None = None,
        max_batch: int | None = None,
    ) -> "Task":
        """Check the parts and put them together; evaluates the background once."""
        space = space or guess_space(background)
        fitted = space.fit(background)
        if max_batch is not None:
            check_whole("max_batch", max_batch, 1)
        predict = Predictor(model, fitted, output=output, task=task)
        with predict.session():
            fitted.meet(model)
            rows = fitted.encode(background, "background")
            predict.bound_batches(max_batch)
            missing = fitted.baseline(space.baselines[0] if baseline is None else baseline, rows)
            outputs = predict.calibrate(rows)
        return cls(predict, fitted, rows, outputs, missing, max_batch)

    def split(self, x: Any) -> "list[tuple[Task, Tensor, list[int]]]":
        """Return the inputs as rows, for each row layout the task that takes it and the places of its inputs."""
        out = []
        for space, rows, at in self.space.split(x):
            task = self if space is self.space else self.on(space, rows)
            out.append((task, rows.to(task.background.dtype), at))
        return out

    def on(self, space: FittedSpace, rows: Tensor) -> "Task":
        """Return the task for rows of another layout, with a background of that layout."""
        predict = self.predict.reading(space, self.max_batch)
        return replace(self, predict=predict, space=space, background=space.stand_ins(rows), outputs=self.outputs[:1])

    @cached_property
    def deviations(self) -> Tensor:
        """`(n, E)` the influence of each background row on the logarithm of each element's variance."""
        return self.space.deviations(self.background).double()

    def targets(self, target: Any, outputs: Tensor) -> Tensor:
        """Return the explained class of each input `(B,)`: as given (index or class name), else the predicted one."""
        n, n_classes = outputs.shape
        if target is None:
            return outputs.argmax(1)
        names = self.predict.target_names or ()
        elsewhere = list[int]()
        entries: Sequence[Any] = [target] * n if shape_of(target, "`target`") == () else list(target)
        if len(entries) != n:
            raise InputError(f"Expected one target or one per input ({n}), got {len(entries)}")
        numbers = []
        for entry in entries:
            if isinstance(entry, str) and (entry in names or not self.predict.if_logit):
                numbers.append(names.index(choose("`target`", entry, names)))
                continue
            try:
                whole = int(entry) == entry
            except (TypeError, ValueError, OverflowError, RuntimeError):
                whole = False
            if not whole or not 0 <= entry < n_classes:
                got = f"got {entry!r}{self.predict.if_logit}"
                raise InputError(f"Expected `target` from 0 to {n_classes - 1}, or a class name, {got}")
            numbers.append(int(entry))
            if names and names[int(entry)] != str(int(entry)) in names:
                elsewhere.append(int(entry))
        if elsewhere:
            warn(
                f"Target {elsewhere[0]} was taken as a place, that of the class {names[elsewhere[0]]!r}, though "
                f"another is called so; pass target={str(elsewhere[0])!r} for that one"
            )
        return torch.tensor(numbers)
