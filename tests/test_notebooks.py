"""The notebooks run from top to bottom, show what they promise, and are kept without outputs."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"

PROMISED = {
    "table": ["P(malignant)", "keep", "high values raise P(malignant)"],
    "image": ["Ankle boot", "toe", "image/png"],
    "graph": ["of 6", "PNS", "430"],
    "hypothesis": ["not and dull", "phi 0.5", "and with other draws"],
}
"""What some output of each notebook has in it, words or a kind of output."""


def test_all_notebooks_are_known():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
def test_a_notebook_is_kept_without_outputs_and_begins_with_its_title(name):
    kept = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(kept)
    assert kept.cells[0].source.startswith("# ")
    assert not [cell for cell in kept.cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.long("runs a notebook in a kernel of its own")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROMISED)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.delenv("FANS_DATA", raising=False)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(book, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = " ".join(shown(output) for cell in book.cells for output in cell.get("outputs", []))
    for promise in PROMISED[name]:
        assert promise in said, said[-2000:]
    assert "<table" in said or "<svg" in said or "<img" in said  # explanations show themselves


def shown(output: Any) -> str:
    """Return what an output says, and of which kinds it is."""
    if output.output_type == "stream":
        return str(output.text)
    return " ".join([*output.get("data", {}), *map(str, output.get("data", {}).values())])
