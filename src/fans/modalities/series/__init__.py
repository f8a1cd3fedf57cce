"""Series: values over time, of one channel or several."""

from typing import Any, ClassVar

from fans.errors import warn
from fans.modalities.base import FeatureSpace, shape_of
from fans.modalities.present import Presenter
from fans.modalities.registry import Modality
from fans.modalities.series.present import SeriesPresenter
from fans.modalities.series.space import Series

LONG, CLOSE = 4, 1.5
"""A series is so many times as long as it has channels; within this factor of that it is a close call."""

FEW, FEW_LONG = 4, 2
"""With so few channels this length is enough: images are not so thin."""


class TimeSeries(Modality):
    """Arrays `(samples, channels, time)` and `(samples, time, channels)`, long and thin; others by `space=Series()`."""

    name: ClassVar[str] = "series"
    rank: ClassVar[int] = 55
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = (Series,)
    presenter: ClassVar[Presenter] = SeriesPresenter()

    @classmethod
    def recognise(cls, background: Any, unit: Any = None) -> FeatureSpace | None:  # noqa: ARG003
        """Take what has three dimensions and is long and thin; say so where that may be a grey image."""
        shape = shape_of(background, "background")
        if len(shape) != 3 or 0 in shape:
            return None
        thin, long = sorted(shape[1:])
        is_long = long >= LONG * thin or (thin <= FEW and long >= FEW_LONG * thin)
        if thin > 1 and LONG / CLOSE <= long / thin < LONG * CLOSE:
            images = f"grey images, {shape[1]} pixels high and {shape[2]} wide"
            series = f"series of {thin} channels and {long} steps"
            taken, other, space = (series, images, "Image") if is_long else (images, series, "Series")
            warn(
                f"Took the background of shape {shape} as {taken}; pass space=fans.spaces.{space}() if they are {other}"
            )
        return Series() if is_long else None

    @classmethod
    def with_names(cls, background: Any, names: Any) -> FeatureSpace | None:  # noqa: ARG003
        """Give the names to the channels."""
        return Series(channel_names=names)
