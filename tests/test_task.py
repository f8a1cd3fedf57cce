"""Any model as one function: what its outputs become, how it is asked, and which of its outputs is explained."""

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

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
from tests.oracles import exact_joint_pns, exact_pns

ROWS = np.random.default_rng(0).normal(size=(30, 2))
X = np.array([[0.5, -1.0], [1.5, 0.3], [-0.7, 0.2]])
WEIGHTS = np.array([[1.0, -2.0], [0.5, 0.5], [-1.0, 3.0]])
LOGITS = ROWS @ WEIGHTS.T + [0.1, 0.2, 0.3]
CLASSES = np.array(["ant", "bee", "cat"])[LOGITS.argmax(1)]
SOFTMAX = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
SIGMOID = 1 / (1 + np.exp(-LOGITS[:, :1]))


def linear(n_outputs: int) -> nn.Linear:
    layer = nn.Linear(2, n_outputs, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(WEIGHTS[:n_outputs]))
        layer.bias.copy_(torch.tensor([0.1, 0.2, 0.3][:n_outputs], dtype=torch.float64))
    return layer


def logits(rows: Any) -> Any:
    return np.asarray(rows) @ WEIGHTS.T + [0.1, 0.2, 0.3]


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


def test_a_number_that_is_a_place_and_the_name_of_another_class_is_told():
    numbered = Task.bind(LogisticRegression().fit(ROWS, np.where(CLASSES == "ant", 1, 2)), ROWS)
    with pytest.warns(fans.FansWarning, match="Target 1 was taken as a place, that of the class '2'.*pass target='1'"):
        assert numbered.targets(1, numbered.outputs[:2]).tolist() == [1, 1]
    assert numbered.targets("1", numbered.outputs[:2]).tolist() == [0, 0]
    assert numbered.targets(0, numbered.outputs[:2]).tolist() == [0, 0]
    with pytest.raises(fans.InputError, match="`target` from 0 to 1, or a class name, got"):
        numbered.targets(torch.eye(2), numbered.outputs[:2])


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


SMALL: dict[str, Any] = {
    "n_steps": 3,
    "n_walk_rows": 40,
    "n_sweep": 50,
    "n_background": 10,
    "n_local": 9,
    "radius": 2.0,
}
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


# --- What outputs come in --------------------------------------------------------------------------------------------


class Answer(OrderedDict[str, Any]):
    """What a transformer returns: a dict whose entries are attributes too, those that are None left out."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


@dataclass
class Record:
    """The same as a record."""

    loss: Any = None
    hidden: Any = None
    logits: Any = None


class Pair(NamedTuple):
    """Two outputs with names."""

    score: Any
    embedding: Any


def embedding(out: Any) -> Any:
    """Return another output of the model."""
    return out[:, :, None] * 2


COMES_IN = {
    "`logits` of the Answer": lambda out: Answer(loss=out.mean(), hidden=embedding(out), logits=out),
    "`logits` of the Record": lambda out: Record(loss=out.mean(), hidden=embedding(out), logits=out),
    "`logits` of the SimpleNamespace": lambda out: SimpleNamespace(hidden=embedding(out), logits=out),
    "`logits` of the dict": lambda out: {"hidden": embedding(out), "logits": out},
    "`score` of the dict": lambda out: {"loss": out.mean(), "class": out.argmax(1), "score": out, "e": embedding(out)},
    "`score` of the Pair": lambda out: Pair(out, embedding(out)),
    "`hidden` of the Record": lambda out: Record(loss=out.mean(), hidden=out),
    "item 0 of the tuple": lambda out: (out, embedding(out)),
    "item 2 of the tuple": lambda out: (None, out.mean(), out, embedding(out)),
    "item 0 of the list": lambda out: [out, embedding(out), None],
}


class Wrapping(nn.Module):
    """A module that returns its outputs in something."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.inner, self.wrap = linear(3), wrap

    def forward(self, rows: Any) -> Any:
        return self.wrap(self.inner(rows))


