"""Fidelity+ and Fidelity-: does the predicted class change when what scores high is removed, or kept alone?"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fans.errors import InputError, choose, is_number
from fans.metrics.base import Case, Metric, is_whole, ranks, soft_mask

_CITATION = "Amara et al., GraphFramEx: towards systematic evaluation of explainability methods, LoG 2022"


@dataclass(frozen=True)
class Fidelity(Metric):
    """What the two share.

    Args:
        form: `"soft"` weighs elements by their scores, clipped at 0 and divided by their maximum (`soft_mask`), as the
            paper's formulas do; it depends on the scores' scale. `"top"` takes the highest alone.
        top: of `"top"`: a count (a whole number) or a share of the elements; of equals, the first.
        fill: what a removed element becomes.
    """

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = _CITATION

    form: Literal["soft", "top"] = "soft"
    top: float = 0.1
    fill: float = 0.0

    def __post_init__(self) -> None:
        choose("`form`", self.form, ("soft", "top"))
        if not is_number(self.top) or not (self.top >= 1 if is_whole(self.top) else 0 < self.top <= 1):
            raise InputError(f"Expected `top` as a count of at least 1 or a share up to 1.0, got {self.top!r}")
        if not is_number(self.fill) or not math.isfinite(self.fill):
            raise InputError(f"Expected a number for `fill`, got {self.fill!r}")
        if self.form == "soft":
            self.refuse_ignored(("top",), "form='soft'")

    def cost(self, shape: tuple[int, ...]) -> int:  # noqa: ARG002
        """The input, and what is left of it."""
        return 2

    def _mask(self, case: Case) -> Tensor:
        """Return how much of each element counts as important, `(B, *input)`."""
        if self.form == "soft":
            return soft_mask(case.scores)
        n_elements = case.inputs[0].numel()
        count = int(self.top) if is_whole(self.top) else max(1, round(self.top * n_elements))
        return (ranks(case.scores) < count).view_as(case.scores).double()

    def _changed(self, case: Case, kept: Tensor) -> Tensor:
        """Tell where the prediction changes if elements are kept to this degree."""
        kept = kept.to(case.inputs.dtype)
        left = case.inputs * kept + self.fill * (1 - kept)
        return (case.predicted(left) != case.classes(case.before)).to(torch.float64)


@dataclass(frozen=True)
class FidelityPlus(Fidelity):
    """1 if the predicted class of `x * (1 - s)` is another than that of x, else 0: s was necessary."""

    name: ClassVar[str] = "fidelity_plus"
    label: ClassVar[str] = "Fidelity+"
    higher_is_better: ClassVar[bool] = True

    def score(self, case: Case) -> Tensor:
        """Remove what is important."""
        return self._changed(case, 1 - self._mask(case))


@dataclass(frozen=True)
class FidelityMinus(Fidelity):
    """1 if the predicted class of `x * s` is another than that of x, else 0: s was not sufficient."""

    name: ClassVar[str] = "fidelity_minus"
    label: ClassVar[str] = "Fidelity-"
    higher_is_better: ClassVar[bool] = False

    def score(self, case: Case) -> Tensor:
        """Keep what is important."""
        return self._changed(case, self._mask(case))


@dataclass(frozen=True)
class FidelityGap(Metric):
    """How much more removing the highest changes the predicted class than keeping them alone does, over shares.

    The mean over `shares` of Fidelity+ less Fidelity-, both of the highest share: the area between two curves, since
    one threshold can flatter anybody. What is necessary need not be sufficient, so 1 may be out of reach.

    Args:
        shares: of the elements.
        fill: what a removed element becomes.
    """

    name: ClassVar[str] = "fidelity_gap"
    label: ClassVar[str] = "Fidelity+ less Fidelity-"
    higher_is_better: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    citation: ClassVar[str] = _CITATION

    shares: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.5)
    fill: float = 0.0

    def __post_init__(self) -> None:
        given = self.shares if isinstance(self.shares, tuple | list) else ()
        if not given or not all(is_number(share) and 0 < share <= 1 for share in given):
            raise InputError(f"Expected `shares` as numbers above 0 and up to 1, got {self.shares!r}")
        self._both()

    def _both(self) -> list[tuple[FidelityPlus, FidelityMinus]]:
        shares = [float(s) if is_number(s) else s for s in self.shares]
        return [
            (FidelityPlus(form="top", top=s, fill=self.fill), FidelityMinus(form="top", top=s, fill=self.fill))
            for s in shares
        ]

    def cost(self, shape: tuple[int, ...]) -> int:  # noqa: ARG002
        """The input, and what is left of it, twice for every share."""
        return 1 + 2 * len(self.shares)

    def score(self, case: Case) -> Tensor:
        """Remove and keep each share."""
        return torch.stack([plus.score(case) - minus.score(case) for plus, minus in self._both()]).mean(0)
