"""Edges as features: what the space shows a model against the model on edited graphs, and PNS against enumeration."""

import dataclasses
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans
from fans.engine.neighbourhood import Reference
from fans.engine.perturbation import distinct
from fans.modalities.graph.space import FittedEdges
from fans.spaces import GraphEdges, GraphFeatures
from tests.oracles import exact_joint_pns, exact_pns

geometric = pytest.importorskip("torch_geometric")
Data = geometric.data.Data
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, SAGEConv, global_mean_pool  # noqa: E402


def undirected(pairs):
    return torch.tensor([[u, v] for a, b in pairs for u, v in ((a, b), (b, a))]).T


def random_graph(n=40, n_edges=60, seed=0, columns=5):
    rng = np.random.default_rng(seed)
    pairs = {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(n_edges)}
    return Data(x=torch.from_numpy(rng.normal(size=(n, columns))).float(), edge_index=undirected(sorted(pairs)))


def edges_of(explanation, i=0):
    assert explanation.edges is not None
    return explanation.edges[i]


def joined(space, rows):
    return space.edges_of(torch.arange(len(rows)))[0]


def kept(explanation, i=0):
    """Which elements of an input are edges."""
    return edges_of(explanation, i)[:, 0] >= 0


class Net(nn.Module):
    """Two layers of a kind that takes weights."""

    def __init__(self, kind=GCNConv, columns=5, layers=2, classes=3):
        super().__init__()
        torch.manual_seed(0)
        sizes = [columns, *([8] * (layers - 1)), classes]
        self.layers = nn.ModuleList(kind(a, b) for a, b in itertools.pairwise(sizes))
        self.relus = nn.ModuleList(nn.ReLU() for _ in sizes[2:])

    def forward(self, x, edge_index, edge_weight=None):
        for i, layer in enumerate(self.layers):
            x = layer(self.relus[i - 1](x) if i else x, edge_index, edge_weight)
        return x


class Unweighted(nn.Module):
    """Two layers of a kind that takes none."""

    def __init__(self, kind, columns=5):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = kind(columns, 8), kind(8, 3)

    def forward(self, x, edge_index):
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


def gin(a, b):
    return GINConv(nn.Linear(a, b))


MODELS = {
    "gcn": lambda: Net(GCNConv),
    "gcn, 3 layers": lambda: Net(GCNConv, layers=3),
    "graphconv": lambda: Net(GraphConv),
    "gat": lambda: Unweighted(GATConv),
    "sage": lambda: Unweighted(SAGEConv),
    "gin": lambda: Unweighted(gin),
    "gcn without weights": lambda: Unweighted(GCNConv),
}


def probabilities(model, graph, node, removed=()):
    """The model's answer on the whole graph with some edges, pairs of nodes in order, deleted."""
    start, end = graph.edge_index.tolist()
    kept = [i for i in range(len(start)) if (start[i], end[i]) not in removed]
    with torch.no_grad():
        return torch.softmax(model(graph.x, graph.edge_index[:, kept]).double(), 1)[node]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_an_edge_without_weight_is_an_edge_deleted(name, tied):
    model, graph = MODELS[name]().eval(), random_graph()
    explainer = fans.Explainer(model, graph, space=GraphEdges(tied=tied))
    rng = np.random.default_rng(1)
    nodes = [n for n in range(40) if (graph.edge_index[1] == n).any()]
    with explainer.task.predict.session():
        for task, rows, at in explainer.task.split(nodes):
            units, edges = task.space.units(rows), joined(task.space, rows)
            assert task.predict(rows) == pytest.approx(
                torch.stack([probabilities(model, graph, nodes[i]) for i in at]), abs=1e-6
            )
            for i, place in enumerate(at):
                n_features = int(units.present[i].sum())
                gone = torch.from_numpy(rng.random(task.space.n_features) < 0.4) & units.present[i]
                hit = units.spread(gone[None], torch.tensor([i]))[0]
                row = torch.where(hit, task.space.zero(rows[i : i + 1])[0], rows[i])
                removed = {(int(u), int(v)) for (u, v), h in zip(edges[i], hit, strict=True) if h and u >= 0}
                assert all(((v, u) in removed) == tied for u, v in removed if tied)
                expected = probabilities(model, graph, nodes[place], removed)
                assert task.predict(row[None], torch.tensor([i]))[0] == pytest.approx(expected, abs=1e-6)
                assert n_features <= task.space.n_own < task.space.n_features


