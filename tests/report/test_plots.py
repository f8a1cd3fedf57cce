"""What pictures of many inputs and of curves draw, read from the figures themselves."""

import gc
import math
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fans
from fans.explanation import join
from fans.report.figures import MOST_PANELS
from fans.report.plots import QUADRANTS, quadrants
from tests.report.made import explanation, graph_of, house, small_images, table

matplotlib = pytest.importorskip("matplotlib")
Text = pytest.importorskip("matplotlib.text").Text

HOLDS = [0.93, 0.80, 0.30, 0.20, 0.50, 0.93]
CHANGES = [0.97, 0.20, 0.90, 0.10, 0.97, 0.97]
PLACES = [0, 1, 2, 3, 2, 0]
"""Half is not more than half."""


def six(**changes: Any) -> fans.Explanation:
    """Six rows, one or two in each quadrant, the last at the place of the first."""
    holds, moves = np.array(HOLDS), np.array(CHANGES)
    interval = np.stack([np.stack([moves - 0.05, moves + 0.03], 1), np.stack([holds - 0.04, holds + 0.02], 1)], 1)
    subset = np.tile([True, True, False], (6, 1))
    given: dict[str, Any] = {"subset": subset, "holds": holds, "changes": moves, "share_interval": interval} | changes
    return replace(table(6), **given)


def texts(axis: Any) -> list[str]:
    return [text.get_text() for text in axis.texts]


def small_print(figure: Any) -> str:
    return " ".join(figure._supxlabel.get_text().split())


# --- Keep against change ---------------------------------------------------------------------------------------------


def test_each_input_is_in_its_quadrant():
    assert quadrants(six()).tolist() == PLACES
    subset = six().subset.copy()
    subset[1] = False
    holds = np.array(HOLDS)
    holds[2] = math.nan
    assert quadrants(six(subset=subset, holds=holds)).tolist() == [0, -1, -1, 3, 2, 0]


def test_keep_against_change(tmp_path):
    figure = six().plot(tmp_path / "scatter.png", kind="keep_change")
    assert (tmp_path / "scatter.png").read_bytes().startswith(b"\x89PNG")
    axis = figure.axes[0]
    dots = next(found for found in axis.collections if len(found.get_offsets()) == 5 and len(found.get_sizes()) == 5)
    areas = {tuple(place): size for place, size in zip(dots.get_offsets().tolist(), dots.get_sizes(), strict=True)}
    assert set(areas) == set(zip(HOLDS, CHANGES, strict=True))
    assert areas[0.93, 0.97] == 2 * areas[0.8, 0.2]  # two rows are there
    corners = [f"{words}: {n} of 6" for words, n in zip(QUADRANTS, (2, 1, 2, 1), strict=True)]
    assert texts(axis)[:4] == corners
    for text, x, y in zip(axis.texts[:4], (1, 1, 0, 0), (1, 0, 1, 0), strict=True):
        assert (text.get_position()[0] > 0.5, text.get_position()[1] > 0.5) == (x, y)
    assert sorted(texts(axis)[4:]) == ["row 0, row 5", "row 1", "row 2", "row 3", "row 4"]
    assert axis.get_xlabel() == "keep: everything else changed, the prediction stays, 95 % interval"
    assert axis.get_ylabel() == "change: only the subset changed, the prediction moves, 95 % interval"
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["the subset of one row", "95 % interval"]
    assert "Area: how many are at one place, to 1 %." in small_print(figure)


def test_the_crosses_are_the_intervals():
    axis = six(confidence=0.9).plot(kind="keep_change").axes[0]
    across, down = (found.get_segments() for found in axis.collections if hasattr(found, "get_segments"))
    for i, (holds, moves) in enumerate(zip(HOLDS, CHANGES, strict=True)):
        assert across[i] == pytest.approx(np.array([[holds - 0.04, moves], [holds + 0.02, moves]]))
        assert down[i] == pytest.approx(np.array([[holds, moves - 0.05], [holds, moves + 0.03]]))
    assert axis.get_xlabel().endswith("90 % interval")


