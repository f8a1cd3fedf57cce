"""Images: pixels, patches or superpixels, of any size and number of channels."""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError, check_whole, choose, is_number, warn
from fans.modalities.base import (
    LARGEST_ELEMENT,
    Baseline,
    Blocks,
    Distance,
    DrawnRows,
    FeatureSpace,
    FittedSpace,
    Fixed,
    Mixed,
    Noise,
    OfSample,
    Units,
    filled,
    refuse_empty,
    shape_of,
    what_is_wrong,
)
from fans.modalities.image.superpixels import n_seeds, superpixels
from fans.modalities.masks import features_of_mask

Unit = Literal["superpixel", "patch", "pixel", "cell"]
Channels = Literal["first", "last", "none"]

_MOST_APART = 100
"""More patches than this are drawn in blocks."""

OCTET = 255
"""The highest whole number that a byte holds: what files of images are made of."""

SMOOTH = 1.5
"""Of a gradient on a fine grid, in features: without it a network's quirks are all one sees."""

_CELLS = 32
"""Cells that span the longer side of an image at most."""

_STEP = 16
"""Reference samples whose distances are computed at a time."""


@dataclass(frozen=True)
class Image(FeatureSpace):
    """The regions of an image.

    Args:
        unit: what a feature is: a `"patch"`, a `"superpixel"` (SLIC, its own in every image), a `"pixel"` or a
            `"cell"`, the smallest patch of which 32 span the longer side: a pixel of small images. All channels of a
            pixel belong together. None: superpixels if you say how many or how compact, else patches; FANS's chain
            takes cells.
        n_segments: superpixels wanted, 64 by default; the grid that seeds them comes near it.
        compactness: how much closeness in the plane counts against closeness in colour, 0.3 by default.
        patch: side of a patch in pixels, by default a sixteenth of the image's longer side; those at the right and
            lower edge may be smaller.
        channels: where the channel axis is: `"first"` `(n, C, H, W)`, `"last"` `(n, H, W, C)` or `"none"` `(n, H, W)`.
            None: by the number of dimensions, and the axis of 1, 3 or 4.
        value_range: lowest and highest value of a pixel, as the model was trained; by default the background's.
        sigma: of the Gaussian of `baseline="blur"`, in pixels; by default an eighth of the image's longer side.
        feature_mask: instead of a unit, whole numbers that say which feature each pixel belongs to: see `FeatureMask`.

    Example:
        >>> Image("patch", patch=2).fit(np.random.default_rng(0).random((5, 1, 4, 6))).feature_names[1]
        'rows 0-1, columns 2-3'
    """

    baselines: ClassVar[tuple[str, ...]] = ("blank", "mean", "own", "border", "uniform", "zero", "blur", "background")

    unit: Unit | None = None
    n_segments: int | None = None
    compactness: float | None = None
    patch: int | None = None
    channels: Channels | None = None
    value_range: tuple[float, float] | None = None
    sigma: float | None = None
    feature_mask: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.unit is not None:
            choose("`unit`", self.unit, get_args(Unit))
        for name in ("n_segments", "patch"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        if self.channels is not None:
            choose("`channels`", self.channels, ("first", "last", "none"))
        for name in ("compactness", "sigma"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 < value < float("inf")):
                raise InputError(f"Expected `{name}` above 0, got {value!r}")
        if self.value_range is not None and not _is_range(self.value_range):
            raise InputError(f"Expected `value_range` as (lowest, highest), finite numbers, got {self.value_range!r}")
        given = [n for n in ("unit", "n_segments", "compactness", "patch") if getattr(self, n) is not None]
        if self.feature_mask is not None and given:
            raise InputError(f"Expected `feature_mask` or `{given[0]}`, got both; the mask says what a feature is")

    @property
    def kind(self) -> Unit | Literal["region"]:
        """What a feature is, if `unit` does not say."""
        if self.feature_mask is not None:
            return "region"
        superpixel = self.n_segments is not None or self.compactness is not None
        return self.unit or ("superpixel" if superpixel else "patch")

    @property
    def slic(self) -> tuple[int, float]:
        """How many superpixels, and how compact."""
        return self.n_segments or 64, self.compactness or 0.3

    def fit(self, background: Any) -> "FittedImage":
        """Bind to a background set of images."""
        refuse_empty(background)
        return FittedImage(self, background)


def _are_octets(images: Any) -> bool:
    """Tell whether images are of bytes."""
    return images.dtype == torch.uint8 if isinstance(images, Tensor) else bool(np.asarray(images).dtype == np.uint8)


def _is_range(value: Any) -> bool:
    numbers = shape_of(value, "`value_range`") == (2,) and all(map(is_number, value))
    return numbers and bool(np.isfinite(np.array(value, dtype=float)).all()) and bool(value[0] < value[1])


class FittedImage(FittedSpace):
    """Images of one shape, the scales of their pixels and the range of their values."""

    modality: ClassVar[str] = "image"
    kin: ClassVar[tuple[str, ...]] = ()
    # Chosen by IROF on images that are not reported: docs/benchmarks.md.
    swap_rate: ClassVar[float] = 0.02

    def __init__(self, image: Image, background: Any) -> None:
        super().__init__()
        self.image = image
        self._tensor = isinstance(background, Tensor)
        self._octets = _are_octets(background)
        shape = shape_of(background, "background")
        if len(shape) not in (3, 4) or 0 in shape:
            raise InputError(
                f"Expected `background` of shape (samples, channels, height, width), (samples, height, width, channels)"
                f" or (samples, height, width), got {shape}"
            )
        self.shape = shape[1:]
        self.channels = self._find_channels(image.channels, shape)
        self._height, self._width = self.shape[1:] if self.channels == "first" else self.shape[:2]
        across = _CELLS if image.kind == "cell" else 16
        self._side = 1 if image.kind == "pixel" else image.patch or -(-max(self._height, self._width) // across)
        axes = np.arange(self._height * self._width).reshape(self._height, self._width)
        if self.channels != "none":
            axes = np.expand_dims(axes, 0 if self.channels == "first" else -1)
        # (E,) the pixel, row by row, of each element
        self._pixel = torch.from_numpy(np.broadcast_to(axes, self.shape).ravel().copy())
        self._channel = self._channel_of_element()
        if self._octets:
            warn(
                "The background is of whole numbers from 0 to 255: a torch module gets them divided by 255, channels "
                "first, as torchvision's ToTensor makes them, and any other model as they are; pass floats as the "
                "model takes them if it was made for others"
            )
        rows = self._rows(background, "background")
        low, high = (rows.min(), rows.max()) if image.value_range is None else image.value_range
        one = OCTET if self._octets and image.value_range is not None else 1
        self.value_range = (float(low) / one, float(high) / one)
        spread = rows.std(0, correction=0)
        rounding = max(1e-12, 4 * torch.finfo(rows.dtype).eps)
        self._varies = spread > rounding * rows.abs().amax(0)
        self.scale = torch.where(self._varies, spread, torch.ones(()))
        self._mean = rows.mean(0)
        self._fixed_units = self._lay_out(image)

    @staticmethod
    def _find_channels(wanted: Channels | None, shape: tuple[int, ...]) -> Channels:
        """Say where the channel axis of a batch of this shape is."""
        if wanted is None:
            wanted = "none" if len(shape) == 3 else "last" if shape[1] > 4 >= shape[3] else "first"
        if (wanted == "none") != (len(shape) == 3):
            dimensions = 3 if wanted == "none" else 4
            raise InputError(
                f'Expected {dimensions} dimensions for channels="{wanted}", got a background of shape {shape}'
            )
        return wanted

    def _channel_of_element(self) -> Tensor:
        """Return the channel `(E,)` of each element."""
        if self.channels == "none":
            return torch.zeros_like(self._pixel)
        axis = 0 if self.channels == "first" else 2
        numbers = np.arange(self.shape[axis]).reshape([-1 if a == axis else 1 for a in range(3)])
        return torch.from_numpy(np.broadcast_to(numbers, self.shape).ravel().copy())

    def _lay_out(self, image: Image) -> Units | None:
        """Name the features, and return them where all images share them."""
        height, width, side = self._height, self._width, self._side
        if image.kind == "superpixel":
            n = n_seeds(height, width, image.slic[0])
            self.feature_names = tuple(f"superpixel {i + 1}" for i in range(n))
            return None
        across = -(-width // side)
        if image.feature_mask is not None:
            mask, plane = image.feature_mask, (height, width)
            while self.channels == "last" and len(shape_of(mask, "`feature_mask`")) > 2 and len(mask) == 1:
                mask = mask[0]
            if self.channels == "last" and shape_of(mask, "`feature_mask`") == plane:  # one for all channels
                mask = np.asarray(mask)[..., None]
            numbers, of_element = features_of_mask(mask, self.shape)
            self.feature_names = tuple(f"region {number}" for number in numbers)
            return self._sized(of_element[None], shared=True)
        row, column = self._pixel // width, self._pixel % width
        names = []
        for top in range(0, height, side):
            for left in range(0, width, side):
                bottom, right = min(top + side, height) - 1, min(left + side, width) - 1
                names.append(
                    f"row {top}, column {left}" if side == 1 else f"rows {top}-{bottom}, columns {left}-{right}"
                )
        self.feature_names = tuple(names)
        return self._sized((row // side * across + column // side)[None], shared=True)

    def _sized(self, of_element: Tensor, *, shared: bool) -> Units:
        size = torch.zeros(len(of_element), self.n_features)
        size.scatter_add_(1, of_element, torch.ones(()).expand_as(of_element))
        return Units(of_element, size, shared)

    def units(self, rows: Tensor, of: Tensor | None = None) -> Units:  # noqa: ARG002
        """Return the regions of each image: the same grid for all, or each one's own superpixels."""
        if self._fixed_units is not None:
            return self._fixed_units
        labels = superpixels(self.planes(rows), *self.image.slic)
        return self._sized(labels.flatten(1)[:, self._pixel], shared=False)

    def blocks(self) -> Blocks | None:
        """Return blocks of pixels, or of patches, if there are many."""
        if self.image.kind in ("superpixel", "region") or self.n_features <= _MOST_APART:
            return None
        return Blocks.of(-(-self._height // self._side), -(-self._width // self._side))

    def planes(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` as `(n, channels, height, width)`."""
        images = rows.view(-1, *self.shape)
        if self.channels == "none":
            return images[:, None]
        return images if self.channels == "first" else images.movedim(-1, 1)

    def rows(self, planes: Tensor) -> Tensor:
        """Return `(n, channels, height, width)` as rows `(n, E)`; a single plane serves all channels."""
        planes = planes.expand(-1, int(self._channel.max()) + 1, -1, -1)
        return (planes.movedim(1, -1) if self.channels == "last" else planes).flatten(1)

    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return images as rows `(n, E)` in the order their elements came."""
        rows = self._rows(inputs, what)
        self._warn_outside(rows, what)
        return rows

    def _rows(self, inputs: Any, what: str) -> Tensor:
        shape = shape_of(inputs, what)
        images = inputs.detach().cpu() if isinstance(inputs, Tensor) else torch.from_numpy(_numbers(inputs, what))
        if images.dtype == torch.uint8:
            images = self._laid_out(images)
            shape, images = tuple(images.shape), self._scaled(images, what)
        if not images.is_floating_point():
            kind = str(images.dtype).removeprefix("torch.")
            raise InputError(
                f"Expected floating-point images in {what}, scaled as the model was trained, got {kind}; convert them "
                "first, e.g. images / 255"
            )
        if images.dtype not in (torch.float32, torch.float64):
            images = images.float()
        if shape == self.shape:
            images = images[None]
        if tuple(images.shape[1:]) == self.shape and not len(images):
            raise InputError(f"Expected at least one image in {what}, got shape {shape}")
        if tuple(images.shape[1:]) != self.shape:
            raise InputError(
                f"Expected {what} of shape {self.shape} or (batch, {', '.join(map(str, self.shape))}) like the "
                f"background, got {shape}"
            )
        rows = images.reshape(len(images), -1).clone()
        bad = (~(rows.abs() <= LARGEST_ELEMENT)).nonzero()
        if len(bad):
            image, element = bad[0].tolist()
            value = rows[image, element].item()
            y, x = divmod(int(self._pixel[element]), self._width)
            expected, more = what_is_wrong(value, LARGEST_ELEMENT)
            raise InputError(
                f"Expected {expected} in {what}, got {value:.4g} in image {image}, row {y}, column {x} "
                f"({len(bad)} such values){more}"
            )
        return rows

    def _laid_out(self, octets: Tensor) -> Tensor:
        """Return images with their channels where the background has them: those of files have them last, or none."""
        n_channels, plane = int(self._channel.max()) + 1, (self._height, self._width)
        if self.channels == "none" or tuple(octets.shape[-3:]) == self.shape:
            return octets
        axis = -3 if self.channels == "first" else -1
        if n_channels == 1 and octets.ndim in (2, 3) and tuple(octets.shape[-2:]) == plane:
            return octets.unsqueeze(axis)
        return octets.movedim(-1, -3) if axis == -3 and tuple(octets.shape[-3:]) == (*plane, n_channels) else octets

    def _scaled(self, octets: Tensor, what: str) -> Tensor:
        """Return whole numbers from 0 to 255 on the scale of the background, and say which that is."""
        if self._octets:
            return octets.float() / OCTET
        low, high = self.value_range
        if low < 0 or high > OCTET:
            raise InputError(
                f"Expected {what} scaled as the background, whose values lie from {low:.4g} to {high:.4g}, got uint8, "
                "which may have been scaled in many ways; prepare it as the background was"
            )
        small = high <= 1
        how = "divided by 255" if small else "without scaling"
        warn(f"Took the uint8 images of {what} {how}, as the background's values lie from {low:.4g} to {high:.4g}")
        return octets.float() / (OCTET if small else 1)

    def _warn_outside(self, rows: Tensor, what: str) -> None:
        """Warn of values the model was hardly trained on."""
        low, high = self.value_range
        slack = 0.05 * (high - low)
        least, most = float(rows.min()), float(rows.max())
        if least < low - slack or most > high + slack:
            source = "background" if self.image.value_range is None else "value_range"
            warn(
                f"Expected {what} in the range of the {source}, {low:.4g} to {high:.4g}, got {least:.4g} to "
                f"{most:.4g}; scale images as the model was trained",
            )

    def decode(self, rows: Tensor) -> Any:
        """Return rows as the background came: a tensor or an array, of whole numbers if it was."""
        images = rows.view(-1, *self.shape)
        if self._octets:
            images = (images * OCTET).round().clamp(0, OCTET).to(torch.uint8)
        return images if self._tensor else images.numpy()

    def for_module(self, rows: Tensor) -> Tensor:
        """Return images as a torch module takes them: of whole numbers made floats, channels first."""
        return self.planes(rows) if self._octets else super().for_module(rows)

    def baseline(self, value: Any, background: Tensor) -> Baseline:
        """Return what replaces a missing region.

        `"blank"`: the image's own mean colour, and in every third perturbation the colour of its border, so that an
        empty background, which the one would fill, does not seem to matter; `"own"` and `"border"`: either alone;
        `"mean"`: the background's mean colour; `"uniform"`: noise over the range of values; `"zero"`; `"blur"`: the
        image itself, blurred; `"background"`: the same region of a background image; or a number or an image.
        """
        if isinstance(value, str):
            name = choose("`baseline`", value, Image.baselines)
            named: dict[str, Callable[[], Baseline]] = {
                "background": DrawnRows,
                "blur": lambda: OfSample(self._blur),
                "own": lambda: OfSample(self._own_colour),
                "border": lambda: OfSample(self._border_colour),
                "blank": lambda: Mixed((self._own_colour, self._border_colour), turns=(0, 0, 1)),
                "uniform": self._noise_baseline,
            }
            if name in named:
                return named[name]()
            value = 0.0 if name == "zero" else self._mean_colour(background)
        if shape_of(value, "`baseline`") == ():
            if not isinstance(value, Real | np.generic | np.ndarray | Tensor):
                raise InputError(f"Expected `baseline` as a name, a number or an image, got {value!r}")
            value = torch.full(self.shape, self._number(float(value)), dtype=torch.float64)
        if not isinstance(value, Tensor):
            array = _numbers(value, "baseline")
            value = array if array.dtype == np.uint8 else array.astype(float)
        row = self._rows(value, "baseline")
        if len(row) != 1:
            raise InputError(f"Expected `baseline` as one image of shape {self.shape}, got {len(row)} images")
        return Fixed(row[0].to(background.dtype))

    def _number(self, value: float) -> float:
        """Return a number on the scale of the rows."""
        if not self._octets:
            return value
        if 0 < value < 1 or not 0 <= value <= OCTET:
            raise InputError(f"Expected `baseline` from 0 to 255, as the images are, got {value:.4g}; pass 127, say")
        return value / OCTET

    def _noise_baseline(self) -> Noise:
        low, high = self.value_range
        if low == high:
            raise InputError(
                f'Expected a background of more than one value for baseline="uniform", got only {low:.4g}; '
                "pass Image(value_range=(lowest, highest)) or another baseline"
            )
        return Noise(low, high)

    def _mean_colour(self, background: Tensor) -> Tensor:
        """Return an image of each channel's mean over the background."""
        n_channels = int(self._channel.max()) + 1
        total = torch.zeros(n_channels, dtype=background.dtype).index_add_(0, self._channel, background.mean(0))
        return (total / (self._height * self._width))[self._channel].view(self.shape)

    def _own_colour(self, rows: Tensor) -> Tensor:
        """Return images of each one's mean colour."""
        planes = self.planes(rows)
        return self.rows(planes.mean((2, 3), keepdim=True).expand_as(planes))

    def _border_colour(self, rows: Tensor) -> Tensor:
        """Return images of the median colour of each one's outermost pixels."""
        planes = self.planes(rows)
        edges = [planes[:, :, 0], planes[:, :, -1], planes[..., 0], planes[..., -1]]
        return self.rows(torch.cat(edges, 2).median(2).values[..., None, None].expand_as(planes))

    def smooth(self, of_features: Tensor) -> Tensor:
        """Return values of cells blurred by a Gaussian of one and a half, where there are many."""
        if self.blocks() is None:
            return of_features
        planes = of_features.view(len(of_features), 1, -(-self._height // self._side), -1)
        return blurred(planes, SMOOTH).flatten(1)

    def _blur(self, rows: Tensor) -> Tensor:
        """Return the images blurred."""
        return self.rows(blurred(self.planes(rows), self.image.sigma))

    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:
        """Return squared distances, standardised for `"rms"`, summed over the elements of each region."""
        scale = self.scale.to(x.dtype) if distance == "rms" else torch.ones((), dtype=x.dtype)
        parts = []
        for start in range(0, rows.shape[1], _STEP):
            squared = ((x[:, None] - rows[:, start : start + _STEP]) / scale) ** 2
            parts.append(units.collect(squared))
        return torch.cat(parts, 1)

    def deviations(self, background: Tensor) -> Tensor:
        """Return each image's squared standardised deviation minus 1, of elements that vary."""
        squared = ((background - self._mean) / self.scale) ** 2 - 1
        return torch.where(self._varies, squared, torch.zeros((), dtype=squared.dtype))

    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:
        """Return noise for the elements that vary."""
        scale = self.scale if relative else torch.ones_like(self.scale)
        return normals * torch.where(self._varies, size * scale, torch.zeros(()))

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:
        """Take a mask of pixels `(height, width)` or `(batch, height, width)`: a region is in if most of it is."""
        plane = (self._height, self._width)
        if tuple(mask.shape) not in (plane, (batch, *plane)) or tuple(mask.shape) == (batch, self.n_features):
            return mask
        inside = mask.reshape(-1, self._height * self._width)[:, self._pixel].float().expand(batch, -1)
        counts = torch.zeros(batch, self.n_features).scatter_add_(1, units.of_element.expand(batch, -1), inside)
        return counts > units.size / 2


def _numbers(inputs: Any, what: str) -> np.ndarray[Any, Any]:
    array = np.array(filled(inputs))
    if array.dtype.kind not in "fiub":
        raise InputError(f"Expected numbers in {what}, got {array.dtype}")
    if array.dtype.kind == "f":  # of any byte order and width
        return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)
    return array


def blurred(planes: Tensor, sigma: float | None = None) -> Tensor:
    """Return planes `(n, channels, height, width)` blurred by a Gaussian, which is cut and weighed anew at the edges.

    `sigma` is in pixels; by default an eighth of the longer side.
    """
    height, width = planes.shape[2:]
    sigma = sigma or max(1.0, max(height, width) / 8)
    down, across = (_gaussian(n, sigma, planes.dtype) for n in (height, width))
    return down @ planes @ across.T


def _gaussian(n: int, sigma: float, dtype: torch.dtype) -> Tensor:
    """Return the matrix `(n, n)` that blurs one axis; rows sum to 1."""
    places = torch.arange(n, dtype=dtype)
    kernel = torch.exp(-((places[:, None] - places) ** 2) / (2 * sigma**2))
    return kernel / kernel.sum(1, keepdim=True)