@pytest.mark.parametrize(
    ("closeness", "phi", "enumeration"), [("input", 0.3, exact_joint_pns), ("input", 1, exact_joint_pns),
                                          ("subset", 0.3, exact_pns)]
)  # fmt: skip
def test_pns_of_six_edges_is_that_of_enumeration(closeness, phi, enumeration):
    pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 0)]
    graph = Data(x=torch.randn(5, 5, generator=torch.Generator().manual_seed(3)), edge_index=undirected(pairs))
    model = Net(GCNConv).eval()
    settings: dict[str, Any] = {"radius": 0.5, "tolerance": 0.02, "phi": phi, "closeness": closeness}
    explainer = fans.Explainer(model, graph, estimator="exact", n_local=9, **settings)
    ((task, rows, _),) = explainer.task.split(0)
    assert int(task.space.units(rows).present.sum()) == 6
    edges = joined(task.space, rows)[0]
    feature = task.space.units(rows).of_element[0]
    order = [next((int(u), int(v)) for (u, v), f in zip(edges, feature, strict=True) if f == k) for k in range(6)]

    def f(masks):
        gone = [[e for e, kept in zip(order, mask, strict=True) if not kept] for mask in masks]
        return np.stack([probabilities(model, graph, 0, {*g, *((v, u) for u, v in g)}).numpy() for g in gone])

    with task.predict.session():
        pool, _ = Reference.around(task, rows, [0], 0, 0, 9, 0.0)
    first = [int((feature == k).nonzero()[0, 0]) for k in range(6)]
    samples = pool.samples()[0][:, first].double().numpy()
    assert 0 < (samples == 0).mean() < 0.4
    target = int(f(np.ones((1, 6)))[0].argmax())
    for subset in ([1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1], [0, 0, 1, 1, 1, 0]):
        chosen = np.array(subset, dtype=bool)
        expected = enumeration(
            f, np.ones(6), chosen, samples, np.zeros(6), 0.5, 0.02, target=target, phi=phi, std=np.ones(6)
        )
        with warnings.catch_warnings():  # of few samples
            warnings.simplefilter("ignore", fans.FansWarning)
            found = explainer.score(0, [e for e, c in zip(order, chosen, strict=True) if c])
        for name in ("pns", "pn", "ps", "changes", "holds"):
            assert getattr(found, name)[0] == pytest.approx(expected[name], abs=1e-6, nan_ok=True), name


@pytest.mark.parametrize(("solver", "radius"), [("game", None), ("game", "paper"), ("chain", None)])
def test_nodes_are_explained_alike_in_any_company(solver, radius):
    model, graph = Net(GCNConv).eval(), random_graph(n=60, n_edges=110)
    explainer = fans.Explainer(model, graph, solver=solver, radius=radius, n_local=29, n_sweep=200)
    nodes = [n for n in range(60) if (graph.edge_index[1] == n).any()][:12]
    together = explainer(nodes)
    assert together.ids == tuple(nodes)
    assert len({task.space.n_features for task, *_ in explainer.task.split(nodes)}) > 1
    for i in (0, 5, 11):
        alone = explainer([nodes[i]])
        n = alone.scores.shape[1]
        assert together.scores[i, : n - 1] == pytest.approx(alone.scores[0, : n - 1], abs=1e-5)
        assert together.chosen_names(i) == alone.chosen_names()
        assert together.pns[i] == pytest.approx(alone.pns[0], abs=1e-6)
        assert together.radius[i] == alone.radius[0]
        assert edges_of(together, i)[kept(together, i)].tolist() == edges_of(alone)[kept(alone)].tolist()
        assert together.heatmap[i][kept(together, i)] == pytest.approx(alone.heatmap[0][kept(alone)], abs=1e-5)


def test_copies_that_come_out_the_same_are_asked_about_once(monkeypatch):
    model, graph = Net(GCNConv).eval(), random_graph()
    with monkeypatch.context() as context:
        context.setattr(FittedEdges, "repeats", False)
        each = fans.Explainer(model, graph)([3, 5])
    found = fans.Explainer(model, graph)([3, 5])
    assert (found.subset == each.subset).all()
    for name in ("scores", "stability", "interval", "pns", "changes", "holds"):
        assert getattr(found, name) == pytest.approx(getattr(each, name), abs=1e-6), name
    for phase in ("sweep", "strict"):
        assert (found.evaluations[phase] < 0.7 * each.evaluations[phase]).all()


