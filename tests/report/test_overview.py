"""An overview says of many rows what their explanations say together: counts, means, and which way values push."""

import math
import re
import subprocess
import sys
from html import unescape
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fans
from fans.explanation import Explanation
from fans.report.scenes import Dots, Text, fitted, text_width
from fans.report.swarms import LANE, MOST_DOTS, picture
from tests.report.made import by_pixel, explanation, house, small_images


def rows(values: Any, raised: Any, subset: Any = None, **changes: Any) -> Explanation:
    """Rows of a table with these values, of one class, which raise its probability by so much."""
    values, raised = (np.asarray(part, dtype=float).reshape(len(part), -1) for part in (values, raised))
    subset = np.ones_like(values, dtype=bool) if subset is None else subset
    one: dict[str, Any] = {"target": np.ones(len(values), dtype=int), "scores": np.abs(raised)}
    given = one | {"inputs": values, "direction": -raised} | changes
    return explanation(given.pop("scores"), subset, **given)


def made(n: int = 60, **changes: Any) -> Explanation:
    """Rows of three columns: high values of the first raise, of the second lower; the third is a category."""
    draws = np.random.default_rng(0)
    values = np.column_stack([draws.normal(size=(n, 2)), draws.integers(0, 3, n)])
    raised = np.column_stack([0.2 * values[:, 0], -0.1 * values[:, 1], 0.1 * (values[:, 2] - 1)])
    subset = draws.random((n, 3)) < [0.9, 0.5, 0.2]
    categories = {"2": ("own", "rent", "<b>other</b>")}
    return rows(values, raised, subset, categories=categories, feature_names=("pay", "debt", "home"), **changes)


def column(e: Explanation, name: str = "x1", **how: Any) -> Any:
    """The row of the frame for a column."""
    frame = e.overview(**how).to_frame()
    return frame[frame.column == name].iloc[0]


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 12), (3, 7), (12, 12), (873, 2000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_shares_have_wilsons_interval(k, n, confidence):
    found = column(rows(np.zeros(n), np.zeros(n), np.arange(n)[:, None] < k, confidence=confidence))
    interval = stats.binomtest(k, n).proportion_ci(confidence, "wilson")
    assert found.chosen == k / n
    assert (found.chosen_low, found.chosen_high) == pytest.approx(tuple(interval), abs=1e-12)


def test_means_have_an_interval_of_so_many_standard_errors():
    raised = np.array([0.1, -0.2, 0.4, 0.3, math.nan, 0.0])
    found = column(rows(np.arange(6), raised, scores=[[1.0], [2], [4], [3], [5], [9]]))
    assert found.score == 4.0
    assert (found.score_low, found.score_high) == pytest.approx(
        stats.norm.interval(0.95, 4.0, stats.sem([1, 2, 4, 3, 5, 9]))
    )
    assert found.measured == 5
    assert found["size"] == pytest.approx(0.2)  # (0.1 + 0.2 + 0.4 + 0.3 + 0) / 5
    assert found.raised == pytest.approx(0.12)
    assert (found.raised_low, found.raised_high) == pytest.approx(
        stats.norm.interval(0.95, 0.12, stats.sem(raised[~np.isnan(raised)]))
    )


@pytest.mark.parametrize("n", [4, 10, 200])
def test_the_trend_is_spearmans(n):
    draws = np.random.default_rng(n)
    values = draws.integers(0, 6, n).astype(float)
    raised = values + draws.normal(0, 3, n)
    values[0], raised[1] = math.nan, math.nan
    found = column(rows(values, raised, kind="output"))
    rho = stats.spearmanr(values[2:], raised[2:]).statistic
    assert found.rank_correlation == pytest.approx(rho)
    if n < 12:
        assert math.isnan(found.rank_correlation_low)
        return
    centre, half = 0.5 * math.log((1 + rho) / (1 - rho)), 1.959964 * math.sqrt((1 + rho**2 / 2) / (n - 5))
    expected = [(math.exp(2 * z) - 1) / (math.exp(2 * z) + 1) for z in (centre - half, centre + half)]
    assert [found.rank_correlation_low, found.rank_correlation_high] == pytest.approx(expected, rel=1e-6)


def test_the_trends_interval_covers():
    draws, held = np.random.default_rng(0), 0
    truth = 6 / math.pi * math.asin(0.6 / 2)  # Spearman's of normal variables with a correlation of 0.6
    for _ in range(400):
        one, other = draws.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 60).T
        found = column(rows(one, other, kind="output"))
        held += found.rank_correlation_low <= truth <= found.rank_correlation_high
    assert 0.92 < held / 400 < 0.98


