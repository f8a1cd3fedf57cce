"""The table: names, units, distances, baselines, and the exact form in which rows reach the model."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fans
from fans.spaces import Table


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)


class Recorder:
    """A model that keeps a copy of all it was fed."""

    def __init__(self, model: Any) -> None:
        self.model, self.fed = model, list[Any]()

    def __call__(self, rows: Any) -> Any:
        self.fed.append(rows.clone() if isinstance(rows, torch.Tensor) else rows.copy())
        return self.model(rows)

    @property
    def rows(self) -> Any:
        return np.concatenate([np.asarray(part) for part in self.fed])


def column(j: int) -> Recorder:
    return Recorder(lambda rows: rows[:, j])


def explain(model: Any, background: Any, x: Any, **settings: Any) -> fans.Explanation:
    settings = {"n_pairs": 50, "n_sweep": 100, "n_background": 10, "n_local": 9, "radius": 2.0} | settings
    return fans.Explainer(model, background, **settings)(x)


# --- Names and units -------------------------------------------------------------------------------------------------


def test_names():
    rows = normal(10, 3)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    assert explain(lambda a: a[:, 0], rows, rows[0]).feature_names == ("x1", "x2", "x3")
    assert explain(lambda f: f["a"], frame, frame[:1]).feature_names == ("a", "b", "c")
    named = explain(lambda a: a[:, 0], rows, rows[0], space=Table(columns=["u", "v", "w"]))
    assert named.feature_names == ("u", "v", "w")
    np.testing.assert_array_equal(named.inputs, rows[:1])


@pytest.mark.parametrize("names", [["u", "v", "w"], ("u", "v", "w"), np.array(["u", "v", "w"]), pd.Index(list("uvw"))])
@pytest.mark.parametrize("form", [np.array, torch.tensor, list])
def test_feature_names_are_those_of_the_columns(names, form):
    """Exactly what a table of those columns gives."""
    rows = normal(40, 3)
    model = lambda a: a[:, 1] - a[:, 0]
    found = explain(model, form(rows), rows[:2], feature_names=names)
    expected = explain(model, form(rows), rows[:2], space=Table(columns=["u", "v", "w"]))
    assert found.feature_names == expected.feature_names == ("u", "v", "w")
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.pns, expected.pns)
    asked = fans.pns(model, rows[0], ["v"], background=form(rows), radius=2.0, feature_names=names)
    plain = fans.pns(model, rows[0], [False, True, False], background=form(rows), radius=2.0)
    np.testing.assert_array_equal(asked.pns, plain.pns)


def test_feature_names_are_numbers_too_and_a_frames_own():
    rows = normal(40, 3)
    assert explain(lambda a: a[:, 0], rows, rows[0], feature_names=range(3)).feature_names == ("0", "1", "2")
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    assert explain(lambda f: f["a"], frame, frame[:1], feature_names=frame.columns).feature_names == ("a", "b", "c")


def test_a_group_takes_the_place_of_its_first_column():
    groups: Any = {"G": ["e", "b"], "H": np.array([2, 5])}
    space = Table(columns=list("abcdef"), groups=groups)
    out = explain(lambda a: a[:, 0] + a[:, 1], normal(10, 6), np.zeros(6), space=space)
    assert out.feature_names == ("a", "G", "H", "d")
    np.testing.assert_array_equal(out.elements, [0, 1, 2, 3, 1, 2])
    np.testing.assert_array_equal(out.heatmap[0], out.scores[0, [0, 1, 2, 3, 1, 2]])


@pytest.mark.parametrize("names", ["c", ["c"], ("c",), {"c"}, np.array(["c"]), pd.Index(["c"])])
def test_subsets_by_name_are_subsets_by_position(names):
    frame = pd.DataFrame(normal(40, 3), columns=["a", "b", "c"])

    def ask(subset: Any) -> fans.PNS:
        return fans.pns(lambda f: f["a"] * f["c"], frame[:1], subset, background=frame, radius=2.0)

    assert ask(names).pns == ask([False, False, True]).pns
    assert ask(names).pns != ask([True, False, False]).pns


@pytest.mark.parametrize("baseline", [None, "mean", "zero"])
@pytest.mark.parametrize("method", ["pns", "explainer"])
def test_a_group_is_perturbed_as_a_whole(method, baseline):
    """Each row of the background has numbers of its own in the group: a mixture of two rows would be found out."""
    n = 30
    marks = np.arange(1.0, n + 1)
    background = np.c_[normal(n), marks, marks * 100, marks * 10_000, normal(n)]
    x = np.array([0.0, 77.0, 7_700.0, 770_000.0, 0.0])
    space = Table(groups={"g": [1, 2, 3]})
    model = Recorder(lambda a: a[:, 0] + a[:, 1])
    settings: dict[str, Any] = {"space": space, "baseline": baseline, "tolerance": 0.1}
    if method == "pns":
        fans.pns(model, x, ["x1", "g"], background=background, radius=5.0, **settings)
    else:
        explain(model, background, x, **settings)
    group = model.rows[:, 1:4]
    np.testing.assert_array_equal(group[:, 1:], group[:, :1] * [100, 10_000])
    allowed = {*marks} | ({0.0} if baseline == "zero" else set()) | ({77.0} if method == "explainer" else set())
    assert set(group[:, 0]) <= allowed
    assert len(set(group[:, 0])) > 20  # the rows were really exchanged
    moved = model.rows[:, 0][:, None] == background[:, 0]  # the first column's own row, where it still has it
    known = moved.any(1)
    assert (marks[moved.argmax(1)] != group[:, 0])[known].mean() > 0.1  # and the group moves apart from the others


# --- Distances: P(A, B) and P(not-A, not-B) are means of kernels of distances, once it is known what changes ----------


def kernel_means(background: Any, x: Any, subset: Any, model: Any, radius: float, **settings: Any) -> tuple[Any, Any]:
    """Ask, in the paper's reading, with a model whose output every hit on the subset changes and nothing else does."""
    out = fans.pns(
        model, x, subset, background=background, radius=radius, tolerance=1e-9, phi=1, n_factual=1, closeness="subset",
        **settings,
    )  # fmt: skip
    return out.p_ab[0], out.p_nab[0]


