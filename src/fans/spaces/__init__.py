"""What a feature is in each modality, and how to perturb it."""

from collections.abc import Sequence
from typing import Any

from fans.core import InputError
from fans.spaces._cutting import is_dataset
from fans.spaces._shared import FeatureSpace, refuse_empty, shape_of
from fans.spaces.graph import GraphEdges, GraphFeatures
from fans.spaces.image import Image, Unit
from fans.spaces.table import Table

__all__ = ["GraphEdges", "GraphFeatures", "Image", "Table", "guess_space", "is_graph"]


def is_graph(background: Any) -> bool:
    """Tell whether this is a graph, or several."""
    several = isinstance(background, Sequence) or is_dataset(background)
    first = background[0] if several and len(background) else background
    return hasattr(first, "edge_index") or hasattr(first, "edge_types")


def guess_space(background: Any, unit: Unit | None = None) -> FeatureSpace:
    """Return the space that fits the background's form: a table for frames and two dimensions, images for more.

    Of a graph the edges are the features. `unit` is what a feature is to be in images.
    """
    if is_graph(background):
        return GraphEdges()
    refuse_empty(background)
    shape = shape_of(background, "background")
    if len(shape) == 2:
        return Table()
    if len(shape) in (3, 4):
        return Image(unit)
    raise InputError(
        "Expected a table (a frame or an array (samples, columns)), images (samples, channels, height, width) or a "
        f"graph, got shape {shape}; pass `space=` to say what a feature is"
    )
