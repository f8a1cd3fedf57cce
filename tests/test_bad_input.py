"""What cannot be used is refused in one sentence that says what came; what was paid for is never thrown away."""

import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

import fans
from fans import cli
from fans.spaces import Table

ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)
PEOPLE = pd.DataFrame(
    {
        "age": np.arange(40.0),
        "town": ["Oslo", "Rome"] * 20,
        "size": pd.Categorical(["S", "L"] * 20, categories=["S", "M", "L"]),
        "owner": [True, False] * 20,
    }
)


def difference(rows: Any) -> Any:
    return rows[:, 0] - rows[:, 1]


def two_classes(rows: Any) -> Any:
    return np.stack([np.full(len(rows), 0.4), np.full(len(rows), 0.6)], 1)


def people_score(frame: Any) -> Any:
    return frame["age"].to_numpy() + 10 * (frame["town"] == "Oslo").to_numpy()


class Recorder:
    """A model that keeps what it was fed."""

    def __init__(self, model: Any) -> None:
        self.model, self.fed = model, list[Any]()

    def __call__(self, rows: Any) -> Any:
        self.fed.append(rows.copy())
        return self.model(rows)


def through_pns(
    model: Any = difference, x: Any = ROWS[0], background: Any = ROWS, call: Any = None, **settings: Any
) -> fans.PNS:
    settings = {"radius": 2.0, "n_factual": 2, "n_perturb": 2} | settings
    subset = "age" if background is PEOPLE else "x1"
    return fans.pns(model, x, subset, background=background, **settings, **(call or {}))


def through_explainer(
    model: Any = difference, x: Any = ROWS[0], background: Any = ROWS, call: Any = None, **settings: Any
) -> fans.Explanation:
    settings = {"radius": 2.0, "n_pairs": 8, "n_sweep": 50} | settings
    return fans.Explainer(model, background, **settings)(x, **(call or {}))


BOTH = pytest.mark.parametrize("ask", [through_pns, through_explainer])


def exactly(text: str) -> str:
    return re.escape(text)


def test_errors_are_value_errors():
    assert issubclass(fans.InputError, ValueError)
    assert issubclass(fans.ModelError, ValueError)
    assert issubclass(fans.MissingExtra, ImportError)
    assert issubclass(fans.Interrupted, KeyboardInterrupt)


