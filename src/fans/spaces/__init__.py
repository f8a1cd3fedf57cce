"""What a feature is: the spaces of all modalities by their public names, those of one's own modalities among them.

Example:
    >>> from fans.spaces import Table
    >>> Table(columns=["age", "income"]).columns
    ['age', 'income']
"""

from typing import Any

import fans.modalities  # noqa: F401 - registers the modalities
from fans.modalities.graph.space import GraphEdges, GraphFeatures, GraphNodes
from fans.modalities.image.space import Image
from fans.modalities.masks import FeatureMask
from fans.modalities.registry import modalities
from fans.modalities.table.space import Table
from fans.modalities.table.sparse import SparseTable

__all__ = ["FeatureMask", "GraphEdges", "GraphFeatures", "GraphNodes", "Image", "SparseTable", "Table"]


def __getattr__(name: str) -> Any:
    """Find the spaces of all other modalities."""
    for kind in modalities():
        for space in kind.spaces:
            if space.__name__ == name:
                return space
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(space.__name__ for kind in modalities() for space in kind.spaces)})
