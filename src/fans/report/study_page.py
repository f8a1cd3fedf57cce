"""Sections of studies as one HTML page that needs nothing else: claims first, then tables, figures and facts.

All numbers are in the page as text; `study_page.js` sorts, filters and folds what is there, and draws the charts from
the JSON at the end of the page.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from fans.report.colours import LINES, STOPS, coloured
from fans.report.pixels import data_uri
from fans.report.sections import BRACKETS, Chart, Claim, Gallery, Line, Section, brackets
from fans.report.tables import FEW, Heading, Table, number

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing but what is in it."""

USUAL = 6
"""So many columns are shown at first of a table that has no numbers of a paper."""

SIGNS = {True: ("held", "✓"), False: ("failed", "✗"), None: ("open", "?")}


def page(sections: Sequence[Section]) -> str:
    """Return a page of some sections."""
    title = sections[0].title if len(sections) == 1 else "FANS (ICML 2024): what the paper says, and what came out here"
    charts = [chart for section in sections for chart in section.charts]
    starts = np.cumsum([0, *(len(section.charts) for section in sections)])
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>\n{_part('css')}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>{_links(sections)}</header><main>",
        _claims(sections),
        *(_section(i, section, int(start)) for i, (section, start) in enumerate(zip(sections, starts, strict=False))),
        f'</main><script type="application/json" id="charts">{_json([_chart_data(c) for c in charts])}</script>',
        f"<script>\n{_part('js')}</script></body></html>\n",
    ]
    return "\n".join(parts)


def _part(kind: str) -> str:
    """Return the page's style or script."""
    return files("fans.report").joinpath(f"study_page.{kind}").read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """Return a value as JSON that can stand in a page: no tag begins or ends in it, and numbers are finite or null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value


def _name(i: int, section: Section) -> str:
    """Return a section's name in addresses."""
    return f"s{i}-{re.sub(r'[^a-z0-9]+', '-', section.name.lower())}"