# --- Shapes and values -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(4), "x of shape (3,) or (batch, 3), got (4,)"),
        (np.zeros((2, 4)), "x of shape (3,) or (batch, 3), got (2, 4)"),
        (np.zeros((1, 1, 3)), "got (1, 1, 3)"),
        (torch.zeros(5), "got (5,)"),
        (np.float64(3), "got ()"),
        (np.zeros((0, 3)), "at least one row in x, got shape (0, 3)"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], "x with rows of one length"),
        ("abc", "numbers in x, got <U3"),
        (np.array(["a", "b", "c"]), "numbers in x, got <U1"),
        (
            np.array([1, "b", 2], dtype=object),
            "numbers in x, got 'b' (str) at (1,); pass a pandas frame for columns of",
        ),
        (np.array([[1, 2, pd.Timestamp(0)]], dtype=object), "00:00:00') (Timestamp) at (0, 2); pass a pandas frame"),
        (
            np.array([[0.0, 0.0, 0.0], [1.0, 2.0, -np.inf]]),
            "finite numbers, or NaN for missing ones, in x, got -inf in row 1, column 'x3' (1 such values)",
        ),
    ],
)
def test_x(ask, x, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(x=x)


@BOTH
@pytest.mark.parametrize(
    ("background", "message"),
    [
        (np.zeros(4), "got shape (4,); pass `space=`"),
        (np.zeros((4, 3, 2, 2, 2)), "got shape (4, 3, 2, 2, 2)"),
        (np.zeros((0, 3)), "got an empty background"),
        ([], "got an empty background"),
        (PEOPLE[:0], "got an empty background"),
        (np.zeros((4, 0)), "(samples, columns), got (4, 0)"),
        (None, "got shape ()"),
        ([[1.0, 2.0, 3.0], [1.0]], "background with rows of one length"),
        (np.array([["a", "b", "c"]]), "numbers in background, got <U1"),
        (np.where(ROWS[3, 0] == ROWS, np.inf, ROWS), "in background, got inf in row 3, column 'x1'"),
        (np.full((40, 3), np.nan), "values in the background, got 40 rows in which everything is missing"),
        (np.full((40, 3), None), "values in the background, got 40 rows in which everything is missing"),
        (pd.DataFrame(np.full((40, 3), None)), "values in the background, got 40 rows in which everything is missing"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}).set_axis(["a", "a"], axis=1), "several of ['a']"),
    ],
)
def test_background(ask, background, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(background=background)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Table(columns=["a", "b"]), "3 names in `columns`, one per column, got 2"),
        (Table(columns=["a", "b", "a"]), "several of ['a']"),
        (Table(groups={"g": ["x1", "x9"]}), "group 'g' to be one of 'x1', 'x2', 'x3', got 'x9'"),
        (Table(groups={"g": [0, 3]}), "group 'g' to be one of 'x1', 'x2', 'x3', got 3"),
        (Table(groups={"g": [0, 1], "h": ["x2"]}), "column 'x2' in one group, got it in 'g' and 'h'"),
        (Table(groups={"x1": [1, 2]}), "group 'x1', got that of a column outside it"),
        (Table(categorical=["x7"]), "a column in `categorical` to be one of 'x1', 'x2', 'x3', got 'x7'"),
    ],
)
@BOTH
def test_table(ask, space, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(space=space)


@BOTH
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (PEOPLE.drop(columns="town")[:1], "missing: ['town']"),
        (PEOPLE.assign(label=1)[:1], "drop: ['label']"),
        (PEOPLE.to_numpy()[:1], "x as a pandas frame like the background, got ndarray"),
        (PEOPLE.assign(age="old")[:1], "numbers in column 'age' of x, got "),
        (PEOPLE.assign(age=np.inf)[:1], "got inf in row 0, column 'age'"),
        (PEOPLE.assign(size="XL")[:1], "one of ['S', 'M', 'L'] in column 'size' of x, as in the background, got 'XL'"),
        (PEOPLE.assign(owner="False")[:1], "values of type bool in column 'owner' of x, as in the background, got 'F"),
        (PEOPLE.assign(owner=pd.Series([None] * 40, dtype=object))[:1], "values of type bool in column 'owner'"),
        (PEOPLE.assign(town=5)[:1], "in column 'town' of x, as in the background, got np.int64(5)"),
    ],
)
def test_frames(ask, x, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(model=people_score, x=x, background=PEOPLE)


@pytest.mark.parametrize("code", [2.5, np.nan, "2"])
def test_declared_codes_are_not_rounded(code):
    frame = pd.DataFrame({"a": np.arange(6.0), "code": [1, 2, 3] * 2})
    x = pd.DataFrame({"a": [0.0], "code": [code]})
    with pytest.raises(
        fans.InputError, match=exactly(f"type int64 in column 'code' of x, as in the background, got {x['code'][0]!r}")
    ):
        fans.pns(lambda f: f["a"].to_numpy(), x, ["a"], background=frame, space=Table(categorical=["code"]))


@pytest.mark.parametrize("closeness", ["input", "subset"])
def test_one_background_row_and_a_fixed_baseline(closeness):
    """By hand: one row a half away on each feature; features hit half of the time; only the first one matters."""
    background, x = np.array([[2.0, 1.0]]), np.array([2.5, 1.5])  # scales: 1
    with pytest.warns(fans.FansWarning, match=r"1\.0 of 1"):
        out = fans.pns(
            lambda a: a[:, 0], x, [True, False], background=background, baseline=0.0, radius=0.5, tolerance=0.1,
            estimator="exact", closeness=closeness,
        )  # fmt: skip
    near = np.exp(-0.5)
    np.testing.assert_allclose([out.pn[0], out.ps[0]], [1.0, 0.5])
    of_subset = [near * 0.5, near, 0.5 * (near * 0.5 + 0.5 * near)]
    expected = [0.5, 1.0, 0.5] if closeness == "input" else of_subset  # a single row counts for all, however far
    np.testing.assert_allclose([out.p_ab[0], out.p_nab[0], out.pns[0]], expected)
    np.testing.assert_allclose([out.changes[0], out.holds[0]], [0.5, 1.0])
    assert np.isfinite(out.interval).all()


def test_one_background_row_that_is_also_the_baseline():
    """The row replaced by itself never changes: PN has no support, and says so; PS is 0."""
    with pytest.warns(fans.FansWarning, match=r"1\.0 of 1"):
        out = fans.pns(difference, ROWS[1], [True, False, False], background=ROWS[:1], radius=2.0)
    assert np.isnan(out.pn[0])
    assert out.notes[0] == "PN is undefined: perturbing the subset changed no nearby sample"
    assert (out.ps[0], out.pns[0]) == (0.0, 0.0)


@pytest.mark.parametrize("baseline", [None, 0.0])
def test_one_background_row_explained(baseline):
    with pytest.warns(fans.FansWarning, match="The background has one row, so that every other value is that row's"):
        out = fans.Explainer(lambda a: a[:, 0], ROWS[:1], baseline=baseline, radius=2.0)(ROWS[1])
    assert np.isfinite(out.scores).all()
    assert out.ranked()[0] == 0
    assert out.chosen_names() == ["x1"]


@pytest.mark.parametrize("other", [5.0, np.nextafter(5.0, 6.0)], ids=["equal", "equal up to rounding"])
def test_a_constant_column_counts_as_scale_one(other):
    """By hand: x is 0.7 away on the constant column; hit (half of the time) it moves the output by 5."""
    background = np.c_[ROWS[:, :2], [5.0, other] * 20]
    x = np.array([0.0, 0.0, 5.7])
    out = fans.pns(
        lambda a: a[:, 2], x, ["x3"], background=background, baseline=0.0, radius=0.5, tolerance=0.01, n_factual=4000,
        closeness="subset",
    )  # fmt: skip
    np.testing.assert_allclose(out.p_ab, 0.5 * np.exp(-(0.7**2) / (2 * 0.5**2)), rtol=0.02)
    assert out.pn[0] == 1.0
    explained = fans.Explainer(lambda a: a[:, 2], background, baseline=0.0, radius=0.5)(x)
    assert explained.chosen_names() == ["x3"]


def test_a_constant_column_gets_no_noise():
    """Values that differ by rounding alone have a standard deviation above 0, and are still constant."""
    background = np.c_[np.full(40, 0.1), ROWS[:, 0]]
    background[::2, 0] = np.nextafter(0.1, 1)
    model = Recorder(lambda a: a[:, 1])
    fans.pns(model, background[3], ["x2"], background=background, baseline="mean", radius=2.0)
    assert np.abs(np.concatenate(model.fed)[:, 0] - 0.1).max() < 1e-15


# --- Subsets ---------------------------------------------------------------------------------------------------------


def pns_of(x: Any, subset: Any) -> fans.PNS:
    return fans.pns(difference, x, subset, background=ROWS)


def score_of(x: Any, subset: Any) -> fans.PNS:
    return fans.Explainer(difference, ROWS).score(x, subset)


@pytest.mark.parametrize("ask", [pns_of, score_of])
@pytest.mark.parametrize(
    ("subset", "message"),
    [
        ([True], "`subset` of shape (3,) or (2, 3) (batch, features), got (1,)"),
        ([[True, False, False]], "got (1, 3)"),
        (np.ones((3, 3), bool), "got (3, 3)"),
        (np.ones((1, 2, 3), bool), "got (1, 2, 3)"),
        ([1, 0, 0], "booleans, one per feature, got torch.int64"),
        (np.ones(3), "booleans, one per feature, got torch.float64"),
        (torch.ones(3, dtype=torch.uint8), "booleans, one per feature, got torch.uint8"),
        (None, "booleans, one per feature, got None"),
        ([[True], [True, False]], "booleans, one per feature, got [[True], [True, False]]"),
        (["x1", "y"], "a feature of `subset` to be one of 'x1', 'x2', 'x3', got 'y'"),
        (np.array(["x1", "X2"]), "one of 'x1', 'x2', 'x3', got 'X2'"),
        ("x4", "one of 'x1', 'x2', 'x3', got 'x4'"),
        (["x1", 1], "one of 'x1', 'x2', 'x3', got 1"),
    ],
)
def test_subsets(ask, subset, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(ROWS[:2], subset)


# --- Settings --------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("kernel", "'gaussian', 'indicator'"),
        ("distance", "'rms', 'l2'"),
        ("change", "'target', 'fall', 'l2', 'label'"),
        ("estimator", "'exact', 'weighted', 'resample'"),
        ("closeness", "'input', 'subset'"),
        ("radius", "'scott', 'ess', 'paper'"),
        ("tolerance", "'noise', 'paper'"),
        ("output", "'probability', 'raw'"),
        ("task", "'classification', 'regression'"),
        ("baseline", "'background', 'mean', 'zero'"),
    ],
)
def test_unknown_values(ask, name, known):
    with pytest.raises(fans.InputError, match=f"`{name}` to be one of {known}.*, got 'wrong'"):
        ask(**{name: "wrong"})


