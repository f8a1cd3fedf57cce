"""Texts: strings whose words, tokens or sentences are there or not."""

from typing import Any, ClassVar

from fans.modalities.base import FeatureSpace
from fans.modalities.present import Presenter
from fans.modalities.registry import Modality
from fans.modalities.text.present import TextPresenter
from fans.modalities.text.space import Text, are_texts


class Texts(Modality):
    """Strings in a list, a tuple, an array of one dimension or a pandas series; one alone as well."""

    name: ClassVar[str] = "text"
    rank: ClassVar[int] = 20
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = (Text,)
    presenter: ClassVar[Presenter] = TextPresenter()
    unnamed: ClassVar[str] = "texts, whose words are their own names, got some; leave them out"

    @classmethod
    def recognise(cls, background: Any, unit: Any = None) -> FeatureSpace | None:  # noqa: ARG003
        """Take what begins with a string."""
        return Text() if are_texts(background) else None
