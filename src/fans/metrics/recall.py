"""Recall@N: how much of a known truth is among the highest scores."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fans.errors import InputError, check_whole
from fans.metrics.base import Case, Metric, ranks


@dataclass(frozen=True)
class Recall(Metric):
    """Share of the true elements found among the n with the highest scores: `|top n and truth| / |truth|`.

    Args:
        n: elements taken; of equal scores, the first.
    """

    name: ClassVar[str] = "recall"
    label: ClassVar[str] = "Recall@N"
    higher_is_better: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = (
        "Wang et al., Towards multi-grained explainability for graph neural networks, NeurIPS 2021"
    )
    needs: ClassVar[tuple[str, ...]] = ("truth",)

    n: int = 12

    def __post_init__(self) -> None:
        check_whole("n", self.n, 1)

    def cost(self, shape: tuple[int, ...]) -> int:  # noqa: ARG002
        """Nothing."""
        return 0

    def score(self, case: Case) -> Tensor:
        """Count."""
        assert case.truth is not None
        truth = case.truth.flatten(1).to(case.scores.device)
        size = truth.sum(1)
        if not size.all():
            raise InputError(
                f"Expected some truth in every input, got none in {int((size == 0).sum())} of {len(case)}; "
                "leave them out"
            )
        return (truth & (ranks(case.scores) < self.n)).sum(1).double() / size
