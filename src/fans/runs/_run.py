"""Doing what is left of a run, here or in processes of their own that may die."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from fans.errors import FansError, InputError, Interrupted, check_whole
from fans.runs._disk import saving
from fans.runs._ledger import Ledger, Outcome
from fans.runs._pace import progress
from fans.runs._records import Cell, Work, allowed, cores, versions

_POLL = 0.2
"""Seconds between two looks at cells that another process has."""

_CHANCES = 2
"""So many workers may die at a cell before it counts as failed."""

_SPAWN = multiprocessing.get_context("spawn")
"""Workers are fresh processes: one that is forked from a process with threads, such as torch's, may hang."""

_now, _sleep = time.monotonic, time.sleep


@dataclass
class Run(Ledger):
    """A ledger whose cells can be done, in this process or in several at once."""

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
        have are waited for, and taken over if those die. One that raises is noted, and the others go on. When all are
        done their records are packed into one file.

        Args:
            do: what does a cell; for several workers a function at the top of a module, or a method of what can be
                pickled.
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
            if workers > 1:
                _check_picklable(do)
            with saving(self.folder):
                self._make_folders()
            board = _Board(self, workers, tell, every)
            if workers == 1:
                _alone(board, do)
            else:
                _together(board, do)
        except KeyboardInterrupt:
            raise Interrupted(
                f"Interrupted with {len(self.done())} of {len(self.cells)} cells done; "
                "the same command goes on with the others"
            ) from None
        board.close()
        self.pack()


class _Board:
    """What is left to do in one call of `work`, what has failed, and what others have."""

    def __init__(self, run: Ledger, workers: int, tell: Callable[[str], None], every: float) -> None:
        self.run = run
        self._tell, self._every, self._told = tell, every, _now()
        self._todo = deque(run.left())
        self.workers = min(workers, len(self._todo))
        self._elsewhere: dict[str, tuple[Cell, float]] = {}
        self._failed: list[Cell] = []
        self.failed_at = {cell.key: run.failed_at(cell) for cell in self._todo}
        self._greet()

    def _greet(self) -> None:
        for key, problem in self.run.damaged().items():
            self._tell(f"the record of {key} is damaged ({problem}): it is set aside, and the cell done again")
        n, left = len(self.run.cells), len(self._todo)
        if 0 < left < n:
            self._tell(f"going on: {n - left} of {n} cells are done")
        others = Counter(_words(record.circumstances["versions"]) for record in self.run.records())
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

    def note(self, cell: Cell, outcome: Outcome) -> None:
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
                f"{', '.join(cell.key for cell in self._failed[:3])}{more} (the first: {self.run.reason(first)}); "
                f"see {self.run.folder / 'failures'}, and the same command tries them again"
            )
        self._tell(f"all {n} cells are done")


def _alone(board: _Board, do: Work) -> None:
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
    run = Ledger(folder, {}, ())
    try:
        connection.send("ready")
        while True:
            cell, failed_at = connection.recv()
            try:
                said: object = run.attempt(cell, do, failed_at)
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


def _check_picklable(do: Work) -> None:
    try:
        pickle.dumps(do)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise InputError(
            f"Expected `do` as what other processes can import, a function at the top of a module, got {do!r} ({error})"
        ) from None


def _share(workers: int) -> int:
    """Return how many threads each of so many workers may use."""
    return max(1, min(cores() // max(workers, 1), allowed()))


def _words(known: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(known.items()))
