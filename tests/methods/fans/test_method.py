"""The game against enumerated Banzhaf values of the enumerated PNS; the choice of the subset; directions."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.engine import perturbation
from fans.engine.direction import MOST_FEATURES, directions
from fans.engine.neighbourhood import InputBatch
from fans.methods.base import Scores
from fans.methods.fans.game import Observed, _changed, _samples, fit
from fans.methods.fans.subset import Selection, _between, _size, coarse_sizes, inward, n_fine, n_sizes, smallest_subset
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


class Rule(torch.nn.Module):
    """Three of the columns decide."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(2 * (1.5 * rows[:, 0] + 1.5 * rows[:, 1] * rows[:, 2] - rows[:, 2]))


def asked_of_black_box(rows: np.ndarray) -> np.ndarray:
    return Rule()(torch.from_numpy(rows)).numpy()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "rule",
    [
        Rule(),
        asked_of_black_box,
    ],
)
def test_the_subset_is_found_among_many_columns(rule, seed):
    """Three of twenty columns decide; correlated decoys do not. The rule is the model, so the truth is known."""
    rng = np.random.default_rng([5, seed])
    background = rng.normal(size=(400, 20))
    background[:, 3:6] = 0.8 * background[:, :3] + 0.6 * background[:, 3:6]
    asked = fans.Explainer(rule, background, seed=seed)
    found = asked(background[:20])
    truth = np.arange(20) < 3
    assert (found.subset & truth).sum() / found.subset.sum() > 0.95
    assert (found.subset & truth).sum() / (20 * 3) > (0.8 if isinstance(rule, Rule) else 0.7)  # fewer may do
    assert found.pns.mean() > 0.85 * asked.score(background[:20], truth).pns.mean()


def test_sizes_double_with_halves_between_and_end_with_everything():
    assert coarse_sizes(1) == [1]
    assert coarse_sizes(20) == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    assert coarse_sizes(24) == [1, 2, 3, 4, 6, 8, 12, 16, 24]
    assert [n_fine(n) for n in (1, 4, 6, 12, 784)] == [0, 0, 1, 3, 4]
    assert [n_sizes(n) for n in (1, 12, 784)] == [1, 7 + 3, 20 + 4]


def test_sizes_between_the_last_that_is_too_few_and_the_first_that_is_enough():
    coarse = torch.tensor([8, 12, 64, 96]).expand(3, -1)
    value = torch.tensor([[0.1, 0.5, 0.95, 1.0], [0.95, 0.2, 0.9, 1.0], [0, 0.9, 0.4, 0.4]], dtype=torch.float64)
    found = _between(coarse, value, 0.9, 4)
    assert found.tolist()[0] == pytest.approx([12 * (64 / 12) ** (i / 5) for i in (1, 2, 3, 4)], abs=0.5)
    assert found.tolist()[1] == [8] * 4  # nothing is smaller
    assert found.tolist()[2] == [9, 9, 10, 11]
    assert _between(coarse, value, 0.9, 3).tolist()[2] == [9, 10, 11]  # all that lie between
    assert _between(coarse, value, 0.9, 0).shape == (3, 0)


# --- The smallest subset that does it --------------------------------------------------------------------------------


def test_the_size_by_hand():
    """The first that reaches nine tenths of the best, up to all that are useful; none if that is below a twentieth."""
    value = torch.tensor(
        [[0.1, 0.5, 0.95, 1.0], [0.91, 0.1, 1.0, 0.2], [0, 0, 0, 0.8], [0.01, 0.049, 0, 0.04], [0, 0, 0, 0]],
        dtype=torch.float64,
    )
    most = torch.tensor([6, 6, 5, 6, 0])
    tried = torch.tensor([1, 2, 3, 6]).expand(5, -1)
    assert _size(value, tried, most, most, 0.9).tolist() == [3, 1, 5, 0, 0]
    assert _size(value, tried, most, most, 1.0).tolist() == [6, 3, 5, 0, 0]
    assert _size(value, tried, most, most, 0.5).tolist() == [2, 1, 5, 0, 0]


