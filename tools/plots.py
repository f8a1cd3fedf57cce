"""Make the pictures of docs/plots.md by running what is printed there: `python -m tools.plots`."""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "plots.md", ROOT / "docs" / "images" / "plots"
COLOURS = 128
"""Of a picture as it is kept."""


def run(page: str) -> dict[str, Any]:
    """Run the code of a page in the folder one is in; return the names that it defines."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)  # noqa: S102
    return names


def pictures(page: str) -> list[str]:
    """Return the names of the pictures on a page."""
    return re.findall(r"\(images/plots/([\w.]+)\)", page)


def notebook(names: dict[str, Any]) -> str:
    """Return what a notebook shows of the page's explainer, an own subset and some trials, as HTML."""
    explainer, test, own = names["explainer"], names["test"], ["worst area", "worst perimeter"]
    views = (explainer, explainer.score(test.iloc[:2], own), explainer.trials(test.iloc[:1], own, n=4))
    shown = "".join(view._repr_html_() for view in views)
    return f"<!doctype html><meta charset='utf-8'>{shown.replace('<details', '<details open', 1)}"


def photographed(html: str) -> bytes:
    """Return a page as a picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1120, "height": 600})
        tab.set_content(html)
        picture = tab.screenshot(full_page=True)
        browser.close()
    return picture


def small(picture: bytes) -> bytes:
    """Return a picture of few colours, which is a third as large."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    """Make all pictures."""
    page = PAGE.read_text()
    PICTURES.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as back:
        back.callback(os.chdir, before)
        os.chdir(folder)
        Path("notebook.png").write_bytes(photographed(notebook(run(page))))
        made = {name: Path(name).read_bytes() for name in pictures(page)}
    for name, picture in made.items():
        (PICTURES / name).write_bytes(small(picture))


if __name__ == "__main__":
    main()
