"""The chain: one order of the features whose nested subsets have a high PNS at every size. Needs gradients.

For a share q of the features let `s_q` be those with the highest `theta`. The chain maximises, on average over q,

    changed(perturb s_q) + held(perturb all but s_q),        held = 1 - changed

by gradient ascent on `theta`, one vector an input. Each row of a step takes a size, moves `theta` up or down as an
orthogonal design says, selects softly `sigmoid((theta - tau) / TEMPERATURE)` with tau such that the mean is q, replaces
what is selected (or the others) by its baseline, and asks the model. All rows of many inputs are one forward and one
backward pass. Scores fall along the order as a soft subset does: the sparsest that changes and holds the prediction.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fans import draws
from fans.explainers._shared import Scores, Without
from fans.spaces._shared import DrawnRows, Noise
from fans.task import Task
from fans.trials import Block, baselines

SMALLEST, LARGEST = 0.02, 0.9
"""Shares of the features that sizes are spread over."""
TEMPERATURE = 0.3
"""Of the soft selection, where a step moves `theta` by at most 1."""
NOISE = 0.3
"""What `theta` is moved by, up or down: an order must do well with its neighbours' places exchanged."""
FALL = 0.7
"""What of "changed" is the fall of the explained class; the rest is how much the whole prediction differs."""
SHARP = 6
"""Of the membership, `1 - (1 - theta**SHARP)**r`: how steeply it falls after the features that are in."""
ROUNDS = (1, 4, 16, 64, 256)
"""r of the memberships that are tried: the larger, the more features are in."""
TOLD, TAIL = 0.1, 0.003
"""What of a membership is that of one round, and what is `theta`."""
ENOUGH = 0.9
"""The membership is the sparsest that is worth this share of the best."""
N_DRAWN = 4
"""Baselines that a membership is tried with where they are drawn; else one."""
MOST_FITTING = 2 * len(ROUNDS) * N_DRAWN
"""Model rows that trying memberships takes at most."""
AGAINST = 0.1
"""Features that come after the neutral ones count this part of what they would before them."""
REPLICATES = 10
"""Chains of resampled rows that tell how steady the order is."""
BISECTIONS = 30
GOLDEN = 0.6180339887498949
"""Steps shift the sizes by this part of their distance, so that together they cover all."""


