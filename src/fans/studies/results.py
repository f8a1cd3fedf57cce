"""From the records of a run to its table, its choices and its proof."""

import importlib.util
import io
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fans.errors import FansError, InputError, check_whole, choose
from fans.metrics import Metric
from fans.report.figures import plot_curves
from fans.report.tables import Entry, Heading, Table, comma_separated, entry, html, markdown, text
from fans.runs import Cell, Record, Result, Run, differences, processor, resolve
from fans.studies.table import POOLED, Experiment, load

RELATIVE = 1e-5
"""A value that is computed again may differ by so much of itself."""


def tabulate(run: Run) -> Table:
    """Return the table of what a run has so far.

    Raises:
        InputError: if one row was computed in two ways.
    """
    experiment, records = load(run.plan["experiment"]), run.records()
    values = _values(records)
    labels = _labels(experiment, values)
    medians = {c.name for c in experiment.columns if c.median}
    entries: dict[tuple[str, str, str], Entry] = {}
    for (row, dataset, column), found in values.items():
        ordered = np.array([found[i] for i in sorted(found)])
        entries[row, labels[dataset], column] = entry(ordered)
        if column in medians:
            entries[row, labels[dataset], _median(column)] = entry(ordered, "median")
    groups = {r.name: r.group for r in experiment.rows}
    rows = [(name, groups.get(name, "")) for name in dict.fromkeys([*groups, *(row for row, _, _ in values)])]
    shown = [label for name, label in labels.items() if any(key[1] == name for key in values)]
    notes = [*_notes(run, experiment), *_training(records, labels)]
    trivial = {r.name for r in experiment.rows if r.trivial}
    return Table(
        *(experiment.title, shown, _headings(experiment), rows, entries, _paper(experiment), notes),
        trivial=trivial,
        faithful=experiment.faithful,
    )


def against(run: Run, row: str) -> Table:
    """Return what a row is ahead of each other one in the columns that are ranked, paired by input.

    Raises:
        InputError: the run has no such row.
    """
    experiment = load(run.plan["experiment"])
    values = _values(run.records())
    rows = list(dict.fromkeys(r for r, _, _ in values))
    choose("a row of the run", row, rows)
    labels, entries = _labels(experiment, values), dict[tuple[str, str, str], Entry]()
    for (other, dataset, column), found in values.items():
        own = values.get((row, dataset, column), {})
        both = sorted(found.keys() & own.keys())
        if other != row and both:
            entries[other, labels[dataset], column] = entry(np.array([own[i] - found[i] for i in both]))
    order = [r.name for r in experiment.rows if r.name in rows]
    others = [(name, "") for name in dict.fromkeys([*order, *rows]) if name != row]
    shown = list(dict.fromkeys(dataset for _, dataset, _ in entries))
    notes = ["The row's value less the other one's on the same inputs, mean and 95 % bootstrap interval over inputs."]
    names = {column.name for column in experiment.columns}  # without medians
    plain = [replace(h, ranked=False, note="") for h in _headings(experiment) if h.ranked and h.name in names]
    return Table(f"{experiment.title}: {row} less each other row", shown, plain, others, entries, {}, notes)


def _values(records: Sequence[Record]) -> dict[tuple[str, str, str], dict[int, float]]:
    """Return the value of every input, by row, dataset and column."""
    _refuse_mixed(record.spec for record in records)
    values: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for record in records:
        first = record.spec["shard"][0]
        for column, found in record.values["scores"].items():
            key = (record.spec["method"], record.spec["dataset"], column)
            values[key] |= {first + i: value for i, value in enumerate(found)}
    return values


def _labels(experiment: Experiment, values: Mapping[tuple[str, str, str], Any]) -> dict[str, str]:
    """Return how datasets are called in a table."""
    return {d: d for _, d, _ in values} | {d.name: d.label for d in experiment.datasets}


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


def _notes(run: Run, experiment: Experiment) -> list[str]:
    left = len(run.left())
    return [
        *(f"The record of {key} is damaged ({why}): fans run does it again." for key, why in run.damaged().items()),
        *([f"{left} of {len(run.cells)} cells are still to be done."] if left else []),
        f"Paper: {experiment.source}. Intervals: 95 % bootstrap over inputs.",
        *experiment.notes,
    ]


def _refuse_mixed(specs: Iterable[Mapping[str, Any]]) -> None:
    """Raise if two cells of one row and dataset differ in anything but their inputs and columns, or two of one column.

    They would be in one line of the table, or in one mean.
    """
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    for spec in specs:
        row = (spec["method"], spec["dataset"])
        columns = {c["name"]: {k: v for k, v in c.items() if k not in ("name", "limit")} for c in spec["columns"]}
        judged = {"columns": columns, "imports": spec.get("imports")}
        common = {k: v for k, v in spec.items() if k not in ("shard", *judged)}
        for place, here in ((row, common), *(((*row, name), judged) for name in columns)):
            there = known.setdefault(place, here)
            if there != here:
                raise InputError(
                    f"Expected one configuration of {row[0]} on {row[1]} in a folder, got two: "
                    f"{', '.join(differences(there, here)[:3])}; choose another folder (--out), or the same settings"
                )


