"""The guide's example of series runs as printed."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs" / "series.md"


def test_the_guide_prints_what_it_says(capsys, monkeypatch, tmp_path):
    block = re.search(r"## Explaining series.*?```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block
    monkeypatch.chdir(tmp_path)
    exec(block.group(1), {})  # noqa: S102
    claimed = re.findall(r"^# (.*)", block.group(1), re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == claimed
    assert (tmp_path / "why.png").exists()
