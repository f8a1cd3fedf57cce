"""Masks on edges: objectives against the model on the whole graph, planted truths, and company that does not matter."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.engine.settings import Settings
from fans.methods import gnn_explainer
from fans.methods.edge_masks import CF2, NSEG
from fans.methods.problem import Problem
from fans.spaces import GraphEdges
from tests.methods import blocks
from tests.modalities.graph.test_space import Net, Triangle, random_graph, undirected

geometric = pytest.importorskip("torch_geometric")

GRAPH, MODEL = random_graph(n=40, n_edges=60), Net().eval()
NODE = 7
MASKS = ("cf_gnn_explainer", "cf2", "nseg", "gnn_explainer")
COLUMNS = {tuple(e): i for i, e in enumerate(GRAPH.edge_index.T.tolist())}


def planted() -> Any:
    """A tree with one triangle, nodes 0, 1 and 2."""
    rng = np.random.default_rng(0)
    pairs = [(0, 1), (1, 2), (0, 2), *((int(rng.integers(0, i)), i) for i in range(3, 25))]
    graph = random_graph(n=25)
    graph.edge_index = undirected(pairs)
    return graph


@pytest.mark.parametrize("method", ["cf_gnn_explainer", "cf2", "nseg"])
def test_a_triangle_that_decides_is_found(method):
    settings: dict[str, Any] = {"cf2": {"rate": 0.05, "strength": 20.0}, "nseg": {"rate": 0.05, "alpha": 0.05}}.get(
        method, {}
    )
    settings |= {"n_steps": 200, "space": GraphEdges(hops=3), "max_batch": 16, "n_sweep": 1, "n_local": 49}
    found = fans.Explainer(Triangle(), planted(), method=method, **settings)([0])
    top = {found.name(0, f) for f in found.ranked(0).tolist()[:3]}
    assert top == {"0 - 1", "0 - 2", "1 - 2"}
    if method == "cf_gnn_explainer":  # what is deleted is enough to change the class, and nothing else is deleted
        deleted = {found.name(0, f) for f in np.flatnonzero(found.scores[0] > 0.5).tolist()}
        assert deleted
        assert deleted <= top


def ready(method: str, node: int = NODE, **settings: Any) -> tuple[Any, Problem, Any]:
    """A method, a node as it sees it, and the columns of `edge_index` of each of its features."""
    asked = fans.Explainer(MODEL, GRAPH, method=method, **settings)
    ((task, rows, _),) = asked.task.split([node])
    child = fans.Explainer(MODEL, GRAPH, method=method, **settings)
    child.task = task
    with task.predict.session():
        block = blocks.inputs_of(child, rows, alone=True).block(slice(0, 1)).block
    inputs = Problem.of(task, block, Settings())
    space: Any = task.space
    columns = space.columns_of(torch.arange(1))[0]
    of_feature = {f: columns[(inputs.units.of_element[0] == f) & (columns >= 0)] for f in range(space.n_features)}
    return asked.method, inputs, {f: c for f, c in of_feature.items() if len(c)}


def on_the_whole_graph(mask: Any, of_feature: Any) -> Any:
    """The node's probabilities with its edges weighed by a mask of features."""
    weight = torch.ones(GRAPH.edge_index.shape[1])
    for f, columns in of_feature.items():
        weight[columns] = float(mask[0, f])
    with torch.no_grad():
        return torch.softmax(MODEL(GRAPH.x, GRAPH.edge_index, weight)[NODE].double(), 0)


def test_the_objective_of_cf2_by_hand():
    method, inputs, of_feature = ready("cf2", alpha=0.7, gamma=0.4, strength=3.0)
    assert isinstance(method, CF2)
    mask = torch.from_numpy(np.random.default_rng(0).random((1, inputs.task.space.n_features))).float()
    kept, left = (on_the_whole_graph(m, of_feature) for m in (mask, 1 - mask))
    target = int(inputs.target[0])
    others = [k for k in range(3) if k != target]
    factual = max(0.0, 0.4 + float(kept[others].max() - kept[target]))
    counter = max(0.0, 0.4 + float(left[target] - left[others].max()))
    expected = sum(float(mask[0, f]) for f in of_feature) + 3.0 * (0.7 * factual + 0.3 * counter)
    assert float(method.objective(inputs, mask, 0)[0].detach()) == pytest.approx(expected, abs=1e-5)


