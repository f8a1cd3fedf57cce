"""Tables of results as text, Markdown and CSV, from plain entries."""

import csv
import io
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fans.errors import InputError, is_number
from fans.types import Array

FEW = 5
"""Fewer inputs than this have no interval worth printing."""

Statistic = Literal["mean", "median"]


@dataclass(frozen=True)
class Entry:
    """What was measured for one row, dataset and column.

    Attributes:
        value: the mean of the inputs, or their median.
        low, high: its 95 % interval.
        n: inputs.
        statistic: which of the two.
    """

    value: float
    low: float
    high: float
    n: int
    statistic: Statistic = "mean"


def entry(values: Array, statistic: Statistic = "mean", seed: int = 0, n_draws: int = 2000) -> Entry:
    """Return the mean or median of some inputs' values with its bootstrap interval."""
    of = np.mean if statistic == "mean" else np.median
    values = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(values), (n_draws, len(values)))
    low, high = np.quantile(of(values[drawn], axis=1), [0.025, 0.975])
    return Entry(float(of(values)), float(low), float(high), len(values), statistic)


@dataclass(frozen=True)
class Heading:
    """A column of a dataset.

    Attributes:
        name: of the metric.
        higher_is_better: its direction.
        note: what a reader has to know.
        ranked: whether the best are marked.
    """

    name: str
    higher_is_better: bool
    note: str = ""
    ranked: bool = True

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.higher_is_better else min(values)

    @property
    def arrow(self) -> str:
        """The name with the direction that is better."""
        return f"{self.name} {'↑' if self.higher_is_better else '↓'}"


@dataclass(frozen=True)
class Faithful:
    """Which rows count in a column where a trivial control is best: those near the best row of another column.

    Attributes:
        column: the other one.
        within: how far from its best row, controls included, a row may be.
    """

    column: str
    within: float

    def __post_init__(self) -> None:
        if not is_number(self.within) or not 0 <= self.within < math.inf:
            raise InputError(f"Expected `within` of at least 0, got {self.within!r}")


Place = tuple[str, str, str]
"""Row, dataset and column."""


@dataclass(frozen=True)
class Table:
    """Methods by metrics by datasets.

    Attributes:
        title: of the table.
        datasets: their labels, in order.
        headings: the columns of each dataset.
        rows: names of the methods, and the group of each.
        entries: what was measured.
        paper: what the paper prints.
        notes: sentences below it.
        trivial: rows that know nothing of the model: controls, never marked.
        faithful: which rows count where one of them is best; without it none does.
        folded: groups of rows that a page shows only when asked.
        own: groups of rows that a page lets stand out.
    """

    title: str
    datasets: Sequence[str]
    headings: Sequence[Heading]
    rows: Sequence[tuple[str, str]]
    entries: Mapping[Place, Entry]
    paper: Mapping[Place, float] = field(default_factory=dict)
    notes: Sequence[str] = field(default_factory=tuple)
    trivial: Collection[str] = ()
    faithful: Faithful | None = None
    folded: Collection[str] = ()
    own: Collection[str] = ()

    def size(self, dataset: str) -> int:
        """Return how many inputs the largest entry of a dataset has."""
        return max((e.n for (_, d, _), e in self.entries.items() if d == dataset), default=0)

    def places(self, dataset: str, heading: Heading) -> dict[str, int]:
        """Return 1 for the best row of a column and 2 for the second best, those that print alike alike.

        Only rows that count take part (see `won_by`), with as many inputs as any other.
        """
        if not heading.ranked:
            return {}
        shown = self._shown(dataset, heading)
        counts = self._near_the_best(dataset) if self.won_by(dataset, heading) else shown.keys()
        shown = {row: value for row, value in shown.items() if row in counts and row not in self.trivial}
        levels = sorted(set(shown.values()), reverse=heading.higher_is_better)[:2]
        return {row: levels.index(value) + 1 for row, value in shown.items() if value in levels}

    def won_by(self, dataset: str, heading: Heading) -> list[str]:
        """Return the trivial controls that are best in a column, alone or not; there only faithful rows count."""
        shown = self._shown(dataset, heading)
        if not heading.ranked or shown.keys() <= set(self.trivial):
            return []
        best = heading.best(shown.values())
        return [row for row, value in shown.items() if row in self.trivial and value == best]

    def _near_the_best(self, dataset: str) -> set[str]:
        """Return the rows that `faithful` asks for."""
        for heading in self.headings:
            shown = self._shown(dataset, heading)
            if self.faithful and heading.name == self.faithful.column and shown:
                best, within = heading.best(shown.values()), self.faithful.within + 1e-9  # as far as printed
                return {row for row, value in shown.items() if abs(value - best) <= within}
        return set()

    def _shown(self, dataset: str, heading: Heading) -> dict[str, float]:
        """Return a column as it prints: the rows with as many inputs as any other."""
        found = {row: self.entries.get((row, dataset, heading.name)) for row, _ in self.rows}
        most = max((e.n for e in found.values() if e), default=0)
        whole = {row: e.value for row, e in found.items() if e and e.n == most and math.isfinite(e.value)}
        return {row: float(f"{value:.3g}") for row, value in whole.items()}

    def lines(self, dataset: str, marks: tuple[str, str, str, str]) -> list[tuple[str, str, list[str]]]:
        """Return the rows of a dataset that have an entry: name, group, and ours / the paper's in every column."""
        places = {h.name: self.places(dataset, h) for h in self.headings}
        out = []
        for row, group in self.rows:
            found = [(row, dataset, h.name) for h in self.headings]
            if any(place in self.entries for place in found):
                cells = [self._cell(place, places[place[2]].get(row, 0), marks) for place in found]
                out.append((row, group, cells))
        return out

    def _cell(self, place: Place, rank: int, marks: tuple[str, str, str, str]) -> str:
        """Return value and interval, best and second best marked, how many inputs if fewer, a paper's number if any."""
        paper = f" / {number(self.paper[place]) if place in self.paper else '-'}" if self.paper else ""
        found = self.entries.get(place)
        if found is None:
            return f"-{paper}"
        bold, end_bold, under, end_under = marks
        value = number(found.value)
        value = {1: f"{bold}{value}{end_bold}", 2: f"{under}{value}{end_under}"}.get(rank, value)
        interval = f" [{number(found.low)}, {number(found.high)}]" if found.n >= FEW else ""
        n = f" (n={found.n})" if found.n != self.size(place[1]) else ""
        return f"{value}{interval}{n}{paper}"

    def remarks(self) -> list[str]:
        """Return what is to be said below the table."""
        marks = any(h.ranked for h in self.headings)
        aside = ", trivial controls aside" if self.trivial else ""
        said = [
            *(["Ours / the paper's."] if self.paper else []),
            *([f"Best and second best are marked among rows with the same number of inputs{aside}."] if marks else []),
            *itertools.chain.from_iterable(self._wins(dataset) for dataset in self.datasets),
        ]
        return [*said, *(f"{h.name}: {h.note}" for h in self.headings if h.note), *self.notes]

    def _wins(self, dataset: str) -> list[str]:
        """Say in which columns no row beats a trivial control, and what counts there instead."""
        won: dict[tuple[str, ...], list[str]] = {}
        for heading in self.headings:
            if names := tuple(self.won_by(dataset, heading)):
                won.setdefault(names, []).append(heading.name)
        counts = "no row counts"
        if self.faithful and any(h.name == self.faithful.column for h in self.headings):
            counts = (
                f"only rows count whose {self.faithful.column} is within {self.faithful.within:g} of the best row's"
            )
        return [
            f"On {dataset} no row beats {listed(names, 'or')} in {listed(columns, 'and')}; there {counts}."
            for names, columns in won.items()
        ]


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return words as a list in a sentence, `last` before the last of them."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def number(value: float) -> str:
    """Return a number to three digits, e.g. `0.612`, `60.8`, `1.70e+04`."""
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}" if value else "0"


