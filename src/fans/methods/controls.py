"""Scores that know nothing of the model: what any method must beat, and no metric should prefer."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.methods.base import Method, Scores
from fans.methods.problem import Problem


@dataclass(frozen=True)
class Control(Method):
    """Scores without asking the model."""

    modalities: ClassVar[tuple[str, ...]] = ("table", "image", "graph")
    citation: ClassVar[str] = "A control, not a method"

    @abstractmethod
    def of_features(self, problem: Problem) -> Tensor:
        """Return the score of each feature, `(n, F)`; those of absent features do not count."""

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """None."""
        return 0

    def attribute(self, problem: Problem) -> Scores:
        """Score the features that are present."""
        return Scores.even(self.of_features(problem) * problem.present, 0)


@dataclass(frozen=True)
class Random(Control):
    """Scores drawn at random between 0 and 1."""

    name: ClassVar[str] = "random"
    label: ClassVar[str] = "random"

    def of_features(self, problem: Problem) -> Tensor:
        """Draw."""
        return draws.uniform(problem.keys("random")[:, None], torch.arange(problem.n_features))


@dataclass(frozen=True)
class Equal(Control):
    """The score 1 for every feature."""

    name: ClassVar[str] = "equal"
    label: ClassVar[str] = "All equal"

    def of_features(self, problem: Problem) -> Tensor:
        """Count."""
        return torch.ones(len(problem), problem.n_features, dtype=torch.float64)


@dataclass(frozen=True)
class InputItself(Control):
    """The input as its own explanation: a feature's score is the mean of its elements' values.

    Of an image these are its pixels, of a graph its edges, all 1, and of a table its columns, standardised; a category
    has no value and scores 0.
    """

    name: ClassVar[str] = "input_itself"
    label: ClassVar[str] = "The input itself"
    per_element: ClassVar[bool] = True

    def of_features(self, problem: Problem) -> Tensor:
        """Read the input."""
        values = problem.task.space.standardised(problem.x).double()
        return problem.units.collect(values[:, None])[:, 0] / problem.units.n_elements
