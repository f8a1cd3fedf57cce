"""What there is: methods, metrics, datasets and experiments, from their registries."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import fans.explainers  # noqa: F401 - registers the methods
from fans.data import GraphDataset, ImageDataset
from fans.experiments import names
from fans.explainers._shared import Method
from fans.metrics import Metric


def describe(what: str | None = None) -> str:
    """Return lists of `what` ("methods", "metrics", "datasets", "experiments"), or of all of it."""
    kinds = _KINDS if what is None else {what: _KINDS[what]}
    return "\n\n".join(f"{kind}\n" + _columns(list_them()) for kind, list_them in kinds.items())


def _methods() -> list[tuple[str, ...]]:
    members: list[Any] = [Method.registry[name] for name in sorted(Method.registry)]
    return [(m.name, ", ".join(m.modalities), _settings(m), m.citation) for m in members]


def _metrics() -> list[tuple[str, ...]]:
    members: list[Any] = [Metric.registry[name] for name in sorted(Metric.registry)]
    return [(m.name, "higher" if m.higher_is_better else "lower", _settings(m), m.citation) for m in members]


def _datasets() -> list[tuple[str, ...]]:
    members: list[Any] = [*ImageDataset.registry.values(), *GraphDataset.registry.values()]
    return [(m.name, f"{len(m.classes)} classes", (m.__doc__ or "").splitlines()[0]) for m in members]


def _experiments() -> list[tuple[str, ...]]:
    return [(name, f"fans run {name}") for name in names()]


def _settings(member: Any) -> str:
    return ", ".join(f.name for f in fields(member)) or "-"


def _columns(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return "\n".join(
        "  " + "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )


_KINDS: dict[str, Callable[[], list[tuple[str, ...]]]] = {
    "methods": _methods,
    "metrics": _metrics,
    "datasets": _datasets,
    "experiments": _experiments,
}
