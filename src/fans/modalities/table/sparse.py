"""Sparse tables: rows of scipy.sparse, as TF-IDF of documents. An input's features are the columns that it has.

A column that is 0 in an input is no feature of it: of twenty thousand words a document has a hundred, and there is no
use in perturbing the others. A missing feature is 0, a word that is not there. So every input has features of its own,
and is read by a space of its own (`FittedRow`), whose rows `(n, K)` hold the values of its K columns; the model gets
them as the sparse rows that they stand for. Nothing is dense but these.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, ModelError
from fans.modalities.base import (
    LARGEST,
    Caller,
    FeatureSpace,
    FittedSpace,
    Units,
    is_sparse,
    refuse_empty,
    what_is_wrong,
)
from fans.modalities.presence import TYPICAL, FittedPresence
from fans.types import Array


@dataclass(frozen=True)
class SparseTable(FeatureSpace):
    """Rows of scipy.sparse (any format, matrix or array); the model gets CSR. What is missing is 0.

    Args:
        columns: names of the columns, as a vectorizer's `get_feature_names_out()`; by default `x1`, `x2` and so on.

    Example:
        >>> from scipy.sparse import csr_array
        >>> rows = csr_array(np.array([[0, 2, 0, 1], [1, 0, 3, 0]]))
        >>> SparseTable(columns=["a", "bad", "good", "the"]).fit(rows).split(rows)[0][0].feature_names
        ('bad', 'the')
    """

    baselines: ClassVar[tuple[str, ...]] = ("zero",)

    columns: Iterable[str] | None = None

    def fit(self, background: Any) -> "FittedSparse":
        """Bind to a background set of shape `(n, columns)`."""
        return FittedSparse(self, background)


class _Columns(FittedPresence):
    """Some columns of a sparse table, each a feature that can only be there, with its value, or not."""

    modality: ClassVar[str] = "table"
    own_scales: ClassVar[bool] = True
    things: ClassVar[str] = "sparse rows"
    baseline_remedy: ClassVar[str] = "leave it out, or pass dense rows (.toarray())"


class FittedSparse(_Columns):
    """A sparse table's background, whose rows are read by their numbers, and the names of its columns.

    Its features are those of a background row of typical size: what the costs of inputs are reckoned by.
    """

    def __init__(self, table: SparseTable, background: Any) -> None:
        super().__init__()
        refuse_empty(background)
        self.background = _compressed(background, "background")
        self._names = _checked_names(table.columns, self.n_columns)
        _refuse_bad_numbers(self, self.background, "background")
        sizes = np.diff(self.background.indptr)
        filled = np.flatnonzero(sizes)
        if not len(filled):
            raise InputError("Expected a background with something in it, got zeros alone; pass rows of real data")
        row = filled[np.argsort(sizes[filled], kind="stable")[int(TYPICAL * (len(filled) - 1))]]
        start, end = self.background.indptr[row : row + 2]
        self.take(self.names_of(np.unique(self.background.indices[start:end])))

    @property
    def n_columns(self) -> int:
        """How many columns the table has."""
        return int(self.background.shape[1])

    @property
    def model_columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.names_of(np.arange(self.n_columns))

    def names_of(self, columns: Array) -> tuple[str, ...]:
        """Return what some columns are called."""
        return tuple(self._names[j] if self._names else f"x{j + 1}" for j in columns.tolist())

    def columns_of(self, names: Sequence[Any]) -> Array:
        """Return which columns these names are of."""
        for name in names:
            if name not in self._place:
                close = difflib.get_close_matches(str(name), self._place, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise InputError(
                    f"Expected names of columns in `subset`, got {name!r}, which none of {self.n_columns:,} has{hint}"
                )
        return np.array([self._place[name] for name in names])

    @cached_property
    def _place(self) -> dict[str, int]:
        """The column of each name."""
        return {name: j for j, name in enumerate(self.model_columns)}

    def bind_model(self, caller: Caller) -> "FittedSparse":
        """Refuse a torch module, which takes tensors."""
        model = caller.model
        if isinstance(model, nn.Module):
            raise ModelError(
                f"Expected a model that takes sparse rows, got {type(model).__name__}, a torch module, which takes "
                "tensors; pass dense rows (.toarray()), or a function of sparse rows that calls the module"
            )
        return self

    def encode(self, inputs: Any, what: str) -> Tensor:  # noqa: ARG002
        """Return the numbers `(n, 1)` of the background's rows."""
        return torch.arange(self.background.shape[0], dtype=torch.float64)[:, None]

    def decode(self, rows: Tensor) -> Any:
        """Return the background's rows of these numbers."""
        return self.background[rows[:, 0].long().numpy()]

    def split(self, x: Any) -> list[tuple[FittedSpace, Tensor, list[int]]]:
        """Return for each input a space of its own, its values in the columns that it has, and its place."""
        rows = _compressed(x, "x", self).copy()
        if not rows.shape[0]:
            raise InputError(f"Expected at least one row in x, got shape {rows.shape}")
        rows.sum_duplicates()
        rows.eliminate_zeros()
        _refuse_bad_numbers(self, rows, "x")
        empty = np.flatnonzero(np.diff(rows.indptr) == 0)
        if len(empty):
            others = f" and {len(empty) - 1} others" if len(empty) > 1 else ""
            raise InputError(
                f"Expected rows with something in them, got row {empty[0]} of x{others} with zeros alone, of which "
                f"there is nothing to explain; leave {'them' if others else 'it'} out"
            )
        together = np.unique(rows.indices)
        names = self.names_of(together)
        each = [rows[i : i + 1] for i in range(rows.shape[0])]
        spaces = [FittedRow(self, row.indices, together, names, row.dtype) for row in each]
        return [(space, space.encode(row, "x"), [i]) for i, (space, row) in enumerate(zip(spaces, each, strict=True))]


