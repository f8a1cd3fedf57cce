"""FANS as an `explain_func` of Quantus, for images and tables; Quantus itself is not needed to import this."""

from typing import Any

import numpy as np
import torch

from fans.errors import InputError
from fans.explainer import Explainer
from fans.types import Array


def explain(model: Any, inputs: Any, targets: Any, *, background: Any = None, **settings: Any) -> Array:
    """Return the scores of inputs `(n, ...)` in their own shape, as Quantus asks its `explain_func`.

    Args:
        model: a torch module.
        inputs: `(n, channels, height, width)` or `(n, columns)`.
        targets: explained classes.
        background: real data: pass it as `explain_func_kwargs={"background": ...}`.
        settings: of `fans.Explainer`: `task="classification"`, say, where a single output is the logit of class 1. What
            Quantus adds of its own (`device`) is left aside.
    """
    if background is None:
        raise InputError(
            'Expected a background of real data, got none; pass explain_func_kwargs={"background": ...} to the metric'
        )
    settings.pop("device", None)
    made = Explainer(model, torch.as_tensor(background, dtype=torch.float32), **settings)
    x = torch.as_tensor(np.asarray(inputs), dtype=torch.float32)
    return made.heatmaps(x, np.asarray(targets).tolist())
