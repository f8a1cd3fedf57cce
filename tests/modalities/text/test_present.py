"""Texts in words, on terminals, in pictures, on pages and in files."""

import re
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import fans
from fans.modalities.text.figures import MOST_LETTERS, picture
from fans.modalities.text.highlights import excerpt, runs
from fans.modalities.text.page import colours
from fans.report.colours import CHOSEN
from fans.report.scenes import Box, Line
from fans.report.scenes import Text as Words
from fans.spaces import Text

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

BACKGROUND = ["a weak film", "a great film"]
STRANGE = "so weak: <script>alert('1')</script> & $x$ \x1b[31m"


def model(texts: Any) -> Any:
    """P of class 1: how many of its words are weak or dull."""
    p = np.array([0.9 - 0.4 * min(2, len(re.findall("weak|dull|<script>", t))) for t in texts])
    return np.stack([1 - p, p], 1)


def explain(texts: Any, **settings: Any) -> fans.Explanation:
    return fans.Explainer(model, BACKGROUND, target_names=["bad", "good"], **settings)(texts)


@pytest.fixture(scope="module")
def e() -> fans.Explanation:
    return explain(["a weak, dull film", STRANGE, "weak or not weak", "fine"])


class Reader(HTMLParser):
    """Reads the highlighted texts of a page: what they say, and what is marked."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts, self.chosen, self.tags, self._in = list[str](), list[str](), list[str](), [False, False]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "p":
            self._in[0] = given.get("class") == "text"
            self.texts += [""] if self._in[0] else []
        self._in[1] = tag == "span" and given.get("class") == "in"

    def handle_endtag(self, tag: str) -> None:
        self._in[1] = False
        if tag == "p":
            self._in[0] = False

    def handle_data(self, data: str) -> None:
        if self._in[0]:
            self.texts[-1] += data
        if self._in[1]:
            self.chosen.append(data)


# --- Words -----------------------------------------------------------------------------------------------------------


def test_sentences_name_words_and_their_places(e):
    assert e.sentences[0].startswith("Keep *weak* and *dull* (2 of 4 words), and change everything else: P(bad)")
    assert set(e.chosen_names(2)) == {"weak (1st)", "weak (2nd)"}
    assert e.title(0) == "text 0"
    assert "nothing" in e.sentences[3].lower()
    frame = e.to_frame()
    assert frame.feature[:4].tolist() == ["a", "weak", "dull", "film"]
    assert frame.value[:4].tolist() == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert len(frame) == e.present.sum()


def test_texts_of_different_pieces():
    with pytest.warns(fans.FansWarning, match="cut into 4 passages"):
        mixed = explain(["weak", "on and on and on"], space=Text(most=4), effort="low")
    assert mixed.sentences[0].startswith("There is only one piece.")


def test_overview_is_of_shared_features(e):
    with pytest.raises(fans.InputError, match="got 4 inputs with words of their own; look at each with `plot`"):
        e.overview()


def test_shap_shows_words(e):
    pytest.importorskip("shap")
    found = e.to_shap()
    assert found.display_data[0, :4].tolist() == ["a", "weak", "dull", "film"]
    np.testing.assert_array_equal(found.data, e.present)


def test_shap_draws_a_text_whose_scores_add_up(e):
    shap = pytest.importorskip("shap")
    texts = ["a weak, dull film!", "fine"]
    found = explain(texts, method="kernel_shap").to_shap()
    assert found.data[0].tolist() == ["a ", "weak, ", "dull ", "film!"]
    assert ["".join(words) for words in found.data] == texts
    page = shap.plots.text(found[0], display=False)
    output = found.base_values[0] + found.values[0].sum()
    assert output == pytest.approx(model(texts)[0, 0 if model(texts)[0, 0] > 0.5 else 1])
    assert f"{output:.6g}"[:5] in page
    for word, score in zip(found.data[0], found.values[0], strict=True):
        assert word.strip() in page
        assert abs(score) < 1e-9 or f"{round(score, 3):g}" in page
    with pytest.raises(fans.InputError, match="for a waterfall, force, decision or text plot, got those of"):
        shap.plots.text(e.to_shap()[0], display=False)


# --- Terminals -------------------------------------------------------------------------------------------------------


def test_a_print_has_chosen_words_in_brackets(e, capsys):
    print(e[0])  # noqa: T201
    assert capsys.readouterr().out.splitlines()[-1] == "    a [weak], [dull] film"
    assert "\x1b" not in str(e)


def test_a_terminal_has_them_bold(e, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert str(e[0]).splitlines()[-1] == "    a \x1b[1;4m[weak]\x1b[0m, \x1b[1;4m[dull]\x1b[0m film"
    assert str(e[1]).count("\x1b") == 2 * int(e.subset[1].sum())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in str(e)


def test_lines_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    text = "the plot goes on and on " * 15 + "and is weak " + "the plot goes on and on " * 15
    lines = str(explain(text, effort="low")).splitlines()
    assert [line for line in lines if len(line) > 50] == []
    assert lines[-1:] == ["    … and on and is [weak] the plot goes on …"]


def test_runs_are_the_text(e):
    for i in range(len(e)):
        assert "".join(run.text for run in runs(e, i)) == e.details["text"][i]
        assert [run.text for run in runs(e, i) if run.chosen] == [
            name.split(" (")[0]
            for f, name in enumerate(e.details["names"][i])
            if e.subset[i, f]
        ]  # fmt: skip


def test_an_excerpt_is_short_and_has_the_chosen_words():
    text = "the plot goes on and on " * 30 + "and is weak " + "the plot goes on and on " * 30
    made = explain(text, effort="low")
    shown = excerpt(made, 0, 200)
    assert sum(len(run.text) for run in shown) < 210
    assert [run.text for run in shown if run.chosen] == ["weak"]
    assert excerpt(made, 0, 10_000) == runs(made, 0)


# --- Pages -----------------------------------------------------------------------------------------------------------


def test_the_page_has_the_texts_and_marks_what_was_chosen(e, tmp_path):
    page = e.to_html(tmp_path / "page.html").read_text()
    read = Reader(page)
    assert read.texts == list(e.details["text"])
    assert read.chosen[:2] == ["weak", "dull"]
    assert len(read.chosen) == e.subset.sum()
    assert "script" not in read.tags
    assert "http" not in page
    assert "dir='auto'" in page
    assert Reader(e._repr_html_()).texts == read.texts


def test_letters_can_be_read_on_every_colour():
    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for share in np.linspace(-1, 1, 201):
        a, b = sorted(map(light, colours(share)))
        assert (b + 0.05) / (a + 0.05) > 4.49, share


# --- Pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, 2])
def test_the_picture_has_every_word_on_its_colour(e, columns):
    scene = picture(e, columns)
    words = [part for part in scene.parts if isinstance(part, Words) and part.size == 15]
    said = "".join("".join(part.words.split()) for part in words)
    assert said.startswith("aweak,dullfilm")
    assert [part.words for part in words if part.bold][:2] == ["weak", "dull"]
    lines = [part for part in scene.parts if isinstance(part, Line) and part.colour == CHOSEN]
    assert len(lines) == 1 + int(e.subset.sum())
    boxes = {part.colour for part in scene.parts if isinstance(part, Box)}
    assert colours(1.0)[0] in boxes
    assert all(part.x < scene.width and part.y < scene.height for part in words)


@pytest.mark.parametrize(
    "text",
    ["שלום weak עולם", "weak 👩\u200d👩\u200d👧🏽 ❤️ 我喜欢", "x" * 400 + " weak", "$weak$ _^\\", "weak\n\n\tfilm"],
)
def test_every_text_is_drawn(text, tmp_path):
    made = explain(text)
    made.plot(tmp_path / "why.png")
    assert Reader(made.to_html(tmp_path / "why.html").read_text()).texts == [text]
    assert (tmp_path / "why.png").stat().st_size > 3000
    scene = picture(made, None)
    assert max(part.x for part in scene.parts if isinstance(part, Words)) < scene.width


def test_a_long_text_is_drawn_in_part():
    made = explain("the plot goes on and on " * 60 + "and is weak", effort="low")
    words = [part for part in picture(made, None).parts if isinstance(part, Words)]
    assert sum(len(part.words) for part in words) < MOST_LETTERS
    assert "weak" in [part.words for part in words if part.bold]


# --- Files -----------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_shown_alike(e, tmp_path):
    loaded = fans.load(e.save(tmp_path / "e.safetensors"))
    for one, other in ((e, loaded), (e[1:], loaded[1:]), (e[2], loaded[2])):
        assert str(one) == str(other)
        assert one.sentences == other.sentences
        assert one._repr_html_() == other._repr_html_()
        np.testing.assert_array_equal(one.present, other.present)
