"""`fans.adapters.captum.FANS` where captum expects one of its own methods."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans

attr = pytest.importorskip("captum.attr")
from captum.metrics import infidelity  # noqa: E402

from fans.adapters.captum import FANS  # noqa: E402

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
IMAGES = torch.rand(4, 1, 8, 8)
BACKGROUND = torch.rand(20, 1, 8, 8)
FEW: dict[str, Any] = {"n_local": 4, "n_background": 5, "n_steps": 3}


def test_attributions_are_the_heatmap():
    found = FANS(MODEL, BACKGROUND, **FEW).attribute(IMAGES, target=1)
    expected = fans.Explainer(MODEL, BACKGROUND, **FEW).heatmaps(IMAGES, 1)
    assert found.shape == IMAGES.shape
    assert found.numpy() == pytest.approx(expected, abs=1e-6)
    classes = torch.tensor([0, 1, 2, 0])
    assert FANS(MODEL, BACKGROUND, **FEW).attribute((IMAGES,), target=classes)[0].shape == IMAGES.shape


def test_noise_tunnel_takes_it():
    """Its mean over noisy copies is the mean of what we say of those copies."""
    method = FANS(MODEL, BACKGROUND, **FEW)
    torch.manual_seed(1)
    found = attr.NoiseTunnel(method).attribute(IMAGES[:1], nt_type="smoothgrad", nt_samples=3, stdevs=0.01, target=2)
    torch.manual_seed(1)
    noisy = torch.normal(IMAGES[:1].repeat_interleave(3, 0), 0.01)
    assert found.shape == (1, 1, 8, 8)
    assert found.numpy() == pytest.approx(method.attribute(noisy, target=2).mean(0, keepdim=True).numpy(), abs=1e-6)


def test_its_metrics_take_it():
    def perturb(x):
        noise = 0.01 * torch.ones_like(x)
        return noise, x - noise

    scores = FANS(MODEL, BACKGROUND, **FEW).attribute(IMAGES, target=0)
    assert torch.isfinite(infidelity(MODEL, perturb, IMAGES, scores, target=0)).all()


def test_a_table():
    rows = torch.randn(50, 5)
    model = nn.Linear(5, 2).eval()
    assert FANS(model, rows).attribute(rows[:3], target=0).shape == (3, 5)


def test_a_single_output_is_a_number_unless_it_is_said_to_be_a_class():
    """By hand: the gradient of a linear model, and of what it is said to be the logit of."""
    rows, model = torch.randn(50, 5), nn.Linear(5, 1).eval()
    plain: dict[str, Any] = {"method": "saliency", "absolute": False}
    with pytest.warns(fans.FansWarning, match='one output, .*; pass task="classification"'):
        number = FANS(model, rows, **plain)
    weights = model.weight.detach()
    assert torch.allclose(number.attribute(rows[:3]), weights.expand(3, -1))
    p = torch.sigmoid(model(rows[:3])).detach()
    asked = FANS(model, rows, task="classification", **plain).attribute(rows[:3], target=1)
    assert torch.allclose(asked, p * (1 - p) * weights, atol=1e-6)


class Scaled(nn.Module):
    """A model that takes an image, a number for each image, and a power for all."""

    def forward(self, x: Any, scale: Any, power: int = 1) -> Any:
        return MODEL(x * scale.reshape(-1, 1, 1, 1) ** power)


ABLATION: dict[str, Any] = {"method": "feature_ablation", "baseline": 0.0, "output": "raw"}
MASK = torch.arange(8)[:, None] // 4 * 2 + torch.arange(8) // 2 % 2


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"feature_mask": MASK[None, None]},
        {"feature_mask": MASK},
        {"feature_mask": (torch.stack([MASK, MASK.T, MASK, MASK // 2])[:, None],)},
        {"baselines": 0.25},
        {"baselines": BACKGROUND[:1]},
        {"baselines": (BACKGROUND[:4],), "feature_mask": MASK},
    ],
)
def test_masks_and_baselines_are_captums(asked):
    """Captum's own ablation with the same arguments, to the number."""
    mask = asked.get("feature_mask", torch.arange(64).reshape(1, 1, 8, 8))
    ours = FANS(MODEL, BACKGROUND, **ABLATION).attribute(IMAGES, 1, feature_mask=mask, baselines=asked.get("baselines"))
    theirs = attr.FeatureAblation(MODEL).attribute(IMAGES, target=1, **(asked | {"feature_mask": mask}))
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    assert ours.numpy() == pytest.approx(theirs.detach().numpy(), abs=1e-5)


@pytest.mark.parametrize("further", [(torch.tensor([1.0, 2, 1, 3]), 2), (torch.tensor(2.0), 1), torch.ones(4, 1) * 3])
def test_further_arguments_reach_the_model_as_captums_do(further):
    ours = FANS(Scaled(), BACKGROUND, **ABLATION).attribute(
        IMAGES, torch.tensor([0, 1, 2, 0]), further, feature_mask=MASK
    )
    ablation = attr.FeatureAblation(Scaled())
    alone = {"target": torch.tensor([0, 1, 2, 0]), "additional_forward_args": further, "feature_mask": MASK[None, None]}
    assert ours.numpy() == pytest.approx(ablation.attribute(IMAGES, **alone).detach().numpy(), abs=1e-4)


def test_inputs_explained_apart_are_explained_as_together():
    """Draws are keyed by an input's place, not by its company."""
    method, mask = FANS(MODEL, BACKGROUND, **FEW), MASK[None, None]
    together = method.attribute(IMAGES, 1, feature_mask=mask)
    apart = method.attribute(IMAGES, 1, feature_mask=torch.cat([mask, 10 + mask, mask, 10 + mask]))
    assert torch.equal(together, apart)


def test_what_it_does_not_take_is_told():
    method = FANS(MODEL, BACKGROUND, **FEW)
    with pytest.raises(fans.InputError, match="Expected one tensor of inputs, got 2"):
        method.attribute((IMAGES, IMAGES))
    with pytest.raises(fans.InputError, match=r"Expected one entry in `baselines`, .* got 2"):
        method.attribute(IMAGES, baselines=(0, 0))
    with pytest.raises(fans.InputError, match="`feature_mask` for all inputs, or one for each of 4, got shape"):
        method.attribute(IMAGES, feature_mask=torch.zeros(3, 1, 8, 8).long())
    with pytest.raises(fans.InputError, match="Expected `additional_forward_args` for a model that takes more"):
        FANS(Scaled(), BACKGROUND).attribute(IMAGES)
    assert not method.has_convergence_delta()
    assert not method.multiplies_by_inputs
    assert np.ptp(method.attribute(IMAGES[:1]).numpy()) > 0
