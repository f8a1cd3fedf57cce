"""`fans explain`: a run over a user's own data, priced first, killed anywhere and gone on with."""

import hashlib
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fans.errors import FansError, FansWarning, InputError, Interrupted, check_whole
from fans.own import store
from fans.own.bound import Asked, Bound, bind
from fans.own.data import file_sha256
from fans.own.store import Plan
from fans.own.written import check_formats, write_results
from fans.runs import Cell, Result, Run, span

TRIED = 4
"""Inputs that are explained to say how long all will take."""

SLOW = 10.0
"""Seconds: where the first input takes longer, it tells enough."""

EVERY = 10.0
"""Seconds between two lines on how far it is."""


@dataclass
class Explaining:
    """Does the cells of a run: each the explanations of one block of inputs, in a file of its own.

    A worker process loads model and data anew.
    """

    asked: Asked
    folder: Path
    curves: bool
    _bound: Bound | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_bound": None}

    @property
    def bound(self) -> Bound:
        """What was asked, loaded."""
        if self._bound is None:
            self._bound = bind(self.asked)
        return self._bound

    def __call__(self, cell: Cell) -> Result:
        """Explain a block of inputs, and write it."""
        bound, places = self.bound, list(cell.inputs)
        x = bound.data.take(places)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", FansWarning)
            found = bound.explainer(x, target=bound.target, ids=bound.data.ids(places), progress=False)
        found = replace(found, seconds=0.0)  # the same bytes whenever it is done again
        name = store.shard_name(cell.spec["number"])
        shard = _place(self.folder, store.SHARDS) / name
        found.save(shard)
        n_rows = int(found.n_evaluations.sum())
        if self.curves:
            curves = bound.explainer.curve(found, x)
            curves.save(_place(self.folder, store.CURVES) / name)
            n_rows += curves.n_evaluations
        said = sorted({str(one.message) for one in heard if issubclass(one.category, FansWarning)})
        values = {"shard": name, "sha256": file_sha256(shard), "inputs": len(found), "warnings": said}
        return Result(values, n_rows)


def _place(folder: Path, name: str) -> Path:
    """Return a folder of the run's own, made where it is not there."""
    found = folder / name
    if found.is_symlink():
        raise InputError(f"Expected a folder of the run, got {found}, a symbolic link; delete it")
    found.mkdir(parents=True, exist_ok=True)
    return found


