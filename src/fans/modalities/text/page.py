"""Explained texts within an HTML page, their words highlighted."""

from html import escape

import numpy as np

from fans.explanation import Explanation
from fans.modalities.text.highlights import Run, runs
from fans.report.colours import CHOSEN, INK, coloured, rgb
from fans.report.sentences import chosen_count, number
from fans.types import Array

STYLE = (
    "<style>.fans .text { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 16px; line-height: 2 } "
    ".fans .text span { border-radius: 2px; padding: .12em 0 } "
    f".fans .text .in {{ font-weight: 700; border-bottom: 3px solid {CHOSEN} }} "
    ".fans .words figcaption { text-align: left }</style>"
)

READABLE = 4.5
"""Contrast of letters with what is behind them that the W3C's guidelines ask for."""


def drawn(e: Explanation, i: int, largest: float) -> str:
    """Return a text with its words in the colours of their scores, the chosen ones underlined and bold."""
    body = "".join(_run(run, largest) for run in runs(e, i))
    marked = ": bold and underlined" if e.subset[i].any() else ""
    caption = f"{chosen_count(e, i)} chosen{marked}. Colour: score."
    below = f"<figcaption>{escape(caption)}</figcaption>"
    return f"<figure class='words'><p class='text' dir='auto'>{body}</p>{below}</figure>"


def _run(run: Run, largest: float) -> str:
    if run.feature < 0:
        return escape(run.text)
    colour, ink = colours(run.score / largest)
    chosen = " class='in'" if run.chosen else ""
    style = f"background:{colour};color:{ink}"
    return f"<span{chosen} style='{style}' title='score {escape(number(run.score))}'>{escape(run.text)}</span>"


def colours(share: float) -> tuple[str, str]:
    """Return the colour behind a word whose score is such a share of the largest, and that of its letters."""
    behind = coloured(np.array(share))
    inks = {ink: _contrast(behind, rgb(ink)) for ink in (INK, "#ffffff", "#000000")}
    readable = (ink for ink, contrast in inks.items() if contrast >= READABLE)
    return _hex(behind), next(readable, max(inks, key=lambda ink: inks[ink]))


def _contrast(one: Array, other: Array) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Array) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _hex(colour: Array) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