EDGES = SimpleNamespace(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))


@BOTH
@pytest.mark.parametrize(
    ("background", "names", "message"),
    [
        (ROWS, ["a", "b"], "`feature_names` as 3 different names, one per column of the background, got ['a', 'b']"),
        (
            ROWS,
            ["a", "b", "a"],
            "`feature_names` as 3 different names, one per column of the background, got ['a', 'b'",
        ),
        (ROWS, "abc", "`feature_names` as 3 different names, one per column of the background, got 'abc'"),
        (ROWS, [], "`feature_names` as 3 different names, one per column of the background, got []"),
        (
            PEOPLE,
            ["a", "b", "c", "d"],
            "but those of its columns, got others; rename these: background.set_axis(feature",
        ),
        (PEOPLE, 4, "no `feature_names` for a frame but those of its columns, got others"),
        (np.zeros((5, 1, 8, 8)), ["a"], "no `feature_names` for images, whose features go by their places, got some"),
        (EDGES, ["a", "b"], "no `feature_names` for a graph, .*some; name those: space=fans.spaces.GraphEdges(node_n"),
        ([EDGES, EDGES], ["a"], "no `feature_names` for a graph, .*some; name those"),
        (np.zeros((5, 2, 2, 2, 2)), ["a"], "got shape (5, 2, 2, 2, 2); pass `space=`"),
    ],
)
def test_feature_names(ask, background, names, message):
    with pytest.raises(fans.InputError, match=exactly(message).replace(r"\.\*", ".*")):
        ask(background=background, feature_names=names)


@BOTH
def test_feature_names_and_a_space(ask):
    message = (
        "Expected `space` or `feature_names`, got both; give the names to the space, as in fans.spaces.Table(column"
    )
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(space=Table(), feature_names=["a", "b", "c"])


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("class_names", "target_names=[...]"),
        ("training_data", "it as the background, the second argument"),
        ("nsamples", 'effort="low", "normal" or "high"'),
        ("internal_batch_size", "max_batch=..."),
        ("target", "it when explaining: explainer(x, target=...)"),
        ("baselines", "baseline=..."),
        ("columns", "feature_names=[...]"),
        ("column_names", "feature_names=[...]"),
        ("groups", "space=fans.spaces.Table(groups={...})"),
        ("categorical_features", "space=fans.spaces.Table(categorical=[...])"),
        ("feature_mask", "space=fans.spaces.FeatureMask(mask)"),
        ("link", 'output="raw" for logits'),
        ("mode", 'task="classification" or "regression"'),
        ("random_state", "seed=..."),
    ],
)
def test_what_other_libraries_call_it(name, instead):
    with pytest.raises(fans.InputError, match=exactly(f"Expected a setting of `fans`, got {name!r}; pass {instead}")):
        fans.Explainer(difference, ROWS, **{name: 1})  # type: ignore[arg-type]


def test_a_methods_own_setting_is_its_own():
    assert vars(fans.Explainer(nn.Linear(3, 2), ROWS, method="gradient_shap", n_samples=3).method)["n_samples"] == 3


