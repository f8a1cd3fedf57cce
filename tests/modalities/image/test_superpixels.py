"""Superpixels are connected, follow colours, and depend on nothing but the image."""

import gzip
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fans.errors import InputError
from fans.modalities.image.superpixels import _cluster, _grid, _largest_patches, _standardise, n_seeds, superpixels

ndimage = pytest.importorskip("scipy.ndimage")
SHAPES = [(1, 1, 1), (1, 2, 2), (1, 1, 50), (3, 50, 1), (1, 28, 28), (3, 32, 32), (2, 23, 41), (5, 40, 9)]


def noise(n, channels, height, width, seed=0):
    """Images with patches and grain: the hardest to keep connected."""
    rng = np.random.default_rng(seed)
    smooth = ndimage.gaussian_filter(rng.normal(size=(n, channels, height, width)), (0, 0, 2, 2))
    return torch.tensor(smooth + 0.1 * rng.normal(size=smooth.shape), dtype=torch.float32)


def plain_grid(height, width, n_segments):
    rows, columns = _grid(height, width, n_segments)
    return torch.arange(height)[:, None] * rows // height * columns + torch.arange(width) * columns // width


def unexplained(image, labels):
    """Squared distance to the mean colour of the segment, relative to that of the whole image; (H, W, C) and (H, W)."""
    colours = image.reshape(-1, image.shape[-1]).astype(np.float64)
    index = np.unique(labels, return_inverse=True)[1].ravel()
    means = np.stack([np.bincount(index, c) for c in colours.T], 1) / np.bincount(index)[:, None]
    return float(((colours - means[index]) ** 2).sum() / ((colours - colours.mean(0)) ** 2).sum())


def slic_by_loops(image, rows, columns, compactness, n_iterations):
    """The method of the paper pixel by pixel, in NumPy, without the last step (connectivity)."""
    height, width = image.shape[1:]
    unit = (image - image.min()) / (image.max() - image.min())
    step = math.sqrt(height * width / (rows * columns))
    cells = [[(y * rows // height, x * columns // width) for x in range(width)] for y in range(height)]
    labels = np.array([[r * columns + c for r, c in line] for line in cells])
    centres: dict[int, tuple[float, float, Any]] = {}
    for i in range(n_iterations + 1):
        if i:
            for y in range(height):
                for x in range(width):
                    costs = {}
                    for k, (cy, cx, colour) in centres.items():
                        r, c = divmod(k, columns)
                        if abs(r - cells[y][x][0]) <= 1 and abs(c - cells[y][x][1]) <= 1:
                            near = ((cy - y) ** 2 + (cx - x) ** 2) / step**2
                            costs[k] = ((unit[:, y, x] - colour) ** 2).mean() + compactness**2 * near
                    labels[y, x] = min(costs, key=lambda k: costs[k])
        places = {k: np.nonzero(labels == k) for k in range(rows * columns)}
        centres |= {k: (p[0].mean(), p[1].mean(), unit[:, *p].mean(1)) for k, p in places.items() if len(p[0])}
    return labels


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 12, 12), (3, 11, 17)])
@pytest.mark.parametrize("compactness", [0.05, 0.3])
def test_clusters_are_those_of_plain_loops(channels, height, width, compactness):
    colours = _standardise(noise(3, channels, height, width), 0.0)
    rows, columns = _grid(height, width, 9)
    weight = compactness * 2**12 * math.sqrt(channels * rows * columns / (height * width))
    found, _ = _cluster(colours, rows, columns, weight, 5)
    for image, labels in zip(colours.double().movedim(1, 0).numpy(), found, strict=True):
        assert (labels.numpy() == slic_by_loops(image, rows, columns, compactness, 5)).all()


@pytest.mark.parametrize("n_labels", [1, 2, 5])
def test_largest_patches_are_those_of_scipy(n_labels):
    rng = np.random.default_rng(n_labels)
    labels = rng.integers(n_labels, size=(6, 19, 23))
    labels[0] = 0
    labels[1] = np.indices((19, 23)).sum(0) % 2 if n_labels > 1 else 0  # a chessboard
    kept = _largest_patches(torch.tensor(labels + n_labels * np.arange(6)[:, None, None]), 6 * n_labels)
    expected = np.zeros(labels.shape, bool)
    for i in range(6):
        for k in range(n_labels):
            patch, n = ndimage.label(labels[i] == k)
            if n:
                expected[i] |= patch == np.bincount(patch[patch > 0]).argmax()
    assert (kept.numpy().reshape(labels.shape) == expected).all()


def test_a_spiral_is_one_patch():
    spiral = torch.zeros(1, 41, 41, dtype=torch.int64)
    y, x, dy, dx = 0, 0, 0, 1
    spiral[0, 0, 0] = 1
    for length in [40, 40, *(n for n in range(40, 2, -2) for _ in (0, 1))][:-1]:
        for _ in range(length):
            y, x = y + dy, x + dx
            spiral[0, y, x] = 1
        dy, dx = dx, -dy
    assert ndimage.label(spiral[0].numpy())[1] == 1
    assert _largest_patches(spiral, 2)[spiral.flatten() == 1].all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n_segments", [1, 4, 49, 10_000])
