"""The paper's mathematics: the probability of necessity, of sufficiency, and of both, of a subset of features.

One function per numbered equation, in the paper's order (FANS, ICML 2024). Nothing here calls a model: `trials` does
that, and `estimate` puts the two together. Single letters are the paper's: x' baseline, m hit, E background, b radius,
c tolerance. Shapes: J (input, subset) pairs, S reference samples, K perturbations, F features, E elements.

Differs from the paper (docs/design.md gives the reasons): closeness is measured on all features, once an input, so that
PNS is Pearl's joint probability, the share of nearby trials in which perturbing s changes the prediction and perturbing
the rest does not. `closeness="subset"` is the paper's: close on s, or on the rest. Its weights are averaged, not
summed, over E, with a prior of 1/2 on A and not-A, so that PNS lies in [0, 1] (`scale="paper"` drops the 1/2).
Distances are root mean squares of standardised features (`distance="l2"` is the paper's); the exponent in Scott's rule
is negative.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fans.core import InputError, check_whole, choose, is_number, normal_quantile
from fans.spaces._shared import Distance

Kernel = Literal["gaussian", "indicator"]
Change = Literal["target", "fall", "l2", "label"]
Estimator = Literal["exact", "weighted", "resample"]
Closeness = Literal["input", "subset"]
Scale = Literal["joint", "unit", "paper"]


def perturb(rows: Tensor, hit: Tensor, baseline: Tensor) -> Tensor:
    """Replace the hit elements by the baseline (Eq. 3): `g(x, s, x') = (1 - m_s) x_s + m_s x'_s`, x outside s.

    Args:
        rows: `(n, E)` samples, which are overwritten and returned.
        hit: `(n, E)` m restricted to s, 1 and 0 in the rows' own type.
        baseline: `(E,)` or `(n, E)`.
    """
    # Of weights 0 and 1 a linear interpolation is exact, and several times faster than torch.where.
    return rows.lerp_(baseline, hit)


def moved(perturbed: Tensor, rows: Tensor) -> Tensor:
    """Tell which perturbed rows `(n, E)` differ from their samples, `(n,)`; the samples are overwritten."""
    difference = rows.sub_(perturbed)
    return (difference.amax(1) > 0) | (difference.amin(1) < 0)


def gaussian(squared: Tensor, width: Tensor) -> Tensor:
    """Return `exp(-d^2 / 2 w^2)` (the kernel of Eqs. 11 and 13); at width 0 it is 1 where d is 0, else 0."""
    soft = torch.exp(squared / (-2 * width**2).clamp(max=-1e-300).to(squared.dtype))
    return soft if (width > 0).all() else torch.where(width > 0, soft, (squared == 0).to(soft.dtype))


def indicator(squared: Tensor, width: Tensor) -> Tensor:
    """Return 1 where `d <= w`, else 0 (the hard condition of Eq. 10)."""
    return (squared <= width**2).to(squared.dtype)


KERNELS = {"gaussian": gaussian, "indicator": indicator}


def weights_sufficiency(near_rest: Tensor, unchanged_rest: Tensor) -> Tensor:
    """Weigh samples by not-A and not-B (Eqs. 10, 11): close outside s, and unchanged when the rest is perturbed."""
    return near_rest * unchanged_rest


def sufficiency(weights: Tensor, changed: Tensor) -> Tensor:
    """Return PS (Eqs. 6, 12): of the samples weighed by `weights_sufficiency`, how often perturbing s changes f.

    Args:
        weights: `(..., S)`.
        changed: `(..., S)` share of perturbations of s with `change > c`.

    Returns:
        `(...)`, NaN where no sample has weight.
    """
    return (weights * changed).sum(-1) / weights.sum(-1)


def weights_necessity(near_subset: Tensor, unchanged_subset: Tensor) -> Tensor:
    """Weigh samples by A and B (Eq. 13): close on s, and changed when s is perturbed."""
    return near_subset * (1 - unchanged_subset)


def necessity(weights: Tensor, unchanged: Tensor) -> Tensor:
    """Return PN (Eqs. 5, 14): of the samples weighed by `weights_necessity`, how often perturbing the rest leaves f.

    Args:
        weights: `(..., S)`.
        unchanged: `(..., S)` share of perturbations of the rest with `change <= c`.

    Returns:
        `(...)`, NaN where no sample has weight.
    """
    return (weights * unchanged).sum(-1) / weights.sum(-1)


def event_probability(weights: Tensor) -> Tensor:
    """Return P(A, B) or P(not-A, not-B) (Eq. 15), as a mean over E where the paper sums."""
    return weights.mean(-1)


def combine(pn: Tensor, p_ab: Tensor, ps: Tensor, p_nab: Tensor, scale: float = 0.5) -> Tensor:
    """Return PNS (Eq. 7): `scale * (PN P(A,B) + PS P(not-A,not-B))`; a term whose event never occurs is 0."""
    return scale * (pn.nan_to_num() * p_ab + ps.nan_to_num() * p_nab)


def scott_radius(n: int) -> float:
    """Return `1.06 n^(-1/5)`: Scott's rule for a one-dimensional distance (the root mean square over features)."""
    return 1.06 * math.pow(n, -1 / 5)


def paper_radius(n: int, d: int) -> float:
    """Return `1.06 n^(-1/(4+d))` (Section 4.6, the sign as its reported values require)."""
    return 1.06 * math.pow(n, -1 / (4 + d))