def _refuse_other_search(asked: Iterable[Cell], others: Iterable[Cell]) -> None:
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


def _headings(experiment: Experiment) -> list[Heading]:
    out = []
    for column in experiment.columns:
        judge: Any = Metric.registry[column.metric]
        made = Heading(column.name, judge.higher_is_better, column.note, column.ranked)
        out += [made, replace(made, name=_median(column.name), note="")] if column.median else [made]
    return out


def _paper(experiment: Experiment) -> dict[tuple[str, str, str], float]:
    """Return what the paper prints, by (row, dataset, column)."""
    out = {}
    for dataset, row, column in itertools.product(experiment.datasets, experiment.rows, experiment.columns):
        found = experiment.paper.get(dataset.name, {}).get(row.paper or "", {}).get(column.paper or "")
        if found is not None:
            out[row.name, dataset.label, column.name] = float(found)
    return out


def report(run: Run, tell: Callable[[str], None]) -> None:
    """Tell a run's table, then write it beside the records as Markdown, CSV and HTML; or the choices of a search."""
    if run.plan["search"]:
        found = choices(run)
        tell(_lines_of(run, found))
        run.publish("choices.json", (json.dumps(found, indent=2, sort_keys=True) + "\n").encode())
        return
    table = tabulate(run)
    tell(text(table))
    for name, content in (("md", markdown(table)), ("csv", comma_separated(table)), ("html", html(table))):
        run.publish(f"table.{name}", content.encode())
    drawn = load(run.plan["experiment"]).curves
    if drawn and table.entries and importlib.util.find_spec("matplotlib"):
        picture = io.BytesIO()
        plot_curves(table, drawn, picture)
        run.publish("curves.png", picture.getvalue())


# --- The search for settings -----------------------------------------------------------------------------------------