def test_the_objective_of_nseg_by_hand():
    method, inputs, of_feature = ready("nseg", alpha=0.1, beta=0.3, noise=0.0)
    assert isinstance(method, NSEG)
    mask = torch.from_numpy(np.random.default_rng(1).random((1, inputs.task.space.n_features))).float()
    target = int(inputs.target[0])
    bound = on_the_whole_graph(mask, of_feature)[target] - on_the_whole_graph(1 - mask, of_feature)[target]
    weights = np.array([float(mask[0, f]) for f in of_feature])
    undecided = -(weights * np.log(weights) + (1 - weights) * np.log(1 - weights))
    expected = -float(bound) + 0.1 * weights.sum() + 0.3 * undecided.mean()
    assert float(method.objective(inputs, mask, 0)[0].detach()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_search_for_a_counterfactual_by_hand(momentum):
    """Step by step on the whole graph, with torch's own optimiser; of those met, the one that deletes the fewest."""
    n_met = 0
    for node in [n for n in range(40) if (GRAPH.edge_index[1] == n).any()][:10]:
        explainer = fans.Explainer(
            MODEL, GRAPH, method="cf_gnn_explainer", n_steps=40, rate=5.0, momentum=momentum, beta=0.3
        )
        found = explainer.scores([node])[0]
        _, _, of_feature = ready("cf_gnn_explainer", node)
        mask = torch.ones(len(of_feature), requires_grad=True)
        optimiser = torch.optim.SGD([mask], 5.0, momentum=momentum, nesterov=momentum > 0)
        with torch.no_grad():
            target = int(MODEL(GRAPH.x, GRAPH.edge_index)[node].argmax())

        def answer(weights, node=node, of_feature=of_feature):
            weight = torch.ones(GRAPH.edge_index.shape[1])
            for value, columns in zip(weights, of_feature.values(), strict=True):
                weight = weight.index_fill(0, columns, 0) + torch.zeros_like(weight).index_fill(0, columns, 1) * value
            return torch.softmax(MODEL(GRAPH.x, GRAPH.edge_index, weight)[node].double(), 0)

        best, least = None, np.inf
        for _ in range(40):
            soft = mask.sigmoid()
            hard = (soft >= 0.5).float()
            same = int(answer(hard.detach()).argmax()) == target
            loss = same * float(answer(soft)[target].log().detach()) + 0.3 * float((1 - hard.detach()).sum())
            if not same and loss < least:
                best, least = mask.detach().clone(), loss
            optimiser.zero_grad()
            (answer(soft)[target].log() * same).backward()
            torch.nn.utils.clip_grad_norm_([mask], 2.0)
            optimiser.step()
        n_met += best is not None
        expected = 1 - (mask.detach() if best is None else best).sigmoid()
        assert found[list(of_feature)] == pytest.approx(expected.numpy(), abs=1e-3)
    assert n_met >= 2


@pytest.mark.parametrize("method", MASKS)
def test_nodes_are_masked_alike_in_any_company(method):
    explainer = fans.Explainer(MODEL, GRAPH, method=method, n_steps=20)
    nodes = [n for n in range(40) if (GRAPH.edge_index[1] == n).any()][:8]
    together = explainer.scores(nodes)
    for i in (0, 3, 7):
        alone = explainer.scores([nodes[i]])[0]
        n = len(alone) - 1
        assert together[i, :n] == pytest.approx(alone[:n], abs=1e-4)
    assert np.isfinite(together).all()
    assert (together >= 0).all()


def test_gnn_explainer_is_pytorch_geometrics_on_the_whole_graph():
    """With no price on edges or entropy the rest of the graph plays no part, but for the random start."""
    explain = geometric.explain
    ours = fans.Explainer(MODEL, GRAPH, method="gnn_explainer", n_steps=400, size=0.0, entropy=0.0, rate=0.1)
    found = ours([NODE])
    assert found.edges is not None
    torch.manual_seed(0)
    theirs = explain.Explainer(
        MODEL,
        algorithm=explain.GNNExplainer(epochs=400, lr=0.1, edge_size=0.0, edge_ent=0.0),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )(GRAPH.x, GRAPH.edge_index, index=NODE)
    real = found.edges[0][:, 0] >= 0
    edges = [tuple(e) for e in found.edges[0][real].tolist()]
    mask = theirs.edge_mask.numpy()
    both = [(mask[COLUMNS[e]] + mask[COLUMNS[e[::-1]]]) / 2 for e in edges]
    assert np.corrcoef(both, found.heatmap[0][real])[0, 1] > 0.9


@pytest.mark.parametrize("method", MASKS)
def test_what_cannot_be_masked_is_refused(method):
    def constant(x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        return x[:, :2] + 0 * len(edge_index) + 0 * (edge_weight is None)

    with pytest.raises(fans.ModelError, match=f"for method='{method}'"):
        fans.Explainer(constant, GRAPH, method=method)


def test_masks_that_are_no_numbers_score_0_with_a_warning(monkeypatch):
    def broken(*_):
        return lambda _, edges, **__: SimpleNamespace(edge_mask=torch.full((edges.shape[1],), np.nan))

    monkeypatch.setattr(gnn_explainer, "wrapped", broken)
    with pytest.warns(fans.FansWarning, match="GNNExplainer's mask was not a number for 1 of 1 inputs"):
        scores = fans.Explainer(MODEL, GRAPH, method="gnn_explainer").scores([NODE])
    assert (scores == 0).all()
