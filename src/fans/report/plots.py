"""Pictures of many inputs together: keep against change, and how often each feature is chosen."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fans.errors import InputError, check_whole, choose
from fans.explanation import Explanation
from fans.report.colours import CHOSEN, FAINT, INK
from fans.report.figures import bars, explain, halo, literal, new_figure, percentages, plot, written
from fans.report.overview import Estimate, share_text, units, wilson
from fans.report.sentences import percent, shortened, unit_word
from fans.types import Array

KINDS = ("input", "bars", "keep_change", "often")

HALF = 0.5
"""Keeping a subset is sufficient, and changing it necessary, where that does it in more than this share of trials."""

MOST_CROSSES, MOST_LABELS = 60, 12
"""Inputs whose intervals a scatter has, and that it calls by their names."""

QUADRANTS = ("necessary and sufficient", "sufficient only", "necessary only", "neither")

DOT, LARGEST = 26.0, 1300.0
"""Areas of dots in a scatter, in square points: of one input among few, and the largest."""

MARGIN = 0.08
"""Above and below a scatter, where nothing is drawn: for what its quadrants are called."""

LINE, LETTER, BESIDE = 0.03, 0.0155, 0.03
"""Of names in a scatter, as shares of its side: from one to the next, a letter's width, and from the dot."""


def draw(e: Explanation, path: str | Path | None, kind: str, top: int, columns: int | None) -> Any:
    """Draw an explanation as a kind of picture, write it where asked to, and return the figure."""
    choose("`kind`", kind, KINDS)
    check_whole("top", top, 1)
    if columns is not None:
        check_whole("columns", columns, 1)
    if not len(e):
        raise InputError("Expected at least one explained input for `plot`, got none; explain some first")
    if kind == "input":
        return plot(e, path, top=top, columns=columns)
    figure = bars(e, top, columns) if kind == "bars" else scatter(e) if kind == "keep_change" else often(e, top)
    return written(figure, path)


# --- Keep against change ---------------------------------------------------------------------------------------------


def quadrants(e: Explanation) -> Array:
    """Return in which of `QUADRANTS` each input is, `(B,)`; -1 where nothing was chosen, or nothing is known."""
    keeps, moves = e.holds > HALF, e.changes > HALF
    found = np.where(keeps, np.where(moves, 0, 1), np.where(moves, 2, 3))
    return np.where(e.subset.any(1) & ~np.isnan(e.holds + e.changes), found, -1)


def scatter(e: Explanation) -> Any:
    """Draw a dot for each input: how often keeping the subset leaves the prediction, and changing it changes that."""
    place = quadrants(e)
    shown = np.flatnonzero(place >= 0)
    figure = new_figure("`plot`", (6.6, 7.0))
    axis = figure.subplots()
    axis.set(xlim=(-0.03, 1.03), ylim=(-MARGIN, 1 + MARGIN), aspect="equal")
    _corners(axis, np.bincount(place[shown], minlength=4), len(shown))
    crossed = len(shown) <= MOST_CROSSES and not np.isnan(e.share_interval[shown]).all()
    if crossed:
        _crosses(axis, e, shown)
    at = np.stack([e.holds[shown], e.changes[shown]], 1).round(2)
    _, which, counts = np.unique(at, axis=0, return_inverse=True, return_counts=True)
    spots = np.stack([np.bincount(which.ravel(), of[shown]) for of in (e.holds, e.changes)], 1) / counts[:, None]
    one, most = _areas(len(shown))
    style: dict[str, Any] = {"color": CHOSEN, "alpha": 0.75, "ec": INK, "zorder": 3, "clip_on": False}
    axis.scatter(*spots.T, s=np.minimum(one * counts, one * most), lw=0.8 if one == DOT else 0.3, **style)
    if len(shown) <= MOST_LABELS:
        names = [[e.title(int(i)) for i in shown[which.ravel() == k]] for k in range(len(spots))]
        _called(axis, spots, [_listing(some) for some in names])
    ends = f", {percent(e.confidence)} interval" if crossed else ""
    axis.set_xlabel(f"keep: everything else changed, the prediction stays{ends}", fontsize=9, color=INK)
    axis.set_ylabel(f"change: only the subset changed, the prediction moves{ends}", fontsize=9, color=INK)
    percentages(axis.xaxis, axis.yaxis)
    axis.spines[["top", "right"]].set_visible(False)
    explain(figure, " ".join(_about_scatter(e, shown, counts, crossed=crossed)), _keys(e, crossed=crossed))
    return figure


