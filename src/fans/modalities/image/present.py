"""Images in words, pictures and pages."""

from typing import Any, ClassVar

import numpy as np

from fans.explanation import Attribution, Explanation
from fans.modalities.image import page, pictures, scene
from fans.modalities.image.figures import plot
from fans.modalities.present import Presenter
from fans.report.sentences import percent
from fans.types import Array

WORDS = {"superpixel ": "superpixel", "rows ": "patch", "row ": "pixel", "region ": "region"}
"""What features are called, by how their names begin."""


class ImagePresenter(Presenter):
    """Regions, which no name tells of: the picture, its scores and its subset side by side."""

    input_words: ClassVar[tuple[str, str]] = ("image", "images")
    lists_features: ClassVar[bool] = False

    def feature_word(self, e: Attribution) -> str:
        """Return "superpixel", "patch", "pixel" or "region"."""
        return next((word for start, word in WORDS.items() if e.feature_names[0].startswith(start)), "feature")

    def together(self, e: Explanation, i: int) -> str:
        """Return how much of the image was chosen."""
        return f"{percent(e[i].mask.mean())} of the image"

    def plot(self, e: Explanation, top: int, columns: int | None) -> Any:  # noqa: ARG002
        """Return three pictures of each input."""
        return plot(e, columns or 2)

    def page_head(self, e: Explanation, shown: int) -> str:
        """Return the colours of scores, one scale for all images shown."""
        return page.colour_scale(pictures.lowest_score(e, shown), pictures.largest_score(e, shown))

    def page_bodies(self, e: Explanation, shown: int, top: int) -> list[str]:  # noqa: ARG002
        """Return three pictures of each, on one scale."""
        largest = pictures.largest_score(e, shown)
        return [page.pictures(e, i, largest) for i in range(shown)]

    def scene_data(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return the picture, and which feature each of its pixels belongs to."""
        return scene.scene(e, i)

    def thumbnail(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return the picture, what was not chosen dimmed."""
        return scene.thumbnail(e, i)

    def trial_data(self, e: Explanation, before: Array, after: Array, given: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return what the model was shown."""
        return scene.trial(e, after)

    def shap_pixels(self, e: Explanation) -> tuple[Array, Array] | None:
        """Return scores and pixels, channels last; scores are shared evenly by the channels."""
        axis = e.channel_axis
        pixels, scores = (a[..., None] if axis is None else np.moveaxis(a, axis + 1, -1) for a in (e.inputs, e.heatmap))
        return scores / scores.shape[-1], pixels
