"""Sparseness: how few elements hold the scores."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.metrics.base import Case, Metric


@dataclass(frozen=True)
class Sparseness(Metric):
    """Gini index of the absolute scores: 0 if all are equal (or 0), near 1 if one element has everything.

    `1 - 2 sum_d s_d / |s|_1 * (D - d + 1/2) / D` with s in ascending order. (The paper prints a descending sort, which
    gives the negative.) Quantus adds 1e-7 to scores divided by their maximum: the same to 1e-5.
    """

    name: ClassVar[str] = "sparseness"
    label: ClassVar[str] = "Sparseness"
    higher_is_better: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = "Chalasani et al., Concise explanations of neural networks, ICML 2020"

    def cost(self, shape: tuple[int, ...]) -> int:  # noqa: ARG002
        """Nothing."""
        return 0

    def score(self, case: Case) -> Tensor:
        """Sort and weigh."""
        ascending = case.scores.double().abs().flatten(1).sort(dim=1).values
        n = ascending.shape[1]
        weights = 2 * torch.arange(1, n + 1, dtype=torch.float64, device=ascending.device) - n - 1
        total = ascending.sum(1)
        return (ascending @ weights) / (n * torch.where(total > 0, total, 1.0))