def choices(run: Run) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each row and dataset of a search the setting with the highest mean, and how every one did."""
    tried: dict[tuple[str, str], list[tuple[float, Mapping[str, Any]]]] = defaultdict(list)
    for record in run.records():
        (found,) = record.values["scores"].values()
        tried[record.spec["method"], record.spec["dataset"]].append((float(np.mean(found)), record.spec["call"]))
    experiment = load(run.plan["experiment"])
    out: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for (name, dataset), candidates in tried.items():
        row = next(r for r in experiment.rows if r.name == name)
        value, call = max(candidates, key=lambda pair: pair[0])
        searched = {*row.search, *row.search_at.get(dataset, {})}
        settings = {k: v for k, v in call["settings"].items() if k in searched}
        if "space" in searched:
            settings["space"] = call["space"]
        spread = sorted((round(v, 4) for v, _ in candidates), reverse=True)
        out[name][dataset] = {"chosen": settings, "value": value, "all": spread}
    return dict(out)


def _lines_of(run: Run, found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
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


# --- The proof -------------------------------------------------------------------------------------------------------


def verify(run: Run, k: int, seed: int | None = None) -> Iterator[str]:
    """Compute k random finished cells again from the code as it is, and yield a line for each.

    Values must be the same but for rounding. On another kind of processor than the record's they are rounded otherwise,
    and many steps or training can make much of that: there the means must agree to a tenth or to two standard errors,
    and the line says how far the furthest are apart.

    Args:
        run: whose records are to be checked.
        k: cells.
        seed: of their choice; by default another one each time.

    Raises:
        FansError: if a value differs, or a cell cannot be computed.
    """
    check_whole("k", k, 1)
    done = run.done()
    if not done:
        raise InputError(f"Expected finished cells to verify, got none in {run.folder}; run the experiment first")
    picked = np.random.default_rng(seed).permutation(len(done))[:k]
    stored = {record.facts["key"]: record for record in run.records()}
    work = resolve(load(run.plan["experiment"]).work)
    for cell in [done[i] for i in picked]:
        record = stored[cell.key]
        try:
            with _threads(record.circumstances["threads"]):
                again = work(cell)
        except Exception as error:
            raise FansError(
                f"Expected {cell.key} computed again, got {type(error).__name__}: {error}; "
                "what made the record must be here: its data, its checkpoint and its modules"
            ) from error
        yield f"{cell.key}: {_compared(record, again)}"


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Use as many threads as when the record was made: they decide the last bits of a sum."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compared(record: Record, again: Result) -> str:
    """Say how a cell done again compares with its record; raise if it is not the same."""
    before, now = record.values["scores"], again.values["scores"]
    where = _difference(before, now)
    same_rows = again.evaluations == record.facts["evaluations"]
    if not where and same_rows:
        return "as recorded"
    here, there = processor(), record.circumstances.get("processor", "one it does not name")
    if here != there and same_rows and set(before) == set(now):
        gaps = {column: _gap(values, now[column]) for column, values in before.items()}
        worst = max(gaps, key=lambda column: gaps[column][0])
        if gaps[worst][0] <= 1:
            return f"within its error of a record made on another processor ({there}): {gaps[worst][1]} ({worst})"
        where = f"{worst}: {gaps[worst][1]}, on another processor"
    raise FansError(
        f"Expected the recorded values of {record.facts['key']}, got others ({where or 'other model rows'}); "
        "the code, the data or the checkpoint is not the one that made the record"
    )


def _gap(before: Sequence[float], again: Sequence[float]) -> tuple[float, str]:
    """Return how far two means are apart, as a share of what rounding may make of them, and in words."""
    one, other = np.array(before), np.array(again)
    if one.shape != other.shape or not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf, "other values"
    one, other = one[np.isfinite(one)], other[np.isfinite(one)]
    if not len(one) or np.array_equal(one, other):
        return 0.0, "equal means"
    apart = abs(one.mean() - other.mean())
    error = min(each.std(ddof=1) for each in (one, other)) / np.sqrt(len(one)) if len(one) > 1 else 0.0
    free = max(0.1 * abs(one.mean()), 2 * error, 1e-12)
    return float(apart / free), f"means {one.mean():.4g} and {other.mean():.4g}"


def _difference(before: Mapping[str, Sequence[float]], again: Mapping[str, Sequence[float]]) -> str:
    """Return where values differ by more than rounding, or nothing."""
    if set(before) != set(again):
        return f"other columns: {sorted(set(before) ^ set(again))}"
    for column, values in before.items():
        one, other = np.array(values), np.array(again[column])
        scale = np.abs(one[np.isfinite(one)]).max(initial=0.0)
        if one.shape != other.shape or not np.allclose(one, other, rtol=RELATIVE, atol=1e-7 * scale, equal_nan=True):
            return column
    return ""


def start(
    name: str,
    folder: Path,
    *,
    n: int | None = None,
    only: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    tune: bool = False,
    dry: bool = False,
) -> Run:
    """Begin a run of an experiment, or of the search for its rivals' settings, or go on with the one in `folder`.

    The run has the cells asked for; what the folder has of others stays there.

    Args:
        name: of the experiment, or its file.
        folder: of the run.
        n: inputs of every dataset instead of its own number.
        only: datasets.
        rows: names of rows.
        tune: the search.
        dry: write nothing.

    Raises:
        InputError: the folder holds other settings, or data or a checkpoint is missing.
    """
    experiment = load(name)
    if tune and n is not None:
        raise InputError("Expected --n or --tune, got both; the search has its own inputs (`tuning` of each dataset)")
    specs = experiment.tuning_cells(only, rows) if tune else experiment.cells(n, only, rows)
    if not specs:
        raise InputError("Expected rows with values to search (`search`), got none; fans run without --tune needs none")
    module = experiment.work.partition(":")[0]
    cells = _priced(specs, module)

    def beside(others: list[Cell]) -> None:
        if tune:
            _refuse_other_search(cells, others)
        else:
            _refuse_mixed(cell.spec for cell in (*others, *cells))

    plan = experiment.plan() | {"search": tune}
    run = Run.create(folder, plan, cells, grows=("experiment",), beside=beside, dry=dry)
    if not dry:
        for dataset in sorted({cell.kind[0] for cell in run.left()}):
            resolve(f"{module}:check_data")(dataset)
    return run


def opened(folder: Path) -> Run:
    """Return the run of an experiment that is in `folder`.

    Raises:
        InputError: there is none.
    """
    run = Run.open(folder)
    lacking = [name for name in ("experiment", "search") if name not in run.plan]
    if lacking:
        raise InputError(
            f"Expected the run of an experiment in {folder}, got one whose plan has no `{lacking[0]}`; "
            "its records can be read with fans.runs.Run"
        )
    return run


def _priced(specs: Sequence[Mapping[str, Any]], module: str) -> list[Cell]:
    """Return cells with their cost; what is trained for a row, or shared by a shard's columns, counts once."""
    price, training, identify = (resolve(f"{module}:{name}") for name in ("price", "training", "identify"))
    shards, rows, out = set[Any](), set[str](), []
    for spec in specs:
        shard = (spec["dataset"], spec["shard"][0], *(column["name"] for column in spec["columns"]))
        row = json.dumps([spec["dataset"], spec["call"]], sort_keys=True)
        cost = price(spec, first=shard not in shards) + (0 if row in rows else training(spec))
        shards.add(shard)
        rows.add(row)
        out.append(Cell(dict(spec) | identify(spec), cost))
    return out
