"""Scores that know nothing of the model: what any method must beat, and no metric should prefer."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.neighbourhood import Block
from fans.engine.settings import Settings
from fans.methods.base import Method, Scores
from fans.methods.rivals import Inputs
from fans.task import Task


@dataclass(frozen=True)
class Control(Method):
    """Scores without asking the model."""

    modalities: ClassVar[tuple[str, ...]] = ("table", "image", "graph")
    citation: ClassVar[str] = "A control, not a method"

    @abstractmethod
    def of_features(self, inputs: Inputs) -> Tensor:
        """Return the score of each feature, `(n, F)`; those of absent features do not count."""

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """None."""
        return 0

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:  # noqa: ARG002
        """Score the features that are present."""
        inputs = Inputs.of(task, block)
        scores = self.of_features(inputs) * inputs.present()
        return Scores(scores, None, torch.zeros(len(inputs), dtype=torch.int64))


@dataclass(frozen=True)
class Random(Control):
    """Scores drawn at random between 0 and 1."""

    name: ClassVar[str] = "random"
    label: ClassVar[str] = "random"

    def of_features(self, inputs: Inputs) -> Tensor:
        """Draw."""
        return draws.uniform(inputs.keys("random")[:, None], torch.arange(inputs.task.space.n_features))


@dataclass(frozen=True)
class Equal(Control):
    """The score 1 for every feature."""

    name: ClassVar[str] = "equal"
    label: ClassVar[str] = "All equal"

    def of_features(self, inputs: Inputs) -> Tensor:
        """Count."""
        return torch.ones(len(inputs), inputs.task.space.n_features, dtype=torch.float64)


@dataclass(frozen=True)
class InputItself(Control):
    """The input as its own explanation: a feature's score is the mean of its elements' values.

    Of an image these are its pixels, of a graph its edges, all 1, and of a table its columns, standardised; a category
    has no value and scores 0.
    """

    name: ClassVar[str] = "input_itself"
    label: ClassVar[str] = "The input itself"
    per_element: ClassVar[bool] = True

    def of_features(self, inputs: Inputs) -> Tensor:
        """Read the input."""
        values = inputs.task.space.standardised(inputs.x).double()
        return inputs.units.collect(values[:, None])[:, 0] / inputs.units.n_elements
