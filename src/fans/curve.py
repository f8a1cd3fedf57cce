"""`fans.Curve`: PNS of each input against the size of the subset and the tolerance, from one set of draws."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fans.errors import InputError
from fans.joining import in_order, tuples_in_order
from fans.types import Array


@dataclass(frozen=True)
class Curve:
    """How necessary and how sufficient ever larger subsets are, at ever larger tolerances.

    The subset of size k has the first k features of `order`. All figures are of the same trials, so that they can be
    compared; at the explanation's own size and tolerance they are the explanation's. Whoever picks the best of them
    picks its luck as well.

    Attributes:
        order: `(B, F)` the features: the subset's members first, the highest scores before lower ones, then all others
            likewise; -1 where an input has fewer.
        sizes: `(B, K)` sizes of the subset, ascending; -1 where an input has fewer.
        chosen: `(B,)` where in `sizes` the explanation's own is.
        tolerances: `(B, T)` ascending.
        used: `(B,)` where in `tolerances` the explanation's own is.
        pns, changes, holds: `(B, K, T)`, as in `fans.Explanation`.
        intervals: `(B, K, T, 3, 2)` of pns, changes, holds by low, high, at `confidence`.
        ids: of the inputs.
        n_evaluations: model rows that all of it took.
    """

    order: Array
    sizes: Array
    chosen: Array
    tolerances: Array
    used: Array
    pns: Array
    changes: Array
    holds: Array
    intervals: Array
    ids: tuple[int | str, ...]
    confidence: float
    n_evaluations: int

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator["Curve"]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Curve(inputs={len(self)}, sizes={self.sizes.shape[1]}, tolerances={self.tolerances.shape[1]})"

    def _repr_html_(self) -> str:
        from fans.report.notebook import curve_card

        return curve_card(self)

    def __getitem__(self, i: int) -> "Curve":
        """Return that of one input; `n_evaluations` stays that of all."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"Expected an index below {len(self)}, got {i}")
        i %= len(self)
        taken = {name: getattr(self, name)[i : i + 1] for name in (*self._arrays(), "ids")}
        return replace(self, **taken)

    @classmethod
    def _arrays(cls) -> list[str]:
        """Return the names of the fields that have an entry for each input."""
        return [f.name for f in fields(cls) if f.name not in {"ids", "confidence", "n_evaluations"}]

    def plot(
        self, path: str | Path | None = None, *, tolerance: float | None = None, columns: int | None = None
    ) -> Any:
        """Draw PNS, keep and change of every input (at most twelve) against size with intervals; return the figure.

        Args:
            path: where to write it as well.
            tolerance: one of `tolerances`; by default the explanation's own.
            columns: inputs side by side.
        """
        from fans.report.curves import plot

        return plot(self, path, tolerance, columns)

    def to_json(self, i: int = 0) -> dict[str, Any]:
        """Return what is known of input `i` as JSON can hold it, shares to four digits, None for what is undefined."""
        n = int((self.sizes[i] >= 0).sum())
        shares = {name: _plain(getattr(self, name)[i, :n]) for name in ("pns", "changes", "holds", "intervals")}
        return {
            "order": self.order[i][self.order[i] >= 0].tolist(),
            "sizes": self.sizes[i, :n].tolist(),
            "chosen": int(self.chosen[i]),
            "tolerances": [float(f"{c:.6g}") for c in self.tolerances[i]],
            "used": int(self.used[i]),
            **shares,
            "confidence": self.confidence,
        }

    def save(self, path: str | Path) -> Path:
        """Write it as one safetensors file and return the path."""
        from safetensors.numpy import save_file

        from fans.files import writing

        text = {"ids": self.ids, "confidence": self.confidence, "n_evaluations": self.n_evaluations}
        arrays = {name: np.array(getattr(self, name), order="C") for name in self._arrays()}
        with writing(path) as temporary:
            save_file(arrays, temporary, {"fans.curve": json.dumps(text)})
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Curve":
        """Read what `save` wrote. Nothing in the file is executed."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                text = json.loads((file.metadata() or {})["fans.curve"])
                arrays = {name: file.get_tensor(name) for name in cls._arrays()}
            return cls(**arrays, **(text | {"ids": tuple(text["ids"])}))
        except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise InputError(f"Expected a curve saved with `save`, got {path}, which is not one ({error})") from None


def join_curves(parts: Sequence[Curve], places: Sequence[Sequence[int]]) -> Curve:
    """Put the curves of some inputs each together in the order of their places."""
    fill = dict.fromkeys(("order", "sizes"), -1.0) | dict.fromkeys(("pns", "changes", "holds", "intervals"), np.nan)
    arrays: dict[str, Any] = {
        name: in_order([getattr(part, name) for part in parts], places, fill.get(name, 0))
        for name in parts[0]._arrays()
    }
    return replace(parts[0], **arrays, ids=tuples_in_order([part.ids for part in parts], places))


def _plain(shares: Array) -> Any:
    """Return shares as lists."""
    rounded: Array = np.round(shares, 4).astype(object)
    rounded[np.isnan(shares)] = None
    return rounded.tolist()


@dataclass(frozen=True)
class TrialSample:
    """Some of the trials behind an estimate, the nearest first: what was perturbed, and what the model said.

    Everything is by side: `"changed"`, where only the subset was perturbed, and `"kept"`, where everything else was.

    Attributes:
        inputs: `(B, n, *input)` the perturbed inputs, as `Explanation.inputs` has them.
        before: `(B, n, *input)` the inputs near the explained one that they were made from.
        outputs, outputs_before: `(B, n)` the explained output on both.
        moved: `(B, n)` whether the prediction counts as changed.
        weights: `(B, n)` how near the input before is, from 0 to 1.
        given: for each input what the model was given: an array, a frame, texts.
        ids: of the inputs.
        n_evaluations: model rows that all of it took.
    """

    inputs: dict[str, Array]
    before: dict[str, Array]
    outputs: dict[str, Array]
    outputs_before: dict[str, Array]
    moved: dict[str, Array]
    weights: dict[str, Array]
    given: dict[str, list[Any]]
    ids: tuple[int | str, ...]
    n_evaluations: int

    def __repr__(self) -> str:
        shown = {side: moved.shape[1] for side, moved in self.moved.items()}
        return f"TrialSample(inputs={len(self.ids)}, trials={shown})"

    def _repr_html_(self) -> str:
        from fans.report.notebook import trials_card

        return trials_card(self)


def join_samples(parts: Sequence[TrialSample], places: Sequence[Sequence[int]]) -> TrialSample:
    """Put the trials of some inputs each together in the order of their places."""
    joined: dict[str, Any] = {}
    for f in fields(TrialSample):
        by_side = [getattr(part, f.name) for part in parts]
        if f.name == "given":
            joined[f.name] = {
                side: list(tuples_in_order([tuple(one[side]) for one in by_side], places)) for side in by_side[0]
            }
        elif isinstance(by_side[0], dict):
            joined[f.name] = {side: in_order([one[side] for one in by_side], places) for side in by_side[0]}
    return replace(parts[0], **joined, ids=tuples_in_order([part.ids for part in parts], places))
