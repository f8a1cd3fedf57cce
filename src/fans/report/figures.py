"""Pictures of explanations (matplotlib)."""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fans.errors import InputError, extra
from fans.explanation import Explanation
from fans.report import graphs, images
from fans.report.images import CHOSEN, INK, OUTLINE, STOPS
from fans.report.scenes import Box, Dots, Line, Part, Scene, Text
from fans.report.sentences import (
    chosen_count,
    column_legend,
    direction_text,
    half_width,
    headline,
    left_out,
    legend,
    outcome,
    percent,
    score_label,
    shortened,
    stability_text,
    subset_caption,
)
from fans.report.tables import Table

OTHER, FAINT = "#b9c4cf", "#51606e"
LINES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#51606e")
"""Colours that colour-blind readers tell apart (Paul Tol's)."""
MOST_PANELS = 12


def plot(e: Explanation, path: str | Path | None = None, *, top: int = 10, columns: int | None = None) -> Any:
    """Draw the first inputs (at most twelve): images as such, else the leading features as bars."""
    match e.modality:
        case "image":
            figure = _images(e, columns or 2)
        case "graph":
            figure = _graphs(e, columns or 3)
        case _:
            figure = _bars(e, top, columns)
    return _written(figure, path)


def plot_history(e: Explanation, path: str | Path | None = None) -> Any:
    """Draw the loss of every input at each step, and their mean."""
    if e.history is None:
        raise InputError(
            f"Expected an explanation by a method that takes steps, got {e.method!r} without a history; "
            'explain with solver="gradient"'
        )
    figure = _figure("`plot_history`", (6.0, 3.6))
    axis = figure.subplots()
    loss = -np.asarray(e.history)
    steps = np.arange(1, loss.shape[1] + 1)
    axis.plot(steps, loss.T, color=OTHER, lw=0.8, alpha=0.8)
    label = f"mean of {len(e)} inputs" if len(e) > 1 else "loss"
    axis.plot(steps, _held(loss).mean(0), color=CHOSEN, lw=2, label=label)
    axis.set_xlabel("step", fontsize=9, color=INK)
    axis.set_ylabel("loss (negative objective)", fontsize=9, color=INK)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8, colors=FAINT)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.margins(x=0.02)
    axis.legend(frameon=False, fontsize=8.5)
    return _written(figure, path)