def test_a_scatter_says_what_it_leaves_out():
    subset = six().subset.copy()
    subset[1] = False
    holds = np.array(HOLDS)
    holds[2:4] = math.nan
    figure = six(subset=subset, holds=holds).plot(kind="keep_change")
    said = small_print(figure)
    assert "Not drawn: 1 of 6 rows, whose subset is empty. Not drawn: 2 of 6 rows, without estimates." in said
    assert texts(figure.axes[0])[0] == "necessary and sufficient: 2 of 3"
    none = six(subset=np.zeros_like(subset)).plot(kind="keep_change")
    assert texts(none.axes[0]) == [f"{words}: 0 of 0" for words in QUADRANTS]
    old = six(share_interval=np.full((6, 2, 2), math.nan)).plot(kind="keep_change")  # saved before it was kept
    assert old.axes[0].get_xlabel() == "keep: everything else changed, the prediction stays"


def test_a_scatter_of_many_has_no_names_and_no_crosses():
    figure = table(300).plot(kind="keep_change")
    axis = figure.axes[0]
    assert texts(axis)[0] == "necessary and sufficient: 300 of 300"
    assert len(axis.texts) == 4
    assert not [found for found in axis.collections if hasattr(found, "get_segments")]
    assert "Intervals are drawn of at most 60 rows." in small_print(figure)
    assert axis.get_xlabel() == "keep: everything else changed, the prediction stays"


def test_dots_of_many_are_small_and_none_is_huge():
    holds = np.where(np.arange(6000) < 4000, 0.9, np.linspace(0, 1, 6000))
    figure = table(6000, holds=holds, changes=holds).plot(kind="keep_change")
    dots = max(figure.axes[0].collections, key=lambda found: len(found.get_offsets()))
    areas = {round(x, 2): size for (x, _), size in zip(dots.get_offsets().tolist(), dots.get_sizes(), strict=True)}
    one = 26 * math.sqrt(60 / 6000)
    assert areas[0.7] == pytest.approx(60 * one)  # of the last two thousand, from 2/3 on, one hundredth has sixty
    assert areas[0.9] == 500 * one
    assert "Area: how many are at one place, to 1 %; of more than 500 as of so many." in small_print(figure)


def test_no_name_of_a_scatter_stands_over_another():
    draws = np.random.default_rng(0)
    e = table(12, holds=draws.uniform(0.85, 1, 12), changes=draws.uniform(0.85, 1, 12))
    figure = e.plot(kind="keep_change")
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]
    assert len(boxes) == 16
    for k, box in enumerate(boxes):
        assert not [other for other in boxes[:k] if box.overlaps(other)]
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1


# --- How often -------------------------------------------------------------------------------------------------------


def wilson(k: int, n: int) -> tuple[float, float]:
    """Wilson's interval as the roots of its equation: (p - share)^2 = z^2 p (1 - p) / n."""
    z2, share = 1.959963984540054**2, k / n
    low, high = np.sort(np.roots([1 + z2 / n, -2 * share - z2 / n, share**2]).real)
    return float(low), float(high)


def test_how_often_each_column_is_in_the_subset():
    subset = np.zeros((20, 4), dtype=bool)
    subset[:15, 2] = subset[:5, 0] = True
    e = explanation(np.tile([0.2, 0.1, 0.3, 0.0], (20, 1)), subset)
    figure = e.plot(kind="often", top=3)
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["x3", "x1", "x2"]
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([0.75, 0.25, 0])
    whiskers = next(found for found in axis.collections if hasattr(found, "get_segments")).get_segments()
    for segment, k in zip(whiskers, (15, 5), strict=False):
        assert segment[:, 0] == pytest.approx(wilson(k, 20))
    assert whiskers[2][:, 0] == pytest.approx([0, wilson(0, 20)[1]])
    right = [text.get_text() for text in axis.child_axes[0].get_yticklabels()]
    assert right == ["75 % [53, 89] of 20", "25 % [11, 47] of 20", "0 % [0, 16] of 20"]
    assert axis.get_xlabel() == "share of 20 rows that have it in their subset, Wilson's 95 % interval"
    assert figure._supxlabel.get_text() == "1 more column not shown. 20 rows, 5 with an empty subset."


