"""The outputs of a model, out of what it returns them in: a tuple, a dict, an object with `logits`."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import warn

_SAYING = threading.Lock()


class Unwrap:
    """Takes the outputs out of what a model returns, and says so the first time.

    They are its `logits` where it has some, else the first tensor or array of floats that has a dimension: a loss has
    none. A list with a row of numbers for each input is no such thing, and what is none of this stays as it is.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     Unwrap()({"loss": np.array(0.3), "score": np.array([0.5, 2.0])}, 2)
        array([0.5, 2. ])
    """

    def __init__(self) -> None:
        self._said = False

    def __call__(self, out: Any, n_rows: int) -> Any:
        """Return the outputs in what a model said of so many rows."""
        parts = _parts(out)
        if not any(_n_dimensions(part) for part in parts.values()):
            return out
        if isinstance(out, list | tuple) and _is_row_by_row(out, n_rows):
            return torch.stack(tuple(out)) if isinstance(out[0], Tensor) else out
        found = next((name for name in ("logits", *parts) if _is_floats(parts.get(name))), None)
        if found is None:
            return out
        with _SAYING:
            said, self._said = self._said, True
        if not said:
            what = f"item {found}" if isinstance(found, int) else f"`{found}`"
            warn(
                f"Took {what} of the {type(out).__name__} that the model returns as its outputs; if another is meant, "
                "pass a model that returns that one alone"
            )
        return parts[found]

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """Have a module return its outputs alone to whoever else calls it."""

        def leave(_: nn.Module, __: tuple[Any, ...], out: Any) -> Any:
            return self(out, 0)

        handle = model.register_forward_hook(leave)
        try:
            yield
        finally:
            handle.remove()


def _parts(out: Any) -> dict[Any, Any]:
    """Return what was returned together, by name or by place; nothing of what came alone."""
    if isinstance(out, Mapping):
        return dict(out)
    if isinstance(out, list | tuple):
        return dict(zip(getattr(out, "_fields", range(len(out))), out, strict=True))
    if isinstance(out, Tensor) or hasattr(out, "__array__"):
        return {}
    named = fields(out) if is_dataclass(out) and not isinstance(out, type) else ()
    return {name: getattr(out, name, None) for name in ("logits", *(field.name for field in named))}


def _n_dimensions(value: Any) -> int:
    """Return how many dimensions a tensor or array has; 0 for anything else."""
    return int(value.ndim) if hasattr(value, "__array__") and hasattr(value, "ndim") else 0


def _is_floats(value: Any) -> bool:
    if not _n_dimensions(value):
        return False
    return value.is_floating_point() if isinstance(value, Tensor) else np.asarray(value).dtype.kind == "f"


def _is_row_by_row(out: Any, n_rows: int) -> bool:
    """Tell whether this is a row of numbers for each input, rather than several outputs for all of them.

    Where it may be either, since there are as many of the ones as of the others, a list is rows and a tuple is not.
    """
    if len(out) != n_rows or any(_n_dimensions(row) != 1 for row in out):
        return False
    return isinstance(out, list) or len(out[0]) != n_rows