def climb_chain(task: Task, block: Block, n_steps: int, n_rows: int, without: Without) -> Scores:
    """Find the chain of each input of a block by `n_steps` steps of `n_rows` model rows.

    A score is a feature's share of the most that any perturbation moved the explained output: positive scores add up to
    that. They keep the chain's order, also among features that speak against the prediction, which score below 0, and
    fall along it as the membership does that is the sparsest to do what the best does (`fitting`).
    """
    n_inputs, n_features = len(block.target), task.space.n_features
    theta = torch.zeros(n_inputs, 1 + REPLICATES, n_features)
    pull = torch.zeros_like(theta)
    history = torch.zeros(n_inputs, n_steps, dtype=torch.float64)
    most = torch.zeros(n_inputs, dtype=torch.float64)
    size = max(1, task.predict.max_batch // n_rows)
    for some in torch.split(torch.arange(n_inputs), size):
        for number in range(n_steps):
            step = Step(task, block, some, theta[some, 0], number, n_rows, without)
            values, slopes, pulls, moved = step.ascend()
            history[some, number] = values.mean(1)
            most[some] = torch.maximum(most[some], moved.amax(1))
            length = 1 - number / n_steps
            counts = _resampled(block, some, number, n_rows)
            theta[some] += length * _direction(task, slopes, counts)
            pull[some] += length * (counts @ pulls)
    if task.space.signed:
        theta = from_neutral(theta, pull)
    elif task.space.blocks() is None:  # on a fine grid neighbours share what they get
        theta = theta.masked_fill(pull == 0, 0.0)
    theta = theta * block.pool.units.present.expand(n_inputs, -1)[:, None]
    shape, n_tried = fitting(task, block, theta[:, 0])
    scores = as_scores(membership(theta, shape[:, None, None]), most)
    spent = torch.full((n_inputs,), n_steps * n_rows + n_tried)
    may_join = theta[:, 0] != 0 if task.space.signed else theta[:, 0] > 0
    return Scores(scores[:, 0], scores[:, 1:].std(1), spent, history, scores[:, 1:], may_join)


def membership(theta: Tensor, r: Tensor) -> Tensor:
    """Return how much each feature is in, `(..., F)`, up to 1, in the order of `theta`; those below 0 are below 0.

    It is about the chance to be drawn once in `r` rounds. A tenth is that of one round, which tells those apart that
    are nearly sure to be drawn, and a little is `theta` itself, which tells those apart that hardly ever are.
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


def fitting(task: Task, block: Block, theta: Tensor) -> tuple[Tensor, int]:
    """Return r of the membership `(B,)` that fits each chain `(B, F)`, and the model rows of an input that it took.

    A membership is a subset with soft edges: it must change the prediction where it is perturbed by so much, and hold
    it where the rest is. Of those tried it is the sparsest that is worth nearly what the best is.
    """
    tried = torch.tensor(ROUNDS, dtype=torch.float64)
    n_drawn = N_DRAWN if isinstance(task.baseline, DrawnRows | Noise) else 1
    n_rows = 2 * len(tried) * n_drawn
    worth = []
    for some in torch.split(torch.arange(len(theta)), max(1, task.predict.max_batch // n_rows)):
        share = membership(theta[some, None], tried[:, None]).clamp(min=0)  # (n, T, F)
        both = torch.stack([share, 1 - share], 2)[:, :, :, None].expand(-1, -1, -1, n_drawn, -1)
        owner, place = some.repeat_interleave(n_rows), torch.arange(n_drawn).repeat(len(some) * 2 * len(tried))
        origin = block.own[owner, 0]
        rows = perturbed(task, block, owner, origin, both.flatten(0, 3), "chain/membership", place)
        after = task.predict(rows, fresh=True)
        value = changed(after, block.pool.outputs[origin], block.target[owner], _scale(task, block.target[owner]))
        of_set, of_rest = value.view(len(some), len(tried), 2, n_drawn).mean(3).unbind(2)
        worth.append(torch.stack([of_set - of_rest, share.sum(2)], 2))
    value, size = torch.cat(worth).unbind(2)
    good = value >= ENOUGH * value.amax(1, keepdim=True)
    return tried[size.masked_fill(~good, torch.inf).argmin(1)], n_rows


def perturbed(
    task: Task, block: Block, owner: Tensor, origin: Tensor, share: Tensor, stage: str, place: Tensor
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


def _resampled(block: Block, some: Tensor, number: int, n_rows: int) -> Tensor:
    """Return how often each row counts, `(n, 1 + REPLICATES, n_rows)`: once, then as rows drawn with replacement."""
    keys = block.keys(f"chain/{number}/resampled")[some]
    drawn = draws.integers(keys[:, None], torch.arange(REPLICATES * n_rows), n_rows).view(-1, REPLICATES, n_rows)
    counts = torch.zeros(drawn.shape).scatter_add_(2, drawn, torch.ones(()).expand(drawn.shape))
    return torch.cat([torch.ones(len(some), 1, n_rows), counts], 1)


def _direction(task: Task, slopes: Tensor, counts: Tensor) -> Tensor:
    """Return where to go `(n, R, F)`: the sum of the rows' slopes `(n, rows, F)`, smoothed, its largest entry 1."""
    total = task.space.smooth((counts @ slopes).flatten(0, 1)).view(*counts.shape[:2], -1)
    return total / total.abs().amax(2, keepdim=True).clamp(min=1e-30)


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
    """

    task: Task
    block: Block
    some: Tensor
    theta: Tensor
    number: int
    n_rows: int
    without: Without

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
        """Return the share of the features `(n * rows,)` that each row selects: evenly spread, both sides alike."""
        n_sizes = self.n_rows // 2
        place = (torch.arange(n_sizes) + (0.5 + self.number * GOLDEN) % 1) / n_sizes
        return (SMALLEST + (LARGEST - SMALLEST) * place).repeat(2 * len(self.some))

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
        rows = perturbed(task, block, owner, origin, share, "chain/row", place)
        after, before, target = task.predict.differentiable(rows), block.pool.outputs[origin], block.target[owner]
        value = changed(after, before, target, _scale(task, target))
        moved = (after - before).gather(1, target[:, None])[:, 0].abs()
        counted = {"SF": of_rest, "NC": ~of_rest}.get(self.without or "", torch.ones_like(of_rest))
        return torch.where(of_rest, 1 - value, value) * counted, moved

    def origin(self, owner: Tensor) -> Tensor:
        """Return which pool sample each row perturbs: the input itself, or without sampling by closeness any sample."""
        pool = self.block.pool
        if self.without != "SR":
            return self.block.own[owner, 0]
        keys = self.block.keys(f"chain/{self.number}/sample")[owner]
        place = torch.arange(self.n_rows // 2).repeat(2 * len(self.some))
        return pool.index[owner, draws.integers(keys, place, pool.index.shape[1])]


def select(theta: Tensor, present: Tensor, size: Tensor) -> Tensor:
    """Select the highest entries softly: `sigmoid((theta - tau) / TEMPERATURE)` `(m, F)` with a mean of `size` `(m,)`.

    tau is found by bisection, and follows `theta` in the gradient as the constraint on the mean demands.
    """
    with torch.no_grad():
        reach = 20 * TEMPERATURE
        low = theta.masked_fill(~present, torch.inf).amin(1) - reach
        high = theta.masked_fill(~present, -torch.inf).amax(1) + reach
        wanted = size * present.sum(1)
        for _ in range(BISECTIONS):
            tau = (low + high) / 2
            many = (torch.sigmoid((theta - tau[:, None]) / TEMPERATURE) * present).sum(1) > wanted
            low, high = torch.where(many, tau, low), torch.where(many, high, tau)
        tau = (low + high) / 2
        soft = torch.sigmoid((theta - tau[:, None]) / TEMPERATURE)
        weight = soft * (1 - soft) * present
        weight = weight / weight.sum(1, keepdim=True).clamp(min=1e-30)
    follows = (weight * theta).sum(1)
    return torch.sigmoid((theta - (tau + follows - follows.detach())[:, None]) / TEMPERATURE)


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
