"""Sections of a report: figures as numbers and pictures, claims in words."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from fans.report.sections import Chart, Claim, Gallery, Line, Panel, Section, section_text, stated
from fans.report.study_page import page
from fans.report.tables import entry


def chart() -> Chart:
    values = {0.1: np.arange(6.0), 0.5: np.arange(6.0) + 2}
    ours = Line.of("FANS", {x: entry(v) for x, v in values.items()}, ours=True)
    few = Line.of("LIME", {0.5: entry(np.array([1.0, 3.0])), 0.1: entry(np.array([0.0, 1.0]))})
    return Chart("steady", "How $steady", [Panel("MNIST", "noise", "distance", [ours, few], marks=[(0.2, "here")])])


def test_a_chart_is_numbers():
    rows = list(csv.DictReader(io.StringIO(chart().comma_separated())))
    assert [(r["line"], float(r["x"]), float(r["y"]), r["n"]) for r in rows] == [
        ("FANS", 0.1, 2.5, "6"),
        ("FANS", 0.5, 4.5, "6"),
        ("LIME", 0.1, 0.5, "2"),
        ("LIME", 0.5, 2.0, "2"),
    ]
    assert float(rows[0]["low"]) < 2.5 < float(rows[0]["high"])
    assert rows[2]["low"] == ""  # two inputs have no interval worth printing


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_a_chart_is_a_picture(kind, start):
    assert chart().drawn(kind).startswith(start)
    assert chart().drawn(kind) == chart().drawn(kind)


def test_ours_comes_last_and_has_a_colour_of_its_own():
    colours = chart().colours()
    assert list(colours) == ["LIME", "FANS"]
    assert colours["FANS"][0] not in {colours["LIME"][0]}


def test_a_gallery_is_numbers_and_a_picture():
    scores = np.zeros((1, 2, 2, 2))
    scores[0, 1, 0, 1] = -0.5
    made = Gallery("maps", "Maps", ["a 7"], ["FANS", "LIME"], np.ones((1, 2, 2)), scores)
    rows = list(csv.DictReader(io.StringIO(made.comma_separated())))
    assert len(rows) == 3 * 4
    assert [r for r in rows if float(r["value"]) < 0] == [
        {"input": "a 7", "picture": "LIME", "row": "0", "column": "1", "value": "-0.5"}
    ]
    assert made.drawn("png").startswith(b"\x89PNG")


def test_claims_in_words():
    claim = Claim("FANS is steadier.", "Section 5.2", "it is not", held=False)
    said = section_text(Section("steady", "Steadiness", [claim], ["All of it."]))
    assert "The paper (Section 5.2): FANS is steadier.\n  does not hold here: it is not" in said
    assert said.endswith("All of it.\n")
    assert stated(entry(np.full(8, 0.5))) == "0.500 [0.500, 0.500], N = 8"


def test_every_interval_is_named():
    assert chart().said == "Bands and bars: 95 % intervals over inputs."
    noted = replace(chart(), note="Of images.")
    assert noted.said == "Of images. Bands and bars: 95 % intervals over inputs."
    assert replace(chart(), note="Bands: 95 % intervals.").said == "Bands: 95 % intervals."
    few = replace(chart(), panels=[replace(chart().panels[0], lines=chart().panels[0].lines[1:])])
    assert few.said == ""  # two inputs have no bands
    told = Section("steady", "Steadiness", summary=[f"It is {stated(entry(np.arange(6.0)))}."])
    assert section_text(told).endswith("\n\nIn brackets: 95 % intervals over inputs.\n")
    assert page([told]).count("In brackets: 95 % intervals over inputs.") == 1
    plain = Section("steady", "Steadiness", summary=["All of it."])
    assert "In brackets" not in page([plain]) + section_text(plain)
    claimed = replace(plain, claims=[Claim("It is.", "Table 1", f"it is {stated(entry(np.arange(6.0)))}", held=True)])
    assert "In brackets: 95 % intervals over inputs.</p><ol" in page([claimed])
