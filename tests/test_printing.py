"""Prints are compared with what pages say."""

import pytest

from tests.printing import same


@pytest.mark.parametrize(
    ("printed", "claimed"),
    [
        ("by x1: both 90 %\n", "by x1:\n  both 88 %"),
        ("PNS 0.90 [0.80, 0.97]", "PNS 0.91 [0.82, 0.97]"),
        ("1,000 rows of 3", "1,020 rows of 3"),
        ("first 1, second 2, third 3", "first 1, ... third 3"),
        ("by a, ... (2 of 30 columns)", "by a, ... (2 of 30 columns)"),
        ("P > 0.999", "P > 0.999"),
        ("[0. 0.5 1.]", "[0. 0.5 1.]"),
        ("0.000742", "0.000743"),
    ],
)
def test_the_same(printed, claimed):
    assert same(printed, claimed)


@pytest.mark.parametrize(
    ("printed", "claimed"),
    [
        ("by x1: both 90 %", "by x1: both 80 %"),
        ("by x1", "by x2"),
        ("0.5", "0.6"),
        ("by x1 and x2", "by x1"),
        ("2", ""),
        ("2 of 5", "3 of 5"),
        ("first 1, third 9", "first 1, ... third 3"),
    ],
)
def test_not_the_same(printed, claimed):
    assert not same(printed, claimed)
