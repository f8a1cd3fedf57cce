"""Insertion and deletion by hand and against a loop."""

import itertools

import pytest
import torch

from fans import InputError
from fans.metrics import metric
from tests.metrics.material import case_of, images, network


def test_by_hand():
    """P = share of elements that are there, of (1, 1, 1, 1): a straight line, half of the square below it."""
    share = lambda rows: torch.stack([rows.mean(1), 1 - rows.mean(1)], 1)
    ones = torch.ones(1, 4)
    case = case_of(share, ones, ones)
    for name in ("insertion", "deletion"):
        assert metric(name, fill=0.0)(case).tolist() == pytest.approx([0.5])
    # Only the second element matters. Found first: deletion 1 -> 0 in a quarter; found last: in the last quarter.
    second = lambda rows: torch.stack([rows[:, 1], 1 - rows[:, 1]], 1)
    first, last = torch.tensor([[0.0, 1.0, 0.0, 0.0]]), torch.tensor([[0.0, -1.0, 0.0, 0.0]])
    assert metric("deletion", fill=0.0)(case_of(second, ones, first)).tolist() == [0.125]
    assert metric("deletion", fill=0.0)(case_of(second, ones, last)).tolist() == [0.875]
    assert metric("insertion", fill=0.0)(case_of(second, ones, first)).tolist() == [0.875]
    assert metric("insertion", fill=0.0, n_steps=2)(case_of(second, ones, first)).tolist() == [0.75]


def slow_curve(predict, image, scores, fill, n_steps, *, inserted):
    """Change pixels one by one, look after every step, and integrate."""
    height, width = image.shape[1:]
    pixels = list(itertools.product(range(height), range(width)))
    order = sorted(pixels, key=lambda p: -float(scores[:, p[0], p[1]].sum()))
    nothing = torch.empty_like(image)
    for channel in range(len(image)):
        nothing[channel] = image[channel].mean() if fill == "mean" else fill
    current, other = (nothing.clone(), image) if inserted else (image.clone(), nothing)
    points, changed = [(0.0, predict(current))], 0
    for step in range(1, n_steps + 1):
        upto = round(step * len(pixels) / n_steps)
        for row, column in order[changed:upto]:
            current[:, row, column] = other[:, row, column]
        changed = upto
        points.append((upto / len(pixels), predict(current)))
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(points))


@pytest.mark.parametrize("name", ["insertion", "deletion"])
@pytest.mark.parametrize(("fill", "n_steps"), [("mean", 10), (0.3, 7), ("mean", 64), (0.0, 1)])
def test_equals_a_loop(name, fill, n_steps):
    inputs, scores = images(3, 2)
    model = network(2)
    case = case_of(model, inputs, scores)
    values = metric(name, fill=fill, n_steps=n_steps)(case)
    with torch.no_grad():
        for value, x, score, target in zip(values.tolist(), inputs, scores, case.target.tolist(), strict=True):
            predict = lambda image, t=target: float(torch.softmax(model(image[None]), 1)[0, t])
            expected = slow_curve(predict, x, score, fill, n_steps, inserted=name == "insertion")
            assert value == pytest.approx(expected, rel=1e-5)


def test_more_steps_than_pixels_are_as_many_as_pixels():
    inputs, scores = images(3, 2)
    case = case_of(network(2), inputs, scores)
    assert metric("deletion", n_steps=1000)(case).tolist() == metric("deletion", n_steps=64)(case).tolist()
    assert metric("deletion", n_steps=1000).cost((2, 8, 8)) == 65


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="got 'blur'"):
        metric("insertion", fill="blur")
    rows = torch.rand(2, 5)
    with pytest.raises(InputError, match=r"fill='mean', got inputs of shape \(B, 5\); pass a number"):
        metric("deletion")(case_of(lambda x: x, rows, rows))