@pytest.mark.parametrize(
    ("values", "raised"), [([1.0] * 12, range(12)), (range(12), [0.3] * 12), ([math.nan] * 12,) * 2]
)
def test_what_is_constant_or_unknown_has_no_trend(values, raised):
    assert math.isnan(column(rows(values, raised)).rank_correlation)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([5, 1, 2, 4], [1, 2], [4, 5]),
        ([5, 1, 2, 4, 3], [1, 2], [4, 5]),
        ([0, 0, 0, 1, 2], [0, 0, 0], [1, 2]),
        ([0, 1, 1, 1, 1], [0], [1, 1, 1, 1]),
        ([3, math.nan, 1, math.nan], [1], [3]),
    ],
)
def test_low_and_high_are_the_halves_by_rank(values, low, high):
    raised = np.array(values) / 10
    frame = rows(values, raised).overview().to_frame(by_value=True).set_index("values")
    for name, expected in (("low", low), ("high", high)):
        assert frame.rows[name] == len(expected)
        assert frame.raised[name] == pytest.approx(np.mean(expected) / 10)
        assert frame.span[name] == " to ".join(dict.fromkeys([f"{min(expected)}", f"{max(expected)}"]))
    assert ("missing" in frame.index) == bool(np.isnan(raised).any())


@pytest.mark.parametrize(
    ("slope", "level", "words"),
    [
        (0.2, 0.0, "high values raise P(malignant), low values lower it"),
        (-0.2, 0.0, "low values raise P(malignant), high values lower it"),
        (0.2, 0.5, "high and low values raise P(malignant), high ones most"),
        (-0.2, 0.5, "high and low values raise P(malignant), low ones most"),
        (0.2, -0.5, "high and low values lower P(malignant), low ones most"),
        (0.2, 0.1, "high values raise P(malignant)"),
        (0.2, -0.1, "low values lower P(malignant)"),
        (0.0, 0.3, "high and low values raise P(malignant)"),
        (0.002, 0.0, "alone it hardly moves P(malignant)"),
    ],
)
def test_words_say_which_way_values_push(slope, level, words):
    values = np.linspace(-1, 1, 60)
    assert column(rows(values, slope * values + level)).words == words


def test_words_of_what_has_no_clear_trend():
    values = np.linspace(-1, 1, 60)
    assert column(rows(values, 0.3 * values**2 - 0.1)).words == "no clear trend"
    many = np.linspace(-1, 1, 2000)
    weak = rows(many, 0.02 * np.sign(many) + 0.15 * np.sin(1e6 * many))  # the halves' means differ, the ranks hardly
    assert weak.overview().to_frame(by_value=True).raised_low[1] > 0.01
    assert column(weak).words == "no clear trend"
    unsure = rows([0.0] * 20, [0.11, -0.09] * 10, categories={"0": ("own",)})  # a mean of 0.01, and as likely below 0
    assert column(unsure).words == "no clear trend"
    assert column(rows(values[:9], values[:9])).words == "too few to tell"
    assert column(rows(values, np.full(60, math.nan))).words == "not measured"


def test_missing_values_are_told_apart():
    values, raised = np.linspace(-1, 1, 60), 0.2 * np.linspace(-1, 1, 60)
    values[::6], raised[::6] = math.nan, 0.4 + 0.01 * np.arange(10)
    found = column(rows(values, raised))
    assert found.words == "high values raise P(malignant), low values lower it, missing values raise it"
    known = ~np.isnan(values)
    assert found.rank_correlation == pytest.approx(stats.spearmanr(values[known], raised[known]).statistic)


def test_categories_are_told_one_by_one():
    draws = np.random.default_rng(1)
    codes, raised = np.repeat([2, 0, 1, math.nan], [30, 20, 10, 5]), draws.normal(0, 0.02, 65)
    raised += np.repeat([0.0, 0.3, -0.2, 0.1], [30, 20, 10, 5])
    e = rows(codes, raised, categories={"0": ("own", "rent", "missing")})
    frame = e.overview().to_frame(by_value=True)
    assert frame["values"].tolist() == ["missing", "own", "rent", "missing"]  # the first is a category's name
    assert frame.rows.tolist() == [30, 20, 10, 5]
    expected = pd.Series(raised).groupby(np.repeat([0, 1, 2, 3], [30, 20, 10, 5])).mean()
    assert frame.raised.tolist() == pytest.approx(expected.tolist())
    assert column(e).words == '"own" and missing values raise P(malignant), "rent" lowers it'
    assert math.isnan(column(e).rank_correlation)


