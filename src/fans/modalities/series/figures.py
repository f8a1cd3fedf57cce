"""Explained series as figures of matplotlib: a panel a channel, a strip of scores below each."""

from typing import Any

import numpy as np

from fans.explanation import Explanation
from fans.modalities.series.charts import SHADE, Chart, Panel, chart, largest_score, lowest_score
from fans.report.colours import CHOSEN, FAINT, INK, STOPS
from fans.report.figures import grid, literal, new_figure, not_drawn, title, wrapped
from fans.report.sentences import legend, shortened

STRIP = 0.14
"""Share of a panel's height that its strip of scores has, with what parts it from the line."""


def plot(e: Explanation, columns: int | None) -> Any:
    """Draw every input as a line chart, its chosen windows shaded, on one scale of colours."""
    shown, rows, columns = grid(e, columns or (1 if len(e) == 1 else 2))
    charts = [chart(e, i) for i in range(shown)]
    sheet = _Sheet(max(len(found.panels) for found in charts), bool(charts[0].panels[0].name), rows, columns)
    figure = new_figure("`plot`", sheet.size, layout=None)
    low, largest = lowest_score(e, shown), largest_score(e, shown)
    for i, found in enumerate(charts):
        row, column = divmod(i, columns)
        axes = [figure.add_axes(sheet.place(row, column, k)) for k in range(len(found.panels))]
        _chart(axes, e, i, found, largest, int(sheet.wide * 14))
    _colour_bar(figure, figure.add_axes(sheet.place_of_bar), low, largest)
    more = sorted({found.left_out for found in charts if found.left_out})
    words = " ".join([f"{legend(e)} Strip below each line: scores.{not_drawn(e)}", *(f"{m}." for m in more)])
    _explain(figure, sheet, words)
    return figure


class _Sheet:
    """Where charts go, in inches: columns and rows of them, each a stack of panels below its title."""

    left, between, bar, title, axis, head, foot = 0.5, 0.55, 0.75, 0.42, 0.3, 0.3, 0.42

    def __init__(self, n_panels: int, named: bool, rows: int, columns: int) -> None:
        self.wide = 8.0 if columns == 1 else 5.2
        self.tall = 1.25 if n_panels == 1 else 0.8 if n_panels <= 3 else 0.55
        self.name = 0.17 if named else 0.06
        self.line = self.title + n_panels * (self.name + self.tall) + self.axis
        self.columns = columns
        self.size = (columns * (self.left + self.wide) + self.bar, self.head + rows * self.line + self.foot)

    def place(self, row: int, column: int, k: int) -> tuple[float, float, float, float]:
        """Return left, bottom, width and height of panel `k` of a chart, as shares of the sheet."""
        left = self.left + column * (self.left + self.wide)
        top = self.head + row * self.line + self.title + k * (self.name + self.tall) + self.name
        return self._shares(left, top, self.wide, self.tall)

    @property
    def place_of_bar(self) -> tuple[float, float, float, float]:
        """Return the same of the scale of colours, to the right of all."""
        left = self.columns * (self.left + self.wide) + 0.15
        return self._shares(left, self.head + self.title + 0.1, 0.11, min(1.6, self.line - self.title - self.axis))

    def _shares(self, left: float, top: float, wide: float, tall: float) -> tuple[float, float, float, float]:
        across, down = self.size
        return left / across, 1 - (top + tall) / down, wide / across, tall / down


def _explain(figure: Any, sheet: _Sheet, words: str) -> None:
    """Add what colours mean above everything, and what words mean below."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [Patch(color=SHADE, label="in the subset"), Line2D([], [], color=INK, lw=1, label="not in it")]
    left, tall = sheet.left / sheet.size[0], sheet.size[1]
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (left, 1), "borderaxespad": 0.2, "borderpad": 0.2}
    figure.legend(handles=handles, ncols=2, frameon=False, fontsize=8, **where)
    figure.text(left, 0.06 / tall, wrapped(figure, words), fontsize=6.5, color=FAINT, va="bottom")


def _chart(axes: list[Any], e: Explanation, i: int, found: Chart, largest: float, width: int) -> None:
    """Draw one input, a channel in each of the axes."""
    edges = found.times.edges
    for axis, panel in zip(axes, found.panels, strict=True):
        axis.set_xlim(edges[0], edges[-1])
        _line(axis, panel)
        _strip(axis, panel, largest)
    named = bool(found.panels[0].name)
    axes[0].set_title(title(e, i, width, counted=True), fontsize=8.5, loc="left", color=INK, pad=15 if named else 6)
    places, texts = found.times.ticks()
    axes[-1].set_xticks(places, [literal(text) for text in texts], fontsize=7, color=FAINT)
    axes[-1].tick_params(axis="x", length=2, colors=FAINT)


def _line(axis: Any, panel: Panel) -> None:
    """Draw a channel, its chosen windows shaded."""
    for start, end in panel.chosen:
        axis.axvspan(start, end, ymin=STRIP, color=SHADE, lw=0)
    axis.plot(panel.times, panel.values, color=INK, lw=0.8, marker="." if len(panel.times) == 1 else None)
    for span in panel.chosen:
        axis.plot(*panel.line_within(*span), color=CHOSEN, lw=1.6)
    axis.set_xticks([])
    axis.locator_params(axis="y", nbins=4)
    axis.set_yticks([tick for tick in axis.get_yticks() if panel.low <= tick <= panel.high])
    axis.tick_params(axis="y", labelsize=6.5, colors=FAINT, length=2)
    axis.spines[["top", "right", "bottom"]].set_visible(False)
    axis.spines["left"].set_color("#c6cfd8")
    if panel.name:
        style: dict[str, Any] = {"fontsize": 7.5, "color": INK, "va": "bottom", "parse_math": False}
        axis.text(0, 1.01, shortened(panel.name, 60), transform=axis.transAxes, **style)


def _strip(axis: Any, panel: Panel, largest: float) -> None:
    """Draw the scores of a channel's windows as colours, below its line."""
    edges = [panel.windows[0].start, *(window.end for window in panel.windows)]
    scores = np.array([[window.score for window in panel.windows]])
    below = panel.low - (panel.high - panel.low) * STRIP / (1 - STRIP)
    top = below + 0.7 * (panel.low - below)
    axis.pcolormesh(edges, [below, top], scores, cmap=_colours(), vmin=-largest, vmax=largest)
    axis.plot([edges[0], edges[-1]], [top, top], color="#c6cfd8", lw=0.6)
    axis.set_ylim(below, panel.high)


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("fans", [((at + 1) / 2, colour) for at, colour in STOPS])


def _colour_bar(figure: Any, axis: Any, low: float, largest: float) -> None:
    """Draw the scale of scores, below 0 only as far as they go."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(ScalarMappable(Normalize(-largest, largest), _colours()), cax=axis)
    axis.set_ylim(low, largest)
    axis.set_title("score", fontsize=7.5, color=FAINT, loc="left")
    axis.tick_params(labelsize=7, colors=FAINT, length=2)
    bar.outline.set_visible(False)
