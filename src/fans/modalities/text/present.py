"""Texts in words, pictures and pages."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fans.explanation import Attribution, Explanation
from fans.modalities.present import Presenter
from fans.modalities.text.highlights import detail
from fans.modalities.text.pieces import readable
from fans.report.sentences import shortened
from fans.types import Array

MOST_LETTERS = 20_000
"""Letters of a text that the explorer shows whole."""


class TextPresenter(Presenter):
    """Words, called by themselves, and texts in which they are highlighted."""

    input_words: ClassVar[tuple[str, str]] = ("text", "texts")

    @property
    def style(self) -> str:  # type: ignore[override]
        """Of pages."""
        from fans.modalities.text.page import STYLE

        return STYLE

    def feature_word(self, e: Attribution) -> str:
        """Return "word", "token", "sentence" or "passage"; "piece" where texts differ in that."""
        units = set(e.details["unit"])
        return str(units.pop()) if len(units) == 1 else "piece"

    def name(self, e: Attribution, i: int, feature: int) -> str:
        """Return a word, and which of several alike it is."""
        names = detail(e, i, "names")
        return str(names[feature]) if feature < len(names) else "nothing"

    def value(self, e: Attribution, i: int, feature: int) -> str:
        """Return where a word is, e.g. `3 of 17`."""
        spans = detail(e, i, "spans")
        if feature >= len(spans):
            return "absent"
        n_places = len(spans[feature])
        return f"{feature + 1:,} of {len(spans):,}" if n_places == 1 else f"in {n_places:,} places"

    def printed(self, e: Explanation, i: int, width: int) -> Sequence[str]:
        """Return the text with its chosen words in brackets."""
        from fans.modalities.text.terminal import lines

        return lines(e, i, width)

    def plot(self, e: Explanation, top: int, columns: int | None) -> Any:  # noqa: ARG002
        """Return the highlighted texts."""
        from fans.modalities.text.figures import plot

        return plot(e, columns)

    def page_head(self, e: Explanation, shown: int) -> str:
        """Return the colours of scores, one scale for all texts shown."""
        from fans.modalities.image.page import colour_scale
        from fans.modalities.text.highlights import largest_score, lowest_score

        return colour_scale(lowest_score(e, shown), largest_score(e, shown))

    def page_body(self, e: Explanation, i: int, shown: int, top: int) -> str:
        """Return the highlighted text above the table of words."""
        from fans.modalities.text import highlights, page

        return page.drawn(e, i, highlights.largest_score(e, shown)) + super().page_body(e, i, shown, top)

    def scene_data(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return the text as runs, each of one word or of none; of a very long one what is around its words."""
        from fans.modalities.text.highlights import excerpt

        return {"kind": "text", "runs": [{"text": run.text, "f": run.feature} for run in excerpt(e, i, MOST_LETTERS)]}

    def thumbnail(self, e: Explanation, i: int) -> dict[str, Any]:
        """Return how the text begins."""
        return {"kind": "text", "text": shortened(readable(str(detail(e, i, "text"))), 140)}

    def trial_data(self, e: Explanation, before: Array, after: Array, given: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the text that the model was given."""
        return {"kind": "text", "text": readable(str(given))[:2000]}

    def shap_data(self, e: Explanation) -> dict[str, Array]:
        """Return which features `(B, F)` texts have, and what these are called."""
        n_features = e.scores.shape[1]
        called = [[self.name(e, i, f) if e.present[i, f] else "" for f in range(n_features)] for i in range(len(e))]
        return {"data": e.present.astype(np.float64), "display_data": np.array(called, dtype=object)}

    def shap_words(self, e: Explanation) -> Array:
        """Return each word with what follows it up to the next; words alone where one is in several places."""
        words = np.full(e.scores.shape, "", dtype=object)
        for i in range(len(e)):
            spans, text = detail(e, i, "spans"), str(e.details["text"][i])
            starts = [places[0][0] for places in spans]
            apart = all(len(places) == 1 for places in spans) and starts == sorted(starts)
            ends = [*starts[1:], len(text)]
            for f in range(len(spans)):
                words[i, f] = text[starts[f] if f else 0 : ends[f]] if apart else f"{self.name(e, i, f)} "
        return words
