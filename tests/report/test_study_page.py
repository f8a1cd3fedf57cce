"""The page of studies as it is written: everything in it, nothing from elsewhere, and names that stay text."""

import json
import re
from html.parser import HTMLParser

import numpy as np

from fans.report.sections import Section
from fans.report.study_page import page
from tests.report.sections import EVIL, section


class Parts(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data


def test_everything_is_in_the_page():
    parts = Parts(page([section(), Section("other", "Another")]))
    for words in (
        *("1 of 3 hold here", "1 of 3 do not hold here", "1 of 3 are not settled here", "by 2 [1, 3], N = 9"),
        *("Another", "All <is> said.", "a note", "IR: what it is", "fans run made-up", "Made up."),
        *("Maps", "Letters, 5 inputs"),
    ):  # fmt: skip
        assert words in parts.words, words
    assert [a for t, a in parts.tags if a.get("href") == "#s0-made-up"]
    assert [a for t, a in parts.tags if a.get("id") == "s0-made-up"]
    assert [a["data-v"] for _, a in parts.tags if a.get("class") == "c0 paper" and a.get("data-v")] == ["61.0"]


def test_nothing_is_loaded():
    text = page([section()])
    parts = Parts(text)
    for tag, attributes in parts.tags:
        for name in ("src", "href", "action", "data"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:image/png;base64,")), (tag, address)
    assert tag_content(parts) == (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    assert set(re.findall(r"https?://[^\"'\s]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, no address


def tag_content(parts: Parts) -> str | None:
    return next(a["content"] for t, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy")


def test_names_are_text():
    text = page([section()])
    assert EVIL not in text
    assert len(re.findall("<script", text)) == 2
    inside = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S)
    charts = json.loads(inside[0])
    assert charts[0]["panels"][1]["lines"][0]["name"] == EVIL
    assert charts[0]["panels"][2]["lines"][0]["y"] == [3.0, None]  # JSON has no NaN


def test_the_columns_of_the_paper_are_shown_at_first():
    boxes = {a["data-column"]: "checked" in a for t, a in Parts(page([section()])).tags if "data-column" in a}
    assert boxes == {"c0": True, "c1": True, "c2": False}
    groups = {
        a["data-group"]: "checked" in a for t, a in Parts(page([section()])).tags if t == "input" and "data-group" in a
    }
    assert groups == {"rivals": True, "our units": False, "FANS": True}


def test_a_page_without_claims_or_charts():
    parts = Parts(page([Section("plain", "Plain", summary=["one\ntwo"])]))
    assert "claims" not in {a.get("id") for _, a in parts.tags}
    assert "one\ntwo" in parts.words
    assert np.array([t == "section" for t, _ in parts.tags]).sum() == 1
