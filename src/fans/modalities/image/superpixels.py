"""Superpixels: connected patches of similar colour, found for many images at once.

SLIC (Achanta et al., IEEE TPAMI 2012): k-means on colour and position, started on a regular grid, where a pixel only
looks at the 3x3 seeds around its own grid cell. Labels are a function of the image alone: colours are whole numbers,
so that sums are exact in any order, and everything else is one elementwise operation after another. They are the same
whatever the batch, the number of threads, or the units of the image.

Shapes: B images, C channels, K seeds on `rows` x `columns`. Pixels are laid out by cell, `(rows, h, columns, w, B)`:
a cell's centre meets its pixels by broadcasting, with nothing to gather. Cells differ by at most a pixel; the smaller
ones are padded with copies of weight 0.
"""

import math
from collections.abc import Iterable
from functools import reduce

import torch
from torch import Tensor

from fans.errors import InputError, check_whole, is_number

_LEVELS = 2**12
"""Colour levels of an image's range; a power of 2, which leaves no ties to round for images of 8 bits."""


def superpixels(
    images: Tensor, n_segments: int = 49, compactness: float = 0.2, n_iterations: int = 10, sigma: float = 0.0
) -> Tensor:
    """Cut images into superpixels.

    A pixel goes to the seed with the smallest `|colour|^2 / C + compactness^2 |position|^2 / step^2`, where colours are
    in units of the image's own range and `step` is the distance between seeds.

    Args:
        images: `(B, C, H, W)` finite values, in any units.
        n_segments: segments wanted; `n_seeds` gives their number K.
        compactness: weight of position against colour; large values approach the grid.
        n_iterations: rounds of assignment and update; 0 gives the grid.
        sigma: standard deviation in pixels of a Gaussian blur before segmenting; 0 for none.

    Returns:
        `(B, H, W)` int64 labels in 0, ..., K - 1. Each label in use is one 4-connected patch; some may be unused.

    >>> superpixels(torch.tensor([[[[0.0, 0, 0, 9], [0, 0, 9, 9]]]]), n_segments=2)
    tensor([[[0, 0, 0, 1],
             [0, 0, 1, 1]]])
    """
    _check(images, compactness, n_iterations, sigma)
    channels, height, width = images.shape[1:]
    rows, columns = _grid(height, width, n_segments)
    colours = _standardise(images, sigma)
    weight = min(compactness, 1e6) * _LEVELS * math.sqrt(channels * rows * columns / (height * width))
    labels, centres = _cluster(colours, rows, columns, weight, n_iterations)
    return _connect(labels, colours, centres, weight)


def n_seeds(height: int, width: int, n_segments: int) -> int:
    """Return K, the number of seeds on the regular grid of nearly square cells that comes nearest to `n_segments`."""
    return math.prod(_grid(height, width, n_segments))


def _grid(height: int, width: int, n_segments: int) -> tuple[int, int]:
    """Return rows and columns of seeds: nearest in number, then of the squarest cells."""
    for name, value in (("height", height), ("width", width), ("n_segments", n_segments)):
        check_whole(name, value, 1)
    step = math.sqrt(height * width / n_segments)

    def within(n: float, size: int) -> int:
        return min(max(int(n), 1), size)

    grids = [(r, within(round(n_segments / r), width)) for r in (within(height / step + i, height) for i in (0, 1))]
    grids += [(within(round(n_segments / c), height), c) for c in (within(width / step + i, width) for i in (0, 1))]
    return min(grids, key=lambda g: (abs(g[0] * g[1] - n_segments), abs(math.log(height * g[1] / (width * g[0]))), g))


def _check(images: Tensor, compactness: float, n_iterations: int, sigma: float) -> None:
    """Raise unless the arguments of `superpixels` can be used."""
    if images.ndim != 4 or 0 in images.shape[1:] or images.is_complex():
        got = f"{images.dtype} of shape {tuple(images.shape)}"
        raise InputError(f"Expected `images` as real numbers of shape (B, C, H, W), got {got}")
    check_whole("n_iterations", n_iterations, 0)
    for name, value in (("compactness", compactness), ("sigma", sigma)):
        if not is_number(value) or not 0 <= value < math.inf:
            raise InputError(f"Expected `{name}` as a finite number of at least 0, got {value!r}")


