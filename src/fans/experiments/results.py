"""From the records of a run to its table, its choices and its proof."""

import importlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fans.core import FansError, InputError, check_whole, write_atomically
from fans.experiments._shared import Experiment, load
from fans.metrics import Metric
from fans.report.tables import Entry, Heading, Table, comma_separated, entry, html, markdown, text
from fans.runs import Cell, Record, Run

TOLERANCE = 1e-5
"""A value recomputed on another machine or with other threads may differ by so much of the column's largest."""


def tabulate(run: Run) -> Table:
    """Return the table of what a run has so far."""
    experiment = load(run.plan["experiment"])
    values: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for record in run.records():
        first = record.spec["shard"][0]
        for column, found in record.values["scores"].items():
            key = (record.spec["method"], record.spec["dataset"], column)
            values[key] |= {first + i: value for i, value in enumerate(found)}
    entries: dict[tuple[str, str, str], Entry] = {}
    labels = {d.name: d.label for d in experiment.datasets}
    for (row, dataset, column), found in values.items():
        ordered = np.array([found[i] for i in sorted(found)])
        entries[row, labels[dataset], column] = entry(ordered, _printed(experiment, dataset, row, column))
        entries[row, labels[dataset], _median(column)] = _of_medians(ordered)
    left = len(run.left())
    notes = [f"{left} of {len(run.cells)} cells are still to be done."] if left else []
    notes.append(f"Paper: {experiment.source}. Intervals: 95 % bootstrap over inputs. Ours / the paper's.")
    shown = [label for name, label in labels.items() if any(key[1] == name for key in values)]
    return Table(
        experiment.title, shown, _headings(experiment), [(r.name, r.group) for r in experiment.rows], entries, notes
    )


def _median(column: str) -> str:
    return f"{column}, median"


def _of_medians(values: Any, n_draws: int = 2000) -> Entry:
    """Return the median with its bootstrap interval, in the places of the mean."""
    drawn = np.random.default_rng(0).integers(0, len(values), (n_draws, len(values)))
    low, high = np.quantile(np.median(values[drawn], axis=1), [0.025, 0.975])
    middle = float(np.median(values))
    return Entry(middle, float(low), float(high), middle, len(values))


def _headings(experiment: Experiment) -> list[Heading]:
    out = []
    for column in experiment.columns:
        judge: Any = Metric.registry[column.metric]
        made = Heading(column.name, judge.higher_is_better, column.note)
        out += [made, replace(made, name=_median(column.name), note="")] if column.median else [made]
    return out


def _printed(experiment: Experiment, dataset: str, row: str, column: str) -> float | None:
    """Return the paper's number for an entry, where it prints one."""
    line = next(r.paper for r in experiment.rows if r.name == row)
    head = next((c.paper for c in experiment.columns if c.name == column), None)
    found = experiment.paper.get(dataset, {}).get(line or "", {}).get(head or "")
    return None if found is None else float(found)


def write(run: Run) -> str:
    """Write a run's table beside its records as Markdown, CSV and HTML; return it for a terminal."""
    table = tabulate(run)
    for name, content in (("md", markdown(table)), ("csv", comma_separated(table)), ("html", html(table))):
        write_atomically(run.folder / f"table.{name}", content.encode())
    return text(table)


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
        settings = {k: v for k, v in call["settings"].items() if k in row.search}
        if "space" in row.search:
            settings["space"] = call["space"]
        spread = sorted((round(v, 4) for v, _ in candidates), reverse=True)
        out[name][dataset] = {"chosen": settings, "value": value, "all": spread}
    return dict(out)


def show_choices(run: Run) -> str:
    """Return the choices of a search as lines of YAML to be put into the experiment's file; write them beside it."""
    found = choices(run)
    write_atomically(run.folder / "choices.json", (json.dumps(found, indent=2, sort_keys=True) + "\n").encode())
    lines = []
    for name, by_dataset in found.items():
        lines += [f"{name}:", "    chosen:"]
        lines += [
            f"      {dataset}: {json.dumps(v['chosen'])}  # {v['value']:.4f} of {v['all'][:3]}..."
            for dataset, v in by_dataset.items()
        ]
    return "\n".join(lines) + "\n"


# --- The proof -------------------------------------------------------------------------------------------------------


def verify(run: Run, k: int, seed: int = 0) -> list[str]:
    """Compute k random finished cells again from the code as it is, and return a line for each.

    Raises:
        FansError: if a value differs.
    """
    check_whole("k", k, 1)
    done = run.done()
    if not done:
        raise InputError(f"Expected finished cells to verify, got none in {run.folder}; run the experiment first")
    picked = np.random.default_rng(seed).permutation(len(done))[:k]
    stored = {record.facts["key"]: record for record in run.records()}
    work, lines = _function(load(run.plan["experiment"]).work), []
    for cell in [done[i] for i in picked]:
        worst = _difference(stored[cell.key], work(cell).values["scores"])
        if worst > TOLERANCE:
            raise FansError(
                f"Expected the recorded values of {cell.key}, got others (by {worst:.1e} of the largest in a column); "
                "the code, the data or the checkpoint is not the one that made the record"
            )
        lines.append(f"{cell.key}: as recorded (largest difference {worst:.1e})")
    return lines


def _difference(record: Record, again: Mapping[str, Sequence[float]]) -> float:
    """Return the largest difference of a value, as a share of its column's largest."""
    before = record.values["scores"]
    if set(before) != set(again):
        return float("inf")
    worst = 0.0
    for column, values in before.items():
        one, other = np.array(values), np.array(again[column])
        if one.shape != other.shape:
            return float("inf")
        worst = max(worst, float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-12)))
    return worst


def _function(where: str) -> Any:
    """Return the function that an experiment's file names as `module:function`."""
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


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

    Args:
        name: of the experiment, or its file.
        folder: of the run.
        n: inputs of every dataset instead of its own number.
        only: datasets.
        rows: names of rows; what a folder has of others stays.
        tune: the search.
        dry: write nothing.
    """
    experiment = load(name)
    if n is not None:
        check_whole("n", n, 1)
    price = _function(experiment.work.partition(":")[0] + ":price")
    specs = experiment.tuning_cells(only, rows) if tune else experiment.cells(n, only, rows)
    seen: set[tuple[str, int]] = set()
    cells: dict[str, Cell] = {}
    for spec in specs:
        shard = (spec["dataset"], spec["shard"][0])
        cell = Cell(spec, price(spec, first=shard not in seen))
        seen.add(shard)
        cells[cell.key] = cell
    if (folder / "plan.json").is_file() and (rows or only or n):  # part of it: the others stay in the plan
        cells = {cell.key: cell for cell in Run.open(folder).cells} | cells
    return Run.create(folder, experiment.plan() | {"search": tune}, cells.values(), grows=("experiment",), dry=dry)
