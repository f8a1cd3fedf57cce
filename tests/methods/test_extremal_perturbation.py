"""Extremal perturbations: objective pixel by pixel, slope, steps, areas, and what they find in a planted patch."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.methods.extremal_perturbation import ExtremalPerturbation
from fans.methods.problem import Problem
from fans.spaces import Image
from tests.methods.blocks import inputs_of

SETTINGS: dict[str, Any] = {
    "areas": (0.1, 0.3),
    "variant": "preserve",
    "n_steps": 20,
    "rate": 0.1,
    "weight": 10.0,
    "cell": 2,
    "sigma": 1.2,
    "replace": "blur",
    "smooth": 0.1,
}
"""Every setting, so that no result here depends on a default."""


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


def smooth(n_channels: int, height: int, width: int) -> Any:
    """A float64 module with predictions that move."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        last = nn.Linear(3 * (height - 2) * (width - 2), 3)
        last.weight.data *= 4
        return nn.Sequential(nn.Conv2d(n_channels, 3, 3), nn.Tanh(), nn.Flatten(), last).double()


class Patch(nn.Module):
    """The logit of class 1 rises with the brightness of one patch, and depends on nothing else."""

    def forward(self, images: Tensor) -> Tensor:
        z = 12 * (images[:, 0, 2:6, 6:10].mean((1, 2)) - 0.4)
        return torch.stack([-z / 2, z / 2], 1)


BACKGROUND, IMAGES = random(20, 2, 7, 6), random(5, 2, 7, 6, seed=1)
GREY = random(20, 1, 12, 12)
INSIDE = np.zeros((12, 12), dtype=bool)
INSIDE[2:6, 6:10] = True


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    given: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.2} | SETTINGS | settings
    return fans.Explainer(model, background, method="extremal_perturbation", **given)


def ready(asked: fans.Explainer, x: Any, target: Any = None) -> tuple[ExtremalPerturbation, Problem, Tensor]:
    """The method, the inputs as it sees them, and what deleted pixels show."""
    rows = asked.task.space.encode(x, "x")
    with asked.task.predict.session():
        block = inputs_of(asked, rows, target).block(slice(0, len(rows))).block
    assert isinstance(asked.method, ExtremalPerturbation)
    inputs = Problem.of(asked.task, block, asked.settings)
    other = inputs.missing if asked.method.replace == "baseline" else torch.from_numpy(blurred(x.numpy(), 1.0))
    return asked.method, inputs, other.flatten(1)


# --- The objective, pixel by pixel -----------------------------------------------------------------------------------


def blurred(images: Any, sigma: float) -> Any:
    """A Gaussian over all pixels, whose weights add up to 1."""
    height, width = images.shape[-2:]
    out = np.zeros_like(images)
    for y in range(height):
        for x in range(width):
            down = np.exp(-((np.arange(height) - y) ** 2) / (2 * sigma**2))
            right = np.exp(-((np.arange(width) - x) ** 2) / (2 * sigma**2))
            weight = down[:, None] * right
            out[..., y, x] = (images * weight).sum((-2, -1)) / weight.sum()
    return out