def test_rows_are_told_apart_also_where_their_sums_are_equal(monkeypatch):
    rows = torch.tensor([[1.0, 0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]])
    first, which = distinct(rows)
    assert sorted(first.tolist()) == [0, 1, 3]
    assert torch.equal(rows[first][which], rows)
    monkeypatch.setattr("fans.engine.draws.uniform", lambda _, place: torch.ones_like(place, dtype=torch.float64))
    assert [part.tolist() for part in distinct(rows)] == [[0, 1, 2, 3]] * 2


class Triangle(nn.Module):
    """A rule: class 1 if the node is in a triangle."""

    def forward(self, x, edge_index, edge_weight=None):
        weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        n = len(x)
        adjacency = torch.zeros(n, n).index_put((edge_index[0], edge_index[1]), weight, accumulate=True)
        triangles = (adjacency @ adjacency @ adjacency).diagonal() / 2
        return torch.stack([torch.zeros(n), 8 * triangles - 4], 1)


class Stopping(nn.Module):
    """A network that is interrupted when it has seen so many nodes."""

    def __init__(self, model, most=np.inf):
        super().__init__()
        self.model, self.most, self.seen = model, most, 0

    def forward(self, x, edge_index, edge_weight=None):
        self.seen += len(x)
        if self.seen > self.most:
            self.most = np.inf
            raise KeyboardInterrupt
        return self.model(x, edge_index, edge_weight)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_an_interrupt_keeps_the_nodes_that_were_finished(share):
    graph = random_graph(n=60, n_edges=110)
    nodes = [n for n in range(60) if (graph.edge_index[1] == n).any()][:12]
    settings: dict[str, Any] = {"n_local": 29, "n_sweep": 100, "solver": "game", "max_batch": 64}
    counting = Stopping(Net(GCNConv).eval())
    explainer = fans.Explainer(counting, graph, **settings)
    before = counting.seen
    whole = explainer(nodes)
    n_nodes = counting.seen
    stopping = fans.Explainer(Stopping(Net(GCNConv).eval(), before + share * (n_nodes - before)), graph, **settings)
    with pytest.raises(fans.Interrupted, match=r"of 12 inputs; .* and explaining the others gives the rest") as caught:
        stopping(nodes)
    partial = caught.value.partial
    assert partial is not None
    assert 0 < len(partial) < 12
    assert f"after {len(partial)} of 12" in str(caught.value)
    rest = stopping([node for node in nodes if node not in partial.ids])
    for found in (partial, rest):
        at = [whole.ids.index(node) for node in found.ids]
        assert at == sorted(at)
        assert found.pns == pytest.approx(whole.pns[at], abs=1e-6)
        for i, j in enumerate(at):
            assert found.chosen_names(i) == whole.chosen_names(j)


def test_the_noise_rule_on_edges():
    """An output that is the sum of a node's weights: noise of 0.001 on each of d edges moves it by 0.001 sqrt(d)."""
    graph = random_graph(n=60, n_edges=110)

    class Sum(nn.Module):
        def forward(self, x, edge_index, edge_weight=None):
            weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
            return torch.zeros(len(x)).index_add(0, edge_index[1], weight)[:, None].expand(-1, 2) + 0

    settings: dict[str, Any] = {"n_local": 29, "n_sweep": 100, "solver": "game", "tolerance": "noise"}
    explainer = fans.Explainer(Sum(), graph, space=GraphEdges(hops=1), output="raw", **settings)
    nodes = [n for n in range(60) if (graph.edge_index[1] == n).any()][:12]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.FansWarning)
        found = explainer(nodes)
    assert np.ptp(found.tolerance) == 0
    # The largest of 16 draws for each of 16 nodes: of 256 normals it is 2.8 deviations, give or take a half.
    degrees = np.sort(np.bincount(graph.edge_index[1].numpy()))
    assert 1.5 * np.sqrt(degrees.mean()) < found.tolerance[0] / 0.001 < 4 * np.sqrt(degrees[-1])
    assert explainer.class_tolerance()[0] == found.tolerance[0]


