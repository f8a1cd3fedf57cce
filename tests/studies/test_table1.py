"""The experiment's file, its cells, and what a run of a few cells comes to."""

import csv
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.cli import main
from fans.datasets import Images, load_slice
from fans.engine.settings import Settings
from fans.errors import FansError, InputError
from fans.explainer import Neighbourhood
from fans.methods.base import Method
from fans.methods.fans.subset import Selection
from fans.metrics import Case, Metric, metric
from fans.report.tables import Faithful
from fans.runs import Cell, Record, Result, Run
from fans.spaces import Image
from fans.studies import Asked, images, load, tables
from fans.studies import results as results_of
from fans.studies.base import refuse_mixed
from fans.studies.cells import identify

EXPERIMENT = load("table1")
MAIN = ("table1", "table2")
"""Tables of the paper; others are parts of these."""

OTHERS = {"output", "baseline", "space"}


@pytest.fixture
def slices(monkeypatch) -> Iterator[None]:
    """The bundled slices in place of the full datasets."""
    monkeypatch.setattr(images, "load_images", load_slice)
    monkeypatch.setattr(images, "check_data", lambda _: None)
    images.subject.cache_clear()
    yield
    images.subject.cache_clear()


# --- The file --------------------------------------------------------------------------------------------------------


def test_every_row_and_column_exists_and_takes_its_settings():
    for row in EXPERIMENT.rows:
        member: Any = Method.registry[row.method]
        known = {f.name for kind in (member, Settings, Neighbourhood, Selection) for f in fields(kind)} | OTHERS
        names = [d.name for d in EXPERIMENT.datasets]
        for call in [row.on(name) for name in names] + [c for name in names for c in row.candidates(name)]:
            assert set(call["settings"]) <= known, row.name
            if call["space"] is not None:
                Image(**call["space"])
            member(**{f.name: call["settings"][f.name] for f in fields(member) if f.name in call["settings"]})
    for column in EXPERIMENT.columns:
        for dataset in EXPERIMENT.datasets:
            metric(column.metric, **column.on(dataset.name)["settings"])


@pytest.mark.parametrize("experiment", [load(name) for name in MAIN], ids=MAIN)
def test_every_number_of_the_paper_has_its_row_and_column(experiment):
    rows, columns = {r.paper for r in experiment.rows}, {c.paper for c in experiment.columns}
    for dataset, table in experiment.paper.items():
        assert dataset in {d.name for d in experiment.datasets}
        assert set(table) <= rows
        assert all(set(line) <= columns for line in table.values())


def test_some_numbers_of_the_paper():
    assert len(EXPERIMENT.paper["mnist"]) == 11
    assert EXPERIMENT.paper["fashion_mnist"]["FANS"] == {"INF": 1.2e4, "IR": 63.1, "SPA": 0.630, "MS": 0.586}
    on_houses = load("table2").paper["ba_community"]
    assert on_houses["FANS"] == {"FID+": 0.7, "FID-": 0.0, "SPA": 0.9311, "Recall@12": 0.5819}


def test_rivals_are_searched_over_at_least_six_settings_on_images_not_reported():
    for row, dataset in itertools.product(EXPERIMENT.rows, EXPERIMENT.datasets):
        if row.search:
            tried = {json.dumps(call, sort_keys=True) for call in row.candidates(dataset.name)}
            assert len(tried) == len(row.candidates(dataset.name)) >= 6, row.name
        else:
            assert row.group in ("controls", "FANS")
    for dataset in EXPERIMENT.datasets:
        assert len(dataset.positions("reported", 4000)) == 4000  # the paper's full size


@pytest.mark.parametrize("name", MAIN)
def test_what_was_chosen_is_the_best_of_the_committed_search(name):
    folder = Path(__file__).parents[2] / "results" / f"{name}_tuning"
    found = results_of.choices(Run.open(folder)) if folder.is_dir() else {}
    for row in load(name).rows:
        by_dataset = found.get(row.name, {})
        assert not found or set(row.chosen) == set(by_dataset), row.name
        for dataset, chosen in row.chosen.items():
            assert chosen == by_dataset[dataset]["chosen"], (row.name, dataset)


