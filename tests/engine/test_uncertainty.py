"""Intervals and standard errors: coverage, the spread over repetitions, and formulas solved independently."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import fans
from fans.engine.equations import quantile, wilson
from tests import oracles
from tests.engine.subjects import ENUMERATION, READINGS, SUBSET, X, ask, smooth

POPULATION: dict[str, Any] = {"input": oracles.population_joint_pns, "subset": oracles.population_pns}


def all_errors(found: fans.PNS) -> np.ndarray:
    return np.concatenate([found.se[0], found.share_se[0]])


@pytest.mark.slow("500 repetitions")
@pytest.mark.parametrize("baseline", [0.0, "background"])
@pytest.mark.parametrize("estimator", ["weighted", "resample"])
@READINGS
def test_intervals_cover_the_population_value(baseline, estimator, closeness):
    truth = POPULATION[closeness](
        smooth, X, SUBSET, 0.7, 0.1, baseline=None if baseline == "background" else 0.0
    )  # (5,): pns, pn, ps, changes, holds
    settings: dict[str, Any] = {"baseline": baseline, "estimator": estimator, "closeness": closeness}
    inside = np.zeros(5)
    for repetition in range(500):
        background = np.random.default_rng([7, repetition]).normal(size=(100, 4))
        found = ask(background, seed=repetition, n_factual=16, n_perturb=16, **settings)
        low, high = np.concatenate([found.interval[0], found.share_interval[0]]).T
        inside += (low <= truth) & (truth <= high)
    assert (inside / 500 >= 0.92).all(), inside / 500
    assert (inside / 500 <= 0.98).all(), inside / 500


@pytest.mark.slow("repetitions")
@READINGS
def test_standard_errors_equal_the_spread_over_repetitions(closeness):
    settings: dict[str, Any] = {"baseline": "background", "n_factual": 8, "n_perturb": 8, "closeness": closeness}
    found = [ask(np.random.default_rng([8, r]).normal(size=(150, 4)), seed=r, **settings) for r in range(300)]
    values = np.array([[p.pns[0], p.pn[0], p.ps[0], p.changes[0], p.holds[0]] for p in found])
    errors = np.sqrt(np.mean([all_errors(p) ** 2 for p in found], axis=0))
    assert values.std(axis=0) / errors == pytest.approx(np.ones(5), abs=0.12)


@READINGS
def test_the_delta_method_agrees_with_the_jackknife(closeness):
    """Leaving out one background row at a time, scales recomputed, is an oracle for the variance (fixed baseline)."""
    background = np.random.default_rng(5).normal(size=(60, 4)) * np.array([1.0, 2.0, 0.5, 1.0])
    found = ask(background, baseline=0.0, estimator="exact", closeness=closeness)
    left_out = []
    for i in range(len(background)):
        rest = np.delete(background, i, axis=0)
        e = ENUMERATION[closeness](smooth, X, SUBSET, rest, np.zeros(4), 0.7, 0.1)
        left_out.append([e["pns"], e["pn"], e["ps"], e["changes"], e["holds"]])
    n = len(background)
    jackknife = np.sqrt((n - 1) / n * np.square(left_out - np.mean(left_out, axis=0)).sum(axis=0))
    assert all_errors(found) == pytest.approx(jackknife, rel=0.06)


def test_wilson_intervals_solve_their_equation_and_students_factor_widens_them():
    """The ends of a score interval are where the estimate is exactly z standard errors away."""
    p, n = np.array([0.0, 0.03, 0.3, 0.9, 1.0]), 50.0
    se = np.sqrt(p * (1 - p) / n)
    support = torch.full((5,), 1e9, dtype=torch.float64)
    support[[0, 4]] = n  # at 0 and 1 the support stands in for the sample size
    low, high = wilson(torch.tensor(p), torch.tensor(se), support, 0.95).numpy().T
    z = stats.t.ppf(0.975, np.where(se > 0, 1e9, n - 1))
    for end, inner in ((low, p > 0), (high, p < 1)):
        distance = np.abs(p - end)[inner]
        assert distance == pytest.approx((z * np.sqrt(end * (1 - end) / n))[inner], rel=1e-3)
    assert low[0] == pytest.approx(0.0, abs=1e-12)
    assert high[4] == pytest.approx(1.0, abs=1e-12)
    for freedom in (5, 10, 40):
        found = float(quantile(0.95, torch.tensor(float(freedom), dtype=torch.float64)))
        assert found == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)
