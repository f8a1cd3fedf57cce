"""What the rival methods share: scores of elements, probabilities, and Adam."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fans.engine.settings import Settings
from fans.errors import InputError, ModelError, is_number
from fans.methods.base import Method, Scores
from fans.methods.problem import Problem
from fans.modes import only_here
from fans.task import Task


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
    def elements(self, problem: Problem) -> Tensor:
        """Return the score `(n, E)` of every element; gradients are enabled."""

    def attribute(self, problem: Problem) -> Scores:
        """Score elements, as many inputs at a time as fit; pool them to features."""
        pieces, units = problem.pieces(self.at_once(problem.n_features)), problem.units
        with torch.enable_grad(), problem.counting() as spent:
            parts = [self.elements(piece).detach().double() for piece in pieces]
        scores = units.collect(torch.cat(parts)[:, None])[:, 0] / units.n_elements
        return Scores.even(scores, spent.n_rows // len(problem))
