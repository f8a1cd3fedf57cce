"""Images: pixels, cells, patches and superpixels."""

from typing import Any, ClassVar

from fans.modalities.base import FeatureSpace, shape_of
from fans.modalities.image.present import ImagePresenter
from fans.modalities.image.space import Image
from fans.modalities.present import Presenter
from fans.modalities.registry import Modality


class Images(Modality):
    """Arrays `(samples, channels, height, width)`, `(samples, height, width, channels)`, `(samples, height, width)`."""

    name: ClassVar[str] = "image"
    rank: ClassVar[int] = 60
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = (Image,)
    presenter: ClassVar[Presenter] = ImagePresenter()
    unnamed: ClassVar[str] = "images, whose features go by their places, got some; leave them out"

    @classmethod
    def recognise(cls, background: Any, unit: Any = None) -> FeatureSpace | None:
        """Take what has three dimensions or four."""
        return Image(unit) if len(shape_of(background, "background")) in (3, 4) else None
