"""What every attribution method is."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fans.engine.settings import Settings
from fans.errors import InputError
from fans.methods.problem import Problem
from fans.registry import Registered
from fans.task import Task

Without = Literal["SF", "NC", "SR"] | None
"""An ablation: without the sufficiency term, the necessity term, or the sampling by closeness."""

Drawn = Literal["blocks", "features"]
"""What is drawn at a time on a fine grid, where the space has blocks."""


@dataclass(frozen=True)
class Scores:
    """What a method says of B inputs.

    Attributes:
        scores: `(B, F)` importance of each feature.
        se: `(B, F)` its standard error, where the method has one.
        n_rows: `(B,)` model rows spent.
        history: `(B, steps)` what the method maximised at each step, NaN after the last, where it took steps.
        replicates: `(B, N_REPLICATES, F)` scores from resampled draws, where the method has them.
        may_join: `(B, F)` features that may be in the subset, where the method knows; else their scores tell.
        n_for: `(B,)` how many of the first features speak for the prediction, where the method knows: the others join
            only if these do not do it.
        direction: `(B, F)` the mean signed move of the output, where the method knows.
        moving: `(B,)` how often anything it perturbed changed the prediction, where the method knows.
        order: `(B, F)` by what the smallest subset that does it is sought, where that is not the scores.
        orders: `(B, N_REPLICATES, F)` the same from the draws of `replicates`.
        sharpen: returns scores of an order that is better about the size of the subset, given the model rows that it
            may take; None if those are too few. For methods whose scores serve other purposes as well.
    """

    scores: Tensor
    se: Tensor | None
    n_rows: Tensor
    history: Tensor | None = None
    replicates: Tensor | None = None
    may_join: Tensor | None = None
    n_for: Tensor | None = None
    direction: Tensor | None = None
    moving: Tensor | None = None
    order: Tensor | None = None
    orders: Tensor | None = None
    sharpen: Callable[[int], "Scores | None"] | None = None

    @classmethod
    def even(cls, scores: Tensor, n_rows: int, se: Tensor | None = None) -> "Scores":
        """Return scores on each of which as many model rows were spent."""
        return cls(scores, se, torch.full((len(scores),), n_rows))


@dataclass(frozen=True)
class Method(Registered):
    """An attribution method: a frozen dataclass whose fields are its settings."""

    registry: ClassVar[dict[str, type[Registered]]] = {}
    label: ClassVar[str]
    modalities: ClassVar[tuple[str, ...]]
    citation: ClassVar[str]
    per_element: ClassVar[bool] = False
    """Whether a feature's score is the mean of its elements' and not that of all of them together."""
    per_pixel: ClassVar[bool] = False
    """Whether each channel of a pixel carries the score of the whole pixel."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings by name, of the method and of the explainer around it."""
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings of the method by effort."""

    @property
    def looks_around(self) -> bool:
        """Whether the scores depend on the input's neighbourhood, not on the input alone."""
        return False

    @classmethod
    def taking(cls, settings: Mapping[str, Any]) -> "type[Method]":  # noqa: ARG003
        """Return the class that takes these settings: a method may have more of them where one of them says so."""
        return cls

    @classmethod
    def unit_for(cls, model: Any, settings: Mapping[str, Any]) -> Any:  # noqa: ARG003
        """Return what a feature of an image is to be if the user does not say; None is the space's own choice."""
        return None

    @abstractmethod
    def attribute(self, problem: Problem) -> Scores:
        """Score the features of every input."""

    @property
    def shares(self) -> bool:
        """Whether the scores themselves tell the subset: by fair shares of their sum."""
        return False

    def settle(self, task: Task, settings: Settings) -> "Method":  # noqa: ARG002
        """Return the method with whatever depends on the model and settings settled."""
        return self

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse a model or settings that the method cannot work with, before anything is spent."""

    def prepare(self, task: Task, seed: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Train what has to be trained before anything is explained; return what that cost, for the record."""
        return {}

    def training_cost(self, n_background: int) -> int:  # noqa: ARG002
        """About how many model rows `prepare` takes with so many background samples."""
        return 0

    @abstractmethod
    def cost(self, n_features: int) -> int:
        """About how many model rows an input of so many features costs, those of the neighbourhood aside."""

    def at_once(self, n_features: int) -> int:
        """How many of them go to the model at a time: a method that takes steps has few."""
        return max(1, self.cost(n_features))


def check_modality(method: Method, task: Task) -> None:
    """Refuse inputs of a kind that the method was not made for."""
    if not {task.space.modality, *task.space.kin} & set(method.modalities):
        raise InputError(
            f"Expected {' or '.join(method.modalities)} inputs for method={method.name!r}, got {task.space.modality} "
            "inputs; use another method, e.g. method='fans'"
        )
