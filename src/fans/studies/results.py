"""What is done with a study: it is run, reported, and proved to be what the code computes."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fans.errors import FansError, InputError, check_whole
from fans.files import write
from fans.report.sections import Section
from fans.report.study_page import page
from fans.runs import Cell, Record, Result, Run, processor
from fans.studies._report import against, choices, tabulate
from fans.studies._yaml import find_study, names
from fans.studies.base import Asked, Study

__all__ = ["against", "choices", "opened", "report", "start", "tabulate", "verify", "write_page"]

RELATIVE = 1e-5
"""A value that is computed again may differ by so much of itself."""


def start(study: Study, folder: Path, asked: Asked | None = None, *, dry: bool = False) -> Run:
    """Begin a run of a study, or go on with the one in `folder`.

    The run has the cells asked for; what the folder has of others stays there.

    Args:
        study: of which.
        folder: of the run.
        asked: how much of it; by default all.
        dry: write nothing.

    Raises:
        InputError: the folder holds other settings, or data or a checkpoint is missing.
    """
    asked = asked or Asked()
    cells = study.price(study.plan(asked))
    plan = {"kind": study.kind, "study": study.called, "search": asked.tune, "about": study.about()}

    def beside(others: list[Cell]) -> None:
        study.admit(asked, cells, others)

    run = Run.create(folder, plan, cells, grows=("study", "about"), beside=beside, dry=dry)
    if not dry:
        study.check(run.left())
    return run


def opened(folder: Path) -> Run:
    """Return the run of a study that is in `folder`.

    Raises:
        InputError: there is none.
    """
    run = Run.open(folder)
    lacking = [name for name in ("kind", "study", "search", "about") if name not in run.plan]
    if lacking:
        raise InputError(
            f"Expected the run of a study in {folder}, got one whose plan has no `{lacking[0]}`; if an earlier version "
            "began it, delete its plan.json and give the same command: the records stay good"
        )
    return run


def report(run: Run, tell: Callable[[str], None]) -> None:
    """Tell what came out, and write it beside the records, which are packed into one file.

    A report is made from what the run stores: no file in its folder is imported, executed, or asked for another.
    """
    rendered = _kind_of(run).render(run)
    tell(rendered.text)
    for name, content in rendered.files.items():
        run.publish(name, content)
    run.pack()


def write_page(runs: Sequence[Run], path: Path | None = None) -> Path:
    """Write what runs came to as one HTML page that needs nothing else, and return where it is.

    Args:
        runs: whose sections it has, in order; one that is named twice has one.
        path: of the page; by default `report.html` in the folder of a single run, and of several `paper.html` in the
            folder that holds them all.
    """
    of = {run.folder.resolve(): run for run in runs}
    content = page([_section(run) for run in of.values()])
    if path is not None:
        return write(path, content)
    if len(of) == 1:
        (run,) = of.values()
        run.publish("report.html", content.encode())
        return run.folder / "report.html"
    return write(Path(os.path.commonpath([folder.parent for folder in of])) / "paper.html", content)


def _section(run: Run) -> Section:
    """Return what a page says of a run; of a study without sections, what it tells in a terminal."""
    kind = _kind_of(run)
    called = str(run.plan["study"])
    return kind.section(run) or Section(called, called, summary=[kind.render(run).text])


def _kind_of(run: Run) -> type[Study]:
    """Return the kind of study that a run names."""
    kind = str(run.plan["kind"])
    if kind not in Study.kinds:
        raise InputError(
            f"Expected the run of a kind of study known here ({', '.join(sorted(Study.kinds))}) in {run.folder}, got "
            f"{kind!r}; name the file it comes from (--study)"
        )
    return Study.kinds[kind]


def _named(run: Run) -> Study:
    """Return the study of ours that a run names; never one from a path that it names."""
    name = run.plan["study"]
    if name not in names():
        raise InputError(
            f"Expected a study of ours ({', '.join(names())}) in {run.folder}, got {name!r}; name its file (--study)"
        )
    return find_study(name)


# --- The proof -------------------------------------------------------------------------------------------------------


def verify(run: Run, k: int, seed: int | None = None, study: Study | None = None) -> Iterator[str]:
    """Compute k random finished cells again from the code as it is, and yield a line for each.

    Values must be the same but for rounding. On another kind of processor than the record's they are rounded otherwise,
    and many steps or training can make much of that: there the means must agree to a tenth or to two standard errors,
    and the line says how far the furthest are apart.

    Args:
        run: whose records are to be checked.
        k: cells.
        seed: of their choice; by default another one each time.
        study: what did them; by default the one of ours that the run names, by that name alone.

    Raises:
        FansError: if a value differs, or a cell cannot be computed.
    """
    check_whole("k", k, 1)
    done = run.done()
    if not done:
        raise InputError(f"Expected finished cells to verify, got none in {run.folder}; run the experiment first")
    work = (study or _named(run)).do
    picked = np.random.default_rng(seed).permutation(len(done))[:k]
    stored = {record.facts["key"]: record for record in run.records()}
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
    before, now = _columns(record.values), _columns(again.values)
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


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a record by column: those of a table are below `scores`."""
    found = values.get("scores", values)
    return {name: np.ravel(column) for name, column in found.items()} if isinstance(found, Mapping) else {"": [found]}


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
