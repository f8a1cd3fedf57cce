"""The chain: one order of the features whose nested subsets have a high PNS at every size. Needs gradients.

For a share q of the features let `s_q` be those with the highest `theta`. The chain maximises, on average over q,

    changed(perturb s_q) + held(perturb all but s_q),        held = 1 - changed

by gradient ascent on `theta`, one vector an input. Each row of a step takes a size, moves `theta` up or down as an
orthogonal design says, selects softly `sigmoid((theta - tau) / TEMPERATURE)` with tau such that the mean is q, replaces
what is selected (or the others) by its baseline, and asks the model. All rows of many inputs are one forward and one
backward pass; of many features the rows' slopes are levelled before they are added up (`levelled`). Scores fall along
the order as a soft subset does: the sparsest that changes and holds the prediction.

An order that is good at every size, and smooth on images, is not the best at one. So the subset is sought along a
second chain, which goes on from the first with sizes about the one that does it, and without smoothing (`sharpened`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import measure_change
from fans.engine.neighbourhood import InputBatch
from fans.engine.perturbation import baselines
from fans.errors import InputError, check_whole
from fans.methods.base import Scores, Without
from fans.methods.fans.solver import Solver
from fans.methods.fans.subset import coarse_sizes, counting, ranks
from fans.methods.problem import Problem
from fans.modalities.base import DrawnRows, Noise
from fans.task import Task

SMALLEST, LARGEST = 0.02, 0.9
"""Shares of the features that sizes are spread over."""
ABOUT = 0.3, 1.2
"""Sizes of the second chain, as shares of the one it is about."""
FEW = 64
"""Of no more features than this one order is as good at each size, and the rows of a step tell their slopes well."""
TEMPERATURE = 0.3
"""Of the soft selection, where a step moves `theta` by at most 1."""
NOISE = 0.3
"""What `theta` is moved by, up or down: an order must do well with its neighbours' places exchanged."""
FALL = 0.7
"""What of "changed" is the fall of the explained class; the rest is how much the whole prediction differs."""
SHARP = 6
"""Of the membership, `1 - (1 - theta**SHARP)**r`: how steeply it falls after the features that are in."""
ROUNDS, FURTHER = (1, 4, 16, 64, 256), (4096, 1e6)
"""r of the memberships that are tried: the larger, the more features are in. The further ones are for inputs
whose class no other changes and holds; not on fine grids, where nearly all would then be in for a noisy copy."""
LIFTED = (16, 256, 4096, 1e6, 1e30)
"""r of those that count from the lowest feature on, until all are in: for inputs whose class none of the others holds.
Not where signs mean something, nor on fine grids."""
TOLD, TAIL = 0.01, 0.003
"""What of a membership is that of one round, and what is `theta`."""
ENOUGH = 0.9
"""The membership, and the size that the second chain is about, is the sparsest that is worth this share of the best."""
N_DRAWN = 4
"""Baselines that a membership or size is tried with where they are drawn; else one."""
MOST_FITTING = 2 * len(ROUNDS + FURTHER) * N_DRAWN
"""Model rows that trying memberships takes at most."""
AGAINST = 0.1
"""Features that come after the neutral ones count this part of what they would before them."""
FLATTEST = 1e-4
"""Rows whose slope is less than this part of the steepest row's count as if it were this."""
REPLICATES = 10
"""Chains of resampled rows that tell how steady the order is."""
MOST_NEWTON, NEAR = 40, 1e-5
"""Steps that finding a threshold may take; once the share it selects is off by so little, one more makes it exact."""
GOLDEN = 0.6180339887498949
"""Steps shift the sizes by this part of their distance, so that together they cover all."""


