"""The picture of an overview: how often each column is in the subset, and a dot for each row and column."""

import math
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from fans.errors import check_whole
from fans.explanation import Explanation
from fans.report.colours import CHOSEN, INK, rgb
from fans.report.overview import Column, Overview, Section, hundredths, units
from fans.report.scenes import LETTER, Box, Dots, Line, Part, Scene, Text, fitted, text_width
from fans.report.sentences import number, percent
from fans.types import Array

FAINT, GRID, MISSING = "#51606e", "#e3e8ed", "#9aa5b1"
LOW_TO_HIGH = ("#2a1a8a", "#7a1fa2", "#b5367a", "#e0604c", "#f59b2e")
"""The colours of values: ever lighter, so that colour-blind readers tell them apart, and none as pale as paper."""
SHADES = 16
CATEGORIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Of the most frequent categories (Paul Tol's); where there are more, the others share `FAINT`."""
MOST_DOTS = 2000
"""Rows drawn of a section: of more, every second (third, ...) one."""
SMALL, PALE = 0.75, 0.45
"""The size and the strength of a dot whose column is not in that row's subset, as shares of those of one that is."""

WIDTH, EDGE, KEY, HEAD, LANE, FOOT = 1040.0, 12.0, 40.0, 60.0, 44.0, 52.0
MOST_NAME, BAR, SHARE, WORDS = 220.0, 100.0, 46.0, 215.0
"""Pixels: of the longest name, a full bar, the share beside it, and the words at the right."""


def _between(stops: Sequence[str], n: int) -> tuple[str, ...]:
    """Return `n` colours from the first stop to the last."""
    colours = np.stack([rgb(stop) for stop in stops])
    places = np.linspace(0, len(stops) - 1, n)
    mixed = np.stack([np.interp(places, np.arange(len(stops)), channel) for channel in colours.T], -1)
    return tuple(_hex(colour) for colour in mixed)


def _hex(colour: Array) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour.tolist())


RAMP = _between(LOW_TO_HIGH, SHADES)


def picture(found: Overview, top: int, only: Section | None = None) -> Scene:
    """Return the leading columns of each section (or of one) below each other, and what the colours mean above."""
    check_whole("top", top, 1)
    e, sections = found.explanation, (only,) if only else found.sections
    columns = [column for section in found.sections for column in section.columns[:top]]
    bars = EDGE + min(max(60.0, *(text_width(column.name) for column in columns)), MOST_NAME) + 10
    limits = _limits([section.raised[:, [c.feature for c in section.columns[:top]]] for section in found.sections])
    parts, y = _key(e, columns), KEY
    for section in sections:
        panel = _Panel(e, section, section.columns[:top], y, bars, limits)
        parts += panel.parts()
        y = panel.end
    return Scene(WIDTH, y, tuple(parts))


def _key(e: Explanation, columns: Sequence[Column]) -> list[Part]:
    """Return what the colours mean."""
    row, column = units(e, 1)
    x, y, parts = EDGE, 22.0, list[Part]()

    def add(words: str, gap: float = 26.0) -> None:
        nonlocal x
        parts.append(Text(x, y, words, colour=FAINT))
        x += text_width(words) + gap

    def dot(colour: str, radius: float = 4.0) -> None:
        nonlocal x
        parts.append(Dots(np.array([x + 4]), np.array([y - 4]), radius, colour))
        x += 14

    for chosen, words in ((True, f"{column} in that {row}'s subset"), (False, "not in it")):
        dot(_shaded(FAINT, chosen=chosen), 4.0 if chosen else 4.0 * SMALL)
        add(words)
    if any(found.ordered for found in columns):
        add("low value", 8)
        for k in range(SHADES):
            parts.append(Box(x + 6 * k, y - 9, 6.5, 10, RAMP[k]))
        x += 6 * SHADES + 10
        add("high value")
    if any(np.isnan(found.shade).any() for found in columns):
        dot(MISSING)
        add("missing")
    if not all(found.ordered for found in columns):
        add("categories: each its own colour, named at the right")
    return parts


