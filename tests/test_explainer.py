"""The explainer: what it promises of its results, its draws, its costs and its files."""

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fans
from tests.planted import BACKGROUND, INPUTS, check_same, network, rule


@pytest.fixture(scope="module")
def explanation() -> fans.Explanation:
    return fans.Explainer(rule, BACKGROUND)(INPUTS)


def test_it_finds_the_two_columns_of_the_rule(explanation):
    assert (explanation.subset[:, :2].sum(axis=1) > 0).all()
    assert not explanation.subset[:, 2:].any()
    assert (explanation.scores[:, :2].max(axis=1) > 5 * explanation.scores[:, 2:].max(axis=1)).all()
    assert (explanation.scores.mean(axis=0)[:2] > 10 * np.abs(explanation.scores.mean(axis=0)[2:]).max()).all()
    assert explanation.target.tolist() == rule(INPUTS).argmax(axis=1).tolist()
    assert explanation.prediction == pytest.approx(rule(INPUTS).max(axis=1))


def test_the_strict_estimate_is_that_of_score_up_to_its_error(explanation):
    """Another draw of the same quantity: the explainer's `score` of the subset it returned, at its tolerance."""
    for i in range(3):
        asked = fans.Explainer(rule, BACKGROUND, tolerance=float(explanation.tolerance[i]), n_factual=32, n_perturb=32)
        found = asked.score(INPUTS[i], explanation.subset[i], ids=[i])
        low, high = explanation.interval[i, 0]
        assert low - 0.02 < found.pns[0] < high + 0.02


@pytest.mark.parametrize("max_batch", [1, 7, 64, 100_000])
def test_batch_size_chunking_and_order_do_not_matter(max_batch):
    model = network()
    rows, background = INPUTS.astype(np.float32), BACKGROUND.astype(np.float32)
    settings: dict[str, Any] = {"n_pairs": 20, "n_sweep": 100, "n_background": 10, "n_local": 5, "radius": 2.0}
    whole = fans.Explainer(model, background, **settings)(rows)
    order = [5, 2, 8] if max_batch > 1 else [5]
    part = fans.Explainer(model, background, max_batch=max_batch, **settings)(rows[order], ids=order)
    check_same(part, whole[order], 1e-5)


@pytest.mark.parametrize("settings", [{}, {"solver": "chain", "n_steps": 3}, {"solver": "game"}])
def test_the_scores_alone_are_those_of_the_explanation(settings):
    model, counted = network(), []
    explainer = fans.Explainer(model, BACKGROUND, **settings)
    whole = explainer(INPUTS, target=1, ids=range(20, 29))
    model.register_forward_hook(lambda *call: counted.append(len(call[2])))
    assert explainer.scores(INPUTS, target=1, ids=range(20, 29)) == pytest.approx(whole.scores, abs=1e-6)
    # The game asks about the neighbours too, the chain about the input alone.
    around = whole.evaluations["reference"] if settings.get("solver") == "game" else np.ones(9, int)
    assert sum(counted) == (around + whole.evaluations["scoring"]).sum()


def test_the_seed_changes_the_draws_and_fixes_them():
    one, again, other = (fans.Explainer(rule, BACKGROUND, seed=s)(INPUTS[:2]) for s in (1, 1, 2))
    check_same(one, again)
    assert np.abs(one.pns - other.pns).max() > 1e-4
    assert (one.scores == other.scores).all()  # walks take no seed
    games = [fans.Explainer(rule, BACKGROUND, seed=s, solver="game")(INPUTS[:2]) for s in (1, 2)]
    assert np.abs(games[0].scores - games[1].scores).max() > 1e-4


def test_ids_may_be_names(explanation):
    named = fans.Explainer(rule, BACKGROUND)(INPUTS[:2], ids=["first", "second"])
    assert named.ids == ("first", "second")
    assert np.abs(named.pns - explanation.pns[:2]).max() > 1e-6
    assert np.array_equal(named.scores, explanation.scores[:2])  # all inputs take the same walks
    game = fans.Explainer(rule, BACKGROUND, solver="game")
    assert np.abs(game.scores(INPUTS[:2], ids=["first", "second"]) - game.scores(INPUTS[:2])).max() > 1e-6


def test_every_model_row_is_counted():
    rows_seen = []

    def model(rows: np.ndarray) -> np.ndarray:
        rows_seen.append(len(rows))
        return rule(rows)

    explainer = fans.Explainer(model, BACKGROUND, max_batch=500)
    e = explainer(INPUTS[:4])
    assert sum(rows_seen) == int(e.n_evaluations.sum()) + int(e.evaluations["shared"])
    assert max(rows_seen) <= 500
    assert set(e.evaluations) == {"reference", "scoring", "sweep", "direct", "strict", "shared"}
    before = sum(rows_seen)
    found = explainer.score(INPUTS[:2], np.arange(6) < 2)
    assert sum(rows_seen) - before == found.n_evaluations