def shares(background: Any, x: Any, radius: float, **settings: Any) -> Any:
    """How much each row counts in the joint PNS: ask with models that know one row each, and lose it when hit.

    The first column must tell rows apart.
    """
    out = []
    for value in background[:, 0]:
        with warnings.catch_warnings():  # of few rows
            warnings.simplefilter("ignore", fans.FansWarning)
            found = fans.pns(
                lambda a, value=value: (a[:, 0] == value).astype(float), x, ["x1"], background=background, phi=1,
                radius=radius, tolerance=0.5, baseline=1e6, **settings,
            )  # fmt: skip
        assert (found.holds[0], found.pn[0]) == (1.0, 1.0)
        assert found.pns[0] == found.changes[0]
        out.append(found.changes[0])
    return np.array(out)


def kernel(squared: Any, radius: float) -> Any:
    return np.exp(-squared / (2 * radius**2)).mean()


@pytest.mark.parametrize("distance", ["rms", "l2"])
@pytest.mark.parametrize("columns", [[0], [1, 3], [0, 1, 2, 3]])
def test_numeric_distances(distance, columns):
    background = normal(50, 4) * [1.0, 5.0, 0.2, 1.0] + 3
    background[:, 2] = 3.0  # constant: counts as 1
    x = np.array([3.5, 2.0, 3.4, 2.2])
    std = np.sqrt(((background - background.mean(0)) ** 2).mean(0))  # the population form
    std[2] = 1.0
    rest = [j for j in range(4) if j not in columns]
    expected = []
    for chosen in (columns, rest):
        squared = (x - background)[:, chosen] ** 2
        if distance == "rms":
            squared = squared / std[chosen] ** 2 / max(len(chosen), 1)
        expected.append(kernel(squared.sum(1), 1.5))
    subset = [j in columns for j in range(4)]
    model = lambda a: a[:, columns].sum(1)
    got = kernel_means(background, x, subset, model, 1.5, baseline=1e6, distance=distance)
    np.testing.assert_allclose(got, [expected[0], expected[1] if rest else 0.0], rtol=1e-7)


@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_the_joint_neighbourhood_is_of_all_columns(distance):
    background = normal(12, 4) * [1.0, 5.0, 0.2, 1.0] + 3
    background[:, 2] = 3.0  # constant: counts as 1
    x = np.array([3.5, 2.0, 3.4, 2.2])
    squared = (x - background) ** 2
    if distance == "rms":
        squared = squared / np.where(background.std(0) > 0, background.std(0), 1.0) ** 2 / 4
    k = np.exp(-squared.sum(1) / (2 * 1.5**2))
    np.testing.assert_allclose(shares(background, x, 1.5, distance=distance), k / k.sum(), rtol=1e-9)


