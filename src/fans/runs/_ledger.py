"""The ledger of a run: a folder with a plan, and one record for each finished cell."""

import itertools
import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from fans.errors import InputError
from fans.files import sweep, sync
from fans.runs._disk import is_full, locked, saving, write
from fans.runs._pack import Mark, Pack, mark_of
from fans.runs._records import Cell, Record, Result, differences, plain, restored, versions

_now = time.monotonic

Outcome = Literal["done", "elsewhere", "failed"]


class _Known(NamedTuple):
    """What is remembered of a stored record once it was read: the record, or what is wrong with it."""

    mark: Mark | bytes
    record: Record | None
    problem: str = ""

    @classmethod
    def of(cls, mark: Mark | bytes, raw: bytes, cell: Cell) -> Self:
        """Return what these bytes say of a cell."""
        try:
            return cls(mark, Record.decode(raw, cell))
        except ValueError as error:
            return cls(mark, None, str(error))


@dataclass
class Ledger:
    """A folder with a plan and the records of its finished cells.

    Below the folder lie `plan.json`, `records/<key>.json`, `failures/<key>.txt` of cells that raised, and `locks/`,
    empty files that a process locks while it is at a cell: the system frees them when it dies, however it dies.
    `pack` puts the records into one file, `records.jsonl`, a line each. A cell is done when its record is in either
    place, whole and with the right checksums; nothing else is kept of what is done.
    Nothing in the folder is ever executed.

    Attributes:
        folder: where it lies.
        plan: the settings of the experiment.
        cells: all of them, done or not.
    """

    folder: Path
    plan: Mapping[str, Any]
    cells: tuple[Cell, ...]
    _known: dict[str, _Known] = field(default_factory=dict, init=False, repr=False, compare=False)
    _packed: Pack = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._packed = Pack(self.folder / "records.jsonl")

    @classmethod
    def create(
        cls,
        folder: str | Path,
        plan: Mapping[str, Any],
        cells: Iterable[Cell],
        *,
        grows: Collection[str] = (),
        beside: Callable[[list[Cell]], None] | None = None,
        dry: bool = False,
    ) -> Self:
        """Begin a run in `folder`, or go on with the one that is there.

        Args:
            folder: made where it is not there.
            plan: the settings of the experiment; what is not in the cells' specs and matters belongs in here.
            cells: the work; what is done of it stays done.
            grows: the settings that only say how much is asked for: they may differ from those of the run there.
            beside: is given the cells of the run there that are not among these, and raises if they cannot stand beside
                them; they stay in the plan, but are none of this run's. Without it such a run is another experiment.
            dry: check all this, and write nothing.

        Raises:
            InputError: the folder holds another experiment.
            FansError: it cannot be written to.
        """
        run = cls(Path(folder), restored(plain(plan, "plan")), tuple(cells))
        twice = [key for key, n in Counter(cell.key for cell in run.cells).items() if n > 1]
        if twice or not run.cells:
            raise InputError(
                f"Expected at least one cell, and each once, got {twice[0] + ' twice' if twice else 'none'}"
            )
        if dry:
            run._joined(grows, beside)
            return run
        with saving(run.folder):
            run._make_folders()
            with locked(run.folder / "plan.lock", patient=True):
                if joined := run._joined(grows, beside):
                    write(run.folder / "plan.json", joined._encoded())
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Return the run that is in `folder`."""
        path = Path(folder) / "plan.json"
        try:
            found = restored(json.loads(path.read_bytes()))
            run = cls(Path(folder), found["plan"], tuple(Cell(c["spec"], c["cost"]) for c in found["cells"]))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"Expected a run in {folder}, got no plan.json there; check the folder") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Expected the plan of a run, got {path}, which is not one ({type(error).__name__}); "
                "delete it and give the same command: the records stay good"
            ) from None
        return run

    def measured(self) -> dict[str, float]:
        """Return the keys of the cells done, and the seconds that each took."""
        return {record.facts["key"]: record.circumstances["seconds"] for record in self.records()}

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
        seen = {cell.key: self.look(cell) for cell in self.cells}
        return {key: known.problem for key, known in seen.items() if known and not known.record}

    def failures(self) -> dict[str, str]:
        """Return the keys of the cells that failed when they were last tried, and the reason in a line."""
        return {c.key: self.reason(c) for c in self.left() if self._failure(c).is_file()}

    def records(self) -> list[Record]:
        """Return the records of all cells done, in the order of the plan; what was read before is read only if new."""
        seen = (self.look(cell) for cell in self.cells)
        return [known.record for known in seen if known and known.record]

    def attempt(self, cell: Cell, do: Callable[[Cell], Result], failed_at: int | None = None) -> Outcome:
        """Do one cell and write its record, unless another process has it, or had it.

        Args:
            cell: of this run.
            do: what does it.
            failed_at: when it failed before (see `failed_at`); failed later than that, it is not tried again.
        """
        with saving(self.folder), locked(self.folder / "locks" / f"{cell.key}.lock") as ours:
            if not ours:
                return "elsewhere"
            if (known := self.look(cell)) and known.record:
                return "done"
            if self.failed_at(cell) not in (None, failed_at):
                return "failed"
            self._set_aside(cell)
            began = _now()
            try:
                content = Record.of(cell, do(cell), _now() - began).encode()
            except KeyboardInterrupt:
                raise
            except (Exception, SystemExit) as error:
                if is_full(error):
                    raise
                self._write_failure(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
                return "failed"
            write(self._record(cell), content)
            sweep(self._failure(cell))
            self._failure(cell).unlink(missing_ok=True)
            return "done"

    def pack(self) -> None:
        """Put the records of all cells of the plan into one file, and delete their own files.

        It may be killed anywhere, and others may be at work: a record's own file goes when the packed one is on the
        disk, and is the one that counts until then. What was packed before stays, be it in the plan or not. Lines that
        are no good are set aside.
        """
        with saving(self.folder), locked(self.folder / "plan.lock", patient=True):
            run = type(self).open(self.folder)
            loose = {cell.key: path for cell in run.cells if (path := run._record(cell)).exists()}
            records = {record.facts["key"]: record.encode() for record in run.records()}
            if not records.keys() & loose.keys():
                return
            others, damaged = run._left_out(records)
            if damaged:
                write(_free(run._packed.path), b"".join(damaged))
            write(run._packed.path, b"".join([*records.values(), *others]))
            for key in records.keys() & loose.keys():
                loose[key].unlink()

    def forget(self, cells: Iterable[Cell]) -> None:
        """Have cells count as not done, where what they left beside their records is lost."""
        keys = {cell.key: cell for cell in cells}
        with saving(self.folder), locked(self.folder / "plan.lock", patient=True):
            lines = self._packed.lines()
            if lines.keys() & keys.keys():
                kept = [line for key, line in lines.items() if key not in keys]
                write(self._packed.path, b"".join([*kept, *self._packed.nameless()]))
            for cell in keys.values():
                self._record(cell).unlink(missing_ok=True)

    def _left_out(self, records: Collection[str]) -> tuple[list[bytes], list[bytes]]:
        """Return the packed lines that are not of these records: of cells in no plan, and what is no good."""
        others, damaged = [], [*self._packed.nameless()]
        for key, line in sorted(self._packed.lines().items()):
            try:
                whole = key == Record.decode(line).facts["key"]
            except ValueError:
                whole = False
            if not whole:
                damaged.append(line)
            elif key not in records:
                others.append(line)
        return others, damaged

    def publish(self, name: str, content: bytes) -> None:
        """Write a file beside the records, whole or not at all, one process at a time."""
        with saving(self.folder), locked(self.folder / "plan.lock", patient=True):
            write(self.folder / name, content)

    def _make_folders(self) -> None:
        for name in ("records", "locks", "failures"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        sync(self.folder)
        sync(self.folder.parent)

    def give_up(self, cell: Cell, reason: str) -> Outcome:
        """Note that a cell failed, unless another process has it, or did it."""
        with saving(self.folder), locked(self.folder / "locks" / f"{cell.key}.lock") as ours:
            if not ours:
                return "elsewhere"
            if (known := self.look(cell)) and known.record:
                return "done"
            self._write_failure(cell, reason)
            return "failed"

    def _record(self, cell: Cell) -> Path:
        return self.folder / "records" / f"{cell.key}.json"

    def _failure(self, cell: Cell) -> Path:
        return self.folder / "failures" / f"{cell.key}.txt"

    def look(self, cell: Cell) -> _Known | None:
        """Return what is known of a record, None where there is none; what has not changed is not read again.

        A cell's own file counts, or else its packed line: in this order, for that is how `pack` moves it.
        """
        path, known = self._record(cell), self._known.get(cell.key)
        mark = mark_of(path) or self._packed.lines().get(cell.key)
        if mark is None or (known and known.mark == mark):
            return known if mark else None
        try:
            known = _Known.of(mark, mark if isinstance(mark, bytes) else path.read_bytes(), cell)
        except FileNotFoundError:  # packed at this moment
            return self.look(cell)
        if not known.record and (line := self._packed.lines().get(cell.key)):
            packed = _Known.of(mark, line, cell)
            known = packed if packed.record else known
        self._known[cell.key] = known
        return known

    def _set_aside(self, cell: Cell) -> None:
        """Give a record that is no good another name; only who has locked the cell may do so."""
        path = self._record(cell)
        if path.exists():
            path.rename(_free(path))

    def _write_failure(self, cell: Cell, reason: str, details: str = "") -> None:
        reason = " ".join(reason.split())[:300]
        write(self._failure(cell), f"{reason}\n\n{details}".encode(errors="replace"))

    def failed_at(self, cell: Cell) -> int | None:
        """Return when a cell last failed, by the clock of the file system; None where it never did."""
        try:
            return self._failure(cell).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def reason(self, cell: Cell) -> str:
        try:
            return self._failure(cell).read_text(errors="replace").partition("\n")[0]
        except FileNotFoundError:  # another process has tried again since
            return "no longer known"

    def _encoded(self) -> bytes:
        cells = [{"key": cell.key, "cost": int(cell.cost), "spec": plain(cell.spec, "spec")} for cell in self.cells]
        lines = ",\n".join(json.dumps(cell, allow_nan=False) for cell in cells)
        head = json.dumps({"plan": plain(self.plan, "plan"), "versions": versions()}, indent=1, allow_nan=False)
        return f'{head[:-2]},\n "cells": [\n{lines}\n ]\n}}\n'.encode()

    def _joined(self, grows: Collection[str], beside: Callable[[list[Cell]], None] | None) -> Self | None:
        """Return what the plan in the folder must be, None where it is; raise if it is of another experiment."""
        if not (self.folder / "plan.json").exists():
            return self
        there = type(self).open(self.folder)
        _refuse_other_version(self.folder)
        differing = differences(*({k: v for k, v in run.plan.items() if k not in grows} for run in (there, self)))
        own = {cell.key: cell for cell in self.cells}
        others = [cell for cell in there.cells if cell.key not in own]
        if beside and not differing:
            beside(others)
        elif others and not differing:
            nearest = min((differences(others[0].spec, cell.spec) for cell in self.cells), key=len)
            differing = [f"{len(others)} of its {len(there.cells)} cells are not in this one", *nearest]
        if differing:
            more = f", and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise InputError(
                f"Expected {self.folder} to hold this experiment, got another: {', '.join(differing[:3])}{more}; "
                "choose another folder (--out), or the same settings"
            )
        joined = {cell.key: cell for cell in there.cells} | own
        made = replace(self, cells=tuple(joined.values()))
        return None if (there.plan, there.cells) == (made.plan, made.cells) else made


def _free(path: Path) -> Path:
    """Return a name, not taken yet, for what is set aside."""
    names = (path.with_name(f"{path.name}.damaged{n or ''}") for n in itertools.count())
    return next(name for name in names if not name.exists())


def _refuse_other_version(folder: Path) -> None:
    """Raise if a run was begun by another version of this package, whose records may mean something else."""
    there = json.loads((folder / "plan.json").read_bytes()).get("versions", {}).get("fans")
    if there != versions()["fans"]:
        raise InputError(
            f"Expected a run of fans {versions()['fans']} in {folder}, got one of fans {there}; "
            "choose another folder (--out), or go on with that version"
        )
