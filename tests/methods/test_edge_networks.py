"""Trained masks on edges: losses by hand on the whole graph, what training leaves, and a planted motif."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.engine import draws
from fans.methods.edge_networks import EdgeNetwork, MixUpExplainer, ReFine, concrete
from fans.methods.edges import embeddings
from fans.methods.trained import Trained
from tests.modalities.graph.test_space import Net, random_graph, undirected

geometric = pytest.importorskip("torch_geometric")

GRAPH, MODEL = random_graph(n=40, n_edges=60), Net().eval()
DENSE = random_graph(n=7)
DENSE.edge_index = undirected(list(itertools.combinations(range(7), 2)))
"""Every edge is within reach of every node, so that what is linked is the whole graph."""
NODES = [n for n in range(40) if (GRAPH.edge_index[1] == n).any()][:6]
TRAINED = ("pg_explainer", "mixup_explainer", "refine")
QUICK: dict[str, Any] = {"n_train": 8, "n_epochs": 2}


def explainer(method: str, model: Any = MODEL, graph: Any = GRAPH, **settings: Any) -> fans.Explainer:
    return fans.Explainer(model, graph, method=method, **(QUICK | settings))


def method_of(asked: fans.Explainer) -> Any:
    assert isinstance(asked.method, Trained)
    return asked.method


def weights(asked: fans.Explainer) -> list[torch.Tensor]:
    return list(method_of(asked).train(asked.task, asked.seed).parameters())


# --- Training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TRAINED)
def test_the_same_seed_gives_the_same_network_and_another_another(method):
    torch.manual_seed(0)
    first = explainer(method)
    scores = first.scores(NODES)
    torch.manual_seed(1)
    second, other = explainer(method), explainer(method, seed=1)
    assert np.array_equal(second.scores(NODES), scores)
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(weights(first), weights(other), strict=True))


@pytest.mark.parametrize("method", TRAINED)
def test_nodes_are_scored_alike_in_any_company(method):
    asked = explainer(method)
    together = asked.scores(NODES)
    for i in (0, 3, 5):
        alone = explainer(method).scores([NODES[i]])[0]
        n = len(alone) - 1
        assert together[i, :n] == pytest.approx(alone[:n], abs=1e-5)
    assert np.isfinite(together).all()
    assert together.max() <= 1
    assert together.min() >= 0


@pytest.mark.parametrize("method", TRAINED)
def test_it_learns_from_the_nodes_that_the_model_was_trained_on(method):
    graph = random_graph(n=40, n_edges=60)
    graph.train_mask = torch.arange(40) % 3 == 1
    asked = explainer(method, graph=graph, n_train=100)
    able = set(asked.task.space.learnable())  # type: ignore[attr-defined]
    assert able == {n for n in range(1, 40, 3) if (graph.edge_index[1] == n).any()}
    lessons = method_of(asked).lessons(asked.task, 0)
    assert set(lessons.ids) == able
    with torch.no_grad():
        whole = MODEL(graph.x, graph.edge_index).argmax(1)
    assert lessons.target.tolist() == [int(whole[n]) for n in lessons.ids]
    assert len(method_of(explainer(method, graph=graph, n_train=5)).lessons(asked.task, 0).ids) == 5


@pytest.mark.parametrize("method", TRAINED)
def test_training_is_paid_once_and_reported_apart(method):
    asked = explainer(method)
    before = asked.task.predict.n_rows
    training = asked.prepare()
    assert training["rows"] == asked.task.predict.n_rows - before - 4  # asked again
    assert training["rows"] == method_of(asked).training_cost(0)
    assert training["seconds"] > 0
    assert len(training["loss"]) == 2
    spent = asked.task.predict.n_rows
    asked.scores(NODES)
    assert asked.prepare() == training
    n_sizes = len(asked.task.split(NODES))  # what the model makes of all nodes is asked once for each
    once = 0 if method == "refine" else n_sizes
    assert asked.task.predict.n_rows - spent == once + len(NODES) * (1 + method_of(asked).cost(10))


@pytest.mark.parametrize("method", TRAINED)
def test_the_model_is_left_as_it_was(method):
    model = Net()
    model.train()
    before = [parameter.clone() for parameter in model.parameters()]
    explainer(method, model).scores(NODES)
    assert model.training
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("method", TRAINED)
def test_a_saved_network_gives_the_same_scores(method, tmp_path):
    asked = explainer(method, n_epochs=3)
    scores = asked.scores(NODES)
    path = method_of(asked).save(tmp_path / "network.safetensors")
    other = explainer(method, seed=5)
    method_of(other).load(path)
    before = other.task.predict.n_rows
    assert other.scores(NODES) == pytest.approx(scores, abs=1e-6)
    assert other.task.predict.n_rows - before < 5 + len(NODES) * (1 + method_of(other).cost(10))  # none of training
    assert method_of(other).training == method_of(asked).training
    with pytest.raises(fans.FansError, match="saved with `save`, got no file at"):
        method_of(other).load(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"nonsense")
    with pytest.raises(fans.FansError, match=r"saved with `save`, got .*bad, which is none"):
        method_of(other).load(tmp_path / "bad")
    with pytest.raises(fans.FansError, match="to save, trained, got none yet"):
        method_of(explainer(method)).save(tmp_path / "none")


def test_a_network_of_other_sizes_is_refused(tmp_path):
    asked = explainer("refine")
    asked.scores(NODES[:1])
    path = method_of(asked).save(tmp_path / "network")
    wider = random_graph(n=40, n_edges=60)
    wider.x = torch.cat([wider.x, wider.x], 1)
    other = explainer("refine", Net(columns=10).eval(), wider)
    method_of(other).load(path)
    with pytest.raises(fans.FansError, match=r"Expected columns and classes of .* for the loaded network, got"):
        other.scores(NODES[:1])


def test_a_loss_that_is_no_number_ends_pg_explainer_s_training(monkeypatch):
    theirs = geometric.explain.PGExplainer
    real, calls = theirs.train, [0]

    def broken(self: Any, *args: Any, **more: Any) -> float:
        calls[0] += 1
        loss = float(real(self, *args, **more))
        return loss if calls[0] < 12 else float("nan")

    monkeypatch.setattr(theirs, "train", broken)
    asked = explainer("pg_explainer", n_epochs=4)
    with pytest.warns(fans.FansWarning, match="not a number in epoch 1; the network before it is kept"):
        scores = asked.scores(NODES)
    assert len(method_of(asked).training["loss"]) == 1
    monkeypatch.setattr(theirs, "train", real)
    assert scores == pytest.approx(explainer("pg_explainer", n_epochs=1).scores(NODES), abs=1e-6)
    assert np.ptp(scores[0]) > 0.01


@pytest.mark.parametrize("method", ["gnn_explainer", "pg_explainer"])
def test_settings_do_not_leak_into_pytorch_geometric(method):
    theirs = {"gnn_explainer": geometric.explain.GNNExplainer, "pg_explainer": geometric.explain.PGExplainer}[method]
    made = {"epochs": 1}
    before = dict(theirs(**made).coeffs)
    settings = {"n_steps": 3} if method == "gnn_explainer" else QUICK
    fans.Explainer(MODEL, GRAPH, method=method, size=0.7, entropy=0.3, **settings).scores(NODES[:1])
    assert theirs(**made).coeffs == before


def test_pg_explainer_is_pytorch_geometrics_on_the_whole_graph():
    """The same network asked by PyTorch Geometric itself, with all nodes and edges, for one node after another."""
    asked = explainer("pg_explainer", n_epochs=3)
    found = asked(NODES)
    assert found.edges is not None
    explain = geometric.explain
    theirs = explain.PGExplainer(epochs=3)
    theirs.mlp, theirs._curr_epoch = method_of(asked).train(asked.task), 3
    whole = explain.Explainer(
        MODEL,
        algorithm=theirs,
        explanation_type="phenomenon",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    columns = {tuple(e): i for i, e in enumerate(GRAPH.edge_index.T.tolist())}
    with torch.no_grad():
        classes = MODEL(GRAPH.x, GRAPH.edge_index).argmax(1)
    for i, node in enumerate(NODES):
        mask = whole(GRAPH.x, GRAPH.edge_index, target=classes, index=node).edge_mask.detach().numpy()
        real = found.edges[i][:, 0] >= 0
        pairs = [tuple(e) for e in found.edges[i][real].tolist()]
        both = [(mask[columns[e]] + mask[columns[e[::-1]]]) / 2 for e in pairs]
        inside = np.array([mask[columns[e]] > 0 and mask[columns[e[::-1]]] > 0 for e in pairs])
        assert inside.any()
        assert found.heatmap[i][real][inside] == pytest.approx(np.array(both)[inside], abs=1e-5)


def test_gnn_explainer_leaves_no_mask_that_keeps_pg_explainer_from_learning():
    """PyTorch Geometric makes parameters, which no gradient passes, of all masks of a layer that once had one."""
    model, fresh = Net().eval(), Net().eval()
    fresh.load_state_dict(model.state_dict())
    before = {name: list(layer._parameters) for name, layer in model.named_modules()}
    expected = weights(explainer("pg_explainer", fresh))
    fans.Explainer(model, GRAPH, method="gnn_explainer", n_steps=2).scores(NODES[:1])
    assert {name: list(layer._parameters) for name, layer in model.named_modules()} == before
    assert all(torch.equal(a, b) for a, b in zip(weights(explainer("pg_explainer", model)), expected, strict=True))
    used = Net().eval()  # by PyTorch Geometric itself
    used.load_state_dict(model.state_dict())
    theirs = geometric.explain.GNNExplainer(epochs=2)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    own = geometric.explain.Explainer(
        used, theirs, explanation_type="model", edge_mask_type="object", model_config=config
    )
    own(GRAPH.x, GRAPH.edge_index, index=NODES[0])
    assert all(torch.equal(a, b) for a, b in zip(weights(explainer("pg_explainer", used)), expected, strict=True))


@pytest.mark.parametrize("method", ["gnn_explainer", "pg_explainer"])
def test_rows_are_counted_where_pytorch_geometric_asks_the_model(method):
    class Counting(Net):
        n = 0

        def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
            type(self).n += 1
            return super().forward(x, edge_index, edge_weight)

    settings = {"n_steps": 3} if method == "gnn_explainer" else QUICK
    asked = fans.Explainer(Counting().eval(), GRAPH, method=method, max_batch=1, **settings)
    asked.prepare()
    before, Counting.n = asked.task.predict.n_rows, 0
    asked.scores(NODES[:1])
    assert asked.task.predict.n_rows - before == Counting.n


@pytest.mark.parametrize("method", ["mixup_explainer", "refine"])
def test_a_small_batch_of_the_model_changes_nothing_but_memory(method):
    """No pass has more rows than `max_batch`, or than a pair of two graphs twice."""
    seen = []

    class Watching(Net):
        def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
            seen.append(len(x))
            return super().forward(x, edge_index, edge_weight)

    model = Watching().eval()
    large = explainer(method, model)
    scores = large.scores(NODES)
    seen.clear()
    small = explainer(method, model, max_batch=4)
    assert small.scores(NODES) == pytest.approx(scores, abs=1e-4)
    assert max(seen) <= 4 * len(GRAPH.x)


# --- Objectives by hand ----------------------------------------------------------------------------------------------


def columns_of(space: Any, i: int, units: Any) -> dict[int, Any]:
    """The columns of the graph's `edge_index` of each feature of one input."""
    columns = space.columns_of(torch.tensor([i]))[0]
    features = units.of_element[i]
    found = {f: columns[(features == f) & (columns >= 0)] for f in range(space.n_features)}
    return {f: c for f, c in found.items() if len(c)}