@BOTH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": "wrong"}, "`scale` with closeness=\"input\" to be one of 'joint', got 'wrong'"),
        ({"scale": "unit"}, "`scale` with closeness=\"input\" to be one of 'joint', got 'unit'"),
        ({"scale": "joint", "closeness": "subset"}, "closeness=\"subset\" to be one of 'unit', 'paper', got 'joint'"),
    ],
)
def test_scales_of_another_closeness(ask, settings, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(**settings)


@pytest.mark.parametrize("name", ["radius", "tolerance"])
def test_an_explainer_refuses_unknown_names_before_it_is_called(name):
    settings: dict[str, Any] = {name: "wrong"}
    with pytest.raises(fans.InputError, match=f"`{name}` to be one of .*'paper'.*, got 'wrong'"):
        fans.Explainer(difference, ROWS, **settings)


def test_unknown_methods_and_settings():
    with pytest.raises(fans.InputError, match=r"`method` to be one of .*'fans'.*, got 'fan'; did you mean 'fans'\?"):
        fans.Explainer(difference, ROWS, method="fan")
    with pytest.raises(fans.InputError, match=r"'n_pairs'.*'tolerance'.*, got 'n_pair'; did you mean 'n_pairs'\?"):
        fans.Explainer(difference, ROWS, n_pair=3)
    for gone in ("price", "refine", "search"):
        with pytest.raises(fans.InputError, match=f"a setting to be one of .*, got '{gone}'"):
            fans.Explainer(difference, ROWS, **{gone: 1})  # type: ignore[arg-type]
    with pytest.raises(fans.InputError, match=r"`effort` to be one of 'low', 'normal', 'high', got 'hard'"):
        fans.Explainer(difference, ROWS, effort="hard")  # type: ignore[arg-type]
    with pytest.raises(fans.InputError, match=r"`tolerance` to be one of 'noise', 'paper', got 'search'"):
        fans.Explainer(difference, ROWS, tolerance="search")
    with pytest.raises(fans.InputError, match=r"`solver` to be one of 'auto', 'chain', 'walks', 'game'.*, got 'magic'"):
        fans.Explainer(difference, ROWS, solver="magic")


@BOTH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_perturb": 0}, "`n_perturb` as a whole number of at least 1, got 0"),
        ({"n_factual": 1.5}, "`n_factual` as a whole number of at least 1, got 1.5"),
        ({"n_resample": -1}, "`n_resample` as a whole number of at least 1, got -1"),
        ({"phi": 0}, "`phi` above 0 and up to 1, got 0"),
        ({"phi": 1.1}, "`phi` above 0 and up to 1, got 1.1"),
        ({"phi": np.nan}, "`phi` above 0 and up to 1, got nan"),
        ({"phi": "half"}, "`phi` above 0 and up to 1, got 'half'"),
        ({"confidence": 2}, "`confidence` between 0 and 1, got 2"),
        ({"confidence": None}, "`confidence` between 0 and 1, got None"),
        ({"radius": 0}, "`radius` above 0, got 0"),
        ({"radius": np.nan}, "`radius` above 0, got nan"),
        ({"radius": [1.0, 2.0]}, "`radius` as a number or one per input (1), got shape (2,)"),
        ({"radius": {"b": 1}}, "`radius` as a number or one per input (1), got {'b': 1}"),
        ({"tolerance": -1}, "`tolerance` of at least 0, got -1"),
        ({"tolerance": [[1.0]]}, "`tolerance` as a number or one per input (1), got shape (1, 1)"),
        ({"max_batch": 0}, "`max_batch` as a whole number of at least 1, got 0"),
        ({"max_batch": 1.5}, "`max_batch` as a whole number of at least 1, got 1.5"),
        ({"seed": "a"}, "`seed` as a whole number, got 'a'"),
        ({"seed": 1.5}, "`seed` as a whole number, got 1.5"),
        ({"seed": None}, "`seed` as a whole number, got None"),
        ({"baseline": np.zeros(2)}, "baseline of shape (3,) or (batch, 3), got (2,)"),
        ({"baseline": np.zeros((2, 3))}, "`baseline` as one row of 3 columns, got 2 rows"),
        ({"baseline": -np.inf}, "or NaN for missing ones, in baseline, got -inf in row 0, column 'x1'"),
        ({"baseline": {"x1": 0}}, "`baseline` as a name, a number or a row, got {'x1': 0}"),
        ({"baseline": [[1], [1, 2]]}, "`baseline` with rows of one length"),
        ({"baseline": "median"}, "got 'median'; did you mean 'mean'?"),
        ({"change": "label"}, 'several class outputs for change="label", got a single one'),
        ({"estimator": "exact"}, 'fixed baseline for estimator="exact", got one that is drawn'),
    ],
)
def test_bad_values(ask, settings, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(**settings)


@BOTH
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([5, 5], "one id of its own for each of 2 inputs, got 1 different"),
        (["a"], "one id of its own for each of 2 inputs, got 1 different"),
        ([1, 2, 3], "one id of its own for each of 2 inputs, got 3 different"),
        ([1.5, 2], "`ids` as whole numbers or names, one per input, got [1.5, 2]"),
        (5, "`ids` as whole numbers or names, one per input, got 5"),
        ([2**70, 1], "`ids` that fit into 64 bits, got [1180591620717411303424, 1]"),
    ],
)
def test_ids(ask, ids, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(x=ROWS[:2], call={"ids": ids})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_pairs": 1}, "`n_pairs` as a whole number of at least 2, got 1"),
        ({"ridge": "a"}, "`ridge` of at least 0, got 'a'"),
        ({"ridge": -1.0}, "`ridge` of at least 0, got -1.0"),
        ({"n_background": -1}, "`n_background` as a whole number of at least 0, got -1"),
        ({"n_local": 1.5}, "`n_local` as a whole number of at least 0, got 1.5"),
        ({"n_sweep": 0}, "`n_sweep` as a whole number of at least 1, got 0"),
        ({"enough": 0}, "`enough` above 0 and up to 1, got 0"),
        ({"enough": 1.5}, "`enough` above 0 and up to 1, got 1.5"),
        ({"enough": "most"}, "`enough` above 0 and up to 1, got 'most'"),
        ({"n_rows": 3}, "`n_rows` as a whole number of at least 4, got 3"),
        ({"n_rows": 7}, "`n_rows` as an even number, half of them for either side, got 7"),
    ],
)
def test_bad_explainer_settings(settings, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        fans.Explainer(difference, ROWS, **settings)


def test_numpy_numbers_are_numbers():
    """A seed from `np.arange` is the same seed, and the settings can still be saved."""
    ours = through_explainer(seed=np.int64(3), max_batch=np.int32(50), radius=np.float32(2.0), phi=np.float32(0.5))
    theirs = through_explainer(seed=3, max_batch=50, phi=0.5)
    np.testing.assert_array_equal(ours.scores, theirs.scores)
    assert (type(ours.seed), type(ours.settings["radius"])) == (int, float)


def test_exact_with_too_many_features():
    wide = np.random.default_rng(1).normal(size=(40, 30))
    message = r"got 42,949,672,960 \(2 to the power of up to 30 perturbed features"
    with pytest.raises(fans.InputError, match=message):
        fans.pns(difference, wide[0], [True] * 30, background=wide, baseline=0.0, estimator="exact")
    with pytest.raises(fans.InputError, match=r"got [\d,]+ \(2 to the power of up to \d+ perturbed features"):
        through_explainer(x=wide[0], background=wide, baseline=0.0, estimator="exact")


@BOTH
@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (0, "columns ['town', 'size', 'owner'] can take, got the number 0"),
        ("zero", "columns ['town', 'size', 'owner'] can take, got the number 0"),
        (np.zeros(4), "baseline as a pandas frame like the background, got ndarray"),
        (PEOPLE[:2], "`baseline` as one row of 4 columns, got 2 rows"),
        (PEOPLE.drop(columns="age").iloc[0], "columns in baseline, got ['town', 'size', 'owner']; missing: ['age']"),
    ],
)
def test_baselines_of_a_frame_with_text(ask, baseline, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(model=people_score, x=PEOPLE[:1], background=PEOPLE, baseline=baseline)


@BOTH
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (2, "`target` from 0 to 1, or a class name, got 2"),
        (-1, "from 0 to 1, or a class name, got -1"),
        (1.5, "from 0 to 1, or a class name, got 1.5"),
        (np.nan, "from 0 to 1, or a class name, got nan"),
        ([None, 0], "from 0 to 1, or a class name, got None"),
        ([[0], [1]], "from 0 to 1, or a class name, got [0]"),
        ([0], "one target or one per input (2), got 1"),
        ([0, 1, 1], "one target or one per input (2), got 3"),
        ("up", "`target` to be one of '0', '1', got 'up'"),
        (["1", "up"], "`target` to be one of '0', '1', got 'up'"),
    ],
)
def test_targets(ask, target, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(model=two_classes, x=ROWS[:2], call={"target": target})


def test_unknown_class_names_list_the_models_own():
    model = LogisticRegression().fit(ROWS, np.where(LABELS, "benign", "malignant"))
    for ask in (through_pns, through_explainer):
        with pytest.raises(fans.InputError, match=r"'benign', 'malignant', got 'begnin'; did you mean 'benign'\?"):
            ask(model=model, call={"target": "begnin"})


def test_a_label_that_is_no_place_is_told_how_to_be_named():
    model = LogisticRegression().fit(ROWS, np.where(LABELS, 2, 3))
    for ask in (through_pns, through_explainer):
        with pytest.raises(fans.InputError, match=r"got 3; pass target='3' for the class called so$"):
            ask(model=model, call={"target": 3})


def test_a_bad_target_of_a_late_input_costs_nothing():
    model = Recorder(two_classes)
    explainer = fans.Explainer(model, ROWS, max_batch=50)
    n_calls = len(model.fed)
    with pytest.raises(fans.InputError, match="got 7"):
        explainer(ROWS[:30], target=[0] * 29 + [7])
    assert len(model.fed) == n_calls


# --- Models ----------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda a: a[:2, 0], "(40,) or (40, classes) for 40 rows, got (2, 1)"),
        (lambda a: a[:, :, None], "got (40, 3, 1)"),
        (lambda a: a[:, :0], "got (40, 0)"),
        (lambda a: float(a.sum()), "got ()"),
        (lambda a: ((a, a), (a, a)), "got (2, 2, 40, 3)"),
        (lambda _: None, "one array of numbers from the model, got NoneType"),
        (
            lambda a: {"label": a.argmax(1)},
            "one array of numbers from the model, got dict of object; wrap the model in",
        ),
        (lambda a: {"loss": a.mean()}, "one array of numbers from the model, got dict of object"),
        (lambda a: (a.argmax(1), {"logits": a}), "one array of numbers from the model, got tuple"),
        (lambda a: np.full(len(a), "cat"), "one array of numbers from the model, got ndarray of <U3"),
        (lambda a: np.full(len(a), "1"), "one array of numbers from the model, got ndarray of <U1"),
        (lambda _: [[1.0], [1.0, 2.0]], "one array of numbers from the model, got list"),
        (lambda a: a + 1j, "one array of numbers from the model, got ndarray of complex128"),
        (lambda a: torch.tensor(a) + 1j, "one array of numbers from the model, got Tensor of torch.complex128"),
        (lambda a: a[:, : 1 + len(a) % 3], "2 outputs for every row, as the model gave before, got "),
        (lambda a: np.where(np.arange(len(a)) == 4, np.nan, 0.0), "got NaN or infinity for 1 of 40 rows"),
        (lambda a: np.full(len(a), np.inf), "got NaN or infinity for 40 of 40 rows"),
        (3, "a callable as model, got int"),
        ("model.pkl", "a callable as model, got str"),
        (LogisticRegression, "got the class LogisticRegression itself"),
    ],
)
def test_models(ask, model, message):
    with pytest.raises(fans.ModelError, match=exactly(message)):
        ask(model=model)


