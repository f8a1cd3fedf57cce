"""Rows of tables in words, pictures and pages."""

import math
from typing import ClassVar

import numpy as np

from fans.explanation import Attribution, Explanation
from fans.modalities.present import Presenter, places_of
from fans.types import Array
from fans.wording import plain_number, time_text


class TablePresenter(Presenter):
    """Columns, or groups of them, with their values as people read them."""

    input_words: ClassVar[tuple[str, str]] = ("row", "rows")
    column_words: ClassVar[tuple[str, str] | None] = ("column", "columns")
    has_categories: ClassVar[bool] = True

    def feature_word(self, e: Attribution) -> str:
        """Return "column", or "feature" where some are groups of columns."""
        return "column" if len(e.element_names) == len(e.feature_names) else "feature"

    def value(self, e: Attribution, i: int, feature: int) -> str:
        """Return a number, a category, a time, "missing", or what is on in a group."""
        places, row = places_of(e, i, feature), e.inputs[i].ravel()
        if len(places) > 1:
            return ", ".join(filter(None, (_part(e, p, row[p]) for p in places.tolist()))) or "none"
        return _text(e, int(places[0]), row[places[0]])

    def title(self, e: Attribution, i: int) -> str:
        """Return `row 17`; a node, whose columns may be features as well, is called by its name."""
        return node_title(e, i) or super().title(e, i)

    def shap_data(self, e: Explanation) -> dict[str, Array]:
        """Return the values `(B, F)` of features as numbers, `data`, and as they are read, `display_data`.

        Numbers are read as such, which shap needs for its axes; of categories `data` has the codes, of times the
        microseconds, of groups of columns the places of their texts in the alphabet.
        """
        data = np.empty(e.scores.shape)
        display = np.empty(e.scores.shape, dtype=object)
        for f in range(e.scores.shape[1]):
            (places,) = np.nonzero(e.elements == f)
            texts = [e.value(i, f) for i in range(len(e))]
            grouped = len(places) > 1
            data[:, f] = np.unique(texts, return_inverse=True)[1] if grouped else e.inputs[:, places[0]]
            has_words = grouped or str(places[0]) in e.categories or str(places[0]) in e.kinds
            display[:, f] = [_whole(text) for text in texts] if has_words else data[:, f]
        return {"data": data, "display_data": display}


def _whole(text: str) -> str:
    """Return a text that shap shows whole: it cuts zeros off the end, as if "2020-01-10" were a decimal."""
    return f"{text} " if text.endswith(("0", ".")) else text


def node_title(e: Attribution, i: int) -> str:
    """Return how an explained node of a graph is called, a graph as a whole; "" for any other input."""
    if e.nodes is None:
        return ""
    if str(e.ids[i]) == str(e.nodes[i]):
        return e.node_name(int(e.ids[i])) if e.node_names else f"node {e.ids[i]}"
    word = "graph" if e.nodes[i] < 0 else "input"
    return str(e.ids[i]) if isinstance(e.ids[i], str) else f"{word} {e.ids[i]}"


def _text(e: Attribution, place: int, value: float) -> str:
    """Return the value of one element as text."""
    if math.isnan(value):
        return "missing"
    if words := e.categories.get(str(place)):
        return str(words[int(value)])
    if kind := e.kinds.get(str(place)):
        return time_text(value, kind)
    return plain_number(value)


def _part(e: Attribution, place: int, value: float) -> str:
    """Return what an element of a group adds to its text: its name where it is on, its number, its category."""
    name = e.element_names[place]
    if str(place) not in e.categories and not math.isnan(value):
        return f"{name} {plain_number(value)}" if value not in (0, 1) else name if value else ""
    word = _text(e, place, value)
    return {"True": name, "False": ""}.get(word, f"{name} {word}")
