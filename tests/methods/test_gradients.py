"""Gradient methods: against finite differences, loops by hand, what their papers prove, and Captum."""

import math
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.engine import draws
from fans.methods.gradients import RULES
from fans.spaces import Image

METHODS = ("saliency", "guided_backprop", "integrated_gradients", "gradient_shap", "deep_lift", "idgi")
COSTS = (1, 1, 50, 5, 2, 51)

# The samples of explanations here are few on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def built(make: Callable[[], nn.Module], seed: int = 0) -> Any:
    """A float64 module of our own seed, with predictions that move."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double()


def dense(activation: type[nn.Module] = nn.ReLU) -> nn.Module:
    return built(lambda: nn.Sequential(nn.Linear(5, 8), activation(), nn.Linear(8, 6), activation(), nn.Linear(6, 3)))


def conv(activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    """Convolutions, activations and max-pools on images `(1, 6, 6)`, in both orders."""
    return built(
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), activation(), nn.MaxPool2d(2)),
            *(nn.Conv2d(4, 5, 2), nn.MaxPool2d(2, stride=1), activation(), nn.Flatten(), nn.Linear(5, 3)),
        )
    )


TABLE, ROWS = random(20, 5), random(9, 5, seed=1)
PICTURES, IMAGES = random(20, 1, 6, 6), random(9, 1, 6, 6, seed=1)


def explainer(model: Any, background: Any, method: str, **settings: Any) -> fans.Explainer:
    settings = {"baseline": 0.1, "output": "raw"} | settings
    if background.ndim > 2:
        settings = {"space": Image("pixel")} | settings
    return fans.Explainer(model, background, method=method, **settings)


def scores(model: Any, x: Tensor, method: str, target: Any = 1, **settings: Any) -> Any:
    """The scores of rows of a table, or of images of one channel, in the shape of `x`."""
    background = TABLE if x.ndim == 2 else PICTURES
    return explainer(model, background, method, **settings).scores(x, target).reshape(x.shape)


@contextmanager
def quiet():
    """Captum tells about its hooks in warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def captum_says(kind: str, model: nn.Module, x: Tensor, target: Any = 1, **options: Any) -> Any:
    captum = pytest.importorskip("captum.attr")
    with quiet():
        found = getattr(captum, kind)(model.eval()).attribute(x.clone(), target=torch.as_tensor(target), **options)
    return found.detach().numpy()


@dataclass
class Layer:
    weight: Any
    bias: Any


def layers_of(model: Any) -> list[Layer]:
    """The numbers of a dense model's linear layers."""
    return [Layer(model[i].weight.detach().numpy(), model[i].bias.detach().numpy()) for i in (0, 2, 4)]


def difference(model: nn.Module, x: Tensor, target: int = 1, baseline: float = 0.1) -> Any:
    """f(x) - f(baseline) of each input."""
    with torch.no_grad():
        return (model(x) - model(torch.full_like(x, baseline)))[:, target].numpy()


def total(found: Any) -> Any:
    return found.reshape(len(found), -1).sum(1)


# --- Saliency --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["raw", "probability"])
@pytest.mark.parametrize(("model", "x"), [(dense(), ROWS), (conv(), IMAGES)], ids=["table", "image"])
def test_saliency_is_the_slope_by_finite_differences(model, x, output):
    found = scores(model, x, "saliency", output=output, absolute=False)
    squash = (lambda out: out.softmax(1)) if output == "probability" else (lambda out: out)
    for i in range(3):
        for place in range(x[0].numel()):
            moved = x[[i, i]].clone()
            moved.view(2, -1)[:, place] += torch.tensor([1e-6, -1e-6])
            with torch.no_grad():
                up, down = squash(model(moved))[:, 1].tolist()
            assert found[i].flat[place] == pytest.approx((up - down) / 2e-6, abs=1e-7)
    assert (found < 0).any()
    assert scores(model, x, "saliency", output=output) == pytest.approx(np.abs(found))
    if output == "raw":
        assert scores(model, x, "saliency") == pytest.approx(captum_says("Saliency", model, x))


