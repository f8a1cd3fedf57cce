"""A run ends with the same records however often, wherever and however it was stopped, and no cell is done twice."""

import errno
import hashlib
import importlib.metadata
import itertools
import json
import math
import os
import platform
import random
import re
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fans import runs
from fans.errors import FansError, InputError, Interrupted
from fans.runs import Cell, Record, Result, Run, _disk, _ledger, _pace, _records, _run, describe, progress
from fans.version import __version__
from tests.runs.helper import PLAN, cells, do

HELPER = Path(__file__).with_name("helper.py")
KEYS = [cell.key for cell in cells(12)]
PATIENCE = 150
"""Seconds until something counts as hanging: many processes at once start slowly on a busy machine."""


class Begun:
    """The cells that were begun, by any process, in order."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []

    @property
    def keys(self):
        return [key for key, _ in self.lines()]

    @property
    def pids(self):
        return {int(pid) for _, pid in self.lines()}

    def wait(self, n, key=None):
        """Wait until so many cells were begun, or this one was."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if len(self.keys) >= n and (key is None or key in self.keys):
                return
            time.sleep(0.005)
        raise AssertionError(f"{n} cells or {key} were not begun in time: {self.keys}")


def everywhere(monkeypatch, name, value):
    """Put something in the place of a name in every module of the runner that has it."""
    for module in (_ledger, _records, _run):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Have all processes note the cells that they begin."""
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun.txt"))
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Begun(tmp_path / "begun.txt")


@pytest.fixture
def launch(begun):  # noqa: ARG001 - for its environment
    """Start the helper; whatever is left of it at the end is killed."""
    started = []

    def launch(folder, *options, **environment):
        command = [sys.executable, "-W", "error", str(HELPER), str(folder), *map(str, options)]
        process = subprocess.Popen(  # noqa: S603
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()


def finish(process):
    """Wait for a process and all that it started; return its exit code and what it said."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def facts(folder):
    """What the records say, as stored, but their circumstances; not a byte of it may differ."""
    packed = folder / "records.jsonl"
    lines = packed.read_bytes().splitlines() if packed.exists() else []
    stored = [*lines, *(path.read_bytes() for path in sorted((folder / "records").glob("*.json")))]
    return {found["key"]: found for found in (json.loads(raw)["facts"] for raw in stored)}


def unpack(folder):
    """Put packed records back into files of their own, as they are before a run is whole."""
    for line in (folder / "records.jsonl").read_bytes().splitlines(keepends=True):
        (folder / "records" / f"{json.loads(line)['facts']['key']}.json").write_bytes(line)
    (folder / "records.jsonl").unlink()


def leftovers(folder):
    return [path.name for path in folder.rglob("*") if ".partial" in path.name or ".damaged" in path.name]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The records of the experiment, never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    Run.create(folder, PLAN, cells(12)).work(do)
    assert sorted(facts(folder)) == sorted(KEYS)
    return facts(folder)


@pytest.mark.parametrize(("workers", "kills"), [(1, 5), (2, 3)])
def test_killed_at_random_it_ends_as_if_never(tmp_path, launch, begun, workers, kills):
    Run.create(tmp_path / "whole", PLAN, cells(24)).work(do)
    begun.path.unlink()
    drawn, done_before = random.Random(workers), []  # noqa: S311
    for _ in range(kills):
        process = launch(tmp_path / "run", "--n", 24, "--workers", workers, MS="15")
        begun.wait(len(begun.keys) + drawn.randint(1, 3))
        time.sleep(drawn.uniform(0, 0.04))
        process.kill()
        finish(process)  # ends only when every process that shares its output is gone: no worker lives on
        done_before.append((len(begun.keys), {cell.key for cell in Run.open(tmp_path / "run").done()}))
    assert 0 < len(done_before[-1][1]) < 24, "killed in the middle"
    assert finish(launch(tmp_path / "run", "--n", 24, "--workers", workers))[0] == 0
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")
    for n, done in done_before:
        assert not done & set(begun.keys[n:]), "done, and begun again"
    assert len(begun.keys) <= 24 + kills * workers, "a kill costs no more than the cells in work"
    assert leftovers(tmp_path) == []


def test_killed_before_any_step_of_writing(tmp_path, launch, begun, whole):
    assert finish(launch(tmp_path / "runs", "--n", 2, "--die")) == (0, "", "")
    folders = sorted((tmp_path / "runs").iterdir(), key=lambda folder: int(folder.name))
    assert len(folders) > 30
    n_done = []
    for folder in folders:
        run = Run.create(folder, PLAN, cells(2))
        n_done.append(len(run.done()))
        left = [cell.key for cell in run.left()]
        begun.path.unlink(missing_ok=True)
        run.work(do)
        assert begun.keys == left
        assert facts(folder) == {key: whole[key] for key in KEYS[:2]}
        assert len((folder / "records.jsonl").read_bytes().splitlines()) == 2
        assert leftovers(folder) == []
        assert list((folder / "records").iterdir()) == []
    assert n_done == sorted(n_done)
    assert set(n_done) == {0, 1, 2}


