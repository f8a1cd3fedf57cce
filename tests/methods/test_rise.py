"""RISE: its masks pixel by pixel, its expectation by enumeration, and what it finds of a planted patch."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.engine import draws
from fans.methods.rise import Rise
from fans.spaces import Image


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


def smooth(n_channels: int, height: int, width: int) -> Any:
    """A float64 module with predictions that move."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        last = nn.Linear(3 * (height - 2) * (width - 2), 3)
        last.weight.data *= 4
        return nn.Sequential(nn.Conv2d(n_channels, 3, 3), nn.Tanh(), nn.Flatten(), last).double()


BACKGROUND, IMAGES = random(20, 2, 7, 6), random(5, 2, 7, 6, seed=1)


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    given: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.2, "n_samples": 30, "cells": 3, "p": 0.4}
    return fans.Explainer(model, background, method="rise", **given | settings)


# --- The masks and their sum -----------------------------------------------------------------------------------------


def enlarged(kept: Any, cell: tuple[int, int]) -> Any:
    """A grid on one cell more than it has: weighted by how near the centres of four cells are."""
    cells = len(kept)
    out = np.zeros(((cells + 1) * cell[0], (cells + 1) * cell[1]))
    for y, x in itertools.product(range(out.shape[0]), range(out.shape[1])):
        down = min(max((y + 0.5) * cells / out.shape[0] - 0.5, 0), cells - 1)
        right = min(max((x + 0.5) * cells / out.shape[1] - 0.5, 0), cells - 1)
        for i, j in itertools.product(range(cells), range(cells)):
            out[y, x] += max(0, 1 - abs(down - i)) * max(0, 1 - abs(right - j)) * kept[i, j]
    return out


@pytest.mark.parametrize("p", [0.4, 0.5])
def test_scores_by_a_loop_over_its_own_draws(p):
    """Cells of 7/3 and 6/3 pixels are 3 and 2 wide; offsets are up to a cell."""
    model = smooth(2, 7, 6)
    found = explainer(model, BACKGROUND, p=p).scores(IMAGES, [0, 1, 2, 0, 1]).reshape(5, 7, 6)
    for i in range(5):
        key, offset = (draws.stream_keys(0, [i], stage) for stage in ("rise", "rise, offset"))
        expected = np.zeros((7, 6))
        for place in range(30):
            kept = draws.bernoulli(key, torch.tensor([place]), 9, p).numpy().reshape(3, 3).astype(float)
            top, left = (int(draws.integers(offset, torch.tensor([2 * place + a]), n)) for a, n in ((0, 4), (1, 3)))
            mask = enlarged(kept, (3, 2))[top : top + 7, left : left + 6]
            shown = mask * IMAGES[i].numpy() + (1 - mask) * 0.2
            with torch.no_grad():
                out = float(model(torch.from_numpy(shown)[None]).softmax(1)[0, i % 3])
            expected += out * mask / (30 * p)
        assert found[i] == pytest.approx(expected, abs=1e-9)
    assert np.ptp(found) > 0.05


def test_the_expectation_by_enumeration():
    """All 16 grids of 2 x 2 cells at all 9 offsets, weighed by their probability; what is drawn comes to that."""
    image = random(1, 1, 4, 4, seed=2)

    def model(images: Any) -> Any:
        return images[:, 0, 0, 1] * images[:, 0, 2, 2] + images[:, 0, 3, 0]

    p, expected, square = 0.3, np.zeros((4, 4)), np.zeros((4, 4))
    for bits in itertools.product((0, 1), repeat=4):
        large = enlarged(np.array(bits, dtype=float).reshape(2, 2), (2, 2))
        for top, left in itertools.product(range(3), range(3)):
            mask = large[top : top + 4, left : left + 4]
            shown = mask * image.numpy() + (1 - mask) * 0.2
            term = float(model(shown)[0]) * mask / p
            weight = p ** sum(bits) * (1 - p) ** (4 - sum(bits)) / 9
            expected, square = expected + weight * term, square + weight * term**2
    n = 20000
    background = random(10, 1, 4, 4).numpy()
    found = explainer(model, background, n_samples=n, cells=2, p=p).scores(image.numpy()).reshape(4, 4)
    error = np.sqrt((square - expected**2) / n)
    assert (error < 0.02).all()
    assert (np.abs(found - expected) < 4.5 * error).all()
    assert np.ptp(expected) > 20 * error.max()


