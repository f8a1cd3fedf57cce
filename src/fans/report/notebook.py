"""What notebooks show of results and of an explainer: tables within a card, escaped, dark on white in any theme."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from fans.curve import Curve, TrialSample
from fans.report.colours import CHOSEN, FAINT
from fans.report.curves import n_features, title
from fans.report.html import STYLE, table
from fans.report.pixels import data_uri
from fans.report.sentences import number, percent, shortened
from fans.result import PNS, estimate_texts
from fans.types import Array

MOST_ROWS, MOST_INPUTS, MOST_COLUMNS, MOST_CHANGES, MOST_LETTERS = 20, 3, 6, 4, 60
"""Inputs of a table, inputs with a table each, columns and changes of a trial, and letters of a cell."""

MEANING = (
    "keep: everything else changed, the prediction stays; change: only the subset changed, it moves by more than the "
    "tolerance; both: both at once (PNS)."
)

OWN_STYLE = f"""
<style>
.fans.card table {{ width: auto }} .fans summary {{ cursor: pointer }}
.fans .own, .fans tr.own td {{ font-weight: 600; color: {CHOSEN} }}
.fans .part {{ border: 1px solid #c6cfd8; border-radius: 4px; background: #f4f8fb; margin: 0; max-width: 34rem }}
.fans .part {{ padding: .3rem .7rem }} .fans .part summary small {{ color: {FAINT} }}
.fans .part table {{ font-size: 12px }} .fans p.then {{ color: {FAINT}; margin: 0 1.2rem; line-height: 1.1 }}
.fans .trial img {{ width: 5rem; image-rendering: pixelated }} .fans .trial td {{ vertical-align: middle }}
</style>
"""


def card(heading: str, body: str, *facts: str) -> str:
    """Return a heading, a body in HTML and sentences below it as HTML to embed."""
    said = "".join(f"<p class='facts'>{escape(fact)}</p>" for fact in facts if fact)
    return f"{STYLE}{OWN_STYLE}<div class='fans card'><p><b>{escape(heading)}</b></p>{body}{said}</div>"


def counted(n: int, what: str) -> str:
    """Return how many of something there are."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def share_text(share: float, ends: Array) -> str:
    """Return a share with its interval, e.g. `93 % [86, 97]`."""
    low, high = (float(end) for end in ends)
    return percent(share) if math.isnan(low + high) else f"{percent(share)} [{100 * low:.0f}, {100 * high:.0f}]"


def _more(n: int, shown: int, what: str) -> str:
    return f"{n - shown:,} more {what} are not shown." if n > shown else ""


# --- Results ---------------------------------------------------------------------------------------------------------


def pns_card(found: PNS) -> str:
    """Return what is known of the user's own subsets, a row for each input."""
    shown, with_notes = range(min(len(found), MOST_ROWS)), any(found.notes)
    heads = ("input", "keep", "change", "both (PNS)", "PN", "PS", "tolerance", "radius", *(["note"] * with_notes))
    rows = [
        (
            *(str(i), share_text(found.holds[i], found.share_interval[i, 1])),
            *(share_text(found.changes[i], found.share_interval[i, 0]), share_text(found.pns[i], found.interval[i, 0])),
            *(text.partition(" ")[2] for text in estimate_texts(found, i)[1:]),
            *(number(found.tolerance[i]), number(found.radius[i])),
            *([found.notes[i]] * with_notes),
        )
        for i in shown
    ]
    spent = counted(found.n_evaluations, "model row")
    used = f"{percent(found.confidence)} intervals in brackets; phi {found.phi:g}, {spent}."
    more = _more(len(found), len(shown), "inputs")
    heading = f"Necessity and sufficiency of the subset, {counted(len(found), 'input')}"
    return card(heading, table(heads, rows, range(1, 8)), MEANING, used, more)


def curve_card(curve: Curve) -> str:
    """Return keep, change and both by size for the first inputs, at each explanation's own tolerance."""
    shown = min(len(curve), MOST_INPUTS)
    bodies = []
    for i in range(shown):
        tolerance = number(curve.tolerances[i, curve.used[i]])
        about = f"{title(curve, i)}: {curve.sizes[i, curve.chosen[i]]:,} of {n_features(curve, i):,} features chosen"
        said = escape(f"{about}, tolerance {tolerance}")
        bodies.append(f"<details{' open' if not i else ''}><summary>{said}</summary>{_sizes(curve, i)}</details>")
    facts = f"{percent(curve.confidence)} intervals in brackets. All sizes are of the same trials. `plot()` draws them."
    heading = f"PNS against the size of the subset, {counted(len(curve), 'input')}"
    return card(heading, "".join(bodies), MEANING, facts, _more(len(curve), shown, "inputs"))


def _sizes(curve: Curve, i: int) -> str:
    """Return a table with a row for each size, the chosen one marked."""
    at, n = int(curve.used[i]), int((curve.sizes[i] >= 0).sum())
    rows = []
    for k in range(n):
        shares = (
            share_text(getattr(curve, name)[i, k, at], curve.intervals[i, k, at, place])
            for name, place in (("holds", 2), ("changes", 1), ("pns", 0))
        )
        rows.append((f"{'✓ ' if k == curve.chosen[i] else ''}{curve.sizes[i, k]:,}", *shares))
    return table(("size", "keep", "change", "both (PNS)"), rows, range(4))


def trials_card(sample: TrialSample) -> str:
    """Return the trials of the first inputs, those with the subset changed above those with everything else changed."""
    shown = min(len(sample.ids), MOST_INPUTS)
    words = {"changed": "Only the subset changed", "kept": "Everything else changed, the subset kept"}
    parts = []
    for i in range(shown):
        name = sample.ids[i] if isinstance(sample.ids[i], str) else f"input {sample.ids[i]}"
        parts.append(f"<p class='title'><b>{escape(shortened(str(name), MOST_LETTERS))}</b></p>")
        parts += [f"<p>{words[side]}</p>{_trials(sample, i, side)}" for side in words]
    marked = "In blue: values that were changed. " if any("class=own" in part for part in parts) else ""
    facts = f"{marked}nearness: of the input before, from 0 to 1; trials count by it."
    heading = f"Trials, the nearest first, {counted(len(sample.ids), 'input')}"
    return card(heading, "".join(parts), facts, _more(len(sample.ids), shown, "inputs"))


def _trials(sample: TrialSample, i: int, side: str) -> str:
    """Return the trials of one side as a table."""
    names, cells = _given(sample, i, side)
    heads = ("moved", "output before", "output", "nearness", *names)
    head = "".join(f"<th{' class=n' if 0 < k < 4 else ''}>{escape(word)}</th>" for k, word in enumerate(heads))
    body = []
    for k, moved in enumerate(sample.moved[side][i].tolist()):
        said = (number(of[side][i, k]) for of in (sample.outputs_before, sample.outputs, sample.weights))
        numbers = "".join(f"<td class='n'>{escape(text)}</td>" for text in said)
        body.append(f"<tr><td>{'yes' if moved else 'no'}</td>{numbers}{''.join(cells[k]) if cells else ''}</tr>")
    return f"<table class='trial'><tr>{head}</tr>{''.join(body)}</table>"


def _given(sample: TrialSample, i: int, side: str) -> tuple[list[str], list[list[str]]]:
    """Return cells in HTML: what the model was given as columns of frames, texts or images, else what was changed."""
    given = sample.given[side][i]
    if isinstance(given, list | tuple) and all(isinstance(text, str) for text in given):
        return ["text"], [[f"<td>{escape(text)}</td>"] for text in given]
    if hasattr(given, "columns"):
        return _columns(sample, i, side)
    after = sample.inputs[side][i]
    if after.ndim == 4:
        return ["image"], [[f"<td>{_thumbnail(image, after)}</td>"] for image in after]
    return ["changed values, by place"], [[f"<td>{_changes(sample, i, side, k)}</td>"] for k in range(len(after))]


def _columns(sample: TrialSample, i: int, side: str) -> tuple[list[str], list[list[str]]]:
    """Return the columns that were changed with the subset, then others, and their values."""
    changed = _changed(sample, i, "changed")
    order = np.argsort(-changed.sum(0), kind="stable")[:MOST_COLUMNS].tolist()
    given, here = sample.given[side][i], _changed(sample, i, side)
    values = given.to_numpy(dtype=object)
    cells = [[_cell(values[k, f], changed=bool(here[k, f])) for f in order] for k in range(len(values))]
    return [str(given.columns[f]) for f in order], cells


def _changed(sample: TrialSample, i: int, side: str) -> Array:
    """Return which values of which trials differ from the input before."""
    after, before = sample.inputs[side][i], sample.before[side][i]
    return np.asarray((after != before) & ~(np.isnan(after) & np.isnan(before)))


def _changes(sample: TrialSample, i: int, side: str, k: int) -> str:
    """Return the first changes of a trial, e.g. `[2] 1 → 0`, and how many more there are."""
    places = np.argwhere(_changed(sample, i, side)[k]).tolist()
    after, before = sample.inputs[side][i][k], sample.before[side][i][k]
    told = [
        f"{place} {number(before[tuple(place)])} → {number(after[tuple(place)])}" for place in places[:MOST_CHANGES]
    ]
    more = [f"{len(places) - MOST_CHANGES:,} more"] if len(places) > MOST_CHANGES else []
    return escape(", ".join([*told, *more]) or "none")


def _cell(value: Any, *, changed: bool) -> str:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    text = number(float(value)) if is_number else shortened(str(value), MOST_LETTERS)
    return f"<td{' class=own' if changed else ''}>{escape(text)}</td>"


def _thumbnail(image: Array, among: Array) -> str:
    """Return an image on the scale of those it is among."""
    first, last = image.shape[0], image.shape[-1]
    pixels = image if last <= 4 < first else np.moveaxis(image, 0, -1)
    pixels = pixels[..., :3] if pixels.shape[-1] >= 3 else np.repeat(pixels[..., :1], 3, -1)
    low, high = float(np.nanmin(among)), float(np.nanmax(among))
    low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    return f'<img alt="perturbed image" src="{data_uri((pixels - low) / max(high - low, 1e-12))}">'


def table_card(heading: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *facts: str) -> str:
    """Return a table of which all columns but the first hold numbers."""
    return card(heading, table(heads, rows, range(1, len(heads))), *facts)


# --- An explainer ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One part of what explains: what it is, in a word or two, and its settings.

    Attributes:
        name: of the part.
        said: what it is here.
        settings: by name, as text.
        own: names of those that are not the default.
    """

    name: str
    said: str
    settings: Mapping[str, str]
    own: frozenset[str] = frozenset()


def diagram(heading: str, parts: Sequence[Part], fact: str) -> str:
    """Return parts as boxes, one after another, that open to tell their settings."""
    boxes = "<p class='then' aria-hidden='true'>↓</p>".join(_box(part) for part in parts)
    return card(heading, boxes, fact)


def _box(part: Part) -> str:
    rows = "".join(
        f"<tr{' class=own' if name in part.own else ''}><td>{escape(name)}</td>"
        f"<td>{escape(shortened(value, 400))}</td></tr>"
        for name, value in part.settings.items()
    )
    said = f"{escape(part.said)} <small>{escape(part.name)}</small>"
    return f"<details class='part'><summary>{said}</summary><table>{rows}</table></details>"
