"""Sparse rows: what the model is fed, steps and PNS against enumeration, words that matter, memory, what is refused."""

import itertools
import math
import re
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from torch import nn

import fans
from fans.engine.neighbourhood import Reference
from fans.methods.base import Scores
from fans.methods.fans.subset import NEARLY_ALL, Selection, clear_subset, fair_subset
from fans.methods.fans.walks import sharper
from fans.modalities.registry import guess_space
from fans.modalities.table.sparse import FittedRow
from fans.spaces import SparseTable, Table
from tests.oracles import exact_joint_pns, shapley

FORMATS = ("csr_matrix", "csc_matrix", "coo_matrix", "lil_matrix", "csr_array", "csc_array", "coo_array")
ARRAYS = (
    *("scores", "scores_se", "subset", "direction", "stability", "pns", "pn", "ps", "interval", "ess", "changes"),
    *("holds", "radius", "tolerance", "target", "prediction"),
)

GOOD = """a wonderful film with a great cast and a moving story
the acting is superb and the story is great from start to end
i loved every minute of this wonderful and funny film
a great film that the whole family loved
funny and moving with superb acting by the whole cast
the director made a superb film and the music is wonderful
we loved the story and the cast is great
what a funny film with wonderful music
superb music and a moving end to a great story
my family loved the acting and the funny dialogue
this is a wonderful story with a superb director
a moving film with great dialogue and lovely pictures
the whole cast is funny and the end is great
every minute of the film is moving and superb"""
BAD = """a terrible film with a weak cast and a boring story
the acting is awful and the story is boring from start to end
i hated every minute of this terrible and dull film
a boring film that the whole family hated
dull and weak with awful acting by the whole cast
the director made an awful film and the music is terrible
we hated the story and the cast is weak
what a dull film with terrible music
awful music and a weak end to a boring story
my family hated the acting and the dull dialogue
this is a terrible story with an awful director
a boring film with weak dialogue and ugly pictures
the whole cast is dull and the end is terrible
every minute of the film is boring and awful"""
SENTENCES = [*GOOD.splitlines(), *BAD.splitlines()]
LABELS = ["good"] * 14 + ["bad"] * 14
NEW = ["the cast is wonderful but the end of the film is weak", "a dull story and terrible acting from the cast"]