@dataclass(frozen=True)
class Chain(Solver):
    """One order of the features, good at every size, by gradient ascent.

    Args:
        n_steps: of the ascent.
        n_rows: model rows of each step, half of them perturbing the subset and half the rest.
    """

    name: ClassVar[str] = "chain"
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {"low": {"n_rows": 16}, "high": {"n_steps": 20, "n_rows": 64}}
    needs_gradient: ClassVar[bool] = True
    has_terms: ClassVar[bool] = True
    fine: ClassVar[bool] = True

    n_steps: int = 10
    n_rows: int = 32

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)
        check_whole("n_rows", self.n_rows, 4)
        if self.n_rows % 2:
            raise InputError(f"Expected `n_rows` as an even number, half of them for either side, got {self.n_rows}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The rows of all steps, and those that find how the scores fall."""
        return self.n_steps * self.n_rows + MOST_FITTING

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """The rows of one step."""
        return self.n_rows

    def attribute(self, problem: Problem) -> Scores:
        """Climb."""
        return climb_chain(problem.task, problem.batch, self.n_steps, self.n_rows, self.without)


def climb_chain(task: Task, block: InputBatch, n_steps: int, n_rows: int, without: Without) -> Scores:
    """Find the chain of each input of a block by `n_steps` steps of `n_rows` model rows.

    A score is a feature's share of the most that any perturbation moved the explained output: positive scores add up to
    that. They keep the chain's order, also among features that speak against the prediction, which score below 0, and
    fall along it as the membership does that is the sparsest to do what the best does (`fitting`).
    """
    n_inputs, n_features = len(block.target), task.space.n_features
    climb = Climb(task, block, n_steps, n_rows, without)
    found = climb(torch.zeros(n_inputs, 1 + REPLICATES, n_features))
    theta, pull = found.theta, found.pull
    if task.space.signed:
        theta = from_neutral(theta, pull)
    elif task.space.blocks() is None:  # on a fine grid neighbours share what they get
        alike = (theta == 0).all(-1, keepdim=True)  # a single feature comes first, but has no order to climb
        theta = torch.where(pull == 0, 0.0, torch.where(alike, 1.0, theta))
    theta = theta * block.pool.units.present.expand(n_inputs, -1)[:, None]
    shape, from_lowest, n_tried = fitting(task, block, theta[:, 0])
    counted = torch.where(from_lowest[:, None, None], lifted(theta), theta)
    scores = as_scores(membership(counted, shape[:, None, None]), found.most)
    spent = torch.full((n_inputs,), n_steps * n_rows + n_tried)
    may_join = (theta[:, 0] != 0) & block.pool.units.present
    n_for = (may_join if task.space.signed else theta[:, 0] > 0).sum(1)
    sharpen = partial(sharpened, climb, theta, may_join, n_for)
    return Scores(
        *(scores[:, 0], scores[:, 1:].std(1), spent, found.history, scores[:, 1:], may_join, n_for), sharpen=sharpen
    )


def sharpened(climb: "Climb", theta: Tensor, may_join: Tensor, n_for: Tensor, most_rows: int) -> Scores | None:
    """Return the chains `(B, R, F)` taken further about the size that does it.

    None if that takes too many rows, or there are too few features for it to matter.
    """
    task, block = climb.task, climb.block
    sizes = torch.tensor(coarse_sizes(task.space.n_features))
    n_rows = climb.n_steps * climb.n_rows + 2 * len(sizes) * _n_drawn(task)
    if n_rows > most_rows or task.space.n_features <= FEW:
        return None
    first = ranks(theta[:, 0].double(), may_join)[:, None] < sizes[:, None]
    moved, _ = tried(task, block, (first & may_join[:, None]).to(theta.dtype), "chain/size")
    value = counting(moved[..., 0] - moved[..., 1], sizes, n_for)
    size = sizes[(value >= ENOUGH * value.amax(1, keepdim=True)).double().argmax(1)]
    about = torch.minimum(size, may_join.sum(1)).clamp(min=1) / block.pool.units.present.sum(1)
    found = replace(climb, about=about)(theta).theta.double()
    return Scores(found[:, 0], None, torch.full((len(theta),), n_rows), None, found[:, 1:], may_join, n_for)


@dataclass(frozen=True)
class Climbed:
    """What a climb found.

    Attributes:
        theta, pull: `(B, R, F)` the chains, and how the model pulled on each feature alone.
        history: `(B, steps)` what the rows of a step were worth.
        most: `(B,)` the most that any row moved the explained output.
    """

    theta: Tensor
    pull: Tensor
    history: Tensor
    most: Tensor


@dataclass(frozen=True)
class Climb:
    """How chains are climbed: call it with where they begin.

    Attributes:
        n_steps, n_rows: of each input.
        about: `(B,)` the share of the features that sizes are about, and nothing is smoothed; None for all sizes.
    """

    task: Task
    block: InputBatch
    n_steps: int
    n_rows: int
    without: Without
    about: Tensor | None = None

    def __call__(self, start: Tensor) -> Climbed:
        """Climb from `start` `(B, R, F)`: the first of R follows all rows, the others resampled ones."""
        n_inputs = len(start)
        theta, pull = start.clone(), torch.zeros_like(start)
        history = torch.zeros(n_inputs, self.n_steps, dtype=torch.float64)
        most = torch.zeros(n_inputs, dtype=torch.float64)
        for some in torch.split(torch.arange(n_inputs), max(1, self.task.predict.max_batch // self.n_rows)):
            for number in range(self.n_steps):
                about = None if self.about is None else self.about[some]
                step = Step(
                    *(self.task, self.block, some, theta[some, 0], number, self.n_rows, self.without), about=about
                )
                values, slopes, pulls, moved = step.ascend()
                history[some, number] = values.mean(1)
                most[some] = torch.maximum(most[some], moved.amax(1))
                length = 1 - number / self.n_steps
                counts = _resampled(self.block, some, f"{step.stage}/{number}/resampled", self.n_rows)
                theta[some] += length * self._direction(slopes, counts)
                pull[some] += length * (counts @ pulls)
        return Climbed(theta, pull, history, most)

    def _direction(self, slopes: Tensor, counts: Tensor) -> Tensor:
        """Return where to go `(n, R, F)` by the slopes of rows `(n, rows, F)` that count so often `(n, R, rows)`.

        Its largest entry is 1.
        """
        if self.about is None:
            slopes = self.task.space.smooth(slopes.flatten(0, 1)).view_as(slopes)
        if slopes.shape[2] > FEW:
            slopes = levelled(slopes)
        slopes = counts @ slopes
        return slopes / slopes.abs().amax(2, keepdim=True).clamp(min=1e-30)


def levelled(slopes: Tensor) -> Tensor:
    """Return the slopes of rows `(n, rows, F)` with the steep ones made less so: each by the root of its largest entry.

    Where a row's subset does nothing, or everything, the model is saturated and the row has hardly a slope: the rows in
    between would decide alone, and are too few to tell many features apart.
    """
    largest = slopes.abs().amax(2, keepdim=True)
    share = largest / largest.amax(1, keepdim=True).clamp(min=1e-30)
    return slopes / share.clamp(min=FLATTEST).sqrt()


def membership(theta: Tensor, r: Tensor) -> Tensor:
    """Return how much each feature is in, `(..., F)`, up to 1, in the order of `theta`; those below 0 are below 0.

    It is about the chance to be drawn once in `r` rounds. A little is that of one round, which tells those apart that
    are nearly sure to be drawn, and less is `theta` itself, which tells those apart that hardly ever are.
    """
    scaled = theta.double() / theta.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    steep = scaled.abs() ** SHARP
    drawn = -torch.expm1(r * torch.log1p(-steep))
    member = torch.where(scaled > 0, (1 - TOLD - TAIL) * drawn + TOLD * steep, -AGAINST * steep)
    return member + TAIL * scaled


def as_scores(members: Tensor, most: Tensor) -> Tensor:
    """Return scores `(B, R, F)` from memberships of that shape: positive ones add up to `most` `(B,)`."""
    total = members.clamp(min=0).sum(2, keepdim=True)
    positive = members.clamp(min=0) / torch.where(total > 0, total, 1.0)
    negative = members.clamp(max=0) / total.clamp(min=1)  # little also where nothing much is positive
    return (positive + negative) * most[:, None, None]


def lifted(theta: Tensor) -> Tensor:
    """Return chains `(..., F)` counted from their lowest feature on; what is 0 stays so."""
    low, span = theta.amin(-1, keepdim=True), theta.amax(-1, keepdim=True) - theta.amin(-1, keepdim=True)
    return torch.where(theta != 0, theta - low + 1e-3 * span, 0.0)


def fitting(task: Task, block: InputBatch, theta: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return r of the membership `(B,)` that fits each chain `(B, F)`, whether it is of the lifted one, and rows spent.

    A membership is a subset with soft edges: it must change the prediction where it is perturbed by so much, and hold
    it where the rest is.
    """
    fine = task.space.blocks() is not None
    kinds: list[tuple[Tensor, tuple[float, ...]]] = [(theta, ROUNDS if fine else ROUNDS + FURTHER)]
    if not fine and not task.space.signed:
        kinds.append((lifted(theta), LIFTED))
    shares = torch.cat([membership(chain[:, None], torch.tensor(r)[:, None]) for chain, r in kinds], 1)
    moved, switched = tried(task, block, shares.clamp(min=0), "chain/membership")
    changes, holds = switched[..., 0], 1 - switched[..., 1]
    joint = 2 * changes + 3 * holds  # both, then holding alone, then changing alone, then neither
    r, from_lowest = sparsest(moved[..., 0] - moved[..., 1], joint)
    return r, from_lowest, 2 * shares.shape[1] * _n_drawn(task)


def tried(task: Task, block: InputBatch, share: Tensor, stage: str) -> tuple[Tensor, Tensor]:
    """Perturb so much `(B, T, F)` of each feature of the inputs themselves, and then the rest.

    Returns how much the prediction changes, and how often the class does, both `(B, T, 2)`.
    """
    n_tried, n_drawn = share.shape[1], _n_drawn(task)
    n_rows = 2 * n_tried * n_drawn
    found = []
    for some in torch.split(torch.arange(len(share)), max(1, task.predict.max_batch // n_rows)):
        both = torch.stack([share[some], 1 - share[some]], 2)[:, :, :, None].expand(-1, -1, -1, n_drawn, -1)
        owner, place = some.repeat_interleave(n_rows), torch.arange(n_drawn).repeat(len(some) * 2 * n_tried)
        origin, target = block.own[owner, 0], block.target[owner]
        rows = perturbed(task, block, owner, origin, both.flatten(0, 3), stage, place)
        after = task.predict(rows, block.pool.of[origin], fresh=True)
        before = block.pool.outputs[origin]
        moved = changed(after, before, target, _scale(task, target))
        switched = measure_change(after, before, target, "label") * (task.predict.kind == "probability")
        found.append(torch.stack([moved, switched], 1).view(len(some), n_tried, 2, n_drawn, 2).mean(3))
    moved, switched = torch.cat(found).unbind(3)
    return moved, switched


def _n_drawn(task: Task) -> int:
    return N_DRAWN if isinstance(task.baseline, DrawnRows | Noise) else 1


def sparsest(value: Tensor, joint: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest r `(B,)` that is worth nearly what the best is, and whether it is a lifted chain's.

    `value` `(B, T)` is how much more the prediction changes by the members than by the rest, `joint` `(B, T)` whether
    the class is held by the members and, then, changed: only those count that are best in this. Between two of them the
    value is taken to run straight in log r, so that an input that hardly differs has scores that hardly do.
    """
    rounds, n_own = torch.tensor(ROUNDS + FURTHER + LIFTED).double(), len(ROUNDS + FURTHER)  # or fewer
    able = joint == joint.amax(1, keepdim=True)
    best = value.masked_fill(~able, -torch.inf)
    usual = best[:, : len(ROUNDS)].amax(1, keepdim=True)
    level = ENOUGH * torch.where(usual.isfinite(), usual, best.amax(1, keepdim=True))
    good = able & (value >= level)
    first = torch.where(good.any(1), good.double().argmax(1), able.double().argmax(1))[:, None]
    before = (first - 1).clamp(min=0)
    low, high = value.gather(1, before), value.gather(1, first)
    between = (first > 0) & (first != n_own) & able.gather(1, before) & (low < level) & (level <= high)
    part = torch.where(between, (level - low) / (high - low), 1.0)
    return torch.lerp(rounds.log()[before], rounds.log()[first], part)[:, 0].exp(), first[:, 0] >= n_own


def perturbed(
    task: Task, block: InputBatch, owner: Tensor, origin: Tensor, share: Tensor, stage: str, place: Tensor
) -> Tensor:
    """Return rows `(m, E)`: pool samples `origin` `(m,)` with such a share `(m, F)` of their features missing.

    `owner` `(m,)` says whose features these are, `stage` and `place` `(m,)` which draw of the baseline is meant.
    """
    missing = baselines(task, block.pool, block.keys(stage)[owner], place, origin)
    x = block.pool.pool[origin]
    return torch.lerp(x, missing.expand_as(x), block.pool.units.spread(share, owner).to(x.dtype))


def from_neutral(theta: Tensor, pull: Tensor) -> Tensor:
    """Return chains `(..., F)` shifted so that features above 0 are for the prediction, those below against it.

    A selection does not change if all of `theta` rises, so its own 0, about the mean of all features, means little
    where there are few. What the model says of more of a feature does: the order is cut where the fewest stand on the
    wrong side. Who has no pull at all is not read: 0.
    """
    read = pull != 0
    high, order = theta.masked_fill(~read, -torch.inf).sort(dim=-1, descending=True, stable=True)
    favours = pull.gather(-1, order).sign()
    # So many stand right if the first 0, 1, ..., F are taken to be for it.
    right = torch.nn.functional.pad(favours.cumsum(-1), (1, 0))
    n_for, n_read = right.argmax(-1, keepdim=True), read.sum(-1, keepdim=True)
    last = high.gather(-1, (n_read - 1).clamp(min=0))
    gap = ((high[..., :1] - last) / (n_read - 1).clamp(min=1)).clamp(min=1e-3)
    above = torch.where(n_for > 0, high.gather(-1, (n_for - 1).clamp(min=0)), high[..., :1] + 2 * gap)
    below = torch.where(n_for < n_read, high.gather(-1, n_for.clamp(max=high.shape[-1] - 1)), last - 2 * gap)
    return torch.where(read, theta - (above + below) / 2, 0.0)


def _resampled(block: InputBatch, some: Tensor, stage: str, n_rows: int) -> Tensor:
    """Return how often each row counts, `(n, 1 + REPLICATES, n_rows)`: once, then as rows drawn with replacement."""
    keys = block.keys(stage)[some]
    drawn = draws.integers(keys[:, None], torch.arange(REPLICATES * n_rows), n_rows).view(-1, REPLICATES, n_rows)
    counts = torch.zeros(drawn.shape).scatter_add_(2, drawn, torch.ones(()).expand(drawn.shape))
    return torch.cat([torch.ones(len(some), 1, n_rows), counts], 1)


@dataclass(frozen=True)
class Step:
    """The rows of one step for some inputs.

    Attributes:
        some: `(n,)` which inputs of the block.
        theta: `(n, F)` their chains so far.
        number: of the step.
        n_rows: of each input, half of them perturbing the subset, half the rest.
        without: an ablation: without `"SF"` only "held" counts, without `"NC"` only "changed", without `"SR"` rows
            start from any reference sample, however far away, and not from the input.
        about: `(n,)` the share of the features that sizes are about, if it is not all.
    """

    task: Task
    block: InputBatch
    some: Tensor
    theta: Tensor
    number: int
    n_rows: int
    without: Without
    about: Tensor | None = None

    @property
    def stage(self) -> str:
        """What names its draws."""
        return "chain" if self.about is None else "chain/about"

    def ascend(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what each row is worth `(n, rows)`, its gradient, the pull on each feature, how far the output moved.

        The gradient `(n, rows, F)` is that of an order, where more of one feature is less of others; the pull is that
        of more of the one alone.
        """
        with torch.enable_grad():
            noisy = (self.theta[:, None] + self.noise()).flatten(0, 1).requires_grad_()
            selected = self.selected(noisy)
            worth, moved = self.worth(selected)
            slopes, pulls = torch.autograd.grad(worth.sum(), (noisy, selected))
        pulls = pulls * selected.detach() * (1 - selected.detach()) / TEMPERATURE
        shape = (len(self.some), self.n_rows)
        slopes, pulls = (part.nan_to_num().view(*shape, -1) for part in (slopes, pulls))
        return worth.detach().view(shape), slopes, pulls, moved.detach().view(shape)

    def sizes(self) -> Tensor:
        """Return the share of the features `(n * rows,)` that each row selects: evenly spread, both sides alike.

        About one size they grow by equal factors.
        """
        n_sizes = self.n_rows // 2
        place = (torch.arange(n_sizes) + (0.5 + self.number * GOLDEN) % 1) / n_sizes
        if self.about is None:
            return (SMALLEST + (LARGEST - SMALLEST) * place).repeat(2 * len(self.some))
        low, high = ABOUT
        return (self.about[:, None] * low * (high / low) ** place).clamp(max=LARGEST).repeat(1, 2).flatten()

    def noise(self) -> Tensor:
        """Return what `theta` is moved by `(rows, F)`, the same on both sides: Walsh functions of the features' places.

        All rows of all steps together are an orthogonal design: every feature is up in half of them, two features
        are up together in a quarter. Drawn noise serves as well, but another seed would have another order.
        """
        n_sizes, n_features = self.n_rows // 2, self.theta.shape[1]
        stride = next(k for k in range(max(1, n_sizes // 3), n_sizes + 1) if math.gcd(k, n_sizes) == 1)
        shuffled = (torch.arange(n_sizes) * stride + self.number * 3) % n_sizes  # sizes meet low and high ones alike
        common = torch.arange(1, n_features + 1) & (1 + self.number * n_sizes + shuffled)[:, None]
        odd = torch.zeros_like(common)
        while common.any():
            odd, common = odd ^ (common & 1), common >> 1
        return NOISE * (1 - 2 * odd).to(self.theta.dtype).repeat(2, 1)

    def selected(self, noisy: Tensor) -> Tensor:
        """Return how much of each feature rows with the chains `noisy` `(n * rows, F)` select."""
        present = self.block.pool.units.present.expand(len(self.block.target), -1)
        return select(noisy, present[self.some.repeat_interleave(self.n_rows)], self.sizes())

    def worth(self, selected: Tensor) -> tuple[Tensor, Tensor]:
        """Return what rows that select so much `(n * rows, F)` are worth, and how far they move the output."""
        task, block = self.task, self.block
        owner = self.some.repeat_interleave(self.n_rows)
        of_rest = torch.arange(self.n_rows).repeat(len(self.some)) >= self.n_rows // 2
        share = torch.where(of_rest[:, None], 1 - selected, selected)
        origin = self.origin(owner)
        place = (torch.arange(self.n_rows // 2) // 2 + self.number * self.n_rows).repeat(2 * len(self.some))
        rows = perturbed(task, block, owner, origin, share, f"{self.stage}/row", place)
        after = task.predict.differentiable(rows, block.pool.of[origin])
        before, target = block.pool.outputs[origin], block.target[owner]
        value = changed(after, before, target, _scale(task, target))
        moved = (after - before).gather(1, target[:, None])[:, 0].abs()
        counted = {"SF": of_rest, "NC": ~of_rest}.get(self.without or "", torch.ones_like(of_rest))
        return torch.where(of_rest, 1 - value, value) * counted, moved

    def origin(self, owner: Tensor) -> Tensor:
        """Return which pool sample each row perturbs: the input itself, or without sampling by closeness any sample."""
        pool = self.block.pool
        if self.without != "SR":
            return self.block.own[owner, 0]
        keys = self.block.keys(f"{self.stage}/{self.number}/sample")[owner]
        place = torch.arange(self.n_rows // 2).repeat(2 * len(self.some))
        return pool.index[owner, draws.integers(keys, place, pool.index.shape[1])]


def select(theta: Tensor, present: Tensor, size: Tensor) -> Tensor:
    """Select the highest entries softly: `sigmoid((theta - tau) / TEMPERATURE)` `(m, F)` with a mean of `size` `(m,)`.

    tau follows `theta` in the gradient as the constraint on the mean demands.
    """
    with torch.no_grad():
        tau = _threshold(theta, present, size)
        soft = torch.sigmoid((theta - tau[:, None]) / TEMPERATURE)
        weight = soft * (1 - soft) * present
        weight = weight / weight.sum(1, keepdim=True).clamp(min=1e-30)
    follows = (weight * theta).sum(1)
    return torch.sigmoid((theta - (tau + follows - follows.detach())[:, None]) / TEMPERATURE)


def _threshold(theta: Tensor, present: Tensor, size: Tensor) -> Tensor:
    """Return tau `(m,)` such that the mean of `sigmoid((theta - tau) / TEMPERATURE)` over those present is `size`.

    Newton's method on the logit of the mean, which is nearly straight in tau, held between bounds. A row that is found
    stays as it is, so that it does not matter which others are asked with it.
    """
    count = present.sum(1)
    low = theta.masked_fill(~present, torch.inf).amin(1) - 20 * TEMPERATURE
    high = theta.masked_fill(~present, -torch.inf).amax(1) + 20 * TEMPERATURE
    mean = (theta * present).sum(1) / count
    spread = ((theta - mean[:, None]) ** 2 * present).sum(1) / count
    size = size.to(theta.dtype)
    goal = torch.logit(size)
    tau = mean - (TEMPERATURE**2 + 3 * spread / math.pi**2).sqrt() * goal  # exact if theta were logistic
    sought = torch.ones_like(tau, dtype=torch.bool)
    for _ in range(MOST_NEWTON):
        soft = torch.sigmoid((theta - tau[:, None]) / TEMPERATURE) * present
        share, squares = soft.sum(1) / count, (soft * soft).sum(1) / count
        many = share > size
        low, high = torch.where(many, tau, low), torch.where(many, high, tau)
        better = tau + TEMPERATURE * (torch.logit(share) - goal) * share * (1 - share) / (share - squares)
        better = torch.where((better >= low) & (better <= high), better, (low + high) / 2)
        tau = torch.where(sought, better, tau)
        sought = sought & ((share - size).abs() > NEAR)
        if not sought.any():
            break
    return tau


def changed(after: Tensor, before: Tensor, target: Tensor, scale: Tensor | None) -> Tensor:
    """Return how much predictions `(m, C)` differ, `(m,)`: about 0 for not at all, 1 for entirely.

    Of probabilities: the share of the explained class's that is gone, and `1 - exp(-KL)` of all of them. Falls alone
    would pass over what holds a class down, differences alone would take it for what holds it up. Of other outputs:
    `1 - exp(-|difference| / scale)`.
    """
    p, p0 = (out.gather(1, target[:, None])[:, 0] for out in (after, before))
    if scale is not None:
        return 1 - torch.exp(-(p - p0).abs() / scale)
    fall = (p0 - p) / p0.clamp(min=1e-3)
    divergence = (before * (before.clamp(min=1e-12).log() - after.clamp(min=1e-12).log())).sum(1)
    return FALL * fall + (1 - FALL) * (1 - torch.exp(-divergence))


def _scale(task: Task, target: Tensor) -> Tensor | None:
    """Return the standard deviation over the background of the explained outputs `(m,)`; None for probabilities."""
    if task.predict.kind == "probability":
        return None
    spread = task.outputs.std(0, correction=0)
    return torch.where(spread > 0, spread, 1.0)[target]
