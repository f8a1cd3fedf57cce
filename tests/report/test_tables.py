"""Tables of results: numbers, marks, files."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fans.errors import InputError
from fans.report.tables import Entry, Faithful, Heading, Table, comma_separated, entry, markdown, number, text


def made(value: float, n: int = 5) -> Entry:
    return Entry(value, value - 1, value + 1, n)


TABLE = Table(
    "A title",
    ["Digits"],
    [Heading("IR", True, "what it is"), Heading("INF", False), Heading("RAW", False, ranked=False)],
    [("one", "a"), ("two", "a"), ("three", "b"), ("few", "b"), ("none", "b")],
    {
        ("one", "Digits", "IR"): made(60.8),
        ("two", "Digits", "IR"): made(70.0),
        ("three", "Digits", "IR"): made(60.81),
        ("few", "Digits", "IR"): made(99.0, 2),
        ("one", "Digits", "INF"): made(1.7e4),
        ("two", "Digits", "INF"): made(9e2),
        ("two", "Digits", "RAW"): made(1.5),
    },
    {("one", "Digits", "IR"): 61.0, ("three", "Digits", "INF"): 12.0},
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


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_the_interval_is_that_of_a_bootstrap(statistic):
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = entry(values, statistic, seed=1, n_draws=500)
    drawn = np.random.default_rng(1).integers(0, 4, (500, 4))
    of: Any = {"mean": np.mean, "median": np.median}[statistic]
    low, high = np.quantile([of([values[j] for j in row]) for row in drawn], [0.025, 0.975])
    assert [found.value, found.low, found.high] == pytest.approx([of(values), low, high])
    assert (found.n, found.statistic) == (4, statistic)


def test_best_and_second_best_by_the_direction_of_the_metric():
    """What prints alike ties; a row with fewer inputs, or a column that is not ranked, gets no mark."""
    assert TABLE.places("Digits", TABLE.headings[0]) == {"two": 1, "one": 2, "three": 2}
    assert TABLE.places("Digits", TABLE.headings[1]) == {"two": 1, "one": 2}
    assert TABLE.places("Digits", TABLE.headings[2]) == {}


def test_markdown():
    lines = markdown(TABLE).splitlines()
    assert "## Digits, 5 inputs" in lines
    assert "| method | IR ↑ | INF ↓ | RAW ↓ |" in lines
    assert "| one | <u>60.8</u> [59.8, 61.8] / 61.0 | <u>1.70e+04</u> [1.70e+04, 1.70e+04] / - | - / - |" in lines
    assert "| two | **70.0** [69.0, 71.0] / - | **900** [899, 901] / - | 1.50 [0.500, 2.50] / - |" in lines
    assert "| three | <u>60.8</u> [59.8, 61.8] / - | - / 12.0 | - / - |" in lines
    assert "| few | 99.0 (n=2) / - | - / - | - / - |" in lines
    assert not any(line.startswith("| none") for line in lines)
    assert lines[-2:] == ["- IR: what it is", "- a note"]


def test_comma_separated_values_read_back():
    rows = list(csv.DictReader(io.StringIO(comma_separated(TABLE))))
    assert len(rows) == 7
    assert rows[0] == {
        **{"dataset": "Digits", "method": "one", "metric": "IR", "statistic": "mean", "value": "60.8", "low": "59.8"},
        **{"high": "61.8", "n": "5", "paper": "61.0", "place": "2", "won by": ""},
    }
    assert rows[2]["paper"] == ""


def test_text():
    assert "*70.0 [69.0, 71.0] / -" in text(TABLE)
    assert "+60.8 [59.8, 61.8] / 61.0" in text(TABLE)
    assert text(TABLE).endswith("IR: what it is\na note\n")


STEADY = {"good": 0.4, "fair": 0.3, "near": 0.2, "poor": 0.1, "blind": 0.0, "same": 0.0}
RIGHT = {"good": 70.0, "fair": 68.0, "near": 67.0, "poor": 66.9, "blind": 35.0, "same": 40.0}
CONTROLLED = Table(
    "Controls",
    ["Digits"],
    [Heading("IR", True), Heading("MS", False)],
    [(row, "") for row in STEADY],
    {(row, "Digits", name): made(v) for name, of in (("IR", RIGHT), ("MS", STEADY)) for row, v in of.items()},
    trivial={"blind", "same"},
    faithful=Faithful("IR", 3.0),
)
"""Two controls are the steadiest; of the others `poor` is, whose IR is 3.1 behind the best."""


def test_where_a_trivial_control_is_best_only_faithful_rows_count():
    right, steady = CONTROLLED.headings
    assert (CONTROLLED.won_by("Digits", right), CONTROLLED.won_by("Digits", steady)) == ([], ["blind", "same"])
    assert CONTROLLED.places("Digits", right) == {"good": 1, "fair": 2}
    assert CONTROLLED.places("Digits", steady) == {"near": 1, "fair": 2}
    wider = replace(CONTROLLED, faithful=Faithful("IR", 3.1))
    assert wider.places("Digits", steady) == {"poor": 1, "near": 2}


def test_a_table_says_where_a_trivial_control_is_best():
    told = "On Digits no row beats blind or same in MS; there only rows count whose IR is within 3 of the best row's."
    assert CONTROLLED.remarks() == [
        "Best and second best are marked among rows with the same number of inputs, trivial controls aside.",
        told,
    ]
    assert told in text(CONTROLLED).splitlines()
    assert f"- {told}" in markdown(CONTROLLED).splitlines()
    assert "| blind | 35.0 [34.0, 36.0] | 0 [-1.00, 1.00] |" in markdown(CONTROLLED)  # no mark
    rows = list(csv.DictReader(io.StringIO(comma_separated(CONTROLLED))))
    assert {row["won by"] for row in rows if row["metric"] == "MS"} == {"blind; same"}
    assert {row["won by"] for row in rows if row["metric"] == "IR"} == {""}
    assert [row["method"] for row in rows if row["place"] == "1"] == ["good", "near"]


def test_a_tie_with_a_trivial_control_is_no_win():
    tied = replace(CONTROLLED, entries={**CONTROLLED.entries, ("poor", "Digits", "MS"): made(0.0)})
    assert tied.places("Digits", tied.headings[1]) == {"near": 1, "fair": 2}


def test_a_control_that_leads_the_reference_is_the_best_row_of_it():
    """Nothing is near it, so nothing counts, in the reference itself as elsewhere."""
    led = replace(CONTROLLED, entries={**CONTROLLED.entries, ("same", "Digits", "IR"): made(75.0)})
    assert led.places("Digits", led.headings[0]) == led.places("Digits", led.headings[1]) == {}
    assert led.remarks()[1].startswith("On Digits no row beats same in IR; there only rows count whose IR")


def test_without_a_reference_nothing_counts_where_a_trivial_control_is_best():
    for faithful in (None, Faithful("Nothing", 1.0)):
        table = replace(CONTROLLED, faithful=faithful)
        assert table.places("Digits", table.headings[1]) == {}
        assert table.remarks()[1] == "On Digits no row beats blind or same in MS; there no row counts."
    assert replace(CONTROLLED, rows=[("blind", ""), ("same", "")]).remarks()[1:] == []  # nothing to beat them
    with pytest.raises(InputError, match="`within` of at least 0, got -1"):
        Faithful("IR", -1)
