"""PNS against size and tolerance, held to sums written out by hand, and trials made again."""

import json

import numpy as np
import pytest

import fans


def model(x):
    return np.tanh(x[:, 0]) + 0.5 * np.tanh(x[:, 1] * x[:, 2]) + 0.05 * x[:, 3]


ROWS = np.random.default_rng(0).normal(0, 1.5, (60, 5))
X = np.array([[1.5, 1.0, -1.0, 0.3, 0.0], [-0.5, 2.0, 1.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def explainer():
    """With the background and the input itself as samples, and zero for what is missing: nothing is drawn."""
    return fans.Explainer(model, ROWS, baseline=0.0, n_background=60, n_local=0, task="regression")


@pytest.fixture(scope="module")
def explanation(explainer):
    return explainer(X)


@pytest.fixture(scope="module")
def curve(explainer, explanation):
    return explainer.curve(explanation)


def by_hand(x, subset, radius, tolerance):
    """The joint PNS, changes and holds of perturbing everything in a subset, and everything else, to zero."""
    samples = np.vstack([ROWS, x])
    weights = np.exp(-(((samples - x) / ROWS.std(0)) ** 2).mean(1) / (2 * radius**2))
    without, alone = (np.where(mask, 0.0, samples) for mask in (subset, ~subset))
    changed = np.abs(model(without) - model(samples)) > tolerance
    held = np.abs(model(alone) - model(samples)) <= tolerance
    return [np.average(event, weights=weights) for event in (changed & held, changed, held)]


def test_every_size_and_tolerance_is_what_the_sums_say(explanation, curve):
    for i, x in enumerate(X):
        assert curve.sizes[i].tolist() == [0, 1, 2, 3, 4, 5]
        for k, size in enumerate(curve.sizes[i]):
            subset = np.isin(np.arange(5), curve.order[i, :size])
            for t, tolerance in enumerate(curve.tolerances[i]):
                found = [curve.pns[i, k, t], curve.changes[i, k, t], curve.holds[i, k, t]]
                pns, changes, holds = by_hand(x, subset, explanation.radius[i], tolerance)
                assert found == pytest.approx([pns, changes, 1.0 if size == 5 else holds])


def test_at_the_own_size_and_tolerance_it_is_the_explanation(explanation, curve):
    for i in range(2):
        at = (i, curve.chosen[i], curve.used[i])
        assert set(curve.order[i, : curve.sizes[i, curve.chosen[i]]]) == set(np.flatnonzero(explanation.subset[i]))
        assert curve.tolerances[i, curve.used[i]] == explanation.tolerance[i]
        assert [curve.pns[at], curve.changes[at], curve.holds[at]] == [
            explanation.pns[i],
            explanation.changes[i],
            explanation.holds[i],
        ]
        assert np.array_equal(curve.intervals[at][0], explanation.interval[i, 0])
        assert np.array_equal(curve.intervals[at][1:], explanation.share_interval[i])


def test_the_subset_comes_first_then_higher_scores(explanation, curve):
    for i in range(2):
        n = explanation.subset[i].sum()
        scores = explanation.scores[i, curve.order[i]]
        assert (np.diff(scores[:n]) <= 0).all()
        assert (np.diff(scores[n:]) <= 0).all()


def test_it_does_not_depend_on_its_company(explainer, explanation, curve):
    alone = explainer.curve(explanation[1])
    assert alone.pns[0] == pytest.approx(curve.pns[1], abs=1e-12)
    assert curve[1].ids == alone.ids == (1,)
    assert alone.n_evaluations < curve.n_evaluations


def test_it_is_saved_and_read_again_and_can_be_json(curve, tmp_path):
    again = fans.Curve.load(curve.save(tmp_path / "curve.safetensors"))
    assert np.array_equal(again.intervals, curve.intervals, equal_nan=True)
    assert (again.ids, again.confidence, again.n_evaluations) == (curve.ids, curve.confidence, curve.n_evaluations)
    told = json.loads(json.dumps(curve.to_json(1)))
    assert told["pns"][told["chosen"]][told["used"]] == round(float(curve.pns[1, curve.chosen[1], curve.used[1]]), 4)
    assert [round(at, 6) for at in told["tolerances"]] == pytest.approx(curve.tolerances[1].tolist(), rel=1e-4)
    (tmp_path / "other.safetensors").write_bytes(b"no curve")
    with pytest.raises(fans.InputError, match=r"saved with `save`, got .*other\.safetensors"):
        fans.Curve.load(tmp_path / "other.safetensors")
    with pytest.raises(IndexError, match="below 2, got 2"):
        curve[2]


def test_nodes_that_differ_in_size_and_texts_have_curves():
    from fans.datasets import load_graph
    from fans.networks import load

    graph = fans.Explainer(load("ba_community")[0], load_graph("ba_community"), effort="low")
    found = graph([430, 400])
    curve = graph.curve(found, most=4)
    at = (np.arange(2), curve.chosen, curve.used)
    assert curve.pns[at] == pytest.approx(found.pns, abs=1e-6)
    assert curve.sizes.max(1).tolist() == found.present.sum(1).tolist()

    texts = ["good film", "bad film, really bad", "good good day"]
    text = fans.Explainer(lambda some: np.array([s.count("good") / 3 for s in some]), texts, task="regression")
    found = text(texts)
    assert text.curve(found).sizes.max(1).tolist() == [2, 4, 3]
    assert text.curve(found[1]).pns[0, -1] == pytest.approx(text.curve(found).pns[1, 4], nan_ok=True)


def test_trials_are_what_was_perturbed_and_what_the_model_said(explainer, explanation):
    subset = np.array([True, False, False, True, False])
    found = explainer.trials(X, subset, n=6)
    for side, gone in (("changed", subset), ("kept", ~subset)):
        assert found.inputs[side].shape == (2, 6, 5)
        assert np.array_equal(found.inputs[side], np.where(gone, 0.0, found.before[side]))
        for i in range(2):
            assert found.outputs[side][i] == pytest.approx(model(found.inputs[side][i]))
            assert found.outputs_before[side][i] == pytest.approx(model(found.before[side][i]))
            apart = np.abs(found.outputs[side][i] - found.outputs_before[side][i])
            assert np.array_equal(found.moved[side][i], apart > explanation.tolerance[i])
            assert (np.diff(found.weights[side][i]) <= 0).all()
            assert np.array_equal(found.given[side][i], found.inputs[side][i])
    assert found.moved["changed"][0].sum() == 3
    assert found.weights["changed"].max() == 1


def test_trials_with_drawn_baselines_are_those_of_the_score():
    rows = np.random.default_rng(1).normal(size=(40, 4))
    explainer = fans.Explainer(model_of_four, rows, n_local=5, n_perturb=2)
    subset = np.array([True, True, False, False])
    found = explainer.trials(rows[:1], subset, n=12)  # all of 6 samples, 2 perturbations each
    scored = explainer.score(rows[:1], subset)
    assert np.average(found.moved["changed"][0], weights=found.weights["changed"][0]) == pytest.approx(
        scored.changes[0], abs=1e-9
    )
    assert 1 - np.average(found.moved["kept"][0], weights=found.weights["kept"][0]) == pytest.approx(
        scored.holds[0], abs=1e-9
    )


def model_of_four(x):
    return np.tanh(x[:, 0]) + 0.5 * np.tanh(x[:, 1] * x[:, 2]) + 0.05 * x[:, 3]


def test_inputs_are_given_again_as_they_were():
    import pandas as pd

    frame = pd.DataFrame({"a": [1.5, np.nan, 2.0, 0.5], "b": ["x", "y", None, "x"]})
    explainer = fans.Explainer(lambda rows: rows["a"].fillna(0).to_numpy() + (rows["b"] == "x"), frame)
    pd.testing.assert_frame_equal(explainer.inputs_of(explainer(frame)), frame, check_dtype=False)


def test_what_cannot_be_told_is_asked_for():
    from scipy import sparse

    rows = sparse.csr_matrix(np.eye(6)[:, :5])
    explainer = fans.Explainer(lambda x: np.asarray(x.sum(1)).ravel(), rows)
    found = explainer(rows[:2])
    with pytest.raises(fans.InputError, match=r"an explanation of .*which does not tell; pass `x=`"):
        explainer.curve(found)
    assert explainer.curve(found, rows[:2]).sizes.tolist() == [[0, 1], [0, 1]]
    dense = fans.Explainer(model, ROWS, baseline=0.0, estimator="exact", n_local=2)
    with pytest.raises(fans.InputError, match='got estimator="exact"'):
        dense.trials(X[:1], [True] * 5)
    with pytest.raises(fans.InputError, match=r"`n` .*got 0"):
        dense.trials(X[:1], [True] * 5, n=0)
