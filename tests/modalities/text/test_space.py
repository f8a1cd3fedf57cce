"""Texts: their features, what stands in for them, the models that read them, and what is refused."""

import itertools
import pickle
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import fans
from fans.modalities.registry import guess_space
from fans.spaces import Text
from tests.oracles import exact_joint_pns

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

TEXTS = ["a wonderful film and a great cast", "a dull film with a weak cast", "great music", "weak and dull"]
LABELS = ["good", "bad", "good", "bad"]


def rated(texts: Any) -> Any:
    """P of class 1: weak unless not weak, and a little of how long a text is."""
    p = [0.9 - 0.7 * (("weak" in t) != ("not" in t)) + 0.02 * min(len(t.split()), 4) for t in texts]
    return np.stack([1 - np.array(p), np.array(p)], 1)


@pytest.fixture(scope="module")
def trained() -> Any:
    return make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(TEXTS, LABELS)


class Heard:
    """A model that keeps what it was asked."""

    def __init__(self, model: Any = rated) -> None:
        self.model, self.asked = model, list[list[str]]()

    def __call__(self, texts: Any) -> Any:
        self.asked.append(list(texts))
        return self.model(texts)


# --- Probabilities, by enumeration -----------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["gone", "mask"])
@pytest.mark.parametrize("chosen", [["weak"], ["not", "weak"], ["a"], []])
@pytest.mark.parametrize("phi", [0.5, 1.0])
def test_probabilities_are_those_counted_by_hand(baseline, chosen, phi):
    words = ["a", "not", "weak", "film"]
    heard = Heard()
    subset = [word in chosen for word in words]
    found = fans.pns(
        heard, "a not weak film", subset, background=["a film"], baseline=baseline, space=Text(mask="UNK"),
        radius=0.7, tolerance=0.05, estimator="exact", phi=phi,
    )  # fmt: skip

    def of_bits(rows: Any) -> Any:
        # 1: there, 0: masked, 2: gone; the latter two are at distance 1.
        made = [[w if bit == 1 else "UNK" for w, bit in zip(words, row, strict=True) if bit != 2] for row in rows]
        return rated([" ".join(some) for some in made])

    # The samples: the text itself and copies in which words are masked, as the model was asked about them.
    (samples,) = [some for some in heard.asked if len(some) == 50]
    bits = np.array([[0.0 if w == "UNK" else 1.0 for w in sample.split()] for sample in samples])
    missing = {"gone": np.full(4, 2.0), "mask": np.zeros(4)}[baseline]
    expected = exact_joint_pns(
        of_bits, np.ones(4), subset, bits, missing, 0.7, 0.05, phi=phi, std=np.ones(4), target=1,
        elements=[[k] for k in range(4)],
    )  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name)[0], value, rtol=0, atol=1e-9, err_msg=name)


def test_words_of_the_background_stand_in_as_often_as_they_are_there():
    pool = ["weak", "weak", "not", "fine"]
    found = fans.pns(
        rated, "weak film", ["weak"], background=["weak weak", "not fine"], baseline="background",
        radius=0.7, tolerance=0.05, target=1, n_factual=400, n_perturb=400,
    )  # fmt: skip
    heard = Heard()
    explainer = fans.Explainer(heard, ["weak weak", "not fine"], baseline="background", n_local=0, n_perturb=4000)
    one = explainer.score("weak film", ["weak"], target=1)
    before = rated(["weak film"])[0, 1]
    changes = np.mean([abs(rated([f"{word} film"])[0, 1] - before) > 0.1 for word in pool])
    holds = np.mean([abs(rated([f"weak {word}"])[0, 1] - before) <= 0.1 for word in pool])
    assert one.changes[0] == pytest.approx(changes, abs=0.03)
    assert one.holds[0] == pytest.approx(holds, abs=0.03)
    assert 0 < found.pns[0] < 1
    words = {word for some in heard.asked[1:] for text in some for word in text.split()}
    assert words == {"weak", "not", "fine", "film"}


def test_scores_of_leaving_one_out_are_differences():
    x = "a not weak film"
    scores = fans.Explainer(rated, TEXTS, method="feature_ablation").scores(x, target=1)
    without = [" ".join(w for j, w in enumerate(x.split()) if j != k) for k in range(4)]
    np.testing.assert_allclose(scores[0], rated([x])[0, 1] - rated(without)[:, 1], atol=1e-12)


