"""Slow, plain re-implementations of windows and of what stands in for them. Imports nothing from `fans`."""

import math
from typing import Any

import numpy as np


def windows(n_steps: int, window: int) -> list[range]:
    """The steps of each window; the last one may be shorter."""
    return [range(start, min(start + window, n_steps)) for start in range(0, n_steps, window)]


def elements(n_channels: int, n_steps: int, window: int, by: str) -> list[list[tuple[int, int]]]:
    """The (channel, step) pairs of each feature."""
    if by == "channel":
        return [[(c, t) for t in range(n_steps)] for c in range(n_channels)]
    spans = windows(n_steps, window)
    if by == "time":
        return [[(c, t) for c in range(n_channels) for t in span] for span in spans]
    return [[(c, t) for t in span] for c in range(n_channels) for span in spans]


def own_mean(series: Any) -> Any:
    """Every channel's own mean, of one series `(C, T)`."""
    out = np.empty_like(series)
    for c, channel in enumerate(series):
        out[c] = sum(channel) / len(channel)
    return out


def chords(series: Any, window: int) -> Any:
    """In every window the line from the value before it to the value after it; flat at the ends of the series."""
    out = np.empty_like(series)
    n_steps = series.shape[1]
    spans = windows(n_steps, window)
    if len(spans) == 1:
        return own_mean(series)
    for c, channel in enumerate(series):
        for span in spans:
            before, after = span.start - 1, span.stop
            left = channel[before] if before >= 0 else channel[after]
            right = channel[after] if after < n_steps else channel[before]
            for k, t in enumerate(span):
                out[c, t] = left + (right - left) * (k + 1) / (len(span) + 1)
    return out


def smoothed(series: Any, sigma: float) -> Any:
    """A Gaussian mean of each step's neighbours."""
    out = np.empty_like(series)
    n_steps = series.shape[1]
    for c, channel in enumerate(series):
        for t in range(n_steps):
            weights = [math.exp(-((t - u) ** 2) / (2 * sigma**2)) for u in range(n_steps)]
            out[c, t] = sum(w * v for w, v in zip(weights, channel, strict=True)) / sum(weights)
    return out