def test_what_does_not_speak_for_it_joins_only_where_the_rest_hardly_does_it():
    """Three features speak for the prediction. They have half of the best PNS, and are the answer; or less."""
    value = torch.tensor([[0.1, 0.3, 0.5, 0.9, 1.0], [0.1, 0.3, 0.4, 0.4, 1.0]], dtype=torch.float64)
    tried, most, n_for = torch.tensor([1, 2, 3, 6, 9]).expand(2, -1), torch.tensor([9, 9]), torch.tensor([3, 3])
    assert _size(value, tried, most, n_for, 0.9).tolist() == [3, 9]
    assert _size(value, tried, most, most, 0.9).tolist() == [6, 9]


def test_after_what_speaks_for_it_comes_what_speaks_against_it_most():
    """Nine features by their places, of which three are for it, one or two of no use: those in between are reversed."""
    rank = torch.tensor([[3, 0, 7, 5, 1, 4, 8, 2, 6], [3, 0, 7, 5, 1, 4, 8, 2, 6]])
    turned = inward(rank, torch.tensor([3, 0]), torch.tensor([8, 9]))
    assert turned.tolist() == [[7, 0, 3, 5, 1, 6, 8, 2, 4], [5, 8, 1, 3, 7, 4, 0, 6, 2]]


def chosen_by(
    rule: Any, background: Any, x: Any, scores: Any, *, chain: bool = False, n_for: Any = None, **settings: Any
) -> Any:
    """What is chosen along anybody's scores, with the joint PNS of every size on the sweep's own samples."""
    usual = {"radius": 2.0, "tolerance": 0.5, "n_local": 0, "baseline": 0.0}
    asked = fans.Explainer(rule, background, **usual | settings)
    rows = asked.task.space.encode(x, "x")
    block = inputs_of(asked, rows).block(slice(0, len(rows))).block
    values = torch.tensor(scores, dtype=torch.float64)
    given = Scores(
        values,
        None,
        torch.zeros(len(rows), dtype=torch.int64),
        may_join=values != 0 if chain else None,
        n_for=None if n_for is None else torch.tensor(n_for),
    )
    return smallest_subset(asked.task, block, given, asked.settings, asked.selection)


def both(rows: Any) -> Any:
    return ((rows[:, 0] > 0) & (rows[:, 1] > 0)).astype(float)


def test_the_subset_is_the_first_along_the_order_that_does_it():
    """Two columns decide together; where others are ranked between them, those come along, but not what scores 0."""
    background, x = np.abs(np.random.default_rng(9).normal(size=(60, 6))), np.ones((5, 6))
    scores = [
        [6.0, 5, 4, 3, 2, 1],  # the two in front
        [6.0, 4, 5, 3, 2, 1],  # an idle one between them
        [6.0, 4, 0, 3, 2, 1],  # the same, but that it scores nothing
        [6.0, -2, -1, 0, 0, 0],  # the other one speaks against it, and the first alone does nothing
        [0.0, 0, 3, 2, 1, 0],  # neither scores at all
    ]
    found = chosen_by(both, background, x, scores, n_sweep=20_000)
    expected: list[list[int]] = [[0, 1], [0, 1, 2], [0, 1], [], []]
    assert [row.nonzero().flatten().tolist() for row in found.subset] == expected
    of_chain = chosen_by(both, background, x, scores, n_sweep=20_000, chain=True)
    expected[3] = [0, 1, 2]  # a chain knows what speaks against a prediction from what plays no part
    assert [row.nonzero().flatten().tolist() for row in of_chain.subset] == expected
    assert found.stability.shape == (5, 6)
    assert torch.equal(found.stability, found.subset.double())  # nothing is left to chance
    assert (found.n_rows > 0).all()
    assert (found.n_rows <= 20_000).all()


