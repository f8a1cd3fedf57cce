"""The log of attempts is whole: every line dated, in order, with its figures; the last one is what is reported."""

import csv
import re
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"\d+\.\d+")


def entries() -> list[list[str]]:
    lines = (ROOT / "docs" / "attempts.md").read_text().splitlines()
    table = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert table[0] == ["date", "what changed", "development", "reported"]
    return table[2:]


def test_every_attempt_has_its_date_its_change_and_its_figures():
    found = entries()
    assert found
    for day, change, development, reported in found:
        assert date.fromisoformat(day)
        assert change
        assert FIGURE.search(development), change
        assert reported == "not looked at" or FIGURE.search(reported), change
    days = [day for day, *_ in found]
    assert days == sorted(days)


def test_what_is_reported_is_what_was_looked_at_last():
    *_, last = (
        found for *_, reported in entries() if (found := re.search(r"IR ([\d.]+), ([\d.]+), ([\d.]+)", reported))
    )
    with (ROOT / "results" / "table1" / "table.csv").open() as file:
        lines = [
            e for e in csv.DictReader(file) if (e["method"], e["metric"], e["statistic"]) == ("FANS", "IR", "mean")
        ]
    assert [f"{float(e['value']):.1f}" for e in lines] == list(last.groups())
