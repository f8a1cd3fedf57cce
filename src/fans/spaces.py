"""What a feature is in each modality, and how to perturb it: the one seam.

An input is a row of *elements* (numbers); a *feature* (unit) is one or more elements that are perturbed together. A
space is declared by the user (`Table(groups=...)`) and fitted to the background; the fitted space translates between
the user's arrays and rows of elements, and everything else in `fans` sees only rows `(n, E)` and features `(n, F)`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from fans.core import InputError, choose

if TYPE_CHECKING:
    import pandas as pd

Distance = Literal["rms", "l2"]


class FittedSpace(ABC):
    """A feature space bound to a background set.

    Attributes:
        feature_names: one name per feature.
        unit_of_element: `(E,)` the feature each element belongs to.
        unit_size: `(F,)` how many elements of a distance each feature counts for.
        scale: `(E,)` the background's standard deviation of each element (1 where constant or categorical).
        baselines: the baseline names this space knows, its default first.
    """

    feature_names: tuple[str, ...]
    unit_of_element: Tensor
    unit_size: Tensor
    scale: Tensor
    baselines: tuple[str, ...]

    @property
    @abstractmethod
    def element_names(self) -> tuple[str, ...]:
        """One name per element."""

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
        return len(self.element_names)

    @abstractmethod
    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return one input or a batch as rows `(n, E)`; `what` names the argument in errors."""

    @abstractmethod
    def decode(self, rows: Tensor) -> Any:
        """Return rows `(n, E)` in the form the user's model takes."""

    @abstractmethod
    def baseline(self, value: Any, background: Tensor) -> Tensor | None:
        """Return the baseline row `(E,)`, or None if it is drawn from the background."""

    @abstractmethod
    def unit_distances(self, x: Tensor, rows: Tensor, distance: Distance) -> Tensor:
        """Return squared distances `(B, S, F)` of each feature between `x` `(B, E)` and `rows` `(B or 1, S, E)`.

        Summed over the selected features this is the squared distance of `"l2"`; divided by their `unit_size` as
        well, that of `"rms"`.
        """

    @abstractmethod
    def deviations(self, background: Tensor) -> Tensor:
        """Return `(n, F)`: squared standardised deviation from the mean, minus 1; 0 for a feature without a scale.

        It is the influence of each background row on the logarithm of the feature's variance.
        """

    @abstractmethod
    def noise(self, normals: Tensor, *, relative: bool) -> Tensor:
        """Turn standard normal draws `(..., E)` into noise of 0.001, of each element's deviation if `relative`.

        An element that cannot take a neighbouring value (a category, a one-hot column) gets none.
        """

    def spread(self, of_features: Tensor) -> Tensor:
        """Give each element its feature's value: `(..., F)` to `(..., E)`."""
        if self.n_elements == self.n_features:
            return of_features
        return of_features[..., self.unit_of_element]

    def feature_subset(self, subset: Any, batch: int) -> Tensor:
        """Return `subset` (bool, or a list of names) as a bool tensor `(batch, F)`."""
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
        if array.ndim == 1 and array.shape[0] == self.n_features:
            return array.expand(batch, -1).clone()
        if array.ndim == 2 and array.shape == (batch, self.n_features):
            return array.clone()
        raise InputError(
            f"Expected `subset` of shape ({self.n_features},) or ({batch}, {self.n_features}) (batch, features), "
            f"got {tuple(array.shape)}"
        )


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


def is_frame(value: Any) -> TypeGuard["pd.DataFrame"]:
    """Tell whether `value` is a pandas frame, without importing pandas."""
    return type(value).__name__ == "DataFrame" and hasattr(value, "iloc")


def is_series(value: Any) -> TypeGuard["pd.Series[Any]"]:
    """Tell whether `value` is a pandas series, without importing pandas."""
    return type(value).__name__ == "Series" and hasattr(value, "iloc")


def _refuse_bad_numbers(rows: Tensor, names: Sequence[str], what: str) -> None:
    """Raise if any number is NaN or infinite, naming the first place."""
    bad = (~torch.isfinite(rows)).nonzero()
    if len(bad):
        row, column = bad[0].tolist()
        raise InputError(
            f"Expected finite numbers in {what}, got {rows[row, column].item()} in row {row}, column "
            f"{names[column]!r} ({len(bad)} such values); impute or drop them first"
        )


