"""Recall@N by hand and against a loop."""

import pytest
import torch

from fans import InputError
from fans.metrics import metric
from tests.metrics.material import case_of, images


def test_by_hand():
    truth = torch.tensor([[1, 1, 0, 0, 0]] * 3).bool()
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    case = case_of(None.__class__, scores, scores, truth=truth)  # never asked
    assert metric("recall", n=2)(case).tolist() == [1, 0.5, 0]
    assert metric("recall", n=4)(case).tolist() == [1, 1, 0.5]  # a tie of the last two: the first of them
    assert metric("recall")(case).tolist() == [1, 1, 1]  # n = 12 is more than there are


def test_equals_a_loop():
    inputs, scores = images(6, 2)
    truth = inputs > 0.8
    values = metric("recall", n=20)(case_of(lambda rows: rows, inputs, scores, truth=truth))
    for value, score, true in zip(values.tolist(), scores.flatten(1).tolist(), truth.flatten(1).tolist(), strict=True):
        top = sorted(range(len(score)), key=lambda e: -score[e])[:20]
        assert value == pytest.approx(sum(true[e] for e in top) / sum(true))


def test_of_many_equals_the_first_count():
    truth = torch.arange(5000)[None] < 40
    case = case_of(lambda rows: rows, torch.zeros(1, 5000), torch.zeros(1, 5000), truth=truth)
    assert metric("recall", n=10)(case).tolist() == [0.25]


def test_no_truth_is_refused():
    inputs = torch.rand(3, 4)
    truth = torch.tensor([[True] * 4, [False] * 4, [False] * 4])
    with pytest.raises(InputError, match="none in 2 of 3"):
        metric("recall")(case_of(lambda rows: rows, inputs, inputs, truth=truth))
    with pytest.raises(InputError, match="`n` as a whole number of at least 1, got 0"):
        metric("recall", n=0)
