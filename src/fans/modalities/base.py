"""The one seam for modalities: what a feature is, and how to perturb it.

An input is a row of *elements* (numbers); a *feature* (unit) is one or more elements that are perturbed together. A
space is declared by the user (`Table(groups=...)`, `Image("patch")`) and fitted to the background; the fitted space
translates between the user's arrays and rows of elements, and everything else in `fans` sees only rows `(n, E)` and
features `(n, F)`. Features may lie elsewhere in every input (superpixels do), which is what `Units` says.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, choose
from fans.explanation import Attribution
from fans.modalities.unwrap import Unwrap
from fans.types import Array

Distance = Literal["rms", "l2"]


@dataclass(frozen=True)
class Units:
    """Which feature each element of each of B inputs belongs to.

    Attributes:
        of_element: `(B, E)` the feature of each element, or `(1, E)` where all inputs share it; -1 for none.
        size: `(B, F)` or `(1, F)`: how many elements of a distance each feature counts for; 0 for one that is absent.
        shared: whether all inputs have the same features; one input may still have its own.
        padded: whether there are elements of no feature: inputs of fewer elements than others are filled up.
    """

    of_element: Tensor
    size: Tensor
    shared: bool
    padded: bool = False

    @property
    def present(self) -> Tensor:
        """Which features exist, `(B, F)` or `(1, F)`."""
        return self.size > 0

    def at(self, some: Tensor) -> "Units":
        """Return those of some of the inputs `(n,)`."""
        return self if self.shared else replace(self, of_element=self.of_element[some], size=self.size[some])

    def spread(self, of_features: Tensor, owner: Tensor) -> Tensor:
        """Give each element its feature's value, 0 without one: `(n, F)` of inputs `owner` `(n,)` to `(n, E)`."""
        n_elements, n_features = self.of_element.shape[1], self.size.shape[1]
        if self.shared and n_elements == n_features:
            return of_features
        # Also where a single row of indices would do: torch gathers booleans three times as fast as it selects them.
        index = self.of_element.expand(len(owner), -1) if self.shared else self.of_element.index_select(0, owner)
        if not self.padded:
            return of_features.gather(1, index)
        return of_features.gather(1, index.clamp(min=0)).masked_fill(index < 0, 0)

    def collect(self, of_elements: Tensor) -> Tensor:
        """Sum the elements of each feature: `(B, S, E)` to `(B, S, F)`."""
        n_features = self.size.shape[1]
        if self.shared and of_elements.shape[2] == n_features:
            return of_elements
        out, index = of_elements.new_zeros(*of_elements.shape[:2], n_features), self.of_element[:, None]
        if self.padded:
            of_elements, index = of_elements.masked_fill(index < 0, 0), index.clamp(min=0)
        return out.scatter_add_(2, index.expand_as(of_elements), of_elements)

    @property
    def n_elements(self) -> Tensor:
        """How many elements each feature has, `(B, F)` or `(1, F)`, at least 1: one that is absent counts as one."""
        ones = torch.ones(len(self.of_element), 1, self.of_element.shape[1], dtype=torch.float64)
        return self.collect(ones)[:, 0].clamp(min=1)

    def sizes_of(self, owner: Tensor) -> Tensor:
        """Return the sizes of the features of inputs `owner`: `(n, F)`, or `(1, F)` where shared."""
        return self.size if self.shared else self.size[owner]