def test_a_motif_that_decides_is_found():
    """A rule that reads one triangle: the class flips when an edge of it is gone."""
    graph = random_graph(n=30, n_edges=40, seed=2)
    extra = undirected([(0, 1), (1, 2), (0, 2)])
    graph.edge_index = torch.unique(torch.cat([graph.edge_index, extra], 1), dim=1)

    explanation = fans.Explainer(Triangle(), graph, space=GraphEdges(hops=3), n_local=19, max_batch=16)([0])
    assert set(explanation.chosen_names()) >= {"0 - 1", "0 - 2", "1 - 2"}
    top = [explanation.name(0, f) for f in explanation.ranked(0)[:3]]
    assert set(top) == {"0 - 1", "0 - 2", "1 - 2"}


@pytest.mark.parametrize(
    ("made", "once"), [(lambda: Net(GCNConv, 100), True), (lambda: Unweighted(SAGEConv, 100), False)]
)
def test_copies_of_wide_nodes_share_their_first_layer(made, once):
    """A linear layer sees each node once; a model that does anything else with them gets them all."""
    graph, model = random_graph(columns=100), made().eval()
    explainer = fans.Explainer(model, graph)
    nodes = [n for n in range(40) if (graph.edge_index[1] == n).any()][:6]
    with explainer.task.predict.session():
        for task, rows, at in explainer.task.split(nodes):
            expected = torch.stack([probabilities(model, graph, nodes[i]) for i in at]).repeat_interleave(3, 0)
            three = task.predict(rows.repeat_interleave(3, 0), torch.arange(len(at)).repeat_interleave(3))
            assert three == pytest.approx(expected, abs=1e-6)
            assert isinstance(task.space, FittedEdges)
            assert (not task.space._opened) == once


class Pooled(nn.Module):
    """A graph classifier."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head = GCNConv(5, 8), nn.Linear(8, 2)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        return self.head(global_mean_pool(torch.relu(self.layer(x, edge_index, edge_weight)), batch))


def test_graphs_are_explained_as_wholes():
    graphs = [random_graph(n=8 + i, n_edges=10, seed=i) for i in range(12)]
    model = Pooled().eval()
    explainer = fans.Explainer(model, graphs, n_local=29)
    explanation = explainer(graphs[:3])
    assert explanation.modality == "graph"
    for i in range(3):
        with torch.no_grad():
            expected = torch.softmax(model(graphs[i].x, graphs[i].edge_index)[0], 0).max()
        assert explanation.prediction[i] == pytest.approx(float(expected), abs=1e-6)
        assert kept(explanation, i).sum() == graphs[i].edge_index.shape[1]
    assert fans.Explainer(model, graphs, n_local=29)(graphs[1]).scores[0, :5] == pytest.approx(
        explainer([graphs[1]]).scores[0, :5]
    )


class Beside(nn.Module):
    """A network that returns something besides its outputs."""

    def __init__(self, net, wrap):
        super().__init__()
        self.net, self.wrap = net, wrap

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        batch = {} if batch is None else {"batch": batch}
        return self.wrap(self.net(x, edge_index, edge_weight, **batch))


@pytest.mark.parametrize("wrap", [lambda out: (out, out[:, :1]), lambda out: {"loss": out.sum(), "logits": out}])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fans", {"n_local": 9, "n_sweep": 60}),
        ("fans", {"n_local": 9, "n_sweep": 60, "solver": "game"}),
        ("gnn_explainer", {"n_steps": 3}),
        ("pg_explainer", {"n_train": 4, "n_epochs": 2}),
    ],
)
def test_outputs_in_company_are_those_alone(method, settings, wrap):
    def scores(model):
        return fans.Explainer(model, random_graph(), method=method, **settings).scores([3, 7, 9])

    with pytest.warns(fans.FansWarning, match="Took (item 0 of the tuple|`logits` of the dict)") as told:
        found = scores(Beside(Net().eval(), wrap))
    assert len(told) == 1
    assert np.array_equal(found, scores(Net().eval()))


@pytest.mark.parametrize(
    "form", [Beside, lambda net, wrap: lambda x, edge_index, batch: wrap(net(x, edge_index, batch=batch))]
)
def test_outputs_in_company_for_graphs_as_wholes(form):
    graphs = [random_graph(n=8 + i, n_edges=10, seed=i) for i in range(6)]
    net = Pooled().eval()
    bare = net if form is Beside else lambda x, edge_index, batch: net(x, edge_index, batch=batch)
    with pytest.warns(fans.FansWarning, match="Took item 1 of the tuple") as told:
        found = fans.Explainer(form(net, lambda out: (None, out)), graphs, n_local=9).scores(graphs[:2])
    assert len(told) == 1
    assert np.array_equal(found, fans.Explainer(bare, graphs, n_local=9).scores(graphs[:2]))


def test_a_single_output_of_nodes_is_a_number():
    """The prediction is the module's own output; said to be a class, its sigmoid."""
    net, graph = Net(classes=1).eval(), random_graph()
    with torch.no_grad():
        raw = net(graph.x, graph.edge_index).double()[[3, 7], 0].numpy()
    with pytest.warns(fans.FansWarning, match="one output, which is no probability on the background") as told:
        found = fans.Explainer(net, graph, n_local=9)([3, 7])
    assert len(told) == 1
    assert (found.kind, found.target.tolist()) == ("output", [0, 0])
    assert found.prediction == pytest.approx(raw, abs=1e-6)
    as_classes = fans.Explainer(net, graph, n_local=9, task="classification")([3, 7], target=1)
    assert as_classes.prediction == pytest.approx(1 / (1 + np.exp(-raw)), abs=1e-6)