@BOTH
def test_outputs_that_fail_only_on_perturbed_rows(ask):
    def reciprocal(rows):
        with np.errstate(divide="ignore"):
            return 1 / rows[:, 0]

    with pytest.raises(fans.ModelError, match=r"got NaN or infinity for \d+ of \d+ rows; .*another baseline"):
        ask(model=reciprocal, baseline=0.0, tolerance=0.1)


@BOTH
@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(),
        RidgeClassifier(),
        make_pipeline(StandardScaler(), LinearSVC()),
        VotingClassifier([("a", LogisticRegression()), ("b", RidgeClassifier())]),
    ],
)
def test_classifiers_without_probabilities(ask, model):
    model.fit(ROWS, LABELS)
    with pytest.raises(fans.ModelError, match=f"predict_proba, got {type(model).__name__}, which has none"):
        ask(model=model)


def test_categories_have_no_gradient():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [True, False, True, False]})
    with pytest.raises(fans.InputError, match='numbers in every column for solver="chain", got categories'):
        fans.Explainer(torch.nn.Linear(2, 2), frame, solver="chain")


class Masked(nn.Module):
    """Forbids a class by an infinite logit."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([rows[:, 0], rows[:, 1], torch.full_like(rows[:, 0], self.value)], 1)


@BOTH
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_logits(ask, value):
    message = "Expected finite outputs from the model, got NaN or infinity for 40 of 40 rows; check the model on the ba"
    with pytest.raises(fans.ModelError, match=exactly(message)) as caught:
        ask(model=Masked(value))
    assert "\n" not in str(caught.value)


def test_a_model_of_one_class_is_changed_by_nothing_and_says_so():
    model = RandomForestClassifier(3).fit(ROWS, np.full(40, "yes"))
    found = through_explainer(model=model)
    assert not found.subset.any()
    assert (found.holds[0], found.pns[0], found.prediction[0]) == (1.0, 0.0, 1.0)
    assert found.sentences[0].startswith(
        "Nothing changes P(yes): whatever is changed near this input, it stays within 0.1 in 100 % of trials."
    )
    asked = through_pns(model=model)
    assert (asked.pns[0], asked.changes[0], asked.holds[0], asked.tolerance[0]) == (0.0, 0.0, 1.0, 0.1)
    with pytest.raises(fans.InputError, match='several class outputs for change="label", got a single one'):
        through_explainer(model=model, change="label")


class Outside(nn.Module):
    """Answers correctly, but leaves torch on the way."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(rows.detach().numpy()[:, :2].copy())


