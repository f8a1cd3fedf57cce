"""Tables: columns of NumPy arrays, torch tensors or pandas frames."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError, ModelError, check_written, choose, warn
from fans.explanation import Attribution
from fans.modalities.base import (
    LARGEST,
    Baseline,
    Distance,
    DrawnRows,
    FeatureSpace,
    FittedSpace,
    Fixed,
    Oddity,
    Units,
    filled,
    is_sparse,
    refuse_empty,
    shape_of,
    what_is_wrong,
)
from fans.modalities.masks import features_of_mask
from fans.modalities.table.columns import (
    MISSING,
    Column,
    Floats,
    Numbers,
    Words,
    column_of,
    is_missing,
    marked,
    with_gaps,
)

if TYPE_CHECKING:
    import pandas as pd


def is_frame(value: Any) -> TypeGuard["pd.DataFrame"]:
    """Tell whether `value` is a pandas frame, without importing pandas."""
    return type(value).__name__ == "DataFrame" and hasattr(value, "iloc")


def is_series(value: Any) -> TypeGuard["pd.Series[Any]"]:
    """Tell whether `value` is a pandas series, without importing pandas."""
    return type(value).__name__ == "Series" and hasattr(value, "iloc")


def _refuse_infinite(rows: Tensor, names: Sequence[str], what: str) -> None:
    """Raise if any number is infinite or far too large, naming the first place."""
    if float(rows.abs().amax()) <= LARGEST:  # what is missing is larger
        return
    bad = ((rows.abs() > LARGEST) & ~is_missing(rows)).nonzero()
    if len(bad):
        row, column = bad[0].tolist()
        value = rows[row, column].item()
        expected, more = what_is_wrong(value)
        raise InputError(
            f"Expected {expected}, or NaN for missing ones, in {what}, got {value:.4g} in row {row}, column "
            f"{names[column]!r} ({len(bad)} such values){more or '; replace or drop them first'}"
        )


def label_text(label: Any) -> str:
    """Return the label of a column or a row as text, the levels of one with several as `a / b`."""
    return " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _are_columns(value: Any) -> bool:
    """Tell whether this is a list of names or places of columns."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return False
    return all(isinstance(each, str | int | np.integer) for each in value)


@dataclass(frozen=True)
class Table(FeatureSpace):
    """Columns of a table: NumPy arrays, torch tensors or pandas frames.

    A missing value (NaN, None, NaT) reaches the model as such, and counts as a value of its own: as far from any number
    as one category is from another. Dates and ordered categories keep their order.

    Args:
        columns: names of the columns of an array (a frame brings its own).
        groups: one-hot columns that are one feature, e.g. `{"colour": ["colour_red", "colour_blue"]}`.
        categorical: columns whose numbers are codes, so that a distance is 0 (equal) or 1. Columns of text, booleans
            or categories without an order in a frame are always categorical.
        feature_mask: instead of groups, a whole number for each column; columns of one number are one feature, and
            unlike one-hot columns each counts in distances: see `FeatureMask`.

    Example:
        >>> Table(groups={"colour": [1, 2]}).fit(np.array([[0.5, 1, 0], [0.1, 0, 1]])).feature_names
        ('x1', 'colour')
    """

    baselines: ClassVar[tuple[str, ...]] = ("background", "mean", "zero")

    columns: Sequence[str] | None = None
    groups: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    categorical: Sequence[str | int] = ()
    feature_mask: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Mapping) or not all(map(_are_columns, self.groups.values())):
            raise InputError(
                'Expected `groups` as names with their columns, such as {"colour": ["red", "blue"]}, '
                f"got {self.groups!r:.100}"
            )
        for name, given in (("columns", self.columns), ("categorical", self.categorical)):
            if given is not None and not _are_columns(given):
                raise InputError(f"Expected `{name}` as a list of columns, got {given!r:.100}")

    def fit(self, background: Any) -> "FittedTable":
        """Bind to a background set of shape `(n, columns)`."""
        refuse_empty(background)
        return FittedTable(self, background)


