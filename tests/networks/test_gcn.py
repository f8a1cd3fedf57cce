"""The graph networks are what they say: propagation by hand, no edge at weight 0, three hops; checkpoints hold."""

import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from fans import networks as models
from fans.datasets import load_graph, make_ba_community
from fans.errors import MissingExtra
from fans.networks import GCN
from fans.networks.base import CHECKPOINTS, network

ROOT = Path(__file__).parents[2]
GOALS = {"ba_community": 0.9, "citeseer": 0.75, "pubmed": 0.85}
SIZES = {"ba_community": (1400, 140), "citeseer": (3327, 1000), "pubmed": (19717, 1000)}


def shaken(n_features=3, n_hidden=4, n_classes=2, **kwargs) -> GCN:
    """A network whose biases are not zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = GCN(n_features, n_hidden, n_classes, **kwargs)
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter)
    return made.eval()


def undirected(*pairs):
    once = torch.tensor(pairs).T
    return torch.cat([once, once.flip(0)], 1)


def test_three_nodes_by_hand():
    """A path 0 - 1 - 2; the convolution of Kipf and Welling (2017), Eq. 2, with the numbers written out."""
    made, edges = shaken(), undirected((0, 1), (1, 2))
    w = made.state_dict()
    a, b, c = 1 / 2, 1 / 6**0.5, 1 / 3  # degrees with their own loop: 2, 3, 2
    passed = torch.tensor([[a, b, 0], [b, c, b], [0, b, a]])
    h = x = torch.tensor([[1.0, -2, 0.5], [0, 3, 1], [-1, 1, 2]])
    found = []
    for layer in ("conv1", "conv2", "conv3"):
        h = (passed @ h @ w[f"{layer}.lin.weight"].T + w[f"{layer}.bias"]).relu()
        found.append(h)
    expected = torch.cat(found, 1) @ w["fc.weight"].T + w["fc.bias"]
    torch.testing.assert_close(made(x, edges), expected)


def test_weights_change_the_degrees_by_hand():
    made, edges = shaken(), undirected((0, 1), (1, 2))
    w = made.state_dict()
    weights = torch.tensor([0.5, 2.0, 0.5, 2.0])
    degrees = torch.tensor([1.5, 3.5, 3.0])
    matrix = torch.tensor([[1, 0.5, 0], [0.5, 1, 2], [0, 2, 1]])
    passed = matrix / (degrees[:, None] * degrees).sqrt()
    h = x = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    found = []
    for layer in ("conv1", "conv2", "conv3"):
        h = (passed @ h @ w[f"{layer}.lin.weight"].T + w[f"{layer}.bias"]).relu()
        found.append(h)
    torch.testing.assert_close(
        made(x, edges, weights), torch.cat(found, 1) @ w["fc.weight"].T + w["fc.bias"], rtol=1e-5, atol=1e-6
    )


def test_an_edge_of_weight_zero_is_no_edge():
    graph = make_ba_community()
    x, edges = graph.tensors()
    made = shaken(10, 16, 8)
    kept = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(0)) < 0.7
    with torch.no_grad():
        torch.testing.assert_close(made(x, edges, kept.float()), made(x, edges[:, kept]), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(made(x, edges, torch.ones(edges.shape[1])), made(x, edges))


def test_three_hops_and_no_more():
    graph = make_ba_community()
    x, edges = graph.tensors()
    made, node = shaken(10, 16, 8), 402
    distance = nx.single_source_shortest_path_length(nx.from_edgelist(graph.edge_index.T.tolist()), node)
    hops = torch.tensor([distance[i] for i in range(len(graph))])
    assert set(hops.tolist()) >= {0, 1, 2, 3, 4}
    with torch.no_grad():
        before = made(x, edges)[node]
        beyond = torch.where(hops[:, None] > 3, torch.randn(x.shape), x)
        torch.testing.assert_close(made(beyond, edges)[node], before)
        inner = (hops[edges] <= 3).any(0)  # at the border they count in degrees
        assert not inner.all()
        torch.testing.assert_close(made(x, edges[:, inner])[node], before)
        third = torch.where(hops[:, None] == 3, torch.randn(x.shape), x)
        assert not torch.allclose(made(third, edges)[node], before), "the third hop counts"


def test_one_module_an_activation():
    made = shaken(dropout=0.5)
    calls: list[str] = []
    for name, module in made.named_modules():
        if name.startswith(("relu", "drop")):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    made(torch.ones(3, 3), undirected((0, 1), (1, 2)))
    assert sorted(calls) == sorted(n for n, _ in made.named_modules() if n.startswith(("relu", "drop")))
    assert [n for n in calls if n.startswith("relu")] == ["relu1", "relu2", "relu3"]
    assert not any(m.inplace for m in made.modules() if isinstance(m, torch.nn.ReLU))


def test_dropout_is_for_training():
    made, edges = shaken(dropout=0.5), undirected((0, 1), (1, 2))
    x = torch.ones(3, 3)
    assert torch.equal(made(x, edges), made(x, edges))
    made.train()
    assert not torch.equal(made(x, edges), made(x, edges))


def test_importing_needs_no_pytorch_geometric():
    code = (
        "import sys\n"
        "for name in ('torch_geometric', 'networkx', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "import fans.datasets, fans.networks, fans.networks.train_graph\n"
        "assert len(fans.datasets.load_graph('citeseer')) == 3327\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)  # noqa: S603


def test_without_pytorch_geometric(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(MissingExtra, match=r"torch_geometric for a graph network.*pip install 'fans\[graph\]'"):
        network("gcn_citeseer")


@pytest.mark.parametrize("name", sorted(GOALS))
def test_what_is_kept(name, request):
    if name == "pubmed":
        request.getfixturevalue("full_data")
    model, card = models.load(name)
    graph = load_graph(name, card.recipe["split"])
    assert (len(graph), card.n_test) == SIZES[name]
    assert card.network == f"gcn_{name}"
    assert {"fans", "torch", "torch_geometric", "numpy"} <= set(card.versions)
    with torch.no_grad():
        right = model(*graph.tensors()).argmax(1).numpy() == graph.y
    assert right[graph.test_mask].mean() == pytest.approx(card.accuracy, abs=1.5 / card.n_test)
    assert card.accuracy >= GOALS[name]
    best = min(card.history, key=lambda entry: entry["loss_val"])
    assert right[graph.val_mask].mean() == pytest.approx(best["accuracy_val"], abs=1.5 / graph.val_mask.sum())
    assert len(card.history) <= 45


@pytest.mark.parametrize("name", sorted(GOALS))
def test_the_documentation_gives_the_accuracy_of_the_card(name):
    text = (ROOT / "docs" / "data.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` | GCN"))
    card = models.read_card(ROOT / CHECKPOINTS / f"{name}.safetensors")
    assert f"| {card.accuracy:.2%} |" in row
    parameters = sum(p.numel() for p in network(card.network).parameters())
    assert f"| {parameters:,} |" in row


def test_what_it_says_of_houses():
    """Most of the nodes of houses are known by their houses: without the true edges they are not."""
    model, _ = models.load("ba_community")
    graph = load_graph("ba_community")
    x, edges = graph.tensors()
    assert graph.motif is not None
    assert graph.truth is not None
    with torch.no_grad():
        whole, without = (
            model(x, edges, w).argmax(1).numpy() == graph.y for w in (None, torch.from_numpy(~graph.truth).float())
        )
    inside = graph.motif >= 0
    assert np.mean(whole[inside]) > 0.9
    assert np.mean(without[inside]) < 0.4
