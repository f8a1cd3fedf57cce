"""Series in words, pictures and pages."""

from typing import Any, ClassVar

import numpy as np

from fans.explanation import Attribution, Explanation
from fans.modalities.present import Presenter
from fans.types import Array


class SeriesPresenter(Presenter):
    """Windows, called by their channels and times, and line charts in which the chosen ones are shaded."""

    input_words: ClassVar[tuple[str, str]] = ("series", "series")
    style: ClassVar[str] = (
        "<style>.fans .series svg { display: block; width: 100%; max-width: 56rem; height: auto } "
        ".fans .series figcaption { text-align: left }</style>"
    )

    def feature_word(self, e: Attribution) -> str:
        """Return "window" or "channel"."""
        from fans.modalities.series.charts import axes_of

        return "channel" if axes_of(e)["by"] == "channel" else "window"

    def plot(self, e: Explanation, top: int, columns: int | None) -> Any:  # noqa: ARG002
        """Return a line chart of each series."""
        from fans.modalities.series.figures import plot

        return plot(e, columns)

    def page_head(self, e: Explanation, shown: int) -> str:
        """Return the colours of scores, one scale for all series shown, and what a value is."""
        from fans.modalities.image.page import colour_scale
        from fans.modalities.series import charts

        scale = colour_scale(charts.lowest_score(e, shown), charts.largest_score(e, shown))
        return f"{scale}<p class='facts'>Value: the mean over the {self.feature_word(e)}.</p>"

    def page_body(self, e: Explanation, i: int, shown: int, top: int) -> str:
        """Return a line chart above the table of windows."""
        from fans.modalities.series import charts, page

        return page.drawn(e, i, charts.largest_score(e, shown)) + super().page_body(e, i, shown, top)

    def scene_data(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return lines and windows."""
        from fans.modalities.series.scene import scene

        return scene(e, i)

    def thumbnail(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return the lines of the first channels."""
        from fans.modalities.series.scene import small

        return small(e, i)

    def trial_data(self, e: Explanation, before: Array, after: Array, given: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the lines that the model was given."""
        from fans.modalities.series.scene import trial

        return trial(e, after)

    def shap_data(self, e: Explanation) -> dict[str, Array]:
        """Return the mean `(B, F)` of each window."""
        features, n_features = e.elements.ravel(), e.scores.shape[1]
        flat = e.inputs.reshape(len(e), -1).astype(np.float64)
        sums = np.zeros((len(e), n_features))
        np.add.at(sums.T, features, flat.T)
        return {"data": sums / np.bincount(features, minlength=n_features)}
