"""What the trials of one subset come to: moments by sample, and PN, PS and PNS from them."""

from dataclasses import dataclass

from torch import Tensor

from fans.engine.equations import (
    combine,
    event_probability,
    necessity,
    sufficiency,
    weights_necessity,
    weights_sufficiency,
)
from fans.engine.settings import Settings


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
