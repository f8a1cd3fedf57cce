"""What a method is given: some inputs of one model, what stands in for them, and whom to ask."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.neighbourhood import InputBatch
from fans.engine.settings import Settings
from fans.meter import Spent
from fans.modalities.base import Fixed, OfSample, Units
from fans.task import Task


@dataclass(frozen=True)
class Problem:
    """Some inputs whose features are to be scored: what to perturb, and what to ask.

    n inputs of E elements have F features; m rows are changed copies of them, `owner` `(m,)` says whose. All that most
    methods need is here; `task`, `batch` and `settings` are for those that look deeper.

    Attributes:
        task: the model, the background, and what a feature is.
        x: `(n, E)` the inputs.
        target: `(n,)` the explained class.
        units: their features.
        ids: names that key the draws.
        seed: of the draws.
        places: see `place`; by default these are all inputs of their layout.
        settings: of the estimate: how a change is measured, what counts as near.
        around: the inputs with their neighbourhoods, where they have some: see `batch`.
    """

    task: Task
    x: Tensor
    target: Tensor
    units: Units
    ids: Sequence[int | str]
    seed: int
    places: Tensor | None = None
    settings: Settings = field(default_factory=Settings)
    around: InputBatch | None = None

    @classmethod
    def of(cls, task: Task, batch: InputBatch, settings: Settings) -> "Problem":
        """Return the problem of a batch of inputs."""
        own = batch.own[:, 0]
        known = (batch.target, batch.pool.units, batch.ids, batch.seed, batch.pool.of[own])
        return cls(task, batch.pool.pool[own], *known, settings, batch)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def batch(self) -> InputBatch:
        """The inputs with their neighbourhoods: samples near each, radius and tolerance."""
        assert self.around is not None, "inputs that a method learns from, and pieces, have no neighbourhood"
        return self.around

    @property
    def place(self) -> Tensor:
        """Where each input `(n,)` is among those of its layout: by this the model tells whose changed copy a row is."""
        return torch.arange(len(self)) if self.places is None else self.places

    @property
    def n_features(self) -> int:
        """F."""
        return self.task.space.n_features

    @property
    def present(self) -> Tensor:
        """Which features each input has, `(n, F)`."""
        return self.units.present.expand(len(self), -1)

    @cached_property
    def missing(self) -> Tensor:
        """What stands in for each input where it is considered missing, `(n, E)`."""
        return replacement(self.task, self.x)

    @property
    def max_batch(self) -> int:
        """Most rows that should exist at a time."""
        return self.task.predict.max_batch

    def counting(self) -> AbstractContextManager[Spent]:
        """Count the rows that the model is asked within, whatever other threads ask it."""
        return self.task.predict.counting()

    # --- Some of the inputs -------------------------------------------------------------------------------------------

    def part(self, where: slice | Tensor) -> "Problem":
        """Return some of the inputs: a slice of them, or those at some places."""
        at = torch.arange(len(self))[where]
        ids = [self.ids[i] for i in at.tolist()]
        known = (self.target[where], self.units.at(at), ids, self.seed, self.place[where])
        some = Problem(self.task, self.x[where], *known, self.settings)
        some.__dict__["missing"] = self.missing[where]  # computed of another batch it might be rounded otherwise
        return some

    def pieces(self, rows_each: int) -> "Iterator[Problem]":
        """Cut the inputs into pieces whose rows, so many of each, fit into one batch."""
        size = max(1, self.max_batch // rows_each)
        return (self.part(slice(start, start + size)) for start in range(0, len(self), size))

    # --- Drawing and perturbing ---------------------------------------------------------------------------------------

    def keys(self, stage: str) -> Tensor:
        """Return the key `(n,)` of each input's own stream of draws in a stage; see `fans.engine.draws`."""
        return draws.stream_keys(self.seed, self.ids, stage)

    def perturb(self, hit: Tensor, owner: Tensor) -> Tensor:
        """Return rows `(m, E)` in which the features `hit` `(m, F)` are missing."""
        return torch.where(self.units.spread(hit, owner), self.missing[owner], self.x[owner])

    # --- Asking -------------------------------------------------------------------------------------------------------

    def ask(self, rows: Tensor, owner: Tensor, *, fresh: bool = False) -> Tensor:
        """Return the explained output `(m,)` on rows `(m, E)`; the model may overwrite those that are `fresh`."""
        return self.task.predict(rows, self.place[owner], fresh=fresh).gather(1, self.target[owner, None])[:, 0]

    def kept_of(self, keep: Tensor) -> Tensor:
        """Return the explained output `(n, M)` of each input where only the features `keep` `(n, M, F)` are left."""
        return self.kept(lambda owner, place: keep[owner, place], keep.shape[1])

    def kept(self, keep: Callable[[Tensor, Tensor], Tensor], n_draws: int) -> Tensor:
        """Return the same `(n, n_draws)` for coalitions given by a function of inputs and places `(m,)`: `(m, F)`."""
        n = len(self)
        flat = torch.arange(n * n_draws)
        parts = []
        for piece in torch.split(flat, self.max_batch):
            owner = piece // n_draws
            parts.append(self.ask(self.perturb(~keep(owner, piece % n_draws), owner), owner, fresh=True))
        return torch.cat(parts).view(n, n_draws)

    def slopes(self, rows: Tensor, owner: Tensor, *, raw: bool = False) -> tuple[Tensor, Tensor]:
        """Return the explained output `(m,)` on rows `(m, E)`, and its gradient `(m, E)`.

        `raw`: the model's own output for the class, whatever is explained.
        """
        values, slopes = [], []
        for piece in torch.split(torch.arange(len(rows)), self.max_batch):
            leaf = rows[piece].detach().requires_grad_()
            every = self.task.predict.differentiable(leaf, self.place[owner[piece]], raw=raw)
            if every.shape[1] < self.task.outputs.shape[1]:  # a single logit of two classes
                every = torch.cat([-every, every], 1)
            out = every.gather(1, self.target[owner[piece], None])[:, 0]
            slopes.append(gradient(out, leaf))
            values.append(out.detach())
        return torch.cat(values), torch.cat(slopes)


def replacement(task: Task, x: Tensor) -> Tensor:
    """Return one replacement for each input `(n, E)`: a drawn baseline has none, so the space's mean serves."""
    baseline = task.baseline
    if not isinstance(baseline, Fixed | OfSample):
        baseline = task.space.baseline("mean", task.background)
    if isinstance(baseline, OfSample):
        return baseline.function(x)
    assert isinstance(baseline, Fixed)
    return baseline.row.to(x.dtype).expand_as(x)


def gradient(out: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradient of the sum of `out` with respect to `leaf`."""
    (slope,) = torch.autograd.grad(out.sum(), leaf, materialize_grads=True)
    return slope
