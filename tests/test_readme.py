"""The README is short, and its quick start takes six lines; `test_snippets.py` runs it."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_quick_start_takes_six_lines():
    block = re.search(r"## Six lines.*?```python\n(.*?)```", README, re.DOTALL)
    assert block
    assert len([line for line in block.group(1).splitlines() if line and not line.startswith("#")]) == 6


def test_it_is_read_in_a_minute_or_two():
    assert len(README.split()) < 900


def test_its_counts_are_right():
    gallery = (Path(__file__).parents[1] / "docs" / "gallery" / "index.md").read_text()
    assert "sixteen examples" in README
    assert gallery.startswith("# Gallery\n\n16 examples")
