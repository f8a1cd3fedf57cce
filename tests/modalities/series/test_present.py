"""Series in words, in pictures, on pages and in files."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import fans
from fans.modalities.series.charts import MOST_CHANNELS, chart, thinned
from fans.modalities.series.times import Times
from fans.spaces import Series

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")


def model(series: Any) -> Any:
    """P of class 1 rises with the second channel in steps 20 to 29."""
    p = 1 / (1 + np.exp(-6 * (np.asarray(series)[:, 1, 20:30].mean(1) - 1)))
    return np.stack([1 - p, p], 1)


def explain(n: int = 3, n_channels: int = 2, **settings: Any) -> fans.Explanation:
    rng = np.random.default_rng(0)
    background, x = rng.standard_normal((40, n_channels, 60)), rng.standard_normal((n, n_channels, 60))
    x[:, 1, 20:30] += 2
    return fans.Explainer(model, background, space=Series(window=10, **settings), target_names=["calm", "alert"])(x)


@pytest.fixture(scope="module")
def e() -> fans.Explanation:
    return explain(channel_names=["heart rate", "a <b> & *c* $x$"])


def svgs(page: str) -> list[Any]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]  # noqa: S314


def drawn_box(svg: Any, colour: str) -> list[tuple[float, float]]:
    """Where the boxes of a colour begin and end, across."""
    boxes = [box for box in svg.iter("rect") if box.get("fill") == colour]
    return [(float(box.get("x")), float(box.get("x")) + float(box.get("width"))) for box in boxes]


# --- Words -----------------------------------------------------------------------------------------------------------


def test_windows_are_called_by_channel_and_steps():
    named = explain(channel_names=["heart rate", "pressure"])
    assert named.sentences[0].startswith(
        "Keep *pressure 20-29* (1 of 12 windows), and change everything else: P(alert)"
    )
    assert str(named[:1]).startswith("series 0: P(alert) = 0.")
    assert "by pressure 20-29 (1 of 12 windows)" in str(named[:1])
    assert "of 6 windows)" in explain(by="time").sentences[0]
    whole = fans.Explainer(model, np.random.default_rng(0).standard_normal((40, 2, 60)), space=Series(by="channel"))
    assert "*channel 1* (1 of 2 channels)" in whole(named.inputs).sentences[0]


def test_values_are_means_of_windows(e):
    mean = e.inputs[1, 1, 20:30].mean()
    assert float(e.value(1, 8)) == pytest.approx(mean, rel=1e-3)
    frame = e.to_frame()
    assert frame.shape[0] == 3 * 12
    assert frame.feature[20] == "a <b> & *c* $x$ 20-29"
    shap = pytest.importorskip("shap")
    found = e.to_shap()
    assert isinstance(found, shap.Explanation)
    np.testing.assert_allclose(found.data[:, 8], e.inputs[:, 1, 20:30].mean(1))


def test_overview_reads_windows_over_series():
    overview = explain(6, channel_names=["heart rate", "pressure"]).overview()
    assert "6 explained series" in str(overview)
    assert "*pressure 20-29* in 6 of 6" in str(overview)


# --- Files and slices ------------------------------------------------------------------------------------------------


MOMENTS = np.datetime64("2024-03-01T08:00") + np.cumsum(np.arange(60) % 7 + 1)


@pytest.mark.parametrize("times", [None, np.arange(60) * 2.5, MOMENTS])
def test_what_is_saved_is_shown_alike(times, tmp_path):
    made = explain(times=times)
    loaded = fans.load(made.save(tmp_path / "e.safetensors"))
    for one, other in ((made, loaded), (made[1:], loaded[1:])):
        assert one.sentences == other.sentences
        assert one.to_html(tmp_path / "a.html").read_text() == other.to_html(tmp_path / "b.html").read_text()
    assert chart(made[2], 0).panels[1].chosen == chart(loaded, 2).panels[1].chosen
    assert (tmp_path / "e.safetensors").stat().st_size < 60_000


def test_uneven_times_are_kept_well_enough_to_draw():
    values = np.cumsum(np.random.default_rng(0).random(10_000) + 0.5)
    times = Times.of(values, 10_000)
    kept = Times.kept(times.details, 10_000)
    assert len(times.details["knots"]) <= 256
    assert np.abs(kept.values - values).max() < 0.002 * np.ptp(values)


# --- Charts ----------------------------------------------------------------------------------------------------------


def test_a_chart_has_the_line_the_windows_and_the_chosen_ones(e):
    found = chart(e, 0)
    assert [panel.name for panel in found.panels] == ["heart rate", "a <b> & *c* $x$"]
    panel = found.panels[1]
    np.testing.assert_array_equal(panel.values, e.inputs[0, 1])
    assert [(w.start, w.end) for w in panel.windows] == [(10 * k - 0.5, 10 * k + 9.5) for k in range(6)]
    assert [w.score for w in panel.windows] == e.scores[0, 6:].tolist()
    assert panel.chosen == [(19.5, 29.5)]
    assert found.panels[0].chosen == []


@pytest.mark.parametrize(("channels", "by"), [("last", "window"), ("none", "window"), ("first", "time")])
def test_any_layout_is_drawn_by_channel(channels, by):
    rng = np.random.default_rng(0)
    series = rng.standard_normal((30, 60) if channels == "none" else (30, 60, 2) if channels == "last" else (30, 2, 60))

    def ask(given: Any) -> Any:
        return given[:, 20:30].mean(1) if channels == "none" else given[..., 20:30].mean((1, 2))

    def last(given: Any) -> Any:
        return given[:, 20:30, 1].mean(1)

    space = Series(window=10, by=by, channels=channels)
    made = fans.Explainer(last if channels == "last" else ask, series, space=space)(series[:1])
    panels = chart(made, 0).panels
    assert len(panels) == (1 if channels == "none" else 2)
    own = {"last": made.inputs[0].T, "none": made.inputs[:1].reshape(1, -1), "first": made.inputs[0]}[channels]
    np.testing.assert_array_equal([panel.values for panel in panels], own)
    assert panels[-1].chosen == [(19.5, 29.5)]


def test_long_series_are_thinned_without_losing_a_peak():
    values = np.random.default_rng(0).standard_normal(10_000)
    values[1234], values[9876] = 50, -50
    places = thinned(values)
    assert len(places) <= 802
    assert {0, 1234, 9876, 9999} <= set(places.tolist())
    np.testing.assert_array_equal(thinned(values[:700]), np.arange(700))


def test_many_channels_are_drawn_by_what_matters(tmp_path):
    rng = np.random.default_rng(0)
    series = rng.standard_normal((20, 50, 3000)).astype(np.float32)

    def ask(given: Any) -> Any:
        return given[:, 37, :600].mean(1) + given[:, 3, 600:1200].mean(1)

    made = fans.Explainer(ask, series, effort="low")(series[:2])
    found = chart(made, 0)
    names = [panel.name for panel in found.panels]
    assert len(names) == MOST_CHANNELS
    assert {"channel 3", "channel 37"} <= set(names)
    assert names == sorted(names, key=lambda name: int(name.split()[1]))
    assert found.left_out == "42 more channels not drawn"
    page = made.to_html(tmp_path / "page.html")
    assert page.stat().st_size < 300_000
    assert "42 more channels not drawn" in page.read_text()


# --- Pages and pictures ----------------------------------------------------------------------------------------------


def test_the_page_is_well_formed_self_contained_and_shades_what_was_chosen(e, tmp_path):
    page = e.to_html(tmp_path / "page.html").read_text()
    assert "http" not in page
    assert "<script" not in page
    found = svgs(page)
    assert len(found) == 3
    for svg in found:
        assert svg.get("role") == "img"
        assert svg.get("aria-label").startswith("series ")
        assert "a <b> & *c* $x$ 20-29" in svg.get("aria-label")
        ((start, end),) = drawn_box(svg, "#d3e6f5")
        wide = 840 - 64 - 8
        assert (start - 64) / wide == pytest.approx(20 / 60, abs=0.01)
        assert (end - 64) / wide == pytest.approx(30 / 60, abs=0.01)
        texts = [text.text for text in svg.iter("text")]
        assert "heart rate" in texts
        assert {"0", "10", "20", "50"} <= set(texts)
        assert "-0" not in texts
    assert "Value: the mean over the window." in page
    assert e._repr_html_().count("<svg") == 3


def test_ticks_are_round_times():
    days = Times.of(np.datetime64("2024-03-01T08:00") + np.arange(3 * 24 * 60) * np.timedelta64(1, "m"), 3 * 24 * 60)
    assert days.ticks(6)[1] == ["12:00", "2024-03-02", "12:00", "2024-03-03", "12:00", "2024-03-04"]
    day = Times.of(np.datetime64("2024-03-01T08:00") + np.arange(100) * np.timedelta64(1, "m"), 100)
    assert day.ticks(6)[1] == ["08:00", "08:30", "09:00", "09:30"]
    assert Times.of(None, 7).ticks(7)[1] == ["0", "1", "2", "3", "4", "5", "6"]
    assert Times.of(None, 1).ticks()[1] == ["0"]
    assert Times.of(np.linspace(-1, 1, 50), 50).ticks(5)[1] == ["-1", "-0.5", "0", "0.5", "1"]


@pytest.mark.parametrize("columns", [None, 1])
def test_the_figure_has_a_panel_a_channel(e, columns, tmp_path):
    from matplotlib.patches import Rectangle

    figure = e.plot(tmp_path / "why.png", columns=columns)
    panels = [axis for axis in figure.axes if axis.lines]
    assert len(panels) == 6
    shaded = [[p for p in axis.patches if isinstance(p, Rectangle)] for axis in panels]
    assert [len(some) for some in shaded] == [0, 1] * 3
    assert (shaded[1][0].get_x(), shaded[1][0].get_width()) == (19.5, 10)
    assert Path(tmp_path / "why.png").stat().st_size > 10_000


@pytest.mark.parametrize("shape", [(30, 1), (30, 2)])
def test_the_shortest_series_are_drawn(shape, tmp_path):
    series = np.random.default_rng(0).standard_normal(shape)
    made = fans.Explainer(lambda given: given[:, 0], series, space=Series())(series[0])
    made.plot(tmp_path / "why.png")
    assert len(svgs(made.to_html(tmp_path / "why.html").read_text())) == 1
