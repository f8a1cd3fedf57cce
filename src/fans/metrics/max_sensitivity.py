"""Max-Sensitivity: how much an explanation changes when the input hardly does."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.engine.draws import noise
from fans.errors import InputError, check_whole, is_number
from fans.metrics.base import Case, Metric

EXPLAINED_AT_ONCE = 4096
"""Changed inputs given to `explain` in one call."""


@dataclass(frozen=True)
class MaxSensitivity(Metric):
    """Largest change of the scores h among inputs drawn near x.

    `max over z of |h(z) - h(x)| / |h(x)|` in the Euclidean norm, `z = x + U(-radius, radius)`, h(x) the case's scores
    (not divided where those are all 0).

    Args:
        radius: of the draws, in the inputs' units.
        n_draws: z drawn for each input.
        relative: whether to divide by |h(x)|. The paper's formula does not; Quantus and captum do.
        absolute: whether to compare absolute scores.
        normalise: whether to divide each h by its own largest absolute score first.
    """

    name: ClassVar[str] = "max_sensitivity"
    label: ClassVar[str] = "Max-Sensitivity"
    higher_is_better: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, math.inf)
    citation: ClassVar[str] = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"
    needs: ClassVar[tuple[str, ...]] = ("explain",)

    radius: float = 0.2
    n_draws: int = 10
    relative: bool = True
    absolute: bool = False
    normalise: bool = False

    def __post_init__(self) -> None:
        check_whole("n_draws", self.n_draws, 1)
        if not is_number(self.radius) or not 0 < self.radius < math.inf:
            raise InputError(f"Expected `radius` above 0, got {self.radius!r}")

    @property
    def explanations(self) -> int:
        """One for each draw."""
        return self.n_draws

    def cost(self, shape: tuple[int, ...]) -> int:  # noqa: ARG002
        """No rows beyond those of the explanations."""
        return 0

    def copies(self, case: Case) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield which input `(n,)` each changed one comes from, and the changed ones `(n, *input)`.

        The draws of an input follow its id and the case's seed, and are the same at every radius but for their size.
        """
        which = torch.arange(len(case), device=case.inputs.device).repeat_interleave(self.n_draws)
        draw = torch.arange(self.n_draws, device=which.device).repeat(len(case))
        keys = case.keys(self.name)
        for w, d in zip(*(torch.split(each, EXPLAINED_AT_ONCE) for each in (which, draw)), strict=True):
            moved = noise(keys[w], d, case.inputs[0].numel(), -self.radius, self.radius)
            yield w, case.inputs[w] + moved.to(case.inputs.dtype).view_as(case.inputs[w])

    def score(self, case: Case) -> Tensor:
        """Explain all draws of all inputs in as few calls as memory allows."""
        parts = []
        for which, copies in self.copies(case):
            near = self._read(_explain(case, copies, which))
            parts.append((near - self._read(case.scores[which])).norm(dim=1))
        largest = torch.cat(parts).view(len(case), self.n_draws).amax(1)
        size = self._read(case.scores).norm(dim=1)
        return largest / torch.where(size > 0, size, 1.0) if self.relative else largest

    def _read(self, scores: Tensor) -> Tensor:
        """Return scores `(n, E)` as they are compared."""
        flat = scores.double().flatten(1)
        if self.normalise:
            top = flat.abs().amax(1, keepdim=True)
            flat = flat / torch.where(top > 0, top, 1.0)
        return flat.abs() if self.absolute else flat


def _explain(case: Case, inputs: Tensor, which: Tensor) -> Tensor:
    """Return the scores of changed inputs, checked."""
    assert case.explain is not None
    places = which.tolist()
    found = case.explain(inputs, case.target[places], [case.ids[i] for i in places])
    if not isinstance(found, Tensor) or found.shape != inputs.shape:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"Expected scores {tuple(inputs.shape)} from `explain`, got {got}; score every element")
    if not torch.isfinite(found).all():
        n_bad = int((~torch.isfinite(found)).sum())
        raise InputError(f"Expected finite scores from `explain`, got NaN or infinity for {n_bad} elements")
    return found.detach().to(inputs.device)
