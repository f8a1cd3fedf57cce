"""The ablation: which cells, what holds of the paper's claims, and that the full method is Table 2's row."""

import json
from pathlib import Path

import numpy as np
import pytest

from fans.errors import InputError
from fans.runs import Cell
from fans.studies import Asked, find_study, load, names
from fans.studies.ablation import Ablation
from tests.studies.made import made

AS_THE_PAPER = {None: (0.8, 0.0, 0.8), "SF": (0.75, 0.6, 0.8), "NC": (0.2, 0.0, 0.5), "SR": (0.5, 0.3, 0.8)}
"""FID+, FID- and SPA of each variant, as the paper tells them."""


def run_of(folder, levels=AS_THE_PAPER, n=30, **asked):
    """A run whose variants have these means, with a little noise that all share."""

    def values(spec):
        part = next((part for part in ("SF", "NC", "SR") if part in spec["method"]), None)
        noise = 0.01 * np.sin(np.arange(*spec["shard"]) + len(spec["method"]))
        by_metric = zip(("FID+", "FID-", "SPA"), levels[part], strict=True)
        return {"scores": {metric: (level + noise).tolist() for metric, level in by_metric}}

    return made(folder, Ablation(), Asked(n=n, **asked), values)


def held(run):
    return [claim.held for claim in Ablation.section(run).claims]


def test_it_is_found_by_its_name():
    assert "ablation" in names()
    assert isinstance(find_study("ablation"), Ablation)


def test_the_cells():
    specs = Ablation().plan(Asked())
    counts: dict[tuple[str, str], int] = {}
    for spec in specs:
        key = (spec["dataset"], spec["method"])
        counts[key] = counts.get(key, 0) + spec["shard"][1] - spec["shard"][0]
    assert counts["citeseer", "chain, without SR"] == 50
    assert counts["pubmed", "relaxation"] == 40
    assert len(counts) == 2 * 8
    settings = {spec["method"]: spec["call"]["settings"] for spec in specs}
    assert settings["chain"] == {}
    assert settings["relaxation, without NC"] == {"preset": "paper", "rate": 0.1, "n_steps": 30, "without": "NC"}
    assert {c["name"] for c in specs[0]["columns"]} == {"FID+", "FID-", "SPA"}
    some = Ablation().plan(Asked(n=3, only=["pubmed"], rows=["chain"]))
    assert [spec["shard"] for spec in some] == [[0, 3]]
    with pytest.raises(InputError, match=r"a variant to be one of .*, got 'chian'; did you mean"):
        Ablation().plan(Asked(rows=["chian"]))
    with pytest.raises(InputError, match=r"at most 500 inputs of citeseer"):
        Ablation().plan(Asked(n=501, only=["citeseer"]))


def test_the_paper_s_claims_hold_where_its_numbers_do(tmp_path):
    run = run_of(tmp_path / "run")
    assert held(run) == [True] * 8
    section = Ablation.section(run)
    assert "Citeseer: FID+ by -0.0" in section.claims[0].found
    assert "N = 30" in section.claims[0].found
    assert section.facts["Inputs"].startswith("Citeseer, chain: 30; Pubmed, chain: 30")
    assert section.facts["Command"] == "fans run ablation --n 30"


@pytest.mark.parametrize(
    ("part", "metric", "level", "falls"),
    [
        ("SF", 1, 0.0, [0]),  # keeps the class all the same
        ("SF", 0, 0.95, [0, 3]),  # better than the full method
        ("NC", 0, 0.8, [1]),
        ("NC", 1, 0.5, [1]),
        ("SR", 2, 0.3, [2]),
    ],
)
def test_a_claim_falls_with_its_numbers(tmp_path, part, metric, level, falls):
    changed = list(AS_THE_PAPER[part])
    changed[metric] = level
    found = held(run_of(tmp_path / "run", AS_THE_PAPER | {part: tuple(changed)}))
    assert [i for i in range(4) if found[i] is False] == falls


def test_few_nodes_settle_nothing(tmp_path):
    assert held(run_of(tmp_path / "run", n=4)) == [None] * 8


def test_what_is_not_there_is_not_told(tmp_path):
    section = Ablation.section(run_of(tmp_path / "run", only=["pubmed"], rows=["chain", "chain, without SF"]))
    assert [claim.held for claim in section.claims] == [True, None, None, None]
    assert "not yet measured" in section.claims[1].found


def test_the_figures_are_the_means_and_paired_differences(tmp_path):
    section = Ablation.section(run_of(tmp_path / "run"))
    levels, differences = section.charts
    assert len(levels.panels) == len(differences.panels) == 6
    (citeseer, pubmed) = levels.panels[0].lines
    assert (citeseer.name, pubmed.name) == ("Citeseer", "Pubmed")
    np.testing.assert_allclose(citeseer.y, [0.8, 0.75, 0.2, 0.5], atol=0.01)
    np.testing.assert_allclose(differences.panels[1].lines[0].y, [0.6, 0.0, 0.3], atol=0.01)
    assert levels.drawn("png").startswith(b"\x89PNG")


@pytest.mark.usefixtures("full_data")
def test_the_full_method_is_table_2_s_row():
    """The same nodes, settings and metrics: to the last digit what the table has on record."""
    packed = Path(__file__).parents[2] / "results" / "table2" / "records.jsonl"
    facts = [json.loads(line)["facts"] for line in packed.read_text().splitlines()]
    table = {(f["spec"]["method"], f["spec"]["dataset"], f["spec"]["shard"][0]): f["values"]["scores"] for f in facts}
    study = Ablation()
    (cell,) = study.price(study.plan(Asked(n=3, only=["citeseer"], rows=["chain"])))
    found = study.do(cell)
    for metric, values in found.values["scores"].items():
        np.testing.assert_allclose(values, table["FANS", "citeseer", 0][metric][:3], rtol=1e-5)
    assert abs(found.evaluations - cell.cost) < 0.2 * cell.cost


@pytest.mark.usefixtures("full_data")
def test_variants_differ_in_what_is_left_out():
    study = Ablation()
    cells = study.price(study.plan(Asked(n=2, only=["citeseer"], rows=["chain", "chain, without SF"])))
    full, without = (study.do(cell).values["scores"]["SPA"] for cell in cells)
    assert full != without


def test_its_nodes_are_the_reported_ones():
    """None of them served a choice."""
    table = load("table2")
    for spec in Ablation().plan(Asked(size="full")):
        assert Cell(spec).inputs.stop <= table.dataset(spec["dataset"]).tuning[0]