@dataclass(frozen=True)
class Table(FeatureSpace):
    """Columns of a table: NumPy arrays, torch tensors or pandas frames.

    Args:
        columns: names of the columns of an array (a frame brings its own).
        groups: one-hot columns that are one feature, e.g. `{"colour": ["colour_red", "colour_blue"]}`.
        categorical: columns whose numbers are codes, so that a distance is 0 (equal) or 1. Columns of text, booleans
            or pandas categories in a frame are always categorical.

    Example:
        >>> Table(groups={"colour": [1, 2]}).fit(np.array([[0.5, 1, 0], [0.1, 0, 1]])).feature_names
        ('x1', 'colour')
    """

    columns: Sequence[str] | None = None
    groups: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    categorical: Sequence[str | int] = ()

    def fit(self, background: Any) -> "FittedTable":
        """Bind to a background set of shape `(n, columns)`."""
        return FittedTable(self, background)


class FittedTable(FittedSpace):
    """A table's columns, their names, kinds and scales."""

    baselines = ("background", "mean", "zero")

    def __init__(self, table: Table, background: Any) -> None:
        self._frame = is_frame(background)
        self._tensor = isinstance(background, Tensor)
        self._columns = self._column_names(table, background)
        self._labels: Any = background.columns if self._frame else None
        self._narrow = {j: t for j, t in enumerate(background.dtypes) if t == np.float32} if self._frame else {}
        self._vocabulary: dict[int, pd.Series[Any]] = {}
        if self._frame:
            self._vocabulary = {
                j: background.iloc[:0, j].reset_index(drop=True)
                for j in range(background.shape[1])
                if background.dtypes.iloc[j].kind not in "iuf"
            }
        codes = {self._column(c, "`categorical`") for c in table.categorical}
        if self._frame:
            self._vocabulary |= {j: background.iloc[:0, j].reset_index(drop=True) for j in codes}
        self._categorical = torch.zeros(len(self._columns), dtype=torch.bool)
        self._categorical[sorted(codes | set(self._vocabulary))] = True
        self._lay_out_units(table)
        rows = self.encode(background, "background")
        spread = rows.std(0, correction=0)
        self._varies = ~self._categorical & (spread > 1e-12 * rows.abs().amax(0))
        self.scale = torch.where(self._varies, spread, torch.ones(()))
        self._mean = rows.mean(0)

    @staticmethod
    def _column_names(table: Table, background: Any) -> tuple[str, ...]:
        shape = shape_of(background, "background")
        if len(shape) != 2 or not shape[1]:
            raise InputError(
                f"Expected `background` of shape (samples, columns), got {shape}; a table has one row per sample"
            )
        if is_frame(background):
            names = tuple(str(name) for name in background.columns)
        else:
            names = tuple(table.columns or [f"x{j + 1}" for j in range(shape[1])])
        if len(names) != shape[1]:
            raise InputError(f"Expected {shape[1]} names in `columns`, one per column, got {len(names)}")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"Expected a name of its own for each column, got several of {twice}; rename them")
        return names

    def _column(self, name: str | int, what: str) -> int:
        """Return the position of a column given by name or position."""
        if isinstance(name, int | np.integer) and 0 <= name < len(self._columns):
            return int(name)
        return self._columns.index(choose(f"a column in {what}", name, self._columns))

    def _lay_out_units(self, table: Table) -> None:
        """Number the features: each group takes the place of its first column."""
        group_of: dict[int, str] = {}
        for name, members in table.groups.items():
            for member in members:
                j = self._column(member, f"group {name!r}")
                if j in group_of:
                    raise InputError(f"Expected column {member!r} in one group, got it in {group_of[j]!r} and {name!r}")
                group_of[j] = name
        for name in table.groups:
            if name in self._columns and group_of.get(self._columns.index(name)) != name:
                raise InputError(f"Expected a name of its own for group {name!r}, got that of a column outside it")
        names: list[str] = []
        unit_of_element = []
        for j, column in enumerate(self._columns):
            name = group_of.get(j, column)
            if j not in group_of or name not in names:
                names.append(name)
            unit_of_element.append(names.index(name) if j in group_of else len(names) - 1)
        self.feature_names = tuple(names)
        self.unit_of_element = torch.tensor(unit_of_element)
        self.unit_size = torch.ones(len(names))  # a one-hot group counts as one element
        self._grouped = torch.tensor([j in group_of for j in range(len(self._columns))])

    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return rows `(n, columns)`: numbers as they are, categories as codes."""
        if is_series(inputs):
            inputs = inputs.to_frame().T.infer_objects()
        rows = self._encode_frame(inputs, what) if is_frame(inputs) else self._encode_array(inputs, what)
        if not len(rows):
            raise InputError(f"Expected at least one row in {what}, got shape {tuple(rows.shape)}")
        _refuse_bad_numbers(rows, self._columns, what)
        return rows

    def _encode_array(self, inputs: Any, what: str) -> Tensor:
        if self._frame:
            raise InputError(f"Expected {what} as a pandas frame like the background, got {type(inputs).__name__}")
        rows = inputs.detach().clone() if isinstance(inputs, Tensor) else torch.from_numpy(self._numbers(inputs, what))
        if rows.dtype not in (torch.float32, torch.float64):
            rows = rows.float() if rows.is_floating_point() else rows.double()
        rows = rows[None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != len(self._columns):
            raise InputError(
                f"Expected {what} of shape ({len(self._columns)},) or (batch, {len(self._columns)}), "
                f"got {tuple(np.shape(inputs))}"
            )
        return rows

    def _numbers(self, inputs: Any, what: str) -> np.ndarray[Any, Any]:
        shape_of(inputs, what)
        array = np.array(inputs)
        if array.dtype.kind not in "fiub":
            raise InputError(
                f"Expected numbers in {what}, got {array.dtype}; pass a pandas frame for columns of text or categories"
            )
        small = array.dtype.kind == "f" and array.dtype.itemsize <= 4
        # A copy: torch warns of read-only memory, and the caller's array stays his own.
        return array.astype(np.float32 if small else np.float64)

    def _encode_frame(self, frame: "pd.DataFrame", what: str) -> Tensor:
        names = tuple(str(name) for name in frame.columns)
        if sorted(names) == sorted(self._columns):
            frame = frame.iloc[:, [names.index(c) for c in self._columns]]
        elif self._frame or len(names) != len(self._columns):
            missing = [c for c in self._columns if c not in names]
            surplus = [c for c in names if c not in self._columns or names.count(c) > 1]
            problem = f"missing: {missing}" if missing else f"drop: {surplus}"
            raise InputError(f"Expected the background's columns in {what}, got {list(names)}; {problem}")
        rows = np.empty(frame.shape)
        for j in range(len(self._columns)):
            column = frame.iloc[:, j]
            if j in self._vocabulary:
                rows[:, j] = self._codes(j, column, what)
            elif column.dtype.kind in "iufb":
                rows[:, j] = column.to_numpy(dtype=float, na_value=np.nan)
            else:
                raise InputError(f"Expected numbers in column {self._columns[j]!r} of {what}, got {column.dtype}")
        return torch.from_numpy(rows)

    def _codes(self, j: int, column: "pd.Series[Any]", what: str) -> np.ndarray[Any, Any]:
        """Return codes of a categorical column, extending its vocabulary by values not seen before."""
        import pandas as pd

        vocabulary = self._vocabulary[j]
        column = self._converted(column, vocabulary.dtype, what)
        new = column[~column.isin(vocabulary)].drop_duplicates()
        if len(new):
            vocabulary = pd.concat([vocabulary, new] if len(vocabulary) else [new], ignore_index=True)
            self._vocabulary[j] = vocabulary
        codes: np.ndarray[Any, Any] = pd.Index(vocabulary).get_indexer(pd.Index(column))
        return codes

    @staticmethod
    def _converted(column: "pd.Series[Any]", dtype: Any, what: str) -> "pd.Series[Any]":
        """Return a column as the background's dtype, refusing values that it would change or lose."""
        if column.dtype == dtype:
            return column
        known = getattr(dtype, "categories", None)
        try:
            lost = column.notna() & (~column.isin(known) if known is not None else column.astype(dtype) != column)
            lost |= column.isna() & (dtype.kind in "iub")
        except (TypeError, ValueError):
            lost = column.isna() if column.isna().any() else column.notna()
        if lost.any():
            values = f"one of {list(known)}" if known is not None else f"values of type {dtype}"
            raise InputError(
                f"Expected {values} in column {column.name!r} of {what}, as in the background, "
                f"got {column[lost].iloc[0]!r}"
            )
        return column.astype(dtype)

    def decode(self, rows: Tensor) -> Any:
        """Return rows as the background came: a tensor, an array, or a frame with its labels and dtypes.

        A frame's whole numbers come as floats, since a baseline may fall between them.
        """
        if self._tensor:
            return rows
        array = rows.cpu().numpy()
        if not self._frame:
            return array
        import pandas as pd

        if not self._vocabulary and not self._narrow:
            return pd.DataFrame(array, columns=self._labels)
        columns: dict[int, Any] = {
            j: array[:, j].astype(self._narrow.get(j, np.float64)) for j in range(array.shape[1])
        }
        for j, words in self._vocabulary.items():
            columns[j] = words.array.take(array[:, j].astype(np.int64))
        frame = pd.DataFrame(columns)
        frame.columns = self._labels
        return frame

    def baseline(self, value: Any, background: Tensor) -> Tensor | None:
        """Return the baseline row, or None for draws from the background."""
        if isinstance(value, str):
            name = choose("`baseline`", value, self.baselines)
            if name == "background":
                return None
            if name == "mean":
                return self._mean_row(background)
            value = 0.0
        if not is_frame(value) and not is_series(value) and shape_of(value, "`baseline`") == ():
            if not isinstance(value, Real | np.generic | np.ndarray | Tensor):
                raise InputError(f"Expected `baseline` as a name, a number or a row, got {value!r}")
            if self._vocabulary:
                text = [self._columns[j] for j in self._vocabulary]
                raise InputError(
                    f"Expected a baseline that columns {text} can take, got the number {value}; "
                    'use "background", "mean" (their most frequent value) or a row'
                )
            value = np.full(len(self._columns), float(value))
            if self._frame:
                value = self.decode(torch.from_numpy(value[None]))
        row = self.encode(value, "baseline")
        if len(row) != 1:
            raise InputError(f"Expected `baseline` as one row of {len(self._columns)} columns, got {len(row)} rows")
        return row[0].to(background.dtype)

    def _mean_row(self, background: Tensor) -> Tensor:
        """Return column means; categorical columns and one-hot groups take their most frequent value."""
        row = background.mean(0)
        for unit in range(self.n_features):
            elements = self.unit_of_element == unit
            if (self._categorical | self._grouped)[elements].any():
                values, counts = np.unique(background[:, elements].numpy(), axis=0, return_counts=True)
                row[elements] = torch.from_numpy(values[counts.argmax()])
        return row

    def unit_distances(self, x: Tensor, rows: Tensor, distance: Distance) -> Tensor:
        """Return squared distances: standardised for `"rms"`; mismatches (0 or 1) of categories and groups."""
        difference = x[:, None] - rows  # (B, S, E)
        if distance == "rms":
            difference = difference / self.scale.to(x.dtype)
        squared = torch.where(self._categorical | self._grouped, difference.ne(0).to(x.dtype), difference**2)
        if self.n_elements == self.n_features:
            return squared
        units = squared.new_zeros(*squared.shape[:2], self.n_features)
        units.index_add_(2, self.unit_of_element, squared)
        grouped = torch.zeros(self.n_features, dtype=torch.bool).index_fill(
            0, self.unit_of_element[self._grouped], True
        )
        return torch.where(grouped, units.clamp(max=1), units)

    def deviations(self, background: Tensor) -> Tensor:
        """Return each row's squared standardised deviation minus 1, of features that have a scale."""
        squared = ((background - self._mean) / self.scale) ** 2 - 1
        squared = torch.where(self._varies & ~self._grouped, squared, torch.zeros((), dtype=squared.dtype))
        out = squared.new_zeros(len(background), self.n_features)
        return out.index_add_(1, self.unit_of_element, squared)

    def noise(self, normals: Tensor, *, relative: bool) -> Tensor:
        """Return noise for the numeric columns that vary (Section 4.6)."""
        size = self.scale if relative else torch.ones_like(self.scale)
        return normals * torch.where(self._varies & ~self._grouped, 0.001 * size, torch.zeros(()))

    @property
    def element_names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return self._columns

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Return the values that the codes of each categorical column stand for, by the column's position."""
        return {str(j): tuple(map(str, words)) for j, words in self._vocabulary.items()}


def guess_space(background: Any) -> FeatureSpace:
    """Return the space that fits the background's form: a table for frames and two-dimensional arrays."""
    shape = shape_of(background, "background")
    if len(shape) == 2:
        return Table()
    raise InputError(
        f"Expected a table (a frame or an array (samples, columns)), got shape {shape}; "
        "pass `space=` to say what a feature is"
    )
