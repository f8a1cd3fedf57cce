"""A model and its data, ready to be asked: the `Task` that binds the two."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fans.errors import InputError, check_whole, choose, warn
from fans.meter import RowMeter
from fans.modalities.base import Baseline, FeatureSpace, FittedSpace, shape_of
from fans.modalities.registry import guess_space
from fans.model import ModelCaller, Output, TaskKind


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

    predict: ModelCaller
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
        meter: RowMeter | None = None,
    ) -> "Task":
        """Check the parts and put them together; evaluates the background once, counted in `meter` if given."""
        space = guess_space(background) if space is None else space.for_background(background)
        fitted = space.fit(background)
        if max_batch is not None:
            check_whole("max_batch", max_batch, 1)
        predict = ModelCaller(model, fitted, output=output, task=task, meter=meter)
        with predict.session():
            fitted = fitted.bind_model(predict)
            rows = fitted.encode(background, "background")
            predict = predict.reading(fitted, max_batch)
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
        """Return the task for rows of another layout, which share no background: a zero row stands in."""
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
                called = f"; pass target={str(entry)!r} for the class called so" if str(entry) in names else ""
                got = f"got {entry!r}{called}{self.predict.if_logit}"
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
