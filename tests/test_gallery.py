"""The gallery's pages say what their examples do: same code, same print, and a picture."""

import pytest

from tests.printing import same
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


@pytest.mark.long("runs each example in a process of its own")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_its_page_says(name, tmp_path):
    found = gallery.run(name, tmp_path)
    claimed = gallery.printed((gallery.PAGES / f"{name}.md").read_text())
    assert same(found, claimed), f"it prints\n{found}\nbut the page says\n{claimed}"
    assert (tmp_path / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