def explain(
    asked: Asked,
    out: Path,
    *,
    formats: Collection[str] = ("csv", "html"),
    workers: int = 1,
    curves: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Explain a user's own data, or go on with that, and return the folder with the results.

    Args:
        asked: what, by what, and how.
        out: the folder.
        formats: of the results: csv, json, parquet, html.
        workers: processes.
        curves: keep PNS against size and tolerance of every input as well, so that it needs no model to be shown.
        tell: is given lines on how far it is.

    Raises:
        InputError: model or data cannot be used, or the folder holds something else; nothing was computed.
        FansError: some blocks failed; the others are kept, and their results written.
        Interrupted: by Ctrl-C; what is done is kept.
    """
    check_whole("--workers", workers, 1)
    check_formats(formats)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", FansWarning)
        bound = bind(asked)
    for one in heard:
        tell(f"Note: {one.message}")
    work = Explaining(asked, out, curves, bound)
    plan = bound.plan()
    cells = _cells(plan, bound, curves)
    _introduce(bound, plan, tell)
    _try(bound, Run.create(out, plan.encoded(), cells, grows=Plan.TOLD, dry=True).left())
    run = _begun(plan, cells, out, curves, tell)
    left = run.left()
    if left:
        _price(bound, left, workers, tell)
        try:
            run.work(work, workers=workers, tell=tell, every=EVERY)
        except Interrupted:
            raise
        except FansError:
            if any(True for _ in store.shards_there(out, plan)):
                write_results(out, plan, formats, tell)
            raise
    _repeat_warnings(run, tell)
    write_results(out, plan, formats, tell)
    return out


def _cells(plan: Plan, bound: Bound, curves: bool) -> list[Cell]:
    """Cut the inputs into blocks."""
    known = {name: value for name, value in plan.encoded().items() if name not in Plan.TOLD}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]
    cells = []
    for number in range(plan.n_shards):
        inputs = plan.inputs(number)
        spec = {"dataset": bound.asked.data.stem, "method": bound.asked.method, "seed": bound.asked.seed}
        spec |= {"shard": [inputs.start, inputs.stop], "number": number, "plan": digest, "curves": curves}
        cells.append(Cell(spec, cost=bound.explainer.rows_an_input * len(inputs)))
    return cells


def _try(bound: Bound, cells: Sequence[Cell]) -> None:
    """Ask the model once about every input to be explained, so that what it refuses is told of before hours of work.

    An error of the model's own is left to the block that it costs.
    """
    task = bound.explainer.task
    with task.predict.session():
        for cell in cells:
            try:
                for part, rows, _ in task.split(bound.data.take(list(cell.inputs))):
                    part.predict(rows)
            except FansError as error:
                first, last = (bound.data.ids([i])[0] for i in (cell.inputs[0], cell.inputs[-1]))
                raise InputError(f"{error} (among {bound.data.words[1]} {first} to {last})") from None
            except Exception:  # noqa: S112
                continue


def _begun(plan: Plan, cells: Sequence[Cell], out: Path, curves: bool, tell: Callable[[str], None]) -> Run:
    """Begin the run, or go on with the one that is there; what was lost of it is to be done again."""
    run = Run.create(out, plan.encoded(), cells, grows=Plan.TOLD)
    lost = [
        cell for cell, record in zip(run.done(), run.records(), strict=True) if _is_lost(record.values, out, curves)
    ]
    if lost:
        tell(f"{len(lost)} of the shards are damaged or gone: they are computed again")
        run.forget(lost)
    return run


def _is_lost(values: object, out: Path, curves: bool) -> bool:
    """Tell whether what a record speaks of is not there, or not as it was."""
    assert isinstance(values, dict)
    name = str(values.get("shard"))
    path = out / store.SHARDS / Path(name).name
    whole = path.is_file() and not path.is_symlink() and file_sha256(path) == values.get("sha256")
    return not whole or (curves and not (out / store.CURVES / Path(name).name).is_file())


def _introduce(bound: Bound, plan: Plan, tell: Callable[[str], None]) -> None:
    """Say what is explained, and by what."""
    one, several = bound.data.words
    of = "" if bound.n == len(bound.data) else f" of {len(bound.data):,}"
    outputs = bound.explainer.task.predict.target_names or ()
    named = f"; outputs: {', '.join(outputs[:6])}{', ...' if len(outputs) > 6 else ''}" if outputs else ""
    tell(f"{plan.title}: {bound.n:,}{of} {one if bound.n == 1 else several}{named}.")
    for line in (bound.background.words, *bound.data.notes):
        tell(line)


def _price(bound: Bound, left: Sequence[Cell], workers: int, tell: Callable[[str], None]) -> None:
    """Explain a few inputs and say how long all that are left will take."""
    n_left = sum(len(cell.inputs) for cell in left)
    places = list(left[0].inputs)[:TRIED]
    if n_left <= len(places):
        return
    explainer, data = bound.explainer, bound.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FansWarning)
        explainer.prepare()
        began = time.perf_counter()
        explainer(data.take(places[:1]), target=bound.target, ids=data.ids(places[:1]), progress=False)
        each = time.perf_counter() - began
        if each < SLOW and len(places) > 1:
            began = time.perf_counter()
            explainer(data.take(places), target=bound.target, ids=data.ids(places), progress=False)
            each = min(each, (time.perf_counter() - began) / len(places))
    one, several = data.words
    by = f" by {workers} processes" if workers > 1 else ""
    tell(
        f"About {_brief(each)} a {one}, from {len(places)} tried: {n_left:,} {several} take about "
        f"{span(each * n_left / workers)}{by}. Stopped at any time, the same command goes on."
    )


def _brief(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else span(seconds) if seconds >= 10 else f"{seconds:.1f} s"


def _repeat_warnings(run: Run, tell: Callable[[str], None]) -> None:
    """Say what was warned of, and in how many blocks."""
    said = Counter(text for record in run.records() for text in record.values.get("warnings", ()))
    for text, n in said.most_common(5):
        tell(f"Note ({n} of {len(run.cells)} blocks): {text}")
