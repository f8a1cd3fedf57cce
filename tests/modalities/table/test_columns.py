"""Tables as they are in the world: missing values, times, ordered categories, a frame's own labels."""

import re
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

import fans
from fans.spaces import Table
from tests.test_bad_input import Recorder, exactly

NAN = np.nan
LOANS = pd.DataFrame(
    {
        "income": [10.0, NAN, 30.0, 20.0, NAN, 50.0] * 10,
        "debt": np.linspace(-1, 1, 60),
        "grade": pd.Categorical(["C", "A", None, "B", "C", "A"] * 10, categories=["A", "B", "C"], ordered=True),
        "town": ["Oslo", None, "Rome", "Rome", "Oslo", "Bern"] * 10,
        "since": pd.to_datetime(["2020-01-01 00", "", "2021-06-01 12", "2022-01-01 00", "2020-01-01 00", ""] * 10),
        "wait": pd.to_timedelta([1, 2, None, 4, 5, 6] * 10, unit="h"),
    },
    index=[f"loan {i}" for i in range(60)],
)


def odds(frame: Any) -> Any:
    """A model that looks at what is missing."""
    late = frame["since"] > pd.Timestamp("2021-01-01")
    p = 0.1 + 0.4 * frame["income"].isna() + 0.3 * late + 0.2 * (frame["grade"] >= "B")
    return np.stack([1 - p, p], 1)


# --- Missing values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_missing_is_one_from_any_number_and_nothing_from_itself(distance):
    """By hand, as nothing changes: the probability of not-A and not-B is then the mean of the kernel."""
    background = np.array([[NAN, 2.0], [5.0, 2.0], [NAN, 6.0], [7.0, 6.0]])
    x = np.array([NAN, 2.0])
    spread = 4.0 if distance == "rms" else 1.0  # the variance of (2, 2, 6, 6)
    first, second = np.array([0, 1, 0, 1]), np.array([0, 0, 16, 16]) / spread
    for subset, rest in (([True, False], second), ([False, True], first)):
        with pytest.warns(fans.FansWarning, match="of 4"):
            out = fans.pns(
                lambda a: np.nansum(a, 1), x, subset, background=background, baseline=0.0, radius=1.0, tolerance=1e9,
                distance=distance, closeness="subset",
            )  # fmt: skip
        assert out.p_nab[0] == pytest.approx(np.exp(-rest / 2).mean())


def test_scales_are_those_of_known_values():
    space = Table().fit(np.array([[1.0, NAN], [NAN, 3.0], [3.0, NAN], [8.0, 5.0]]))
    np.testing.assert_allclose(space.scale, [np.std([1, 3, 8]), np.std([3, 5])])
    np.testing.assert_allclose(space.standardised(space.encode(np.array([NAN, 5.0]), "x")), [[0, 1]])


def test_the_influence_of_rows_on_a_variance_of_known_values():
    """The derivative of the log variance by each row's weight, numerically."""
    column = np.array([1.0, NAN, 4.0, 9.0, NAN, 2.0])
    background = np.c_[column, np.arange(6.0)]
    known = ~np.isnan(column)

    def log_variance(weights: Any) -> float:
        w, v = weights[known], column[known]
        mean = (w * v).sum() / w.sum()
        return float(np.log((w * (v - mean) ** 2).sum() / w.sum()))

    step = 1e-6 * np.eye(6)
    slopes = [(log_variance(1 + step[i]) - log_variance(1 - step[i])) / 2e-6 for i in range(6)]
    space = Table().fit(background)
    found = space.deviations(space.encode(background, "background"))[:, 0]
    np.testing.assert_allclose(found / len(column), slopes, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float64, np.float32, torch.float64, torch.float32])
def test_the_model_gets_nan_and_nothing_else_that_is_new(kind):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, (40, 3)).astype(float)
    rows[rng.random(rows.shape) < 0.3] = NAN
    given = torch.tensor(rows, dtype=kind) if isinstance(kind, torch.dtype) else rows.astype(kind)
    fed: list[Any] = []

    def model(some: Any) -> Any:
        fed.append(some.numpy().copy() if isinstance(some, torch.Tensor) else some.copy())
        return np.nan_to_num(fed[-1]).sum(1)

    fans.Explainer(model, given)(given[:4])
    seen = np.concatenate(fed)
    for j in range(3):
        known = {v for v in seen[:, j] if not np.isnan(v)}
        assert known <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert np.isnan(seen[:, j]).any()


