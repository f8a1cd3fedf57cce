"""The runner: work cut into cells, and a ledger of the finished ones; kill it anywhere, start it again, it goes on."""

import errno
import fcntl
import hashlib
import importlib
import importlib.metadata
import itertools
import json
import math
import multiprocessing
import os
import pickle
import platform
import re
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fans.core import FansError, InputError, Interrupted, check_whole
from fans.version import __version__

_POLL = 0.2
"""Seconds between two looks at cells that another process has."""

_CHANCES = 2
"""So many workers may die at a cell before it counts as failed."""

_SPAWN = multiprocessing.get_context("spawn")
"""Workers are fresh processes: one that is forked from a process with threads, such as torch's, may hang."""

_now, _sleep = time.monotonic, time.sleep

_Outcome = Literal["done", "elsewhere", "failed"]


@dataclass(frozen=True)
class Cell:
    """One unit of work, done whole or not at all.

    Attributes:
        spec: all that decides the result, as JSON has it: `dataset`, `method` and `shard` (`[start, stop]` of the
            inputs) name it, `seed` is put into its record, and whatever else there is counts as well.
        cost: model rows it takes, about; no part of its identity.
    """

    spec: Mapping[str, Any]
    cost: int = 0

    def __post_init__(self) -> None:
        check_whole("cost", self.cost, 0)
        if not isinstance(self.spec, Mapping):
            raise InputError(f"Expected `spec` as a mapping, got {type(self.spec).__name__}")
        object.__setattr__(self, "spec", _restored(_plain(self.spec, "spec")))

    @cached_property
    def key(self) -> str:
        """A readable name and a checksum of the spec: the same in every process, whatever the order of its entries."""
        words = [*self.kind, *([str(self.inputs.start), str(self.inputs.stop)] if self.inputs else [])]
        slugs = [re.sub(r"[^A-Za-z0-9_]+", "_", word)[:24] for word in words if word]
        return "-".join([*slugs, _digest(_plain(self.spec, "spec"))[:12]])

    @property
    def seed(self) -> Any:
        """The seed in the spec, None where there is none."""
        return self.spec.get("seed")

    @property
    def kind(self) -> tuple[str, str]:
        """Dataset and method: cells of one kind take about the same time for a model row."""
        return str(self.spec.get("dataset", "")), str(self.spec.get("method", ""))

    @property
    def inputs(self) -> range:
        """The inputs of its shard, by number; none where the spec has no shard."""
        match self.spec.get("shard"):
            case [int(start), int(stop)]:
                return range(start, stop)
        return range(0)


@dataclass(frozen=True)
class Result:
    """What doing a cell gave.

    Attributes:
        values: numbers, texts, lists and mappings of them; arrays become lists; NaN and infinities are kept.
        evaluations: model rows evaluated.
        timing: what may differ from one time to the next, e.g. the seconds of its parts; kept with the circumstances.
    """

    values: Mapping[str, Any]
    evaluations: int = 0
    timing: Mapping[str, Any] = field(default_factory=dict)


Work = str | Callable[[Cell], Result]
"""What does a cell: a function, or where it is to be found, as `module:function`."""


