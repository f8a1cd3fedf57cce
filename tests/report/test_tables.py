"""Tables of results: numbers, marks, files."""

import csv
import io

import numpy as np
import pytest

from fans.report.tables import Entry, Heading, Table, comma_separated, entry, html, markdown, number, text


def made(mean: float, paper: float | None = None) -> Entry:
    return Entry(mean, mean - 1, mean + 1, mean, 5, paper)


TABLE = Table(
    "A title",
    ["Digits"],
    [Heading("IR", True, "what it is"), Heading("INF", False)],
    [("one", "a"), ("two", "a"), ("three", "b"), ("none", "b")],
    {
        ("one", "Digits", "IR"): made(60.8, 61.0),
        ("two", "Digits", "IR"): made(70.0),
        ("three", "Digits", "IR"): made(60.81),
        ("one", "Digits", "INF"): made(1.7e4),
        ("two", "Digits", "INF"): made(9e2),
    },
    ["a note"],
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.6123, "0.612"), (60.81, "60.8"), (1.7e4, "1.70e+04"), (9e2, "900"), (0.0, "0"), (-0.05, "-0.0500"),
        (5e-4, "5.00e-04"), (9999.0, "9999"), (float("nan"), "nan"), (1.0, "1.00"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value, expected):
    assert number(value) == expected


def test_the_interval_is_that_of_a_bootstrap():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = entry(values, paper=3.0, seed=1, n_draws=500)
    drawn = np.random.default_rng(1).integers(0, 4, (500, 4))
    low, high = np.quantile([np.mean([values[j] for j in row]) for row in drawn], [0.025, 0.975])
    assert [found.mean, found.low, found.high, found.median] == pytest.approx([4.0, low, high, 3.0])
    assert (found.n, found.paper) == (4, 3.0)


def test_best_and_second_best_by_the_direction_of_the_metric():
    """What prints alike ties."""
    assert TABLE.places("Digits", TABLE.headings[0]) == {"two": 1, "one": 2, "three": 2}
    assert TABLE.places("Digits", TABLE.headings[1]) == {"two": 1, "one": 2}


def test_markdown():
    lines = markdown(TABLE).splitlines()
    assert "| method | n | IR ↑ | INF ↓ |" in lines
    assert "| one | 5 | <u>60.8</u> [59.8, 61.8] / 61.0 | <u>1.70e+04</u> [1.70e+04, 1.70e+04] / - |" in lines
    assert "| two | 5 | **70.0** [69.0, 71.0] / - | **900** [899, 901] / - |" in lines
    assert "| three | 5 | <u>60.8</u> [59.8, 61.8] / - | - |" in lines
    assert not any(line.startswith("| none") for line in lines)
    assert lines[-2:] == ["- IR: what it is", "- a note"]


def test_comma_separated_values_read_back():
    rows = list(csv.DictReader(io.StringIO(comma_separated(TABLE))))
    assert len(rows) == 5
    assert rows[0] == {
        **{"dataset": "Digits", "method": "one", "metric": "IR", "mean": "60.8", "low": "59.8", "high": "61.8"},
        **{"median": "60.8", "n": "5", "paper": "61.0", "place": "2"},
    }
    assert rows[2]["paper"] == ""


def test_text_and_page():
    assert "*70.0 [69.0, 71.0] / -" in text(TABLE)
    assert "+60.8 [59.8, 61.8] / 61.0" in text(TABLE)
    page = html(TABLE)
    assert "<b>70.0</b> <small>[69.0, 71.0]</small><br><small>-</small>" in page
    assert "<tr class='group'><td>three</td>" in page
    assert "<li>a note</li>" in page
    assert "http" not in page  # self-contained