def test_neutral_features_stay_out_where_those_for_it_hardly_do_it():
    """x1 holds the output up, x6 down, the others do nothing: perturbing the rest must not move it either way."""
    background = np.abs(np.random.default_rng(9).normal(size=(60, 6)))
    up_and_down = lambda rows: 2.0 * rows[:, 0] - 1.5 * rows[:, 5]
    x = np.array([[1.0] * 6, [1.0] * 5 + [0.0], [1.0] * 6])
    order = [[6.0, -1, -2, -3, -4, -5], [6.0, -1, -2, -3, -4, -5], [6.0, -5, -4, -3, -2, -1]]  # the last one is wrong
    expected = [[0, 5], [0], [0, 5]]
    for part in ([0, 1, 2], [0], [1], [2, 1]):  # who is asked with whom plays no part
        found = chosen_by(
            *(up_and_down, background, x[part], [order[i] for i in part]),
            chain=True,
            n_for=[1] * len(part),
            **{"tolerance": 0.4, "n_background": 0, "n_sweep": 20_000},
        )
        assert [row.nonzero().flatten().tolist() for row in found.subset] == [expected[i] for i in part]
        assert torch.equal(found.stability, found.subset.double())
    crowd: dict[str, Any] = {"n_background": 50, "n_sweep": 20_000}
    assert chosen_by(up_and_down, background, x[:1], order[:1], **crowd).subset[0].tolist() == [True] + 5 * [False]


@pytest.mark.parametrize(("n_deciding", "expected"), [(5, 5), (7, 7), (11, 11), (37, 38)])
def test_the_smallest_size_is_found_between_the_coarse_ones(n_deciding, expected):
    """All of so many columns together decide; the order has them in front."""
    background = np.abs(np.random.default_rng(9).normal(size=(60, 48)))
    scores, x = [list(range(48, 0, -1))], np.ones((1, 48))

    def most_of_them(rows: Any) -> Any:  # perturbing all but a few changes nothing
        return (rows[:, :n_deciding] > 0).any(1).astype(float)

    found = chosen_by(most_of_them, background, x, scores, n_sweep=20_000)
    assert found.subset[0].tolist() == [i < expected for i in range(48)]


def test_enough_is_a_share_of_the_best():
    """One column of two is worth about a half: half as much is enough of it, nine tenths are not."""
    rng = np.random.default_rng(3)
    background = np.where(rng.random((400, 4)) < 0.5, 1.0, 0.0)
    background[:, 0] = 1.0
    x, scores = np.ones((1, 4)), [[4.0, 3, 2, 1]]
    either = lambda rows: ((rows[:, 0] > 0) | (rows[:, 1] > 0)).astype(float)
    # Perturbing x1 alone changes f where x2 is missing: in about half of the samples.
    sizes_of = {
        enough: int(
            chosen_by(either, background, x, scores, enough=enough, n_sweep=10**5, n_background=400).subset.sum()
        )
        for enough in (0.2, 0.9)
    }
    assert sizes_of == {0.2: 1, 0.9: 2}


def test_nothing_is_chosen_where_nothing_changes():
    background = np.random.default_rng(0).normal(size=(60, 4))
    found = fans.Explainer(lambda rows: np.zeros(len(rows)), background)(background[:3])
    assert not found.subset.any()
    assert not found.pns.any()
    faint = fans.Explainer(lambda rows: 0.5 + 0.01 * np.tanh(rows), background, tolerance=0.1)(background[:3])
    assert not faint.subset.any()
    assert all("the subset is empty" in note for note in faint.notes)


@pytest.mark.parametrize("name", ["n_sweep", "enough"])
def test_bad_selections(name):
    bad: list[Any] = [0, -1, "many"]
    for value in bad:
        with pytest.raises(fans.InputError, match=f"`{name}`"):
            Selection(**{name: value})


def test_stability_is_how_often_resampled_draws_choose_a_feature():
    """By replicates of the scores where there are some: one feature always first, two that take turns for second."""
    background, x = np.abs(np.random.default_rng(9).normal(size=(60, 4))), np.ones((1, 4))
    asked = fans.Explainer(both, background, radius=2.0, tolerance=0.5, n_local=0, baseline=0.0, n_sweep=20_000)
    block = inputs_of(asked, asked.task.space.encode(x, "x")).block(slice(0, 1)).block
    scores = torch.tensor([[3.0, 2.0, 1.0, 0.0]], dtype=torch.float64)
    swapped = torch.tensor([[3.0, 1.0, 2.0, 0.5]], dtype=torch.float64)
    replicates = torch.stack([scores] * 7 + [swapped] * 3, 1)
    given = Scores(scores, None, torch.zeros(1, dtype=torch.int64), replicates=replicates)
    found = smallest_subset(asked.task, block, given, asked.settings, asked.selection)
    assert found.subset.tolist() == [[True, True, False, False]]
    assert found.stability[0].tolist() == pytest.approx([1.0, 0.7, 0.3, 0.0])


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