def test_cells_cover_every_image_once():
    covered: dict[tuple[str, str, str], list[int]] = {}
    for spec in EXPERIMENT.cells():
        for column in spec["columns"]:
            covered.setdefault((spec["dataset"], spec["method"], column["name"]), []).extend(range(*spec["shard"]))
    for column in ("IR", "Insertion"):
        assert covered["mnist", "IG", column] == list(range(200))
        assert covered["cifar10", "FANS", column] == list(range(8))
        assert covered["cifar10", "FANS, preset paper", column] == list(range(2))
    assert len(covered) == 3 * len(EXPERIMENT.rows) * len(EXPERIMENT.columns)
    keys = [Cell(spec).key for spec in EXPERIMENT.cells()]
    assert len(set(keys)) == len(keys)


def test_dear_columns_are_asked_of_fewer_images():
    def asked(row: str, n: int) -> list[int]:
        found: list[int] = []
        for spec in EXPERIMENT.cells(n, only=["cifar10"], rows=[row]):
            start, stop = spec["shard"]
            for column in [c for c in spec["columns"] if c["name"] == "MS"]:
                found += range(start, stop if column["limit"] is None else column["limit"])
        return found

    assert asked("IG", 64) == list(range(16))
    assert asked("FANS, preset paper", 64) == [0, 1]
    assert asked("FANS, preset paper", 8) == []
    small, large = ({Cell(s).key for s in EXPERIMENT.cells(n, only=["mnist"])} for n in (200, 400))
    assert len(small - large) == 2  # the cells of the presets in which the share of MS ends


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("table1", [{"only": ["mnist", "fashion_mnist"]}, {"only": ["cifar10"], "n": 64}]),
        ("table2", [{}]),
    ],
)
def test_every_committed_record_is_one_of_the_experiment_s_cells(name, asked):
    """By the commands of docs/benchmarks.md; what joins a table later leaves the keys of what is done as they were."""
    experiment = load(name)
    cells = [Cell(spec | identify(spec)) for how in asked for spec in experiment.cells(**how)]
    folder = Path(__file__).parents[2] / "results" / name
    records = {json.loads(line)["facts"]["key"] for line in (folder / "records.jsonl").read_bytes().splitlines()}
    assert len(records) >= {"table1": 672, "table2": 253}[name]
    assert records <= {cell.key for cell in cells}
    refuse_mixed(cell.spec for cell in cells)


def test_columns_of_another_group_have_cells_of_their_own():
    cells = EXPERIMENT.cells(only=["mnist"], rows=["IG", "FANS"])
    names = [[column["name"] for column in spec["columns"]] for spec in cells]
    assert names[0] == names[1] == [c.name for c in EXPERIMENT.columns if not c.group]
    assert names[2] == names[3] == ["Insertion", "Deletion"]
    assert [spec["shard"][0] for spec in cells] == [start for start in (0, 50, 100, 150) for _ in range(4)]
    others = ({k: v for k, v in spec.items() if k != "columns"} for spec in cells)
    assert len({json.dumps(other, sort_keys=True) for other in others}) == 8


def test_a_cell_that_would_judge_nothing_is_left_out(tmp_path):
    own = tmp_path / "own.yaml"
    columns = "[{name: SPA, metric: sparseness}, {name: IR, metric: irof, group: late, at: {mnist: {limit: 0.25}}}]"
    own.write_text(f"extends: table1\ncolumns: {columns}\n")
    found = [(spec["shard"], len(spec["columns"])) for spec in load(own).cells(only=["mnist"], rows=["IG"])]
    assert found == [([0, 50], 1), ([0, 50], 1), ([50, 100], 1), ([100, 150], 1), ([150, 200], 1)]


