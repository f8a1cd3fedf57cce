"""What graphs say of their edges and nodes besides which they are: the model hears it as from its user."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.modalities.graph.space import FittedEdges
from fans.spaces import GraphEdges, GraphFeatures

geometric = pytest.importorskip("torch_geometric")
from torch_geometric.data import Batch, Data, Dataset  # noqa: E402
from torch_geometric.nn import GAT, GCN, GCNConv, GINEConv, SAGEConv, global_add_pool  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fans.FansWarning")

NODES = [3, 7]


def graph(n: int = 30, seed: int = 0, **more: Any) -> Any:
    """A directed graph with parallel edges and none that run to themselves."""
    rng = np.random.default_rng(seed)
    edges = torch.from_numpy(rng.integers(0, n, (2, 3 * n)))
    edges = edges[:, edges[0] != edges[1]]
    made = Data(x=torch.from_numpy(rng.normal(size=(n, 5))).float(), edge_index=edges)
    for name, columns in more.items():
        shape = (edges.shape[1], *([columns] if columns else []))
        made[name] = torch.from_numpy(rng.uniform(0.1, 2.0, shape)).float()
    return made


def seeded(make: Any) -> Any:
    torch.manual_seed(0)
    return make().eval()


class Weighted(nn.Module):
    """Takes weights, and cannot do without."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.first, self.second = GCNConv(5, 8, **settings), GCNConv(8, 3, **settings)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        out: Tensor = self.second(torch.relu(self.first(x, edge_index, edge_weight)), edge_index, edge_weight)
        return out