def test_groups_and_columns_without_any_value_are_read_too():
    values = np.array([[1.0, 0, math.nan], [0, 1, math.nan], [0, 1, math.nan]])
    e = explanation(
        np.ones((3, 2)),
        np.ones((3, 2)),
        inputs=values,
        elements=np.array([0, 0, 1]),
        element_names=("red", "blue", "home"),
        categories={"2": ("own",)},
    )
    frame = e.overview().to_frame(by_value=True)
    assert frame[["column", "values", "rows"]].to_numpy().tolist() == [
        ["x1", "blue", 2],
        ["x1", "red", 1],
        ["x2", "missing", 3],
    ]
    picture(e.overview(), 10)


def test_of_two_classes_all_is_told_of_the_second():
    direction, target = [[0.3], [0.3], [-0.1]], np.array([0, 1, 0])
    e = rows([1, 2, 3], [0, 0, 0], target=target, direction=np.array(direction))
    section = e.overview().sections[0]
    assert section.output == "P(malignant)"
    assert section.raised[:, 0].tolist() == [0.3, -0.3, -0.1]
    assert e[[0, 2]].overview().sections[0].output == "P(benign)"
    assert e[[0, 2]].overview().sections[0].raised[:, 0].tolist() == [-0.3, 0.1]


def test_by_class_each_is_told_of_its_own():
    target = np.repeat([0, 2, 1], 20)
    values = np.r_[np.linspace(5, 9, 20), np.linspace(0, 4, 40)]
    e = rows(values, 0.2 + 0.001 * values, target=target, target_names=("a", "b", "c"))
    mixed = e.overview()
    assert mixed.sections[0].output == "P(explained class)"
    assert column(e).words == "depends on the class"
    assert math.isnan(column(e).rank_correlation)
    assert "`overview(by_class=True)`" in str(mixed)
    found = e.overview(by_class=True)
    assert [section.output for section in found.sections] == ["P(a)", "P(b)", "P(c)"]
    assert [section.rows.tolist() for section in found.sections] == [
        list(range(20)),
        list(range(40, 60)),
        list(range(20, 40)),
    ]
    # low and high are those of all rows, so that the classes can be compared
    assert found.to_frame().words.tolist() == [
        "high values raise P(a)",
        "high and low values raise P(b), high ones most",
        "low values raise P(c)",
    ]
    assert (
        str(found)
        .splitlines()[1]
        .startswith("P(b): the subsets of 20 explained rows have *x1* in 100 %, 95 % interval [84, 100].")
    )
    numbers = found.to_frame().loc[:, "rows":"size_high"]
    alone = pd.concat([e[section.rows].overview().to_frame() for section in found.sections], ignore_index=True)
    pd.testing.assert_frame_equal(numbers, alone.loc[:, "rows":"size_high"])


def test_a_category_that_a_class_lacks_is_still_a_category():
    e = rows([0, 1] * 6, [0.1] * 12, target=np.arange(12) % 2, categories={"0": ("own", "rent")})
    for section in e.overview(by_class=True).sections:
        assert [level.missing for level in section.columns[0].levels] == [False, False]
        assert sorted(level.n for level in section.columns[0].levels) == [0, 6]


def test_a_regressor_is_told_of_its_output():
    values = np.linspace(-1, 1, 40)
    e = rows(values, 500 * values, kind="output", target_names=("price",), target=np.zeros(40, int))
    assert column(e).words == "high values raise price, low values lower it"
    assert repr(e.overview(by_class=True)) == "Overview(rows=40, columns=1, of=['price'])"


def test_the_sentence_names_the_leading_columns():
    assert str(made().overview()) == (
        f"The subsets of 60 explained rows have {_expected_shares(made())}. "
        "*pay*: high values raise P(malignant), low values lower it. "
        "*debt*: low values raise P(malignant), high values lower it. "
        '*home*: "<b>other</b>" raises P(malignant), "own" lowers it.'
    )
    few = rows([[1, 2], [2, 1]], np.zeros((2, 2)), np.array([[True, False], [False, False]]))
    assert str(few.overview()) == "The subsets of 2 explained rows have *x1* in 1 of 2; 1 of 2 columns is in none."
    assert str(few[0].overview()) == "The subset of 1 explained row has *x1*."
    assert str(few[1].overview()) == "The subset of 1 explained row is empty: no column stands out."
    none = rows([[1, 2]] * 12, np.zeros((12, 2)), np.zeros((12, 2), bool))
    assert str(none.overview()) == "The subsets of 12 explained rows are empty: no column stands out."


