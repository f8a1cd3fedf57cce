"""What is done in a run, and what is kept of it: cells, results, and records that can be told from damaged ones."""

import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fans.errors import InputError, check_whole
from fans.version import __version__


@dataclass(frozen=True)
class Cell:
    """One unit of work, done whole or not at all.

    Attributes:
        spec: all that decides the result, as JSON has it: `dataset`, `method` and `shard` (`[start, stop]` of the
            inputs) name it, `seed` is put into its record, and whatever else there is counts as well.
        cost: model rows it takes, about; no part of its identity.
    """

    spec: Mapping[str, Any]
    cost: int = 0

    def __post_init__(self) -> None:
        check_whole("cost", self.cost, 0)
        if not isinstance(self.spec, Mapping):
            raise InputError(f"Expected `spec` as a mapping, got {type(self.spec).__name__}")
        object.__setattr__(self, "spec", restored(plain(self.spec, "spec")))

    @cached_property
    def key(self) -> str:
        """A readable name and a checksum of the spec: the same in every process, whatever the order of its entries."""
        words = [*self.kind, *([str(self.inputs.start), str(self.inputs.stop)] if self.inputs else [])]
        slugs = [re.sub(r"[^A-Za-z0-9_]+", "_", word)[:24] for word in words if word]
        return "-".join([*slugs, digest(plain(self.spec, "spec"))[:12]])

    @property
    def seed(self) -> Any:
        """The seed in the spec, None where there is none."""
        return self.spec.get("seed")

    @property
    def kind(self) -> tuple[str, str]:
        """Dataset and method: cells of one kind take about the same time for a model row."""
        return str(self.spec.get("dataset", "")), str(self.spec.get("method", ""))

    @property
    def inputs(self) -> range:
        """The inputs of its shard, by number; none where the spec has no shard."""
        match self.spec.get("shard"):
            case [int(start), int(stop)]:
                return range(start, stop)
        return range(0)


@dataclass(frozen=True)
class Result:
    """What doing a cell gave.

    Attributes:
        values: numbers, texts, lists and mappings of them; arrays become lists; NaN and infinities are kept.
        evaluations: model rows evaluated.
        timing: what may differ from one time to the next, e.g. the seconds of its parts; kept with the circumstances.
    """

    values: Mapping[str, Any]
    evaluations: int = 0
    timing: Mapping[str, Any] = field(default_factory=dict)


Work = Callable[[Cell], Result]
"""What does a cell."""


@dataclass(frozen=True)
class Record:
    """A finished cell, as it is stored.

    Attributes:
        facts: `key`, `spec`, `seed`, `evaluations`, `values`: the same whenever the cell is done again.
        circumstances: `seconds`, `finished_at`, `versions`, `processor`, `threads`, `timing`: of the one time it was.
    """

    facts: Mapping[str, Any]
    circumstances: Mapping[str, Any]

    @property
    def spec(self) -> Mapping[str, Any]:
        """The cell's spec."""
        return self.facts["spec"]  # type: ignore[no-any-return]

    @property
    def values(self) -> Mapping[str, Any]:
        """What the work returned."""
        return self.facts["values"]  # type: ignore[no-any-return]

    @property
    def sha256(self) -> str:
        """Checksum of the facts: two records agree to the last bit if and only if these are equal."""
        return digest(plain(self.facts, "facts"))

    @classmethod
    def of(cls, cell: Cell, result: Result, seconds: float) -> "Record":
        """Return the record of a cell just done."""
        if not isinstance(result, Result):
            raise InputError(f"Expected the work to return a `Result`, got {type(result).__name__}")
        check_whole("evaluations", result.evaluations, 0)
        facts = {"key": cell.key, "spec": cell.spec, "seed": cell.seed, "evaluations": int(result.evaluations)}
        circumstances = {
            "seconds": round(seconds, 6),
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "processor": processor(),
            "threads": threads(),
            "timing": restored(plain(result.timing, "timing")),
        }
        return cls(facts | {"values": restored(plain(result.values, "values"))}, circumstances)

    def encode(self) -> bytes:
        """Return the record as strict JSON with the checksums of its two parts."""
        parts = {"facts": plain(self.facts, "facts"), "circumstances": plain(self.circumstances, "circumstances")}
        return _json(parts | {"sha256": {name: digest(part) for name, part in parts.items()}}) + b"\n"

    @classmethod
    def decode(cls, raw: bytes, cell: Cell | None = None) -> "Record":
        """Return the record in these bytes, of `cell` if given; raise a ValueError that says why they are not one."""
        try:
            parts = json.loads(raw)
            sums = parts.pop("sha256")
            found = cls(**{name: restored(part) for name, part in parts.items()})
            key = found.facts["key"]
            own = key == Cell(found.spec).key and (cell is None or key == cell.key)
            whole = sums == {name: digest(part) for name, part in parts.items()}
            whole &= {"seconds", "versions"} <= found.circumstances.keys()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ValueError("not a whole record") from None
        if not whole:
            raise ValueError("a wrong checksum")
        if not own:
            raise ValueError("the record of another cell")
        return found


@cache
def versions() -> dict[str, str]:
    """Return the versions that a record depends on; nothing is imported for it."""
    found = {"fans": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "scikit-image"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


@cache
def processor() -> str:
    """Return what kind of processor this is: libraries have other code for each, which rounds otherwise."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        kind = [told[name] for name in ("model name", "cpu family", "model", "stepping")]
        return f"{' '.join(kind)} ({digest(sorted(told['flags'].split()))[:8]})"
    except (OSError, KeyError):  # another system, or another kind of processor
        return platform.processor() or platform.machine()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allowed() -> int:
    """Return how many threads OMP_NUM_THREADS, or else the machine, allows a process."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else cores()


def threads() -> int:
    """Return how many threads this process uses."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch else allowed()


def plain(value: Any, where: str) -> Any:
    """Return a value as strict JSON can hold it: arrays as lists, NaN and infinities as `{"$float": "nan"}`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, Mapping):
        bad = [key for key in value if not isinstance(key, str) or key.startswith("$")]
        if bad:
            raise InputError(f"Expected names without a leading $ in `{where}`, got {bad[0]!r}")
        return {key: plain(v, f"{where}.{key}") for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, where) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    raise InputError(f"Expected numbers, texts, lists and mappings in `{where}`, got {type(value).__name__}")


def restored(value: Any) -> Any:
    """Undo `plain`, but for arrays."""
    if isinstance(value, list):
        return [restored(v) for v in value]
    if isinstance(value, dict):
        return float(value["$float"]) if "$float" in value else {k: restored(v) for k, v in value.items()}
    return value


def _json(plain: Any) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(plain: Any) -> str:
    """Return the checksum of a value as JSON, whatever the order of its entries."""
    return hashlib.sha256(_json(plain)).hexdigest()


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return in words the entries in which two mappings differ."""
    one, two = _flat(there), _flat(here)

    def short(text: str) -> str:
        return text if len(text) <= 60 else f"{text[:57]}..."

    return [
        f"`{name}` is {short(one.get(name, 'not'))} there and {short(two.get(name, 'not'))} here"
        for name in sorted(one.keys() | two.keys())
        if one.get(name) != two.get(name)
    ]


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the leaves of nested mappings as JSON, by their dotted names."""
    found: dict[str, str] = {}
    for name, value in mapping.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = _json(plain(value, name)).decode()
    return found
