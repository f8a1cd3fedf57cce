"""What every registered method promises, whatever it computes."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.methods import Method
from fans.methods.controls import Control
from fans.spaces import Image

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning"),
    pytest.mark.filterwarnings("ignore:.*in the range of:fans.FansWarning"),
]

QUICK: dict[str, dict[str, Any]] = {
    "cf2": {"n_steps": 60, "rate": 0.1},
    "cf_gnn_explainer": {"n_steps": 50, "rate": 0.1},
    "cimi": {"n_epochs": 30},
    "extremal_perturbation": {"n_steps": 30},
    "gnn_explainer": {"n_steps": 60, "rate": 0.1},
    "meaningful_perturbation": {"n_steps": 60},
    "mixup_explainer": {"n_epochs": 20, "n_train": 20},
    "nseg": {"n_steps": 60, "rate": 0.1},
    "pg_explainer": {"n_epochs": 10, "n_train": 20},
    "refine": {"n_epochs": 10, "n_train": 20, "n_steps": 5},
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


def cues() -> nn.Module:
    """P of class 1 rises with the cues among a node's neighbours."""
    conv = importlib.import_module("torch_geometric.nn").GraphConv(2, 2, aggr="add")

    class Cues(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.relu, self.last = conv, nn.ReLU(), nn.Linear(2, 2)

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Any = None) -> Tensor:
            out: Tensor = self.last(self.relu(self.first(x, edge_index, edge_weight)))
            return out

    model = Cues()
    given = {
        conv.lin_rel.weight: torch.eye(2),
        conv.lin_rel.bias: torch.full((2,), 0.1),
        conv.lin_root.weight: 0.1 * torch.eye(2),
        model.last.weight: torch.tensor([[-1.5, 0.0], [1.5, 0.0]]),
        model.last.bias: torch.tensor([2.2, -2.2]),
    }
    for parameter, value in given.items():
        parameter.data = value
    return model


def stars(n: int = 24) -> Any:
    """A graph of stars with six leaves; of every second one three are cues."""
    x, pairs = torch.zeros(7 * n, 2), []
    for place in range(7 * n):
        hub = place - place % 7
        if place > hub:
            x[place] = torch.tensor([1.0, 0.0] if place - hub < 4 and hub % 14 == 0 else [0.0, 1.0])
            pairs += [(hub, place), (place, hub)]
    return importlib.import_module("torch_geometric.data").Data(x=x, edge_index=torch.tensor(pairs).T)


@dataclass(frozen=True)
class Subject:
    """A model, its background, inputs of class 1, and which features `(B, F)` of what is said made them so."""

    model: nn.Module
    background: Any
    inputs: Any
    space: Any
    important: Callable[[fans.Attribution], Any]

    @property
    def tensors(self) -> list[Tensor]:
        """What belongs to the caller."""
        held = [*self.model.parameters(), *(t for t in (self.inputs, self.background) if isinstance(t, Tensor))]
        return held if isinstance(self.background, Tensor) else [*held, self.background.x, self.background.edge_index]


def subject(modality: str) -> Subject:
    rng = np.random.default_rng(0)
    if modality == "graph":
        pytest.importorskip("torch_geometric")
        graph = stars()
        return Subject(cues(), graph, [0, 14, 28, 42], None, partial(of_cues, graph))
    if modality == "table":
        background, inputs = torch.from_numpy(rng.normal(size=(80, 5))), torch.from_numpy(rng.normal(size=(4, 5)))
        inputs[:, 0], inputs[:, 1] = 0.8, -0.8
        return Subject(Columns(), background.float(), inputs.float(), None, of_all(np.arange(5) < 2))
    background, inputs = (torch.from_numpy(rng.random((n, 1, 8, 8))).float() for n in (40, 4))
    background[:, :, :4, :4] *= torch.linspace(0.5, 1.5, 40)[:, None, None, None]
    inputs[:, :, :4, :4] = 0.6 + 0.4 * inputs[:, :, :4, :4]
    inside = (np.arange(16) % 4 < 2) & (np.arange(16) < 8)
    return Subject(Corner(), background, inputs, Image("patch", patch=2), of_all(inside))