@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_the_joint_neighbourhood_counts_mismatches(distance):
    """By hand, as below: number, code, one-hot group of three. A group is one feature: a mismatch of 1 among three."""
    background = np.c_[[1.0, 2.0, 3.0, 6.0], [7, 7, 9, 9], np.eye(3)[[0, 1, 2, 0]]]
    x = np.array([2.0, 9.0, 1.0, 0.0, 0.0])
    number = (x[0] - background[:, 0]) ** 2 / (3.5 if distance == "rms" else 1)
    squared = number + np.array([1, 1, 0, 0]) + np.array([0, 1, 1, 0])
    k = np.exp(-squared / (3 if distance == "rms" else 1) / 2)
    space = Table(categorical=["x2"], groups={"colour": ["x3", "x4", "x5"]})
    np.testing.assert_allclose(shares(background, x, 1.0, distance=distance, space=space), k / k.sum(), rtol=1e-9)


@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_categories_and_groups_are_mismatches(distance):
    """By hand: number, code (declared), one-hot group of three; a mismatch is 1, in a group too (not 2)."""
    hot = np.array([0, 1, 2, 0])
    background = np.c_[[1.0, 2.0, 3.0, 6.0], [7, 7, 9, 9], np.eye(3)[hot]]
    x = np.array([2.0, 9.0, 1.0, 0.0, 0.0])
    number = (x[0] - background[:, 0]) ** 2
    number = number / 3.5 if distance == "rms" else number  # variance: (4 + 1 + 0 + 9) / 4
    code, group = np.array([1, 1, 0, 0]), np.array([0, 1, 1, 0])
    space = Table(categorical=["x2"], groups={"colour": ["x3", "x4", "x5"]})

    def ask(names: list[str], columns: list[int]) -> Any:
        model = lambda a: a[:, columns].sum(1)
        with pytest.warns(fans.FansWarning, match="of 4"):
            return kernel_means(
                background, x, names, model, 1.0, baseline=1e6, distance=distance, space=space
            )  # fmt: skip

    def mean(squared: Any, n: int) -> Any:
        return kernel(squared / n if distance == "rms" else squared, 1.0)

    np.testing.assert_allclose(ask(["x2"], [1]), [mean(code, 1), mean(number + group, 2)], rtol=1e-6)
    np.testing.assert_allclose(ask(["colour"], [2, 3, 4]), [mean(group, 1), mean(number + code, 2)], rtol=1e-6)
    np.testing.assert_allclose(ask(["x1", "colour"], [0, 2, 3, 4]), [mean(number + group, 2), mean(code, 1)], rtol=1e-6)


def test_text_categories_and_booleans_are_mismatches():
    frame = pd.DataFrame(
        {
            "town": ["Oslo", "Rome", "Rome", "Bern"],
            "size": pd.Categorical(["S", "L", "S", "L"]),
            "owner": [True, True, False, False],
            "age": [20.0, 30.0, 40.0, 50.0],
        }
    )
    x = pd.DataFrame({"town": ["Rome"], "size": ["S"], "owner": [True], "age": [20.0]})
    mismatches = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]])
    age = (frame["age"].to_numpy() - 20) ** 2 / 125
    for j, name in enumerate(["town", "size", "owner"]):
        rest = (np.delete(mismatches, j, 0).sum(0) + age) / 3
        with pytest.warns(fans.FansWarning, match="of 4"):
            out = fans.pns(
                lambda f: f["age"], x, [name], background=frame, baseline="mean", radius=1.0, tolerance=1e9,
                closeness="subset",
            )  # fmt: skip
        np.testing.assert_allclose(out.p_nab, kernel(rest, 1.0))  # nothing ever changes: P(not-A, not-B) is closeness
        assert out.p_ab[0] == pytest.approx(0, abs=1e-12)


# --- Real frames through a real pipeline -----------------------------------------------------------------------------


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "income": rng.normal(50, 10, n).astype(np.float32),
            "town": rng.choice(["Oslo", "Rome", "Bern"], n),
            "size": pd.Categorical(rng.choice(["S", "L"], n), categories=["S", "M", "L"], ordered=True),
            "owner": rng.random(n) > 0.5,
            "debt": rng.normal(size=n),
        },
        index=[f"person {i}" for i in range(n)],
    )


