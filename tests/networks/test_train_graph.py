"""Training a graph network ends in the same weights however often it was stopped, and never looks at test nodes."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from fans import cli
from fans import networks as models
from fans.datasets import Graph, make_ba_community
from fans.datasets.graphs import graph_dataset
from fans.errors import InputError, Interrupted
from fans.networks import GCN, train_graph
from fans.networks.base import Network
from fans.networks.train_graph import GRAPH_RECIPES, GraphRecipe, exchanged, measure_graph

RECIPE = GraphRecipe("tiny", "published", 9, rate=0.05, decay=1e-3, shuffle=True)


class Killed(Exception):
    pass


class Tiny(GCN):
    """All that the networks have: convolutions, dropout, a linear layer."""

    def __init__(self):
        super().__init__(10, 4, 8, dropout=0.3)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A small network, and a graph that is not read."""
    monkeypatch.setitem(Network.registry, "tiny", Tiny)
    graph = make_ba_community(3)
    monkeypatch.setattr(train_graph, "load_graph", lambda *_: graph)
    return graph


def train(folder, **kwargs):
    return train_graph.train_graph("ba_community", folder, **{"recipe": RECIPE} | kwargs)


def stop(monkeypatch, at, error=Killed):
    """Let the training stop before an epoch, or go on for good."""
    step = train_graph._step if not hasattr(train_graph._step, "real") else train_graph._step.real

    def stopping(state, *rest):
        if state.epoch == at:
            raise error
        return step(state, *rest)

    stopping.real = step  # type: ignore[attr-defined]
    monkeypatch.setattr(train_graph, "_step", stopping)


def outcome(folder):
    """What a training leaves, but the time it took."""
    card = json.loads((folder / "ba_community.json").read_text())
    card.pop("seconds")
    return (folder / "ba_community.safetensors").read_bytes(), card


@pytest.mark.parametrize(("every", "goes_on_at"), [(1, (4, 8)), (3, (3, 6))])
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path, monkeypatch, every, goes_on_at):
    told: list[str] = []
    whole = train(tmp_path / "whole")
    for at in (4, 8):
        stop(monkeypatch, at)
        with pytest.raises(Killed):
            train(tmp_path / "cut", tell=told.append, every=every)
    stop(monkeypatch, None)
    train(tmp_path / "cut", tell=told.append, every=every)
    assert [int(n) for n in re.findall(r"going on at epoch (\d+)", "\n".join(told))] == list(goes_on_at)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    assert sorted(p.name for p in whole.parent.iterdir()) == ["ba_community.json", "ba_community.safetensors"]


def test_the_seed_matters_and_the_caller_s_generator_does_not(tmp_path):
    torch.manual_seed(1)
    train(tmp_path / "a")
    state = torch.get_rng_state()
    train(tmp_path / "b")
    assert torch.equal(state, torch.get_rng_state())
    train(tmp_path / "c", seed=1)
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")
    assert outcome(tmp_path / "a")[0] != outcome(tmp_path / "c")[0]


def test_the_card(tmp_path, tiny):
    train(tmp_path, recipe=replace(RECIPE, split="other"))
    model, card = models.load("ba_community", tmp_path)
    assert card.accuracy == measure_graph(model, tiny, tiny.test_mask)
    assert (card.n_test, card.seed, card.dataset, card.network) == (140, 0, "ba_community", "tiny")
    assert (card.recipe["rate"], card.recipe["split"]) == (0.05, "other")
    assert [entry["epoch"] for entry in card.history] == list(range(1, 10))
    assert card.seconds >= 0


def test_the_best_epoch_is_kept(tmp_path, monkeypatch):
    """The one with the least loss on the validation nodes, the first of several."""
    losses = iter([1.0, 0.9, 0.8, 0.85, 0.8, *[2.0] * 4])
    monkeypatch.setattr(train_graph, "_validate", lambda *_: {"loss_val": next(losses), "accuracy_val": 0.5})
    told: list[str] = []
    train(tmp_path / "all", tell=told.append)
    assert "with the weights of epoch 3" in told[-1]
    kept = models.load("ba_community", tmp_path / "all")[0].state_dict()
    seen: list[dict[str, torch.Tensor]] = []
    step = train_graph._step

    def watching(state, *rest):
        loss = step(state, *rest)
        seen.append({k: v.clone() for k, v in state.model.state_dict().items()})
        return loss

    monkeypatch.setattr(train_graph, "_step", watching)
    monkeypatch.setattr(train_graph, "_validate", lambda *_: {"loss_val": 1.0, "accuracy_val": 0.5})
    train(tmp_path / "again")
    assert all(torch.equal(kept[k], v) for k, v in seen[2].items())
    assert not all(torch.equal(kept[k], v) for k, v in seen[8].items())


