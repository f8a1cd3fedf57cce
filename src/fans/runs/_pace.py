"""How far a run is, and how long the rest will take at the pace measured so far."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from fans.errors import check_whole
from fans.runs._ledger import Ledger
from fans.runs._records import Cell


class _Pace:
    """Seconds a model row, measured: by dataset and method, else by dataset, else overall."""

    def __init__(self, cells: Iterable[Cell], measured: Mapping[str, float]) -> None:
        self._sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for cell in cells:
            for kind in (cell.kind, cell.kind[:1], ()) if cell.key in measured else ():
                self._sums[kind][0] += measured[cell.key]
                self._sums[kind][1] += _weight(cell)

    def seconds(self, cell: Cell) -> float:
        """Return how long a cell will take; NaN where nothing at all was measured."""
        for kind in (cell.kind, cell.kind[:1], ()):
            if kind in self._sums:
                seconds, weight = self._sums[kind]
                return seconds / weight * _weight(cell)
        return math.nan

    def words(self, cells: Collection[Cell], workers: int) -> str:
        """Return how long these cells will take, and how sure that is."""
        each = [self.seconds(cell) for cell in cells]
        if not each:
            return "none"
        if math.isnan(each[0]):
            return "nothing measured yet"
        kinds = {cell.kind for cell in cells}
        guessed = sum(kind not in self._sums for kind in kinds)
        sure = f", a guess for {guessed} of {len(kinds)} kinds" if guessed else ""
        return f"about {span(max(sum(each) / workers, *each))}{sure}"


def _weight(cell: Cell) -> int:
    return max(cell.cost, 1)


def span(seconds: float) -> str:
    """Return a time in words, e.g. 45 s, 12 min, 5.2 h."""
    for size, unit, digits in ((1, "s", 0), (60, "min", 0), (3600, "h", 1)):
        if seconds < 100 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 86400:.1f} days"


def progress(run: Ledger, workers: int = 1, *, elsewhere: int = 0, failed: int = 0) -> str:
    """Return in a line how far a run is: cells, share of the evaluations, and the time left at the pace so far.

    Other processes that work on it are not counted on: with them it takes less.
    """
    measured = run.measured()
    left = [cell for cell in run.cells if cell.key not in measured]
    share = 100 - -(-100 * sum(map(_weight, left)) // sum(map(_weight, run.cells)))
    parts = [f"{len(measured)} of {len(run.cells)} cells", f"{share}% of the evaluations"]
    parts += [f"{elsewhere} in work elsewhere"] if elsewhere else []
    parts += [f"{failed} failed"] if failed else []
    return f"{', '.join(parts)}; left: {_Pace(run.cells, measured).words(left, workers)}"


def describe(what: Ledger | Iterable[Cell], workers: int = 1) -> str:
    """Return a plan as a table by dataset and method: cells, inputs, model evaluations, done and left, time left."""
    check_whole("workers", workers, 1)
    cells, done = (what.cells, what.measured()) if isinstance(what, Ledger) else (tuple(what), {})
    pace = _Pace(cells, done)
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.kind].append(cell)
    rows: list[tuple[str, ...]] = [("dataset", "method", "cells", "inputs", "evaluations", "done", "left", "time")]
    for kind, group in [*groups.items(), (("all", ""), list(cells))]:
        left = [cell for cell in group if cell.key not in done]
        inputs = {(cell.kind[0], i) for cell in group for i in cell.inputs}
        numbers = (len(group), len(inputs), sum(cell.cost for cell in group), len(group) - len(left), len(left))
        rows.append((*kind, *(f"{n:,}" for n in numbers), pace.words(left, workers)))
    return _table(rows)


def _table(rows: list[tuple[str, ...]]) -> str:
    """Return rows of text as aligned columns: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<<" + ">" * (len(widths) - 3) + "<"
    lines = ("  ".join(f"{t:{s}{w}}" for t, s, w in zip(row, sides, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
