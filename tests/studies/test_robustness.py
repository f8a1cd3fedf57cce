"""The curves of Max-Sensitivity: cells by hand, and claims that follow the records."""

from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from fans.cli import main
from fans.datasets import load_slice
from fans.engine.draws import noise, stream_keys
from fans.errors import InputError
from fans.report.sections import Section
from fans.runs import Cell, Result
from fans.studies import Asked, find_study, images, results
from fans.studies.robustness import MODEL, Robustness, _rank_correlation
from fans.studies.tuned import METHODS, RANDOM
from tests.studies.made import run_of, spread

STUDY = Robustness()


def test_it_is_found_by_name():
    assert isinstance(find_study("robustness"), Robustness)


def test_the_plan_has_the_model_and_every_method_at_its_tuned_settings():
    cells = STUDY.price(STUDY.plan(Asked()))
    assert len({cell.key for cell in cells}) == len(cells)
    of_mnist = [cell for cell in cells if cell.kind[0] == "mnist" and cell.inputs.start == 0]
    assert [cell.kind[1] for cell in of_mnist] == [MODEL, *[cell.kind[1] for cell in of_mnist[1:]]]
    assert {cell.kind[1] for cell in of_mnist} == {MODEL, *METHODS}
    assert all(cell.cost > 0 for cell in cells)
    ig = next(cell for cell in of_mnist if cell.kind[1] == "IG")
    assert ig.spec["call"]["settings"] == {"baseline": 0.0, "n_steps": 20, "output": "probability"}
    asked = [column["settings"]["radius"] for column in ig.spec["columns"] if column["metric"] == "max_sensitivity"]
    assert asked == [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0]
    assert all(column["limit"] is None for column in ig.spec["columns"])


def test_what_is_asked_for():
    few = STUDY.plan(Asked(n=3, only=["mnist"], rows=["IG"], size="quick"))
    assert [(spec["method"], spec["shard"]) for spec in few] == [
        *[(MODEL, [0, 2]), (MODEL, [2, 3])],
        *[("IG", [0, 2]), ("IG", [2, 3])],
    ]
    for asked, message in (
        (Asked(only=["mnits"]), "a dataset to be one of 'mnist', 'cifar10', got 'mnits'"),
        (Asked(rows=["IDG"]), "a row to be one of .*, got 'IDG'"),
        (Asked(tune=True), "--tune with a table"),
    ):
        with pytest.raises(InputError, match=message):
            STUDY.plan(asked)


def noisy(x: torch.Tensor, radius: float, n_draws: int) -> torch.Tensor:
    """Return copies `(B, draws, *input)` by the definition, from the draws of Max-Sensitivity."""
    keys = stream_keys(0, list(range(len(x))), "max_sensitivity")
    drawn = [noise(keys, torch.full((len(x),), d), x[0].numel(), -radius, radius) for d in range(n_draws)]
    return torch.stack([x + each.view_as(x) for each in drawn], 1)


@pytest.mark.usefixtures("bundled")
def test_a_cell_of_a_method_by_hand():
    """Of one that scores pixels by themselves."""
    (_, spec) = STUDY.plan(Asked(n=2, only=["mnist"], rows=["IG"], size="quick"))
    spec["call"] = {"method": "input_itself", "space": {"unit": "pixel"}, "settings": {}}
    found = STUDY.do(Cell(spec)).values["scores"]
    x = images.subject("mnist", "mnist", 500).images(0, 2)
    for radius in (0.1, 0.3, 1.0):
        copies = noisy(x, radius, 1)
        for i in range(2):
            own, other = (v.double() / v.abs().max() for v in (x[i], copies[i, 0]))
            moved = float((other - own).norm() / own.norm())
            assert found[f"MS r={radius:g}"][i] == pytest.approx(moved, rel=1e-5)


@pytest.mark.usefixtures("bundled")
def test_a_cell_of_the_model_by_hand():
    spec = STUDY.plan(Asked(n=3, only=["mnist"], rows=["IG"]))[0]
    assert spec["method"] == MODEL
    result = STUDY.do(Cell(spec))
    given = images.subject("mnist", "mnist", 500)
    x = given.images(0, 3)
    with torch.no_grad():
        clean = given.model(x).softmax(1)
        for radius in (0.3, 1.0):
            after = given.model(noisy(x, radius, 4).flatten(0, 1)).softmax(1).view(3, 4, -1)
            target = clean.argmax(1)
            changed = (after.argmax(2) != target[:, None]).double().mean(1)
            fall = (after[torch.arange(3), :, target] - clean[torch.arange(3), target][:, None]).abs().mean(1)
            assert result.values["scores"][f"changed r={radius:g}"] == changed.tolist()
            assert result.values["scores"][f"moved r={radius:g}"] == pytest.approx(fall.tolist(), abs=1e-6)
    assert STUDY.price([spec])[0].cost == result.evaluations - 3  # the images themselves: predicted, and asked about


