"""How explanations are shown: in words, as a picture, on a page. A modality overrides what is different for it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fans.explanation import Attribution, Explanation
from fans.report.figures import bars
from fans.report.html import feature_table
from fans.types import Array
from fans.wording import plain_number

MOST_MOVED = 40
"""Features of a trial that are told of."""


class Presenter:
    """Shows explanations: by default the leading features as bars and in a table, each called by its name.

    Attributes:
        input_words: what one input is called, and several.
        column_words: what one feature is called over many inputs, and several, where that is not the feature's word.
        lists_features: whether a page lists features, with a legend of its columns.
        names_kind: whether sentences say what features are, as in "the edges *a - b* and *b - c*".
        has_categories: whether values may be categories, which have no order.
        style: of pages, as `<style>...</style>`.
        script: of pages that are files of their own, which show everything without it; notebooks have none.
    """

    input_words: ClassVar[tuple[str, str]] = ("input", "inputs")
    column_words: ClassVar[tuple[str, str] | None] = None
    lists_features: ClassVar[bool] = True
    names_kind: ClassVar[bool] = False
    has_categories: ClassVar[bool] = False
    style: ClassVar[str] = ""
    script: ClassVar[str] = ""

    # --- In words -------------------------------------------------------------------------------------------------

    def feature_word(self, e: Attribution) -> str:  # noqa: ARG002
        """Return what a feature is called."""
        return "feature"

    def name(self, e: Attribution, i: int, feature: int) -> str:  # noqa: ARG002
        """Return what a feature of input `i` is called."""
        return e.feature_names[feature]

    def value(self, e: Attribution, i: int, feature: int) -> str:
        """Return the value of a feature of input `i` as text: the mean of its elements, "absent" where it has none."""
        places = places_of(e, i, feature)
        return plain_number(e.inputs[i].ravel()[places].mean()) if len(places) else "absent"

    def title(self, e: Attribution, i: int) -> str:
        """Return how input `i` is called: by its id, after the word for inputs where that is a number."""
        return str(e.ids[i]) if isinstance(e.ids[i], str) else f"{self.input_words[0]} {e.ids[i]}"

    def together(self, e: Explanation, i: int) -> str:  # noqa: ARG002
        """Return what is said of the chosen features of input `i` where none is worth a name of its own; else ""."""
        return ""

    def printed(self, e: Explanation, i: int, width: int) -> Sequence[str]:  # noqa: ARG002
        """Return further lines, of so many letters at most, that `print` shows below what was found of input `i`."""
        return ()

    # --- In pictures ----------------------------------------------------------------------------------------------

    def plot(self, e: Explanation, top: int, columns: int | None) -> Any:
        """Return the first inputs as a figure of matplotlib: `top` features each, so many inputs side by side."""
        return bars(e, top, columns)

    def page_head(self, e: Explanation, shown: int) -> str:  # noqa: ARG002
        """Return what stands above the first inputs on a page, as HTML."""
        return ""

    def page_bodies(self, e: Explanation, shown: int, top: int) -> list[str]:
        """Return what is shown of each of the first inputs on a page, as HTML."""
        return [self.page_body(e, i, shown, top) for i in range(shown)]

    def page_body(self, e: Explanation, i: int, shown: int, top: int) -> str:  # noqa: ARG002
        """Return what is shown of input `i`, one of so many on the page, as HTML."""
        return feature_table(e, i, top)

    # --- In the explorer, as plain values that JSON can hold ------------------------------------------------------

    def scene_data(self, e: Explanation, i: int) -> dict[str, Any]:  # noqa: ARG002
        """Return what the explorer draws of input `i` besides its list of features: the `kind`, and what that takes.

        Parts of a drawing say by number which feature they belong to.
        """
        return {"kind": "list"}

    def thumbnail(self, e: Explanation, i: int) -> dict[str, Any]:  # noqa: ARG002
        """Return what a gallery shows of input `i`: `{"kind": "text", "text": ...}`, a `"picture"`, or nothing."""
        return {"kind": "none"}

    def trial_data(self, e: Explanation, before: Array, after: Array, given: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return what the explorer shows of a trial: by default which features differ, and from what to what.

        `e` is of one input, `before` and `after` `(*input)` are an input near it and what was made of that, `given` is
        what the model was given.
        """
        was, now = (replace(e, inputs=values[None]) for values in (before, after))
        features = [int(f) for f in e.ranked(0) if not _alike(before, after, places_of(e, 0, int(f)))]
        texts = [(self.name(e, 0, f), self.value(was, 0, f), self.value(now, 0, f)) for f in features[:MOST_MOVED]]
        moved = [{"name": name, "from": old, "to": new} for name, old, new in texts]
        return {"kind": "moves", "moves": moved, "more": max(0, len(features) - MOST_MOVED)}

    # --- In other libraries' terms --------------------------------------------------------------------------------

    def shap_pixels(self, e: Explanation) -> tuple[Array, Array] | None:  # noqa: ARG002
        """Return scores and inputs by pixel, channels last, where shap draws them as images."""
        return None

    def shap_data(self, e: Explanation) -> dict[str, Array]:  # noqa: ARG002
        """Return the values `(B, F)` of features as shap takes them: `data`, and `display_data` to read."""
        return {}

    def shap_words(self, e: Explanation) -> Array | None:  # noqa: ARG002
        """Return the parts `(B, F)` of texts that features are: put together the text; None of other inputs."""
        return None


def places_of(e: Attribution, i: int, feature: int) -> Array:
    """Return which elements of input `i`, counted through, belong to a feature."""
    elements = e.elements if e.elements.ndim < e.inputs.ndim else e.elements[i]
    return np.flatnonzero(elements.ravel() == feature)


def _alike(before: Array, after: Array, places: Array) -> bool:
    """Tell whether two inputs are the same in some places, missing values included."""
    return bool(np.array_equal(before.ravel()[places], after.ravel()[places], equal_nan=True))