def test_loops_parallel_and_directed_edges():
    edges = torch.tensor([[0, 1, 1, 1, 2, 3, 3], [1, 0, 1, 0, 0, 2, 2]])  # 1 -> 0 twice, a loop, 2 -> 0, 3 -> 2 twice
    graph = Data(x=torch.randn(4, 5, generator=torch.Generator().manual_seed(0)), edge_index=edges)
    explanation = fans.Explainer(Net().eval(), graph, n_local=29)([0])
    assert sorted(explanation.name(0, f) for f in np.flatnonzero(explanation.present[0]).tolist()) == [
        "0 - 1",
        "2 -> 0",
        "3 -> 2",
    ]
    assert kept(explanation).sum() == 6
    untied = fans.Explainer(Net().eval(), graph, space=GraphEdges(tied=False), n_local=29)([0])
    assert sorted(untied.name(0, f) for f in np.flatnonzero(untied.present[0]).tolist()) == [
        *("0 -> 1", "1 -> 0", "2 -> 0", "3 -> 2"),
    ]


def test_columns_of_nodes():
    """A missing column is 0 in every node in reach; columns that are 0 there anyway count for nothing."""
    graph, model = random_graph(), Net().eval()
    graph.x[:, 3] = 0
    explainer = fans.Explainer(model, graph, space=GraphFeatures(), n_local=29)
    explanation = explainer([1, 2])
    assert explanation.scores.shape == (2, 5)
    assert explanation.feature_names == explanation.element_names == tuple(f"column {i}" for i in range(5))
    subset = [True, False, False, True, False]
    assert explainer.score([1, 2], subset).pns.shape == explainer.score([1, 2], ["column 0", "column 3"]).pns.shape
    assert sorted(explanation.ranked(0).tolist()) == [0, 1, 2, 3, 4]
    assert "column 4" in explanation._repr_html_()
    assert (explanation.scores[:, 3] == 0).all()
    assert not explanation.subset[:, 3].any()
    ((task, rows, _),) = explainer.task.split([1, 2])
    rows[:, 1] = 0
    changed = graph.clone()
    changed.x[:, 1] = 0
    with task.predict.session():
        found = task.predict(rows)
    assert found == pytest.approx(torch.stack([probabilities(model, changed, n) for n in (1, 2)]), abs=1e-6)
    assert set(explanation.chosen_names()) <= {f"column {i}" for i in range(5)}