# --- What it finds ---------------------------------------------------------------------------------------------------


def test_it_finds_the_patch_that_a_black_box_with_channels_last_looks_at():
    background, x = random(10, 12, 12, 3).numpy(), random(4, 12, 12, 3, seed=1).numpy()
    x[:, 2:6, 6:10] += 1

    def model(images: Any) -> Any:
        p = 1 / (1 + np.exp(-6 * (images[:, 2:6, 6:10].mean((1, 2, 3)) - 0.8)))
        return np.stack([1 - p, p], 1)

    settings: dict[str, Any] = {"n_samples": 400, "cells": 4, "p": 0.5}
    space = Image("pixel", channels="last", value_range=(0, 2))
    found = explainer(model, background, space=space, **settings).scores(x, 1).reshape(4, 12, 12)
    inside = np.zeros((12, 12), dtype=bool)
    inside[2:6, 6:10] = True
    place = found.reshape(4, -1).argmax(1)
    assert inside.ravel()[place].all()
    assert (found[:, inside].mean(1) > found[:, ~inside].mean(1) + 0.1).all()
    patches = explainer(model, background, space=Image("patch", patch=6, channels="last"), **settings)
    with pytest.warns(fans.FansWarning, match="in the range of"):
        pooled = patches.scores(x, 1)
    expected = found.reshape(4, 2, 6, 2, 6).mean((2, 4)).reshape(4, 4)
    assert pooled == pytest.approx(expected, abs=1e-6)


# --- What it promises ------------------------------------------------------------------------------------------------


def test_neither_batch_nor_order_matters():
    x, model = random(9, 2, 7, 6, seed=4), smooth(2, 7, 6)
    one = explainer(model, BACKGROUND, max_batch=64).scores(x)
    for max_batch in (1, 7):
        assert explainer(model, BACKGROUND, max_batch=max_batch).scores(x) == pytest.approx(one, abs=1e-9)
    order = [4, 0, 8, 2]
    assert explainer(model, BACKGROUND).scores(x[order], ids=order) == pytest.approx(one[order], abs=1e-9)
    assert not np.allclose(explainer(model, BACKGROUND, seed=1).scores(x), one, atol=1e-3)


def test_rows_are_counted_and_bounded():
    sizes = []

    def model(images: Any) -> Any:
        sizes.append(len(images))
        return images.mean((1, 2, 3))

    asked = explainer(model, BACKGROUND.numpy(), max_batch=13)
    sizes.clear()
    asked.scores(IMAGES.numpy())
    assert sum(sizes) == 5 * (30 + 1)  # and once for the neighbourhood
    assert max(sizes) <= 13
    assert asked.method.cost(42) == asked.method.at_once(42) == 30


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 0}, "`n_samples` as a whole number of at least 1, got 0"),
        ({"cells": 1.5}, "`cells` as a whole number of at least 1, got 1.5"),
        ({"cells": 7}, "`cells` of at most 6, the image's shorter side, got 7"),
        ({"p": 0}, "`p` above 0 and below 1, got 0; 0.5 keeps half"),
        ({"p": 1.0}, "`p` above 0 and below 1, got 1.0"),
        ({"p": "half"}, "`p` above 0 and below 1, got 'half'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(smooth(2, 7, 6), BACKGROUND, **settings)


def test_the_papers_values_are_the_defaults():
    assert (Rise().cells, Rise().p) == (7, 0.5)


def test_a_table_is_refused():
    with pytest.raises(fans.FansError, match="Expected image inputs for method='rise', got table inputs; use"):
        explainer(lambda rows: rows[:, 0], np.eye(4), space=None)