PEOPLE = people(120, 0)
FED_TYPES = {"age": "float64", "income": "float32", "owner": "bool", "debt": "float64"} | {
    name: PEOPLE[name].dtype for name in ("town", "size")
}


@pytest.fixture(scope="module")
def pipeline() -> Any:
    encode = ColumnTransformer(
        [
            ("words", OneHotEncoder(handle_unknown="ignore"), ["town", "size", "owner"]),
            ("numbers", StandardScaler(), ["age", "income", "debt"]),
        ]
    )
    label = np.where((PEOPLE["town"] == "Oslo") | (PEOPLE["age"] > 60), "yes", "no")
    return Pipeline([("encode", encode), ("model", LogisticRegression())]).fit(PEOPLE, label)


class Spy:
    """A fitted classifier that keeps the frames it is asked about."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.classes_, self.fed = inner, inner.classes_, list[pd.DataFrame]()

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        self.fed.append(frame)
        return self.inner.predict_proba(frame)


def test_a_mixed_frame_through_a_pipeline(pipeline):
    spy, x = Spy(pipeline), people(3, 1)
    out = explain(spy, PEOPLE, x, n_pairs=300)
    assert out.feature_names == tuple(PEOPLE.columns)
    assert out.target_names == ("no", "yes")
    np.testing.assert_allclose(out.prediction, pipeline.predict_proba(x).max(1), rtol=1e-6)
    assert [out.target_names[t] for t in out.target] == list(pipeline.predict(x))
    for frame in spy.fed:
        assert list(frame.columns) == list(PEOPLE.columns)
        assert frame.dtypes.to_dict() == FED_TYPES
    pd.testing.assert_frame_equal(
        spy.fed[0].astype({"age": "int64"}), PEOPLE.reset_index(drop=True), check_column_type=False
    )
    everything = pd.concat(spy.fed)
    for name in ("town", "size", "owner"):  # no value that was never seen, none lost
        assert set(everything[name]) == set(PEOPLE[name]) | set(x[name])
    assert [set(out.ranked(i)[:2]) for i in range(3)] == [{0, 2}] * 3  # the label knows age and town only


def test_values_of_an_input_in_words(pipeline):
    x = people(3, 1)
    out = explain(pipeline, PEOPLE, x)
    assert [out.value(2, 2), out.value(2, 3), out.value(2, 4)] == [str(v) for v in x.iloc[2, 2:5]]
    assert out.value(2, 0) == str(x["age"].iloc[2])


def test_a_group_in_words():
    """Of columns that are on or off the names of those that are on, whatever came first; of others their values."""
    frame = pd.DataFrame({"red": [True, False, True], "blue": [False, True, False], "town": ["A", "B", "A"]})
    frame["size"] = [1.0, 2.0, 3.0]
    space = Table(groups={"colour": ["red", "blue"], "place": ["town", "size"]})
    out = fans.Explainer(lambda f: f["size"].to_numpy(), frame, space=space, n_pairs=20)(frame)
    assert [out.value(i, 0) for i in range(3)] == ["red", "blue", "red"]
    assert [out.value(i, 1) for i in range(3)] == ["town A, size", "town B, size 2", "town A, size 3"]


@pytest.mark.parametrize(
    "form",
    [
        lambda frame: frame[["debt", "owner", "town", "age", "size", "income"]],
        lambda frame: frame.iloc[0],
        lambda frame: frame.iloc[0].iloc[::-1],
        lambda frame: frame.astype({"town": object, "size": object, "owner": object}),
        lambda frame: frame.astype({"age": "float32", "owner": "boolean", "town": "category"}),
    ],
    ids=["reordered", "series", "reordered series", "objects", "other dtypes"],
)
def test_other_forms_of_the_same_input(pipeline, form):
    x = people(1, 3)
    plain, other = (fans.pns(pipeline, given, ["town"], background=PEOPLE) for given in (x, form(x)))
    np.testing.assert_allclose(other.pns, plain.pns, rtol=1e-9)
    np.testing.assert_allclose(other.p_nab, plain.p_nab, rtol=1e-9)


def test_columns_of_an_array_match_a_frame_by_name():
    rows = normal(10, 3)
    space = Table(columns=["a", "b", "c"])
    turned = pd.DataFrame(rows, columns=["a", "b", "c"])[["c", "a", "b"]]
    np.testing.assert_array_equal(explain(lambda a: a[:, 0], rows, turned[:2], space=space).inputs, rows[:2])
    unnamed = pd.DataFrame(rows, columns=["c", "a", "b"])  # the array has no names to match: columns by position
    np.testing.assert_array_equal(explain(lambda a: a[:, 0], rows, unnamed[:2]).inputs, rows[:2])


def test_unseen_text_reaches_the_model_as_it_is(pipeline):
    spy, x = Spy(pipeline), people(2, 1).assign(town=["Lima", "Kyiv"])
    out = explain(spy, PEOPLE, x)
    np.testing.assert_allclose(out.prediction, pipeline.predict_proba(x).max(1), rtol=1e-6)
    assert {"Lima", "Kyiv"} < set(pd.concat(spy.fed)["town"])
    assert [out.value(0, 2), out.value(1, 2)] == ["Lima", "Kyiv"]
    with pytest.warns(fans.FansWarning, match="of 120"):
        narrow = fans.pns(pipeline, x[:1], ["town"], background=PEOPLE, baseline="mean", radius=0.1, closeness="subset")
    assert 0 < narrow.p_ab[0] < np.exp(-1 / (2 * 0.1**2))  # Lima is a mismatch with every row


def test_missing_text_is_a_value_of_its_own():
    frame = pd.DataFrame({"town": ["Oslo", None, "Rome", None] * 10, "age": np.arange(40.0)})
    fed: list[pd.DataFrame] = []

    def model(f: pd.DataFrame) -> Any:
        fed.append(f)
        return f["town"].isna().astype(float)

    out = fans.pns(model, frame[1:2], ["town"], background=frame, baseline="mean", radius=2.0)
    pd.testing.assert_series_equal(fed[0]["town"], frame["town"])
    assert out.ps[0] > 0


def test_labels_that_are_numbers_stay_numbers():
    frame = pd.DataFrame(normal(20, 3), columns=[10, 20, 30])
    model = Recorder(lambda f: f[20].to_numpy())
    out = explain(model, frame, frame.iloc[0])
    assert out.feature_names == ("10", "20", "30")
    assert all(list(part.columns) == [10, 20, 30] for part in model.fed)
    text = frame.assign(town="Oslo")
    assert explain(lambda f: f[20], text, text[:1]).feature_names == ("10", "20", "30", "town")


# --- Baselines -------------------------------------------------------------------------------------------------------


def replaced_by(background: Any, baseline: Any, **settings: Any) -> Any:
    """Return the row in which every feature is hit: what the baseline is, as the model sees it."""
    model = Recorder(lambda rows: np.zeros(len(rows)))
    everything = [True] * (np.shape(background)[1] - settings.pop("merged", 0))
    x = background[:1]
    with warnings.catch_warnings():  # of few rows
        warnings.simplefilter("ignore", fans.FansWarning)
        fans.pns(
            model, x, everything, background=background, baseline=baseline, tolerance=0.5, phi=1, max_batch=10_000,
            **settings,
        )  # fmt: skip
    return model.fed[-1]


NUMBERS = np.array([[1.0, 2.0, 6.0], [3.0, 2.0, 0.0], [5.0, 5.0, 0.0], [7.0, 2.0, 0.0], [4.0, 3.0, 1.0]])


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("mean", [4.0, 2.8, 1.4]),
        ("zero", [0.0, 0.0, 0.0]),
        (-1.5, [-1.5, -1.5, -1.5]),
        (np.float32(2), [2.0, 2.0, 2.0]),
        (torch.tensor(2), [2.0, 2.0, 2.0]),
        ([9.0, 8.0, 7.0], [9.0, 8.0, 7.0]),
        (np.array([9.0, 8.0, 7.0]), [9.0, 8.0, 7.0]),
        (np.array([[9, 8, 7]]), [9.0, 8.0, 7.0]),
        (torch.tensor([9.0, 8.0, 7.0]), [9.0, 8.0, 7.0]),
    ],
)
def test_fixed_baselines(baseline, expected):
    np.testing.assert_allclose(replaced_by(NUMBERS, baseline), [expected] * 5)


def test_means_of_codes_and_groups_are_their_most_frequent_values():
    hot = np.array([2, 1, 1, 0, 2, 1])
    background = np.c_[[3, 3, 8, 8, 8, 1], np.eye(3)[hot], np.arange(6.0)]
    space = Table(categorical=[0], groups={"g": [1, 2, 3]})
    np.testing.assert_array_equal(replaced_by(background, "mean", space=space, merged=2), [[8, 0, 1, 0, 2.5]] * 6)


def test_the_most_frequent_value_of_a_group_is_a_row_of_it():
    """Column by column the most frequent value would be 0, 0: a combination that never occurs."""
    background = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [3.0, 0.0]])
    space = Table(groups={"g": [0, 1]})
    got = replaced_by(background, "mean", space=space, merged=1)
    np.testing.assert_array_equal(got, [[0.0, 1.0]] * len(got))


WORDS = pd.DataFrame(
    {
        "n": [1.0, 2.0, 3.0, 6.0],
        "town": ["Oslo", "Rome", "Rome", "Bern"],
        "size": pd.Categorical(["S", "L", "L", "L"], categories=["S", "M", "L"]),
        "owner": [False, True, False, False],
    }
)


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("mean", (3.0, "Rome", "L", False)),
        (WORDS.iloc[3], (6.0, "Bern", "L", False)),
        (WORDS[3:], (6.0, "Bern", "L", False)),
        (WORDS[3:][["town", "owner", "n", "size"]], (6.0, "Bern", "L", False)),
        (pd.Series({"n": 0, "town": "Lima", "size": "M", "owner": True}), (0.0, "Lima", "M", True)),
    ],
    ids=["mean", "series", "frame", "reordered", "unseen"],
)
def test_baselines_of_frames(baseline, expected):
    got = replaced_by(WORDS, baseline)
    assert set(got.itertuples(index=False, name=None)) == {expected}
    assert got.dtypes.to_dict() == WORDS.dtypes.to_dict()


@pytest.mark.parametrize(("baseline", "value"), [("zero", 0.0), (0, 0.0), (-1.5, -1.5)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_numbers_as_baselines_of_frames_of_numbers(baseline, value, dtype):
    got = replaced_by(pd.DataFrame(NUMBERS, columns=list("abc")).astype(dtype), baseline)
    np.testing.assert_array_equal(got, np.full((5, 3), value))


@pytest.mark.parametrize("baseline", ["background", None])
def test_drawn_baselines_are_whole_other_rows(baseline):
    """All features are hit: each row becomes another row of the background, never itself, never a mixture."""
    rows = np.arange(60.0).reshape(20, 3)
    model = Recorder(lambda a: np.zeros(len(a)))
    fans.pns(
        model, rows[0], [True] * 3, background=rows, baseline=baseline, tolerance=0.5, phi=1, n_factual=1,
        n_perturb=50, max_batch=10_000,
    )  # fmt: skip
    got = model.fed[-1]
    assert got.shape == (20 * 50, 3)  # a row drawn as its own baseline would have cost no evaluation
    assert {tuple(row) for row in got} == {tuple(row) for row in rows}
    own = np.repeat(rows[:, 0], 50)
    assert (got[:, 0] != own).all()
    counts = np.unique(got[:, 0], return_counts=True)[1]
    assert 4 * np.sqrt(50) > np.abs(counts - 50).max() > 0  # uniform, to four standard deviations


# --- The form in which rows reach a model ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16, np.longdouble, ">f8", bool])
def test_number_types_of_arrays(dtype):
    rows = (normal(20, 3) * 3).astype(dtype)
    model = column(0)
    out = explain(model, rows, rows[0].astype(np.float64))
    expected = np.float32 if np.dtype(dtype).itemsize <= 4 and np.dtype(dtype).kind == "f" else np.float64
    assert {type(part) for part in model.fed} == {np.ndarray}
    assert {part.dtype for part in model.fed} == {np.dtype(expected)}
    np.testing.assert_array_equal(model.fed[0], rows)
    assert out.inputs.dtype == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_reach_a_callable_as_tensors(dtype):
    rows = torch.tensor(normal(20, 3), dtype=dtype, requires_grad=True)
    model = column(0)
    explain(model, rows, rows[0])
    assert {(type(part), part.dtype, part.requires_grad) for part in model.fed} == {(torch.Tensor, dtype, False)}
    assert torch.equal(model.fed[0], rows)


def test_tensors_and_arrays_give_the_same_numbers():
    rows = normal(30, 3)
    both = [
        fans.pns(lambda a: a[:, 0] - a[:, 1], kind(rows[0]), ["x1"], background=kind(rows), radius=2.0)
        for kind in (np.array, torch.tensor, np.ndarray.tolist, np.asfortranarray)
    ]
    assert len({(out.pns[0], out.pn[0], out.ps[0]) for out in both}) == 1
    mixed = fans.pns(lambda a: a[:, 0] - a[:, 1], torch.tensor(rows[0]), ["x1"], background=rows, radius=2.0)
    assert mixed.pns == both[0].pns


def overwrite_array(rows: Any) -> Any:
    rows *= 2
    return rows[:, 0] / 2


def overwrite_tensor(rows: torch.Tensor) -> torch.Tensor:
    return rows.mul_(2)[:, 0] / 2


def overwrite_frame(frame: pd.DataFrame) -> Any:
    frame["a"] = frame["a"] * 2
    return frame["a"] / 2


class InPlace(torch.nn.Module):
    """Begins with an operation in place, as `ReLU(inplace=True)` does."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return overwrite_tensor(rows)


