"""Samples that are near, and what is said where hardly any is."""

import math

import numpy as np
import pytest

import fans
from tests.engine.subjects import SUBSET, X, smooth


def test_far_from_every_sample_the_nearest_count():
    """exp(-d^2 / 2 b^2) of all samples underflows, their shares do not."""
    background = np.array([[3.0, 0.0], [5.0, 0.0], [5.0, 1.0]])
    f = lambda rows: rows[:, 0]
    with pytest.warns(fans.FansWarning, match="1.0 of 3"):
        found = fans.pns(f, [-90.0, 0.0], [True, False], background=background, baseline=3.0, radius=0.1, tolerance=0.5)
    assert (found.changes[0], found.holds[0], found.pns[0]) == pytest.approx((0.0, 1.0, 0.0))


def test_no_sample_within_the_radius_is_undefined_and_says_so():
    found = fans.pns(
        smooth, X + 9, SUBSET, background=np.random.default_rng(3).normal(size=(40, 4)), baseline=0.0, radius=0.1,
        tolerance=0.1, kernel="indicator",
    )  # fmt: skip
    for values in (found.pns, found.pn, found.ps, found.changes, found.holds):
        assert math.isnan(values[0])
    assert found.notes[0] == "PNS is undefined: no reference sample is within the radius"
    assert str(found).startswith("PNS undefined")


def test_no_sample_with_weight_gives_nan_with_the_reason_never_a_half():
    found = fans.pns(
        lambda rows: rows[:, 0], np.zeros(2), [False, True], background=np.random.default_rng(0).normal(size=(30, 2)),
        baseline=0, radius=5.0, tolerance=0.0, kernel="indicator",
    )  # fmt: skip
    assert math.isnan(found.pn[0])
    assert found.p_ab[0] == 0.0
    assert "changed no nearby sample" in found.notes[0]
    assert found.pns[0] == 0.0


def test_a_thin_neighbourhood_warns_once_and_says_what_to_do():
    background = np.random.default_rng(0).normal(size=(50, 4))
    with pytest.warns(fans.FansWarning, match=r'2 of 2 estimates.*of 50.*radius="ess"') as caught:
        fans.pns(smooth, background[:2], SUBSET, background=background, baseline=0.0, radius=0.05, tolerance=0.1)
    assert len(caught) == 1