def test_no_worker_outlives_its_parent(tmp_path, launch, begun):
    process = launch(tmp_path / "run", "--workers", 2, TROUBLE="wait@0")
    begun.wait(12)
    deadline = time.monotonic() + PATIENCE
    while len(list((tmp_path / "run" / "records").glob("*.json"))) < 11 and time.monotonic() < deadline:
        time.sleep(0.02)  # the last one that was begun is still to be written
    process.kill()
    process.communicate(timeout=PATIENCE)  # the worker that waits shares this output
    with _disk.locked(tmp_path / "run" / "locks" / f"{KEYS[0]}.lock") as ours:
        assert ours
    assert [cell.key for cell in Run.open(tmp_path / "run").left()] == KEYS[:1]


@pytest.mark.parametrize(("workers", "met"), [(1, "2"), (2, "3")])
def test_two_processes_do_every_cell_once(tmp_path, launch, begun, whole, workers, met):
    both = [launch(tmp_path / "run", "--workers", workers, TROUBLE="meet@every", MEET=met, MS="10") for _ in range(2)]
    assert [finish(process)[0] for process in both] == [0, 0]
    assert sorted(begun.keys) == sorted(KEYS)
    assert len(begun.pids) >= int(met)
    assert facts(tmp_path / "run") == whole


def test_a_cell_elsewhere_is_waited_for_and_taken_over(tmp_path, launch, begun, whole):
    first = launch(tmp_path / "run", TROUBLE="wait@0")
    begun.wait(1)
    second = launch(tmp_path / "run", "--every", 0)
    lines = iter(second.stdout.readline, "")
    waiting = "11 of 12 cells, 91% of the evaluations, 1 in work elsewhere; left: about 0 s\n"
    assert waiting in lines
    assert begun.keys == KEYS
    first.kill()
    code, out, err = finish(second)
    assert (code, err) == (0, "")
    assert out.endswith("all 12 cells are done\n")
    assert begun.keys == [*KEYS, KEYS[0]]
    assert facts(tmp_path / "run") == whole


def test_a_cell_that_fails_elsewhere_is_not_tried_again(tmp_path, launch, begun):
    first = launch(tmp_path / "run", TROUBLE="wait_and_raise@0")
    begun.wait(1)
    second = launch(tmp_path / "run")
    begun.wait(12)
    (tmp_path / "go").touch()
    for process in (first, second):
        code, _, err = finish(process)
        assert code == 1
        assert f"got 1 that failed: {KEYS[0]} (the first: ValueError: a bad day)" in err
    assert begun.keys == KEYS


def test_workers_give_the_same_records(tmp_path, begun, whole):
    """In processes that load torch: each may use its share of the cores."""
    Run.create(tmp_path / "run", PLAN, cells(12)).work(do, workers=2)
    assert facts(tmp_path / "run") == whole
    assert os.getpid() not in begun.pids
    found = [record.circumstances for record in Run.open(tmp_path / "run").records()]
    assert {(one["threads"], one["timing"]["threads"]) for one in found} == {(1, "1")}
    assert {one["timing"]["pid"] for one in found} == begun.pids


def test_threads(monkeypatch):
    everywhere(monkeypatch, "cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [_run._share(n) for n in (1, 2, 3, 4, 16)] == [3, 3, 2, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert [_run._share(n) for n in (1, 2, 3)] == [8, 4, 2]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert _run._share(2) == 4
    assert _records.threads() == torch.get_num_threads()


@pytest.mark.parametrize(("trouble", "workers"), [("raise", 1), ("raise", 2), ("exit", 1)])
def test_a_cell_that_raises(tmp_path, launch, begun, whole, trouble, workers):
    folder = tmp_path / "run"
    code, _, err = finish(launch(folder, "--workers", workers, TROUBLE=f"{trouble}@10"))
    reason = {"raise": "ValueError: a bad day", "exit": "SystemExit: 3"}[trouble]
    assert (code, err) == (
        1,
        f"Expected all 12 cells done, got 1 that failed: {KEYS[2]} (the first: {reason}); "
        f"see {folder / 'failures'}, and the same command tries them again\n",
    )
    assert Counter(begun.keys) == Counter(KEYS), "the others go on"
    text = (folder / "failures" / f"{KEYS[2]}.txt").read_text()
    assert text.startswith(f"{reason}\n\nTraceback (most recent call last):\n")
    assert "helper.py" in text
    assert Run.open(folder).failures() == {KEYS[2]: reason}
    assert finish(launch(folder))[:2] == (0, "going on: 11 of 12 cells are done\nall 12 cells are done\n")
    assert begun.keys[12:] == [KEYS[2]]
    assert facts(folder) == whole
    assert list((folder / "failures").iterdir()) == []


def test_many_failures_are_counted(tmp_path):
    def bad(cell):
        raise KeyError(cell.inputs.start)

    with pytest.raises(
        FansError, match=rf"got 5 that failed: {', '.join(KEYS[:3])} and 2 more \(the first: KeyError: 0"
    ):
        Run.create(tmp_path, PLAN, cells(5)).work(bad)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"a": 1}, "Expected the work to return a `Result`, got dict"),
        (Result({"a": {1, 2}}), "Expected numbers, texts, lists and mappings in `values.a`, got set"),
        (Result({"a": {2: 1}}), "Expected names without a leading $ in `values.a`, got 2"),
        (Result({"$float": 1}), "Expected names without a leading $ in `values`, got '$float'"),
        (Result({}, evaluations=-1), "Expected `evaluations` as a whole number of at least 0, got -1"),
    ],
)
def test_a_result_that_cannot_be_stored_is_a_failure(tmp_path, result, words):
    run = Run.create(tmp_path, PLAN, cells(1))
    with pytest.raises(FansError, match=r"got 1 that failed"):
        run.work(lambda _: result)
    assert run.failures() == {KEYS[0]: f"InputError: {words}"}