def test_files_of_one_s_own(tmp_path):
    own = tmp_path / "mine.yaml"
    own.write_text("extends: table1\nrows:\n  - {name: Mine, method: random}\n")
    made = load(own)
    assert made.rows[-1].name == "Mine"
    old = {Cell(s).key for s in EXPERIMENT.cells()}
    assert old < {Cell(s).key for s in made.cells()}  # nothing done for the table is done again
    for text, message in (
        ("extends: table1\nrows:\n  - {name: IG, method: random}\n", "rows of different names in .*, got 'IG' twice"),
        ("extends: table1\nrows:\n  - {name: A, methods: random}\n", "an entry of row in mine.yaml .*got 'methods'"),
        ("extends: table9\n", "`extends` in mine.yaml to be one of 'table1'"),
        ("rows: [\n", "YAML in .*mine.yaml"),
        ("extends: table1\nrows:\n", "Expected `array`, got `null` at `rows` of an experiment in mine.yaml"),
        ("extends: table1\nimports: brightness\n", "Expected `array`, got `str` at `imports` of an experiment in mine"),
        ("extends: table1\nfaithful: 3\n", "Expected `object`, got `int` at `faithful` of an experiment in mine.yaml"),
        ("extends: table1\nfaithful: {column: IR, within: x}\n", "Expected `float`, got `str` at `within` of a faith"),
        ("extends: table1\nfaithful: {column: IR, within: -1}\n", "`within` of at least 0, got -1"),
        ("extends: table1\nnotes: [1]\n", r"Expected `str`, got `int` at `notes\[0\]` of an experiment in mine.yaml"),
        ("extends: table1\nseed: zero\n", "Expected `int`, got `str` at `seed` of an experiment in mine.yaml"),
        ("extends: table1\ninputs: image\n", "`inputs` of .*mine.yaml to be one of 'images', 'graphs', got 'image'"),
        (
            "extends: table1\nrows:\n  - {name: A, method: lime, limit: {mnist: all}}\n",
            "Expected `float`, got `str` at `limit.*` of a row in mine.yaml",
        ),
        ("extends: table1\nrows: [IG]\n", "a row in mine.yaml as a mapping, got 'IG'"),
        ("extends: table1\ntune_by: {name: x, metric: iroff}\n", "the metric of 'x' in .*did you mean 'irof'"),
        ("extends: table1\ntune_by: {name: x}\n", "a complete column in mine.yaml"),
        ("title: x\nseed: 0\ntitle: y\n", "YAML in .*, got 'title' twice in the entries from line 1 on"),
        ("a:\n  - {b: 1}\n  - {b: 1, b: 1}\n", "got 'b' twice in the entries from line 3 on"),
        ("title: x\n", "a complete experiment in mine.yaml"),
        ("- 1\n", "an experiment in .*mine.yaml, a mapping, got list"),
        ("extends: table1\nrows:\n  - {name: A, method: nope}\n", "the method of 'A' in .*got 'nope'"),
        ("extends: table1\nrows:\n  - {name: A, method: lime, settings: {alhpa: 1}}\n", "a setting of 'A' .*'alpha'"),
        ("extends: table1\nrows:\n  - {name: A, method: lime, limit: {cifar: 0.1}}\n", "a dataset of 'A' .*'cifar10'"),
        ("extends: table1\ncolumns:\n  - {name: A, metric: nope}\n", "the metric of 'A' in .*got 'nope'"),
        (
            "extends: table1\nimports: [nowhere_to_be_found]\n",
            "a module 'nowhere_to_be_found', which mine.yaml imports",
        ),
    ):
        own.write_text(text)
        with pytest.raises(InputError, match=message):
            load(own)
    with pytest.raises(InputError, match="an experiment's file, got none at"):
        load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"the experiment to be one of .*'table1'"):
        load("table7")
    assert tables() == ["table1", "table1_1000", "table2"]


# --- A cell ----------------------------------------------------------------------------------------------------------


def spec_of(row: str, shard: tuple[int, int] = (0, 3), **changes: Any) -> dict[str, Any]:
    specs = list(EXPERIMENT.cells(only=["fashion_mnist"], rows=[row]))
    return specs[0] | {"shard": list(shard), "n_background": 40} | changes


