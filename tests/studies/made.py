"""Runs of studies whose cells are not computed but given."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fans.runs import Cell, Result, Run
from fans.studies import Asked, Study
from fans.studies.results import opened


def made(folder: Path, study: Study, asked: Asked, values: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Run:
    """Return a finished run of the cells asked for, with values by their specs; nothing is explained."""
    run_of(study, folder, [(spec, Result(values(spec), 7)) for spec in study.plan(asked)])
    return opened(folder)


def run_of(study: Study, folder: Path, cells: Sequence[tuple[Mapping[str, Any], Result]]) -> Run:
    """Return a run in which each cell came to what is given."""
    given = {Cell(spec).key: (Cell(spec), result) for spec, result in cells}
    plan = {"kind": study.kind, "study": study.called, "search": False, "about": study.about()}
    run = Run.create(folder, plan, [cell for cell, _ in given.values()])
    run.work(lambda cell: given[cell.key][1])
    return run


def spread(middle: float, n: int = 8) -> list[float]:
    """Return so many values about a middle one, all different."""
    return [middle + 0.001 * (i - (n - 1) / 2) for i in range(n)]