def test_targets_go_by_their_names():
    explainer = fans.Explainer(network(), BACKGROUND, target_names=["ant", "bee", "cat"], n_pairs=50)
    e = explainer(INPUTS[:2], target=["cat", "ant"])
    assert e.target_names == ("ant", "bee", "cat")
    assert e.target.tolist() == [2, 0]
    assert "P(cat)" in e.sentences[0]
    check_same(e, fans.Explainer(network(), BACKGROUND, n_pairs=50)(INPUTS[:2], target=[2, 0]))


@pytest.mark.parametrize("names", [["ant", "bee"], ["ant", "bee", "ant"], "ant", 3, []])
def test_as_many_different_names_as_outputs(names):
    with pytest.raises(fans.InputError, match=r"as 3 different names, one per output of the model, got .*"):
        fans.Explainer(network(), BACKGROUND, target_names=names)


def test_a_target_for_each_input():
    explainer = fans.Explainer(network(), BACKGROUND, radius=2.0)
    e = explainer(INPUTS[:3], target=[2, 0, 1])
    assert e.target.tolist() == [2, 0, 1]
    probabilities = torch.softmax(network()(torch.tensor(INPUTS[:3]).float()), 1).detach().numpy()
    assert e.prediction == pytest.approx(probabilities[range(3), [2, 0, 1]], abs=1e-6)


def test_a_regressor_and_its_sentence():
    model = RandomForestRegressor(20, random_state=0).fit(BACKGROUND, 3 * BACKGROUND[:, 2])
    e = fans.Explainer(model, BACKGROUND)(INPUTS[0])
    assert e.chosen_names() == ["x3"]
    assert e.kind == "output"
    assert "the output moves by more than" in e.sentences[0]


def test_frames_with_text_keep_their_names():
    colour = np.where(BACKGROUND[:, 0] > 0, "red", "blue")
    frame = pd.DataFrame({"colour": colour, "size": BACKGROUND[:, 1], "noise": BACKGROUND[:, 2]})
    label = np.where(colour == "red", "yes", "no")
    encoder = ColumnTransformer([("colour", OneHotEncoder(), ["colour"])], remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression(C=100)).fit(frame, label)
    e = fans.Explainer(model, frame)(frame.iloc[:4])
    assert e.feature_names == ("colour", "size", "noise")
    assert all(e.chosen_names(i) == ["colour"] for i in range(4))
    assert e.value(0, 0) == colour[0]
    assert f"P({label[0]})" in e.sentences[0]
    explainer = fans.Explainer(model, frame)
    right, wrong = (explainer.score(frame.iloc[:1], names, target="yes") for names in (["colour"], ["size", "noise"]))
    assert right.interval[0, 0, 0] > wrong.interval[0, 0, 1]


def test_the_callers_arrays_and_model_are_left_alone():
    model, x, background = network(), INPUTS.copy(), BACKGROUND.copy()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    fans.Explainer(model, background, radius=2.0)(x)
    assert np.array_equal(x, INPUTS)
    assert np.array_equal(background, BACKGROUND)
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert model.training


def test_a_thin_neighbourhood_warns_once_for_the_whole_call():
    with pytest.warns(fans.FansWarning, match=r"of 9 estimates rest on fewer than 5") as caught:
        fans.Explainer(rule, BACKGROUND, radius=0.01, max_batch=64, n_local=0)(INPUTS)
    assert len(caught) == 1


@pytest.mark.parametrize("tolerance", [None, "noise", "paper", 0.07])
def test_the_tolerance_is_that_of_pns(tolerance):
    """On a background of which all rows are used, the tolerance is that of `fans.pns`, the same for all inputs."""
    rows = BACKGROUND * np.array([1.0, 5.0, 1, 1, 1, 1])
    found = fans.Explainer(rule, rows, n_background=150, radius=3.0, tolerance=tolerance)(rows[:3])
    asked = {
        c: fans.pns(rule, rows[0], np.arange(6) < 2, background=rows, n_factual=1, n_perturb=1, radius=3.0, tolerance=c)
        for c in (None, "noise", "paper", 0.07)
    }
    assert found.tolerance == pytest.approx(np.full(3, asked[tolerance].tolerance[0]), rel=1e-9)
    assert len({p.tolerance[0] for p in asked.values()}) == 4
    assert asked[None].tolerance[0] == 0.1


@pytest.mark.parametrize("weight", [1.0, 100.0])
def test_a_regressors_tolerance_is_a_tenth_of_its_deviation(weight):
    """So that the unit of the output plays no part in what is chosen."""
    model = lambda rows: weight * (rows[:, 0] + 0.5 * rows[:, 3])
    found = fans.Explainer(model, BACKGROUND)(INPUTS[:3])
    assert found.tolerance == pytest.approx(0.1 * model(BACKGROUND).std())
    same = fans.Explainer(lambda rows: model(rows) / weight, BACKGROUND)(INPUTS[:3])
    assert np.array_equal(found.subset, same.subset)
    assert found.pns == pytest.approx(same.pns)


def test_without_background_samples_the_noise_rule_still_has_the_background():
    settings: dict[str, Any] = {"radius": 3.0, "tolerance": "noise", "n_pairs": 20}
    expected = fans.Explainer(rule, BACKGROUND, n_background=len(BACKGROUND), **settings)(INPUTS[0]).tolerance
    assert fans.Explainer(rule, BACKGROUND, n_background=0, **settings)(INPUTS[0]).tolerance == expected > 0


