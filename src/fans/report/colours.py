"""The colours of every picture, and what draws with them."""

import numpy as np

from fans.types import Array

CHOSEN, INK = "#2b80bd", "#1c2733"
OTHER, FAINT = "#b9c4cf", "#51606e"
OUTLINE = "#ff7a1a"
"""To be seen on dark pixels, on grey ones and beside `CHOSEN`."""

LINES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#51606e")
"""Colours that colour-blind readers tell apart (Paul Tol's)."""

STOPS = ((-1.0, "#a9c8e8"), (0.0, "#ffffff"), (0.25, "#fee2a0"), (0.5, "#fbab4b"), (0.75, "#dc6320"), (1.0, "#7a2805"))
"""The colours of scores, by share of the largest: faint blue below 0, white at 0, through orange to brown."""


def rgb(colour: str) -> Array:
    """Return a colour like `#c2571a` as three numbers in [0, 1]."""
    return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255


def coloured(shares: Array) -> Array:
    """Return scores as shares of the largest, from -1 to 1, in their colours, `(*shares.shape, 3)`."""
    at = [place for place, _ in STOPS]
    stops = np.stack([rgb(stop) for _, stop in STOPS])
    return np.stack([np.interp(shares, at, stops[:, channel]) for channel in range(3)], -1)
