"""What a feature is in each modality, and how to perturb it."""

from collections.abc import Sequence
from typing import Any

from fans.errors import InputError, checked_names, texts
from fans.modalities.base import FeatureSpace, is_sparse, refuse_empty, shape_of
from fans.modalities.graph.computation import is_dataset
from fans.modalities.graph.space import GraphEdges, GraphFeatures
from fans.modalities.image.space import Image, Unit
from fans.modalities.table.space import Table, is_frame
from fans.modalities.table.sparse import SparseTable

__all__ = ["GraphEdges", "GraphFeatures", "Image", "SparseTable", "Table", "guess_space", "is_graph", "named_space"]


def is_graph(background: Any) -> bool:
    """Tell whether this is a graph, or several."""
    several = isinstance(background, Sequence) or is_dataset(background)
    first = background[0] if several and len(background) else background
    return hasattr(first, "edge_index") or hasattr(first, "edge_types")


def guess_space(background: Any, unit: Unit | None = None) -> FeatureSpace:
    """Return the space that fits the background's form: a table for frames and two dimensions, images for more.

    Of a graph the edges are the features, of sparse rows the columns that each has. `unit` is what a feature is to be
    in images.
    """
    if is_sparse(background):
        return SparseTable()
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


def named_space(background: Any, names: Any, space: FeatureSpace | None = None) -> FeatureSpace | None:
    """Return the space in which the user's names are those of the columns; `space` where there are no names."""
    if names is None:
        return space
    if space is not None:
        raise InputError(
            "Expected `space` or `feature_names`, got both; give the names to the space, as in "
            "fans.spaces.Table(columns=...)"
        )
    if is_graph(background):
        raise InputError(
            "Expected no `feature_names` for a graph, whose edges are called by their nodes, got some; name those: "
            "space=fans.spaces.GraphEdges(node_names=...)"
        )
    if is_frame(background):
        if texts(names) != texts(background.columns):
            raise InputError(
                "Expected no `feature_names` for a frame but those of its columns, got others; rename these: "
                "background.set_axis(feature_names, axis=1)"
            )
        return None
    if is_sparse(background):
        return SparseTable(columns=names)
    if not isinstance(guess_space(background), Table):
        raise InputError(
            "Expected no `feature_names` for images, whose features go by their places, got some; leave them out"
        )
    n_columns = shape_of(background, "background")[1]
    return Table(columns=checked_names("feature_names", names, n_columns, "column of the background"))
