"""Seconds and quality: cells that time methods in turn, and claims that follow the records."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

import fans
from fans.cli import main
from fans.errors import InputError
from fans.metrics import metric
from fans.report.sections import Section
from fans.runs import Cell, Result
from fans.studies import Asked, efficiency, find_study, images, results
from fans.studies.efficiency import TURNS, WAYS, Efficiency
from tests.studies.made import run_of, spread

STUDY = Efficiency()


def test_it_is_found_by_name():
    assert isinstance(find_study("efficiency"), Efficiency)


def test_the_plan_has_every_way_in_each_cell():
    cells = STUDY.price(STUDY.plan(Asked()))
    assert [tuple(cell.spec["shard"]) for cell in cells] == [(i, i + 4) for i in range(0, 32, 4)]
    ways = {way["name"]: way for way in cells[0].spec["ways"]}
    assert list(ways) == [way.name for way in WAYS]
    assert ways["LIME"]["call"]["settings"] == {"n_samples": 500, "alpha": 0.01, "output": "raw"}
    assert ways["LIME, n_samples 50"]["call"]["settings"] == {"n_samples": 50, "alpha": 0.01, "output": "raw"}
    assert ways["FANS"]["call"]["settings"] == {}
    assert cells[0].cost > cells[1].cost > 0  # CIMI is trained once
    few = STUDY.plan(Asked(n=5, rows=["DeepLift", "IG"]))
    assert [spec["shard"] for spec in few] == [[0, 4], [4, 5]]
    assert [way["name"] for way in few[0]["ways"]] == ["DeepLift", "IG, n_steps 5", "IG, n_steps 15", "IG"]
    with pytest.raises(InputError, match=r"a row to be one of 'FANS', .*, got 'RISE'"):
        STUDY.plan(Asked(rows=["RISE"]))


@pytest.fixture
def patient(monkeypatch) -> None:
    """Time everything in every round, however slow the machine is."""
    monkeypatch.setattr(efficiency, "SLOW", 1e9)


@pytest.mark.usefixtures("bundled", "patient")
def test_a_cell_by_hand():
    (spec,) = STUDY.plan(Asked(n=2, rows=["DeepLift"]))
    result = STUDY.do(Cell(spec))
    given = images.subject("cifar10", "cifar10", 200)
    space = fans.spaces.Image(unit="pixel")
    settings: dict[str, Any] = {"baseline": "mean", "multiply": True, "method": "deep_lift"}
    explainer = fans.Explainer(given.model, given.background, space=space, **settings)
    x = given.images(0, 2)
    found = fans.evaluate(explainer.attribute(x), {"IR": metric("irof", of="predicted")}, explainer=explainer)
    assert result.values["scores"]["IR DeepLift"] == pytest.approx(found["IR"].tolist(), rel=1e-6)
    before = explainer.task.predict.n_rows
    explainer.attribute(x)
    spent = explainer.task.predict.n_rows - before
    assert result.values["scores"]["rows DeepLift"] == [spent / 2, spent / 2]
    assert result.evaluations == spent + found.rows["IR"]
    assert len(result.timing["seconds"]["DeepLift"]) == 3
    assert all(second > 0 for second in result.timing["seconds"]["DeepLift"])
    assert result.timing["training"] == {}
    assert torch.equal(x, given.images(0, 2))


class Slow:
    """An explainer by whose clock an explanation takes so long."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock, self.seconds, self.n_asked, self.n_rows = clock, seconds, 0, 0
        self.task = self.predict = self

    def attribute(self, x: torch.Tensor, ids: Any) -> str:  # noqa: ARG002
        self.clock[0] += self.seconds
        self.n_asked, self.n_rows = self.n_asked + 1, self.n_rows + 10
        return f"asked {self.n_asked} times"


