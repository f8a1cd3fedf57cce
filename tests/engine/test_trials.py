"""Perturbing and asking: draws of their own for each input, no row asked twice for nothing."""

from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.engine import draws
from fans.engine.equations import moved, perturb
from tests.engine.subjects import MEASURES


@pytest.mark.parametrize("max_batch", [1, 7, 64])
@pytest.mark.parametrize("baseline", [0.0, "background"])
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_draws_do_not_depend_on_the_batch_size_or_on_the_other_inputs(max_batch, baseline):
    network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(30, 4)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    subsets = rng.random((5, 4)) < 0.5
    subsets[:, 0], subsets[:, 1] = True, False
    settings: dict[str, Any] = {
        "background": background,
        "baseline": baseline,
        "radius": 2.0,
        "n_factual": 3,
        "n_perturb": 3,
    }
    whole = fans.pns(network, x, subsets, **settings)
    order = [3, 0, 4]
    part = fans.pns(network, x[order], subsets[order], ids=order, max_batch=max_batch, **settings)
    for name in MEASURES:
        assert getattr(part, name) == pytest.approx(getattr(whole, name)[order], rel=1e-5, abs=1e-5, nan_ok=True)


def test_the_background_is_evaluated_once_and_nothing_that_did_not_move():
    seen = []

    def model(rows: np.ndarray) -> np.ndarray:
        seen.append(len(rows))
        return rows[:, 0]

    background = np.random.default_rng(0).normal(size=(20, 3))
    background[:5, 0] = 0.0
    found = fans.pns(model, background[6], [True, False, False], background=background, baseline=0.0, radius=2.0,
                     tolerance=0.1, estimator="exact")  # fmt: skip
    assert seen[:2] == [20, 4]  # of which four are asked again, to see whether the model says the same
    # x1: one pattern moves the 15 rows that are not 0 there; the rest: three patterns move all 20 rows.
    assert sum(seen) == found.n_evaluations == 20 + 4 + 15 + 3 * 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perturbing_replaces_what_is_hit_and_tells_what_moved(dtype):
    rng = np.random.default_rng(0)
    whole, sizes = rng.integers(-2, 3, size=(2, 500, 3)), 10.0 ** rng.integers(-30, 31, size=(500, 1))
    for values in (whole, rng.normal(size=(2, 500, 3)) * sizes):  # with equals among them, and without
        rows, baseline = torch.tensor(values, dtype=dtype)
        hit = torch.tensor(rng.random((500, 3)) < 0.5)
        expected = np.where(hit.numpy(), baseline.numpy(), rows.numpy())
        differs = (expected != rows.numpy()).any(axis=1)
        perturbed = perturb(rows.clone(), draws.numbers(hit, dtype), baseline)
        assert np.array_equal(perturbed.numpy(), expected)
        assert np.array_equal(moved(perturbed, rows).numpy(), differs)
