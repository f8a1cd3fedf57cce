"""The paper's own solver (Section 4.7): relax the subset to [0, 1] and climb the gradient of its resampled PNS.

Batched over inputs: at every step all perturbed samples of many inputs are one forward and one backward pass. Only the
gradient with respect to the subset is computed, and at most `max_batch` rows have their activations in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fans.engine import draws
from fans.engine.equations import KERNELS, event_probability, measure_change
from fans.engine.moments import Moments
from fans.engine.neighbourhood import InputBatch, draw_features
from fans.engine.perturbation import baselines
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole, choose, is_number
from fans.methods.base import Scores, Without
from fans.methods.fans.solver import Solver
from fans.methods.problem import Problem
from fans.methods.rivals import check_number
from fans.task import Task

Relaxed = Literal["paper", "strict"]


@dataclass(frozen=True)
class Relaxation(Solver):
    """The paper's own solver (Section 4.7), as `preset="paper"` has it.

    Args:
        n_steps: of the ascent.
        n_rows: what a step is taken to cost where inputs are put together; samples and draws decide what it does cost.
        relaxed_g: `"paper"` multiplies all by the subset, `"strict"` perturbs what is selected and leaves the rest.
        rate: Adam's.
        init: share of every feature to begin with, or `"ig"` for Integrated Gradients.
    """

    name: ClassVar[str] = "relaxed"
    needs_gradient: ClassVar[bool] = True
    has_terms: ClassVar[bool] = True
    looks_around: ClassVar[bool] = True

    n_steps: int = 10
    n_rows: int = 32
    relaxed_g: Relaxed = "paper"
    rate: float = 0.001
    init: float | str = 0.5

    def __post_init__(self) -> None:
        choose("`relaxed_g`", self.relaxed_g, ("paper", "strict"))
        check_whole("n_steps", self.n_steps, 1)
        check_number("rate", self.rate, 0, above=True)
        if self.init != "ig" and not (is_number(self.init) and 0 <= float(self.init) <= 1):
            raise InputError(f'Expected `init` between 0 and 1, or "ig", got {self.init!r}')

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse a neighbourhood that the paper has not."""
        if settings.joint:
            raise InputError(
                'Expected closeness="subset" for solver="relaxed", which is the paper\'s, got "input"; '
                'pass preset="paper", or closeness="subset"'
            )
        super().check(task, settings)

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """Those of all steps."""
        return self.n_steps * self.n_rows

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """Those of one step."""
        return self.n_rows

    def attribute(self, problem: Problem) -> Scores:
        """Climb."""
        return climb(problem.task, problem.batch, problem.settings, self)