def rows_of(n_rows=30, n_columns=500, n_words=12, seed=0, kind=sparse.csr_array) -> Any:
    """Rows with values in a few columns each, in no column of the first three but as tests put them there."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((n_rows, n_columns))
    for row in dense:
        row[3 + rng.choice(n_columns - 3, n_words, replace=False)] = rng.uniform(0.2, 1.0, n_words)
    return kind(dense)


ROWS = rows_of()
WITH_WORDS = ROWS.tolil()
WITH_WORDS[:, :3] = 0.7
WITH_WORDS = WITH_WORDS.tocsr()


def curved(rows: Any) -> Any:
    """Of columns 0 to 4, two of which interact."""
    z = rows.toarray() if sparse.issparse(rows) else rows
    return 1 / (1 + np.exp(-(2 * z[:, 0] - 1.5 * z[:, 1] * z[:, 2] + z[:, 3] - 0.3)))


SMALL = sparse.csr_array(np.pad(np.array([[1.0, 0.8, 0.6, 0.5, 0.4], [0, 1.2, 0.9, 0, 1.0]]), [(0, 0), (0, 40)]))


def explain(rows: Any, model: Any = curved, background: Any = ROWS, **settings: Any) -> fans.Explanation:
    return fans.Explainer(model, background, **settings)(rows)


# --- What the model is fed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])
def test_the_model_gets_csr_rows_of_the_given_dtype_with_words_missing_and_nothing_else(kind, dtype):
    made = getattr(sparse, kind)
    dense = (10 * ROWS.toarray()).astype(dtype)
    fed: list[Any] = []

    def model(rows: Any) -> Any:
        fed.append(rows)
        return np.asarray(rows.sum(axis=1), dtype=float).ravel()

    explain(made(dense[:2]), model, made(dense), n_walk_rows=200)
    assert type(fed[-1]) is (sparse.csr_array if kind.endswith("array") else sparse.csr_matrix)
    assert all(rows.format == "csr" and rows.dtype == dtype and rows.shape[1] == 500 for rows in fed)
    assert (fed[0].toarray() == dense).all()
    assert (fed[1].toarray() == dense[: len(fed[1].toarray())]).all()  # asked again, to see whether it says the same
    for rows in fed[2:]:
        assert (rows.data != 0).all()
        assert rows.has_canonical_format
        fits = [((rows.toarray() == x) | (rows.toarray() == 0)).all(1) for x in dense[:2]]
        assert (fits[0] | fits[1]).all()
        assert (np.diff(rows.indptr) < 12).any() or len(rows.indptr) == 2


def test_any_format_of_either_gives_the_same_explanation():
    found = [explain(getattr(sparse, kind)(WITH_WORDS[:2])) for kind in FORMATS]
    found += [explain(WITH_WORDS[:2], background=getattr(sparse, kind)(ROWS)) for kind in FORMATS]
    for other in found[1:]:
        check_same(other, found[0])


def test_zeros_that_are_stored_and_entries_given_in_pieces_are_what_they_add_up_to():
    rows = WITH_WORDS[:1].tocoo()
    row, column = rows.coords
    halves = np.concatenate([rows.data / 2, rows.data / 2, [0.0, 0.5, -0.5]])
    places = np.concatenate([row, row, [0, 0, 0]]), np.concatenate([column, column, [450, 460, 460]])
    given = sparse.coo_array((halves, places), shape=rows.shape)
    found = explain(given)
    check_same(found, explain(WITH_WORDS[:1]))
    assert "x451" not in found.feature_names
    stored = WITH_WORDS[:1].copy()
    stored.data[0] = 0
    assert stored.nnz == 15
    assert explain(stored).scores.shape == (1, 14)
    assert stored.nnz == 15  # the user's own stay as they are


def test_a_row_of_an_array_is_an_input():
    row = WITH_WORDS[3]
    assert row.ndim == 1
    check_same(explain(row), explain(WITH_WORDS[3:4]))
    assert len(explain(sparse.csr_matrix(WITH_WORDS)[3])) == 1


def check_same(a: fans.Explanation, b: fans.Explanation) -> None:
    assert a.feature_names == b.feature_names
    for name in ARRAYS:
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name


# --- Against enumeration ---------------------------------------------------------------------------------------------


def mean_steps(f: Any, x: Any, side: int) -> Any:
    """Enumerate: the mean size of each word's steps over all orders of leaving them out, `side` at a time."""
    sizes = np.zeros(len(x))
    orders = list(itertools.permutations(np.flatnonzero(x)))
    for order in orders:
        for begin in range(0, len(order), side):
            row = x.copy()
            before = f(row[None])[0]
            for j in order[begin : begin + side]:
                row[j] = 0
                after = f(row[None])[0]
                sizes[j] += abs(after - before) / len(orders)
                before = after
    return sizes


@pytest.mark.parametrize("reach", [None, 0.3])
def test_scores_are_mean_steps_and_the_direction_that_of_a_word_alone(reach):
    found = explain(SMALL, background=SMALL, reach=reach, n_walk_rows=40_000, tolerance=0.01)
    assert found.scores_se is not None
    for i, x in enumerate(SMALL.toarray()):
        words = np.flatnonzero(x)
        own = found.present[i]
        assert [found.feature_names[f] for f in np.flatnonzero(own)] == [f"x{j + 1}" for j in words]
        expected = mean_steps(curved, x, len(words) if reach is None else math.ceil(0.3 * len(words)))[words]
        assert (np.abs(found.scores[i, own] - expected) < 4.5 * found.scores_se[i, own] + 1e-12).all()
        assert found.scores[i, own] == pytest.approx(expected, abs=0.002)
        alone = [curved(np.where(np.arange(45) == j, 0, x)[None])[0] - curved(x[None])[0] for j in words]
        assert found.direction[i, own] == pytest.approx(alone, abs=1e-12)
        assert np.isnan(found.direction[i, ~own]).all()
        assert not found.scores[i, ~own].any()


