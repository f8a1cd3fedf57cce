"""What a report of a table tells, from what its run stores: nothing else is read, and nothing imported."""

import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from fans.errors import InputError, choose, extra
from fans.report.sections import Chart, Panel, drawn_files
from fans.report.sections import Line as Drawn
from fans.report.tables import Entry, Faithful, Heading, Table, comma_separated, entry, markdown, text
from fans.runs import Cell, Ledger, Record
from fans.studies._entries import OWN, POOLED, UNITS, Said
from fans.studies.base import Rendered, Size, refuse_mixed
from fans.studies.differences import by_input


@dataclass(frozen=True)
class Shown(Heading):
    """A column of the table.

    Attributes:
        median: whether its median has a column beside it.
    """

    median: bool = False


@dataclass(frozen=True)
class Line:
    """A row of the table.

    Attributes:
        name: of the method.
        group: of rows that stand together.
        trivial: whether it is a control that is never marked.
        searched: by dataset, the settings whose values a search tries.
    """

    name: str
    group: str = ""
    trivial: bool = False
    searched: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """A picture of some columns.

    Attributes:
        title: of it.
        x: what the x axis is.
        columns: each value of x, and the column there.
    """

    title: str
    x: str
    columns: Sequence[tuple[int | float | str, str]]

    def places(self) -> list[tuple[float, str]]:
        """Return where on the x axis each column is: words stand side by side."""
        return [(i if isinstance(x, str) else x, column) for i, (x, column) in enumerate(self.columns)]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The values of x that are words, each with its place."""
        return [(i, x) for i, (x, _) in enumerate(self.columns) if isinstance(x, str)]


@dataclass(frozen=True)
class About:
    """All that the report of a table needs besides the records, as it is stored in the plan.

    Attributes:
        title: of the table.
        source: where in the paper its numbers are.
        labels: of the datasets, by their names.
        columns, rows: of the table, in order.
        paper: the paper's numbers: row, label of the dataset, column, value.
        notes: sentences below the table.
        faithful: which rows count in a column where a trivial control is best.
        curves: pictures beside it.
        claims: what the paper says of it.
        sizes: how many inputs of each dataset each size asks for.
    """

    title: str
    source: str
    labels: Mapping[str, str]
    columns: Sequence[Shown]
    rows: Sequence[Line]
    paper: Sequence[tuple[str, str, str, float]] = ()
    notes: Sequence[str] = ()
    faithful: Faithful | None = None
    curves: Sequence[Curve] = ()
    claims: Sequence[Said] = ()
    sizes: Mapping[Size, Mapping[str, int]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return it as mappings, lists, texts and numbers."""
        return asdict(self)

    @classmethod
    def of(cls, run: Ledger) -> Self:
        """Return what a run has stored, every entry checked."""
        try:
            import msgspec
        except ImportError:
            raise extra("msgspec", "bench", "reports of studies") from None
        if run.plan["kind"] != "table":
            raise InputError(f"Expected the run of a table in {run.folder}, got one of {run.plan['kind']!r}")
        try:
            return msgspec.convert(run.plan["about"], cls)
        except msgspec.ValidationError as error:
            raise InputError(
                f"Expected what the report of a table needs in {run.folder / 'plan.json'}, got other things ({error}); "
                "fans run writes it anew"
            ) from None


def rendered(run: Ledger) -> Rendered:
    """Return a run's table as Markdown and CSV, with its curves; or the choices of a search."""
    if run.plan["search"]:
        found = choices(run)
        return Rendered(_lines_of(run, found), {"choices.json": _json(found)})
    table = tabulate(run)
    files = {"table.md": markdown(table).encode(), "table.csv": comma_separated(table).encode()}
    pictures = curves_of(About.of(run), table) if importlib.util.find_spec("matplotlib") else None
    return Rendered(text(table), files | (drawn_files(pictures) if pictures else {}))


