"""What every registered method promises, whatever it computes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.methods.base import Method
from fans.methods.controls import Control
from fans.spaces import Image

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning"),
    pytest.mark.filterwarnings("ignore:.*in the range of:fans.FansWarning"),
]

QUICK: dict[str, dict[str, Any]] = {
    "cimi": {"n_epochs": 30},
    "extremal_perturbation": {"n_steps": 30},
    "meaningful_perturbation": {"n_steps": 60},
}
"""Settings that make a slow method quick enough for a test."""


class Columns(nn.Module):
    """P of class 1 rises with the first column and falls with the second."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, rows: Tensor) -> Tensor:
        z = self.relu(rows[:, 0] + 4) - self.relu(rows[:, 1] + 4)
        return torch.stack([-z, z], 1)


class Corner(nn.Module):
    """P of class 1 rises with the brightness of the upper left quarter."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu = nn.Conv2d(1, 1, 1), nn.ReLU()
        nn.init.ones_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        z = 6 * (self.relu(self.conv(images))[:, 0, :4, :4].mean((1, 2)) - 0.5)
        return torch.stack([-z, z], 1)


@dataclass(frozen=True)
class Subject:
    """A model, its background, inputs of class 1, and the features that made them so."""

    model: nn.Module
    background: Tensor
    inputs: Tensor
    space: Any
    important: Any


def subject(modality: str) -> Subject:
    rng = np.random.default_rng(0)
    if modality == "table":
        background, inputs = torch.from_numpy(rng.normal(size=(80, 5))), torch.from_numpy(rng.normal(size=(4, 5)))
        inputs[:, 0], inputs[:, 1] = 0.8, -0.8
        return Subject(Columns(), background.float(), inputs.float(), None, np.arange(5) < 2)
    background, inputs = (torch.from_numpy(rng.random((n, 1, 8, 8))).float() for n in (40, 4))
    background[:, :, :4, :4] *= torch.linspace(0.5, 1.5, 40)[:, None, None, None]
    inputs[:, :, :4, :4] = 0.6 + 0.4 * inputs[:, :, :4, :4]
    inside = (np.arange(16) % 4 < 2) & (np.arange(16) < 8)
    return Subject(Corner(), background, inputs, Image("patch", patch=2), inside)


CASES = [
    (name, modality)
    for name in sorted(Method.registry)
    for modality in Method.registry[name].modalities  # type: ignore[attr-defined]
    if modality != "graph"  # tests/test_graph_space.py
]


@pytest.mark.parametrize("name", sorted(Method.registry))
def test_every_method_says_what_it_is(name):
    member = Method.registry[name]
    assert issubclass(member, Method)
    assert member.name == name
    assert member.label
    assert set(member.modalities) <= {"table", "image", "graph"}
    assert member.modalities
    assert "," in member.citation


@pytest.mark.parametrize(("name", "modality"), CASES)
def test_every_method(name, modality):
    given = subject(modality)
    weights = [p.clone() for p in given.model.parameters()]
    before = given.inputs.clone()

    def make(**settings: Any) -> fans.Explainer:
        asked = QUICK.get(name, {}) | settings
        return fans.Explainer(given.model, given.background, space=given.space, method=name, radius=2.0, **asked)

    explainer = make()
    one, again, small = explainer(given.inputs), make()(given.inputs), make(max_batch=13)(given.inputs)
    assert one.scores.shape == (4, len(given.important))
    assert np.isfinite(one.scores).all()
    assert np.array_equal(one.scores, again.scores)
    assert one.scores == pytest.approx(small.scores, abs=1e-5)
    last = make()(given.inputs[2:], ids=[2, 3])
    assert one.scores[2:] == pytest.approx(last.scores, abs=1e-5)
    assert explainer.scores(given.inputs) == pytest.approx(one.scores, abs=1e-9)
    if not issubclass(Method.registry[name], Control):  # higher is more important
        assert one.scores[:, given.important].mean() > one.scores[:, ~given.important].mean() + 1e-3
    assert (one.evaluations["scoring"] <= explainer.method.cost(len(given.important))).all()
    assert one.subset.any(axis=1).all()
    assert given.model.training
    assert torch.equal(given.inputs, before)
    assert all(torch.equal(p, w) and p.grad is None for p, w in zip(given.model.parameters(), weights, strict=True))
    kept = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    assert not any(getattr(part, hooks) for part in given.model.modules() for hooks in kept)


@pytest.mark.parametrize("max_batch", [13, 8192])
@pytest.mark.parametrize(("name", "modality"), CASES)
def test_every_row_a_method_asks_is_reported(name, modality, max_batch):
    given, asked = subject(modality), []
    given.model.register_forward_pre_hook(lambda _, rows: asked.append(len(rows[0])))
    explainer = fans.Explainer(
        given.model, given.background, space=given.space, method=name, max_batch=max_batch, **QUICK.get(name, {})
    )
    found = explainer(given.inputs)
    if name == "fans" and max_batch == 13:  # a step's rows do not fit: asked again on the way back
        assert sum(asked) > found.n_evaluations.sum() + found.evaluations["shared"]
    else:
        assert sum(asked) == found.n_evaluations.sum() + found.evaluations["shared"]
    assert max(asked) <= max_batch


def test_two_methods_of_one_name_are_refused():
    with pytest.raises(TypeError, match="got 'fans', taken by"):

        @dataclass(frozen=True)
        class Again(Method):
            name: ClassVar[str] = "fans"
