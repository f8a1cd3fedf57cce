"""`fans.evaluate` against the metrics called by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.metrics import Case, metric

pytestmark = pytest.mark.filterwarnings("ignore::fans.FansWarning")

RNG = np.random.default_rng(0)
IMAGES = torch.from_numpy(RNG.random((12, 3, 8, 8))).float()
ROWS = RNG.normal(size=(40, 4))


class Net(nn.Module):
    def __init__(self, last: bool = False) -> None:
        super().__init__()
        self.last = last
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(144, 3)

    def forward(self, images: Tensor) -> Tensor:
        images = images.movedim(-1, 1) if self.last else images
        out: Tensor = self.head(torch.relu(self.conv(images)).flatten(1))
        return out


def by_hand(explanation: Any, judge: Any, explainer: Any) -> Any:
    case = Case(
        Net().eval(),
        IMAGES[:3],
        torch.from_numpy(explanation.heatmap),
        torch.from_numpy(explanation.target),
        explanation.ids,
        explanation.seed,
        explain=lambda rows, target, ids: torch.from_numpy(explainer.heatmaps(rows, target.tolist(), list(ids))),
    )
    return judge(case).numpy()


def test_every_column_is_its_metric():
    explainer = fans.Explainer(Net(), IMAGES, method="integrated_gradients", n_steps=5)
    explanation = explainer(IMAGES[:3])
    judges = {
        "formula": metric("infidelity", kind="formula", n_draws=7),
        "patch": metric("infidelity", kind="patch", n_repeats=2),
        "deletion": metric("deletion", n_steps=4),
        "MS": metric("max_sensitivity", n_draws=2, radius=0.05),
    }
    found = fans.evaluate(explanation, judges, explainer=explainer)
    assert list(found.values) == list(judges)
    for name, judge in judges.items():
        assert found[name] == pytest.approx(by_hand(explanation, judge, explainer), rel=1e-5), name
    alone = fans.evaluate(explanation, [judges["formula"], "sparseness"], model=Net())
    assert alone["infidelity"] == pytest.approx(found["formula"], rel=1e-5)
    assert found.higher_is_better == {"formula": False, "patch": False, "deletion": False, "MS": False}
    assert found.to_frame().loc[1, "patch"] == found["patch"][1]
    assert "formula" in str(found)
    assert f"{found['formula'].mean():.4g}" in str(found)


def test_channels_may_come_last():
    last = IMAGES.movedim(1, -1).contiguous()
    one = fans.Explainer(Net(), IMAGES, method="saliency")
    other = fans.Explainer(Net(last=True), last, method="saliency")
    judges = {"patch": metric("infidelity", kind="patch"), "MS": metric("max_sensitivity", n_draws=1)}
    found = fans.evaluate(one(IMAGES[:3]), judges, explainer=one)
    swapped = fans.evaluate(other(last[:3]), judges, explainer=other)
    assert swapped["patch"] == pytest.approx(found["patch"], rel=1e-4)
    assert swapped["MS"].shape == (3,)


def test_a_table_and_a_black_box():
    """The deletion curve of an additive model by hand: features go in the order of their scores."""

    def model(rows: Any) -> Any:
        p = 1 / (1 + np.exp(-rows[:, 0] - 2 * rows[:, 1]))
        return np.stack([1 - p, p], 1)

    explainer = fans.Explainer(model, ROWS, method="feature_ablation", baseline=0.0)
    x = np.array([[1.0, 1.0, 0.5, 0.5]])
    found = fans.evaluate(explainer(x), {"d": metric("deletion", n_steps=4, fill=0.0)}, explainer=explainer)
    p = [1 / (1 + np.exp(-z)) for z in (3.0, 1.0, 0.0, 0.0, 0.0)]
    assert found["d"] == pytest.approx(np.trapezoid(p, dx=0.25), rel=1e-9)


def test_truth_is_compared():
    explainer = fans.Explainer(lambda rows: rows[:, 0], ROWS, method="feature_ablation", baseline=0.0)
    truth = np.array([[True, False, False, False], [False, False, False, True]])
    found = fans.evaluate(explainer(np.ones((2, 4))), [metric("recall", n=1)], explainer=explainer, truth=truth)
    assert found["recall"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": ["sparseness"]}, "the model that was explained, or its explainer, got neither"),
        ({"metrics": ["sparsity"], "model": len}, "'sparseness', got 'sparsity'"),
        ({"metrics": [], "model": len}, r"metrics of different names, got \[\]"),
        ({"metrics": ["recall", "recall"], "model": len}, "different names, got .*; pass a mapping"),
        ({"metrics": ["sparseness"], "model": 3}, "a torch module or a callable, got int"),
        ({"metrics": ["max_sensitivity"], "model": len}, "a case with `explain` for 'max_sensitivity'"),
    ],
)
def test_bad_input(given, message):
    explanation = fans.Explainer(lambda rows: rows[:, 0], ROWS, method="random")(ROWS[:2])
    with pytest.raises(fans.InputError, match=message):
        fans.evaluate(explanation, **given)
