"""Columns of a frame: how values of each kind become numbers in rows, and how they come back.

Numbers, moments, lengths of time and ordered categories can be subtracted. Text, booleans and other categories become
codes, which only tell whether two are the same.
"""

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    Series = pd.Series[Any]

Floats = np.ndarray[Any, np.dtype[np.float64]]

Kind = Literal["", "date", "date UTC", "duration", "ordered"]

MISSING = 2.0**126
"""What a missing value is in rows: unlike NaN it equals itself, and a replacement of weight 0 or 1 leaves it exact."""


def marked(numbers: Floats) -> Floats:
    """Return numbers with what is NaN marked as missing."""
    return np.where(np.isnan(numbers), MISSING, numbers)


def unmarked(numbers: Floats) -> Floats:
    """Undo `marked`."""
    return np.where(numbers == MISSING, np.nan, numbers)


def is_missing(rows: Tensor) -> Tensor:
    """Tell which values of rows are missing."""
    return rows == MISSING


def with_gaps(rows: Tensor) -> Tensor:
    """Return rows with NaN for what is missing."""
    return rows.masked_fill(is_missing(rows), torch.nan)


class Column(ABC):
    """A column of the background's frame.

    Attributes:
        subtracts: whether the difference of two numbers means something; else they only are the same or not.
        between: whether a value between two others may be made up.
        has_values: of words, whether the background has any, and not only missing ones.
        kind: what its numbers are, if more than numbers: times in microseconds, or codes in order.
    """

    subtracts: ClassVar[bool] = True
    between: ClassVar[bool] = False
    has_values: bool = True

    def __init__(self, name: str, background: "Series") -> None:
        self.name = name
        self.dtype: Any = background.dtype

    @property
    def kind(self) -> Kind:
        """What its numbers are."""
        return ""

    def gaps(self, numbers: Tensor) -> Tensor:
        """Tell which of its numbers stand for a missing value."""
        return is_missing(numbers)

    @property
    def words(self) -> tuple[str, ...] | None:
        """What its codes stand for, if they are codes."""
        return None

    @abstractmethod
    def encode(self, column: "Series", what: str) -> Floats:
        """Return a column of `what` as numbers."""

    @abstractmethod
    def decode(self, numbers: Floats) -> Any:
        """Return numbers as values of the background's own type."""

    def _converted(self, column: "Series", what: str) -> "Series":
        """Return a column as the background's type, refusing values that it would change or lose."""
        if column.dtype == self.dtype:
            return column
        dtype = self.dtype
        known = getattr(dtype, "categories", None)
        try:
            lost = column.notna() & (~column.isin(known) if known is not None else column.astype(dtype) != column)
            lost |= column.isna() & (dtype.kind in "iub")
        except (TypeError, ValueError):
            lost = column.isna() if column.isna().any() else column.notna()
        if lost.any():
            values = f"one of {list(known)}" if known is not None else f"values of type {dtype}"
            raise InputError(
                f"Expected {values} in column {self.name!r} of {what}, as in the background, "
                f"got {column[lost].iloc[0]!r}"
            )
        return column.astype(dtype)


class Numbers(Column):
    """Numbers; whole ones come back as floats, since a baseline may fall between them."""

    between: ClassVar[bool] = True

    def encode(self, column: "Series", what: str) -> Floats:
        """Return the numbers themselves."""
        if column.dtype.kind not in "iufb" and not holds_numbers(column) and column.notna().any():
            raise InputError(f"Expected numbers in column {self.name!r} of {what}, got {_description(column)}")
        return marked(column.to_numpy(dtype=float, na_value=np.nan))

    def decode(self, numbers: Floats) -> Any:
        """Return single precision only where the background has it."""
        return unmarked(numbers).astype(np.float32 if self.dtype == np.float32 else np.float64)


