"""The entries of a table study's file: columns, rows, what the paper says of them, and how much is a quick look."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fans.studies.base import Plain

POOLED = ", our units"
"""What the name of a row on FANS's units ends with."""

UNITS = "our units"
"""The group of those rows."""

OWN = "FANS"
"""The group of our own rows."""


@dataclass(frozen=True)
class Column:
    """A metric with its settings.

    Attributes:
        name: in the table.
        metric: registered name.
        settings: of the metric.
        at: by dataset, what is different there: `settings`, or a `limit`, the share of the inputs it is asked of.
        paper: name of the paper's column that it is to be compared with.
        median: whether the report shows the median as well, in a column of its own.
        ranked: whether the best are marked: not where the scale of the scores decides.
        group: columns of one group are judged in one cell. A column that joins a table whose cells are done takes
            another group: it has cells of its own, which explain the same inputs again, and the others stay done.
        note: what a reader has to know.
    """

    name: str
    metric: str
    settings: Plain = field(default_factory=dict)
    at: Mapping[str, Plain] = field(default_factory=dict)
    paper: str | None = None
    median: bool = False
    ranked: bool = True
    group: str = ""
    note: str = ""

    def on(self, dataset: str) -> dict[str, Any]:
        """Return what a cell needs to know on a dataset."""
        there = self.at.get(dataset, {})
        settings = dict(self.settings) | dict(there.get("settings", {}))
        return {"name": self.name, "metric": self.metric, "settings": settings, "limit": there.get("limit")}


@dataclass(frozen=True)
class Row:
    """A method with its settings.

    Attributes:
        name: in the table.
        method: registered name.
        space: arguments of the feature space; None is the default one, the units of FANS.
        settings: of the explainer, on every dataset.
        chosen: by dataset, the settings that the search chose.
        search: values tried of each setting, all combinations; a setting called `space` is one.
        search_at: by dataset, the values of some settings there instead, for a model that is dear.
        limit: by dataset, the share of the inputs.
        column_limit: by column and dataset, the share of the inputs for a column that is dear.
        paper: name of the paper's row.
        group: rows of one group stand together.
        trivial: whether it is a control that knows nothing of the model: it is never marked, and where it is best in a
            column the report says so (see `TableStudy.faithful`).
        pooled: whether the same method also appears on FANS's units, in a row of its own.
        chosen_pooled: as `chosen`, of that row, which is searched for itself.
    """

    name: str
    method: str
    space: Plain | None = None
    settings: Plain = field(default_factory=dict)
    chosen: Mapping[str, Plain] = field(default_factory=dict)
    search: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    search_at: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    limit: Mapping[str, float] = field(default_factory=dict)
    column_limit: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    paper: str | None = None
    group: str = ""
    trivial: bool = False
    pooled: bool = False
    chosen_pooled: Mapping[str, Plain] = field(default_factory=dict)

    def on(self, dataset: str) -> dict[str, Any]:
        """Return the explainer's arguments on a dataset."""
        return self._call(self.chosen.get(dataset, {}))

    def limited(self, column: Plain, dataset: str, total: int, shard: tuple[int, int]) -> dict[str, Any]:
        """Return a column with the first input that it is not asked of, None where it is asked of the whole shard.

        A column that is dear for this row is left out where its share of the inputs is less than half a one.
        """
        own = self.column_limit.get(column["name"], {}).get(dataset, 1.0)
        end = min(round(own * total), math.ceil((1.0 if column["limit"] is None else column["limit"]) * total))
        return dict(column) | {"limit": None if end >= shard[1] else max(end, shard[0])}

    def all_settings(self) -> set[str]:
        """Return the names of all settings that occur in it."""
        by_dataset = (*self.chosen.values(), *self.search_at.values())
        return {*self.settings, *self.search, *itertools.chain.from_iterable(by_dataset)}

    def candidates(self, dataset: str) -> list[dict[str, Any]]:
        """Return the explainer's arguments of every combination that the search tries on a dataset."""
        tried = dict(self.search) | dict(self.search_at.get(dataset, {}))
        return [self._call(dict(zip(tried, values, strict=True))) for values in itertools.product(*tried.values())]

    def _call(self, chosen: Plain) -> dict[str, Any]:
        settings = dict(self.settings) | dict(chosen)
        space = settings.pop("space", self.space)
        return {"method": self.method, "space": space, "settings": settings}


Kind = Literal["first", "second", "near", "equals", "only"]


@dataclass(frozen=True)
class Said:
    """What the paper says of a row of its table.

    Attributes:
        says: it, in a sentence.
        source: where it stands in the paper.
        kind: what it comes to in the column. The row is `first` or `second`; it is `near` the best other one; its mean
            `equals` a value; or it is the `only` row of which that is so on all datasets.
        column: of the table.
        row: of the table.
        datasets: on which; by default all that the paper has numbers of.
        among: groups of rows that it is compared with; by default all but its own. Trivial controls never count.
        by: the lead that the paper states, in per cent of the next row's value, by dataset.
        value: of `equals` and `only`.
        within: how far behind the best other row is still near it.
        beside: rows whose means are told as well.
    """

    says: str
    source: str
    kind: Kind
    column: str
    row: str = "FANS"
    datasets: Sequence[str] = ()
    among: Sequence[str] = ()
    by: Mapping[str, float] = field(default_factory=dict)
    value: float = 0.0
    within: float = 0.0
    beside: Sequence[str] = ()


@dataclass(frozen=True)
class Quick:
    """What is asked for by `--quick`: a little of everything that is cheap.

    Attributes:
        n: inputs, by dataset.
        columns: their names; by default all.
        rows: their names, by dataset; by default all.
    """

    n: Mapping[str, int] = field(default_factory=dict)
    columns: Sequence[str] = ()
    rows: Mapping[str, Sequence[str]] = field(default_factory=dict)