@pytest.mark.parametrize("which", [1, 0])
def test_the_sharper_order_is_that_of_shapley_values(which, monkeypatch):
    """By how much leaving a word out lowers the explained output; raises it, where all of them hold it down."""
    seen: list[Scores] = []

    def told(*given: Any) -> Scores:
        seen.append(sharper(*given))
        return seen[-1]

    monkeypatch.setattr("fans.methods.fans.walks.sharper", told)
    two = lambda rows: np.stack([1 - curved(rows), curved(rows)], 1)
    fans.Explainer(two, SMALL, n_walk_rows=40_000, members="pns", tolerance=0.01)(SMALL[:1], target=which)
    x = SMALL[:1].toarray()[0]
    values = shapley(curved, x[:5], np.zeros(5)) if which else -shapley(curved, x[:5], np.zeros(5))
    found = seen[-1]
    assert found.scores[0].numpy() == pytest.approx(np.sign(values.sum()) * values, abs=0.002)
    assert found.n_for is not None
    assert int(found.n_for) == (np.sign(values.sum()) * values > 0).sum()
    assert found.may_join is not None
    assert found.may_join.tolist() == [[True, True, True, True, False]]
    assert not found.n_rows.any()


@pytest.mark.parametrize(("phi", "subset"), [(1, ["x1"]), (0.4, ["x1", "x3"]), (0.4, ["x2", "x5"])])
def test_pns_is_that_of_enumeration(phi, subset):
    """Samples are the row and copies of it with words missing; a distance is the share of words that are."""
    settings: dict[str, Any] = {"radius": 0.5, "tolerance": 0.1, "phi": phi}
    explainer = fans.Explainer(curved, ROWS[:, :45], estimator="exact", n_local=9, **settings)
    ((task, rows, _),) = explainer.task.split(SMALL[:1])
    pool, _ = Reference.around(task, rows, [0], 0, 0, 9, 0.0)
    samples, x = pool.samples()[0].numpy(), SMALL[:1].toarray()[0, :5]
    assert (samples[0] == x).all()
    assert ((samples == x) | (samples == 0)).all()
    assert (samples == 0).any()
    chosen = [f"x{j + 1}" in subset for j in range(5)]
    expected = exact_joint_pns(curved, x, chosen, samples, np.zeros(5), 0.5, 0.1, phi=phi, std=x)
    for found in (explainer.score(SMALL[:1], subset), explainer.score(SMALL[:1], chosen)):
        for name in ("pns", "pn", "ps", "changes", "holds"):
            assert getattr(found, name)[0] == pytest.approx(expected[name], abs=1e-9, nan_ok=True), name


def test_pns_of_a_named_subset_in_sparse_rows():
    names = [f"word {j}" for j in range(500)]
    found = fans.pns(
        lambda rows: (rows[:, [0]].toarray()[:, 0] > 0).astype(float),
        WITH_WORDS[:3],
        ["word 0"],
        background=WITH_WORDS,
        space=SparseTable(columns=names),
        phi=1,
    )
    assert (found.changes > 0.7).all()  # but in copies without the word
    assert found.holds.tolist() == [1, 1, 1]
    assert found.pns == pytest.approx(found.changes)
    lacking = fans.pns(curved, WITH_WORDS[:1], ["x500"], background=ROWS, phi=1)
    assert lacking.pns.tolist() == [0]
    assert "the subset is empty" in lacking.notes[0]


