"""A study of one's own in a few lines; and a run's folder, whoever made it, executes nothing."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fans.cli import main
from fans.errors import InputError
from fans.files import write
from fans.runs import Cell, Result, Run
from fans.studies import Asked, Study, find_study, load, names
from fans.studies import results as results_of

FIGURE = '''\
"""How fast the mean of dice settles."""

import io
import random

from matplotlib.figure import Figure

from fans.studies import Rendered, Study
from fans.runs import Cell, Result


class Settling(Study):
    kind = "settling"

    def plan(self, asked):
        return [{"dataset": "dice", "shard": [i, i + 1], "seed": 0} for i in range(asked.n or 3)]

    def price(self, specs):
        return [Cell(spec, 100) for spec in specs]

    def do(self, cell):
        drawn, total = random.Random(cell.inputs.start), 0
        return Result({"mean": [(total := total + drawn.randint(1, 6)) / (i + 1) for i in range(100)]}, 100)

    def about(self):
        return {"title": "The mean of so many dice"}

    @classmethod
    def render(cls, run):
        figure, picture = Figure(), io.BytesIO()
        axis = figure.subplots()
        for record in run.records():
            axis.plot(record.values["mean"])
        axis.set_title(run.plan["about"]["title"])
        figure.savefig(picture, format="png")
        return Rendered(f"{len(run.done())} of {len(run.cells)} curves", {"settling.png": picture.getvalue()})
'''


@pytest.fixture
def figure(tmp_path, monkeypatch):
    """The file of a study that is a figure; what importing it changes is undone."""
    monkeypatch.setattr(Study, "kinds", dict(Study.kinds))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "settling", raising=False)
    yield write(tmp_path / "settling.py", FIGURE)
    sys.modules.pop("settling", None)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_figure_is_a_study(figure, tmp_path, capsys, workers, monkeypatch):
    assert len(FIGURE.splitlines()) < 40
    folder = tmp_path / "run"
    command = ["run", str(figure), "--out", str(folder), "--workers", workers]
    assert main([*command, "--dry-run"]) == 0
    assert "300" in capsys.readouterr().out
    assert main([*command, "--n", "2"]) == 0
    assert main(command) == 0
    assert "3 of 3 curves" in capsys.readouterr().out
    assert (folder / "settling.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "records.jsonl").read_bytes().splitlines()) == 3
    assert "settling" in names()
    assert main(["list", "experiments"]) == 0
    assert "settling" in capsys.readouterr().out
    assert main(["report", str(folder), "--verify", "3"]) == 0
    assert capsys.readouterr().out.count("as recorded") == 3
    assert main(["run", "settling", "--out", str(folder), "--n", "1"]) == 1
    assert "with the 1 cells asked for, got 2 others in it; choose another folder" in capsys.readouterr().err
    assert main(["run", "table1", "--out", str(folder), "--only", "mnist", "--rows", "IG"]) == 1
    assert "to hold this experiment, got another" in capsys.readouterr().err
    assert main(["report", str(folder), "--against", "x"]) == 1
    assert "a table" in capsys.readouterr().err
    monkeypatch.delitem(Study.kinds, "settling")  # as a process that has not read the file
    sys.modules.pop("settling")
    assert main(["report", str(folder)]) == 1
    assert "got 'settling'; name the file it comes from (--study)" in capsys.readouterr().err
    assert main(["report", str(folder), "--study", str(figure), "--verify", "1"]) == 0


def test_files_that_define_no_study(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(InputError, match=r"a study's file, got none at .*none\.py"):
        find_study(tmp_path / "none.py")
    with pytest.raises(InputError, match=r"Expected one study with a `kind` in .*nothing_here\.py, got 0"):
        find_study(write(tmp_path / "nothing_here.py", ""))
    with pytest.raises(
        InputError, match=r"the experiment to be one of .*'table1', 'table2', got 'tabel1'; did you mean"
    ):
        find_study("tabel1")
    with pytest.raises(TypeError, match=r"a new kind for .*Mine, got 'table', taken by .*TableStudy"):
        type("Mine", (Study,), {"kind": "table"})


# --- Folders that somebody else made ---------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A run's folder with code and a table's file in it, which would leave a trace; the process stands in it."""
    folder = tmp_path / "evil"
    study = load("table2")
    spec = study.cells(1, only=["ba_community"], rows=["random (control)"])[0] | {"imports": ["evil_module"]}
    cell = study.price([spec])[0]
    plan = {"kind": "table", "study": "table2", "search": False, "about": study.about()}
    run = Run.create(folder, plan, [cell])
    scores = {column["name"]: [0.0] for column in spec["columns"]}
    run.work(lambda _: Result({"scores": scores}, 1))
    trace = f"open({str(tmp_path / 'trace')!r}, 'w').close()\n"
    for name in ("evil_module.py", "sitecustomize.py", "conftest.py", "__init__.py", "table2.py"):
        (folder / name).write_text(trace)
    (folder / "evil.yaml").write_text("extends: table2\nimports: [evil_module]\n")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    assert not (tmp_path / "trace").exists()
    assert "evil_module" not in sys.modules


