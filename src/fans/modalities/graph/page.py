"""Explained graphs within an HTML page, as drawings in SVG."""

from html import escape

import numpy as np

from fans.explanation import Explanation
from fans.modalities.graph import drawing as graphs
from fans.report.colours import INK, OUTLINE
from fans.report.sentences import chosen_count


def drawn(e: Explanation, i: int) -> str:
    """Return a graph as a drawing within the page, and what its colours mean."""
    found = graphs.drawing(e, i)
    if not found.places:
        return ""
    keys = ["blue: in the subset", "wider: higher score"]
    if found.explained is not None:
        keys.append("orange: explained node")
    words = escape(chosen_count(e, i))
    return (
        f"<figure>{_svg(found, f'{escape(e.title(i))}: {words}')}"
        f"<figcaption>{words}{found.left_out} ({'; '.join(keys)})</figcaption></figure>"
    )


def _svg(found: graphs.Drawing, label: str, size: int = 560) -> str:
    """Return the drawing: the chosen edges in colour, the explained node marked."""
    across = np.array(list(found.places.values()))
    low, span = across.min(0), np.ptp(across, 0)
    step = (size - 44) / max(float(span.max()), 1e-9)
    wide, tall = (round(44 + float(part) * step) for part in span)

    def at(place: graphs.Place) -> tuple[float, float]:
        x, y = (np.array(place) - low) * step + 22
        return round(float(x), 1), round(tall - float(y), 1)

    parts = []
    for line in found.lines:
        (x, y), (x2, y2) = (at(end) for end in line.ends)
        width = f"stroke='{line.colour}' stroke-width='{1.4 * line.width:.1f}'"
        parts.append(f"<line x1='{x}' y1='{y}' x2='{x2}' y2='{y2}' {width}/>")
    beside = []
    for node, place in found.places.items():
        radius, letters = (12, 10) if node in found.named else (9, 7)
        (x, y), name = at(place), found.names.get(node, "")
        fill = OUTLINE if node == found.explained else "white"
        parts.append(f"<circle cx='{x}' cy='{y}' r='{radius}' fill='{fill}' stroke='{INK}'/>")
        below, halo = y + letters / 3, ""
        if not graphs.fits(name):  # beside the circle, over everything else
            letters, below, halo = 11, y - radius - 3, " stroke='white' stroke-width='3' paint-order='stroke'"
        where = f"x='{x}' y='{below:.1f}' font-size='{letters}' text-anchor='middle'"
        beside.append(f"<text {where}{halo}>{escape(name)}</text>")
    parts += beside
    box = f"viewBox='0 0 {wide} {tall}' width='{wide}' overflow='visible'"
    return f"<svg role='img' aria-label='{label}' {box}>{''.join(parts)}</svg>"
