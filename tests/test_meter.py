"""Rows counted: in all, and of each piece of work in its own thread."""

import pickle
from concurrent.futures import ThreadPoolExecutor

from fans.meter import RowMeter


def test_pieces_of_work_within_each_other():
    meter, other, told = RowMeter(), RowMeter(), list[int]()
    with meter.counting() as outer:
        meter.add(1)
        with meter.counting() as inner, meter.telling(told.append):
            meter.add(2)
            other.add(100)
        meter.add(4)
    meter.add(8)
    assert (inner.n_rows, outer.n_rows, meter.n_rows, told, other.n_rows) == (2, 7, 15, [2], 100)


def test_threads_count_their_own():
    meter = RowMeter()

    def work(n: int) -> int:
        with meter.counting() as spent:
            for _ in range(500):
                meter.add(n)
        return spent.n_rows

    with ThreadPoolExecutor(8) as pool, meter.counting() as mine:
        found = list(pool.map(work, range(8)))
    assert found == [500 * n for n in range(8)]
    assert (meter.n_rows, mine.n_rows) == (sum(found), 0)


def test_a_pickled_meter_counts_on():
    meter = RowMeter()
    meter.add(3)
    again: RowMeter = pickle.loads(pickle.dumps(meter))  # noqa: S301
    again.add(1)
    assert (again.n_rows, meter.n_rows) == (4, 3)
