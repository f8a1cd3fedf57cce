"""The paper's own solver (Section 4.7): relax the subset to [0, 1] and climb the gradient of PNS.

Batched over inputs: at every step all perturbed samples of many inputs are one forward and one backward pass. Only the
gradient with respect to the subset is computed, and at most `max_batch` rows have their activations in memory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fans import draws
from fans.core import InputError, check_whole, choose, is_number
from fans.explainers._shared import Drawn, Scores, Without
from fans.pns import KERNELS, Moments, Settings, event_probability, measure_change
from fans.task import Task
from fans.trials import Block, Jobs, baselines, draw_features, perturbed_changes

Objective = Literal["pns", "sum"]
Relaxed = Literal["strict", "paper"]
Indicator = Literal["soft", "paper"]
Optimiser = Literal["plain", "adam"]


@dataclass(frozen=True)
class Climb:
    """How the gradient solver climbs; the fields are settings of `FANS`."""

    objective: Objective
    relaxed_g: Relaxed
    indicator: Indicator
    temperature: float
    optimiser: Optimiser
    n_steps: int
    rate: float
    l1: float
    init: float | str
    step_samples: int
    step_perturb: int
    patience: int
    draw: Drawn
    without: Without

    def __post_init__(self) -> None:
        choose("`objective`", self.objective, ("pns", "sum"))
        choose("`relaxed_g`", self.relaxed_g, ("strict", "paper"))
        choose("`indicator`", self.indicator, ("soft", "paper"))
        choose("`optimiser`", self.optimiser, ("plain", "adam"))
        for name, least in (("n_steps", 1), ("step_samples", 1), ("step_perturb", 1), ("patience", 0)):
            check_whole(name, getattr(self, name), least)
        for name in ("temperature", "rate"):
            if not is_number(getattr(self, name)) or not 0 < getattr(self, name) < math.inf:
                raise InputError(f"Expected `{name}` above 0, got {getattr(self, name)!r}")
        if not is_number(self.l1) or not 0 <= self.l1 < math.inf:
            raise InputError(f"Expected `l1` of at least 0, got {self.l1!r}")
        if self.init != "ig" and not (is_number(self.init) and 0 <= float(self.init) <= 1):
            raise InputError(f'Expected `init` between 0 and 1, or "ig", got {self.init!r}')


def climb(task: Task, block: Block, settings: Settings, how: Climb) -> Scores:
    """Maximise the relaxed PNS of each input; the scores are how far the relaxed subset moved from a neutral start."""
    n_inputs = len(block.target)
    tolerance, n_rows = _tolerance(task, block, settings)
    block = replace(block, tolerance=tolerance, search=None)
    s, spent = _start(task, block, how)
    n_rows += spent
    state = _Ascent.begin(s, how)
    history = torch.full((n_inputs, how.n_steps), math.nan, dtype=torch.float64)
    active = torch.arange(n_inputs)
    size = max(1, task.predict.max_batch // rows_per_step(block, settings, how))
    for step in range(how.n_steps):
        s = state.subset()
        slopes = torch.zeros_like(s)
        for start in range(0, len(active), size):
            some = active[start : start + size]
            value, slopes[some] = Step(task, block, settings, how, some, s[some], step).ascend()
            history[some, step] = value
        state.step(slopes, step, active)
        n_rows[active] += rows_per_step(block, settings, how)
        active = active[~_settled(history[active, : step + 1], how.patience)]
        if not len(active):
            break
    present = block.pool.units.present
    neutral = 0.0 if how.init == "ig" else float(how.init)
    return Scores((state.subset().double() - neutral) * present, None, n_rows, history)


def check_differentiable(task: Task, settings: Settings) -> None:
    """Refuse what has no gradient."""
    task.predict.check_gradients('solver="gradient"', 'solver="game", which asks for outputs only')
    if settings.change == "label":
        raise InputError(
            'Expected a change with a gradient for solver="gradient", got "label"; use change="target" or solver="game"'
        )


def rows_per_step(block: Block, settings: Settings, how: Climb) -> int:
    """Return the model rows of one input in one step."""
    if settings.estimator == "resample":
        n_samples = block.pool.index.shape[1]
        return 2 * (n_samples * settings.n_factual + settings.n_resample * settings.n_perturb)
    return 2 * _step_samples(block, how) * how.step_perturb


def _step_samples(block: Block, how: Climb) -> int:
    return min(how.step_samples, block.pool.index.shape[1])


def _settled(history: Tensor, patience: int) -> Tensor:
    """Tell for which inputs `(n, steps)` the mean of the last `patience` values is no better than that before."""
    if not patience or history.shape[1] < 2 * patience:
        return torch.zeros(len(history), dtype=torch.bool)
    recent, before = history[:, -patience:].mean(1), history[:, -2 * patience : -patience].mean(1)
    return recent <= before + 1e-3 * before.abs()


def _tolerance(task: Task, block: Block, settings: Settings) -> tuple[Tensor, Tensor]:
    """Return c for each input, and the model rows it cost.

    As given; or, where it is to be searched for, a part of the largest change seen when random halves of the input are
    perturbed.
    """
    n_inputs = len(block.target)
    if not block.search:
        return block.tolerance.clamp(min=1e-12), torch.zeros(n_inputs, dtype=torch.int64)
    keys = block.keys("climb/pilot")
    jobs = Jobs(
        torch.arange(n_inputs),
        block.own,
        block.pool.units.present.expand(n_inputs, -1),
        block.target,
        keys,
        block.keys("climb/pilot/row"),
    )
    changes = perturbed_changes(task, block.pool, jobs, PILOT, settings.phi, settings.change)
    return (PILOT_SHARE * changes.change.amax((1, 2))).clamp(min=1e-6), changes.n_rows


PILOT, PILOT_SHARE = 16, 0.3
"""Perturbations of the input that set the tolerance, and the part of their largest change that it is."""


def _start(task: Task, block: Block, how: Climb) -> tuple[Tensor, Tensor]:
    """Return the subset to start from `(B, F)` and the model rows it cost."""
    shape = (len(block.target), task.space.n_features)
    if how.init == "ig":
        values, n_rows = integrated_gradients(task, block)
        return values.clamp(0, 1), n_rows
    return torch.full(shape, float(how.init)), torch.zeros(shape[0], dtype=torch.int64)


def integrated_gradients(task: Task, block: Block, n_steps: int = 32) -> tuple[Tensor, Tensor]:
    """Return Integrated Gradients of the explained logit from zero, summed over units `(B, F)`, and rows spent."""
    x = block.pool.pool[block.own[:, 0]]
    total, zero = torch.zeros_like(x), task.space.zero(x)
    nodes = ((torch.arange(n_steps) + 0.5) / n_steps).to(x.dtype)
    for flat in torch.split(torch.arange(len(x) * n_steps), task.predict.max_batch):
        owner = flat // n_steps
        with torch.enable_grad():
            path = torch.lerp(zero[owner], x[owner], nodes[flat % n_steps, None]).requires_grad_()
            picked = logits(task, path).gather(1, block.target[owner, None]).sum()
            (slope,) = torch.autograd.grad(picked, path)
        total.index_add_(0, owner, slope)
    units = block.pool.units
    return units.collect((total / n_steps * (x - zero))[:, None])[:, 0], torch.full((len(x),), n_steps)


def logits(task: Task, rows: Tensor) -> Tensor:
    """Return raw outputs `(n, C)` through which gradients flow back to `rows`; a single one of two classes as both."""
    out = task.predict.differentiable(rows, raw=True)
    return torch.cat([-out, out], 1) if out.shape[1] < task.outputs.shape[1] else out


@dataclass
class _Ascent:
    """Where the climb is: in the subset itself for Adam, in its logits for plain steps."""

    how: Climb
    place: Tensor
    first: Tensor
    second: Tensor

    @classmethod
    def begin(cls, s: Tensor, how: Climb) -> "_Ascent":
        place = s if how.optimiser == "adam" else torch.logit(s, eps=1e-3)
        return cls(how, place.clone(), torch.zeros_like(s), torch.zeros_like(s))

    def subset(self) -> Tensor:
        """Return the relaxed subset `(B, F)` in [0, 1]."""
        return self.place.clamp(0, 1) if self.how.optimiser == "adam" else torch.sigmoid(self.place)

    def step(self, slope: Tensor, step: int, active: Tensor) -> None:
        """Take a step uphill with the inputs that are still climbing.

        Plain steps go along the gradient scaled to a largest entry of 1, in logits, so that entries near 0 and 1 stay
        apart; they shorten linearly to nothing.
        """
        g = slope[active]
        if self.how.optimiser == "plain":
            g = g / (g.abs().amax(1, keepdim=True) + 1e-8)
            self.place[active] += self.how.rate * (1 - step / self.how.n_steps) * g
            return
        self.first[active] = 0.9 * self.first[active] + 0.1 * g
        self.second[active] = 0.999 * self.second[active] + 0.001 * g**2
        corrected = (self.second[active] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
        moved = self.place[active] + self.how.rate * self.first[active] / (1 - 0.9 ** (step + 1)) / corrected
        self.place[active] = moved.clamp(0, 1)


# --- The relaxed objective -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """The relaxed objective of some inputs in one step of the climb.

    Attributes:
        some: `(n,)` which inputs of the block.
        s: `(n, F)` their relaxed subsets.
        number: of the step, from which its draws come.
    """

    task: Task
    block: Block
    settings: Settings
    how: Climb
    some: Tensor
    s: Tensor
    number: int

    def ascend(self) -> tuple[Tensor, Tensor]:
        """Return the objective `(n,)` and its gradient `(n, F)`."""
        with torch.enable_grad():
            leaf = self.s.detach().requires_grad_()
            value = replace(self, s=leaf).objective()
            (slope,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), slope.nan_to_num()

    def objective(self) -> Tensor:
        """Return what is maximised, `(n,)`: PNS, or PN + PS, less the price of a large subset."""
        how = self.how
        if self.settings.estimator == "resample":
            pn, ps, p_ab, p_nab = self._resampled()
        else:
            m = self.moments()
            w_nc, w_sf = _weights(m, how.without)
            pn, ps = _mean(w_nc, m.p_unchanged), _mean(w_sf, m.p_changed)
            p_ab, p_nab = event_probability(w_nc), event_probability(w_sf)
        prior = self.settings.prior
        parts = [pn, ps] if how.objective == "sum" else [prior * pn * p_ab, prior * ps * p_nab]
        if how.without in ("SF", "NC"):
            del parts[1 if how.without == "SF" else 0]
        return sum(parts[1:], parts[0]) - how.l1 * (self.s * self.present).sum(1) / self.present.sum(1)

    def moments(self) -> Moments:
        """Return the moments of the strict estimate with a relaxed subset and a soft indicator, on this step's draws.

        At a binary subset the weights are the strict ones; p_changed and p_unchanged are so as the temperature falls
        to 0.
        """
        place = self.drawn_samples(_step_samples(self.block, self.how))
        change = self._change((place, place), self.how.step_perturb, f"climb/{self.number}")
        return self._moments(place, change)

    @property
    def present(self) -> Tensor:
        """Which features `(n, F)` the inputs have."""
        return self.block.pool.units.present.expand(len(self.block.target), -1)[self.some]

    @property
    def tolerance(self) -> Tensor:
        """Return c of each input `(n, 1, 1)`."""
        return self.block.tolerance[self.some][:, None, None]

    def drawn_samples(self, n: int) -> Tensor:
        """Return the places `(n inputs, n)` of this step's samples in each input's reference set: different ones."""
        n_all = self.block.pool.index.shape[1]
        if n == n_all:
            return torch.arange(n_all).expand(len(self.some), -1)
        keys = self.block.keys(f"climb/{self.number}/sample")[self.some]
        return draws.words(keys[:, None], torch.arange(n_all)).argsort(1)[:, :n]

    def _moments(self, place: Tensor, change: Tensor) -> Moments:
        """Put changes `(2, n, S, K)` of s and of the rest together with the closeness on both."""
        kernel, c = KERNELS[self.settings.kernel], self.tolerance
        soft = [kernel(side**2, c).mean(-1) for side in change]
        moved = [_changed(side, c, self.how).mean(-1) for side in change]
        return Moments(*self._closeness(place), soft[0], soft[1], moved[0], 1 - moved[1])

    def _closeness(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """Return `k_b` of the distance on s and on the rest `(n, S)`, each difference scaled by its share."""
        block, s, present = self.block, self.s, self.present
        sizes = block.pool.units.sizes_of(self.some).to(s.dtype)
        distances = block.distances[self.some].gather(1, place[..., None].expand(-1, -1, s.shape[1])).to(s.dtype)
        radius = block.radius[self.some][:, None]
        out = []
        for share in (s, (1 - s) * present):
            total = torch.einsum("nsf,nf->ns", distances, share**2)
            if self.settings.distance == "rms":
                total = total / (share**2 * sizes).sum(1, keepdim=True).clamp(min=1)
            out.append(KERNELS[self.settings.kernel](total.double(), radius))
        nothing_left = (((1 - s) * present) == 0).all(1, keepdim=True)
        return out[0], out[1].masked_fill(nothing_left, 0.0)

    def _change(self, places: tuple[Tensor, Tensor], k: int, stage: str) -> Tensor:
        """Perturb samples `k` times with s, and others with the rest: changes `(2, n, S, K)`.

        `places` `(n, S)` says which samples of each input those are.

        `g = x + s m (x' - x)`; the paper's own relaxed form, `((1 - m) x + m x') s`, also empties what is not selected.
        """
        place = torch.stack(places)
        n, n_samples = places[0].shape
        pieces: Sequence[Tensor] = torch.split(torch.arange(2 * n * n_samples * k), self.task.predict.max_batch)
        if len(pieces) == 1:
            parts = [self._piece(place, k, stage, pieces[0])]
        else:  # more rows than memory is meant to hold: compute activations again on the way back
            parts = [
                checkpoint(self._piece, place, k, stage, piece, use_reentrant=False, preserve_rng_state=False)
                for piece in pieces
            ]
        return torch.cat(parts).view(2, n, n_samples, k)

    def _piece(self, place: Tensor, k: int, stage: str, flat: Tensor) -> Tensor:
        """Return the changes of some of the perturbations, by their place among all `(2, n, S, K)`."""
        task, block, pool = self.task, self.block, self.block.pool
        _, n, n_samples = place.shape
        each = n_samples * k
        side, rest = flat // (n * each), flat % (n * each)
        local, draw = rest // each, rest % each
        owner = self.some[local]
        origin = pool.index[owner, place[side, local, draw // k]]
        # On a fine grid in blocks, else speckles are all the model sees.
        keys, in_blocks = block.keys(f"{stage}/hit")[owner], self.how.draw == "blocks"
        hit = draw_features(task, keys, draw, self.settings.phi, blocks=in_blocks)
        row_keys = torch.where(side == 0, block.keys(f"{stage}/subset")[owner], block.keys(f"{stage}/rest")[owner])
        missing = baselines(task, pool, row_keys, draw, origin)
        x = pool.pool[origin]
        share = torch.where((side == 0)[:, None], self.s[local], 1 - self.s[local])
        if self.how.relaxed_g == "strict":
            rows = torch.lerp(x, missing.expand_as(x), pool.units.spread(share * hit, owner).to(x.dtype))
        else:
            share = share.masked_fill(~self.present[local], 1.0)
            rows = torch.where(pool.units.spread(hit, owner), missing, x) * pool.units.spread(share, owner).to(x.dtype)
        after = task.predict.differentiable(rows)
        return measure_change(after, pool.outputs[origin], block.target[owner], self.settings.change)

    def _resampled(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return PN, PS, P(A,B) and P(not-A,not-B) `(n,)` the paper's way: weigh all samples, then perturb a few anew.

        The choice of samples is by weight; its own gradient is not followed.
        """
        settings, stage = self.settings, f"climb/{self.number}"
        everything = torch.arange(self.block.pool.index.shape[1]).expand(len(self.some), -1)
        change = self._change((everything, everything), settings.n_factual, f"{stage}/factual")
        weights = _weights(self._moments(everything, change), self.how.without)
        keys = self.block.keys(f"{stage}/sample")[self.some]
        u = draws.uniform(keys[:, None], torch.arange(2 * settings.n_resample))
        picked = []
        for w, at in zip(weights, u.chunk(2, 1), strict=True):
            cumulative = w.detach().cumsum(1)
            drawn = torch.searchsorted(cumulative, at * cumulative[:, -1:])
            picked.append(drawn.clamp(max=w.shape[1] - 1))
        # Samples chosen for sufficiency have their subset perturbed, those chosen for necessity the rest.
        both = self._change((picked[1], picked[0]), settings.n_perturb, f"{stage}/interventional")
        changed = _changed(both, self.tolerance, self.how).mean((2, 3))
        pn, ps = (v * (w.sum(1) > 0) for v, w in zip((1 - changed[1], changed[0]), weights, strict=True))
        return pn, ps, event_probability(weights[0]), event_probability(weights[1])


def _weights(m: Moments, without: Without) -> tuple[Tensor, Tensor]:
    """Return w_NC and w_SF `(n, S)`; without sampling by closeness and event, all samples count alike."""
    return (torch.ones_like(m.near_subset),) * 2 if without == "SR" else (m.necessity, m.sufficiency)


def _mean(weights: Tensor, values: Tensor) -> Tensor:
    """Return the weighted mean, 0 where there is no weight (where strict PN and PS are undefined)."""
    total = weights.sum(-1)
    return (weights * values).sum(-1) / total.clamp(min=1e-12)


def _changed(change: Tensor, c: Tensor, how: Climb) -> Tensor:
    """Return the soft indicator of `change > c`; the paper's ignores c."""
    if how.indicator == "paper":
        return 1 - torch.exp(-change)
    return torch.sigmoid((change - c) / (how.temperature * c))