class Times(Column):
    """Moments or lengths of time, as microseconds."""

    between: ClassVar[bool] = True

    @property
    def kind(self) -> Kind:
        """What they are; moments of a time zone are told in UTC."""
        if self.dtype.kind == "m":
            return "duration"
        return "date UTC" if getattr(self.dtype, "tz", None) is not None else "date"

    def encode(self, column: "Series", what: str) -> Floats:
        """Return microseconds since 1970, or as many as it lasts."""
        plain = self._converted(column, what)
        if self.kind == "date UTC":
            plain = plain.dt.tz_convert("UTC").dt.tz_localize(None)
        whole = plain.to_numpy().astype(f"{self.dtype.kind}8[us]").view(np.int64)
        return np.where(plain.isna(), MISSING, whole.astype(np.float64))

    def decode(self, numbers: Floats) -> Any:
        """Return times of the background's own precision and zone."""
        import pandas as pd

        missing = numbers == MISSING
        whole = np.where(missing, 0, numbers).round().astype(np.int64).view(f"{self.dtype.kind}8[us]")
        times: Any = pd.Series(np.where(missing, np.array("NaT", whole.dtype), whole))
        if self.kind == "date UTC":
            times = times.dt.tz_localize("UTC")
        return times.astype(self.dtype).array


class Ranks(Column):
    """Ordered categories, as their places in the order."""

    @property
    def kind(self) -> Kind:
        """Codes in order."""
        return "ordered"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the categories in order."""
        return tuple(map(str, self.dtype.categories))

    def encode(self, column: "Series", what: str) -> Floats:
        """Return places in the order."""
        codes = self._converted(column, what).cat.codes.to_numpy()
        return np.where(codes < 0, MISSING, codes.astype(np.float64))

    def decode(self, numbers: Floats) -> Any:
        """Return the categories."""
        import pandas as pd

        return pd.Categorical.from_codes(np.where(numbers == MISSING, -1, numbers).astype(np.int64), dtype=self.dtype)


_NUMBERING = threading.Lock()
"""Held while values that were not seen before get codes."""


class Words(Column):
    """Text, booleans, categories without an order, and numbers that are codes: missing is a value like others."""

    subtracts: ClassVar[bool] = False

    def __init__(self, name: str, background: "Series") -> None:
        import pandas as pd

        super().__init__(name, background)
        categories = getattr(self.dtype, "categories", None)
        known = background.dropna().unique() if categories is None else categories
        try:
            self._known = pd.Series(known, dtype=self.dtype).sort_values(ignore_index=True)
        except TypeError:  # they have no order among themselves
            self._known = pd.Series(known, dtype=self.dtype)
        gone = background.isna()
        self.n_known, self.has_values = len(self._known) + bool(gone.any()), not gone.all()

    @property
    def words(self) -> tuple[str, ...]:
        """Return what each code stands for."""
        return tuple(
            "missing" if gone else str(word) for word, gone in zip(self._known, self._known.isna(), strict=True)
        )

    def gaps(self, numbers: Tensor) -> Tensor:
        """Tell which codes stand for a missing value."""
        return torch.tensor(self._known.isna().tolist())[numbers.long()]

    def encode(self, column: "Series", what: str) -> Floats:
        """Return codes; values not seen before get new ones."""
        import pandas as pd

        column = self._converted(column, what)
        with _NUMBERING:
            new = column[~column.isin(self._known)].drop_duplicates()
            if len(new):
                self._known = pd.concat([self._known, new] if len(self._known) else [new], ignore_index=True)
        codes: Floats = pd.Index(self._known).get_indexer(pd.Index(column)).astype(np.float64)
        return codes

    def decode(self, numbers: Floats) -> Any:
        """Return the values."""
        return self._known.array.take(numbers.astype(np.int64))


def column_of(name: str, background: "Series", *, codes: bool) -> Column:
    """Return a column of the background by its type; `codes`: its numbers are to be told apart only."""
    import pandas as pd

    dtype: Any = background.dtype
    if codes:
        return Words(name, background)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return Ranks(name, background)
    if dtype.kind in "mM":
        return Times(name, background)
    if dtype.kind in "iuf" or holds_numbers(background):
        return Numbers(name, background)
    kind = pd.api.types.infer_dtype(background, skipna=True)
    if kind.startswith("mixed"):
        raise InputError(
            f"Expected values of one type in column {name!r} of the background, got {_description(background)}; "
            "convert the column to numbers or to text"
        )
    return Words(name, background)


def holds_numbers(column: "Series") -> bool:
    """Tell whether a column of any objects has nothing but numbers, and gaps."""
    import pandas as pd

    known = ("integer", "floating", "mixed-integer-float", "decimal")
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in known


def _description(column: "Series") -> str:
    """Return what a column has, by example where it is of any objects."""
    if column.dtype != object:
        return str(column.dtype)
    examples = {type(value).__name__: value for value in column.dropna()}
    return " and ".join(f"{name} ({value!r})" for name, value in list(examples.items())[:3]) or "nothing"