@dataclass(frozen=True)
class Blocks:
    """Square blocks of features on a grid, at any offset.

    Attributes:
        rows, columns: of the grid.
        side: of a block, in features.
    """

    rows: int
    columns: int
    side: int

    @classmethod
    def of(cls, rows: int, columns: int, most: int = 64) -> "Blocks":
        """Return the smallest blocks of which at most `most` cover the grid."""
        side = 1
        while -(-rows // side) * -(-columns // side) > most:
            side += 1
        return cls(rows, columns, side)

    @property
    def _across(self) -> tuple[int, int]:
        return -(-self.rows // self.side) + 1, -(-self.columns // self.side) + 1

    @property
    def n(self) -> int:
        """How many blocks cover the grid at any offset."""
        down, across = self._across
        return down * across

    def masks(self, bits: Tensor, offset: Tensor) -> Tensor:
        """Give each feature its block's bit: `(n, blocks)` at offsets `(n, 2)` below `side`, to `(n, F)`."""
        (down, across), n = self._across, len(bits)
        row = (torch.arange(self.rows) + offset[:, :1]) // self.side  # (n, rows)
        column = (torch.arange(self.columns) + offset[:, 1:]) // self.side
        tall = bits.view(n, down, across).gather(1, row[:, :, None].expand(-1, -1, across))
        return tall.gather(2, column[:, None].expand(-1, self.rows, -1)).flatten(1)

    def prior(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the covariance of scores along rows and along columns: a Gaussian of half a block's length."""
        out = []
        for n in (self.rows, self.columns):
            place = torch.arange(n, dtype=dtype)
            out.append(torch.exp(-((place[:, None] - place) ** 2) / (2 * (self.side / 2) ** 2)))
        return out[0], out[1]


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


@dataclass(frozen=True)
class Mixed(Baseline):
    """Several functions of the sample, which perturbations take in turns."""

    drawn: ClassVar[bool] = True

    functions: tuple[Callable[[Tensor], Tensor], ...]
    turns: tuple[int, ...]


class DrawnRows(Baseline):
    """A row of the background."""

    drawn = True


@dataclass(frozen=True)
class Noise(Baseline):
    """Uniform noise, a value of its own for every element: from `low` to `high`, of all or of each one `(E,)`."""

    drawn: ClassVar[bool] = True

    low: float | Tensor
    high: float | Tensor


@dataclass(frozen=True)
class Oddity:
    """Something that a model may not be made for.

    Attributes:
        at: which rows `(n,)` have it.
        what: what it is.
        remedy: what to do.
    """

    at: Tensor
    what: str
    remedy: str


class Caller(Protocol):
    """What a space may ask of the caller of the user's model."""

    model: Any

    def direct(self, n_rows: int) -> AbstractContextManager[Any]:
        """Yield the model to whoever calls it with something other than rows, which count as so many."""


# --- Spaces ----------------------------------------------------------------------------------------------------------


class FittedSpace(ABC):
    """A feature space bound to a background set.

    Attributes:
        modality: what kind of inputs these are.
        feature_names: one name per feature.
        shape: of one input.
        scale: `(E,)` the background's standard deviation of each element (1 where constant or categorical).
        swap_rate: share of its features that a local copy of an input has from elsewhere.
        has_background: whether a feature of one input is one of another too, so that they are each other's background.
        has_missing: whether missing values have been seen.
        named: whether the model gets the names of elements as well: those of a frame.
        solver: what FANS explains it by where the model has no gradient.
        reach: how far from the input walks go, if the user does not say: the share of features replaced together.
        signed: whether features that speak against a prediction are told from those that are neutral.
        repeats: whether perturbed rows are often the same: those of elements that are there or not.
        unwrap: takes the outputs out of what the model returns; a space and its copies share it.
        sparse: whether an input has only those features in which it is not 0, and a space of its own.
        kin: modalities whose methods serve this one as well: by default those of rows of numbers.
        own_scales: whether each element has a scale of its own, as the columns of a table have.
        may_follow_from_nothing: whether a prediction may depend on no feature at all, as a node's class on no edge.
    """

    modality: ClassVar[str]
    swap_rate: ClassVar[float] = 0.1
    has_background: ClassVar[bool] = True
    has_missing: bool = False
    named: bool = False
    solver: ClassVar[Literal["game", "walks"]] = "game"
    reach: ClassVar[float] = 0.4
    signed: ClassVar[bool] = False
    repeats: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    kin: ClassVar[tuple[str, ...]] = ("table",)
    own_scales: ClassVar[bool] = False
    may_follow_from_nothing: ClassVar[bool] = False
    feature_names: tuple[str, ...]
    shape: tuple[int, ...]
    scale: Tensor

    def __init__(self) -> None:
        self.unwrap = Unwrap()

    @property
    def element_names(self) -> tuple[str, ...]:
        """One name per element, where elements have names."""
        return ()

    @property
    def model_columns(self) -> tuple[str, ...]:
        """Names of the columns that the model gets, where it gets a table."""
        return self.element_names

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """What the codes of categorical elements stand for, by the element's position."""
        return {}

    @property
    def kinds(self) -> dict[str, str]:
        """Which elements are times or ordered categories, by the element's position."""
        return {}

    def oddities(self, rows: Tensor) -> Sequence[Oddity]:  # noqa: ARG002
        """Return what there is among rows that a model may not be made for."""
        return ()

    def told(self, rows: Tensor) -> Tensor:
        """Return rows as an explanation keeps them."""
        return rows

    def details(self, rows: Tensor) -> Mapping[str, Sequence[Any]]:  # noqa: ARG002
        """Return what else an explanation keeps of its inputs to show them by: one entry each, as JSON can hold it."""
        return {}

    def given_again(self, details: Mapping[str, Sequence[Any]]) -> Any:  # noqa: ARG002
        """Return inputs as they were given, from their `details`; None where these do not tell."""
        return None

    def inputs_of(self, e: Attribution) -> Any:
        """Return the inputs that an explanation is of, as an explainer takes them; None where it does not tell."""
        return self.decode(torch.from_numpy(np.array(e.inputs)).flatten(1))

    def stand_ins(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` that serve as background of inputs in a layout of their own: by default nothing."""
        return torch.zeros_like(rows[:1])

    @property
    def n_features(self) -> int:
        """F."""
        return len(self.feature_names)

    @property
    def n_own(self) -> int:
        """How many features inputs have at most: rows may have room for more."""
        return self.n_features

    @property
    def n_elements(self) -> int:
        """E."""
        return self.scale.numel()

    def draw_places(self, index: Tensor) -> Tensor:
        """Return where in a stream the draws of each element `(n, E)` of the rows at `index` `(n,)` are."""
        return index[:, None] * self.n_elements + torch.arange(self.n_elements)

    @property
    def no_gradient(self) -> str:
        """Why a module's outputs have no gradient with respect to the rows; empty where they have one."""
        return ""

    def asks(self, model: Any) -> bool:  # noqa: ARG002
        """Whether `ask` knows how this model is called, whatever methods it has: one of a library for such inputs."""
        return False

    def output_names(self, model: Any) -> Sequence[str]:  # noqa: ARG002
        """Return what such a model, or a module, calls its outputs, where it says so."""
        return ()

    @property
    def taken(self) -> tuple[str, str]:
        """What an estimator is expected to take, and what to do if it does not, as parts of a sentence."""
        return (
            f"the background's {self.n_elements} columns as they are",
            "pass a background like the rows that it was fitted on",
        )

    def bind_model(self, caller: Caller) -> "FittedSpace":  # noqa: ARG002
        """Return the space with what it has to know of the model, before anything is encoded: most need nothing."""
        return self

    @abstractmethod
    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return one input or a batch as rows `(n, E)`; `what` names the argument in errors."""

    @abstractmethod
    def decode(self, rows: Tensor) -> Any:
        """Return rows `(n, E)` in the form the user's model takes."""

    def for_module(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` as a torch module takes them."""
        return rows.view(-1, *self.shape)

    def copies_of(self, n_rows: int, of: Tensor | None) -> Tensor | None:  # noqa: ARG002
        """Return which input `(n,)` each row is a copy of, as given or by default; None where that does not matter."""
        return None

    def ask(self, model: Any, rows: Tensor, of: Tensor | None = None) -> Any:  # noqa: ARG002
        """Return the outputs of a module, or of any other callable, for rows `(n, E)`, copies of inputs `of` `(n,)`."""
        if not isinstance(model, nn.Module):
            return self.unwrap(model(self.decode(rows)), len(rows))
        given = self.for_module(rows)
        parameter = next((p for p in model.parameters() if p.is_floating_point()), given)
        return self.unwrap(model(given.to(parameter.device, parameter.dtype)), len(rows))

    @property
    def default_batch(self) -> int:
        """Rows that exist at a time by default, and that the model sees: about 4 MB amortise a call."""
        return max(16, min(8192, 4 * 2**20 // (self.scale.element_size() * self.n_elements)))

    @property
    def network_batch(self) -> int:
        """Rows that a network on the CPU sees of them at a time: a quarter, so that its layers stay in cache."""
        return max(16, self.default_batch // 4)

    def zero(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` with nothing in them."""
        return torch.zeros_like(rows)

    def names(self, x: Any) -> Sequence[int | str] | None:  # noqa: ARG002
        """Return how inputs are called by nature, where they have names."""
        return None

    def split(self, x: Any) -> "list[tuple[FittedSpace, Tensor, list[int]]]":
        """Put inputs together that one row layout fits: all of them, but where inputs differ in size.

        Returns:
            For each layout the space that reads it, the rows, and the places of those inputs among all.
        """
        rows = self.encode(x, "x")
        return [(self, rows, list(range(len(rows))))]

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the features of all inputs that were split together."""
        return self.feature_names

    def among_all(self, of_features: Array, fill: float = 0) -> Array:  # noqa: ARG002
        """Return what is said of features `(n, F)` at their places among those of all inputs that were split together.

        Those that these inputs have not are filled.
        """
        return of_features

    def own(self, of_all: Any) -> Any:
        """Return what is said of these inputs' features, from what is said of all inputs' `(..., F)`."""
        return of_all[..., : self.n_features]

    node_names: tuple[str, ...] = ()
    """Of a graph's nodes, where the user gave them."""

    def edges_of(self, of: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ARG002
        """Return the nodes `(n, *input, 2)` that each element joins and those explained `(n,)`, of inputs `of` `(n,)`.

        None where they are no graphs.
        """
        return None, None

    def standardised(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` so that one element's value can be compared with another's: as they are, by default."""
        return rows

    def shown(self, rows: Tensor) -> Tensor:
        """Return rows, or anything with a value per element `(n, E)`, in the inputs' own shape `(n, *input)`."""
        return rows.view(-1, *self.shape)

    def elements(self, rows: Tensor) -> Tensor:
        """Return which feature each element of an input `(*input)` belongs to, where inputs `(n, E)` share them."""
        return self.shown(self.units(rows[:1]).of_element)[0]

    def planes(self, rows: Tensor) -> Tensor:
        """Return rows `(n, E)` in the form that metrics take: inputs' own; images with their channels first."""
        return rows.view(-1, *self.shape)

    def rows(self, planes: Tensor) -> Tensor:
        """Undo `planes`."""
        return planes.flatten(1)

    @abstractmethod
    def units(self, rows: Tensor, of: Tensor | None = None) -> Units:
        """Return the features of inputs `(n, E)`, which are those at the places `of` `(n,)`, by default all."""

    def blocks(self) -> Blocks | None:
        """Return how to put features into blocks, where they form a grid too fine to tell each apart."""
        return None

    def smooth(self, of_features: Tensor) -> Tensor:
        """Return values of features `(n, F)` smoothed over neighbours, where they form a fine grid."""
        return of_features

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
            subset = self._named(names)
        try:
            array = subset if isinstance(subset, Tensor) else torch.from_numpy(np.array(subset))
        except (TypeError, ValueError):  # uneven lists, or no numbers at all
            array = None
        if array is None or array.dtype != torch.bool:
            raise InputError(
                f"Expected `subset` as booleans, one per feature, got {subset if array is None else array.dtype}; "
                "pass True for the features under test (or a list of feature names)"
            )
        array = self._mask_to_features(array, units, batch)
        if array.ndim == 1 and array.shape[0] == self.n_features:
            array = array.expand(batch, -1)
        if array.ndim != 2 or array.shape != (batch, self.n_features):
            raise InputError(
                f"Expected `subset` of shape ({self.n_own},) or ({batch}, {self.n_own}) (batch, features), "
                f"got {tuple(array.shape)}"
            )
        return array & units.present

    def _named(self, names: list[Any]) -> Any:
        """Tell of each feature whether it is among these names."""
        for name in names:
            choose("a feature of `subset`", name, self.feature_names)
        return [name in names for name in self.feature_names]

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:  # noqa: ARG002
        """Translate a mask in the input's own form, where the modality has one."""
        return mask


class FeatureSpace(ABC):
    """A user's declaration of what the features are.

    Attributes:
        baselines: the baseline names it knows, its default first.
    """

    baselines: ClassVar[tuple[str, ...]]

    def for_background(self, background: Any) -> "FeatureSpace":  # noqa: ARG002
        """Return the space meant with such a background: this one, unless it serves several kinds of inputs."""
        return self

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


LARGEST = 2.0**90
"""Beyond 1e27 numbers are refused: such a one usually stands for no value, and single precision has no square of it."""

LARGEST_ELEMENT = 2.0**50
"""The same of one among the many elements of an image or a series, whose squares are added up."""


def what_is_wrong(value: float, largest: float = LARGEST) -> tuple[str, str]:
    """Return what numbers are expected where one is infinite, NaN or too large, and what else to say of it."""
    if not -math.inf < value < math.inf:
        return "finite numbers", ""
    return f"numbers up to {largest:.0e}", "; if it stands for no value, put what does in its place"


def is_sparse(value: Any) -> bool:
    """Tell whether these are rows of scipy.sparse, without importing it."""
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def filled(value: Any) -> Any:
    """Return a masked array with NaN where it is masked, and anything else as it is."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    numbers: Any = value.astype(float if value.dtype.kind in "iub" else value.dtype)
    return numbers.filled(np.nan)


def refuse_empty(background: Any) -> None:
    """Refuse a background without samples."""
    if shape_of(background, "background")[:1] == (0,):
        raise InputError("Expected at least one background sample, got an empty background; pass rows of real data")


def shape_of(value: Any, what: str) -> tuple[int, ...]:
    """Return the shape of anything array-like; `what` names the argument in the error about uneven lists."""
    if isinstance(value, Tensor) and value.layout != torch.strided:
        kind = str(value.layout).removeprefix("torch.")
        raise InputError(f"Expected {what} as a dense tensor, got one of layout {kind}; pass its .to_dense()")
    try:
        return tuple(np.shape(value))
    except ValueError:
        raise InputError(f"Expected {what} with rows of one length, got lists of different lengths") from None
