"""Cut the slices of real data that come with the package out of the full datasets: `python -m tools.make_slices`."""

import io

import numpy as np

from fans.datasets.files import find
from fans.datasets.graphs import BACommunity, Citeseer
from fans.datasets.images import SLICES, ImageDataset, load_images
from fans.files import write
from fans.types import Array

SIZE = 256


def balanced(labels: Array, size: int = SIZE, seed: int = 0) -> Array:
    """Return `size` indices, sorted, of which every class has as many as any other or one more."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    classes = np.unique(labels)
    counts = size // len(classes) + (np.arange(len(classes)) < size % len(classes))
    chosen = [shuffled[labels[shuffled] == c][:n] for c, n in zip(classes, counts, strict=True)]
    return np.sort(np.concatenate(chosen))


def main() -> None:
    """Write all slices."""
    SLICES.mkdir(exist_ok=True)
    for name in ImageDataset.registry:
        train, test = load_images(name, "train"), load_images(name, "test")
        for split, images, index in (("train", train, balanced(train.labels)), ("test", test, np.arange(SIZE))):
            pixels, labels = images.pixels[index], images.labels[index].astype(np.uint8)
            packed = io.BytesIO()
            np.savez_compressed(packed, pixels=pixels, labels=labels, index=index)
            write(SLICES / f"{name}_{split}.npz", packed.getvalue())
    cut_graphs()


def cut_graphs() -> None:
    """Write BA-Community as it was published, and Citeseer converted."""
    published = find(*BACommunity.files)
    assert published is not None, "set FANS_DATA"
    write(SLICES / "ba_community.npz", published.read_bytes())
    write(SLICES / "citeseer.npz", Citeseer.packed(Citeseer.converted()))


if __name__ == "__main__":
    main()