def _expected_shares(e: Explanation) -> str:
    texts = []
    for f in range(3):
        k = int(e.subset[:, f].sum())
        low, high = stats.binomtest(k, 60).proportion_ci(0.95, "wilson")
        texts.append(f"*{e.feature_names[f]}* in {100 * k / 60:.0f} % [{100 * low:.0f}, {100 * high:.0f}]")
    first = texts[0].replace(" [", ", 95 % interval [")
    return f"{first}, {texts[1]} and {texts[2]}"


def test_the_sentence_counts_in_thousands():
    wide = rows(np.zeros((2, 1200)), np.zeros((2, 1200)), np.arange(1200)[None].repeat(2, 0) == 5)
    assert "*x6* in 2 of 2; 1,199 of 1,200 columns are in none." in str(wide.overview())


def test_columns_come_by_share_then_by_score():
    subset = np.array([[False, False, True, False]] * 6)
    frame = rows(np.zeros((6, 4)), np.zeros((6, 4)), subset, scores=np.array([[0.1, 0.3, 0.0, 0.3]] * 6)).overview()
    assert frame.to_frame().column.tolist() == ["x3", "x2", "x4", "x1"]


@pytest.mark.parametrize(
    ("e", "what"), [(house(), "1 inputs with edges of their own"), (small_images(), "2 inputs with superpixels")]
)
def test_inputs_with_features_of_their_own_are_refused(e, what):
    with pytest.raises(fans.InputError, match=f"share their features for `overview`, got {what}"):
        e.overview()


def test_no_input_and_no_column_are_refused():
    with pytest.raises(fans.InputError, match="at least one explained input for `overview`, got none"):
        made()[[]].overview()
    with pytest.raises(fans.InputError, match="Expected `top` as a whole number of at least 1, got 0"):
        made().overview().plot(top=0)


def test_images_whose_regions_stay_in_place_have_an_overview(tmp_path):
    pixels = np.linspace(0, 1, 12 * 4).reshape(12, 1, 2, 2)
    scores = np.tile([[0.4, 0.1], [0.0, 0.2]], (12, 1, 1))
    found = by_pixel(pixels, scores, scores > 0.1, direction=np.full((12, 4), math.nan)).overview()
    assert str(found).startswith(
        "The subsets of 12 explained images have *row 0, column 0* in 100 %, 95 % interval [76, 100] and *row 1"
    )
    assert "2 of 4 pixels are in none" in str(found)
    assert "images with it in the subset" in found.to_html(tmp_path / "o.html").read_text()


def tables_of(page: str) -> list[list[list[str]]]:
    """The cells of each row of each table of a page, the headings first."""
    found = []
    for table in re.findall(r"<table>(.*?)</table>", page, re.DOTALL):
        cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
        found.append([[unescape(cell) for cell in row] for row in cells])
    return found


@pytest.mark.parametrize("by_class", [False, True])
def test_the_page_has_the_numbers_of_the_frame(tmp_path, by_class):
    e = made(target=np.arange(60) % 2)
    found = e.overview(by_class=by_class)
    page = found.to_html(tmp_path / "overview.html").read_text()
    tables = tables_of(page)[by_class:]
    frame, levels = found.to_frame(), found.to_frame(by_value=True)
    shown = [row for table in tables[::2] for row in table[1:]]
    assert len(shown) == len(frame)
    for cells, row in zip(shown, frame.to_dict("records"), strict=True):
        assert [cells[0], cells[5]] == [row["column"], row["words"]]
        assert cells[1].startswith(f"{100 * row['chosen']:.0f} % [{100 * row['chosen_low']:.0f}, ")
        for cell, name, digits in zip(cells[2:5], ("score", "size", "rank_correlation"), (3, 3, 2), strict=True):
            value, low, high = (row[name + end] for end in ("", "_low", "_high"))
            interval = f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
            assert cell == ("" if math.isnan(value) else interval)
    shown = [row for table in tables[1::2] for row in table[1:]]
    assert [cells[:3] for cells in shown] == levels[["column", "values", "span"]].to_numpy().tolist()
    assert [cells[3] for cells in shown] == [str(n) for n in levels.rows]
    assert [cells[4].split(" ")[0] for cells in shown] == [f"{raised:.3f}" for raised in levels.raised]
    for line in str(found).splitlines():
        assert line.replace("*", "") in unescape(re.sub(r"</?em>", "", page))


