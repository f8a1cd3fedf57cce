"""The snippets of docs/ecosystem.md run as printed."""

import re
import warnings
from pathlib import Path

import pytest

import fans

PAGE = (Path(__file__).parents[1] / "docs" / "ecosystem.md").read_text()


@pytest.mark.slow("runs every snippet of a page")
def test_the_page_runs_as_printed(capsys):
    for package in ("captum", "torch_geometric", "PIL", "sklearn", "pandas"):
        pytest.importorskip(package)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fans.FansWarning)  # which the page tells of
            exec(code, names)  # noqa: S102
        claimed = " ".join(line.removeprefix("# ") for line in code.splitlines() if line.startswith("# "))
        assert capsys.readouterr().out.split() == claimed.split(), code