@pytest.mark.usefixtures("slices")
def test_a_cell_is_its_explainer_and_its_metrics():
    spec = spec_of("LIME", (2, 5))
    spec["columns"][-1]["limit"] = 4
    spec["columns"][-1]["settings"]["n_draws"] = 2
    found = images.do(Cell(spec))
    model, test = fans.networks.load("fashion_mnist")[0], load_slice("fashion_mnist", "test")
    x = test.tensor(slice(2, 5))
    target = model(x).argmax(1)
    explainer = fans.Explainer(
        model, load_slice("fashion_mnist", "train").tensor(slice(0, 40)), method="lime", **spec["call"]["settings"],
        space=None if spec["call"]["space"] is None else Image(**spec["call"]["space"]),
    )  # fmt: skip
    scores = torch.from_numpy(explainer.heatmaps(x, target.tolist(), [2, 3, 4]))
    parts = torch.from_numpy(explainer.on_elements(x, explainer.scores(x, target.tolist(), [2, 3, 4]), parts=True))
    case = Case(model, x, scores, target, [2, 3, 4], parts=parts)
    for column in spec["columns"][:-1]:
        expected = metric(column["metric"], **column["settings"])(case).tolist()
        assert found.values["scores"][column["name"]] == pytest.approx(expected, rel=1e-5), column["name"]
    assert len(found.values["scores"]["MS"]) == 2  # images 2 and 3
    assert found.evaluations > 3 * 500


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("row", ["random (control)", "IG", "KernelSHAP", "Occlusion", "FANS"])
def test_the_price_is_what_a_cell_spends(row):
    spec = spec_of(row)
    spec["columns"][-1]["settings"]["n_draws"] = 2
    spent = images.do(Cell(spec)).evaluations
    assert 0.75 * images.price(spec, first=False) <= spent <= 1.02 * images.price(spec, first=False)
    shared = images.price(spec) - images.price(spec, first=False)
    assert shared == 3 * (246 + 246 + 21)  # the image itself and its copies: published; patch and scale-free; formula


@pytest.mark.usefixtures("slices")
def test_a_record_does_not_depend_on_what_its_process_did_before():
    quick = {"n_steps": 2, "n_background": 4, "n_local": 3, "n_perturb": 2}
    paper = spec_of("FANS, preset paper")
    paper["call"] = paper["call"] | {"settings": {"preset": "paper"} | quick}
    for spec in (spec_of("GradShap"), paper):
        spec["columns"][-1]["settings"]["n_draws"] = 1
        images.subject.cache_clear()
        alone = images.do(Cell(spec))
        images.subject.cache_clear()
        images.do(Cell(spec_of("random (control)")))
        after, again = images.do(Cell(spec)), images.do(Cell(spec))
        assert after.values == alone.values == again.values
        assert after.evaluations == alone.evaluations == again.evaluations


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("integrated_gradients", {}),
        ("feature_ablation", {}),
        ("kernel_shap", {}),
        ("banzhaf", {"ridge": 0.0}),
        ("occlusion", {"window": 1}),
    ],
)
def test_what_adds_up_to_a_linear_model_has_no_infidelity_whatever_its_units(method, settings):
    """On units of several elements a coalition method's score is that of all of them: each has its share."""
    weights = torch.linspace(-1, 2, 3 * 64).view(1, 3, 8, 8)

    class Linear(torch.nn.Module):
        def forward(self, rows: Any) -> Any:
            z = (rows * weights).sum((1, 2, 3))
            return torch.stack([z, -z], 1)

    x = torch.ones(2, 3, 8, 8)  # where what an element adds is its slope as well
    space = Image("patch", patch=4)
    made = fans.Explainer(Linear(), x, space=space, baseline=0.0, output="raw", method=method, **settings)
    scores = made.scores(x)
    heat, parts = (torch.from_numpy(made.on_elements(x, scores, parts=p)) for p in (False, True))
    with torch.no_grad():
        out = Linear()(x)
    target = out.argmax(1)
    assert parts.sum((1, 2, 3)).numpy() == pytest.approx(out.max(1).values.numpy(), abs=1e-3)
    case = Case(Linear(), x, heat, target, [0, 1], parts=parts)
    gray = metric("infidelity", kind="patch", patch=8, n_repeats=3, low=-1e-6, high=1e-6)  # the whole image emptied
    assert gray(case).numpy() == pytest.approx(0.0, abs=1e-5)
    explanation = made(x)
    judged = fans.evaluate(explanation, {"i": gray}, explainer=made)
    assert judged["i"] == pytest.approx(0.0, abs=1e-5)


# --- A run -----------------------------------------------------------------------------------------------------------

