"""From scores to the chosen subset."""

import itertools
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.estimate import closeness, moments
from fans.engine.moments import pns_terms
from fans.engine.neighbourhood import InputBatch
from fans.engine.perturbation import n_ways
from fans.engine.settings import Settings
from fans.engine.trials import run_trials
from fans.errors import InputError, check_whole, choose, is_number
from fans.methods.base import Scores
from fans.task import Task

Members = Literal["auto", "pns", "share"]
"""How the subset is chosen."""


@dataclass(frozen=True)
class Selection:
    """How the subset is chosen from an order.

    Attributes:
        n_sweep: model rows to spend on it, up to half of them on a sharper order (`Scores.sharpen`), the rest on trying
            sizes; nearly twice as many where what speaks for the prediction hardly does it, which is rare.
        enough: the subset is the smallest whose PNS reaches this share of the highest that any size has.
        members: `"pns"` chooses by PNS so; `"share"` takes the features with a fair share of the scores, which needs no
            model rows; `"auto"` does as the method does best.
    """

    n_sweep: int = 1000
    enough: float = 0.9
    members: Members = "auto"

    def __post_init__(self) -> None:
        choose("`members`", self.members, get_args(Members))
        check_whole("n_sweep", self.n_sweep, 1)
        if not is_number(self.enough) or not 0 < self.enough <= 1:
            raise InputError(f"Expected `enough` above 0 and up to 1, got {self.enough!r}")


MOST_FINE = 4
"""Sizes tried between two of the coarse ones at most."""

NOTHING = 0.05
"""Where no size has a higher PNS than this, nothing changes the prediction: the subset is empty."""
HARDLY = 0.5
"""Features that do not speak for the prediction join if those that do have less than this share of the best PNS."""


@dataclass(frozen=True)
class Chosen:
    """The chosen subset `(B, F)`, how often resampling chooses each feature `(B, F)`, and model rows spent `(B,)`."""

    subset: Tensor
    stability: Tensor
    n_rows: Tensor


def coarse_sizes(n_features: int) -> list[int]:
    """Return subset sizes to try first: 1, 2, 3, 4, 6, 8, 12, 16, ... up to all."""
    doublings = [2**i for i in range(n_features.bit_length())]
    return sorted({k for k in (*doublings, *(3 * d for d in doublings)) if k < n_features} | {n_features})


def n_fine(n_features: int) -> int:
    """Return how many sizes are tried between two coarse ones: all that lie there, if they are few."""
    return min(MOST_FINE, max([0, *(b - a - 1 for a, b in itertools.pairwise(coarse_sizes(n_features)))]))


def n_sizes(n_features: int) -> int:
    """Return how many sizes are tried in all."""
    return len(coarse_sizes(n_features)) + n_fine(n_features)


