"""What figures that compare methods on images share: Table 1's methods as they were tuned, and what records say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fans.errors import InputError, choose
from fans.report.tables import FEW, Entry, listed, number
from fans.runs import Record
from fans.studies._entries import Column, Quick
from fans.studies._tables import TableStudy
from fans.studies._yaml import load
from fans.studies.base import Asked
from fans.studies.differences import by_input

OURS = "FANS"
RANDOM, GAME = "random (control)", "Banzhaf, drawn as FANS's game (control)"

METHODS = (
    *("Saliency", "GuidedBP", "IG", "DeepLift", "IDGI", "GradShap", "LIME", "KernelSHAP", "Occlusion"),
    *("FeatAblation", "MP", "CIMI", "RISE", "Extremal perturbations", "iGOS++", GAME, RANDOM, OURS),
)
"""Rows of Table 1 that figures show: each method in its own units, two of the controls, and FANS."""

SHOWN: Mapping[str, str] = {GAME: "Banzhaf (control)", "Extremal perturbations": "Extremal pert."}
"""Names that are too long for a figure."""

TRIVIAL = (RANDOM,)
"""Methods that know nothing of the model."""

Found = dict[str, dict[str, dict[str, dict[int, float]]]]
"""Dataset, method and column, to the value of each input."""


def table(name: str, columns: Sequence[Column], dataset: str, n: int, shard: int) -> TableStudy:
    """Return Table 1 with these columns alone, of one dataset with so many inputs, so many in a cell."""
    known = load("table1")
    own = replace(known.dataset(dataset), n=n, shard=shard)
    rows = tuple(row for row in known.rows if row.name in METHODS)
    parts: dict[str, Any] = {"datasets": (own,), "columns": tuple(columns), "rows": rows}
    return replace(known, name=name, **parts, paper={}, curves=(), claims=(), faithful=None, quick=Quick(), full={})


def check_asked(asked: Asked, datasets: Iterable[str], methods: Iterable[str] = METHODS) -> None:
    """Refuse datasets and methods that a study does not have, and a search.

    Raises:
        InputError: if it has not.
    """
    if asked.tune:
        raise InputError(
            "Expected --tune with a table, got it with a figure, which has nothing to search; leave it out"
        )
    for what, given, known in (("a dataset", asked.only, datasets), ("a row", asked.rows, methods)):
        for name in given or ():
            choose(what, name, list(known))


# --- What records say ------------------------------------------------------------------------------------------------


def values(records: Iterable[Record]) -> Found:
    """Return what records hold below `scores`, a value an input."""
    found: Found = {}
    for (method, dataset), columns in by_input(records).items():
        found.setdefault(dataset, {})[method] = columns
    return found


def averaged(several: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Return the mean of several values of each input that has them all."""
    given = list(several)
    both = set.intersection(*(set(each) for each in given)) if given else set()
    return {i: float(np.mean([each[i] for each in given])) for i in sorted(both)}


def sign(difference: Entry | None) -> int:
    """Return 1 or -1 where the whole interval of a difference is above or below 0; else, or of few inputs, 0."""
    if difference is None or difference.n < FEW:
        return 0
    return int(difference.low > 0) - int(difference.high < 0)


def signed(difference: Entry) -> str:
    """Return a difference in words, with its sign and interval."""
    ends = f" [{_plus(difference.low)}, {_plus(difference.high)}]" if difference.n >= FEW else ""
    return f"{_plus(difference.value)}{ends}"


def _plus(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value)}"


def shown(method: str) -> str:
    """Return how a method is called in a figure."""
    return SHOWN.get(method, method)


def named(methods: Sequence[str], last: str = "and") -> str:
    """Return methods as a list in a sentence; `no method` where there are none."""
    return listed([shown(method) for method in methods], last) if methods else "no method"


def labels(datasets: Iterable[str]) -> dict[str, Any]:
    """Return how Table 1 calls datasets."""
    known = load("table1")
    return {name: known.dataset(name).label for name in datasets}
