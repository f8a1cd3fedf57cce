"""The steps of a series in the user's own times: numbers, moments or lengths of time, and how they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fans.errors import InputError
from fans.types import Array

MOST_KNOTS = 256
"""Steps whose times an explanation keeps of unevenly spaced ones: enough to draw by."""

ROUND_TIMES = [
    factor * unit
    for unit, factors in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000_000, (1, 2, 5, 10, 15, 30)),
        (60_000_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000_000, (1, 2, 3, 6, 12)),
        (86_400_000_000, (1, 2, 5, 10, 30, 90, 180, 365, 730, 1826, 3652, 18262, 36524)),
    )
    for factor in factors
]
"""Microseconds between the ticks of an axis of times."""


@dataclass(frozen=True)
class Times:
    """When the steps of a series are.

    Attributes:
        values: `(T,)` rising numbers; of moments and lengths of time their microseconds.
        kind: `"step"` where the user gave none, `"number"`, `"date"`, `"date UTC"` or `"duration"`.
    """

    values: Array
    kind: str

    @classmethod
    def of(cls, given: Any, n_steps: int) -> "Times":
        """Return the user's times, checked; the numbers of the steps where there are none."""
        if given is None:
            return cls(np.arange(n_steps, dtype=np.float64), "step")
        values, kind = _read(given)
        if values.shape != (n_steps,):
            raise InputError(f"Expected `times` as one of each of {n_steps} steps, got shape {values.shape}")
        if not np.isfinite(values).all() or (np.diff(values) <= 0).any():
            raise InputError("Expected `times` that rise from step to step, got some that do not; sort the steps first")
        return cls(values, kind)

    @classmethod
    def kept(cls, details: Mapping[str, Any], n_steps: int) -> "Times":
        """Return what `details` tells of."""
        steps, values = np.asarray(details["knots"], dtype=np.float64).T
        return cls(np.interp(np.arange(n_steps), steps, values), details["kind"])

    @property
    def details(self) -> dict[str, Any]:
        """What an explanation keeps of them, as JSON can hold it: a few steps and their times, straight in between."""
        last = len(self.values) - 1
        even = np.allclose(
            self.values, np.linspace(self.values[0], self.values[-1], last + 1), rtol=0, atol=self._slack
        )
        steps = np.unique(np.linspace(0, last, 2 if even else MOST_KNOTS).round().astype(int))
        return {"kind": self.kind, "knots": [[int(step), float(self.values[step])] for step in steps]}

    @property
    def _slack(self) -> float:
        return 1e-6 * float(np.ptp(self.values)) / max(1, len(self.values) - 1)

    @property
    def edges(self) -> Array:
        """Where each step begins and the last one ends, `(T + 1,)`: half-way between neighbours."""
        if len(self.values) == 1:
            return np.array([self.values[0] - 0.5, self.values[0] + 0.5])
        middle = (self.values[1:] + self.values[:-1]) / 2
        ends = 2 * self.values[[0, -1]] - middle[[0, -1]]
        return np.array([ends[0], *middle, ends[1]])

    def texts(self, values: Array | None = None) -> list[str]:
        """Return all times, or some, as text, no longer than tells them apart."""
        some = self.values if values is None else values
        if self.kind in ("step", "number"):
            return _numbers(some)
        if self.kind == "duration":
            return _durations(some)
        return [text + (" UTC" if self.kind == "date UTC" else "") for text in _moments(some, self.values)]

    def spans(self, starts: Sequence[int], ends: Sequence[int]) -> list[str]:
        """Return windows, from a first step to a last one, as text, e.g. `40-59` or `08:00 to 08:15`."""
        texts = self.texts()
        plain = self.kind in ("step", "number") and all(text.isdigit() for text in texts)
        between = "-" if plain else " to "
        return [
            texts[a] if a == b else f"{texts[a]}{between}{_after(texts[a], texts[b])}"
            for a, b in zip(starts, ends, strict=True)
        ]

    def ticks(self, most: int = 6) -> tuple[Array, list[str]]:
        """Return at most so many round times within the series, and their texts."""
        low, high = float(self.values[0]), float(self.values[-1])
        least = max((high - low) / most, 1e-300)
        if self.kind in ("step", "number"):
            power = 10.0 ** np.floor(np.log10(least))
            apart = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)
            apart = max(apart, 1.0) if self.kind == "step" else apart
        else:
            apart = next((apart for apart in ROUND_TIMES if apart >= least), least)
        places = apart * np.arange(np.ceil(low / apart - 1e-9), np.floor(high / apart + 1e-9) + 1) + 0.0  # not -0
        places = places if len(places) else self.values[:1]
        return places, self._short(places)

    def _short(self, places: Array) -> list[str]:
        """Return ticks as text: a moment by its date where a day begins, else by the time of day."""
        if not self.kind.startswith("date"):
            return self.texts(places)
        texts = _moments(places, np.append(self.values, places), by=places)
        return [
            text.partition(" ")[0 if _is_midnight(place) else 2] or text
            for text, place in zip(texts, places, strict=True)
        ]


