"""Sentences, pages, frames and figures say what the estimates say."""

import base64
import io
import math
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

import fans
from fans.modalities.graph import drawing as graphs
from fans.modalities.image import pictures as images
from fans.report import colours
from fans.report.html import pages
from fans.report.pixels import png
from fans.report.sentences import column_legend, headline, join_names, number, outcome, percent, score_text, times
from tests.report.made import by_pixel, explanation, graph_of, house, table
from tests.report.made import small_images as made


@pytest.fixture(scope="module")
def e() -> fans.Explanation:
    return table()


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
        "(PNS 0.90 [0.86, 0.93], PN 0.93, PS 0.97)"
    )
    assert "Change only *x3*: P(benign)" in said(e, subset=[[False, False, True]])


@pytest.mark.parametrize("holds", [0.0, 0.001, 0.5, 0.996, 1.0, math.nan])
@pytest.mark.parametrize("changes", [0.0, 0.004, 0.5, 0.999, 1.0, math.nan])
@pytest.mark.parametrize("chosen", [True, False])
def test_the_sentence_never_contradicts_the_estimates(e, holds, changes, chosen):
    text = said(e, subset=[[chosen, False, False]], holds=[holds], changes=[changes], pns=[changes], stability=NAN3)
    shares = [int(n) / 100 for n in re.findall(r"(\d+) %", text)]
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
    assert "the output stays within 12.3 in 93 %" in regressor
    assert "changing *x2* barely moves the output and changing *x1* lowers it by 1,234." in regressor
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
SHARES = "kept, stays in 93 %; changed, moves in 97 %; both 90 % [86, 93]"


@pytest.mark.parametrize(
    ("width", "expected"), [(130, f"{FOUND} {SHARES}"), (80, f"{FOUND}\n    {SHARES}"), (0, f"{FOUND}\n    {SHARES}")]
)
def test_a_row_prints_on_a_line_or_two(e, monkeypatch, width, expected):
    monkeypatch.setenv("COLUMNS", str(width))
    assert str(e[0]) == expected
    assert str(e).splitlines()[: len(expected.splitlines())] == expected.splitlines()


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, "row 0: P(benign) = 0.9 by column 0, column 1, column 2, ... (8 of 9 columns):"),
        (60, "row 0: P(benign) = 0.9 by column 0, ... (8 of 9 columns):"),
        (40, "row 0: P(benign) = 0.9 by column 0, ...\n    (8 of 9 columns):"),
    ],
)
def test_a_print_names_as_many_columns_as_fit(monkeypatch, width, expected):
    monkeypatch.setenv("COLUMNS", str(width))
    names = tuple(f"column {k}" for k in range(9))
    e = explanation(np.linspace(1, 0.1, 9)[None], np.arange(9)[None] < 8, feature_names=names, element_names=names)
    assert str(e) == f"{expected}\n    {SHARES}"


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
        "(tolerance 0.1, radius 0.423, phi 0.5)  a note"
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


def test_the_page_has_every_input_and_escapes_names(e, tmp_path):
    named = replace(e, feature_names=("<b>", "x2", "x3"))
    text = named.to_html(tmp_path / "page.html").read_text()
    assert text.count("<table>") == 4
    assert "&lt;b&gt;" in text
    assert "<b></td>" not in text
    assert "PNS 0.90 [0.86, 0.93], PN 0.93 [0.90, 0.95], PS 0.97 [0.95, 0.99] at 95 % confidence" in text
    assert "tolerance 0.1, radius 0.42" in text
    for word, share in (("keep", "93 %"), ("change", "97 %"), ("both", "90 %")):
        assert text.count(f"<span>{word}</span> <b>{share}</b>") == 4
    assert "0.300 [0.261, 0.339]" in text
    assert "▼ 0.31" in text
    parsed(text)
    assert "src=" not in text
    assert "http" not in text
    assert e[0]._repr_html_().count("<table>") == 1


def test_names_may_have_asterisks_and_dollar_signs(e, tmp_path):
    named = replace(e, feature_names=("a*b*", "profit_$_vs_$", "x3"), subset=np.ones_like(e.subset))
    text = named.to_html(tmp_path / "page.html").read_text()
    assert "<em>a*b*</em>" in text
    assert "<em>profit_$_vs_$</em>" in text
    figure = named.plot(tmp_path / "e.png")
    assert r"profit_\$_vs_\$" in "".join(t.get_text() for t in figure.axes[0].get_yticklabels())


