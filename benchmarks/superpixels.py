"""Our superpixels against scikit-image's SLIC: speed, how much of an image they explain, and what decides a cut.

The same images, 49 segments asked for, one thread; both turn by turn. Run with `python -m benchmarks.superpixels`.
"""

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import parse_arguments, print_table, ratio, write_record
from fans.datasets import load_slice
from fans.modalities.image.superpixels import superpixels
from fans.types import Array

N_SEGMENTS, COMPACTNESS = 49, 0.2
LAB = 100
"""scikit-image cuts colours in Lab, from 0 to 100, ours in units of the image's range."""


def theirs(images: Tensor) -> Array:
    """Return scikit-image's labels `(B, H, W)`, one image after another."""
    from skimage.segmentation import slic

    scale = LAB if images.shape[1] == 3 else 1
    pixels = images.movedim(1, 3).numpy()
    return np.stack([slic(image, N_SEGMENTS, COMPACTNESS * scale, channel_axis=-1) for image in pixels])


def ours(images: Tensor) -> Array:
    """Return our labels `(B, H, W)`, all images at once."""
    return superpixels(images, N_SEGMENTS, COMPACTNESS).numpy()


def unexplained(image: Array, labels: Array) -> float:
    """Return the squared distance of pixels to the mean of their segment, relative to that of the whole image."""
    colours, index = image.reshape(len(image), -1).T, np.unique(labels, return_inverse=True)[1].ravel()
    means = np.stack([np.bincount(index, c) for c in colours.T], 1) / np.bincount(index)[:, None]
    return float(((colours - means[index]) ** 2).sum() / max(((colours - colours.mean(0)) ** 2).sum(), 1e-12))


def measured(images: Tensor, repeats: int) -> dict[str, Any]:
    """Return time, segments, what they leave unexplained, and whether a cut depends on nothing but its image."""
    found: dict[str, Any] = {"n": len(images), "shape": list(images.shape[1:])}
    makers: dict[str, Callable[[Tensor], Array]] = {"ours": ours, "theirs": theirs}
    for name, make in makers.items():
        labels = make(images)
        found[name] = {
            "segments": float(np.mean([len(np.unique(cut)) for cut in labels])),
            "unexplained": float(np.mean([unexplained(*pair) for pair in zip(images.numpy(), labels, strict=True)])),
            "again": bool((labels == make(images)).all()),
            "scaled": float((labels == make(images * 255)).mean()),
        }
    return found | {"time": ratio(lambda: ours(images), lambda: theirs(images), repeats)}


def weight() -> dict[str, float]:
    """Return the megabytes that scikit-image brings, with what only it asks for here."""
    found = {}
    for package in ("scikit-image", "scipy", "pillow", "imageio", "tifffile", "networkx", "lazy-loader"):
        files = importlib.metadata.files(package) or []
        found[package] = (
            sum(Path(str(f.locate())).stat().st_size for f in files if Path(str(f.locate())).is_file()) / 1e6
        )
    return found


def main() -> None:
    chosen = parse_arguments(__doc__ or "", "superpixels")
    torch.set_num_threads(1)
    n, repeats, size = (4, 1, 64) if chosen.quick else (64, 7, 512)
    sets = {name: load_slice(name, "test").tensor(slice(0, n)) for name in ("fashion_mnist", "cifar10")}
    sets["photograph"] = torch.nn.functional.interpolate(sets["cifar10"][:1], size=size, mode="bicubic").clamp(0, 1)
    figures: dict[str, Any] = {name: measured(images, repeats) for name, images in sets.items()}
    rows = []
    for name, found in figures.items():
        each = [1000 * found["time"][key] / found["n"] for key in ("seconds", "other_seconds")]
        for who, ms in zip(("ours", "theirs"), each, strict=True):
            one = found[who]
            shares = f"{one['unexplained']:.1%}", f"{one['scaled']:.0%}"
            rows.append((f"{name}, {who}", f"{ms:.2f}", f"{one['segments']:.1f}", *shares, str(one["again"])))
    heads = ("images", "ms an image", "segments of 49", "unexplained", "same at x255", "same again")
    print_table("Superpixels", heads, rows)
    figures["megabytes"] = weight()
    settings = {"n_segments": N_SEGMENTS, "compactness": COMPACTNESS, "repeats": repeats, "quick": chosen.quick}
    write_record(chosen.out, settings, figures)


if __name__ == "__main__":
    main()