@pytest.mark.parametrize("name", COMES_IN)
@pytest.mark.parametrize(
    ("bare", "wrapped"),
    [
        (linear(3), Wrapping),
        (logits, lambda wrap: lambda rows: wrap(logits(rows))),
        (logits, lambda wrap: lambda rows: wrap(torch.tensor(logits(rows)))),
    ],
    ids=["module", "arrays", "tensors"],
)
def test_outputs_in_company_are_taken_out_and_that_is_said_once(bare, wrapped, name):
    """Exactly what the bare outputs give, with and without a gradient, in many batches."""
    model = wrapped(COMES_IN[name])
    message = f"^Took {name} that the model returns as its outputs; if another is meant, pass a model that returns that"

    def ask(model: Any) -> Any:
        explainer = fans.Explainer(model, ROWS, max_batch=64, **SMALL)
        return explainer(X), explainer.score(X, ["x1"])

    with pytest.warns(fans.FansWarning, match=message) as told:
        found, asked = ask(model)
    assert len(told) == 1
    plain, plainly = ask(bare)
    assert found.settings["solver"] == ("chain" if isinstance(bare, nn.Module) else "walks")
    for field in ("scores", "subset", "pns", "interval", "prediction", "direction", "n_evaluations"):
        np.testing.assert_array_equal(getattr(found, field), getattr(plain, field))
    np.testing.assert_array_equal(asked.pns, plainly.pns)
    with pytest.warns(fans.FansWarning, match=message) as told:
        one = fans.pns(model, X, ["x1"], background=ROWS, radius=2.0)
    assert len(told) == 1
    np.testing.assert_array_equal(one.pns, fans.pns(bare, X, ["x1"], background=ROWS, radius=2.0).pns)