def probabilities_on_the_whole_graph(mask: Any, columns: dict[int, Any], node: Any, *, raw: bool = False) -> Any:
    weight = torch.ones(GRAPH.edge_index.shape[1])
    for f, at in columns.items():
        weight[at] = float(mask[f])
    with torch.no_grad():
        out = MODEL(GRAPH.x, GRAPH.edge_index, weight)[node].double()
    return out if raw else torch.softmax(out, 0)


def entropy_by_hand(p: Any) -> Any:
    return -(p * np.log(p) + (1 - p) * np.log(1 - p))


@pytest.mark.parametrize("contrast", [0.0, 2.0])
def test_the_loss_of_refine_by_hand(contrast):
    """Node by node on the whole graph, with the samples that training draws."""
    asked = explainer("refine", contrast=contrast, size=0.3, entropy=0.7, ratio=0.5, temperature=0.4)
    method, task = method_of(asked), asked.task
    assert isinstance(method, ReFine)
    network = method.build(method.sizes(task))
    method.draw_weights(network, 0)
    network.eval()
    with task.predict.session(), torch.enable_grad():
        lessons = method.lessons(task, 0)
        place = torch.arange(len(lessons)) + 8
        found = float(method.loss(lessons, network, place).detach())
        with torch.no_grad():
            logits = method._logits(network, lessons)
    masks = concrete(logits, draws.stream_keys(0, [0], "refine/mask").expand(len(lessons)), place, 1.0)
    space, total, said = lessons.task.space, 0.0, []
    for i, node in enumerate(lessons.ids):
        columns = columns_of(space, i, lessons.units)
        mask, target = masks[i].numpy(), int(lessons.target[i])
        p = probabilities_on_the_whole_graph(mask, columns, node)
        own = mask[list(columns)]
        total += -float(p[target]) + 0.3 * own.mean() + 0.7 * entropy_by_hand(own).mean()
        highest = sorted(columns, key=lambda f: -mask[f])[: int(np.ceil(0.5 * len(columns)))]
        cut = np.where(np.isin(np.arange(len(mask)), highest), mask, 0.0)
        said.append(probabilities_on_the_whole_graph(cut, columns, node, raw=True).numpy())
    expected = total / len(lessons)
    if contrast:
        shares = []
        for i in range(len(said)):
            near = [
                max(0.0, float(said[i] @ other / np.linalg.norm(said[i]) / np.linalg.norm(other))) for other in said
            ]
            same = sum(c for j, c in enumerate(near) if j != i and lessons.target[j] == lessons.target[i])
            shares.append(same / max(sum(c for j, c in enumerate(near) if j != i), 1e-12))
        expected += contrast * -np.log(np.sum(np.exp(np.array(shares) / 0.4)))
    assert found == pytest.approx(expected, abs=1e-4)


