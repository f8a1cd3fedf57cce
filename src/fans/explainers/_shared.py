"""What every attribution method is, and the last step they share: from scores to the best subset."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fans.core import InputError, Registered, check_whole, is_number
from fans.estimate import closeness, largest_change, moments
from fans.pns import Settings, pns_terms
from fans.task import Task
from fans.trials import Block, run_trials

Without = Literal["SF", "NC", "SR"] | None
"""An ablation: without the sufficiency term, the necessity term, or the sampling by closeness."""

Drawn = Literal["blocks", "features"]
"""What is drawn at a time on a fine grid, where the space has blocks."""

FEW = 4
"""Up to this many features every subset is tried."""


@dataclass(frozen=True)
class Scores:
    """What a method says of B inputs.

    Attributes:
        scores: `(B, F)` importance of each feature.
        se: `(B, F)` its standard error, where the method has one.
        n_rows: `(B,)` model rows spent.
        history: `(B, steps)` what the method maximised at each step, NaN after the last, where it took steps.
    """

    scores: Tensor
    se: Tensor | None
    n_rows: Tensor
    history: Tensor | None = None


@dataclass(frozen=True)
class Method(Registered):
    """An attribution method: a frozen dataclass whose fields are its settings."""

    registry: ClassVar[dict[str, type[Registered]]] = {}
    label: ClassVar[str]
    modalities: ClassVar[tuple[str, ...]]
    citation: ClassVar[str]
    looks_around: ClassVar[bool] = False
    """Whether the scores depend on the input's neighbourhood, not on the input alone."""
    per_element: ClassVar[bool] = False
    """Whether a feature's score is the mean of its elements' and not that of all of them together."""
    per_pixel: ClassVar[bool] = False
    """Whether each channel of a pixel carries the score of the whole pixel."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings by name, of the method and of the explainer around it."""

    @abstractmethod
    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:
        """Score the features of every input of a block."""

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
    if task.space.modality not in method.modalities:
        raise InputError(
            f"Expected {' or '.join(method.modalities)} inputs for method={method.name!r}, got {task.space.modality} "
            "inputs; use another method, e.g. method='fans'"
        )


@dataclass(frozen=True)
class Selection:
    """How the best subset is chosen.

    Attributes:
        n_sweep: model rows to spend on each round of subsets, at least one perturbation of each sample and side.
        refine: rounds of dropping, adding or swapping one feature after the sweep.
        price: what a feature must add to join the subset, in even shares of the best PNS: 1/F of it, at most a tenth.
            PNS hardly ever falls when a feature joins (perturbing more changes more, perturbing less of the rest
            changes less), so its plain maximum is nearly everything; at price 0 that is what you get.
    """

    n_sweep: int = 2000
    refine: int = 1
    price: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("n_sweep", 1), ("refine", 0)):
            check_whole(name, getattr(self, name), least)
        if not is_number(self.price) or not 0 <= self.price < math.inf:
            raise InputError(f"Expected `price` of at least 0, got {self.price!r}")


@dataclass(frozen=True)
class Chosen:
    """The winning subset `(B, F)` of each input, its tolerance `(B,)` and model rows spent `(B,)`."""

    subset: Tensor
    tolerance: Tensor
    n_rows: Tensor


def sizes(n_features: int) -> list[int]:
    """Return subset sizes to try: 1, 2, 3, 4, 6, 8, 12, 16, ... up to all."""
    doublings = [2**i for i in range(n_features.bit_length())]
    return sorted({k for k in (*doublings, *(3 * d for d in doublings)) if k < n_features} | {n_features})


def best_subset(task: Task, block: Block, scores: Tensor, settings: Settings, selection: Selection) -> Chosen:
    """Sweep the top-k subsets, refine the best one, and return the one with the highest PNS net of its price.

    All subsets of an input are tried on the same draws, so that their differences are sharp; the winner must be
    estimated again on fresh ones.
    """
    n_inputs, n_features = scores.shape
    present = block.pool.units.present
    rank = scores.masked_fill(~present, -torch.inf).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    each = torch.arange(n_inputs)
    few = n_features <= FEW
    candidates = _all_subsets(n_features).expand(n_inputs, -1, -1) if few else _top(rank)
    quick = _economical(task, block, candidates.shape[1], settings, selection.n_sweep)
    tried = _try(task, block, candidates & present[:, None], quick)
    for _ in range(0 if few else selection.refine):
        best = tried.pick(selection.price)
        near = _neighbours(tried.candidates[each, best], rank) & present[:, None]
        tried = tried.join(_try(task, block, near, quick))
    best = tried.pick(selection.price)
    return Chosen(tried.candidates[each, best], tried.tolerance[each, best], tried.n_rows)


