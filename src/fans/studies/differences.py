"""Records by input, and what paired differences say in words: worse, much worse, stable, or not to be told."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fans.report.tables import FEW, Entry, entry
from fans.runs import Record

Values = Mapping[int, Any]
"""What was measured of each input."""

MUCH = 0.1
"""A difference of a share, such as fidelity or sparseness, that counts as much; less counts as stable."""


def by_input(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, dict[int, Any]]]:
    """Return what was measured, by method and dataset, then column, then input."""
    found: dict[tuple[str, str], dict[str, dict[int, Any]]] = {}
    for record in records:
        columns = found.setdefault((record.spec["method"], record.spec["dataset"]), {})
        first = record.spec["shard"][0]
        for column, values in record.values.get("scores", record.values).items():
            columns.setdefault(column, {}).update({first + i: value for i, value in enumerate(values)})
    return found


def mean(values: Values) -> Entry:
    """Return the mean over inputs, with its interval."""
    return entry(np.array([values[i] for i in sorted(values)]))


def difference(one: Values, other: Values) -> Entry | None:
    """Return the mean of one less the other on the inputs of both, with its interval; None where there are none."""
    both = sorted(one.keys() & other.keys())
    return entry(np.array([one[i] - other[i] for i in both])) if both else None


def turned(entry: Entry) -> Entry:
    """Return the negative of a mean and its interval."""
    return Entry(-entry.value, -entry.high, -entry.low, entry.n)


def together(verdicts: Iterable[bool | None]) -> bool | None:
    """Return whether all hold: False if one does not, else None if one cannot be told, or there are none."""
    given = list(verdicts)
    if False in given:
        return False
    return None if None in given or not given else True


# --- Differences in words: each is told by the interval of what is worse by so much ---------------------------------


def is_worse(worse: Entry) -> bool | None:
    """Tell whether something is worse: the interval lies above 0."""
    return _told(worse, yes=worse.low > 0, no=worse.high <= 0)


def is_much_worse(worse: Entry) -> bool | None:
    """Tell whether it is worse, and by `MUCH` or more on average."""
    return _told(worse, yes=worse.low > 0 and worse.value >= MUCH, no=worse.high < MUCH)


def is_slightly_worse(worse: Entry) -> bool | None:
    """Tell whether it is worse, but by less than `MUCH` on average."""
    return _told(worse, yes=worse.low > 0 and worse.value < MUCH, no=worse.high <= 0 or worse.low >= MUCH)


def is_stable(worse: Entry, margin: float = MUCH) -> bool | None:
    """Tell whether it is the same but for the margin: the interval lies within it.

    It is not where the interval leaves 0 out and the mean is beyond the margin.
    """
    apart = (worse.low > 0 or worse.high < 0) and abs(worse.value) > margin
    return _told(worse, yes=-margin <= worse.low and worse.high <= margin, no=apart)


def _told(of: Entry, *, yes: bool, no: bool) -> bool | None:
    """Return a verdict; None where inputs are too few for an interval."""
    if of.n < FEW:
        return None
    return True if yes else False if no else None


def shards(n: int, size: int) -> list[list[int]]:
    """Return the shards of the first n inputs."""
    return [[start, min(start + size, n)] for start in range(0, n, size)]
