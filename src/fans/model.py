"""The one caller of the user's model: any model as one batched function of rows, which counts what it is asked.

A `ModelCaller` may be shared by threads and pickled: what it learns of the model it learns once, from the background,
and what a call needs belongs to the call.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fans.boosters import Booster, is_booster
from fans.errors import FansError, InputError, ModelError, choose, warn
from fans.memory import show_a_batch
from fans.meter import Listener, RowMeter, Spent
from fans.modalities.base import FittedSpace
from fans.modes import asking, evaluating
from fans.outputs import are_probabilities, as_tensor, checked_columns, sigmoid, softmax
from fans.types import Kind

Output = Literal["probability", "raw"]
TaskKind = Literal["classification", "regression"]

FAR = 2.0**96
"""Beyond any number of a table: what is missing, or a part of it."""

LARGEST_OUTPUT, SMALLEST_OUTPUT = 2.0**400, 2.0**-400
"""Outputs beyond the one, or all below the other, are refused: their squares are no numbers of double precision."""

N_AGAIN, REPEATS = 4, 0.01
"""Background rows that a model is asked about again, and what its answers may differ by, as a share of their size."""

_LEFT_TORCH = "numpy() on Tensor that requires grad"
"""What torch says where a module goes on in NumPy with what has a gradient."""


class _Form(Protocol):
    """How a kind of model is called."""

    def __call__(self, space: FittedSpace, rows: Tensor, of: Tensor | None, **how: Any) -> Any:
        """Return the model's own outputs for rows `(n, E)` of a space, copies of the inputs `of` `(n,)`."""


@dataclass(frozen=True)
class _Function:
    """A torch module, or any callable on rows."""

    model: Any

    def __call__(self, space: FittedSpace, rows: Tensor, of: Tensor | None, **how: Any) -> Any:
        return space.ask(self.model, rows, of, **how)


@dataclass(frozen=True)
class _Decoded:
    """A method of an estimator (or a booster itself, `method=""`), which takes rows as the user has them."""

    model: Any
    method: str

    def __call__(self, space: FittedSpace, rows: Tensor, of: Tensor | None, **how: Any) -> Any:  # noqa: ARG002
        ask = getattr(self.model, self.method) if self.method else self.model
        return ask(space.decode(rows))


def _form_of(model: Any, space: FittedSpace, task: TaskKind | None) -> _Form:
    """Return how a model is called, or refuse what is no model."""
    if isinstance(model, nn.Module) or space.asks(model):
        return _Function(model)
    if isinstance(model, type):
        raise ModelError(f"Expected a model, got the class {model.__name__} itself; pass a fitted instance of it")
    if is_booster(model):
        return _Decoded(Booster(model, space, classes=task != "regression"), "")
    if hasattr(model, "predict_proba") and task != "regression":
        return _Decoded(model, "predict_proba")
    if hasattr(model, "predict") and hasattr(model, "classes_") and task != "regression":
        raise ModelError(
            f"Expected a classifier with predict_proba, got {type(model).__name__}, which has none; "
            "wrap it in sklearn.calibration.CalibratedClassifierCV, or pass its decision_function as the model"
        )
    if hasattr(model, "predict"):
        return _Decoded(model, "predict")
    if callable(model):
        return _Function(model)
    raise ModelError(
        f"Expected a torch module, a scikit-learn estimator or a callable as model, got {type(model).__name__}"
    )


def _said(error: Exception, most: int | None = None) -> str:
    """Return what an error says in its first lines, without the trace and the place in its source of a C++ library."""
    text = re.split(r"\n\s*Stack trace", str(error))[0]
    lines = (line.strip().rstrip(".:") for line in re.sub(r"^\[[\d:]+\] \S+:\d+: ", "", text).splitlines())
    return "; ".join([line for line in lines if line][:most])