def test_walks_over_gaps_are_walks_over_a_category():
    """A gap is a value like others: the scores are those of a column in which -9 stands for it."""
    rng = np.random.default_rng(0)
    coded = rng.integers(0, 4, (100, 4)).astype(float)
    coded[rng.random(coded.shape) < 0.2] = -9
    gaps = np.where(coded == -9, NAN, coded)

    def score(rows: Any) -> Any:
        return (rows[:, 0] == -9) * 2.0 + (rows[:, 1] > 1) * (rows[:, 2] == -9) + 0.5 * rows[:, 3].clip(0)

    found, expected = (
        fans.Explainer(model, rows)(rows[:5])
        for model, rows in ((lambda a: score(np.nan_to_num(a, nan=-9)), gaps), (score, coded))
    )
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
    np.testing.assert_allclose(found.direction, expected.direction, atol=1e-12)
    assert (found.subset == expected.subset).all()


@pytest.mark.parametrize("max_batch", [7, 100])
def test_gaps_explained_in_any_batch_and_company(max_batch):
    whole = fans.Explainer(odds, LOANS)(LOANS[:6])
    again = fans.Explainer(odds, LOANS, max_batch=max_batch)(LOANS[2:4])
    for name in ("scores", "subset", "direction", "pns", "interval"):
        np.testing.assert_allclose(getattr(again, name), getattr(whole[2:4], name), atol=1e-12)


def test_what_is_found_in_a_frame_full_of_gaps(tmp_path):
    found = fans.Explainer(odds, LOANS, target_names=["paid", "late"])(LOANS[:6], target="late")
    assert not found.subset[:, [1, 3, 5]].any()  # what the model does not look at
    assert not found.scores[:, [1, 3, 5]].any()
    assert [found.value(1, f) for f in range(6)] == ["missing", "-0.9661", "A", "missing", "missing", "02:00:00"]
    shown = ["30", "-0.9322", "missing", "Rome", "2021-06-01 12:00:00", "missing"]
    assert [found.value(2, f) for f in range(6)] == shown
    assert found.direction[1, 0] == pytest.approx(-0.4 * 4 / 6, abs=0.03)  # a row in three has no income either
    assert np.isnan(found.inputs[1, 0])
    frame = found.to_frame()
    assert list(frame["value"][:3]) == ["10", "-1", "C"]
    loaded = fans.load(found.save(tmp_path / "found"))
    assert loaded.value(2, 4) == shown[4]
    np.testing.assert_array_equal(loaded.inputs, found.inputs)
    assert "missing" in found.to_html(tmp_path / "page.html").read_text()


def test_nan_as_baseline_is_everything_missing():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    model = lambda a: np.isnan(a[:, 0]) * 1.0
    found = fans.Explainer(model, rows, baseline=np.nan, tolerance=0.5)(rows[:2])
    assert found.chosen_names() == ["x1"]
    np.testing.assert_allclose(found.direction[:, 0], 1.0)


def test_means_are_those_of_known_values():
    model = Recorder(lambda f: np.zeros(len(f)))
    fans.pns(model, LOANS[:1], [True] * 6, background=LOANS, baseline="mean", tolerance=0.5, phi=1, radius=2.0)
    row = model.fed[-1].iloc[-1]
    assert row["income"] == pytest.approx(27.5)
    assert row["since"] == LOANS["since"].mean()
    assert row["wait"] == LOANS["wait"].mean()
    assert row["grade"] in ("A", "C")