def test_the_frame_has_a_row_for_each_input_and_feature(e):
    frame = e.to_frame()
    assert len(frame) == 12
    second = frame[frame["id"] == 1].set_index("feature")
    assert second["score"].tolist() == e.scores[1].tolist()
    assert second["chosen"].tolist() == e.subset[1].tolist()
    assert (second["pns"] == e.pns[1]).all()
    assert float(second.loc["x1", "value"]) == pytest.approx(e.inputs[1, 0], rel=1e-3)
    for name in ("direction", "stability"):
        assert second[name].tolist() == getattr(e, name)[1].tolist()
    for name in ("changes", "holds"):
        assert (second[name] == getattr(e, name)[1]).all()


def test_the_picture_shows_the_leading_features_and_colours_the_chosen(e, tmp_path):
    figure = e.plot(tmp_path / "e.png", top=2, columns=2)
    assert (tmp_path / "e.png").stat().st_size > 10_000
    panels = [axis for axis in figure.axes if axis.axison]
    assert len(panels) == 4
    labels = [t.get_text().split(" = ")[0] for t in panels[0].get_yticklabels()]
    assert labels == ["✓ x2", "✓ x1"]
    widths = [bar.get_width() for bar in panels[0].patches]
    assert widths == pytest.approx([e.scores[0, f] for f in e.ranked(0)[:2]])
    title = "row 0: P(benign) = 0.9 by 2 of 3 columns\nkeep 93 %   change 97 %   both 90 % [86, 93]"
    assert panels[0].get_title(loc="left") == title
    assert panels[0].get_xlabel() == "score, 95 % interval\n1 more column not shown"
    whisker = panels[0].collections[0].get_segments()[0]
    assert whisker[:, 0] == pytest.approx([0.3 - 1.96 * 0.02, 0.3 + 1.96 * 0.02], abs=1e-4)
    all_three = e.plot(top=3).axes[0]
    colours = [bar.get_facecolor() for bar in all_three.patches]
    assert colours[0] == colours[1] != colours[2]
    assert [t.get_fontweight() for t in all_three.get_yticklabels()] == ["bold", "bold", "normal"]
    beside = [[t.get_text() for t in right.get_yticklabels()] for right in all_three.child_axes]
    assert beside == [["if changed", "▲ 0.05", "▼ 0.31", "▼ 0.31"], ["chosen in", "100 %", "100 %", "0 %"]]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["✓ in the subset", "not in it", "95 % interval"]


def test_the_page_and_the_picture_say_the_same():
    """Bars, whiskers, order and marks, read back from both; a score below 0, and columns that are left out."""
    scores = np.array([[0.4, -0.1, 0.02, 0.2, 0.001]])
    e = explanation(scores, scores > 0.1, scores_se=np.array([[0.05, 0.02, 0.03, 0.0, 0.001]]))
    e = replace(e, subset=np.array([[True, True, False, True, False]]))
    axis, page = e.plot(top=3).axes[0], e._repr_html_()
    rows = re.findall(r"<tr( class=in)?><td>(✓&nbsp;)?(x\d)</td>.*?(<div class='bar'>.*?)</td>", page)
    assert [name for *_, name, _ in rows] == ["x1", "x4", "x3", "x5", "x2"]
    drawn = [label.get_text() for label in e.plot().axes[0].get_yticklabels()]
    assert [f"{'✓ ' if mark else ''}{name}" for _, mark, name, _ in rows] == [text.split(" = ")[0] for text in drawn]
    low, high = -0.1 - 1.959964 * 0.02, 0.4 + 1.959964 * 0.05
    picture = e.plot().axes[0]
    segments = picture.collections[0].get_segments()
    for (*_, bars), patch, segment in zip(rows, picture.patches, segments, strict=True):
        found = {
            kind: np.array([float(left), float(left) + float(width)]) / 100 * (high - low) + low
            for kind, left, width in re.findall(r"class='(\w+)' style='left:(.*?)%;width:(.*?)%'", bars)
        }
        assert found["score"] == pytest.approx(sorted([0.0, patch.get_width()]), abs=2e-3)
        assert found["zero"] == pytest.approx(0, abs=1e-3)
        assert ("whisker" in found) == (len(segment) > 0)
        assert "whisker" not in found or found["whisker"] == pytest.approx(segment[:, 0], abs=2e-3)
    assert axis.get_xlabel() == "score, 95 % interval\n2 more columns not shown, 1 of them in the subset"
    wide = explanation(np.linspace(1, 0, 12)[None], np.arange(12)[None] > 10)
    assert "<p class='facts'>2 more columns not shown, 1 of them in the subset</p>" in wide._repr_html_()
    assert "not shown" not in table()._repr_html_()