@pytest.mark.parametrize("method", ["saliency", "guided_backprop"])
def test_times_the_input_or_without_its_sign(method):
    slope = scores(conv(), IMAGES, method, absolute=False)
    assert scores(conv(), IMAGES, method, absolute=True) == pytest.approx(np.abs(slope))
    found = scores(conv(), IMAGES, method, absolute=False, times_input=True)
    assert found == pytest.approx(slope * IMAGES.numpy())
    assert scores(conv(), IMAGES, method, absolute=True, times_input=True) == pytest.approx(np.abs(found))


def test_a_features_score_is_the_mean_of_its_elements():
    """All channels of a patch together."""
    model = built(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 2)))
    background, x = random(10, 2, 6, 6), random(3, 2, 6, 6, seed=1)
    found = explainer(model, background, "saliency", space=Image("patch", patch=3)).scores(x, 1)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)
    for patch in range(4):
        top, left = 3 * (patch // 2), 3 * (patch % 2)
        inside = slope[:, :, top : top + 3, left : left + 3].abs()
        assert found[:, patch] == pytest.approx(inside.mean((1, 2, 3)).numpy())


# --- Guided backpropagation ------------------------------------------------------------------------------------------


def test_guided_backpropagation_by_hand():
    """Layer by layer: a ReLU passes back what is positive, where it was on."""
    model = dense()
    found = scores(model, ROWS, "guided_backprop")
    first, second, last = layers_of(model)
    for i, row in enumerate(ROWS.numpy()):
        a = [first.bias[j] + sum(first.weight[j, e] * row[e] for e in range(5)) for j in range(8)]
        b = [second.bias[k] + sum(second.weight[k, j] * max(a[j], 0) for j in range(8)) for k in range(6)]
        back = [last.weight[1, k] if b[k] > 0 and last.weight[1, k] > 0 else 0 for k in range(6)]
        back = [sum(second.weight[k, j] * back[k] for k in range(6)) for j in range(8)]
        back = [g if a[j] > 0 and g > 0 else 0 for j, g in enumerate(back)]
        by_hand = [sum(first.weight[j, e] * back[j] for j in range(8)) for e in range(5)]
        assert found[i] == pytest.approx(by_hand, abs=1e-12)
    assert not np.allclose(found, scores(model, ROWS, "saliency", absolute=False))


def test_guided_backpropagation_is_captums():
    found = scores(conv(), IMAGES, "guided_backprop", target=2)
    assert found == pytest.approx(captum_says("GuidedBackprop", conv(), IMAGES, 2), abs=1e-12)


class Residual(nn.Module):
    """What enters the activation is also used beside it, as in residual networks that activate first."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        z = self.scale * rows[:, :2]
        return torch.stack([-3 * z[:, 0] + self.activation(z)[:, 0], -2 * self.activation(z)[:, 1] + z[:, 1]], 1)


def test_only_what_passes_the_relu_is_guided():
    """-3 z is beside the ReLU and stays (Captum says 0, not -2); one ReLU is used twice."""
    x = torch.tensor([[1.0, 2.0, 0, 0, 0], [-1.0, 2.0, 0, 0, 0]]).double()
    found = scores(Residual(nn.ReLU()), x, "guided_backprop", target=[0, 0])
    assert found[:, :2].tolist() == [[-2.0, 0.0], [-3.0, 0.0]]
    found = scores(Residual(nn.ReLU()), x, "guided_backprop", target=1)
    assert found[:, :2].tolist() == [[0.0, 1.0], [0.0, 1.0]]  # -2 does not pass


@pytest.mark.parametrize("method", ["guided_backprop", "deep_lift"])
def test_a_relu_in_place_is_bent_as_any(method):
    found = scores(conv(partial(nn.ReLU, inplace=True)), IMAGES, method)
    assert found == pytest.approx(scores(conv(), IMAGES, method), abs=1e-12)


class PreActivation(nn.Module):
    """Uses what went into its activation again: overwritten, if the activation is in place."""

    def __init__(self, *, inplace: bool) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(5, 4).double(), nn.Linear(4, 3).double()
        self.activation = nn.ReLU(inplace=inplace)

    def forward(self, rows: Tensor) -> Tensor:
        z = self.before(rows)
        active = self.activation(z)
        out: Tensor = self.after(active + 3 * (z if self.activation.inplace else active))
        return out


@pytest.mark.parametrize("method", ["guided_backprop", "deep_lift"])
def test_what_a_relu_overwrites_is_overwritten(method):
    x = torch.linspace(-1, 1, 20).view(4, 5).double()
    one, other = (built(partial(PreActivation, inplace=inplace)) for inplace in (True, False))
    assert one(x.clone()).detach().numpy() == pytest.approx(other(x).detach().numpy(), abs=1e-12)
    found = scores(one, x, method, target=0)
    assert np.abs(found).max() > 0.1
    assert found == pytest.approx(scores(other, x, method, target=0), abs=1e-12)


# --- Integrated Gradients --------------------------------------------------------------------------------------------


def smooth() -> nn.Module:
    return built(lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)))


@pytest.mark.parametrize(("model", "x"), [(dense(nn.Tanh), ROWS), (smooth(), IMAGES)], ids=["table", "image"])
def test_integrated_gradients_are_complete(model, x):
    assert total(scores(model, x, "integrated_gradients")) == pytest.approx(difference(model, x), abs=1e-8)
    rough = scores(model, x, "integrated_gradients", n_steps=1)
    assert np.abs(total(rough) - difference(model, x)).max() > 1e-3


@pytest.mark.parametrize(("model", "x"), [(dense(), ROWS), (conv(), IMAGES)], ids=["table", "image"])
def test_integrated_gradients_are_complete_across_kinks(model, x):
    found = scores(model, x, "integrated_gradients", n_steps=2000, rule="riemann_middle")
    assert total(found) == pytest.approx(difference(model, x), abs=2e-4)


@pytest.mark.parametrize("rule", RULES)
def test_integrated_gradients_are_captums(rule):
    options: dict[str, Any] = {"n_steps": 10, "method": rule, "baselines": torch.full_like(IMAGES, 0.1)}
    expected = captum_says("IntegratedGradients", conv(), IMAGES, 2, **options)
    found = scores(conv(), IMAGES, "integrated_gradients", 2, n_steps=10, rule=rule)
    assert found == pytest.approx(expected, abs=1e-6)  # Captum's weights are float32


def test_the_baseline_is_the_explainers():
    """A number, a row, and one of each image's own; of a drawn one the background's mean."""
    model, rows = dense(), {"mean": TABLE.mean(0), "background": TABLE.mean(0), "row": torch.arange(5.0).double()}
    for name, row in rows.items():
        found = scores(model, ROWS, "integrated_gradients", baseline=row if name == "row" else name)
        options: dict[str, Any] = {"baselines": row.expand_as(ROWS)}
        assert found == pytest.approx(captum_says("IntegratedGradients", model, ROWS, **options), abs=1e-6)
    asked = explainer(conv(), PICTURES, "integrated_gradients", baseline="blur")
    blurred = asked.task.baseline.function(IMAGES.flatten(1)).view_as(IMAGES)  # type: ignore[attr-defined]
    options = {"baselines": blurred}
    expected = captum_says("IntegratedGradients", conv(), IMAGES, **options)
    assert asked.scores(IMAGES, 1).reshape(IMAGES.shape) == pytest.approx(expected, abs=1e-6)


# --- GradientShap ----------------------------------------------------------------------------------------------------


def test_gradient_shap_is_exact_where_the_model_is_linear():
    model = built(lambda: nn.Linear(5, 3))
    weight = model.weight[1].detach()
    found = scores(model, ROWS, "gradient_shap", references="baseline", n_samples=2)
    assert found == pytest.approx((weight * (ROWS - 0.1)).numpy())
    found = scores(model, ROWS, "gradient_shap", n_samples=3)
    keys = draws.stream_keys(0, range(9), "gradient_shap/reference")
    for i in range(9):
        drawn = [TABLE[int(draws.integers(keys[i], torch.tensor(s), 20))] for s in range(3)]
        assert found[i] == pytest.approx((weight * (ROWS[i] - sum(drawn) / 3)).numpy())
    many = scores(model, ROWS[:1], "gradient_shap", n_samples=4000)
    error = (weight * TABLE.std(0)).abs().numpy() / math.sqrt(4000)
    assert (np.abs(many - (weight * (ROWS[:1] - TABLE.mean(0))).numpy()) < 4 * error).all()


def test_gradient_shap_estimates_integrated_gradients():
    """With one reference and no noise: the integral by random points."""
    model = dense()
    expected = scores(model, ROWS, "integrated_gradients", n_steps=500)
    found = scores(model, ROWS, "gradient_shap", references="baseline", n_samples=3000)
    assert found == pytest.approx(expected, abs=0.06)
    coarse = scores(model, ROWS, "gradient_shap", references="baseline", n_samples=30)
    assert np.abs(found - expected).mean() < 0.3 * np.abs(coarse - expected).mean()


@pytest.mark.parametrize("stdev", [0.0, 0.3])
def test_gradient_shap_is_captums_with_the_same_draws(stdev, monkeypatch):
    """Captum's own code, fed our draws where it draws: references, places between, noise."""
    pytest.importorskip("captum.attr")
    n, k = 9, 4
    keys = {what: draws.stream_keys(0, range(n), f"gradient_shap/{what}") for what in ("reference", "place", "noise")}
    reference = draws.integers(keys["reference"][:, None], torch.arange(k), 20).flatten()
    place = draws.uniform(keys["place"][:, None], torch.arange(k)).flatten()
    noise = draws.normal(keys["noise"][:, None], torch.arange(k * 36)).view(n * k, 1, 6, 6)
    monkeypatch.setattr(np.random, "choice", lambda *_, **__: reference.numpy())
    monkeypatch.setattr(np.random, "uniform", lambda *_, **__: place.numpy())
    monkeypatch.setattr(torch, "normal", lambda *_, **__: stdev * noise)
    options: dict[str, Any] = {"baselines": PICTURES, "n_samples": k, "stdevs": stdev}
    expected = captum_says("GradientShap", conv(), IMAGES, 2, **options)
    found = scores(conv(), IMAGES, "gradient_shap", 2, n_samples=k, stdev=stdev)
    assert found == pytest.approx(expected, abs=1e-10)


# --- DeepLift --------------------------------------------------------------------------------------------------------


def test_deep_lift_by_hand():
    """The rescale rule, neuron by neuron."""
    model = dense()
    found = scores(model, ROWS, "deep_lift")
    first, second, last = layers_of(model)
    for i, row in enumerate(ROWS.numpy()):
        layers = []
        for given in (row, [0.1] * 5):
            a = [first.bias[j] + sum(first.weight[j, e] * given[e] for e in range(5)) for j in range(8)]
            b = [second.bias[k] + sum(second.weight[k, j] * max(a[j], 0) for j in range(8)) for k in range(6)]
            layers.append((a, b))
        (a, b), (a0, b0) = layers
        slope = lambda z, z0: (max(z, 0) - max(z0, 0)) / (z - z0)
        back = [last.weight[1, k] * slope(b[k], b0[k]) for k in range(6)]
        back = [slope(a[j], a0[j]) * sum(second.weight[k, j] * back[k] for k in range(6)) for j in range(8)]
        multiplier = [sum(first.weight[j, e] * back[j] for j in range(8)) for e in range(5)]
        assert found[i] == pytest.approx([m * (v - 0.1) for m, v in zip(multiplier, row, strict=True)], abs=1e-12)
        alone = scores(model, ROWS[i : i + 1], "deep_lift", multiply=False)[0]
        assert alone == pytest.approx(multiplier, abs=1e-12)


class Apart(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return 1 * features


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Softplus, nn.LeakyReLU])
def test_deep_lift_is_captums(activation):
    """Where Captum is right: it loses count where one module that it bends feeds another directly."""
    model = built(
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), activation(), Apart(), nn.MaxPool2d(2)),
            *(nn.Conv2d(4, 5, 2), nn.MaxPool2d(2), Apart(), activation(), nn.Flatten(), nn.Linear(5, 3)),
        )
    )
    options: dict[str, Any] = {"baselines": torch.full_like(IMAGES, 0.1)}
    expected = captum_says("DeepLift", model, IMAGES, 2, **options)
    assert scores(model, IMAGES, "deep_lift", 2) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("model", "x"), [(dense(), ROWS), (conv(), IMAGES)], ids=["table", "image"])
