"""What a feature is: the spaces of all modalities, under their public names."""

from fans.modalities.graph.space import GraphEdges, GraphFeatures
from fans.modalities.image.space import Image
from fans.modalities.table.space import Table
from fans.modalities.table.sparse import SparseTable

__all__ = ["GraphEdges", "GraphFeatures", "Image", "SparseTable", "Table"]
