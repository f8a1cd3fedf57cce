"""What is shown of an explained text: its runs, each of one feature or of none, in their order."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from fans.explanation import Attribution, Explanation

AROUND = 8
"""Runs to either side of a chosen one that an excerpt has: about four words."""

FEWEST = 3
"""Features about which an excerpt is, where none was chosen."""


@dataclass(frozen=True)
class Run:
    """A stretch of a text.

    Attributes:
        text: as it is written.
        feature: it belongs to; -1 for none, as spaces and punctuation between words.
        score: of that.
        chosen: whether it is in the subset.
    """

    text: str
    feature: int = -1
    score: float = 0.0
    chosen: bool = False


def detail(e: Attribution, i: int, name: str) -> Any:
    """Return what the explanation keeps of text `i` by this name."""
    return e.details[name][i]


def runs(e: Explanation, i: int) -> list[Run]:
    """Return text `i` from its beginning to its end."""
    text, found, at = str(detail(e, i, "text")), list[Run](), 0
    spans = sorted((a, b, f) for f, some in enumerate(detail(e, i, "spans")) for a, b in some)
    for start, end, f in spans:
        if start > at:
            found.append(Run(text[at:start]))
        found.append(Run(text[start:end], f, float(np.nan_to_num(e.scores[i, f])), bool(e.subset[i, f])))
        at = end
    return [*found, Run(text[at:])] if at < len(text) else found


def excerpt(e: Explanation, i: int, most: int) -> list[Run]:
    """Return text `i`, or of one of more than so many letters what is around its chosen words."""
    whole = runs(e, i)
    if sum(len(run.text) for run in whole) <= most:
        return whole
    leading = {int(f) for f in e.ranked(i)[:FEWEST]}
    wanted = [run.chosen if e.subset[i].any() else run.feature in leading for run in whole]
    near = {k for at in np.flatnonzero(wanted).tolist() for k in range(at - AROUND, at + AROUND + 1)}
    shown, left = list[Run](), most
    for is_near, group in itertools.groupby(enumerate(whole), key=lambda pair: pair[0] in near):
        part = [run for _, run in group] if is_near else [Run(" … ")]
        shown += part
        left -= sum(len(run.text) for run in part)
        if left < 0:
            return [*_shortest(shown, most), Run(" …")]
    return shown


def _shortest(found: list[Run], most: int) -> list[Run]:
    """Return the first runs of so many letters together, at least one, which is cut if it has more."""
    lengths = np.cumsum([len(run.text) for run in found])
    n = int((lengths <= most).sum())
    first = found[0]
    return found[:n] or [Run(first.text[:most], first.feature, first.score, first.chosen)]


def largest_score(e: Explanation, shown: int) -> float:
    """Return the largest absolute score of the first texts: the end of their common colour scale."""
    return float(np.nanmax(np.abs(e.scores[:shown]), initial=0.0)) or 1.0


def lowest_score(e: Explanation, shown: int) -> float:
    """Return the lowest score of the first texts, at most 0: where their colour scale begins."""
    return min(0.0, float(np.nanmin(e.scores[:shown], initial=0.0)))
