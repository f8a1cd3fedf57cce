"""A small experiment to kill: `python tests/runs/helper.py FOLDER` does it, as often as it takes."""

import argparse
import errno
import os
import random
import signal
import sys
import time
import types
from pathlib import Path

if "fans" not in sys.modules:  # alone: the runner needs nothing of the rest, and torch takes seconds to load
    package = types.ModuleType("fans")
    package.__path__ = [str(Path(__file__).parents[2] / "src" / "fans")]
    sys.modules["fans"] = package

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # inherited from a shell that put the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

from fans.errors import FansError
from fans.runs import Cell, Result, Run

PLAN = {"experiment": "small", "seed": 7}


def cells(n: int) -> list[Cell]:
    """Return `n` cells of five inputs each; every third is of another method."""
    return [
        Cell({"dataset": "dice", "method": "slow" if i % 3 else "fast", "shard": [5 * i, 5 * i + 5], "seed": 7}, 10)
        for i in range(n)
    ]


def do(cell: Cell) -> Result:
    """Note the cell in the file BEGUN, take MS milliseconds, and return numbers that depend on its spec alone."""
    _note("BEGUN", f"{cell.key} {os.getpid()}\n")
    what, _, where = os.environ.get("TROUBLE", "").partition("@")
    if where in (str(cell.inputs.start), "every"):
        TROUBLES[what]()
    time.sleep(float(os.environ.get("MS", "0")) / 1000)
    drawn = random.Random(f"{cell.seed} {cell.inputs.start}")  # noqa: S311
    scores = [drawn.gauss(0, 1) for _ in cell.inputs]
    values = {"scores": scores, "none": float("nan"), "most": float("inf")}
    return Result(values, evaluations=10, timing={"pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")})


def _note(name: str, line: str) -> None:
    """Append a line, in one piece, to the file that an environment variable names."""
    if name in os.environ:
        descriptor = os.open(os.environ[name], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def _wait() -> None:
    """Wait until the file GO is there, 100 seconds at most."""
    for _ in range(10_000):
        if Path(os.environ["GO"]).exists():
            return
        time.sleep(0.01)


def _meet() -> None:
    """Wait until so many processes as MEET says are at work, 100 seconds at most."""
    for _ in range(10_000):
        lines = Path(os.environ["BEGUN"]).read_text().splitlines()
        if len({line.split()[1] for line in lines}) >= int(os.environ["MEET"]):
            return
        time.sleep(0.01)


def _raise() -> None:
    raise ValueError("a bad\nday")


def _wait_and_raise() -> None:
    _wait()
    _raise()


def _full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_once() -> None:
    if not Path(os.environ["GO"]).exists():
        Path(os.environ["GO"]).touch()
        _kill()


TROUBLES = {
    "wait": _wait,
    "meet": _meet,
    "raise": _raise,
    "wait_and_raise": _wait_and_raise,
    "full": _full,
    "exit": lambda: sys.exit(3),
    "kill": _kill,
    "kill_once": _kill_once,
}


def die_at_every_step(folder: Path, n: int) -> None:
    """Do the experiment in folders 1, 2, ..., each in a process that is killed before so many steps of writing."""
    for step in range(1, 1000):
        child = os.fork()
        if not child:
            _die_at(step)
            Run.create(folder / str(step), PLAN, cells(n)).work(do)
            os._exit(0)
        if not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            return


def _die_at(step: int) -> None:
    """Have this process killed before it takes so many steps that change what is on the disk."""
    left = [step]

    def counted(real):
        def step(*args, **kwargs):
            left[0] -= 1
            if not left[0]:
                _kill()
            return real(*args, **kwargs)

        return step

    for owner, name in (
        (os, "fsync"),
        (os, "open"),
        (os, "close"),
        (Path, "replace"),
        (Path, "unlink"),
        (Path, "mkdir"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))


def main() -> int:
    """Do the experiment; return what a command would."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--every", type=float, default=1e9)
    parser.add_argument("--die", action="store_true")
    chosen = parser.parse_args()
    if chosen.die:
        die_at_every_step(chosen.folder, chosen.n)
        return 0
    try:
        run = Run.create(chosen.folder, PLAN, cells(chosen.n))
        run.work(do, workers=chosen.workers, tell=lambda line: print(line, flush=True), every=chosen.every)  # noqa: T201
    except KeyboardInterrupt as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 130
    except FansError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
