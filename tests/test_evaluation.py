"""`fans.evaluate` against the metrics called by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.methods.base import Method
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


def sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


class Slope(nn.Module):
    """One column counts, by a slope; one output."""

    def __init__(self, *after: nn.Module) -> None:
        super().__init__()
        self.after = nn.Sequential(nn.Dropout(0.9), *after)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.after(2 * rows[:, :1])
        return out


def both(rows: Any, explained: Any, judges: Any, **settings: Any) -> Any:
    """Judge by the explainer, and by the model alone: they must agree. The model comes in training mode."""
    explainer = fans.Explainer(explained, ROWS, method="feature_ablation", baseline=0.0, **settings)
    explanation = explainer(rows)
    found = fans.evaluate(explanation, judges, explainer=explainer)
    alone = fans.evaluate(explanation, judges, model=explained)
    for name in judges:
        assert alone[name] == pytest.approx(found[name], rel=1e-5, abs=1e-12), name
    assert all(part.training for part in explained.modules()) if isinstance(explained, nn.Module) else True
    return found


CURVE = {"d": metric("deletion", n_steps=4, fill=0.0)}


def test_probabilities_are_not_squashed_twice():
    """The only column that counts goes first, and the curve falls from p to 1/2 at once."""
    x = np.array([[1.0, 0.5, 0.5, 0.5], [-1.0, 0.5, 0.5, 0.5]])  # classes 1 and 0
    expected = np.trapezoid([sigmoid(2.0), 0.5, 0.5, 0.5, 0.5], dx=0.25)
    for model in (Slope(), Slope(nn.Sigmoid()), Slope(Split()), Slope(Split(), nn.Softmax(1))):
        judges = CURVE | {"fid": metric("fidelity_plus", form="top", top=1)}
        found = both(x, model, judges, task="classification")
        assert found["d"] == pytest.approx(expected, rel=1e-5)
        assert found["fid"].tolist() == [1.0, 0.0]  # what is left of nothing is class 0


class Beside(Slope):
    """The same with something beside its output."""

    def forward(self, rows: Tensor) -> Any:
        return {"hidden": rows.sum(), "logits": super().forward(rows)}


def test_outputs_in_company_are_those_alone():
    x = np.array([[1.0, 0.5, 0.5, 0.5], [-1.0, 0.5, 0.5, 0.5]])
    expected = both(x, Slope(), CURVE, task="classification")["d"]
    assert both(x, Beside(), CURVE, task="classification")["d"].tolist() == expected.tolist()
    black_box = both(x, lambda rows: (None, sigmoid(2 * rows[:, 0])), CURVE)["d"]
    assert black_box == pytest.approx(both(x, lambda rows: sigmoid(2 * rows[:, 0]), CURVE)["d"], rel=1e-12)


class Split(nn.Module):
    """One logit of two classes as two."""

    def forward(self, logit: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(logit), logit], 1)


def test_an_output_without_classes_is_followed_as_it_is():
    x = np.array([[2.0, 0.5, 0.5, 0.5]])
    expected = np.trapezoid([sigmoid(8.0), 0.5, 0.5, 0.5, 0.5], dx=0.25)
    assert both(x, lambda rows: sigmoid(4 * rows[:, 0]), CURVE)["d"] == pytest.approx(expected)
    expected = np.trapezoid([4.0, 0, 0, 0, 0], dx=0.25)
    for settings in ({}, {"output": "raw"}, {"task": "regression"}):
        assert both(x, Slope(), CURVE, **settings)["d"] == pytest.approx(expected)
    with pytest.raises(fans.InputError, match="a model of classes, got one of values"):
        both(x, Slope(), {"f": metric("fidelity_plus")}, output="raw")


@pytest.mark.parametrize("x", [-2.0, 2.0])
def test_the_logit_of_class_0_is_the_negative_of_that_of_class_1(x):
    """Multipliers of a linear logit are exact, so that they have no infidelity, whichever class is explained."""
    given: dict[str, Any] = {"method": "deep_lift", "multiply": False, "baseline": 0.0}
    explainer = fans.Explainer(Slope(), ROWS, task="classification", **given)
    explanation = explainer(np.array([[x, 0.0, 0.0, 0.0]]))
    assert explanation.target.tolist() == [int(x > 0)]
    for how in ({"explainer": explainer}, {"model": Slope()}):
        found = fans.evaluate(explanation, [metric("infidelity", kind="formula")], **how)
        assert found["infidelity"] == pytest.approx(0.0, abs=1e-10)


def test_channels_are_found_where_they_are_in_the_explanation():
    """Eight channels, last: by their number they might be rows."""
    images = torch.from_numpy(RNG.random((6, 10, 10, 8))).float()
    weights = torch.linspace(-1, 1, 8)

    class Last(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            z = (rows * weights).sum((1, 2, 3))
            return torch.stack([z, -z], 1)

    explainer = fans.Explainer(Last(), images, method="saliency", space=fans.spaces.Image(channels="last"))
    explanation = explainer(images[:2])
    judges = {"i": metric("infidelity", kind="patch"), "d": metric("deletion", n_steps=5)}
    found, alone = (fans.evaluate(explanation, judges, **how) for how in ({"explainer": explainer}, {"model": Last()}))
    for name in judges:
        assert alone[name] == pytest.approx(found[name], rel=1e-5)


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
        ({"metrics": ["sparseness"], "model": 3}, "a callable as model, got int"),
        (
            {"metrics": ["sparseness"], "model": len, "first": {"irof": 1}},
            "metric of `first` to be one of .sparseness.",
        ),
        ({"metrics": ["sparseness"], "model": len, "first": {"sparseness": 0}}, "at least 1, got 0"),
        ({"metrics": ["max_sensitivity"], "model": len}, "an explainer for 'max_sensitivity', .* pass `explainer=`"),
        ({"metrics": ["recall"], "model": len}, "the elements known to matter for 'recall', got none; pass `truth=`"),
        (
            {"metrics": ["recall"], "model": len, "truth": [True] * 4},
            r"`truth` of the inputs' shape \(2, 4\), got \(4,\)",
        ),
    ],
)
def test_bad_input(given, message):
    explanation = fans.Explainer(lambda rows: rows[:, 0], ROWS, method="random")(ROWS[:2])
    with pytest.raises(fans.FansError, match=message):
        fans.evaluate(explanation, **given)


def test_an_estimator_is_asked_as_its_explainer_asks_it():
    trees = pytest.importorskip("sklearn.ensemble")
    forest = trees.RandomForestClassifier(10, random_state=0).fit(ROWS, ROWS[:, 0] > 0)
    explainer = fans.Explainer(forest, ROWS, method="feature_ablation", baseline=0.0)
    judges = CURVE | {"fid": metric("fidelity_plus", form="top", top=1)}
    found, alone = (
        fans.evaluate(explainer.attribute(ROWS[:5]), judges, **how)
        for how in ({"explainer": explainer}, {"model": forest})
    )
    for name in judges:
        assert alone[name].tolist() == found[name].tolist()


# --- Scores alone, and what they say of themselves -------------------------------------------------------------------

PATCH = metric("infidelity", kind="patch", n_repeats=2)


def test_scores_alone_are_judged_as_their_explanation_is():
    explainer = fans.Explainer(Net(), IMAGES, method="integrated_gradients", n_steps=5)
    explanation, attribution = explainer(IMAGES[:3]), explainer.attribute(IMAGES[:3])
    for name in ("scores", "heatmap", "parts", "target", "prediction", "present"):
        assert np.array_equal(getattr(attribution, name), getattr(explanation, name)), name
    assert attribution.ids == (0, 1, 2)
    assert attribution[1:].ids == (1, 2)
    assert repr(attribution) == "Attribution(method='integrated_gradients', inputs=3, features=64)"
    assert set(attribution.evaluations) == {"reference", "scoring", "shared"}
    judges = {"patch": PATCH, "MS": metric("max_sensitivity", n_draws=2)}
    found, alone = (fans.evaluate(e, judges, explainer=explainer) for e in (explanation, attribution))
    for name in judges:
        assert found[name].tolist() == alone[name].tolist()


@pytest.mark.parametrize("method", ["saliency", "occlusion", "feature_ablation"])
def test_whether_elements_were_scored_is_known_without_the_registry(method, tmp_path, monkeypatch):
    """A method that is not registered here, in a file from elsewhere, has the infidelity that it had there."""
    images = IMAGES[:3]
    explainer = fans.Explainer(Net(), IMAGES, method=method)
    explanation = explainer(images)
    here = fans.evaluate(explanation, [PATCH], model=Net())["infidelity"]
    parts = explainer.on_elements(images, explanation.scores, parts=True)
    assert explanation.parts == pytest.approx(parts, rel=1e-12)
    assert (explanation.parts != explanation.heatmap).any() == (method != "saliency")
    path = explanation.save(tmp_path / "it.safetensors")
    monkeypatch.delitem(Method.registry, method)
    loaded = fans.load(path)
    assert loaded.per_element == explanation.per_element
    for foreign in (explanation, loaded, replace(loaded, method="theirs")):
        assert fans.evaluate(foreign, [PATCH], model=Net())["infidelity"].tolist() == here.tolist()


def test_an_explanation_saved_before_it_said_so_is_read_by_its_method():
    explanation = fans.Explainer(Net(), IMAGES, method="occlusion")(IMAGES[:3])
    before = replace(explanation, per_element=None, per_pixel=False)
    found, old = (fans.evaluate(e, [PATCH], model=Net())["infidelity"].tolist() for e in (explanation, before))
    assert old == found
    unknown = replace(before, method="theirs")  # as the sum of its elements, which most methods' scores are
    share = replace(explanation, per_element=False, per_pixel=False)
    found, old = (fans.evaluate(e, [PATCH], model=Net())["infidelity"].tolist() for e in (share, unknown))
    assert old == found


def test_methods_on_the_same_inputs_share_a_cache_and_rows_are_told():
    asked: list[int] = []
    model = Net()
    model.register_forward_pre_hook(lambda _, rows: asked.append(len(rows[0])))
    judges = {"patch": PATCH, "deletion": metric("deletion", n_steps=4), "MS": metric("max_sensitivity", n_draws=2)}
    cache: dict[Any, Any] = {}
    shared = []
    for method in ("saliency", "feature_ablation"):
        explainer = fans.Explainer(model, IMAGES, method=method)
        attribution = explainer.attribute(IMAGES[:3])
        asked.clear()
        found = fans.evaluate(attribution, judges, explainer=explainer, cache=cache, first={"MS": 2})
        assert sum(asked) == sum(found.rows.values()) + found.shared_rows
        assert found.rows["patch"] == 0
        assert found.rows["deletion"] == 3 * 4
        assert found.rows["MS"] == 2 * 2 * (1 + explainer.method.cost(64))
        assert len(found["MS"]) == 2
        assert np.isnan(found.to_frame()["MS"][2])
        assert set(found.seconds) == set(judges)
        shared.append(found.shared_rows)
    assert shared == [3 * PATCH.cost((3, 8, 8)), 0]