@dataclass(frozen=True)
class Record:
    """A finished cell, as it is stored.

    Attributes:
        facts: `key`, `spec`, `seed`, `evaluations`, `values`: the same whenever the cell is done again.
        circumstances: `seconds`, `finished_at`, `versions`, `threads`, `timing`: of the one time it was.
    """

    facts: Mapping[str, Any]
    circumstances: Mapping[str, Any]

    @property
    def spec(self) -> Mapping[str, Any]:
        """The cell's spec."""
        return self.facts["spec"]  # type: ignore[no-any-return]

    @property
    def values(self) -> Mapping[str, Any]:
        """What the work returned."""
        return self.facts["values"]  # type: ignore[no-any-return]

    @property
    def sha256(self) -> str:
        """Checksum of the facts: two records agree to the last bit if and only if these are equal."""
        return _digest(_plain(self.facts, "facts"))

    @classmethod
    def of(cls, cell: Cell, result: Result, seconds: float) -> "Record":
        """Return the record of a cell just done."""
        if not isinstance(result, Result):
            raise InputError(f"Expected the work to return a `Result`, got {type(result).__name__}")
        check_whole("evaluations", result.evaluations, 0)
        facts = {"key": cell.key, "spec": cell.spec, "seed": cell.seed, "evaluations": int(result.evaluations)}
        circumstances = {
            "seconds": round(seconds, 6),
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "threads": _threads(),
            "timing": _restored(_plain(result.timing, "timing")),
        }
        return cls(facts | {"values": _restored(_plain(result.values, "values"))}, circumstances)

    def encode(self) -> bytes:
        """Return the record as strict JSON with the checksums of its two parts."""
        parts = {"facts": _plain(self.facts, "facts"), "circumstances": _plain(self.circumstances, "circumstances")}
        return _json(parts | {"sha256": {name: _digest(part) for name, part in parts.items()}}) + b"\n"

    @classmethod
    def decode(cls, raw: bytes, cell: Cell) -> "Record":
        """Return the record of `cell` in these bytes; raise a ValueError that says why they are not one."""
        try:
            parts = json.loads(raw)
            sums = parts.pop("sha256")
            found = cls(**{name: _restored(part) for name, part in parts.items()})
            own = found.facts["key"] == cell.key == Cell(found.spec).key
            whole = sums == {name: _digest(part) for name, part in parts.items()}
            whole &= {"seconds", "versions"} <= found.circumstances.keys()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ValueError("not a whole record") from None
        if not whole:
            raise ValueError("a wrong checksum")
        if not own:
            raise ValueError("the record of another cell")
        return found


class _Known(NamedTuple):
    """What is remembered of a record file once it was read."""

    mark: tuple[int, ...]
    seconds: float
    versions: Mapping[str, str]
    problem: str