@pytest.mark.parametrize(
    ("model", "form", "kept"),
    [
        (overwrite_array, np.array, np.array),
        (overwrite_tensor, torch.tensor, torch.clone),
        (InPlace(), torch.tensor, torch.clone),
        (overwrite_frame, lambda a: pd.DataFrame(a, columns=["a", "b"]), pd.DataFrame.copy),
    ],
)
def test_a_model_that_overwrites_its_input_harms_nothing(model, form, kept):
    """The caller's arrays stay, and so do the rows the estimate works with."""
    rows = np.random.default_rng(3).normal(size=(30, 2))
    background, x, baseline = form(rows), form(rows[:2]), form(rows[2:3])
    before = [kept(part) for part in (background, x, baseline)]
    settings: dict[str, Any] = {"radius": 2.0, "task": "regression"}
    out = fans.pns(model, x, [True, False], background=background, baseline=baseline, **settings)
    explained = explain(model, background, x, baseline=baseline, task="regression")
    for part, copy in zip((background, x, baseline), before, strict=True):
        np.testing.assert_array_equal(np.asarray(part), np.asarray(copy))
    plain = fans.pns(lambda a: a[:, 0], rows[:2], [True, False], background=rows, baseline=rows[2], **settings)
    np.testing.assert_array_equal(out.pns, plain.pns)
    np.testing.assert_array_equal(explained.inputs, rows[:2])
    np.testing.assert_allclose(explained.prediction, rows[:2, 0])


