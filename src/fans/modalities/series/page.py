"""Explained series within an HTML page, as line charts in SVG."""

from collections.abc import Callable
from html import escape

import numpy as np

from fans.explanation import Explanation
from fans.modalities.series.charts import SHADE, Chart, Panel, chart
from fans.report.colours import CHOSEN, FAINT, INK, coloured
from fans.report.sentences import chosen_count, shortened
from fans.types import Array
from fans.wording import plain_number

Across = Callable[[Array | float], Array]
"""From times to places."""

WIDE, LEFT, RIGHT = 840, 64, 8
"""Of a chart, and of its margins."""

STRIP, NAME, GAP, FOOT = 8, 15, 7, 20
"""Heights: of a strip of scores, of a channel's name, of what is between two channels, of the axis of time."""


def drawn(e: Explanation, i: int, largest: float) -> str:
    """Return a series as a chart within the page, and what its colours mean."""
    found = chart(e, i)
    words = f"{e.title(i)}: {chosen_count(e, i)} chosen"
    keys = "blue: in the subset; strip below each line: scores"
    caption = "; ".join(filter(None, [chosen_count(e, i), keys, found.left_out]))
    label = f"{words}: {', '.join(e.chosen_names(i)[:8])}" if e.subset[i].any() else words
    return f"<figure class='series'>{_svg(found, largest, label)}<figcaption>{escape(caption)}</figcaption></figure>"


def _svg(found: Chart, largest: float, label: str) -> str:
    """Return the panels below each other, and the axis of time."""
    tall = 110 if len(found.panels) == 1 else 74 if len(found.panels) <= 3 else 52
    edges = found.times.edges
    scale = (WIDE - LEFT - RIGHT) / (edges[-1] - edges[0])

    def across(times: Array | float) -> Array:
        return np.asarray(LEFT + (np.asarray(times) - edges[0]) * scale)

    parts, top = [], 0
    for panel in found.panels:
        name = NAME if panel.name else 4
        parts.append(_name(panel, top))
        parts.append(_panel(panel, top + name, tall, across, largest))
        top += name + tall + STRIP + GAP
    parts.append(_axis(found, top - GAP + 1, across))
    height = top - GAP + FOOT
    return (
        f"<svg role='img' aria-label='{escape(label, quote=True)}' viewBox='0 0 {WIDE} {height}' "
        f"font-family='system-ui, sans-serif' font-size='11'>{''.join(parts)}</svg>"
    )


def _name(panel: Panel, top: float) -> str:
    if not panel.name:
        return ""
    return f"<text x='{LEFT}' y='{top + 11}' fill='{INK}' font-weight='600'>{escape(shortened(panel.name, 90))}</text>"


def _panel(panel: Panel, top: float, tall: int, across: Across, largest: float) -> str:
    """Return a channel: chosen windows shaded, the line, and the strip of scores below it."""

    def down(values: Array) -> Array:
        return np.asarray(top + (panel.high - values) / (panel.high - panel.low) * tall)

    def line(times: Array, values: Array, colour: str, width: float) -> str:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across(times), down(values), strict=True))
        return f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='{width}'/>"

    parts = []
    for start, end in panel.chosen:
        parts.append(_box(across(start), across(end), top, tall, SHADE))
    parts.append(f"<path d='M{LEFT},{top}V{top + tall}H{WIDE - RIGHT}' fill='none' stroke='#c6cfd8'/>")
    parts.append(line(panel.times, panel.values, INK, 1))
    parts += [line(*panel.line_within(*span), CHOSEN, 2) for span in panel.chosen]
    for window in panel.windows:
        colour = "#" + "".join(f"{round(255 * part):02x}" for part in coloured(np.array(window.score / largest)))
        parts.append(_box(across(window.start), across(window.end), top + tall + 1, STRIP - 1, colour))
    low, high = float(panel.values.min()), float(panel.values.max())
    parts.append(
        f"<rect x='{LEFT}' y='{top + tall + 1}' width='{WIDE - LEFT - RIGHT}' height='{STRIP - 1}' "
        "fill='none' stroke='#c6cfd8' stroke-width='.6'/>"
    )
    for value in dict.fromkeys((high, low)):
        y = float(down(np.array(value))) + 4
        parts.append(
            f"<text x='{LEFT - 5}' y='{y:.0f}' text-anchor='end' fill='{FAINT}'>{plain_number(value, 3)}</text>"
        )
    return "".join(parts)


def _box(start: Array, end: Array, top: float, tall: float, colour: str) -> str:
    width = max(float(end - start), 1.5)
    return f"<rect x='{float(start):.1f}' y='{top}' width='{width:.1f}' height='{tall}' fill='{colour}'/>"


def _axis(found: Chart, top: float, across: Across) -> str:
    """Return round times below the lowest channel."""
    places, texts = found.times.ticks(7)
    return "".join(
        f"<path d='M{x:.1f},{top}v3' stroke='{FAINT}'/><text x='{min(max(x, LEFT + 2), WIDE - 24):.1f}' y='{top + 15}' "
        f"text-anchor='middle' fill='{FAINT}'>{escape(text)}</text>"
        for x, text in zip(across(places), texts, strict=True)
    )
