"""Insertion and deletion: the probability along the way from nothing to the input, or back, by importance."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fans.errors import InputError, check_whole, is_number
from fans.metrics.base import Case, Metric, ranks

_CITATION = "Petsiuk et al., RISE: randomized input sampling for explanation of black-box models, BMVC 2018"


@dataclass(frozen=True)
class Curve(Metric):
    """What the two share: the area under the target's probability against the share of pixels changed, 0 to 1.

    The pixels of an image go with all their channels, by the sum of their scores; elements of other inputs go alone.

    Args:
        n_steps: steps of (nearly) equal size; at most one a pixel.
        fill: what a pixel not there is: `"mean"`, its channel's mean in the image, or a number.
    """

    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = _CITATION
    inserted: ClassVar[bool]
    """Whether the curve begins with nothing."""

    n_steps: int = 50
    fill: float | Literal["mean"] = "mean"

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)
        if self.fill != "mean" and not (is_number(self.fill) and math.isfinite(self.fill)):
            raise InputError(f"Expected `fill` as 'mean' or a number, got {self.fill!r}")

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse a mean of what has no channels."""
        if self.fill == "mean" and len(shape) != 3:
            raise InputError(
                f"Expected images (B, channels, height, width) for fill='mean', got inputs of shape (B, "
                f"{', '.join(map(str, shape))}); pass a number as `fill`"
            )

    def cost(self, shape: tuple[int, ...]) -> int:
        """Every point of the curve, one of which is the input itself."""
        return 1 + self._n_steps(shape)

    def _n_steps(self, shape: tuple[int, ...]) -> int:
        return min(self.n_steps, math.prod(shape[1:] if len(shape) == 3 else shape))

    def _nothing(self, case: Case) -> Tensor:
        """Return what stands where a pixel is not: a shape that spreads to the inputs'."""
        if self.fill == "mean":
            return case.inputs.mean((2, 3), keepdim=True)
        return torch.full_like(case.inputs, self.fill)

    def score(self, case: Case) -> Tensor:
        """Change pixels of all inputs at once."""
        image = case.inputs.ndim == 4
        order = ranks(case.scores.double().sum(1) if image else case.scores)
        n_pixels, n_steps = order.shape[1], self._n_steps(tuple(case.inputs.shape[1:]))
        place = order.view(len(case), 1, *case.inputs.shape[2:]) if image else order.view_as(case.inputs)
        nothing = self._nothing(case)
        steps = torch.arange(n_steps + 1, dtype=torch.float64, device=place.device)
        done = (steps * n_pixels / n_steps).round()  # pixels changed by then

        def make(which: Tensor, copy: Tensor) -> Tensor:
            so_far = done[copy if self.inserted else copy + 1].view(-1, *[1] * (case.inputs.ndim - 1))
            there = (place[which] < so_far) == self.inserted
            return torch.where(there, case.inputs[which], nothing[which])

        asked = case.ask(n_steps, make, output="probability")
        whole = case.of_target(case.before, case.target, "probability")[:, None]
        curve = torch.cat([asked, whole] if self.inserted else [whole, asked], 1)
        return torch.trapezoid(curve, done.cpu() / n_pixels, dim=1)


@dataclass(frozen=True)
class Insertion(Curve):
    """Area under the probability as pixels are put in, the highest scores first: high if a few suffice."""

    name: ClassVar[str] = "insertion"
    label: ClassVar[str] = "Insertion"
    higher_is_better: ClassVar[bool] = True
    inserted: ClassVar[bool] = True


@dataclass(frozen=True)
class Deletion(Curve):
    """Area under the probability as pixels are taken out, the highest scores first: low if a few were necessary."""

    name: ClassVar[str] = "deletion"
    label: ClassVar[str] = "Deletion"
    higher_is_better: ClassVar[bool] = False
    inserted: ClassVar[bool] = False