# --- Words that matter -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_words", [1, 12, 100, 400])
@pytest.mark.parametrize("weights", [(3.0, 3.0, 3.0), (3.0, -2.0, 4.0)])
def test_a_linear_model_of_three_words_names_exactly_those_that_are_there(n_words, weights):
    """Whatever the number of words beside them."""
    rows = rows_of(n_words=n_words, seed=n_words).tolil()
    has = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]])
    rows[:5, :3] = has
    weight = np.zeros(500)
    weight[:3] = weights
    logistic = lambda given: 1 / (1 + np.exp(-given @ weight))
    found = explain(rows.tocsr()[:5], logistic, rows.tocsr(), tolerance=0.05)
    for i in range(5):
        assert sorted(found.chosen_names(i)) == [f"x{j + 1}" for j in range(3) if has[i, j]]
        others = [f for f, name in enumerate(found.feature_names) if name not in ("x1", "x2", "x3")]
        assert not found.scores[i, others].any()
        assert (found.stability[i][found.subset[i]] == 1).all()
    assert "Nothing changes" in found.sentences[3]


def test_where_many_words_matter_a_little_the_subset_is_the_smallest_that_does_it():
    """Those that hold the class up, not every word with a share."""
    rng = np.random.default_rng(0)
    weight = np.zeros(500)
    rows = rows_of(n_words=60, seed=1)
    weight[3:] = rng.normal(0.1, 0.6, 497)
    logistic = lambda given: 1 / (1 + np.exp(-given @ weight))
    likely = rows[np.flatnonzero(rows @ weight > 5)[:6]]
    found, fair = explain(likely, logistic, rows), explain(likely, logistic, rows, members="share")
    falls = found.inputs * weight[[int(name[1:]) - 1 for name in found.feature_names]]
    assert (found.evaluations["sweep"] > 0).all()
    assert not fair.evaluations["sweep"].any()
    assert (falls[found.subset] > 0).all()
    assert (falls[fair.subset] < 0).any()
    assert (found.subset.sum(1) < fair.subset.sum(1)).all()
    assert found.pns.mean() > fair.pns.mean() + 0.1
    for i in range(6):  # no word outside speaks for it much more than any inside
        members, others = falls[i][found.subset[i]], falls[i][~found.subset[i]]
        assert members.min() > others.max() - 0.2


def test_how_clear_shares_are_by_hand(monkeypatch):
    """Nine tenths of all scores with a fair share, or the smallest subset; neither where nothing moves."""
    scores = torch.full((3, 40), 0.25, dtype=torch.float64)
    scores[0, :4] = (36 * 0.25) / (1 - NEARLY_ALL) * NEARLY_ALL / 4 + 0.01
    scores[1:, :4] = scores[0, 0] - 0.02
    given = Scores(scores, None, torch.zeros(3, dtype=torch.int64), moving=torch.tensor([1.0, 1.0, 0.0]))
    sought = fair_subset(Scores(1 - scores, None, torch.zeros(3, dtype=torch.int64)))
    monkeypatch.setattr("fans.methods.fans.subset.smallest_subset", lambda *_: sought)
    nothing: Any = None
    found = clear_subset(nothing, nothing, given, nothing, Selection())
    assert found.subset.sum(1).tolist() == [4, int(sought.subset[1].sum()), 0]
    assert found.subset[1].tolist() == sought.subset[1].tolist()


