"""MP: its objective pixel by pixel, its slope, its steps, and what it finds on models that look at one place."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.engine import draws
from fans.methods.meaningful_perturbation import MeaningfulPerturbation
from fans.methods.problem import Problem
from fans.spaces import Image
from tests.methods.blocks import inputs_of

SETTINGS: dict[str, Any] = {
    "n_steps": 20,
    "rate": 0.1,
    "l1": 0.05,
    "tv": 0.2,
    "beta": 3.0,
    "cell": 2,
    "upsampling": "bilinear",
    "replace": "blur",
    "sigma": 1.5,
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


class Corner(nn.Module):
    """P of class 1 rises with the brightness of the upper left quarter, and depends on nothing else."""

    def forward(self, images: Tensor) -> Tensor:
        z = 12 * (images[:, 0, :4, :4].mean((1, 2)) - 0.4)
        return torch.stack([-z / 2, z / 2], 1)


BACKGROUND, IMAGES = random(20, 2, 7, 6), random(5, 2, 7, 6, seed=1)
GREY = random(20, 1, 8, 8)


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    given: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.2} | SETTINGS | settings
    return fans.Explainer(model, background, method="meaningful_perturbation", **given)


def ready(asked: fans.Explainer, x: Any, target: Any = None) -> tuple[MeaningfulPerturbation, Problem]:
    """The method and the inputs as it sees them."""
    rows = asked.task.space.encode(x, "x")
    with asked.task.predict.session():
        block = inputs_of(asked, rows, target).block(slice(0, len(rows))).block
    assert isinstance(asked.method, MeaningfulPerturbation)
    return asked.method, Problem.of(asked.task, block, asked.settings)


# --- The objective, pixel by pixel -----------------------------------------------------------------------------------


def interpolated(mask: Any, height: int, width: int, kind: str) -> Any:
    """The mask on every pixel: of the cell it lies in, or weighted by how near the centres of four cells are."""
    h, w = mask.shape
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            if kind == "nearest":
                out[y, x] = mask[math.floor(y * h / height), math.floor(x * w / width)]
                continue
            down = min(max((y + 0.5) * h / height - 0.5, 0), h - 1)
            right = min(max((x + 0.5) * w / width - 0.5, 0), w - 1)
            for cell_y in range(h):
                for cell_x in range(w):
                    near = max(0, 1 - abs(down - cell_y)) * max(0, 1 - abs(right - cell_x))
                    out[y, x] += near * mask[cell_y, cell_x]
    return out


def blurred(image: Any, sigma: float) -> Any:
    """A Gaussian over all pixels, whose weights add up to 1."""
    _, height, width = image.shape
    out = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            down = np.exp(-((np.arange(height) - y) ** 2) / (2 * sigma**2))
            right = np.exp(-((np.arange(width) - x) ** 2) / (2 * sigma**2))
            weight = down[:, None] * right
            out[:, y, x] = (image * weight).sum((1, 2)) / weight.sum()
    return out


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"noise": 0.0, "upsampling": "nearest"},
        {"noise": 0.0, "replace": "baseline", "beta": 1.5},
        {"noise": 0.0, "sigma": None, "cell": 1},
        {"noise": 0.0, "cell": 7},
    ],
)
def test_the_objective_by_hand(changed):
    settings = SETTINGS | changed
    model = smooth(2, 7, 6)
    method, inputs = ready(explainer(model, BACKGROUND, **settings), IMAGES, [0, 1, 2, 0, 1])
    cell = settings["cell"]
    h, w = math.ceil(7 / cell), math.ceil(6 / cell)
    mask = random(5, 1, h, w, seed=2)
    with torch.no_grad():
        found = method.objective(inputs, method.replacement(inputs), mask, 3)
    spread = BACKGROUND.numpy().std(0)
    for i in range(5):
        image, m = IMAGES[i].numpy(), mask[i, 0].numpy()
        other = (
            np.full_like(image, 0.2) if settings["replace"] == "baseline" else blurred(image, settings["sigma"] or 1)
        )
        keep = interpolated(m, 7, 6, settings["upsampling"])
        shown = keep * image + (1 - keep) * other
        if settings["noise"]:
            key = draws.stream_keys(0, [i], "meaningful_perturbation")
            normals = draws.normal(key, 3 * 84 + torch.arange(84)).numpy().reshape(2, 7, 6)
            shown = shown + 0.2 * spread * normals
        with torch.no_grad():
            p = float(model(torch.from_numpy(shown)[None]).softmax(1)[0, i % 3])
        down = [abs(m[y + 1, x] - m[y, x]) ** settings["beta"] for y in range(h - 1) for x in range(w)]
        right = [abs(m[y, x + 1] - m[y, x]) ** settings["beta"] for y in range(h) for x in range(w - 1)]
        rough = sum(sum(steps) / len(steps) for steps in (down, right) if steps)
        assert float(found[i]) == pytest.approx(0.05 * (1 - m).mean() + 0.2 * rough + p, abs=1e-6)


def test_the_slope_by_finite_differences():
    method, inputs = ready(explainer(smooth(2, 7, 6), BACKGROUND), IMAGES)
    replacement = method.replacement(inputs)
    mask = random(5, 1, 4, 3, seed=2).requires_grad_()
    (slope,) = torch.autograd.grad(method.objective(inputs, replacement, mask, 0).sum(), mask)
    with torch.no_grad():
        for place in range(12):
            values = []
            for step in (1e-6, -1e-6):
                moved = mask.clone()
                moved.view(5, 12)[:, place] += step
                values.append(method.objective(inputs, replacement, moved, 0))
            by_difference = (values[0] - values[1]) / 2e-6
            assert slope.view(5, 12)[:, place].numpy() == pytest.approx(by_difference.numpy(), abs=1e-6)


# --- The steps -------------------------------------------------------------------------------------------------------


def test_steps_are_adams_within_bounds():
    """From 1 everywhere, by Adam's own formulas; a score is what the mask deletes."""
    asked = explainer(smooth(2, 7, 6), BACKGROUND, n_steps=6, cell=1)
    method, inputs = ready(asked, IMAGES)
    replacement = method.replacement(inputs)
    mask = torch.ones(5, 1, 7, 6).double()
    first, second = torch.zeros_like(mask), torch.zeros_like(mask)
    for step in range(6):
        leaf = mask.clone().requires_grad_()
        (g,) = torch.autograd.grad(method.objective(inputs, replacement, leaf, step).sum(), leaf)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        move = first / (1 - 0.9 ** (step + 1)) / ((second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
        mask = (mask - 0.1 * move).clamp(0, 1)
    assert asked.scores(IMAGES) == pytest.approx(1 - mask.flatten(1).numpy(), abs=1e-9)
    assert ((mask == 1).any() and (mask < 0.7).any()).item()


def test_the_objective_falls():
    method, inputs = ready(explainer(smooth(2, 7, 6), BACKGROUND, n_steps=60, noise=0.0), IMAGES)
    mask, history = method.mask(inputs)
    assert history.shape == (5, 60)
    assert (history[:, -1] < history[:, 0] - 0.01).all()
    assert (history[:, -5:].mean(1) < history[:, 5:10].mean(1)).all()
    with torch.no_grad():
        kept = method.objective(inputs, method.replacement(inputs), torch.ones_like(mask), 0)
    assert history[:, 0].numpy() == pytest.approx(kept.numpy())


# --- What it finds ---------------------------------------------------------------------------------------------------


def test_it_deletes_what_the_model_looks_at_and_nothing_else():
    images = 0.5 + 0.5 * random(4, 1, 8, 8, seed=3)
    settings: dict[str, Any] = {"replace": "baseline", "n_steps": 80}
    sharp = explainer(Corner(), GREY, **settings, tv=0.0, upsampling="nearest").scores(images, 1).reshape(4, 8, 8)
    even = explainer(Corner(), GREY, **settings).scores(images, 1).reshape(4, 8, 8)
    outside = np.ones((8, 8), dtype=bool)
    outside[:4, :4] = False
    assert (sharp[:, :4, :4] > 0.2).all()
    assert sharp[:, outside] == pytest.approx(np.zeros((4, 48)), abs=1e-12)
    for found in (sharp, even):
        place = found.reshape(4, -1).argmax(1)
        assert (place % 8 < 4).all()
        assert (place // 8 < 4).all()
        assert (found[:, :4, :4].mean((1, 2)) > found[:, outside].mean(1) + 0.2).all()


def test_a_score_is_high_where_deleting_lowers_the_class_asked_for():
    """Deleting the bright corner can only help class 0, so nothing is deleted for it."""
    images = 0.5 + 0.5 * random(4, 1, 8, 8, seed=3)
    asked = explainer(Corner(), GREY, replace="baseline", n_steps=60, noise=0.0)
    assert asked.scores(images, 1).max() > 0.5
    assert asked.scores(images, 0) == pytest.approx(np.zeros((4, 64)), abs=1e-12)
    both = asked.scores(images[[0, 0]], [0, 1])
    assert both == pytest.approx(np.stack([asked.scores(images[:1], target)[0] for target in (0, 1)]), abs=1e-9)


def test_raw_outputs_are_explained_as_probabilities():
    one = explainer(smooth(2, 7, 6), BACKGROUND, output="probability").scores(IMAGES, 1)
    assert explainer(smooth(2, 7, 6), BACKGROUND, output="raw").scores(IMAGES, 1) == pytest.approx(one, abs=1e-9)


def test_channels_last_and_coarser_features():
    """One mask for all channels, wherever they are; a patch's score is the mean of its pixels'."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner: nn.Module = smooth(2, 7, 6)

        def forward(self, images: Tensor) -> Tensor:
            out: Tensor = self.inner(images.movedim(-1, 1))
            return out

    one = explainer(smooth(2, 7, 6), BACKGROUND, noise=0.0).scores(IMAGES).reshape(5, 7, 6)
    space = Image("pixel", channels="last")
    last = explainer(Last(), BACKGROUND.movedim(1, -1), space=space, noise=0.0).scores(IMAGES.movedim(1, -1))
    assert last.reshape(5, 7, 6) == pytest.approx(one, abs=1e-9)
    patches = explainer(smooth(2, 7, 6), BACKGROUND, space=Image("patch", patch=6), noise=0.0).scores(IMAGES)
    expected = np.stack([one[:, :6].mean((1, 2)), one[:, 6:].mean((1, 2))], 1)
    assert patches == pytest.approx(expected, abs=1e-6)


# --- What it promises ------------------------------------------------------------------------------------------------


def test_neither_batch_nor_order_matters():
    """Each input's mask is its own; noise follows the ids."""
    x, model = random(9, 2, 7, 6, seed=4), smooth(2, 7, 6)
    one = explainer(model, BACKGROUND, max_batch=64).scores(x)
    for max_batch in (1, 7):
        assert explainer(model, BACKGROUND, max_batch=max_batch).scores(x) == pytest.approx(one, abs=1e-8)
    order = [4, 0, 8, 2]
    assert explainer(model, BACKGROUND).scores(x[order], ids=order) == pytest.approx(one[order], abs=1e-8)
    assert not np.allclose(explainer(model, BACKGROUND, seed=1).scores(x), one, atol=1e-3)
    still = [explainer(model, BACKGROUND, seed=seed, noise=0.0).scores(x) for seed in (0, 1)]
    assert still[0] == pytest.approx(still[1], abs=1e-8)


class Watched(nn.Module):
    """Notes the size of each batch; fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.inner: nn.Module = smooth(2, 7, 6)
        self.sizes, self.fail = list[int](), False

    def forward(self, images: Tensor) -> Tensor:
        self.sizes.append(len(images))
        if self.fail and len(self.sizes) > 3:
            raise RuntimeError("out of order")
        out: Tensor = self.inner(images)
        return out


def test_rows_are_counted_and_bounded_and_the_model_is_left_as_it_was():
    model, x = Watched().train(), IMAGES.clone()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    generator = torch.get_rng_state()
    asked = explainer(model, BACKGROUND, max_batch=3)
    model.sizes = []
    asked.scores(x)
    assert sum(model.sizes) == 5 * (20 + 1)  # and once for the neighbourhood
    assert max(model.sizes) <= 3
    assert asked.method.cost(42) == 20
    assert asked.method.at_once(42) == 1
    model.sizes, model.fail = [], True
    with pytest.raises(RuntimeError, match="out of order"):
        asked.scores(x)
    assert all(part.training and not part._forward_hooks for part in model.modules())
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert torch.equal(x, IMAGES)
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 0}, "`n_steps` as a whole number of at least 1, got 0"),
        ({"cell": 0.5}, "`cell` as a whole number of at least 1, got 0.5"),
        ({"rate": 0}, "`rate` above 0, got 0"),
        ({"l1": -0.1}, "`l1` of at least 0, got -0.1"),
        ({"tv": math.inf}, "`tv` of at least 0, got inf"),
        ({"beta": 0.5}, "`beta` of at least 1, got 0.5"),
        ({"noise": "some"}, "`noise` of at least 0, got 'some'"),
        ({"sigma": 0.0}, "`sigma` above 0, got 0.0"),
        ({"upsampling": "cubic"}, "`upsampling` to be one of 'bilinear', 'nearest', got 'cubic'"),
        ({"replace": "noise"}, "`replace` to be one of 'blur', 'baseline', got 'noise'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(Corner(), GREY, **settings)


def test_a_table_and_a_black_box_are_refused():
    with pytest.raises(fans.FansError, match="Expected image inputs for method='meaningful_perturbation', got table"):
        explainer(nn.Linear(4, 2), np.eye(4), space=None)
    with pytest.raises(fans.FansError, match="a torch module for method='meaningful_perturbation', got function; use"):
        explainer(lambda images: images.mean((1, 2, 3)), GREY.numpy())