@dataclass
class Run:
    """A folder with a plan and the records of its finished cells.

    Below the folder lie `plan.json`, `records/<key>.json`, `failures/<key>.txt` of cells that raised, and `locks/`,
    empty files that a process locks while it is at a cell: the system frees them when it dies, however it dies.
    A cell is done when its record is there, whole and with the right checksums; nothing else is kept of what is done.
    Nothing in the folder is ever executed.

    Attributes:
        folder: where it lies.
        plan: the settings of the experiment.
        cells: all of them, done or not.
    """

    folder: Path
    plan: Mapping[str, Any]
    cells: tuple[Cell, ...]
    _known: dict[str, _Known] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def create(
        cls,
        folder: str | Path,
        plan: Mapping[str, Any],
        cells: Iterable[Cell],
        *,
        grows: Collection[str] = (),
        dry: bool = False,
    ) -> "Run":
        """Begin a run in `folder`, or go on with the one that is there.

        Args:
            folder: made where it is not there.
            plan: the settings of the experiment; what is not in the cells' specs and matters belongs in here.
            cells: the work; where a run is there all its cells must be among them, and what is done stays done.
            grows: the settings that only say how much is asked for: they may differ from those of the run there.
            dry: check all this, and write nothing.

        Raises:
            InputError: the folder holds another experiment.
            FansError: it cannot be written to.
        """
        run = cls(Path(folder), _restored(_plain(plan, "plan")), tuple(cells))
        twice = [key for key, n in Counter(cell.key for cell in run.cells).items() if n > 1]
        if twice or not run.cells:
            raise InputError(
                f"Expected at least one cell, and each once, got {twice[0] + ' twice' if twice else 'none'}"
            )
        if dry:
            run._changes(grows)
            return run
        with _saving(run.folder):
            run._make_folders()
            with _locked(run.folder / "plan.lock", patient=True):
                if run._changes(grows):
                    _write(run.folder / "plan.json", run._encoded())
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Return the run that is in `folder`."""
        path = Path(folder) / "plan.json"
        try:
            found = _restored(json.loads(path.read_bytes()))
            run = cls(Path(folder), found["plan"], tuple(Cell(c["spec"], c["cost"]) for c in found["cells"]))
        except FileNotFoundError:
            raise InputError(f"Expected a run in {folder}, got no plan.json there; check the folder") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Expected the plan of a run, got {path}, which is not one ({type(error).__name__}); "
                "delete it and give the same command: the records stay good"
            ) from None
        return run

    def measured(self) -> dict[str, float]:
        """Return the keys of the cells done, and the seconds that each took."""
        seen = {cell.key: self._look(cell) for cell in self.cells}
        return {key: known.seconds for key, known in seen.items() if known and not known.problem}

    def done(self) -> list[Cell]:
        """Return the cells whose record is there and whole."""
        measured = self.measured()
        return [cell for cell in self.cells if cell.key in measured]

    def left(self) -> list[Cell]:
        """Return the cells still to do."""
        measured = self.measured()
        return [cell for cell in self.cells if cell.key not in measured]

    def damaged(self) -> dict[str, str]:
        """Return the keys of the cells whose record is no good, and why; `work` sets it aside and does them again."""
        seen = {cell.key: self._look(cell) for cell in self.cells}
        return {key: known.problem for key, known in seen.items() if known and known.problem}

    def failures(self) -> dict[str, str]:
        """Return the keys of the cells that failed when they were last tried, and the reason in a line."""
        return {c.key: self._reason(c) for c in self.left() if self._failure(c).is_file()}

    def records(self) -> list[Record]:
        """Read the records of all cells done, in the order of the plan."""
        return [Record.decode(self._record(cell).read_bytes(), cell) for cell in self.done()]

    def work(
        self,
        do: Work,
        *,
        workers: int = 1,
        tell: Callable[[str], None] = lambda _: None,
        every: float = 10.0,
    ) -> None:
        """Do what is left.

        Any number of processes may do this on one folder at once: no cell is done by two of them. Cells that others
        have are waited for, and taken over if those die. One that raises is noted, and the others go on.

        Args:
            do: what does a cell; for several workers a function that can be imported by its name.
            workers: processes; with more than one, each is a fresh process that uses its share of the cores, or
                OMP_NUM_THREADS if that is less. How many threads add up a sum may change its last bit: set
                OMP_NUM_THREADS=1 for the same records with any number of workers.
            tell: is given lines on how far it is.
            every: the least number of seconds between two of them.

        Raises:
            Interrupted: Ctrl-C; the message says how to go on.
            FansError: some cells failed, the disk is full, or the workers do not start.
        """
        check_whole("workers", workers, 1)
        try:
            function = resolve(do, by_name=workers > 1)
            with _saving(self.folder):
                self._make_folders()
            board = _Board(self, workers, tell, every)
            if workers == 1:
                _alone(board, function)
            else:
                _together(board, do)
        except KeyboardInterrupt:
            raise Interrupted(
                f"Interrupted with {len(self.done())} of {len(self.cells)} cells done; "
                "the same command goes on with the others"
            ) from None
        board.close()

    def attempt(self, cell: Cell, do: Callable[[Cell], Result], failed_at: int | None = None) -> _Outcome:
        """Do one cell and write its record, unless another process has it, or had it.

        Args:
            cell: of this run.
            do: what does it.
            failed_at: when it failed before (see `_failed_at`); failed later than that, it is not tried again.
        """
        with _saving(self.folder), _locked(self.folder / "locks" / f"{cell.key}.lock") as ours:
            if not ours:
                return "elsewhere"
            if (known := self._look(cell)) and not known.problem:
                return "done"
            if self._failed_at(cell) not in (None, failed_at):
                return "failed"
            self._set_aside(cell)
            began = _now()
            try:
                content = Record.of(cell, do(cell), _now() - began).encode()
            except KeyboardInterrupt:
                raise
            except (Exception, SystemExit) as error:
                if _is_full(error):
                    raise
                self._write_failure(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
                return "failed"
            _write(self._record(cell), content)
            self._failure(cell).unlink(missing_ok=True)
            return "done"

    def _make_folders(self) -> None:
        for name in ("records", "locks", "failures"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        _sync(self.folder)
        _sync(self.folder.parent)

    def give_up(self, cell: Cell, reason: str) -> _Outcome:
        """Note that a cell failed, unless another process has it, or did it."""
        with _saving(self.folder), _locked(self.folder / "locks" / f"{cell.key}.lock") as ours:
            if not ours:
                return "elsewhere"
            if (known := self._look(cell)) and not known.problem:
                return "done"
            self._write_failure(cell, reason)
            return "failed"

    def _record(self, cell: Cell) -> Path:
        return self.folder / "records" / f"{cell.key}.json"

    def _failure(self, cell: Cell) -> Path:
        return self.folder / "failures" / f"{cell.key}.txt"

    def _look(self, cell: Cell) -> _Known | None:
        """Return what is known of a record, None where there is none; a file is read again only if it has changed."""
        path = self._record(cell)
        try:
            stat = path.stat()
        except FileNotFoundError:
            return None
        mark = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        known = self._known.get(cell.key)
        if known is None or known.mark != mark:
            try:
                now = Record.decode(path.read_bytes(), cell).circumstances
                known = _Known(mark, now["seconds"], now["versions"], "")
            except (OSError, ValueError) as error:
                known = _Known(mark, 0.0, {}, str(error))
            self._known[cell.key] = known
        return known

    def _set_aside(self, cell: Cell) -> None:
        """Give a record that is no good another name; only who has locked the cell may do so."""
        path = self._record(cell)
        if path.exists():
            names = (path.with_name(f"{path.name}.damaged{n or ''}") for n in itertools.count())
            path.rename(next(name for name in names if not name.exists()))

    def _write_failure(self, cell: Cell, reason: str, details: str = "") -> None:
        reason = " ".join(reason.split())[:300]
        _write(self._failure(cell), f"{reason}\n\n{details}".encode(errors="replace"))

    def _failed_at(self, cell: Cell) -> int | None:
        """Return when a cell last failed, by the clock of the file system; None where it never did."""
        try:
            return self._failure(cell).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _reason(self, cell: Cell) -> str:
        try:
            return self._failure(cell).read_text(errors="replace").partition("\n")[0]
        except FileNotFoundError:  # another process has tried again since
            return "no longer known"

    def _encoded(self) -> bytes:
        cells = [{"key": cell.key, "cost": int(cell.cost), "spec": _plain(cell.spec, "spec")} for cell in self.cells]
        content = {"plan": _plain(self.plan, "plan"), "versions": versions(), "cells": cells}
        return json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"

    def _changes(self, grows: Collection[str]) -> bool:
        """Tell whether the plan in the folder must be written; raise if it is of another experiment."""
        if not (self.folder / "plan.json").exists():
            return True
        there = Run.open(self.folder)
        _refuse_other_version(self.folder)
        differing = _differences(*({k: v for k, v in run.plan.items() if k not in grows} for run in (there, self)))
        keys = {cell.key for cell in self.cells}
        lost = [cell for cell in there.cells if cell.key not in keys]
        if not differing and lost:
            nearest = min((_differences(lost[0].spec, cell.spec) for cell in self.cells), key=len)
            differing = [f"{len(lost)} of its {len(there.cells)} cells are not in this one", *nearest]
        if differing:
            more = f", and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise InputError(
                f"Expected {self.folder} to hold this experiment, got another: {', '.join(differing[:3])}{more}; "
                "choose another folder (--out), or the same settings"
            )
        return (there.plan, there.cells) != (self.plan, self.cells)


class _Board:
    """What is left to do in one call of `work`, what has failed, and what others have."""

    def __init__(self, run: Run, workers: int, tell: Callable[[str], None], every: float) -> None:
        self.run = run
        self._tell, self._every, self._told = tell, every, _now()
        self._todo = deque(run.left())
        self.workers = min(workers, len(self._todo))
        self._elsewhere: dict[str, tuple[Cell, float]] = {}
        self._failed: list[Cell] = []
        self.failed_at = {cell.key: run._failed_at(cell) for cell in self._todo}
        self._greet()

    def _greet(self) -> None:
        for key, problem in self.run.damaged().items():
            self._tell(f"the record of {key} is damaged ({problem}): it is set aside, and the cell done again")
        n, left = len(self.run.cells), len(self._todo)
        if 0 < left < n:
            self._tell(f"going on: {n - left} of {n} cells are done")
        looks = (self.run._look(cell) for cell in self.run.cells)
        others = Counter(_words(known.versions) for known in looks if known and not known.problem)
        for words, count in others.items():
            if words != _words(versions()):
                self._tell(f"{count} of the records are of {words}; this is {_words(versions())}")

    @property
    def open(self) -> bool:
        """Whether a cell is still to be taken, now or later."""
        return bool(self._todo or self._elsewhere)

    def take(self) -> Cell | None:
        """Return a cell to try, None where there is none at present."""
        if self._todo:
            return self._todo.popleft()
        for key, (cell, tried) in self._elsewhere.items():
            if _now() - tried >= _POLL:
                del self._elsewhere[key]
                return cell
        return None

    def put_back(self, cell: Cell) -> None:
        """Have a cell tried again before all others."""
        self._todo.appendleft(cell)

    def note(self, cell: Cell, outcome: _Outcome) -> None:
        """Enter what came of a cell."""
        if outcome == "elsewhere":
            self._elsewhere[cell.key] = (cell, _now())
        elif outcome == "failed":
            self._failed.append(cell)
        self.progress()

    def progress(self) -> None:
        """Tell how far it is, if the last time is long enough ago."""
        if _now() - self._told >= self._every:
            self._told = _now()
            self._tell(progress(self.run, self.workers, elsewhere=len(self._elsewhere), failed=len(self._failed)))

    def close(self) -> None:
        """Say that all is done; raise if it is not."""
        n = len(self.run.cells)
        if self._failed:
            first, more = self._failed[0], f" and {len(self._failed) - 3} more" if len(self._failed) > 3 else ""
            raise FansError(
                f"Expected all {n} cells done, got {len(self._failed)} that failed: "
                f"{', '.join(cell.key for cell in self._failed[:3])}{more} (the first: {self.run._reason(first)}); "
                f"see {self.run.folder / 'failures'}, and the same command tries them again"
            )
        self._tell(f"all {n} cells are done")


def _alone(board: _Board, do: Callable[[Cell], Result]) -> None:
    """Do what is left in this process."""
    while board.open:
        if cell := board.take():
            board.note(cell, board.run.attempt(cell, do, board.failed_at[cell.key]))
        else:
            board.progress()
            _sleep(_POLL)


def _together(board: _Board, do: Work) -> None:
    """Do what is left in processes of their own, and replace those that die."""
    crew: list[_Worker] = []
    deaths: Counter[str] = Counter()
    threads, patience = _share(board.workers), 0.0
    try:
        while board.open or any(worker.cell for worker in crew):
            while board.open and len(crew) < board.workers:
                crew.append(_Worker())
                crew[-1].start(board.run.folder, do, threads)
            for worker in crew:
                worker.give(board)
            ready = wait([worker.connection for worker in crew], timeout=_POLL)
            for worker in [worker for worker in crew if worker.connection in ready]:
                if not worker.hear(board):
                    crew.remove(worker)
                    worker.bury(board, deaths)
            board.progress()
        patience = 5.0
    finally:
        for worker in crew:
            worker.end(patience)


class _Worker:
    """A process that does cells, seen from its parent."""

    def __init__(self) -> None:
        self.connection, self.theirs = _SPAWN.Pipe()
        self.process: SpawnProcess | None = None
        self.cell: Cell | None = None
        self.ready = False

    def start(self, folder: Path, do: Work, threads: int) -> None:
        """Start the process with so many threads; Ctrl-C is left to the parent, who ends it."""
        process = _SPAWN.Process(target=_serve, args=(self.theirs, folder, do))
        resource_tracker.ensure_running()  # it would let Ctrl-C through again
        before = os.environ.get("OMP_NUM_THREADS")
        os.environ["OMP_NUM_THREADS"] = str(threads)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
            self.process = process
        finally:
            self.theirs.close()
            del os.environ["OMP_NUM_THREADS"]
            if before is not None:
                os.environ["OMP_NUM_THREADS"] = before
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def give(self, board: _Board) -> None:
        """Hand it a cell, if it waits for one and there is one."""
        if self.ready and self.cell is None and (cell := board.take()):
            self.cell = cell
            try:
                self.connection.send((cell, board.failed_at[cell.key]))
            except OSError:  # it is dead, which is noticed when it is listened to
                return

    def hear(self, board: _Board) -> bool:
        """Take what it says; return whether it is alive."""
        try:
            said = self.connection.recv()
        except (EOFError, OSError):
            return False
        if isinstance(said, FansError):
            raise said
        if said == "ready":
            self.ready = True
        else:
            assert self.cell is not None
            cell, self.cell = self.cell, None
            board.note(cell, said)
        return True

    def bury(self, board: _Board, deaths: Counter[str]) -> None:
        """See to the cell of a worker that died."""
        self.end(5.0)
        how = _ending(self.process.exitcode if self.process else None)
        if not self.ready:
            raise FansError(
                f"Expected worker processes that start, got one that ended with {how}; its own words are above: "
                "a script that calls `work` needs `if __name__ == '__main__':`, and workers=1 needs no processes"
            )
        if self.cell is None:
            return
        deaths[self.cell.key] += 1
        if deaths[self.cell.key] < _CHANCES:
            board.put_back(self.cell)
            return
        board.note(self.cell, board.run.give_up(self.cell, f"{_CHANCES} workers at it ended with {how}"))

    def end(self, patience: float) -> None:
        """Let it end, and see that it does."""
        self.connection.close()
        if self.process:
            self.process.join(patience)
            self.process.kill()
            self.process.join()


def _serve(connection: Any, folder: Path, do: Work) -> None:
    """Do the cells that the parent sends, until it sends no more; end with it if it dies."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run, function = Run(folder, {}, ()), resolve(do)
    try:
        connection.send("ready")
        while True:
            cell, failed_at = connection.recv()
            try:
                said: object = run.attempt(cell, function, failed_at)
            except FansError as error:
                said = error
            connection.send(said)
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _ending(code: int | None) -> str:
    return f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name