class Coping(nn.Module):
    """A module that takes gaps as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x.nan_to_num())
        return out


def test_modules_and_gaps():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    gaps = np.where(rng.random(rows.shape) < 0.2, np.float32(NAN), rows)
    explainer = fans.Explainer(Coping(), gaps)
    assert explainer.method.solver == "walks"  # type: ignore[attr-defined]
    assert np.isfinite(explainer(gaps[:3]).scores).all()
    following = fans.Explainer(Coping(), rows)
    message = "a value in every column of x for a method that follows gradients, as in the background, got missing ones"
    with pytest.raises(fans.InputError, match=message):
        following(np.array([[NAN, 1.0, 1.0]], np.float32))
    assert np.isfinite(following(rows[:2]).scores).all()  # as before
    with pytest.raises(fans.ModelError, match=r"a gradient for .*: the background has missing values"):
        fans.Explainer(Coping(), gaps, solver="chain")
    with pytest.raises(
        fans.ModelError, match=r"NaN or infinity for \d+ of 60 rows, all of them with missing values in"
    ):
        fans.Explainer(nn.Linear(3, 2), gaps)


# --- Real models ------------------------------------------------------------------------------------------------------

NUMBERS = np.random.default_rng(1).normal(size=(300, 4))
NUMBERS[np.random.default_rng(2).random(NUMBERS.shape) < 0.2] = NAN
LABELS = (np.isnan(NUMBERS[:, 0]) | (np.nan_to_num(NUMBERS[:, 1]) > 0.3)).astype(int)
FRAME = pd.DataFrame(NUMBERS, columns=["income", "debt", "age", "rate"])


def imputing() -> Any:
    return make_pipeline(SimpleImputer(add_indicator=True), LogisticRegression())


def boosted() -> Any:
    return HistGradientBoostingClassifier(max_iter=20, random_state=0)


def extreme() -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, n_jobs=1)


def light() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1)


@pytest.mark.parametrize("make", [imputing, boosted, extreme, light])
@pytest.mark.parametrize("rows", [NUMBERS, FRAME], ids=["array", "frame"])
def test_estimators_that_take_gaps(make, rows):
    model = make().fit(rows, LABELS)
    found = fans.Explainer(model, rows)(rows[:8], target=1)
    np.testing.assert_allclose(found.prediction, model.predict_proba(rows[:8])[:, 1], rtol=1e-6)
    missing = np.isnan(NUMBERS[:8, 0])
    assert missing.any()
    assert found.subset[missing, 0].all()  # that it is missing decides
    assert (found.direction[missing, 0] < 0).all()
    assert found.kind == "probability"


@pytest.mark.parametrize("make", [extreme, light])
@pytest.mark.parametrize("rows", [NUMBERS, FRAME], ids=["array", "frame"])
def test_raw_boosters_are_their_estimators(make, rows):
    model = make().fit(rows, LABELS)
    booster = model.get_booster() if make is extreme else model.booster_
    found, expected = (fans.Explainer(one, rows)(rows[:4]) for one in (booster, model))
    assert (found.kind, found.target_names) == ("probability", ("0", "1"))
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    assert (found.target == expected.target).all()
    regressed = fans.Explainer(booster, rows, task="regression")(rows[:4])
    np.testing.assert_allclose(regressed.prediction, model.predict_proba(rows[:4])[:, 1], rtol=1e-5)
    assert regressed.kind == "output"


@pytest.mark.parametrize("make", [extreme, light])
def test_boosters_of_several_classes_and_of_numbers(make):
    several = make().fit(FRAME, LABELS + (np.nan_to_num(NUMBERS[:, 2]) > 0.5))
    booster = several.get_booster() if make is extreme else several.booster_
    found = fans.Explainer(booster, FRAME)(FRAME[:4])
    np.testing.assert_allclose(found.prediction, several.predict_proba(FRAME[:4]).max(1), rtol=1e-5)
    assert (found.kind, found.target_names) == ("probability", ("0", "1", "2"))
    library = sys.modules["xgboost" if make is extreme else "lightgbm"]
    regressor = (library.XGBRegressor if make is extreme else library.LGBMRegressor)(n_estimators=5, n_jobs=1)
    regressor.fit(FRAME, np.nan_to_num(NUMBERS[:, 1]))
    raw = regressor.get_booster() if make is extreme else regressor.booster_
    found = fans.Explainer(raw, FRAME)(FRAME[:4])
    np.testing.assert_allclose(found.prediction, regressor.predict(FRAME[:4]), rtol=1e-5)
    assert found.kind == "output"


@pytest.mark.parametrize("make", [extreme, light])
def test_boosters_find_their_columns_by_name(make):
    model = make().fit(FRAME, LABELS)
    booster = model.get_booster() if make is extreme else model.booster_
    turned = FRAME[["rate", "age", "debt", "income"]]
    found = fans.Explainer(booster, turned)(turned[:4], target=1)
    np.testing.assert_allclose(found.prediction, model.predict_proba(FRAME[:4])[:, 1], rtol=1e-5)
    with pytest.raises(
        fans.ModelError, match=exactly("'rate'], got ['income', 'debt', 'age', 'pace'], without ['rate']")
    ):
        fans.Explainer(booster, FRAME.rename(columns={"rate": "pace"}))
    with pytest.raises(fans.ModelError, match=r"the 4 columns that the Booster was trained on: .*, got 2: \['income"):
        fans.Explainer(booster, FRAME[["income", "debt"]])
    with pytest.raises(fans.ModelError, match=r"the 4 columns that the Booster was trained on, got 3: \['x1"):
        fans.Explainer(booster, NUMBERS[:, :3])


def test_a_booster_of_labels_is_refused():
    xgboost = pytest.importorskip("xgboost")
    how = {"objective": "multi:softmax", "num_class": 3, "nthread": 1}
    booster = xgboost.train(how, xgboost.DMatrix(NUMBERS, LABELS), 3)
    with pytest.raises(
        fans.ModelError, match="trained for multi:softmax, which returns labels; train it for multi:softprob"
    ):
        fans.Explainer(booster, NUMBERS)


def test_an_estimator_of_other_columns():
    model = extreme().fit(FRAME, LABELS)
    with pytest.raises(
        fans.ModelError, match=r"XGBClassifier to take the background's 4 columns .* feature_names mismatch"
    ):
        fans.Explainer(model, FRAME.rename(columns={"rate": "pace"}))


# --- What cannot be used ----------------------------------------------------------------------------------------------


def test_a_model_that_takes_no_gaps():
    model = LogisticRegression().fit(np.nan_to_num(NUMBERS), LABELS)
    with pytest.raises(
        fans.ModelError, match="a model that takes missing values in columns 'x1', 'x2', 'x3', 'x4', got "
    ):
        fans.Explainer(model, NUMBERS)
    explainer = fans.Explainer(model, np.nan_to_num(NUMBERS))
    with pytest.raises(
        fans.ModelError, match=r"missing values in column 'x3', got ValueError from LogisticRegression: Inp"
    ):
        explainer(np.array([0.0, 0.0, NAN, 0.0]))
    with pytest.raises(ZeroDivisionError):  # an error of the model's own, whatever is missing
        fans.Explainer(lambda rows: len(rows) / 0, NUMBERS)


def test_a_category_that_the_model_does_not_know():
    towns = LOANS[["town", "debt"]].fillna("none")
    encode = ColumnTransformer([("town", OneHotEncoder(handle_unknown="error"), ["town"])], remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(towns, LOANS["debt"] > 0)
    message = (
        "a model that takes 'Mars' in column 'town', which no background row has, got ValueError from Pipeline: Found"
    )
    with pytest.raises(fans.ModelError, match=message):
        fans.Explainer(model, towns)(towns[:2].assign(town="Mars"))
    with pytest.raises(fans.ModelError, match="a model that takes missing values in column 'town', got ValueError"):
        fans.Explainer(model, towns)(towns[:2].assign(town=pd.Series([None, "Oslo"], index=towns.index[:2])))


def test_what_a_library_says_is_told_without_its_trace():
    xgboost = pytest.importorskip("xgboost")
    frame = pd.DataFrame({"town": pd.Categorical(["a", "b"] * 30), "debt": np.linspace(-1, 1, 60)})
    model = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1).fit(frame, frame["debt"] > 0)
    unknown = frame.assign(town=pd.Categorical(["z", "b"] * 30))
    with pytest.raises(fans.ModelError, match=r"^[^\n]*, got XGBoostError: Found a category [^\n]*`z`; pass a [\w ]+$"):
        fans.Explainer(model, unknown)


@pytest.mark.parametrize("make", [extreme, boosted])
def test_an_estimator_that_is_not_fitted(make):
    with pytest.raises(
        fans.ModelError, match=r"a fitted model, got \w+, which is not fitted yet; call its `fit` first"
    ):
        fans.Explainer(make(), NUMBERS)


def test_a_column_without_values_is_told_of():
    with pytest.warns(
        fans.FansWarning, match="Column 'income' of the background has no value at all, only missing ones"
    ):
        explainer = fans.Explainer(odds, LOANS.assign(income=NAN))
    found = explainer(LOANS[:1])
    assert found.chosen_names()[0] == "income"  # it has a value where nobody else has one
    with pytest.warns(fans.FansWarning, match="Column 'town' of the background has no value at all.* drop it, or"):
        fans.Explainer(odds, LOANS.assign(town=pd.Series([None] * 60, index=LOANS.index, dtype=object)))
    some = np.full((9, 8), NAN)
    some[:, 0] = range(9)
    with pytest.warns(
        fans.FansWarning, match="Columns 'x2', 'x3', 'x4', 'x5', 'x6' and 2 more of the background have no"
    ):
        fans.Explainer(lambda a: a[:, 0], some)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["a", 1, 2.5] * 20,
            "column 'mixed' of the background, got str ('a') and int (1) and float (2.5); convert the",
        ),
        (["a", 1, None] * 20, "got str ('a') and int (1); convert the column to numbers or to text"),
    ],
)
def test_mixed_types(values, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        fans.Explainer(odds, LOANS.assign(mixed=pd.Series(values, index=LOANS.index, dtype=object)))


def test_objects_that_are_numbers_are_numbers():
    frame = pd.DataFrame({"a": pd.Series([1, None, 2.5, 4] * 10, dtype=object), "b": np.arange(40.0)})
    model = Recorder(lambda f: f["a"].fillna(0).to_numpy())
    assert fans.Explainer(model, frame)(frame[:2]).chosen_names() == ["a"]
    assert model.fed[0]["a"].dtype == float
    with pytest.raises(fans.InputError, match=exactly("numbers in column 'a' of x, got str ('z')")):
        fans.Explainer(model, frame)(pd.DataFrame({"a": pd.Series(["z"], dtype=object), "b": [1.0]}))


@pytest.mark.parametrize("gap", [None, NAN, pd.NA, Decimal("NaN")], ids=str)
def test_an_array_of_objects_is_numbers_with_gaps(gap):
    """As `to_numpy` of a frame of nullable numbers has it."""
    rows = np.where(np.isnan(NUMBERS), np.array(gap, dtype=object), NUMBERS.astype(object))
    model = Recorder(lambda a: np.isnan(a[:, 0]) * 1.0)
    found, expected = (fans.Explainer(model, background)(background[:3]) for background in (rows, NUMBERS))
    assert model.fed[0].dtype == np.float64
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_a_row_whose_gaps_have_no_type():
    """As pd.DataFrame([{"income": None, ...}]) has it, of a request in JSON say."""
    model = boosted().fit(FRAME, LABELS)
    asked = pd.DataFrame([{"income": None, "debt": 0.5, "age": None, "rate": 1}])
    assert asked["income"].dtype == object
    explainer = fans.Explainer(model, FRAME)
    np.testing.assert_array_equal(explainer(asked).scores, explainer(asked.astype(float)).scores)
    gone: list[Any] = ["since", "wait", "grade"]
    empty = LOANS[:1].copy()
    empty.loc[:, gone] = None
    times = empty.astype(dict.fromkeys(gone, object))
    times[gone] = pd.DataFrame([[None] * 3], index=times.index, columns=gone, dtype=object)
    asks = fans.Explainer(odds, LOANS)
    np.testing.assert_array_equal(asks(times).scores, asks(empty).scores)


def test_more_columns_than_rows_to_tell_them_apart_by():
    rows = np.random.default_rng(0).normal(size=(20, 1200))
    with pytest.warns(
        fans.FansWarning, match="The 1,200 columns are more than the 1,000 model rows that tell them apart"
    ):
        explainer = fans.Explainer(lambda a: (a[:, 3] > 0) * 1.0, rows)
    assert explainer(rows[:1]).chosen_names() == ["x4"]


# --- Times, order and labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (
            pd.date_range("1969-12-31 23:59:58.123456", periods=30, freq="37h").astype("datetime64[ns]"),
            "1970-01-02 12:59:58.123456",
        ),
        (pd.date_range("2024-01-01", periods=30, freq="D").astype("datetime64[s]"), "2024-01-02"),
        (pd.date_range("2024-03-30", periods=30, freq="h", tz="Europe/Oslo"), "2024-03-30 UTC"),
        (pd.to_timedelta(np.arange(30) * 1.5, unit="h"), "01:30:00"),
    ],
    ids=["nanoseconds", "seconds", "zone", "durations"],
)
def test_times_reach_the_model_as_they_were(times, text):
    column = pd.Series(times).where(np.arange(30) % 7 > 0)
    frame = pd.DataFrame({"when": column, "size": np.arange(30.0)})
    model = Recorder(lambda f: f["when"].isna().to_numpy() * 1.0)
    found = fans.Explainer(model, frame)(frame[:8])
    pd.testing.assert_series_equal(model.fed[0]["when"], column, check_names=False)
    everything = pd.concat([fed["when"] for fed in model.fed]).dropna()
    assert set(everything) <= set(column.dropna())
    assert found.chosen_names() == ["when"]
    assert found.value(1, 0) == text


@pytest.mark.parametrize(
    ("column", "squared"),
    [
        (pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"]), [0, 1, 9, 16]),
        (pd.to_timedelta([0, 1, 3, 4], unit="D"), [0, 1, 9, 16]),
        (pd.Categorical(["A", "B", "D", "E"], categories=list("ABCDE"), ordered=True), [0, 1, 9, 16]),
    ],
    ids=["dates", "durations", "ordered categories"],
)
def test_what_has_an_order_has_distances(column, squared):
    """By hand: their variance is 2.5 squared steps."""
    frame = pd.DataFrame({"when": column, "size": [1.0, 1.0, 1.0, 1.0]})
    with pytest.warns(fans.FansWarning, match="of 4"):
        out = fans.pns(
            lambda f: f["size"], frame[:1], ["size"], background=frame, baseline="mean", radius=1.0, tolerance=1e9,
            closeness="subset",
        )  # fmt: skip
    assert out.p_nab[0] == pytest.approx(np.exp(-np.array(squared) / 2.5 / 2).mean())


def test_values_that_are_no_times():
    with pytest.raises(fans.InputError, match=exactly("values of type datetime64[us] in column 'since' of x")):
        fans.Explainer(odds, LOANS)(LOANS[:1].assign(since="soon"))


def test_the_index_of_a_frame_names_its_rows():
    explainer = fans.Explainer(odds, LOANS)
    found = explainer(LOANS[2:5])
    assert found.ids == ("loan 2", "loan 3", "loan 4")
    assert explainer(LOANS.iloc[3]).ids == ("loan 3",)
    np.testing.assert_allclose(explainer(LOANS.iloc[3]).pns, found.pns[1])  # the same draws
    assert explainer(LOANS[:2].reset_index(drop=True)).ids == (0, 1)
    assert explainer(LOANS[:2].set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))).ids == ("a / 1", "a / 2")
    assert explainer(LOANS[:2], ids=["x", "y"]).ids == ("x", "y")
    with pytest.warns(
        fans.FansWarning, match="The frame's index has several of 'a', so that its rows go by their places"
    ):
        assert explainer(LOANS[:2].set_axis(["a", "a"])).ids == (0, 1)


def test_column_names_of_several_levels():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)))
    frame.columns = pd.MultiIndex.from_tuples([("bank", "income"), ("bank", "debt")])
    model = Recorder(lambda f: f[("bank", "debt")].to_numpy())
    found = fans.Explainer(model, frame)(frame[:2])
    assert found.feature_names == ("bank / income", "bank / debt")
    assert found.chosen_names() == ["bank / debt"]
    assert model.fed[0].columns.equals(frame.columns)


def test_categories_in_words_have_their_codes_in_order():
    frame = pd.DataFrame({"town": ["Rome", "Bern", "Oslo"] * 10, "own": [True, False, True] * 10})
    frame["size"] = pd.Categorical(["S", "L", "M"] * 10, categories=["S", "M", "L"])
    found = fans.Explainer(lambda f: (f["town"] == "Oslo") * 1.0, frame)(frame[:3])
    assert found.categories == {"0": ("Bern", "Oslo", "Rome"), "1": ("False", "True"), "2": ("S", "M", "L")}
    np.testing.assert_array_equal(found.inputs, [[2, 1, 0], [0, 0, 2], [1, 1, 1]])


def test_the_sentence_of_a_missing_value_names_it():
    found = fans.Explainer(odds, LOANS, target_names=["paid", "late"])(LOANS[1:2], target="late")
    assert re.search(r"Keep \*income\*", found.sentences[0])


def test_metrics_refuse_missing_values_and_take_the_rest():
    model = boosted().fit(NUMBERS, LABELS)
    explainer = fans.Explainer(model, NUMBERS)
    found = explainer(NUMBERS[:6])
    whole = np.asarray(~np.isnan(found.inputs).any(1))
    message = (
        f"missing values, which metrics cannot move a little, got {6 - whole.sum()} of 6 with some; leave these out"
    )
    with pytest.raises(fans.InputError, match=exactly(message)):
        fans.evaluate(found, ["sparseness"], explainer=explainer)
    assert len(fans.evaluate(found[whole], ["sparseness"], explainer=explainer)["sparseness"]) == whole.sum()


@pytest.mark.parametrize("method", ["kernel_shap", "lime", "feature_ablation", "banzhaf"])
def test_rivals_take_missing_values(method):
    """Where a gap decides, replacing it by the mean of what is known changes the prediction."""
    found = fans.Explainer(lambda a: np.isnan(a[:, 2]) * 1.0, NUMBERS, method=method)(NUMBERS[:10])
    gaps = np.isnan(NUMBERS[:10, 2])
    assert gaps.any()
    assert (found.scores[gaps].argmax(1) == 2).all()
    assert not found.scores[~gaps].any()