def test_directions_are_the_change_of_the_output_when_a_feature_alone_is_missing():
    """By hand, against a fixed baseline; unread columns move nothing."""
    found = fans.Explainer(rule, BACKGROUND, baseline=0.5)(INPUTS)
    for i, row in enumerate(INPUTS):
        for j in range(6):
            without = row.copy()
            without[j] = 0.5
            moved = (rule(without[None]) - rule(row[None]))[0, found.target[i]]
            assert found.direction[i, j] == pytest.approx(moved, abs=1e-12)
    assert (found.evaluations["direct"] == 0).all()  # walks have told
    game = fans.Explainer(rule, BACKGROUND, baseline=0.5, solver="game")(INPUTS)
    assert game.direction == pytest.approx(found.direction, abs=1e-12)
    assert (game.evaluations["direct"] == 6).all()


def test_a_subset_need_not_be_larger_for_less():
    sizes = [
        fans.Explainer(rule, BACKGROUND, enough=enough, members="pns")(INPUTS).subset.sum(axis=1)
        for enough in (0.3, 0.6, 0.9, 1.0)
    ]
    for smaller, larger in itertools.pairwise(sizes):
        assert (smaller <= larger).all()


def test_where_nothing_changes_the_prediction_the_subset_is_empty_and_says_so():
    found = fans.Explainer(lambda rows: np.tile([0.3, 0.7], (len(rows), 1)), BACKGROUND)(INPUTS[:2])
    assert not found.subset.any()
    assert (found.stability == 0).all()
    assert (found.pns == 0).all()
    assert (found.changes == 0).all()
    assert (found.holds == 1).all()
    assert (found.direction == 0).all()
    told = "Nothing changes P(1): whatever is changed near this input, it stays within 0.1 in 100 % of trials."
    assert all(sentence.startswith(told) for sentence in found.sentences)


@pytest.mark.parametrize("model", [rule, network()], ids=["game", "chain"])
def test_more_effort_is_more_rows_and_every_setting_may_still_be_overridden(model):
    efforts: tuple[Any, ...] = ("low", "normal", "high")
    rows = [fans.Explainer(model, BACKGROUND, effort=effort)(INPUTS[:2]).n_evaluations for effort in efforts]
    assert (2 * rows[0] < rows[1]).all()
    assert (2 * rows[1] < rows[2]).all()
    check_same(
        fans.Explainer(model, BACKGROUND)(INPUTS[:2]), fans.Explainer(model, BACKGROUND, effort="normal")(INPUTS[:2])
    )
    own = fans.Explainer(model, BACKGROUND, effort="high", n_local=9, n_sweep=50)(INPUTS[:1])
    assert own.evaluations["reference"][0] == 10
    assert own.evaluations["sweep"][0] <= 100


def test_real_data_beats_a_random_subset_of_the_same_size():
    """Breast cancer, forest: the returned subset against its random twin, on the explainer's own measure."""
    data = load_breast_cancer()
    model = RandomForestClassifier(50, min_samples_leaf=3, random_state=0).fit(data.data[:400], data.target[:400])
    explainer = fans.Explainer(model, data.data[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.FansWarning)
        e = explainer(data.data[400:420])
        rng = np.random.default_rng(0)
        twins = np.array([rng.permutation(row) for row in e.subset])
        gap = explainer.score(data.data[400:420], e.subset).pns - explainer.score(data.data[400:420], twins).pns
    assert gap.mean() > 2 * gap.std() / math.sqrt(len(gap))


def test_what_is_prepared_beforehand_is_what_an_explanation_would_find():
    """Also with a module left in training mode, whose dropout must not speak."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    early, late = (fans.Explainer(model, rows, tolerance="noise") for _ in range(2))
    assert early.prepare() == {}
    found, expected = early(rows[:3]), late(rows[:3])
    assert model.training
    assert found.tolerance.tolist() == expected.tolerance.tolist()
    assert found.evaluations["shared"] == expected.evaluations["shared"]


def test_a_sweep_of_anybodys_scores_is_what_an_explanation_chooses():
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(60, 8)), rng.normal(size=(5, 8))
    explainer = fans.Explainer(lambda rows: 1 / (1 + np.exp(-rows @ np.arange(8.0))), background, n_sweep=300)
    explanation = explainer(x)
    assert np.array_equal(explainer.sweep(x, explanation.scores), explanation.subset)
    worst = explainer.sweep(x, -explanation.scores)
    assert worst.shape == (5, 8)
    found = [explainer.score(x, subset).pns.mean() for subset in (explanation.subset, worst)]
    assert found[0] > found[1]
    few, none = explanation.scores[:, :3], np.full((5, 8), np.nan)
    for bad, message in ((few, r"shape \(5, 8\).*got \(5, 3\)"), (none, "finite")):
        with pytest.raises(fans.InputError, match=message):
            explainer.sweep(x, bad)
