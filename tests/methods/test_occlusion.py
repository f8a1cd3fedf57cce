"""Occlusion: against a loop over windows, Captum, and models whose answer is known."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.spaces import Image


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


def smooth(n_channels: int, height: int, width: int) -> Any:
    """A float64 module with predictions that move."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        features = 3 * (height - 2) * (width - 2)
        return nn.Sequential(
            nn.Conv2d(n_channels, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(features, 3), nn.BatchNorm1d(3)
        ).double()


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    given: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.3, "output": "raw"} | settings
    return fans.Explainer(model, background, method="occlusion", **given)


SHAPES = [((1, 6, 6), 4, 1), ((2, 7, 5), 3, 2), ((1, 6, 8), 3, 3), ((1, 5, 5), 5, 1), ((1, 7, 7), 4, 4)]


def by_hand(model: nn.Module, image: Tensor, target: int, window: int, stride: int, missing: float) -> Any:
    """Cover one window after the other; the last may reach beyond the image. Scores `(height, width)`."""
    _, height, width = image.shape
    fall, n = np.zeros((height, width)), np.zeros((height, width))
    with torch.no_grad():
        whole = float(model(image[None])[0, target])
        top = 0
        while True:
            left = 0
            while True:
                covered = image.clone()
                covered[:, top : top + window, left : left + window] = missing
                change = whole - float(model(covered[None])[0, target])
                fall[top : top + window, left : left + window] += change
                n[top : top + window, left : left + window] += 1
                if left + window >= width:
                    break
                left += stride
            if top + window >= height:
                break
            top += stride
    return fall / n


@pytest.mark.parametrize(("shape", "window", "stride"), SHAPES)
def test_the_mean_fall_over_all_windows_on_a_pixel(shape, window, stride):
    model, background, x = smooth(*shape).eval(), random(10, *shape), random(3, *shape, seed=1)
    asked = explainer(model, background, window=window, stride=stride)
    found = asked.scores(x, [0, 1, 2]).reshape(3, *shape[1:])
    for i in range(3):
        assert found[i] == pytest.approx(by_hand(model, x[i], i, window, stride, 0.3), abs=1e-12)
    assert np.ptp(found) > 0.1


@pytest.mark.parametrize(("shape", "window", "stride"), SHAPES)
def test_it_is_captums(shape, window, stride):
    captum = pytest.importorskip("captum.attr")
    model, background, x = smooth(*shape).eval(), random(10, *shape), random(3, *shape, seed=1)
    windows = (shape[0], window, window)
    expected = captum.Occlusion(model).attribute(
        x, windows, strides=(1, stride, stride), baselines=0.3, target=torch.tensor([2, 0, 1])
    )
    found = explainer(model, background, window=window, stride=stride).scores(x, [2, 0, 1])
    assert found == pytest.approx(expected.mean(1).flatten(1).detach().numpy(), abs=1e-6)  # Captum masks in float32


def test_a_black_box_with_channels_last():
    """Only outputs are asked for; an image's own baseline is its own."""
    background, x = random(10, 6, 6, 3).numpy(), random(4, 6, 6, 3, seed=1).numpy()

    def model(images: Any) -> Any:
        return images[:, 1:3, 2:4].sum((1, 2)) * [1, 2, 3]  # (n, 3): each channel's brightness there

    found = explainer(model, background, window=1, space=Image("pixel", channels="last")).scores(x, 1)
    expected = np.zeros((4, 6, 6))
    expected[:, 1:3, 2:4] = 2 * (x[:, 1:3, 2:4, 1] - 0.3)
    assert found.reshape(4, 6, 6) == pytest.approx(expected, abs=1e-6)
    blurred = explainer(model, background, window=1, baseline="blur", space=Image("pixel", channels="last", sigma=1.0))
    from_blur = x - blurred.task.baseline.function(torch.from_numpy(x).flatten(1)).view(x.shape).numpy()  # type: ignore[attr-defined]
    expected[:, 1:3, 2:4] = 2 * from_blur[:, 1:3, 2:4, 1]
    assert blurred.scores(x, 1).reshape(4, 6, 6) == pytest.approx(expected, abs=1e-6)


def test_neither_batch_nor_order_matters():
    model, background, x = smooth(1, 6, 6), random(10, 1, 6, 6), random(9, 1, 6, 6, seed=1)
    one = explainer(model, background, max_batch=64, output="probability").scores(x)
    for max_batch in (1, 7):
        found = explainer(model, background, max_batch=max_batch, output="probability").scores(x)
        assert found == pytest.approx(one, abs=1e-12)
    order = [4, 0, 8, 2]
    found = explainer(model, background, output="probability").scores(x[order], ids=order)
    assert found == pytest.approx(one[order], abs=1e-12)


class Watched(nn.Module):
    """Notes the size of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner: nn.Module = smooth(1, 6, 6)
        self.sizes = list[int]()

    def forward(self, images: Tensor) -> Tensor:
        self.sizes.append(len(images))
        out: Tensor = self.inner(images)
        return out


@pytest.mark.parametrize(("stride", "windows"), [(1, 9), (2, 4), (3, 4)])
def test_rows_are_counted_and_bounded_and_the_model_is_left_as_it_was(stride, windows):
    model, x = Watched().train(), random(5, 1, 6, 6, seed=1)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    asked = explainer(model, random(10, 1, 6, 6), max_batch=13, stride=stride, space=Image("patch", patch=3))
    model.sizes = []
    found = asked.scores(x)
    assert found.shape == (5, 4)
    assert sum(model.sizes) == 5 * (windows + 1 + 1)  # and once for the neighbourhood
    assert max(model.sizes) <= 13
    assert asked.method.cost(asked.task.space.n_features) == windows + 1
    assert all(part.training for part in model.modules())
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.equal(x, random(5, 1, 6, 6, seed=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "`window` as a whole number of at least 1, got 0"),
        ({"stride": 1.5}, "`stride` as a whole number of at least 1, got 1.5"),
        ({"window": 2, "stride": 3}, "`stride` of at most `window`, 2, so that no pixel is skipped, got 3"),
        ({"window": 7}, "`window` of at most 6, the image's shorter side, got 7"),
        ({"window": 20}, "`window` of at most 6, the image's shorter side, got 20"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(smooth(1, 6, 8), random(10, 1, 6, 8), **settings)


def test_a_table_is_refused():
    with pytest.raises(fans.FansError, match="Expected image inputs for method='occlusion', got table inputs; use"):
        explainer(lambda rows: rows[:, 0], np.eye(4), space=None)