SMALL = """
extends: table1
datasets:
  fashion_mnist: {label: Fashion-MNIST, model: fashion_mnist, n: 4, shard: 2, n_background: 40, tuning: [200, 203]}
columns:
  - {name: IR, metric: irof, settings: {of: predicted}, paper: IR, median: true}
  - {name: SPA, metric: sparseness, paper: SPA}
"""


def packed(folder: Path) -> dict[str, bytes]:
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    return {json.loads(line)["facts"]["key"]: line for line in lines}


@pytest.mark.usefixtures("slices")
def test_from_a_run_to_its_table_and_proof(tmp_path, capsys):
    file, folder = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(SMALL)
    rows = ["IG", "random (control)", "FANS"]
    assert main(["run", str(file), "--out", str(folder), "--rows", *rows, "--dry-run"]) == 0
    assert not folder.exists()
    assert main(["run", str(file), "--out", str(folder), "--rows", *rows]) == 0
    capsys.readouterr()
    assert main(["report", str(folder), str(folder), "--verify", "2"]) == 0
    out = capsys.readouterr().out
    assert out.count("as recorded") == 4
    assert out.count(f"Written to {folder}") == 2
    lines = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    records = Run.open(folder).records()
    assert len(records) == 6
    values = [v for r in records if r.spec["method"] == "IG" for v in r.values["scores"]["IR"]]
    (line,) = [e for e in lines if e["method"] == "IG" and e["metric"] == "IR" and e["statistic"] == "mean"]
    assert [float(line[k]) for k in ("value", "n", "paper")] == pytest.approx([np.mean(values), 4, 60.8])
    (middle,) = [e for e in lines if e["method"] == "IG" and e["statistic"] == "median"]
    assert float(middle["value"]) == pytest.approx(np.median(values))
    assert "| IG | " in (folder / "table.md").read_text()
    found = results_of.against(Run.open(folder), "FANS").entries["IG", "Fashion-MNIST", "SPA"]
    own, other = (
        [v for r in records if r.spec["method"] == name for v in r.values["scores"]["SPA"]] for name in ("FANS", "IG")
    )
    drawn = np.random.default_rng(0).integers(0, 4, (2000, 4))
    assert found.value == pytest.approx(np.mean(own) - np.mean(other))
    assert found.low == pytest.approx(np.quantile((np.array(own) - other)[drawn].mean(1), 0.025))
    assert main(["report", str(folder), "--against", "FANS"]) == 0
    assert "FANS less each other row" in capsys.readouterr().out
    assert main(["report", str(folder), "--against", "FAN"]) == 1
    assert "a row of the run to be one of 'IG', 'random (control)', 'FANS', got 'FAN'" in capsys.readouterr().err
    assert "Fashion-MNIST" in (folder / "report.html").read_text()
    assert main(["run", str(file), "--out", str(folder), "--rows", "Saliency"]) == 0
    assert len(Run.open(folder).records()) == 8
    capsys.readouterr()
    file.write_text(SMALL + "seed: 1\n")
    assert main(["run", str(file), "--out", str(folder), "--rows", "IG", "--n", "2"]) == 1
    wanted = (
        "one configuration of IG on fashion_mnist in a folder, got two: `seed` is 0 there and 1 here; choose another"
    )
    assert wanted in capsys.readouterr().err
    file.write_text(SMALL.replace("metric: irof, settings: {of: predicted}", "metric: irof, settings: {of: given}"))
    assert main(["run", str(file), "--out", str(folder)]) == 1
    assert 'got two: `columns.IR.settings.of` is "predicted" there and "given" here' in capsys.readouterr().err


@pytest.mark.usefixtures("slices")
def test_only_what_is_asked_for_is_done(tmp_path, capsys):
    file, folder = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(SMALL)
    begun = results_of.start(load(file), folder, Asked(rows=["IG", "Saliency"]))
    one = next(cell for cell in begun.cells if cell.kind[1] == "IG")
    begun.attempt(one, images.do)  # and then it was killed
    assert main(["run", str(file), "--out", str(folder), "--rows", "random (control)"]) == 0
    out = capsys.readouterr().out
    assert "all 2 cells are done" in out
    assert "3 of 6 cells are still to be done" in out
    done = {cell.key for cell in Run.open(folder).done()}
    assert {cell.kind[1] for cell in Run.open(folder).done()} == {"IG", "random (control)"}
    everything = results_of.start(load(file), folder)  # more than is there, by the plain command
    assert done < {cell.key for cell in everything.cells}
    assert len(everything.cells) == 2 * len(EXPERIMENT.rows) == len(Run.open(folder).cells)
    fewer = results_of.start(load(file), folder, Asked(rows=["IG"]))  # less than is there
    assert (len(fewer.cells), len(fewer.left())) == (2, 1)
    assert len(Run.open(folder).cells) == len(everything.cells)


