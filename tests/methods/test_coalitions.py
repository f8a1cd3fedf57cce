"""Coalition methods against captum, shap, scikit-learn and enumeration."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.methods.coalitions import KernelShap, _cosine, _draw, _shapley_coalitions, lasso, shapley_regression
from fans.methods.problem import Problem
from fans.modalities.base import Blocks
from fans.spaces import Image
from tests.methods import blocks

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

RNG = np.random.default_rng(0)
BACKGROUND, ROWS = RNG.normal(size=(30, 5)), RNG.normal(size=(3, 5))
IMAGES = torch.from_numpy(RNG.random((6, 2, 8, 8))).float()
NAMES = ("feature_ablation", "banzhaf", "lime", "kernel_shap")


def curved(rows: Any) -> Any:
    """One output with interactions."""
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) - 0.5 * rows[:, 3] + rows[:, 1] * rows[:, 3] * rows[:, 4]


def game(x: Any, missing: Any) -> dict[tuple[bool, ...], float]:
    """The output of every coalition."""
    out = {}
    for keep in itertools.product([False, True], repeat=len(x)):
        out[keep] = float(curved(np.where(keep, x, missing)[None])[0])
    return out


def shapley(v: dict[tuple[bool, ...], float], n: int) -> list[float]:
    out = []
    for i in range(n):
        total = 0.0
        for keep, value in v.items():
            if not keep[i]:
                with_i = tuple(k or j == i for j, k in enumerate(keep))
                size = sum(keep)
                total += math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n) * (v[with_i] - value)
        out.append(total)
    return out


def banzhaf(v: dict[tuple[bool, ...], float], n: int) -> list[float]:
    rises = [
        [v[tuple(k or j == i for j, k in enumerate(keep))] - v[keep] for keep in v if not keep[i]] for i in range(n)
    ]
    return [float(np.mean(r)) for r in rises]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.layers = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 3))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.layers(3 * images)
        return out


def inputs_of(explainer: fans.Explainer, x: Any) -> Problem:
    rows = explainer.task.space.encode(x, "x")
    with explainer.task.predict.session():
        ready = blocks.inputs_of(explainer, rows, alone=True).block(slice(0, len(rows)))
    return Problem.of(explainer.task, ready.block, explainer.settings)


# --- Values ----------------------------------------------------------------------------------------------------------


def test_kernel_shap_of_few_features_is_exact():
    """Thirty coalitions: all of them, in the first case; a sample that goes to the same values, in the second."""
    found = fans.Explainer(curved, BACKGROUND, method="kernel_shap", baseline="mean", n_samples=30).scores(ROWS)
    expected = [shapley(game(x, BACKGROUND.mean(0)), 5) for x in ROWS]
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_kernel_shap_comes_to_the_enumerated_shapley_values(monkeypatch):
    monkeypatch.setattr(KernelShap, "_takes_all", lambda *_: False)
    found = fans.Explainer(curved, BACKGROUND, method="kernel_shap", baseline="mean", n_samples=40_000).scores(ROWS)
    for x, scores in zip(ROWS, found, strict=True):
        v = game(x, BACKGROUND.mean(0))
        assert scores == pytest.approx(shapley(v, 5), abs=0.015)
        assert scores.sum() == pytest.approx(v[(True,) * 5] - v[(False,) * 5], abs=1e-9)


def test_the_enumerated_shapley_values_are_those_of_shap():
    shap = pytest.importorskip("shap")
    mean = BACKGROUND.mean(0)
    expected = shap.KernelExplainer(curved, mean[None]).shap_values(ROWS, silent=True)
    assert expected == pytest.approx(np.array([shapley(game(x, mean), 5) for x in ROWS]), abs=1e-6)


@pytest.mark.parametrize("n_samples", [6, 500])
def test_kernel_shap_of_an_additive_model_is_exact_or_adds_up(n_samples, monkeypatch):
    monkeypatch.setattr(KernelShap, "_takes_all", lambda *_: False)
    slopes = np.array([1.0, -2.0, 0.5, 3.0, 0.0])
    found = fans.Explainer(
        lambda r: r @ slopes, BACKGROUND, method="kernel_shap", baseline=0.0, n_samples=n_samples
    ).scores(ROWS)
    if n_samples == 500:
        assert found == pytest.approx(ROWS * slopes, abs=1e-6)
    assert found.sum(1) == pytest.approx((ROWS * slopes).sum(1), abs=1e-9)


def test_with_few_coalitions_the_least_solution_is_found():
    """Against the pseudo-inverse, with the constraint taken care of by an even split."""
    random = torch.Generator().manual_seed(0)
    design = (torch.rand(2, 4, 9, generator=random) < 0.5).double()
    y = torch.randn(2, 4, generator=random, dtype=torch.float64)
    whole, nothing = torch.tensor([1.0, 2.0]).double(), torch.tensor([0.5, -1.0]).double()
    found = shapley_regression(design, y, whole, nothing, torch.ones(2, 9, dtype=torch.bool))
    for i in range(2):
        even = float(whole[i] - nothing[i]) / 9
        centred = design[i].numpy() - design[i].numpy().mean(1, keepdims=True)
        left = y[i].numpy() - float(nothing[i]) - design[i].numpy().sum(1) * even
        assert found[i].numpy() == pytest.approx(even + np.linalg.pinv(centred) @ left, abs=1e-6)


def test_the_sizes_of_coalitions_follow_the_shapley_kernel():
    present = torch.tensor([[True] * 6, [True, False, True, True, False, True]])
    keep = _shapley_coalitions(torch.tensor([11, 12]), present, 20_000)
    assert not (keep & ~present[:, None]).any()
    for i, n in enumerate((6, 4)):
        share = np.array([1 / (k * (n - k)) for k in range(1, n)])
        counts = np.bincount(keep[i].sum(1), minlength=n)[1:n] / 20_000
        assert counts == pytest.approx(share / share.sum(), abs=0.012)
        own = keep[i][:, present[i]].double().mean(0)
        assert own.numpy() == pytest.approx(0.5, abs=0.012)  # no member is favoured


def test_banzhaf_values_come_to_the_enumerated_ones():
    explainer = fans.Explainer(curved, BACKGROUND, method="banzhaf", baseline="mean", n_samples=40_000, ridge=0.0)
    found = explainer(ROWS)
    assert found.scores_se is not None
    for i, x in enumerate(ROWS):
        expected = banzhaf(game(x, BACKGROUND.mean(0)), 5)
        assert found.scores[i] == pytest.approx(expected, abs=0.03)
        assert (np.abs(found.scores[i] - expected) < 4.5 * found.scores_se[i] + 1e-9).all()


def test_banzhaf_in_blocks_is_the_posterior_under_the_smooth_prior():
    """By the textbook formula K D' (D K D' + noise)^-1 y with the covariance written out."""
    explainer = fans.Explainer(
        Net(), IMAGES, space=Image("pixel"), method="banzhaf", draw="blocks", n_samples=40, baseline=0.0
    )
    explainer.task.space.blocks = lambda: Blocks(8, 8, 2)  # type: ignore[method-assign]
    inputs = inputs_of(explainer, IMAGES[:2])
    half = _draw(inputs, "banzhaf", 20, blocks=True)
    found = explainer.scores(IMAGES[:2])
    with torch.no_grad():
        for i in range(2):
            p = [
                torch.softmax(Net()(IMAGES[i] * keep.view(20, 1, 8, 8)), 1)[:, int(inputs.target[i])].double()
                for keep in (half[i].float(), (~half[i]).float())
            ]
            place = np.stack(np.divmod(np.arange(64), 8), 1)
            apart = ((place[:, None] - place) ** 2).sum(2)
            prior = np.exp(-apart / (2 * 1.0**2))
            design = half[i].double().numpy() * 2 - 1
            gram = design @ prior @ design.T
            noise = 0.3 * np.diag(gram).mean() * np.eye(20)
            expected = prior @ design.T @ np.linalg.solve(gram + noise, (p[0] - p[1]).numpy())
            assert found[i] == pytest.approx(expected, abs=1e-5)


def test_ablation_is_that_of_captum():
    captum = pytest.importorskip("captum.attr")
    explainer = fans.Explainer(Net(), IMAGES, space=Image("patch", patch=3), method="feature_ablation", baseline=0.25)
    found = explainer(IMAGES[:3], target=[0, 1, 2])
    mask = torch.from_numpy(found.elements)[None]
    expected = captum.FeatureAblation(lambda x: torch.softmax(Net()(x), 1)).attribute(
        IMAGES[:3], baselines=0.25, target=torch.tensor([0, 1, 2]), feature_mask=mask
    )
    assert found.heatmap == pytest.approx(expected.detach().numpy(), abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0001, 0.003])
def test_lime_is_that_of_captum_on_the_same_coalitions(alpha):
    captum = pytest.importorskip("captum.attr")
    linear = pytest.importorskip("captum._utils.models.linear_model")
    from captum.attr._core.lime import get_exp_kernel_similarity_function

    explainer = fans.Explainer(
        Net(), IMAGES, space=Image("patch", patch=3), method="lime", baseline=0.25, alpha=alpha, n_samples=60, width=0.3
    )
    found = explainer(IMAGES[:2])
    keep = _draw(inputs_of(explainer, IMAGES[:2]), "lime", 60, blocks=False).float()
    mask = torch.from_numpy(found.elements)
    for i in range(2):
        drawn = iter(keep[i])

        def back(row: Any, image: Any, **_: Any) -> Any:
            return torch.where(row[0][mask] > 0, image, torch.tensor(0.25))

        method = captum.LimeBase(
            lambda x: torch.softmax(Net()(x), 1),
            linear.SkLearnLasso(alpha=alpha, tol=1e-5, max_iter=100_000),
            get_exp_kernel_similarity_function("cosine", kernel_width=0.3),
            lambda *_, drawn=drawn, **__: next(drawn)[None],
            perturb_interpretable_space=True,
            from_interp_rep_transform=back,
            to_interp_rep_transform=None,
        )
        expected = method.attribute(IMAGES[i : i + 1], target=int(found.target[i]), n_samples=60)
        assert found.scores[i] == pytest.approx(expected[0].numpy(), abs=2e-5)  # captum fits in float32
        assert (found.scores[i] == 0).any() == (alpha > 0.001)


def test_the_lasso_is_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.linear_model")
    design = RNG.normal(size=(3, 40, 7))
    design[:, :, 4] = 0.0  # a feature that is absent
    y, weights = RNG.normal(size=(3, 40)) + 2 * design[:, :, 1], RNG.random((3, 40))
    found = lasso(torch.from_numpy(design), torch.from_numpy(y), torch.from_numpy(weights), 0.1)
    for i in range(3):
        expected = sklearn.Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(design[i], y[i], weights[i])
        assert found[i].numpy() == pytest.approx(expected.coef_, abs=1e-6)


def test_the_lasso_is_solved_where_features_outnumber_rows():
    """What makes a solution: the residual pulls every chosen feature by alpha, and no other one further."""
    design = torch.from_numpy(RNG.random((4, 60, 150)) > 0.5).double()
    y, weights = torch.from_numpy(RNG.normal(size=(4, 60))), torch.from_numpy(RNG.random((4, 60)))
    together = lasso(design, y, weights, 0.002)
    for i in range(4):
        alone = lasso(design[i : i + 1], y[i : i + 1], weights[i : i + 1], 0.002)[0]
        assert together[i] == pytest.approx(alone, abs=1e-12)
        share = weights[i] / weights[i].sum()
        centred = design[i] - share @ design[i]
        pull = centred.T @ (share * (y[i] - share @ y[i] - centred @ alone))
        chosen = alone != 0
        assert 0 < chosen.sum() < 60
        assert pull[chosen] == pytest.approx(0.002 * alone[chosen].sign(), abs=1e-6)
        assert pull.abs().max() <= 0.002 + 1e-6


def test_lime_survives_rounding_and_small_outputs():
    """What is left may be nothing at all; and outputs of any scale are fitted alike."""
    x, missing = np.zeros((1, 5)), np.full(5, 1 / 3)
    x[0, 0], missing[0] = 1.0, 0.0
    for seed in range(20):
        asked = fans.Explainer(curved, BACKGROUND, method="lime", baseline=missing, seed=seed)
        assert np.isfinite(asked.scores(x)).all()
    large, small = (
        fans.Explainer(lambda r, s=s: s * curved(r), BACKGROUND, method="lime", alpha=0.0, baseline=0.0).scores(ROWS)
        for s in (1.0, 1e-9)
    )
    assert small * 1e9 == pytest.approx(large, abs=1e-4)


def test_more_features_than_a_regression_can_hold_are_refused():
    rows = np.zeros((2, 5000))
    for name in ("lime", "banzhaf"):
        with pytest.raises(fans.InputError, match=f"at most 4,096 features for method='{name}', got 5,000"):
            fans.Explainer(lambda r: r[:, 0], rows, method=name)
    assert fans.Explainer(lambda r: r[:, 0], rows, method="feature_ablation").scores(rows[:1]).shape == (1, 5000)


def test_the_cosine_is_that_of_the_rows():
    explainer = fans.Explainer(Net(), IMAGES, space=Image("superpixel", n_segments=9), method="lime", baseline=0.4)
    inputs = inputs_of(explainer, IMAGES)
    keep = _draw(inputs, "lime", 5, blocks=False) & inputs.present[:, None]
    found = _cosine(inputs, keep)
    for i in range(len(IMAGES)):
        for m in range(5):
            row = np.where(keep[i, m].numpy()[inputs.units.of_element[i]], inputs.x[i], 0.4)
            x = inputs.x[i].numpy()
            assert float(found[i, m]) == pytest.approx(x @ row / np.linalg.norm(x) / np.linalg.norm(row), abs=1e-6)


# --- Promises --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_absent_superpixels_score_nothing_and_are_never_drawn(name):
    space = Image("superpixel", n_segments=9)
    explainer = fans.Explainer(Net(), IMAGES, space=space, method=name)
    inputs = inputs_of(explainer, IMAGES)
    scores = explainer.scores(IMAGES)
    assert (scores[~inputs.present.numpy()] == 0).all()
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_single_feature_gets_everything(name):
    explainer = fans.Explainer(lambda r: 2 * r[:, 0], BACKGROUND[:, :1], method=name, baseline=0.0)
    scores = explainer.scores(ROWS[:, :1])
    if name != "lime":  # the Lasso takes its toll
        assert scores == pytest.approx(2 * ROWS[:, :1], rel=2e-3)
    assert scores.shape == (3, 1)


@pytest.mark.parametrize("name", NAMES)
def test_scores_alone_ask_for_no_neighbourhood(name):
    asked = []

    def model(rows: Any) -> Any:
        asked.append(len(rows))
        return curved(rows)

    explainer = fans.Explainer(model, BACKGROUND, method=name)
    asked.clear()
    explainer.scores(ROWS)
    assert sum(asked) == 3 * (1 + explainer.method.cost(5))
    assert explainer(ROWS).scores == pytest.approx(explainer.scores(ROWS), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("lime", {"n_samples": 1}, "`n_samples` as a whole number of at least 2, got 1"),
        ("lime", {"alpha": -1}, "`alpha` of at least 0, got -1"),
        ("lime", {"width": 0}, "`width` above 0, got 0"),
        ("lime", {"weigh": "x"}, "`weigh` to be one of 'cosine', 'equal', got 'x'"),
        ("banzhaf", {"draw": "x"}, "`draw` to be one of 'blocks', 'features', got 'x'"),
        ("banzhaf", {"ridge": "much"}, "`ridge` of at least 0, got 'much'"),
        ("kernel_shap", {"n_samples": 2.5}, "`n_samples` as a whole number of at least 2, got 2.5"),
    ],
)
def test_bad_settings(name, settings, message):
    with pytest.raises(fans.InputError, match=message.replace("(", r"\(")):
        fans.Explainer(curved, BACKGROUND, method=name, **settings)


def test_a_kernel_too_narrow_is_told():
    asked = fans.Explainer(Net(), IMAGES, space=Image("patch", patch=3), method="lime", baseline=0.25, width=1e-4)
    with pytest.raises(fans.InputError, match=r"a `width` at which some coalitions count, got 0\.0001"):
        asked.scores(IMAGES[:2])