def markdown(table: Table) -> str:
    """Return the table as Markdown, one part for each dataset."""
    lines = [f"# {table.title}", ""]
    for dataset in table.datasets:
        lines += [
            f"## {dataset}, {table.size(dataset)} inputs",
            "",
            "| method | " + " | ".join(h.arrow for h in table.headings) + " |",
            "|---|" + "---|" * len(table.headings),
            *(f"| {row} | " + " | ".join(c) + " |" for row, _, c in table.lines(dataset, ("**", "**", "<u>", "</u>"))),
            "",
        ]
    return "\n".join([*lines, *(f"- {remark}" for remark in table.remarks())]) + "\n"


def text(table: Table) -> str:
    """Return the table for a terminal: best with an asterisk, second best with a plus sign."""
    lines = [table.title]
    for dataset in table.datasets:
        rows = [["method", *(h.arrow for h in table.headings)]]
        rows += [[row, *cells] for row, _, cells in table.lines(dataset, ("*", "", "+", ""))]
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines += ["", f"{dataset}, {table.size(dataset)} inputs"]
        lines += ["  ".join(part.ljust(width) for part, width in zip(r, widths, strict=True)).rstrip() for r in rows]
    return "\n".join([*lines, "", *table.remarks()]) + "\n"


def comma_separated(table: Table) -> str:
    """Return every entry as a line of CSV; `won by` names the trivial controls that are best in its column, if any."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["dataset", "method", "metric", "statistic", "value", "low", "high", "n", "paper", "place", "won by"]
    )
    for dataset, heading in itertools.product(table.datasets, table.headings):
        places, won = table.places(dataset, heading), "; ".join(table.won_by(dataset, heading))
        for row, _ in table.rows:
            place = (row, dataset, heading.name)
            if e := table.entries.get(place):
                numbers = [repr(v) for v in (e.value, e.low, e.high)]
                paper = repr(table.paper[place]) if place in table.paper else ""
                name = heading.name.removesuffix(f", {e.statistic}")
                writer.writerow([dataset, row, name, e.statistic, *numbers, e.n, paper, places.get(row, ""), won])
    return out.getvalue()
