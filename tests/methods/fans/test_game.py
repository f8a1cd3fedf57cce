"""The game: Banzhaf values of PNS against enumeration, its samples, its regression, its ablations."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.engine import perturbation
from fans.engine.neighbourhood import InputBatch
from fans.methods.fans.game import Observed, _changed, _samples, fit
from fans.spaces import Table
from tests import oracles
from tests.methods.blocks import inputs_of

WEIGHTS = np.array([2.0, -1.5, 1.0, 0.0])


def model(rows: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(rows @ WEIGHTS + rows[:, 0] * rows[:, 2])))


def explainer(background: np.ndarray, **settings) -> fans.Explainer:
    everything: dict[str, Any] = {"n_background": len(background), "n_local": 0, "baseline": 0.0, "solver": "game"}
    return fans.Explainer(model, background, **everything | settings)


def joint_pns(members: tuple[bool, ...], x: Any, samples: Any, std: Any, radius: float, c: float, phi: float) -> float:
    """Of the samples weighed by closeness on all features: how often s changes the prediction and the rest does not."""
    sides = [[j for j in range(4) if members[j] == wanted] for wanted in (True, False)]
    total = weights = 0.0
    for row in samples:
        often = [
            sum(p * (oracles.change_of(model, row, hit, np.zeros(4), "target", 0) > c) for hit, p in patterns)
            for patterns in (list(oracles.patterns(side, phi)) for side in sides)
        ]
        near = oracles.closeness(x, row, range(4), std, radius, "gaussian", "rms")
        weights += near
        total += near * often[0] * (1 - often[1])
    return total / weights


@pytest.mark.parametrize("phi", [1.0, 0.5, 0.3])
def test_scores_are_the_banzhaf_values_of_the_joint_pns(phi):
    """The joint probability of a change by the subset and none by the rest, at a tolerance that the user gave.

    The slopes are those of hits; a player is perturbed with probability phi.
    """
    background, x = np.random.default_rng(0).normal(size=(40, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    samples = np.vstack([background, x])  # the explainer adds the input itself
    found = explainer(background, n_pairs=40_000, phi=phi, radius=0.9, tolerance=0.15)(x)
    values = {
        m: joint_pns(m, x, samples, background.std(0), 0.9, 0.15, phi)
        for m in itertools.product([False, True], repeat=4)
    }
    expected = oracles.banzhaf(values.__getitem__, 4)
    assert found.scores[0] == pytest.approx(expected, abs=0.02)
    assert found.scores_se is not None
    assert np.abs(found.scores[0] - expected).max() < 4.5 * found.scores_se[0].max()
    estimated = fans.pns(
        *(model, x, [True, False, True, False]), background=samples, baseline=0.0, radius=0.9, tolerance=0.15,
        phi=phi, estimator="exact", space=Table(),
    )  # fmt: skip
    again = joint_pns((True, False, True, False), x, samples, samples.std(0), 0.9, 0.15, phi)
    assert float(estimated.pns[0]) == pytest.approx(again, abs=1e-9)


@pytest.mark.parametrize("phi", [0.5, 0.3])
def test_scores_are_the_banzhaf_values_of_the_papers_pns(phi):
    """Exactly so where all samples are equally close: hard kernels, a radius that holds everything."""
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(40, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    samples = np.vstack([background, x])  # the explainer adds the input itself
    settings: dict[str, Any] = {"kernel": "indicator", "radius": 100.0, "tolerance": 0.15, "phi": phi}
    found = explainer(background, n_pairs=40_000, closeness="subset", **settings)(x)

    def value(members: tuple[bool, ...]) -> float:
        return oracles.exact_pns(
            model, x, members, samples, np.zeros(4), 100.0, 0.15, kernel="indicator", phi=phi
        )["pns"]  # fmt: skip

    # s = all drops its second term by definition, and s = none has nothing: the game is PNS before that exception.
    values = {m: value(m) for m in itertools.product([False, True], repeat=4)}
    values[(True,) * 4] *= 2
    expected = oracles.banzhaf(lambda m: values[m], 4)
    assert found.scores[0] == pytest.approx(expected, abs=0.012)
    assert found.scores_se is not None
    assert np.abs(found.scores[0] - expected).max() < 4.5 * found.scores_se[0].max()


@pytest.mark.parametrize(("without", "share"), [("SF", 0.5), ("NC", 0.5), ("SR", 1.0)])
def test_ablated_scores_where_all_samples_are_equally_close(without, share):
    """Either term of PNS is then half of it, and sampling by closeness makes no difference."""
    background, x = np.random.default_rng(0).normal(size=(40, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    settings: dict[str, Any] = {"kernel": "indicator", "radius": 100.0, "tolerance": 0.15, "n_pairs": 20_000}
    settings |= {"closeness": "subset", "phi": 0.5}
    whole, part = (explainer(background, without=w, **settings)(x) for w in (None, without))
    assert part.scores == pytest.approx(share * whole.scores, abs=1e-12 if without != "SR" else 0.02)


@pytest.mark.parametrize("without", ["SF", "NC"])
def test_an_ablation_is_the_banzhaf_value_of_the_other_term(without):
    """Without sufficiency a subset's value is PN P(A,B) / 2, without necessity PS P(not-A,not-B) / 2.

    Up to what the regression neglects: that a feature also moves samples nearer or farther as it joins.
    """
    background, x = np.random.default_rng(0).normal(size=(40, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    samples = np.vstack([background, x])
    settings: dict[str, Any] = {"kernel": "indicator", "radius": 0.9, "tolerance": 0.15}
    settings |= {"closeness": "subset", "phi": 0.5}
    found = explainer(background, n_pairs=60_000, without=without, **settings)(x).scores[0]

    def terms(members: tuple[bool, ...]) -> tuple[float, float]:
        e = oracles.exact_pns(
            *(model, x, members, samples, np.zeros(4), 0.9, 0.15), kernel="indicator", std=background.std(0)
        )
        if all(members):  # before the exception for s = all, all samples are near outside it
            everything = [
                sum(p * (oracles.change_of(model, row, hit, np.zeros(4), "target", 0) > 0.15) for hit, p in hits)
                for row in samples
                for hits in [list(oracles.patterns(range(4), 0.5))]
            ]
            return e["p_ab"] / 2, float(np.mean(everything)) / 2
        return float(np.nan_to_num(e["pn"] * e["p_ab"])) / 2, float(np.nan_to_num(e["ps"] * e["p_nab"])) / 2

    values = {m: terms(m) for m in itertools.product([False, True], repeat=4)}
    kept, dropped = (np.array(oracles.banzhaf({m: v[i] for m, v in values.items()}.__getitem__, 4)) for i in (0, 1))
    if without == "NC":
        kept, dropped = dropped, kept
    assert np.abs(found - kept).max() < 0.015
    assert np.abs(found - kept).max() < np.abs(found - dropped).max() / 3


@pytest.mark.parametrize("without", ["SF", "NC"])
def test_terms_that_are_the_same_cannot_be_told_apart(without):
    with pytest.raises(fans.InputError, match=f'closeness="subset" for without="{without}" of the game, got "input"'):
        explainer(np.zeros((3, 4)), without=without)


@pytest.mark.parametrize("without", [None, "SR"])
@pytest.mark.parametrize("kernel", ["gaussian", "indicator"])
@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_samples_are_drawn_by_joint_closeness(without, kernel, distance):
    """By the closeness on all features, whatever the subset; without sampling, all samples alike."""
    background, x = np.random.default_rng(2).normal(size=(12, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    asked = explainer(background, radius=1.3, tolerance=0.15, kernel=kernel, distance=distance)
    rows = asked.task.space.encode(x[None], "x")
    block = inputs_of(asked, rows).block(slice(0, 1)).block
    n = 20_000
    subset = torch.rand(1, n, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    drawn, closeness, share = (t[0] for t in _samples(block, subset, asked.settings, without))
    weights = np.array(
        [oracles.closeness(x, row, range(4), background.std(0), 1.3, kernel, distance) for row in [*background, x]]
    )
    if without == "SR":
        weights[:] = 1
    shares = np.bincount(drawn.numpy(), minlength=13) / n
    assert shares == pytest.approx(weights / weights.sum(), abs=0.015)
    assert not shares[weights == 0].any()
    assert (closeness == 1).all()
    assert (share == 0.5).all()


@pytest.mark.parametrize("without", [None, "SR"])
@pytest.mark.parametrize("kernel", ["gaussian", "indicator"])
@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_samples_are_drawn_by_closeness(without, kernel, distance):
    """By the closeness on the subset and outside it; without sampling, all samples alike."""
    background, x = np.random.default_rng(2).normal(size=(12, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    asked = explainer(background, radius=1.3, tolerance=0.15, kernel=kernel, distance=distance, closeness="subset")
    rows = asked.task.space.encode(x[None], "x")
    block = inputs_of(asked, rows).block(slice(0, 1)).block
    subsets = [(True, False, True, False), (True, True, True, False)]
    n = 10_000
    pairs = torch.tensor([[s] * n for s in subsets]).view(1, -1, 4)
    drawn, closeness, share = (t[0].view(2, n) for t in _samples(block, pairs, asked.settings, without))
    for subset, place, mean, part in zip(subsets, drawn, closeness, share, strict=True):
        sides = [[j for j in range(4) if subset[j] == wanted] for wanted in (True, False)]
        near = np.array(
            [
                [oracles.closeness(x, row, side, background.std(0), 1.3, kernel, distance) for side in sides]
                for row in [*background, x]
            ]
        )
        if without == "SR":
            near[:] = 1
        weights = near.mean(1)
        assert mean.numpy() == pytest.approx(np.full(n, weights.mean()), abs=1e-6)
        shares = np.bincount(place.numpy(), minlength=13) / n
        assert shares == pytest.approx(weights / weights.sum(), abs=0.02)
        assert not shares[weights == 0].any()
        with np.errstate(invalid="ignore"):
            assert part.numpy() == pytest.approx((near[:, 0] / near.sum(1))[place], abs=1e-5)


@pytest.mark.parametrize(("n_pairs", "n_features"), [(40, 7), (12, 30)])
def test_the_regression_by_hand(n_pairs, n_features):
    """Ridge slopes and sandwich errors from dense inverses, with fewer features than draws and with more."""
    rng, ridge, n_samples = np.random.default_rng(0), 0.3, 5
    side = rng.random((2, n_pairs, n_features))
    y, sample = rng.normal(size=(2, n_pairs)), rng.integers(0, n_samples, (2, n_pairs))
    of_subset, of_rest, outcome, drawn = (torch.from_numpy(a) for a in (side < 0.4, side > 0.6, y, sample))
    slopes, se = fit(Observed(of_subset, of_rest, outcome, drawn, n_samples), ridge)
    for i in range(2):
        design = (side[i] < 0.4).astype(float) - (side[i] > 0.6)
        inverse = np.linalg.inv(design.T @ design + np.diag(ridge * (design**2).sum(0) + 1e-9))
        expected = inverse @ design.T @ y[i]
        assert slopes[i].numpy() == pytest.approx(expected, abs=1e-9)
        pull = design * (y[i] - design @ expected)[:, None]
        by_sample = np.array([pull[sample[i] == s].sum(0) for s in range(n_samples)])
        used = n_features if n_features <= n_pairs else np.trace(design @ inverse @ design.T)
        expected = np.sqrt(((by_sample @ inverse) ** 2).sum(0) * n_pairs / (n_pairs - used))
        assert se[i].numpy() == pytest.approx(expected, abs=1e-9)


def test_hits_that_subsets_share_are_those_drawn_for_each(monkeypatch):
    """Of more than 64 columns, the draws of an input are made once for all its subsets: the same draws."""
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(20, 70)), rng.normal(size=(3, 70))
    explainers = [fans.Explainer(lambda rows: rows[:, :5].sum(1), background, n_pairs=50, phi=0.3) for _ in range(2)]
    shared = explainers[0](x)
    monkeypatch.setattr(perturbation, "SHARE_DRAWS_ABOVE", 10**9)
    apart = explainers[1](x)
    for name in ("scores", "subset", "pns", "interval"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(apart, name))


def test_standard_errors_of_scores_equal_their_spread_over_backgrounds():
    x = np.array([0.4, -0.2, 0.8, 0.1])
    found = [
        explainer(np.random.default_rng([3, r]).normal(size=(120, 4)), seed=r, radius=1.0, tolerance=0.15)(x)
        for r in range(120)
    ]
    spread = np.std([e.scores[0] for e in found], axis=0)
    errors = np.sqrt(np.mean([e.scores_se[0] ** 2 for e in found if e.scores_se is not None], axis=0))
    assert spread / errors == pytest.approx(np.ones(4), abs=0.25)


def test_the_averaged_tolerance_is_the_mean_over_all_tolerances():
    """Where the user gave no tolerance, a change counts by the share of tolerances it exceeds."""
    change = torch.tensor([[0.0, 0.001, 0.3, 0.1, 0.2, 0.2]], dtype=torch.float64)
    block = InputBatch(None, None, None, [0], None, torch.zeros(1), None, 0, graded=True)  # type: ignore[arg-type]
    tolerances = [c - 1e-9 for c in (0.3, 0.1, 0.2, 0.2)]  # the others are less than a fiftieth of the largest
    expected = [np.mean([c > t for t in tolerances]) for c in change[0].tolist()]
    assert expected[:2] == [0, 0]
    assert _changed(change, block)[0].tolist() == pytest.approx(expected)
    given = InputBatch(None, None, None, [0], None, torch.tensor([0.15]), None, 0)  # type: ignore[arg-type]
    assert _changed(change, given)[0].tolist() == [0, 0, 1, 0, 1, 1]


def test_a_column_that_barely_moves_the_prediction_does_not_outrank_one_that_flips_it():
    rng = np.random.default_rng(1)
    background = np.column_stack([rng.random((200, 1)) < 0.5, rng.normal(size=(200, 3))]).astype(float)
    model = lambda rows: 0.9 * rows[:, 0] + 1e-4 * rows[:, 1:].sum(axis=1)
    found = fans.Explainer(model, background)(background[:5])
    assert (found.scores.argmax(axis=1) == 0).all()
    assert found.subset.tolist() == [[True, False, False, False]] * 5