class _Panel:
    """One section: a lane for each column, with its name, its share, its dots and its words."""

    def __init__(
        self,
        e: Explanation,
        section: Section,
        columns: Sequence[Column],
        y: float,
        bars: float,
        limits: tuple[float, float],
    ) -> None:
        self.e, self.section, self.columns, self.y, self.bars = e, section, columns, y, bars
        self.low, self.high = limits
        self.left, self.right = bars + BAR + SHARE + 20, WIDTH - EDGE - WORDS - 24
        self.words = WIDTH - EDGE - WORDS
        self.first, self.last = y + HEAD, y + HEAD + LANE * len(columns)
        self.end = self.last + FOOT
        self.rows = np.arange(0, len(section.rows), -(-len(section.rows) // MOST_DOTS))

    def across(self, raised: Array) -> Array:
        """Return where dots stand from left to right."""
        return self.left + (self.right - self.left) * (raised - self.low) / (self.high - self.low)

    def parts(self) -> list[Part]:
        """Return everything that is drawn of the section; no scale where the direction was not measured."""
        scale = self._scale() if any(column.measured for column in self.columns) else ()
        return [*self._heads(), *scale, *self._lanes(), *self._dots()]

    def _heads(self) -> Iterator[Part]:
        """Yield the title and the headings, and below how many columns and rows are not drawn."""
        n, n_left = len(self.section.rows), len(self.section.columns) - len(self.columns)
        title = f"{self.section.output}: {n:,} {units(self.e, n)[0]}"
        yield Text(EDGE, self.y + 18, fitted(title[0].upper() + title[1:], WIDTH - 2 * EDGE, 15), 15, bold=True)
        yield Text(self.bars, self.first - 24, f"{units(self.e, 2)[0]} with it in the subset,", 11, FAINT)
        yield Text(self.bars, self.first - 10, f"{percent(self.e.confidence)} interval", 11, FAINT)
        yield Text(self.words, self.first - 10, "what its values do", 11, FAINT)
        about = [f"{n_left} more {units(self.e, n_left)[1]} not shown"] if n_left else []
        if len(self.rows) < n:
            about.append(f"{len(self.rows):,} of {n:,} {units(self.e, n)[0]} drawn")
        yield Text(EDGE, self.last + 18, "; ".join(about), 11, FAINT)

    def _scale(self) -> Iterator[Part]:
        """Yield the scale of the dots and what it measures."""
        for tick in _ticks(self.low, self.high):
            x = float(self.across(np.array(tick)))
            yield Line(x, self.first, x, self.last, INK if tick == 0 else GRID)
            text = "0" if tick == 0 else f"{'+' if tick > 0 else '-'}{number(abs(tick))}"
            yield Text(x, self.last + 15, text, 11, FAINT, "middle")
        y, half = self.first - 10, (self.right - self.left) / 2 - 20
        yield Text(self.left, y, f"◀ {fitted(f'lowers {self.section.output}', half, 11)}", 11, FAINT)
        yield Text(self.right, y, f"{fitted(f'raises {self.section.output}', half, 11)} ▶", 11, FAINT, "end")
        row, column = units(self.e, 1)
        words = f"the output with the {row}'s own value, minus the output with that {column} changed"
        yield Text((self.left + self.right) / 2, self.last + 32, words, 11, FAINT, "middle")

    def _lanes(self) -> Iterator[Part]:
        """Yield of each column the name, the bar of its share with its interval, and what its values do."""
        for k, column in enumerate(self.columns):
            y = self.first + LANE * (k + 0.5)
            yield Line(EDGE, y - LANE / 2, WIDTH - EDGE, y - LANE / 2, GRID)
            name = fitted(column.name, MOST_NAME)
            yield Text(self.bars - 10, y + 4, name, anchor="end")
            share, low, high = (self.bars + BAR * part for part in column.chosen)
            yield Box(self.bars, y - 8, share - self.bars, 16, CHOSEN)
            yield Line(low, y, high, y, INK)
            yield Text(self.bars + BAR + 8, y + 4, f"{hundredths(column.chosen.value)} %")
            yield from self._verdict(column, y)

    def _verdict(self, column: Column, y: float) -> Iterator[Part]:
        """Yield what the values of a column do: in words; of each category by an arrow, beside its colour."""
        if column.ordered:
            lines = textwrap.wrap(column.words, int(WORDS / (11 * LETTER)))[:3]
            for k, line in enumerate(lines):
                yield Text(self.words, y + 4 + 13 * (k - (len(lines) - 1) / 2), line, 11)
            return
        named = _named(self.e, column)
        side = 2 if len(named) > 3 else 1
        down, width = -(-len(named) // side), WORDS / side
        for k, (colour, name, arrow) in enumerate(named):
            x, at = self.words + width * (k % side), y + 4 + 13 * (k // side - (down - 1) / 2)
            yield Dots(np.array([x + 4]), np.array([at - 4]), 3.5, colour)
            yield Text(x + 12, at, fitted(name, width - 26, 11) + arrow, 11)

    def _dots(self) -> list[Dots]:
        """Return the dots of all lanes by colour, those of chosen columns over the others."""
        found: dict[tuple[bool, str], list[Array]] = {}
        radius = min(max(60 / math.sqrt(len(self.rows)), 1.6), 4.0)
        for k, column in enumerate(self.columns):
            raised = self.section.raised[self.rows, column.feature]
            rows = self.rows[~np.isnan(raised)]
            x = self.across(raised[~np.isnan(raised)])
            shade, chosen = column.shade[rows], self.e.subset[self.section.rows[rows], column.feature]
            y = self.first + LANE * (k + 0.5) + _swarm(x, shade, 2 * radius)
            colours = _colours(self.e, column, shade)
            for key in sorted(set(zip(chosen.tolist(), colours.tolist(), strict=True))):
                of = (chosen == key[0]) & (colours == key[1])
                found.setdefault(key, []).append(np.stack([x[of], y[of]]))
        dots = []
        for (chosen, colour), places in sorted(found.items(), key=lambda item: item[0][0]):
            x, y = np.concatenate(places, 1)
            dots.append(Dots(x, y, radius if chosen else SMALL * radius, _shaded(colour, chosen=chosen)))
        return dots


def _swarm(x: Array, shade: Array, step: float) -> Array:
    """Return by how much dots stand above or below the middle of their lane: stacked by value where there are many."""
    column = np.floor(x / step)
    order = np.lexsort((shade, column))
    _, start, which, counts = np.unique(column[order], return_index=True, return_inverse=True, return_counts=True)
    room = (LANE - 8) * np.sqrt(counts / counts.max(initial=1))
    gap = np.minimum(step, room / counts)[which]
    offsets = np.empty(len(x))
    offsets[order] = ((counts[which] - 1) / 2 - (np.arange(len(x)) - start[which])) * gap
    return offsets


def _colours(e: Explanation, column: Column, shade: Array) -> Array:
    """Return the colour of each shade: of the ramp, or the category's own."""
    known = np.nan_to_num(shade)
    if column.ordered:
        colours = np.array(RAMP)[np.round(known * (SHADES - 1)).astype(int)]
    else:
        own = [colour for colour, *_ in _named(e, column) if colour != MISSING] or [MISSING]
        colours = np.array(own)[np.minimum(known, len(own) - 1).astype(int)]
    return np.where(np.isnan(shade), MISSING, colours)


def _named(e: Explanation, column: Column) -> list[tuple[str, str, str]]:
    """Return the categories that a lane names: colour, name, and whether it raises or lowers; rare ones as others."""
    arrows = {1: " ▲", 0: "", -1: " ▼"}
    gone = [(MISSING, level.name, arrows[level.sign(e)]) for level in column.levels if level.missing]
    known = [level for level in column.levels if not level.missing]
    most = len(CATEGORIES) - len(gone)
    named = [(colour, v.name, arrows[v.sign(e)]) for colour, v in zip(CATEGORIES, known, strict=False)]
    if len(known) > most:
        named = [*named[: most - 1], (FAINT, f"{len(known) - most + 1} others", "")]
    return named + gone


def _shaded(colour: str, *, chosen: bool) -> str:
    """Return a colour, paler unless chosen."""
    return colour if chosen else _hex(1 - PALE * (1 - rgb(colour)))


def _limits(raised: Sequence[Array]) -> tuple[float, float]:
    """Return where the scale begins and ends: a little beyond all dots, and 0 within."""
    low = min(float(np.nanmin(some, initial=0.0)) for some in raised)
    high = max(float(np.nanmax(some, initial=0.0)) for some in raised)
    if low == high:
        return -0.1, 0.1
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Return round numbers between two ends, 0 among them."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if (high - low) / (factor * step) <= most)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
