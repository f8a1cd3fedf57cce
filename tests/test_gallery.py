"""The gallery's pages say what their examples do: same code, same print, and a picture."""

import re

import pytest

from tools import gallery

NAMES = [name for group in gallery.GROUPS.values() for name in group]


def test_every_example_is_in_the_gallery():
    assert sorted(NAMES) == sorted(path.stem for path in gallery.EXAMPLES.glob("*.py"))
    assert len(NAMES) >= 12
    assert (gallery.PAGES / "index.md").read_text() == gallery.index()
    kept = {path.stem for path in gallery.PAGES.glob("*") if path.stem != "index"}
    assert kept == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_code_of_its_example(name):
    page = (gallery.PAGES / f"{name}.md").read_text()
    assert page == gallery.Example.read(name).page(gallery.printed(page))


@pytest.mark.slow("runs each example in a process of its own")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_its_page_says(name, tmp_path):
    found = gallery.run(name, tmp_path)
    same_print(found, gallery.printed((gallery.PAGES / f"{name}.md").read_text()))
    assert (tmp_path / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_prints_are_compared_word_by_word():
    same_print("by x1: both 90 %", "by x1:\n both 88 %")
    with pytest.raises(AssertionError):
        same_print("by x1: both 90 %", "by x1: both 80 %")
    with pytest.raises(AssertionError):
        same_print("by x1", "by x2")


NUMBER = re.compile(r"(?<![\w.])-?[\d,]*\d(?:\.\d+)?(?:e-?\d+)?(?![\w])")


def same_print(found: str, claimed: str) -> None:
    """Compare words exactly; numbers to five percent or three points, for processors round in their own ways."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (found, claimed)]
    assert words[0] == words[1]
    numbers = [[float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (found, claimed)]
    for here, there in zip(*numbers, strict=True):
        assert here == pytest.approx(there, rel=0.05, abs=0.03 if abs(there) <= 1 else 3), (found, claimed)
