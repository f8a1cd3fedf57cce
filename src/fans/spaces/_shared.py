"""The one seam for modalities: what a feature is, and how to perturb it.

An input is a row of *elements* (numbers); a *feature* (unit) is one or more elements that are perturbed together. A
space is declared by the user (`Table(groups=...)`, `Image("patch")`) and fitted to the background; the fitted space
translates between the user's arrays and rows of elements, and everything else in `fans` sees only rows `(n, E)` and
features `(n, F)`. Features may lie elsewhere in every input (superpixels do), which is what `Units` says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fans.core import InputError, Modality, choose

Distance = Literal["rms", "l2"]


@dataclass(frozen=True)
class Units:
    """Which feature each element of each of B inputs belongs to.

    Attributes:
        of_element: `(B, E)` the feature of each element, or `(1, E)` where all inputs share it.
        size: `(B, F)` or `(1, F)`: how many elements of a distance each feature counts for; 0 for one that is absent.
    """

    of_element: Tensor
    size: Tensor

    @property
    def shared(self) -> bool:
        """Whether all inputs have the same features."""
        return len(self.size) == 1

    @property
    def present(self) -> Tensor:
        """Which features exist, `(B, F)` or `(1, F)`."""
        return self.size > 0

    def spread(self, of_features: Tensor, owner: Tensor) -> Tensor:
        """Give each element its feature's value: `(n, F)` of inputs `owner` `(n,)` to `(n, E)`."""
        n_elements, n_features = self.of_element.shape[1], self.size.shape[1]
        if not self.shared:
            return of_features.gather(1, self.of_element.index_select(0, owner))
        return of_features if n_elements == n_features else of_features.index_select(1, self.of_element[0])

    def collect(self, of_elements: Tensor) -> Tensor:
        """Sum the elements of each feature: `(B, S, E)` to `(B, S, F)`."""
        n_features = self.size.shape[1]
        if self.shared and of_elements.shape[2] == n_features:
            return of_elements
        out = of_elements.new_zeros(*of_elements.shape[:2], n_features)
        return out.scatter_add_(2, self.of_element[:, None].expand_as(of_elements), of_elements)

    def select(self, part: slice) -> "Units":
        """Return those of some of the inputs."""
        return self if self.shared else Units(self.of_element[part], self.size[part])

    def sizes_of(self, owner: Tensor) -> Tensor:
        """Return the sizes of the features of inputs `owner`: `(n, F)`, or `(1, F)` where shared."""
        return self.size if self.shared else self.size[owner]


# --- What stands in for a missing feature ----------------------------------------------------------------------------


class Baseline:
    """The value of a feature considered missing; `drawn` if every perturbation draws its own."""

    drawn: ClassVar[bool] = False


@dataclass(frozen=True)
class Fixed(Baseline):
    """The same row `(E,)` always."""

    row: Tensor


@dataclass(frozen=True)
class OfSample(Baseline):
    """A function of the perturbed sample itself, rows `(n, E)` to rows: its blurred version, say."""

    function: Callable[[Tensor], Tensor]


class DrawnRows(Baseline):
    """A row of the background."""

    drawn = True


@dataclass(frozen=True)
class Noise(Baseline):
    """Uniform noise from `low` to `high`, a value of its own for every element."""

    drawn: ClassVar[bool] = True

    low: float
    high: float


# --- Spaces ----------------------------------------------------------------------------------------------------------


