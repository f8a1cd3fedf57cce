"""The README's quick start runs as printed and says what it claims."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_images(tmp_path, monkeypatch):
    block = re.search(r"pictures like the second:\n\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block
    monkeypatch.chdir(tmp_path)
    code = "import fans, fans.datasets, fans.networks\n" + block.group(1)
    exec(code, {})  # noqa: S102
    assert (tmp_path / "image.png").exists()


def test_the_quick_start(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    block = re.search(r"## Six lines.*?```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block
    code = block.group(1)
    statements = [line for line in code.splitlines() if line and not line.startswith("#")]
    assert len(statements) <= 6
    exec(code, {})  # noqa: S102
    claimed = " ".join(line.removeprefix("# ") for line in code.splitlines() if line.startswith("# "))
    assert capsys.readouterr().out.split() == claimed.split()