def test_a_failure_that_another_process_has_put_right_since(tmp_path):
    def bad(cell):
        (tmp_path / "failures" / f"{KEYS[0]}.txt").unlink(missing_ok=True)
        raise ValueError(cell.inputs.start)

    with pytest.raises(FansError, match=rf"got 2 that failed: {KEYS[0]}, {KEYS[1]} \(the first: no longer known\)"):
        Run.create(tmp_path, PLAN, cells(2)).work(bad)


def test_a_worker_killed_at_a_cell_is_replaced(tmp_path, launch, begun, whole):
    assert finish(launch(tmp_path / "run", "--workers", 2, TROUBLE="kill_once@10"))[0] == 0
    assert Counter(begun.keys) == Counter([*KEYS, KEYS[2]])
    assert facts(tmp_path / "run") == whole


def test_a_cell_that_kills_every_worker_fails(tmp_path, launch, begun, whole):
    code, _, err = finish(launch(tmp_path / "run", "--workers", 2, TROUBLE="kill@10"))
    assert code == 1
    assert f"got 1 that failed: {KEYS[2]} (the first: 2 workers at it ended with SIGKILL);" in err
    assert Counter(begun.keys) == Counter([*KEYS, KEYS[2]])
    assert finish(launch(tmp_path / "run", "--workers", 2))[0] == 0
    assert facts(tmp_path / "run") == whole


def test_workers_that_do_not_start(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        HELPER.read_text().replace("__file__", repr(str(HELPER))).partition("def main")[0]
        + f"Run.create({str(tmp_path / 'run')!r}, PLAN, cells(3)).work(do, workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    assert (
        "Expected worker processes that start, got one that ended with exit code 1; its own words are above"
        in (done.stderr.splitlines()[-1])
    )


@pytest.mark.parametrize(("workers", "n"), [(1, 4), (2, 11)])
def test_ctrl_c_says_how_far_it_is(tmp_path, launch, begun, whole, workers, n):
    process = launch(tmp_path / "run", "--workers", workers, TROUBLE="wait@20")  # the fifth cell takes forever
    begun.wait(n + 1)
    while len(facts(tmp_path / "run")) < n:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes at once
    assert finish(process)[::2] == (
        130,
        f"Interrupted with {n} of 12 cells done; the same command goes on with the others\n",
    )
    assert leftovers(tmp_path) == []
    assert finish(launch(tmp_path / "run"))[0] == 0
    assert facts(tmp_path / "run") == whole


def test_ctrl_c_in_the_library_is_still_an_interrupt(tmp_path):
    def stopped(cell):
        raise Interrupted("by the work itself") if cell.inputs.start else KeyboardInterrupt

    run = Run.create(tmp_path, PLAN, cells(3))
    with pytest.raises(Interrupted, match=r"^Interrupted with 0 of 3 cells done; the same command goes on"):
        run.work(stopped)
    assert run.failures() == {}
    run.attempt(run.cells[0], do)
    with pytest.raises(Interrupted, match=r"^Interrupted with 1 of 3 cells done"):
        run.work(stopped)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_met_by_the_work(tmp_path, launch, whole, workers):
    folder = tmp_path / "run"
    code, _, err = finish(launch(folder, "--workers", workers, TROUBLE="full@50"))
    assert (code, err) == (
        1,
        f"Expected room in {folder}, got a full disk (No space left on device); "
        "what is done is kept: put this right, and the same command goes on\n",
    )
    assert len(facts(folder)) >= 9
    assert finish(launch(folder))[0] == 0
    assert facts(folder) == whole


def break_fifth(monkeypatch, owner, name, error):
    """Have the fifth call of a function fail."""
    real, n = getattr(owner, name), itertools.count(1)

    def breaking(*args):
        if next(n) == 5:
            raise error
        return real(*args)

    monkeypatch.setattr(owner, name, breaking)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"Expected room in .*, got a full disk \(No space left on"),
        (OSError(errno.EDQUOT, "Quota exceeded"), r"Expected room in .*, got a full disk \(Quota exceeded\); what is"),
        (
            OSError(errno.EROFS, "Read-only"),
            r"Expected a folder that can be written to and locked in .*, got .*Read-only",
        ),
    ],
)
@pytest.mark.parametrize("where", [(_ledger, "write"), (Path, "replace")])
def test_a_write_that_fails_loses_nothing(tmp_path, begun, monkeypatch, whole, error, words, where):
    run = Run.create(tmp_path / "run", PLAN, cells(12))
    with monkeypatch.context() as patched:
        break_fifth(patched, where[0], where[1], error)
        with pytest.raises(FansError, match=words):
            run.work(do)
    assert [cell.key for cell in run.done()] == KEYS[:4]
    assert leftovers(tmp_path) == []
    Run.open(tmp_path / "run").work(do)
    assert begun.keys == [*KEYS[:5], *KEYS[4:]]
    assert facts(tmp_path / "run") == whole


