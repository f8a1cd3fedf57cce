"""iGOS++: its objective pixel by pixel, its slope, its steps, and what it finds on models that look at one place."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.engine import draws
from fans.methods.igos_plus_plus import IGOSPlusPlus
from fans.methods.problem import Problem
from fans.spaces import Image
from tests.methods.blocks import inputs_of

SETTINGS: dict[str, Any] = {
    "n_steps": 6,
    "n_path": 3,
    "rate": 0.5,
    "l1": 0.3,
    "tv": 2.0,
    "beta": 2.0,
    "edge": 0.4,
    "cell": 2,
    "replace": "baseline",
    "noise": 0.2,
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
    """P of class 1 rises with the brightness of one patch, and depends on nothing else."""

    def forward(self, images: Tensor) -> Tensor:
        z = 12 * (images[:, 0, 2:6, 6:10].mean((1, 2)) - 0.4)
        return torch.stack([-z / 2, z / 2], 1)


BACKGROUND, IMAGES = random(20, 2, 7, 6), random(5, 2, 7, 6, seed=1)
GREY = random(20, 1, 12, 12)
INSIDE = np.zeros((12, 12), dtype=bool)
INSIDE[2:6, 6:10] = True


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    given: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.2} | SETTINGS | settings
    return fans.Explainer(model, background, method="igos_plus_plus", **given)


def ready(asked: fans.Explainer, x: Any, target: Any = None) -> tuple[IGOSPlusPlus, Problem]:
    """The method and the inputs as it sees them."""
    rows = asked.task.space.encode(x, "x")
    with asked.task.predict.session():
        block = inputs_of(asked, rows, target).block(slice(0, len(rows))).block
    assert isinstance(asked.method, IGOSPlusPlus)
    return asked.method, Problem.of(asked.task, block, asked.settings)


def value_of(method: IGOSPlusPlus, inputs: Problem, masks: Tensor, step: int) -> Tensor:
    with torch.enable_grad():
        return method.objective(inputs, inputs.missing, method._alike(inputs), masks, step)


# --- The objective, pixel by pixel -----------------------------------------------------------------------------------


def interpolated(mask: Any, height: int, width: int) -> Any:
    """The mask on every pixel, weighted by how near the centres of four cells are."""
    h, w = mask.shape
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            down = min(max((y + 0.5) * h / height - 0.5, 0), h - 1)
            right = min(max((x + 0.5) * w / width - 0.5, 0), w - 1)
            for i in range(h):
                for j in range(w):
                    out[y, x] += max(0, 1 - abs(down - i)) * max(0, 1 - abs(right - j)) * mask[i, j]
    return out


def roughness(mask: Any, image: Any, edge: float, beta: float) -> float:
    """How a mask changes between neighbours, counted where the image does not; the mean over channels."""
    _, height, width = image.shape
    total = 0.0
    for dy, dx in ((1, 0), (0, 1)):
        pairs = [((y, x), (y + dy, x + dx)) for y in range(height - dy) for x in range(width - dx)]
        for one, other in pairs:
            alike = np.mean([math.exp(-((c[one] - c[other]) ** 2) / edge**2) for c in image])
            total += float(alike) * abs(mask[one] - mask[other]) ** beta / len(pairs)
    return total


@pytest.mark.parametrize("changed", [{}, {"noise": 0.0, "beta": 1.5, "cell": 3}, {"noise": 0.0, "n_path": 1}])
def test_the_objective_by_hand(changed):
    settings = SETTINGS | changed
    model, n_path = smooth(2, 7, 6), settings["n_path"]
    method, inputs = ready(explainer(model, BACKGROUND, **settings), IMAGES, [0, 1, 2, 0, 1])
    h, w = math.ceil(7 / settings["cell"]), math.ceil(6 / settings["cell"])
    masks = random(5, 2, h, w, seed=2)
    found = value_of(method, inputs, masks, 3).detach()
    for i in range(5):
        image = IMAGES[i].numpy()
        fog = np.zeros_like(image)
        if settings["noise"]:
            normals = draws.normal(draws.stream_keys(0, [i], "igos_plus_plus"), 3 * 84 + torch.arange(84))
            fog = 0.2 * BACKGROUND.numpy().std(0) * normals.numpy().reshape(2, 7, 6)

        def p(keep: Any, of: int = i, image: Any = image, fog: Any = fog) -> float:
            shown = keep * image + (1 - keep) * 0.2 + fog
            with torch.no_grad():
                return float(model(torch.from_numpy(shown)[None]).softmax(1)[0, of % 3])

        deletes, inserts = (interpolated(masks[i, k].numpy(), 7, 6) for k in range(2))
        both = deletes * inserts
        terms = [
            p(s * deletes) - p(1 - s * inserts) + p(s * both) - p(1 - s * both)
            for s in ((k + 1) / n_path for k in range(n_path))
        ]
        size = (1 - masks[i, 0] * masks[i, 1]).mean().item()
        rough = roughness(both, image, 0.4, settings["beta"])
        assert float(found[i]) == pytest.approx(np.mean(terms) + 0.3 * size + 2 * rough, abs=1e-6)


def test_the_slope_by_finite_differences():
    method, inputs = ready(explainer(smooth(2, 7, 6), BACKGROUND), IMAGES)
    masks = random(5, 2, 4, 3, seed=2).requires_grad_()
    (slope,) = torch.autograd.grad(value_of(method, inputs, masks, 0).sum(), masks)
    for place in range(24):
        values = []
        for step in (1e-6, -1e-6):
            moved = masks.detach().clone()
            moved.view(5, 24)[:, place] += step
            values.append(value_of(method, inputs, moved, 0).detach())
        by_difference = (values[0] - values[1]) / 2e-6
        assert slope.view(5, 24)[:, place].numpy() == pytest.approx(by_difference.numpy(), abs=1e-6)


# --- The steps -------------------------------------------------------------------------------------------------------


def test_the_entry_that_moves_most_moves_by_a_rate_that_falls_to_zero():
    """From 1 everywhere, within 0 and 1; a score is what both masks delete."""
    asked = explainer(smooth(2, 7, 6), BACKGROUND, cell=1)
    method, inputs = ready(asked, IMAGES)
    masks = torch.ones(5, 2, 7, 6).double()
    for step in range(6):
        leaf = masks.clone().requires_grad_()
        (g,) = torch.autograd.grad(value_of(method, inputs, leaf, step).sum(), leaf)
        for i in range(5):
            masks[i] -= 0.5 * (6 - step) / 6 * g[i] / g[i].abs().max()
        masks = masks.clamp(0, 1)
    expected = 1 - masks[:, 0] * masks[:, 1]
    assert asked.scores(IMAGES) == pytest.approx(expected.flatten(1).numpy(), abs=1e-9)
    assert ((expected == 0).any() and (expected > 0.5).any()).item()


def test_the_objective_falls():
    method, inputs = ready(explainer(smooth(2, 7, 6), BACKGROUND, n_steps=20, noise=0.0), IMAGES)
    with torch.enable_grad():
        after = value_of(method, inputs, method.masks(inputs), 0)
    before = value_of(method, inputs, torch.ones(5, 2, 4, 3).double(), 0)
    assert (after < before - 0.02).all()


# --- What it finds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replace", ["blur", "baseline"])
def test_it_finds_the_patch_that_the_model_looks_at(replace):
    images = 0.3 * random(4, 1, 12, 12, seed=3)
    images[:, :, 2:6, 6:10] += 0.6
    found = explainer(Patch(), GREY, replace=replace, n_steps=20, l1=0.1).scores(images, 1).reshape(4, 12, 12)
    place = found.reshape(4, -1).argmax(1)
    assert INSIDE.ravel()[place].all()
    assert (found[:, INSIDE].mean(1) > found[:, ~INSIDE].mean(1) + 0.3).all()


def test_nothing_is_deleted_for_a_class_that_deletion_helps():
    images = 0.5 + 0.5 * random(4, 1, 12, 12, seed=3)
    asked = explainer(Patch(), GREY, noise=0.0)
    assert asked.scores(images, 1).max() > 0.5
    assert asked.scores(images, 0) == pytest.approx(np.zeros((4, 144)), abs=1e-12)


# --- What it promises ------------------------------------------------------------------------------------------------


def test_neither_batch_nor_order_matters():
    """Each input's masks are its own; noise follows the ids."""
    x, model = random(9, 2, 7, 6, seed=4), smooth(2, 7, 6)
    one = explainer(model, BACKGROUND, max_batch=64).scores(x)
    for max_batch in (1, 7):
        assert explainer(model, BACKGROUND, max_batch=max_batch).scores(x) == pytest.approx(one, abs=1e-7)
    order = [4, 0, 8, 2]
    assert explainer(model, BACKGROUND).scores(x[order], ids=order) == pytest.approx(one[order], abs=1e-7)
    assert not np.allclose(explainer(model, BACKGROUND, seed=1).scores(x), one, atol=1e-3)
    still = [explainer(model, BACKGROUND, seed=seed, noise=0.0).scores(x) for seed in (0, 1)]
    assert still[0] == pytest.approx(still[1], abs=1e-7)


