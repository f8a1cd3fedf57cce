"""Pictures of explanations: bars, long names, little to show, histories."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fans
from fans.report.sentences import headline
from tests.report.made import explanation, house, table
from tests.report.made import small_images as made
from tests.report.subjects import parsed


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