def test_test_nodes_and_their_classes_play_no_part(tmp_path, monkeypatch, tiny):
    train(tmp_path / "a")
    blind = replace(tiny, y=np.where(tiny.test_mask, 0, tiny.y))
    monkeypatch.setattr(train_graph, "load_graph", lambda *_: blind)
    train(tmp_path / "b")
    assert outcome(tmp_path / "a")[0] == outcome(tmp_path / "b")[0]
    assert outcome(tmp_path / "a")[1]["accuracy"] != outcome(tmp_path / "b")[1]["accuracy"]


def test_histories_are_thinned(tmp_path):
    train(tmp_path, recipe=replace(RECIPE, epochs=90))
    card = models.load("ba_community", tmp_path)[1]
    best = min(card.history, key=lambda entry: entry["loss_val"])
    assert {entry["epoch"] for entry in card.history} == set(range(2, 91, 2)) | {best["epoch"]}


def test_it_learns(tmp_path, tiny):
    train(tmp_path, recipe=replace(RECIPE, epochs=60, shuffle=False))
    assert models.load("ba_community", tmp_path)[1].accuracy > 2 * np.bincount(tiny.y).max() / len(tiny) * 0.9


def test_another_recipe_or_seed_is_refused(tmp_path, monkeypatch):
    stop(monkeypatch, 4)
    with pytest.raises(Killed):
        train(tmp_path, every=1)
    for changes in ({"recipe": replace(RECIPE, rate=0.1)}, {"seed": 1}):
        with pytest.raises(InputError, match=r"ba_community.training.safetensors of the same dataset, seed and recipe"):
            train(tmp_path, **changes)


def test_a_damaged_store_is_refused(tmp_path):
    (tmp_path / "ba_community.training.safetensors").write_bytes(b"?")
    with pytest.raises(InputError, match=r"got .*ba_community.training.safetensors, which cannot be read .*delete it"):
        train(tmp_path)


@pytest.mark.parametrize(("at", "epochs", "words"), [(150, 151, "goes on where"), (1, 9, "starts again")])
def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys, at, epochs, words):
    monkeypatch.setitem(GRAPH_RECIPES, "ba_community", (replace(RECIPE, epochs=epochs),))
    stop(monkeypatch, at, KeyboardInterrupt)
    assert cli.main(["train", "ba_community", "--out", str(tmp_path)]) == 130
    assert f"Interrupted at epoch {at}; the same command {words}" in capsys.readouterr().err
    stop(monkeypatch, None)
    assert cli.main(["train", "ba_community", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert ("going on at epoch 100" in out) == (at == 150)
    assert re.search(rf"epoch {epochs // 40 * 40 or 9} of {epochs}: loss \d\.\d{{3}}, .*% of 140 validation nodes", out)
    assert f"wrote {tmp_path / 'ba_community.safetensors'}" in out


def test_ctrl_c_in_the_library_is_still_an_interrupt(tmp_path, monkeypatch):
    stop(monkeypatch, 1, KeyboardInterrupt)
    with pytest.raises(Interrupted):
        train(tmp_path)


def test_a_recipe_for_each_split(tmp_path):
    for name, recipes in GRAPH_RECIPES.items():
        assert sorted(recipe.split for recipe in recipes) == sorted(graph_dataset(name).splits)
    assert train_graph._recipe("pubmed", None).split == "larger"
    assert train_graph._recipe("pubmed", "planetoid").split == "planetoid"
    with pytest.raises(InputError, match="'larger', 'planetoid', got 'planet'; did you mean 'planetoid'"):
        train_graph.train_graph("citeseer", tmp_path, split="planet")
    with pytest.raises(InputError, match="'ba_community', 'citeseer', 'pubmed', got 'cora'"):
        train_graph.train_graph("cora", tmp_path)


def test_a_split_is_for_graphs(tmp_path, capsys):
    assert cli.main(["train", "mnist", "--split", "larger", "--out", str(tmp_path)]) == 1
    assert "Expected --split with a graph, got it with 'mnist'" in capsys.readouterr().err


def test_features_are_exchanged_among_training_nodes_of_a_class(tiny):
    taken = exchanged(tiny, np.random.default_rng(0))
    assert sorted(taken) == list(range(1400))
    assert (tiny.y[taken] == tiny.y).all()
    moved = taken != np.arange(1400)
    assert not moved[~tiny.train_mask].any()
    assert moved[tiny.train_mask].mean() > 0.9
    assert tiny.train_mask[taken[tiny.train_mask]].all()


def test_measure():
    class First(Network):
        def forward(self, x, _):
            assert not self.training
            return x

    one_hot = np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]
    mask = np.array([True, True, True, False])
    graph = Graph(one_hot, np.zeros((2, 0), np.int64), np.array([0, 1, 0, 1]), mask, ~mask, mask, ("a", "b"))
    assert measure_graph(First(), graph, mask) == pytest.approx(2 / 3)
    assert measure_graph(First(), graph, ~mask) == 0
