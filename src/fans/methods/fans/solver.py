"""What a solver of FANS is: a way to find an order of the features, with settings of its own."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from fans.engine.settings import Settings
from fans.errors import InputError
from fans.methods.base import Scores, Without
from fans.methods.problem import Problem
from fans.registry import Registered
from fans.task import Task


@dataclass(frozen=True)
class Solver(Registered):
    """A way to find FANS's scores: a frozen dataclass whose fields are its settings, each with a default.

    Users name it and pass its settings flat: `fans.Explainer(..., solver="mine", n_rounds=3)`. A setting that another
    solver of ours has as well has the same default for all.

    Attributes:
        without: the term of PNS that is left out, for solvers that have terms.
    """

    registry: ClassVar[dict[str, type[Registered]]] = {}
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings by effort, where they differ from the defaults."""
    needs_gradient: ClassVar[bool] = False
    """Whether it follows gradients: others ask any black box."""
    has_terms: ClassVar[bool] = False
    """Whether there are terms to leave out."""
    looks_around: ClassVar[bool] = False
    """Whether the scores depend on the input's neighbourhood, not on the input alone."""
    shares: ClassVar[bool] = False
    """Whether the scores themselves tell the subset: by fair shares of their sum."""
    fine: ClassVar[bool] = False
    """Whether it serves a fine grid: an image's features are then cells, if the user does not say."""

    without: Without = None

    @abstractmethod
    def attribute(self, problem: Problem) -> Scores:
        """Score the features of every input."""

    @abstractmethod
    def cost(self, n_features: int) -> int:
        """About how many model rows an input of so many features costs, those of the neighbourhood aside."""

    def at_once(self, n_features: int) -> int:
        """How many of them go to the model at a time: a solver that takes steps has few."""
        return max(1, self.cost(n_features))

    def settle(self, task: Task, settings: Settings) -> Self:  # noqa: ARG002
        """Return the solver with whatever depends on the model settled."""
        return self

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse a model or settings that it cannot work with, before anything is spent."""
        if self.without is not None and not self.has_terms:
            raise InputError(
                f'Expected no ablation for solver="{self.name}", which has no terms, got without={self.without!r}; '
                'pass solver="chain" or "game"'
            )
        if self.needs_gradient:
            check_differentiable(task, settings, self.name)


def check_differentiable(task: Task, settings: Settings, solver: str) -> None:
    """Refuse what has no gradient."""
    task.predict.check_gradients(f'solver="{solver}"', 'solver="game", which asks for outputs only')
    if settings.change == "label":
        raise InputError(
            f'Expected a change with a gradient for solver="{solver}", got "label"; use change="target" or '
            'solver="game"'
        )