def test_features_that_only_some_inputs_have_are_shares_of_those():
    shared: dict[str, Any] = {"evaluations": {"shared": np.array(0)}}
    first = graph_of([(0, 1), (1, 2)], [0.5, 0.1], [True, False], **shared)
    second = graph_of([(0, 1), (3, 4)], [0.5, 0.1], [True, True], **shared)
    e = join([first, second], [[0], [1]])
    axis = e.plot(kind="often").axes[0]
    shares = dict(
        zip(
            [text.get_text() for text in axis.get_yticklabels()],
            [text.get_text() for text in axis.child_axes[0].get_yticklabels()],
            strict=True,
        )
    )
    assert shares == {"0 - 1": "100 % [34, 100] of 2", "3 - 4": "100 % [21, 100] of 1", "1 - 2": "0 % [0, 79] of 1"}
    assert axis.get_xlabel().startswith("share of the inputs with this edge that have it in their subset, Wilson's")


def test_regions_of_different_images_are_not_the_same_feature():
    with pytest.raises(
        fans.InputError, match="got 2 images with superpixels of their own, of which no two are the same"
    ):
        small_images().plot(kind="often")


# --- Bars and kinds --------------------------------------------------------------------------------------------------


def test_bars_of_any_modality_name_their_interval(tmp_path):
    axis = house(20).plot(tmp_path / "bars.png", kind="bars", top=4).axes[0]
    assert len(axis.patches) == 4
    assert axis.get_xlabel().startswith("score, 95 % interval\n39 more edges not shown, 2 of them in the subset")
    widths = [bar.get_width() for bar in axis.patches]
    assert widths == pytest.approx(sorted(house(20).scores[0], reverse=True)[:4])
    images = small_images().plot(kind="bars").axes
    assert images[0].get_yticklabels()[0].get_text().startswith("✓ superpixel 1 = ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "bar"}, "Expected `kind` to be one of 'input', 'bars', 'keep_change', 'often', got 'bar'"),
        ({"kind": "often", "top": 0}, "Expected `top` as a whole number of at least 1, got 0"),
        ({"columns": 0}, "Expected `columns` as a whole number of at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused(e, settings, message):
    with pytest.raises(fans.InputError, match=message):
        e.plot(**settings)


def test_nothing_to_draw_is_refused(e):
    for kind in ("input", "bars", "keep_change", "often"):
        with pytest.raises(fans.InputError, match="Expected at least one explained input for `plot`, got none"):
            e[:0].plot(kind=kind)


# --- Curves ----------------------------------------------------------------------------------------------------------


def curve(n: int = 2, n_features: int = 3, **changes: Any) -> fans.Curve:
    """Curves of sizes 0 to 2 (all) at two tolerances; the second input has a feature and a size less."""
    pns = np.array([[0.0, 0.1], [0.6, 0.7], [0.8, 0.9]])
    sizes = np.array([[0, 1, n_features], [0, 1, -1]])[np.arange(n) % 2]
    shares = np.where(sizes[..., None] >= 0, pns, np.nan)
    ends = np.stack([shares - 0.1, shares + 0.05], -1)
    order = np.tile(np.arange(n_features), (n, 1))
    order[np.arange(n) % 2 == 1, -1] = -1
    given: dict[str, Any] = {
        "order": order,
        "sizes": sizes,
        "chosen": np.ones(n, dtype=int),
        "tolerances": np.tile([0.05, 0.1], (n, 1)),
        "used": np.ones(n, dtype=int),
        "pns": shares,
        "changes": shares + 0.04,
        "holds": shares + 0.08,
        "intervals": np.stack([ends, ends + 0.04, ends + 0.08], 3),
        "ids": ("<me>", *range(1, n)),
        "confidence": 0.95,
        "n_evaluations": 7,
    }
    return fans.Curve(**given | changes)


def test_the_size_curve(tmp_path):
    figure = curve().plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5000
    first, second = figure.axes
    assert first.get_title(loc="left") == "<me>\nchosen: 1 of 3; tolerance 0.1"
    assert second.get_title(loc="left") == "input 1\nchosen: 1 of 2; tolerance 0.1"
    pns, keep, change, chosen = first.lines
    assert pns.get_xdata().tolist() == [0, 1, 3]
    assert pns.get_ydata().tolist() == [0.1, 0.7, 0.9]
    assert keep.get_ydata() == pytest.approx([0.18, 0.78, 0.98])
    assert change.get_ydata() == pytest.approx([0.14, 0.74, 0.94])
    assert list(chosen.get_xdata()) == [1, 1]
    assert second.lines[0].get_xdata().tolist() == [0, 1]
    assert len({line.get_linestyle() for line in (pns, keep, change)}) == 3  # told apart without colour
    assert len({line.get_marker() for line in (pns, keep, change)}) == 3
    for band, up in zip(first.collections, (0, 0.08, 0.04), strict=True):
        corners = band.get_paths()[0].vertices
        at = corners[corners[:, 0] == 1][:, 1]
        assert (at.min(), at.max()) == pytest.approx((0.6 + up, 0.75 + up))
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["both (PNS)", "keep", "change", "95 % interval", "chosen size"]
    assert first.get_ylabel() == "share of trials, 95 % interval"
    assert first.get_xlabel() == "size of the subset"


def test_a_curve_at_another_tolerance_says_so():
    axis = curve()[0].plot(tolerance=0.05).axes[0]
    assert axis.lines[0].get_ydata().tolist() == [0.0, 0.6, 0.8]
    assert axis.get_title(loc="left").endswith("tolerance 0.05, not the explanation's own")
    for tolerance in (0.2, "0.1", math.nan):
        with pytest.raises(fans.InputError, match=r"got .*; of <me> these are 0.05, 0.1"):
            curve().plot(tolerance=tolerance)  # type: ignore[arg-type]


def test_curves_of_many_inputs_and_of_many_features():
    figure = curve(15).plot(columns=5)
    assert len([axis for axis in figure.axes if axis.axison]) == MOST_PANELS
    assert "3 more inputs are not drawn." in small_print(figure)
    wide = curve(1, 500).plot().axes[0]
    assert wide.get_xscale() == "symlog"
    assert wide.lines[0].get_xdata().tolist() == [0, 1, 500]
    with pytest.raises(fans.InputError, match="Expected the curve of at least one input, got none"):
        fans.Curve(**{**vars(curve()), **{name: getattr(curve(), name)[:0] for name in curve()._arrays()}}).plot()


def test_a_drawn_curve_ends_in_the_explanations_own_figures():
    rows = np.random.default_rng(0).normal(0, 1.5, (200, 3))
    explainer = fans.Explainer(lambda x: (x[:, 0] - x[:, 1] > 1).astype(float), rows, baseline=0.0)
    e = explainer(np.array([3.0, 1.0, 1.0]))
    pns, keep, change, chosen = explainer.curve(e).plot().axes[0].lines
    at = list(pns.get_xdata()).index(chosen.get_xdata()[0])
    assert chosen.get_xdata()[0] == e.subset.sum()
    assert pns.get_ydata()[at] == pytest.approx(e.pns[0])
    assert keep.get_ydata()[at] == pytest.approx(e.holds[0])
    assert change.get_ydata()[at] == pytest.approx(e.changes[0])


# --- Figures as such -------------------------------------------------------------------------------------------------


def test_figures_are_nobodys_but_the_callers(e):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    figures = [e.plot(kind=kind) for kind in ("input", "bars", "keep_change", "often")] + [curve().plot()]
    assert all(figure._repr_png_().startswith(b"\x89PNG") for figure in figures)
    assert all(figure._repr_html_() is None for figure in figures)
    assert plt.get_fignums() == before
    held = [weakref.ref(figure) for figure in figures]
    del figures
    gc.collect()
    assert [figure() for figure in held] == [None] * 5


def test_drawing_leaves_matplotlibs_settings_alone(e):
    before = dict(matplotlib.rcParams), matplotlib.get_backend()
    e.plot(kind="keep_change")
    curve().plot()
    assert (dict(matplotlib.rcParams), matplotlib.get_backend()) == before
