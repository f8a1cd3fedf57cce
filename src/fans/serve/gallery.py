"""The gallery: records filtered and sorted by a few numbers of all of them, a page at a time; and all at once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fans.errors import InputError, choose
from fans.serve.source import Source
from fans.serve.views import plain
from fans.types import Array

SIZES = (24, 48, 96)
"""Records on a page."""

SORTS = ("order", "pns", "keep", "change", "size", "prediction", "id")
BINS = 10
MOST_CLASSES, MOST_FEATURES = 200, 400
"""Classes and features that the page tells of."""


@dataclass(frozen=True)
class Asked:
    """Which records, in which order, which page of them.

    Attributes:
        target: the class they were explained for, "" for all.
        low, high: of PNS, from 0 to 1.
        least, most: of the subset's size.
        feature: one that the subset has, -1 for any.
        words: that the title has.
    """

    sort: str = "order"
    down: bool = False
    page: int = 0
    size: int = SIZES[0]
    target: str = ""
    low: float = 0.0
    high: float = 1.0
    least: int = 0
    most: int = 2**31 - 1
    feature: int = -1
    words: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Asked":
        """Read what a page asked for."""
        unknown = sorted(set(query) - {*cls.__dataclass_fields__})
        if unknown:
            raise InputError(f"Expected {', '.join(cls.__dataclass_fields__)}, got {unknown[0][:40]!r}")
        given: dict[str, Any] = {}
        for name, text in query.items():
            kind = type(cls.__dataclass_fields__[name].default)
            given[name] = text if kind is str else number(name, text) if kind is float else whole(name, text)
        given["down"] = bool(given.get("down", False))
        asked = cls(**given)
        choose("`sort`", asked.sort, SORTS)
        if asked.size not in SIZES:
            raise InputError(f"Expected `size` as one of {', '.join(map(str, SIZES))}, got {asked.size}")
        return asked


def whole(name: str, text: str, low: int = -1, high: int = 2**31 - 1) -> int:
    """Read a whole number within bounds."""
    try:
        value = int(text) if len(text) <= 12 else None
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise InputError(f"Expected `{name}` as a whole number from {low} to {high}, got {text[:40]!r}")
    return value


def number(name: str, text: str) -> float:
    """Read a finite number."""
    try:
        value = float(text) if len(text) <= 40 else np.nan
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise InputError(f"Expected `{name}` as a number, got {text[:40]!r}")
    return value


class Gallery:
    """All records of a source, by the few numbers that are kept of each."""

    def __init__(self, source: Source) -> None:
        self.source, self.n = source, len(source)
        self.columns = dict(source.columns())
        self._first = source.explanation(0) if self.n else None
        self.classes, self._class = self._targets()
        self._texts: Array | None = None
        self._global: dict[str, Any] = {}

    def page(self, asked: Asked) -> dict[str, Any]:
        """Return one page of the records asked for."""
        found = self._sorted(self._found(asked), asked)
        start = asked.page * asked.size
        return {
            "n": self.n,
            "found": len(found),
            "page": asked.page,
            "size": asked.size,
            "records": [self._record(int(i)) for i in found[start : start + asked.size]] if start >= 0 else [],
        }

    def _record(self, i: int) -> dict[str, Any]:
        told = {name: plain(self.columns[name][i]) for name in ("prediction", "pns", "keep", "change", "size")}
        return {"i": i, "id": self._title(self.columns["id"][i]), "target": self.classes[self._class[i]], **told}

    def _title(self, name: Any) -> str:
        """Return how a record is called: by its id, after the word for inputs where that is a number."""
        if isinstance(name, str) or self._first is None:
            return str(name)
        return f"{self._first.presenter.input_words[0]} {name}"

    def _targets(self) -> tuple[list[str], Array]:
        """Return the explained outputs by name, and the number of each record's."""
        numbers, of = np.unique(np.asarray(self.columns["target"], dtype=np.int64), return_inverse=True)
        if self._first is None:
            return [], of
        first = self._first
        return [replace(first, target=np.array([c])).target_name(0) for c in numbers.tolist()], of

    def _found(self, asked: Asked) -> Array:
        """Return the places of the records that a filter leaves."""
        keep = np.ones(self.n, dtype=bool)
        if asked.target:
            keep &= self._class == (self.classes.index(asked.target) if asked.target in self.classes else -1)
        if asked.low > 0 or asked.high < 1:
            pns = np.nan_to_num(np.asarray(self.columns["pns"], dtype=float), nan=-1.0)
            keep &= (pns >= asked.low) & (pns <= asked.high)
        size = np.asarray(self.columns["size"])
        keep &= (size >= asked.least) & (size <= asked.most)
        if asked.feature >= 0:
            keep &= self._has(asked.feature)
        if asked.words:
            keep &= np.char.find(self._lower(), asked.words.lower()) >= 0
        return np.flatnonzero(keep)

    def _has(self, feature: int) -> Array:
        """Return which subsets have a feature."""
        bits = self.columns.get("subset")
        if bits is None or feature >= 8 * bits.shape[1]:
            return np.zeros(self.n, dtype=bool)
        return (np.asarray(bits[:, feature // 8]) >> (7 - feature % 8) & 1).astype(bool)

    def _lower(self) -> Array:
        if self._texts is None:
            self._texts = np.char.lower(
                np.array([self._title(name)[:80] for name in self.columns["id"]], dtype=np.str_)
            )
        return self._texts

    def _sorted(self, found: Array, asked: Asked) -> Array:
        if asked.sort == "order":
            return found[::-1] if asked.down else found
        keys = self._lower()[found] if asked.sort == "id" else np.asarray(self.columns[asked.sort][found], dtype=float)
        if asked.sort != "id":
            keys = np.nan_to_num(-keys if asked.down else keys, nan=np.inf)  # what is undefined comes last
            return found[np.argsort(keys, kind="stable")]
        order = np.argsort(keys, kind="stable")
        return found[order[::-1] if asked.down else order]

    def all(self, target: str = "") -> dict[str, Any]:
        """Return how often each feature is in a subset and how PNS and size are spread, of one class or of all."""
        if target not in self._global:
            if len(self._global) > MOST_CLASSES:
                self._global.clear()
            self._global[target] = self._all(target)
        return self._global[target]  # type: ignore[no-any-return]

    def _all(self, target: str) -> dict[str, Any]:
        found = self._found(Asked(target=target))
        pns = np.asarray(self.columns["pns"], dtype=float)[found]
        sizes = np.asarray(self.columns["size"])[found]
        largest = int(sizes.max(initial=0))
        steps = np.unique(np.linspace(0, largest + 1, min(largest + 1, 12) + 1).astype(int))
        by_size = np.histogram(sizes, steps)[0]
        known = pns[np.isfinite(pns)]
        edges = np.linspace(0, 1, BINS + 1)
        names = self.names()
        told = {
            "n": len(found),
            "classes": [
                {"name": name, "n": int((self._class == k).sum())} for k, name in enumerate(self.classes[:MOST_CLASSES])
            ],
            "pns": [
                {"low": round(a, 2), "high": round(b, 2), "n": int(n)}
                for a, b, n in zip(edges[:-1], edges[1:], np.histogram(known, edges)[0], strict=True)
            ],
            "undefined": len(pns) - len(known),
            "sizes": [
                {"low": int(a), "high": int(b) - 1, "n": int(n)}
                for a, b, n in zip(steps[:-1], steps[1:], by_size, strict=True)
            ],
            "features": None,
        }
        bits = self.columns.get("subset")
        if names is not None and bits is not None:
            counts = np.zeros(8 * bits.shape[1], dtype=np.int64)
            for start in range(0, len(found), 8192):
                counts += np.unpackbits(np.asarray(bits[found[start : start + 8192]]), axis=1).sum(0, dtype=np.int64)
            counts = counts[: len(names)]
            order = np.argsort(-counts, kind="stable")[:MOST_FEATURES]
            told["features"] = [
                {"f": int(f), "name": names[f], "n": int(counts[f]), **_wilson(int(counts[f]), len(found))}
                for f in order.tolist()
            ]
        return told

    def names(self) -> tuple[str, ...] | None:
        """Return the names of the features, where they are the same in every input."""
        e = self._first
        if e is None:
            return None
        shared = e.elements.ndim < e.inputs.ndim and e.modality != "text"
        return e.feature_names if shared else None


def _wilson(count: int, n: int, z: float = 1.959964) -> dict[str, float]:
    """Return a share with Wilson's 95 % interval."""
    if not n:
        return {"share": 0.0, "low": 0.0, "high": 1.0}
    share, square = count / n, z * z / n
    middle, half = share + square / 2, z * np.sqrt(share * (1 - share) / n + square / (4 * n))
    low, high = (middle - half) / (1 + square), (middle + half) / (1 + square)
    return {"share": round(share, 6), "low": round(float(max(low, 0.0)), 6), "high": round(float(min(high, 1.0)), 6)}