def test_zero_has_no_sign(tmp_path):
    raised = np.where(np.arange(40) == 0, -0.004, 0.0)  # a mean of -0.0001
    page = rows(np.arange(40.0), raised).overview().to_html(tmp_path / "overview.html").read_text()
    assert "-0.000" not in page
    assert "0.000 [0.000, 0.000]" in page


def test_the_page_sets_the_classes_side_by_side(tmp_path):
    e = made(target=np.arange(60) % 2)
    found = e.overview(by_class=True)
    heads, *shares = tables_of(found.to_html(tmp_path / "o.html").read_text())[0]
    assert heads == ["in the subset of", "P(benign)", "P(malignant)"]
    most = [max(float(cell.split(" %")[0]) for cell in cells) for _, *cells in shares]
    assert most == sorted(most, reverse=True)
    assert len(set(most)) == 3
    for name, *cells in shares:
        f = e.feature_names.index(name)
        expected = [e.subset[e.target == k, f].mean() for k in (0, 1)]
        assert [cell.split(" %")[0] for cell in cells] == [f"{100 * share:.0f}" for share in expected]


def test_the_page_escapes_names(tmp_path):
    e = made(target_names=("<i>", "<script>"), element_names=("a", "b", "c"))
    e = fans.load(e.save(tmp_path / "e.safetensors"))
    page = e.overview().to_html(tmp_path / "o.html").read_text()
    assert "<script>" not in page
    assert "<b>other" not in page
    assert "P(&lt;script&gt;)" in page
    named = rows([1.0, 2.0], [0, 0], feature_names=("<b>x</b> & $y$",))
    assert "<b>x" not in named.overview().to_html(tmp_path / "o.html").read_text()


def _texts(parts: Any) -> list[str]:
    return [part.words for part in parts if isinstance(part, Text)]


