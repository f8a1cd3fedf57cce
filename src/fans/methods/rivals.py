"""What the rival methods share: the inputs as they see them, element by element or in coalitions of features."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fans.engine import draws
from fans.engine.neighbourhood import Block
from fans.engine.settings import Settings
from fans.errors import InputError, ModelError, is_number
from fans.methods.base import Method, Scores
from fans.modalities.base import Fixed, OfSample, Units
from fans.modes import only_here
from fans.task import Task


@dataclass(frozen=True)
class Inputs:
    """Some inputs as a rival sees them: there is no neighbourhood, only the input and what replaces it.

    Attributes:
        x: `(n, E)` the inputs.
        missing: `(n, E)` what stands in for them where they are considered missing.
        target: `(n,)` the explained class.
        units: their features.
        ids: names that key the draws.
        seed: of the draws.
    """

    task: Task
    x: Tensor
    missing: Tensor
    target: Tensor
    units: Units
    ids: Sequence[int | str]
    seed: int

    @classmethod
    def of(cls, task: Task, block: Block) -> "Inputs":
        """Return the inputs of a block."""
        x = block.pool.pool[block.own[:, 0]]
        return cls(task, x, replacement(task, x), block.target, block.pool.units, block.ids, block.seed)

    def __len__(self) -> int:
        return len(self.x)

    def part(self, where: slice | Tensor) -> "Inputs":
        """Return some of the inputs: a slice of them, or those at some places."""
        units = self.units
        if not units.shared:
            units = Units(units.of_element[where], units.size[where], units.shared)
        ids = [self.ids[i] for i in torch.arange(len(self))[where].tolist()]
        return Inputs(self.task, self.x[where], self.missing[where], self.target[where], units, ids, self.seed)

    def keys(self, stage: str) -> Tensor:
        """Return the key `(n,)` of each input's own stream of draws in a stage."""
        return draws.stream_keys(self.seed, self.ids, stage)

    def slopes(self, rows: Tensor, owner: Tensor, *, raw: bool = False) -> tuple[Tensor, Tensor]:
        """Return the explained output `(m,)` on rows `(m, E)` of inputs `owner` `(m,)`, and its gradient `(m, E)`.

        `raw`: the model's own output for the class, whatever is explained.
        """
        values, slopes = [], []
        for piece in torch.split(torch.arange(len(rows)), self.task.predict.max_batch):
            leaf = rows[piece].detach().requires_grad_()
            every = self.task.predict.differentiable(leaf, raw=raw)
            if every.shape[1] < self.task.outputs.shape[1]:  # a single logit of two classes
                every = torch.cat([-every, every], 1)
            out = every.gather(1, self.target[owner[piece], None])[:, 0]
            slopes.append(gradient(out, leaf))
            values.append(out.detach())
        return torch.cat(values), torch.cat(slopes)

    def kept_of(self, keep: Tensor) -> Tensor:
        """Return the explained output `(n, M)` of each input where only the features `keep` `(n, M, F)` are left."""
        return self.kept(lambda owner, place: keep[owner, place], keep.shape[1])

    def kept(self, keep: Callable[[Tensor, Tensor], Tensor], n_draws: int) -> Tensor:
        """Return the same `(n, n_draws)` for coalitions given by a function of inputs and places `(m,)`: `(m, F)`."""
        n = len(self)
        flat = torch.arange(n * n_draws)
        parts = []
        for piece in torch.split(flat, self.task.predict.max_batch):
            owner = piece // n_draws
            left = self.units.spread(keep(owner, piece % n_draws), owner)
            rows = torch.where(left, self.x[owner], self.missing[owner])
            parts.append(self.task.predict(rows).gather(1, self.target[owner, None])[:, 0])
        return torch.cat(parts).view(n, n_draws)

    def present(self) -> Tensor:
        """Return which features exist, `(n, F)`."""
        return self.units.present.expand(len(self), -1)


