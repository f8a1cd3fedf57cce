"""Explained texts as pictures: words in the colours of their scores, the chosen ones bold and underlined."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fans.errors import extra
from fans.explanation import Explanation
from fans.modalities.text.highlights import excerpt, largest_score, lowest_score
from fans.modalities.text.page import colours
from fans.modalities.text.splitting import begins_at_the_right
from fans.report.colours import CHOSEN, FAINT, INK
from fans.report.figures import grid, not_drawn, plot_scene
from fans.report.scenes import Box, Line, Part, Scene, Text
from fans.report.sentences import chosen_count, headline, legend, outcome

MOST_LETTERS = 900
"""Of a text that is drawn; of a longer one what is around its chosen words."""

SIZE, LINE = 15.0, 30.0
"""Of letters, and from one line to the next, in hundredths of an inch."""

GAP, HEAD, MARGIN = 34.0, 44.0, 14.0
"""Below a text, from its title to its first line, and around everything."""

SNUG = 1.035
"""Letters on a screen's grid are wider by so much at most."""

MISSING = "\u25a1"
"""Drawn for a letter that the font does not have."""


@dataclass(frozen=True)
class Atom:
    """Letters that are drawn together: a word, spaces, or punctuation.

    Attributes:
        text: as it is drawn.
        width: of it.
        behind, ink: colours; nothing is drawn behind what belongs to no feature.
        chosen: whether it is in the subset.
    """

    text: str
    width: float
    behind: str
    ink: str
    chosen: bool


def plot(e: Explanation, columns: int | None) -> Any:
    """Draw every text (at most twelve) on one scale of colours."""
    return plot_scene(picture(e, columns))


def picture(e: Explanation, columns: int | None) -> Scene:
    """Return the first texts as a scene, by default below each other."""
    shown, _, columns = grid(e, columns or 1)
    wide = 800.0 if columns == 1 else 480.0
    largest = largest_score(e, shown)
    parts = list(_scale(lowest_score(e, shown), largest))
    top = MARGIN + 30
    for first in range(0, shown, columns):
        below = top
        for column, i in enumerate(range(first, min(first + columns, shown))):
            found, end = _drawn(e, i, largest, MARGIN + column * (wide + 2 * MARGIN), top, wide)
            parts += found
            below = max(below, end)
        top = below + GAP
    width = columns * (wide + 2 * MARGIN)
    small = textwrap.wrap(f"{legend(e)}{not_drawn(e)}", int((width - 2 * MARGIN) / 5.4))
    parts += [Text(MARGIN, top + 13 * k, line, 9.5, FAINT) for k, line in enumerate(small)]
    return Scene(width, top + 13 * len(small) + 2, tuple(parts))


def _scale(low: float, largest: float) -> Iterator[Part]:
    """Yield what colours and lines mean."""
    y, x = MARGIN, MARGIN
    yield Text(x, y + 11, f"score: {low:.2g}", 11, FAINT)
    start = x + 76
    for k in range(60):
        yield Box(start + 2.2 * k, y + 2, 2.3, 11, colours((low + (largest - low) * k / 59) / largest)[0])
    yield Text(start + 138, y + 11, f"{largest:.2g}", 11, FAINT)
    yield Text(start + 200, y + 11, "chosen", 11, INK, bold=True)
    yield Line(start + 200, y + 16, start + 243, y + 16, CHOSEN, 3)


def _drawn(e: Explanation, i: int, largest: float, left: float, top: float, wide: float) -> tuple[list[Part], float]:
    """Return a text below what was found of it, and where it ends."""
    by = f" by {chosen_count(e, i)}" if e.subset[i].any() else ""
    words: list[Part] = [
        Text(left, top + 10, f"{e.title(i)}: {outcome(e, i)}{by}", 11.5, INK),
        Text(left, top + 25, headline(e, i), 11, FAINT),
    ]
    y, behind = top + HEAD, list[Part]()
    mirrored = begins_at_the_right(str(e.details["text"][i]))
    for line in _lines(_atoms(e, i, largest), wide):
        x = 0.0
        for atom in line:
            at = left + (wide - x - atom.width if mirrored else x)
            behind += _behind(atom, at, y)
            words.append(Text(at, y + 0.8 * SIZE, atom.text, SIZE, atom.ink, bold=atom.chosen))
            x += atom.width
        y += LINE
    return [*behind, *words], y - LINE + SIZE


def _behind(atom: Atom, x: float, y: float) -> Iterator[Part]:
    """Yield what is behind letters and below them."""
    if atom.behind:
        yield Box(x, y - 4, atom.width, SIZE + 8, atom.behind)
    if atom.chosen:
        yield Line(x, y + SIZE + 5, x + atom.width, y + SIZE + 5, CHOSEN, 3)


def _atoms(e: Explanation, i: int, largest: float) -> Iterator[Atom]:
    for run in excerpt(e, i, MOST_LETTERS):
        behind, ink = colours(run.score / largest) if run.feature >= 0 else ("", INK)
        for text in re.findall(r"\s+|\S+", run.text):
            shown = " " if text.isspace() else "".join(c if _has(ord(c)) else MISSING for c in text)
            yield Atom(shown, _width(shown, run.chosen), behind, ink, run.chosen)


def _lines(atoms: Iterator[Atom], wide: float) -> list[list[Atom]]:
    """Return atoms in lines that fit, broken at spaces, and within what is wider than a line."""
    lines: list[list[Atom]] = [[]]
    clump: list[Atom] = []
    for atom in [*atoms, None]:
        if atom is not None and not atom.text.isspace():
            clump.append(atom)
            continue
        for part in _fitting(clump, wide):
            if lines[-1] and _total(lines[-1]) + _total(part) > wide:
                lines.append([])
            lines[-1] += part
        clump = []
        if atom is not None and lines[-1]:
            lines[-1].append(atom)
    return lines


def _fitting(clump: list[Atom], wide: float) -> list[list[Atom]]:
    """Return what has no spaces as it is, if it fits on a line, else atom by atom, none wider than a line."""
    if _total(clump) <= wide:
        return [clump] if clump else []
    out = []
    for atom in clump:
        n = max(1, int(len(atom.text) * min(1.0, wide / atom.width)))
        some = [atom.text[k : k + n] for k in range(0, len(atom.text), n)]
        out += [[Atom(text, _width(text, atom.chosen), atom.behind, atom.ink, atom.chosen)] for text in some]
    return out


def _total(atoms: Sequence[Atom]) -> float:
    return float(np.sum([atom.width for atom in atoms]))


def _width(text: str, bold: bool) -> float:
    """Return how wide letters are drawn."""
    try:
        from matplotlib.textpath import text_to_path
    except ImportError:
        raise extra("matplotlib", "plot", "`plot`") from None
    width = text_to_path.get_text_width_height_descent(text, _font(bold), ismath=False)[0]
    return SNUG * float(width) * 100 / 72


@cache
def _font(bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=0.72 * SIZE, weight="bold" if bold else "normal")


@cache
def _has(code: int) -> bool:
    """Tell whether the font has a letter."""
    from matplotlib.font_manager import findfont, get_font

    return bool(get_font(findfont(_font(bold=False))).get_char_index(code))
