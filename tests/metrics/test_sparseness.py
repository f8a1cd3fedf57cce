"""Sparseness against Quantus 0.4.3 and by hand."""

import pytest
import torch

from fans.metrics import metric
from tests.metrics import quantus_shim
from tests.metrics.material import case_of, images, network

needs_quantus = pytest.mark.skipif(bool(quantus_shim.missing()), reason=quantus_shim.missing())


@needs_quantus
@pytest.mark.parametrize("n_channels", [1, 3])
def test_equals_quantus(n_channels):
    """Quantus has one score a pixel; given to every channel, it is as unequal as before."""
    inputs, scores = images(4, n_channels)
    one = scores[:, :1]
    case = case_of(network(n_channels), inputs, one.expand_as(inputs))
    with quantus_shim.quantus() as quantus:
        theirs = quantus.Sparseness(disable_warnings=True)(
            case.model, inputs.numpy(), case.target.numpy(), one.double().numpy()
        )
    assert metric("sparseness")(case).tolist() == pytest.approx(theirs, rel=1e-5)


def test_by_hand():
    """Of (1, 3): 1 - 2 (1/4 * 3/4 + 3/4 * 1/4) = 1/4; signs do not matter."""
    scores = torch.tensor([[-3.0, 1.0], [2.0, 2.0], [0.0, 0.0], [0.0, 5.0]])
    values = metric("sparseness")(case_of(lambda rows: rows, torch.zeros(4, 2), scores))
    assert values.tolist() == pytest.approx([0.25, 0, 0, 0.5])


def test_equals_the_papers_formula_in_ascending_order():
    _, scores = images(3)
    values = metric("sparseness")(case_of(lambda rows: rows, scores.flatten(1), scores.flatten(1)))
    for value, row in zip(values.tolist(), scores.flatten(1).abs().tolist(), strict=True):
        n, total = len(row), sum(row)
        gini = 1 - 2 * sum(s / total * (n - d + 0.5) / n for d, s in enumerate(sorted(row), 1))
        assert value == pytest.approx(gini, rel=1e-6)
