"""Metrics of attributions: importing this package registers every file on the shelf.

Example:
    >>> import torch
    >>> from fans.metrics import Case, metric
    >>> inputs = torch.eye(2)
    >>> case = Case(lambda rows: rows, inputs, scores=inputs, target=torch.tensor([0, 1]), ids=["a", "b"])
    >>> metric("infidelity", kind="formula")(case).round(decimals=6).tolist()
    [0.0, 0.0]
"""

import importlib
import pkgutil
from dataclasses import fields
from typing import Any

from fans.errors import InputError, choose
from fans.metrics.base import Case, Metric, Returns, evaluation_mode, ranks, soft_mask

__all__ = ["Case", "Metric", "Returns", "evaluation_mode", "metric", "ranks", "soft_mask"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def metric(name: str, **settings: Any) -> Metric:
    """Return a metric by name, with settings of its own.

    Raises:
        InputError: if there is no such metric or setting; the message lists those there are.
    """
    found = Metric.registry[choose("a metric's name", name, sorted(Metric.registry))]
    assert issubclass(found, Metric)
    known = [f.name for f in fields(found)]
    for setting in settings:
        if not known:
            raise InputError(f"Expected no settings for {name!r}, which has none, got {setting!r}")
        choose(f"a setting of {name!r}", setting, known)
    return found(**settings)
