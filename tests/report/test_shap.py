"""What `to_shap` hands over is what shap itself draws, and what it cannot draw truly it is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fans
from tests.report.made import explanation, house, small_images

shap = pytest.importorskip("shap")
plt = pytest.importorskip("matplotlib.pyplot")

WORDS = ("low", "mid", "high")


@pytest.fixture(autouse=True)
def no_figures():
    yield
    plt.close("all")


def mixed(**changes: Any) -> fans.Explanation:
    """Five rows of a number, an ordered category and a one-hot group of three columns."""
    colour = np.eye(3)[[0, 1, 2, 1, 1]]
    scores = np.array([[0.3, 0.2, 0.1], [0.1, 0.5, 0.0], [0.2, 0.2, 0.2], [0.6, 0.0, 0.3], [0.4, 0.1, 0.2]])
    given: dict[str, Any] = {
        "feature_names": ("income", "grade", "colour"),
        "inputs": np.column_stack([[21390.4, 800, 1.5, 7, 12], [0, 2, 1, 1, 0], colour]),
        "elements": np.array([0, 1, 2, 2, 2]),
        "element_names": ("income", "grade", "red", "green", "blue"),
        "categories": {"1": WORDS},
    }
    return explanation(scores, scores > 0.25, **given | changes)


def test_values_are_numbers_with_words_beside_them():
    e = mixed()
    found = e.to_shap()
    assert isinstance(found, shap.Explanation)
    assert found.values.tolist() == e.scores.tolist()
    assert found.error_std.tolist() == e.scores_se.tolist()  # type: ignore[union-attr]
    assert found.feature_names == ["income", "grade", "colour"]
    assert found.data.dtype == float
    assert found.data[:, 0].tolist() == [21390.4, 800, 1.5, 7, 12]
    assert found.data[:, 1].tolist() == [0, 2, 1, 1, 0]  # codes in their order
    assert found.data[:, 2].tolist() == [2, 1, 0, 1, 1]  # red, green, blue in the alphabet
    assert found.display_data[:, 0].tolist() == found.data[:, 0].tolist()
    assert found.display_data[:, 1].tolist() == ["low", "high", "mid", "mid", "low"]
    assert found.display_data[:, 2].tolist() == ["red", "green", "blue", "green", "green"]


def test_a_missing_number_is_a_grey_dot():
    e = mixed()
    inputs = e.inputs.copy()
    inputs[2, 0] = np.nan
    found = replace(e, inputs=inputs).to_shap()
    assert np.isnan(found.display_data[2, 0])
    axis = shap.plots.beeswarm(found, show=False, color_bar=False)
    grey = [dots.get_offsets()[:, 0].tolist() for dots in axis.collections if dots.get_array() is None]
    assert [scores for scores in grey if scores] == [[e.scores[2, 0]]]


def test_classes_are_named():
    assert replace(mixed(), target=np.ones(5, dtype=int)).to_shap().output_names == "P(malignant)"
    both = mixed().to_shap()
    assert both.output_names == "the explained output"
    assert list(both.instance_names[:2]) == ["row 0: P(benign)", "row 1: P(malignant)"]
    assert mixed(kind="output", target_names=("y",)).to_shap().output_names == "y"
    assert mixed(kind="output", target_names=("0",)).to_shap().output_names == "the output"


def test_the_bars_are_mean_scores():
    e = mixed()
    axis = shap.plots.bar(e.to_shap(), show=False)
    names = [label.get_text() for label in axis.get_yticklabels()[:3]]
    assert dict(zip(names, [bar.get_width() for bar in axis.patches], strict=True)) == pytest.approx(
        dict(zip(e.feature_names, e.scores.mean(0), strict=True))
    )


def test_the_bars_of_one_row_are_its_scores_beside_its_values():
    axis = shap.plots.bar(mixed().to_shap()[1], show=False)
    assert [bar.get_width() for bar in axis.patches] == [0.5, 0.1, 0.0]
    assert [label.get_text() for label in axis.get_yticklabels()[:3]] == [
        *("high = grade", "800 = income", "green = colour"),
    ]


def test_the_bars_of_one_row_have_times_and_words_whole():
    """Shap takes zeros off the end of any text, as if it were a decimal."""
    moments = np.array(["2024-01-10", "2024-01-11", "NaT", "2024-01-12", "2024-01-13"], "datetime64[us]")
    inputs = mixed().inputs.copy()
    inputs[:, 0] = np.where(np.isnat(moments), np.nan, moments.astype(np.int64))
    e = mixed(inputs=inputs, kinds={"0": "date"}, categories={"1": ("A320", "mid", "high")})
    axis = shap.plots.bar(e.to_shap()[0], show=False)
    assert {label.get_text() for label in axis.get_yticklabels()} >= {"2024-01-10  = income", "A320  = grade"}
    assert e.to_shap().display_data[:3, 0].tolist() == ["2024-01-10 ", "2024-01-11", "missing"]
    assert e.to_shap().data[0, 0] == moments[0].astype(np.int64)
    plt.close("all")
    shap.plots.scatter(e.to_shap()[:, "income"], show=False)


def test_a_beeswarm_has_every_score_in_the_colour_of_its_value():
    """Shap cuts colours off at the 5th and the 95th percentile."""
    e = mixed()
    axis = shap.plots.beeswarm(e.to_shap(), show=False, color_bar=False, order=np.arange(3))
    drawn = [dots for dots in axis.collections if len(dots.get_offsets())][::-1]
    for dots, scores, values in zip(drawn, e.scores.T, e.to_shap().data.T, strict=True):
        colours = np.clip(values, *np.percentile(values, [5, 95]))
        pairs = zip(dots.get_offsets()[:, 0], dots.get_array(), strict=True)
        assert sorted(pairs) == pytest.approx(np.array(sorted(zip(scores, colours, strict=True))))


@pytest.mark.parametrize(
    ("feature", "words"), [("grade", ["low", "mid", "high"]), ("colour", ["blue", "green", "red"])]
)
def test_a_scatter_has_words_at_their_codes(feature, words):
    axis = shap.plots.scatter(mixed().to_shap()[:, feature], show=False)
    found = zip(axis.get_xticks(), [label.get_text() for label in axis.get_xticklabels()], strict=True)
    assert sorted(found) == list(enumerate(words))


@pytest.mark.filterwarnings("ignore:The NumPy global RNG was seeded")  # by shap's summary
@pytest.mark.parametrize("plot", ["violin", "heatmap", "scatter", "summary"])
def test_the_other_plots_of_scores_are_drawn(plot):
    draw = shap.summary_plot if plot == "summary" else getattr(shap.plots, plot)
    draw(mixed().to_shap(), show=False)


SUMS = {
    "waterfall": lambda found: shap.plots.waterfall(found[0], show=False),
    "force": lambda found: shap.plots.force(found[0], matplotlib=True, show=False),
    "force of many": shap.plots.force,
    "decision": lambda found: shap.plots.decision(found.base_values, found.values),
}


@pytest.mark.parametrize("draw", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("e", [mixed(method="lime"), replace(house(), method="lime")], ids=["table", "graph"])
def test_plots_of_sums_are_refused(draw, e):
    refused = (
        r"decision or text plot, got those of method='lime', which do not; use shap.plots.bar or beeswarm, or explain"
    )
    with pytest.raises(fans.InputError, match=refused):
        draw(e.to_shap())


def rule(rows: Any) -> Any:
    """One output with an interaction."""
    return rows[:, 0] * rows[:, 1] + 2 * rows[:, 2]


def test_scores_that_add_up_are_drawn_as_a_sum():
    """Against the Shapley values of shap, the value that they start from, and what its waterfall says."""
    background = np.random.default_rng(0).normal(1, 1, (30, 3))
    e = fans.Explainer(rule, background, method="kernel_shap")(background[:4])
    theirs = shap.KernelExplainer(rule, background.mean(0)[None])
    found = e.to_shap()
    assert found.values == pytest.approx(theirs.shap_values(background[:4], silent=True), abs=1e-6)
    assert found.base_values == pytest.approx(np.full(4, theirs.expected_value))
    assert found.base_values + found.values.sum(1) == pytest.approx(rule(background[:4]))
    shap.plots.waterfall(found[2], show=False)
    said = {label.get_text().strip() for axis in plt.gcf().axes for label in axis.get_xticklabels()}
    ends = (theirs.expected_value, rule(background[2:3])[0])
    assert {f"$ = {round(float(end), 3)}$" for end in ends} <= said
    shap.plots.force(found[0], matplotlib=True, show=False)


def test_images_are_handed_over_by_pixel(monkeypatch):
    e = small_images()
    monkeypatch.setattr(plt, "show", lambda: None)
    shap.image_plot(e.to_shap())
    assert e.to_shap().values.sum(-1)[0] == pytest.approx(np.array([[0.3, 0.3, -0.1], [0.3, 0.2, -0.1]]))
    with pytest.raises(fans.InputError, match=r"got those of method='fans', which do not"):
        float(e.to_shap().base_values)
