"""What the rival methods share: the inputs as they see them, element by element or in coalitions of features."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fans import draws
from fans.explainers._shared import Method, Scores
from fans.pns import Settings
from fans.spaces._shared import Fixed, OfSample, Units
from fans.task import Task
from fans.trials import Block


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
        return cls(task, x, _missing(task, x), block.target, block.pool.units, block.ids, block.seed)

    def __len__(self) -> int:
        return len(self.x)

    def part(self, where: slice) -> "Inputs":
        """Return some of the inputs."""
        units = self.units
        if not units.shared:
            units = Units(units.of_element[where], units.size[where], units.shared)
        return Inputs(
            self.task, self.x[where], self.missing[where], self.target[where], units, self.ids[where], self.seed
        )

    def keys(self, stage: str) -> Tensor:
        """Return the key `(n,)` of each input's own stream of draws in a stage."""
        return draws.stream_keys(self.seed, self.ids, stage)

    def images(self, rows: Tensor) -> Tensor:
        """Return rows `(m, E)` in the shape that a module takes."""
        return self.task.space.for_module(rows)

    def module(self) -> nn.Module:
        """Return the model as a module of its own inputs, `(m, *input)` to outputs `(m, C)`, rows counted.

        Hooks find the modules of the user's model inside.
        """
        return _Explained(self.task)

    def kept(self, keep: Tensor) -> Tensor:
        """Return the explained output `(n, M)` of each input where only the features `keep` `(n, M, F)` are left."""
        n, n_draws, _ = keep.shape
        flat = torch.arange(n * n_draws)
        parts = []
        for piece in torch.split(flat, self.task.predict.max_batch):
            owner = piece // n_draws
            left = self.units.spread(keep[owner, piece % n_draws], owner)
            rows = torch.where(left, self.x[owner], self.missing[owner])
            parts.append(self.task.predict(rows).gather(1, self.target[owner, None])[:, 0])
        return torch.cat(parts).view(n, n_draws)

    def present(self) -> Tensor:
        """Return which features exist, `(n, F)`."""
        return self.units.present.expand(len(self), -1)


def _missing(task: Task, x: Tensor) -> Tensor:
    """Return one replacement for each input `(n, E)`: a drawn baseline has none, so the background's mean serves."""
    baseline = task.baseline
    if isinstance(baseline, OfSample):
        return baseline.function(x)
    if not isinstance(baseline, Fixed):
        baseline = task.space.baseline("mean", task.background)
    assert isinstance(baseline, Fixed)
    return baseline.row.to(x.dtype).expand_as(x)


class _Explained(nn.Module):
    """A task's model with its outputs as they are explained (probabilities, or raw)."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.inner = task.predict.model
        self._predict = task.predict

    def forward(self, images: Tensor) -> Tensor:
        """Return outputs `(m, C)` through which gradients flow."""
        return self._predict.differentiable(images.flatten(1))


@dataclass(frozen=True)
class ElementMethod(Method):
    """A method that scores every element by a gradient; a feature's score is the mean of its elements'.

    The mean, so that a heatmap adds up to what the elements did, whatever the features.
    """

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse a model without a gradient."""
        task.predict.check_gradients(f"method={self.name!r}", "a method that asks for outputs only, e.g. method='fans'")

    @abstractmethod
    def elements(self, inputs: Inputs) -> Tensor:
        """Return the score `(n, E)` of every element; gradients are enabled."""

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:  # noqa: ARG002
        """Score elements, as many inputs at a time as fit; pool them to features."""
        inputs = Inputs.of(task, block)
        size = max(1, task.predict.max_batch // self.cost(task.space.n_features))
        parts, before = [], task.predict.n_rows
        for start in range(0, len(inputs), size):
            with torch.enable_grad():
                parts.append(self.elements(inputs.part(slice(start, start + size))).detach().double())
        n_rows = torch.full((len(inputs),), (task.predict.n_rows - before) // len(inputs))
        units = inputs.units
        total = units.collect(torch.cat(parts)[:, None])[:, 0]
        count = units.collect(torch.ones(len(units.of_element), 1, inputs.x.shape[1], dtype=total.dtype))[:, 0]
        return Scores(total / count.clamp(min=1), None, n_rows)
