"""The smallest subset that does it: sizes, both orders, ties, and how often resampled draws agree."""

from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.methods.base import Scores
from fans.methods.fans.subset import Selection, _between, _size, coarse_sizes, inward, n_fine, n_sizes, smallest_subset
from tests.methods.blocks import inputs_of


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
