"""Models, and what tests of the estimate share."""

import math
from typing import Any

import numpy as np
import pytest

import fans
from tests import oracles

MEASURES = ("pns", "pn", "ps", "p_ab", "p_nab", "changes", "holds", "ess_nc", "ess_sf")

ENUMERATION: dict[str, Any] = {"input": oracles.exact_joint_pns, "subset": oracles.exact_pns}
READINGS = pytest.mark.parametrize("closeness", ["input", "subset"])


def random_model(rng: np.random.Generator, n_features: int, n_outputs: int):
    """A smooth random function with interactions; class probabilities if it has several outputs."""
    first, second = rng.normal(size=(n_features, 8)), rng.normal(size=(8, n_outputs))

    def f(rows: np.ndarray) -> np.ndarray:
        out = np.tanh(rows @ first) @ second
        if n_outputs == 1:
            return out[:, 0]
        e = np.exp(out - out.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return f


def assert_equal(found: fans.PNS, expected: dict[str, float], i: int = 0) -> None:
    for name in MEASURES:
        value = getattr(found, name)[i]
        assert math.isnan(value) == math.isnan(expected[name]), name
        assert math.isnan(value) or abs(value - expected[name]) < 1e-9, name


FOUR = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])


WEIGHTS = np.array([1.5, -1.0, 0.8, 0.4])
X = np.array([0.5, -0.3, 0.4, 0.2])
SUBSET = np.array([True, True, False, False])


def smooth(rows: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(rows @ WEIGHTS + rows[:, 0] * rows[:, 1])))


def ask(background: np.ndarray, **settings) -> fans.PNS:
    return fans.pns(smooth, X, SUBSET, background=background, radius=0.7, tolerance=0.1, **settings)
