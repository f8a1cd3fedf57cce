"""`fans.PNS`: how necessary and sufficient one subset an input is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fans.explanation import Explanation
from fans.joining import in_order, tuples_in_order
from fans.types import Array


@dataclass(frozen=True)
class PNS:
    """Necessity and sufficiency of one subset per input; every array has the batch first.

    Attributes:
        pns: `(B,)` probability of necessity and sufficiency, Eq. 7, in [0, 1] on the unit scale.
        pn: `(B,)` probability of necessity, Eq. 5; NaN where nothing supports it (see `notes`).
        ps: `(B,)` probability of sufficiency, Eq. 6; NaN likewise.
        p_ab: `(B,)` P(A, B), Eq. 15.
        p_nab: `(B,)` P(not-A, not-B), Eq. 15.
        changes: `(B,)` share of nearby trials in which perturbing the subset changes the prediction.
        holds: `(B,)` share of nearby trials in which perturbing everything else leaves it.
        se: `(B, 3)` standard errors of pns, pn, ps.
        interval: `(B, 3, 2)` pns, pn, ps by low, high, at `confidence`.
        share_se: `(B, 2)` standard errors of changes and holds.
        share_interval: `(B, 2, 2)` changes, holds by low, high, at `confidence`.
        ess_nc: `(B,)` effective number of samples behind PN: of the joint PNS, those near the input.
        ess_sf: `(B,)` effective number of samples behind PS, likewise.
        radius: `(B,)` b.
        tolerance: `(B,)` c.
        phi: how likely a perturbation hits each feature under test: 1 perturbs all of them together.
        n_evaluations: model rows evaluated for all of it.
        notes: one sentence per input on what could not be estimated, or "".
    """

    pns: Array
    pn: Array
    ps: Array
    p_ab: Array
    p_nab: Array
    changes: Array
    holds: Array
    se: Array
    interval: Array
    share_se: Array
    share_interval: Array
    ess_nc: Array
    ess_sf: Array
    radius: Array
    tolerance: Array
    phi: float
    n_evaluations: int
    confidence: float
    estimator: str
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pns)

    def __str__(self) -> str:
        return "\n".join(self._line(i) for i in range(len(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.2f}" for value in self.pns[:3].tolist())
        return f"PNS(inputs={len(self)}, pns=[{shown}{', ...' if len(self) > 3 else ''}])"

    def _repr_html_(self) -> str:
        from fans.report.notebook import pns_card

        return pns_card(self)

    def _line(self, i: int) -> str:
        pns, pn, ps = estimate_texts(self, i, 3)
        shares = [f"changes {self.changes[i]:.2f}", f"holds {self.holds[i]:.2f}"]
        used = f"(tolerance {self.tolerance[i]:.3g}, radius {self.radius[i]:.3g}, phi {self.phi:g}"
        used += f"; {100 * self.confidence:g} % intervals)"
        return "  ".join([pns, *shares, pn, ps, used, *filter(None, [self.notes[i]])])


def estimate_texts(e: "PNS | Explanation", i: int, digits: int = 2) -> list[str]:
    """Format PNS, PN and PS of input `i` with their intervals, e.g. `PNS 0.41 [0.38, 0.45]`."""
    values = zip(("PNS", "PN", "PS"), (e.pns[i], e.pn[i], e.ps[i]), e.interval[i], strict=True)
    return [
        f"{name} undefined" if math.isnan(v) else f"{name} {v:.{digits}f}{interval_text(low, high)}"
        for name, v, (low, high) in values
    ]


def interval_text(low: float, high: float) -> str:
    """Write an interval, nothing where there is none."""
    return "" if math.isnan(low + high) else f" [{low:.2f}, {high:.2f}]"


def join_pns(parts: Sequence[PNS], places: Sequence[Sequence[int]]) -> PNS:
    """Put estimates for inputs that differ in size together, in the order of their places."""
    joined = {f.name: [getattr(part, f.name) for part in parts] for f in fields(PNS)}
    arrays: dict[str, Any] = {k: in_order(v, places) for k, v in joined.items() if isinstance(v[0], np.ndarray)}
    notes = tuples_in_order(joined["notes"], places)
    return replace(parts[0], **arrays, notes=notes, n_evaluations=sum(joined["n_evaluations"]))
