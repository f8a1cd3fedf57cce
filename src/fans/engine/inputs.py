"""The inputs of a call, checked and cut into blocks."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fans.engine.equations import (
    Change,
)
from fans.errors import InputError, check_written
from fans.modalities.containers import unpacked
from fans.task import Task

BATCHES = 32
"""Model batches a stage of one block of inputs takes; larger blocks waste less on the last one, which is not full."""


def per_input(name: str, value: Any, n_inputs: int, *, positive: bool) -> Tensor:
    """Check a setting that is a number, or one an input, and return one an input."""
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
    check_written("`ids`", names)
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
    x = unpacked(x, "x")
    split = task.split(x)
    names = check_ids(task.space.names(x) if ids is None else ids, sum(len(at) for *_, at in split), own=own)
    classes = None if target is None else task.targets(target, task.outputs[:1].expand(len(names), -1))
    return [
        Part(one, rows, None if classes is None else classes[at], [names[i] for i in at], at) for one, rows, at in split
    ]


def subsets_of(subset: Any, at: list[int]) -> Any:
    """Return the subsets of some inputs, where each has its own."""
    own = isinstance(subset, Tensor | np.ndarray) and subset.ndim > 1 and len(subset) > max(at)
    return subset[at] if own else subset