def plot_curves(table: Table, curves: Sequence[Mapping[str, Any]], path: Any = None) -> Any:
    """Draw some columns of a table as curves, a line a method: datasets below each other, curves side by side.

    Args:
        table: whose entries are drawn.
        curves: each a `title`, what `x` is, and the `columns` at every value of x.
        path: where to write it, a name or a file.
    """
    figure = _figure("curves", (4.2 * len(curves) + 2.2, 2.9 * len(table.datasets)))
    axes = figure.subplots(len(table.datasets), len(curves), squeeze=False, sharex=True, sharey="row")
    styles = [(colour, dash) for dash in ("-", "--", ":") for colour in LINES]
    names = [row for row, _ in table.rows if any(place[0] == row for place in table.entries)]
    for i, dataset in enumerate(table.datasets):
        for j, curve in enumerate(curves):
            axis = axes[i][j]
            for name, (colour, dash) in zip(names, itertools.cycle(styles), strict=False):
                found = {x: table.entries.get((name, dataset, column)) for x, column in curve["columns"].items()}
                points = [(x, e.value) for x, e in found.items() if e]
                if points:
                    axis.plot(*zip(*points, strict=True), color=colour, ls=dash, lw=1.4, marker=".", ms=4, label=name)
            axis.set_title(f"{curve['title']}, {dataset}", fontsize=9, color=INK)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8, colors=FAINT)
    for axis, curve in zip(axes[-1], curves, strict=True):
        axis.set_xlabel(curve["x"], fontsize=8.5, color=INK)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def _held(loss: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the loss with what comes after an input's last step held at its last value."""
    last = np.maximum.accumulate(np.where(np.isnan(loss), 0, np.arange(loss.shape[1])), axis=1)
    return np.take_along_axis(loss, last, 1)


def _figure(purpose: str, size: tuple[float, float], layout: Literal["constrained"] | None = "constrained") -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise extra("matplotlib", "plot", purpose) from None
    return Figure(figsize=size, layout=layout)


def _written(figure: Any, path: str | Path | None) -> Any:
    if path is not None:
        figure.savefig(Path(path), dpi=130)
    return figure


def _grid(e: Explanation, columns: int) -> tuple[int, int, int]:
    """Return how many inputs are shown, in how many rows and columns."""
    shown = min(len(e), MOST_PANELS)
    columns = max(1, min(columns, shown))
    return shown, math.ceil(shown / columns), columns


def _bars(e: Explanation, top: int, columns: int | None) -> Any:
    """Draw the leading features of every input: scores with intervals, directions, the chosen ones marked."""
    orders = [[int(f) for f in e.ranked(i)[:top]] for i in range(min(len(e), MOST_PANELS))]
    labels = [[_label(e, i, f) for f in order] for i, order in enumerate(orders)]
    beside = LETTER * max((len(label) for some in labels for label in some), default=0)
    width = max(5.4, beside + 3.6)
    shown, rows, columns = _grid(e, columns or (2 if len(e) == 4 or width > WIDE else 3))
    tallest = max(map(len, orders))
    figure = _figure("`plot`", (width * columns, (0.27 * tallest + 1.6) * rows + 0.85))
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[shown:]:
        axis.set_axis_off()
    for i, (order, some) in enumerate(zip(orders, labels, strict=True)):
        _panel(axes[i], e, i, order, some)
        axes[i].set_title(_title(e, i, int((width - beside) / LETTER)), fontsize=8.5, loc="left", color=INK)
    handles: list[Any] = [Patch(color=CHOSEN, label="✓ in the subset"), Patch(color=OTHER, label="not in it")]
    if e.scores_se is not None:
        handles.append(Line2D([], [], color=INK, lw=1, label=f"{percent(e.confidence)} interval"))
    _explained(figure, f"{legend(e)} {column_legend(e)}{_not_drawn(e)}", handles)
    return figure


LETTER, WIDE = 0.066, 7.0
"""Inches that a letter of a label takes, about; a panel wider than the second has only one beside it."""


def _label(e: Explanation, i: int, f: int) -> str:
    """Return what stands before a bar."""
    return f"{'✓ ' if e.subset[i, f] else ''}{shortened(e.name(i, f), 44)} = {shortened(e.value(i, f), 24)}"


def _not_drawn(e: Explanation) -> str:
    """Say how many inputs are too many."""
    return f" {len(e) - MOST_PANELS:,} more inputs are not drawn." if len(e) > MOST_PANELS else ""


def _explained(figure: Any, words: str, handles: list[Any]) -> None:
    """Add what colours mean above everything, and what words mean below."""
    figure.supxlabel(_wrapped(figure, words), fontsize=7, color=FAINT, x=0.01, ha="left")
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=8)


def _wrapped(figure: Any, words: str) -> str:
    """Return words in small print as lines that fit the figure."""
    return textwrap.fill(words, int(17 * figure.get_figwidth()))


def _panel(axis: Any, e: Explanation, i: int, order: Sequence[int], labels: Sequence[str]) -> None:
    """Draw some features of one input of a table."""
    colours = [CHOSEN if e.subset[i, f] else OTHER for f in order]
    places, errors = np.arange(len(order)), np.array([half_width(e, i, f) or math.nan for f in order])
    whiskers = None if np.isnan(errors).all() else errors
    style: dict[str, Any] = {"lw": 1, "ecolor": INK, "capsize": 2}
    axis.barh(places, e.scores[i, order], xerr=whiskers, color=colours, height=0.7, error_kw=style)
    axis.set_yticks(places, [_literal(label) for label in labels], fontsize=7.5, color=INK)
    for label, f in zip(axis.get_yticklabels(), order, strict=True):
        label.set_fontweight("bold" if e.subset[i, f] else "normal")
    axis.set_ylim(len(order) - 0.4, -0.6)
    if not np.nan_to_num(e.scores[i, order]).any() and whiskers is None:
        axis.set(xlim=(0, 1), xticks=[0])
    axis.locator_params(axis="x", nbins=6)
    if max(map(abs, axis.get_xlim())) >= 1000:
        axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.axvline(0, color=INK, lw=0.6)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=7, colors=FAINT)
    axis.set_xlabel("\n".join(filter(None, [score_label(e), left_out(e, i, order)])), fontsize=7.5, color=FAINT)
    _columns(axis, e, i, order)