def test_read_only_arrays():
    rows = normal(20, 3)
    rows.setflags(write=False)
    subset = np.array([True, False, False])
    subset.setflags(write=False)
    out = fans.pns(lambda a: a[:, 0], rows[0], subset, background=rows, baseline=rows[1], radius=2.0)
    assert out.pns[0] > 0


def test_a_module_gets_values_not_codes():
    """Codes declared categorical, and booleans, reach a module as the numbers they are."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0] * 5, "code": [7, 5, 9] * 5, "flag": [True, False, True] * 5})
    fed = []

    class Keep(torch.nn.Module):
        def forward(self, rows):
            fed.append(rows.clone())
            return rows.sum(1)

    fans.pns(
        Keep(), frame[:1], ["a"], background=frame, radius=2.0, task="regression", space=Table(categorical=["code"])
    )
    np.testing.assert_array_equal(fed[0][:3], [[1, 7, 1], [2, 5, 0], [3, 9, 1]])
    assert set(torch.cat(fed)[:, 1].tolist()) == {5.0, 7.0, 9.0}


def test_scikit_learn_sees_the_names_it_was_fitted_with():
    """It warns, which is an error here, when names are lost or invented."""
    frame = pd.DataFrame(normal(40, 3), columns=["a", "b", "c"])
    y = frame["a"] * 2
    for rows in (frame, frame.to_numpy(), frame.set_axis([0, 1, 2], axis=1), frame.astype(np.float32)):
        model = LinearRegression().fit(rows, y)
        out = explain(model, rows, rows[:2])
        np.testing.assert_allclose(out.prediction, y[:2], rtol=1e-5)
        assert (out.ranked(0)[0], out.ranked(1)[0]) == (0, 0)
