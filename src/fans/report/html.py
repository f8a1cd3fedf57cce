"""An explanation as HTML: the notebook view, and one self-contained page."""

import math
from html import escape
from pathlib import Path

import numpy as np

from fans.core import Explanation
from fans.report.sentences import sentence

STYLE = """
<style>
.fans { font: 14px/1.45 system-ui, sans-serif; max-width: 52rem; padding: .2rem .6rem }
.fans { color: #1c2733; background: #fff }
.fans table { border-collapse: collapse; margin: .4rem 0 1.2rem }
.fans td, .fans th { padding: .15rem .7rem; text-align: left }
.fans th { font-weight: 600; border-bottom: 1px solid #c6cfd8 }
.fans td.n { text-align: right; font-variant-numeric: tabular-nums }
.fans tr.in td:first-child { font-weight: 600 } .fans .bar { height: .7rem; border-radius: 2px; background: #b9c4cf }
.fans tr.in .bar { background: #c2571a } .fans .facts { color: #51606e } .fans p { margin: .3rem 0 }
</style>
"""


def fragment(e: Explanation, *, most: int = 12, top: int = 10) -> str:
    """Return the first inputs as HTML to embed: sentence, estimates, and the leading features with their scores."""
    shown = min(len(e), most)
    parts = [STYLE, '<div class="fans">', *(_input(e, i, top) for i in range(shown))]
    if shown < len(e):
        parts.append(f"<p class='facts'>{len(e) - shown} more inputs are not shown.</p>")
    return "\n".join([*parts, "</div>"])


def page(e: Explanation, path: str | Path) -> Path:
    """Write every input to one HTML file that needs nothing else."""
    path = Path(path)
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>fans: necessary and sufficient features</title>'
    path.write_text(head + fragment(e, most=len(e)) + "</html>\n", encoding="utf-8")
    return path


def _input(e: Explanation, i: int, top: int) -> str:
    """Return one input: what was found, how sure it is, and a row for each leading feature."""
    order = e.ranked(i)[:top]
    largest = float(np.abs(e.scores[i]).max()) or 1.0
    words = _emphasise(escape(sentence(e, i)))
    rows = [_row(e, i, int(f), largest) for f in order]
    return (
        f"<p><b>{escape(str(e.ids[i]))}</b>: {escape(e.target_name(i))} = {e.prediction[i]:.3g}. {words}</p>"
        f"<p class='facts'>{_estimates(e, i)}</p>"
        "<table><tr><th>feature</th><th>value</th><th>score</th><th></th></tr>" + "".join(rows) + "</table>"
    )


def _row(e: Explanation, i: int, f: int, largest: float) -> str:
    se = "" if e.scores_se is None else f" ± {e.scores_se[i, f]:.3f}"
    width = 12 * max(float(e.scores[i, f]), 0.0) / largest
    return (
        f"<tr{' class=in' if e.subset[i, f] else ''}><td>{escape(e.feature_names[f])}</td>"
        f"<td>{escape(e.value(i, f))}</td><td class='n'>{e.scores[i, f]:.3f}{se}</td>"
        f"<td><div class='bar' style='width:{width:.2f}rem'></div></td></tr>"
    )


def _estimates(e: Explanation, i: int) -> str:
    texts = []
    for name, value, (low, high) in zip(("PNS", "PN", "PS"), (e.pns[i], e.pn[i], e.ps[i]), e.interval[i], strict=True):
        texts.append(f"{name} undefined" if math.isnan(value) else f"{name} {value:.2f} [{low:.2f}, {high:.2f}]")
    return ", ".join(texts) + f" at {e.confidence:.0%} confidence" + (f"; {escape(e.notes[i])}" if e.notes[i] else "")


def _emphasise(text: str) -> str:
    """Turn the sentence's asterisks into italics."""
    parts = text.split("*")
    return "".join(f"<em>{part}</em>" if n % 2 else part for n, part in enumerate(parts))
