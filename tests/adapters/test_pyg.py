"""`FANSExplainer` where PyTorch Geometric expects one of its own algorithms."""

from typing import Any

import numpy as np
import pytest
import torch

import fans
from tests.modalities.graph.test_space import Net, Pooled, edges_of, random_graph

explain = pytest.importorskip("torch_geometric.explain")
from torch_geometric.loader import DataLoader  # noqa: E402

from fans.adapters.pyg import FANSExplainer  # noqa: E402

FEW: dict[str, Any] = {"n_local": 9, "n_steps": 4}
GRAPH = random_graph(n=40, n_edges=60)
NODE = 7


def made(model, level="node", **asked):
    settings = {"explanation_type": "model", "edge_mask_type": "object", "algorithm": FANSExplainer(**FEW)} | asked
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": "raw"}
    return explain.Explainer(model, model_config=settings.pop("model_config", config), **settings)


def test_one_name_is_swapped():
    """The same call as with `GNNExplainer`, an explanation of the same form."""
    model = Net().eval()
    theirs = made(model, algorithm=explain.GNNExplainer(epochs=2))(GRAPH.x, GRAPH.edge_index, index=NODE)
    ours = made(model)(GRAPH.x, GRAPH.edge_index, index=NODE)
    assert ours.validate(raise_on_error=True)
    assert ours.available_explanations == theirs.available_explanations == ["edge_mask"]
    assert ours.edge_mask.shape == theirs.edge_mask.shape
    assert float(ours.edge_mask.min()) == 0
    assert float(ours.edge_mask.max()) == 1
    seen = {tuple(e) for e, m in zip(GRAPH.edge_index.T.tolist(), theirs.edge_mask, strict=True) if m > 0}
    for (u, v), share in zip(GRAPH.edge_index.T.tolist(), ours.edge_mask.tolist(), strict=True):
        assert share == 0 or (u, v) in seen or (v, u) in seen  # nothing lies beyond the model's reach
    assert ours.get_explanation_subgraph().edge_index.shape[1] == int((ours.edge_mask > 0).sum())


def test_the_mask_is_the_positive_part_of_the_scores():
    model = Net().eval()
    mask = made(model)(GRAPH.x, GRAPH.edge_index, index=NODE).edge_mask
    explanation = fans.Explainer(model, GRAPH, **FEW)(NODE)
    edges = edges_of(explanation)
    values = {tuple(e): max(v, 0.0) for e, v in zip(edges.tolist(), explanation.heatmap[0], strict=True)}
    largest = max(values.values())
    expected = [values.get(tuple(e), 0.0) / largest for e in GRAPH.edge_index.T.tolist()]
    assert mask.numpy() == pytest.approx(np.array(expected), abs=1e-6)


def test_several_nodes_and_all_of_them():
    model = Net().eval()
    one, other = (made(model)(GRAPH.x, GRAPH.edge_index, index=n).edge_mask for n in (3, NODE))
    both = made(model)(GRAPH.x, GRAPH.edge_index, index=torch.tensor([3, NODE])).edge_mask
    assert both.numpy() == pytest.approx(((one + other) / 2).numpy(), abs=1e-6)
    mask = torch.zeros(len(GRAPH.x), dtype=torch.bool)
    mask[[3, NODE]] = True
    assert torch.equal(made(model)(GRAPH.x, GRAPH.edge_index, index=mask).edge_mask, both)
    assert (made(model)(GRAPH.x, GRAPH.edge_index).edge_mask > 0).float().mean() > 0.5


def test_everything_found_comes_along_if_asked_for():
    found = made(Net().eval(), algorithm=FANSExplainer(full=True, **FEW))(GRAPH.x, GRAPH.edge_index, index=NODE)
    assert found.fans.nodes.tolist() == [NODE]
    assert 0 <= found.fans.pns[0] <= 1


def test_a_phenomenon_is_explained_for_its_label():
    model = Net().eval()
    label = torch.zeros(40, dtype=torch.long)
    explainer = made(model, explanation_type="phenomenon")
    mask = explainer(GRAPH.x, GRAPH.edge_index, target=label, index=NODE).edge_mask
    scores = fans.Explainer(model, GRAPH, **FEW).scores(NODE, 0)
    assert float(mask.max()) == 1
    assert (mask > 0).sum() == 2 * (scores > 0).sum()


def test_graphs_of_a_batch():
    model = Pooled().eval()
    graphs = [random_graph(n=8 + i, n_edges=9, seed=i) for i in range(3)]
    batch = next(iter(DataLoader(graphs, batch_size=3)))
    explainer = made(model, level="graph")
    third = explainer(batch.x, batch.edge_index, batch=batch.batch, index=2)
    assert third.validate(raise_on_error=True)
    of_third = batch.batch[batch.edge_index[0]] == 2
    assert (third.edge_mask[~of_third] == 0).all()
    assert float(third.edge_mask[of_third].max()) == 1
    alone = explainer(graphs[2].x, graphs[2].edge_index)
    assert alone.edge_mask.shape == (graphs[2].edge_index.shape[1],)
    together = explainer(batch.x, batch.edge_index, batch=batch.batch).edge_mask
    assert all((together[batch.batch[batch.edge_index[0]] == i] > 0).any() for i in range(3))


def test_its_metrics_take_the_explanation():
    model = Net().eval()
    explainer = made(model, threshold_config=("topk", 6))
    found = explainer(GRAPH.x, GRAPH.edge_index, index=NODE)
    plus, minus = explain.metric.fidelity(explainer, found)
    assert 0 <= minus <= 1
    assert 0 <= plus <= 1
    assert 0 <= explain.metric.unfaithfulness(explainer, found) <= 1


def test_regression():
    class Value(Net):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x, edge_index, edge_weight)[:, :1]

    config = {"mode": "regression", "task_level": "node", "return_type": "raw"}
    model = Value().eval()
    mask = made(model, model_config=config)(GRAPH.x, GRAPH.edge_index, index=NODE).edge_mask
    assert float(mask.max()) == 1
    found = made(model, model_config=config, algorithm=FANSExplainer(full=True, **FEW))
    assert found(GRAPH.x, GRAPH.edge_index, index=NODE).fans.kind == "output"
    binary = made(
        model, model_config=config | {"mode": "binary_classification"}, algorithm=FANSExplainer(full=True, **FEW)
    )
    logit = float(model(GRAPH.x, GRAPH.edge_index)[NODE, 0].detach())
    classes = binary(GRAPH.x, GRAPH.edge_index, index=NODE).fans
    assert classes.target.tolist() == [int(logit > 0)]
    assert classes.prediction[0] == pytest.approx(1 / (1 + np.exp(-abs(logit))), abs=1e-6)


@pytest.mark.parametrize(
    "asked", [{"node_mask_type": "attributes"}, {"edge_mask_type": None, "node_mask_type": "object"}]
)
def test_other_masks_are_refused(asked, caplog):
    with pytest.raises(ValueError, match="does not support the given explanation settings"):
        made(Net().eval(), **asked)
    assert "FANSExplainer: expected" in caplog.text


def test_arguments_it_cannot_hand_on_are_named():
    class Wants(Net):
        def forward(self, x, edge_index, edge_weight=None, pos=None):  # noqa: ARG002
            return super().forward(x, edge_index, edge_weight)

    with pytest.raises(fans.InputError, match="got pos"):
        made(Wants().eval())(GRAPH.x, GRAPH.edge_index, index=NODE, pos=torch.zeros(40, 2))