def test_a_record_reaches_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps: list[Any] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor):
        found = os.fstat(descriptor)
        steps.append(found.st_size if stat.S_ISREG(found.st_mode) else found.st_ino)
        fsync(descriptor)

    def replaced(old, new):
        steps.append((old.name, new.name))
        return replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    _disk.write(tmp_path / "a.json", b"12345")
    size, (temporary, name), folder = steps
    assert (size, name, folder) == (5, "a.json", tmp_path.stat().st_ino)
    assert re.fullmatch(r"\.a\.json\.[0-9a-f]{16}\.partial", temporary)


def spoil(text, change):
    """Return a record with one thing changed, and with the checksums made right where `change` is not about them."""
    parts = json.loads(text)
    change(parts)
    return json.dumps(parts)


def another_value(parts):
    parts["facts"]["values"]["scores"][0] += 1e-15


def other_seconds(parts):
    parts["circumstances"]["seconds"] += 1


def no_seconds(parts):
    del parts["circumstances"]["seconds"]


def another_spec(parts):
    parts["facts"]["spec"]["seed"] = 8
    parts["sha256"]["facts"] = _records.digest(parts["facts"])


DAMAGE = {
    "cut": (lambda text: text[:-40], "not a whole record"),
    "empty": (lambda _: "", "not a whole record"),
    "zeros": (lambda text: "\0" * len(text), "not a whole record"),
    "a list": (lambda _: "[1]", "not a whole record"),
    "a value": (lambda text: spoil(text, another_value), "a wrong checksum"),
    "the seconds": (lambda text: spoil(text, other_seconds), "a wrong checksum"),
    "no seconds": (lambda text: spoil(text, no_seconds), "a wrong checksum"),
    "another spec": (lambda text: spoil(text, another_spec), "the record of another cell"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_set_aside_and_made_again(tmp_path, begun, whole, damage):
    change, problem = DAMAGE[damage]
    Run.create(tmp_path / "run", PLAN, cells(12)).work(do)
    unpack(tmp_path / "run")
    path = tmp_path / "run" / "records" / f"{KEYS[3]}.json"
    path.write_text(change(path.read_text()))
    spoilt = path.read_bytes()
    run = Run.open(tmp_path / "run")
    assert run.damaged() == {KEYS[3]: problem}
    assert [cell.key for cell in run.left()] == [KEYS[3]]
    assert len(run.records()) == 11
    assert path.read_bytes() == spoilt, "looking changes nothing"
    told: list[str] = []
    run.work(do, tell=told.append)
    assert told == [
        f"the record of {KEYS[3]} is damaged ({problem}): it is set aside, and the cell done again",
        "going on: 11 of 12 cells are done",
        "all 12 cells are done",
    ]
    assert path.with_name(f"{KEYS[3]}.json.damaged").read_bytes() == spoilt
    assert begun.keys == [*KEYS, KEYS[3]]
    assert facts(tmp_path / "run") == whole
    assert run.damaged() == {}


def test_damage_seen_in_time_and_kept_every_time(tmp_path):
    run = Run.create(tmp_path, PLAN, cells(1))
    path = tmp_path / "records" / f"{KEYS[0]}.json"
    run.attempt(run.cells[0], do)
    for n, text in enumerate(("first", "second, longer")):
        assert run.done() == cells(1)
        path.write_text(text)
        assert run.done() == [], "though it was known as good"
        run.attempt(run.cells[0], do)
        assert path.with_name(f"{path.name}.damaged{n or ''}").read_text() == text
    path.unlink()
    assert run.done() == []


# --- Packed records --------------------------------------------------------------------------------------------------


def packed(folder):
    return (folder / "records.jsonl").read_bytes().splitlines(keepends=True)


def test_a_whole_run_is_one_file_of_the_same_records(tmp_path):
    run = Run.create(tmp_path, PLAN, cells(12))
    for cell in reversed(run.cells):
        run.attempt(cell, do)
    before = {path.stem: path.read_bytes() for path in (tmp_path / "records").iterdir()}
    sums = {record.facts["key"]: record.sha256 for record in run.records()}
    run.work(do)
    assert packed(tmp_path) == [before[key] for key in KEYS], "not a byte is changed; the plan's order"
    assert list((tmp_path / "records").iterdir()) == []
    for found in (run, Run.open(tmp_path)):
        assert {record.facts["key"]: record.sha256 for record in found.records()} == sums
        assert found.left() == []
    at = (tmp_path / "records.jsonl").stat().st_mtime_ns
    Run.create(tmp_path, PLAN, cells(12)).work(do)
    assert (tmp_path / "records.jsonl").stat().st_mtime_ns == at


def test_a_packed_run_grows(tmp_path, begun):
    Run.create(tmp_path, PLAN, cells(4)).work(do)
    run = Run.create(tmp_path, PLAN, cells(12))
    assert [cell.key for cell in run.left()] == KEYS[4:]
    run.attempt(run.cells[7], do)
    run.pack()
    assert [json.loads(line)["facts"]["key"] for line in packed(tmp_path)] == [*KEYS[:4], KEYS[7]]
    run.work(do)
    assert Counter(begun.keys) == Counter(KEYS)
    assert [record.facts["key"] for record in run.records()] == KEYS


def test_what_is_in_no_plan_stays_packed(tmp_path):
    """A plan that was lost, and begun anew with less."""
    Run.create(tmp_path, PLAN, cells(12)).work(do)
    before = packed(tmp_path)
    (tmp_path / "plan.json").unlink()
    Run.create(tmp_path, PLAN, cells(3))
    Run.create(tmp_path, PLAN, cells(13)[12:], beside=lambda _: None).work(do)
    assert len(packed(tmp_path)) == 13
    assert set(before) < set(packed(tmp_path))
    run = Run.create(tmp_path, PLAN, cells(13))
    assert run.left() == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_line_is_set_aside_and_made_again(tmp_path, begun, whole, damage):
    change, problem = DAMAGE[damage]
    Run.create(tmp_path, PLAN, cells(12)).work(do)
    lines = packed(tmp_path)
    spoilt = (change(lines[3].decode().rstrip("\n")) + "\n").encode()
    (tmp_path / "records.jsonl").write_bytes(b"".join([*lines[:3], spoilt, *lines[4:]]))
    run = Run.open(tmp_path)
    named = damage not in ("empty", "zeros", "a list")
    assert run.damaged() == ({KEYS[3]: problem} if named else {})
    assert [cell.key for cell in run.left()] == [KEYS[3]]
    assert len(run.records()) == 11
    run.work(do)
    assert begun.keys == [*KEYS, KEYS[3]]
    assert facts(tmp_path) == whole
    assert len(packed(tmp_path)) == 12
    assert (tmp_path / "records.jsonl.damaged").read_bytes() == spoilt
    assert run.damaged() == {}


def test_a_record_in_both_places(tmp_path):
    run = Run.create(tmp_path, PLAN, cells(2))
    run.work(do)
    (line, other), path = packed(tmp_path), tmp_path / "records" / f"{KEYS[0]}.json"
    found = Record.decode(line)
    path.write_bytes(Record(found.facts, {**found.circumstances, "seconds": 99.0}).encode())
    assert run.measured()[KEYS[0]] == Run.open(tmp_path).measured()[KEYS[0]] == 99.0, "its own file counts"
    path.write_bytes(line[:-30])
    assert run.measured()[KEYS[0]] == Run.open(tmp_path).measured()[KEYS[0]] == found.circumstances["seconds"]
    assert (run.damaged(), run.left()) == ({}, [])
    path.write_bytes(Record(found.facts, {**found.circumstances, "seconds": 99.0}).encode())
    run.pack()
    assert next(Record.decode(raw).circumstances["seconds"] for raw in packed(tmp_path)) == 99.0
    assert packed(tmp_path)[1] == other
    assert not path.exists()
    (tmp_path / "records.jsonl").write_bytes(
        line + packed(tmp_path)[0] + other
    )  # as merging two histories may leave it
    assert Run.open(tmp_path).measured()[KEYS[0]] == 99.0


def test_a_record_is_read_once(tmp_path, monkeypatch):
    Run.create(tmp_path, PLAN, cells(12)).work(do)
    run, n, decode = Run.open(tmp_path), itertools.count(), Record.decode
    monkeypatch.setattr(Record, "decode", lambda *args: next(n) >= 0 and decode(*args))
    for _ in range(3):
        assert len(run.records()) == len(run.measured()) == len(run.done()) == 12
        assert run.left() == []
    assert next(n) == 12


def test_packing_beside_work_loses_nothing(tmp_path, begun, whole):
    run = Run.create(tmp_path, PLAN, cells(12))

    def pack_often():
        for _ in range(15):
            Run.open(tmp_path).pack()

    with ThreadPoolExecutor(4) as pool:
        packing = [pool.submit(pack_often) for _ in range(2)]
        reading = pool.submit(lambda: [len(Run.open(tmp_path).done()) for _ in range(60)])
        for cell in run.cells:
            assert run.attempt(cell, do) == "done"
            assert cell in run.done()
        for task in packing:
            task.result()
        counts = reading.result()
    run.pack()
    assert counts == sorted(counts)
    assert begun.keys == KEYS
    assert facts(tmp_path) == whole
    assert len(packed(tmp_path)) == 12


def test_the_record_of_a_cell_under_the_name_of_another(tmp_path):
    run = Run.create(tmp_path, PLAN, cells(2))
    run.attempt(run.cells[0], do)
    path = tmp_path / "records" / f"{KEYS[0]}.json"
    path.rename(path.with_name(f"{KEYS[1]}.json"))
    assert run.damaged() == {KEYS[1]: "the record of another cell"}


def test_foreign_files_are_left_alone(tmp_path):
    left = f"records/.{f'{KEYS[0]}.json'[-50:]}.0123456789abcdef.partial"
    foreign = ["notes.txt", "records/mine.json", "records/.hidden", left, "locks/x.lock"]
    for name in foreign:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import os; raise SystemExit")
    run = Run.create(tmp_path, PLAN, cells(12))
    assert run.done() == []
    run.work(do)
    assert len(run.records()) == 12
    for name in set(foreign) - {foreign[3]}:
        assert (tmp_path / name).read_text() == "import os; raise SystemExit"
    assert not (tmp_path / foreign[3]).exists(), "what a killed process left goes with the next write"


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(
        FansError, match=r"Expected a folder that can be written to and locked in .*run, got .*Not a directory"
    ):
        Run.create(tmp_path / "run", PLAN, cells(1))


def test_work_that_other_processes_cannot_find(tmp_path):
    words = r"Expected `do` as what other processes can import, .*, got <function .*<lambda> at .*Can't pickle"
    with pytest.raises(InputError, match=words):
        Run.create(tmp_path, PLAN, cells(1)).work(lambda _: Result({}), workers=2)


def test_no_workers(tmp_path):
    with pytest.raises(InputError, match=r"`workers` as a whole number of at least 1, got 0"):
        Run.create(tmp_path, PLAN, cells(1)).work(do, workers=0)


def test_the_plan_on_disk(tmp_path):
    cell = Cell({"dataset": "d", "settings": {"radius": math.inf}}, 3)
    Run.create(tmp_path, {"n": 4, "sizes": (1, 2)}, [cell])
    assert json.loads((tmp_path / "plan.json").read_text()) == {
        "plan": {"n": 4, "sizes": [1, 2]},
        "versions": runs.versions(),
        "cells": [{"key": cell.key, "cost": 3, "spec": {"dataset": "d", "settings": {"radius": {"$float": "inf"}}}}],
    }
    assert Run.open(tmp_path) == Run(tmp_path, {"n": 4, "sizes": [1, 2]}, (cell,))
    before = (tmp_path / "plan.json").stat().st_mtime_ns
    Run.create(tmp_path, {"n": 4, "sizes": [1, 2]}, [cell])
    assert (tmp_path / "plan.json").stat().st_mtime_ns == before


def test_versions():
    expected = {"fans": __version__, "python": "{}.{}.{}".format(*sys.version_info[:3])}
    assert runs.versions() == expected | {
        **{"numpy": np.__version__, "torch": str(torch.__version__)},
        "scikit-image": importlib.metadata.version("scikit-image"),
    }


def test_a_growing_plan_keeps_what_is_done(tmp_path, begun, whole):
    def create(n):
        return Run.create(tmp_path / "run", {**PLAN, "inputs": 5 * n}, cells(n), grows=["inputs"])

    create(4).work(do)
    create(12).work(do)
    assert begun.keys == KEYS
    assert facts(tmp_path / "run") == whole
    assert Run.open(tmp_path / "run").plan["inputs"] == 60
    with pytest.raises(
        InputError,
        match=r"got another: 8 of its 12 cells are not in this one, `shard` is .20,25. there and .5,10. here;",
    ):
        create(4)


def refused(folder, plan, grid, **options):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError) as caught:
        Run.create(folder, plan, grid, **options)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    expected, _, rest = str(caught.value).partition("got another: ")
    what, _, remedy = rest.partition("; ")
    assert expected == f"Expected {folder} to hold this experiment, "
    assert remedy == "choose another folder (--out), or the same settings"
    return what


def test_another_plan_is_refused(tmp_path):
    Run.create(tmp_path, {"a": {"b": 1, "c": 2}, "n": 1}, cells(3)).work(do)
    assert refused(tmp_path, {"a": {"b": 1, "c": 3}, "n": 1}, cells(3)) == "`a.c` is 2 there and 3 here"
    assert refused(tmp_path, {"a": {"b": 1}, "n": 2}, cells(4), grows=["n"]) == "`a.c` is 2 there and not here"
    many = refused(tmp_path, {"w": "x", "y": 1, "z": []}, cells(3))
    assert many.startswith("`a.b` is 1 there and not here, `a.c` is 2 there and not here, `n` is 1")
    assert many.endswith(", and 3 more")
    long = refused(tmp_path, {"a": {"b": 1, "c": list(range(99))}, "n": 1}, cells(3))
    assert long == "`a.c` is 2 there and [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,... here"
    seeded = [Cell({**cell.spec, "seed": 8}, cell.cost) for cell in cells(3)]
    same = {"a": {"b": 1, "c": 2}, "n": 1}
    assert refused(tmp_path, same, seeded) == "3 of its 3 cells are not in this one, `seed` is 7 there and 8 here"
    assert refused(tmp_path, same, seeded, dry=True).startswith("3 of its 3 cells")


def test_many_may_begin_one_run_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: Run.create(tmp_path, PLAN, cells(12)), range(24)))
    assert found == [Run.open(tmp_path)] * 24