def _standardise(images: Tensor, sigma: float) -> Tensor:
    """Return `(C, B, H, W)` whole numbers from 0, the image's least value, to `_LEVELS`, its greatest (as float32)."""
    images = images.detach().double()
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    span = high - low
    if not span.isfinite().all():
        bad = int((~span.isfinite()).flatten().nonzero()[0])
        raise InputError(f"Expected finite values in `images`, got nan or inf in image {bad}")
    unit = (images - low) / torch.where(span > 0, span, 1)
    for dim in (2, 3) if sigma > 0 else ():
        unit = _blur(unit, sigma, dim)
    return (unit * _LEVELS).round_().float().movedim(1, 0).contiguous()


def _blur(images: Tensor, sigma: float, dim: int) -> Tensor:
    """Convolve one axis with a Gaussian cut at 4 sigma; the border's pixels repeat outside."""
    reach = math.ceil(4 * sigma)
    taps = [math.exp(-0.5 * (i / sigma) * (i / sigma)) for i in range(-reach, reach + 1)]
    size = images.shape[dim]
    places = torch.arange(size, device=images.device)
    out = torch.zeros_like(images)
    for i, tap in enumerate(taps):
        out += images.index_select(dim, (places + i - reach).clamp_(0, size - 1)) * (tap / sum(taps))
    return out


def _squared_distance(points: Iterable[Tensor], centres: Iterable[Tensor]) -> Tensor:
    """Sum squared differences, one feature after another: the order in which `sum` adds may depend on the shape."""
    squares = ((point - centre).square_() for point, centre in zip(points, centres, strict=True))
    total = next(squares)
    for square in squares:
        total += square
    return total