class Attributed(nn.Module):
    """Takes attributes, which have no 0 that would be like no edge."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.first, self.second = (GINEConv(nn.Linear(a, b), edge_dim=columns) for a, b in ((5, 8), (8, 3)))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        out: Tensor = self.second(torch.relu(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)
        return out


class Plain(nn.Module):
    """Hears of no weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(5, 8), GCNConv(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.second(torch.relu(self.first(x, edge_index)), edge_index)
        return out


CASES: dict[str, tuple[Any, Any, dict[str, str]]] = {
    "weights": (Weighted, graph(edge_weight=0), {"edge_weight": "edge_weight"}),
    "a column as weights": (Weighted, graph(edge_attr=1), {"edge_weight": "edge_attr"}),
    "both names": (lambda: GCN(5, 8, 2, 3), graph(edge_weight=0), {"edge_weight": "edge_weight"}),
    "attributes beside weights": (
        lambda: GAT(5, 8, 2, 3, edge_dim=4),
        graph(edge_attr=4),
        {"edge_attr": "edge_attr"},
    ),
    "all of it": (
        lambda: GAT(5, 8, 2, 3, edge_dim=4),
        graph(edge_attr=4, edge_weight=0),
        {"edge_attr": "edge_attr", "edge_weight": "edge_weight"},
    ),
    "attributes nobody asks for": (lambda: GCN(5, 8, 2, 3), graph(edge_attr=4), {}),
    "one column": (lambda: Attributed(1), graph(edge_attr=1), {"edge_attr": "edge_attr"}),
    "several columns": (lambda: Attributed(3), graph(edge_attr=3), {"edge_attr": "edge_attr"}),
    "weights nobody asks for": (Plain, graph(edge_weight=0), {}),
}


def asked(model: Any, data: Any, told: dict[str, str], left: Any = slice(None)) -> Any:
    """Ask the model as its user would, with some edges left."""
    more = {name: data[of][left] for name, of in told.items()}
    more = {k: v.flatten() if k == "edge_weight" else v for k, v in more.items()}
    with torch.no_grad():
        return torch.softmax(model(data.x, data.edge_index[:, left], **more).double(), 1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("space", [GraphEdges(), GraphFeatures()], ids=["edges", "features"])
def test_the_model_is_told_what_its_user_tells_it(name, space):
    make, data, told = CASES[name]
    model = seeded(make)
    explainer = fans.Explainer(model, data, n_local=5, space=space)
    found = explainer(NODES)
    expected = asked(model, data, told)[NODES]
    assert found.prediction == pytest.approx(expected.max(1).values.numpy(), abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_removed_edge_is_none(name):
    """The largest subset's complement, and others, against the model on the edited graph."""
    make, data, told = CASES[name]
    model = seeded(make)
    explainer = fans.Explainer(model, data, n_local=5)
    for node in NODES:
        ((task, rows, _),) = explainer.task.split([node])
        assert isinstance(task.space, FittedEdges)
        columns = task.space.columns_of(torch.arange(1))[0]
        rng = np.random.default_rng(node)
        for _ in range(3):
            dropped = torch.from_numpy(rng.random(int((columns >= 0).sum())) < 0.4)
            row = rows.clone()
            row[0, : len(dropped)][dropped] = 0
            left = torch.ones(data.edge_index.shape[1], dtype=torch.bool)
            left[columns[: len(dropped)][dropped]] = False
            with task.predict.session():
                found = task.predict(row)[0]
            assert found.numpy() == pytest.approx(asked(model, data, told, left)[node].numpy(), abs=1e-5)


def test_weights_have_a_gradient():
    explainer = fans.Explainer(seeded(Weighted), graph(edge_weight=0), n_local=5, solver="chain")
    assert np.abs(explainer(NODES).scores).max() > 0


def test_layers_that_remember_edges_forget_them_and_have_them_back():
    data, model = graph(edge_weight=0), seeded(lambda: Weighted(cached=True))
    plain = fans.Explainer(seeded(Weighted), data, n_local=5)(NODES)
    expected = asked(model, data, {"edge_weight": "edge_weight"})
    kept = model.first._cached_edge_index
    assert kept is not None
    for method in ("fans", "gnn_explainer"):
        found = fans.Explainer(model, data, n_local=5, method=method)(NODES)
        assert found.prediction == pytest.approx(plain.prediction, abs=1e-6)
    assert model.first._cached_edge_index is kept
    assert model.first.cached is True
    assert torch.equal(asked(model, data, {"edge_weight": "edge_weight"}), expected)


def test_numbers_as_the_model_has_them():
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.atom, self.layer = nn.Embedding(4, 8), GCNConv(8, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = self.layer(self.atom(x), edge_index)
            return out

    data = graph()
    data.x = torch.arange(30) % 4
    model = seeded(Embedded)
    found = fans.Explainer(model, data, n_local=5)(NODES)
    assert found.prediction == pytest.approx(asked(model, data, {})[NODES].max(1).values.numpy(), abs=1e-5)
    data = graph()
    model = seeded(Plain).double()
    found = fans.Explainer(model, data, n_local=5)(NODES)
    data.x = data.x.double()
    assert found.prediction == pytest.approx(asked(model, data, {})[NODES].max(1).values.numpy(), abs=1e-9)


class Single(nn.Module):
    """One output: the logit of class 1."""

    def __init__(self, *after: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.after = GCNConv(5, 8), GCNConv(8, 1), nn.Sequential(*after)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        hidden = torch.relu(self.first(x, edge_index, edge_weight))
        out: Tensor = self.after(self.second(hidden, edge_index, edge_weight))
        return out


class Two(nn.Module):
    """The same logit as those of two classes."""

    def forward(self, logit: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(logit), logit], 1)


@pytest.mark.parametrize("method", ["gnn_explainer", "pg_explainer", "cf2", "nseg"])
@pytest.mark.parametrize("target", [0, 1])
def test_a_single_output_is_two_classes(method, target):
    more: dict[str, Any] = {"n_train": 4, "n_epochs": 2} if method == "pg_explainer" else {}
    more["task"] = "classification"
    scores = [
        fans.Explainer(seeded(lambda last=last: Single(*last)), graph(), method=method, **more).scores(NODES, target)
        for last in ([Two()], [], [nn.Sigmoid()])
    ]
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)
    assert scores[2] == pytest.approx(scores[0], abs=1e-3)
    other = fans.Explainer(seeded(Single), graph(), method=method, **more).scores(NODES, 1 - target)
    assert np.abs(other - scores[1]).max() > 0.01 or method == "pg_explainer"  # which takes the predicted ones


OF_CLASSES = ["gnn_explainer", "pg_explainer", "cf_gnn_explainer", "cf2", "nseg", "refine", "mixup_explainer"]


@pytest.mark.parametrize("method", OF_CLASSES)
def test_what_has_no_classes_is_refused(method):
    refused = f"a model of classes for method='{method}', got one output as it is; use method='fans'"
    with pytest.raises(fans.FansError, match=f"{refused}$"):
        fans.Explainer(seeded(Single), graph(), method=method, task="regression")
    with pytest.raises(fans.FansError, match=f'{refused}; pass task="classification" if the one output is the logit'):
        fans.Explainer(seeded(Single), graph(), method=method)


@pytest.mark.parametrize("method", ["meaningful_perturbation", "cimi"])
def test_images_that_have_no_classes_are_refused(method):
    images = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    model = seeded(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 1)))
    with pytest.raises(fans.FansError, match=f"a model of classes for method='{method}', got one output as it is; use"):
        fans.Explainer(model, images, method=method, task="regression")


# --- Several graphs --------------------------------------------------------------------------------------------------


class Pooled(nn.Module):
    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.layer, self.head = GCNConv(5, 8), nn.Linear(8, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        out: Tensor = self.head(global_add_pool(torch.relu(self.layer(x, edge_index)), batch))
        return out


class Some(Dataset):  # type: ignore[misc]
    def __init__(self, graphs: list[Any]) -> None:
        super().__init__()
        self.graphs = graphs

    def len(self) -> int:
        return len(self.graphs)

    def get(self, idx: int) -> Any:
        return self.graphs[idx]


def test_batches_and_datasets_are_their_graphs():
    graphs, model = [graph(8 + i, i) for i in range(6)], seeded(Pooled)
    explainer = fans.Explainer(model, graphs, n_local=5)
    expected = explainer(graphs[:3])
    assert len(expected) == 3
    for given in (Batch.from_data_list(graphs[:3]), Some(graphs)[:3], Some(graphs[:3])):
        found = explainer(given)
        assert found.scores == pytest.approx(expected.scores)
    for background in (Some(graphs), Batch.from_data_list(graphs)):
        assert fans.Explainer(model, background, n_local=5)(graphs[:3]).scores == pytest.approx(expected.scores)
    alone = fans.Explainer(seeded(Plain), Some([graph()]), n_local=5)(NODES)  # as Cora comes
    assert alone.scores == pytest.approx(fans.Explainer(seeded(Plain), graph(), n_local=5)(NODES).scores)


def test_graphs_that_say_less_than_the_first_are_refused():
    graphs = [graph(8, 0, edge_weight=0), graph(9, 1)]

    class Heavy(Pooled):
        def forward(self, x: Any, edge_index: Any, batch: Any = None, edge_weight: Any = None) -> Any:
            return self.head(global_add_pool(torch.relu(self.layer(x, edge_index, edge_weight)), batch))

    with pytest.raises(fans.InputError, match="graphs that all have `edge_weight`, as the first has, got one without"):
        fans.Explainer(seeded(Heavy), graphs)
