"""What is drawn of an explained series: for each channel its line, its windows, their scores, and which were chosen."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fans.explanation import Attribution, Explanation
from fans.modalities.series.times import Times
from fans.types import Array

MOST_CHANNELS = 8
"""Channels that are drawn of one series."""

MOST_POINTS = 800
"""Points of a line; of a longer series the lowest and the highest of each stretch."""

SHADE = "#d3e6f5"
"""Behind the chosen windows."""


@dataclass(frozen=True)
class Stretch:
    """A window, from a time to a later one, or several neighbours that are alike.

    Attributes:
        start, end: times.
        score: of the window.
        chosen: whether it is in the subset.
        feature: its number.
    """

    start: float
    end: float
    score: float
    chosen: bool
    feature: int = -1


@dataclass(frozen=True)
class Panel:
    """A channel.

    Attributes:
        name: "" for the only one without a name.
        times, values: `(n,)` points of its line.
        low, high: of the axis of values.
        windows: from the first to the last.
    """

    name: str
    times: Array
    values: Array
    low: float
    high: float
    windows: tuple[Stretch, ...]

    @property
    def chosen(self) -> list[tuple[float, float]]:
        """Return where the chosen windows are, neighbours together."""
        spans: list[tuple[float, float]] = []
        for window in self.windows:
            if not window.chosen:
                continue
            if spans and spans[-1][1] == window.start:
                spans[-1] = (spans[-1][0], window.end)
            else:
                spans.append((window.start, window.end))
        return spans

    def line_within(self, start: float, end: float) -> tuple[Array, Array]:
        """Return the points of the line from one time to another."""
        inside = (self.times >= start) & (self.times <= end)
        return self.times[inside], self.values[inside]


@dataclass(frozen=True)
class Chart:
    """An explained series.

    Attributes:
        panels: its channels, those that matter most where there are many, in their own order.
        times: of the steps.
        n_left_out: channels that are not among the panels.
        n_chosen_left_out: those of them that have a chosen window.
    """

    panels: tuple[Panel, ...]
    times: Times
    n_left_out: int
    n_chosen_left_out: int

    @property
    def left_out(self) -> str:
        """Say which channels are not drawn; nothing if all are."""
        if not self.n_left_out:
            return ""
        words = f"{self.n_left_out} more channel{'s' * (self.n_left_out > 1)} not drawn"
        return f"{words}, {self.n_chosen_left_out} of them with chosen windows" if self.n_chosen_left_out else words


def axes_of(e: Attribution) -> Mapping[str, Any]:
    """Return what the explanation keeps of the axes: layout, unit, channels' names, times."""
    found: Mapping[str, Any] = e.details["axes"][0]
    return found


def chart(e: Explanation, i: int) -> Chart:
    """Return what is drawn of input `i`."""
    axes = axes_of(e)
    values, features = (_by_channel(a, axes["layout"]) for a in (np.asarray(e.inputs[i], np.float64), e.elements))
    times = Times.kept(axes["times"], values.shape[1])
    has_chosen = e.subset[i][features].any(1)
    weight = np.nan_to_num(np.abs(e.scores[i]))[features].max(1)
    order = np.lexsort((np.arange(len(values)), -weight, ~has_chosen))
    shown, hidden = np.sort(order[:MOST_CHANNELS]), order[MOST_CHANNELS:]
    panels = tuple(_panel(e, i, axes["channels"][c], values[c], features[c], times) for c in shown)
    return Chart(panels, times, len(hidden), int(has_chosen[hidden].sum()))


def _by_channel(array: Array, layout: str) -> Array:
    """Return `(channels, time)`."""
    return array.T if layout == "last" else array.reshape(-1, array.shape[-1])


def _panel(e: Explanation, i: int, name: str, values: Array, features: Array, times: Times) -> Panel:
    places = thinned(values)
    starts = np.flatnonzero(np.diff(features, prepend=-1))
    edges = times.edges[[*starts, len(values)]]
    windows = tuple(
        Stretch(float(a), float(b), float(np.nan_to_num(e.scores[i, f])), bool(e.subset[i, f]), int(f))
        for a, b, f in zip(edges[:-1], edges[1:], features[starts], strict=True)
    )
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) or max(1.0, 0.1 * abs(high))
    return Panel(name, times.values[places], values[places], low - margin, high + margin, windows)


def thinned(values: Array, most: int = MOST_POINTS) -> Array:
    """Return which steps draw a line well: all, or the lowest and the highest of each of `most / 2` stretches."""
    n = len(values)
    if n <= most:
        return np.arange(n)
    ends = np.linspace(0, n, most // 2 + 1).astype(int)
    found = {0, n - 1}
    for a, b in itertools.pairwise(ends):
        found |= {a + int(values[a:b].argmin()), a + int(values[a:b].argmax())}
    return np.array(sorted(found))


def largest_score(e: Explanation, shown: int) -> float:
    """Return the largest absolute score of the first inputs: the end of their common colour scale."""
    return float(np.nanmax(np.abs(e.scores[:shown]), initial=0.0)) or 1.0


def lowest_score(e: Explanation, shown: int) -> float:
    """Return the lowest score of the first inputs, at most 0: where their colour scale begins."""
    return min(0.0, float(np.nanmin(e.scores[:shown], initial=0.0)))