def _economical(task: Task, block: Block, n_subsets: int, settings: Settings, n_rows: int) -> Settings:
    """Return the settings to try subsets with: enumeration if affordable, else as many draws as the rows allow."""
    n_features, n_samples = task.space.n_features, block.pool.index.shape[1]
    if not task.baseline.drawn and n_samples * n_subsets * 2**n_features <= 2 * n_rows:
        return replace(settings, estimator="exact")
    k = max(1, n_rows // (2 * n_samples * n_subsets))
    return replace(settings, estimator="weighted", n_factual=k, n_perturb=k)


def _all_subsets(n_features: int) -> Tensor:
    """Return every subset but the empty one, `(2^F - 1, F)`."""
    return (torch.arange(1, 2**n_features)[:, None] >> torch.arange(n_features) & 1).bool()


def _top(rank: Tensor) -> Tensor:
    """Return the top-k subsets for every size tried, `(B, J, F)`."""
    return torch.stack([rank < k for k in sizes(rank.shape[1])], 1)


def _neighbours(subset: Tensor, rank: Tensor, reach: int = 2) -> Tensor:
    """Return subsets one step away `(B, J, F)`: without one of their last members, or with one of the next ranks."""
    n_features = subset.shape[1]
    far = torch.where(subset, rank, torch.full_like(rank, -1))
    near = torch.where(subset, torch.full_like(rank, n_features), rank)
    last = far.topk(min(reach, n_features), 1).indices  # members, the least important first
    following = near.topk(min(reach, n_features), 1, largest=False).indices
    out = []
    for column, value in [(c, False) for c in last.unbind(1)] + [(c, True) for c in following.unbind(1)]:
        out.append(subset.scatter(1, column[:, None], value))
    for drop, add in zip(last.unbind(1), following.unbind(1), strict=True):
        out.append(subset.scatter(1, drop[:, None], False).scatter(1, add[:, None], True))
    return torch.stack(out, 1)


@dataclass(frozen=True)
class Tried:
    """Subsets tried on common draws.

    Attributes:
        candidates: `(B, J, F)`.
        terms: `(B, J, S)` what each sample adds to PNS.
        tolerance: `(B, J)` used for each.
        n_rows: `(B,)`.
    """

    candidates: Tensor
    terms: Tensor
    tolerance: Tensor
    n_rows: Tensor

    def join(self, other: "Tried") -> "Tried":
        """Put two lists of subsets together."""
        return Tried(
            torch.cat([self.candidates, other.candidates], 1),
            torch.cat([self.terms, other.terms], 1),
            torch.cat([self.tolerance, other.tolerance], 1),
            self.n_rows + other.n_rows,
        )

    def pick(self, price: float) -> Tensor:
        """Return for each input `(B,)` the place of the subset with the highest PNS net of its price."""
        size = self.candidates.sum(2)
        value = self.terms.mean(2)
        fee = price * value.amax(1, keepdim=True) * size * min(0.1, 1 / self.candidates.shape[2])
        # Nothing to gain anywhere: the smallest. An empty subset never wins.
        return (value - fee - 1e-9 * size).masked_fill(size == 0, -torch.inf).argmax(1)


def _try(task: Task, block: Block, candidates: Tensor, settings: Settings) -> Tried:
    """Run the sweep's trials and keep each subset's terms at its best tolerance."""
    n_inputs, n_subsets, _ = candidates.shape
    trials = run_trials(task, block, candidates, "sweep", settings)
    near = closeness(trials, block.radius.repeat_interleave(n_subsets), settings)
    tolerance = block.tolerance.repeat_interleave(n_subsets)
    grid = tolerance[:, None]
    if block.search:  # one grid an input, whatever the subset
        largest = largest_change(trials).view(n_inputs, n_subsets).amax(1)
        grid = block.search.tolerance_grid(tolerance, largest.repeat_interleave(n_subsets))
    best = torch.full((len(tolerance), trials.pool.index.shape[1]), -1.0, dtype=torch.float64)
    for c in grid.unbind(1):
        terms = pns_terms(moments(near, trials, c, settings), settings)
        better = terms.mean(1) > best.mean(1)
        best = torch.where(better[:, None], terms, best)
        tolerance = torch.where(better, c, tolerance)
    return Tried(
        candidates,
        best.view(n_inputs, n_subsets, -1),
        tolerance.view(n_inputs, n_subsets),
        trials.n_rows.view(n_inputs, n_subsets).sum(1),
    )
