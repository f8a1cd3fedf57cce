"""What the explorer shows: records that are read one at a time, and a few numbers of all of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fans.curve import Curve
from fans.errors import InputError
from fans.explainer import Explainer
from fans.explanation import Explanation, load
from fans.types import Array


class Source(Protocol):
    """Explained inputs, in memory or in a run's folder."""

    @property
    def title(self) -> str:
        """What the page is called."""
        ...

    def __len__(self) -> int: ...

    def columns(self) -> Mapping[str, Array]:
        """Return a few numbers of all records: each an array with one entry a record, cheap also for 100,000.

        `id` (texts or numbers), `target` (the class's number), `prediction`, `pns`, `keep`, `change`, `size`, and
        `subset` `(N, ceil(F / 8))` the bits of the chosen features as `numpy.packbits` packs them.
        """
        ...

    def explanation(self, i: int) -> Explanation:
        """Return record `i`: an explanation of one input."""
        ...

    def explainer(self) -> Explainer | None:
        """Return who can be asked about further subsets; None where there is no model."""
        ...

    def curve(self, i: int) -> Curve | None:
        """Return PNS against size and tolerance of record `i`; None where it was not kept."""
        ...


class InMemory:
    """An explanation that is in memory.

    Args:
        explanation: of any inputs.
        explainer: who made it, to be asked about further subsets.
        curves: of the same inputs; by default the explainer is asked for the curve of each input that is looked at.
        x: the explained inputs, where the explanation does not tell them: sparse rows, graphs as wholes.
        title: what the page is called.
    """

    def __init__(
        self,
        explanation: Explanation,
        explainer: Explainer | None = None,
        *,
        curves: Curve | None = None,
        x: Any = None,
        title: str | None = None,
    ) -> None:
        if curves is not None and curves.ids != explanation.ids:
            raise InputError(
                f"Expected `curves` of the explained inputs, got {len(curves)} of others; pass "
                "explainer.curve(explanation)"
            )
        if x is not None and _length(x) != len(explanation):
            raise InputError(f"Expected `x` as the {len(explanation)} explained inputs, got {_length(x)}")
        self._explanation, self._explainer, self._curves, self._x = explanation, explainer, curves, x
        self._columns: dict[str, Array] | None = None
        self.title = title or default_title(explanation)

    def __len__(self) -> int:
        return len(self._explanation)

    def columns(self) -> Mapping[str, Array]:
        """Return a few numbers of all inputs."""
        if self._columns is None:
            self._columns = columns_of(self._explanation)
        return self._columns

    def explanation(self, i: int) -> Explanation:
        """Return that of input `i`."""
        return self._explanation[i]

    def explainer(self) -> Explainer | None:
        """Return who was given."""
        return self._explainer

    def curve(self, i: int) -> Curve | None:
        """Return that of input `i`, where they were given."""
        return None if self._curves is None else self._curves[i]

    def inputs(self, i: int) -> Any:
        """Return input `i` as the explainer takes it, alone in its batch; None where only the explanation tells."""
        if self._x is None:
            return None
        return self._x.iloc[i : i + 1] if hasattr(self._x, "iloc") else self._x[i : i + 1]


def _length(x: Any) -> int:
    """Return how many inputs there are, sparse rows too."""
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def default_title(e: Explanation) -> str:
    """Return what explanations are called by default, e.g. `4 rows, fans`."""
    return f"{len(e):,} {e.presenter.input_words[len(e) != 1]}, {e.method}"


def columns_of(e: Explanation) -> dict[str, Array]:
    """Return a few numbers of all inputs of an explanation."""
    return {
        "id": np.array([*e.ids, None], dtype=object)[:-1],
        "target": e.target,
        "prediction": e.prediction,
        "pns": e.pns,
        "keep": e.holds,
        "change": e.changes,
        "size": e.subset.sum(1),
        "subset": np.packbits(e.subset, axis=1),
    }


def opened(path: Path, *, model: str | None = None, trust: Path | None = None) -> Source:
    """Return what lies at a path: a run's folder, or a file that `Explanation.save` wrote."""
    if path.is_dir():
        from fans.own import Results

        return Results(path, model=model, trust=() if trust is None else [trust])
    if model is not None or trust is not None:
        raise InputError(
            "Expected --model and --trust with a run's folder, got a file, which does not tell what the model takes; "
            "use explanation.serve(explainer)"
        )
    return InMemory(load(path), title=path.name)
