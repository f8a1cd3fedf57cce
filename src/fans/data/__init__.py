"""The datasets of the paper's study, from their original files."""

from fans.data.images import ImageDataset, Images, fetch_images, load_images, load_slice

__all__ = ["ImageDataset", "Images", "fetch_images", "load_images", "load_slice"]
