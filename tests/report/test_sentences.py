"""Explanations in words: sentences, prints, numbers as people write them."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fans
from fans.report.sentences import column_legend, join_names, number, outcome, percent, score_text, times
from tests.report.made import explanation, graph_of, house, table
from tests.report.made import small_images as made


def said(e: fans.Explanation, **changes) -> str:
    """The sentence after some estimates were replaced."""
    arrays: dict[str, Any] = {k: np.asarray(v) if isinstance(v, list) else v for k, v in changes.items()}
    return replace(e[0], **arrays).sentences[0]


NAN = [math.nan]


def test_the_sentence_carries_the_estimates(e):
    assert said(e) == (
        "Keep *x2* and *x1* (2 of 3 columns), and change everything else: P(benign) stays within 0.1 in 93 % of trials."
        " Change only these: P(benign) moves by more than 0.1 in 97 % of trials. Both: 90 %. "
        "On average changing *x2* raises P(benign) by 0.05 and changing *x1* lowers it by 0.31. "
        "(PNS 0.90, 95 % interval [0.86, 0.93], PN 0.93, PS 0.97)"
    )
    assert "Change only *x3*: P(benign)" in said(e, subset=[[False, False, True]])


@pytest.mark.parametrize("holds", [0.0, 0.001, 0.5, 0.996, 1.0, math.nan])
@pytest.mark.parametrize("changes", [0.0, 0.004, 0.5, 0.999, 1.0, math.nan])
@pytest.mark.parametrize("chosen", [True, False])
def test_the_sentence_never_contradicts_the_estimates(e, holds, changes, chosen):
    text = said(e, subset=[[chosen, False, False]], holds=[holds], changes=[changes], pns=[changes], stability=NAN3)
    shares = [int(n) / 100 for n in re.findall(r"(\d+) %", text.partition(" (PNS")[0])]
    expected = [p for p in ((holds, changes, changes) if chosen else (holds,)) if not math.isnan(p)]
    assert len(shares) == len(expected)
    for share, p in zip(shares, expected, strict=True):
        assert share == pytest.approx(p, abs=0.0101)
        assert (share in (0, 1)) == (p in (0, 1))  # certainty is claimed only where it was found
    assert ("unknown share" in text) == (len(expected) < (3 if chosen else 1))


NAN3 = [[math.nan] * 3]


def test_the_sentence_where_nothing_is_known(e):
    unknown = dict.fromkeys(("pns", "pn", "ps", "changes", "holds", "tolerance", "radius", "prediction"), NAN)
    text = said(e, **unknown, direction=NAN3, stability=NAN3, interval=[[[math.nan] * 2] * 3])
    assert "nan" not in text.lower()
    assert "On average" not in text
    assert "resampled" not in text


def test_the_sentence_for_nothing_and_everything(e):
    nothing = [[False] * 3]
    words = "whatever is changed near this input, it stays within 0.1 in"
    assert said(e, subset=nothing, holds=[1.0]).startswith(f"Nothing changes P(benign): {words} 100 % of trials. (")
    assert said(e, subset=nothing, holds=[0.96]).startswith(f"Almost nothing changes P(benign): {words} 96 % of")
    assert said(e, subset=nothing, holds=[0.6]).startswith(
        "Nothing stands out: whatever is changed near this input, P("
    )
    text = said(e, subset=[[True] * 3])
    assert text.startswith(
        "No part of the 3 columns stands out. Change *x2*, *x1* and *x3* together: P(benign) moves by more than 0.1 "
        "in 97 % of trials."
    )


@pytest.mark.parametrize(
    ("names", "line", "sentence"),
    [
        (("a", "b"), " by both columns: changed, moves in 97 %", "Neither of the 2 columns stands out. Change "),
        (("a",), " by its only column: changed, moves in 97 %", "There is only one column. Change *a*: P(benign) "),
    ],
)
def test_everything_there_is_has_words_of_its_own(monkeypatch, names, line, sentence):
    monkeypatch.setenv("COLUMNS", "200")
    n = len(names)
    found = explanation(np.ones((1, n)), np.ones((1, n), bool), feature_names=names, element_names=names)
    assert str(found) == f"row 0: P(benign) = 0.9{line}"
    assert found.sentences[0].startswith(sentence)


def test_the_sentence_for_other_changes_and_outputs(e):
    label = said(e, change="label")
    assert "the predicted class stays the same in 93 %" in label
    assert "the predicted class changes in 97 %" in label
    assert "lowers it by 0.31" in label
    assert "the prediction moves by more than 0.1" in said(e, change="l2")
    falls = said(e, change="fall")
    assert "P(benign) falls by at most 0.1 in 93 %" in falls
    assert "P(benign) falls by more than 0.1 in 97 %" in falls
    assert "P(benign) stays where it is in 93 %" in said(e, tolerance=[0.0])
    regressor = said(e, kind="output", target_names=("y",), tolerance=[12.34], direction=[[-1234.0, 0.0, math.nan]])
    assert "change everything else: y stays within 12.3 in 93 %" in regressor
    assert "changing *x2* barely moves y and changing *x1* lowers it by 1,234." in regressor
    assert "y stays within 1,234 in 93 %" in said(e, kind="output", target_names=("y",), tolerance=[1234.4])
    assert "the output stays within 12.3 in" in said(e, kind="output", target_names=("0",), tolerance=[12.34])
    assert "On average changing one of them alone barely moves P(benign)." in said(e, direction=[[0.0, 1e-9, math.nan]])


def test_the_sentence_tells_of_the_least_stable_member(e):
    assert "resampled" not in said(e, stability=[[1.0, 1.0, 0.3]])
    text = said(e, stability=[[0.87, 1.0, 0.3]])
    assert "The least stable, *x1*, is chosen in 9 of 10 resampled runs." in text
    alone = said(e, stability=[[0.999, 1.0, 0.3]], subset=[[True, False, False]])
    assert "*x1* is chosen in more than 9 of 10 resampled runs." in alone
    of_image = replace(made()[0], stability=np.array([[0.5, 0.0, 0.9]])).sentences[0]
    assert "On average a superpixel of it is chosen in 7 of 10 resampled runs." in of_image


def test_the_sentence_of_a_graph_names_five_edges():
    text = house().sentences[0]
    assert text.startswith("Keep the edges *31 - 34*, *30 - 34*, ")
    assert " and 1 more (6 of 63 edges), and change everything else: P(roof) stays" in text
    assert text.count("changing *") == 3


FOUND = "row 0: P(benign) = 0.9 by x2 and x1 (2 of 3 columns):"
SHARES = "kept, stays in 93 %; changed, moves in 97 %; both 90 % [95 %: 86, 93]"


@pytest.mark.parametrize(
    ("width", "expected"), [(130, f"{FOUND} {SHARES}"), (80, f"{FOUND}\n    {SHARES}"), (0, f"{FOUND}\n    {SHARES}")]
)
def test_a_row_prints_on_a_line_or_two(e, monkeypatch, width, expected):
    monkeypatch.setenv("COLUMNS", str(width))
    assert str(e[0]) == expected
    assert str(e).splitlines()[: len(expected.splitlines())] == expected.splitlines()


@pytest.mark.parametrize(
    ("width", "expected", "breaks"),
    [
        (80, "row 0: P(benign) = 0.9 by column 0, column 1, column 2, ... (8 of 9 columns):", ()),
        (60, "row 0: P(benign) = 0.9 by column 0, ... (8 of 9 columns):", ("both",)),
        (40, "row 0: P(benign) = 0.9 by column 0, ...\n    (8 of 9 columns):", ("changed", "both")),
    ],
)
def test_a_print_names_as_many_columns_as_fit(monkeypatch, width, expected, breaks):
    monkeypatch.setenv("COLUMNS", str(width))
    names = tuple(f"column {k}" for k in range(9))
    e = explanation(np.linspace(1, 0.1, 9)[None], np.arange(9)[None] < 8, feature_names=names, element_names=names)
    shares = SHARES
    for word in breaks:
        shares = shares.replace(f" {word}", f"\n    {word}")
    assert str(e) == f"{expected}\n    {shares}"
    assert max(map(len, str(e).splitlines())) <= width + 1  # a name and the colon after it are not torn apart


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"subset": [[False] * 3], "holds": [1.0]}, "; nothing changes it: all changed, stays in 100 %"),
        ({"subset": [[False] * 3], "holds": [0.6]}, "; nothing stands out: all changed, stays in 60 %"),
        ({"subset": [[True] * 3]}, " by all 3 columns: changed, moves in 97 %"),
        (
            {"subset": [[True, False, False]], "interval": [[[math.nan] * 2] * 3], "change": "label"},
            " by x1 (1 of 3 columns): kept, class stays in 93 %; changed, class changes in 97 %; both 90 %",
        ),
    ],
)
def test_what_a_row_prints_besides(e, monkeypatch, changes, expected):
    monkeypatch.setenv("COLUMNS", "200")
    arrays = {k: np.asarray(v) if isinstance(v, list) else v for k, v in changes.items()}
    assert str(replace(e[0], **arrays)) == f"row 0: P(benign) = 0.9{expected}"


def test_images_and_graphs_print_too(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert str(made()[0]) == f"image 0: P(Sneaker) = 0.9 by 67 % of the image (2 of 3 superpixels): {SHARES}"
    path = graph_of([(0, 1), (1, 2)], [0.5, 0.1], [True, False])
    assert str(path) == f"graph 0: P(benign) = 0.9 by 0 - 1 (1 of 2 edges): {SHARES}"
    assert str(house()).startswith("input 0: P(roof) = 0.9 by 31 - 34, 30 - 34, ")
    assert str(replace(house(), ids=(34,))).startswith("node 34: P(roof)")
    assert str(replace(house(), ids=("me",))).startswith("me: P(roof)")


def test_of_many_inputs_a_print_tells_the_first():
    lines = str(table(70)).splitlines()
    assert lines[-1] == "10 more inputs: `sentences` tells of all."
    assert sum(line.startswith("row ") for line in lines) == 60


@pytest.mark.parametrize(
    ("p", "kind", "expected"),
    [
        (1.0, "probability", "P(benign) = 1"),
        (0.99951, "probability", "P(benign) > 0.999"),
        (0.9994, "probability", "P(benign) = 0.999"),
        (0.00009, "probability", "P(benign) < 0.0001"),
        (0.0, "probability", "P(benign) = 0"),
        (21390.4, "output", "output benign = 21,390"),
        (0.99999, "output", "output benign = 1"),
    ],
)
def test_a_probability_is_certain_only_where_it_is(e, p, kind, expected):
    assert outcome(replace(e, prediction=np.full(4, p), kind=kind), 0) == expected


@pytest.mark.parametrize(
    ("scores", "se", "expected"),
    [
        ([28.4, 5.5], 1.0, "28.4 [26.4, 30.4]"),
        ([21390.4, 3.0], 1000.0, "21,390 [19,430 to 23,350]"),
        ([-0.00001, 0.05], 0.01, "0.000 [-0.020, 0.020]"),
        ([0.0004, 0.0001], 0.0001, "0.000400 [0.000204, 0.000596]"),
        ([0.0, 0.0], 0.0, "0.000 [0.000, 0.000]"),
    ],
)
def test_scores_have_the_digits_that_tell(scores, se, expected):
    e = explanation([scores], [[True, False]], scores_se=np.full((1, 2), se))
    assert score_text(e, 0, 0) == expected


def test_a_group_of_columns_is_a_feature():
    grouped = replace(table(1), elements=np.array([0, 1, 2, 2]), inputs=np.zeros((1, 4)), element_names=("a",) * 4)
    assert "(2 of 3 features)" in grouped.sentences[0]
    assert "when only the feature is changed" in column_legend(grouped)
    assert "when only the column is changed" in column_legend(table(1))


def test_the_legend_says_what_the_scores_of_walks_are():
    walks = replace(table(1), settings={"solver": "walks"})
    assert column_legend(walks).startswith("Score: how far the output moves on average, up or down, when the column is")
    assert not column_legend(table(1)).startswith("Score")


def test_the_estimates_of_a_subset_print_on_one_line():
    shares = {"pns": 0.412, "pn": 0.88, "ps": math.nan, "p_ab": 0.1, "p_nab": 0.1, "changes": 0.47, "holds": 0.884}
    arrays: dict[str, Any] = {name: np.array([share]) for name, share in shares.items()}
    line = fans.PNS(
        **arrays,
        se=np.zeros((1, 3)),
        interval=np.array([[[0.38, 0.45], [0.8, 0.9], [math.nan] * 2]]),
        share_se=np.zeros((1, 2)),
        share_interval=np.array([[[0.4, 0.55], [0.8, 0.95]]]),
        ess_nc=np.ones(1),
        ess_sf=np.ones(1),
        radius=np.array([0.4234]),
        tolerance=np.array([0.1]),
        phi=0.5,
        n_evaluations=5,
        confidence=0.95,
        estimator="mean",
        notes=("a note",),
    )
    assert str(line) == (
        "PNS 0.412 [0.38, 0.45]  changes 0.47  holds 0.88  PN 0.880 [0.80, 0.90]  PS undefined  "
        "(tolerance 0.1, radius 0.423, phi 0.5; 95 % intervals)  a note"
    )


def test_the_representation_counts_what_was_chosen(e):
    assert repr(e) == "Explanation(method='fans', inputs=4, features=3, chosen=2)"
    some = replace(e[:2], subset=np.array([[True, False, False], [True, True, True]]))
    assert repr(some).endswith("chosen=1 to 3)")


def test_small_words():
    assert [percent(p) for p in (0, 0.0001, 0.994, 0.9999, 1)] == ["0 %", "1 %", "99 %", "99 %", "100 %"]
    assert join_names(["a"]) == "*a*"
    assert join_names(list("abcdefgh")) == "*a*, *b*, *c*, *d*, *e* and 3 more"
    assert [number(v) for v in (0.0213, 0.00002, 3.14159, 12345.6)] == ["0.0213", "2.0e-05", "3.14", "12,346"]
    assert [times(p) for p in (0, 0.01, 0.5, 0.94, 0.97, 1)] == [
        *("0 of 10", "fewer than 1 of 10", "5 of 10", "9 of 10", "more than 9 of 10", "10 of 10"),
    ]