def _cells(size: int, n: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Cut an axis into `n` cells, as equal as can be.

    Returns:
        `(n, h)` the pixel in each place, `(n, h)` whether it is there (and not padding), `(size,)` each pixel's place.
    """
    start = (torch.arange(n + 1, device=device) * size + n - 1) // n  # pixel y is in cell y * n // size
    places = start[:-1, None] + torch.arange(-(-size // n), device=device)
    last = start[1:, None] - 1
    return places.minimum(last), places <= last, (places <= last).flatten().nonzero().flatten()


def _cluster(colours: Tensor, rows: int, columns: int, weight: float, n_iterations: int) -> tuple[Tensor, Tensor]:
    """Run k-means from the grid.

    Returns:
        Labels `(B, H, W)`, and centres `(C + 2, B, K)`: colours, then y and x times `weight`.
    """
    channels, n, height, width = colours.shape
    y, y_there, y_place = _cells(height, rows, colours.device)
    x, x_there, x_place = _cells(width, columns, colours.device)
    shape = (*y.shape, *x.shape, n)
    pixels = colours.index_select(2, y.flatten()).index_select(3, x.flatten())
    pixels = pixels.movedim(1, 3).contiguous().view(channels, *shape)
    y_axis, x_axis = y.view(*y.shape, 1, 1, 1), x.view(1, 1, *x.shape, 1)
    there = (y_there.view(y_axis.shape) & x_there.view(x_axis.shape)).double()
    features = [*pixels, y_axis, x_axis, there.new_ones(1)]
    addends = torch.stack([(f * there).expand(shape).flatten() for f in features])
    points = [*pixels, y_axis.float() * weight, x_axis.float() * weight]
    scale = torch.tensor([1.0] * channels + [weight, weight], dtype=torch.float64, device=colours.device)[:, None]

    cell = torch.arange(rows, device=colours.device).view(rows, 1, 1, 1, 1) * columns
    cell = (cell + torch.arange(columns, device=colours.device).view(columns, 1, 1)) * n
    cell = cell + torch.arange(n, device=colours.device)
    index = cell.expand(shape)
    centres = torch.zeros(channels + 2, rows * columns * n, device=colours.device)
    for i in range(n_iterations + 1):
        if i:
            index = _nearest(points, centres.view(channels + 2, rows, columns, n)).mul_(n).add_(cell)
        sums = addends.new_zeros(len(addends), centres.shape[1])
        sums.scatter_add_(1, index.flatten().expand(len(addends), -1), addends)
        means = (sums[:-1] / sums[-1].clamp(min=1) * scale).float()
        centres = torch.where(sums[-1] > 0, means, centres)  # a seed without pixels stays where it is
    index = index.reshape(y.numel(), x.numel(), n).index_select(0, y_place).index_select(1, x_place)
    labels = index.movedim(2, 0).div(max(n, 1), rounding_mode="floor")
    return labels.contiguous(), centres.view(channels + 2, rows * columns, n).movedim(2, 1)


def _nearest(points: list[Tensor], centres: Tensor) -> Tensor:
    """Return the nearest of the 3x3 centres around each pixel's cell, as a step in labels; ties stay at home."""
    rows, columns = centres.shape[1:3]
    around = torch.nn.functional.pad(centres, (0, 0, 1, 1, 1, 1), value=math.inf)
    steps = sorted(((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)), key=lambda step: step != (0, 0))

    def packed(i: int, dy: int, dx: int) -> Tensor:
        near = around[:, 1 + dy :, None, 1 + dx :, None][:, :rows, :, :columns]
        return _squared_distance(points, near).view(torch.int32).bitwise_and_(-16).add_(i)

    # The bits of floats from 0 up are ordered as the floats are; the last four make room for the centre's number, so
    # that one `minimum` keeps both. Several times faster than a comparison and a choice.
    best = reduce(torch.minimum, (packed(i, *step) for i, step in enumerate(steps)))
    return torch.tensor([dy * columns + dx for dy, dx in steps], device=best.device)[best.bitwise_and_(15)]


def _connect(labels: Tensor, colours: Tensor, centres: Tensor, weight: float) -> Tensor:
    """Keep the largest patch of each label, and let the nearest of the segments around grow into what is left."""
    n, height, width = labels.shape
    k = centres.shape[2]
    flat = (labels + torch.arange(n, device=labels.device).view(n, 1, 1) * k).flatten()  # no label in two images
    orphan = ~_largest_patches(flat.view_as(labels), n * k)
    colours, centres = colours.flatten(1), centres.flatten(1)
    left = orphan.nonzero().flatten()
    while len(left):
        row, column = left // width % height, left % width
        inside = torch.stack([row > 0, column > 0, column < width - 1, row < height - 1])
        around = left + torch.tensor([[-width], [-1], [1], [width]], device=left.device)
        around = torch.where(inside, around, left)
        closed = orphan[around]  # also outside the image: there stands the pixel itself
        edge = ~closed.all(0)
        pixel, around = left[edge], flat[around[:, edge]]
        points = [*colours[:, pixel], row[edge].float() * weight, column[edge].float() * weight]
        distance = _squared_distance(points, centres[:, around]).masked_fill_(closed[:, edge], math.inf)
        flat[pixel] = around.gather(0, distance.argmin(0, keepdim=True))[0]
        orphan[pixel] = False
        left = left[~edge]
    return flat.view_as(labels) % k


def _largest_patches(labels: Tensor, n_labels: int) -> Tensor:
    """Tell which pixels belong to the largest 4-connected patch of their label; of equals, the first.

    Args:
        labels: `(B, H, W)`; no label occurs in two images.
        n_labels: labels are below it.

    Returns:
        `(B * H * W,)` bool.
    """
    index = torch.arange(labels.numel(), device=labels.device)
    patch = _patches(labels, index)
    first = (patch == index).nonzero().flatten()
    size = torch.zeros_like(index).scatter_add_(0, patch, torch.ones_like(patch))[first]
    rank = size * len(index) - first
    label = labels.flatten()[first]
    best = rank.new_zeros(n_labels).scatter_reduce_(0, label, rank, "amax")
    kept = torch.zeros_like(index, dtype=torch.bool)
    kept[first] = rank == best[label]
    return kept[patch]


def _patches(labels: Tensor, index: Tensor) -> Tensor:
    """Return for each pixel the first pixel (in reading order) of its 4-connected patch, `(B * H * W,)`."""
    places = index.view_as(labels)
    starts = torch.ones_like(labels, dtype=torch.bool)
    starts[..., 1:] = labels[..., 1:] != labels[..., :-1]
    run = torch.where(starts, places, 0).cummax(2).values  # the first pixel of each horizontal run
    touch = (labels[:, 1:] == labels[:, :-1]) & (starts[:, 1:] | starts[:, :-1])  # two runs meet: once is enough
    above, below = run[:, :-1][touch], run[:, 1:][touch]
    # Union: each run points to an earlier one of its patch, until runs that touch point to the same.
    parent = index.clone()
    while True:
        a, b = parent[above], parent[below]
        if torch.equal(a, b):
            return parent[run.flatten()]
        parent.scatter_reduce_(0, a.maximum(b), a.minimum(b), "amin")
        parent = parent[parent]
