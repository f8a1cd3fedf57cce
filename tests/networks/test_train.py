"""Training ends in the same weights however often it was stopped; what it does to images is what it says."""

import json
import re

import numpy as np
import pytest
import torch
from torch import nn

from fans import cli
from fans import networks as models
from fans.datasets import Images
from fans.errors import InputError, Interrupted
from fans.networks import train
from fans.networks.base import Network
from fans.networks.resnet import InputBatch
from fans.networks.train import RECIPES, Recipe, augment, measure

RECIPE = Recipe("tiny", ((1, 8), (2, 12)), batch=8, smoothing=0.1, shift=2, flip=True, half=True)
"""Three steps an epoch, nine in all."""


class Killed(Exception):
    pass


class Tiny(Network):
    """All that ResNet18 has: normalisation by batch, a shortcut, convolutions in the channels-last layout."""

    def __init__(self):
        super().__init__()
        self.first, self.block, self.fc = nn.Conv2d(3, 8, 3), InputBatch(8, 16, 2), nn.Linear(16, 10)

    def forward(self, images):
        return self.fc(self.block(self.first(images)).mean((2, 3)))


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Twenty-six images of noise instead of a dataset, and a small network."""
    monkeypatch.setitem(Network.registry, "tiny", Tiny)
    random = np.random.default_rng(0)
    images = Images(random.integers(0, 256, (26, 3, 12, 12), np.uint8), random.integers(0, 10, 26), tuple("0123456789"))
    monkeypatch.setattr(train, "load_images", lambda *_: images)
    return images


def stop(monkeypatch, at, error=Killed):
    """Let the training stop before a step is taken, or go on for good."""
    step = train._step if not hasattr(train._step, "real") else train._step.real

    def stopping(state, *rest):
        if state.step == at:
            raise error
        return step(state, *rest)

    stopping.real = step  # type: ignore[attr-defined]
    monkeypatch.setattr(train, "_step", stopping)


def outcome(folder):
    """What a training leaves, but the time it took."""
    card = json.loads((folder / "cifar10.json").read_text())
    card.pop("seconds")
    return (folder / "cifar10.safetensors").read_bytes(), card


@pytest.mark.parametrize(("every", "goes_on_at"), [(0.0, (4, 8)), (1e9, (3, 6))])
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path, monkeypatch, every, goes_on_at):
    told: list[str] = []
    whole = train.train("cifar10", tmp_path / "whole", recipe=RECIPE)
    for at in (4, 8):
        stop(monkeypatch, at)
        with pytest.raises(Killed):
            train.train("cifar10", tmp_path / "cut", recipe=RECIPE, tell=told.append, every=every)
    stop(monkeypatch, None)
    train.train("cifar10", tmp_path / "cut", recipe=RECIPE, tell=told.append, every=every)
    assert [int(n) for n in re.findall(r"going on at step (\d+)", "\n".join(told))] == list(goes_on_at)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    assert sorted(p.name for p in whole.parent.iterdir()) == ["cifar10.json", "cifar10.safetensors"]


def test_the_seed_matters_and_the_caller_s_generator_does_not(tmp_path):
    torch.manual_seed(1)
    train.train("cifar10", tmp_path / "a", recipe=RECIPE)
    state = torch.get_rng_state()
    train.train("cifar10", tmp_path / "b", recipe=RECIPE)
    assert torch.equal(state, torch.get_rng_state())
    train.train("cifar10", tmp_path / "c", recipe=RECIPE, seed=1)
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")
    assert outcome(tmp_path / "a")[0] != outcome(tmp_path / "c")[0]


def test_the_card(tmp_path, tiny):
    train.train("cifar10", tmp_path, recipe=RECIPE)
    model, card = models.load("cifar10", tmp_path)
    assert card.accuracy == measure(model, tiny), "measured on the weights as stored"
    assert (card.n_test, card.seed, card.dataset, card.network) == (26, 0, "cifar10", "tiny")
    assert card.recipe["peak"] == 0.1
    assert [entry["epoch"] for entry in card.history] == [1, 2, 3]
    assert card.seconds >= 0


def test_another_recipe_or_seed_is_refused(tmp_path, monkeypatch):
    stop(monkeypatch, 4)
    with pytest.raises(Killed):
        train.train("cifar10", tmp_path, recipe=RECIPE)
    for recipe, seed in ((Recipe("tiny", ((1, 8),), batch=8), 0), (RECIPE, 1)):
        with pytest.raises(InputError, match=r"cifar10.training.safetensors of the same dataset, seed and recipe"):
            train.train("cifar10", tmp_path, recipe=recipe, seed=seed)


def test_a_damaged_store_is_refused(tmp_path):
    (tmp_path / "cifar10.training.safetensors").write_bytes(b"?")
    with pytest.raises(InputError, match=r"got .*cifar10.training.safetensors, which cannot be read .*delete it"):
        train.train("cifar10", tmp_path, recipe=RECIPE)


@pytest.mark.parametrize(("at", "words"), [(4, "goes on where"), (1, "starts again")])
def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys, at, words):
    monkeypatch.setitem(RECIPES, "cifar10", RECIPE)
    stop(monkeypatch, at, KeyboardInterrupt)
    assert cli.main(["train", "cifar10", "--out", str(tmp_path)]) == 130
    assert f"Interrupted at step {at}; the same command {words}" in capsys.readouterr().err
    stop(monkeypatch, None)
    assert cli.main(["train", "cifar10", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert ("going on at step 3" in out) == (at == 4)
    assert "epoch 3 of 3, 12 px: loss" in out
    assert f"wrote {tmp_path / 'cifar10.safetensors'}" in out


def test_ctrl_c_in_the_library_is_still_an_interrupt(tmp_path, monkeypatch):
    stop(monkeypatch, 1, KeyboardInterrupt)
    with pytest.raises(Interrupted):
        train.train("cifar10", tmp_path, recipe=RECIPE)


def test_progress_within_an_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "_TELL_EVERY", -1.0)
    monkeypatch.setattr(train, "_TELL_SHARE", 0.0)
    told: list[str] = []
    train.train("cifar10", tmp_path, recipe=RECIPE, tell=told.append)
    assert re.fullmatch(r"epoch 1 of 3, 8 px, step 1 of 3: loss \d\.\d{3}, about \d+ s left", told[0])


def test_sizes_of_epochs():
    assert [RECIPES["cifar10"].size(epoch) for epoch in range(11)] == [16] * 6 + [24] * 3 + [32] * 2
    with pytest.raises(IndexError):
        RECIPES["mnist"].size(8)


class Drawn:
    """A generator that draws what it was told to."""

    def __init__(self, *drawn):
        self.drawn = [np.array(values) for values in drawn]

    def integers(self, low, high, n):
        values = self.drawn.pop(0)
        assert low <= values.min() <= values.max() < high
        assert len(values) == n
        return values

    random = lambda self, _: self.drawn.pop(0)


def test_augmentation_by_hand():
    one = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])
    batch = torch.stack([one, one + 10, one + 20])[:, None].expand(3, 2, 3, 3).clone()
    batch[:, 1] *= -1
    moved = augment(batch, Drawn([1, 2, 0], [1, 1, 2], [0.5, 0.7, 0.1]), 1, True)  # type: ignore[arg-type]
    still = batch[0, 0].tolist()
    up = [[14, 15, 16], [17, 18, 19], [0, 0, 0]]
    down_left_mirrored = [[0, 0, 0], [0, 23, 22], [0, 26, 25]]
    assert moved[:, 0].tolist() == [still, up, down_left_mirrored]
    assert torch.equal(moved[:, 1], -moved[:, 0]), "all channels move together"
    assert torch.equal(augment(batch, Drawn(), 0, False), batch)  # type: ignore[arg-type]


def test_measure():
    class First(nn.Module):
        def forward(self, images):
            assert not self.training
            return torch.stack([images[:, 0, 0, 0], 0.5 + 0 * images[:, 0, 0, 0]], 1)

    images = Images(
        np.array([0, 0, 255, 255], np.uint8)[:, None, None, None].repeat(4, 2).repeat(4, 3),
        np.array([1, 0, 0, 0]),
        ("a", "b"),
    )
    model = First().train()
    assert measure(model, images) == 0.75
    assert measure(model, images, limit=2) == 0.5
    assert measure(model, images, size=2) == 0.75
    assert model.training