def climb(task: Task, block: InputBatch, settings: Settings, how: Relaxation) -> Scores:
    """Maximise the relaxed PNS of each input by Adam; the scores are how far the subset moved from its start."""
    s, n_rows = _start(task, block, how)
    first, second = torch.zeros_like(s), torch.zeros_like(s)
    history = torch.zeros(len(s), how.n_steps, dtype=torch.float64)
    each = rows_per_step(block, settings)
    for step in range(how.n_steps):
        slopes = torch.zeros_like(s)
        for some in torch.split(torch.arange(len(s)), max(1, task.predict.max_batch // each)):
            history[some, step], slopes[some] = Step(task, block, settings, how, some, s[some], step).ascend()
        first, second = 0.9 * first + 0.1 * slopes, 0.999 * second + 0.001 * slopes**2
        root = (second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
        s = (s + how.rate * first / (1 - 0.9 ** (step + 1)) / root).clamp(0, 1)
    neutral = 0.0 if how.init == "ig" else float(how.init)
    scores = (s.double() - neutral) * block.pool.units.present
    return Scores(scores, None, n_rows + how.n_steps * each, history)


def rows_per_step(block: InputBatch, settings: Settings) -> int:
    """Return the model rows of one input in one step."""
    return 2 * (block.pool.index.shape[1] * settings.n_factual + settings.n_resample * settings.n_perturb)


def _start(task: Task, block: InputBatch, how: Relaxation) -> tuple[Tensor, Tensor]:
    """Return the relaxed subset to start from `(B, F)`, and the model rows it cost."""
    shape = (len(block.target), task.space.n_features)
    if how.init == "ig":
        values, n_rows = integrated_gradients(task, block)
        return values.clamp(0, 1), n_rows
    start = torch.full(shape, float(how.init), dtype=block.pool.pool.dtype)
    return start, torch.zeros(shape[0], dtype=torch.int64)


def integrated_gradients(task: Task, block: InputBatch, n_steps: int = 32) -> tuple[Tensor, Tensor]:
    """Return Integrated Gradients of the explained logit from zero, summed over units `(B, F)`, and rows spent."""
    own = block.own[:, 0]
    x, of = block.pool.pool[own], block.pool.of[own]
    total, zero = torch.zeros_like(x), task.space.zero(x)
    nodes = ((torch.arange(n_steps) + 0.5) / n_steps).to(x.dtype)
    for flat in torch.split(torch.arange(len(x) * n_steps), task.predict.max_batch):
        owner = flat // n_steps
        with torch.enable_grad():
            path = torch.lerp(zero[owner], x[owner], nodes[flat % n_steps, None]).requires_grad_()
            picked = logits(task, path, of[owner]).gather(1, block.target[owner, None]).sum()
            (slope,) = torch.autograd.grad(picked, path)
        total.index_add_(0, owner, slope)
    units = block.pool.units
    return units.collect((total / n_steps * (x - zero))[:, None])[:, 0], torch.full((len(x),), n_steps)


def logits(task: Task, rows: Tensor, of: Tensor | None = None) -> Tensor:
    """Return raw outputs `(n, C)` through which gradients flow back to `rows`; a single one of two classes as both."""
    out = task.predict.differentiable(rows, of, raw=True)
    return torch.cat([-out, out], 1) if out.shape[1] < task.outputs.shape[1] else out


@dataclass(frozen=True)
class Step:
    """The relaxed objective of some inputs in one step of the climb.

    Attributes:
        some: `(n,)` which inputs of the block.
        s: `(n, F)` their relaxed subsets.
        number: of the step, from which its draws come.
    """

    task: Task
    block: InputBatch
    settings: Settings
    how: Relaxation
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
        """Return what is maximised, `(n,)`: PNS, of an ablation one of its terms."""
        pn, ps, p_ab, p_nab = self._resampled()
        parts = {"NC": self.settings.prior * pn * p_ab, "SF": self.settings.prior * ps * p_nab}
        parts.pop(self.how.without or "", None)
        return torch.stack(list(parts.values())).sum(0)

    @property
    def present(self) -> Tensor:
        """Which features `(n, F)` the inputs have."""
        return self.block.pool.units.present.expand(len(self.block.target), -1)[self.some]

    def _moments(self, place: Tensor, change: Tensor) -> Moments:
        """Put changes `(2, n, S, K)` of s and of the rest together with the closeness on both."""
        kernel, c = KERNELS[self.settings.kernel], self.block.tolerance[self.some].clamp(min=1e-12)[:, None, None]
        soft = [kernel(side**2, c).mean(-1) for side in change]
        moved = [_changed(side).mean(-1) for side in change]
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
        hit = draw_features(task, block.keys(f"{stage}/hit")[owner], draw, self.settings.phi, blocks=False)
        row_keys = torch.where(side == 0, block.keys(f"{stage}/subset")[owner], block.keys(f"{stage}/rest")[owner])
        missing = baselines(task, pool, row_keys, draw, origin)
        x = pool.pool[origin]
        share = torch.where((side == 0)[:, None], self.s[local], 1 - self.s[local])
        if self.how.relaxed_g == "strict":
            rows = torch.lerp(x, missing.expand_as(x), pool.units.spread(share * hit, owner).to(x.dtype))
        else:
            share = share.masked_fill(~self.present[local], 1.0)
            rows = torch.where(pool.units.spread(hit, owner), missing, x) * pool.units.spread(share, owner).to(x.dtype)
        after = task.predict.differentiable(rows, pool.of[origin])
        change = measure_change(after, pool.outputs[origin], block.target[owner], self.settings.change)
        # What is not moved at all does not change; the sign of a difference of rounding would be its slope.
        return change.masked_fill((rows == x).all(1), 0.0)

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
        changed = _changed(both).mean((2, 3))
        pn, ps = (v * (w.sum(1) > 0) for v, w in zip((1 - changed[1], changed[0]), weights, strict=True))
        return pn, ps, event_probability(weights[0]), event_probability(weights[1])


def _weights(m: Moments, without: Without) -> tuple[Tensor, Tensor]:
    """Return w_NC and w_SF `(n, S)`; without sampling by closeness and event, all samples count alike."""
    return (torch.ones_like(m.near_subset),) * 2 if without == "SR" else (m.necessity, m.sufficiency)


def _changed(change: Tensor) -> Tensor:
    """Return the paper's smooth indicator of a change."""
    return 1 - torch.exp(-change)
