"""Walks: replace features one after the other by another row's, and see what each step does. No gradients.

A walk takes a row that stands for what is missing, and the features in a random order, cut into blocks. In each block
it starts from the input and replaces the block's features one by one: F model rows give one step of every feature, with
none to all others of its block already replaced. A score is the mean size of a feature's steps. So it needs no
tolerance, and a feature that the model does not read scores exactly 0. The first step of each block replaces a feature
alone: the mean of those, with their signs, is its direction.

Small blocks ask what a feature does near the input, one block of all what it does anywhere between the input and the
other rows. All inputs take the same walks, whatever the seed, so that scores differ by the inputs alone.

The subset with the highest PNS, for who asks for it, is sought among those features first whose steps lead away from
the model's output on the input: what draws it back keeps others from changing the prediction.

Of sparse rows the steps' signs are kept as well: in one block of all their mean is the feature's Shapley value, and its
order the better one where many features do a little each (`sharper`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import Change, measure_change
from fans.engine.neighbourhood import InputBatch
from fans.engine.perturbation import baselines
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole, is_number
from fans.methods.base import Scores
from fans.methods.fans.solver import Solver
from fans.methods.fans.subset import FAIR, N_REPLICATES, even_share
from fans.methods.problem import Problem
from fans.methods.rivals import check_number
from fans.modalities.base import DrawnRows
from fans.task import Task

ROUNDS = 4
"""After each an input stops whose subset is settled."""
FEWEST = 8
"""Walks of a round, however many features there are."""
SURE = 3.0
"""A subset is settled where every feature is so many standard errors from the share that decides."""
ROUNDING = 1e-12
"""Of an output: a smaller step is none."""


WIDE = 2
"""Walks through all features are too long where they take more than this times the rows they may."""

LEAST, MOST = 50, 400
"""Model rows of all walks, in walks a column: few columns have cheap walks, and many need a bound."""


def rows_for(n_features: int, walks_a_column: float) -> int:
    """Return the model rows that all walks may take, in proportion to the columns: each has a smaller share of more."""
    return round(walks_a_column * min(max(n_features**2, LEAST), MOST))


def walks_a_round(n_features: int, most_rows: int) -> int:
    """Return how many walks there are before each look."""
    return max(FEWEST, most_rows // (n_features * ROUNDS))


def rows_of_walks(n_features: int, most_rows: int) -> int:
    """Return the model rows that all walks take."""
    return ROUNDS * n_features * walks_a_round(n_features, most_rows)


@dataclass(frozen=True)
class Walks(Solver):
    """Replace features one by one by another row's, in random orders; a score is the mean size of a feature's steps.

    Args:
        walks_a_column: how many there are for each column; of few columns more, of more than twenty fewer.
        n_walk_rows: model rows at most, in place of that. Fewer where the subset is settled sooner.
        reach: share of the features that are replaced together at most. 1 asks what a feature does anywhere between the
            input and other rows, less what it does near the input. By default 0.4, of sparse rows 1.
    """

    name: ClassVar[str] = "walks"
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "low": {"walks_a_column": 2.5},
        "high": {"walks_a_column": 40.0},
    }
    shares: ClassVar[bool] = True

    walks_a_column: float = 10.0
    n_walk_rows: int | None = None
    reach: float | None = None

    def __post_init__(self) -> None:
        if self.n_walk_rows is not None:
            check_whole("n_walk_rows", self.n_walk_rows, 1)
        check_number("walks_a_column", self.walks_a_column, 0, above=True)
        if self.reach is not None and (not is_number(self.reach) or not 0 < float(self.reach) <= 1):
            raise InputError(f"Expected `reach` above 0 and up to 1, got {self.reach!r}")

    def settle(self, task: Task, settings: Settings) -> "Walks":  # noqa: ARG002
        """Choose how far walks go."""
        return self if self.reach is not None else replace(self, reach=task.space.reach)

    def most_rows(self, n_features: int) -> int:
        """Return the model rows that walks may take."""
        return self.n_walk_rows or rows_for(n_features, self.walks_a_column)

    def too_long(self, n_features: int) -> bool:
        """Tell whether walks through so many features take far more than they may."""
        most = self.most_rows(n_features)
        return rows_of_walks(n_features, most) > WIDE * most

    def cost(self, n_features: int) -> int:
        """The rows of all walks."""
        return rows_of_walks(n_features, self.most_rows(n_features))

    def attribute(self, problem: Problem) -> Scores:
        """Walk."""
        assert self.reach is not None  # settled
        most_rows = self.most_rows(problem.n_features)
        return walk(problem.task, problem.batch, problem.settings.change, most_rows, self.reach)


def walk(task: Task, block: InputBatch, change: Change, most_rows: int, reach: float) -> Scores:
    """Score every feature of each input by walks of about `most_rows` model rows in all.

    Args:
        task: what is explained.
        block: its inputs.
        change: how a step is measured.
        most_rows: of each input; fewer are spent where the subset is settled sooner, more if they are too few for walks
            through all features.
        reach: share of the features that make a block.
    """
    n_inputs, n_features = len(block.target), task.space.n_features
    a_round = walks_a_round(n_features, most_rows)
    route = Route.over(n_features, a_round, reach)
    steps = torch.zeros(n_inputs, ROUNDS * a_round, n_features, dtype=torch.float64)
    away, signed = torch.zeros_like(steps), torch.zeros_like(steps) if task.space.sparse else None
    alone = torch.zeros(n_inputs, n_features, dtype=torch.float64)
    moving, spent = torch.zeros(n_inputs, dtype=torch.float64), torch.zeros(n_inputs, dtype=torch.int64)
    walked = torch.zeros(n_inputs, dtype=torch.int64)
    going = torch.arange(n_inputs)
    walker = Walker(task, block, route, change, block.own[:, 0], task.outputs.argsort(dim=0, stable=True))
    for number in range(ROUNDS):
        walks = torch.arange(number * a_round, (number + 1) * a_round)
        pairs = torch.cartesian_prod(going, walks)
        for some in torch.split(pairs, max(1, task.predict.max_batch // n_features)):
            owner, which = some.unbind(1)
            found = walker.walk(owner, which)
            steps[owner, which], away[owner, which] = found.sizes, found.away
            if signed is not None:
                signed[owner, which] = found.signed
            alone.index_add_(0, owner, found.signed * route.first[which])
            moving.index_add_(0, owner, found.moved)
            spent.index_add_(0, owner, found.n_rows)
        walked[going] += a_round
        going = going[~settled(steps[going, : walks[-1] + 1])]
        if not len(going):
            break
    counts = _resampled(block, walked, steps.shape[1])
    n = walked[:, None].double()
    scores = steps.sum(1) / n  # walks that were not taken are 0
    scored = Scores(
        scores,
        _errors(steps, scores, walked, walker.donors()),
        spent,
        replicates=counts @ steps / n[:, None],
        may_join=scores > 0,
        direction=alone / route.first.cumsum(0)[walked - 1],
        moving=moving / walked,
        order=away.sum(1) / n,
        orders=counts @ away / n[:, None],
    )
    if signed is None:
        return scored
    falls, resampled = -signed.sum(1) / n, -(counts @ signed) / n[:, None]
    return replace(scored, direction=None, sharpen=lambda _: sharper(scored, falls, resampled))


def sharper(scored: Scores, falls: Tensor, resampled: Tensor) -> Scores:
    """Return scores by how much the output falls `(B, F)` when a feature is replaced: what holds it comes first.

    Where the output would rise if all were replaced, it is held down: what does that comes first. `resampled`
    `(B, N_REPLICATES, F)` are falls of resampled walks.
    """
    way = torch.where(falls.sum(1, keepdim=True) < 0, -1.0, 1.0).double()
    scores = falls * way
    return Scores(
        scores,
        None,
        torch.zeros_like(scored.n_rows),
        replicates=resampled * way[:, None],
        may_join=scored.may_join,
        n_for=(scores > 0).sum(1),
    )


def _errors(steps: Tensor, scores: Tensor, walked: Tensor, donor: Tensor) -> Tensor:
    """Return the standard errors `(B, F)` of mean steps, for the population that the other rows are from.

    Walks with one `donor` `(W,)`, a place among the background's rows, are not independent of each other: the spread is
    that of the donors' sums.
    """
    done = (torch.arange(steps.shape[1]) < walked[:, None])[..., None]
    apart = torch.where(done, steps - scores[:, None], 0.0)
    _, which = torch.unique(donor, return_inverse=True)
    n_donors = int(which.max()) + 1
    sums = apart.new_zeros(len(apart), n_donors, apart.shape[2]).index_add_(1, which, apart)
    used = torch.tensor([which[:n].unique().numel() for n in walked.tolist()]).double()[:, None]
    return (sums.square().sum(1) * used / (used - 1).clamp(min=1)).sqrt() / walked[:, None]


def settled(steps: Tensor) -> Tensor:
    """Tell of which inputs `(n,)` the walks so far, `(n, W, F)`, leave no doubt who has a fair share."""
    lead = steps - FAIR * even_share(steps.shape[2]) * steps.sum(2, keepdim=True)
    error = lead.std(1) / math.sqrt(steps.shape[1])
    return (lead.mean(1).abs() > SURE * error).all(1)


@dataclass(frozen=True)
class Route:
    """Where walks go, the same for all inputs and seeds.

    Attributes:
        order: `(W, F)` the feature at each place.
        place: `(W, F)` the place of each feature.
        part: `(W,)` which part of the background, sorted by the model's output, the other row is from.
        side: features of a block.
    """

    order: Tensor
    place: Tensor
    part: Tensor
    side: int

    @property
    def first(self) -> Tensor:
        """`(W, F)` whether each feature is the first of its block."""
        return (self.place % self.side == 0).double()

    @classmethod
    def over(cls, n_features: int, a_round: int, reach: float, design: int = 0) -> "Route":
        """Draw orders, and parts such that those of each round are spread evenly; others for another `design`."""
        n_walks = ROUNDS * a_round
        names = (f"walk/{what}" for what in ("order", "stratum", "part"))
        orders, strata, within = (draws.stream_keys(design, [0], name) for name in names)
        order = draws.uniform(orders, torch.arange(n_walks * n_features)).view(n_walks, n_features).argsort(1)
        stratum = draws.uniform(strata, torch.arange(n_walks)).view(ROUNDS, a_round).argsort(1)
        finer = draws.uniform(within, torch.arange(n_walks)).view(ROUNDS, a_round).argsort(0).gather(1, stratum)
        part = (stratum + (finer + 0.5) / ROUNDS).flatten() / a_round
        return cls(order, order.argsort(1), part, max(1, math.ceil(reach * n_features)))


@dataclass(frozen=True)
class Steps:
    """What some walks showed, `n` of them.

    Attributes:
        sizes: `(n, F)` how far replacing each feature moved the output.
        signed: `(n, F)` how far replacing each feature moved the explained output, with its sign.
        away: `(n, F)` how much farther from the input's the output then was, 0 where it was nearer.
        moved: `(n,)` whether any of the walk's rows, or the other row itself, changes the prediction.
        n_rows: `(n,)` model rows.
    """

    sizes: Tensor
    signed: Tensor
    away: Tensor
    moved: Tensor
    n_rows: Tensor


@dataclass(frozen=True)
class Walker:
    """Takes walks of a block's inputs.

    Attributes:
        own: `(B,)` where each input is in the pool.
        by_output: `(n, C)` the background's rows in the order of each output.
    """

    task: Task
    block: InputBatch
    route: Route
    change: Change
    own: Tensor
    by_output: Tensor

    def donors(self) -> Tensor:
        """Return a place `(W,)` for each walk, the same where it takes the same row of the background."""
        if not isinstance(self.task.baseline, DrawnRows):
            return torch.arange(len(self.route.part))
        return (self.route.part * len(self.task.background)).long()

    def walk(self, owner: Tensor, which: Tensor) -> Steps:
        """Take the walks `which` `(n,)` of the inputs `owner` `(n,)`.

        A feature that is what it is replaced by takes no step and costs no row.
        """
        route, pool, target = self.route, self.block.pool, self.block.target[owner]
        x, start = pool.pool[self.own[owner]], pool.outputs[self.own[owner]]
        other, at_end = self._others(owner, which)
        differs = pool.units.at(owner).collect((other != x).double()[:, None])[:, 0] > 0
        # Each model row is of one walk, and has one more place replaced than the one before it.
        trip, place = differs.gather(1, route.order[which]).nonzero(as_tuple=True)
        after = self._outputs(owner, which, trip, place, x, other)
        goes_on = torch.zeros(len(trip), dtype=torch.bool)
        goes_on[1:] = (trip[1:] == trip[:-1]) & (place[1:] // route.side == place[:-1] // route.side)
        before = torch.where(goes_on[:, None], after.roll(1, 0), start[trip])
        real = (after - before).abs().amax(1) > ROUNDING * after.abs().amax(1)
        feature = route.order[which[trip], place]

        def by_feature(values: Tensor) -> Tensor:
            out = torch.zeros(len(owner), self.task.space.n_features, dtype=torch.float64)
            return out.index_put_((trip, feature), values * real)

        reached, from_start = (measure_change(each, start[trip], target[trip], self.change) for each in (after, before))
        far = torch.zeros(len(owner), dtype=torch.float64).scatter_reduce_(0, trip, reached, "amax")
        if at_end is not None:
            far = torch.maximum(far, measure_change(at_end, start, target, self.change))
        moved = (far > self.block.tolerance[owner]).double()
        return Steps(
            by_feature(measure_change(after, before, target[trip], self.change)),
            by_feature((after - before).gather(1, target[trip, None])[:, 0]),
            by_feature((reached - from_start).clamp(min=0)),
            moved,
            torch.bincount(trip, minlength=len(owner)),
        )

    def _outputs(self, owner: Tensor, which: Tensor, trip: Tensor, place: Tensor, x: Tensor, other: Tensor) -> Tensor:
        """Return what the model says `(m, C)` where the walks `trip` `(m,)` have replaced all up to `place`."""
        units, found = self.block.pool.units, [self.task.outputs.new_zeros(0, self.task.outputs.shape[1])]
        for some in torch.split(torch.arange(len(trip)), self.task.predict.max_batch) if len(trip) else ():
            of, last = trip[some], place[some, None]
            at = self.route.place[which[of]]
            replaced = (at <= last) & (at >= last - last % self.route.side)
            rows = torch.where(units.spread(replaced, owner[of]), other[of], x[of])
            found.append(self.task.predict(rows, self.block.pool.of[self.own[owner[of]]], fresh=True))
        return torch.cat(found)

    def _others(self, owner: Tensor, which: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the row `(n, E)` that each walk takes features from, and the model's output on it, where it is known.

        Background rows are spread over what the model says of them, in the explained output.
        """
        task, block = self.task, self.block
        if isinstance(task.baseline, DrawnRows):
            rows = self.by_output[self.donors()[which], block.target[owner]]
            return task.background[rows], task.outputs[rows]
        missing = baselines(task, block.pool, block.keys("walk/baseline")[owner], which, self.own[owner])
        return missing.expand(len(owner), -1), None


def _resampled(block: InputBatch, walked: Tensor, n_walks: int) -> Tensor:
    """Return how often each walk counts, `(B, N_REPLICATES, W)`: drawn with replacement among those taken."""
    keys = block.keys("walk/resampled")[:, None]
    place = torch.arange(N_REPLICATES * n_walks)
    drawn = draws.integers(keys, place, walked[:, None]).view(-1, N_REPLICATES, n_walks)
    kept = (torch.arange(n_walks) < walked[:, None, None]).expand(drawn.shape)
    return torch.zeros(drawn.shape, dtype=torch.float64).scatter_add_(2, drawn, kept.double())