def test_deep_lift_is_complete(model, x):
    """Exactly, also where max-pools overlap."""
    found = scores(model, x, "deep_lift")
    assert total(found) == pytest.approx(difference(model, x), abs=1e-10)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU()], ids=["relu", "gelu"])
def test_deep_lift_is_complete_in_a_residual_network_that_shares_its_activation(activation):
    model = Residual(activation)
    x = random(4, 5, seed=3)
    for target in (0, 1):
        found = scores(model, x, "deep_lift", target)
        assert total(found) == pytest.approx(difference(model, x, target), abs=1e-12)


def test_deep_lift_where_nothing_differs_takes_the_gradient():
    """Captum's rule for a difference of 0, an input at a time."""
    x = torch.full((2, 5), 0.1).double()
    x[1, 0] = 1.0
    found = scores(dense(), x, "deep_lift", multiply=False)
    leaf = x[:1].clone().requires_grad_()
    (slope,) = torch.autograd.grad(dense()(leaf)[0, 1], leaf)
    assert found[0] == pytest.approx(slope[0].numpy())
    assert found[1] != pytest.approx(slope[0].numpy())


def test_deep_lift_explains_the_logit_of_a_probability():
    model = dense()
    raw = scores(model, ROWS, "deep_lift")
    assert scores(model, ROWS, "deep_lift", output="probability") == pytest.approx(raw)
    single = built(lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)))
    asked: dict[str, Any] = {"output": "probability", "task": "classification"}
    one, zero = (scores(single, ROWS, "deep_lift", target, **asked) for target in (1, 0))
    assert one == pytest.approx(-zero)
    assert total(one) == pytest.approx(difference(single, ROWS, 0), abs=1e-12)