def test_it_is_said_once_of_images_too_whose_units_are_settled_twice():
    class Outside(nn.Module):
        def forward(self, images: torch.Tensor) -> Any:
            return {"value": images.detach().numpy().sum((1, 2, 3))}

    images = torch.rand(8, 1, 24, 24, generator=torch.Generator().manual_seed(0))
    with pytest.warns(fans.FansWarning) as told:
        found = fans.Explainer(Outside(), images)
    assert [str(one.message).partition(" ")[0] for one in told] == ["Took", "The"]
    assert found.task.space.n_features < 576
    np.testing.assert_allclose(found.task.outputs[:, 0], images.sum((1, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("n_rows", [2, 3, 4, 30])
@pytest.mark.parametrize(
    "listed",
    [
        list,
        lambda out: [torch.tensor(row) for row in out],
        lambda out: out.tolist(),
        lambda out: [list(row) for row in out],
        lambda out: [np.float64(number) for number in out[:, 0]],
        lambda out: [torch.tensor(number) for number in out[:, 0]],
        lambda out: tuple(out[:, 0]),
        lambda out: pd.DataFrame({"logits": out[:, 0], "other": out[:, 1]}),
    ],
)
def test_a_row_for_each_input_is_no_company(listed, n_rows):
    """However many rows there are: also as many as classes."""
    bound = Task.bind(lambda rows: listed(logits(rows)), ROWS[:n_rows])
    np.testing.assert_array_equal(bound.outputs, LOGITS[:n_rows, : bound.outputs.shape[1]])


@pytest.mark.parametrize("n_rows", [2, 30])
def test_two_numbers_a_row_in_a_tuple_are_two_outputs(n_rows):
    """However many rows there are: also two."""
    with pytest.warns(fans.FansWarning, match="Took item 0 of the tuple"):
        bound = Task.bind(lambda rows: (logits(rows)[:, 0], logits(rows)[:, 1]), ROWS[:n_rows])
    np.testing.assert_array_equal(bound.outputs, LOGITS[:n_rows, :1])


def test_rows_that_a_module_lists_have_their_gradient():
    class Listing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear(3)

        def forward(self, rows: torch.Tensor) -> Any:
            return [self.inner(row) for row in rows]

    settings: dict[str, Any] = {"method": "saliency", "absolute": False, "output": "raw"}
    np.testing.assert_array_equal(fans.Explainer(Listing(), ROWS, **settings).scores(X, 1), [WEIGHTS[1]] * 3)


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


# --- Targets ---------------------------------------------------------------------------------------------------------


def test_the_predicted_class_by_default():
    model = LogisticRegression().fit(ROWS, CLASSES)
    probabilities = model.predict_proba(X)
    out = fans.Explainer(model, ROWS, n_pairs=20, radius=2.0)(X)
    np.testing.assert_array_equal(out.target, probabilities.argmax(1))
    np.testing.assert_allclose(out.prediction, probabilities.max(1), rtol=1e-12)
    assert [out.target_name(i) for i in range(3)] == [f"P({name})" for name in model.predict(X)]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (1, [1, 1, 1]),
        ("cat", [2, 2, 2]),
        (np.int64(2), [2, 2, 2]),
        (np.array(1), [1, 1, 1]),
        (1.0, [1, 1, 1]),
        ([0, 2, 1], [0, 2, 1]),
        (np.array([2, 2, 0]), [2, 2, 0]),
        (torch.tensor([2, 0, 1]), [2, 0, 1]),
        (("ant", "cat", "bee"), [0, 2, 1]),
        (pd.Series(["bee", "bee", "ant"], index=[7, 8, 9]), [1, 1, 0]),
        (["ant", 2, "bee"], [0, 2, 1]),
    ],
)
@pytest.mark.parametrize("max_batch", [64, None])  # one input at a time, and in one block
def test_targets_by_index_and_name(target, expected, max_batch):
    model = LogisticRegression().fit(ROWS, CLASSES)
    small: dict[str, Any] = {"n_pairs": 20, "n_sweep": 50, "n_background": 10, "n_local": 9, "radius": 2.0}
    out = fans.Explainer(model, ROWS, max_batch=max_batch, **small)(X, target=target)
    np.testing.assert_array_equal(out.target, expected)
    np.testing.assert_allclose(out.prediction, model.predict_proba(X)[range(3), expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("target", "expected"),
    [(None, None), (0, [0, 0, 0]), ("1", [1, 1, 1]), ([2, 0, 1], [2, 0, 1]), (["2", "0", "2"], [2, 0, 2])],
)
@pytest.mark.parametrize("max_batch", [20, None])
def test_the_change_is_measured_on_the_target(target, expected, max_batch):
    if expected is None:
        expected = (X @ WEIGHTS.T + [0.1, 0.2, 0.3]).argmax(1).tolist()
        assert len(set(expected)) > 1
    for closeness, enumeration in (("input", exact_joint_pns), ("subset", exact_pns)):
        out = fans.pns(
            logits, X, [True, False], background=ROWS, baseline=0.0, radius=0.8, tolerance=0.4, estimator="exact",
            target=target, max_batch=max_batch, closeness=closeness,  # type: ignore[arg-type]
        )  # fmt: skip
        for i, c in enumerate(expected):
            oracle = enumeration(logits, X[i], [True, False], ROWS, np.zeros(2), 0.8, 0.4, target=c)
            for name, value in oracle.items():
                np.testing.assert_allclose(getattr(out, name)[i], value, rtol=1e-10, err_msg=f"{name} of {i}")


def test_a_regressor_has_one_target():
    out = fans.Explainer(lambda a: a[:, 0] * 3, ROWS, n_pairs=20, radius=2.0)(X)
    np.testing.assert_array_equal(out.target, [0, 0, 0])
    np.testing.assert_allclose(out.prediction, X[:, 0] * 3)
    assert out.target_name(0) == "the output"


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
