"""Every snippet of the README and the documentation runs as printed, and prints what stands below it.

The blocks of a page run in order in one namespace. The comment after a statement that prints is its print, `...` in it
for what is left out. A block whose title says "Not run here: ..." is not run, for the reason that readers see. Lines of
`fans` in shell blocks are read by the parser of the command line.
"""

import ast
import contextlib
import io
import re
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fans
from fans import cli
from tests.printing import same

ROOT = Path(__file__).parents[1]

ELSEWHERE = {
    **{f"docs/{name}.md": "tests/test_adding.py follows it" for name in (
        *("add-a-dataset", "add-a-method", "add-a-metric", "add-a-modality", "add-a-study"),
    )},
    "docs/plots.md": "tests/test_plots_page.py runs it, and draws its pictures",
    **{f"docs/gallery/{path.name}": "tests/test_gallery.py runs it" for path in ROOT.glob("docs/gallery/*.md")},
}  # fmt: skip
"""Pages whose python other tests run."""

OF_FULL_DATA = {"docs/data.md"}
"""Pages whose python needs the datasets whole; all others run offline with what comes along."""

OF_WARNINGS = {"docs/ecosystem.md"}
"""Pages that speak of what is warned of where their code runs."""

PAGES = {str(page.relative_to(ROOT)): page for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])}


@dataclass(frozen=True)
class Block:
    """A block of code on a page: its language, what follows that on its first line, its code, and its first line."""

    kind: str
    info: str
    code: str
    line: int

    @property
    def reason(self) -> str:
        """Why it is not run, if it is not."""
        found = re.search(r'title="Not run here: (.+?)"', self.info)
        return found[1] if found else ""


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page in order."""
    found = re.finditer(r"^( *)```(\w+)(.*)\n((?:.*\n)*?)\1```$", text, re.MULTILINE)
    return [
        Block(m[2], m[3], re.sub(rf"^{m[1]}", "", m[4], flags=re.M), text[: m.start()].count("\n") + 2) for m in found
    ]


def runs(page: str) -> list[Block]:
    """Return the blocks of a page that this file runs."""
    return [] if page in ELSEWHERE else [b for b in blocks(PAGES[page].read_text()) if b.kind == "python"]


@pytest.mark.slow("runs the code of a page")
@pytest.mark.parametrize("page", [page for page in PAGES if any(not b.reason for b in runs(page))])
def test_the_code_of_a_page_runs_as_printed(page, tmp_path, monkeypatch, request):
    request.getfixturevalue("full_data" if page in OF_FULL_DATA else "no_data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    names: dict[str, Any] = {"__name__": "page"}
    with warnings.catch_warnings():
        if page in OF_WARNINGS:
            warnings.simplefilter("ignore", fans.FansWarning)
        for block in runs(page):
            if not block.reason:
                run(block, page, names)
    close_figures()


@pytest.mark.parametrize(
    ("page", "line", "reason"), [(page, b.line, b.reason) for page in PAGES for b in runs(page) if b.reason]
)
def test_what_is_not_run_says_why_and_is_python(page, line, reason):
    ast.parse(next(b.code for b in runs(page) if b.line == line))
    assert len(reason.split()) > 3


def run(block: Block, page: str, names: dict[str, Any]) -> None:
    """Run a block's statements one by one and compare what each prints with the comment below it."""
    for statement, claimed in statements(block.code):
        out, at = io.StringIO(), f"{page}:{block.line + statement.lineno - 1}"
        tree = ast.Module([statement], [])
        ast.increment_lineno(tree, block.line - 1)
        with contextlib.redirect_stdout(out):
            exec(compile(tree, page, "exec"), names)  # noqa: S102
        printed = out.getvalue()
        assert same(printed, claimed) or not printed, f"{at} prints\n{printed}\nbut the page says\n{claimed}"


def statements(code: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with the lines of comment right below it."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        assert statement.end_lineno
        below = []
        for line in lines[statement.end_lineno :]:
            if not line.startswith("#"):
                break
            below.append(line.removeprefix("#").removeprefix(" "))
        yield statement, "\n".join(below)


def close_figures() -> None:
    """Close what pages drew."""
    import matplotlib.pyplot as plt

    plt.close("all")


def commands() -> Iterator[tuple[str, int, str]]:
    """Yield the lines of `fans` in shell blocks: page, line, command."""
    for page, path in PAGES.items():
        for block in blocks(path.read_text()):
            if block.kind in {"sh", "console", "shell", "bash"}:
                joined = block.code.replace("\\\n", "  ")
                for n, line in enumerate(joined.splitlines()):
                    bare = line.removeprefix("$ ").strip()
                    if bare.startswith("fans ") or " fans " in bare.partition("#")[0]:
                        yield page, block.line + n, "fans " + bare.partition("fans ")[2]


@pytest.mark.parametrize(("page", "line", "command"), list(commands()))
def test_commands_are_what_the_parser_takes(page, line, command):
    _, *words = shlex.split(command, comments=True)
    for given in (words[: words.index(end)] if end in words else words for end in ("&&", "|", ">")):
        words = given
    if words == ["--version"]:
        return
    try:
        cli._parser().parse_args(words)
    except SystemExit:
        pytest.fail(f"{page}:{line}: {command}")


def test_a_page_that_lies_is_found():
    good = Block("python", "", "print(1 + 1)\n# 2\nprint('a long\\nline')\n# a ... line\nx = 1\n# a comment\n", 1)
    run(good, "page", {})
    with pytest.raises(AssertionError, match="page:1 prints"):
        run(Block("python", "", "print(1 + 1)\n# 3\n", 1), "page", {})
    with pytest.raises(AssertionError, match="page:2 prints"):
        run(Block("python", "", "\nprint(1 + 1)\n", 1), "page", {})
