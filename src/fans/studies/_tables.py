"""The study that is a table: methods by metrics by datasets."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

import fans.methods  # noqa: F401 - registers the methods
from fans.datasets import GraphDataset, ImageDataset
from fans.engine.settings import Settings
from fans.errors import InputError, choose
from fans.explainer import Neighbourhood
from fans.methods.base import Method
from fans.methods.fans.subset import Selection
from fans.metrics import Metric
from fans.report.sections import Section
from fans.report.tables import Faithful
from fans.runs import Cell, Ledger, Result
from fans.studies import graphs, images
from fans.studies._entries import Column, Quick, Row, Said
from fans.studies._report import About, Curve, Line, Shown, refuse_other_search, rendered
from fans.studies._section import section
from fans.studies.base import Asked, Plain, Rendered, Size, Study, refuse_mixed
from fans.studies.inputs import Dataset


class Inputs(Protocol):
    """How the cells of one kind of inputs are done, and what they cost."""

    def do(self, cell: Cell) -> Result:
        """Explain a shard of inputs, and judge the scores by every column."""

    def price(self, spec: Plain, *, first: bool = True) -> int:
        """Return about how many model rows a cell takes; `first`: whether it is the first one of its shard."""

    def training(self, spec: Plain) -> int:
        """Return the rows of training a row's method, where it has to be."""

    def identify(self, spec: Plain) -> dict[str, Any]:
        """Return what else decides a cell's values."""

    def check_data(self, dataset: str) -> None:
        """Raise unless the files of a dataset are here."""


INPUTS: Mapping[str, Inputs] = {"images": images, "graphs": graphs}