def of_all(important: Any) -> Callable[[fans.Attribution], Any]:
    """The same features in every input."""
    return lambda found: np.broadcast_to(important, found.scores.shape)


def of_cues(graph: Any, found: fans.Attribution) -> Any:
    """The edges of cues."""
    important = np.zeros(found.scores.shape, dtype=bool)
    assert found.edges is not None
    for i, element in zip(*np.nonzero(found.edges[..., 0] >= 0), strict=True):
        important[i, found.elements[i, element]] |= bool(graph.x[found.edges[i, element].tolist(), 0].any())
    return important


MODALITIES = ("table", "image", "graph")
EVERY: list[tuple[str, str]] = [
    (name, modality)
    for name in sorted(Method.registry)
    for modality in Method.registry[name].modalities  # type: ignore[attr-defined]
]
CASES = [(name, modality) for name, modality in EVERY if modality != "graph"]
"""Where a row of the model is a row of an array."""


@pytest.mark.parametrize("name", sorted(Method.registry))
def test_every_method_says_what_it_is(name):
    member = Method.registry[name]
    assert issubclass(member, Method)
    assert member.name == name
    assert member.label
    assert set(member.modalities) <= set(MODALITIES)
    assert isinstance(member.per_element, bool)
    assert member.per_element or not member.per_pixel
    assert member.modalities
    assert "," in member.citation


@pytest.mark.parametrize(("name", "modality"), EVERY)
def test_every_method(name, modality):
    given = subject(modality)
    kept = [t.clone() for t in given.tensors]

    def make(**settings: Any) -> fans.Explainer:
        asked = QUICK.get(name, {}) | settings
        return fans.Explainer(given.model, given.background, space=given.space, method=name, radius=2.0, **asked)

    explainer = make()
    one = explainer(given.inputs)
    important = given.important(one)
    others = one.present & ~important
    assert one.scores.shape == important.shape
    assert len(one) == 4
    assert np.isfinite(one.scores).all()
    assert (one.per_element, one.per_pixel) == (explainer.method.per_element, explainer.method.per_pixel)
    again, small = make().scores(given.inputs), make(max_batch=13).scores(given.inputs)
    assert np.array_equal(one.scores, again)
    assert one.scores == pytest.approx(small, abs=1e-5)
    last = make().scores(given.inputs[2:], ids=one.ids[2:])
    assert one.scores[2:] == pytest.approx(last, abs=1e-5)
    assert explainer.scores(given.inputs) == pytest.approx(one.scores, abs=1e-9)
    if not issubclass(Method.registry[name], Control):  # higher is more important
        assert one.scores[important].mean() > one.scores[others].mean() + 1e-3
    room = explainer.task.space.split(given.inputs)[0][0].n_features  # rows of a graph have more than it has edges
    assert (one.evaluations["scoring"] <= explainer.method.cost(room)).all()
    assert one.subset.any(axis=1).all()
    assert given.model.training
    assert all(torch.equal(t, before) for t, before in zip(given.tensors, kept, strict=True))
    assert all(p.grad is None and p.requires_grad for p in given.model.parameters())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    assert not any(getattr(part, kind) for part in given.model.modules() for kind in hooks)


OTHERS = [(name, m) for name in sorted(Method.registry) for m in MODALITIES if (name, m) not in EVERY]


@pytest.mark.parametrize(("name", "modality"), OTHERS)
def test_inputs_that_a_method_does_not_declare_are_refused_in_one_sentence(name, modality):
    given = subject(modality)
    told = rf"^Expected .* inputs for method='{name}', got {modality} inputs; use another method, e\.g\. method='fans'$"
    with pytest.raises(fans.InputError, match=told):
        fans.Explainer(given.model, given.background, space=given.space, method=name)


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