@pytest.mark.usefixtures("slices")
def test_a_report_says_where_a_trivial_control_is_best(tmp_path, capsys):
    values = {"IG": (70.0, 0.4), "Saliency": (60.0, 0.1), "all equal (control)": (40.0, 0.0)}
    file, folder = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(SMALL.replace("{name: SPA, metric: sparseness, paper: SPA}", "{name: MS, metric: max_sensitivity}"))

    def do(cell: Cell) -> Result:
        right, steady = values[cell.spec["method"]]
        return Result({"scores": {"IR": [right, right], "MS": [steady, steady]}})

    results_of.start(load(file), folder, Asked(rows=list(values))).work(do)
    assert main(["report", str(folder)]) == 0
    told = (
        "On Fashion-MNIST no row beats all equal (control) in MS; there only rows count whose IR is within 3 of the "
        "best row's."
    )
    assert told in capsys.readouterr().out.splitlines()
    assert f"- {told}" in (folder / "table.md").read_text().splitlines()
    assert told.partition(";")[0] in (folder / "report.html").read_text()
    lines = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    places = {(e["metric"], e["method"]): e["place"] for e in lines if e["statistic"] == "mean" and e["place"]}
    assert places == {("IR", "IG"): "1", ("IR", "Saliency"): "2", ("MS", "IG"): "1"}
    assert {e["won by"] for e in lines if e["metric"] == "MS"} == {"all equal (control)"}


def test_the_column_that_says_what_is_faithful_exists():
    with pytest.raises(InputError, match=r"the column of `faithful` in table1 to be one of .* got 'IRR'"):
        replace(EXPERIMENT, faithful=Faithful("IRR", 3.0))


LATER = SMALL + "  - {name: Insertion, metric: insertion, settings: {n_steps: 4}, group: curves}\n"