class ModelCaller:
    """Any model as a function from rows `(n, E)` to outputs `(n, C)` in float64, in batches, with its rows counted.

    A torch module runs in evaluation mode without gradients (inside `session`), its logits turned into probabilities. A
    single output that is no probability on the background is a number, unless `task="classification"` says otherwise.
    A scikit-learn estimator answers with `predict_proba` if it has it, else `predict`. Any other callable's output is
    used as it is.

    Args:
        model: the user's.
        space: what the rows are.
        output: `"raw"` leaves a module's logits as they are.
        task: what a module's or an estimator's outputs are; guessed by default.
        meter: counts on in it; a new one by default.

    Attributes:
        max_batch: most rows that exist at a time, with what the model makes of them.
        n_seen: most of them that the model sees in one call: all, but that a network on the CPU is faster with few.
        kind: whether outputs are probabilities.
        target_names: of the outputs.
    """

    def __init__(
        self, model: Any, space: FittedSpace, *, output: Output, task: TaskKind | None, meter: RowMeter | None = None
    ) -> None:
        choose("`output`", output, ("probability", "raw"))
        if task is not None:
            choose("`task`", task, ("classification", "regression"))
        self.model = model
        self.space = space
        self.max_batch = self.n_seen = 1
        self.meter = meter or RowMeter()
        self._form = _form_of(model, space, task)
        self._squash: Callable[[Tensor], Tensor] | None = None
        self._n_outputs: int | None = None
        self._calibrated = False
        self._module = model if isinstance(model, nn.Module) else None
        self._wants_squash = self._module is not None and output == "probability" and task != "regression"
        self._task = task
        named = isinstance(self._form, _Decoded) and self._form.method == "predict_proba"
        classes = tuple(str(name) for name in getattr(model, "classes_", ()) if named)
        self.target_names: tuple[str, ...] | None = classes or tuple(space.output_names(model)) or None
        self.kind: Kind = "probability" if self._wants_squash or classes else "output"

    def bound_batches(self, max_batch: int | None) -> None:
        """Let the model see at most `max_batch` rows at a time, or what serves rows of this size if that is None."""
        self.max_batch = self.n_seen = int(max_batch or self.space.default_batch)
        if max_batch is None and self._module is not None:
            on = {parameter.device.type for parameter in self._module.parameters()}
            self.n_seen = self.space.network_batch if on == {"cpu"} else self.max_batch

    def reading(self, space: FittedSpace, max_batch: int | None) -> "ModelCaller":
        """Return the same model for rows of another layout, counted by the same meter."""
        other = copy(self)
        other.space = space
        other.bound_batches(max_batch)
        return other

    def session(self) -> AbstractContextManager[None]:
        """Hold a module in evaluation mode with its parameters frozen, whoever else asks it; no gradients are followed.

        The last of several sessions, in any thread and of any caller of the module, restores it.
        """
        return asking(self.model)

    # --- Counting ----------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Rows the model was asked in all, by every thread and in rows of every layout."""
        return self.meter.n_rows

    def counting(self) -> AbstractContextManager[Spent]:
        """Count the rows that this thread asks for: `with caller.counting() as spent: ...`, then `spent.n_rows`."""
        return self.meter.counting()

    def telling(self, listener: Listener) -> AbstractContextManager[None]:
        """Tell somebody of the rows that this thread asks for, each time how many."""
        return self.meter.telling(listener)

    @contextmanager
    def direct(self, n_rows: int) -> Iterator[Any]:
        """Yield the model itself to whoever has to call it with something other than rows, which count as so many."""
        self.meter.add(n_rows)
        yield self.model

    # --- Reading what it says ----------------------------------------------------------------------------------------

    def calibrate(self, rows: Tensor) -> Tensor:
        """Evaluate the background once, decide how a module's outputs are read, and return them read so."""
        show_a_batch()
        raw = self(rows)
        self._calibrated = True
        largest = float(raw.abs().max())
        if 0 < largest < SMALLEST_OUTPUT:
            raise ModelError(
                f"Expected outputs of at least {SMALLEST_OUTPUT:.0e} on the background, got {largest:.3g} at most, "
                "whose square is 0 in double precision; scale them up"
            )
        if self._wants_squash:
            self._squash = self._reading(raw)
        outputs = self._squash(raw) if self._squash else raw
        if self.target_names is None or len(self.target_names) != outputs.shape[1]:
            self.target_names = tuple(str(c) for c in range(outputs.shape[1]))
        if self.kind == "output" and outputs.shape[1] > 1 and are_probabilities(outputs):
            self.kind = "probability"  # a callable that returns class probabilities
        return outputs

    def check_repeats(self, rows: Tensor, raw: Tensor) -> None:
        """Warn of a model that says something else than `raw` of the same rows, asked again a few at a time."""
        few = min(N_AGAIN, max(1, len(rows) - 1))
        of = self.space.copies_of(len(rows), None)
        again, before = self(rows[:few], None if of is None else of[:few]), raw[:few]
        apart = (again - before).abs()
        near = REPEATS * (before.abs() + (raw.amax(0) - raw.amin(0)))
        if (apart > near).any():
            at = apart.flatten().argmax()
            warn(
                f"The model says {float(again.flatten()[at]):.4g} of a background row of which it said "
                f"{float(before.flatten()[at]):.4g} among others, so that what is explained is partly chance; leave "
                "out what draws at random (dropout, augmentation) or depends on the batch, or fix its seed in the model"
            )

    def _reading(self, raw: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Return what makes probabilities of a module's outputs; None where they are some, or a number."""
        single = raw.shape[1] == 1
        if are_probabilities(raw):
            return checked_columns if single else None
        if not single:
            return softmax
        if self._task == "classification":
            return sigmoid
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

    # --- Asking it ----------------------------------------------------------------------------------------------------

    def __call__(self, rows: Tensor, of: Tensor | None = None, *, fresh: bool = False) -> Tensor:
        """Return outputs `(n, C)`, evaluated in batches of at most `n_seen` rows.

        Args:
            rows: `(n, E)`.
            of: `(n,)` which input each is a perturbed copy of, by its place among those of the space. It matters only
                where inputs have no layout in common, as graphs; by default every input comes once, in order.
            fresh: whether the rows are nobody else's: a model may overwrite what it is given, so it gets a copy.
        """
        if not len(rows):
            raise InputError("Expected at least one row to evaluate, got none")
        of = self.space.copies_of(len(rows), of)
        pieces = [slice(i, i + self.n_seen) for i in range(0, len(rows), self.n_seen)]
        parts = [
            self._checked(rows[piece] if fresh else rows[piece].clone(), None if of is None else of[piece])
            for piece in pieces
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _answer(self, rows: Tensor, of: Tensor | None) -> Any:
        """Ask the model; where it fails for what it was not made for, or from the start, say so."""
        try:
            return self._form(self.space, rows, of)
        except FansError:
            raise
        except Exception as error:
            self._blame_oddities(rows, error)
            if self._calibrated or (self._module is None and not hasattr(self.model, "predict")):
                raise
            if self._module is None:
                raise self._misfit(error) from error
            shape = tuple(self.space.for_module(rows).shape)
            said = _said(error, 1)
            raise ModelError(
                f"Expected a module that takes inputs of shape {shape}, got {type(error).__name__} from "
                f"{type(self._module).__name__}: {said}; pass a background of the shape the module was trained on"
            ) from error

    def _misfit(self, error: Exception) -> ModelError:
        """Return what to say of an estimator that fails on the background."""
        name = type(self.model).__name__
        if type(error).__name__ == "NotFittedError":
            return ModelError(f"Expected a fitted model, got {name}, which is not fitted yet; call its `fit` first")
        what, remedy = self.space.taken
        return ModelError(f"Expected {name} to take {what}, got {type(error).__name__}: {_said(error)[:300]}; {remedy}")

    def _blame_oddities(self, rows: Tensor, error: Exception) -> None:
        """Raise a sentence of our own if the model fails on rows that have something odd, and on no others."""
        said = _said(error, 1)
        for odd in self.space.oddities(rows):
            if self._takes(rows[~odd.at]):
                raise ModelError(
                    f"Expected a model that takes {odd.what}, got {type(error).__name__} from "
                    f"{type(self.model).__name__}: {said}; {odd.remedy}"
                ) from error

    def _takes(self, rows: Tensor) -> bool:
        """Tell whether the model has an answer for rows, or there are none."""
        try:
            return not len(rows) or self._form(self.space, rows, None) is not None
        except Exception:  # whatever it is
            return False

    def _checked(self, rows: Tensor, of: Tensor | None) -> Tensor:
        out = as_tensor(self._answer(rows, of))
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
        if not (out.abs() <= LARGEST_OUTPUT).all():
            bad = (~torch.isfinite(out)).any(1)
            if not bad.any():
                raise ModelError(
                    f"Expected outputs up to {LARGEST_OUTPUT:.0e} from the model, got {float(out.abs().max()):.3g}, "
                    "whose square is beyond double precision; scale them down"
                )
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
        self.meter.add(len(rows))
        return self._squash(out) if self._squash else out

    @property
    def returns_probabilities(self) -> bool:
        """Whether the model's own outputs are probabilities as they come."""
        return self.kind == "probability" and self._squash in (None, checked_columns)

    @property
    def n_outputs(self) -> int | None:
        """How many outputs the model itself has; None before it was asked."""
        return self._n_outputs

    @property
    def is_module(self) -> bool:
        """Whether it is a torch module, which has gradients."""
        return self._module is not None

    def has_gradient(self, rows: Tensor, of: Tensor | None = None) -> bool:
        """Tell whether outputs of these rows follow from them in torch, by asking; of graphs only whether they may."""
        if self._module is None or self.space.no_gradient or self.space.categories:
            return False
        if self.space.may_follow_from_nothing:
            return True
        self.meter.add(len(rows))
        with evaluating(self.model), torch.enable_grad():
            try:
                return self._connected(rows.clone().requires_grad_().clone(), of).requires_grad
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

    def differentiable(
        self, rows: Tensor, of: Tensor | None = None, *, raw: bool = False, whole: bool = False, **how: Any
    ) -> Tensor:
        """Return outputs `(n, C)` through which gradients flow back to `rows`, copies of the inputs `of` `(n,)`.

        They go through the model in pieces, unless they must be `whole`: seen by the model together. The activations of
        more rows than `max_batch` are computed again on the way back. `raw`: as they come. What else is given goes to
        the space's `ask`.
        """
        if self.space.has_missing and bool((rows.abs() > FAR).any()):
            raise InputError(
                "Expected a value in every column of x for a method that follows gradients, as in the background, got "
                'missing ones; impute them, or use solver="walks"'
            )
        self.meter.add(len(rows))
        of = self.space.copies_of(len(rows), of)
        if whole or len(rows) <= self.n_seen:
            return self._one_pass(rows, of, raw, **how)
        ask = self._one_pass
        if len(rows) > self.max_batch:
            ask = partial(checkpoint, self._one_pass, use_reentrant=False, preserve_rng_state=False)
        pieces: Sequence[Tensor] = torch.split(rows, self.n_seen)
        inputs = [None] * len(pieces) if of is None else torch.split(of, self.n_seen)
        return torch.cat([ask(some, whose, raw, **how) for some, whose in zip(pieces, inputs, strict=True)])

    def _connected(self, rows: Tensor, of: Tensor | None, **how: Any) -> Tensor:
        """Return a module's own outputs for rows, with their gradient if they are tensors."""
        out = self._form(self.space, rows, of, **how)
        return out if isinstance(out, Tensor) else as_tensor(out)

    def _one_pass(self, rows: Tensor, of: Tensor | None, raw: bool, **how: Any) -> Tensor:
        try:
            out = self._connected(rows.clone(), of, **how)  # a model may overwrite what it is given
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
