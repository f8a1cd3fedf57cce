"""The game solver against enumerated Banzhaf values of the enumerated PNS."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.explain import _Inputs
from fans.explainers._game import _changed
from fans.explainers._shared import Selection, best_subset, sizes
from fans.pns import MEANINGFUL
from fans.trials import Block
from tests import oracles

WEIGHTS = np.array([2.0, -1.5, 1.0, 0.0])


def model(rows: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(rows @ WEIGHTS + rows[:, 0] * rows[:, 2])))


def explainer(background: np.ndarray, **settings) -> fans.Explainer:
    everything: dict[str, Any] = {"n_background": len(background), "n_local": 0, "baseline": 0.0} | settings
    return fans.Explainer(model, background, **everything)


@pytest.mark.parametrize("phi", [0.5, 0.3])
def test_scores_are_the_banzhaf_values_of_pns(phi):
    """Exactly so where all samples are equally close: hard kernels, a radius that holds everything."""
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(40, 4)), np.array([0.4, -0.2, 0.8, 0.1])
    samples = np.vstack([background, x])  # the explainer adds the input itself
    settings: dict[str, Any] = {"kernel": "indicator", "radius": 100.0, "tolerance": 0.15, "phi": phi}
    found = explainer(background, n_pairs=40_000, **settings)(x)

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
    """With the tolerance searched for, a change counts by the share of tolerances it exceeds."""
    change = torch.tensor([[0.0, 0.001, 0.3, 0.1, 0.2, 0.2]], dtype=torch.float64)
    block = Block(None, None, None, [0], None, torch.zeros(1), MEANINGFUL, 0)  # type: ignore[arg-type]
    tolerances = [c - 1e-9 for c in (0.3, 0.1, 0.2, 0.2)]  # the others are less than a fiftieth of the largest
    expected = [np.mean([c > t for t in tolerances]) for c in change[0].tolist()]
    assert expected[:2] == [0, 0]
    assert _changed(change, block)[0].tolist() == pytest.approx(expected)


def test_a_column_that_barely_moves_the_prediction_does_not_outrank_one_that_flips_it():
    rng = np.random.default_rng(1)
    background = np.column_stack([rng.random((200, 1)) < 0.5, rng.normal(size=(200, 3))]).astype(float)
    model = lambda rows: 0.9 * rows[:, 0] + 1e-4 * rows[:, 1:].sum(axis=1)
    found = fans.Explainer(model, background)(background[:5])
    assert (found.scores.argmax(axis=1) == 0).all()
    assert found.subset.tolist() == [[True, False, False, False]] * 5


@pytest.mark.parametrize("seed", range(3))
def test_the_subset_is_found_among_many_columns(seed):
    """Three of twenty columns decide; correlated decoys do not. The rule is the model, so the truth is known."""
    rng = np.random.default_rng([5, seed])
    background = rng.normal(size=(400, 20))
    background[:, 3:6] = 0.8 * background[:, :3] + 0.6 * background[:, 3:6]
    rule = lambda rows: 1 / (1 + np.exp(-2 * (1.5 * rows[:, 0] + 1.5 * rows[:, 1] * rows[:, 2] - rows[:, 2])))
    found = fans.Explainer(rule, background, seed=seed)(background[:20])
    truth = np.arange(20) < 3
    assert (found.subset & truth).sum() / found.subset.sum() > 0.95
    assert (found.subset & truth).sum() / (20 * 3) > 0.85
    plain = fans.Explainer(rule, background, seed=seed, price=0.0)(background[:20])
    assert plain.subset.sum() > found.subset.sum()
    assert (plain.pns.mean() - found.pns.mean()) < 0.1 * plain.pns.mean()


def test_a_swap_repairs_a_wrong_ranking():
    """The last step alone: given scores that rank an idle column above a causal one, the refined subset mends it."""

    rng = np.random.default_rng(9)
    background = rng.normal(size=(200, 8))
    both = lambda rows: ((rows[:, 0] > 0) & (rows[:, 1] > 0)).astype(float)
    asked = fans.Explainer(both, background, radius=2.0, tolerance=0.5)

    rows = asked.task.space.encode(np.array([[1.0, 1, 0, 0, 0, 0, 0, 0]]), "x")
    block = _Inputs(asked, rows, None, [0]).block(slice(0, 1)).block
    wrong = torch.tensor([[8.0, 6, 7, 5, 4, 3, 2, 1]])
    selection = Selection(n_sweep=20_000, refine=2)
    chosen = best_subset(asked.task, block, wrong, asked.settings, selection)
    assert chosen.subset[0].nonzero().flatten().tolist() == [0, 1]


def test_sizes_double_with_halves_between_and_end_with_everything():
    assert sizes(1) == [1]
    assert sizes(20) == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    assert sizes(24) == [1, 2, 3, 4, 6, 8, 12, 16, 24]