class FittedRow(_Columns):
    """The columns that one input has.

    Args:
        table: it is from.
        columns: `(K,)` their numbers, sorted.
        together: `(U,)` the columns of all inputs that were given with it, sorted.
        names: what these are called.
        dtype: of the values that the model gets: the input's.
    """

    def __init__(
        self, table: FittedSparse, columns: Array, together: Array, names: tuple[str, ...], dtype: np.dtype[Any]
    ) -> None:
        self._table, self._columns, self._dtype, self.unwrap = table, columns, dtype, table.unwrap
        self._places, self._all_names = np.searchsorted(together, columns), names
        self.take(tuple(names[place] for place in self._places.tolist()))

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the columns of all inputs that were given with this one."""
        return self._all_names

    @property
    def element_names(self) -> tuple[str, ...]:
        """One name per element that is shown."""
        return self._all_names

    def encode(self, inputs: Any, what: str) -> Tensor:  # noqa: ARG002
        """Return the values `(1, K)` of the input, a CSR row."""
        return torch.from_numpy(inputs.data.astype(np.float64))[None]

    def decode(self, rows: Tensor) -> Any:
        """Return CSR rows of all columns, of the background's kind (matrix or array)."""
        values = rows.numpy()
        there = values != 0
        columns = np.broadcast_to(self._columns, there.shape)[there]
        ends = np.concatenate([[0], there.sum(1).cumsum()])
        kind, shape = type(self._table.background), (len(rows), self._table.n_columns)
        return kind((values[there].astype(self._dtype), columns, ends), shape=shape)

    def shown(self, rows: Tensor) -> Tensor:
        """Return what is said of the columns `(n, K)` among those of all inputs `(n, U)`."""
        return torch.from_numpy(self.among_all(rows.numpy()))

    def elements(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Return `(U,)`: each column that is shown is a feature."""
        return torch.arange(len(self._all_names))

    def among_all(self, of_features: Array, fill: float = 0) -> Array:
        """Return what is said of the features `(n, K)` among those of all inputs `(n, U)`; the others are filled."""
        out = np.full((len(of_features), len(self._all_names)), fill, of_features.dtype)
        out[:, self._places] = of_features
        return out

    def own(self, of_all: Any) -> Any:
        """Return what is said of the features, from what is said of all inputs' `(..., U)` or of all columns."""
        n, n_columns = of_all.shape[-1], self._table.n_columns
        known = {n_columns: self._columns, len(self._all_names): self._places, self.n_features: slice(None)}
        if n not in known:
            raise InputError(
                f"Expected one entry for each of the {len(self._all_names):,} columns that these rows have, or of all "
                f"{n_columns:,}, got {n:,}"
            )
        return of_all[..., known[n]]

    def _named(self, names: list[Any]) -> Any:
        return np.isin(self._columns, self._table.columns_of(names))

    def _mask_to_features(self, mask: Tensor, units: Units, batch: int) -> Tensor:  # noqa: ARG002
        chosen: Tensor = self.own(mask)
        return chosen


def _compressed(given: Any, what: str, like: FittedSparse | None = None) -> Any:
    """Return sparse rows as CSR, with as many columns as those they are to be like."""
    if not is_sparse(given):
        raise InputError(
            f"Expected {what} as rows of scipy.sparse, got {type(given).__name__}; pass scipy.sparse.csr_array of it"
        )
    rows = given.reshape(1, -1) if len(given.shape) == 1 else given
    n_columns = rows.shape[1] if like is None else like.n_columns
    if not n_columns or rows.shape[1] != n_columns:
        expected = "at least one column" if like is None else f"{n_columns:,} columns, as the background has,"
        raise InputError(f"Expected {expected} in {what}, got {rows.shape[1]:,}; pass both from one vectorizer")
    if rows.dtype.kind not in "fiub":
        raise InputError(f"Expected real numbers in {what}, got {rows.dtype}; convert them with .astype(float)")
    return rows.tocsr()


def _refuse_bad_numbers(table: FittedSparse, rows: Any, what: str) -> None:
    """Raise if any number is NaN, infinite or far too large, naming the first place."""
    bad = np.flatnonzero(~(np.abs(rows.data.astype(float)) <= LARGEST))
    if len(bad):
        value = float(rows.data[bad[0]])
        expected, more = what_is_wrong(value)
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        (name,) = table.names_of(rows.indices[bad[:1]])
        raise InputError(
            f"Expected {expected} in {what}, got {value:.4g} in row {row}, column {name!r} "
            f"({len(bad)} such values){more or '; impute or drop them first'}"
        )


def _checked_names(columns: Iterable[str] | None, n_columns: int) -> tuple[str, ...]:
    """Return the names of the columns, none if they have none: as many as columns, and no two alike."""
    if columns is None:
        return ()
    names = tuple(map(str, columns))
    if len(names) != n_columns:
        raise InputError(f"Expected {n_columns:,} names in `columns`, one per column, got {len(names):,}")
    name, n_times = Counter(names).most_common(1)[0]
    if n_times > 1:
        raise InputError(f"Expected a name of its own for each column, got {n_times} of {name!r}; rename them")
    return names
