"""Series: windows of channels, whole channels, or windows across all channels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError, check_whole, checked_names, choose, is_number, warn
from fans.modalities.base import (
    LARGEST_ELEMENT,
    Baseline,
    Distance,
    DrawnRows,
    FeatureSpace,
    FittedSpace,
    Fixed,
    Noise,
    OfSample,
    Units,
    filled,
    refuse_empty,
    shape_of,
    what_is_wrong,
)
from fans.modalities.series import stand_ins
from fans.modalities.series.times import Times, are_times
from fans.modalities.table.space import is_frame, is_series

By = Literal["window", "channel", "time"]
Channels = Literal["first", "last", "none"]

MOST_WINDOWS, MOST_FEATURES = 25, 250
"""Windows of a channel, and of all channels together, unless the user says how long one is."""

_STEP = 16
"""Reference samples whose distances are computed at a time."""


@dataclass(frozen=True)
class Series(FeatureSpace):
    """The windows of a series.

    Args:
        window: steps of a window; the last one may be shorter. By default such that there are about 25 windows of a
            channel, fewer where more than ten channels would make more than 250 features.
        by: what a feature is: a `"window"` of a channel, a whole `"channel"`, or the window of all channels at one
            `"time"`.
        channels: where the channel axis is: `"first"` `(n, C, T)`, `"last"` `(n, T, C)` or `"none"` `(n, T)`. None: by
            the number of dimensions; of two axes the longer one is time.
        channel_names: one of each channel.
        times: when the steps are, for names and pictures: rising numbers or datetimes, one of each step. The columns of
            a frame say so themselves where they are such.
        sigma: of the Gaussian of `baseline="blur"`, in steps; by default the length of a window.

    Example:
        >>> Series(window=20, channel_names=["heart rate", "pressure"]).fit(np.zeros((5, 2, 50))).feature_names[:3]
        ('heart rate 0-19', 'heart rate 20-39', 'heart rate 40-49')
    """

    baselines: ClassVar[tuple[str, ...]] = ("mean", "linear", "background", "zero", "blur", "noise")

    window: int | None = None
    by: By = "window"
    channels: Channels | None = None
    channel_names: Sequence[str] | None = None
    times: Any = field(default=None, compare=False)
    sigma: float | None = None

    def __post_init__(self) -> None:
        choose("`by`", self.by, get_args(By))
        if self.channels is not None:
            choose("`channels`", self.channels, get_args(Channels))
        if self.window is not None:
            check_whole("window", self.window, 1)
            if self.by == "channel":
                raise InputError(
                    f'Expected no `window` with by="channel", which takes channels whole, got {self.window}'
                )
        if self.sigma is not None and not (is_number(self.sigma) and 0 < self.sigma < float("inf")):
            raise InputError(f"Expected `sigma` above 0, got {self.sigma!r}")

    def fit(self, background: Any) -> "FittedSeries":
        """Bind to a background set of series."""
        refuse_empty(background)
        return FittedSeries(self, background)

    def length(self, n_channels: int, n_steps: int) -> int:
        """Return the steps of a window."""
        if self.by == "channel":
            return n_steps
        if self.window is None:
            n_alike = 1 if self.by == "time" else n_channels
            return -(-n_steps // min(MOST_WINDOWS, max(1, MOST_FEATURES // n_alike)))
        if self.window > n_steps:
            raise InputError(
                f"Expected `window` of at most {n_steps}, the steps of the series, got {self.window}; "
                'by="channel" takes channels whole'
            )
        return self.window


class FittedSeries(FittedSpace):
    """Series of one shape, their windows, and the scales of their elements."""

    modality: ClassVar[str] = "series"
    kin: ClassVar[tuple[str, ...]] = ("table",)
    # Chosen on planted windows that are not reported: docs/benchmarks.md.
    swap_rate: ClassVar[float] = 0.02
    solver: ClassVar[Literal["game", "walks"]] = "walks"
    reach: ClassVar[float] = 0.05

    def __init__(self, series: Series, background: Any) -> None:
        super().__init__()
        self.series = series
        self.named, self._tensor = is_frame(background), isinstance(background, Tensor)
        self._labels: Any = background.columns if self.named else None
        shape = shape_of(background, "background")
        if len(shape) not in (2, 3) or 0 in shape:
            raise InputError(
                "Expected `background` of shape (samples, channels, time), (samples, time, channels) or (samples, "
                f"time), got {shape}; a single series is a background as series[None]"
            )
        self.shape = shape[1:]
        self.channels = find_channels(series.channels, shape)
        last = self.channels == "last"
        n_channels, n_steps = (1, *shape[1:])[-2:] if not last else (shape[2], shape[1])
        self._plane = (n_channels, n_steps)
        self.times = Times.of(self._given_times(), n_steps)
        self.channel_names = self._names_of_channels(n_channels)
        step, channel = np.meshgrid(np.arange(n_steps), np.arange(n_channels))  # (C, T)
        self._channel, self._at = (torch.from_numpy((a.T if last else a).ravel().copy()) for a in (channel, step))
        self.window = series.length(n_channels, n_steps)
        self._starts = torch.arange(0, n_steps, self.window)
        self._units = self._lay_out()
        self._learn_scales(self.encode(background, "background"))

    def _given_times(self) -> Any:
        """Return the user's times: those of a frame's columns, where these are numbers or moments."""
        if self.series.times is not None or not self.named:
            return self.series.times
        return self._labels if are_times(self._labels) else None

    def _names_of_channels(self, n_channels: int) -> tuple[str, ...]:
        if self.series.channel_names is not None:
            return checked_names("channel_names", self.series.channel_names, n_channels, "channel")
        return tuple(f"channel {c}" for c in range(n_channels)) if n_channels > 1 else ("",)

    def _lay_out(self) -> Units:
        """Name the features, and return which one each element belongs to."""
        by, n_windows = self.series.by, len(self._starts)
        own = self.series.channel_names is not None
        ends = [*(self._starts[1:] - 1).tolist(), self._plane[1] - 1]
        spans = self.times.spans(self._starts.tolist(), ends)
        if self.times.kind == "step":
            spans = [f"step{'s' * (a != b)} {s}" for a, b, s in zip(self._starts.tolist(), ends, spans, strict=True)]
        plain = [span.removeprefix("steps ").removeprefix("step ") for span in spans] if own else spans
        if by == "channel":
            self.feature_names = tuple(name or "the series" for name in self.channel_names)
        elif by == "time":
            self.feature_names = tuple(spans)
        else:
            between = " " if own else ", "
            self.feature_names = tuple(
                f"{name}{between}{span}" if name else span for name in self.channel_names for span in plain
            )
        of_element = {
            "channel": self._channel,
            "time": self._at // self.window,
            "window": self._channel * n_windows + self._at // self.window,
        }[by][None]
        size = torch.zeros(1, self.n_features).scatter_add_(1, of_element, torch.ones(of_element.shape))
        return Units(of_element, size, shared=True)

    def _learn_scales(self, rows: Tensor) -> None:
        """Find the mean, the spread and the range of each element, and the range of each channel."""
        spread = rows.std(0, correction=0)
        rounding = max(1e-12, 4 * torch.finfo(rows.dtype).eps)
        self._varies = spread > rounding * rows.abs().amax(0)
        self.scale = torch.where(self._varies, spread, torch.ones(()))
        self._mean = rows.mean(0)
        lines = self.lines(rows)
        self._low, self._high = (
            self.rows_of(ends[None, :, None].expand(1, *self._plane))[0]
            for ends in (lines.amin((0, 2)), lines.amax((0, 2)))
        )
        if len(rows) == 1:
            warn(
                "The background has one series, so that every other value is that one's and the outputs have no "
                "spread; pass real series, a hundred or so"
            )

    def lines(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` as `(n, channels, time)`."""
        if self.channels == "last":
            return rows.view(-1, *self.shape).transpose(1, 2)
        return rows.view(-1, *self._plane)

    def rows_of(self, lines: Tensor) -> Tensor:
        """Undo `lines`."""
        return (lines.transpose(1, 2) if self.channels == "last" else lines).flatten(1)

    def planes(self, rows: Tensor) -> Tensor:
        """Return rows as they are: metrics take each element for itself."""
        return rows

    def rows(self, planes: Tensor) -> Tensor:
        """Undo `planes`."""
        return planes

    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return series as rows `(n, E)` in the order their elements came."""
        if is_series(inputs):
            inputs = inputs.to_frame().T
        if self.named:
            inputs = self._checked_frame(inputs, what)
        shape = shape_of(inputs, what)
        series = inputs.detach().cpu() if isinstance(inputs, Tensor) else torch.from_numpy(_numbers(inputs, what))
        if series.dtype not in (torch.float32, torch.float64):
            series = series.float() if series.is_floating_point() else series.double()
        series = series[None] if shape == self.shape else series
        if tuple(series.shape[1:]) == self.shape and not len(series):
            raise InputError(f"Expected at least one series in {what}, got shape {shape}")
        if tuple(series.shape[1:]) != self.shape:
            raise InputError(
                f"Expected {what} of shape {self.shape} or (batch, {', '.join(map(str, self.shape))}) like the "
                f"background, got {shape}; cut or pad series to one length"
            )
        rows = series.reshape(len(series), -1).clone()
        self._refuse_gaps(rows, what)
        return rows

    def _checked_frame(self, inputs: Any, what: str) -> Any:
        """Return the values of a frame, if its columns are the background's."""
        if not is_frame(inputs):
            raise InputError(f"Expected {what} as a pandas frame like the background, got {type(inputs).__name__}")
        if list(inputs.columns) != list(self._labels):
            raise InputError(f"Expected the background's columns in {what}, in their order, got others; reorder them")
        return inputs.to_numpy()

    def _refuse_gaps(self, rows: Tensor, what: str) -> None:
        """Refuse what is no number: a line between neighbours or a mean would be none either."""
        bad = (~(rows.abs() <= LARGEST_ELEMENT)).nonzero()
        if len(bad):
            i, element = bad[0].tolist()
            value = rows[i, element].item()
            expected, more = what_is_wrong(value, LARGEST_ELEMENT)
            where = f"channel {int(self._channel[element])}, " if self._plane[0] > 1 else ""
            raise InputError(
                f"Expected {expected} in {what}, got {value:.4g} in series {i}, {where}step "
                f"{int(self._at[element])} ({len(bad)} such values){more or '; fill gaps first, e.g. by interpolation'}"
            )

    def names(self, x: Any) -> list[int | str] | None:
        """Return a frame's own index as ids, where no two of its labels are alike."""
        if not is_frame(x) or not x.index.is_unique:
            return None
        return [int(label) if isinstance(label, int | np.integer) else str(label) for label in x.index]

    def decode(self, rows: Tensor) -> Any:
        """Return rows as the background came: a tensor, an array or a frame."""
        series = rows.view(-1, *self.shape)
        if self._tensor:
            return series
        if not self.named:
            return series.numpy()
        import pandas as pd

        return pd.DataFrame(series.numpy(), columns=self._labels)

    def details(self, rows: Tensor) -> Mapping[str, Sequence[Any]]:
        """Return what a picture needs to know of the axes, the same for every input."""
        axes = {
            "layout": self.channels,
            "by": self.series.by,
            "channels": list(self.channel_names),
            "times": self.times.details,
        }
        return {"axes": (axes,) * len(rows)}

    def units(self, rows: Tensor, of: Tensor | None = None) -> Units:  # noqa: ARG002
        """Return the windows: the same for all series."""
        return self._units

    def baseline(self, value: Any, background: Tensor) -> Baseline:
        """Return what replaces a missing window.

        `"mean"`: the channel's own mean in that series; `"linear"`: the line between its neighbours (of several windows
        in a row each has its own); `"background"`: the same window of a background series; `"zero"`; `"blur"`: the
        series itself, smoothed; `"noise"`: uniform over the channel's range; or a number or a series.
        """
        if isinstance(value, str):
            named = {
                "background": DrawnRows(),
                "linear": OfSample(self._chords),
                "mean": OfSample(self._own_means),
                "blur": OfSample(self._blur),
                "noise": Noise(self._low, self._high),
                "zero": Fixed(torch.zeros_like(background[0])),
            }
            return named[choose("`baseline`", value, Series.baselines)]
        if shape_of(value, "`baseline`") == ():
            if not isinstance(value, Real | np.generic | np.ndarray | Tensor):
                raise InputError(f"Expected `baseline` as a name, a number or a series, got {value!r}")
            value = np.full(self.shape, float(value))
        row = self.encode(value, "baseline")
        if len(row) != 1:
            raise InputError(f"Expected `baseline` as one series of shape {self.shape}, got {len(row)} of them")
        return Fixed(row[0].to(background.dtype))

    def _chords(self, rows: Tensor) -> Tensor:
        return self.rows_of(stand_ins.chords(self.lines(rows), self._starts))

    def _own_means(self, rows: Tensor) -> Tensor:
        return self.rows_of(stand_ins.own_means(self.lines(rows)))

    def _blur(self, rows: Tensor) -> Tensor:
        return self.rows_of(stand_ins.blurred(self.lines(rows), self.series.sigma or self.window))

    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:
        """Return squared distances, standardised for `"rms"`, summed over the elements of each window."""
        scale = self.scale.to(x.dtype) if distance == "rms" else torch.ones((), dtype=x.dtype)
        parts = [units.collect(((x[:, None] - some) / scale) ** 2) for some in torch.split(rows, _STEP, 1)]
        return torch.cat(parts, 1)

    def standardised(self, rows: Tensor) -> Tensor:
        """Return how many standard deviations rows are from the background's mean; 0 where nothing varies."""
        return torch.where(self._varies, (rows - self._mean) / self.scale, 0.0).to(rows.dtype)

    def deviations(self, background: Tensor) -> Tensor:
        """Return each series' squared standardised deviation minus 1, of elements that vary."""
        squared = ((background - self._mean) / self.scale) ** 2 - 1
        return torch.where(self._varies, squared, torch.zeros((), dtype=squared.dtype))

    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:
        """Return noise for the elements that vary."""
        scale = self.scale if relative else torch.ones_like(self.scale)
        return normals * torch.where(self._varies, size * scale, torch.zeros(()))

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:
        """Take a mask in the form of a series, or of several: a window is in if most of it is."""
        if tuple(mask.shape) not in (self.shape, (batch, *self.shape)) or mask.shape[-1] == self.n_features == batch:
            return mask
        inside = units.collect(mask.reshape(-1, 1, self.n_elements).float())[:, 0]
        return (inside > units.size / 2).expand(batch, -1)


def find_channels(wanted: Channels | None, shape: tuple[int, ...]) -> Channels:
    """Say where the channel axis of a batch of this shape is; warn where either axis may be time."""
    if wanted is not None:
        if (wanted == "none") != (len(shape) == 2):
            dimensions = 2 if wanted == "none" else 3
            raise InputError(
                f'Expected {dimensions} dimensions for channels="{wanted}", got a background of shape {shape}'
            )
        return wanted
    if len(shape) == 2:
        return "none"
    first, second = shape[1:]
    if max(first, second) < 2 * min(first, second):
        warn(
            f"Took the series of shape {shape[1:]} as {first} channels of {second} steps; "
            'pass Series(channels="last") if it is the other way round, channels="first" if not'
        )
        return "first"
    return "first" if first < second else "last"


def _numbers(inputs: Any, what: str) -> np.ndarray[Any, Any]:
    array = np.array(filled(inputs))
    if array.dtype.kind not in "fiub":
        raise InputError(f"Expected numbers in {what}, got {array.dtype}")
    return array.astype(np.float32 if array.dtype.kind == "f" and array.dtype.itemsize <= 4 else np.float64)