def resolve(do: str | Callable[..., Any], *, by_name: bool = False) -> Callable[..., Any]:
    """Return the function that `do` is or names; with `by_name` it must be one that another process can find."""
    try:
        if not isinstance(do, str):
            if by_name:
                pickle.dumps(do)
            return do
        module, _, name = do.partition(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError, TypeError, pickle.PicklingError) as error:
        raise InputError(
            f"Expected `do` as 'module:function', or a function at the top of a module, got {do!r} ({error})"
        ) from None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _allowed() -> int:
    """Return how many threads OMP_NUM_THREADS, or else the machine, allows a process."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else _cores()


def _share(workers: int) -> int:
    """Return how many threads each of so many workers may use."""
    return max(1, min(_cores() // max(workers, 1), _allowed()))


def _threads() -> int:
    """Return how many threads this process uses."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch else _allowed()


def _refuse_other_version(folder: Path) -> None:
    """Raise if a run was begun by another version of this package, whose records may mean something else."""
    there = json.loads((folder / "plan.json").read_bytes()).get("versions", {}).get("fans")
    if there != versions()["fans"]:
        raise InputError(
            f"Expected a run of fans {versions()['fans']} in {folder}, got one of fans {there}; "
            "choose another folder (--out), or go on with that version"
        )


