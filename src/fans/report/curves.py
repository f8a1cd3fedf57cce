"""`fans.Curve` as a picture and as a table: PNS, keep and change against the size of the subset."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from fans.curve import Curve
from fans.errors import InputError, check_whole, is_number
from fans.report.colours import CHOSEN, FAINT, INK, LINES
from fans.report.figures import MOST_PANELS, explain, literal, new_figure, percentages, written
from fans.report.sentences import number, percent, shortened

WIDE_RANGE = 30
"""From so many features on sizes are on a logarithmic scale."""

STYLES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pns": ("both (PNS)", CHOSEN, {"lw": 2.2, "ls": "-", "marker": "o", "ms": 4, "zorder": 3}),
    "holds": ("keep", LINES[2], {"lw": 1.3, "ls": "--", "marker": "s", "ms": 3, "zorder": 2}),
    "changes": ("change", LINES[1], {"lw": 1.3, "ls": ":", "marker": "^", "ms": 3.5, "zorder": 2}),
}
"""What each line is called, its colour, and how it is told from the others without colour."""

PLACE = {"pns": 0, "changes": 1, "holds": 2}
"""Where `Curve.intervals` has each."""


def plot(curve: Curve, path: str | Path | None, tolerance: float | None, columns: int | None) -> Any:
    """Draw the curves of the first inputs (at most twelve) at one tolerance, by default each explanation's own."""
    if columns is not None:
        check_whole("columns", columns, 1)
    if not len(curve):
        raise InputError("Expected the curve of at least one input, got none")
    shown = min(len(curve), MOST_PANELS)
    places = [_tolerance(curve, i, tolerance) for i in range(shown)]
    columns = min(columns or 3, shown)
    rows = math.ceil(shown / columns)
    figure = new_figure("`plot`", (max(6.0, 3.9 * columns), 3.3 * rows + 0.9))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axis in axes[shown:]:
        axis.set_axis_off()
    for i, at in enumerate(places):
        _panel(axes[i], curve, i, at)
        if i % columns == 0:
            axes[i].set_ylabel(f"share of trials, {percent(curve.confidence)} interval", fontsize=8.5, color=INK)
    handles = _keys(curve)
    left = f" {len(curve) - shown:,} more inputs are not drawn." if len(curve) > shown else ""
    words = (
        "keep: everything else changed, the prediction stays within the tolerance; change: only the subset changed, it "
        f"moves by more; both: both at once. All sizes are of the same trials.{left}"
    )
    explain(figure, words, handles)
    return written(figure, path)


def title(curve: Curve, i: int) -> str:
    """Return how an input is called."""
    name = curve.ids[i]
    return shortened(name, 44) if isinstance(name, str) else f"input {name}"


def _tolerance(curve: Curve, i: int, tolerance: float | None) -> int:
    """Return the place of a tolerance among those of an input."""
    if tolerance is None:
        return int(curve.used[i])
    known = curve.tolerances[i]
    if is_number(tolerance) and np.isclose(known, tolerance, rtol=1e-4, atol=0).any():
        return int(np.abs(known - tolerance).argmin())
    raise InputError(
        f"Expected `tolerance` as one that was looked at, got {tolerance!r}; of {title(curve, i)} these are "
        f"{', '.join(f'{c:.6g}' for c in known)}"
    )


def _panel(axis: Any, curve: Curve, i: int, at: int) -> None:
    """Draw the curves of one input at one of its tolerances."""
    n = int((curve.sizes[i] >= 0).sum())
    sizes = curve.sizes[i, :n]
    for name, (_, colour, style) in STYLES.items():
        low, high = curve.intervals[i, :n, at, PLACE[name]].T
        axis.fill_between(sizes, low, high, color=colour, alpha=0.2 if name == "pns" else 0.1, lw=0)
        axis.plot(sizes, getattr(curve, name)[i, :n, at], color=colour, **style)
    chosen = int(sizes[curve.chosen[i]])
    axis.axvline(chosen, color=INK, lw=0.9, ls=(0, (4, 3)), zorder=1)
    if sizes[-1] > WIDE_RANGE:
        axis.set_xscale("symlog", linthresh=1)
        axis.xaxis.set_major_formatter("{x:,.0f}")
    else:
        axis.xaxis.get_major_locator().set_params(integer=True)
    own = "" if at == curve.used[i] else ", not the explanation's own"
    size = f"chosen: {chosen:,} of {n_features(curve, i):,}"
    said = f"{title(curve, i)}\n{size}; tolerance {number(curve.tolerances[i, at])}{own}"
    axis.set_title(literal(said), fontsize=8.5, loc="left", color=INK)
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlabel("size of the subset", fontsize=8.5, color=INK)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8, colors=FAINT)
    percentages(axis.yaxis)


def n_features(curve: Curve, i: int) -> int:
    """Return how many features an input has."""
    return int((curve.order[i] >= 0).sum())


def _keys(curve: Curve) -> list[Any]:
    """Return what lines and bands are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=colour, label=name, **style) for name, colour, style in STYLES.values()]
    handles.append(Patch(color=FAINT, alpha=0.2, lw=0, label=f"{percent(curve.confidence)} interval"))
    return [*handles, Line2D([], [], color=INK, lw=0.9, ls=(0, (4, 3)), label="chosen size")]