@pytest.mark.parametrize("make", [
    lambda: LogisticRegression(C=10), MultinomialNB, lambda: CalibratedClassifierCV(LinearSVC(), cv=2, ensemble=False),
    lambda: RandomForestClassifier(50, random_state=0),
], ids=["logistic", "bayes", "calibrated", "forest"])  # fmt: skip
def test_a_text_pipeline(make):
    vectorizer = TfidfVectorizer().fit(SENTENCES)
    train = vectorizer.transform(SENTENCES)
    model = make().fit(train, LABELS)
    explainer = fans.Explainer(model, train, space=SparseTable(columns=vectorizer.get_feature_names_out()))
    found = explainer(vectorizer.transform(NEW))
    assert found.target_names == ("bad", "good")
    for i, text in enumerate(NEW):
        words = set(re.findall(r"\w\w+", text)) & set(vectorizer.vocabulary_)
        assert {found.feature_names[f] for f in np.flatnonzero(found.present[i])} == words
        assert set(found.chosen_names(i)) <= words
    telling = {"dull", "terrible", "boring", "awful", "weak"}
    assert set(found.chosen_names(1)) & telling
    assert found.feature_names[int(found.ranked(1)[0])] in telling
    assert found.changes[1] > 0.5
    assert any(f"*{name}*" in found.sentences[1] for name in telling)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_raw_boosters(library):
    module = pytest.importorskip(library)
    rows = sparse.csr_matrix(np.random.default_rng(0).poisson(0.7, (80, 6)).astype(float))
    labels = (rows.toarray()[:, 2] > 0).astype(int)
    make = module.XGBClassifier if library == "xgboost" else partial(module.LGBMClassifier, verbose=-1)
    model = make(n_estimators=5, n_jobs=1).fit(rows, labels)
    raw = model.get_booster() if library == "xgboost" else model.booster_
    inputs = rows[np.flatnonzero(labels)[:3]]
    found, expected = (fans.Explainer(one, rows)(inputs) for one in (raw, model))
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    assert all("x3" in found.chosen_names(i) for i in range(3))
    with pytest.raises(fans.ModelError, match=r"the 6 columns that the Booster was trained on, got 4: \['x1', 'x2"):
        fans.Explainer(raw, rows[:, :4])
    wide = sparse.csr_matrix(np.ones((5, 4000)))
    with pytest.raises(fans.ModelError, match=r"got 4,000: \[.*'x20'\] and 3,980 more; pass a background"):
        fans.Explainer(raw, wide)


def test_counts_through_a_pipeline_are_weighed_anew_without_the_missing_words():
    vectorizer = CountVectorizer().fit(SENTENCES)
    train = vectorizer.transform(SENTENCES)
    assert train.dtype == np.int64
    model = make_pipeline(TfidfTransformer(), LogisticRegression(C=10)).fit(train, LABELS)
    found = fans.Explainer(model, train, space=SparseTable(columns=vectorizer.get_feature_names_out()))(train[:3])
    column = found.feature_names.index("wonderful")
    without = train[:1].toarray()
    without[0, vectorizer.vocabulary_["wonderful"]] = 0
    expected = model.predict_proba(without)[0, 1] - model.predict_proba(train[:1])[0, 1]
    assert found.direction[0, column] == pytest.approx(expected)
    assert found.value(0, column) == "1"


def test_a_regressor_is_told_by_its_outputs_over_the_background():
    model = Ridge().fit(WITH_WORDS, np.arange(30.0))
    found = explain(WITH_WORDS[:2], model, WITH_WORDS)
    assert found.kind == "output"
    assert found.tolerance == pytest.approx(0.1 * model.predict(WITH_WORDS).std())
    assert int(found.evaluations["shared"]) == 30 + 4


@pytest.mark.parametrize("method", ["lime", "kernel_shap", "feature_ablation", "occlusion", "banzhaf", "random"])
def test_methods_of_others_that_ask_for_outputs(method):
    if method == "occlusion":
        with pytest.raises(fans.InputError, match=r"image inputs for method='occlusion', got table"):
            explain(SMALL, method=method)
        return
    found = explain(WITH_WORDS[:3], method=method)
    assert found.scores.shape == found.present.shape
    assert not found.scores[~found.present].any()
    if method == "kernel_shap":
        exact = explain(SMALL[:1], background=SMALL, method=method)
        assert exact.scores[0] == pytest.approx(shapley(curved, SMALL[:1].toarray()[0, :5], np.zeros(5)), abs=1e-6)


@pytest.mark.parametrize("n_words", [5, 300])
def test_what_it_costs_is_told_by_a_row_of_typical_size(n_words):
    rows = rows_of(n_words=n_words)
    explainer = fans.Explainer(lambda given: given[:, [3]].toarray()[:, 0], rows)
    assert explainer._plain_settings()["solver"] == "walks"  # however long
    assert explainer.task.space.n_features == n_words
    assert explainer.rows_an_input >= explainer(rows[:2]).n_evaluations.max()