def _columns(axis: Any, e: Explanation, i: int, order: Sequence[int]) -> None:
    """Write the direction and the stability of each feature to the right of its bar, each below its heading."""
    texts = {
        "if changed": [direction_text(e, i, f) for f in order],
        "chosen in": [stability_text(e, i, f) for f in order],
    }
    pad = 4.0
    for heading, words in texts.items():
        if any(words):
            right = axis.secondary_yaxis("right")
            right.set_yticks(range(-1, len(order)), [heading, *words], fontsize=7, color=INK)
            right.get_yticklabels()[0].set_color(FAINT)
            right.tick_params(length=0, pad=pad)
            right.spines["right"].set_visible(False)
            axis.set_ylim(len(order) - 0.4, -1.2)
            pad += 72 * 0.9 * LETTER * max(map(len, [heading, *words])) + 6


def _graphs(e: Explanation, columns: int) -> Any:
    """Draw every input as a graph: the chosen edges in colour, the explained node marked."""
    shown, rows, columns = _grid(e, columns)
    figure = _figure("`plot`", (5.6 * columns, 5.8 * rows + 0.9))
    from matplotlib.lines import Line2D

    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for i in range(shown):
        _graph_panel(axes[i], graphs.drawing(e, i), chosen_count(e, i))
        axes[i].set_title(_title(e, i), fontsize=8.5, loc="left", color=INK)
    handles = [
        Line2D([], [], color=CHOSEN, lw=2.6, label="in the subset"),
        Line2D([], [], color=OTHER, lw=1.2, label="not in it (wider: higher score)"),
    ]
    if e.nodes is not None and (e.nodes[:shown] >= 0).any():
        marker: dict[str, Any] = {"marker": "o", "ms": 8, "mfc": OUTLINE, "mec": INK}
        handles.append(Line2D([], [], color="none", **marker, label="explained node"))
    _explained(figure, legend(e) + _not_drawn(e), handles)
    return figure


def _graph_panel(axis: Any, drawing: graphs.Drawing, caption: str) -> None:
    """Draw one graph."""
    from matplotlib.patheffects import withStroke

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
        text = axis.annotate(_literal(name), (x, y), (0, 8), textcoords="offset points", fontsize=6.5, **style)
        text.set_path_effects([withStroke(linewidth=1.8, foreground="white")])
    axis.annotate(caption + drawing.left_out, (0, -0.01), xycoords="axes fraction", va="top", fontsize=7.5, color=FAINT)
    axis.margins(0.05)
    axis.set_aspect("equal", adjustable="datalim")


def _literal(text: str) -> str:
    """Return a text in which dollar signs are no mathematics."""
    return text.replace("$", r"\$")


def _title(e: Explanation, i: int, width: int = 200) -> str:
    """Return the prediction, in lines of so many letters, and the three shares."""
    by = f"by {chosen_count(e, i)}".replace(" ", "\xa0") if e.modality == "table" and e.subset[i].any() else ""
    said = "\xa0".join(outcome(e, i).rsplit(" ", 2))
    lines = textwrap.wrap(f"{e.title(i)}: {said} {by}", width, break_on_hyphens=False)
    return _literal("\n".join([*lines, headline(e, i)]).replace("\xa0", " "))


def _images(e: Explanation, columns: int) -> Any:
    """Draw every input as three pictures (itself, its scores, its subset) on one colour scale."""
    shown, rows, columns = _grid(e, columns)
    height, width = images.pixel_mask(e, 0).shape
    sheet = _Sheet(height, width, rows, columns)
    figure = _figure("`plot`", sheet.size, layout=None)
    low, largest = images.lowest_score(e, shown), images.largest_score(e, shown)
    for i in range(shown):
        row, column = divmod(i, columns)
        _image_panels([figure.add_axes(sheet.place(row, column, k)) for k in range(3)], e, i, largest)
    _colour_bar(figure, figure.add_axes(sheet.place(0, columns, 0, width=0.11)), low, largest)
    words, style = _wrapped(figure, legend(e) + _not_drawn(e)), {"fontsize": 6.5, "color": FAINT, "va": "bottom"}
    figure.text(sheet.margin / sheet.size[0], 0.06 / sheet.size[1], words, **style)
    return figure