def change(folder: Path, **entries: Any) -> None:
    stored = json.loads((folder / "plan.json").read_text())
    stored["plan"] |= entries
    (folder / "plan.json").write_text(json.dumps(stored))


@pytest.mark.parametrize(
    "name", ["evil.yaml", "evil_module.py", "./evil.yaml", "evil_module", "evil_module:run", ["x"]]
)
def test_a_folder_names_no_code(trap, capsys, name):
    """As a study or its kind; a report is made without, and a proof asks for a file that the user names."""
    for named in (name, str(trap / str(name))):
        change(trap, study=named, experiment=named, work=named, file=named)
        assert main(["report", str(trap)]) == 0
        assert "random (control)" in capsys.readouterr().out
        assert main(["report", str(trap), "--verify", "1"]) == 1
        assert "name its file (--study)" in capsys.readouterr().err
        change(trap, kind=named)
        assert main(["report", str(trap)]) == 1
        assert "name the file it comes from (--study)" in capsys.readouterr().err
        change(trap, kind="table")


def test_a_cell_of_a_folder_imports_nothing(trap, capsys):
    assert main(["report", str(trap), "--verify", "1"]) == 1
    assert "got 'evil_module'; name the file of the study (--study)" in capsys.readouterr().err


def test_a_folder_s_links_are_not_followed(trap, tmp_path, capsys):
    precious = write(tmp_path / "precious", "mine")
    (trap / "table.md").symlink_to(precious)
    assert main(["report", str(trap)]) == 1
    assert f"got {trap / 'table.md'}, a symbolic link to {precious}" in capsys.readouterr().err
    assert precious.read_text() == "mine"


@pytest.mark.parametrize(
    "about",
    [
        None,
        [],
        {},
        {"title": 3},
        {"rows": [{"name": 1}]},
        {"columns": "x"},
        {"faithful": {"column": "a", "within": -1}},
    ],
)
def test_what_a_report_needs_is_checked(trap, capsys, about):
    change(trap, about=({**load("table2").about(), **about} if about else about))
    assert main(["report", str(trap)]) == 1
    assert re.search(r"what the report of a table needs in .*plan\.json, got", capsys.readouterr().err)


def test_a_report_reads_no_study(tmp_path, monkeypatch, capsys):
    """Once begun, the file may change or be gone."""
    file = write(tmp_path / "own.yaml", "extends: table2\ntitle: As it was\n")
    study = load(file)
    run = results_of.start(study, tmp_path / "run", Asked(only=["ba_community"], rows=["random (control)"]), dry=True)
    few = run.cells[:2]
    plan = {"kind": "table", "study": "table2", "search": False, "about": study.about()}

    def do(cell: Cell) -> Result:
        return Result({"scores": {column["name"]: [0.5] * len(cell.inputs) for column in cell.spec["columns"]}})

    Run.create(tmp_path / "run", plan, few).work(do)
    file.unlink()
    monkeypatch.setattr(results_of, "find_study", lambda _: pytest.fail("read"))
    assert main(["report", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("As it was\n")
    assert "FID+ ↑" in out