def test_the_axis_of_large_scores_reads_as_numbers_do():
    figure = explanation([[21390.0, 5.0]], [[True, False]]).plot()
    figure.draw_without_rendering()
    assert figure.axes[0].get_xticklabels()[1].get_text() == "5,000"


def test_pictures_of_long_names_and_of_many_inputs():
    names = ("monthly_income_before_taxes_of_all_who_live_at_the_address", "x2")
    figure = explanation([[0.2, 0.1]], [[True, False]], feature_names=names, target_names=names).plot()
    label = figure.axes[0].get_yticklabels()[0].get_text()
    assert label == "✓ monthly_income_before_…o_live_at_the_address = 0"
    figure.draw_without_rendering()
    assert figure.axes[0]._left_title.get_window_extent().x1 <= figure.bbox.x1
    assert figure.axes[0].get_window_extent().width > 0.25 * figure.bbox.width
    assert "2 more inputs are not drawn." in table(14).plot()._supxlabel.get_text()
    assert "not drawn" not in table(12).plot()._supxlabel.get_text()
    assert len({round(axis.get_position().x0, 3) for axis in table(4).plot().axes}) == 2


UNKNOWN = ("direction", "stability", "changes", "holds", "pns", "pn", "ps", "interval", "ess")


def without_numbers(e: fans.Explanation) -> fans.Explanation:
    unknown: dict[str, Any] = {name: np.full_like(getattr(e, name), np.nan) for name in UNKNOWN}
    return replace(e, scores_se=None, **unknown)


def test_pictures_and_pages_where_little_is_known(e, tmp_path):
    for some in map(without_numbers, (e, made(), house())):
        some.plot(tmp_path / "e.png")
        assert not re.search(r"\bnan\b", parsed(some._repr_html_()).text)
    bare = without_numbers(e)
    assert not bare.plot().axes[0].child_axes
    assert bare.plot().axes[0].get_xlabel() == "score"
    assert headline(bare, 0) == "keep unknown   change unknown   both unknown"


def test_pictures_and_pages_of_nothing(e, tmp_path):
    for some in (e, made(), house()):
        empty = replace(some, subset=np.zeros_like(some.subset))
        empty.plot(tmp_path / "e.png")
        text = parsed(empty._repr_html_()).text
        assert "nothing chosen: all changed, it holds in 93 %" in text
        assert "both 9" not in text


# Images.

LAYOUTS = pytest.mark.parametrize("channels", ["first", "last", "none"])


@LAYOUTS
def test_scores_and_subset_are_shown_at_each_pixel_wherever_the_channels_are(channels):
    e = made(channels=channels)
    assert images.pixel_scores(e, 0).tolist() == [[0.3, 0.3, -0.1], [0.3, 0.2, -0.1]]
    assert images.pixel_mask(e, 1).tolist() == [[False, True, True]] * 2
    shown = images.picture(e, 0)
    assert shown.shape == (2, 3, 3)
    assert shown[1, 2].tolist() == ([1.0, 1.0, 1.0] if channels == "none" else [1.0, 0.5, 0.25])


def test_channels_are_told_by_the_features_where_the_shape_does_not_tell():
    patches = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 2]])
    one = replace(made(1), inputs=np.zeros((1, 3, 4, 3)), elements=patches[..., None].repeat(3, -1))
    assert one.channel_axis == 2
    assert images.pixel_mask(one, 0).shape == (3, 4)
    same = replace(made(), elements=np.zeros((2, 3, 2, 3), dtype=int))
    assert same.channel_axis == 0
    tall = np.zeros((2, 9, 5, 3))
    assert replace(same, inputs=tall, elements=tall.astype(int)).channel_axis == 2