def test_shapley_values_are_those_of_all_orders():
    x = ["a", "not", "weak", "film"]
    scores = fans.Explainer(rated, TEXTS, method="kernel_shap").scores(" ".join(x), target=1)
    expected = np.zeros(4)
    for order in itertools.permutations(range(4)):
        there = set[int]()
        for k in order:
            before, after = (" ".join(w for j, w in enumerate(x) if j in s) for s in (there, there | {k}))
            expected[k] += (rated([after]) - rated([before]))[0, 1] / 24
            there |= {k}
    np.testing.assert_allclose(scores[0], expected, atol=1e-6)


def test_planted_words_are_found(trained):
    x = ["this film is weak", "great, really", "so dull: a film and a cast"]
    explanation = fans.Explainer(trained, TEXTS)(x)
    assert [explanation.chosen_names(i)[0] for i in range(3)] == ["weak", "great", "dull"]
    assert explanation.target_names == ("bad", "good")


# --- Features and their names ----------------------------------------------------------------------------------------


def test_words_are_named_where_they_are_and_together():
    explainer = fans.Explainer(rated, TEXTS, n_local=0)
    text = "weak film, weak plot"
    for names, mask in (
        (["weak"], [1, 0, 1, 0]),
        ("weak (2nd)", [0, 0, 1, 0]),
        (["film", "weak (1st)"], [1, 1, 0, 0]),
    ):
        named, by_place = explainer.score(text, names), explainer.score(text, np.array(mask, bool))
        np.testing.assert_array_equal(named.pns, by_place.pns)
        assert named.changes[0] == float(names == ["weak"])
    with pytest.raises(fans.InputError, match="got 'weka', which is not in 'weak film, weak plot'; did you mean 'weak"):
        explainer.score("weak film, weak plot", ["weka"])


def test_words_may_be_tied():
    e = fans.Explainer(rated, TEXTS, space=Text(tied=True))("Weak film, weak plot")
    assert e.chosen_names() == ["Weak"]
    assert e.subset.shape == (1, 3)
    assert e.value(0, 0) == "in 2 places"


def test_one_subset_for_texts_of_different_lengths():
    explainer = fans.Explainer(rated, TEXTS)
    e = explainer(["weak", "a weak film"])
    by_mask = explainer.score(["weak", "a weak film"], e.subset)
    by_name = explainer.score(["weak", "a weak film"], ["weak"])
    np.testing.assert_array_equal(by_mask.pns, by_name.pns)


def test_sentences_are_features():
    text = "It was a long day. The film is weak! We went home."
    e = fans.Explainer(rated, TEXTS, space=Text(unit="sentence"))(text)
    assert e.chosen_names() == ["The film is weak!"]
    assert "(1 of 3 sentences)" in str(e)


def test_pieces_of_a_function():
    e = fans.Explainer(rated, TEXTS, space=Text(unit="token", tokenizer=lambda t: t.split(" ")))("a we-ak weak, film")
    assert e.chosen_names() == ["weak,"]
    assert "1 of 4 tokens" in str(e)


# --- What texts come in ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (list, list),
        (tuple, list),
        (np.array, np.ndarray),
        (lambda t: np.array(t, dtype=object), np.ndarray),
        (lambda t: pd.Series(t, index=list("abcd"), name="review"), pd.Series),
        (lambda t: t[0], list),
    ],
)
def test_texts_in_any_container(make, kind):
    seen = list[Any]()

    def model(texts: Any) -> Any:
        seen.append(texts)
        return rated(texts)

    given = make(TEXTS)
    assert isinstance(guess_space(given), Text)
    e = fans.Explainer(model, given, effort="low")(given)
    assert {type(some) for some in seen} == {kind}
    whole = [TEXTS[0]] if isinstance(given, str) else TEXTS
    expected = fans.Explainer(rated, whole, effort="low")(whole, ids=e.ids)
    np.testing.assert_array_equal(e.scores, expected.scores)
    assert e.ids == (("a", "b", "c", "d") if kind is pd.Series else tuple(range(len(whole))))


def test_a_series_with_equal_labels_goes_by_places():
    series = pd.Series(["weak", "film"], index=[1, 1])
    with pytest.warns(fans.FansWarning, match="has equal labels, so that its texts go by their places; pass `ids=`"):
        assert fans.Explainer(rated, TEXTS, effort="low")(series).ids == (0, 1)


