"""Which change of the output still counts as none."""

from typing import Any

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import (
    Change,
)
from fans.engine.inputs import per_input
from fans.engine.neighbourhood import background_sample
from fans.errors import choose
from fans.task import Task


def noise_tolerance(
    task: Task, change: Change, seed: int, *, relative: bool = True, n_draws: int = 16, n_background: int | None = None
) -> Tensor:
    """Return c for each class `(C,)`: the largest change small noise makes on the background (Section 4.6).

    `c := max over x in E, e in R of |f(x) - f(x + e)|`, e normal with a standard deviation of 0.001: of each feature's
    own if `relative`, else in the feature's units (the paper's form). `n_background` uses only some of the rows.
    """
    kept = background_sample(task, seed, n_background)
    rows, outputs = task.background[kept], task.outputs[kept]
    n_classes = outputs.shape[1]
    if change == "label":
        return torch.full((n_classes,), 0.5, dtype=torch.float64)
    key = draws.stream_keys(seed, [0], "tolerance")
    largest = torch.zeros(n_classes, dtype=torch.float64)
    step = task.predict.max_batch
    for start in range(0, len(rows) * n_draws, step):
        flat = torch.arange(start, min(start + step, len(rows) * n_draws))
        normals = draws.normal(key, task.space.draw_places(flat))
        noisy = rows[flat // n_draws] + task.space.noise(normals, 0.001, relative=relative).to(rows.dtype)
        moved = (task.predict(noisy, kept[flat // n_draws]) - outputs[flat // n_draws]).abs()
        if change == "l2":
            moved = moved.norm(dim=1, keepdim=True).expand(-1, n_classes)
        largest = torch.maximum(largest, moved.amax(0))
    return largest


TOLERANCES = ("noise", "paper")


def given_tolerance(tolerance: Any, n_inputs: int) -> Tensor | str | None:
    """Check the user's tolerance: numbers become one per input, names must be known."""
    if tolerance is None:
        return None
    if isinstance(tolerance, str):
        return choose("`tolerance`", tolerance, TOLERANCES)
    return per_input("tolerance", tolerance, n_inputs, positive=False)


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