def test_values_outside_0_to_1_are_rescaled_by_the_image_itself():
    e = made(channels="none")
    e = replace(e, inputs=np.stack([6 * e.inputs[0] - 2, e.inputs[1]]))
    assert images.picture(e, 0)[..., 0] == pytest.approx((6 * e.inputs[1] - 2 + 2) / 6)
    assert images.picture(e, 1)[..., 0] == pytest.approx(e.inputs[1])
    assert np.all(images.picture(replace(e, inputs=np.full((2, 2, 3), 7.0)), 0) == 0)


@LAYOUTS
def test_the_picture_of_images(channels, tmp_path):
    e = made(channels=channels)
    figure = e.plot(tmp_path / "image.png")
    assert (tmp_path / "image.png").stat().st_size > 5_000
    *panels, bar = figure.axes
    assert len(panels) == 2 * 3
    for i in range(2):
        shown = panels[3 * i : 3 * i + 3]
        expected = images.panels(e, i, 1.0)  # not 9: the second image has no third superpixel
        for axis, panel in zip(shown, expected, strict=True):
            assert np.array_equal(axis.images[0].get_array(), np.clip(panel, 0, 1))
        name = ("Sneaker", "<Bag>")[i]
        title = f"image {i}: P({name}) = 0.9\nkeep 93 %   change 97 %   both 90 % [86, 93]"
        assert shown[0].get_title(loc="left") == title
    assert bar.get_ylim() == (-1.0, 1.0)
    assert [text.get_text() for text in bar.get_yticklabels()] == ["-1", "0", "0.25", "0.5", "0.75", "1"]
    assert made(scores=np.abs(e.scores)).plot().axes[-1].get_ylim() == (0.0, 1.0)


def test_the_colours_of_scores_get_darker_and_stay_faint_below_0():
    assert colours.coloured(np.array(0.0)) == pytest.approx(1)
    above = colours.coloured(np.linspace(0, 1, 50)) @ np.array([0.299, 0.587, 0.114])
    assert (np.diff(above) < 0).all()
    assert colours.coloured(np.array(-1.0)) @ np.array([0.299, 0.587, 0.114]) > 0.7


def test_a_subset_of_pixels_is_drawn_as_smooth_regions_of_the_same_area():
    draws = np.random.default_rng(0)
    row, column = np.mgrid[:28, :28]
    mask = (np.hypot(row - 14, column - 12) < 7) ^ (draws.random((28, 28)) < 0.08)
    e = by_pixel(draws.random((1, 1, 28, 28)), draws.random((1, 28, 28)), mask[None])
    assert np.array_equal(e.mask[0, 0], mask)  # what was chosen stays exact
    drawn = images.region(mask, 12)
    assert drawn.mean() == pytest.approx(mask.mean(), rel=0.02)
    steps, drawn_steps = (np.abs(np.diff(some.astype(int))).sum() for some in (mask, drawn))
    assert drawn_steps < 0.5 * 12 * steps  # the disc alone has a quarter of them
    assert not images.region(np.zeros((28, 28), dtype=bool), 12).any()
    assert images.region(np.ones((28, 28), dtype=bool), 12).all()
    assert images.panels(e, 0, 1.0)[2].shape == (336, 336, 3)
    assert f"{mask.sum()} of 784 pixels, smoothed</figcaption>" in e._repr_html_()
    assert e.sentences[0].startswith(
        f"Keep {percent(mask.mean())} of the image ({mask.sum()} of 784 pixels), and change"
    )


@pytest.mark.parametrize(
    ("n", "columns", "shown", "shape"),
    [(5, None, 5, (3, 2)), (5, 3, 5, (2, 3)), (2, 9, 2, (1, 2)), (14, 4, 12, (3, 4))],
)
def test_the_grid_of_images(n, columns, shown, shape):
    figure = made(n).plot(columns=columns)
    *panels, _ = figure.axes
    assert len(panels) == 3 * shown
    places = [panel.get_position() for panel in panels[::3]]
    assert (len({round(p.y0, 6) for p in places}), len({round(p.x0, 6) for p in places})) == shape
    corners = np.array([[p.x0, p.y0, p.x1, p.y1] for p in (panel.get_position() for panel in panels)])
    assert corners.min() >= 0
    assert corners.max() <= 1