# --- IDGI ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "x"), [(dense(), ROWS), (conv(), IMAGES)], ids=["table", "image"])
@pytest.mark.parametrize("n_steps", [1, 7])
def test_idgi_by_definition_and_complete(model, x, n_steps):
    found = scores(model, x, "idgi", n_steps=n_steps)
    for i in range(3):
        expected = torch.zeros_like(x[0])
        for j in range(n_steps):
            here, there = (0.1 + step / n_steps * (x[i : i + 1] - 0.1) for step in (j, j + 1))
            here.requires_grad_()
            value = model(here)[0, 1]
            (g,) = torch.autograd.grad(value, here)
            expected += (g * g / (g * g).sum() * (model(there)[0, 1] - value)).detach()[0]
        assert found[i] == pytest.approx(expected.numpy(), abs=1e-12)
    assert total(found) == pytest.approx(difference(model, x), abs=1e-10)


class Late(nn.Module):
    """Flat up to 1 in the first column, then steep."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, rows: Tensor) -> Tensor:
        return torch.stack([0 * rows[:, 0], self.relu(rows[:, 0] - 1)], 1)


def test_idgi_leaves_out_flat_steps():
    x = torch.tensor([[3.0, 1, 1, 1, 1], [0.5, 1, 1, 1, 1]]).double()
    found = scores(Late(), x, "idgi", n_steps=3, baseline=0.0)  # at 0, 1, 2, 3: only the last step starts on a slope
    assert found.tolist() == [[1.0, 0, 0, 0, 0], [0.0] * 5]
    tiny = built(lambda: nn.Linear(5, 2, bias=False)).float()
    tiny.weight.data.fill_(1e-30)  # whose square is 0 in float32
    found = explainer(tiny, TABLE.float(), "idgi", baseline=0.0).scores(ROWS.float(), 1)
    assert total(found) == pytest.approx(1e-30 * ROWS.sum(1).numpy(), rel=1e-3, abs=1e-40)


# --- What all promise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_neither_batch_nor_order_matters(method):
    """Draws follow the ids."""
    model, settings = conv(), {"stdev": 0.2} if method == "gradient_shap" else {}
    targets = [i % 3 for i in range(9)]
    one = explainer(model, PICTURES, method, max_batch=64, **settings).scores(IMAGES, targets)
    for max_batch in (1, 7):
        found = explainer(model, PICTURES, method, max_batch=max_batch, **settings).scores(IMAGES, targets)
        assert found == pytest.approx(one, abs=1e-10)
    order = [4, 0, 8, 2]
    found = explainer(model, PICTURES, method, **settings).scores(IMAGES[order], [targets[i] for i in order], ids=order)
    assert found == pytest.approx(one[order], abs=1e-10)
    other = explainer(model, PICTURES, method, seed=1, **settings).scores(IMAGES, targets)
    assert np.allclose(one, other, atol=1e-10) == (method != "gradient_shap")


class Watched(nn.Module):
    """Notes the size of each batch; fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.inner: nn.Module = conv()
        self.tail: nn.Module = nn.ReLU()
        self.sizes, self.fail = list[int](), False

    def forward(self, images: Tensor) -> Tensor:
        self.sizes.append(len(images))
        out: Tensor = self.tail(self.inner(images))
        if self.fail:
            raise RuntimeError("out of order")
        return out


