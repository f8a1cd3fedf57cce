"""Studies that are run one after the other, with one page at the end: all of the paper's."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fans.errors import FansError, Interrupted
from fans.runs import Cell, Run, span
from fans.studies import results
from fans.studies._yaml import find_study, names
from fans.studies.base import Asked, Study

SUITES: Mapping[str, Sequence[str]] = {
    "paper": (
        *("table1", "table2", "robustness", "heatmap"),
        *("ablation", "convergence", "efficiency", "sensitivity"),
    )
}
"""Which studies each suite has, in order."""

SECONDS_A_ROW = {
    **{"mnist": 0.0004, "fashion_mnist": 0.0004, "cifar10": 0.02},
    **{"ba_community": 0.003, "citeseer": 0.002, "pubmed": 0.006},
}
"""What a model row took in our runs on one core, by dataset: a guess for what nothing is measured of yet."""

SECONDS_A_CELL, SECONDS_A_STUDY, OTHER = 0.5, 10.0, 0.003
"""What reading a cell's model and starting processes take, about, and a row of any other dataset."""


def members(suite: str) -> list[str]:
    """Return the studies of a suite that are there."""
    known = names()
    return [name for name in SUITES[suite] if name in known]


def run(
    suite: str,
    asked: Asked,
    folder: Path,
    *,
    workers: int = 1,
    tell: Callable[[str], None] = lambda _: None,
    dry: bool = False,
) -> None:
    """Do what is left of every study of a suite, and write their reports and one page.

    Args:
        suite: by name.
        asked: how much of each study.
        folder: each study has a folder of its name in it, and the page is `paper.html`.
        workers: processes.
        tell: is given lines on what it will take and how far it is.
        dry: tell what it will take, and do nothing.

    Raises:
        InputError: data are missing; nothing is begun.
        Interrupted: Ctrl-C; the same command goes on.
        FansError: cells of some study failed; the others are done, and the page is written.
    """
    studies = {name: find_study(name) for name in members(suite)}
    planned = {name: results.start(study, folder / name, asked, dry=True) for name, study in studies.items()}
    for line in _estimate(planned, workers):
        tell(line)
    if dry:
        return
    for name, study in studies.items():
        study.check(planned[name].left())
    failed = [problem for name in studies if (problem := _do(name, studies[name], asked, folder, workers, tell))]
    page = results.write_page([results.opened(folder / name) for name in studies], folder / f"{suite}.html")
    tell(f"One page: {page}")
    if failed:
        raise FansError(f"Expected all of {suite} done, got studies of which cells failed: {' '.join(failed)}")


def _do(name: str, study: Study, asked: Asked, folder: Path, workers: int, tell: Callable[[str], None]) -> str | None:
    """Do what is left of a study and write its files; return what failed, if anything."""
    begun, problem = results.start(study, folder / name, asked), None
    try:
        begun.work(study.do, workers=workers, tell=lambda line: tell(f"{name}: {line}"), every=30.0)
    except Interrupted:
        raise
    except FansError as error:
        problem = f"{name}: {error}"
        tell(problem)
    results.report(results.opened(folder / name), lambda _: None)
    tell(f"{name}: written to {folder / name}")
    return problem


def _estimate(planned: Mapping[str, Run], workers: int) -> list[str]:
    """Return lines that say what is left of each study, and about how long that takes."""
    seconds, lines = 0.0, []
    width = max(map(len, planned), default=0)
    for name, run in planned.items():
        left = run.left()
        needed = _seconds(left, workers)
        seconds += needed
        cells, rows = f"{len(left):,} of {len(run.cells):,}", sum(cell.cost for cell in left)
        lines.append(f"{name:{width}}  {cells:>16} cells left, {rows:13,} model rows, about {span(needed)}")
    return [*lines, f"about {span(seconds)} in all with --workers {workers}, judged by our own runs"]


def _seconds(cells: Sequence[Cell], workers: int) -> float:
    """Return about how long cells take: no less than the longest of them."""
    each = [SECONDS_A_CELL + SECONDS_A_ROW.get(cell.kind[0], OTHER) * cell.cost for cell in cells]
    return SECONDS_A_STUDY + max(sum(each) / workers, *each) if each else 0.0