def _areas(n: int) -> tuple[float, int]:
    """Return the area of the dot of one input among so many, in square points, and how many have the largest dot."""
    one = DOT if n <= MOST_CROSSES else max(DOT * math.sqrt(MOST_CROSSES / n), 2.0)
    return one, int(LARGEST / one)


def _crosses(axis: Any, e: Explanation, shown: Array) -> None:
    """Draw the intervals of both shares."""
    (low_y, high_y), (low_x, high_x) = e.share_interval[shown].transpose(1, 2, 0)
    style: dict[str, Any] = {
        "color": FAINT,
        "lw": 0.8,
        "alpha": 0.7 if len(shown) <= MOST_LABELS else 0.4,
        "zorder": 2,
        "clip_on": False,
    }
    axis.hlines(e.changes[shown], low_x, high_x, **style)
    axis.vlines(e.holds[shown], low_y, high_y, **style)


def _corners(axis: Any, counts: Array, n: int) -> None:
    """Part the four quadrants, and say what each is and how many inputs are there."""
    for line in (axis.axhline, axis.axvline):
        line(HALF, color=FAINT, lw=0.8, ls=(0, (4, 3)), zorder=1)
    axis.fill_between([HALF, 1.03], HALF, 1 + MARGIN, color=CHOSEN, alpha=0.06, lw=0, zorder=0)
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": INK, "fontsize": 8.5, "zorder": 4}
    for k, words in enumerate(QUADRANTS):
        x, y = (0.235, 0.765)[k in {0, 1}], (-MARGIN / 2, 1 + MARGIN / 2)[k in {0, 2}]
        axis.text(x, y, f"{words}: {counts[k]:,} of {n:,}", **style)


def _listing(names: Sequence[str]) -> str:
    """Return a few names and how many more there are."""
    few = names if len(names) <= 3 else names[:2]
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    return shortened(", ".join(few), 44) + more


def _called(axis: Any, spots: Array, names: Sequence[str]) -> None:
    """Write the names of dots beside them, none over another: up or down until there is room."""
    taken: list[tuple[float, float, float]] = []
    steps = sorted((LINE * step for step in range(-30, 31)), key=abs)
    for k in np.lexsort((spots[:, 0], -spots[:, 1])).tolist():
        x, y = spots[k].tolist()
        wide, right = LETTER * len(names[k]), x > HALF
        start = x - BESIDE - wide if right else x + BESIDE
        tried = [y + step for step in steps if 0 <= y + step <= 1]
        free = (
            at
            for at in tried
            if all(abs(at - other) >= LINE or start > end or start + wide < begin for begin, other, end in taken)
        )
        at = next(free, y)
        taken.append((start, at, start + wide))
        arrow = {"arrowstyle": "-", "color": FAINT, "lw": 0.5, "shrinkA": 0, "shrinkB": 4}
        style: dict[str, Any] = {"fontsize": 7.5, "color": INK, "va": "center", "zorder": 4}
        place = (x - BESIDE if right else x + BESIDE, at)
        side = "right" if right else "left"
        text = axis.annotate(literal(names[k]), (x, y), place, arrowprops=arrow, ha=side, **style)
        text.set_path_effects(halo())


def _about_scatter(e: Explanation, shown: Array, counts: Array, *, crossed: bool) -> list[str]:
    """Say what the dots are, and which inputs have none."""
    n, words = len(e), ["Shares of trials near each input; dashed: half of them."]
    if counts.max(initial=1) > 1:
        most = _areas(len(shown))[1]
        more = f"; of more than {most:,} as of so many" if counts.max() > most else ""
        words.append(f"Area: how many are at one place, to 1 %{more}.")
    if not crossed and len(shown) > MOST_CROSSES:
        words.append(f"Intervals are drawn of at most {MOST_CROSSES} {units(e, 2)[0]}.")
    empty = int((~e.subset.any(1)).sum())
    if empty:
        words.append(f"Not drawn: {empty:,} of {n:,} {units(e, n)[0]}, whose subset is empty.")
    if n - len(shown) - empty:
        words.append(f"Not drawn: {n - len(shown) - empty:,} of {n:,} {units(e, n)[0]}, without estimates.")
    return words


