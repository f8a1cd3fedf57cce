"""What a picture of an explained image needs: its layout, its colours, outlines, and PNG files."""

import base64
import struct
import zlib

import numpy as np

from fans.core import Array, Explanation

CHOSEN, INK = "#c2571a", "#1c2733"
OUTLINE = "#ff7a1a"
"""Brighter than `CHOSEN`, to be seen on dark pixels."""

STOPS = ("#0b2f5b", "#2f7fc4", "#f7f7f5", "#e87722", "#7a2805")
"""The diverging colours of scores: blue below 0, near white at 0, orange above."""

VEIL = "#dbe4ee"
"""What tints the pixels that were not chosen, which no grey one that was chosen is."""

OPACITY = 0.75
"""Of scores over the grey copy of their image."""


def picture(e: Explanation, i: int) -> Array:
    """Return input `i` as colours `(height, width, 3)` in [0, 1]; other values are rescaled by its own range."""
    image = np.asarray(e.inputs[i], dtype=np.float64)
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        image = (image - low) / ((high - low) or 1.0)
    axis = e.channel_axis
    planes = image[..., None] if axis is None else np.moveaxis(image, axis, -1)
    if planes.shape[-1] not in (3, 4):  # neither RGB nor RGBA
        planes = planes.mean(-1, keepdims=True).repeat(3, -1)
    return planes[..., :3]


def pixel_scores(e: Explanation, i: int) -> Array:
    """Return the score of the feature at each pixel of input `i`, `(height, width)`."""
    return _plane(e, e[i].heatmap[0])


def pixel_mask(e: Explanation, i: int) -> Array:
    """Return which pixels of input `i` belong to the chosen subset, `(height, width)` bool."""
    return _plane(e, e[i].mask[0]).astype(bool)


def _plane(e: Explanation, values: Array) -> Array:
    axis = e.channel_axis
    return values if axis is None else values.take(0, axis)


def largest_score(e: Explanation, shown: int) -> float:
    """Return the largest absolute score of a pixel in the first inputs: the end of their common colour scale."""
    return max((float(np.abs(pixel_scores(e, i)).max()) for i in range(shown)), default=0.0) or 1.0


def greyed(image: Array) -> Array:
    """Return a grey copy of an image, with less contrast."""
    grey: Array = image @ np.array([0.299, 0.587, 0.114])
    return (0.2 + 0.6 * grey)[..., None].repeat(3, -1)


def dimmed(image: Array, mask: Array) -> Array:
    """Return the image with everything outside the mask grey and faint."""
    return np.where(mask[..., None], image, (0.46 + 0.68 * greyed(image)) * rgb(VEIL))


def outline(mask: Array) -> Array:
    """Return the edges `(n, 2, 2)` between pixels in the mask and others, or the image's end, as (x, y) to (x, y).

    Coordinates are those of `imshow`: pixel (row r, column c) reaches from c - 1/2 to c + 1/2 and r - 1/2 to r + 1/2.
    """
    padded = np.pad(mask, 1)
    row, column = np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1])
    level = np.stack([column, row, column + 1, row], 1)
    row, column = np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1])
    upright = np.stack([column, row, column, row + 1], 1)
    edges: Array = np.concatenate([level, upright]).reshape(-1, 2, 2) - 0.5
    return edges


def rgb(colour: str) -> Array:
    """Return a colour like `#c2571a` as three numbers in [0, 1]."""
    return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255


def coloured(scores: Array, largest: float) -> Array:
    """Return scores from `-largest` to `largest` in the diverging colours, `(*scores.shape, 3)`."""
    place = np.clip(scores / largest, -1, 1)
    at = np.linspace(-1, 1, len(STOPS))
    stops = np.stack([rgb(stop) for stop in STOPS])
    return np.stack([np.interp(place, at, stops[:, channel]) for channel in range(3)], -1)


def panels(e: Explanation, i: int, largest: float) -> tuple[Array, Array, Array]:
    """Return what a page shows of input `i`: the image, its scores and its subset, at least 168 pixels long.

    Each pixel of the image becomes a square; of an image larger than 512, only every second (third, ...) pixel is kept.
    """
    image, scores, mask = picture(e, i), pixel_scores(e, i), pixel_mask(e, i)
    step = -(-max(mask.shape) // 512)
    image, scores, mask = (array[::step, ::step] for array in (image, scores, mask))
    side = -(-168 // max(mask.shape))
    over = OPACITY * coloured(scores, largest) + (1 - OPACITY) * greyed(image)
    subset, inside = _magnified(dimmed(image, mask), side), _magnified(mask, side)
    subset[inside & ~_shrunk(inside, max(1, side // 3))] = rgb(OUTLINE)
    return _magnified(image, side), _magnified(over, side), subset


def _magnified(array: Array, side: int) -> Array:
    return array.repeat(side, 0).repeat(side, 1)


def _shrunk(mask: Array, n: int) -> Array:
    """Return the mask without what lies within `n` pixels of its edge."""
    height, width = mask.shape
    padded = np.pad(mask, n)
    rows = np.all([padded[k : k + height] for k in range(2 * n + 1)], axis=0)
    kept: Array = np.all([rows[:, k : k + width] for k in range(2 * n + 1)], axis=0)
    return kept


def png(image: Array) -> bytes:
    """Return colours `(height, width, 3)` in [0, 1] as a PNG file."""
    pixels = np.round(np.clip(image, 0, 1) * 255).astype(np.uint8)
    height, width, _ = pixels.shape
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each row begins with its filter: none
    parts = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    chunks = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts.items()]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_uri(image: Array) -> str:
    """Return an image as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")