@pytest.mark.parametrize("by_class", [False, True])
def test_the_figure_and_the_page_draw_the_same(tmp_path, by_class):
    found = made(target=np.arange(60) % 2).overview(by_class=by_class)
    figure = found.plot(tmp_path / "overview.png")
    assert (tmp_path / "overview.png").stat().st_size > 10_000
    drawn = [text.get_text() for text in figure.axes[0].texts]
    page = found.to_html(tmp_path / "overview.html").read_text()
    in_page = [unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", page)]
    assert set(drawn) == set(in_page)
    assert {"rows with it in the subset,", "95 % interval"} <= set(drawn)
    dots = [len(points.get_offsets()) for points in figure.axes[0].collections if points.get_sizes()[0] < 40]
    assert sum(dots) >= 180
    assert found.to_html(tmp_path / "again.html").read_text() == page


def _lane_dots(e: Explanation, **how: Any) -> list[Dots]:
    """The dots of the lanes, without those that stand beside words."""
    parts = picture(e.overview(**how), 10).parts
    return [part for part in parts if isinstance(part, Dots) and part.y.min() > 90 and part.x.max() < 800]


def test_every_row_is_a_dot_further_right_the_more_its_value_raises():
    values = np.linspace(-1, 1, 50)
    dots = _lane_dots(rows(values, 0.3 * values, np.arange(50)[:, None] % 2 == 0))
    x = np.sort(np.concatenate([part.x for part in dots]))
    assert len(x) == 50
    assert np.diff(x) == pytest.approx(np.diff(x).mean())  # evenly, as the values are
    large = sum(len(part.x) for part in dots if part.radius == max(part.radius for part in dots))
    assert large == 25  # those with the column in their subset
    first, last = (end(dots, key=lambda part: part.x[0]) for end in (min, max))
    assert first.colour == "#2a1a8a"  # chosen, and the lowest value
    assert last.radius < first.radius


def test_dots_of_a_class_are_its_rows():
    target = np.arange(30) % 2
    dots = _lane_dots(rows(np.arange(30), np.zeros(30), target[:, None] == 1, target=target), by_class=True)
    benign, malignant = ([part for part in dots if (part.y.min() > 200) == below] for below in (False, True))
    assert {part.radius for part in benign} == {0.75 * 4.0}  # 15 dots are of the largest size
    assert {part.radius for part in malignant} == {4.0}


def test_dots_at_one_place_are_stacked_within_their_lane():
    dots = _lane_dots(rows(np.arange(400), np.zeros(400)))
    y = np.sort(np.concatenate([part.y for part in dots]))
    assert len(np.unique(y)) == 400
    assert np.ptp(y) <= LANE
    few = _lane_dots(rows(np.arange(3), np.zeros(3)))
    y = np.sort(np.concatenate([part.y for part in few]))
    assert np.diff(y) == pytest.approx(2 * few[0].radius)  # side by side where there is room


def test_low_values_lie_below_high_ones_in_a_stack():
    dots = _lane_dots(rows([2.0, 1.0, 3.0], np.zeros(3)))
    order = sorted(dots, key=lambda part: -part.y[0])
    assert [part.colour for part in order] == ["#2a1a8a", order[1].colour, "#f59b2e"]


def test_many_rows_stay_a_small_page(tmp_path):
    draws = np.random.default_rng(0)
    values = draws.normal(size=(2000, 10))
    e = rows(values, 0.1 * values + draws.normal(0, 0.05, values.shape), values > 0)
    assert sum(len(part.x) for part in _lane_dots(e)) == 20_000
    assert e.overview().to_html(tmp_path / "o.html").stat().st_size < 500_000
    twice = rows(np.tile(values[:, :1], (2, 1)), np.tile(values[:, :1], (2, 1)))
    assert f"{MOST_DOTS:,} of 4,000 rows drawn" in _texts(picture(twice.overview(), 10).parts)
    assert sum(len(part.x) for part in _lane_dots(twice)) == MOST_DOTS


def test_columns_beyond_the_top_are_counted():
    texts = _texts(picture(made().overview(), 2).parts)
    assert "1 more column not shown" in texts
    assert "home" not in texts
    assert "categories: each its own colour, named at the right" not in texts


def test_rare_categories_share_a_colour():
    e = rows(np.repeat(np.arange(9), np.arange(9, 0, -1)), np.zeros(45), categories={"0": tuple("abcdefghi")})
    texts = _texts(picture(e.overview(), 10).parts)
    assert [name for name in "abcdefghi" if name in texts] == list("abcde")
    assert "4 others" in texts
    gone = rows(np.r_[np.arange(9), math.nan], np.zeros(10), categories={"0": tuple("abcdefghi")})
    texts = _texts(picture(gone.overview(), 10).parts)
    assert "5 others" in texts
    assert texts.count("missing") == 2  # in the key and beside the lane


@pytest.mark.parametrize("n", [1, 2, 12])
def test_a_few_rows_are_drawn(n, tmp_path):
    found = made()[:n].overview()
    found.plot(tmp_path / "few.png")
    assert not re.search(r"\bnan\b", found.to_html(tmp_path / "few.html").read_text())


def test_what_was_not_measured_is_drawn_without_a_scale():
    e = made()
    texts = _texts(picture(rows(e.inputs, np.full((60, 3), math.nan)).overview(), 10).parts)
    assert texts.count("not measured") == 3
    assert not [text for text in texts if "raises" in text]


def test_long_names_are_cut():
    assert fitted("abc", text_width("abc")) == "abc"
    assert fitted("a long name", text_width("a long…")) == "a long…"
    assert text_width("漢字") > text_width("ab")
    texts = _texts(picture(rows([1.0, 2.0], [0, 0], feature_names=("n" * 90,)).overview(), 1).parts)
    assert any(re.fullmatch("n{20,40}…", text) for text in texts)


def test_the_page_needs_no_matplotlib_and_the_frame_asks_for_pandas(tmp_path):
    made().save(tmp_path / "e.safetensors")
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = sys.modules['pandas'] = None\n"
        "import fans\n"
        f"found = fans.load({str(tmp_path / 'e.safetensors')!r}).overview()\n"
        "assert '<svg' in found._repr_html_()\n"
        "for ask, extra in ((found.plot, 'plot'), (found.to_frame, 'tabular')):\n"
        "    try:\n"
        "        ask()\n"
        "    except fans.FansError as error:\n"
        "        assert f'fans[{extra}]' in str(error)\n"
        "    else:\n"
        "        raise AssertionError(extra)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)  # noqa: S603