def test_what_is_no_text_is_left_to_others():
    assert not isinstance(guess_space(pd.DataFrame({"a": ["x", "y"]})), Text)
    assert not isinstance(guess_space(np.array([["x", "y"]])), Text)
    with pytest.raises(fans.InputError, match="texts, whose words are their own names, got some; leave them out"):
        fans.Explainer(rated, TEXTS, feature_names=["a"])


# --- Estimators ------------------------------------------------------------------------------------------------------


def test_regressors():
    model = make_pipeline(CountVectorizer(), Ridge(0.1)).fit(TEXTS, [1.0, 0.0, 1.0, 0.0])
    e = fans.Explainer(model, TEXTS)("a weak plot")
    assert e.kind == "output"
    assert e.chosen_names()[0] == "weak"


def test_an_estimator_without_its_vectorizer():
    model = LogisticRegression().fit(TfidfVectorizer().fit_transform(TEXTS), LABELS)
    with pytest.raises(fans.ModelError, match=r"Expected LogisticRegression to take a list of texts, got ValueError: .*"
                       "; pass the whole pipeline, with the vectorizer that makes numbers of texts"):  # fmt: skip
        fans.Explainer(model, TEXTS)


# --- Bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ("", "Expected texts with a word in them, got an empty string at 0 of x; leave it out"),
        (["weak", " ... "], "Expected texts with a word in them, got ' ... ' at 1 of x; leave it out"),
        ([], "Expected at least one text in x, got none"),
        (["weak", None], r"Expected texts as strings in x, got a missing value \(None\) at 1; leave it out"),
        (pd.Series(["weak", np.nan], dtype=object), r"got a missing value \(nan\) at 1; leave it out"),
        (pd.Series(["weak", pd.NA], dtype=object), r"got a missing value \(<NA>\) at 1; leave it out"),
        ([b"weak"], 'got bytes at 0; decode it, as in text.decode'),
        (b"weak", 'got bytes; decode it, as in text.decode'),
        ([101, 2023], "got int at 0; pass the strings themselves, not token ids or their vectors: space=fans.spaces"),
        (np.array([[101.0, 2.0]]), r"got float64 of shape \(1, 2\); pass the strings themselves, not token ids"),
        ([["weak"]], "got list at 0; pass the strings themselves"),
        (3, "got int; pass the strings"),
        ({"text": "weak"}, "got dict; pass a list of strings"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(x, words):
    explainer = fans.Explainer(rated, TEXTS)
    with pytest.raises(fans.InputError, match=words):
        explainer(x)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"unit": "letter"}, "Expected `unit` to be one of 'word', 'token', 'sentence', got 'letter'"),
        ({"unit": "token"}, 'Expected a `tokenizer` for unit="token", got none; pass one of transformers'),
        ({"tokenizer": 3}, "Expected `tokenizer` as one of transformers or as a function .* got int"),
        ({"mask": " "}, "Expected `mask` as a word, e.g. .* got ' '"),
        ({"most": 0}, "Expected `most` as a whole number of at least 1, got 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(fans.InputError, match=words):
        Text(**settings)


def test_bad_baselines_and_backgrounds():
    with pytest.raises(fans.InputError, match=r'Expected a mask token for baseline="mask", got a tokenizer without'):
        fans.Explainer(rated, TEXTS, baseline="mask")
    with pytest.raises(
        fans.InputError, match=r"Expected `baseline` by name for texts, one of 'auto', 'gone', .* got 0"
    ):
        fans.Explainer(rated, TEXTS, baseline=0)
    with pytest.raises(fans.InputError, match=r"Expected `baseline` to be one of .*; did you mean 'mask'"):
        fans.Explainer(rated, TEXTS, baseline="maks")
    with pytest.raises(fans.InputError, match="Expected texts with something in them as background, got none"):
        fans.Explainer(rated, ["", "..."])
    with pytest.raises(fans.InputError, match="Expected texts as strings in background, got float64 of shape"):
        fans.Explainer(rated, np.ones((3, 4)), space=Text())
    with pytest.raises(fans.InputError, match="Expected a tolerance as a number for texts"):
        fans.Explainer(rated, TEXTS, tolerance="noise")(TEXTS)


def test_empty_texts_may_be_in_the_background():
    assert fans.Explainer(rated, ["", *TEXTS])("weak").chosen_names() == ["weak"]


def test_one_word():
    e = fans.Explainer(rated, TEXTS)("weak")
    assert e.chosen_names() == ["weak"]
    assert e.pns[0] == 1


def test_ten_thousand_words():
    text = "the plot goes on " * 1250 + "it was weak. " + "the plot goes on " * 1250
    started = time.perf_counter()
    with pytest.warns(fans.FansWarning, match="Text 0 of more than 500 words is cut into 100 passages, which are its "
                      "features; pass fans.spaces.Text"):  # fmt: skip
        e = fans.Explainer(lambda texts: [1.0 - 0.9 * ("weak" in t) for t in texts], TEXTS, effort="low")(text)
    assert time.perf_counter() - started < 60
    assert e.scores.shape == (1, 100)
    assert len(e.chosen_names()) == 1
    assert "(1 of 100 passages)" in str(e)
    assert "weak" in text[slice(*e.details["spans"][0][int(e.subset[0].argmax())][0])]


def test_as_many_words_as_asked_for():
    text = "on and on " * 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fans.Explainer(rated, TEXTS, effort="low", space=Text(most=120))(text).scores.shape == (1, 120)
    with pytest.warns(fans.FansWarning, match="is cut into 100 passages"):
        assert fans.Explainer(rated, TEXTS, effort="low", space=Text(most=119))(text).scores.shape == (1, 100)


# --- Draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["gone", "background"])
def test_whatever_the_batches_and_the_order(baseline):
    x = ["a weak film", "not so weak, they say, and weak", "fine"]
    settings = {"baseline": baseline, "effort": "low"}
    e = fans.Explainer(rated, TEXTS, **settings)(x, ids=["a", "b", "c"])
    again = fans.Explainer(rated, TEXTS, max_batch=7, **settings)(x[::-1], ids=["c", "b", "a"])
    for name in ("scores", "subset", "pns", "interval"):
        np.testing.assert_array_equal(getattr(e, name), getattr(again, name)[::-1], err_msg=name)


@pytest.mark.parametrize("baseline", ["gone", "background"])
def test_an_explainer_may_be_pickled(trained, baseline):
    explainer = fans.Explainer(trained, np.array(TEXTS), baseline=baseline, effort="low")
    again = pickle.loads(pickle.dumps(explainer))  # noqa: S301
    np.testing.assert_array_equal(explainer("a weak film").scores, again("a weak film").scores)


# --- Metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_remove_words():
    x = ["a not weak film", "weak", "so weak a film"]
    explainer = fans.Explainer(rated, TEXTS, method="feature_ablation")
    e = explainer.attribute(x, target=1)
    metrics: list[Any] = [
        fans.metrics.metric("deletion", fill=0.0),
        fans.metrics.metric("insertion", fill=0.0),
        "sparseness",
    ]
    found = fans.evaluate(e, metrics, explainer=explainer)
    for i, text in enumerate(x):
        words = text.split()
        order = np.argsort(-e.scores[i, : len(words)], kind="stable")
        for name, inserted in (("deletion", False), ("insertion", True)):
            curve = []
            for n in range(len(words) + 1):
                there = set(order[:n] if inserted else order[n:])
                curve.append(rated([" ".join(w for k, w in enumerate(words) if k in there)])[0, 1])
            assert found[name][i] == pytest.approx(np.trapezoid(curve) / len(words), abs=1e-9), (text, name)


def test_metrics_that_move_words_a_little():
    explainer = fans.Explainer(rated, TEXTS, effort="low")
    e = explainer(["a weak film"])
    with pytest.raises(fans.InputError, match=r"Expected a word that is there \(1\), gone \(0\) or masked \(-1\), got"):
        fans.evaluate(e, ["fidelity_plus"], explainer=explainer)
    with pytest.raises(fans.InputError, match="Expected metrics of features that are there or not, got 'max_sens"):
        fans.evaluate(e, ["max_sensitivity"], explainer=explainer)
    with pytest.raises(fans.InputError, match="nodes or, beside its `explainer`, texts, got one of sparse rows"):
        fans.evaluate(e, ["sparseness"], model=rated)
