"""The bench measures what the paper measured: its printed digits come out where its settings are known.

The authors' own LeNet, the first 200 Fashion-MNIST test images in [-1, 1], true labels, the published kinds of metric,
and the settings that Quantus's wrapper of Captum has by default.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.datasets import load_images
from fans.methods.gradients import GradientShap
from fans.metrics import Case, metric
from fans.networks import load_released
from fans.spaces import Image

ROWS: dict[str, tuple[str, dict[str, Any], tuple[float, float, float]]] = {
    # method, settings, and the paper's INF, IR and SPA (Table 1, Fashion-MNIST)
    "IG": ("integrated_gradients", {"n_steps": 10, "rule": "riemann_trapezoid"}, (1.7e4, 60.8, 0.612)),
    "Saliency": ("saliency", {}, (1.8e6, 25.5, 0.558)),
    "GradShap": ("gradient_shap", {"references": "baseline"}, (2.5e4, 59.2, 0.614)),
    "Occlusion": ("occlusion", {"window": 4, "stride": 1}, (2.8e7, 58.4, 0.505)),
    "FeatAblation": ("feature_ablation", {}, (5.5e4, 45.4, 0.572)),
}
PUBLISHED: dict[str, dict[str, Any]] = {"infidelity": {"kind": "published"}, "irof": {"of": "given"}, "sparseness": {}}

pytestmark = [pytest.mark.usefixtures("full_data"), pytest.mark.slow("200 images by the authors' network")]


@cache
def authors_case() -> Case:
    model, test = load_released(normalise=False), load_images("fashion_mnist", "test")
    images, labels = test.tensor(slice(0, 200)) * 2 - 1, torch.from_numpy(test.labels[:200])
    return Case(model, images, torch.zeros_like(images), labels, range(200))


def scores_of(name: str, seed: int = 0) -> torch.Tensor:
    given, (method, settings, _) = authors_case(), ROWS[name]
    space = Image("pixel", value_range=(-1.0, 1.0))
    explainer = fans.Explainer(
        given.model, given.inputs[:20], space=space, baseline=0.0, output="raw", method=method, seed=seed, **settings
    )
    return torch.from_numpy(explainer.heatmaps(given.inputs, given.target.tolist()))


def judged(scores: torch.Tensor) -> Case:
    given = authors_case()
    return Case(given.model, given.inputs, scores, given.target, given.ids, cache=given.cache)


def check(name: str, scores: torch.Tensor) -> None:
    """INF within 5 %, IR within 0.2, SPA within 0.002 of the paper's."""
    inf, ir, spa = ROWS[name][2]
    case = judged(scores)
    found = {k: float(metric(k, **s)(case).mean()) for k, s in PUBLISHED.items()}
    assert found["infidelity"] == pytest.approx(inf, rel=0.05)
    assert found["irof"] == pytest.approx(ir, abs=0.2)
    assert found["sparseness"] == pytest.approx(spa, abs=0.002)


@pytest.mark.parametrize("name", [name for name in ROWS if name != "GradShap"])
def test_the_digits_of_the_paper_come_out(name):
    check(name, scores_of(name))


def test_the_digits_of_gradient_shap_come_out_with_captum_s_draws(monkeypatch):
    """Five random points an image: from seed to seed IR moves by more than what is asked of it here.

    So captum draws, with its first seed, and our method gets the same points.
    """
    irof = [float(metric("irof")(judged(scores_of("GradShap", seed))).mean()) for seed in (0, 2)]
    assert abs(irof[0] - irof[1]) > 0.5
    captum = pytest.importorskip("captum.attr")
    given, drawn = authors_case(), []
    uniform = np.random.uniform

    def watched(*args: Any, **kwargs: Any) -> Any:
        drawn.append(uniform(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(np.random, "uniform", watched)
    np.random.seed(0)
    theirs = captum.GradientShap(given.model).attribute(
        given.inputs, baselines=torch.zeros_like(given.inputs), target=given.target
    )
    (places,) = drawn

    def same(_: Any, inputs: Any) -> Any:
        x = inputs.x[:, None].expand(-1, 5, -1)
        place = torch.from_numpy(places).view(200, 5)[list(inputs.ids)]
        return x, torch.zeros_like(x), place.to(x.dtype)

    monkeypatch.setattr(GradientShap, "drawn", same)
    scores = scores_of("GradShap")
    assert scores.numpy() == pytest.approx(theirs.detach().numpy(), abs=1e-4)
    check("GradShap", scores)
