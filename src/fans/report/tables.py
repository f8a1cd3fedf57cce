"""Tables of results as text, Markdown, CSV and HTML, from plain entries."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from fans.core import Array


@dataclass(frozen=True)
class Entry:
    """What was measured for one row, dataset and column.

    Attributes:
        mean, low, high: of the inputs, with the mean's 95 % interval.
        median: of the inputs.
        n: inputs.
        paper: what the paper prints, where it does.
    """

    mean: float
    low: float
    high: float
    median: float
    n: int
    paper: float | None = None


def entry(values: Array, paper: float | None = None, seed: int = 0, n_draws: int = 2000) -> Entry:
    """Return the mean of some inputs' values with its bootstrap interval."""
    values = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(values), (n_draws, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return Entry(float(values.mean()), float(low), float(high), float(np.median(values)), len(values), paper)


@dataclass(frozen=True)
class Heading:
    """A column of a dataset.

    Attributes:
        name: of the metric.
        higher_is_better: its direction.
        note: what a reader has to know.
    """

    name: str
    higher_is_better: bool
    note: str = ""

    @property
    def arrow(self) -> str:
        """The name with the direction that is better."""
        return f"{self.name} {'↑' if self.higher_is_better else '↓'}"


@dataclass(frozen=True)
class Table:
    """Methods by metrics by datasets.

    Attributes:
        title: of the table.
        datasets: their labels, in order.
        headings: the columns of each dataset.
        rows: names of the methods, and the group of each.
        entries: by (row, dataset, column).
        notes: sentences below it.
    """

    title: str
    datasets: Sequence[str]
    headings: Sequence[Heading]
    rows: Sequence[tuple[str, str]]
    entries: Mapping[tuple[str, str, str], Entry]
    notes: Sequence[str] = field(default_factory=tuple)

    def places(self, dataset: str, heading: Heading) -> dict[str, int]:
        """Return 1 for the best row of a column and 2 for the second best, those that tie alike."""
        found = {row: self.entries.get((row, dataset, heading.name)) for row, _ in self.rows}
        means = {row: e.mean for row, e in found.items() if e is not None and math.isfinite(e.mean)}
        shown = {row: float(f"{m:.3g}") for row, m in means.items()}
        levels = sorted(set(shown.values()), reverse=heading.higher_is_better)[:2]
        return {row: levels.index(value) + 1 for row, value in shown.items() if value in levels}


def number(value: float) -> str:
    """Return a number to three digits, e.g. `0.612`, `60.8`, `1.70e+04`."""
    if not math.isfinite(value):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}" if value else "0"


def _cell(found: Entry | None, place: int, marks: tuple[str, str, str, str]) -> str:
    """Return an entry: mean and interval, best and second best marked, the paper's number behind a bar."""
    if found is None:
        return "-"
    bold, end_bold, under, end_under = marks
    mean = number(found.mean)
    mean = {1: f"{bold}{mean}{end_bold}", 2: f"{under}{mean}{end_under}"}.get(place, mean)
    paper = "-" if found.paper is None else number(found.paper)
    return f"{mean} [{number(found.low)}, {number(found.high)}] / {paper}"


def markdown(table: Table) -> str:
    """Return the table as Markdown, one part for each dataset: ours / the paper's."""
    lines = [f"# {table.title}", ""]
    for dataset in table.datasets:
        places = {h.name: table.places(dataset, h) for h in table.headings}
        lines += [
            f"## {dataset}",
            "",
            "| method | n | " + " | ".join(h.arrow for h in table.headings) + " |",
            "|---|---|" + "---|" * len(table.headings),
        ]
        for row, _ in table.rows:
            found = [table.entries.get((row, dataset, h.name)) for h in table.headings]
            if not any(found):
                continue
            n = max(e.n for e in found if e)
            cells = [
                _cell(e, places[h.name].get(row, 0), ("**", "**", "<u>", "</u>"))
                for h, e in zip(table.headings, found, strict=True)
            ]
            lines.append(f"| {row} | {n} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [f"- {h.name}: {h.note}" for h in table.headings if h.note]
    return "\n".join([*lines, *(f"- {note}" for note in table.notes)]) + "\n"


def text(table: Table) -> str:
    """Return the table for a terminal: best with an asterisk, second best with a plus sign."""
    lines = [table.title]
    for dataset in table.datasets:
        rows = [("method", *(h.arrow for h in table.headings))]
        for row, _ in table.rows:
            found = [table.entries.get((row, dataset, h.name)) for h in table.headings]
            if any(found):
                places = [table.places(dataset, h).get(row, 0) for h in table.headings]
                rows.append((row, *(_cell(e, p, ("*", "", "+", "")) for e, p in zip(found, places, strict=True))))
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines += ["", dataset]
        lines += ["  ".join(part.ljust(width) for part, width in zip(r, widths, strict=True)).rstrip() for r in rows]
    return "\n".join(lines) + "\n"


def comma_separated(table: Table) -> str:
    """Return every entry as a line of CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["dataset", "method", "metric", "mean", "low", "high", "median", "n", "paper", "place"])
    for dataset in table.datasets:
        for heading in table.headings:
            places = table.places(dataset, heading)
            for row, _ in table.rows:
                e = table.entries.get((row, dataset, heading.name))
                if e:
                    numbers = [repr(v) for v in (e.mean, e.low, e.high, e.median)]
                    paper = "" if e.paper is None else repr(e.paper)
                    writer.writerow([dataset, row, heading.name, *numbers, e.n, paper, places.get(row, "")])
    return out.getvalue()


_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { padding: 3px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
small { color: #777; } tr.group td { border-top: 2px solid #999; }
"""


def html(table: Table) -> str:
    """Return the table as one self-contained page."""
    parts = [
        f"<!doctype html><meta charset='utf-8'><title>{escape(table.title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(table.title)}</h1>",
        "<p>Mean and 95 % interval; best in bold, second best underlined; below it the paper's number.</p>",
    ]
    for dataset in table.datasets:
        heads = "".join(f"<th>{escape(h.arrow)}</th>" for h in table.headings)
        parts.append(f"<h2>{escape(dataset)}</h2><table><tr><th>method</th>{heads}</tr>")
        last = None
        for row, group in table.rows:
            found = [table.entries.get((row, dataset, h.name)) for h in table.headings]
            if not any(found):
                continue
            kind = " class='group'" if last not in (None, group) else ""
            cells = "".join(
                f"<td>{_html_cell(e, table.places(dataset, h).get(row, 0))}</td>"
                for h, e in zip(table.headings, found, strict=True)
            )
            parts.append(f"<tr{kind}><td>{escape(row)}</td>{cells}</tr>")
            last = group
        parts.append("</table>")
    notes = [f"{h.name}: {h.note}" for h in table.headings if h.note] + list(table.notes)
    return "\n".join([*parts, "<ul>", *(f"<li>{escape(note)}</li>" for note in notes), "</ul>"]) + "\n"


def _html_cell(found: Entry | None, place: int) -> str:
    if found is None:
        return "-"
    mean = number(found.mean)
    mean = {1: f"<b>{mean}</b>", 2: f"<u>{mean}</u>"}.get(place, mean)
    paper = "-" if found.paper is None else number(found.paper)
    return f"{mean} <small>[{number(found.low)}, {number(found.high)}]</small><br><small>{paper}</small>"
