"""Pictures of explanations (matplotlib)."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from fans.core import Explanation, extra, normal_quantile

CHOSEN, OTHER, INK = "#c2571a", "#b9c4cf", "#1c2733"
MOST_PANELS = 12


def plot(e: Explanation, path: str | Path | None = None, *, top: int = 10, columns: int = 3) -> Any:
    """Draw the leading features of every input (at most twelve): scores with intervals, the chosen ones in colour."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise extra("matplotlib", "plot", "`plot`") from None
    shown = min(len(e), MOST_PANELS)
    columns = max(1, min(columns, shown))
    rows = math.ceil(shown / columns)
    top = min(top, len(e.feature_names))
    figure = Figure(figsize=(4.6 * columns, (0.27 * top + 1.7) * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for i, axis in enumerate(axes):
        if i < shown:
            _panel(axis, e, i, top)
        else:
            axis.set_axis_off()
    if path is not None:
        figure.savefig(Path(path), dpi=130)
    return figure


def _panel(axis: Any, e: Explanation, i: int, top: int) -> None:
    """Draw one input."""
    order = e.ranked(i)[:top]
    scores = e.scores[i, order]
    errors = None if e.scores_se is None else normal_quantile(e.confidence) * e.scores_se[i, order]
    colours = [CHOSEN if e.subset[i, f] else OTHER for f in order]
    places = np.arange(len(order))
    axis.barh(places, scores, xerr=errors, color=colours, height=0.72, error_kw={"lw": 0.8, "ecolor": "#51606e"})
    labels = [f"{e.feature_names[f]} = {e.value(i, int(f))}" for f in order]
    axis.set_yticks(places, labels, fontsize=7.5, color=INK)
    axis.invert_yaxis()
    axis.axvline(0, color=INK, lw=0.6)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=7, colors="#51606e")
    axis.set_title(_title(e, i), fontsize=8.5, loc="left", color=INK)


def _title(e: Explanation, i: int) -> str:
    values = zip(("PNS", "PN", "PS"), (e.pns[i], e.pn[i], e.ps[i]), e.interval[i], strict=True)
    texts = [f"{n} undefined" if math.isnan(v) else f"{n} {v:.2f} [{lo:.2f}, {hi:.2f}]" for n, v, (lo, hi) in values]
    return f"{e.ids[i]}: {e.target_name(i)} = {e.prediction[i]:.3g}\n{texts[0]}\n{texts[1]}  {texts[2]}"