def replacement(task: Task, x: Tensor) -> Tensor:
    """Return one replacement for each input `(n, E)`: a drawn baseline has none, so the background's mean serves."""
    baseline = task.baseline
    if isinstance(baseline, OfSample):
        return baseline.function(x)
    if not isinstance(baseline, Fixed):
        baseline = task.space.baseline("mean", task.background)
    assert isinstance(baseline, Fixed)
    return baseline.row.to(x.dtype).expand_as(x)


def gradient(out: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradient of the sum of `out` with respect to `leaf`."""
    (slope,) = torch.autograd.grad(out.sum(), leaf, materialize_grads=True)
    return slope


def last_output(layers: Sequence[nn.Module], ask: Callable[[], object]) -> Tensor | None:
    """Call `ask`, and return what the last of some layers to run in it returned; None if none did."""
    last = list[Tensor]()

    @only_here
    def take(_: nn.Module, __: tuple[object, ...], out: Tensor) -> None:
        last[:] = [out]

    handles = [layer.register_forward_hook(take) for layer in layers]
    try:
        ask()
    finally:
        for handle in handles:
            handle.remove()
    return last[0].cpu() if last else None


def probabilities(task: Task, outputs: Tensor) -> Tensor:
    """Return outputs `(m, C)` of classes as probabilities: raw ones through a softmax."""
    return outputs.softmax(1) if task.predict.kind == "output" else outputs


def check_classes(task: Task, asker: str) -> None:
    """Refuse a number to a method that reads it as a class's probability."""
    if task.outputs.shape[1] == 1:
        instead = f"use method='fans'{task.predict.if_logit}"
        raise ModelError(f"Expected a model of classes for {asker}, got one output as it is; {instead}")


class Adam:
    """Adam, in place, every entry by itself; with `decay`, AdamW. Torch's own needs seconds before its first step."""

    def __init__(self, tensors: Sequence[Tensor], rate: float, decay: float = 0.0) -> None:
        self.tensors, self.rate, self.decay, self.n_steps = tensors, rate, decay, 0
        self.moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in tensors]

    @torch.no_grad()
    def step(self, slopes: Sequence[Tensor]) -> None:
        """Take a step downhill."""
        self.n_steps += 1
        shrink = 1 - self.rate * self.decay
        for place, slope, (first, second) in zip(self.tensors, slopes, self.moments, strict=True):
            first.lerp_(slope, 0.1)
            second.lerp_(slope**2, 0.001)
            scale = (second / (1 - 0.999**self.n_steps)).sqrt_().add_(1e-8)
            place.mul_(shrink).sub_(first / scale, alpha=self.rate / (1 - 0.9**self.n_steps))


def check_number(name: str, value: object, least: float, *, above: bool = False) -> None:
    """Raise unless a setting is a finite number of at least (or above) `least`."""
    if not (is_number(value) and least <= value < math.inf) or (above and value == least):  # type: ignore[operator]
        raise InputError(f"Expected `{name}` {'above' if above else 'of at least'} {least:g}, got {value!r}")


@dataclass(frozen=True)
class ElementMethod(Method):
    """A method that scores every element; a feature's score is the mean of its elements'.

    The mean, so that a heatmap adds up to what the elements did, whatever the features.
    """

    per_element: ClassVar[bool] = True

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse columns and models without a gradient."""
        task.predict.check_gradients(f"method={self.name!r}", "a method that asks for outputs only, e.g. method='fans'")

    @abstractmethod
    def elements(self, inputs: Inputs) -> Tensor:
        """Return the score `(n, E)` of every element; gradients are enabled."""

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:  # noqa: ARG002
        """Score elements, as many inputs at a time as fit; pool them to features."""
        inputs = Inputs.of(task, block)
        size = max(1, task.predict.max_batch // self.at_once(task.space.n_features))
        pieces = (inputs.part(slice(start, start + size)) for start in range(0, len(inputs), size))
        with torch.enable_grad(), task.predict.counting() as spent:
            parts = [self.elements(piece).detach().double() for piece in pieces]
        n_rows = torch.full((len(inputs),), spent.n_rows // len(inputs))
        units = inputs.units
        return Scores(units.collect(torch.cat(parts)[:, None])[:, 0] / units.n_elements, None, n_rows)
