"""What a table's records say of the paper's claims: a verdict is that of the numbers, and changes with them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fans.cli import main
from fans.errors import InputError
from fans.report.sections import Claim
from fans.runs import Cell, Result, Run
from fans.studies import Asked, load
from fans.studies import results as results_of

SMALL = """
extends: table1
datasets:
  mnist: {label: MNIST, model: mnist, n: 6, shard: 6, n_background: 40, tuning: [200, 203]}
  fashion_mnist: {label: Fashion-MNIST, model: fashion_mnist, n: 6, shard: 6, n_background: 40, tuning: [200, 203]}
columns:
  - {name: MS, metric: max_sensitivity, paper: MS}
  - {name: SPA, metric: sparseness, paper: SPA}
claims:
  - {says: FANS is first., source: Table 1, kind: first, column: SPA, by: {mnist: 0.65}, beside: ["FANS, preset paper"]}
  - {says: It is second in MS., source: Table 1, kind: second, column: MS, datasets: [mnist]}
  - {says: It is near., source: Table 1, kind: near, column: SPA, within: 0.25}
  - {says: It is 0., source: Table 1, kind: equals, column: MS}
  - {says: It alone is 0., source: Table 1, kind: only, column: MS}
  - {says: It beats gradients., source: Table 1, kind: first, column: SPA, among: [gradients]}
  - {says: Of a column that is not here., source: Table 1, kind: first, column: IR}
