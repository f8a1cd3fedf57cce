"""What the documentation's site is made of besides docs/: `mkdocs.yml` names this file as its hooks.

- The results and files of the root that pages link to are put beside them, and the links follow.
- `commands.md` gets the help of every command, as the command line prints it, `methods.md` its lists.
- Notebooks become pages, and links to them follow.
"""

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

MOVED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the root, and where they are on the site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/."""
    for name, place in MOVED.items():
        files.append(File.generated(config, place, content=moved((ROOT / name).read_text())))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook(path)))
    for path in linked():
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Have links into results/ stay on the site, and write the commands' help."""
    if page.file.src_uri == "commands.md":
        markdown = markdown.replace("<!-- commands -->", commands())
    if page.file.src_uri == "methods.md":
        for what in ("methods", "metrics"):
            markdown = markdown.replace(f"<!-- {what} -->", f"```text\n{printed('list', what)}```")
    markdown = re.sub(r"\]\(\.\./\.\./notebooks/(\w+)\.ipynb\)", r"](../notebooks/\1.md)", markdown)
    return re.sub(r"\]\(\.\./results/", "](results/", markdown)


def linked() -> list[Path]:
    """Return the files of results/ that pages of docs/ link to."""
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    return sorted({ROOT / "results" / name for name in re.findall(r"\]\(\.\./results/([^)#]+)", text)})


def moved(markdown: str) -> str:
    """Return a page of the root with its links as they are on the site."""
    for name, place in MOVED.items():
        markdown = markdown.replace(f"]({name})", f"]({place})")
    return markdown.replace("](docs/", "](").replace("](results/", "](../results/")


def commands() -> str:
    """Return the help of every command, as the command line prints it."""
    first = printed("--help")
    names = re.findall(r"^    (\w[\w-]*)(?: |$)", first, re.MULTILINE)
    parts = [f"```text\n{first}```\n"]
    parts += [f"## fans {name}\n\n```text\n{printed(name, '--help')}```\n" for name in names]
    return "\n".join(parts)


def printed(*arguments: str) -> str:
    """Return what the command line prints."""
    from fans.cli import main

    out, before = io.StringIO(), {key: os.environ.get(key) for key in ("COLUMNS", "NO_COLOR")}
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1"}
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main(arguments)
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
    return out.getvalue()


def notebook(path: Path) -> str:
    """Return a notebook as a page: its words and its code."""
    cells = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
    parts = [c.source if c.cell_type == "markdown" else f"```python\n{c.source}\n```" for c in cells]
    parts.insert(1, f"*This is `notebooks/{path.name}`; run it to see its output.*")
    return "\n\n".join(parts) + "\n"