def test_metrics_of_nodes_are_those_on_the_whole_graph():
    """Fidelity by weights on the whole graph, recall and sparseness over the node's own edges, all by hand."""
    graph, model = random_graph(n=60, n_edges=110), Net().eval()
    explainer = fans.Explainer(model, graph, n_local=29, n_steps=4, n_sweep=1)
    nodes = [n for n in range(60) if (graph.edge_index[1] == n).any()][:8]
    explanation = explainer(nodes)
    columns = {tuple(e): i for i, e in enumerate(graph.edge_index.T.tolist())}
    truth = np.arange(len(columns)) % 3 == 0
    asked = ["fidelity_plus", "fidelity_minus", "sparseness", "recall"]
    found = fans.evaluate(explanation, asked, explainer=explainer, truth=truth)
    for i, node in enumerate(nodes):
        edges = [tuple(e) for e in edges_of(explanation, i)[kept(explanation, i)].tolist()]
        scores = explanation.heatmap[i][kept(explanation, i)]
        mask = np.clip(scores, 0, None) / max(scores.max(), 1e-12)
        at = torch.tensor([columns[e] for e in edges])
        changed = []
        for weights in (1 - mask, mask):
            whole = torch.ones(len(columns)).index_copy(0, at, torch.from_numpy(weights).float())
            with torch.no_grad():
                answers = [model(graph.x, graph.edge_index, w)[node].argmax() for w in (torch.ones_like(whole), whole)]
            changed.append(float(answers[0] != answers[1]))
        assert [found["fidelity_plus"][i], found["fidelity_minus"][i]] == changed
        ascending, n = np.sort(np.abs(scores)), len(scores)
        gini = ((2 * np.arange(1, n + 1) - n - 1) * ascending).sum() / (n * ascending.sum())
        assert found["sparseness"][i] == pytest.approx(gini)
        top = np.argsort(-scores, kind="stable")[:12]
        assert found["recall"][i] == pytest.approx(truth[at.numpy()][top].sum() / truth[at.numpy()].sum())
    with pytest.raises(fans.InputError, match="and the `explainer` of their graph"):
        fans.evaluate(explanation, ["sparseness"], model=model)


def test_a_graph_is_drawn_told_and_kept(tmp_path):
    graph = random_graph(n=60, n_edges=110)
    explanation = fans.Explainer(Net().eval(), graph, n_local=29, n_steps=4, n_sweep=1)([3, 8])
    assert explanation.plot(tmp_path / "graph.png") is not None
    assert (tmp_path / "graph.png").stat().st_size > 5_000
    page = explanation.to_html(tmp_path / "graph.html").read_text()
    assert page.count("<svg") == 2
    assert explanation.sentences[0].startswith(("Keep the edge", "No part", "Nothing", "Almost nothing"))
    frame = explanation.to_frame()
    assert len(frame) == int(explanation.present.sum())
    assert set(frame["feature"]) >= set(explanation.chosen_names())
    path = explanation.save(tmp_path / "graph.safetensors")
    again = fans.load(path)
    assert again.chosen_names(1) == explanation.chosen_names(1)
    assert again[1].nodes.tolist() == [8]  # type: ignore[union-attr]


def test_nodes_have_the_names_that_the_user_gave_them(tmp_path):
    graph = random_graph()
    names = [f"person {i}" for i in range(graph.num_nodes)]
    plain, named = (
        fans.Explainer(Net().eval(), graph, space=GraphEdges(node_names=given), n_steps=4)([3, 8])
        for given in (None, names)
    )
    assert plain.scores.tolist() == named.scores.tolist()
    assert plain.node_names == ()
    assert (plain.title(0), named.title(0), named.title(1)) == ("node 3", "person 3", "person 8")
    parts = [name.split(" - ") for name in plain.chosen_names(1)]
    assert parts
    assert named.chosen_names(1) == [f"person {u} - person {v}" for u, v in parts]
    assert fans.load(named.save(tmp_path / "e.safetensors"))[1].title() == "person 8"
    page = named.to_html(tmp_path / "e.html").read_text()
    assert "<b>person 3</b>" in page
    assert ">person 3</text>" in page
    assert named.plot().axes[0].get_title("left").startswith("person 3: ")
    asked = fans.Explainer(Net().eval(), graph, space=GraphEdges(node_names=names), n_steps=1)([3], ids=["me"])
    assert asked.title() == "me"


def test_names_that_fit_no_graph():
    with pytest.raises(fans.InputError, match=r"Expected `node_names` for 40 nodes, got 2 names; leave them out, or "):
        fans.Explainer(Net().eval(), random_graph(), space=GraphEdges(node_names=["a", "b"]))
    with pytest.raises(fans.InputError, match="`node_names` for one graph, whose nodes are explained, got 1 names"):
        GraphEdges(node_names=["a"]).fit([random_graph(), random_graph()])


# --- Bad input -------------------------------------------------------------------------------------------------------

GRAPH = random_graph()


def lonely():
    graph = random_graph()
    graph.x = torch.cat([graph.x, torch.zeros(1, 5)])
    return graph