@cache
def versions() -> dict[str, str]:
    """Return the versions that a record depends on; nothing is imported for it."""
    found = {"fans": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "scikit-image"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def _words(known: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(known.items()))


class _Pace:
    """Seconds a model row, measured: by dataset and method, else by dataset, else overall."""

    def __init__(self, cells: Iterable[Cell], measured: Mapping[str, float]) -> None:
        self._sums: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for cell in cells:
            for kind in (cell.kind, cell.kind[:1], ()) if cell.key in measured else ():
                self._sums[kind][0] += measured[cell.key]
                self._sums[kind][1] += _weight(cell)

    def seconds(self, cell: Cell) -> float:
        """Return how long a cell will take; NaN where nothing at all was measured."""
        for kind in (cell.kind, cell.kind[:1], ()):
            if kind in self._sums:
                seconds, weight = self._sums[kind]
                return seconds / weight * _weight(cell)
        return math.nan

    def words(self, cells: Collection[Cell], workers: int) -> str:
        """Return how long these cells will take, and how sure that is."""
        each = [self.seconds(cell) for cell in cells]
        if not each:
            return "none"
        if math.isnan(each[0]):
            return "nothing measured yet"
        kinds = {cell.kind for cell in cells}
        guessed = sum(kind not in self._sums for kind in kinds)
        sure = f", a guess for {guessed} of {len(kinds)} kinds" if guessed else ""
        return f"about {_span(max(sum(each) / workers, *each))}{sure}"


def _weight(cell: Cell) -> int:
    return max(cell.cost, 1)


def _span(seconds: float) -> str:
    """Return a time in words, e.g. 45 s, 12 min, 5.2 h."""
    for size, unit, digits in ((1, "s", 0), (60, "min", 0), (3600, "h", 1)):
        if seconds < 100 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 86400:.1f} days"


