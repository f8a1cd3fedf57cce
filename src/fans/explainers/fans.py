"""FANS: Feature Attribution with Necessity and Sufficiency (Chen et al., ICML 2024)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fans import draws
from fans.core import InputError, check_whole, choose, is_number
from fans.explainers._shared import Method, Scores
from fans.pns import KERNELS, Settings
from fans.task import Task
from fans.trials import Block, Jobs, run, subset_distance


@dataclass(frozen=True)
class FANS(Method):
    """Score each feature by its Banzhaf value in the game whose value of a subset is its PNS.

    Draw a random subset s; draw a sample by how close it is on s or outside it (the weight both terms of PNS share);
    perturb s, and separately the rest. One sample's part in PNS is then `k * P(s changes f) * P(the rest does not)`,
    and the Banzhaf value depends only on how a game differs between s and its complement, which here is
    `k * (changed by s - changed by the rest)`. So each pair of model rows is one observation of a linear regression on
    which features were hit on which side, and no pair is wasted. A feature joins a subset but is hit only with
    probability phi, so the slope times phi is the Banzhaf value. docs/design.md derives it, and says what it neglects.

    "Changed" means beyond the tolerance. Where the tolerance is searched for, PNS is averaged over the tolerances that
    tell the changes that occurred apart: a change counts by its rank among them.

    Args:
        solver: `"game"`: any black box, no gradients.
        n_pairs: random subsets drawn, two model rows each.
        ridge: penalty of the regression, as a share of its diagonal.
    """

    name: ClassVar[str] = "fans"
    label: ClassVar[str] = "FANS"
    modalities: ClassVar[tuple[str, ...]] = ("table",)
    citation: ClassVar[str] = (
        "Chen et al., Feature Attribution with Necessity and Sufficiency via Dual-stage Perturbation Test for Causal "
        "Explanation, ICML 2024"
    )

    solver: Literal["game"] = "game"
    n_pairs: int = 500
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        choose("`solver`", self.solver, ("game",))
        check_whole("n_pairs", self.n_pairs, 2)
        if not is_number(self.ridge) or not self.ridge >= 0:
            raise InputError(f"Expected `ridge` of at least 0, got {self.ridge!r}")

    @property
    def cost(self) -> int:
        """Two rows a pair."""
        return 2 * self.n_pairs

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:
        """Test random subsets against their complements and fit the additive game."""
        subset = self._bits(task, block, "game/subset", 0.5)  # (B, M, F)
        hit = self._bits(task, block, "game/hit", settings.phi)
        sample, closeness = self._samples(task, block, subset, settings)  # (B, M) each
        index = block.pool.index.gather(1, sample)
        sides = torch.cat([hit & subset, hit & ~subset])  # (2 B, M, F)
        keys = torch.cat([block.keys("game/subset/row"), block.keys("game/rest/row")])
        jobs = Jobs(index.repeat(2, 1), sides[:, 0], block.target.repeat(2), keys, keys)
        change, spent = run(task, block.pool, jobs, 1, _lookup(sides), settings.change)
        changed = _changed(torch.cat(change[..., 0].chunk(2), 1), block)  # (B, 2 M)
        y = closeness * (changed[:, : self.n_pairs] - changed[:, self.n_pairs :])
        of_subset, of_rest = sides.double().chunk(2)
        scores, se = _fit(of_subset - of_rest, y, sample, block.pool.index.shape[1], self.ridge)
        return Scores(settings.phi * scores, settings.phi * se, spent.view(2, -1).sum(0))

    def _bits(self, task: Task, block: Block, stage: str, p: float) -> Tensor:
        """Return `(B, M, F)` Bernoulli draws."""
        place = torch.arange(self.n_pairs).repeat(len(block.target))
        flat = draws.bernoulli(block.keys(stage).repeat_interleave(self.n_pairs), place, task.space.n_features, p)
        return flat.view(len(block.target), self.n_pairs, -1)

    def _samples(self, task: Task, block: Block, subset: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
        """Draw one sample a pair in proportion to its closeness on the subset `(B, M, F)` or outside it.

        One input at a time, in single precision, so that the closeness of all its pairs and samples stays in the cache.

        Returns:
            The sample's place in the input's reference set, and the mean closeness of all samples, `(B, M)` each.
        """
        u = draws.uniform(block.keys("game/sample")[:, None], torch.arange(self.n_pairs))
        places, means = [], []
        for i in range(len(subset)):
            near = _pair_closeness(task, block.distances[i].float(), subset[i], block.radius[i].float(), settings)
            cumulative = near.cumsum(1)  # (M, S)
            drawn = torch.searchsorted(cumulative, (u[i, :, None] * cumulative[:, -1:]).float())
            places.append(drawn[:, 0].clamp(max=near.shape[1] - 1))
            means.append(cumulative[:, -1].double() / near.shape[1])
        return torch.stack(places), torch.stack(means)


def _lookup(hits: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the hits `(B, M, F)` as the function of (job, place) that `run` asks."""
    return lambda job, place: hits[job, place]


def _pair_closeness(task: Task, distances: Tensor, subset: Tensor, radius: Tensor, settings: Settings) -> Tensor:
    """Return `(k_b(D_s) + k_b(D_not-s)) / 2` of every sample for every subset of one input, `(M, S)`."""
    kernel, size = KERNELS[settings.kernel], task.space.unit_size
    sides = [kernel(subset_distance(distances[None], s, size, settings.distance), radius) for s in (subset, ~subset)]
    return (sides[0] + sides[1]) / 2


def _changed(change: Tensor, block: Block) -> Tensor:
    """Say how much each change `(B, N)` counts as one.

    0 or 1 by the tolerance; or, where that is searched for, its mean over tolerances just below each change that
    exceeds the least the search tries: the share of those changes that are no larger.
    """
    if not block.search:
        return (change > block.tolerance[:, None]).double()
    least = block.search.tolerance_grid(block.tolerance, change.amax(1)).amin(1, keepdim=True)
    real = change > least
    no_larger = torch.searchsorted(change.sort(1).values, change, right=True) - (~real).sum(1, keepdim=True)
    return torch.where(real, no_larger / real.sum(1, keepdim=True), torch.zeros(())).double()


def _fit(design: Tensor, y: Tensor, sample: Tensor, n_samples: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Fit `y = design @ slopes` for each input by ridge regression; return slopes and standard errors `(B, F)`.

    The errors allow for unequal noise and for pairs that share a sample (`sample`: which one) erring together, so they
    cover the choice of samples as well as the draws.
    """
    gram = design.transpose(1, 2) @ design
    inverse = torch.linalg.inv(gram + torch.diag_embed(gram.diagonal(dim1=1, dim2=2) * ridge + 1e-9))
    slopes = (inverse @ (design.transpose(1, 2) @ y[..., None]))[..., 0]
    pull = design * (y - (design @ slopes[..., None])[..., 0])[..., None]  # (B, M, F)
    by_sample = torch.zeros(len(pull), n_samples, pull.shape[2], dtype=pull.dtype)
    by_sample.scatter_add_(1, sample[..., None].expand_as(pull), pull)
    n, n_features = design.shape[1:]
    covariance = inverse @ (by_sample.transpose(1, 2) @ by_sample) @ inverse * (n / max(n - n_features, 1))
    return slopes, covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