@pytest.mark.usefixtures("slices")
def test_a_column_that_joins_later_leaves_what_is_done(tmp_path, capsys):
    file, folder = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(SMALL)
    command = ["run", str(file), "--out", str(folder), "--rows", "IG", "all equal (control)"]
    assert main(command) == 0
    before = packed(folder)
    assert len(before) == 4
    file.write_text(LATER)
    capsys.readouterr()
    assert main([*command, "--dry-run"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("all "))
    assert line.split()[1:3] + line.split()[4:6] == ["8", "4", "4", "4"]  # cells, inputs, done, left
    run = results_of.start(load(file), folder, Asked(rows=["IG", "all equal (control)"]))
    cost = {cell.key: cell.cost for cell in run.cells}
    assert sorted(cell.key for cell in run.done()) == sorted(before)
    assert main([*command, "--n", "2"]) == 0  # the first shard of two
    assert main(command) == 0
    after = packed(folder)
    assert len(after) == 8
    assert {name: after[name] for name in before} == before
    found = Run.open(folder)
    assert {tuple(record.values["scores"]) for record in found.records()} == {("IR", "SPA"), ("Insertion",)}
    spent = {r.facts["key"]: r.facts["evaluations"] for r in found.records() if "Insertion" in r.values["scores"]}
    assert all(0.8 * cost[key] <= n <= cost[key] for key, n in spent.items())
    table = results_of.tabulate(found)
    assert [table.entries["IG", "Fashion-MNIST", name].n for name in ("IR", "SPA", "Insertion")] == [4, 4, 4]
    assert table.entries["all equal (control)", "Fashion-MNIST", "SPA"].value == pytest.approx(0)
    assert len(list(results_of.verify(found, 8))) == 8
    assert ("FANS", "Fashion-MNIST", "Insertion") not in results_of.against(found, "IG").entries
    file.write_text(LATER + "seed: 1\n")
    assert main(command) == 1
    assert "one configuration of IG on fashion_mnist in a folder, got two: `seed` is 0" in capsys.readouterr().err
    file.write_text(LATER.replace("n_steps: 4", "n_steps: 5"))
    assert main(command) == 1
    assert "got two: `columns.Insertion.settings.n_steps` is 4 there and 5 here" in capsys.readouterr().err
    file.write_text(LATER.replace(", group: curves", ""))  # one mean would be of two kinds of cells
    assert main(command) == 1
    assert "got two: `columns.Insertion" in capsys.readouterr().err


@pytest.mark.usefixtures("slices")
def test_a_report_says_what_it_lacks(tmp_path, capsys, monkeypatch):
    file, folder = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(SMALL)
    run = results_of.start(load(file), folder, Asked(rows=["IG"]))
    run.work(images.do)
    path = folder / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"The record of {run.cells[-1].key} is damaged (not a whole record): fans run does it again" in out
    path.write_bytes(whole)

    def full(_self: Run, name: str, _content: bytes) -> None:
        raise FansError(f"no room for {name}")

    with monkeypatch.context() as patched:
        patched.setattr(Run, "publish", full)
        assert main(["report", str(folder)]) == 1
    told = capsys.readouterr()
    assert "Fashion-MNIST" in told.out  # what can be told is told
    assert told.err == "fans: no room for table.md\n"
    assert main(["report", str(path)]) == 1
    assert f"a run in {path}, got no plan.json there" in capsys.readouterr().err

    def gone(_cell: Cell) -> None:
        raise ModuleNotFoundError("No module named 'brightness'")

    monkeypatch.setattr(images, "do", gone)
    assert main(["report", str(folder), "--verify", "1"]) == 1
    assert "computed again, got ModuleNotFoundError: No module named 'brightness'; what made" in capsys.readouterr().err
    Run.create(tmp_path / "other", {"n": 1}, [Cell({"i": 1})])
    assert main(["report", str(tmp_path / "other")]) == 1
    assert "the run of a study in" in capsys.readouterr().err


def test_what_a_run_needs_is_asked_for_before_it_begins(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FANS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["run", "table1", "--out", str(tmp_path / "run"), "--only", "mnist", "--rows", "IG"]) == 1
    assert "fans data mnist" in capsys.readouterr().err
    assert not list((tmp_path / "run" / "failures").iterdir())
    file, folder = tmp_path / "small.yaml", tmp_path / "own"
    file.write_text(SMALL.replace("model: fashion_mnist", f"model: {tmp_path / 'models'}/mine"))
    assert main(["run", str(file), "--out", str(folder), "--rows", "IG"]) == 1
    assert "a checkpoint called 'mine' in" in capsys.readouterr().err
    assert not folder.exists()
    assert main(["run", "table1", "--dry-run", "--workers", "0"]) == 1
    assert "`workers` as a whole number of at least 1, got 0" in capsys.readouterr().err
    assert main(["run", "table1", "--tune", "--rows", "FANS", "--dry-run"]) == 1
    assert "rows with values to search (`search`), got none" in capsys.readouterr().err
    assert main(["run", "table1", "--tune", "--n", "3", "--dry-run"]) == 1
    assert "--n or --tune, got both" in capsys.readouterr().err


@pytest.mark.usefixtures("slices")
def test_a_changed_value_is_found_out(tmp_path):
    file, folder = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(SMALL)
    run = results_of.start(load(file), folder, Asked(rows=["IG"]))
    run.work(images.do)
    stored = json.loads((folder / "records.jsonl").read_text().splitlines()[0])
    path = folder / "records" / f"{stored['facts']['key']}.json"
    cell = next(c for c in run.cells if c.key == stored["facts"]["key"])
    values = stored["facts"]["values"]["scores"]["IR"]
    true = list(values)

    def verify(by: float, **circumstances: str) -> list[str]:
        values[0] = true[0] + by
        path.write_bytes(Record(stored["facts"], stored["circumstances"] | circumstances).encode())
        assert cell.key in {c.key for c in Run.open(folder).done()}
        return [line for line in results_of.verify(Run.open(folder), 2) if line.startswith(cell.key)]

    assert verify(0) == [f"{cell.key}: as recorded"]
    assert verify(0, processor="an abacus") == [f"{cell.key}: as recorded"]
    with pytest.raises(FansError, match=rf"Expected the recorded values of {cell.key}, got others \(IR\)"):
        verify(0.01)
    shown = f"means {np.mean(true) + 0.01 / len(true):.4g} and {np.mean(true):.4g} (IR)"
    (line,) = verify(0.01, processor="an abacus")
    assert line == f"{cell.key}: within its error of a record made on another processor (an abacus): {shown}"
    with pytest.raises(FansError, match=r"got others \(IR: means .* and .*, on another processor\)"):
        verify(5 * len(true) * np.mean(true), processor="an abacus")
    stored["facts"]["evaluations"] += 1
    with pytest.raises(FansError, match=r"got others \(other model rows\)"):
        verify(0, processor="an abacus")
    with pytest.raises(InputError, match="finished cells to verify, got none"):
        next(results_of.verify(results_of.start(load(file), tmp_path / "other", Asked(rows=["IG"])), 1))


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ([1.0, 1.0], [1.0, 1.0], 0.0),
        ([10.0, 10.0], [10.5, 10.5], 0.5),  # a tenth of the mean is free
        ([0.0, 2.0], [0.0, 3.0], 0.25),  # or two standard errors, here 2
        ([-1.0, 1.0, np.nan], [-1.0, 2.0, np.nan], 0.25),
        ([1.0], [1.2], 2.0),
        ([1.0, np.nan], [1.0, 1.0], np.inf),
        ([1.0], [1.0, 1.0], np.inf),
    ],
)
def test_what_rounding_may_do(one, other, share):
    assert results_of._gap(one, other)[0] == pytest.approx(share)


