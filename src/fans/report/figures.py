"""Pictures of explanations (matplotlib)."""

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fans.errors import InputError, extra
from fans.explanation import Explanation
from fans.files import write
from fans.report.colours import CHOSEN, FAINT, INK, OTHER
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
)

MOST_PANELS = 12
"""Inputs that one figure shows."""


def plot(e: Explanation, path: str | Path | None = None, *, top: int = 10, columns: int | None = None) -> Any:
    """Draw the first inputs (at most twelve) as their modality shows them."""
    return written(e.presenter.plot(e, top, columns), path)


def plot_history(e: Explanation, path: str | Path | None = None) -> Any:
    """Draw the loss of every input at each step, and their mean."""
    if e.history is None:
        raise InputError(
            f"Expected an explanation by a method that takes steps, got {e.method!r} without a history; "
            'explain with solver="gradient"'
        )
    figure = new_figure("`plot_history`", (6.0, 3.6))
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
    return written(figure, path)


def _held(loss: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the loss with what comes after an input's last step held at its last value."""
    last = np.maximum.accumulate(np.where(np.isnan(loss), 0, np.arange(loss.shape[1])), axis=1)
    return np.take_along_axis(loss, last, 1)


def new_figure(purpose: str, size: tuple[float, float], layout: Literal["constrained"] | None = "constrained") -> Any:
    """Return an empty figure of a size in inches; `purpose` is what asks for matplotlib."""
    try:
        from fans.report.picture import Picture
    except ImportError:
        raise extra("matplotlib", "plot", purpose) from None
    return Picture(figsize=size, layout=layout)


def written(figure: Any, path: str | Path | None) -> Any:
    """Write a figure where asked to, and return it."""
    if path is not None:
        path, picture = Path(path), io.BytesIO()
        path = path if path.suffix else path.with_suffix(".png")
        figure.savefig(picture, format=path.suffix[1:], dpi=130)
        write(path, picture.getvalue())
    return figure


def grid(e: Explanation, columns: int) -> tuple[int, int, int]:
    """Return how many inputs are shown, in how many rows and columns."""
    shown = min(len(e), MOST_PANELS)
    columns = max(1, min(columns, shown))
    return shown, math.ceil(shown / columns), columns


def bars(e: Explanation, top: int, columns: int | None) -> Any:
    """Draw the leading features of every input: scores with intervals, directions, the chosen ones marked."""
    orders = [[int(f) for f in e.ranked(i)[:top]] for i in range(min(len(e), MOST_PANELS))]
    labels = [[_label(e, i, f) for f in order] for i, order in enumerate(orders)]
    beside = LETTER * max((len(label) for some in labels for label in some), default=0)
    width = max(5.4, beside + 3.6)
    shown, rows, columns = grid(e, columns or (2 if len(e) == 4 or width > WIDE else 3))
    tallest = max(map(len, orders))
    figure = new_figure("`plot`", (width * columns, (0.27 * tallest + 1.6) * rows + 0.85))
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[shown:]:
        axis.set_axis_off()
    for i, (order, some) in enumerate(zip(orders, labels, strict=True)):
        _panel(axes[i], e, i, order, some)
        axes[i].set_title(
            title(e, i, int((width - beside) / LETTER), counted=True), fontsize=8.5, loc="left", color=INK
        )
    handles: list[Any] = [Patch(color=CHOSEN, label="✓ in the subset"), Patch(color=OTHER, label="not in it")]
    if e.scores_se is not None:
        handles.append(Line2D([], [], color=INK, lw=1, label=f"{percent(e.confidence)} interval"))
    explain(figure, f"{legend(e)} {column_legend(e)}{not_drawn(e)}", handles)
    return figure


LETTER, WIDE = 0.066, 7.0
"""Inches that a letter of a label takes, about; a panel wider than the second has only one beside it."""


def _label(e: Explanation, i: int, f: int) -> str:
    """Return what stands before a bar."""
    value = shortened(e.value(i, f), 24)
    return f"{'✓ ' if e.subset[i, f] else ''}{shortened(e.name(i, f), 44)}{f' = {value}' if value else ''}"


def not_drawn(e: Explanation) -> str:
    """Say how many inputs are too many."""
    return f" {len(e) - MOST_PANELS:,} more inputs are not drawn." if len(e) > MOST_PANELS else ""


def explain(figure: Any, words: str, handles: list[Any]) -> None:
    """Add what colours mean above everything, and what words mean below."""
    figure.supxlabel(wrapped(figure, words), fontsize=7, color=FAINT, x=0.01, ha="left")
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=8)


def wrapped(figure: Any, words: str) -> str:
    """Return words in small print as lines that fit the figure."""
    return textwrap.fill(words, int(17 * figure.get_figwidth()))


def _panel(axis: Any, e: Explanation, i: int, order: Sequence[int], labels: Sequence[str]) -> None:
    """Draw some features of one input of a table."""
    colours = [CHOSEN if e.subset[i, f] else OTHER for f in order]
    places, errors = np.arange(len(order)), np.array([half_width(e, i, f) or math.nan for f in order])
    whiskers = None if np.isnan(errors).all() else errors
    style: dict[str, Any] = {"lw": 1, "ecolor": INK, "capsize": 2}
    axis.barh(places, e.scores[i, order], xerr=whiskers, color=colours, height=0.7, error_kw=style)
    axis.set_yticks(places, [literal(label) for label in labels], fontsize=7.5, color=INK)
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


def percentages(*axes: Any) -> None:
    """Have an axis from 0 to 1 in per cent."""
    ticks = np.linspace(0, 1, 6)
    for axis in axes:
        axis.set_ticks(ticks, labels=[f"{100 * tick:.0f} %" for tick in ticks], fontsize=8, color=FAINT)
        axis.set_tick_params(length=2, color=FAINT)


def halo() -> list[Any]:
    """Return what keeps words readable over lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.2, foreground="white")]


def literal(text: str) -> str:
    """Return a text in which dollar signs are no mathematics."""
    return text.replace("$", r"\$")


def title(e: Explanation, i: int, width: int = 200, *, counted: bool = False) -> str:
    """Return the prediction, in lines of so many letters, and the three shares; `counted`: by how many features."""
    by = f"by {chosen_count(e, i)}".replace(" ", "\xa0") if counted and e.subset[i].any() else ""
    said = "\xa0".join(outcome(e, i).rsplit(" ", 2))
    lines = textwrap.wrap(f"{e.title(i)}: {said} {by}", width, break_on_hyphens=False)
    return literal("\n".join([*lines, headline(e, i)]).replace("\xa0", " "))


def plot_scene(scene: Scene, path: str | Path | None = None) -> Any:
    """Draw a scene, a hundred of its pixels to the inch."""
    figure = new_figure("`plot`", (scene.width / 100, scene.height / 100), layout=None)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axis.set_axis_off()
    for order, part in enumerate(scene.parts):
        _draw(axis, part, order)
    return written(figure, path)


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
