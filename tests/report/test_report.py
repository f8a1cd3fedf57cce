"""Sentences, pages, frames and figures say what the estimates say."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fans
from fans.report.sentences import join_names, number, percent

BACKGROUND = np.random.default_rng(0).normal(size=(150, 3))


def rule(rows: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-3 * (rows[:, 0] - rows[:, 1])))
    return np.stack([1 - p, p], axis=1)


@pytest.fixture(scope="module")
def e() -> fans.Explanation:
    return fans.Explainer(rule, BACKGROUND)(BACKGROUND[:4])


def said(e: fans.Explanation, **changes) -> str:
    """The sentence after some estimates were replaced."""
    arrays: dict[str, Any] = {k: np.asarray(v) for k, v in changes.items()}
    return replace(e[0], **arrays).sentences[0]


def test_the_sentence_carries_the_estimates(e):
    text = said(e, subset=[[True, True, False]], ps=[0.914], pn=[0.876], tolerance=[0.021], scores=[[2.0, 3.0, 0]])
    assert text == (
        f"Perturbing *x2* and *x1* moves P({e.target[0]}) by more than 0.021 in 91 % of trials; "
        "perturbing everything else leaves it within that in 88 %."
    )


@pytest.mark.parametrize("ps", [0.0, 0.001, 0.5, 0.996, 1.0, math.nan])
@pytest.mark.parametrize("pn", [0.0, 0.004, 0.5, 0.999, 1.0, math.nan])
def test_the_sentence_never_contradicts_the_estimates(e, ps, pn):
    text = said(e, subset=[[True, False, False]], ps=[ps], pn=[pn])
    shares = [int(n) / 100 for n in re.findall(r"(\d+) %", text)]
    expected = [p for p in (ps, pn) if not math.isnan(p)]
    assert len(shares) == len(expected)
    for share, p in zip(shares, expected, strict=True):
        assert share == pytest.approx(p, abs=0.0101)
        assert (share in (0, 1)) == (p in (0, 1))  # certainty is claimed only where it was found
    assert ("leaves it" in text) == (not math.isnan(pn))


def test_the_sentence_for_everything_and_for_other_changes(e):
    assert "only *x" in said(e, subset=[[True, True, True]], ps=[math.nan], pn=[1.0])
    flipped = replace(e[0], change="label").sentences[0]
    assert "flips the predicted class" in flipped
    assert "moves the prediction by" in replace(e[0], change="l2").sentences[0]
    assert "by more than" not in said(e, tolerance=[0.0])


def test_small_words():
    assert [percent(p) for p in (0, 0.0001, 0.994, 0.9999, 1)] == ["0 %", "1 %", "99 %", "99 %", "100 %"]
    assert join_names(["a"]) == "*a*"
    assert join_names(list("abcdefgh")) == "*a*, *b*, *c*, *d*, *e* and 3 more"
    assert [number(v) for v in (0.0213, 0.00002, 3.14159, 12345.6)] == ["0.021", "2.0e-05", "3.1", "12,346"]


def test_the_page_has_every_input_and_escapes_names(e, tmp_path):
    named = replace(e, feature_names=("<b>", "x2", "x3"))
    text = named.to_html(tmp_path / "page.html").read_text()
    assert text.count("<table>") == 4
    assert "&lt;b&gt;" in text
    assert "<b></td>" not in text
    assert f"PNS {e.pns[0]:.2f}" in text
    assert "src=" not in text
    assert "http" not in text
    assert e[0]._repr_html_().count("<table>") == 1


def test_the_frame_has_a_row_for_each_input_and_feature(e):
    frame = e.to_frame()
    assert len(frame) == 12
    second = frame[frame["id"] == 1].set_index("feature")
    assert second["score"].tolist() == e.scores[1].tolist()
    assert second["chosen"].tolist() == e.subset[1].tolist()
    assert (second["pns"] == e.pns[1]).all()
    assert float(second.loc["x1", "value"]) == pytest.approx(BACKGROUND[1, 0], rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_shap_takes_the_scores(e):
    shap = pytest.importorskip("shap")
    found = e.to_shap()
    assert isinstance(found, shap.Explanation)
    assert np.array_equal(found.values, e.scores)
    assert found.feature_names == ["x1", "x2", "x3"]


def test_the_picture_shows_the_leading_features_and_colours_the_chosen(e, tmp_path):
    figure = e.plot(tmp_path / "e.png", top=2, columns=2)
    assert (tmp_path / "e.png").stat().st_size > 10_000
    panels = [axis for axis in figure.axes if axis.axison]
    assert len(panels) == 4
    labels = [t.get_text().split(" = ")[0] for t in panels[0].get_yticklabels()]
    assert labels == [e.feature_names[f] for f in e.ranked(0)[:2]]
    widths = [bar.get_width() for bar in panels[0].patches]
    assert widths == pytest.approx([e.scores[0, f] for f in e.ranked(0)[:2]])
    colours = {bar.get_facecolor() for bar in panels[0].patches}
    assert len(colours) == len({bool(e.subset[0, f]) for f in e.ranked(0)[:2]})
