"""Graph convolutional networks of three layers, for the nodes of BA-Community, Citeseer and Pubmed."""

import torch
from torch import Tensor, nn

from fans.datasets.graphs import geometric
from fans.networks.base import Network


class GCN(Network):
    """Three graph convolutions and a linear layer on all they give; takes `(n, features)` and `(2, edges)`.

    The convolutions are PyTorch Geometric's `GCNConv`: edges are normalised by the degrees, which are sums of edge
    weights, so an edge of weight 0 is no edge. A node's logits depend on nodes and edges up to three hops away, and on
    the degrees of the nodes three hops away.

    Args:
        n_features: of a node.
        n_hidden: width of every convolution.
        n_classes: logits a node.
        dropout: share of features zeroed in training, before every layer.
    """

    def __init__(self, n_features: int, n_hidden: int, n_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        conv = geometric("a graph network").nn.GCNConv
        self.drop = nn.Dropout(dropout)
        self.conv1, self.relu1, self.drop1 = conv(n_features, n_hidden), nn.ReLU(), nn.Dropout(dropout)
        self.conv2, self.relu2, self.drop2 = conv(n_hidden, n_hidden), nn.ReLU(), nn.Dropout(dropout)
        self.conv3, self.relu3, self.drop3 = conv(n_hidden, n_hidden), nn.ReLU(), nn.Dropout(dropout)
        self.fc = nn.Linear(3 * n_hidden, n_classes)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the logits `(n, n_classes)`."""
        first = self.drop1(self.relu1(self.conv1(self.drop(x), edge_index, edge_weight)))
        second = self.drop2(self.relu2(self.conv2(first, edge_index, edge_weight)))
        third = self.drop3(self.relu3(self.conv3(second, edge_index, edge_weight)))
        logits: Tensor = self.fc(torch.cat([first, second, third], 1))
        return logits


class BACommunityGCN(GCN):
    """For BA-Community."""

    name = "gcn_ba_community"

    def __init__(self) -> None:
        super().__init__(10, 64, 8)


class CiteseerGCN(GCN):
    """For Citeseer."""

    name = "gcn_citeseer"

    def __init__(self) -> None:
        super().__init__(3703, 32, 6, dropout=0.5)


class PubmedGCN(GCN):
    """For Pubmed."""

    name = "gcn_pubmed"

    def __init__(self) -> None:
        super().__init__(500, 32, 3, dropout=0.5)
