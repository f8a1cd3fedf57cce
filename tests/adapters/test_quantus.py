"""`fans.adapters.quantus.explain` where Quantus expects an `explain_func`."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans
from fans.adapters.quantus import explain
from tests.metrics import quantus_shim

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
IMAGES = np.random.default_rng(0).random((3, 1, 8, 8)).astype(np.float32)
BACKGROUND = np.random.default_rng(1).random((20, 1, 8, 8)).astype(np.float32)
FEW: dict[str, Any] = {"n_local": 4, "n_background": 5, "n_steps": 3}
CLASSES = np.array([0, 1, 2])


def test_it_returns_the_heatmap():
    expected = fans.Explainer(MODEL, torch.from_numpy(BACKGROUND), **FEW).heatmaps(torch.from_numpy(IMAGES), [0, 1, 2])
    assert explain(MODEL, IMAGES, CLASSES, background=BACKGROUND, device="cpu", **FEW) == pytest.approx(expected)


@pytest.mark.skipif(bool(quantus_shim.missing()), reason=quantus_shim.missing())
def test_quantus_takes_it():
    """Quantus's sparseness of what it asks us for is its sparseness of our heatmap."""
    heatmap = explain(MODEL, IMAGES, CLASSES, background=BACKGROUND, **FEW)
    with quantus_shim.quantus() as quantus:
        asked = {"model": MODEL, "x_batch": IMAGES, "y_batch": CLASSES}
        ours = quantus.Sparseness(disable_warnings=True)(
            **asked, a_batch=None, explain_func=explain, explain_func_kwargs={"background": BACKGROUND} | FEW
        )
        given = quantus.Sparseness(disable_warnings=True)(**asked, a_batch=heatmap)
    assert ours == pytest.approx(given)


def test_a_single_output_is_a_number_unless_it_is_said_to_be_a_class():
    """By hand: the gradient of a linear model, and of the probabilities it is said to be the logit of."""
    layer = nn.Linear(64, 1)
    single = nn.Sequential(nn.Flatten(), layer).eval()
    weights = layer.weight.detach().numpy().reshape(1, 1, 8, 8)
    asked: dict[str, Any] = {"background": BACKGROUND, "method": "saliency", "absolute": False}
    asked["space"] = fans.spaces.Image("pixel")
    with pytest.warns(fans.FansWarning, match='one output, .*; pass task="classification"'):
        number = explain(single, IMAGES, np.zeros(3, int), **asked)
    assert number == pytest.approx(np.tile(weights, (3, 1, 1, 1)))
    p = torch.sigmoid(single(torch.from_numpy(IMAGES))).detach().numpy()[:, :, None, None]
    found = explain(single, IMAGES, np.array([0, 1, 1]), task="classification", **asked)
    assert found == pytest.approx(np.array([-1, 1, 1])[:, None, None, None] * p * (1 - p) * weights, abs=1e-6)


def test_without_a_background():
    with pytest.raises(fans.InputError, match="Expected a background of real data, got none; pass explain_func_kwargs"):
        explain(MODEL, IMAGES, CLASSES)
