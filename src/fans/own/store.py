"""The folder of a run over a user's own data: how its files are called, written, and read without trusting them.

Below the folder lie the ledger's files (`fans.runs`), `shards/00000.safetensors` with the explanations of one block of
inputs each, `curves/00000.safetensors` of the same inputs where curves were asked for, and `index.safetensors` with a
few numbers of every input. Nothing in it is executed, and no file outside of it is opened because of what it says.
"""

import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fans.curve import Curve
from fans.errors import FansError, InputError
from fans.explanation import Explanation, load
from fans.files import writing
from fans.types import Array

SHARDS, CURVES, INDEX, PLAN = "shards", "curves", "index.safetensors", "plan.json"

MOST_BYTES = 2 * 2**30
"""Of a file in a run's folder that is read whole."""

MOST_HEADER = 64 * 2**20
"""Of the header of a safetensors file, where its text is."""

MOST_LETTERS = 200
"""Of an id, or of the names of features, in a column of all inputs."""

NAMED = 3
"""Chosen features that a column names."""

_SHARD = re.compile(r"\d{5,12}\.safetensors")


def shard_name(number: int) -> str:
    """Return how the file of a block of inputs is called."""
    return f"{number:05}.safetensors"


@dataclass(frozen=True)
class Plan:
    """What a run was asked for, as its `plan.json` has it.

    Attributes:
        title: what is explained, in words.
        n: inputs to explain.
        block: inputs of a shard.
        data, model, background: what they are, with their checksums.
        settings: of the explainer.
        paths: where data, model and background were; they may have moved since.
        words: what the background is, as a sentence.
    """

    title: str
    n: int
    block: int
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    background: Mapping[str, Any]
    settings: Mapping[str, Any]
    paths: Mapping[str, str]
    words: str

    KIND: ClassVar[str] = "explain"
    TOLD: ClassVar[tuple[str, ...]] = ("title", "paths", "words")
    """Entries that only say where things are and what they are called."""

    def encoded(self) -> dict[str, Any]:
        """Return it as the ledger's plan."""
        return {"kind": self.KIND} | {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """Return the plan of the run in a folder.

        Raises:
            InputError: there is none, or it is of another kind of run.
        """
        path = folder / PLAN
        if not path.exists():
            raise InputError(f"Expected a run of `fans explain` in {folder}, got no {PLAN} there; check the folder")
        with refusing(path, "the plan of a run of `fans explain`"):
            found = json.loads(_regular(path).read_bytes())["plan"]
            if found["kind"] != cls.KIND:
                raise ValueError(f"a run of kind {found['kind']!r}")
            plan = cls(**{f.name: found[f.name] for f in fields(cls)})
            texts = [plan.title, plan.words, *plan.paths.values()]
            maps = (plan.data, plan.model, plan.background, plan.settings)
            whole = all(type(number) is int and 0 < number < 2**40 for number in (plan.n, plan.block))
            if not whole or not all(isinstance(t, str) for t in texts) or not all(isinstance(m, dict) for m in maps):
                raise ValueError("entries of another type")
            return plan

    @property
    def n_shards(self) -> int:
        """How many blocks its inputs are cut into."""
        return -(-self.n // self.block)

    def inputs(self, shard: int) -> range:
        """Return which inputs are in a shard."""
        return range(shard * self.block, min((shard + 1) * self.block, self.n))


@contextmanager
def refusing(path: Path, expected: str) -> Iterator[None]:
    """Tell in one sentence of a file that is not what it should be, whatever is wrong with it."""
    try:
        yield
    except (FansError, MemoryError):
        raise
    except Exception as error:  # a file of anybody's making
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"Expected {expected}, got {path}, which is not one ({said})") from None


def _regular(path: Path) -> Path:
    """Return a path if a regular file of a bearable size lies there, and no link leads to it."""
    for place in (path.parent, path):
        if place.is_symlink():
            raise InputError(
                f"Expected a file of a run, got {place}, a symbolic link, which is not followed; delete it"
            )
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"Expected a file of a run, got {path}, which is no regular file; delete it")
    if found.st_size > MOST_BYTES:
        raise InputError(f"Expected {path} of at most {MOST_BYTES:,} bytes, got {found.st_size:,}; delete it")
    return path


