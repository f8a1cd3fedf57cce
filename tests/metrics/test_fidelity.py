"""Fidelity+ and Fidelity- by hand and against loops."""

import pytest
import torch

from fans import InputError
from fans.metrics import metric, soft_mask
from tests.metrics.material import case_of, images, network


def first_or_rest(rows):
    """Class 0 if the first element is larger than the sum of the others."""
    return torch.stack([rows[:, 0], rows[:, 1:].sum(1)], 1)


INPUTS = torch.tensor([[3.0, 1.0, 1.0], [1.0, 2.0, 2.0]])


@pytest.mark.parametrize(
    ("scores", "settings", "plus", "minus"),
    [
        # s = (1, 0, 0): the first row without its first element changes, with it alone it stays; the second vice versa.
        ([[5.0, 0.0, -9.0]] * 2, {}, [1, 0], [0, 1]),
        # s = (1/3, 2/3, 1): x (1 - s) is (2, 1/3, 0) and (2/3, 2/3, 0), a tie that goes to class 0;
        # x s is (1, 2/3, 1) and (1/3, 4/3, 2)
        ([[1.0, 2.0, 3.0]] * 2, {}, [0, 1], [1, 0]),
        ([[3.0, 2.0, 1.0]] * 2, {"form": "top", "top": 1}, [1, 0], [0, 1]),
        ([[1.0, 1.0, 1.0]] * 2, {"form": "top", "top": 0.3}, [1, 0], [0, 1]),  # a third: the first of equals
        ([[1.0, 1.0, 1.0]] * 2, {"form": "top", "top": 7}, [0, 1], [0, 0]),  # all: (0, 0, 0) is class 0
        # The first element becomes 3.5 when it is removed; the others when it is kept alone.
        ([[3.0, 2.0, 1.0]] * 2, {"form": "top", "top": 1, "fill": 3.5}, [0, 0], [1, 0]),
    ],
)
def test_by_hand(scores, settings, plus, minus):
    case = case_of(first_or_rest, INPUTS, torch.tensor(scores))
    assert metric("fidelity_plus", **settings)(case).tolist() == plus
    assert metric("fidelity_minus", **settings)(case).tolist() == minus


def test_the_gap_by_hand():
    """The highest third: removed (1, 0), kept (0, 1). The highest two thirds: removed (1, 0), kept (0, 0)."""
    case = case_of(first_or_rest, INPUTS, torch.tensor([[3.0, 2.0, 1.0]] * 2))
    assert metric("fidelity_gap", shares=(0.3, 0.7))(case).tolist() == [1.0, -0.5]
    for shares in ((), 0.1, (0.0,), ("a",), (12,)):
        with pytest.raises(InputError, match=r"Expected `shares` as numbers above 0 and up to 1, got"):
            metric("fidelity_gap", shares=shares)


def test_equals_a_loop():
    inputs, scores = images(40, 2)
    model = network(2, scale=2.0)
    inputs = inputs - 0.5
    with torch.no_grad():
        label = lambda image: int(model(image[None]).argmax())
        plus, minus = [], []
        for x, score in zip(inputs, scores, strict=True):
            s = torch.tensor([max(v, 0.0) for v in score.flatten().tolist()])
            s = (s / s.max()).view_as(x)
            plus.append(float(label(x * (1 - s)) != label(x)))
            minus.append(float(label(x * s) != label(x)))
    assert 0 < sum(plus) < 40
    assert 0 < sum(minus) < 40
    case = case_of(model, inputs, scores)
    assert metric("fidelity_plus")(case).tolist() == plus
    assert metric("fidelity_minus")(case).tolist() == minus


def test_a_soft_mask_clips_and_scales():
    scores = torch.tensor([[[-4.0, 0.0], [1.0, 2.0]], [[-1.0, -2.0], [-3.0, 0.0]]])
    assert soft_mask(scores).tolist() == [[[0, 0], [0.5, 1]], [[0, 0], [0, 0]]]


def test_one_output_changes_class_at_one_half():
    case = case_of(lambda rows: rows.sum(1), torch.tensor([[2.0, -1.0], [-2.0, 1.0]]), torch.tensor([[1.0, 0.0]] * 2))
    assert metric("fidelity_plus")(case).tolist() == [1, 1]  # a logit: its sign changes


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"form": "hard"}, "'soft', 'top', got 'hard'"),
        ({"form": "top", "top": 0}, "got 0"),
        ({"form": "top", "top": 1.5}, "got 1.5"),
        ({"top": 12}, "`top` left alone, for form='soft'"),
        ({"fill": "mean"}, "got 'mean'"),
        ({"fill": float("inf")}, "a number for `fill`, got inf"),
    ],
)
@pytest.mark.parametrize("name", ["fidelity_plus", "fidelity_minus"])
def test_bad_settings_are_refused(name, settings, word):
    with pytest.raises(InputError, match=word):
        metric(name, **settings)
