"""Any model as one batched function: how outputs are read, batches, modes, gradients."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import fans
from fans.task import Task
from tests.models import CLASSES, LOGITS, ROWS, WEIGHTS, X, linear, logits
from tests.oracles import exact_joint_pns

SOFTMAX = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
SIGMOID = 1 / (1 + np.exp(-LOGITS[:, :1]))


class Recorder:
    """A model that keeps how many rows it was fed at a time."""

    def __init__(self, model: Any) -> None:
        self.model, self.batches = model, list[int]()

    def __call__(self, rows: Any) -> Any:
        self.batches.append(len(rows))
        return self.model(rows)


# --- Outputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "settings", "expected", "kind"),
    [
        (linear(3), {}, SOFTMAX, "probability"),
        (linear(3), {"task": "classification"}, SOFTMAX, "probability"),
        (linear(1), {"task": "classification"}, np.c_[1 - SIGMOID, SIGMOID], "probability"),
        (
            *(nn.Sequential(linear(1), nn.Flatten(0)), {"task": "classification"}),
            *(np.c_[1 - SIGMOID, SIGMOID], "probability"),
        ),
        (nn.Sequential(linear(3), nn.Softmax(1)), {}, SOFTMAX, "probability"),
        (nn.Sequential(linear(3), nn.LogSoftmax(1)), {}, SOFTMAX, "probability"),
        (nn.Sequential(linear(1), nn.Sigmoid()), {}, np.c_[1 - SIGMOID, SIGMOID], "probability"),
        (
            *(nn.Sequential(linear(1), nn.Sigmoid()), {"task": "classification"}),
            *(np.c_[1 - SIGMOID, SIGMOID], "probability"),
        ),
        (linear(3), {"output": "raw"}, LOGITS, "output"),
        (linear(3), {"task": "regression"}, LOGITS, "output"),
        (linear(1), {"task": "regression"}, LOGITS[:, :1], "output"),
        (linear(1), {"task": "classification", "output": "raw"}, LOGITS[:, :1], "output"),
        (nn.Sequential(linear(1), nn.Sigmoid()), {"task": "regression"}, SIGMOID, "output"),
        (nn.Sequential(linear(1), nn.Flatten(0)), {"output": "raw"}, LOGITS[:, :1], "output"),
    ],
)
def test_modules(model, settings, expected, kind):
    bound = Task.bind(model, ROWS, **settings)
    np.testing.assert_allclose(bound.outputs, expected, rtol=1e-12)
    assert (bound.outputs.dtype, bound.predict.kind) == (torch.float64, kind)
    with bound.predict.session():  # later rows are squashed as the background's were
        np.testing.assert_allclose(bound.predict(bound.background[4:6]), expected[4:6], rtol=1e-12)


@pytest.mark.parametrize("form", [np.array, np.float32, torch.tensor, lambda a: pd.DataFrame(a, columns=["a", "b"])])
def test_a_module_is_fed_tensors_of_its_own_type(form):
    fed = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counts = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
            self.inner = linear(3).float()

        def forward(self, rows):
            fed.append((type(rows), rows.dtype, torch.is_grad_enabled(), self.training))
            return self.inner(rows)

    model = Spy()
    bound = Task.bind(model, form(ROWS))
    assert set(fed) == {(torch.Tensor, torch.float32, False, False)}
    np.testing.assert_allclose(bound.outputs, SOFTMAX, rtol=1e-5)
    assert (torch.is_grad_enabled(), model.training, model.inner.weight.grad) == (True, True, None)


def test_a_classifier_answers_with_probabilities_and_names():
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        model.fit(ROWS, CLASSES)
        bound = Task.bind(model, ROWS)
        np.testing.assert_array_equal(bound.outputs, model.predict_proba(ROWS))
        assert (bound.predict.kind, bound.predict.target_names) == ("probability", ("ant", "bee", "cat"))
    numbered = LogisticRegression().fit(ROWS, np.where(CLASSES == "ant", 7, 3))
    assert Task.bind(numbered, ROWS).predict.target_names == ("3", "7")


def test_a_logit_that_looked_like_a_probability_is_found_out():
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(0.0)
    bound = Task.bind(model, np.linspace(0, 1, 20)[:, None])
    told = r'from a module with one output, .*got 3; pass task="regression" if it is a number, or add a sigmoid'
    with bound.predict.session(), pytest.raises(fans.ModelError, match=told):
        bound.predict(torch.tensor([[3.0]]))


def test_an_estimator_without_classes_answers_with_predict():
    y = ROWS @ [2.0, -1.0]
    bound = Task.bind(LinearRegression().fit(ROWS, y), ROWS)
    np.testing.assert_allclose(bound.outputs, y[:, None], atol=1e-12)
    assert (bound.predict.kind, bound.predict.target_names) == ("output", ("0",))


def test_a_classifier_asked_for_a_regression_answers_with_predict():
    labels = np.where(CLASSES == "ant", 7.0, 3.0)
    model = LogisticRegression().fit(ROWS, labels)
    bound = Task.bind(model, ROWS, task="regression")
    np.testing.assert_array_equal(bound.outputs, model.predict(ROWS)[:, None])
    assert (bound.predict.kind, bound.predict.target_names) == ("output", ("0",))
    words = LogisticRegression().fit(ROWS, CLASSES)
    with pytest.raises(fans.ModelError, match="one array of numbers from the model, got ndarray of"):
        Task.bind(words, ROWS, task="regression")


def read_only(rows: Any) -> Any:
    out = logits(rows)
    out.setflags(write=False)
    return out


@pytest.mark.parametrize(
    ("model", "expected", "kind"),
    [
        (lambda a: logits(a)[:, 0], LOGITS[:, :1], "output"),
        (lambda a: logits(a)[:, :1], LOGITS[:, :1], "output"),
        (logits, LOGITS, "output"),
        (lambda a: logits(a)[:, ::-1], LOGITS[:, ::-1], "output"),
        (read_only, LOGITS, "output"),
        (lambda a: logits(a).tolist(), LOGITS, "output"),
        (lambda a: tuple(logits(a)[:, 0].tolist()), LOGITS[:, :1], "output"),
        (lambda a: torch.tensor(logits(a), requires_grad=True), LOGITS, "output"),
        (lambda a: pd.DataFrame(logits(a)), LOGITS, "output"),
        (lambda a: pd.Series(logits(a)[:, 0]), LOGITS[:, :1], "output"),
        (lambda a: np.array(logits(a), dtype=">f8", order="F"), LOGITS, "output"),
        (lambda a: logits(a)[:, 0] > 0, LOGITS[:, :1] > 0, "output"),
        (lambda a: logits(a).argmax(1).astype(np.uint32), LOGITS.argmax(1)[:, None], "output"),
        (lambda a: SOFTMAX[: len(a)], SOFTMAX, "probability"),
        (lambda a: SIGMOID[: len(a)], SIGMOID, "output"),  # one number: nothing says that it is a probability
    ],
)
def test_callables_are_used_as_they_are(model, expected, kind):
    bound = Task.bind(model, ROWS)
    np.testing.assert_array_equal(bound.outputs, expected)
    assert bound.predict.kind == kind
    assert bound.predict.target_names == tuple(str(c) for c in range(expected.shape[1]))


def test_half_precision_outputs():
    bound = Task.bind(lambda a: logits(a).astype(np.float16), ROWS)
    np.testing.assert_array_equal(bound.outputs, LOGITS.astype(np.float16).astype(np.float64))


NUMBER = (
    'one output, which is no probability .* pass task="classification" if .* logit .*, task="regression" if it is a n'
)


@pytest.mark.parametrize("module", [linear(1), nn.Sequential(linear(1), nn.Flatten(0))], ids=["column", "flat"])
def test_a_single_output_that_is_no_probability_is_a_number_and_that_is_said(module):
    """Against enumeration of the plain function, and by hand: the mean, and what replacing a column moves."""
    with pytest.warns(fans.FansWarning, match=NUMBER) as told:
        asked = fans.pns(
            module, X, [True, False], background=ROWS, baseline=0.0, radius=0.8, tolerance=0.4, estimator="exact"
        )
    assert len(told) == 1
    for i, x in enumerate(X):
        oracle = exact_joint_pns(lambda rows: logits(rows)[:, :1], x, [True, False], ROWS, np.zeros(2), 0.8, 0.4)
        for name, value in oracle.items():
            np.testing.assert_allclose(getattr(asked, name)[i], value, rtol=1e-10, err_msg=f"{name} of {i}")
    with pytest.warns(fans.FansWarning, match=NUMBER) as told:
        found = fans.Explainer(module, ROWS, baseline=0.0, radius=2.0)(X)
    assert len(told) == 1
    assert (found.kind, found.target_name(0)) == ("output", "the output")
    np.testing.assert_allclose(found.prediction, X @ WEIGHTS[0] + 0.1, rtol=1e-12)
    np.testing.assert_allclose(found.tolerance, 0.1 * LOGITS[:, 0].std(), rtol=1e-12)
    np.testing.assert_allclose(found.direction, -X * WEIGHTS[0], rtol=1e-12)
    said = fans.Explainer(module, ROWS, baseline=0.0, radius=2.0, task="regression")(X)  # and nothing more
    for name in ("scores", "subset", "pns", "direction"):
        np.testing.assert_array_equal(getattr(said, name), getattr(found, name))


def test_the_gradient_of_a_number_is_that_of_the_number():
    with pytest.warns(fans.FansWarning, match=NUMBER):
        explainer = fans.Explainer(linear(1), ROWS, method="saliency", absolute=False)
    np.testing.assert_allclose(explainer.scores(X), np.tile(WEIGHTS[0], (3, 1)), rtol=1e-12)


def test_a_number_has_no_classes_and_whoever_names_some_is_told_how_to():
    remedy = 'pass task="classification" if the one output is the logit of a class'
    with pytest.warns(fans.FansWarning, match=NUMBER):
        explainer = fans.Explainer(linear(1), ROWS)
    for target, got in ((1, "1"), ("yes", "'yes'"), ([0, 1, 0], "1")):
        with pytest.raises(fans.InputError, match=f"`target` from 0 to 0, or a class name, got {got}; {remedy}"):
            explainer(X, target=target)
    for settings, message in (
        ({"target_names": ["no", "yes"]}, f"as 1 different names, .*got \\['no', 'yes'\\]; {remedy}"),
        ({"change": "label"}, f'got a single one; use change="target"; {remedy}'),
    ):
        with pytest.warns(fans.FansWarning, match=NUMBER), pytest.raises(fans.InputError, match=message):
            fans.Explainer(linear(1), ROWS, **settings)
    named = fans.Explainer(linear(1), ROWS, task="classification", target_names=["no", "yes"])
    assert named(X, target="yes").target.tolist() == [1, 1, 1]
    with pytest.raises(fans.InputError, match=r"`target` from 0 to 0, or a class name, got 1$"):
        fans.Explainer(linear(1), ROWS, task="regression")(X, target=1)  # who has said so is not told again


# --- Batches and counts ----------------------------------------------------------------------------------------------

MODES: list[dict[str, Any]] = [
    {"estimator": "weighted"},
    {"estimator": "resample", "n_resample": 20, "n_perturb": 4},
    {"estimator": "exact", "baseline": "mean"},
    {"search": True},
    {"tolerance": 0.1, "target": 2},
]


@pytest.mark.parametrize("max_batch", [5, 64, None])
@pytest.mark.parametrize("mode", MODES)
def test_batches_of_pns(mode, max_batch):
    model = Recorder(logits)
    settings = {"radius": 2.0, "n_factual": 4, "n_perturb": 4} | mode
    out = fans.pns(model, X, ["x1"], background=ROWS, max_batch=max_batch, **settings)
    assert max(model.batches) <= (max_batch or 8192)
    assert min(model.batches) >= 1
    assert sum(model.batches) == out.n_evaluations
    whole = fans.pns(logits, X, ["x1"], background=ROWS, max_batch=100_000, **settings)
    for name in ("pns", "pn", "ps", "p_ab", "p_nab", "tolerance"):
        np.testing.assert_allclose(getattr(out, name), getattr(whole, name), rtol=1e-12)


@pytest.mark.parametrize("max_batch", [13, 64, None])
@pytest.mark.parametrize("mode", [{}, {"baseline": "mean", "estimator": "exact"}, {"phi": 0.5}, {"tolerance": 0.1}])
def test_batches_of_an_explainer(mode, max_batch):
    model = Recorder(logits)
    settings: dict[str, Any] = {"n_pairs": 20, "n_sweep": 100, "n_background": 10, "n_local": 9, "radius": 2.0} | mode
    explainer = fans.Explainer(model, ROWS, max_batch=max_batch, **settings)
    assert sum(model.batches) == len(ROWS)
    first = explainer(X)
    assert max(model.batches) <= (max_batch or 8192)
    assert sum(model.batches) == first.n_evaluations.sum() + first.evaluations["shared"]
    before = sum(model.batches)
    again = explainer(X)  # nothing shared is paid twice
    assert sum(model.batches) - before == again.n_evaluations.sum()
    np.testing.assert_array_equal(again.scores, first.scores)
    before = sum(model.batches)
    assert explainer.score(X, ["x1"]).n_evaluations == sum(model.batches) - before
    assert max(model.batches) <= (max_batch or 8192)


def test_wide_rows_come_in_smaller_batches_by_default():
    model = Recorder(lambda a: a[:, 0])
    wide = np.random.default_rng(0).normal(size=(3000, 1000))
    Task.bind(model, wide)
    assert model.batches == [524] * 5 + [380]  # 4 MiB of 8,000 bytes a row


def test_the_background_is_evaluated_once_and_in_order():
    seen = []
    Task.bind(lambda a: seen.append(a.copy()) or a[:, 0], ROWS, max_batch=8)  # type: ignore[func-returns-value]
    assert [len(part) for part in seen] == [8, 8, 8, 6]
    np.testing.assert_array_equal(np.concatenate(seen), ROWS)


def test_names_of_plain_outputs():
    out = fans.Explainer(logits, ROWS, n_pairs=20, radius=2.0)(X, target=[2, 0, 1])
    assert [out.target_name(i) for i in range(3)] == ["output 2", "output 0", "output 1"]


@pytest.mark.parametrize("whole", [False, True])
def test_gradients_of_more_rows_than_a_batch(whole):
    """The same as of one pass, each row counted once; no pass is larger than `max_batch` unless it must be whole."""
    sizes: list[int] = []

    class Watched(nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            return torch.stack([x.sin().sum(1), (x**2).sum(1)], 1)

    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(10, 3)))
    asked = fans.Explainer(Watched().double().eval(), rows, max_batch=4).task.predict
    leaf, before = rows.clone().requires_grad_(), asked.n_rows
    sizes.clear()
    with asked.session(), torch.enable_grad():
        out = asked.differentiable(leaf, raw=True, whole=whole)
        assert sizes == ([10] if whole else [4, 4, 2])
        (slope,) = torch.autograd.grad(out[:, 0].sum() + 2 * out[:, 1].sum(), leaf)
    assert asked.n_rows - before == 10
    assert torch.allclose(out.detach(), torch.stack([rows.sin().sum(1), (rows**2).sum(1)], 1))
    assert torch.allclose(slope, rows.cos() + 4 * rows)


@pytest.mark.filterwarnings("ignore:The 3,072 columns are more than the 1,000 model rows")
def test_a_network_sees_fewer_rows_at_a_time_than_exist():
    """By default; whoever gives `max_batch` gets batches of it, and so does what is no network."""
    sizes: list[int] = []

    class Watched(nn.Linear):
        def forward(self, x):
            sizes.append(len(x))
            return super().forward(x)

    rows = torch.from_numpy(np.random.default_rng(0).random((300, 3072), np.float32))
    module = Watched(3072, 2).eval()

    def asked(model, **how):
        predict = fans.Explainer(model, rows, **how).task.predict
        sizes.clear()
        with predict.session():
            predict(rows)
        return predict

    predict = asked(module)
    assert (predict.max_batch, predict.n_seen) == (341, 85)
    assert sizes == [85, 85, 85, 45]
    asked(module, max_batch=200)
    assert sizes == [200, 100]
    asked(lambda x: module(torch.as_tensor(x)).softmax(1).numpy(force=True))
    assert sizes == [300]
    with predict.session(), torch.enable_grad():
        sizes.clear()
        leaf = rows.clone().requires_grad_()
        (slope,) = torch.autograd.grad(predict.differentiable(leaf, raw=True)[:, 0].sum(), leaf)
        assert sizes == [85, 85, 85, 45]  # the memory is there: nothing is computed again
    assert torch.allclose(slope, module.weight[0].detach().expand(300, -1))