@pytest.mark.parametrize(("method", "cost"), list(zip(METHODS, COSTS, strict=True)), ids=METHODS)
def test_rows_are_counted_and_bounded(method, cost):
    model = Watched()
    asked = explainer(model, PICTURES, method, max_batch=13)
    before, model.sizes = asked.task.predict.n_rows, []
    asked.scores(IMAGES)
    assert asked.task.predict.n_rows - before - len(IMAGES) == cost * len(IMAGES)  # and the input for its neighbourhood
    assert sum(model.sizes) == (cost + 1) * len(IMAGES)
    assert max(model.sizes) <= 13
    assert asked.method.cost(36) == cost
    assert explainer(model, PICTURES, method)(IMAGES[:2], 1).evaluations["scoring"].tolist() == [cost, cost]


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_left_as_it_was(method):
    """Also when it fails under way."""
    model = Watched().train()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    inside = [{k: v for k, v in vars(part).items() if k != "sizes"} for part in model.modules()]
    inside = [{k: dict(v) if isinstance(v, dict) else v for k, v in part.items()} for part in inside]
    asked = explainer(model, PICTURES, method)
    for model.fail in (False, True):
        x, before = IMAGES.clone(), PICTURES.clone()
        with pytest.raises(RuntimeError, match="out of order") if model.fail else nullcontext():
            asked.scores(x)
        assert torch.equal(x, IMAGES)
        assert torch.equal(before, PICTURES)
        for part, was in zip(model.modules(), inside, strict=True):
            assert part.training
            assert not part._forward_hooks
            assert not part._forward_pre_hooks
            assert not part._backward_hooks
            assert set(vars(part)) - {"sizes"} == set(was)
        assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
        assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_the_class_asked_for_is_explained(method):
    asked = explainer(dense(), TABLE, method)
    found = asked.scores(ROWS[[0, 0, 0]], [0, 1, 2])
    assert not np.allclose(found[0], found[1])
    assert not np.allclose(found[1], found[2])
    for target in range(3):
        assert asked.scores(ROWS[:1], target, ids=[target])[0] == pytest.approx(found[target])
    assert asked.scores(ROWS[:1]) == pytest.approx(asked.scores(ROWS[:1], int(dense()(ROWS[:1]).argmax())))