def effective_size(weights: Tensor) -> Tensor:
    """Return `(sum w)^2 / sum w^2`: how many equally weighted samples the weights are worth; 0 without weight."""
    return (weights.sum(-1) ** 2 / (weights**2).sum(-1)).nan_to_num()


def ess_radius(squared: Tensor, wanted: float) -> Tensor:
    """Return the radius `(B,)` at which Gaussian weights of squared distances `(B, S)` have the wanted effective size.

    Bisection on the logarithm: the effective size grows with the radius.
    """
    low, high = torch.full_like(squared[:, 0], -20.0), torch.full_like(squared[:, 0], 20.0)
    for _ in range(60):
        middle = (low + high) / 2
        nearest = squared.amin(-1, keepdim=True)  # weights up to a factor, so that none underflows to 0 / 0
        small = effective_size(gaussian(squared - nearest, middle.exp()[:, None])) < wanted
        low, high = torch.where(small, middle, low), torch.where(small, high, middle)
    return high.exp()


def measure_change(after: Tensor, before: Tensor, target: Tensor, kind: Change) -> Tensor:
    """Return how much the prediction moved, `(n,)`.

    `"target"`: absolute change of the explained class's output; `"fall"`: how far it fell, 0 if it rose; `"l2"`: norm
    over all outputs; `"label"`: 1 if the arg-max class changed.
    """
    if kind == "l2":
        norm: Tensor = torch.linalg.vector_norm(after - before, dim=1)
        return norm
    if kind == "label":
        return (after.argmax(1) != before.argmax(1)).double()
    rise = (after - before).gather(1, target[:, None])[:, 0]
    return (-rise).clamp(min=0) if kind == "fall" else rise.abs()


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


@dataclass(frozen=True)
class Moments:
    """What each sample says about J subsets, all `(J, S)`.

    Attributes:
        near_subset, near_rest: `k_b` of the distance on s and outside it; of the joint PNS both are that on all
            features, divided by its mean over the samples.
        unchanged_subset, unchanged_rest: mean of `k_c(change)` when s, or the rest, is perturbed; of the joint PNS the
            share with `change <= c`.
        p_changed: share of perturbations of s with `change > c`.
        p_unchanged: share of perturbations of the rest with `change <= c`.
    """

    near_subset: Tensor
    near_rest: Tensor
    unchanged_subset: Tensor
    unchanged_rest: Tensor
    p_changed: Tensor
    p_unchanged: Tensor

    @property
    def necessity(self) -> Tensor:
        """w_NC `(J, S)`."""
        return weights_necessity(self.near_subset, self.unchanged_subset)

    @property
    def sufficiency(self) -> Tensor:
        """w_SF `(J, S)`."""
        return weights_sufficiency(self.near_rest, self.unchanged_rest)


@dataclass(frozen=True)
class Point:
    """Point estimates `(J,)`; `changes` and `holds` as in `fans.PNS`."""

    pns: Tensor
    pn: Tensor
    ps: Tensor
    p_ab: Tensor
    p_nab: Tensor
    changes: Tensor
    holds: Tensor


def point(m: Moments, settings: Settings) -> Point:
    """Put the moments together (Eqs. 12, 14, 15, 7)."""
    w_nc, w_sf = m.necessity, m.sufficiency
    pn, ps = necessity(w_nc, m.p_unchanged), sufficiency(w_sf, m.p_changed)
    changes, holds = (
        (near * often).sum(-1) / near.sum(-1)
        for near, often in ((m.near_subset, m.p_changed), (m.near_rest, m.p_unchanged))
    )
    p_ab, p_nab = (changes, holds) if settings.joint else (event_probability(w_nc), event_probability(w_sf))
    return Point(combine(pn, p_ab, ps, p_nab, settings.prior), pn, ps, p_ab, p_nab, changes, holds)


def pns_terms(m: Moments, settings: Settings) -> Tensor:
    """Return what each sample adds to PNS, `(J, S)`: its mean over the samples is PNS.

    PN is a mean weighted by w_NC and P(A,B) is the mean of w_NC, so their product is the plain mean of w_NC times the
    share unchanged; likewise PS.
    """
    return settings.prior * (m.necessity * m.p_unchanged + m.sufficiency * m.p_changed)


def quantile(confidence: float, freedom: Tensor) -> Tensor:
    """Return two-sided quantiles of Student's t with the given degrees of freedom (Fisher's expansion)."""
    z = normal_quantile(confidence)
    v = freedom.clamp(min=3)
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)


def wilson(p: Tensor, se: Tensor, support: Tensor, confidence: float) -> Tensor:
    """Return score intervals `(..., 2)` for probabilities with known standard errors.

    Wilson's interval at the sample size that explains the error, `p (1 - p) / se^2`: unlike `p +- z se` it stays inside
    [0, 1] and does not collapse at 0 or 1, where all of the `support` (effective samples) agreed. A small support
    widens it by Student's factor.
    """
    z2 = quantile(confidence, support - 1) ** 2
    p = p.clamp(0, 1)
    n = torch.where(se > 1e-12, p * (1 - p) / se.clamp(min=1e-12) ** 2, support).clamp(min=1e-9)
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = torch.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return torch.stack([(centre - half).clamp(0, 1), (centre + half).clamp(0, 1)], -1)
