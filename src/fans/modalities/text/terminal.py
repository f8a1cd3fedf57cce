"""Explained texts where there are only letters: chosen words in brackets, on a terminal bold as well."""

import os
import sys
import textwrap

from fans.explanation import Explanation
from fans.modalities.text.highlights import Run, excerpt
from fans.modalities.text.pieces import readable

MOST_LINES = 5
"""Of a text; of a longer one what is around its chosen words."""

INDENT = "    "

_OPEN, _CLOSE = "\x01", "\x02"
"""Stand for brackets until lines are cut; texts have no such letters by then."""


def lines(e: Explanation, i: int, width: int) -> list[str]:
    """Return a text in lines of so many letters at most."""
    shown = excerpt(e, i, MOST_LINES * (width - len(INDENT)))
    text = "".join(map(_marked, shown)).strip()
    cut = textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False)
    opened, closed = ("\x1b[1;4m[", "]\x1b[0m") if _is_styled() else ("[", "]")
    return [line.replace(_OPEN, opened).replace(_CLOSE, closed) for line in cut]


def _marked(run: Run) -> str:
    text = readable(f"x{run.text}x")[1:-1]  # with the spaces at its ends
    return f"{_OPEN}{text}{_CLOSE}" if run.chosen else text


def _is_styled() -> bool:
    """Tell whether letters can be bold: on a terminal whose user did not ask for plain text."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
