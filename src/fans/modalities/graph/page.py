"""Explained graphs within an HTML page, as drawings in SVG whose nodes can be moved."""

from collections.abc import Mapping
from html import escape
from importlib.resources import files

import numpy as np

from fans.explanation import Explanation
from fans.modalities.graph import drawing as graphs
from fans.report.colours import INK, OUTLINE
from fans.report.sentences import chosen_count

STYLE = (
    "<style>.fans .graph svg.movable circle { cursor: grab; touch-action: none } "
    ".fans .graph svg.movable circle:active { cursor: grabbing } .fans .graph svg text { pointer-events: none } "
    f".fans .graph svg circle:focus {{ outline: none; stroke: {OUTLINE}; stroke-width: 4 }} "
    ".fans figure.graph { padding-top: .8rem } .fans .graph svg { max-width: 100% } "
    ".fans .graph button { font: inherit; font-size: 12px }</style>"
)


def script() -> str:
    """Return what lets nodes be moved on a page."""
    return files("fans.modalities.graph").joinpath("page.js").read_text(encoding="utf-8")


def drawn(e: Explanation, i: int) -> str:
    """Return a graph as a drawing within the page, and what its colours mean."""
    found = graphs.drawing(e, i)
    if not found.places:
        return ""
    label = f"{e.title(i)}: {chosen_count(e, i)}"
    keys = ["blue: in the subset", "wider: higher score"]
    if found.explained is not None:
        keys.append("orange: explained node")
    words = escape(chosen_count(e, i))
    return (
        f"<figure class='graph'>{_svg(found, names_of(e, found), escape(label))}"
        f"<figcaption>{words}{found.left_out} ({'; '.join(keys)})<span class='how' hidden>; drag nodes, or move them "
        "with Shift and the arrow keys</span> <button type='button' hidden>Put all back</button></figcaption></figure>"
    )


def names_of(e: Explanation, found: graphs.Drawing) -> dict[int, str]:
    """Return what each node is to whoever cannot see it: its name, and how many of its edges are shown and chosen."""
    said = {}
    for node in found.places:
        own = [line for line in found.lines if node in line.nodes]
        chosen = sum(line.chosen for line in own)
        marked = ", explained" if node == found.explained else ""
        edges = f"{len(own)} edge{'' if len(own) == 1 else 's'}"
        said[node] = f"node {e.node_name(node)}{marked}: {edges}, {chosen} in the subset"
    return said


def _svg(found: graphs.Drawing, said: Mapping[int, str], label: str, size: int = 560) -> str:
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
        ends = f"data-ends='{line.nodes[0]} {line.nodes[1]}'"
        parts.append(f"<line x1='{x}' y1='{y}' x2='{x2}' y2='{y2}' {width} {ends}/>")
    beside = []
    for node, place in found.places.items():
        radius, letters = (12, 10) if node in found.named else (9, 7)
        (x, y), name = at(place), found.names.get(node, "")
        fill = OUTLINE if node == found.explained else "white"
        about = f"data-node='{node}' aria-label='{escape(said[node])}'"
        kind = " class='explained'" if node == found.explained else ""
        parts.append(f"<circle{kind} cx='{x}' cy='{y}' r='{radius}' fill='{fill}' stroke='{INK}' {about}/>")
        below, halo = y + letters / 3, ""
        if not graphs.fits(name):  # beside the circle, over everything else
            letters, below, halo = 11, y - radius - 3, " stroke='white' stroke-width='3' paint-order='stroke'"
        where = f"x='{x}' y='{below:.1f}' font-size='{letters}' text-anchor='middle' data-node='{node}'"
        beside.append(f"<text {where}{halo}>{escape(name)}</text>")
    parts += beside
    box = f"viewBox='0 0 {wide} {tall}' width='{wide}' overflow='visible'"
    return f"<svg role='img' aria-label='{label}' {box}>{''.join(parts)}</svg>"