class FittedTable(FittedSpace):
    """A table's columns, their names, kinds and scales."""

    modality: ClassVar[str] = "table"
    signed: ClassVar[bool] = True
    solver: ClassVar[Literal["game", "walks"]] = "walks"
    own_scales: ClassVar[bool] = True

    def __init__(self, table: Table, background: Any) -> None:
        super().__init__()
        self.named = is_frame(background)
        self._tensor = isinstance(background, Tensor)
        self._columns = self._column_names(table, background)
        self._labels: Any = background.columns if self.named else None
        self.has_missing = False
        codes = {self._column(c, "`categorical`") for c in table.categorical}
        self._kinds: list[Column] = []
        if self.named:
            names = enumerate(self._columns)
            self._kinds = [column_of(name, background.iloc[:, j], codes=j in codes) for j, name in names]
        self._categorical = self._flags(lambda kind: not kind.subtracts, codes)
        self._coded = self._flags(lambda kind: not kind.between, codes)
        self._lay_out_units(table)
        rows = self.encode(background, "background")
        self._learn_scales(rows)

    def _flags(self, ask: Callable[[Column], bool], codes: set[int]) -> Tensor:
        """Return which columns `(E,)` are codes, or of a kind that answers yes."""
        asked = [ask(kind) for kind in self._kinds] or [False] * len(self._columns)
        return torch.tensor([yes or j in codes for j, yes in enumerate(asked)])

    def _learn_scales(self, rows: Tensor) -> None:
        """Find the mean and spread of each column's known values."""
        known = ~is_missing(rows)
        if self._kinds:
            known &= torch.tensor([kind.has_values for kind in self._kinds])
        self._n_rows, self._n_known = len(rows), known.sum(0)
        if not known.any():
            raise InputError(
                f"Expected values in the background, got {len(rows)} rows in which everything is missing; "
                "pass rows of real data"
            )
        empty = [self._columns[j] for j in (self._n_known == 0).nonzero()[:, 0].tolist()]
        if empty:
            warn(
                f"Column{'s' if len(empty) > 1 else ''} {', '.join(map(repr, empty[:5]))} "
                f"{f'and {len(empty) - 5} more ' if len(empty) > 5 else ''}of the background "
                f"{'have' if len(empty) > 1 else 'has'} no value at all, only missing ones, so that any other value is "
                f"compared with none; drop {'them' if len(empty) > 1 else 'it'}, or pass rows that have some"
            )
        n = self._n_known.clamp(min=1)
        own = rows.dtype
        rows = rows.double()  # squares may be beyond single precision
        mean = torch.where(known, rows, 0.0).sum(0) / n
        apart = torch.where(known, rows - mean, 0.0)
        spread = (apart.square().sum(0) / n).sqrt()
        largest = torch.where(known, rows.abs(), 0.0).amax(0)
        self._varies = ~self._categorical & (spread > 1e-12 * largest)
        self._mean, self.scale = mean.to(own), torch.where(self._varies, spread, torch.ones(())).to(own)

    @staticmethod
    def _column_names(table: Table, background: Any) -> tuple[str, ...]:
        shape = shape_of(background, "background")
        if len(shape) != 2 or not shape[1]:
            raise InputError(
                f"Expected `background` of shape (samples, columns), got {shape}; a table has one row per sample"
            )
        if is_frame(background):
            names = tuple(map(label_text, background.columns))
        else:
            names = tuple(table.columns if table.columns is not None else [f"x{j + 1}" for j in range(shape[1])])
        if len(names) != shape[1]:
            raise InputError(f"Expected {shape[1]} names in `columns`, one per column, got {len(names)}")
        check_written("names of columns", names)
        twice = sorted(name for name, n in Counter(names).items() if n > 1)
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
        if table.feature_mask is not None:
            self._take_mask(table)
            return
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

    def _take_mask(self, table: Table) -> None:
        """Number the features as a mask does, and call each by its columns."""
        if table.groups:
            raise InputError("Expected `groups` or `feature_mask`, got both; the mask says what a feature is")
        self.shape = (len(self._columns),)
        numbers, of_element = features_of_mask(table.feature_mask, self.shape)
        members = [
            [name for name, j in zip(self._columns, of_element, strict=True) if j == k] for k in range(len(numbers))
        ]
        self.feature_names = tuple(
            " + ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more" for names in members
        )
        sizes = torch.tensor([[float(len(names)) for names in members]])
        self._units = Units(of_element[None], sizes, shared=True)
        self._grouped = torch.zeros(len(self._columns), dtype=torch.bool)

    def encode(self, inputs: Any, what: str) -> Tensor:
        """Return rows `(n, columns)`: numbers as they are, categories as codes."""
        if is_series(inputs):
            inputs = inputs.to_frame().T.infer_objects()
        rows = self._encode_frame(inputs, what) if is_frame(inputs) else self._encode_array(inputs, what)
        if not len(rows):
            raise InputError(f"Expected at least one row in {what}, got shape {tuple(rows.shape)}")
        _refuse_infinite(rows, self._columns, what)
        self.has_missing = self.has_missing or bool(is_missing(rows).any())
        return rows

    def names(self, x: Any) -> list[int | str] | None:
        """Return a frame's own index as ids, where no two of its labels are alike."""
        if is_series(x):
            return None if x.name is None else [_id(x.name)]
        if not is_frame(x):
            return None
        labels = [_id(label) for label in x.index]
        if len(set(labels)) == len(labels):
            return labels
        warn(
            f"The frame's index has several of {next(iter(x.index[x.index.duplicated()]))!r}, so that its rows go by "
            "their places; pass `ids=`, or give it an index of different labels"
        )
        return None

    def _encode_array(self, inputs: Any, what: str) -> Tensor:
        if self.named:
            raise InputError(f"Expected {what} as a pandas frame like the background, got {type(inputs).__name__}")
        if isinstance(inputs, Tensor):
            shape_of(inputs, what)
            rows = inputs.detach().cpu().clone()
        else:
            rows = torch.from_numpy(self._numbers(inputs, what))
        if rows.dtype not in (torch.float32, torch.float64):
            rows = rows.float() if rows.is_floating_point() else rows.double()
        rows = torch.where(rows.isnan(), MISSING, rows)
        rows = rows[None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != len(self._columns):
            raise InputError(
                f"Expected {what} of shape ({len(self._columns)},) or (batch, {len(self._columns)}), "
                f"got {tuple(np.shape(inputs))}"
            )
        return rows

    def _numbers(self, inputs: Any, what: str) -> np.ndarray[Any, Any]:
        if is_sparse(inputs):
            raise InputError(
                f"Expected {what} as dense rows, got {type(inputs).__name__}; pass its .toarray(), or a background of "
                "sparse rows too"
            )
        shape_of(inputs, what)
        array = np.array(filled(inputs))
        if array.dtype == object:
            return _from_objects(array, what)
        if array.dtype.kind not in "fiub":
            raise InputError(
                f"Expected numbers in {what}, got {array.dtype}; pass a pandas frame for columns of text or categories"
            )
        small = array.dtype.kind == "f" and array.dtype.itemsize <= 4
        # A copy: torch warns of read-only memory, and the caller's array stays his own.
        return array.astype(np.float32 if small else np.float64)

    def _encode_frame(self, frame: "pd.DataFrame", what: str) -> Tensor:
        names = tuple(map(label_text, frame.columns))
        if sorted(names) == sorted(self._columns):
            place = {name: j for j, name in enumerate(names)}
            frame = frame if names == self._columns else frame.iloc[:, [place[c] for c in self._columns]]
        elif self.named or len(names) != len(self._columns):
            missing = [c for c in self._columns if c not in names]
            surplus = [c for c in names if c not in self._columns or names.count(c) > 1]
            problem = f"missing: {missing}" if missing else f"drop: {surplus}"
            raise InputError(f"Expected the background's columns in {what}, got {list(names)}; {problem}")
        if all(isinstance(kind, Numbers) for kind in self._kinds) and all(map(_is_plain, frame.dtypes)):
            return torch.from_numpy(marked(frame.to_numpy(dtype=float)))
        kinds = self._kinds or [Numbers(name, frame.iloc[:, j]) for j, name in enumerate(self._columns)]
        rows = np.empty(frame.shape)
        for j, kind in enumerate(kinds):
            rows[:, j] = kind.encode(frame.iloc[:, j], what)
        return torch.from_numpy(rows)

    def units(self, rows: Tensor, of: Tensor | None = None) -> Units:  # noqa: ARG002
        """Return the columns and groups: the same for every row."""
        return self._units

    def for_module(self, rows: Tensor) -> Tensor:
        """Return the rows; categories and times as the numbers they stand for."""
        if any(not isinstance(kind, Numbers) for kind in self._kinds):
            return _numeric(self.decode(rows))
        return self.told(rows)

    def told(self, rows: Tensor) -> Tensor:
        """Return rows with NaN for missing values."""
        return with_gaps(rows) if self.has_missing else rows

    def inputs_of(self, e: Attribution) -> Any:
        """Return the rows of an explanation as the background came."""
        return self.decode(torch.from_numpy(marked(e.inputs)))

    def decode(self, rows: Tensor) -> Any:
        """Return rows as the background came: a tensor, an array, or a frame with its labels and dtypes.

        A frame's whole numbers come as floats, since a baseline may fall between them.
        """
        if self._tensor:
            return self.told(rows)
        if not self.named:
            return self.told(rows).cpu().numpy()
        import pandas as pd

        if all(isinstance(kind, Numbers) and kind.dtype != np.float32 for kind in self._kinds):
            return pd.DataFrame(self.told(rows).cpu().numpy(), columns=self._labels)
        array = rows.cpu().numpy()
        frame = pd.DataFrame({j: kind.decode(array[:, j]) for j, kind in enumerate(self._kinds)})
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
            other = [kind.name for kind in self._kinds if not isinstance(kind, Numbers)]
            if other:
                raise InputError(
                    f"Expected a baseline that columns {other} can take, got the number {value}; "
                    'use "background", "mean" (of categories the most frequent) or a row'
                )
            value = np.full(len(self._columns), float(value))
            if self.named:
                value = self.decode(torch.from_numpy(value[None]))
        row = self.encode(value, "baseline")
        if len(row) != 1:
            raise InputError(f"Expected `baseline` as one row of {len(self._columns)} columns, got {len(row)} rows")
        return Fixed(row[0].to(background.dtype))

    def _mean_row(self, background: Tensor) -> Tensor:
        """Return means of known values; categories and one-hot groups take their most frequent value, gaps included."""
        row = torch.where(self._n_known > 0, self._mean.to(background.dtype), MISSING)
        for unit in range(self.n_features):
            elements = self._units.of_element[0] == unit
            if (self._coded | self._grouped)[elements].any():
                values, counts = np.unique(background[:, elements].numpy(), axis=0, return_counts=True)
                row[elements] = torch.from_numpy(values[counts.argmax()])
        return row

    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:
        """Return squared distances: standardised for `"rms"`; 0 or 1 of categories, of groups and of missing values."""
        x = x[:, None]
        difference = x - rows  # (B, S, E)
        if distance == "rms":
            difference = difference / self.scale.to(x.dtype)
        told_apart = self._categorical | self._grouped
        if self.has_missing:
            told_apart = told_apart | is_missing(x) | is_missing(rows)
        squared = torch.where(told_apart, (x != rows).to(x.dtype), difference**2)
        if self.n_elements == self.n_features:
            return squared
        grouped = torch.zeros(self.n_features, dtype=torch.bool)
        grouped[units.of_element[0][self._grouped]] = True
        summed = units.collect(squared)
        return torch.where(grouped, summed.clamp(max=1), summed)

    def standardised(self, rows: Tensor) -> Tensor:
        """Return how many standard deviations rows are from the background's mean; 0 where there is no telling."""
        return torch.where(self._varies & ~is_missing(rows), (rows - self._mean) / self.scale, 0.0).to(rows.dtype)

    def deviations(self, background: Tensor) -> Tensor:
        """Return each row's squared standardised deviation minus 1, of known values in columns that have a scale.

        Where some are missing the others count for more, since the variance is theirs alone.
        """
        squared = (((background - self._mean) / self.scale) ** 2 - 1) * (len(background) / self._n_known.clamp(min=1))
        return torch.where(self._varies & ~self._grouped & ~is_missing(background), squared, 0.0).to(background.dtype)

    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:
        """Return noise for the numeric columns that vary; a missing value is too large to be moved by it."""
        scale = self.scale if relative else torch.ones_like(self.scale)
        return normals * torch.where(self._varies & ~self._grouped & ~self._coded, size * scale, torch.zeros(()))

    def oddities(self, rows: Tensor) -> list[Oddity]:
        """Return missing values, and categories that the background does not have."""
        gaps, out = self._gaps(rows), list[Oddity]()
        new = torch.stack([self._is_new(j, rows[:, j]) for j in range(rows.shape[1])], 1)
        if gaps.any():
            names = [self._columns[j] for j in gaps.any(0).nonzero()[:, 0].tolist()]
            where = f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:5]))}"
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            out.append(Oddity(gaps.any(1), f"missing values in {where}{more}", "impute them, e.g. by a SimpleImputer"))
        if new.any():
            i, j = new.nonzero()[0].tolist()
            word = (self._kinds[j].words or ())[int(rows[i, j])]
            what = f"{word!r} in column {self._columns[j]!r}, which no background row has"
            ignore = 'have the model ignore it, e.g. by OneHotEncoder(handle_unknown="ignore")'
            out.append(Oddity(new.any(1), what, f"leave such inputs out, or {ignore}"))
        return out

    def _gaps(self, rows: Tensor) -> Tensor:
        """Tell which values of rows are missing, be it a word among words."""
        if not self._kinds:
            return is_missing(rows)
        return torch.stack([kind.gaps(rows[:, j]) for j, kind in enumerate(self._kinds)], 1)

    def _is_new(self, j: int, numbers: Tensor) -> Tensor:
        """Tell which values of a column are words that the background does not have."""
        kind = self._kinds[j] if self._kinds else None
        return numbers >= kind.n_known if isinstance(kind, Words) else torch.zeros(len(numbers), dtype=torch.bool)

    @property
    def element_names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return self._columns

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Return what the codes of each categorical column stand for, by the column's position."""
        return {str(j): kind.words for j, kind in enumerate(self._kinds) if kind.words is not None}

    @property
    def kinds(self) -> dict[str, str]:
        """Return which columns are times or ordered categories, by their position."""
        return {str(j): kind.kind for j, kind in enumerate(self._kinds) if kind.kind}

    @property
    def no_gradient(self) -> str:
        """Why a module's outputs have no gradient."""
        other = [kind.name for kind in self._kinds if not isinstance(kind, Numbers)]
        if other:
            return f"column {other[0]!r} has no numbers"
        return "the background has missing values" if self._n_known.min() < self._n_rows else ""