@pytest.mark.parametrize("compactness", [0.0, 0.02, 0.2])
def test_every_segment_is_connected(shape, n_segments, compactness):
    labels = superpixels(noise(4, *shape), n_segments, compactness)
    k = n_seeds(shape[1], shape[2], n_segments)
    assert labels.shape == (4, *shape[1:])
    assert labels.dtype == torch.int64
    assert 0 <= int(labels.min()) <= int(labels.max()) < k
    for image in labels.numpy():
        assert all(ndimage.label(image == label)[1] == 1 for label in np.unique(image))


def test_a_pixel_and_four_pixels():
    assert superpixels(torch.tensor([[[[7.0]]]])).tolist() == [[[0]]]
    assert superpixels(torch.tensor([[[[0.0, 1], [2, 3]]]])).tolist() == [[[0, 1], [2, 3]]]
    assert superpixels(torch.tensor([[[[0.0, 0], [1, 1]]]]), n_segments=2).unique().tolist() == [0, 1]
    assert superpixels(torch.zeros(0, 3, 8, 8)).shape == (0, 8, 8)


@pytest.mark.parametrize(
    ("height", "width", "n_segments", "grid"),
    [
        (28, 28, 49, (7, 7)),
        (28, 28, 50, (7, 7)),
        (32, 32, 49, (7, 7)),
        (512, 512, 100, (10, 10)),
        (20, 40, 50, (5, 10)),
        (1, 100, 50, (1, 50)),
        (100, 1, 50, (50, 1)),
        (28, 28, 1, (1, 1)),
        (28, 28, 2, (1, 2)),
        (28, 28, 1000, (28, 28)),
        (1, 1, 49, (1, 1)),
        (3, 5, 15, (3, 5)),
    ],
)
def test_grid(height, width, n_segments, grid):
    assert _grid(height, width, n_segments) == grid
    assert n_seeds(height, width, n_segments) == math.prod(grid)


@pytest.mark.parametrize("height", [1, 2, 7, 28, 45])
@pytest.mark.parametrize("width", [1, 5, 28, 96])
def test_as_many_seeds_as_wanted(height, width):
    for n in range(1, height * width + 1, 1 + height * width // 50):
        k = n_seeds(height, width, n)
        assert k <= height * width
        assert abs(k - n) <= math.sqrt(n) / 2 + 1 + n * (n > height * width / 2)
        rows, columns = _grid(height, width, n)
        assert max(rows / height, columns / width) <= 1


@pytest.mark.parametrize("shape", [*SHAPES, (3, 512, 512)], ids=str)
@pytest.mark.parametrize("value", [0.0, 0.1, -1e30])
@pytest.mark.parametrize("n_segments", [49, 6])
def test_one_colour_gives_the_grid(shape, value, n_segments):
    images = torch.full((1 if shape[1] == 512 else 2, *shape), value)
    expected = plain_grid(shape[1], shape[2], n_segments).expand(len(images), -1, -1)
    assert torch.equal(superpixels(images, n_segments, sigma=0.7 * (shape[1] < 512)), expected)


def test_limits_give_the_grid():
    images = noise(2, 3, 29, 34)
    grid = plain_grid(29, 34, 30).expand(2, -1, -1)
    assert torch.equal(superpixels(images, 30, n_iterations=0), grid)
    assert torch.equal(superpixels(images, 30, compactness=1e3), grid)
    assert torch.equal(superpixels(images, 30, compactness=1e300), grid)
    assert torch.equal(superpixels(images, sigma=1e-200), superpixels(images))


@pytest.mark.parametrize("edge", [9, 13, 14, 18])
@pytest.mark.parametrize("side", [28, 37])
def test_segments_end_at_an_edge(edge, side):
    images = torch.zeros(3, 3, side, side)
    images[0, :, :, edge:] = 1
    images[1, :, edge:] = 1
    images[2, 1, torch.arange(side)[:, None] + torch.arange(side) >= 2 * edge] = 0.5
    labels = superpixels(images)
    for image, cut in zip(images.amax(1).bool().numpy(), labels.numpy(), strict=True):
        away = [ndimage.binary_erosion(m, iterations=1, border_value=1) for m in (image, ~image)]
        assert not set(cut[away[0]]) & set(cut[away[1]])
        assert unexplained(image[..., None], cut) < 0.01


@pytest.mark.parametrize("sigma", [0.0, 1.5])
def test_labels_do_not_depend_on_the_batch(sigma):
    images = noise(9, 3, 30, 37)
    images[4] = 1.0
    images[5] *= 1000
    whole = superpixels(images, 30, sigma=sigma)
    for chunk in (1, 2, 4):
        parts = [superpixels(part, 30, sigma=sigma) for part in images.split(chunk)]
        assert torch.equal(torch.cat(parts), whole)
    order = torch.tensor([5, 2, 8, 2, 0])
    assert torch.equal(superpixels(images[order], 30, sigma=sigma), whole[order])
    assert torch.equal(superpixels(images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), 30, sigma=sigma), whole)