def test_a_dry_run_writes_nothing(tmp_path):
    run = Run.create(tmp_path / "run", PLAN, cells(3), dry=True)
    assert (run.left(), run.done(), run.records()) == (cells(3), [], [])
    assert list(tmp_path.iterdir()) == []


def test_bad_plans(tmp_path):
    with pytest.raises(InputError, match=r"Expected at least one cell, and each once, got none"):
        Run.create(tmp_path, PLAN, [])
    with pytest.raises(InputError, match=rf"and each once, got {KEYS[1]} twice"):
        Run.create(tmp_path, PLAN, [*cells(2), Cell(cells(2)[1].spec, 11)])
    with pytest.raises(InputError, match=rf"Expected a run in {re.escape(str(tmp_path))}, got no plan.json"):
        Run.open(tmp_path)
    for text in (
        "{",
        "[]",
        '{"plan": {}, "cells": [{"spec": []}]}',
        '{"plan": {}, "cells": [{"spec": [], "cost": 1}]}',
    ):
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(InputError, match=r"got .*plan.json, which is not one .*the records stay good"):
            Run.create(tmp_path, PLAN, cells(2))


def test_the_key():
    spec = {"dataset": "Fashion MNIST/..", "method": "fans", "settings": {"b": 1.5, "a": [1, None]}, "shard": [0, 50]}
    canonical = '{"dataset":"Fashion MNIST/..","method":"fans","settings":{"a":[1,null],"b":1.5},"shard":[0,50]}'
    key = Cell(spec, 10).key
    assert key == f"Fashion_MNIST_-fans-0-50-{hashlib.sha256(canonical.encode()).hexdigest()[:12]}"
    assert key == "Fashion_MNIST_-fans-0-50-233f513810e4"
    turned = {name: spec[name] for name in reversed(spec)} | {"settings": {"a": (1, None), "b": np.float64(1.5)}}
    assert Cell(turned, 99).key == key, "neither order nor cost nor the type of a sequence matters"
    assert Cell({**spec, "seed": 0}).key != key
    for seed in ("0", "1"):
        code = f"from tests.runs.helper import Cell; print(Cell({turned!r}, 3).key)".replace("np.float64", "float")
        printed = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=HELPER.parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout.strip() == key


