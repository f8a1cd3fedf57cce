"""An experiment as its file describes it, and the cells it is cut into."""

import importlib
import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import fans.methods  # noqa: F401 - registers the methods
from fans.datasets import GraphDataset, ImageDataset
from fans.engine.settings import Settings
from fans.errors import InputError, choose, extra
from fans.explainer import Neighbourhood
from fans.methods.base import Method
from fans.methods.fans.subset import Selection
from fans.metrics import Metric
from fans.report.tables import Faithful
from fans.studies.inputs import Dataset

FOLDER = Path(__file__).parent / "paper"

POOLED = ", our units"
"""What the name of a row on FANS's units ends with."""

Plain = Mapping[str, Any]


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
            column the report says so (see `Experiment.faithful`).
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


@dataclass(frozen=True)
class Experiment:
    """A table of the paper: methods by metrics by datasets.

    Attributes:
        name: of its file.
        title: of the table.
        work: where the function that does a cell is, as `module:function`.
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
        file: the file it was read from, where that is not one of ours.
    """

    name: str
    title: str
    work: str
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
    file: str | None = None

    def __post_init__(self) -> None:
        where = self.file or self.name
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
        for row in self.rows:
            member = Method.registry[
                choose(f"the method of {row.name!r} in {where}", row.method, sorted(Method.registry))
            ]
            _check_names(f"a setting of {row.name!r} in {where}", row.all_settings(), _settings_of(member))
            for by_dataset in (row.limit, row.chosen, row.search_at, *row.column_limit.values()):
                _check_names(f"a dataset of {row.name!r} in {where}", by_dataset, known)
            if self.file is None:  # as above
                _check_names(f"a column of {row.name!r} in {where}", row.column_limit, [c.name for c in self.columns])

    def dataset(self, name: str) -> Dataset:
        """Return one of its datasets."""
        known = {d.name: d for d in self.datasets}
        return known[choose("a dataset", name, known)]

    def plan(self) -> dict[str, Any]:
        """Return what a report has to know of a run besides its cells."""
        return {"experiment": self.file or self.name}

    def cells(
        self, n: int | None = None, only: Sequence[str] | None = None, rows: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the specs of all cells, those of one shard after another.

        Args:
            n: inputs of every dataset instead of its default.
            only: datasets.
            rows: names of rows.
        """
        out = []
        for dataset in [self.dataset(name) for name in only or [d.name for d in self.datasets]]:
            total = len(dataset.positions("reported", n))
            starts, groups = range(0, total, dataset.shard), dict.fromkeys(column.group for column in self.columns)
            for start, group, row in itertools.product(starts, groups, self._some(rows)):
                shard = (start, min(start + dataset.shard, math.ceil(row.limit.get(dataset.name, 1.0) * total)))
                columns = [c.on(dataset.name) for c in self.columns if c.group == group]
                limited = [row.limited(column, dataset.name, total, shard) for column in columns]
                asked = any(column["limit"] is None or column["limit"] > start for column in limited)
                if start < shard[1] and asked:
                    out.append(self._spec(dataset, row.name, row.on(dataset.name), limited, shard))
        return out

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


def names() -> list[str]:
    """Return the names of all experiments."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str | Path) -> Experiment:
    """Read an experiment, every entry checked: one of ours by name, or a file (`.yaml`).

    A file that `extends` one of ours has all of it, with its own rows added and its own other entries instead.
    """
    path = Path(name) if str(name).endswith(".yaml") else FOLDER / f"{choose('the experiment', name, names())}.yaml"
    if not path.is_file():
        raise InputError(f"Expected an experiment's file, got none at {path}; fans list experiments has ours")
    text = _parse(path)
    own = [] if path.parent == FOLDER else text.pop("rows", [])
    stem, base = path.stem, text.pop("extends", None)
    if base is not None:
        stem = choose(f"`extends` in {path.name}", base, names())
        text = _parse(FOLDER / f"{stem}.yaml") | text
    text["rows"] = [*text.get("rows", []), *own]
    foreign = {} if path.parent == FOLDER else {"file": str(path.resolve())}
    _import(text.get("imports", ()), path)
    return _read(text | foreign, stem, path)


_KINDS: dict[str, type] = {
    **dict.fromkeys(("datasets", "faithful", "paper", "tune_by"), dict),
    **dict.fromkeys(("columns", "curves", "imports", "notes", "rows"), list),
}
"""What an entry of an experiment's file must be."""


def _parse(path: Path) -> dict[str, Any]:
    """Return what a YAML file holds: a mapping, in which no entry stands twice."""
    try:
        import yaml
    except ImportError:
        raise extra("pyyaml", "bench", "experiments") from None

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            for key, _ in node.value:
                if keys.count(key.value) > 1:
                    where = f"{key.value!r} twice in the entries from line {node.start_mark.line + 1} on"
                    raise yaml.constructor.ConstructorError(None, None, where)
            return super().construct_mapping(node, deep)

    try:
        text = yaml.load(path.read_text(), Loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise InputError(f"Expected YAML in {path}, got {str(error).splitlines()[0]}") from None
    if not isinstance(text, dict):
        raise InputError(f"Expected an experiment in {path}, a mapping, got {type(text).__name__}")
    for name in _KINDS.keys() & text.keys():
        if not isinstance(text[name], _KINDS[name]):
            wanted = "list" if _KINDS[name] is list else "mapping"
            raise InputError(f"Expected `{name}` in {path.name} as a {wanted}, got {text[name]!r}")
    return text


def _import(modules: Sequence[str], path: Path) -> None:
    """Import modules that lie beside an experiment's file, or anywhere else."""
    folder = str(path.parent.resolve())
    if modules and folder not in sys.path:
        sys.path.insert(0, folder)  # workers inherit it
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"Expected a module {module!r}, which {path.name} imports, got {error}") from None


def _read(text: dict[str, Any], name: str, path: Path) -> Experiment:
    datasets = [_made(Dataset, v, path, name=k) for k, v in text.pop("datasets", {}).items()]
    columns = [_made(Column, c, path) for c in text.pop("columns", [])]
    rows = [row for r in text.pop("rows") for row in _with_pooled(_made(Row, r, path))]
    parts = {"name": name, "datasets": tuple(datasets), "columns": tuple(columns), "rows": tuple(rows)}
    for entry, kind in (("tune_by", Column), ("faithful", Faithful)):
        if entry in text:
            parts[entry] = _made(kind, text.pop(entry), path)
    made: Experiment = _made(Experiment, parts | text, path)
    return made


def _with_pooled(row: Row) -> list[Row]:
    """Return the row, and the same on FANS's units where asked for; only the units differ."""
    if not row.pooled:
        return [row]
    search, *there = (
        {name: values for name, values in tried.items() if name != "space"}
        for tried in (row.search, *row.search_at.values())
    )
    pooled = replace(
        row,
        name=row.name + POOLED,
        space=None,
        chosen=row.chosen_pooled,
        search=search,
        search_at=dict(zip(row.search_at, there, strict=True)),
        paper=None,
    )
    return [row, pooled]


def _made(kind: type[Any], given: Plain, path: Path, **more: Any) -> Any:
    if not isinstance(given, Mapping):
        raise InputError(f"Expected a {kind.__name__.lower()} in {path.name} as a mapping, got {given!r}")
    known = [f.name for f in fields(kind)]
    for name in given:
        choose(f"an entry of {kind.__name__.lower()} in {path.name}", name, known)
    try:
        return kind(**given, **more)
    except TypeError as error:
        raise InputError(f"Expected a complete {kind.__name__.lower()} in {path.name}, got {error}") from None
