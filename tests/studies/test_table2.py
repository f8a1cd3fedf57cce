"""The graph experiment: its nodes, and its cells against the model on edited graphs."""

from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.cli import main
from fans.datasets import load_graph
from fans.modalities.graph.space import FittedEdges
from fans.networks import load as load_model
from fans.runs import Cell, Run
from fans.studies import graphs, load

pytest.importorskip("torch_geometric")
EXPERIMENT = load("table2")


def test_the_corners_come_first_and_the_second_community_is_for_choices():
    graph = load_graph("ba_community")
    nodes = graphs.nodes_in_order(graph)
    assert nodes[:60] == list(range(400, 700, 5))
    assert len(set(nodes)) == len(nodes) == 800
    dataset = EXPERIMENT.dataset("ba_community")
    chosen_on = [nodes[i] for part in ("development", "check") for i in dataset.positions(part)]
    assert min(chosen_on) >= 1000
    assert all(node % 5 == 0 for node in chosen_on)  # corners like those reported
    assert max(nodes[: dataset.positions("tuning").start]) < 700
    assert graph.motif is not None
    assert len({graph.motif[node] for node in chosen_on}) == len(chosen_on)  # each of a house of its own


def test_citations_are_test_nodes_with_edges_each_once():
    graph = load_graph("citeseer")
    nodes = graphs.nodes_in_order(graph)
    assert len(set(nodes)) == len(nodes) >= EXPERIMENT.dataset("citeseer").positions("check").stop
    assert graph.test_mask[nodes].all()
    assert set(nodes) <= set(graph.edge_index[1].tolist())
    assert nodes != sorted(nodes)


@pytest.mark.parametrize("row", ["Saliency", "random (control)"])
def test_a_cell_is_what_the_model_says_of_edited_graphs(row):
    """Scores on columns of `edge_index`; then edges weighed or deleted by hand, and the model on the whole graph."""
    (spec,) = EXPERIMENT.cells(3, only=["ba_community"], rows=[row])
    found = graphs.do(Cell(spec)).values["scores"]
    graph, model = load_graph("ba_community"), load_model("ba_community")[0]
    x, edges = graph.tensors()
    call = spec["call"]
    explainer = fans.Explainer(model, graph, method=call["method"], **call["settings"])
    with torch.no_grad():
        classes = model(x, edges).argmax(1)
    assert graph.motif is not None
    assert graph.truth is not None
    for i, node in enumerate((400, 405, 410)):
        ((task, rows, _),) = explainer.task.split([node])
        assert isinstance(task.space, FittedEdges)
        column = task.space.columns_of(torch.arange(len(rows)))[0].numpy()
        column = column[column >= 0]
        scores = explainer.heatmaps([node], [int(classes[node])])[0].reshape(-1)[: len(column)]
        mask = np.clip(scores, 0, None) / scores.max()
        top = np.argsort(-scores, kind="stable")[:12]

        def predicts(of_reach: Any, node: int = node, column: Any = column) -> int:
            weight = torch.ones(edges.shape[1])
            weight[torch.from_numpy(column)] = torch.from_numpy(of_reach).float()
            with torch.no_grad():
                return int(model(x, edges, weight)[node].argmax())

        hard = np.isin(np.arange(len(column)), top)
        before = int(classes[node])
        assert found["FID+"][i] == (predicts(1 - mask) != before)
        assert found["FID-"][i] == (predicts(mask) != before)
        assert found["FID+ 12"][i] == (predicts(1.0 - hard) != before)
        assert found["FID- 12"][i] == (predicts(1.0 * hard) != before)
        gaps = []
        for share in (0.05, 0.1, 0.2, 0.3, 0.5):
            highest = np.argsort(-scores, kind="stable")[: max(1, round(share * len(column)))]
            kept = np.isin(np.arange(len(column)), highest)
            gaps.append(float(predicts(1.0 - kept) != before) - float(predicts(1.0 * kept) != before))
        assert found["FID+ less FID-"][i] == pytest.approx(np.mean(gaps))
        house = graph.truth & (graph.motif[graph.edge_index] == graph.motif[node]).all(0)
        assert house.sum() == 12
        assert found["Recall@12"][i] == pytest.approx(house[column[top]].sum() / 12)
        ascending = np.sort(np.abs(scores))
        n = len(ascending)
        gini = ((2 * np.arange(1, n + 1) - n - 1) * ascending).sum() / (n * ascending.sum())
        assert found["SPA"][i] == pytest.approx(gini, abs=1e-6)


def test_what_is_explained_is_not_learned_from():
    """Neither the nodes of the table nor those of choices."""
    for name in ("ba_community", "citeseer"):
        dataset, subject = EXPERIMENT.dataset(name), graphs.subject(name, name)
        explained = {subject.nodes[i] for part in ("reported", "development", "check") for i in dataset.positions(part)}
        space: Any = subject.plain.task.space
        learned = set(space.learnable())
        assert len(learned) > 100
        assert not learned & explained
        assert learned <= set(np.flatnonzero(load_graph(name).train_mask).tolist())


def test_a_curve_of_no_column_is_refused(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("extends: table2\ncurves: [{title: t, x: x, columns: {5: FID+ 7 %}}]\n")
    with pytest.raises(fans.InputError, match=r"a column of a curve.*'FID\+ 7 %'"):
        load(file)


def test_a_run_of_nodes_goes_on_and_is_verified(tmp_path, capsys):
    command = [
        "run",
        "table2",
        "--only",
        "ba_community",
        "citeseer",
        "--out",
        str(tmp_path),
        "--rows",
        "random (control)",
    ]
    assert main([*command, "--n", "2", "--dry-run"]) == 0
    assert main([*command, "--n", "2"]) == 0
    records = {r.sha256 for r in Run.open(tmp_path).records()}
    written = (tmp_path / "records.jsonl").stat().st_mtime_ns
    assert main([*command, "--n", "2"]) == 0
    assert {r.sha256 for r in Run.open(tmp_path).records()} == records
    assert (tmp_path / "records.jsonl").stat().st_mtime_ns == written
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--verify", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("as recorded") == 2
    costs = {cell.key: cell.cost for cell in Run.open(tmp_path).cells}
    for record in Run.open(tmp_path).records():
        assert costs[record.facts["key"]] == pytest.approx(record.facts["evaluations"], rel=0.3)
        assert ("Recall@12" in record.values["scores"]) == (record.spec["dataset"] == "ba_community")
