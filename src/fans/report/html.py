"""An explanation as HTML: the notebook view, and one self-contained page."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from fans.explanation import Explanation
from fans.files import write
from fans.report.colours import CHOSEN, INK
from fans.report.sentences import (
    column_legend,
    direction_text,
    facts,
    finding,
    half_width,
    keep_change_both,
    left_out,
    legend,
    outcome,
    score_label,
    score_text,
    stability_text,
    unit_word,
)

STYLE = f"""
<style>
.fans {{ font: 14px/1.45 system-ui, sans-serif; max-width: 66rem; overflow-x: auto; padding: .2rem .6rem }}
.fans {{ color: {INK}; background: #fff }}
.fans table {{ border-collapse: collapse; width: 100%; margin: .4rem 0 }}
.fans td, .fans th {{ padding: .15rem .7rem; text-align: left }}
.fans th {{ font-weight: 600; white-space: nowrap; border-bottom: 1px solid #c6cfd8 }}
.fans th.n, .fans td.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }}
.fans tr.in td:first-child {{ font-weight: 600 }}
.fans th.bars {{ width: 22% }} .fans .bar {{ position: relative; height: .8rem; min-width: 6rem }}
.fans .bar div {{ position: absolute; top: 0; height: 100%; box-sizing: border-box }}
.fans .score {{ border-radius: 2px; background: #b9c4cf }} .fans tr.in .score {{ background: {CHOSEN} }}
.fans .whisker {{ background: linear-gradient({INK}, {INK}) center / 100% 1px no-repeat }}
.fans .bar .whisker {{ top: 25%; height: 50%; border: solid {INK}; border-width: 0 1px }}
.fans .bar .zero {{ top: -20%; height: 140%; border-left: 1px solid {INK} }}
.fans h2 {{ font-size: 1.15rem; margin: 1rem 0 .4rem }} .fans .pictures {{ display: flex; flex-wrap: wrap; gap: .8rem }}
.fans figure {{ margin: .3rem 0 1.2rem }} .fans figcaption {{ color: #51606e; font-size: 12px; text-align: center }}
.fans img {{ display: block; width: 15rem; max-width: 100% }}
.fans .scale {{ display: flex; gap: .5rem; align-items: center; color: #51606e; font-size: 12px }}
.fans .scale div {{ width: 12rem; height: .7rem; border-radius: 2px }}
.fans .shares {{ display: flex; flex-wrap: wrap; gap: 1.6rem; margin: .3rem 0 }}
.fans .shares b {{ font-size: 1.45rem; font-weight: 600 }} .fans .shares span {{ color: #51606e }}
.fans .facts {{ color: #51606e; font-size: 13px }} .fans p {{ max-width: 58rem; margin: .3rem 0 }}
.fans p.title {{ margin-top: 1.6rem }}
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
    sections = [_section(e, len(e), heading=heading) for heading, e in explanations.items()]
    scripts = dict.fromkeys(e.presenter.script for e in explanations.values() if len(e))
    moving = [f"<script>\n{script}</script>" for script in scripts if script]
    return write(path, "\n".join([HEAD + STYLE, *sections, *moving, "</html>\n"]))


def anchored(e: Explanation, anchors: Sequence[str]) -> str:
    """Return every input as HTML to embed beside `STYLE`, each to be linked to by its anchor."""
    return _section(e, len(e), anchors=anchors)


def _section(e: Explanation, most: int, top: int = 10, heading: str = "", anchors: Sequence[str] = ()) -> str:
    """Return the first inputs, and how many more there are."""
    shown = min(len(e), most)
    parts = ['<div class="fans">']
    if heading:
        parts.append(f"<h2>{escape(heading)}</h2>")
    shows = e.presenter
    columns = f" {column_legend(e)} ✓: in the subset." if shows.lists_features else ""
    parts.append(f"<p class='facts'>{escape(legend(e) + columns)}</p>{shows.style}{shows.page_head(e, shown)}")
    bodies = shows.page_bodies(e, shown, top)
    places = [f" id='{escape(anchor)}'" for anchor in anchors] or [""] * shown
    parts += [_finding(e, i, places[i]) + body for i, body in enumerate(bodies)]
    if shown < len(e):
        parts.append(f"<p class='facts'>{len(e) - shown} more inputs are not shown.</p>")
    return "\n".join([*parts, "</div>"])


def _finding(e: Explanation, i: int, place: str = "") -> str:
    """Return what was found of one input, and how sure it is; `place` is an attribute."""
    words = emphasise(escape(finding(e, i)), e.chosen_names(i))
    return (
        f"<p class='title'{place}><b>{escape(e.title(i))}</b>: {escape(outcome(e, i))}</p>"
        f"{_shares(e, i)}<p>{words}</p><p class='facts'>{escape(facts(e, i))}</p>"
    )


def _shares(e: Explanation, i: int) -> str:
    """Return keep, change and both in large letters; of an empty subset only how often all changed leaves it."""
    *values, between = keep_change_both(e, i)
    words = ("keep", "change", "both") if e.subset[i].any() else ("nothing chosen: all changed, it holds in",)
    shown = [f"<div><span>{word}</span> <b>{value}</b>" for word, value in zip(words, values, strict=False)]
    after = f" <span>{between}</span>" if between else ""
    return f"<div class='shares'>{'</div>'.join(shown)}{after}</div></div>"


def feature_table(e: Explanation, i: int, top: int) -> str:
    """Return a row for each leading feature of one input."""
    order = [int(f) for f in e.ranked(i)[:top]]
    scores = np.nan_to_num(e.scores[i, order])
    halves = np.nan_to_num([half_width(e, i, f) for f in order])
    low, high = min(0.0, *(scores - halves)), max(0.0, *(scores + halves))
    scale = (low, high if high > low else 1.0)
    n, bars = " class='n'", " class='bars'"
    heads = {unit_word(e, 1): "", "value": "", score_label(e): n, "": bars, "if changed": n, "chosen in": n}
    cells = "".join(f"<th{kind}>{escape(head)}</th>" for head, kind in heads.items())
    left = f"<p class='facts'>{escape(left_out(e, i, order))}</p>" if left_out(e, i, order) else ""
    return f"<table><tr>{cells}</tr>{''.join(_row(e, i, f, scale) for f in order)}</table>{left}"


def _row(e: Explanation, i: int, f: int, scale: tuple[float, float]) -> str:
    chosen = bool(e.subset[i, f])
    name = re.sub(r"(?<=[_/.])", "<wbr>", escape(e.name(i, f)))  # where long names may break
    beside = f"<td class='n'>{direction_text(e, i, f)}</td><td class='n'>{stability_text(e, i, f)}</td>"
    return (
        f"<tr{' class=in' if chosen else ''}><td>{'✓&nbsp;' if chosen else ''}{name}</td>"
        f"<td>{escape(e.value(i, f))}</td><td class='n'>{score_text(e, i, f)}</td>"
        f"<td>{_bar(e, i, f, scale)}</td>{beside}</tr>"
    )


def _bar(e: Explanation, i: int, f: int, scale: tuple[float, float]) -> str:
    """Return a score as a bar from 0 with its interval, on a scale from low to high."""
    score, half = np.nan_to_num(float(e.scores[i, f])), np.nan_to_num(half_width(e, i, f))
    bar = _strip("score", min(score, 0), max(score, 0), scale)
    whisker = _strip("whisker", score - half, score + half, scale) if half else ""
    zero = _strip("zero", 0, 0, scale) if scale[0] < 0 else ""
    return f"<div class='bar'>{bar}{zero}{whisker}</div>"


def _strip(kind: str, start: float, end: float, scale: tuple[float, float]) -> str:
    """Return a part of a scale, in per cent of it."""
    left, right = (100 * (at - scale[0]) / (scale[1] - scale[0]) for at in (start, end))
    return f"<div class='{kind}' style='left:{left:.1f}%;width:{right - left:.1f}%'></div>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> str:
    """Return a table in HTML; the columns that hold numbers are flush right."""
    style = [" class='n'" if k in numbers else "" for k in range(len(heads))]
    head = "".join(f"<th{how}>{escape(word)}</th>" for how, word in zip(style, heads, strict=True))
    cells = ("".join(f"<td{how}>{escape(cell)}</td>" for how, cell in zip(style, row, strict=True)) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def emphasise(text: str, names: Iterable[str]) -> str:
    """Turn the asterisks around names into italics."""
    for name in map(escape, names):
        text = text.replace(f"*{name}*", f"<em>{name}</em>")
    return text