@pytest.mark.parametrize(
    ("graph", "node", "words"),
    [
        (lonely(), 40, "Expected nodes with edges to explain, got node 40 without any; leave it out"),
        (lonely(), [1, 40], "got node 40 without any"),
        (GRAPH, 40, "Expected nodes from 0 to 39, got 40"),
        (GRAPH, -1, "Expected nodes from 0 to 39, got -1"),
        (GRAPH, 1.5, "Expected x as a node's number or several, got 1.5"),
        (GRAPH, "a", "Expected x as a node's number"),
        (Data(x=torch.zeros(3, 5), edge_index=torch.zeros(2, 0, dtype=torch.long)), 0, "Expected a graph with edges"),
        (
            Data(x=torch.zeros(3, 5), edge_index=torch.tensor([[0], [7]])),
            0,
            "from 0 to 2, one number per node, got 0 to 7",
        ),
        (Data(x=torch.full((3, 5), torch.nan), edge_index=undirected([(0, 1)])), 0, "finite `x` in the graph, got NaN"),
        (Data(x=None, edge_index=undirected([(0, 1)])), 0, "with `x` and `edge_index`"),
    ],
)
def test_bad_graphs_and_nodes(graph, node, words):
    with pytest.raises(fans.InputError, match=words.replace("(", r"\(")):
        fans.Explainer(Net().eval(), graph)(node)


def test_a_heterogeneous_graph_is_refused():
    hetero = geometric.data.HeteroData()
    hetero["a"].x = torch.zeros(2, 5)
    with pytest.raises(fans.InputError, match="got a heterogeneous graph; explain its to_homogeneous"):
        fans.Explainer(Net().eval(), hetero)


def test_a_model_that_ignores_weights_has_its_edges_removed():
    class Deaf(Unweighted):
        def forward(self, x, edge_index, edge_weight=None):  # noqa: ARG002
            return super().forward(x, edge_index)

    with pytest.warns(fans.FansWarning, match="an edge of weight 0 is not like none to it; edges are removed instead"):
        explainer = fans.Explainer(Deaf(SAGEConv).eval(), GRAPH, n_local=29)
    assert np.ptp(explainer.scores([0])) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.FansWarning)
        with pytest.raises(fans.ModelError, match=r'so they can only be removed; use solver="game"'):
            fans.Explainer(Deaf(SAGEConv).eval(), GRAPH, solver="chain")


