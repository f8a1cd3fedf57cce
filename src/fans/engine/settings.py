"""How PNS is estimated: the settings of everything in this package."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fans.engine.equations import KERNELS, Change, Kernel
from fans.errors import InputError, check_whole, choose, is_number
from fans.modalities.base import Distance

Estimator = Literal["exact", "weighted", "resample"]
Closeness = Literal["input", "subset"]
Scale = Literal["joint", "unit", "paper"]


@dataclass(frozen=True)
class Settings:
    """How PNS is estimated; the fields are the arguments of `pns`."""

    kernel: Kernel = "gaussian"
    distance: Distance = "rms"
    change: Change = "target"
    estimator: Estimator = "weighted"
    n_factual: int = 32
    n_perturb: int = 32
    n_resample: int = 100
    phi: float = 0.5
    closeness: Closeness = "input"
    scale: Scale | None = None
    confidence: float = 0.95

    @property
    def joint(self) -> bool:
        """Whether PNS is the joint probability: closeness on all features."""
        return self.closeness == "input"

    @property
    def prior(self) -> float:
        """What each of the two terms of PNS counts: 1/2, or 1 on the paper's scale."""
        return 1.0 if self.scale == "paper" else 0.5

    def unchanged(self, change: Tensor, tolerance: Tensor) -> Tensor:
        """Return how much changes count as none in the weights: the joint PNS counts them, the paper's weighs."""
        if self.joint:
            return (change <= tolerance).double()
        return KERNELS[self.kernel](change**2, tolerance)

    def __post_init__(self) -> None:
        choose("`closeness`", self.closeness, get_args(Closeness))
        if self.scale is not None:
            known = ("joint",) if self.joint else ("unit", "paper")
            choose(f'`scale` with closeness="{self.closeness}"', self.scale, known)
        choose("`kernel`", self.kernel, KERNELS)
        choose("`distance`", self.distance, ("rms", "l2"))
        choose("`change`", self.change, get_args(Change))
        choose("`estimator`", self.estimator, ("exact", "weighted", "resample"))
        for name in ("n_factual", "n_perturb", "n_resample"):
            check_whole(name, getattr(self, name), 1)
        if not is_number(self.phi) or not 0 < self.phi <= 1:
            raise InputError(f"Expected `phi` above 0 and up to 1, got {self.phi!r}")
        if not is_number(self.confidence) or not 0 < self.confidence < 1:
            raise InputError(f"Expected `confidence` between 0 and 1, got {self.confidence!r}")


@dataclass(frozen=True)
class Search:
    """What a search for the radius and tolerance tries (Definition 4: `w_s := max over b, c of PNS`).

    Attributes:
        radii: multiples of the given radius.
        tolerances: multiples of the given tolerance.
        parts: tolerances as parts of the largest change seen.
    """

    radii: tuple[float, ...]
    tolerances: tuple[float, ...]
    parts: tuple[float, ...]

    def tolerance_grid(self, given: Tensor, largest: Tensor) -> Tensor:
        """Return the tolerances to try `(J, G)`, from those given `(J,)` and the largest changes `(J,)`."""
        multiples = given[:, None] * torch.tensor(self.tolerances, dtype=torch.float64)
        return torch.cat([multiples, largest[:, None] * torch.tensor(self.parts, dtype=torch.float64)], 1)


MULTIPLES = (1.0, 0.25, 0.5, 2.0, 4.0, 8.0)

LITERAL = Search(MULTIPLES, MULTIPLES, (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5))
"""A grid around the given radius and tolerance."""