def are_times(labels: Any) -> bool:
    """Tell whether the columns of a frame say when steps are: rising numbers or moments, but those that just count."""
    try:
        values, kind = _read(labels)
    except InputError:
        return False
    rises = bool(np.isfinite(values).all() and (np.diff(values) > 0).all())
    return rises and not (kind == "number" and np.array_equal(values, np.arange(len(values))))


def _read(given: Any) -> tuple[Array, str]:
    """Return times as numbers, and their kind."""
    array = np.asarray(given)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64), "number"
    kind = "date"
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(moment, datetime) for moment in array):
        aware = [moment.tzinfo is not None for moment in array]
        kind = "date UTC" if any(aware) else kind
        array = np.array([_without_zone(moment) for moment in array], dtype="datetime64[us]")
    if array.dtype.kind in "mM":
        unit, kind = ("datetime64[us]", kind) if array.dtype.kind == "M" else ("timedelta64[us]", "duration")
        values = array.astype(unit).astype(np.int64).astype(np.float64)
        return np.where(np.isnat(array), np.nan, values), kind
    raise InputError(f"Expected `times` as numbers or datetimes, one of each step, got {array.dtype} values")


def _without_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _after(start: str, end: str) -> str:
    """Return the end of a window without its date where it is that of the start."""
    day, _, clock = end.partition(" ")
    return clock if clock and start.startswith(f"{day} ") and ":" in clock else end


def _is_midnight(microseconds: float) -> bool:
    return microseconds % 86_400e6 == 0


def _numbers(values: Array) -> list[str]:
    """Return numbers as text with as many digits as tell them apart, four at least."""
    if (values == values.round()).all() and (np.abs(values) < 1e15).all():
        return [f"{value:.0f}" for value in values]
    for digits in range(4, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _moments(values: Array, among: Array, by: Array | None = None) -> list[str]:
    """Return moments as finely as those `by` (all by default) need, without the date where all are those of one day."""
    fine = among if by is None else by
    sizes = {"D": 86_400e6, "m": 60e6, "s": 1e6, "ms": 1e3}
    unit = next((name for name, size in sizes.items() if not (fine % size).any()), "us")
    texts = [text.replace("T", " ") for text in _as_dates(values).astype(f"datetime64[{unit}]").astype(str).tolist()]
    one_day = len(np.unique(_as_dates(among).astype("datetime64[D]"))) == 1
    return [text.partition(" ")[2] for text in texts] if one_day and unit != "D" else texts


def _as_dates(values: Array) -> Array:
    return values.round().astype(np.int64).astype("datetime64[us]")


def _durations(values: Array) -> list[str]:
    """Return lengths of time as hours, minutes and seconds."""
    seconds = _numbers(values % 60e6 / 1e6)
    clock = [(int(v // 3600e6), int(v // 60e6) % 60) for v in values]
    return [
        f"{h}:{m:02d}:{'0' if len(s.partition('.')[0]) < 2 else ''}{s}"
        for (h, m), s in zip(clock, seconds, strict=True)
    ]
