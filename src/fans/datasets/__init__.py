"""The datasets of the paper's study, from their original files."""

from fans.datasets.files import File, obtain
from fans.datasets.graphs import Graph, GraphDataset, fetch_graph, load_graph, make_ba_community
from fans.datasets.images import ImageDataset, Images, fetch_images, load_images, load_slice

__all__ = [
    "File",
    "Graph",
    "GraphDataset",
    "ImageDataset",
    "Images",
    "fetch_graph",
    "fetch_images",
    "load_graph",
    "load_images",
    "load_slice",
    "make_ba_community",
    "obtain",
]
