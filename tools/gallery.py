"""Make the gallery's pages out of the examples: `python -m tools.gallery` keeps the picture and the print of each.

`python -m tools.gallery digit node` makes only these. What is kept lies in docs/gallery.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "gallery"

GROUPS = {
    "Tables": ("loans", "regression", "boosted_trees", "missing_values", "global_view"),
    "Images": ("digit", "garments", "photo"),
    "Graphs, texts, series": ("node", "text", "series"),
    "Your own hypothesis, your own model": ("own_hypothesis", "black_box"),
    "Looking closer": ("size_curve", "trials", "comparing_methods"),
}
"""The examples in the order in which they are shown."""

WIDTH = 110
"""Columns of the terminal on which examples print."""


@dataclass(frozen=True)
class Example:
    """One example: what it says of itself, and its code."""

    name: str
    title: str
    text: str
    code: str

    @classmethod
    def read(cls, name: str) -> "Example":
        """Read an example of the folder."""
        source = (EXAMPLES / f"{name}.py").read_text()
        said = ast.get_docstring(ast.parse(source)) or ""
        title, _, text = said.partition("\n\n")
        code = source[source.index('"""', 3) + 3 :].strip()
        return cls(name, title.removesuffix("."), text, code)

    def page(self, printed: str) -> str:
        """Return its page."""
        return "\n".join(
            (
                f"# {self.title}\n\n{self.text}\n",
                f"![{self.title}]({self.name}.png)\n",
                f'```python title="examples/{self.name}.py"\n{self.code}\n```\n',
                f"It prints:\n\n```text\n{printed.strip()}\n```\n",
                "[All examples](index.md)\n",
            )
        )


def run(name: str, folder: Path) -> str:
    """Run an example in a folder, where it leaves its picture, and return what it printed.

    It sees no data but what comes with the package.
    """
    own = {"COLUMNS": str(WIDTH), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {key: value for key, value in os.environ.items() if key != "FANS_DATA"} | own
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"examples/{name}.py failed:\n{done.stderr[-3000:]}")
    return done.stdout


def printed(page: str) -> str:
    """Return what a page says that its example prints."""
    found = re.search(r"It prints:\n\n```text\n(.*?)```", page, re.DOTALL)
    assert found
    return found[1]


def index() -> str:
    """Return the page of all examples."""
    lines = [
        "# Gallery",
        "",
        f"{sum(map(len, GROUPS.values()))} examples which run offline, in seconds each, on data that come along or are "
        "made on the spot. Each page has the code, its picture and what it prints; the files are in `examples/`.",
        "",
    ]
    for group, names in GROUPS.items():
        lines += [f"## {group}", "", '<div class="grid cards gallery" markdown>', ""]
        for name in names:
            title = Example.read(name).title
            lines += [f"-   [![]({name}.png)]({name}.md){{ tabindex=-1 }}", "", f"    [{title}]({name}.md)", ""]
        lines += ["</div>", ""]
    lines += ["## Notebooks", "", "With words between the code, to run and change:", ""]
    lines += [f"- [{title}](../../notebooks/{name}.ipynb)" for name, title in notebooks().items()] + [""]
    return "\n".join(lines)


def notebooks() -> dict[str, str]:
    """Return the titles of the notebooks by their names."""
    read = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    return {name: "".join(book["cells"][0]["source"]).splitlines()[0].lstrip("# ") for name, book in read.items()}


def make(name: str) -> None:
    """Run one example and write its page and picture."""
    with tempfile.TemporaryDirectory() as folder:
        said = run(name, Path(folder))
        shutil.copy(Path(folder) / f"{name}.png", PAGES / f"{name}.png")
    (PAGES / f"{name}.md").write_text(Example.read(name).page(said))


def main(names: list[str]) -> None:
    """Make some pages, by default all, and the page that leads to them."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in names or [name for group in GROUPS.values() for name in group]:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        make(name)
    (PAGES / "index.md").write_text(index())


if __name__ == "__main__":
    main(sys.argv[1:])