def progress(run: Run, workers: int = 1, *, elsewhere: int = 0, failed: int = 0) -> str:
    """Return in a line how far a run is: cells, share of the cost, and the time left at the pace measured so far.

    Other processes that work on it are not counted on: with them it takes less.
    """
    measured = run.measured()
    left = [cell for cell in run.cells if cell.key not in measured]
    share = 100 - -(-100 * sum(map(_weight, left)) // sum(map(_weight, run.cells)))
    parts = [f"{len(measured)} of {len(run.cells)} cells", f"{share}% of the cost"]
    parts += [f"{elsewhere} in work elsewhere"] if elsewhere else []
    parts += [f"{failed} failed"] if failed else []
    return f"{', '.join(parts)}; left: {_Pace(run.cells, measured).words(left, workers)}"


def describe(what: Run | Iterable[Cell], workers: int = 1) -> str:
    """Return a plan as a table by dataset and method: cells, inputs, model evaluations, done and left, time left."""
    cells, done = (what.cells, what.measured()) if isinstance(what, Run) else (tuple(what), {})
    pace = _Pace(cells, done)
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.kind].append(cell)
    rows: list[tuple[str, ...]] = [("dataset", "method", "cells", "inputs", "evaluations", "done", "left", "time")]
    for kind, group in [*groups.items(), (("all", ""), list(cells))]:
        left = [cell for cell in group if cell.key not in done]
        inputs = {(cell.kind[0], i) for cell in group for i in cell.inputs}
        numbers = (len(group), len(inputs), sum(cell.cost for cell in group), len(group) - len(left), len(left))
        rows.append((*kind, *(f"{n:,}" for n in numbers), pace.words(left, workers)))
    return _table(rows)