def curves_of(about: About, table: Table) -> Chart | None:
    """Return the pictures beside a table: a panel for each of its datasets and curves; None where there are none."""
    panels = [
        Panel(f"{curve.title}, {dataset}", curve.x, curve.title, lines, ticks=curve.ticks)
        for dataset in table.datasets
        for curve in about.curves
        if (lines := _lines(table, dataset, curve))
    ]
    return Chart("curves", f"{about.title}: curves", panels, len(about.curves)) if panels else None


def _lines(table: Table, dataset: str, curve: Curve) -> list[Drawn]:
    """Return a line for each row of which a curve's columns have entries."""
    out = []
    for row, group in table.rows:
        points = {x: table.entries.get((row, dataset, column)) for x, column in curve.places()}
        if found := {x: e for x, e in points.items() if e}:
            out.append(Drawn.of(row, found, ours=group == OWN))
    return out


def _json(found: Any) -> bytes:
    return (json.dumps(found, indent=2, sort_keys=True) + "\n").encode()


def tabulate(run: Ledger) -> Table:
    """Return the table of what a run has so far.

    Raises:
        InputError: if one row was computed in two ways.
    """
    about, records = About.of(run), run.records()
    values = values_of(records)
    labels = labels_of(about, values)
    medians = {c.name for c in about.columns if c.median}
    entries: dict[tuple[str, str, str], Entry] = {}
    for (row, dataset, column), found in values.items():
        ordered = np.array([found[i] for i in sorted(found)])
        entries[row, labels[dataset], column] = entry(ordered)
        if column in medians:
            entries[row, labels[dataset], _median(column)] = entry(ordered, "median")
    groups = {r.name: r.group for r in about.rows}
    rows = [(name, groups.get(name, "")) for name in dict.fromkeys([*groups, *(row for row, _, _ in values)])]
    shown = [label for name, label in labels.items() if any(key[1] == name for key in values)]
    notes = [*_notes(run, about), *_training(records, labels)]
    trivial = {r.name for r in about.rows if r.trivial}
    return Table(
        *(about.title, shown, _headings(about), rows, entries, _paper(about), notes),
        trivial=trivial,
        faithful=about.faithful,
        folded=(UNITS,),
        own=(OWN,),
    )


def against(run: Ledger, row: str) -> Table:
    """Return what a row is ahead of each other one in the columns that are ranked, paired by input.

    Raises:
        InputError: the run has no such row.
    """
    about = About.of(run)
    values = values_of(run.records())
    rows = list(dict.fromkeys(r for r, _, _ in values))
    choose("a row of the run", row, rows)
    labels, entries = labels_of(about, values), dict[tuple[str, str, str], Entry]()
    for (other, dataset, column), found in values.items():
        own = values.get((row, dataset, column), {})
        both = sorted(found.keys() & own.keys())
        if other != row and both:
            entries[other, labels[dataset], column] = entry(np.array([own[i] - found[i] for i in both]))
    order = [r.name for r in about.rows if r.name in rows]
    others = [(name, "") for name in dict.fromkeys([*order, *rows]) if name != row]
    shown = list(dict.fromkeys(dataset for _, dataset, _ in entries))
    notes = ["The row's value less the other one's on the same inputs, mean and 95 % bootstrap interval over inputs."]
    names = {column.name for column in about.columns}  # without medians
    plain = [replace(h, ranked=False, note="") for h in _headings(about) if h.ranked and h.name in names]
    return Table(f"{about.title}: {row} less each other row", shown, plain, others, entries, {}, notes)


def values_of(records: Sequence[Record]) -> dict[tuple[str, str, str], dict[int, float]]:
    """Return the value of every input, by row, dataset and column."""
    refuse_mixed(record.spec for record in records)
    return {
        (*place, column): found for place, columns in by_input(records).items() for column, found in columns.items()
    }