def test_refine_reads_a_graph_by_arma_convolutions():
    """Against PyTorch Geometric's layer with the same weights."""
    network = EdgeNetwork(GRAPH.x.shape[1], 6).eval()
    asked = explainer("refine")
    space: Any = asked.task.space
    held, rows = space.together(NODES[:3])
    joined = held.joined(torch.arange(len(rows)))
    arma = geometric.nn.ARMAConv(6, 6, act=torch.nn.ReLU())
    with torch.no_grad():
        hidden = network.first(joined.x)[joined.node].relu()
        for passed, own, norm in zip(network.passed, network.own, network.norms, strict=True):
            arma.init_weight[0], arma.root_weight[0, 0] = passed.weight.T, own.weight.T
            arma.bias[:] = own.bias
            hidden = norm(arma(hidden, joined.edges))
        ends = torch.cat([hidden[joined.edges[0]], hidden[joined.edges[1]]], 1)
        assert torch.allclose(network.out(ends)[:, 0], network(joined), atol=1e-5)


def test_the_loss_of_mixup_by_hand():
    """Pair by pair: two copies of the whole graph, and the links between them."""
    asked = explainer("mixup_explainer", graph=DENSE, size=0.3, entropy=0.7, n_links=3, drop=0.3)
    method, task = method_of(asked), asked.task
    assert isinstance(method, MixUpExplainer)
    network = method.build(method.sizes(task))
    method.draw_weights(network, 0)
    index, place = torch.tensor([2, 5, 0]), torch.tensor([8, 9, 10])
    with task.predict.session(), torch.enable_grad():
        lessons = method.lessons(task, 0)
        space: Any = lessons.task.space
        whole = space.joined(lessons.place)
        seen = list(torch.split(embeddings(lessons.task, lessons.x, lessons.place), whole.size.tolist()))
        found = float(method.loss(lessons, network, seen, index, place).detach())
    n, n_features = len(lessons), space.n_features
    assert all(len(columns_of(space, i, lessons.units)) == DENSE.edge_index.shape[1] // 2 for i in range(n))
    key = {what: draws.stream_keys(0, [0], f"mixup_explainer/{what}") for what in ("other", "mask", "rest", "links")}
    ends = {what: draws.stream_keys(0, [0], f"mixup_explainer/{what}") for what in ("from", "to")}
    total = 0.0
    embedded = conv_outputs()
    for i, at in zip(index.tolist(), place.tolist(), strict=True):
        others = [j for j in range(n) if j != i]
        j = others[int(draws.integers(key["other"], torch.tensor(at), n - 1))]
        pair = []
        for k, which in enumerate((i, j)):
            columns = columns_of(space, which, lessons.units)
            node, logits = lessons.ids[which], torch.zeros(1, n_features)
            for f, at_columns in columns.items():
                each = []
                for c in at_columns.tolist():
                    u, v = DENSE.edge_index[:, c].tolist()
                    with torch.no_grad():
                        each.append(float(network(torch.cat([embedded[u], embedded[v], embedded[node]])[None])))
                logits[0, f] = sum(each) / len(each)
            position = torch.tensor([2 * at + k])
            mask = concrete(logits, key["mask"], position, 1.0)[0].numpy()
            left = draws.bernoulli(key["rest"], position, n_features, 0.7)[0].numpy()
            pair.append((which, node, columns, mask, (1 - mask) * left))
        links = []
        there = draws.bernoulli(key["links"], torch.tensor([at]), 3, 0.7)[0]
        for link in range(3):
            positions = torch.tensor(at * 3 + link)
            a, b = (
                space.batch.graphs[which].nodes[int(draws.integers(ends[what], positions, int(whole.size[which])))]
                for what, which in (("from", i), ("to", j))
            )
            if there[link]:
                links.append((int(a), int(b)))
        for own in (0, 1):
            both = [pair[0][3] if own == 0 else pair[0][4], pair[1][4] if own == 0 else pair[1][3]]
            which, node, columns, mask, _ = pair[own]
            p = joined_by_hand(pair, both, links, own)
            mine = mask[list(columns)]
            total -= np.log(float(p[int(lessons.target[which])]))
            total += 0.3 * mine.sum() + 0.7 * entropy_by_hand(mine).mean()
    assert found == pytest.approx(total / 3, abs=1e-4)


def conv_outputs() -> Any:
    """What the last message-passing layer makes of the nodes of the whole graph."""
    kept = []
    layers = [m for m in MODEL.modules() if isinstance(m, geometric.nn.MessagePassing)]
    handle = layers[-1].register_forward_hook(lambda *seen: kept.append(seen[2]))
    with torch.no_grad():
        MODEL(DENSE.x, DENSE.edge_index)
    handle.remove()
    return kept[0]


def joined_by_hand(pair: Any, both: Any, links: Any, own: int) -> Any:
    """The probabilities of one node of two copies of the whole graph, linked."""
    n = len(DENSE.x)
    edges, weights_of = [], []
    for k, (_, _, columns, _, _) in enumerate(pair):
        weight = torch.ones(DENSE.edge_index.shape[1])
        for f, at in columns.items():
            weight[at] = float(both[k][f])
        edges.append(DENSE.edge_index + k * n)
        weights_of.append(weight)
    across = torch.tensor([(a, b + n) for a, b in links] + [(b + n, a) for a, b in links]).reshape(-1, 2).T
    everything = torch.cat([*edges, across], 1)
    with torch.no_grad():
        out = MODEL(torch.cat([DENSE.x, DENSE.x]), everything, torch.cat([*weights_of, torch.ones(across.shape[1])]))
    return torch.softmax(out[pair[own][1] + own * n].double(), 0)


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("refine", {"n_train": 1}, "`n_train` as a whole number of at least 2, got 1"),
        ("refine", {"ratio": 0.0}, "`ratio` above 0, got 0.0"),
        ("refine", {"ratio": 1.5}, "`ratio` of at most 1, got 1.5"),
        ("refine", {"n_steps": -1}, "`n_steps` as a whole number of at least 0, got -1"),
        ("mixup_explainer", {"drop": 1.0}, "`drop` below 1, got 1.0"),
        ("mixup_explainer", {"n_links": -1}, "`n_links` as a whole number of at least 0, got -1"),
        ("mixup_explainer", {"n_epochs": 0}, "`n_epochs` as a whole number of at least 1, got 0"),
        ("pg_explainer", {"bias": 0.0}, "`bias` above 0, got 0.0"),
        ("pg_explainer", {"temperature": (5.0, 0.0)}, "`temperature` above 0, got 0.0"),
        ("pg_explainer", {"rate": 0.0}, "`rate` above 0, got 0.0"),
    ],
)
def test_bad_settings_are_refused(method, settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(method, **settings)


@pytest.mark.parametrize("method", TRAINED)
def test_what_cannot_be_masked_is_refused(method):
    def constant(x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        return x[:, :2] + 0 * len(edge_index) + 0 * (edge_weight is None)

    with pytest.raises(fans.ModelError, match=f"for method='{method}'"):
        explainer(method, constant)