def test_methods_take_turns_and_the_slow_are_timed_once(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    made: Any = {"fast": Slow(clock, 0.5), "slow": Slow(clock, 3.0)}
    first: Any
    monkeypatch.setattr(time, "process_time", lambda: clock[0] / 2)  # half of it for others
    first, clocks, rows = efficiency._timed(made, torch.zeros(2, 1), [0, 1], 3)
    assert clocks == {"fast": ([0.25, 0.25, 0.25], [0.125, 0.125, 0.125]), "slow": ([1.5], [0.75])}
    assert rows == {"fast": 10, "slow": 10}
    assert first == {"fast": "asked 1 times", "slow": "asked 1 times"}


@pytest.mark.usefixtures("bundled")
def test_a_run_is_reported_and_verified_whatever_its_seconds(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    assert main(["run", "efficiency", "--quick", "--rows", "DeepLift", "--out", str(folder)]) == 0
    assert "FANS, LIME or MP is not computed yet" in capsys.readouterr().out
    assert (folder / "efficiency.png").read_bytes().startswith(b"\x89PNG")
    clock = iter(range(10**9))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    assert main(["report", str(folder), "--verify", "1"]) == 0
    assert "as recorded" in capsys.readouterr().out
    assert STUDY.section(results.opened(folder)).facts["Command"] == "fans run efficiency --quick"


# --- Claims ----------------------------------------------------------------------------------------------------------


def section(folder: Path, ways: dict[str, tuple[float, float]], n_cells: int = 6, had: float = 1.0) -> Section:
    """Return the section of a run in which ways take such seconds an image and have such IROF.

    `had`: share of the processor that it had.
    """
    cells = []
    for k in range(n_cells):
        named = [{"name": name, "method": name.split(",")[0], "call": {}} for name in ways]
        spec = {"dataset": "cifar10", "method": TURNS, "shard": [2 * k, 2 * k + 2], "seed": 0, "ways": named}
        scores = {f"IR {name}": spread(faithful, 2) for name, (_, faithful) in ways.items()}
        scores |= {f"rows {name}": [5.0, 5.0] for name in ways}
        load = 1 + 0.1 * k  # of the machine: it slows all alike
        seconds = {name: [9.0, s * load, s * load / 2] for name, (s, _) in ways.items()}
        processor = {name: [had * second for second in each] for name, each in seconds.items()}
        timing = {
            "seconds": seconds,
            "processor": processor,
            "training": {"CIMI": {"seconds": 60.0}} if "CIMI" in ways else {},
        }
        cells.append((spec, Result({"scores": scores}, 10, timing)))
    return STUDY.section(run_of(STUDY, folder, cells))


def test_claims_follow_the_records(tmp_path):
    usual = {"FANS": (1.0, 70.0), "LIME": (4.0, 60.0), "MP": (8.0, 60.0)}
    cases: list[tuple[dict[str, tuple[float, float]], bool | None]] = [
        (usual, True),
        (usual | {"FANS": (5.0, 70.0)}, False),  # fewer than LIME
        (usual | {"FANS": (4.0, 70.0)}, None),  # as many as LIME
        ({name: usual[name] for name in ("FANS", "LIME")}, None),  # MP is not known
    ]
    for i, (ways, held) in enumerate(cases):
        assert section(tmp_path / str(i), ways).claims[0].held is held, ways
    alone = section(tmp_path / "alone", usual, n_cells=1)
    assert alone.claims[0].held is None


def test_goals_follow_the_records(tmp_path):
    ways = {
        "FANS": (1.0, 70.0),
        "FANS, effort low": (0.3, 65.0),
        "LIME": (2.0, 60.0),
        "MP": (8.0, 60.0),
        "CIMI": (0.1, 9),
    }
    found = section(tmp_path / "a", ways)
    assert found.summary[0].endswith("no lower IROF: it is met with effort low.")
    assert "FANS with its defaults: 2.00 [2.00, 2.00] times as many images as LIME (IROF +10.0" in found.summary[1]
    assert found.summary[-1] == "CIMI is trained for 60 s first, which is not counted in its seconds an image."
    worse = section(tmp_path / "b", ways | {"FANS, effort low": (0.3, 59.0)})
    assert worse.summary[0].endswith("no setting of FANS meets it.")
    slower = section(tmp_path / "c", ways | {"FANS, effort low": (0.7, 65.0)})
    assert slower.summary[0].endswith("no setting of FANS meets it.")
    behind = section(tmp_path / "d", ways | {"FANS": (3.0, 70.0)})
    assert "With effort low it explains 6.67 [6.67, 6.67] times as many images as LIME" in behind.claims[0].found


def test_a_busy_machine_is_told(tmp_path):
    usual = {"FANS": (1.0, 70.0), "LIME": (4.0, 60.0)}
    assert not section(tmp_path / "idle", usual).summary
    (said,) = section(tmp_path / "busy", usual, had=0.25).summary
    assert said.startswith("Other work ran beside this one, which had 25% of one processor")


def test_the_figure_by_hand(tmp_path):
    found = section(tmp_path, {"FANS, effort low": (0.5, 65.0), "FANS": (1.0, 70.0), "LIME": (2.0, 60.0)})
    first, second = found.charts[0].panels
    fans_line = next(line for line in first.lines if line.name == "FANS")
    assert fans_line.x == [1.0, 10.0, 100.0, 1000.0]
    # The median of 1, 1.1, ..., 1.5 s is 1.25 s; in each cell the median round counts.
    assert fans_line.y == pytest.approx([0.8, 8.0, 80.0, 800.0])
    own = next(line for line in second.lines if line.name == "FANS")
    assert own.x == pytest.approx([0.625, 1.25])
    assert own.y == pytest.approx([65.0, 70.0])
    assert own.labels == ["effort low", "as in Table 1"]
    assert found.tables[0].entries["LIME", "CIFAR10", "images in 100 s"].value == pytest.approx(40.0)