def _keys(e: Explanation, *, crossed: bool) -> list[Any]:
    """Return what dots and lines are."""
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"marker": "o", "ms": 5.5, "mfc": CHOSEN, "mec": INK, "ls": "none"}
    handles = [Line2D([], [], **dot, label=f"the subset of one {units(e, 1)[0]}")]
    if crossed:
        handles.append(Line2D([], [], color=FAINT, lw=0.8, label=f"{percent(e.confidence)} interval"))
    return handles


# --- How often features are chosen -----------------------------------------------------------------------------------


class Often(NamedTuple):
    """A feature by its name: the share of the `n` inputs with it that have it in their subset (Wilson's interval)."""

    name: str
    chosen: Estimate
    n: int


def counted(e: Explanation) -> list[Often]:
    """Return how often each feature is in the subset of an input that has it, the highest lower end first."""
    if e.elements.ndim < e.inputs.ndim:
        has, chosen = e.present.sum(0).tolist(), (e.subset & e.present).sum(0).tolist()
        found = [(name, k, n) for name, k, n in zip(e.feature_names, chosen, has, strict=True) if n]
    elif e.presenter.together(e, 0):
        raise InputError(
            f'Expected inputs that share their features for kind="often", got {len(e)} {units(e, len(e))[0]} with '
            f"{unit_word(e, 2)} of their own, of which no two are the same; explain by patches or pixels"
        )
    else:
        by_name: dict[str, list[int]] = {}
        for i, f in np.argwhere(e.present).tolist():
            tally = by_name.setdefault(e.name(i, f), [0, 0])
            tally[0] += int(e.subset[i, f])
            tally[1] += 1
        found = [(name, k, n) for name, (k, n) in by_name.items()]
    listed = [Often(name, wilson(k, n, e.confidence), n) for name, k, n in found]
    return sorted(listed, key=lambda one: (-one.chosen.low, -one.chosen.value, -one.n))


def often(e: Explanation, top: int) -> Any:
    """Draw the features that are most often in the subset: shares with Wilson's intervals, and of how many."""
    found = counted(e)
    some, n = found[:top], len(e)
    names = [shortened(one.name, 44) for one in some]
    figure = new_figure("`plot`", (6.4 + LETTER * 4 * max(map(len, names), default=0), 0.3 * len(some) + 1.5))
    axis = figure.subplots()
    places = np.arange(len(some))
    values, low, high = np.array([one.chosen for one in some]).T
    style: dict[str, Any] = {"lw": 1, "ecolor": INK, "capsize": 2}
    axis.barh(places, values, xerr=(values - low, high - values), color=CHOSEN, height=0.66, error_kw=style)
    axis.set_yticks(places, [literal(name) for name in names], fontsize=8, color=INK)
    axis.set(xlim=(0, 1), ylim=(len(some) - 0.4, -0.6))
    percentages(axis.xaxis)
    right = axis.secondary_yaxis("right")
    right.set_yticks(places, [f"{share_text(one.chosen)} of {one.n:,}" for one in some], fontsize=7.5, color=INK)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    all_have = all(one.n == n for one in found)
    of = f"of {n:,} {units(e, n)[0]}" if all_have else f"of the {units(e, 2)[0]} with this {unit_word(e, 1)}"
    interval = f"Wilson's {percent(e.confidence)} interval"
    axis.set_xlabel(f"share {of} that have it in their subset, {interval}", fontsize=8, color=FAINT)
    n_left, n_empty = len(found) - len(some), int((~e.subset.any(1)).sum())
    more = f"{n_left:,} more {unit_word(e, n_left)} not shown. " if n_left else ""
    figure.supxlabel(
        f"{more}{n:,} {units(e, n)[0]}, {n_empty:,} with an empty subset.", fontsize=7, color=FAINT, x=0.01, ha="left"
    )
    return figure