class Alone(nn.Module):
    """Each node by itself: no edge plays a part."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(5, 3)

    def forward(self, x, edge_index, edge_weight=None):  # noqa: ARG002
        return self.layer(x)


@pytest.mark.parametrize("solver", ["auto", "chain", "game"])
def test_a_prediction_that_no_edge_changes_has_an_empty_subset_and_says_so(solver):
    explainer = fans.Explainer(Alone().eval(), GRAPH, space=GraphEdges(hops=2), solver=solver)
    explanation = explainer([1, 2])
    assert not explanation.subset.any()
    assert (explanation.scores == 0).all()
    assert (explanation.holds == 1).all()
    assert (explanation.pns == 0).all()
    for i in range(2):
        told = f"Nothing changes {explanation.target_name(i)}: whatever is changed near this input, it stays within 0.1"
        assert explanation.sentences[i].startswith(f"{told} in 100 % of trials.")
        assert explanation.notes[i] == "PN is undefined: the subset is empty"


def test_too_few_hops_are_noticed():
    with pytest.raises(fans.ModelError, match="computed from 1 hops at most, got other outputs"):
        fans.Explainer(Net(layers=3).eval(), GRAPH, space=GraphEdges(hops=1))


def test_a_subset_of_edges_the_prediction_does_not_see():
    explainer = fans.Explainer(Net().eval(), GRAPH, n_local=29)
    with pytest.raises(fans.InputError, match="got 0 - 0, which is none"):
        explainer.score([1], [(0, 0)])


# --- Rows and whose they are -----------------------------------------------------------------------------------------


def inputs_of_two_sizes():
    """An explainer, some nodes of two sizes, and a pair of one layout that differs in its number of edges."""
    graph = random_graph(n=60, n_edges=110)
    explainer = fans.Explainer(Net().eval(), graph, n_local=9, n_sweep=50)
    nodes = [n for n in range(60) if (graph.edge_index[1] == n).any()][:12]
    return explainer, nodes, explainer.task.split(nodes)


def test_features_and_elements_are_those_that_inputs_have():
    explainer, nodes, _ = inputs_of_two_sizes()
    found = explainer(nodes)
    counts = found.present.sum(1)
    assert len(set(counts.tolist())) > 1
    assert found.scores.shape[1] == len(found.feature_names) == counts.max()
    for i, n in enumerate(counts):
        assert found.present[i].tolist() == [True] * n + [False] * (counts.max() - n)
        assert np.array_equal(found.elements[i] < 0, ~kept(found, i))
        assert (found.heatmap[i][~kept(found, i)] == 0).all()
        assert not found.mask[i][~kept(found, i)].any()
        assert np.isnan(found.direction[i, n:]).all()
    alone = explainer([nodes[0]])
    assert alone.scores.shape[1] == counts[0]
    assert explainer.heatmaps(nodes) == pytest.approx(found.heatmap, abs=1e-5)
    assert np.array_equal(explainer.on_elements(nodes, found.scores), found.heatmap)


def test_a_row_is_nothing_but_weights_and_says_not_whose_it_is():
    explainer, _, parts = inputs_of_two_sizes()
    task, rows, at = next(part for part in parts if len(part[2]) > 2)
    assert set(rows.unique().tolist()) <= {0.0, 1.0}
    of = torch.tensor([2, 0, 0, 1, 2])
    with explainer.task.predict.session():
        in_order = task.predict(rows)
        assert task.predict(rows[of], of) == pytest.approx(in_order[of], abs=1e-6)
        with pytest.raises(fans.InputError, match=f"Expected `of`, .* for 5 rows of {len(at)} inputs, got none"):
            task.predict(rows[of])


def test_asking_changes_no_space():
    explainer, nodes, parts = inputs_of_two_sizes()
    spaces = [explainer.task.space, *(task.space for task, *_ in parts)]
    before = [(space, space.batch, dict(vars(space))) for space in spaces]
    explainer(nodes[:3])
    explainer.task.split(nodes[3:])
    explainer.task.space.encode(None, "background")
    for space, batch, attributes in before:
        assert space.batch is batch
        assert all(vars(space)[name] is value for name, value in attributes.items())


def test_every_forward_is_counted():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.nodes = Net().eval(), []

        def forward(self, x, edge_index, edge_weight=None):
            self.nodes.append(len(x))
            return self.model(x, edge_index, edge_weight)

    graph, model = random_graph(), Counting()
    explainer = fans.Explainer(model, graph)
    assert model.nodes[0] == len(graph.x)
    # The whole graph; 8 nodes cut out; 4 with edges of weight 0, and without those edges; 16 as the background.
    assert explainer.task.predict.n_rows == 1 + 8 + 4 + 4 + 16
    assert len(model.nodes) == 5
    assert int(explainer([3]).evaluations["shared"]) == 33 + 4  # asked again


def test_an_explanation_saved_with_a_feature_that_is_nobodys_still_loads(tmp_path):
    """As they were saved once: whatever an input does not have belonged to one feature more, the last."""
    explainer, nodes, _ = inputs_of_two_sizes()
    found = explainer(nodes)
    n = found.scores.shape[1]
    wider = {
        name: np.pad(getattr(found, name), ((0, 0), (0, 1))) for name in ("scores", "subset", "direction", "stability")
    }
    once = dataclasses.replace(
        found,
        **wider,
        scores_se=None,
        elements=np.where(found.elements < 0, n, found.elements),
        feature_names=(*found.feature_names, f"edge {n}"),
    )
    again = fans.load(once.save(tmp_path / "old.safetensors"))
    assert np.array_equal(again.heatmap, found.heatmap)
    assert np.array_equal(again.present[:, :n], found.present)
    assert not again.present[:, n].any()
    assert [again.chosen_names(i) for i in range(len(nodes))] == [found.chosen_names(i) for i in range(len(nodes))]


def test_pairs_of_nodes_in_a_graph_of_as_many_edges_as_rows_have_room_for():
    """A mask of sixteen is one of the graph's edges; pairs are what they are."""
    pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 0), (1, 3), (1, 4)]
    graph = Data(x=torch.randn(5, 5, generator=torch.Generator().manual_seed(3)), edge_index=undirected(pairs))
    explainer = fans.Explainer(Net(GCNConv).eval(), graph, n_local=9)
    ((task, rows, _),) = explainer.task.split(0)
    assert task.space.n_features == graph.edge_index.shape[1] == 16
    units = task.space.units(rows)
    chosen = task.space.feature_subset([(3, 2), (1, 4)], units, 1)[0]
    ends, of_element = joined(task.space, rows)[0].tolist(), units.of_element[0].tolist()
    found = {frozenset(edge) for edge, f in zip(ends, of_element, strict=True) if chosen[f]}
    assert found == {frozenset((2, 3)), frozenset((1, 4))}