def _is_plain(dtype: Any) -> bool:
    """Tell whether NumPy has a column of this type as numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iufb"


def _from_objects(array: np.ndarray[Any, Any], what: str) -> Floats:
    """Return an array of any objects as numbers, None and pandas' NA as NaN: what a frame with gaps turns into."""
    out = np.empty(array.shape)
    for place, value in np.ndenumerate(array):
        if value is None or type(value).__name__ == "NAType":
            out[place] = np.nan
        elif isinstance(value, Real | Decimal):
            out[place] = float(value)
        else:
            raise InputError(
                f"Expected numbers in {what}, got {value!r} ({type(value).__name__}) at {place}; pass a pandas frame "
                "for columns of text or categories"
            )
    return out


def _id(label: Any) -> int | str:
    """Return a label of a frame's index as an id."""
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    return int(label) if whole else label_text(label)


def _numeric(frame: Any) -> Tensor:
    """Return a frame's values for a module, which cannot read text."""
    try:
        return torch.from_numpy(np.array(frame, dtype=np.float64))
    except (TypeError, ValueError):
        text = [str(name) for name, dtype in frame.dtypes.items() if dtype.kind not in "iufb"]
        raise ModelError(
            f"Expected numbers for a torch module, got columns of text, categories or times: {text}; encode them as "
            "numbers, or pass a function that does and calls the module"
        ) from None