def test_labels_do_not_depend_on_threads():
    images = noise(2, 3, 200, 230)
    one = superpixels(images, 60)
    torch.set_num_threads(3)
    try:
        assert torch.equal(superpixels(images, 60), one)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("low", [0, 1])
def test_labels_do_not_depend_on_units(low):
    rng = np.random.default_rng(low)
    octets = torch.tensor(rng.integers(low, 256 - low, size=(8, 3, 28, 28)), dtype=torch.float32)
    octets = torch.nn.functional.avg_pool2d(octets, 3, 1, 1).round()
    labels = superpixels(octets)
    for same in (octets / 255, octets / 127.5 - 1, (octets / 255 - 0.456) / 0.224, octets.double() * 1e-9, -octets):
        assert torch.equal(superpixels(same), labels)
    grey = octets[:, :1]
    assert (superpixels(grey.expand(-1, 3, -1, -1)) == superpixels(grey)).float().mean() > 0.99


@pytest.mark.parametrize("sigma", [0.0, 0.4, 1.5])
def test_blur_is_that_of_scipy(sigma):
    images = noise(2, 2, 17, 30).double()
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    unit = ((images - low) / (high - low)).numpy()
    blurred = ndimage.gaussian_filter(unit, (0, 0, sigma, sigma), mode="nearest", truncate=4)
    assert np.abs(_standardise(images, sigma).movedim(0, 1).numpy() / 2**12 - blurred).max() < 0.51 / 2**12


def best_of_skimage(image, count):
    """The least unexplained share of scikit-image over three settings, for `count` segments.

    Its number of segments comes in leaps, so we interpolate between the two nearest.
    """
    slic = pytest.importorskip("skimage.segmentation").slic
    scale = 100 if image.shape[-1] == 3 else 1  # colours become Lab, in 0..100
    shares = []
    for compactness in (0.1, 0.2, 0.3):
        wanted = range(count // 2, 2 * count, max(count // 16, 1))
        cuts = [slic(image, n, compactness * scale, channel_axis=-1) for n in wanted]
        points = np.array(sorted((len(np.unique(labels)), unexplained(image, labels)) for labels in cuts))
        assert points[0, 0] <= count <= points[-1, 0]
        shares.append(float(np.interp(count, points[:, 0], points[:, 1])))
    return min(shares)


@pytest.mark.skipif("FANS_DATA" not in os.environ, reason="FANS_DATA is not set")
def test_as_good_as_skimage_on_clothes():
    path = Path(os.environ.get("FANS_DATA", "")) / "FashionMNIST/raw/t10k-images-idx3-ubyte.gz"
    octets = np.frombuffer(gzip.decompress(path.read_bytes())[16:], np.uint8).reshape(-1, 28, 28, 1)[:16]
    images = octets / 255
    labels = superpixels(torch.tensor(images).movedim(3, 1)).numpy()
    ours = [unexplained(i, s) for i, s in zip(images, labels, strict=True)]
    theirs = [best_of_skimage(i, len(np.unique(s))) for i, s in zip(images, labels, strict=True)]
    assert sum(ours) <= sum(theirs)
    assert max(np.array(ours) / theirs) <= 1.15


def test_as_good_as_skimage_on_a_photograph():
    astronaut = pytest.importorskip("skimage.data").astronaut()
    small = astronaut.reshape(128, 4, 128, 4, 3).mean((1, 3)) / 255
    labels = superpixels(torch.tensor(small).movedim(2, 0)[None], 100)[0].numpy()
    assert unexplained(small, labels) <= best_of_skimage(small, len(np.unique(labels)))


def test_a_large_image_takes_little_memory():
    code = (
        "import resource, torch\n"
        "from fans.modalities.image.superpixels import superpixels\n"
        "torch.set_num_threads(1)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "superpixels(torch.rand(1, 3, 32, 32))\n"
        "images = torch.rand(1, 3, 512, 512)\n"
        "before = peak()\n"
        "superpixels(images)\n"
        "print(peak() - before)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout  # noqa: S603
    assert float(out) < 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": torch.zeros(3, 8, 8)}, "got torch.float32 of shape (3, 8, 8)"),
        ({"images": torch.zeros(1, 3, 0, 8)}, "got torch.float32 of shape (1, 3, 0, 8)"),
        ({"images": torch.zeros(1, 1, 2, 2, dtype=torch.complex64)}, "got torch.complex64"),
        ({"images": torch.tensor([0.0, math.nan]).view(2, 1, 1, 1)}, "got nan or inf in image 1"),
        ({"images": torch.tensor([math.inf, 0.0]).view(2, 1, 1, 1)}, "got nan or inf in image 0"),
        ({"n_segments": 0}, "`n_segments` as a whole number of at least 1, got 0"),
        ({"n_iterations": -1}, "`n_iterations` as a whole number of at least 0, got -1"),
        ({"compactness": -0.5}, "`compactness` as a finite number of at least 0, got -0.5"),
        ({"sigma": math.nan}, "`sigma` as a finite number of at least 0, got nan"),
    ],
)
def test_bad_arguments(change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        superpixels(**{"images": torch.zeros(1, 1, 4, 4), **change})