@pytest.mark.usefixtures("slices")
def test_the_search_chooses_the_best(tmp_path, capsys):
    file, folder = tmp_path / "small.yaml", tmp_path / "tuning"
    file.write_text(SMALL)
    assert main(["run", str(file), "--out", str(folder), "--rows", "KernelSHAP", "--tune"]) == 0
    found = results_of.choices(Run.open(folder))["KernelSHAP"]["fashion_mnist"]
    by_call = {json.dumps(r.spec["call"]): np.mean(r.values["scores"]["IR share"]) for r in Run.open(folder).records()}
    best = json.loads(max(by_call, key=lambda c: by_call[c]))
    wanted = {name: best["settings"][name] for name in ("baseline", "output")}
    assert found["chosen"] == wanted | {"space": best["space"]}
    assert found["value"] == pytest.approx(max(by_call.values()))
    assert len(by_call) == 18
    assert json.dumps(found["chosen"]) in capsys.readouterr().out
    assert json.loads((folder / "choices.json").read_text())["KernelSHAP"]["fashion_mnist"]["chosen"] == found["chosen"]


# --- The lists -------------------------------------------------------------------------------------------------------


def test_the_lists_come_from_the_registries(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 60
    for name in (*Method.registry, *Metric.registry, "cifar10", "table1"):
        if Method.registry.get(name, Metric.registry.get(name, Images)).__module__.startswith("fans."):
            assert f"  {name} " in out, name
    assert "Settings" not in out
    assert main(["list", "metrics"]) == 0
    out = capsys.readouterr().out
    assert "lime" not in out
    assert "  irof             higher is better\n      Area over the curve" in out
    assert "      Settings: of='given', share=False\n      Rieger and Hansen" in out


def test_whoever_reads_may_stop():
    command = [sys.executable, "-c", "from fans.cli import main; raise SystemExit(main(['list']))"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_unknown_things_are_told_in_a_sentence(capsys, tmp_path):
    assert main(["run", "table7", "--out", str(tmp_path / "x")]) == 1
    assert "'table2', got 'table7'" in capsys.readouterr().err
    assert main(["run", "table1", "--rows", "IGG", "--dry-run"]) == 1
    assert "did you mean 'IG'?" in capsys.readouterr().err
    assert main(["run", "table1", "--n", "5001", "--dry-run"]) == 1
    assert "at most 5,000 inputs of mnist" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1
    assert "a run in" in capsys.readouterr().err