def _tensors(path: Path) -> Path:
    """Return a path if a safetensors file lies there whose header is of a bearable size."""
    with _regular(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    most = min(MOST_HEADER, path.stat().st_size)
    if length > most:
        raise InputError(
            f"Expected {path} with a header of at most {most:,} bytes, got {length:,}; delete it, and the same command "
            "computes it again"
        )
    return path


def shards_there(folder: Path, plan: Plan) -> dict[int, int]:
    """Return the numbers of the shards that are there, in order, and their sizes in bytes; other files are left out."""
    place = folder / SHARDS
    if place.is_symlink() or not place.is_dir():
        return {}
    found = {}
    for path in place.iterdir():
        if _SHARD.fullmatch(path.name) and path.name == shard_name(number := int(path.stem)):
            size = path.lstat()
            if number < plan.n_shards and stat.S_ISREG(size.st_mode):
                found[number] = size.st_size
    return dict(sorted(found.items()))


def read_shard(folder: Path, plan: Plan, number: int) -> Explanation:
    """Return the explanations of a block of inputs, checked."""
    path = folder / SHARDS / shard_name(number)
    with refusing(path, "a shard of a run"):
        found = load(_tensors(path))
        _check(found)
        if len(found) != len(plan.inputs(number)):
            raise ValueError(f"{len(found)} inputs instead of {len(plan.inputs(number))}")
        return found


def read_curves(folder: Path, plan: Plan, number: int) -> Curve | None:
    """Return the curves of a block of inputs, None where there are none."""
    path = folder / CURVES / shard_name(number)
    if not path.is_file():
        return None
    with refusing(path, "the curves of a run"):
        found = Curve.load(_tensors(path))
        if any(len(value) != len(plan.inputs(number)) for value in (found.sizes, found.pns, found.ids)):
            raise ValueError(f"not of {len(plan.inputs(number))} inputs")
        return found


def _check(e: Explanation) -> None:
    """Raise a ValueError if an explanation, whoever wrote it, does not hold together."""
    n, n_features = e.scores.shape
    for name in e.per_input:
        value = getattr(e, name)
        if value is not None and len(value) != n:
            raise ValueError(f"`{name}` is not of {n} inputs")
    texts = [e.method, e.modality, e.kind, *e.feature_names, *e.target_names, *e.element_names, *e.node_names, *e.notes]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("names that are no texts")
    if not all(isinstance(i, str) or type(i) is int for i in e.ids):
        raise ValueError("ids that are neither texts nor whole numbers")
    if e.subset.dtype != np.bool_ or e.target.dtype.kind not in "iu" or e.elements.dtype.kind not in "iu":
        raise ValueError("arrays of another type")
    if e.target.min(initial=0) < 0 or e.target.max(initial=0) >= max(len(e.target_names), 1):
        raise ValueError("a target that has no name")
    if e.elements.min(initial=0) < -1 or e.elements.max(initial=-1) >= n_features:
        raise ValueError("elements of features that are not there")
    if e.elements.shape not in (e.inputs.shape, e.inputs.shape[1:]):
        raise ValueError("elements that are not the inputs'")
    if any(len(rows) != n for phase, rows in e.evaluations.items() if phase != "shared"):
        raise ValueError("evaluations of other inputs")
    if any(len(entries) != n for entries in e.details.values()):
        raise ValueError("details of other inputs")


# --- A few numbers of every input ------------------------------------------------------------------------------------

_NUMBERS = ("target", "prediction", "pns", "keep", "change", "intervals", "size", "tolerance", "subset")
_TEXTS = ("id", "top")


def columns_of(e: Explanation) -> dict[str, Array]:
    """Return what is kept of every input of an explanation: short names, few bytes.

    `intervals` is `(B, 3, 2)` of pns, keep, change by low, high; `subset` has a bit for each feature (`np.unpackbits`).
    """
    between = np.concatenate([e.interval[:, :1], e.share_interval[:, ::-1]], 1)
    return {
        "id": _objects([i if isinstance(i, int) else i[:MOST_LETTERS] for i in e.ids]),
        "target": e.target.astype(np.int32),
        "prediction": e.prediction.astype(np.float64),
        "pns": e.pns.astype(np.float64),
        "keep": e.holds.astype(np.float64),
        "change": e.changes.astype(np.float64),
        "intervals": between.astype(np.float64),
        "size": e.subset.sum(1).astype(np.int32),
        "tolerance": e.tolerance.astype(np.float64),
        "subset": np.packbits(e.subset, axis=1),
        "top": _objects([_named(e.chosen_names(i)) for i in range(len(e))]),
    }


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(name[: MOST_LETTERS // NAMED] for name in names[:NAMED]) + more


def _objects(values: Sequence[Any]) -> Array:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def joined(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Put the columns of several blocks one after the other; where one has more features, the others lack them."""
    if not parts:
        return {}
    width = max(part["subset"].shape[1] for part in parts)
    filled = [dict(p) | {"subset": np.pad(p["subset"], ((0, 0), (0, width - p["subset"].shape[1])))} for p in parts]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}


def write_index(folder: Path, shards: Mapping[int, int], columns: Mapping[str, Array]) -> None:
    """Write the columns of all inputs, and of which shards they are."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(columns[name]) for name in _NUMBERS}
    for name in _TEXTS:
        arrays[name] = np.frombuffer(json.dumps(columns[name].tolist()).encode(), dtype=np.uint8)
    with writing(folder / INDEX) as temporary:
        save_file(arrays, temporary, {"fans.index": json.dumps(list(shards.items()))})


def read_index(folder: Path, shards: Mapping[int, int], n: int) -> dict[str, Array] | None:
    """Return the columns of all inputs; None where they are not there, or of other shards."""
    from safetensors import safe_open

    try:
        with safe_open(_tensors(folder / INDEX), framework="numpy") as file:
            if [tuple(pair) for pair in json.loads((file.metadata() or {})["fans.index"])] != list(shards.items()):
                return None
            found: dict[str, Array] = {name: file.get_tensor(name) for name in (*_NUMBERS, *_TEXTS)}
        for name in _TEXTS:
            found[name] = _objects(json.loads(found[name].tobytes()))
    except Exception:  # of anybody's making: it is made anew from the shards
        return None
    plain = all(isinstance(text, str) for text in found["top"])
    plain &= all(isinstance(i, str) or type(i) is int for i in found["id"])
    fits = all(len(column) == n for column in found.values()) and found["intervals"].shape == (n, 3, 2)
    flat = all(found[name].ndim == 1 for name in _NUMBERS if name not in ("intervals", "subset"))
    return found if plain and fits and flat and found["subset"].ndim == 2 else None


def collected(folder: Path, plan: Plan, see: Callable[[Explanation], None] = lambda _: None) -> dict[str, Array]:
    """Return the columns of all shards that are there, one shard at a time in memory; `see` is shown each."""
    parts = []
    for number in shards_there(folder, plan):
        block = read_shard(folder, plan, number)
        see(block)
        parts.append(columns_of(block))
    return joined(parts)
