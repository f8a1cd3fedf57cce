"""What holds, does not, or cannot be told, by intervals."""

import numpy as np
import pytest

from fans.report.tables import Entry, entry
from fans.studies.differences import (
    difference,
    is_much_worse,
    is_slightly_worse,
    is_stable,
    is_worse,
    shards,
    together,
    turned,
)


def told(value: float, low: float, high: float, n: int = 50) -> Entry:
    return Entry(value, low, high, n)


@pytest.mark.parametrize(
    ("worse", "verdicts"),
    [  # worse, much worse, slightly worse, stable
        (told(0.3, 0.2, 0.4), (True, True, False, False)),
        (told(0.05, 0.02, 0.08), (True, False, True, True)),
        (told(0.05, -0.05, 0.15), (None, None, None, None)),
        (told(0.0, 0.0, 0.0), (False, False, False, True)),
        (told(-0.3, -0.4, -0.2), (False, False, False, False)),
        (told(0.3, 0.2, 0.4, n=4), (None, None, None, None)),
    ],
)
def test_a_difference_in_words(worse, verdicts):
    assert tuple(judge(worse) for judge in (is_worse, is_much_worse, is_slightly_worse, is_stable)) == verdicts


def test_all_must_hold():
    assert together([True, True]) is True
    assert together([True, None, False]) is False
    assert together([True, None]) is None
    assert together([]) is None


def test_differences_are_paired():
    one, other = {0: 1.0, 1: 5.0, 7: 3.0}, {7: 1.0, 1: 4.0, 9: 100.0}
    found = difference(one, other)
    assert found is not None
    assert (found.value, found.n) == (1.5, 2)
    assert difference(one, {2: 1.0}) is None
    assert turned(told(0.1, 0.0, 0.3)) == told(-0.1, -0.3, 0.0)
    rng = np.random.default_rng(0)
    shared = rng.normal(size=40)  # what inputs have in common cancels
    paired = difference(dict(enumerate(shared + 0.1)), dict(enumerate(shared)))
    assert paired is not None
    assert paired.high - paired.low < 1e-9 < entry(shared).high - entry(shared).low


def test_shards_end_with_the_inputs():
    assert shards(7, 3) == [[0, 3], [3, 6], [6, 7]]
