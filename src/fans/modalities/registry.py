"""The registry of modalities: who recognises an input, what its features can be, and who shows it.

A modality is one folder with a `Modality` in its `__init__.py`; subclassing registers it, here or in a package of
one's own. Everything else finds it by name or by asking all of them what a background is.
"""

from typing import Any, ClassVar

from fans.errors import InputError
from fans.modalities.base import FeatureSpace, refuse_empty, shape_of
from fans.modalities.present import Presenter
from fans.registry import Registered


class Modality(Registered):
    """One kind of inputs.

    Attributes:
        name: as `Explanation.modality` has it.
        rank: modalities are asked in this order what a background is; the first to recognise it has it.
        spaces: what its features can be; users find them in `fans.spaces`.
        presenter: shows its explanations.
        unnamed: why the user cannot name its features, and what to do instead: the end of a sentence.
    """

    registry: ClassVar[dict[str, type[Registered]]] = {}
    rank: ClassVar[int] = 50
    spaces: ClassVar[tuple[type[FeatureSpace], ...]] = ()
    presenter: ClassVar[Presenter] = Presenter()
    unnamed: ClassVar[str] = "these inputs, whose features have names of their own, got some; leave them out"

    @classmethod
    def recognise(cls, background: Any, unit: Any = None) -> FeatureSpace | None:  # noqa: ARG003
        """Return the space of a background of this modality by default; None for any other background.

        `unit` is what a method would have a feature be, for modalities that know it.
        """
        return None

    @classmethod
    def with_names(cls, background: Any, names: Any) -> FeatureSpace | None:  # noqa: ARG003
        """Return the space in which the user's names are those of the features; None where they are so already."""
        raise InputError(f"Expected no `feature_names` for {cls.unnamed}")


def modalities() -> list[type[Modality]]:
    """Return all modalities in the order in which they are asked."""
    known: list[Any] = list(Modality.registry.values())
    return sorted(known, key=lambda kind: (kind.rank, kind.name))


def presenter_of(modality: str) -> Presenter:
    """Return who shows the explanations of a modality; of one that is not here, the plain one."""
    found: Any = Modality.registry.get(modality)
    return Presenter() if found is None else found.presenter


def _recognised(background: Any, unit: Any = None) -> tuple[type[Modality], FeatureSpace]:
    """Return the first modality that recognises a background, and its space."""
    for kind in modalities():
        space = kind.recognise(background, unit)
        if space is not None:
            return kind, space
    refuse_empty(background)
    raise InputError(
        "Expected a table (a frame or an array (samples, columns)), images (samples, channels, height, width), series "
        "(samples, channels, time), texts (a list of strings) or a graph, got shape "
        f"{shape_of(background, 'background')}; pass `space=` to say what a feature is"
    )


def guess_space(background: Any, unit: Any = None) -> FeatureSpace:
    """Return the space that fits the background's form; `unit` is what a feature is to be, where one knows it."""
    return _recognised(background, unit)[1]


def named_space(background: Any, names: Any, space: FeatureSpace | None = None) -> FeatureSpace | None:
    """Return the space in which the user's names are those of the features; `space` where there are no names."""
    if space is not None and not isinstance(space, FeatureSpace):
        raise InputError(
            f"Expected `space` as one of fans.spaces, such as fans.spaces.Table(), got {space!r:.100}; leave it out to "
            "have it guessed"
        )
    if names is None:
        return None if space is None else space.for_background(background)
    if space is not None:
        raise InputError(
            "Expected `space` or `feature_names`, got both; give the names to the space, as in "
            "fans.spaces.Table(columns=...)"
        )
    return _recognised(background)[0].with_names(background, names)