class Refusing(nn.Module):
    """Leaves torch in a way that torch refuses where gradients are wanted."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(rows.numpy()[:, :2].copy())


@pytest.mark.parametrize("module", [Outside, Refusing])
@pytest.mark.parametrize("method", ["fans", "saliency"])
def test_a_module_without_a_gradient(method, module):
    settings: dict[str, Any] = {"solver": "chain"} if method == "fans" else {}
    message = "Expected a module through which gradients flow, got outputs that do not depend on the input in torch"
    with pytest.raises(fans.ModelError, match=exactly(message)) as caught:
        fans.Explainer(module(), ROWS, method=method, **settings)(ROWS[0])
    assert 'solver="game"' in str(caught.value)
    assert "\n" not in str(caught.value)
    found = fans.Explainer(module(), ROWS)(ROWS[0])  # nobody asked for a gradient
    assert found.subset[0, :2].any()
    assert found.settings["solver"] == "walks"
    images = torch.rand(8, 1, 24, 24, generator=torch.Generator().manual_seed(0))
    usual = fans.Explainer(nn.Sequential(nn.Flatten(), module()), images)
    assert usual._shared.n_rows == 2 * 8 + 1  # the background twice, in units of both solvers, and the row that told
    assert usual.task.space.n_features == fans.Explainer(lambda x: x[:, 0, 0, :2], images).task.space.n_features < 576


@BOTH
def test_a_module_cannot_read_text(ask):
    message = r"numbers for a torch module, got columns of text, categories or times: \['town', 'size'\]"
    with pytest.raises(fans.ModelError, match=message):
        ask(model=nn.Linear(4, 2), x=PEOPLE[:1], background=PEOPLE)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    layers[1].running_mean.normal_()  # type: ignore[operator]
    layers.train()
    layers[1].eval()  # one part frozen, as in fine-tuning
    return layers


def state_of(module: nn.Module) -> tuple[list[bool], dict[str, torch.Tensor]]:
    return [part.training for part in module.modules()], {k: v.clone() for k, v in module.state_dict().items()}


def assert_same_state(module: nn.Module, before: tuple[list[bool], dict[str, torch.Tensor]]) -> None:
    modes, weights = state_of(module)
    assert modes == before[0]
    assert all(torch.equal(weights[name], before[1][name]) for name in weights)


@BOTH
def test_a_module_in_training_mode_is_explained_in_evaluation_mode(ask):
    trained, evaluated = network(), network().eval()
    before = state_of(trained)
    assert set(before[0]) == {True, False}
    with torch.no_grad():
        expected = torch.softmax(evaluated(torch.tensor(ROWS[:2], dtype=torch.float32)), 1).max(1).values
    out = ask(model=trained, x=ROWS[:2])
    assert_same_state(trained, before)
    np.testing.assert_array_equal(out.pns, ask(model=evaluated, x=ROWS[:2]).pns)
    if isinstance(out, fans.Explanation):
        np.testing.assert_allclose(out.prediction, expected, rtol=1e-6)


class Failing(nn.Module):
    """Fails once it has seen enough rows."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.inner, self.error, self.left = network(), error, 100

    def forward(self, rows: torch.Tensor) -> Any:
        self.left -= len(rows)
        if self.left < 0:
            raise self.error
        return self.inner(rows)


@BOTH
@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_failing_module_gets_its_modes_back(ask, error):
    model = Failing(error)
    before = state_of(model)
    with pytest.raises(type(error)):
        ask(model=model)
    assert_same_state(model, before)


# --- What was finished before a failure ------------------------------------------------------------------------------

MANY = np.random.default_rng(2).normal(size=(20, 3))
SMALL: dict[str, Any] = {
    "n_pairs": 8, "n_sweep": 50, "n_background": 10, "n_local": 9, "n_perturb": 2, "n_factual": 2, "radius": 2.0,
    "max_batch": 16,
}  # fmt: skip


class Stopping:
    """Fails when it has seen so many rows, once."""

    def __init__(self, failure: Any, rows: float = np.inf) -> None:
        self.failure, self.limit, self.seen = failure, rows, 0

    def __call__(self, rows: Any) -> Any:
        self.seen += len(rows)
        if self.seen > self.limit:
            self.limit = np.inf
            if isinstance(self.failure, BaseException):
                raise self.failure
            return np.full(len(rows), self.failure)
        return difference(rows)


def same(a: fans.Explanation, b: fans.Explanation) -> None:
    for name in ("scores", "scores_se", "pns", "pn", "ps", "interval", "ess", "radius", "tolerance", "prediction"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-5, err_msg=name)
    np.testing.assert_array_equal(a.subset, b.subset)
    np.testing.assert_array_equal(a.target, b.target)
    np.testing.assert_array_equal(a.inputs, b.inputs)
    np.testing.assert_array_equal(a.n_evaluations, b.n_evaluations)
    assert (a.ids, a.notes) == (b.ids, b.notes)