def smooth_maximum(cells: Any, height: int, width: int, cell: int, sigma: float) -> Any:
    """The mask of coarse cells: at every pixel the smooth maximum over the cells whose kernel reaches its cell."""
    h, w = cells.shape

    def kernel(y: float, x: float, i: int, j: int) -> float:
        distance = math.hypot(y + 0.5 - (i + 0.5) * cell, x + 0.5 - (j + 0.5) * cell) / sigma
        return math.exp(-(max(0.0, distance - 1) ** 2) / 4)

    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            above = below = 0.0
            for i in range(-9, h + 9):  # beyond the image there are cells as well: empty ones
                for j in range(-9, w + 9):
                    mine = [(y // cell * cell + a, x // cell * cell + b) for a in range(cell) for b in range(cell)]
                    if max(kernel(*pixel, i, j) for pixel in mine) < 0.05:
                        continue
                    value = kernel(y, x, i, j) * cells[i, j] if 0 <= i < h and 0 <= j < w else 0.0
                    above += value * math.exp(20 * value)
                    below += math.exp(20 * value)
            out[y, x] = above / below
    return out


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"variant": "delete", "replace": "baseline"},
        {"variant": "hybrid", "cell": 3, "sigma": None},
        {"cell": 1, "sigma": 0.7},
    ],
)
def test_the_objective_by_hand(changed):
    settings = SETTINGS | changed
    model = smooth(2, 7, 6)
    method, inputs, other = ready(explainer(model, BACKGROUND, **settings), IMAGES[:2], [0, 1])
    cell = settings["cell"]
    cells = random(4, 1, math.ceil(7 / cell), math.ceil(6 / cell), seed=2)
    with torch.enable_grad():
        found = method.objective(inputs, other, cells, 5).detach()
    weight = 10 * 16 ** (5 / 19)
    for i in range(2):
        image, shown_instead = IMAGES[i].numpy(), other[i].view(2, 7, 6).numpy()
        for j, n_ones in enumerate((4, 13)):  # of 42 pixels
            mask = smooth_maximum(cells[2 * i + j, 0].numpy(), 7, 6, cell, settings["sigma"] or cell / 2)
            order = np.sort(mask.ravel())
            wrong = [(value - (1 if place >= 42 - n_ones else 0)) ** 2 for place, value in enumerate(order)]
            outputs = []
            for keep in (mask, 1 - mask):
                shown = torch.from_numpy(keep * image + (1 - keep) * shown_instead)
                with torch.no_grad():
                    outputs.append(float(model(shown[None])[0, i]))
            effect = {"preserve": outputs[0], "delete": -outputs[1], "hybrid": outputs[0] - outputs[1]}
            expected = weight * sum(wrong) / 42 - effect[settings["variant"]]
            assert float(found[2 * i + j]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("variant", ["preserve", "hybrid"])
def test_the_slope_by_finite_differences(variant):
    method, inputs, other = ready(explainer(smooth(2, 7, 6), BACKGROUND, variant=variant), IMAGES)
    cells = random(10, 1, 4, 3, seed=2).requires_grad_()
    (slope,) = torch.autograd.grad(method.objective(inputs, other, cells, 7).sum(), cells)
    for place in range(12):
        values = []
        for step in (1e-6, -1e-6):
            moved = cells.detach().clone()
            moved.view(10, 12)[:, place] += step
            values.append(method.objective(inputs, other, moved, 7).detach())
        by_difference = (values[0] - values[1]) / 2e-6
        assert slope.reshape(10, 12)[:, place].numpy() == pytest.approx(by_difference.numpy(), abs=1e-5)


# --- The steps -------------------------------------------------------------------------------------------------------


def test_steps_are_those_of_torchs_own_optimiser_within_bounds():
    """From a half everywhere; a score is the mean mask, blurred; the price grows from the second step on."""
    asked = explainer(smooth(2, 7, 6), BACKGROUND, n_steps=6)
    method, inputs, other = ready(asked, IMAGES)
    assert [method.weight_at(s) for s in (0, 1, 5)] == pytest.approx([0, 10 * 16**0.2, 160])
    cells = torch.full((10, 1, 4, 3), 0.5).double().requires_grad_()
    optimiser = torch.optim.SGD([cells], lr=0.1, momentum=0.9)
    for step in range(6):
        optimiser.zero_grad()
        method.objective(inputs, other, cells, step).sum().backward()
        optimiser.step()
        with torch.no_grad():
            cells.clamp_(0, 1)
    mean = method.fine(cells.detach(), (7, 6)).view(5, 2, 7, 6).mean(1).numpy()
    assert asked.scores(IMAGES).reshape(5, 7, 6) == pytest.approx(blurred(mean, 0.1 * 6), abs=1e-9)
    assert (cells == 0).any()
    plain = explainer(smooth(2, 7, 6), BACKGROUND, n_steps=6, smooth=0.0).scores(IMAGES).reshape(5, 7, 6)
    assert plain == pytest.approx(mean, abs=1e-9)


def test_masks_have_their_areas():
    """Counted in pixels that are rather kept than not: soft edges add to the mean, how much differs by processor."""
    areas = (0.1, 0.25, 0.5)
    images = 0.5 + 0.5 * random(3, 1, 12, 12, seed=3)
    settings: dict[str, Any] = {"areas": areas, "n_steps": 150, "sigma": 0.5, "weight": 100.0, "rate": 0.03}
    method, inputs, _ = ready(explainer(Patch(), GREY, replace="baseline", **settings), images, [1, 1, 1])
    with torch.enable_grad():
        kept = method.fine(method.cells(inputs), (12, 12)).detach() > 0.5
    found = kept.double().mean((1, 2, 3)).view(3, 3).numpy()
    assert found == pytest.approx(np.tile(areas, (3, 1)), abs=0.06)


# --- What it finds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["preserve", "delete", "hybrid"])
@pytest.mark.parametrize("output", ["raw", "probability"])
def test_it_finds_the_patch_that_the_model_looks_at(variant, output):
    """Whatever is explained: its objective is the logit."""
    images = 0.5 + 0.5 * random(4, 1, 12, 12, seed=3)
    asked = explainer(Patch(), GREY, replace="baseline", variant=variant, n_steps=60, rate=0.03, output=output)
    found = asked.scores(images, 1).reshape(4, 12, 12)
    place = found.reshape(4, -1).argmax(1)
    assert INSIDE.ravel()[place].all()
    assert (found[:, INSIDE].mean(1) > found[:, ~INSIDE].mean(1) + 0.3).all()


def test_one_logit_for_two_classes():
    class One(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return Patch()(images)[:, 1:]

    images = 0.5 + 0.5 * random(2, 1, 12, 12, seed=3)
    settings: dict[str, Any] = {"replace": "baseline", "task": "classification", "n_steps": 60, "rate": 0.03}
    found = explainer(One(), GREY, **settings).scores(images, 1).reshape(2, 12, 12)
    assert (found[:, INSIDE].mean(1) > found[:, ~INSIDE].mean(1) + 0.3).all()
    against = explainer(One(), GREY, **settings).scores(images, 0).reshape(2, 12, 12)
    assert (against[:, INSIDE].mean(1) < against[:, ~INSIDE].mean(1)).all()


# --- What it promises ------------------------------------------------------------------------------------------------


def test_neither_batch_nor_order_matters():
    x, model = random(9, 2, 7, 6, seed=4), smooth(2, 7, 6)
    one = explainer(model, BACKGROUND, max_batch=64).scores(x)
    for max_batch in (1, 7):
        assert explainer(model, BACKGROUND, max_batch=max_batch).scores(x) == pytest.approx(one, abs=1e-7)
    order = [4, 0, 8, 2]
    assert explainer(model, BACKGROUND).scores(x[order], ids=order) == pytest.approx(one[order], abs=1e-7)
    assert explainer(model, BACKGROUND, seed=1).scores(x) == pytest.approx(one, abs=1e-7)  # nothing is drawn


@pytest.mark.parametrize(("variant", "rows"), [("preserve", 40), ("hybrid", 80)])
def test_rows_are_counted_and_bounded(variant, rows):
    model, sizes = smooth(2, 7, 6), list[int]()
    model.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    asked = explainer(model, BACKGROUND, max_batch=3, variant=variant)
    sizes.clear()
    asked.scores(IMAGES)
    assert sum(sizes) == 5 * (rows + 1)  # and once for the neighbourhood
    assert max(sizes) <= 3
    assert asked.method.cost(42) == rows
    assert asked.method.at_once(42) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"areas": ()}, r"`areas` as shares of the image above 0 and below 1, got \(\); e.g. \(0.1, 0.2\)"),
        ({"areas": 0.1}, "`areas` as shares of the image above 0 and below 1, got 0.1"),
        ({"areas": (0.1, 1.0)}, r"`areas` as shares of the image above 0 and below 1, got \(0.1, 1.0\)"),
        ({"areas": "most"}, "`areas` as shares of the image above 0 and below 1, got 'most'"),
        ({"variant": "keep"}, "`variant` to be one of 'preserve', 'delete', 'hybrid', got 'keep'"),
        ({"n_steps": 0}, "`n_steps` as a whole number of at least 1, got 0"),
        ({"cell": 0.5}, "`cell` as a whole number of at least 1, got 0.5"),
        ({"rate": 0}, "`rate` above 0, got 0"),
        ({"weight": -1}, "`weight` of at least 0, got -1"),
        ({"smooth": -0.1}, "`smooth` of at least 0, got -0.1"),
        ({"sigma": 0.0}, "`sigma` above 0, got 0.0"),
        ({"replace": "noise"}, "`replace` to be one of 'blur', 'baseline', got 'noise'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(Patch(), GREY, **settings)


def test_areas_may_come_as_a_list():
    assert ExtremalPerturbation(areas=[0.1, 0.2]) == ExtremalPerturbation(areas=(0.1, 0.2))


def test_a_table_and_a_black_box_are_refused():
    with pytest.raises(fans.FansError, match="Expected image inputs for method='extremal_perturbation', got table"):
        explainer(nn.Linear(4, 2), np.eye(4), space=None)
    with pytest.raises(fans.FansError, match="a torch module for method='extremal_perturbation', got function; use"):
        explainer(lambda images: images.mean((1, 2, 3)), GREY.numpy())