"""
ROWS = ["IG", "LIME", "random (control)", "FANS", "FANS, preset paper"]

Values = Mapping[tuple[str, ...], float]
"""The mean of a row in a column, on one dataset or on all."""

USUAL: Values = {
    **{("FANS", "SPA"): 0.9, ("IG", "SPA"): 0.6, ("LIME", "SPA"): 0.8, ("random (control)", "SPA"): 0.99},
    **{("FANS", "MS"): 0.2, ("IG", "MS"): 0.3, ("LIME", "MS"): 0.1, ("random (control)", "MS"): 0.0},
    **{("FANS, preset paper", "SPA"): 0.95, ("FANS, preset paper", "MS"): 0.05},
}


def found(folder: Path, values: Values, n: int | None = None, only: list[str] | None = None) -> dict[str, Claim]:
    """The claims of a run whose records have these means, by what they say."""
    folder.mkdir()
    file = folder / "small.yaml"
    file.write_text(SMALL)

    def do(cell: Cell) -> Result:
        row, wiggle = cell.spec["method"], np.linspace(-0.01, 0.01, len(cell.inputs))
        columns = [c["name"] for c in cell.spec["columns"]]
        means = {c: values.get((row, c, cell.spec["dataset"]), values.get((row, c), 0.5)) for c in columns}
        return Result({"scores": {c: list(m + (wiggle if m else 0 * wiggle)) for c, m in means.items()}})

    run = results_of.start(load(file), folder / "run", Asked(n=n, only=only, rows=ROWS), dry=True)
    made = Run.create(folder / "run", run.plan, run.cells)
    made.work(do)
    section = type(load(file)).section(results_of.opened(folder / "run"))
    assert section is not None
    return {claim.says: claim for claim in section.claims}


def test_claims_are_judged_by_the_records(tmp_path):
    claims = found(tmp_path / "a", USUAL)
    assert "Of a column that is not here." not in claims
    first = claims["FANS is first."]
    assert first.held is True  # controls that know nothing, and rows of our own, do not count
    assert first.found == (
        "MNIST (N = 6): 0.900, ahead of LIME (0.800) by 0.100 [0.100, 0.100], 12.50 % (the paper: ahead by 0.65 %); "
        "Fashion-MNIST (N = 6): 0.900, ahead of LIME (0.800) by 0.100 [0.100, 0.100]; "
        "FANS, preset paper has 0.950 on MNIST and 0.950 on Fashion-MNIST"
    )
    second = claims["It is second in MS."]
    assert second.held is True
    assert "behind LIME (0.100) by 0.100" in second.found
    assert "and ahead of IG (0.300) by 0.100" in second.found
    assert claims["It is near."].held is True
    assert claims["It is 0."].held is False
    assert claims["It beats gradients."].held is True
    assert "ahead of IG" in claims["It beats gradients."].found


@pytest.mark.parametrize(
    ("says", "changes", "held"),
    [
        ("FANS is first.", {("LIME", "SPA"): 0.95}, False),
        ("FANS is first.", {("LIME", "SPA"): 0.9}, False),  # level with it on every input is not ahead
        ("FANS is first.", {("LIME", "SPA", "mnist"): 0.95}, False),  # what fails on one dataset fails
        ("It beats gradients.", {("LIME", "SPA"): 0.95}, True),
        ("It is near.", {("LIME", "SPA"): 0.99}, True),
        ("It is near.", {("FANS", "SPA"): 0.4}, False),
        ("It is second in MS.", {("LIME", "MS"): 0.25}, False),
        ("It is second in MS.", {("IG", "MS"): 0.15}, False),
        ("It is 0.", {("FANS", "MS"): 0.0}, True),
        ("It alone is 0.", {("FANS", "MS"): 0.0}, True),
        ("It alone is 0.", {("FANS", "MS"): 0.0, ("LIME", "MS"): 0.0}, False),
        ("It alone is 0.", {("FANS", "MS"): 0.0, ("LIME", "MS", "mnist"): 0.0}, True),  # not on all datasets
    ],
)
def test_a_changed_record_changes_the_verdict(tmp_path, says, changes, held):
    claims = found(tmp_path / "a", {**USUAL, **changes})
    assert claims[says].held is held, claims[says].found


def test_a_lead_that_is_not_certain_settles_nothing(tmp_path):
    folder = tmp_path / "a"
    found(folder, USUAL)
    path = folder / "run" / "records.jsonl"
    run = Run.open(folder / "run")
    records = {record.facts["key"]: record for record in run.records()}
    changed = b""
    for record in records.values():
        if record.spec["method"] == "LIME":
            scores = dict(record.values["scores"]) | {"SPA": [0.6, 1.1, 0.6, 1.1, 0.6, 1.1]}
            record = type(record)({**record.facts, "values": {**record.values, "scores": scores}}, record.circumstances)  # noqa: PLW2901
        changed += record.encode()
    path.write_bytes(changed)
    section = type(load("table1")).section(Run.open(folder / "run"))
    assert section is not None
    (claim,) = [c for c in section.claims if c.says == "FANS is first."]
    assert claim.held is None
    assert "ahead of LIME (0.850) by 0.0500 [-" in claim.found


def test_too_few_inputs_and_missing_datasets_settle_nothing(tmp_path):
    few = found(tmp_path / "few", USUAL, n=2)["FANS is first."]
    assert few.held is None
    assert "MNIST (N = 2): 0.900, ahead of LIME (0.800) by 0.100, 12.50 %" in few.found
    part = found(tmp_path / "part", USUAL, only=["mnist"])
    assert part["FANS is first."].held is None
    assert "nothing measured of Fashion-MNIST" in part["FANS is first."].found
    assert part["It is second in MS."].held is True
    fails = found(tmp_path / "fails", {**USUAL, ("LIME", "SPA"): 0.95}, only=["mnist"])
    assert fails["FANS is first."].held is False  # whatever the other dataset has


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("claims: [{says: x, source: y, kind: best, column: IR}]", r"'best'.* at `kind` of a claim in own\.yaml"),
        ("claims: [{says: x, source: y, kind: first, column: IR, rows: []}]", r"an entry of claim in own\.yaml"),
        ("claims: [{says: x, source: y, kind: first}]", r"a complete claim in own\.yaml"),
        ("quick: {columns: IR}", r"`columns` of a quick in own\.yaml"),
        ("full: {mnist: many}", r"`full.*of an experiment in own\.yaml"),
    ],
)
def test_what_is_no_claim_or_size_is_refused(tmp_path, entry, problem):
    file = tmp_path / "own.yaml"
    file.write_text(f"extends: table1\n{entry}\n")
    with pytest.raises(InputError, match=problem):
        load(file)


def test_a_plan_without_claims_is_reported(tmp_path, capsys):
    """As those that were stored before there were any."""
    found(tmp_path / "a", USUAL)
    path = tmp_path / "a" / "run" / "plan.json"
    stored: dict[str, Any] = json.loads(path.read_text())
    for name in ("claims", "sizes"):
        del stored["plan"]["about"][name]
    path.write_text(json.dumps(stored))
    assert main(["report", str(tmp_path / "a" / "run")]) == 0
    assert "One page: " in capsys.readouterr().out
    page = (tmp_path / "a" / "run" / "report.html").read_text()
    assert 'id="claims"' not in page
    assert "fans run table1 --n 6" in page


@pytest.mark.parametrize(("name", "n"), [("table1", 6), ("table2", 5)])
def test_the_committed_tables_say_what_holds(name, n):
    section = type(load(name)).section(Run.open(Path(__file__).parents[2] / "results" / name))
    assert section is not None
    assert len(section.claims) == n
    assert all("N = " in claim.found and claim.source.startswith("Section 5.2.1") for claim in section.claims)
    assert "Processor" in section.facts
    verdicts = {claim.says: claim.verdict for claim in section.claims}
    if name == "table2":
        assert verdicts["For FID-, FANS achieves the optimal value, 0, on all three datasets."] == "holds here"


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_sizes(name):
    study = load(name)
    quick = study.price(study.plan(Asked(size="quick")))
    usual = study.price(study.plan(Asked()))
    assert {cell.kind[0] for cell in quick} == {d.name for d in study.datasets}
    assert max(len(cell.inputs) for cell in quick) <= 2
    assert sum(cell.cost for cell in quick) < sum(cell.cost for cell in usual) / 10
    assert "FANS" in {cell.kind[1] for cell in quick}
    only = study.plan(Asked(size="quick", n=3, rows=["FANS"], only=[study.datasets[0].name]))
    assert {tuple(spec["shard"]) for spec in only} == {(0, 3)}
    with pytest.raises(InputError, match="Expected --full or --tune, got both"):
        study.plan(Asked(size="full", tune=True))


def test_full_is_the_paper_s_number_of_inputs():
    cells = load("table1").cells(only=["mnist"], rows=["IG"], size="full")
    assert max(spec["shard"][1] for spec in cells) == 4000
    graphs = load("table2").cells(rows=["IG"], size="full")
    assert {spec["dataset"]: spec["shard"][1] for spec in graphs} == {"ba_community": 60, "citeseer": 50, "pubmed": 40}