@dataclass(frozen=True)
class TableStudy(Study):
    """A table of the paper: methods by metrics by datasets, as its file describes it.

    Attributes:
        name: of its file.
        title: of the table.
        inputs: what is explained, "images" or "graphs".
        seed: of all draws.
        datasets, columns, rows: of the table.
        paper: the paper's numbers, by dataset, row and column.
        source: where in the paper they are.
        tune_by: the column that the search for rivals' settings maximises.
        imports: modules to import first: they hold methods, metrics or datasets of one's own.
        notes: sentences below the table.
        faithful: which rows count in a column where a trivial control is best: those that in this `column` are `within`
            so much of the best row. Without it none does.
        curves: pictures beside it: a `title`, what `x` is, and the `columns` at each value of it.
        claims: what the paper says of the table.
        quick: what is asked for by `--quick`.
        full: how many inputs of each dataset the paper has, which `--full` asks for.
        file: the file it was read from, where that is not one of ours.
    """

    kind: ClassVar[str] = "table"

    name: str
    title: str
    inputs: str
    seed: int
    datasets: tuple[Dataset, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    paper: Mapping[str, Mapping[str, Mapping[str, float]]]
    source: str
    tune_by: Column
    imports: Sequence[str] = ()
    notes: Sequence[str] = ()
    faithful: Faithful | None = None
    curves: Sequence[Plain] = ()
    claims: Sequence[Said] = ()
    quick: Quick = field(default_factory=Quick)
    full: Mapping[str, int] = field(default_factory=dict)
    file: str | None = None

    def __post_init__(self) -> None:
        where = self.file or self.name
        choose(f"`inputs` of {where}", self.inputs, INPUTS)
        for kind, names in (("rows", [r.name for r in self.rows]), ("columns", [c.name for c in self.columns])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"Expected {kind} of different names in {where}, got {twice[0]!r} twice")
        known = sorted({d.name for d in self.datasets} | set(ImageDataset.registry) | set(GraphDataset.registry))
        for column in (*self.columns, self.tune_by):
            choose(f"the metric of {column.name!r} in {where}", column.metric, sorted(Metric.registry))
            _check_names(f"a dataset of {column.name!r} in {where}", column.at, known)
        if self.faithful is not None and self.file is None:  # one's own columns may be fewer
            choose(f"the column of `faithful` in {where}", self.faithful.column, [c.name for c in self.columns])
        for curve in self.curves:
            _check_names(f"a column of a curve in {where}", curve["columns"].values(), [c.name for c in self.columns])
        if self.file is None:
            self._check_named(where)
        for row in self.rows:
            member = Method.registry[
                choose(f"the method of {row.name!r} in {where}", row.method, sorted(Method.registry))
            ]
            _check_names(f"a setting of {row.name!r} in {where}", row.all_settings(), _settings_of(member))
            for by_dataset in (row.limit, row.chosen, row.search_at, *row.column_limit.values()):
                _check_names(f"a dataset of {row.name!r} in {where}", by_dataset, known)
            if self.file is None:  # as above
                _check_names(f"a column of {row.name!r} in {where}", row.column_limit, [c.name for c in self.columns])

    def _check_named(self, where: str) -> None:
        """Raise if claims or sizes name what is not there; in one's own file, which may have less of ours, they may."""
        datasets, columns = [d.name for d in self.datasets], [c.name for c in self.columns]
        rows, groups = [r.name for r in self.rows], {r.group for r in self.rows}
        for said in self.claims:
            choose(f"the column of a claim in {where}", said.column, columns)
            _check_names(f"a row of a claim in {where}", (said.row, *said.beside), rows)
            _check_names(f"a group of a claim in {where}", said.among, sorted(groups))
            _check_names(f"a dataset of a claim in {where}", (*said.datasets, *said.by), datasets)
        _check_names(f"a column of `quick` in {where}", self.quick.columns, columns)
        _check_names(f"a row of `quick` in {where}", itertools.chain.from_iterable(self.quick.rows.values()), rows)
        _check_names(f"a dataset of a size in {where}", (*self.quick.n, *self.quick.rows, *self.full), datasets)

    def dataset(self, name: str) -> Dataset:
        """Return one of its datasets."""
        known = {d.name: d for d in self.datasets}
        return known[choose("a dataset", name, known)]

    @property
    def called(self) -> str:
        """The name of its file, or of ours that the file extends."""
        return self.name

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """Return the specs of the cells that are asked for."""
        if not asked.tune:
            return self.cells(asked.n, asked.only, asked.rows, asked.size)
        if asked.n is not None or asked.size != "default":
            given = "--n" if asked.n is not None else f"--{asked.size}"
            raise InputError(
                f"Expected {given} or --tune, got both; the search has its own inputs (`tuning` of each dataset)"
            )
        if specs := self.tuning_cells(asked.only, asked.rows):
            return specs
        raise InputError("Expected rows with values to search (`search`), got none; fans run without --tune needs none")

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Return cells with their cost; what is trained for a row, or shared by a shard's columns, counts once."""
        inputs, shards, rows, out = INPUTS[self.inputs], set[Any](), set[str](), []
        for spec in specs:
            shard = (spec["dataset"], spec["shard"][0], *(column["name"] for column in spec["columns"]))
            row = json.dumps([spec["dataset"], spec["call"]], sort_keys=True)
            cost = inputs.price(spec, first=shard not in shards) + (0 if row in rows else inputs.training(spec))
            shards.add(shard)
            rows.add(row)
            out.append(Cell(dict(spec) | inputs.identify(spec), cost))
        return out

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise if the data of these cells are not here; nothing is downloaded."""
        for dataset in sorted({cell.kind[0] for cell in cells}):
            INPUTS[self.inputs].check_data(dataset)

    def admit(self, asked: Asked, cells: Sequence[Cell], others: Sequence[Cell]) -> None:
        """Raise if two cells would be in one line of the table that differ in more than their inputs and columns."""
        if asked.tune:
            refuse_other_search(cells, others)
        else:
            refuse_mixed(cell.spec for cell in (*others, *cells))

    def do(self, cell: Cell) -> Result:
        """Explain a shard of inputs, and judge the scores by every column."""
        foreign = sorted(set(cell.spec.get("imports", ())) - set(self.imports))
        if foreign:
            raise InputError(
                f"Expected cells with modules that {self.file or self.name} imports, got {foreign[0]!r}; "
                "name the file of the study (--study)"
            )
        return INPUTS[self.inputs].do(cell)

    def about(self) -> dict[str, Any]:
        """Return all that a report needs besides the records: what is in the file, and the metrics' directions."""
        made: Any = Metric.registry
        columns = [Shown(c.name, made[c.metric].higher_is_better, c.note, c.ranked, c.median) for c in self.columns]
        rows = [Line(r.name, r.group, r.trivial, self._searched(r)) for r in self.rows]
        curves = [Curve(c["title"], c["x"], list(c["columns"].items())) for c in self.curves]
        labels = {d.name: d.label for d in self.datasets}
        about = About(
            *(self.title, self.source, labels, columns, rows, self._paper()),
            *(self.notes, self.faithful, curves, self._claims(), self._sizes()),
        )
        return about.plain()

    def _claims(self) -> list[Said]:
        """Return the claims about rows and columns that are there, on the datasets of the paper that are."""
        rows, columns = {r.name for r in self.rows}, {c.name for c in self.columns}
        here = [d.name for d in self.datasets if d.name in self.paper]
        out = []
        for said in self.claims:
            datasets = [name for name in said.datasets or here if name in here]
            if said.row in rows and said.column in columns and datasets:
                out.append(replace(said, datasets=datasets))
        return out

    def _searched(self, row: Row) -> dict[str, list[str]]:
        return {d.name: sorted({*row.search, *row.search_at.get(d.name, {})}) for d in self.datasets if row.search}

    def _paper(self) -> list[tuple[str, str, str, float]]:
        """Return the paper's numbers: row, label of the dataset, column, value."""
        out = []
        for dataset, row, column in itertools.product(self.datasets, self.rows, self.columns):
            found = self.paper.get(dataset.name, {}).get(row.paper or "", {}).get(column.paper or "")
            if found is not None:
                out.append((row.name, dataset.label, column.name, float(found)))
        return out

    @classmethod
    def render(cls, run: Ledger) -> Rendered:
        """Return the table as Markdown and CSV, with its curves; or the choices of a search."""
        return rendered(run)

    @classmethod
    def section(cls, run: Ledger) -> Section | None:
        """Return the table, its curves, and what the records say of the paper's claims; None for a search."""
        return section(run)

    def cells(
        self,
        n: int | None = None,
        only: Sequence[str] | None = None,
        rows: Sequence[str] | None = None,
        size: Size = "default",
    ) -> list[dict[str, Any]]:
        """Return the specs of all cells, those of one shard after another.

        Args:
            n: inputs of every dataset instead of its default.
            only: datasets.
            rows: names of rows.
            size: of the study, where `n` does not say how many inputs.
        """
        quick, out = self.quick if size == "quick" and n is None else Quick(), []
        wanted = [c for c in self.columns if c.name in quick.columns] or self.columns
        for dataset in [self.dataset(name) for name in only or [d.name for d in self.datasets]]:
            total = len(dataset.positions("reported", self._sizes()[size][dataset.name] if n is None else n))
            starts, groups = range(0, total, dataset.shard), dict.fromkeys(column.group for column in wanted)
            some = self._some(rows or [r.name for r in self.rows if r.name in quick.rows.get(dataset.name, (r.name,))])
            for start, group, row in itertools.product(starts, groups, some):
                shard = (start, min(start + dataset.shard, math.ceil(row.limit.get(dataset.name, 1.0) * total)))
                columns = [c.on(dataset.name) for c in wanted if c.group == group]
                limited = [row.limited(column, dataset.name, total, shard) for column in columns]
                asked = any(column["limit"] is None or column["limit"] > start for column in limited)
                if start < shard[1] and asked:
                    out.append(self._spec(dataset, row.name, row.on(dataset.name), limited, shard))
        return out

    def _sizes(self) -> dict[Size, dict[str, int]]:
        """Return how many inputs of each dataset each size asks for."""
        usual = {d.name: d.n for d in self.datasets}
        other: dict[Size, Mapping[str, int]] = {"quick": self.quick.n, "default": {}, "full": self.full}
        return {size: {name: n.get(name, usual[name]) for name in usual} for size, n in other.items()}

    def _some(self, rows: Sequence[str] | None) -> list[Row]:
        known = {row.name: row for row in self.rows}
        return [known[choose("a row", name, known)] for name in rows or known]

    def tuning_cells(
        self, only: Sequence[str] | None = None, rows: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the specs of the search for the rivals' settings."""
        out = []
        for dataset in [self.dataset(name) for name in only or [d.name for d in self.datasets]]:
            columns, inputs = [self.tune_by.on(dataset.name)], dataset.positions("tuning")
            for row in self._some(rows):
                tried = row.candidates(dataset.name) if row.search else []
                out += [self._spec(dataset, row.name, c, columns, (inputs.start, inputs.stop)) for c in tried]
        return out

    def _spec(
        self, dataset: Dataset, row: str, call: Plain, columns: Sequence[Plain], shard: tuple[int, int]
    ) -> dict[str, Any]:
        spec = {
            "experiment": self.name,
            "dataset": dataset.name,
            "model": dataset.model,
            "n_background": dataset.n_background,
            "method": row,
            "call": dict(call),
            "columns": [dict(c) for c in columns],
            "shard": list(shard),
            "seed": self.seed,
        }
        foreign = [Method.registry.get(call["method"]), *(Metric.registry.get(c["metric"]) for c in columns)]
        foreign += [kind.registry.get(dataset.name) for kind in (ImageDataset, GraphDataset)]
        # Cells of our own methods, metrics and datasets are the same whether others stand beside them or not.
        if any(member is not None and not member.__module__.startswith("fans.") for member in foreign):
            spec["imports"] = list(self.imports)
        return spec


def _check_names(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        choose(what, name, known)


def _settings_of(member: Any) -> list[str]:
    """Return the names of all settings of an explainer with this method."""
    kinds = (member, Settings, Neighbourhood, Selection)
    return sorted({f.name for kind in kinds for f in fields(kind)} | {"output", "baseline", "space"})