def smallest_subset(task: Task, block: InputBatch, scored: Scores, settings: Settings, selection: Selection) -> Chosen:
    """Return the smallest subset along the order of the scores that does it: nearly as much PNS as any size has.

    Sizes of a coarse grid tell between which two the answer lies, then some between these are tried. All sizes of an
    input are tried on the same draws, so that their differences are sharp; what is chosen must be estimated again on
    fresh ones. A feature that scores nothing never joins, nor, where scores are noisy, one that has less than an even
    share of them all; a method may say itself who may. Where those that speak for the prediction hardly do it, others
    join as well, the neutral ones first or last (`inward`), whichever takes fewer. Resampling the reference samples,
    and the rows behind the scores where the method kept such replicates, tells how steady the choice is.
    """
    n_features = task.space.n_features
    sharper = None if scored.sharpen is None else scored.sharpen(selection.n_sweep // 2)
    scored = scored if sharper is None else sharper
    n_sharpening = 0 if sharper is None else int(sharper.n_rows.max())
    useful = _useful(scored) & block.pool.units.present
    by = scored.scores if scored.order is None else scored.order
    rank, most = ranks(by, useful), useful.sum(1)
    n_for = most if scored.n_for is None else torch.minimum(scored.n_for, most)
    few, quick = _economical(task, block, n_sizes(n_features), settings, selection.n_sweep - n_sharpening)

    def worth(some: Tensor, tried: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each sample says of the PNS of so many first features of some inputs, and rows spent.

        `tried` `(n, J)` to `(n, J, S)` and `(n,)`.
        """
        near, n_tried = few.at(some), tried.shape[1]
        candidates = (rank[:, None] < tried[..., None]) & useful[some][:, None]
        trials = run_trials(task, near, candidates, "sweep", quick)
        close = closeness(trials, near.radius.repeat_interleave(n_tried), quick)
        found = moments(close, trials, near.tolerance.repeat_interleave(n_tried), quick)
        return pns_terms(found, quick).view(*tried.shape, -1), trials.n_rows.view(tried.shape).sum(1)

    everyone = torch.arange(len(rank))
    coarse = torch.tensor(coarse_sizes(n_features)).expand(len(rank), -1)
    terms, spent = worth(everyone, coarse, rank)
    turned = torch.zeros(len(rank), dtype=torch.bool)
    some = (hardly(terms.mean(2), coarse, n_for) & (n_for < most)).nonzero()[:, 0]
    if len(some):
        other, rows = worth(some, coarse[some], inward(rank, n_for, most)[some])
        spent[some] += rows
        turned[some] = _sooner(other.mean(2), terms[some].mean(2), selection.enough)
        terms[some] = torch.where(turned[some, None, None], other, terms[some])

    def ordered(scores: Tensor) -> Tensor:
        """Return the place of each feature by these scores, in the order that each input goes by."""
        plain = ranks(scores, useful)
        return torch.where(turned[:, None], inward(plain, n_for, most), plain)

    rank = ordered(by)
    fine = _between(coarse, counting(terms.mean(2), coarse, n_for), selection.enough, n_fine(n_features))
    if fine.shape[1]:
        more, rows = worth(everyone, fine, rank)
        terms, spent = torch.cat([terms, more], 1), spent + rows
    tried, order = torch.cat([coarse, fine], 1).sort(dim=1, stable=True)
    terms = terms.gather(1, order[..., None].expand_as(terms))
    n_chosen = _size(terms.mean(2), tried, most, n_for, selection.enough)
    counts = _counts(few, terms.shape[2])
    again = torch.einsum("bjs,brs->brj", terms, counts) / counts.sum(2, keepdim=True)
    resized = torch.stack([_size(value, tried, most, n_for, selection.enough) for value in again.unbind(1)], 1)
    others = scored.replicates if scored.order is None else scored.orders
    orders = [by] * N_REPLICATES if others is None else list(others.unbind(1))
    members = [ordered(other) < k[:, None] for other, k in zip(orders, resized.unbind(1), strict=True)]
    stability = torch.stack([m & useful for m in members]).double().mean(0)
    return Chosen((rank < n_chosen[:, None]) & useful, stability, spent + n_sharpening)


def inward(rank: Tensor, n_for: Tensor, most: Tensor) -> Tensor:
    """Return the places `(B, F)` with those from `n_for` to `most` `(B,)` in reverse.

    After what speaks for the prediction then come those that speak against it most, and the neutral ones last:
    perturbing the rest must not change the prediction either way.
    """
    first, end = n_for[:, None], most[:, None]
    return torch.where((rank >= first) & (rank < end), first + end - 1 - rank, rank)


def _sooner(other: Tensor, value: Tensor, enough: float) -> Tensor:
    """Tell where one order's PNS `(n, J)` is enough at a smaller size than another's; enough of the best of both."""
    level = enough * torch.maximum(other, value).amax(1, keepdim=True)
    sizes = torch.arange(value.shape[1])
    first, second = (torch.where(each >= level, sizes, len(sizes)).amin(1) for each in (other, value))
    return first < second


def _between(coarse: Tensor, value: Tensor, enough: float, n: int) -> Tensor:
    """Return `n` sizes `(B, n)` between the first of the coarse ones `(B, J)` whose PNS is enough and the one before.

    They grow by equal factors; where fewer lie between, some come twice.
    """
    first = (value >= enough * value.amax(1, keepdim=True)).double().argmax(1, keepdim=True)
    above = coarse.gather(1, first).double()
    below = torch.where(first > 0, coarse.gather(1, (first - 1).clamp(min=0)).double(), above)
    steps = torch.arange(1, n + 1, dtype=torch.float64) / (n + 1)
    even = below + steps * (above - below) if n < MOST_FINE else below * (above / below) ** steps
    return even.round().long()


def _useful(scored: Scores) -> Tensor:
    """Tell which features `(B, F)` may join: of noisy scores those with an even share of the total, at most a tenth."""
    if scored.may_join is not None:
        return scored.may_join
    if scored.se is None:
        return scored.scores > 0
    return _with_share(scored.scores, even_share(scored.scores.shape[1]))


FAIR = 1.25
"""A fair share of the scores, in even ones."""


def even_share(n_features: int) -> float:
    """Return the share of the total score that each feature would have if all had the same; at most a tenth."""
    return min(0.1, 1 / n_features)


def _with_share(scores: Tensor, share: float) -> Tensor:
    """Tell which features have such a share of the positive scores `(..., F)`."""
    total = scores.clamp(min=0).sum(-1, keepdim=True).clamp(min=1e-300)
    return scores >= share * total


def fair_subset(scored: Scores) -> Chosen:
    """Return the features with a fair share of the scores; none where hardly anything changes the prediction.

    No model rows are spent on it. Resampled scores, where the method has them, tell how steady the choice is.
    """
    share = FAIR * even_share(scored.scores.shape[1])
    subset = _with_share(scored.scores, share)
    again = subset[:, None] if scored.replicates is None else _with_share(scored.replicates, share)
    if scored.moving is not None:
        subset = subset & (scored.moving > NOTHING)[:, None]
    stability = again.double().mean(1)
    return Chosen(subset, stability, torch.zeros(len(subset), dtype=torch.int64))


NEARLY_ALL = 0.9
"""Of the scores: where those with a fair share have less, many features matter a little each."""


def clear_subset(task: Task, block: InputBatch, scored: Scores, settings: Settings, selection: Selection) -> Chosen:
    """Return the features with a fair share of the scores where these have nearly all, else the smallest subset.

    Many features that matter a little each are better told apart by PNS, along a sharper order.
    """
    fair = fair_subset(scored)
    members = _with_share(scored.scores, FAIR * even_share(scored.scores.shape[1]))
    unclear = (scored.scores * members).sum(1) < NEARLY_ALL * scored.scores.sum(1)
    if scored.moving is not None:
        unclear = unclear & (scored.moving > NOTHING)
    if not unclear.any():
        return fair
    sought = smallest_subset(task, block, scored, settings, selection)
    return Chosen(
        torch.where(unclear[:, None], sought.subset, fair.subset),
        torch.where(unclear[:, None], sought.stability, fair.stability),
        sought.n_rows,
    )


N_REPLICATES = 10
"""Resampled choices behind a feature's stability."""


def ranks(scores: Tensor, useful: Tensor) -> Tensor:
    """Return the place of each feature `(B, F)` from the highest score on; those of no use come last."""
    return scores.masked_fill(~useful, -torch.inf).argsort(dim=1, descending=True, stable=True).argsort(dim=1)


def hardly(value: Tensor, tried: Tensor, n_for: Tensor) -> Tensor:
    """Tell where sizes `(B, J)` up to the first that takes in all `n_for` `(B,)` have hardly any of the best PNS."""
    return _early(value, tried, n_for).amax(1) < HARDLY * value.amax(1)


def counting(value: Tensor, tried: Tensor, n_for: Tensor) -> Tensor:
    """Return the PNS `(B, J)` of sizes up to the first that takes in all `n_for` `(B,)`, if one of them does it."""
    return torch.where(hardly(value, tried, n_for)[:, None], value, _early(value, tried, n_for))


def _early(value: Tensor, tried: Tensor, n_for: Tensor) -> Tensor:
    last = (tried < n_for[:, None]).sum(1, keepdim=True)
    return value.masked_fill(torch.arange(value.shape[1]) > last, -torch.inf)


def _size(value: Tensor, tried: Tensor, most: Tensor, n_for: Tensor, enough: float) -> Tensor:
    """Return for each input `(B,)` the smallest size `(B, J)` whose PNS is enough; 0 where there is nothing to gain."""
    value = counting(value, tried, n_for)
    best = value.amax(1, keepdim=True)
    first = (value >= enough * best).double().argmax(1, keepdim=True)
    size = torch.minimum(tried.gather(1, first)[:, 0], most)
    return torch.where(best[:, 0] > NOTHING, size, 0)


def _counts(block: InputBatch, n_samples: int) -> Tensor:
    """Return how often each sample counts in each resampling, `(B, N_REPLICATES, S)`: drawn with replacement."""
    keys = block.keys("sweep/resampled")
    drawn = draws.integers(keys[:, None], torch.arange(N_REPLICATES * n_samples), n_samples)
    drawn = drawn.view(-1, N_REPLICATES, n_samples)
    counts = torch.zeros(drawn.shape, dtype=torch.float64)
    return counts.scatter_add_(2, drawn, torch.ones((), dtype=torch.float64).expand(drawn.shape))


def _economical(
    task: Task, block: InputBatch, n_tried: int, settings: Settings, n_rows: int
) -> tuple[InputBatch, Settings]:
    """Return the samples and settings to try sizes with: as many draws as the rows allow, else the nearest samples."""
    quick = replace(settings, estimator="weighted")
    n_samples, each = block.pool.index.shape[1], 2 * n_tried * max(1, n_ways(task, quick))
    k = max(1, n_rows // (n_samples * each))
    return block.nearest(max(1, n_rows // each)), replace(quick, n_factual=k, n_perturb=k)
