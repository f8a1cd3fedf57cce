"""Studies by name, and from files of one's own: a table as YAML, any other as a Python module."""

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from fans.errors import InputError, choose, extra
from fans.report.tables import Faithful
from fans.studies._entries import POOLED, Column, Row
from fans.studies._tables import TableStudy
from fans.studies.base import Plain, Study
from fans.studies.inputs import Dataset

FOLDER = Path(__file__).parent / "paper"
"""Where our tables are."""


def names() -> list[str]:
    """Return the names of all studies that `find_study` knows without a file."""
    registered = [kind for kind, member in Study.kinds.items() if not inspect.signature(member).parameters]
    return sorted([*_tables(), *registered])


def _tables() -> list[str]:
    """Return the names of our tables."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find_study(name: str | Path) -> Study:
    """Return a study: one by name, a table's file (`.yaml`), or the one that a module defines (`.py`)."""
    if str(name).endswith(".py"):
        return _defined(Path(name))
    return Study.kinds[str(name)]() if name in Study.kinds and name in names() else load(name)


def _defined(path: Path) -> Study:
    """Return the study that a Python file defines; whoever names the file has it executed."""
    if not path.is_file():
        raise InputError(f"Expected a study's file, got none at {path}")
    module = _import([path.stem], path)[0]
    found = [member for member in Study.kinds.values() if member.__module__ == module.__name__]
    if len(found) != 1:
        raise InputError(f"Expected one study with a `kind` in {path}, got {len(found)}")
    return found[0]()


def load(name: str | Path) -> TableStudy:
    """Read a table study, every entry checked: one of ours by name, or a file (`.yaml`).

    A file that `extends` one of ours has all of it, with its own rows added and its own other entries instead.
    """
    path = Path(name) if str(name).endswith(".yaml") else FOLDER / f"{choose('the experiment', name, names())}.yaml"
    if not path.is_file():
        raise InputError(f"Expected an experiment's file, got none at {path}; fans list experiments has ours")
    text = _parse(path)
    own = [] if path.parent == FOLDER else text.pop("rows", [])
    stem, base = path.stem, text.pop("extends", None)
    if base is not None:
        stem = choose(f"`extends` in {path.name}", base, _tables())
        text = _parse(FOLDER / f"{stem}.yaml") | text
    text["rows"] = [*text.get("rows", []), *own]
    foreign = {} if path.parent == FOLDER else {"file": str(path.resolve())}
    _import(text.get("imports", ()), path)
    return _read(text | foreign, stem, path)


@dataclass
class _Entries:
    """What the entries of a table's file must be, before they are read one by one."""

    datasets: dict[str, Any] = field(default_factory=dict)
    columns: list[Any] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    curves: list[dict[str, Any]] = field(default_factory=list)
    paper: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    tune_by: dict[str, Any] = field(default_factory=dict)
    faithful: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    source: str = ""
    inputs: str = ""
    seed: int = 0


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
    return _checked(_Entries, text, "an experiment", path)


def _import(modules: Sequence[str], path: Path) -> list[ModuleType]:
    """Import modules that lie beside a study's file, or anywhere else."""
    folder = str(path.parent.resolve())
    if modules and folder not in sys.path:
        sys.path.insert(0, folder)  # workers inherit it
    found = []
    for module in modules:
        try:
            found.append(importlib.import_module(module))
        except ImportError as error:
            raise InputError(f"Expected a module {module!r}, which {path.name} imports, got {error}") from None
    return found


def _read(text: dict[str, Any], name: str, path: Path) -> TableStudy:
    datasets = [_made(Dataset, v, path, name=k) for k, v in text.pop("datasets", {}).items()]
    columns = [_made(Column, c, path) for c in text.pop("columns", [])]
    rows = [row for r in text.pop("rows") for row in _with_pooled(_made(Row, r, path))]
    parts = {"name": name, "datasets": tuple(datasets), "columns": tuple(columns), "rows": tuple(rows)}
    for entry, kind in (("tune_by", Column), ("faithful", Faithful)):
        if entry in text:
            parts[entry] = _made(kind, text.pop(entry), path)
    made: TableStudy = _made(TableStudy, parts | text, path)
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


def _made(kind: type[Any], given: Any, path: Path, **more: Any) -> Any:
    word = "experiment" if kind is TableStudy else kind.__name__.lower()
    if not isinstance(given, Mapping):
        raise InputError(f"Expected a {word} in {path.name} as a mapping, got {given!r}")
    for name in given:
        choose(f"an entry of {word} in {path.name}", name, [f.name for f in fields(kind)])
    values = given if kind is TableStudy else _checked(kind, given, f"a {word}", path)
    try:
        return kind(**values, **more)
    except TypeError as error:
        raise InputError(f"Expected a complete {word} in {path.name}, got {error}") from None


def _checked(kind: type[Any], given: Plain, what: str, path: Path) -> dict[str, Any]:
    """Return entries, those that `kind` knows checked against the types of its fields."""
    try:
        import msgspec
    except ImportError:
        raise extra("msgspec", "bench", "experiments") from None
    types = get_type_hints(kind)
    for name in given.keys() & types.keys():
        try:
            msgspec.convert(given[name], types[name])
        except msgspec.ValidationError as error:
            problem, _, place = str(error).partition(" - at `$")
            raise InputError(f"{problem} at `{name}{place.rstrip('`')}` of {what} in {path.name}") from None
    return dict(given)