@pytest.fixture(scope="module")
def uninterrupted() -> tuple[fans.Explanation, int]:
    """The explanation, and how many model rows it took."""
    counting = Stopping(None)
    return fans.Explainer(counting, ROWS, **SMALL)(MANY), counting.seen


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (KeyboardInterrupt(), fans.Interrupted),
        (np.nan, fans.ModelError),
        (RuntimeError("lost connection"), RuntimeError),
    ],
)
@pytest.mark.parametrize("share", [0.35, 0.8])
def test_a_failure_midway_keeps_what_was_finished(uninterrupted, failure, error, share):
    whole, n_rows = uninterrupted
    explainer = fans.Explainer(Stopping(failure, share * n_rows), ROWS, **SMALL)
    with pytest.raises(error) as caught:
        explainer(MANY)
    partial = caught.value.partial
    n = len(partial)
    assert 0 < n < len(MANY)
    same(partial, whole[:n])
    if error is fans.Interrupted:
        assert f"after {n} of 20 inputs" in str(caught.value)
        assert f"x[{n}:] with ids=[{n}]" in str(caught.value)
    same(explainer(MANY[n:], ids=range(n, len(MANY))), whole[n:])


def test_a_failure_in_the_first_block_has_nothing_to_keep():
    explainer = fans.Explainer(Stopping(KeyboardInterrupt(), 60), ROWS, **SMALL)
    with pytest.raises(fans.Interrupted, match=r"after 0 of 20 inputs") as caught:
        explainer(MANY)
    assert caught.value.partial is None


# --- Missing packages ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explanation() -> fans.Explanation:
    return fans.Explainer(difference, ROWS, **SMALL)(MANY[:3])


@pytest.mark.parametrize(
    ("name", "modules", "message"),
    [
        ("to_frame", ["pandas"], "pandas for `to_frame`, got none; install it with: pip install 'fans[tabular]'"),
        (
            "plot",
            ["matplotlib", "matplotlib.figure", "fans.report.picture"],
            "install it with: pip install 'fans[plot]'",
        ),
        ("to_shap", ["shap"], "shap for `to_shap`, got none; install it with: pip install shap"),
    ],
)
def test_missing_packages(monkeypatch, explanation, name, modules, message):
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(fans.MissingExtra, match=exactly(message)):
        getattr(explanation, name)()


# --- Files -----------------------------------------------------------------------------------------------------------


def write_nothing(_):
    """The file stays missing."""


def write_junk(path):
    path.write_bytes(b"junk" * 300)


def write_other_tensors(path):
    save_file({"a": np.zeros(3)}, path)


def write_other_header(path):
    save_file({"a": np.zeros(3)}, path, {"fans": "{}"})


def write_no_object(path):
    save_file({"a": np.zeros(3)}, path, {"fans": "[1]"})


def write_no_json(path):
    save_file({"a": np.zeros(3)}, path, {"fans": "{"})


@pytest.mark.parametrize(
    "write",
    [
        write_nothing,
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b""),
        write_junk,
        write_other_tensors,
        write_other_header,
        write_no_object,
        write_no_json,
    ],
)
def test_loading_what_is_no_explanation(tmp_path, write):
    path = tmp_path / "some.safetensors"
    write(path)
    with pytest.raises(fans.InputError, match=r"saved with `save`, got .*some\.safetensors"):
        fans.load(path)


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_loading_a_truncated_file(tmp_path, explanation, keep):
    path = explanation.save(tmp_path / "whole")
    whole = path.read_bytes()
    (tmp_path / "part").write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(fans.InputError, match=r"saved with `save`, got .*part, which is not one"):
        fans.load(tmp_path / "part")
    same(fans.load(path), explanation)


@contextmanager
def full_disk(n_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: what a full disk or a quota does to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_saving_to_a_full_disk_leaves_the_old_file_and_no_part_of_the_new(tmp_path, explanation):
    path = explanation[:1].save(tmp_path / "kept")
    with full_disk(500), pytest.raises(OSError, match=r"kept.*os error 27"):
        explanation.save(path)
    assert list(tmp_path.iterdir()) == [path]
    same(fans.load(path), explanation[:1])


def test_an_interrupted_save_leaves_nothing(tmp_path, explanation, monkeypatch):
    def interrupted(_, path, __):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("safetensors.numpy.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explanation.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_saving_where_nothing_can_be_written(tmp_path, explanation):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match=r"No such file or directory: .*nowhere/new'$"):
        explanation.save(tmp_path / "nowhere" / "new")
    with pytest.raises(IsADirectoryError, match="folder"):
        explanation.save(folder)
    assert list(tmp_path.iterdir()) == [folder]


# --- The command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["demo", "--nonsense"], ["demo", "--out"]])
def test_wrong_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith("usage: fans")) == ("", True)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (fans.InputError("Expected this, got that"), 1, "fans: Expected this, got that\n"),
        (fans.MissingExtra("Expected pandas, got none"), 1, "fans: Expected pandas, got none\n"),
        (OSError(28, "No space left on device"), 1, "fans: [Errno 28] No space left on device\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (fans.Interrupted("Interrupted after 3 of 5 inputs"), 130, "Interrupted after 3 of 5 inputs\n"),
    ],
)
def test_failures_are_one_line(monkeypatch, capsys, tmp_path, error, code, line):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("fans.demo.run", fail)
    assert cli.main(["demo", "--out", str(tmp_path)]) == code
    assert capsys.readouterr() == ("", line)