class FittedSpace(ABC):
    """A feature space bound to a background set.

    Attributes:
        modality: what kind of inputs these are.
        feature_names: one name per feature.
        shape: of one input.
        scale: `(E,)` the background's standard deviation of each element (1 where constant or categorical).
        baselines: the baseline names this space knows, its default first.
    """

    modality: ClassVar[Modality]
    feature_names: tuple[str, ...]
    shape: tuple[int, ...]
    scale: Tensor
    baselines: tuple[str, ...]

    @property
    def element_names(self) -> tuple[str, ...]:
        """One name per element, where elements have names."""
        return ()

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """What the codes of categorical elements stand for, by the element's position."""
        return {}

    @property
    def n_features(self) -> int:
        """F."""
        return len(self.feature_names)

    @property
    def n_elements(self) -> int:
        """E."""
        return self.scale.numel()

    @abstractmethod
    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return one input or a batch as rows `(n, E)`; `what` names the argument in errors."""

    @abstractmethod
    def decode(self, rows: Tensor) -> Any:
        """Return rows `(n, E)` in the form the user's model takes."""

    def for_module(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` as a torch module takes them."""
        return rows.view(-1, *self.shape)

    @abstractmethod
    def units(self, rows: Tensor) -> Units:
        """Return the features of each of the inputs `(B, E)`."""

    def levels(self) -> list[Tensor]:
        """Return groupings `(F,)` of the features, from coarse to fine, the last one every feature on its own.

        Just the last by default; a space with too many features to tell apart at once offers coarser ones, each nested
        in the one before.
        """
        return [torch.arange(self.n_features)]

    @abstractmethod
    def baseline(self, value: Any, background: Tensor) -> Baseline:
        """Return the baseline that `value` (a name, a number, an input) asks for."""

    @abstractmethod
    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:
        """Return squared distances `(B, S, F)` of each feature between `x` `(B, E)` and `rows` `(B or 1, S, E)`.

        Summed over the selected features this is the squared distance of `"l2"`; divided by their size as well, that
        of `"rms"`.
        """

    @abstractmethod
    def deviations(self, background: Tensor) -> Tensor:
        """Return `(n, E)`: squared standardised deviation from the mean, minus 1; 0 for an element without a scale.

        It is the influence of each background row on the logarithm of the element's variance.
        """

    @abstractmethod
    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:
        """Turn standard normal draws `(..., E)` into noise of a size, times each element's deviation if `relative`.

        An element that cannot take a neighbouring value (a category, a one-hot column) gets none.
        """

    def feature_subset(self, subset: Any, units: Units, batch: int) -> Tensor:
        """Return `subset` (bool, or a list of names) as a bool tensor `(batch, F)`; absent features are left out."""
        names = _names(subset)
        if names:
            for name in names:
                choose("a feature of `subset`", name, self.feature_names)
            subset = [name in names for name in self.feature_names]
        try:
            array = subset if isinstance(subset, Tensor) else torch.from_numpy(np.array(subset))
        except (TypeError, ValueError):  # uneven lists, or no numbers at all
            array = None
        if array is None or array.dtype != torch.bool:
            raise InputError(
                f"Expected `subset` as booleans, one per feature, got {subset if array is None else array.dtype}; "
                "pass True for the features under test (or a list of feature names)"
            )
        array = self._mask_to_features(array, units)
        if array.ndim == 1 and array.shape[0] == self.n_features:
            array = array.expand(batch, -1)
        if array.ndim != 2 or array.shape != (batch, self.n_features):
            raise InputError(
                f"Expected `subset` of shape ({self.n_features},) or ({batch}, {self.n_features}) (batch, features), "
                f"got {tuple(array.shape)}"
            )
        return array & units.present

    def _mask_to_features(self, mask: Tensor, units: Units) -> Tensor:  # noqa: ARG002
        """Translate a mask in the input's own form, where the modality has one."""
        return mask


class FeatureSpace(ABC):
    """A user's declaration of what the features are."""

    @abstractmethod
    def fit(self, background: Any) -> FittedSpace:
        """Bind the declaration to a background set."""


def _names(subset: Any) -> list[Any]:
    """Return the names of a subset given by names, in any container; an empty list for any other subset."""
    if isinstance(subset, str):
        return [subset]
    listed = list(subset) if isinstance(subset, Iterable) and not isinstance(subset, Tensor | Mapping) else []
    named = any(isinstance(name, str) for name in listed)
    return [str(name) if isinstance(name, str) else name for name in listed] if named else []


def shape_of(value: Any, what: str) -> tuple[int, ...]:
    """Return the shape of anything array-like; `what` names the argument in the error about uneven lists."""
    try:
        return tuple(np.shape(value))
    except ValueError:
        raise InputError(f"Expected {what} with rows of one length, got lists of different lengths") from None
