"""A rule of two columns, and its explanation."""

import numpy as np
import pytest
import torch

import fans

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(150, 6))
INPUTS = RNG.normal(size=(9, 6))
ARRAYS = (
    *("scores", "scores_se", "subset", "pns", "pn", "ps", "interval", "ess", "radius", "tolerance", "target"),
    *("direction", "stability", "changes", "holds"),
)


def rule(rows: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-3 * (rows[:, 0] - rows[:, 1])))
    return np.stack([1 - p, p], axis=1)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))


def check_same(a: fans.Explanation, b: fans.Explanation, tolerance: float = 0.0) -> None:
    for name in ARRAYS:
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=tolerance, abs=tolerance, nan_ok=True), name
