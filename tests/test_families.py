"""What every registered method promises, whatever it computes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fans
from fans.explainers._shared import Method

RNG = np.random.default_rng(0)
BACKGROUND, INPUTS = RNG.normal(size=(80, 5)), RNG.normal(size=(4, 5))


def model(rows: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-2 * (rows[:, 0] - rows[:, 1])))
    return np.stack([1 - p, p], axis=1)


@pytest.mark.parametrize("name", sorted(Method.registry))
def test_every_method(name):
    member = Method.registry[name]
    assert issubclass(member, Method)
    assert member.name == name
    assert member.label
    assert member.modalities
    assert "," in member.citation
    explain = lambda **s: fans.Explainer(model, BACKGROUND, method=name, radius=2.0, **s)(INPUTS)
    one, again, small = explain(), explain(), explain(max_batch=13)
    assert one.scores.shape == (4, 5)
    assert np.isfinite(one.scores).all()
    assert np.array_equal(one.scores, again.scores)
    assert one.scores == pytest.approx(small.scores, abs=1e-5)
    assert (one.scores[:, :2].mean(axis=0) > one.scores[:, 2:].mean(axis=0).max()).all()  # higher is more important
    assert (one.evaluations["scoring"] <= fans.Explainer(model, BACKGROUND, method=name).method.cost).all()
    assert one.subset.any(axis=1).all()


def test_two_methods_of_one_name_are_refused():
    with pytest.raises(TypeError, match="got 'fans', taken by"):

        @dataclass(frozen=True)
        class Again(Method):
            name: ClassVar[str] = "fans"
