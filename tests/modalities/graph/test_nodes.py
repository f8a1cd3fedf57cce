"""Nodes as features, and models that take a graph as one object."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans
from fans.engine.neighbourhood import Reference
from fans.errors import quiet
from fans.spaces import GraphEdges, GraphFeatures, GraphNodes
from tests.modalities.graph.test_space import Data, Net, Pooled, Unweighted, random_graph
from tests.oracles import exact_joint_pns

GATConv = pytest.importorskip("torch_geometric.nn").GATConv

FEW: dict[str, Any] = {"n_local": 9, "n_steps": 4}
GRAPH = random_graph(n=40, n_edges=60)
NODES = [7, 3, 11]


def test_a_missing_node_is_one_of_which_nothing_is_known():
    """The model on the whole graph with some nodes' columns at 0."""
    model = Net().eval()
    explainer = fans.Explainer(model, GRAPH, space=GraphNodes())
    rng = np.random.default_rng(0)
    for task, rows, at in explainer.task.split(NODES):
        for i, place in enumerate(at):
            gone = torch.from_numpy(rng.random(40) < 0.4)
            row = torch.where(gone, 0.0, rows[i])
            with torch.no_grad():
                known = torch.where(gone[:, None], 0.0, GRAPH.x)
                expected = torch.softmax(model(known, GRAPH.edge_index).double(), 1)[NODES[place]]
            assert task.predict(row[None], torch.tensor([i]))[0] == pytest.approx(expected, abs=1e-6)


def test_nodes_out_of_reach_are_absent_and_those_of_nothing():
    graph = Data(x=GRAPH.x.clone(), edge_index=GRAPH.edge_index)
    found = fans.Explainer(Net().eval(), graph, space=GraphNodes(), **FEW)(NODES)
    reach = torch.eye(40)
    adjacency = torch.eye(40)
    adjacency[GRAPH.edge_index[0], GRAPH.edge_index[1]] = 1
    for _ in range(2):
        reach = reach @ adjacency
    np.testing.assert_array_equal(found.present, reach[:, NODES].T.numpy() > 0)
    assert (found.scores[~found.present] == 0).all()
    graph.x[16] = 0
    without = fans.Explainer(Net().eval(), graph, space=GraphNodes(), **FEW)(NODES)
    assert not without.present[:, 16].any()


def test_pns_of_nodes_is_that_of_enumeration():
    """All ways to make nodes' columns 0, weighed by how near the copies are, as Definition 4 says."""
    pairs = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    graph = Data(x=torch.randn(5, 5, generator=torch.Generator().manual_seed(3)), edge_index=pairs)
    model = Net().eval()
    explainer = fans.Explainer(
        model, graph, space=GraphNodes(), estimator="exact", n_local=9, radius=0.5, tolerance=0.02, phi=0.3
    )
    ((task, rows, _),) = explainer.task.split(2)
    assert task.space.units(rows).present[0, :5].all()

    def f(masks: Any) -> Any:
        kept = torch.from_numpy(np.asarray(masks, dtype=np.float32))
        with torch.no_grad():
            said = [model(graph.x * mask[:, None], graph.edge_index)[2].double() for mask in kept]
        return torch.softmax(torch.stack(said), 1).numpy()

    with task.predict.session():
        pool, _ = Reference.around(task, rows, [2], 0, 0, 9, 0.0)
    samples, target = pool.samples()[0].double().numpy(), int(f(np.ones((1, 5)))[0].argmax())
    for subset in ([1, 0, 1, 0, 0], [0, 1, 1, 1, 0]):
        chosen = np.array(subset, dtype=bool)
        expected = exact_joint_pns(
            f, np.ones(5), chosen, samples, np.zeros(5), 0.5, 0.02, target=target, phi=0.3, std=np.ones(5)
        )
        with quiet():  # of few samples
            found = explainer.score(2, [f"node {k}" for k in np.flatnonzero(chosen)])
        for name in ("pns", "changes", "holds"):
            assert getattr(found, name)[0] == pytest.approx(expected[name], abs=1e-6), name


