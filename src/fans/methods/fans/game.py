"""The additive game: random subsets against their complements, and a regression. No gradients, any black box."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import KERNELS
from fans.engine.neighbourhood import InputBatch, draw_features, subset_distance
from fans.engine.perturbation import Jobs, Ways, run
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole, choose, warn
from fans.methods.base import Drawn, Scores, Without
from fans.methods.fans.solver import Solver
from fans.methods.problem import Problem
from fans.methods.rivals import check_number
from fans.modalities.base import Blocks
from fans.task import Task

NOISE = 0.3
"""Of the regression with a smooth prior: variance of the noise, in variances that the prior gives an observation."""
SMALLEST = 1e-4
"""Of that prior's principal components: the smallest variance that matters, in that of the largest."""


@dataclass(frozen=True)
class Game(Solver):
    """Each feature's Banzhaf value in the game whose value of a subset is its PNS.

    Draw a random subset s; perturb s, and separately the rest, on a sample near the input. The Banzhaf value depends
    only on how a game differs between s and its complement, which here is `k * (changed by s - changed by the rest)`.
    So each pair of model rows is one observation of a linear regression on which features were hit on which side.

    Args:
        n_pairs: random subsets drawn, two model rows each.
        ridge: penalty of the regression, as a share of its diagonal.
        draw: on a grid of many features, draw them in `"blocks"` at random offsets, or each of the `"features"` alone.
    """

    name: ClassVar[str] = "game"
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {"low": {"n_pairs": 200}, "high": {"n_pairs": 2000}}
    has_terms: ClassVar[bool] = True
    looks_around: ClassVar[bool] = True

    n_pairs: int = 500
    ridge: float = 1e-3
    draw: Drawn = "blocks"

    def __post_init__(self) -> None:
        choose("`draw`", self.draw, ("blocks", "features"))
        check_whole("n_pairs", self.n_pairs, 2)
        check_number("ridge", self.ridge, 0)

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse ablations that do nothing, and warn of more columns than there are rows to tell them apart."""
        super().check(task, settings)
        if self.without in ("SF", "NC") and settings.joint:
            raise InputError(
                f'Expected closeness="subset" for without="{self.without}" of the game, got "input", with which both '
                'terms of PNS are the same; pass closeness="subset", or solver="chain"'
            )
        if task.space.own_scales and task.space.n_features > 2 * self.n_pairs:
            warn(
                f"The {task.space.n_features:,} columns are more than the {2 * self.n_pairs:,} model rows that tell "
                'them apart, so that only those that matter most stand out; pass effort="high", or put columns that '
                "belong together into groups: space=Table(groups=...)"
            )

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """Two rows a pair."""
        return 2 * self.n_pairs

    def attribute(self, problem: Problem) -> Scores:
        """Play."""
        how = (self.n_pairs, self.ridge, self.draw, self.without)
        return play(problem.task, problem.batch, problem.settings, *how)


def play(
    task: Task, block: InputBatch, settings: Settings, n_pairs: int, ridge: float, draw: Drawn, without: Without
) -> Scores:
    """Score every feature by its Banzhaf value in the game of PNS.

    A regression on hundreds of pixels is too noisy for the few evaluations there are. On a fine grid the subsets are
    therefore drawn coarsely, in blocks at random offsets, and the scores are regressed finely, under the prior that
    neighbours score alike: a Gaussian process whose length is half a block.
    """
    blocks = task.space.blocks() if draw == "blocks" else None
    subset, hit = (_bits(task, block, blocks, what, p, n_pairs) for what, p in (("subset", 0.5), ("hit", settings.phi)))
    hit &= block.pool.units.present[:, None]
    sides = torch.cat([hit & subset, hit & ~subset])  # (2 B, M, F)
    sample, closeness, share = _samples(block, subset, settings, without)  # (B, M) each
    index = block.pool.index.gather(1, sample)
    keys = torch.cat([block.keys("game/subset/row"), block.keys("game/rest/row")])
    owner = torch.arange(len(index)).repeat(2)
    jobs = Jobs(owner, index.repeat(2, 1), sides[:, 0], block.target.repeat(2), keys, keys)
    change, n_rows = run(task, block.pool, jobs, Ways(1, _lookup(sides)), settings.change)
    changed = _changed(torch.cat(change[..., 0].chunk(2), 1), block)  # (B, 2 M)
    y = closeness * _contrast(changed[:, :n_pairs], changed[:, n_pairs:], share, without)
    observed = Observed(sides[: len(index)], sides[len(index) :], y, sample, block.pool.index.shape[1])
    scores, se = fit(observed, ridge) if blocks is None else smooth_fit(observed, blocks)
    return Scores(settings.phi * scores, settings.phi * se, n_rows.view(2, -1).sum(0))


def _bits(task: Task, block: InputBatch, blocks: Blocks | None, what: str, p: float, n_pairs: int) -> Tensor:
    """Return `(B, M, F)` Bernoulli draws, one for each feature or for each block of them."""
    n_inputs = len(block.target)
    keys, place = block.keys(f"game/{what}").repeat_interleave(n_pairs), torch.arange(n_pairs).repeat(n_inputs)
    offset = None
    if blocks is not None:  # a subset and what is hit of it lie on one grid
        offset = draws.integers(block.keys("game/offset")[:, None], torch.arange(2 * n_pairs), blocks.side).view(-1, 2)
    drawn = draw_features(task, keys, place, p, blocks=blocks is not None, offset=offset)
    return drawn.view(n_inputs, n_pairs, -1)


@dataclass(frozen=True)
class Observed:
    """What M pairs of each of B inputs showed.

    Attributes:
        of_subset, of_rest: `(B, M, F)` which features were hit on either side.
        y: `(B, M)` how much more the one changed the prediction than the other.
        sample: `(B, M)` which of the samples was perturbed.
        n_samples: how many samples there are.
    """

    of_subset: Tensor
    of_rest: Tensor
    y: Tensor
    sample: Tensor
    n_samples: int

    def design(self) -> Tensor:
        """Return `(B, M, F)`: 1 for a feature hit with the subset, -1 with the rest."""
        return draws.numbers(self.of_subset, torch.float64) - draws.numbers(self.of_rest, torch.float64)


def _contrast(by_subset: Tensor, by_rest: Tensor, share: Tensor, without: Without) -> Tensor:
    """Return how the value of a subset differs from its complement's, per closeness `(B, M)`.

    A term of PNS is its weight times "changed by the subset and not by the rest"; the `share` of the closeness that
    is on the subset weighs the necessity term, the other the sufficiency term, and for the complement they change
    places. Both terms together are just the difference of the changes.
    """
    if without in (None, "SR"):
        return by_subset - by_rest
    kept = share if without == "SF" else 1 - share
    return kept * by_subset * (1 - by_rest) - (1 - kept) * by_rest * (1 - by_subset)


def _samples(block: InputBatch, subset: Tensor, settings: Settings, without: Without) -> tuple[Tensor, Tensor, Tensor]:
    """Draw one sample a pair in proportion to its closeness on the subset `(B, M, F)` or outside it.

    One input at a time, in single precision, so that the closeness of all its pairs and samples stays in the cache.

    Returns:
        The sample's place in the input's reference set, the mean closeness of all samples, and the share of the drawn
        one's closeness that is on the subset, `(B, M)` each.
    """
    n_pairs, n_samples = subset.shape[1], block.pool.index.shape[1]
    u = draws.uniform(block.keys("game/sample")[:, None], torch.arange(n_pairs))
    half = torch.full_like(u, 0.5)
    if without == "SR":  # no sampling by closeness: every sample counts alike
        return (u * n_samples).long(), torch.ones_like(u), half
    if settings.joint:
        cumulative = _closeness(block, settings).cumsum(1)
        return torch.searchsorted(cumulative, u * cumulative[:, -1:]).clamp(max=n_samples - 1), torch.ones_like(u), half
    places, means, shares = [], [], []
    for i in range(len(subset)):
        on_subset, on_rest = _pair_closeness(block, i, subset[i], settings)
        near = (on_subset + on_rest) / 2
        cumulative = near.cumsum(1)  # (M, S)
        drawn = torch.searchsorted(cumulative, (u[i, :, None] * cumulative[:, -1:]).float())
        places.append(drawn[:, 0].clamp(max=n_samples - 1))
        means.append(cumulative[:, -1].double() / n_samples)
        part, whole = (side.gather(1, places[-1][:, None])[:, 0] for side in (on_subset, near))
        shares.append((part / (2 * whole)).nan_to_num(0.5).double())
    return torch.stack(places), torch.stack(means), torch.stack(shares)


def _closeness(block: InputBatch, settings: Settings) -> Tensor:
    """Return `k_b` of the distance on all features of every sample of each input, `(B, S)`."""
    units = block.pool.units
    everything = units.present.expand(len(block.distances), -1)
    squared = subset_distance(block.distances, everything, units.size, settings.distance)
    return KERNELS[settings.kernel](squared, block.radius[:, None]).double()


def _lookup(hits: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the hits `(B, M, F)` as the function of (job, place) that `run` asks."""
    return lambda job, place: hits[job, place]