@pytest.mark.usefixtures("bundled")
def test_a_run_is_reported_and_verified(tmp_path, capsys):
    folder = tmp_path / "run"
    rows = ["Saliency", RANDOM, "FANS"]
    assert main(["run", "robustness", "--quick", "--only", "mnist", "--rows", *rows, "--out", str(folder)]) == 0
    assert "MNIST: the model itself gives another class to" in capsys.readouterr().out
    assert (folder / "robustness.png").read_bytes().startswith(b"\x89PNG")
    assert "random (control)" not in (folder / "robustness.csv").read_text()  # 0, which a logarithm cannot show
    assert main(["report", str(folder), "--verify", "4"]) == 0
    assert capsys.readouterr().out.count("as recorded") == 4
    made = STUDY.section(results.opened(folder))
    assert made.charts[0].note.endswith("Not drawn, for it is 0 at every strength: random (control).")
    facts = made.facts
    assert facts["Command"] == "fans run robustness --quick --only mnist"
    assert facts["Inputs"] == "MNIST: 2"


# --- Claims ----------------------------------------------------------------------------------------------------------


def section(
    folder: Any, moves: dict[str, tuple[float, float]], datasets: Any = ("mnist", "cifar10"), n: int = 8
) -> Section:
    """Return the section of a run in which maps move so far at r = 0.1 and r = 1, and IROF is 70, of LIME 50."""
    cells = []
    for dataset in datasets:
        common = {"dataset": dataset, "shard": [0, n], "seed": 0}
        model = {name: spread(0.5, n) for name in ("changed r=0.1", "changed r=1", "moved r=0.1", "moved r=1")}
        spec = common | {"method": MODEL, "radii": [0.1, 1.0], "n_draws": 2}
        cells.append((spec, Result({"scores": model}, 5)))
        for method, (near, far) in moves.items():
            columns = [{"metric": "max_sensitivity", "settings": {"n_draws": 2}}]
            values = {"MS r=0.1": spread(near, n), "MS r=1": spread(far, n), "SPA": spread(0.5, n)}
            values["IR"] = spread(50.0 if method == "LIME" else 70.0, n)
            cells.append((common | {"method": method, "columns": columns}, Result({"scores": values}, 7)))
    return STUDY.section(run_of(STUDY, folder, cells))


def test_claims_follow_the_records(tmp_path):
    best = {"FANS": (0.2, 0.5), "IG": (0.4, 0.9), "LIME": (0.1, 0.2), RANDOM: (0.0, 0.0)}
    cases: list[tuple[dict[str, Any], bool | None]] = [
        (best, True),  # LIME is steadier, but explains worse; a random map knows nothing
        (best | {"IG": (0.1, 0.9)}, False),  # steadier where the noise is slight
        (best | {"IG": (0.2, 0.9)}, None),  # as steady there
        (best | {"IG": (0.4, 0.1)}, False),  # steadier over all
    ]
    for i, (moves, held) in enumerate(cases):
        found = section(tmp_path / str(i), moves)
        assert found.claims[1].held is held, moves
        assert found.claims[0].held is (moves["IG"] != (0.4, 0.1))
    one = section(tmp_path / "one", best, datasets=["mnist"])
    assert one.claims[1].held is None
    few = section(tmp_path / "few", best, n=2)
    assert [claim.held for claim in few.claims] == [None, None]
    alone = section(tmp_path / "alone", {"IG": (0.1, 0.2)})
    assert alone.claims[1].held is None
    assert alone.claims[1].found == "FANS or its rivals are not computed yet"


def test_what_is_found_is_what_is_stored(tmp_path):
    found = section(tmp_path / "run", {"FANS": (0.2, 0.5), "IG": (0.1, 0.9), "LIME": (0.1, 0.2)})
    said = found.claims[1].found
    assert "Up to r = 0.1 FANS (0.50) has a mean Max-Sensitivity of 0.200" in said
    assert "steadier: IG (0.50) -0.100 [-0.100, -0.100]" in said  # paired: 0.1 less 0.2 on every image
    assert "less steady: IG (0.50) +0.150" in said  # (0.1 + 0.9) / 2 less (0.2 + 0.5) / 2
    assert "LIME" not in said
    table = found.tables[0]
    assert table.entries["FANS", "MNIST", "MS, all r"].value == pytest.approx(0.35)
    assert table.entries["IG", "CIFAR10", "MS less FANS's"].value == pytest.approx(-0.1)
    lines = {line.name: line for line in found.charts[0].panels[0].lines}
    assert lines["FANS"].y == pytest.approx([0.2, 0.5])
    assert lines["FANS"].ours
    model = found.charts[0].panels[2].lines[0]
    assert model.y == pytest.approx([0.0, 0.5, 0.5])
    assert found.facts["Model rows"] == str(2 * (5 + 3 * 7))


def test_the_rank_correlation():
    one, other = np.random.default_rng(0).normal(size=(2, 9))
    assert _rank_correlation(one, other) == pytest.approx(scipy.stats.spearmanr(one, other).statistic)


def test_the_slice_is_the_beginning_of_the_test_images():
    assert load_slice("mnist", "test").labels[:5].tolist() == [7, 2, 1, 0, 4]
