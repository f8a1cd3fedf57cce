"""Tolerances and radii equal their formulas."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import fans
from tests.engine.subjects import ENUMERATION, READINGS, SUBSET, assert_equal, random_model, smooth


@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_heuristics_equal_their_formulas():
    rng = np.random.default_rng(4)
    background = rng.normal(size=(200, 4)) * np.array([1.0, 3.0, 0.2, 1.0])
    x = background.mean(axis=0)
    common: dict[str, Any] = {"background": background, "baseline": 0.0, "n_factual": 1, "n_perturb": 1}
    ask_for = lambda **s: fans.pns(smooth, x, SUBSET, **common, **s)
    assert ask_for(radius="scott").radius[0] == pytest.approx(1.06 * 200 ** (-1 / 5))
    assert ask_for(radius="paper").radius[0] == pytest.approx(1.06 * 200 ** (-1 / 8))
    d2 = (((background - x) / background.std(axis=0)) ** 2).mean(axis=1)
    size = lambda b: np.exp(-d2 / (2 * b**2)).sum() ** 2 / np.exp(-d2 / b**2).sum()
    assert size(ask_for(radius="ess").radius[0]) == pytest.approx(40, rel=1e-3)
    far = fans.pns(smooth, x + 6 * background.std(axis=0), SUBSET, tolerance=0.1, **common)
    d2 = (((background - x) / background.std(axis=0) - 6) ** 2).mean(axis=1)
    assert far.radius[0] > 1.06 * 200 ** (-1 / 5)
    assert size(far.radius[0]) == pytest.approx(10, rel=1e-3)


def test_the_noise_tolerance_is_the_largest_change_under_small_noise():
    """For a linear f the change is |w . e|, so its maximum over n * 16 normal draws is known in distribution."""
    background = np.random.default_rng(0).normal(size=(100, 3)) * np.array([1.0, 5.0, 0.1])
    weights = np.array([1.0, -2.0, 3.0])
    model = lambda rows: rows @ weights
    deviation = 0.001 * np.sqrt(((weights * background.std(axis=0)) ** 2).sum())
    ask_for = lambda **s: fans.pns(model, background[0], [True, False, False], background=background, baseline=0.0,
                                   radius=3.0, n_factual=1, n_perturb=1, **s).tolerance[0]  # fmt: skip
    maxima = np.array([ask_for(tolerance="noise", seed=seed) for seed in range(40)]) / deviation
    expected = np.abs(np.random.default_rng(1).normal(size=(2000, 1600))).max(axis=1)
    assert maxima.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / math.sqrt(40))
    plain = ask_for(tolerance="paper") / (0.001 * np.linalg.norm(weights))
    assert expected.min() < plain < expected.max()


@READINGS
def test_a_step_function_has_a_noise_tolerance_of_zero_and_an_exact_kernel(closeness):
    rng = np.random.default_rng(0)
    background = rng.integers(0, 5, size=(50, 3)).astype(float)
    step = lambda rows: (rows[:, 0] > 2.5).astype(float)
    found = fans.pns(step, background[0], [True, False, False], background=background, baseline=0.0, radius=2.0,
                     tolerance="noise", estimator="exact", closeness=closeness)  # fmt: skip
    assert found.tolerance[0] == 0.0
    expected = ENUMERATION[closeness](step, background[0], [True, False, False], background, np.zeros(3), 2.0, 0.0)
    assert_equal(found, expected)


@pytest.mark.parametrize("tolerance", [None, "noise", "paper"])
def test_the_label_change_uses_a_tolerance_of_a_half(tolerance):
    f = random_model(np.random.default_rng(0), 3, 3)
    background = np.random.default_rng(1).normal(size=(40, 3))
    found = fans.pns(f, background[0], [True, True, False], background=background, baseline=0.0, radius=2.0,
                     change="label", estimator="exact", tolerance=tolerance)  # fmt: skip
    assert found.tolerance[0] == 0.5


@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_the_default_tolerance_is_a_tenth_of_probability_or_of_the_outputs_deviation():
    """By hand: the population's standard deviation of the explained output over the background."""
    background = np.random.default_rng(1).normal(size=(40, 3)) * [1.0, 20.0, 1.0]
    network = torch.nn.Linear(3, 3).double()
    logits = network(torch.tensor(background)).detach().numpy()
    classes = random_model(np.random.default_rng(0), 3, 3)

    def used(model: Any, **settings: Any) -> Any:
        found = fans.pns(model, background[:2], [True, False, False], background=background, baseline=0.0, radius=2.0,
                         n_factual=1, n_perturb=1, **settings)  # fmt: skip
        return found.tolerance

    for model in (network, classes):
        for change in ("target", "fall", "l2"):
            assert used(model, change=change).tolist() == [0.1, 0.1]
    linear = lambda rows: rows @ np.array([1.0, -2.0, 3.0])
    assert used(linear) == pytest.approx(0.1 * linear(background).std())
    assert used(linear, change="l2") == pytest.approx(0.1 * linear(background).std())
    spread = logits.std(axis=0)
    for settings in ({"output": "raw"}, {"task": "regression"}):
        assert used(network, target=[2, 0], **settings) == pytest.approx(0.1 * spread[[2, 0]])
    assert used(network, output="raw", change="l2") == pytest.approx(0.1 * np.linalg.norm(spread))
    assert used(network, output="raw", change="label").tolist() == [0.5, 0.5]


def test_the_default_tolerance_costs_no_evaluation_and_is_the_same_for_all_rows():
    background = np.random.default_rng(1).normal(size=(40, 4))
    one, given = (fans.pns(smooth, background, SUBSET, background=background, tolerance=c) for c in (None, 0.3))
    assert set(one.tolerance) == {0.1 * smooth(background).std()}
    assert one.n_evaluations == given.n_evaluations