def labels_of(about: About, values: Mapping[tuple[str, str, str], Any]) -> dict[str, str]:
    """Return how datasets are called in a table."""
    return {d: d for _, d, _ in values} | dict(about.labels)


def _training(records: Sequence[Record], labels: Mapping[str, str]) -> list[str]:
    """Say of each method that was trained how long that took, apart from explaining."""
    training: dict[tuple[str, str], list[float]] = defaultdict(list)
    explaining: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        timing, key = record.circumstances["timing"], (record.spec["method"], record.spec["dataset"])
        first, last = record.spec["shard"]
        explaining[key].append(timing.get("explaining", 0.0) / (last - first))
        if timing.get("training", {}).get("rows"):
            training[key].append(timing["training"]["seconds"])
    return [
        f"{row} on {labels[dataset]}: {np.median(seconds):.1f} s of training, apart from "
        f"{np.mean(explaining[row, dataset]):.3g} s an input to explain."
        for (row, dataset), seconds in sorted(training.items())
    ]


def _notes(run: Ledger, about: About) -> list[str]:
    left = len(run.left())
    return [
        *(f"The record of {key} is damaged ({why}): fans run does it again." for key, why in run.damaged().items()),
        *([f"{left} of {len(run.cells)} cells are still to be done."] if left else []),
        f"Paper: {about.source}. Intervals: 95 % bootstrap over inputs.",
        *about.notes,
    ]


def refuse_other_search(asked: Iterable[Cell], others: Iterable[Cell]) -> None:
    """Raise if a row was searched by other values: the best is the best of one search."""
    kinds = {cell.kind for cell in asked}
    for cell in others:
        if cell.kind in kinds:
            raise InputError(
                f"Expected one search for the settings of {cell.kind[1]} on {cell.kind[0]} in a folder, got another "
                "there; choose another folder (--out), or the same values"
            )


def _median(column: str) -> str:
    return f"{column}, median"


def _headings(about: About) -> list[Heading]:
    out: list[Heading] = []
    for column in about.columns:
        out += [column, replace(column, name=_median(column.name), note="")] if column.median else [column]
    return out


def _paper(about: About) -> dict[tuple[str, str, str], float]:
    """Return what the paper prints, by (row, dataset, column)."""
    return {(row, label, column): value for row, label, column, value in about.paper}


# --- The search for settings -----------------------------------------------------------------------------------------


def choices(run: Ledger) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each row and dataset of a search the setting with the highest mean, and how every one did."""
    tried: dict[tuple[str, str], list[tuple[float, Mapping[str, Any]]]] = defaultdict(list)
    for record in run.records():
        (found,) = record.values["scores"].values()
        tried[record.spec["method"], record.spec["dataset"]].append((float(np.mean(found)), record.spec["call"]))
    rows = {row.name: row for row in About.of(run).rows}
    out: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for (name, dataset), candidates in tried.items():
        value, call = max(candidates, key=lambda pair: pair[0])
        searched = rows[name].searched[dataset]
        settings = {k: v for k, v in call["settings"].items() if k in searched}
        if "space" in searched:
            settings["space"] = call["space"]
        spread = sorted((round(v, 4) for v, _ in candidates), reverse=True)
        out[name][dataset] = {"chosen": settings, "value": value, "all": spread}
    return dict(out)


def _lines_of(run: Ledger, found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the choices of a search as lines of YAML to be put into the experiment's file."""
    lines = [f"# {len(run.left())} of {len(run.cells)} settings are still to be tried"] if run.left() else []
    for name, by_dataset in found.items():
        pooled = name.endswith(POOLED)
        lines += [f"{name.removesuffix(POOLED)}:", f"    chosen{'_pooled' if pooled else ''}:"]
        lines += [
            f"      {dataset}: {json.dumps(v['chosen'])}  # {v['value']:.4f} of {v['all'][:3]}..."
            for dataset, v in by_dataset.items()
        ]
    return "\n".join(lines) + "\n"