def _pair_closeness(block: InputBatch, i: int, subset: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Return `k_b(D_s)` and `k_b(D_not-s)` of every sample for every subset of one input, `(M, S)` each."""
    kernel, units = KERNELS[settings.kernel], block.pool.units
    sizes = units.size if units.shared else units.size[i : i + 1]
    distances, radius = block.distances[i : i + 1].float(), block.radius[i].float()
    on_subset, on_rest = (
        kernel(subset_distance(distances, side & (sizes > 0), sizes, settings.distance), radius)
        for side in (subset, ~subset)
    )
    return on_subset, on_rest


def _changed(change: Tensor, block: InputBatch) -> Tensor:
    """Say how much each change `(B, N)` counts as one.

    0 or 1 by a tolerance that the user gave; else its mean over all tolerances just below each change that is worth
    looking at, a fiftieth of the largest or more: the share of those changes that are no larger.
    """
    if not block.graded:
        return (change > block.tolerance[:, None]).double()
    real = change > LEAST * change.amax(1, keepdim=True)
    # The same image twice is a tie, though a module may round it otherwise in another batch.
    level = change + 1e-6 * change.amax(1, keepdim=True)
    no_larger = torch.searchsorted(change.sort(1).values, level, right=True) - (~real).sum(1, keepdim=True)
    return torch.where(real, no_larger / real.sum(1, keepdim=True), torch.zeros(())).double()


LEAST = 0.02
"""Smaller parts of the largest change are none."""


def fit(observed: Observed, ridge: float) -> tuple[Tensor, Tensor]:
    """Fit `y = design @ slopes` for each input by ridge regression; return slopes and standard errors `(B, F)`.

    The errors allow for unequal noise and for pairs that share a sample erring together, so they cover the choice of
    samples as well as the draws.
    """
    design, y = observed.design(), observed.y
    solve, n_slopes = _normal_equations(design, ridge)
    slopes = solve(y[:, None] @ design)[:, 0]
    pull = design * (y - (design @ slopes[..., None])[..., 0])[..., None]  # (B, M, F)
    by_sample = torch.zeros(len(pull), observed.n_samples, pull.shape[2], dtype=pull.dtype)
    by_sample.scatter_add_(1, observed.sample[..., None].expand_as(pull), pull)
    n = design.shape[1]
    freedom = n / (n - n_slopes).clamp(min=1).double()[:, None]
    return slopes, ((solve(by_sample) ** 2).sum(1) * freedom).sqrt()


def _normal_equations(design: Tensor, ridge: float) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return the function that solves `(X'X + penalty) b = v` for rows `v` `(B, k, F)`, and the slopes in use `(B,)`.

    With more features than draws by way of the draws, so that nothing of F x F numbers exists.
    """
    across, penalty = design.transpose(1, 2), (design**2).sum(1) * ridge + 1e-9
    n_draws, n_features = design.shape[1:]
    if n_features <= n_draws:
        inverse = torch.linalg.inv(across @ design + torch.diag_embed(penalty))
        return lambda v: v @ inverse, design.any(1).sum(1)  # of the features that exist
    scaled = design / penalty[:, None]
    core = torch.linalg.inv(scaled @ across + torch.eye(n_draws, dtype=design.dtype))

    def solve(v: Tensor) -> Tensor:
        out: Tensor = v / penalty[:, None] - v @ (scaled.transpose(1, 2) @ core) @ scaled
        return out

    return solve, n_draws - core.diagonal(dim1=1, dim2=2).sum(1)


def smooth_fit(observed: Observed, blocks: Blocks) -> tuple[Tensor, Tensor]:
    """Fit slopes that vary smoothly over the grid, one input at a time; return them and standard errors `(B, F)`.

    With a prior covariance `K = R R'` the slopes are `R w`, w the ridge regression on the columns of `Z = D R`.
    """
    down, across, kept = _smooth_columns(blocks, SMALLEST)
    slopes, errors = [], []
    for i in range(len(observed.y)):
        design = draws.numbers(observed.of_subset[i], torch.float32) - draws.numbers(
            observed.of_rest[i], torch.float32
        )  # (M, F)
        z = (
            (down.T @ design.view(-1, blocks.rows, blocks.columns) @ across).flatten(1).index_select(1, kept)
        )  # (M, columns)
        noise = NOISE * (z**2).sum(1).mean().clamp(min=1e-9)
        root = torch.linalg.cholesky((z.T @ z).double() + noise * torch.eye(len(kept)))
        weights = torch.cholesky_solve((observed.y[i] @ z.double())[:, None], root)[:, 0].float()
        residual = observed.y[i].float() - z @ weights
        # A residual's influence on the slopes runs through the same smoother.
        pulls = torch.zeros(observed.n_samples, len(kept)).index_add_(0, observed.sample[i], z * residual[:, None])
        both = torch.zeros(1 + len(pulls), down.shape[1] * across.shape[1])
        both[:, kept] = torch.cat([weights[None], torch.cholesky_solve(pulls.T, root.float()).T])
        smooth = (down @ both.view(len(both), down.shape[1], -1) @ across.T).flatten(1).double()  # (1 + S, F)
        slopes.append(smooth[0])
        errors.append((smooth[1:] ** 2).sum(0).sqrt())
    return torch.stack(slopes), torch.stack(errors)


@lru_cache(maxsize=8)
def _smooth_columns(blocks: Blocks, smallest: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return R of a grid's prior: its factors along rows and columns, and which products of their columns matter."""
    values, factors = [], []
    for covariance in blocks.prior(torch.float64):
        value, vector = torch.linalg.eigh(covariance)
        large = value > smallest * value.max()
        values.append(value[large])
        factors.append((vector[:, large] * value[large].sqrt()).float())
    products = torch.outer(*values).flatten()
    return factors[0], factors[1], (products > smallest * products.max()).nonzero()[:, 0]