def test_keys_of_odd_specs():
    assert re.fullmatch(r"[0-9a-f]{12}", Cell({}).key)
    assert re.fullmatch(r"d-3-[0-9a-f]{12}", Cell({"dataset": "d", "method": 3, "shard": 7}).key)
    assert re.fullmatch(r"x{24}-[0-9a-f]{12}", Cell({"dataset": "x" * 300}).key)
    assert Cell({"a": math.nan}).key == Cell({"a": -math.nan}).key != Cell({"a": "nan"}).key


def test_a_cell_keeps_its_spec_to_itself():
    spec = {"settings": {"a": [1]}}
    cell = Cell(spec)
    spec["settings"]["a"].append(2)
    assert cell.spec == {"settings": {"a": [1]}}


@pytest.mark.parametrize(
    ("spec", "cost", "words"),
    [
        ([], 0, "Expected `spec` as a mapping, got list"),
        ({"a": object()}, 0, "in `spec.a`, got object"),
        ({}, -1, "Expected `cost` as a whole number of at least 0, got -1"),
        ({}, 1.5, "Expected `cost` as a whole number of at least 0, got 1.5"),
    ],
)
def test_bad_cells(spec, cost, words):
    with pytest.raises(InputError, match=re.escape(words)):
        Cell(spec, cost)


