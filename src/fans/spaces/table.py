"""Tables: columns of NumPy arrays, torch tensors or pandas frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from fans.core import InputError, Modality, ModelError, choose
from fans.spaces._shared import (
    Baseline,
    Distance,
    DrawnRows,
    FeatureSpace,
    FittedSpace,
    Fixed,
    Units,
    refuse_empty,
    shape_of,
)

if TYPE_CHECKING:
    import pandas as pd


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

    baselines: ClassVar[tuple[str, ...]] = ("background", "mean", "zero")

    columns: Sequence[str] | None = None
    groups: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    categorical: Sequence[str | int] = ()

    def fit(self, background: Any) -> "FittedTable":
        """Bind to a background set of shape `(n, columns)`."""
        refuse_empty(background)
        return FittedTable(self, background)


class FittedTable(FittedSpace):
    """A table's columns, their names, kinds and scales."""

    modality: ClassVar[Modality] = "table"
    signed: ClassVar[bool] = True
    solver: ClassVar[Literal["game", "walks"]] = "walks"

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
        self.shape = (len(self._columns),)
        # A one-hot group counts as one element of a distance.
        self._units = Units(torch.tensor([unit_of_element]), torch.ones(1, len(names)), shared=True)
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
        if isinstance(inputs, Tensor):
            rows = inputs.detach().cpu().clone()
        else:
            rows = torch.from_numpy(self._numbers(inputs, what))
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

    def units(self, rows: Tensor) -> Units:  # noqa: ARG002
        """Return the columns and groups: the same for every row."""
        return self._units

    def for_module(self, rows: Tensor) -> Tensor:
        """Return the rows; categories as the numbers they stand for."""
        return _numeric(self.decode(rows)) if self._vocabulary else rows

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

    def baseline(self, value: Any, background: Tensor) -> Baseline:
        """Return draws from the background, or the baseline row."""
        if isinstance(value, str):
            name = choose("`baseline`", value, Table.baselines)
            if name == "background":
                return DrawnRows()
            if name == "mean":
                return Fixed(self._mean_row(background))
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
        return Fixed(row[0].to(background.dtype))

    def _mean_row(self, background: Tensor) -> Tensor:
        """Return column means; categorical columns and one-hot groups take their most frequent value."""
        row = background.mean(0)
        for unit in range(self.n_features):
            elements = self._units.of_element[0] == unit
            if (self._categorical | self._grouped)[elements].any():
                values, counts = np.unique(background[:, elements].numpy(), axis=0, return_counts=True)
                row[elements] = torch.from_numpy(values[counts.argmax()])
        return row

    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:
        """Return squared distances: standardised for `"rms"`; mismatches (0 or 1) of categories and groups."""
        difference = x[:, None] - rows  # (B, S, E)
        if distance == "rms":
            difference = difference / self.scale.to(x.dtype)
        squared = torch.where(self._categorical | self._grouped, difference.ne(0).to(x.dtype), difference**2)
        if self.n_elements == self.n_features:
            return squared
        grouped = torch.zeros(self.n_features, dtype=torch.bool)
        grouped[units.of_element[0][self._grouped]] = True
        summed = units.collect(squared)
        return torch.where(grouped, summed.clamp(max=1), summed)

    def standardised(self, rows: Tensor) -> Tensor:
        """Return how many standard deviations rows are from the background's mean; 0 in columns without a scale."""
        return torch.where(self._varies, (rows - self._mean) / self.scale, torch.zeros((), dtype=rows.dtype))

    def deviations(self, background: Tensor) -> Tensor:
        """Return each row's squared standardised deviation minus 1, of columns that have a scale."""
        squared = ((background - self._mean) / self.scale) ** 2 - 1
        return torch.where(self._varies & ~self._grouped, squared, torch.zeros((), dtype=squared.dtype))

    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:
        """Return noise for the numeric columns that vary."""
        scale = self.scale if relative else torch.ones_like(self.scale)
        return normals * torch.where(self._varies & ~self._grouped, size * scale, torch.zeros(()))

    @property
    def element_names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return self._columns

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Return the values that the codes of each categorical column stand for, by the column's position."""
        return {str(j): tuple(map(str, words)) for j, words in self._vocabulary.items()}


def _numeric(frame: Any) -> Tensor:
    """Return a frame's values for a module, which cannot read text."""
    try:
        return torch.from_numpy(np.array(frame, dtype=np.float64))
    except (TypeError, ValueError):
        text = [str(name) for name, dtype in frame.dtypes.items() if dtype.kind not in "iufb"]
        raise ModelError(
            f"Expected numbers for a torch module, got columns of text or categories: {text}; encode them as numbers, "
            "or pass a function that does and calls the module"
        ) from None