def _table(rows: list[tuple[str, ...]]) -> str:
    """Return rows of text as aligned columns: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<<" + ">" * (len(widths) - 3) + "<"
    lines = ("  ".join(f"{t:{s}{w}}" for t, s, w in zip(row, sides, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _plain(value: Any, where: str) -> Any:
    """Return a value as strict JSON can hold it: arrays as lists, NaN and infinities as `{"$float": "nan"}`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, Mapping):
        bad = [key for key in value if not isinstance(key, str) or key.startswith("$")]
        if bad:
            raise InputError(f"Expected names without a leading $ in `{where}`, got {bad[0]!r}")
        return {key: _plain(v, f"{where}.{key}") for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, where) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), where)
    raise InputError(f"Expected numbers, texts, lists and mappings in `{where}`, got {type(value).__name__}")


def _restored(value: Any) -> Any:
    """Undo `_plain`, but for arrays."""
    if isinstance(value, list):
        return [_restored(v) for v in value]
    if isinstance(value, dict):
        return float(value["$float"]) if "$float" in value else {k: _restored(v) for k, v in value.items()}
    return value


def _json(plain: Any) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(plain: Any) -> str:
    """Return the checksum of a value as JSON, whatever the order of its entries."""
    return hashlib.sha256(_json(plain)).hexdigest()


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return in words the entries in which two mappings differ."""
    one, two = _flat(there), _flat(here)

    def short(text: str) -> str:
        return text if len(text) <= 60 else f"{text[:57]}..."

    return [
        f"`{name}` is {short(one.get(name, 'not'))} there and {short(two.get(name, 'not'))} here"
        for name in sorted(one.keys() | two.keys())
        if one.get(name) != two.get(name)
    ]


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the leaves of nested mappings as JSON, by their dotted names."""
    found: dict[str, str] = {}
    for name, value in mapping.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = _json(_plain(value, name)).decode()
    return found


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def _saving(folder: Path) -> Iterator[None]:
    """Tell in one sentence of a disk that is full, or cannot be written to."""
    try:
        yield
    except OSError as error:
        expected, got = ("a folder that can be written to and locked", str(error))
        if _is_full(error):
            expected, got = "room", f"a full disk ({error.strerror})"
        raise FansError(
            f"Expected {expected} in {folder}, got {got}; what is done is kept: "
            "put this right, and the same command goes on"
        ) from None


@contextmanager
def _locked(path: Path, *, patient: bool = False) -> Iterator[bool]:
    """Lock a file and yield whether that worked; the patient wait until it does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _lock(descriptor, patient)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patient: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and so that it outlives a loss of power; one process at a time."""
    temporary = path.with_name(path.name + ".partial")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