# --- Many rows -------------------------------------------------------------------------------------------------------


def test_an_explanation_does_not_depend_on_company_order_batch_or_seedless_state():
    rows, ids = WITH_WORDS[:6], [f"text {i}" for i in range(6)]
    explainer = fans.Explainer(curved, ROWS)
    whole = explainer(rows, ids=ids)
    turned = explainer(rows[::-1], ids=ids[::-1])
    small = fans.Explainer(curved, ROWS, max_batch=37)(rows, ids=ids)
    for i in range(6):
        alone = explainer(rows[i : i + 1], ids=ids[i : i + 1])
        assert alone.present.all()
        for other in (whole[i], turned[5 - i], small[i]):
            own = other.present[0]
            assert tuple(np.array(other.feature_names)[own]) == alone.feature_names
            for name in ARRAYS:
                value, expected = getattr(other, name), getattr(alone, name)
                value = value[:, own] if value.shape == other.scores.shape else value
                assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), name


def test_features_are_the_columns_that_any_input_has():
    rows = WITH_WORDS[:4]
    found = explain(rows)
    columns = np.unique(rows.indices)
    assert found.feature_names == found.element_names == tuple(f"x{j + 1}" for j in columns)
    dense = rows.toarray()[:, columns]
    assert (found.inputs == dense).all()
    assert (found.present == (dense != 0)).all()
    assert not found.subset[~found.present].any()
    assert found.value(1, 0) == "0.7"
    absent = int(np.flatnonzero(~found.present[1])[0])
    assert found.value(1, absent) == "0"
    assert absent not in found.ranked(1)
    assert (found.heatmap == found.scores).all()


@pytest.mark.filterwarnings("ignore")  # of shap's own imports
def test_frames_pictures_pages_and_files(tmp_path):
    found = explain(WITH_WORDS[:4])
    frame = found.to_frame()
    assert len(frame) == WITH_WORDS[:4].nnz
    assert set(frame[frame.chosen].feature) <= {"x1", "x2", "x3", "x4"}
    assert frame[frame.id == 2].value.tolist() == [
        fans.wording.plain_number(v) for v in WITH_WORDS[2:3].toarray()[0] if v
    ]
    assert found.plot(tmp_path / "rows.png", top=5).axes
    page = found.to_html(tmp_path / "rows.html").read_text()
    assert page.count("<h2>") == 0
    assert "x1" in page
    assert found[2].present.sum() == 15
    again = fans.load(found.save(tmp_path / "rows.safetensors"))
    check_same(again, found)
    assert again.sparse
    assert (again.present == found.present).all()
    assert again.sentences == found.sentences
    shap = found.to_shap()
    assert shap.values.shape == shap.data.shape == found.scores.shape


def test_scores_sweeps_and_hypotheses_of_many_rows_are_those_of_the_explanation():
    explainer, rows = fans.Explainer(curved, ROWS, members="pns"), WITH_WORDS[:4]
    whole = explainer(rows)
    assert (explainer.scores(rows) == whole.scores).all()
    assert (explainer.heatmaps(rows) == whole.scores).all()
    assert (explainer.on_elements(rows, whole.scores) == whole.scores).all()
    swept = explainer.sweep(rows, whole.scores)
    assert swept.shape == whole.scores.shape
    assert not swept[~whole.present].any()
    everything = np.zeros((4, 500))
    everything[:, np.unique(rows.indices)] = whole.scores
    assert (explainer.sweep(rows, everything) == swept).all()
    by_mask = explainer.score(rows, whole.subset)
    for i in range(4):
        named = explainer.score(rows[i : i + 1], whole.chosen_names(i), ids=[i])
        assert named.pns[0] == pytest.approx(by_mask.pns[i])
    of_all = explainer.score(rows, np.arange(500) < 3)
    assert of_all.pns == pytest.approx(explainer.score(rows, ["x1", "x2", "x3"]).pns)


