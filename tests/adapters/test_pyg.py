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


@pytest.mark.parametrize("asked", [{"node_mask_type": "attributes"}])
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


# --- Nodes and columns -----------------------------------------------------------------------------------------------


def shares(scores: Any) -> Any:
    return np.maximum(scores, 0) / np.maximum(scores, 0).max()


@pytest.mark.parametrize(("asked", "shape"), [("object", (40, 1)), ("common_attributes", (1, 5))])
def test_nodes_and_columns_are_masks_of_the_shape_that_theirs_have(asked, shape):
    """The positive part of our own scores of the nodes, or columns; of several outputs the mean."""
    model, space = Net().eval(), {"object": fans.spaces.GraphNodes, "common_attributes": fans.spaces.GraphFeatures}
    settings = {"edge_mask_type": None, "node_mask_type": asked}
    theirs = made(model, algorithm=explain.GNNExplainer(epochs=2), **settings)(GRAPH.x, GRAPH.edge_index, index=NODE)
    ours = made(model, **settings)(GRAPH.x, GRAPH.edge_index, index=NODE)
    assert ours.validate(raise_on_error=True)
    assert ours.available_explanations == theirs.available_explanations == ["node_mask"]
    assert ours.node_mask.shape == theirs.node_mask.shape == shape
    scores = fans.Explainer(model, GRAPH, space=space[asked](), **FEW).scores([NODE, 3])
    each = np.stack([shares(one) for one in scores])
    assert ours.node_mask.flatten().numpy() == pytest.approx(each[0], abs=1e-6)
    both = made(model, **settings)(GRAPH.x, GRAPH.edge_index, index=torch.tensor([NODE, 3]))
    assert both.node_mask.flatten().numpy() == pytest.approx(each.mean(0), abs=1e-6)


def test_edges_and_nodes_together():
    found = made(Net().eval(), node_mask_type="object", algorithm=FANSExplainer(full=True, **FEW))(
        GRAPH.x, GRAPH.edge_index, index=NODE
    )
    assert set(found.available_explanations) == {"node_mask", "edge_mask"}
    assert found.fans.modality == "graph"
    assert found.fans_nodes.modality == "nodes"
    kept = found.get_explanation_subgraph()
    assert kept.num_nodes == int((found.node_mask > 0).sum())
    assert found.fans_nodes.nodes.tolist() == [NODE]


def test_nodes_of_a_batch():
    model = Pooled().eval()
    graphs = [random_graph(n=8 + i, n_edges=9, seed=i) for i in range(3)]
    batch = next(iter(DataLoader(graphs, batch_size=3)))
    explainer = made(model, level="graph", edge_mask_type=None, node_mask_type="object")
    third = explainer(batch.x, batch.edge_index, batch=batch.batch, index=2)
    assert third.validate(raise_on_error=True)
    assert (third.node_mask[batch.batch != 2] == 0).all()
    scores = fans.Explainer(model, graphs, space=fans.spaces.GraphNodes(), **FEW).scores([graphs[2]])
    assert third.node_mask[batch.batch == 2, 0].numpy() == pytest.approx(shares(scores[0, :10]), abs=1e-6)


def test_nodes_go_by_their_names():
    names = [f"person {i}" for i in range(40)]
    algorithm = FANSExplainer(full=True, node_names=names, **FEW)
    found = made(Net().eval(), algorithm=algorithm, node_mask_type="object")(GRAPH.x, GRAPH.edge_index, index=NODE)
    assert found.fans.title(0) == found.fans_nodes.title(0) == "person 7"
    assert "person" in found.fans.chosen_names()[0]
    assert set(found.fans_nodes.chosen_names()) <= set(names)


# --- Links, and what is refused --------------------------------------------------------------------------------------


class Links(torch.nn.Module):
    """The products of what two nodes are."""

    def __init__(self, weighs: bool) -> None:
        super().__init__()
        self.net = Net().eval()
        self.forward = self.weighed if weighs else self.plain

    def plain(self, x: Any, edge_index: Any, edge_label_index: Any) -> Any:
        return self.weighed(x, edge_index, edge_label_index)

    def weighed(self, x: Any, edge_index: Any, edge_label_index: Any, edge_weight: Any = None) -> Any:
        known = self.net(x, edge_index, edge_weight)
        return (known[edge_label_index[0]] * known[edge_label_index[1]]).sum(1)


LINKS = torch.tensor([[3, 7, 11], [16, 5, 2]])
SMALL = random_graph(n=20, n_edges=24)
BINARY = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"}


@pytest.mark.parametrize("weighs", [True, False])
def test_links_are_explained_from_the_graph(weighs):
    """By ablation: an edge's score is how far the link's probability falls without it, as the model itself says."""
    model = Links(weighs).eval()
    algorithm = FANSExplainer(method="feature_ablation")
    explainer = made(model, model_config=BINARY, algorithm=algorithm)
    found = explainer(SMALL.x, SMALL.edge_index, edge_label_index=LINKS, index=1)
    assert found.validate(raise_on_error=True)
    with torch.no_grad():
        whole = torch.sigmoid(model(SMALL.x, SMALL.edge_index, LINKS)[1])
        falls = []
        for u, v in SMALL.edge_index.T.tolist():
            gone = ((SMALL.edge_index == torch.tensor([[u], [v]])).all(0)) | (
                (SMALL.edge_index == torch.tensor([[v], [u]])).all(0)
            )
            falls.append(whole - torch.sigmoid(model(SMALL.x, SMALL.edge_index[:, ~gone], LINKS)[1]))
    expected = torch.stack(falls) * (1 if whole > 0.5 else -1)
    assert found.edge_mask.numpy() == pytest.approx(shares(expected.numpy()), abs=1e-4)
    every = explainer(SMALL.x, SMALL.edge_index, edge_label_index=LINKS)
    each = [explainer(SMALL.x, SMALL.edge_index, edge_label_index=LINKS, index=k).edge_mask for k in range(3)]
    assert torch.allclose(every.edge_mask, torch.stack(each).mean(0), atol=1e-6)


def test_links_in_full_and_by_nodes():
    algorithm = FANSExplainer(full=True, **FEW)
    found = made(Links(True).eval(), model_config=BINARY, algorithm=algorithm, node_mask_type="object")(
        SMALL.x, SMALL.edge_index, edge_label_index=LINKS[:, :2]
    )
    assert len(found.fans) == len(found.fans_nodes) == 2
    assert found.node_mask.shape == (20, 1)


def test_links_of_a_model_that_does_not_take_them_are_refused():
    with pytest.raises(
        fans.InputError, match=r"Expected `edge_label_index`, .* wrap the model in a module with forward"
    ):
        made(Net().eval(), model_config=BINARY | {"mode": "multiclass_classification"})(GRAPH.x, GRAPH.edge_index)
    with pytest.raises(fans.InputError, match="Expected no edge_attr for task_level='edge'"):
        made(Links(True).eval(), model_config=BINARY).algorithm(
            Links(True), SMALL.x, SMALL.edge_index, target=torch.ones(3), edge_label_index=LINKS, edge_attr=SMALL.x
        )


def test_heterogeneous_graphs_are_refused_and_the_way_is_named():
    model = made(Net().eval()).algorithm
    with pytest.raises(fans.InputError, match=r"got a heterogeneous graph; .* data\.to_homogeneous\(\), with a model"):
        model.forward(Net(), {"paper": GRAPH.x}, {}, target=torch.zeros(40))
