"""Graphs: edges, nodes, or columns of what is known of nodes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from fans.modalities.base import FeatureSpace
from fans.modalities.graph.computation import is_dataset
from fans.modalities.graph.present import GraphPresenter, NodePresenter
from fans.modalities.graph.space import GraphEdges, GraphFeatures, GraphNodes
from fans.modalities.present import Presenter
from fans.modalities.registry import Modality


class Graphs(Modality):
    """Graphs of PyTorch Geometric, or anything with `x` and `edge_index`: one whose nodes are explained, or several."""

    name: ClassVar[str] = "graph"
    rank: ClassVar[int] = 20
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = (GraphEdges, GraphFeatures)
    presenter: ClassVar[Presenter] = GraphPresenter()
    unnamed: ClassVar[str] = (
        "a graph, whose edges are called by their nodes, got some; name those: "
        "space=fans.spaces.GraphEdges(node_names=...)"
    )

    @classmethod
    def recognise(cls, background: Any, unit: Any = None) -> FeatureSpace | None:  # noqa: ARG003
        """Take a graph, a sequence or a dataset of them."""
        several = isinstance(background, Sequence) or is_dataset(background)
        first = background[0] if several and len(background) else background
        return GraphEdges() if hasattr(first, "edge_index") or hasattr(first, "edge_types") else None


class Nodes(Modality):
    """Graphs whose nodes are the features: asked for by `GraphNodes`."""

    name: ClassVar[str] = "nodes"
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = (GraphNodes,)
    presenter: ClassVar[Presenter] = NodePresenter()
