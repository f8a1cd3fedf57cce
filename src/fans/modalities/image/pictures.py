"""What is shown of an explained image: itself, its scores, its subset, as arrays of colours."""

import numpy as np

from fans.explanation import Explanation
from fans.report.colours import OUTLINE, coloured, rgb
from fans.report.sentences import unit_word
from fans.types import Array

VEIL = "#dbe4ee"
"""What tints the pixels that were not chosen, which no grey one that was chosen is."""

SIDE = 336
"""Least length of a picture: each pixel of a smaller image becomes a square."""


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
    """Return the score of the feature at each pixel of input `i`, `(height, width)`; 0 where there is none."""
    return np.nan_to_num(_plane(e, e[i].heatmap[0]))


def pixel_mask(e: Explanation, i: int) -> Array:
    """Return which pixels of input `i` belong to the chosen subset, `(height, width)` bool."""
    return _plane(e, e[i].mask[0]).astype(bool)


def _plane(e: Explanation, values: Array) -> Array:
    axis = e.channel_axis
    if axis is None:
        return values
    first: Array = values.take(0, axis)
    apart = (values != np.expand_dims(first, axis)).any()  # channels are features of their own
    return values.mean(axis) if apart else first


def largest_score(e: Explanation, shown: int) -> float:
    """Return the largest absolute score of a pixel in the first inputs: the end of their common colour scale."""
    return max((float(np.abs(pixel_scores(e, i)).max()) for i in range(shown)), default=0.0) or 1.0


def lowest_score(e: Explanation, shown: int) -> float:
    """Return the lowest score of a pixel in the first inputs, at most 0: where their colour scale begins."""
    return min(0.0, *(float(pixel_scores(e, i).min()) for i in range(shown)))


def dimmed(image: Array, mask: Array) -> Array:
    """Return the image with everything outside the mask grey and faint."""
    return np.where(mask[..., None], image, (0.6 + 0.4 * _grey(image)) * rgb(VEIL))


def scored(image: Array, shares: Array) -> Array:
    """Return the colours of scores over a faint grey copy of their image, the thicker the higher the score."""
    cover = np.clip(3 * np.abs(shares) - 0.1, 0, 0.85)[..., None]
    return cover * coloured(shares) + (1 - cover) * (0.66 + 0.34 * _grey(image))


def _grey(image: Array) -> Array:
    grey: Array = image @ np.array([0.299, 0.587, 0.114])
    return grey[..., None].repeat(3, -1)


def panels(e: Explanation, i: int, largest: float) -> tuple[Array, Array, Array]:
    """Return what is shown of input `i`: the image, its scores and its subset, 336 to 671 pixels long.

    Each pixel of the image becomes a square; of an image larger than 512, only every second (third, ...) pixel is kept.
    Scores are drawn smoothly. So is a subset of single pixels, as a region of the same area: only here, not in `mask`.
    """
    image, scores, mask = picture(e, i), pixel_scores(e, i), pixel_mask(e, i)
    step = -(-max(mask.shape) // 512)
    image, scores, mask = (array[::step, ::step] for array in (image, scores, mask))
    side = -(-SIDE // max(mask.shape))
    large = _magnified(image, side)
    inside = region(mask, side) if unit_word(e, 1) == "pixel" else _magnified(mask, side)
    subset = dimmed(large, inside)
    subset[inside & ~_shrunk(inside, -(-max(inside.shape) // 160))] = rgb(OUTLINE)
    return large, scored(large, smooth(scores / largest, side, 0.5)), subset


def region(mask: Array, side: int) -> Array:
    """Return a mask of pixels, each magnified to a square, as smooth shapes that cover about as much."""
    width = max(1.0, max(mask.shape) / 50)
    around = int(3 * width)  # none of what lies beyond the image was chosen
    blurred = smooth(np.pad(mask.astype(float), around), side, width)
    blurred = blurred[around * side : -around * side, around * side : -around * side]
    inside: Array = (blurred >= np.quantile(blurred, 1 - mask.mean())) & (blurred > 1e-3)
    return inside


def smooth(plane: Array, side: int, width: float) -> Array:
    """Return a plane magnified by `side`, blurred with a Gaussian of `width` pixels of the plane."""
    rows, columns = (_weights(n, side, width) for n in plane.shape)
    out: Array = rows @ plane @ columns.T
    return out


def _weights(n: int, side: int, width: float) -> Array:
    """Return by how much each of `n` pixels counts at each of `n * side` places, `(n * side, n)`."""
    places = (np.arange(n * side) + 0.5) / side - 0.5
    weights: Array = np.exp(-0.5 * ((places[:, None] - np.arange(n)) / width) ** 2)
    weights /= weights.sum(1, keepdims=True)
    return weights


def _magnified(array: Array, side: int) -> Array:
    return array.repeat(side, 0).repeat(side, 1)


def _shrunk(mask: Array, n: int) -> Array:
    """Return the mask without what lies within `n` pixels of its edge."""
    height, width = mask.shape
    padded = np.pad(mask, n)
    rows = np.all([padded[k : k + height] for k in range(2 * n + 1)], axis=0)
    kept: Array = np.all([rows[:, k : k + width] for k in range(2 * n + 1)], axis=0)
    return kept