def test_what_is_shown_of_nodes(tmp_path):
    pytest.importorskip("matplotlib")
    names = [f"person {i}" for i in range(40)]
    explainer = fans.Explainer(Net().eval(), GRAPH, space=GraphNodes(node_names=names), **FEW)
    found = explainer(NODES)
    assert found.title(0) == "person 7"
    assert found.nodes is not None
    assert found.nodes.tolist() == NODES
    assert "nodes)" in found.sentences[0]
    assert "person" in found.sentences[0]
    assert found.plot() is not None
    near = set(GRAPH.edge_index[0][GRAPH.edge_index[1] == 7].tolist())
    assert found.value(0, 7) == "itself"
    assert {k for k in range(40) if found.value(0, k) == "1 hop away"} == near
    assert {found.value(0, k) for k in range(40)} == {"itself", "1 hop away", "2 hops away", "absent"}
    found.save(tmp_path / "found.safetensors")
    assert fans.load(tmp_path / "found.safetensors").value(0, min(near)) == "1 hop away"
    assert explainer.inputs_of(found).tolist() == NODES
    assert explainer.score(7, ["person 7"]).pns.shape == (1,)


# --- Models of whole graphs ------------------------------------------------------------------------------------------


class Whole(nn.Module):
    """A model that reads a graph's parts itself."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, data: Any) -> Any:
        return self.model(data.x, data.edge_index, **{name: getattr(data, name) for name in self.names})


@pytest.mark.parametrize("space", [GraphEdges, GraphFeatures, GraphNodes])
@pytest.mark.parametrize(
    ("model", "names"), [(Net(), ("edge_weight",)), (Net(), ()), (Unweighted(GATConv), ())], ids=["gcn", "-", "gat"]
)
def test_a_model_of_data_is_explained_as_one_of_parts(model, names, space):
    """The same figures as of the same layers called with `(x, edge_index)`."""
    bare = model.eval() if names or not isinstance(model, Net) else _without_weights(model.eval())
    plain = fans.Explainer(bare, GRAPH, space=space(), **FEW)(NODES)
    found = fans.Explainer(Whole(model, *names).eval(), GRAPH, space=space(), **FEW)(NODES)
    for field in ("scores", "subset", "pns", "prediction"):
        np.testing.assert_allclose(getattr(found, field), getattr(plain, field), atol=1e-6)
    function = fans.Explainer(lambda data: bare(data.x, data.edge_index), GRAPH, space=space(), **FEW)
    assert function.task.outputs.shape[1] == 3


def _without_weights(model: Any) -> nn.Module:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.model(x, edge_index)

    return Bare()


def test_weights_and_graphs_of_data():
    """Weights of edges are kept, and a batch of graphs is told apart."""
    graph = Data(x=GRAPH.x, edge_index=GRAPH.edge_index, edge_weight=torch.rand(GRAPH.edge_index.shape[1]))
    plain = fans.Explainer(Net().eval(), graph, **FEW).scores(NODES)
    assert fans.Explainer(Whole(Net(), "edge_weight").eval(), graph, **FEW).scores(NODES) == pytest.approx(plain)
    graphs = [random_graph(n=8 + i, n_edges=9, seed=i) for i in range(3)]
    pooled = fans.Explainer(Pooled().eval(), graphs, **FEW).scores(graphs)
    found = fans.Explainer(Whole(Pooled(), "edge_weight", "batch").eval(), graphs, **FEW).scores(graphs)
    assert found == pytest.approx(pooled)


def test_a_method_of_pyg_on_a_model_of_data():
    settings: dict[str, Any] = {"method": "gnn_explainer", "n_steps": 5}
    plain = fans.Explainer(Net().eval(), GRAPH, **settings).scores(NODES)
    found = fans.Explainer(Whole(Net(), "edge_weight").eval(), GRAPH, **settings).scores(NODES)
    assert found == pytest.approx(plain, abs=1e-5)


def test_a_model_that_reads_more_of_its_data_is_told_of():
    class Wants(Whole):
        def forward(self, data: Any) -> Any:
            return self.model(data.pos, data.edge_index)

    with pytest.raises(
        fans.ModelError, match="reads x, edge_index, edge_weight, edge_attr and batch of its graph, got"
    ):
        fans.Explainer(Wants(Net()).eval(), GRAPH)