@pytest.mark.parametrize("method", METHODS)
def test_what_has_no_gradient_is_refused(method):
    with pytest.raises(fans.FansError, match=f"Expected a torch module for method='{method}', got function; use"):
        explainer(lambda rows: rows[:, 0], TABLE.numpy(), method)

    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, rows: Tensor) -> Tensor:
            return self.relu(rows.detach()[:, :2])

    with pytest.raises(fans.FansError, match="Expected a module through which gradients flow, got outputs that"):
        scores(Cut(), ROWS, method)


def test_categories_have_no_gradient():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(6.0), "b": pandas.Categorical([1, 2, 3] * 2)})
    with pytest.raises(fans.FansError, match="numbers in every column for method='saliency', got categories"):
        explainer(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), frame, "saliency", baseline=None)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = built(lambda: nn.Linear(5, 3))

    def forward(self, rows: Tensor) -> Tensor:
        return torch.relu(self.linear(rows))


@pytest.mark.parametrize(
    ("method", "wanted"),
    [("guided_backprop", "an nn.ReLU module"), ("deep_lift", "a module of its own for every activation")],
)
@pytest.mark.filterwarnings("ignore:.*add up to the difference of the output:fans.FansWarning")
def test_functional_activations_are_warned_of(method, wanted):
    with pytest.warns(fans.FansWarning, match=f"Expected {wanted} for method='{method}', got none in Functional"):
        found = scores(Functional(), ROWS, method, baseline=0.0)
    slope = scores(Functional(), ROWS, "saliency", absolute=False)
    assert found == pytest.approx(slope if method == "guided_backprop" else slope * ROWS.numpy())


