"""Explained graphs as figures of matplotlib."""

from typing import Any

from fans.explanation import Explanation
from fans.modalities.graph import drawing as graphs
from fans.report.colours import CHOSEN, FAINT, INK, OTHER, OUTLINE
from fans.report.figures import explain, grid, halo, literal, new_figure, not_drawn, title
from fans.report.sentences import chosen_count, legend


def plot(e: Explanation, columns: int) -> Any:
    """Draw every input as a graph: the chosen edges in colour, the explained node marked."""
    shown, rows, columns = grid(e, columns)
    figure = new_figure("`plot`", (5.6 * columns, 5.8 * rows + 0.9))
    from matplotlib.lines import Line2D

    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for i in range(shown):
        _graph_panel(axes[i], graphs.drawing(e, i), chosen_count(e, i))
        axes[i].set_title(title(e, i), fontsize=8.5, loc="left", color=INK)
    handles = [
        Line2D([], [], color=CHOSEN, lw=2.6, label="in the subset"),
        Line2D([], [], color=OTHER, lw=1.2, label="not in it (wider: higher score)"),
    ]
    if e.nodes is not None and (e.nodes[:shown] >= 0).any():
        marker: dict[str, Any] = {"marker": "o", "ms": 8, "mfc": OUTLINE, "mec": INK}
        handles.append(Line2D([], [], color="none", **marker, label="explained node"))
    explain(figure, legend(e) + not_drawn(e), handles)
    return figure


def _graph_panel(axis: Any, drawing: graphs.Drawing, caption: str) -> None:
    """Draw one graph."""
    for line in drawing.lines:
        axis.plot(*zip(*line.ends, strict=True), color=line.colour, lw=line.width, zorder=1 + line.chosen)
    for node, (x, y) in drawing.places.items():
        near, name = node in drawing.named, drawing.names.get(node, "")
        size, fill = (190, OUTLINE) if node == drawing.explained else (150, "white") if near else (84, "white")
        axis.scatter([x], [y], s=size, color=fill, edgecolors=INK if near else FAINT, lw=0.9 if near else 0.5, zorder=3)
        style: dict[str, Any] = {"ha": "center", "zorder": 4, "color": INK if near else FAINT}
        if graphs.fits(name):
            axis.annotate(name, (x, y), va="center", fontsize=5.8 if near else 4.4, **style)
            continue
        text = axis.annotate(literal(name), (x, y), (0, 8), textcoords="offset points", fontsize=6.5, **style)
        text.set_path_effects(halo())
    axis.annotate(caption + drawing.left_out, (0, -0.01), xycoords="axes fraction", va="top", fontsize=7.5, color=FAINT)
    axis.margins(0.05)
    axis.set_aspect("equal", adjustable="datalim")
