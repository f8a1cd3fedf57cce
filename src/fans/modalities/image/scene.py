"""Explained images as the explorer draws them: a picture, and which feature each of its pixels belongs to."""

import base64
from dataclasses import replace
from typing import Any

import numpy as np

from fans.explanation import Explanation
from fans.modalities.image import pictures
from fans.report.pixels import data_uri
from fans.types import Array

LONGEST = 512
"""Pixels on a side that are drawn; of a larger image only every second (third, ...) one."""

SMALL = 96
"""The same of a thumbnail, and about how large small images are made for one."""


def scene(e: Explanation, i: int) -> dict[str, Any]:
    """Return the picture as a PNG, and the features of its pixels row by row, four bytes each, -1 for none."""
    image, features = pictures.picture(e, i), _features(e, i)
    step = -(-max(features.shape) // LONGEST)
    image, features = image[::step, ::step], features[::step, ::step]
    height, width = features.shape
    packed = base64.b64encode(features.astype("<i4").tobytes()).decode("ascii")
    return {"kind": "image", "width": width, "height": height, "picture": data_uri(image), "features": packed}


def thumbnail(e: Explanation, i: int) -> dict[str, Any]:
    """Return a small picture in which everything outside the subset is dimmed."""
    image, mask = pictures.picture(e, i), pictures.pixel_mask(e, i)
    if mask.any():
        image = pictures.dimmed(image, mask)
    return _small(image)


def trial(e: Explanation, after: Array) -> dict[str, Any]:
    """Return what the model was shown, in the colours of the explained image."""
    low, high = float(np.min(e.inputs)), float(np.max(e.inputs))
    if low < 0 or high > 1:  # one scale for the explained image and its trials
        after = np.clip((after - low) / ((high - low) or 1.0), 0, 1)
    return _small(pictures.picture(replace(e, inputs=np.clip(after, 0, 1)[None]), 0))


def _small(image: Array) -> dict[str, Any]:
    step = -(-max(image.shape[:2]) // SMALL)
    image = image[::step, ::step]
    side = max(1, SMALL // max(image.shape[:2]))
    return {"kind": "picture", "picture": data_uri(image.repeat(side, 0).repeat(side, 1))}


def _features(e: Explanation, i: int) -> Array:
    """Return the feature of each pixel `(height, width)`."""
    elements = e.elements if e.elements.ndim < e.inputs.ndim else e.elements[i]
    axis = e.channel_axis
    return elements if axis is None else elements.take(0, axis)