def test_a_softmax_inside_is_warned_of():
    model = nn.Sequential(dense(), nn.Softmax(1))
    with pytest.warns(fans.FansWarning, match="Expected a module that returns logits for method='deep_lift', got one"):
        explainer(model, TABLE, "deep_lift")


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("integrated_gradients", {"n_steps": 0}, "`n_steps` as a whole number of at least 1, got 0"),
        ("integrated_gradients", {"n_steps": 1, "rule": "riemann_left"}, "`n_steps` as a whole number of at least 2"),
        ("integrated_gradients", {"rule": "trapezoid"}, "`rule` to be one of 'gausslegendre', .* got 'trapezoid'"),
        ("gradient_shap", {"n_samples": 2.5}, "`n_samples` as a whole number of at least 1, got 2.5"),
        ("gradient_shap", {"stdev": -1}, "`stdev` of at least 0, got -1"),
        ("gradient_shap", {"stdev": math.nan}, "`stdev` of at least 0, got nan"),
        ("gradient_shap", {"references": "mean"}, "`references` to be one of 'background', 'baseline', got 'mean'"),
        ("idgi", {"n_steps": "many"}, "`n_steps` as a whole number of at least 1, got 'many'"),
        ("saliency", {"abs": False}, "a setting to be one of .* got 'abs'"),
    ],
)
def test_bad_settings_are_refused(method, settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(dense(), TABLE, method, **settings)


def test_deep_lift_tells_where_its_scores_do_not_add_up():
    """One activation is a module, the other a function: the rule does not see it."""

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, rows: Tensor) -> Tensor:
            z = torch.sigmoid(3 * self.relu(rows).sum(1))
            return torch.stack([z, -z], 1)

    rows = torch.rand(6, 3, generator=torch.Generator().manual_seed(0)) + 0.5
    made = fans.Explainer(Half(), rows, method="deep_lift", baseline=0.0)
    with pytest.warns(fans.FansWarning, match="add up to the difference of the output, got a gap of more than 1 %"):
        made.scores(rows[:2])