def test_output_where_a_file_is_already(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    assert cli.main(["demo", "--out", str(tmp_path / "taken")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("fans: ")
    assert "taken" in err
    assert err.count("\n") == 1


# --- Models and numbers that give no sure answer ---------------------------------------------------------------------


def any_value(value: Any) -> Any:
    """Return a value whose type is not checked."""
    return value


def noisy(rows: Any) -> Any:
    return np.random.default_rng().normal(size=len(rows))


def centred(rows: Any) -> Any:
    return (rows - rows.mean(0))[:, 0]


def dropping(rows: Any) -> Any:
    return nn.functional.dropout(torch.as_tensor(rows), 0.5).sum(1).numpy()


@pytest.mark.parametrize("model", [noisy, centred, dropping])
def test_a_model_that_says_something_else_when_asked_again_is_told_of(model):
    with pytest.warns(fans.FansWarning, match=r"^The model says .* of which it said .*partly chance; leave out"):
        fans.Explainer(model, ROWS)(ROWS[:1])
    with pytest.warns(fans.FansWarning, match="partly chance"):
        fans.pns(model, ROWS[0], [True, False, False], background=ROWS)
    with pytest.warns(fans.FansWarning, match="partly chance"):
        fans.Explainer(model, ROWS).score(ROWS[:1], [True, False, False])


def test_a_model_is_asked_again_once_and_rounding_is_no_difference():
    seen: list[int] = []

    def rounded(rows: Any) -> Any:
        seen.append(len(rows))
        return difference(rows).astype(np.float16) * (1 + 1e-3 * (len(rows) == len(ROWS)))

    explainer = fans.Explainer(rounded, ROWS)
    first, second = explainer(ROWS[:1]), explainer(ROWS[1:2])
    assert seen[:2] == [40, 4]
    assert int(first.evaluations["shared"]) == int(second.evaluations["shared"]) == 44
    assert sum(seen) == explainer.task.predict.n_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-20, 1e10, 1e20, 1e25])
def test_a_column_of_any_size_is_explained_as_if_it_were_scaled(dtype, scale):
    def first(rows: Any) -> Any:
        return (rows[:, 0] > 0).astype(float)

    rows = ROWS.astype(dtype)
    expected = fans.Explainer(first, rows)(rows[:3])
    found = fans.Explainer(first, rows * np.array([1, scale, 1], dtype))(rows[:3] * np.array([1, scale, 1], dtype))
    assert found.subset.tolist() == expected.subset.tolist()
    np.testing.assert_allclose(found.pns, expected.pns, atol=1e-4)
    np.testing.assert_allclose(found.interval, expected.interval, atol=1e-4)


@pytest.mark.parametrize("value", [3.4e38, -1e30, 1e200])
def test_a_number_that_stands_for_none_is_refused(value):
    rows = ROWS.copy()
    rows[7, 1] = value
    with pytest.raises(fans.InputError, match=r"numbers up to 1e\+27, .*, got .* in row 7, column 'x2'.*stands for no"):
        fans.Explainer(difference, rows)
    images = np.zeros((4, 1, 8, 8), np.float32)
    images[2, 0, 3, 5] = np.float32(min(abs(value), 3e38))
    with pytest.raises(fans.InputError, match=r"numbers up to 1e\+15 .* in image 2, row 3, column 5"):
        fans.Explainer(lambda x: x.mean(axis=(1, 2, 3)), images)


@pytest.mark.parametrize(
    ("factor", "said"), [(1e150, "up to 3e+120"), (1e-160, "of at least 4e-121"), (1e300, "up to")]
)
def test_outputs_whose_squares_are_no_numbers_are_refused(factor, said):
    with pytest.raises(fans.ModelError, match=rf"Expected outputs {re.escape(said)}.*scale them"):
        fans.Explainer(lambda rows: difference(rows) * factor, ROWS)


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_outputs_of_any_other_size_are_explained_as_if_they_were_scaled(factor):
    expected = fans.Explainer(difference, ROWS)(ROWS[:2])
    found = fans.Explainer(lambda rows: difference(rows) * factor, ROWS)(ROWS[:2])
    assert found.subset.tolist() == expected.subset.tolist()
    np.testing.assert_allclose(found.pns, expected.pns, atol=1e-6)
    np.testing.assert_allclose(found.scores / factor, expected.scores, rtol=1e-6)


def test_what_is_masked_is_missing():
    def gaps(rows: Any) -> Any:
        return np.isnan(rows[:, 0]).astype(float)

    masked = np.ma.masked_array(ROWS, mask=ROWS > 1)
    plain = np.where(ROWS > 1, np.nan, ROWS)
    expected, found = (fans.Explainer(gaps, rows)(rows[:4]) for rows in (plain, masked))
    assert found.pns.tolist() == expected.pns.tolist()
    whole = np.ma.masked_array(np.arange(12).reshape(6, 2), mask=np.eye(6, 2, dtype=bool))
    assert np.isnan(fans.Explainer(gaps, whole)(whole[:1]).inputs[0, 0])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda: fans.Explainer(difference, ROWS, space=any_value("table")),
            "`space` as one of fans.spaces.*got 'table'",
        ),
        (
            lambda: fans.pns(difference, ROWS[0], [True] * 3, background=ROWS, space=any_value(Table)),
            "`space` as one of",
        ),
        (lambda: Table(groups=any_value(3)), "`groups` as names with their columns.*got 3"),
        (lambda: Table(groups={"a": "x1"}), "`groups` as names with their columns"),
        (lambda: Table(categorical="x1"), "`categorical` as a list of columns, got 'x1'"),
        (lambda: Table(columns=any_value(7)), "`columns` as a list of columns, got 7"),
        (lambda: fans.Explainer(difference, torch.eye(3).to_sparse()), "dense tensor, got one of layout sparse_coo"),
        (lambda: fans.Explainer(difference, ROWS)(torch.eye(3).to_sparse()), "x as a dense tensor"),
        (lambda: fans.Explainer(difference, ROWS)(ROWS[:1], ids=["\ud800"]), "`ids` as text that can be written"),
        (lambda: fans.Explainer(difference, ROWS, target_names=["\ud800"]), "`target_names` as text that can"),
        (lambda: fans.Explainer(difference, ROWS, feature_names=["a", "b", "\udfff"]), "as text that can be written"),
        (lambda: fans.Explainer(difference, ROWS, space=Table(columns=["a", "b", "\udfff"])), "names of columns as"),
    ],
)
def test_arguments_of_a_wrong_kind_are_named(ask, said):
    with pytest.raises(fans.InputError, match=said) as caught:
        ask()
    assert len(str(caught.value)) < 500
