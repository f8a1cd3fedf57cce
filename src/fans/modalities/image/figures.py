"""Explained images as figures of matplotlib: three pictures each, on one colour scale."""

from typing import Any

import numpy as np

from fans.explanation import Explanation
from fans.modalities.image import pictures as images
from fans.report.colours import FAINT, INK, STOPS
from fans.report.figures import grid, new_figure, not_drawn, title, wrapped
from fans.report.sentences import legend, subset_caption


def plot(e: Explanation, columns: int) -> Any:
    """Draw every input as three pictures (itself, its scores, its subset) on one colour scale."""
    shown, rows, columns = grid(e, columns)
    height, width = images.pixel_mask(e, 0).shape
    sheet = _Sheet(height, width, rows, columns)
    figure = new_figure("`plot`", sheet.size, layout=None)
    low, largest = images.lowest_score(e, shown), images.largest_score(e, shown)
    for i in range(shown):
        row, column = divmod(i, columns)
        _image_panels([figure.add_axes(sheet.place(row, column, k)) for k in range(3)], e, i, largest)
    _colour_bar(figure, figure.add_axes(sheet.place(0, columns, 0, width=0.11)), low, largest)
    words, style = wrapped(figure, legend(e) + not_drawn(e)), {"fontsize": 6.5, "color": FAINT, "va": "bottom"}
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
    axes[0].set_title(title(e, i), fontsize=8.5, loc="left", color=INK)