def _links(sections: Sequence[Section]) -> str:
    """Return links to several sections."""
    if len(sections) < 2:
        return ""
    links = (f'<a href="#{_name(i, s)}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    return f'<nav aria-label="Sections">{" ".join(links)}</nav>'


# --- Claims ----------------------------------------------------------------------------------------------------------


def _claims(sections: Sequence[Section]) -> str:
    """Return what the paper claims with what was found, and how many claims hold."""
    found = [(i, section, claim) for i, section in enumerate(sections) for claim in section.claims]
    if not found:
        return ""
    items = "".join(_claim(claim, f"#{_name(i, section)}", section.title) for i, section, claim in found)
    named = f'<p class="faint">{BRACKETS}</p>' if any(brackets(section) for section in sections) else ""
    return (
        f'<section id="claims"><h2>The paper\'s claims</h2><p class="counts">{_counts([c for *_, c in found])}</p>'
        f'{named}<ol class="claims">{items}</ol></section>'
    )


def _counts(claims: Sequence[Claim]) -> str:
    """Return how many claims have each verdict."""
    n = Counter(claim.held for claim in claims)
    words = {True: "hold here", False: "do not hold here", None: "are not settled here"}
    return " ".join(
        f'<span class="verdict {SIGNS[held][0]}">{SIGNS[held][1]} {n[held]} of {len(claims)} {words[held]}</span>'
        for held in words
    )


def _claim(claim: Claim, address: str, section: str) -> str:
    kind, sign = SIGNS[claim.held]
    found = "".join(f"<li>{escape(part)}</li>" for part in claim.found.split("; "))
    return (
        f'<li class="claim"><span class="verdict {kind}">{sign} {claim.verdict}</span>'
        f'<div><p class="says">{escape(claim.says)}</p><p class="faint">{escape(claim.source)}; '
        f'here: <a href="{address}">{escape(section)}</a></p></div><ul class="found">{found}</ul></li>'
    )


# --- A section -------------------------------------------------------------------------------------------------------


def _section(i: int, section: Section, first_chart: int) -> str:
    """Return a section; its charts are numbered from `first_chart` on."""
    parts = [f'<section id="{_name(i, section)}"><h2>{escape(section.title)}</h2>']
    if section.claims:
        parts.append(f'<p class="counts">{_counts(section.claims)} <a href="#claims">the claims</a></p>')
    parts += [f'<p class="said">{escape(sentence)}</p>' for sentence in section.summary]
    parts += [f'<p class="faint">{brackets(section)}</p>'] if section.summary and brackets(section) else []
    parts += [_table(f"{_name(i, section)}-t{j}", table) for j, table in enumerate(section.tables)]
    parts += [_chart(first_chart + j, chart) for j, chart in enumerate(section.charts)]
    parts += [_gallery(gallery) for gallery in section.galleries]
    if section.facts:
        facts = (f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in section.facts.items())
        parts.append(f'<h3>Made by</h3><dl class="facts">{"".join(facts)}</dl>')
    return "\n".join([*parts, "</section>"])


# --- Tables ----------------------------------------------------------------------------------------------------------


def _table(name: str, table: Table) -> str:
    """Return a table: controls, then a part for each dataset."""
    tabs = "".join(
        f'<button type="button" role="tab" id="{name}-tab{k}" aria-controls="{name}-d{k}">{escape(dataset)}</button>'
        for k, dataset in enumerate(table.datasets)
    )
    groups = list(dict.fromkeys(group for _, group in table.rows))
    shown = {h.name for h in _usual(table)}
    columns = [_box("column", f"c{j}", h.arrow, on=h.name in shown) for j, h in enumerate(table.headings)]
    rows = [_box("group", group, group or "other", on=group not in table.folded) for group in groups]
    extras = [_box("paper", "", "the paper's numbers", on=True)] if table.paper else []
    extras.append(_box("interval", "", "95 % intervals", on=True))
    bodies = "".join(_dataset(f"{name}-d{k}", table, dataset) for k, dataset in enumerate(table.datasets))
    notes = "".join(f"<li>{escape(remark)}</li>" for remark in table.remarks())
    return (
        f'<div class="table" data-name="{escape(name)}"><div class="controls" hidden>'
        f'<div role="tablist" aria-label="Datasets">{tabs}</div>'
        f'<label class="filter">Methods <input type="search" placeholder="part of a name"></label>'
        f"<fieldset><legend>Rows</legend>{''.join(rows)}</fieldset>"
        f"<details><summary>Columns</summary><fieldset>{''.join(columns)}</fieldset></details>"
        f'<fieldset>{"".join(extras)}</fieldset><button type="button" class="csv">CSV</button></div>'
        f"{bodies}<details><summary>Which rows are marked, and what the columns are</summary><ul>{notes}</ul></details>"
        "</div>"
    )


def _usual(table: Table) -> Sequence[Heading]:
    """Return the columns that are shown at first: those that the paper has, or else the first ones."""
    printed = {column for *_, column in table.paper}
    return [h for h in table.headings if h.name in printed] or table.headings[:USUAL]


def _box(kind: str, value: str, words: str, *, on: bool) -> str:
    """Return a box to tick."""
    checked = " checked" if on else ""
    return f'<label><input type="checkbox" data-{kind}="{escape(value)}"{checked}> {escape(words)}</label>'


def _dataset(name: str, table: Table, dataset: str) -> str:
    """Return the part of a table that is of one dataset."""
    heads, paper = [_head("", "method", "", sort="text")], {h.name for h in _printed(table, dataset)}
    for j, heading in enumerate(table.headings):
        way = "high" if heading.higher_is_better else "low"
        heads.append(_head(f"c{j}", heading.arrow, heading.note, sort=way))
        if heading.name in paper:
            heads.append(_head(f"c{j} paper", "paper", f"{heading.name} as the paper prints it", sort=way))
    places = {h.name: table.places(dataset, h) for h in table.headings}
    rows = "".join(
        _row(table, row, group, dataset, places, paper)
        for row, group in table.rows
        if any((row, dataset, h.name) in table.entries for h in table.headings)
    )
    caption = f"{escape(dataset)}, {table.size(dataset)} inputs"
    return (
        f'<div class="dataset" role="tabpanel" id="{name}" aria-label="{escape(dataset)}"><table class="results">'
        f"<caption>{caption}</caption><thead><tr>{''.join(heads)}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _printed(table: Table, dataset: str) -> list[Heading]:
    """Return the columns of a dataset that have numbers of the paper."""
    printed = {column for _, where, column in table.paper if where == dataset}
    return [h for h in table.headings if h.name in printed]


def _head(kind: str, words: str, note: str, *, sort: str) -> str:
    title = f' title="{escape(note)}"' if note else ""
    named = f' class="{kind}"' if kind else ""
    return f'<th scope="col"{named} data-sort="{sort}"><button type="button"{title}>{escape(words)}</button></th>'


def _row(
    table: Table, row: str, group: str, dataset: str, places: dict[str, dict[str, int]], paper: Iterable[str]
) -> str:
    """Return a method's line of a dataset."""
    cells = []
    for j, heading in enumerate(table.headings):
        cells.append(_cell(table, (row, dataset, heading.name), j, places[heading.name].get(row, 0)))
        if heading.name in paper:
            printed = table.paper.get((row, dataset, heading.name))
            value, words = ("", "") if printed is None else (repr(printed), number(printed))
            cells.append(f'<td class="c{j} paper" data-v="{value}">{words}</td>')
    own = ' class="own"' if group in table.own else ""
    return f'<tr data-group="{escape(group)}"{own}><th scope="row">{escape(row)}</th>{"".join(cells)}</tr>'


def _cell(table: Table, place: tuple[str, str, str], j: int, rank: int) -> str:
    """Return what was measured, marked where it is best or second best, with its interval."""
    found = table.entries.get(place)
    if found is None:
        return f'<td class="c{j}" data-v="">-</td>'
    mark = {1: ("<b>", "</b>"), 2: ("<u>", "</u>")}.get(rank, ("", ""))
    interval = f"<small>{number(found.low)} to {number(found.high)}</small>" if found.n >= FEW else ""
    n = f' <span class="n">n={found.n}</span>' if found.n != table.size(place[1]) else ""
    value = f"{found.value!r}" if math.isfinite(found.value) else ""
    return f'<td class="c{j}" data-v="{value}">{mark[0]}{number(found.value)}{mark[1]}{n}{interval}</td>'


# --- Figures ---------------------------------------------------------------------------------------------------------


def _chart(i: int, chart: Chart) -> str:
    """Return the place of a chart, which the script fills, and a table of its numbers."""
    return (
        f'<figure class="chart" data-chart="{i}"><figcaption>{escape(chart.title)}</figcaption>'
        f'<div class="drawn"></div>{_note(chart.said)}'
        '<p class="buttons" hidden><button type="button" class="csv">CSV</button> '
        '<button type="button" class="svg">SVG</button></p>'
        f"<details><summary>Data</summary>{_numbers(chart.comma_separated())}</details></figure>"
    )


def _note(note: str) -> str:
    return f'<p class="faint">{escape(note)}</p>' if note else ""


def _numbers(text: str) -> str:
    """Return lines of CSV as a table; the numbers to three digits, whole where the CSV is asked for."""
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join(f"<tr>{''.join(map(_number_cell, row))}</tr>" for row in rows)
    table = f'<table class="data"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _number_cell(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return f"<td>{escape(text)}</td>"
    short = text if text.isdecimal() else number(value)
    return f'<td class="number" data-v="{escape(text)}">{short}</td>'


def _chart_data(chart: Chart) -> dict[str, Any]:
    """Return what the script needs to draw a chart; colours are places in the palette, -1 our own."""
    styles = {
        name: [LINES.index(colour) if colour in LINES else -1, dash] for name, (colour, dash) in chart.colours().items()
    }
    panels = [
        {
            **{"title": p.title, "x": p.x, "y": p.y, "logX": p.log_x, "logY": p.log_y},
            **{"marks": [list(m) for m in p.marks], "ticks": [list(t) for t in p.ticks]},
            "lines": [_line_data(line) for line in p.lines],
        }
        for p in chart.panels
    ]
    return {"name": chart.name, "title": chart.title, "columns": chart.columns, "styles": styles, "panels": panels}


def _line_data(line: Line) -> dict[str, Any]:
    return {
        **{"name": line.name, "ours": line.ours, "dots": line.dots, "labels": list(line.labels)},
        **{name: [float(v) for v in getattr(line, name)] for name in ("x", "y", "low", "high")},
        "n": [int(n) for n in line.n],
    }


def _gallery(gallery: Gallery) -> str:
    """Return pictures in rows and columns, with the one scale of their colours."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("input", *gallery.columns))
    rows = "".join(_pictures(gallery, i) for i in range(len(gallery.rows)))
    stops = ", ".join(f"{colour} {50 + 50 * at:g}%" for at, colour in STOPS)
    return (
        f'<figure class="gallery"><figcaption>{escape(gallery.title)}</figcaption>'
        f'<div class="scroll"><table><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'<div class="scale"><span>-1</span><div style="background: linear-gradient(to right, {stops})"></div>'
        f"<span>1, the highest score of all</span></div>{_note(gallery.note)}</figure>"
    )


def _pictures(gallery: Gallery, i: int) -> str:
    """Return a row: what was explained, and every picture of it."""
    row = gallery.rows[i]
    grey = np.repeat(np.asarray(gallery.images[i], dtype=float)[..., None], 3, -1)
    named = [("input", grey), *((n, coloured(s)) for n, s in zip(gallery.columns, gallery.scores[i], strict=True))]
    cells = "".join(f'<td><img alt="{escape(f"{row}: {name}")}" src="{data_uri(image)}"></td>' for name, image in named)
    return f'<tr><th scope="row">{escape(row)}</th>{cells}</tr>'