def _colour_bar(figure: Any, axis: Any, low: float, largest: float) -> None:
    """Draw the scale of scores, below 0 only as far as they go."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colours = LinearSegmentedColormap.from_list("fans", [((at + 1) / 2, colour) for at, colour in STOPS])
    bar = figure.colorbar(ScalarMappable(Normalize(-largest, largest), colours), cax=axis)
    axis.set_ylim(low, largest)
    ticks = [*([low] if low < -0.1 * largest else []), *(largest * np.linspace(0, 1, 5))]
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    axis.set_title("score", fontsize=7.5, color=FAINT, loc="left")
    axis.tick_params(labelsize=7, colors=FAINT, length=2)
    bar.outline.set_visible(False)


class _Sheet:
    """Where the pictures of images go, in inches: rows of groups of three, with room for titles and captions."""

    margin, above, below, within, between, bar, foot = 0.12, 0.44, 0.34, 0.1, 0.34, 0.6, 0.3

    def __init__(self, height: int, width: int, rows: int, columns: int) -> None:
        inch = 1.8 / max(height, width)
        self.tall, self.wide = max(inch * height, 0.5), max(inch * width, 1.35)
        self.group = 3 * self.wide + 2 * self.within
        self.line = self.above + self.tall + self.below
        self.size = (self.margin + columns * (self.group + self.between) + self.bar, rows * self.line + self.foot)

    def place(self, row: int, column: int, k: int, width: float | None = None) -> tuple[float, float, float, float]:
        """Return left, bottom, width and height of picture `k` of a group, as shares of the sheet."""
        left = self.margin + column * (self.group + self.between) + k * (self.wide + self.within)
        top = row * self.line + self.above
        across, down = self.size
        return left / across, 1 - (top + self.tall) / down, (width or self.wide) / across, self.tall / down


def _image_panels(axes: list[Any], e: Explanation, i: int, largest: float) -> None:
    """Draw the three pictures of one input."""
    labels = ("image", "scores", subset_caption(e, i))
    for axis, label, panel in zip(axes, labels, images.panels(e, i, largest), strict=True):
        axis.imshow(np.clip(panel, 0, 1))
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
        axis.set_xlabel(label, fontsize=7.5, color=FAINT, labelpad=3)
    axes[0].set_title(_title(e, i), fontsize=8.5, loc="left", color=INK)


def plot_scene(scene: Scene, path: str | Path | None = None) -> Any:
    """Draw a scene, a hundred of its pixels to the inch."""
    figure = _figure("`plot`", (scene.width / 100, scene.height / 100), layout=None)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axis.set_axis_off()
    for order, part in enumerate(scene.parts):
        _draw(axis, part, order)
    return _written(figure, path)


def _draw(axis: Any, part: Part, order: int) -> None:
    """Draw a part of a scene; sizes of type, lines and dots are in points, of which 72 are an inch."""
    match part:
        case Box(x, y, width, height, colour):
            from matplotlib.patches import Rectangle

            axis.add_patch(Rectangle((x, y), width, height, color=colour, lw=0, zorder=order))
        case Line(x, y, x2, y2, colour, width):
            axis.plot([x, x2], [y, y2], color=colour, lw=0.72 * width, solid_capstyle="butt", zorder=order)
        case Dots(xs, ys, radius, colour):
            axis.scatter(xs, ys, s=(0.72 * 2 * radius) ** 2, color=colour, lw=0, zorder=order)
        case Text(x, y, words, size, colour, anchor, bold):
            style: dict[str, Any] = {"fontsize": 0.72 * size, "fontweight": "bold" if bold else "normal"}
            side = {"start": "left", "middle": "center", "end": "right"}[anchor]
            axis.text(x, y, words, color=colour, ha=side, va="baseline", parse_math=False, zorder=order, **style)
