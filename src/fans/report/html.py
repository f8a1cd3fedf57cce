"""An explanation as HTML: the notebook view, and one self-contained page."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

import numpy as np

from fans.core import Explanation, estimate_texts
from fans.report import graphs, images
from fans.report.sentences import chosen_count, sentence

STYLE = """
<style>
.fans { font: 14px/1.45 system-ui, sans-serif; max-width: 52rem; padding: .2rem .6rem }
.fans { color: #1c2733; background: #fff }
.fans table { border-collapse: collapse; margin: .4rem 0 1.2rem }
.fans td, .fans th { padding: .15rem .7rem; text-align: left }
.fans th { font-weight: 600; border-bottom: 1px solid #c6cfd8 }
.fans td.n { text-align: right; font-variant-numeric: tabular-nums }
.fans tr.in td:first-child { font-weight: 600 } .fans .bar { height: .7rem; border-radius: 2px; background: #b9c4cf }
.fans h2 { font-size: 1.15rem; margin: 1rem 0 .4rem } .fans .pictures { display: flex; flex-wrap: wrap; gap: .8rem }
.fans figure { margin: .3rem 0 1.2rem } .fans figcaption { color: #51606e; font-size: 12px; text-align: center }
.fans img { display: block; max-width: 16rem; image-rendering: pixelated }
.fans .scale { display: flex; gap: .5rem; align-items: center; color: #51606e; font-size: 12px }
.fans .scale div { width: 12rem; height: .7rem; border-radius: 2px }
.fans tr.in .bar { background: #c2571a } .fans .facts { color: #51606e } .fans p { margin: .3rem 0 }
</style>
"""


HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><title>fans: necessary and sufficient features</title>'


def fragment(e: Explanation, *, most: int = 12, top: int = 10) -> str:
    """Return the first inputs as HTML to embed: sentence, estimates, and the image or the leading features."""
    return STYLE + _section(e, most, top)


def page(e: Explanation, path: str | Path) -> Path:
    """Write every input to one HTML file that needs nothing else."""
    return pages({"": e}, path)


def pages(explanations: Mapping[str, Explanation], path: str | Path) -> Path:
    """Write several explanations, each under its heading, to one HTML file that needs nothing else."""
    path = Path(path)
    sections = [_section(e, len(e), heading=heading) for heading, e in explanations.items()]
    path.write_text("\n".join([HEAD + STYLE, *sections, "</html>\n"]), encoding="utf-8")
    return path


def _section(e: Explanation, most: int, top: int = 10, heading: str = "") -> str:
    """Return the first inputs, and how many more there are."""
    shown = min(len(e), most)
    parts = ['<div class="fans">']
    if heading:
        parts.append(f"<h2>{escape(heading)}</h2>")
    if e.modality == "image":
        largest = images.largest_score(e, shown)
        parts.append(_scale(largest))
        bodies = [_pictures(e, i, largest) for i in range(shown)]
    else:
        bodies = [(_drawn(e, i) if e.edges is not None else "") + _table(e, i, top) for i in range(shown)]
    parts += [_finding(e, i) + body for i, body in enumerate(bodies)]
    if shown < len(e):
        parts.append(f"<p class='facts'>{len(e) - shown} more inputs are not shown.</p>")
    return "\n".join([*parts, "</div>"])


def _finding(e: Explanation, i: int) -> str:
    """Return what was found of one input, and how sure it is."""
    words = _emphasise(escape(sentence(e, i)), e.chosen_names(i))
    return (
        f"<p><b>{escape(str(e.ids[i]))}</b>: {escape(e.target_name(i))} = {e.prediction[i]:.3g}. {words}</p>"
        f"<p class='facts'>{_estimates(e, i)}</p>"
    )


def _scale(largest: float) -> str:
    """Return the colours of scores, one scale for all images shown."""
    stops = ", ".join(images.STOPS)
    return (
        f"<p class='facts'>Scores:</p><div class='scale'>{-largest:.2g}"
        f"<div style='background: linear-gradient(to right, {stops})'></div>{largest:.2g}</div>"
    )


def _pictures(e: Explanation, i: int, largest: float) -> str:
    """Return an image, its scores and its subset, each as a PNG within the page."""
    captions = ("image", "scores", chosen_count(e, i))
    figures = [
        f'<figure><img alt="{escape(f"{e.ids[i]}: {caption}")}" src="{images.data_uri(panel)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for caption, panel in zip(captions, images.panels(e, i, largest), strict=True)
    ]
    return f"<div class='pictures'>{''.join(figures)}</div>"


def _drawn(e: Explanation, i: int, size: int = 420) -> str:
    """Return a graph as a drawing within the page: the chosen edges thick, the explained node marked."""
    found = graphs.drawing(e, i)
    across = np.array(list(found.places.values()))
    low, span = across.min(0), max(float(np.ptp(across, 0).max()), 1e-9)

    def at(place: graphs.Place) -> tuple[float, float]:
        x, y = (np.array(place) - low) / span * (size - 40) + 20
        return round(float(x), 1), round(size - float(y), 1)

    parts = []
    for line in found.lines:
        (x, y), (x2, y2) = (at(end) for end in line.ends)
        width = 4 if line.chosen else 0.6 + 1.4 * line.share
        colour = images.CHOSEN if line.chosen else "#b9c4cf"
        parts.append(f"<line x1='{x}' y1='{y}' x2='{x2}' y2='{y2}' stroke='{colour}' stroke-width='{width:.1f}'/>")
    for name, place in found.places.items():
        x, y = at(place)
        colour = images.OUTLINE if name == found.explained else "white"
        parts.append(f"<circle cx='{x}' cy='{y}' r='10' fill='{colour}' stroke='{images.INK}'/>")
        parts.append(f"<text x='{x}' y='{y + 3}' font-size='8' text-anchor='middle'>{name}</text>")
    label = escape(f"{e.ids[i]}: {chosen_count(e, i)}")
    return f"<svg role='img' aria-label='{label}' viewBox='0 0 {size} {size}' width='{size}'>{''.join(parts)}</svg>"


def _table(e: Explanation, i: int, top: int) -> str:
    """Return a row for each leading feature of one input."""
    largest = float(np.abs(e.scores[i]).max()) or 1.0
    rows = [_row(e, i, int(f), largest) for f in e.ranked(i)[:top]]
    return "<table><tr><th>feature</th><th>value</th><th>score</th><th></th></tr>" + "".join(rows) + "</table>"


def _row(e: Explanation, i: int, f: int, largest: float) -> str:
    se = "" if e.scores_se is None else f" ± {e.scores_se[i, f]:.3f}"
    width = 12 * max(float(e.scores[i, f]), 0.0) / largest
    return (
        f"<tr{' class=in' if e.subset[i, f] else ''}><td>{escape(e.name(i, f))}</td>"
        f"<td>{escape(e.value(i, f))}</td><td class='n'>{e.scores[i, f]:.3f}{se}</td>"
        f"<td><div class='bar' style='width:{width:.2f}rem'></div></td></tr>"
    )


def _estimates(e: Explanation, i: int) -> str:
    return (
        ", ".join(estimate_texts(e, i))
        + f" at {e.confidence:.0%} confidence"
        + (f"; {escape(e.notes[i])}" if e.notes[i] else "")
    )


def _emphasise(text: str, names: Iterable[str]) -> str:
    """Turn the asterisks around names into italics."""
    for name in map(escape, names):
        text = text.replace(f"*{name}*", f"<em>{name}</em>")
    return text
