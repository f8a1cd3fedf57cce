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
from typing import Literal

import torch
from torch import Tensor

from fans.wording import normal_quantile

Kernel = Literal["gaussian", "indicator"]
Change = Literal["target", "fall", "l2", "label"]


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
