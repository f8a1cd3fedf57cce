"""What a feature is in each modality, and how to perturb it."""

from typing import Any

from fans.core import InputError
from fans.spaces._shared import FeatureSpace, shape_of
from fans.spaces.image import Image, Unit
from fans.spaces.table import Table

__all__ = ["Image", "Table", "guess_space"]


def guess_space(background: Any, unit: Unit | None = None) -> FeatureSpace:
    """Return the space that fits the background's form: a table for frames and two dimensions, images for more.

    `unit` is what a feature is to be in images.
    """
    shape = shape_of(background, "background")
    if len(shape) == 2:
        return Table()
    if len(shape) in (3, 4):
        return Image(unit)
    raise InputError(
        f"Expected a table (a frame or an array (samples, columns)) or images (samples, channels, height, width), "
        f"got shape {shape}; pass `space=` to say what a feature is"
    )
