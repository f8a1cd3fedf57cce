"""Score maps side by side: cells by hand, and claims that follow the records."""

from pathlib import Path

import numpy as np
import pytest

from fans.cli import main
from fans.report.sections import Section
from fans.runs import Cell, Result
from fans.studies import Asked, find_study, images, results
from fans.studies.heatmap import THEMSELVES, Heatmap, as_shares, unimportant
from fans.studies.tuned import METHODS, RANDOM
from tests.studies.made import run_of, spread

STUDY = Heatmap()


def test_it_is_found_by_name():
    assert isinstance(find_study("heatmap"), Heatmap)


def test_the_plan_pictures_the_first_five():
    cells = STUDY.price(STUDY.plan(Asked()))
    assert len({cell.key for cell in cells}) == len(cells) == 1 + 2 * len(METHODS)
    assert [cell.spec["pictured"] for cell in cells[: 2 + len(METHODS)]] == [[0, 1, 2, 3, 4]] * (1 + len(METHODS)) + [
        []
    ]
    assert cells[0].spec["method"] == THEMSELVES
    assert all(cell.cost > 0 for cell in cells)
    assert [spec["pictured"] for spec in STUDY.plan(Asked(n=2, rows=["IG"]))] == [[0, 1], [0, 1]]


def test_shares_by_hand():
    maps = np.array([[[[1.0, -4.0], [0.1, 0.0]]], [[[0.0, 0.0], [0.0, 0.0]]]])
    shares = as_shares(maps)
    assert shares.tolist() == [[[[0.25, -1.0], [0.025, 0.0]]], [[[0.0, 0.0], [0.0, 0.0]]]]
    assert unimportant(shares).tolist() == [0.5, 1.0]  # 0.025 and 0 are below a twentieth


@pytest.mark.usefixtures("bundled")
def test_cells_by_hand():
    themselves, spec = STUDY.plan(Asked(n=5, rows=["IG"]))
    spec["call"] = {"method": "input_itself", "space": {"unit": "pixel"}, "settings": {}}
    result = STUDY.do(Cell(spec))
    x = images.subject("mnist", "mnist", 500).images(0, 5).double().numpy()
    for i in range(5):
        scores = x[i, 0] / x[i].max()
        assert result.values["maps"][f"map {i}"] == pytest.approx(scores.ravel().tolist(), abs=6e-6)
        assert result.values["scores"]["unimportant"][i] == float((scores < 0.05).mean())
        ascending = np.sort(scores.ravel())
        gini = 1 - 2 * (ascending / ascending.sum() * (784 - np.arange(784) - 0.5) / 784).sum()
        assert result.values["scores"]["SPA"][i] == pytest.approx(gini, abs=1e-5)
    kept = STUDY.do(Cell(themselves)).values
    assert kept["maps"]["map 3"] == pytest.approx(x[3].ravel().tolist())
    assert kept["scores"]["label"] == [7, 2, 1, 0, 4]  # of five classes


@pytest.mark.usefixtures("bundled")
def test_a_run_is_reported_and_verified(tmp_path, capsys):
    folder = tmp_path / "run"
    command = ["run", "heatmap", "--quick", "--rows", "IG", "FANS", "--out", str(folder)]
    assert main(command) == 0
    assert "Heatmaps: what is marked" in capsys.readouterr().out
    assert main(["report", str(folder), "--verify", "3"]) == 0
    assert capsys.readouterr().out.count("as recorded") == 3
    section = STUDY.section(results.opened(folder))
    (gallery,) = section.galleries
    assert gallery.rows == ["a 7", "a 2", "a 1", "a 0", "a 4"]
    assert gallery.columns == ["FANS", "IG"]
    assert gallery.scores.shape == (5, 2, 28, 28)
    assert np.abs(gallery.scores).max((2, 3)) == pytest.approx(1.0)
    assert section.facts["Command"] == "fans run heatmap --quick"
    assert (folder / "heatmap.png").read_bytes().startswith(b"\x89PNG")


# --- Claims ----------------------------------------------------------------------------------------------------------


def section(folder: Path, sparse: dict[str, tuple[float, float]], n: int = 8, predicted: int = 7) -> Section:
    """Return the section of a run with such sparseness and such a share of unimportant pixels, of images of 28 x 28."""
    common = {"dataset": "mnist", "shard": [0, n], "seed": 0, "pictured": [0]}
    image = {"scores": {"label": [7], "predicted": [predicted]}, "maps": {"map 0": [0.0] * 784}}
    cells = [(common | {"method": THEMSELVES}, Result(image, 1))]
    for method, (gini, share) in sparse.items():
        scores = {"SPA": spread(gini, n), "unimportant": spread(share, n)}
        values = {"scores": scores, "maps": {"map 0": [0.0] * 783 + [1.0]}}
        cells.append((common | {"method": method, "call": {}}, Result(values, 10)))
    return STUDY.section(run_of(STUDY, folder, cells))


def test_claims_follow_the_records(tmp_path):
    best = {"FANS": (0.9, 0.9), "IG": (0.8, 0.8), "LIME": (0.5, 0.5), RANDOM: (0.95, 0.95)}
    cases = [
        (best, (True, True)),
        (best | {"LIME": (0.85, 0.5)}, (False, True)),  # sparser than IG
        (best | {"LIME": (0.8, 0.5)}, (None, True)),  # as sparse as IG
        (best | {"IG": (0.8, 0.95)}, (True, False)),
        (best | {"IG": (0.8, 0.9)}, (True, None)),
    ]
    for i, (sparse, held) in enumerate(cases):
        found = section(tmp_path / str(i), sparse)
        assert tuple(claim.held for claim in found.claims) == held
    assert "sparser: LIME +0.0500 [+0.0500, +0.0500]" in section(tmp_path / "1", cases[1][0]).claims[0].found
    few = section(tmp_path / "few", best, n=2)
    assert [claim.held for claim in few.claims] == [None, None]
    lacking = section(tmp_path / "lacking", {"LIME": (0.5, 0.5)})
    assert [claim.held for claim in lacking.claims] == [None, None]
    assert lacking.galleries[0].columns == ["LIME"]


def test_a_wrong_prediction_is_told(tmp_path):
    assert section(tmp_path, {"IG": (0.5, 0.5)}, predicted=1).galleries[0].rows == ["a 7, predicted 1"]