def test_rows_are_counted_and_bounded():
    model, sizes = smooth(2, 7, 6), list[int]()
    model.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    asked = explainer(model, BACKGROUND, max_batch=2)
    sizes.clear()
    asked.scores(IMAGES)
    assert sum(sizes) == 5 * (6 * 4 * 3 + 1)  # and once for the neighbourhood
    assert max(sizes) <= 2
    assert asked.method.cost(42) == 6 * 4 * 3
    assert asked.method.at_once(42) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 0}, "`n_steps` as a whole number of at least 1, got 0"),
        ({"n_path": 2.5}, "`n_path` as a whole number of at least 1, got 2.5"),
        ({"cell": 0}, "`cell` as a whole number of at least 1, got 0"),
        ({"rate": 0}, "`rate` above 0, got 0"),
        ({"edge": 0.0}, "`edge` above 0, got 0.0"),
        ({"l1": -0.1}, "`l1` of at least 0, got -0.1"),
        ({"tv": math.inf}, "`tv` of at least 0, got inf"),
        ({"beta": 0.5}, "`beta` of at least 1, got 0.5"),
        ({"noise": "some"}, "`noise` of at least 0, got 'some'"),
        ({"replace": "noise"}, "`replace` to be one of 'blur', 'baseline', got 'noise'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(Patch(), GREY, **settings)


def test_a_table_and_a_black_box_are_refused():
    with pytest.raises(fans.FansError, match=r"Expected image inputs for method='igos_plus_plus', got table"):
        explainer(nn.Linear(4, 2), np.eye(4), space=None)
    with pytest.raises(fans.FansError, match=r"a torch module for method='igos_plus_plus', got function; use"):
        explainer(lambda images: images.mean((1, 2, 3)), GREY.numpy())
