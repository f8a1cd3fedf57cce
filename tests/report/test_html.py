"""Pages: whole, escaped, and saying what the pictures say."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fans.report.html import pages
from tests.report.made import explanation, table
from tests.report.made import small_images as made
from tests.report.subjects import parsed


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
