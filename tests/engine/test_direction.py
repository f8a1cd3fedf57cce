"""What changing a feature alone does to the output, by hand."""

import numpy as np
import pytest
import torch

import fans
from fans.engine.direction import MOST_FEATURES, directions
from tests.methods.blocks import inputs_of

# --- Directions ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")
def test_directions_of_a_linear_model_by_hand():
    """Perturbing a feature alone moves the output by minus its weight times its distance from the baseline."""
    slopes, rng = np.array([2.0, -1.0, 0.5, 0.0]), np.random.default_rng(0)
    background, x = rng.normal(size=(50, 4)), rng.normal(size=(6, 4))
    missing = np.array([0.5, 0.2, -0.3, 1.0])
    found = fans.Explainer(lambda rows: rows @ slopes, background, baseline=missing, solver="game")(x)
    assert found.direction == pytest.approx(slopes * (missing - x), abs=1e-9)
    assert found.evaluations["direct"].tolist() == [4] * 6
    two = fans.Explainer(lambda rows: np.stack([rows @ slopes, -rows @ slopes], 1), background, baseline=missing)
    assert two(x, target=1).direction == pytest.approx(-slopes * (missing - x), abs=1e-9)


def test_directions_over_drawn_baselines_are_means():
    slopes, rng = np.array([2.0, -1.0, 0.5]), np.random.default_rng(0)
    background, x = rng.normal(3, 0.01, size=(50, 3)), np.zeros((1, 3))
    found = fans.Explainer(lambda rows: rows @ slopes, background, solver="game")(x)
    assert found.direction[0] == pytest.approx(3 * slopes, abs=0.05)
    assert found.evaluations["direct"].tolist() == [3 * 8]


def test_of_many_features_only_the_leading_ones_have_a_direction():
    n = MOST_FEATURES + 6
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(20, n)), np.ones((2, n))
    asked = fans.Explainer(lambda rows: rows.sum(1), background, baseline=0.0, n_local=3)
    block = inputs_of(asked, asked.task.space.encode(x, "x")).block(slice(0, 2)).block
    scores = torch.arange(n, 0, -1).double().repeat(2, 1) - n / 2
    subset = torch.zeros(2, n, dtype=torch.bool)
    subset[0, -3:] = True  # members come first, though their scores are the lowest
    subset[1] = True  # too many: none is measured
    found = directions(asked.task, block, scores, subset)
    measured = ~found.values.isnan()
    assert measured[0].nonzero().flatten().tolist() == [*range(MOST_FEATURES - 3), n - 3, n - 2, n - 1]
    assert found.values[0][measured[0]] == pytest.approx(torch.full((MOST_FEATURES,), -1.0).double())
    assert not measured[1].any()
    assert found.n_rows.tolist() == [MOST_FEATURES, 0]
