"""How a model's outputs are read: as an array of numbers, and as probabilities."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fans.errors import ModelError


def as_tensor(out: Any) -> Tensor:
    """Return a model's outputs, of any library and memory layout, as float64 on the CPU."""
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


def are_probabilities(out: Tensor) -> bool:
    """Tell whether all rows `(n, C)` already are probabilities, be it with the rounding of bfloat16."""
    inside = bool(((out >= 0) & (out <= 1)).all())
    return inside and (out.shape[1] == 1 or bool(((out.sum(1) - 1).abs() < 1e-2).all()))


def checked_columns(p: Tensor) -> Tensor:
    """Return P(class 0), P(class 1) from P(class 1), refusing what is no probability."""
    if not ((p > -0.01) & (p < 1.01)).all():
        raise ModelError(
            "Expected a probability from a module with one output, as on the background, "
            f"got {float(p.detach().abs().max()):.4g}; "
            'pass task="regression" if it is a number, or add a sigmoid if it is a logit'
        )
    return _two_columns(p)


def softmax(out: Tensor) -> Tensor:
    """Return the softmax over classes; along the first dimension torch vectorises it over rows, which are many."""
    return torch.softmax(out.T, 0).T


def sigmoid(out: Tensor) -> Tensor:
    """Return P(class 0), P(class 1) from the logit of class 1."""
    return _two_columns(torch.sigmoid(out))


def _two_columns(p: Tensor) -> Tensor:
    return torch.cat([1 - p, p], 1)