class Balanced(HTMLParser):
    """Checks that tags close in order; keeps the sources of images, and anything else that is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.alternatives: list[str] = []
        self.words: list[str] = []

    @property
    def text(self) -> str:
        """What a reader sees, aside from pictures."""
        return re.sub(r"\s+", " ", "".join(self.words))

    def handle_startendtag(self, tag, attrs):
        pass  # parts of a drawing

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert not {"href", "srcset"} & set(given)
        if tag == "img":
            self.sources.append(given["src"])
            self.alternatives.append(given["alt"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_of_images_is_valid_and_needs_nothing_else(tmp_path):
    e = made(3)
    text = e.to_html(tmp_path / "image.html").read_text()
    page = parsed(text)
    assert len(page.sources) == 9
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert page.alternatives[:3] == ["image 0: image", "image 0: scores", "image 0: 2 of 3 superpixels"]
    assert "http" not in text
    assert "url(" not in text
    assert "<table>" not in text
    assert "&lt;Bag&gt;" in text
    assert "<Bag>" not in text
    assert "PNS 0.90 [0.86, 0.93]" in text
    assert len(parsed(made(14)._repr_html_()).sources) == 36
    assert "2 more inputs are not shown" in made(14)._repr_html_()


def test_the_pictures_within_the_page_show_the_pixels():
    e = made()
    sources = parsed(e[0]._repr_html_()).sources
    image, scores, subset = (imread(io.BytesIO(base64.b64decode(s.split(",")[1]))) for s in sources)
    side = 112  # 336 / 3
    assert image.shape == scores.shape == subset.shape == (2 * side, 3 * side, 3)
    middle = slice(side // 2, None, side)
    assert image[middle, middle] == pytest.approx(images.picture(e, 0), abs=1 / 255)
    assert np.abs(np.diff(images.smooth(images.pixel_scores(e, 0), side, 0.5))).max() < 0.01
    assert scores[side, 5] == pytest.approx(images.scored(image, np.full(image.shape[:2], 1.0))[side, 5], abs=0.05)
    orange = np.all(np.abs(subset - to_rgb(colours.OUTLINE)) < 0.01, axis=2)
    inside = images.pixel_mask(e, 0).repeat(side, 0).repeat(side, 1)
    assert not (orange & ~inside).any()
    assert orange[0, : 2 * side].all()  # along the upper end of the image
    assert orange[: 2 * side, 0].all()
    assert orange[:side, 2 * side - 1].all()  # between the second pixel and the third, which is not chosen
    assert not orange[side // 2, side].any()  # none between two chosen pixels


def test_large_images_are_thinned_out_and_png_files_are_exact():
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 3)) / 255
    assert np.array_equal(np.round(imread(io.BytesIO(png(values))) * 255), np.round(values * 255))
    large = np.zeros((1, 600, 40))
    e = replace(made(1, "none"), inputs=large, elements=large.astype(int))
    assert images.panels(e, 0, 1.0)[0].shape == (600, 40, 3)


def test_the_page_needs_no_matplotlib():
    code = (
        "import sys\n"
        "for name in ('pandas', 'sklearn', 'matplotlib', 'PIL', 'skimage'):\n"
        "    sys.modules[name] = None\n"
        "import fans\n"
        "from tests.report.made import small_images\n"
        "e = small_images()\n"
        "assert e._repr_html_().count('data:image/png') == 6\n"
        "try:\n"
        "    e.plot()\n"
        "except fans.MissingExtra as error:\n"
        "    print(error)\n"
    )
    command, here = [sys.executable, "-W", "error", "-c", code], Path(__file__).parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=here)  # noqa: S603
    assert "Expected matplotlib for `plot`" in done.stdout


def test_several_explanations_on_one_page(e, tmp_path):
    text = pages({"Rows & columns": e, "Images": made()}, tmp_path / "all.html").read_text()
    assert len(parsed(text).sources) == 6
    assert text.count("<table>") == 4
    assert "<h2>Rows &amp; columns</h2>" in text
    assert text.count("<style>") == 1


@LAYOUTS
def test_the_sentence_of_an_image_counts_regions_and_area(channels):
    first, second = made(channels=channels).sentences
    assert first == (  # four of six pixels
        "Keep 67 % of the image (2 of 3 superpixels), and change everything else: P(Sneaker) stays within 0.1 in 93 % "
        "of trials. Change only this part: P(Sneaker) moves by more than 0.1 in 97 % of trials. Both: 90 %. "
        "(PNS 0.90 [0.86, 0.93], PN 0.93, PS 0.97)"
    )
    assert second.startswith("Keep 67 % of the image (1 of 2 superpixels), and change everything else: P(<Bag>) stays")


def test_everything_is_what_an_image_has():
    e = made(subset=np.array([[True, True, True], [True, True, False]]))
    for n, text in zip((3, 2), e.sentences, strict=True):
        assert text.startswith(
            f"No part of the {n} superpixels stands out. Change 100 % of the image together: "
            f"{e.target_name(3 - n)} moves by more than 0.1 in 97 % of trials."
        )


def test_the_regions_have_their_own_words():
    e = made()
    for names, words in (
        (("rows 0-1, columns 0-1", "b", "c"), "2 of 3 patches"),
        (("row 0, column 0", "b", "c"), "2 of 3 pixels"),
        (("a", "b", "c"), "2 of 3 features"),
    ):
        assert f"of the image ({words})" in replace(e, feature_names=names).sentences[0]
    alone = replace(e[1], elements=np.zeros_like(e[1].elements), subset=np.array([[True, False, False]]))
    assert "No part of the 1 superpixel stands out" in alone.sentences[0]


@LAYOUTS
def test_the_value_of_a_region_is_its_mean_in_that_image(channels):
    e = made(channels=channels)
    dimming = 1 if channels == "none" else (1 + 1 / 2 + 1 / 4) / 3
    assert float(e.value(0, 0)) == pytest.approx(dimming * (0.0 + 0.1 + 0.3) / 3, rel=1e-3)
    assert float(e.value(1, 0)) == pytest.approx(dimming * (0.0 + 0.3) / 2, rel=1e-3)
    assert e.value(1, 2) == "absent"
    shared = replace(e, elements=e.elements[0])
    assert float(shared.value(1, 0)) == pytest.approx(dimming * (0.0 + 0.1 + 0.3) / 3, rel=1e-3)
    assert shared.value(1, 2) == f"{dimming * 0.4:.4g}"


def test_the_frame_has_only_the_regions_an_image_has():
    frame = made().to_frame()
    assert frame["feature"].tolist() == [f"superpixel {k}" for k in (1, 2, 3, 1, 2)]
    assert frame["id"].tolist() == [0, 0, 0, 1, 1]
    assert frame["score"].tolist() == [0.3, -0.1, 0.2, 0.5, -1.0]
    assert frame["chosen"].tolist() == [True, False, True, False, True]
    assert frame["score_se"].isna().all()
    assert frame["target"].tolist() == [0, 0, 0, 1, 1]


@LAYOUTS
@pytest.mark.filterwarnings("ignore")
def test_shap_takes_images(channels):
    shap = pytest.importorskip("shap")
    e = made(channels=channels)
    found = e.to_shap()
    assert found.values.shape == found.data.shape == (2, 2, 3, 1 if channels == "none" else 3)
    for i in range(2):
        assert found.values[i].sum(-1) == pytest.approx(images.pixel_scores(e, i))
    shap.image_plot(found, show=False)


@pytest.mark.parametrize("own", [True, False])
def test_saving_and_slicing_keep_regions_and_history(own, tmp_path):
    history = np.array([[1.0, 2.0, 3.0], [0.5, 0.75, np.nan]])
    e = made(history=history)
    if not own:
        e = replace(e, elements=e.elements[0])
    back = fans.load(e.save(tmp_path / "e.safetensors"))
    assert np.array_equal(back.elements, e.elements)
    assert back.history is not None
    assert np.array_equal(back.history, history, equal_nan=True)
    assert back.sentences == e.sentences
    assert np.array_equal(back.heatmap, e.heatmap)
    for some, places in ((back[1], [1]), (back[::-1], [1, 0]), (back[[1, 1]], [1, 1])):
        assert np.array_equal(some.elements, e.elements[places] if own else e.elements)
        assert some.history is not None
        assert np.array_equal(some.history, history[places], equal_nan=True)
        assert np.array_equal(some.heatmap, e.heatmap[places])
        assert np.array_equal(some.present, e.present[places])
        assert some.sentences == tuple(e.sentences[i] for i in places)


def test_the_history_is_drawn_as_loss_with_its_mean(tmp_path):
    e = made(history=np.array([[1.0, 2.0, 3.0], [0.5, 0.75, np.nan]]))
    figure = e.plot_history(tmp_path / "history.png")
    assert (tmp_path / "history.png").stat().st_size > 5_000
    first, second, mean = figure.axes[0].lines
    assert first.get_ydata().tolist() == [-1, -2, -3]
    assert second.get_ydata()[:2].tolist() == [-0.5, -0.75]
    assert np.isnan(second.get_ydata()[2])
    assert mean.get_ydata().tolist() == [-0.75, -1.375, -1.875]  # the second stays at its last
    assert mean.get_xdata().tolist() == [1, 2, 3]
    with pytest.raises(fans.InputError, match="takes steps, got 'fans' without a history"):
        made().plot_history()


# Graphs.


def near(place: Any, start: Any, end: Any) -> float:
    """How far a place is from a line."""
    place, start, along = np.array(place), np.array(start), np.subtract(end, start)
    share = np.clip((place - start) @ along / (along @ along), 0, 1)
    return float(np.hypot(*(place - start - share * along)))


def test_a_small_graph_is_drawn_whole_with_no_node_on_an_edge_of_others():
    e = house(20)
    found = graphs.drawing(e, 0)
    assert found.n_hidden == 0
    assert len(found.lines) == e.present.sum() == 43
    assert found.explained == 24
    assert found.named == {20, 21, 22, 23, 24}
    assert sum(line.chosen for line in found.lines) == 6
    across = np.ptp(np.array(list(found.places.values())), 0).max()
    apart = [
        near(place, *line.ends) for place in found.places.values() for line in found.lines if place not in line.ends
    ]
    assert np.quantile(apart, 0.01) > 0.01 * across
    assert min(apart) > 0.004 * across
    again = graphs.drawing(e, 0)
    assert again.places == found.places


def test_a_large_graph_shows_what_was_chosen_its_node_and_the_best_others():
    hub = [(0, k) for k in range(1, 31)]
    chain = [(k, k + 1) for k in range(100, 250)]
    edges = [*hub, (30, 100), *chain]
    scores = np.linspace(1, 0, len(edges))
    subset = np.arange(len(edges)) == len(edges) - 1
    e = graph_of(edges, scores, subset, node=0)
    found = graphs.drawing(e, 0)
    assert len(found.lines) == graphs.MOST_EDGES
    assert found.n_hidden == len(edges) - graphs.MOST_EDGES
    assert set(range(31)) | {249, 250} <= set(found.places)
    assert f"{found.n_hidden} edges are not shown" in e._repr_html_()


def test_a_drawing_of_few_edges_or_none(tmp_path):
    for e in (
        graph_of([(0, 1)], [0.5], [True]),
        graph_of([(0, 0), (0, 1)], [0.5, 0.0], [False, False], node=3),
        graph_of([(-1, -1)], [0.0], [False]),
        graph_of([(0, 1), (2, 3)], [0.5, math.nan], [True, False]),
    ):
        e.plot(tmp_path / "e.png")
        assert (tmp_path / "e.png").stat().st_size > 1000
        parsed(e._repr_html_())


def test_of_a_crowd_only_nodes_of_note_have_long_names():
    hub = [(0, k) for k in range(1, 41)]
    scores, subset = np.where(np.arange(40) < 2, 1.0, 0.001), np.arange(40) == 0
    crowd = replace(graph_of(hub, scores, subset, node=0), node_names=tuple(f"a long name {k}" for k in range(41)))
    assert graphs.drawing(crowd, 0).names == {k: f"a long name {k}" for k in (0, 1, 2)}
    short = replace(crowd, node_names=tuple(f"n{k}" for k in range(41)))
    assert len(graphs.drawing(short, 0).names) == 41
    words = [text.get_text() for text in crowd.plot().axes[0].texts]
    assert {"a long name 0", "a long name 1", "a long name 2"} < set(words)
    assert "a long name 3" not in words


def test_the_picture_of_a_graph_has_a_legend(tmp_path):
    figure = house(20).plot(tmp_path / "graph.png")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["in the subset", "not in it (wider: higher score)", "explained node"]
    page = house(20).to_html(tmp_path / "graph.html").read_text()
    assert page.count("<line ") == 43
    assert page.count("<circle ") == 25
