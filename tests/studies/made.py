"""Runs whose records are made by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fans.runs import Cell, Result, Run
from fans.studies import Study, TableStudy, find_study, names

TABLES = [name for name in names() if isinstance(find_study(name), TableStudy)]
"""Names of our studies that are tables."""


def run_of(study: Study, folder: Path, cells: Sequence[tuple[Mapping[str, Any], Result]]) -> Run:
    """Return a run in which each cell came to what is given."""
    made = {Cell(spec).key: (Cell(spec), result) for spec, result in cells}
    plan = {"kind": study.kind, "study": study.called, "search": False, "about": study.about()}
    run = Run.create(folder, plan, [cell for cell, _ in made.values()])
    run.work(lambda cell: made[cell.key][1])
    return run


def spread(middle: float, n: int = 8) -> list[float]:
    """Return so many values about a middle one, all different."""
    return [middle + 0.001 * (i - (n - 1) / 2) for i in range(n)]