def test_a_record(tmp_path, monkeypatch):
    clock = iter([0.0, 10.0, 12.5, *[20.0] * 9])
    everywhere(monkeypatch, "_now", lambda: next(clock))
    floats = np.array([0.1, -0.0, math.nan, math.inf, -math.inf, 5e-324])
    values = {
        "floats": floats,
        "single": np.float32(0.1),
        "nested": {"whole": np.int64(2**53 + 1), "yes": np.bool_(True), "words": ("a", None, "Ü\ud800")},
        "tensor": torch.tensor([[1.5], [2.5]]),
    }
    cell = Cell({"dataset": "d", "seed": 3})
    Run.create(tmp_path, {}, [cell]).work(lambda _: Result(values, 7, {"part": 1.25}))
    path = tmp_path / "records.jsonl"
    stored = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert stored["facts"]["values"]["floats"][2:5] == [{"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}]
    canonical = json.dumps(stored["facts"], sort_keys=True, separators=(",", ":"))
    assert stored["sha256"]["facts"] == hashlib.sha256(canonical.encode()).hexdigest()
    (record,) = Run.open(tmp_path).records()
    found = record.values["floats"]
    assert np.array(found).tobytes() == floats.tobytes()
    assert record.values["single"] == 0.10000000149011612
    assert record.values["nested"] == {"whole": 2**53 + 1, "yes": True, "words": ["a", None, "Ü\ud800"]}
    assert record.values["tensor"] == [[1.5], [2.5]]
    assert {k: v for k, v in record.facts.items() if k != "values"} == {
        **{"key": cell.key, "spec": {"dataset": "d", "seed": 3}, "seed": 3, "evaluations": 7}
    }
    now = dict(record.circumstances)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", now.pop("finished_at"))
    threads = torch.get_num_threads()
    assert now.pop("processor") == runs.processor()
    assert now == {"seconds": 2.5, "versions": runs.versions(), "threads": threads, "timing": {"part": 1.25}}
    assert record.sha256 == stored["sha256"]["facts"]
    assert record.sha256 != Record({**record.facts, "seed": 4}, {}).sha256


def test_the_processor(tmp_path, monkeypatch):
    def told(text: str) -> str:
        (tmp_path / "cpuinfo").write_text(f"{text}\n{text}")
        return str(_records.processor.__wrapped__())

    monkeypatch.setattr(_records, "Path", lambda _: tmp_path / "cpuinfo")
    assert _records.processor.__wrapped__() == (platform.processor() or platform.machine())  # no such file
    one = "model name\t: Abacus\ncpu family\t: 6\nmodel\t\t: 7\nstepping\t: 2\ncpu MHz\t\t: 1\nflags\t\t: a b\n"
    assert told(one).startswith("Abacus 6 7 2 (")
    assert told(one) == told(one.replace(": 1", ": 2")) != told(one.replace("a b", "a c"))
    assert told("Hardware\t: other\n") == (platform.processor() or platform.machine())


def test_versions_of_other_packages_are_told(tmp_path, monkeypatch):
    run = Run.create(tmp_path, PLAN, cells(3))
    everywhere(monkeypatch, "versions", lambda: {"fans": "0.1.0", "torch": "1"})
    run.attempt(run.cells[0], do)
    run.attempt(run.cells[1], do)
    everywhere(monkeypatch, "versions", lambda: {"fans": "0.1.0", "torch": "2"})
    told: list[str] = []
    run.work(do, tell=told.append)
    assert told[1] == "2 of the records are of fans 0.1.0, torch 1; this is fans 0.1.0, torch 2"


def test_a_run_of_another_version_of_ours_is_refused(tmp_path, monkeypatch):
    everywhere(monkeypatch, "versions", lambda: {"fans": "0.0.9", "torch": "2"})
    Run.create(tmp_path, PLAN, cells(3))
    everywhere(monkeypatch, "versions", lambda: {"fans": "0.1.0", "torch": "2"})
    with pytest.raises(InputError, match=r"a run of fans 0.1.0 in .*, got one of fans 0.0.9; choose another folder"):
        Run.create(tmp_path, PLAN, cells(3))


class Clock:
    """Time that passes only while cells are done."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        everywhere(monkeypatch, "_now", lambda: self.now)

    def do(self, cell):
        self.now += {"fans": 0.02, "shap": 0.01}[cell.spec["method"]] * cell.cost
        return Result({})


def grid():
    """Of 100, 100, 400 and 1000 rows."""
    kinds = [
        ("mnist", "fans", 0, 100),
        ("mnist", "fans", 5, 100),
        ("mnist", "shap", 0, 400),
        ("cifar", "fans", 0, 1000),
    ]
    return [Cell({"dataset": d, "method": m, "shard": [i, i + 5]}, cost) for d, m, i, cost in kinds]


def test_an_honest_estimate(tmp_path, monkeypatch):
    told: list[str] = []
    Run.create(tmp_path, PLAN, grid()).work(Clock(monkeypatch).do, tell=told.append, every=0)
    assert told == [
        # 2 s measured for 100 rows; 100, 400 and 1000 rows are left: 2 + 8 + 20
        "1 of 4 cells, 6% of the evaluations; left: about 30 s, a guess for 2 of 3 kinds",
        "2 of 4 cells, 12% of the evaluations; left: about 28 s, a guess for 2 of 2 kinds",
        # 8 s for 600 rows overall; 1000 rows are left
        "3 of 4 cells, 37% of the evaluations; left: about 13 s, a guess for 1 of 1 kinds",
        "4 of 4 cells, 100% of the evaluations; left: none",
        "all 4 cells are done",
    ]


def test_lines_are_not_told_too_often(tmp_path, monkeypatch):
    told: list[str] = []
    Run.create(tmp_path, PLAN, grid()).work(Clock(monkeypatch).do, tell=told.append, every=4)
    assert [line[:4] for line in told] == ["2 of", "3 of", "4 of", "all "]  # after 4, 8 and 28 seconds


def test_an_estimate_for_several_workers(tmp_path, monkeypatch):
    run = Run.create(tmp_path, PLAN, [*grid()[:2], *(Cell({**grid()[1].spec, "seed": s}, 100) for s in range(5))])
    assert progress(run) == "0 of 7 cells, 0% of the evaluations; left: nothing measured yet"
    run.attempt(run.cells[0], Clock(monkeypatch).do)
    assert progress(run, 1).endswith("14% of the evaluations; left: about 12 s")
    assert progress(run, 4).endswith("; left: about 3 s")
    longest = progress(run, 100, elsewhere=2, failed=1)  # the time is the longest cell's
    assert longest == "1 of 7 cells, 14% of the evaluations, 2 in work elsewhere, 1 failed; left: about 2 s"


def test_costs_of_nothing(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    run = Run.create(tmp_path, PLAN, [Cell({"i": i}) for i in range(4)])

    def two_seconds(_):
        clock.now += 2
        return Result({})

    run.attempt(run.cells[0], two_seconds)
    assert progress(run) == "1 of 4 cells, 25% of the evaluations; left: about 6 s"


def testspans():
    seconds = (0.2, 99, 100, 5940, 6000, 359000, 1e6)
    assert [_pace.span(s) for s in seconds] == ["0 s", "99 s", "2 min", "99 min", "1.7 h", "99.7 h", "11.6 days"]


def test_a_dry_run_in_words(tmp_path, monkeypatch):
    more = [*grid(), Cell({**grid()[2].spec, "settings": {"n": 2}}, 4000)]
    assert describe(more).splitlines() == [
        "dataset  method  cells  inputs  evaluations  done  left  time",
        "mnist    fans        2      10          200     0     2  nothing measured yet",
        "mnist    shap        2       5        4,400     0     2  nothing measured yet",
        "cifar    fans        1       5        1,000     0     1  nothing measured yet",
        "all                  5      15        5,600     0     5  nothing measured yet",
    ]
    run = Run.create(tmp_path, PLAN, more)
    for cell in run.cells[:3]:
        run.attempt(cell, Clock(monkeypatch).do)
    assert describe(run, workers=2).splitlines() == [
        "dataset  method  cells  inputs  evaluations  done  left  time",
        "mnist    fans        2      10          200     2     0  none",
        "mnist    shap        2       5        4,400     1     1  about 40 s",
        "cifar    fans        1       5        1,000     0     1  about 13 s, a guess for 1 of 1 kinds",
        "all                  5      15        5,600     3     2  about 40 s, a guess for 1 of 2 kinds",
    ]
