"""The pages on adding things, followed literally: files written as they say, commands given as they say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("follows the pages in processes of their own")

DOCS = Path(__file__).parents[1] / "docs"


PAGES = ["add-a-method", "add-a-metric", "add-a-dataset", "add-a-modality", "add-a-study"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_nothing_private(page):
    assert not re.findall(r"\bfans(?:\.\w+)*\._\w+", (DOCS / f"{page}.md").read_text())


@pytest.mark.usefixtures("full_data")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_it_is_written(page, tmp_path):
    text = (DOCS / f"{page}.md").read_text()
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONWARNINGS": "default"}
    done = []

    def run(*command: str) -> None:
        found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
        assert found.returncode == 0, (command, found.stdout[-2000:], found.stderr[-2000:])
        done.append(found.stdout)

    before = 0
    for block in re.finditer(r"```(\w+)\n(.*?)```", text, re.DOTALL):
        kind, content = block.groups()
        named = re.findall(r"[Ii]n a file `([\w.]+)`", text[before : block.start()])
        before = block.end()
        if named:
            (tmp_path / named[-1]).write_text(content)
        elif kind == "python":
            run(sys.executable, "-c", content)
        else:
            assert kind == "sh"
            for line in content.strip().splitlines():
                command, *rest = shlex.split(line)
                assert command == "fans"
                run(sys.executable, "-m", "fans.cli", *rest)
    if "```sh" in text:
        assert any("evaluations" in printed for printed in done[-3:-1])  # the dry run
        assert "Written to runs/" in done[-1]