def test_what_was_done_before_a_failure_is_kept():
    calls = []

    def fails(rows: Any) -> Any:
        calls.append(rows.shape[0])
        if len(calls) == 12:
            raise RuntimeError("out of luck")
        return curved(rows)

    with pytest.raises(RuntimeError, match="out of luck") as caught:
        fans.Explainer(fails, ROWS)(WITH_WORDS[:8])
    partial: fans.Explanation = caught.value.partial  # type: ignore[attr-defined]
    assert 0 < len(partial) < 8
    check_same(partial, explain(WITH_WORDS[:8])[list(range(len(partial)))])


PEAK = """
import sys, tracemalloc
from functools import partial
from pathlib import Path
import numpy as np
from scipy import sparse
import fans

def peak():
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM"))
    return int(line.split()[1]) / 1024

rng = np.random.default_rng(0)
columns = np.concatenate([np.sort(rng.choice(50_000, 100, replace=False)) for _ in range(2000)])
rows = sparse.csr_array((rng.random(200_000), columns, np.arange(0, 200_001, 100)), shape=(2000, 50_000))
weight = rng.normal(size=50_000)
logistic = lambda given: 1 / (1 + np.exp(-(given @ weight) / 3))
fans.Explainer(logistic, rows[:20])(rows[:2])
before = peak()
tracemalloc.start()
found = fans.Explainer(logistic, rows)(rows[:20])
assert found.scores.shape[0] == 20 and found.scores.shape[1] <= 2000
print(peak() - before, tracemalloc.get_traced_memory()[1] / 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_two_thousand_rows_of_fifty_thousand_columns_are_never_dense():
    """They would take 800 MB: here a twentieth of it, model and batches together."""
    said = subprocess.run([sys.executable, "-c", PEAK], check=True, capture_output=True, text=True).stdout  # noqa: S603
    resident, traced = map(float, said.split())
    assert resident < 40
    assert traced < 40


# --- What is refused -------------------------------------------------------------------------------------------------


def put(rows: Any, value: float) -> Any:
    rows = rows.copy()
    rows.data[20] = value
    return rows


NAMES = [f"word {j}" for j in range(500)]
EMPTY = sparse.vstack([WITH_WORDS[:2], sparse.csr_array((2, 500)), WITH_WORDS[:1]]).tocsr()


@pytest.mark.parametrize(("x", "message"), [
    (EMPTY, r"row 2 of x and 1 others with zeros alone.*leave them out"),
    (EMPTY[2:3], r"row 0 of x with zeros alone.*leave it out"),
    (WITH_WORDS[:, :400], r"500 columns, as the background has, in x, got 400"),
    (WITH_WORDS[:0], r"at least one row in x, got shape \(0, 500\)"),
    (WITH_WORDS[:2].toarray(), r"x as rows of scipy.sparse, got ndarray; pass scipy.sparse.csr_array of it"),
    (put(WITH_WORDS[:2], math.nan), r"finite numbers in x, got nan in row 1, column 'word \d+' \(1 such values\)"),
    (put(WITH_WORDS[:2], math.inf), r"finite numbers in x, got inf in row 1"),
    (WITH_WORDS[:2].astype(complex), r"real numbers in x, got complex128"),
])  # fmt: skip
def test_inputs_that_cannot_be_used(x, message):
    explainer = fans.Explainer(curved, ROWS, space=SparseTable(columns=NAMES))
    with pytest.raises(fans.InputError, match=message):
        explainer(x)


@pytest.mark.parametrize(("background", "settings", "message"), [
    (put(ROWS, math.nan), {}, r"finite numbers in background, got nan in row 1, column 'x\d+'"),
    (ROWS[:0], {}, r"at least one background sample, got an empty background"),
    (sparse.csr_array((3, 9)), {}, r"a background with something in it, got zeros alone"),
    (sparse.csr_array((3, 0)), {}, r"at least one column in background, got 0"),
    (ROWS.toarray(), {"space": SparseTable()}, r"background as rows of scipy.sparse, got ndarray"),
    (ROWS, {"space": Table()}, r"background as dense rows, got csr_array; pass its .toarray\(\)"),
    (ROWS, {"space": SparseTable(NAMES[:9])}, r"500 names in `columns`, one per column, got 9"),
    (ROWS, {"space": SparseTable([*NAMES[:499], "word 7"])}, r"a name of its own for each column, got 2 of 'word 7'"),
    (ROWS, {"baseline": "mean"}, r"baseline=0 for sparse rows.*got 'mean'"),
    (ROWS, {"baseline": 0.5}, r"baseline=0 for sparse rows.*got 0.5"),
    (ROWS, {"baseline": np.zeros(500)}, r"baseline=0 for sparse rows.*got ndarray"),
    (ROWS, {"method": "saliency"}, r"method='saliency'"),
])  # fmt: skip
def test_backgrounds_and_settings_that_cannot_be_used(background, settings, message):
    with pytest.raises(fans.FansError, match=message):
        fans.Explainer(curved, background, **settings)


def test_noise_that_a_tolerance_is_to_follow():
    with pytest.raises(fans.InputError, match=r"a number for sparse rows.*tolerance=0.1"):
        explain(WITH_WORDS[:1], tolerance="noise")


def test_zero_is_the_baseline_by_any_name():
    for baseline in ("zero", 0, 0.0, np.float32(0)):
        check_same(explain(SMALL, background=SMALL, baseline=baseline), explain(SMALL, background=SMALL))


def test_a_module_takes_tensors():
    module = nn.Linear(500, 2)
    with pytest.raises(fans.ModelError, match=r"got Linear, a torch module.*\(\.toarray\(\)\), or a function"):
        fans.Explainer(module, ROWS)
    asked = lambda rows: module(torch.from_numpy(rows.toarray()).float()).softmax(1)
    assert explain(WITH_WORDS[:1], asked).scores.shape == (1, 15)


@pytest.mark.parametrize(("subset", "message"), [
    (["word 1", "wordy 2"], r"names of columns in `subset`, got 'wordy 2', which none of 500 has; did you mean 'word"),
    (np.ones(9, dtype=bool), r"each of the 15 columns that these rows have, or of all 500, got 9"),
    ([1.0, 2.0], r"`subset` as booleans"),
])  # fmt: skip
def test_subsets_that_cannot_be_used(subset, message):
    explainer = fans.Explainer(curved, ROWS, space=SparseTable(columns=NAMES))
    with pytest.raises(fans.InputError, match=message):
        explainer.score(WITH_WORDS[:1], subset)


def test_sparse_inputs_of_a_dense_background():
    explainer = fans.Explainer(curved, ROWS.toarray())
    with pytest.raises(fans.InputError, match=r"x as dense rows, got csr_array; pass its .toarray\(\)"):
        explainer(WITH_WORDS[:1])


def test_metrics_do_not_read_sparse_rows():
    explainer = fans.Explainer(curved, ROWS)
    with pytest.raises(fans.InputError, match=r"got one of sparse rows, which metrics do not read"):
        fans.evaluate(explainer(WITH_WORDS[:1]), ["sparseness"], explainer=explainer)


def test_the_space_is_guessed_and_its_names_are_those_of_numbers():
    assert isinstance(guess_space(ROWS), SparseTable)
    fitted = guess_space(WITH_WORDS).fit(WITH_WORDS)
    (space, rows, at), *_ = fitted.split(WITH_WORDS[4:6])
    assert isinstance(space, FittedRow)
    assert space.feature_names == tuple(f"x{j + 1}" for j in WITH_WORDS[4:5].indices)
    assert rows.tolist() == [WITH_WORDS[4:5].data.tolist()]
    assert at == [0]
