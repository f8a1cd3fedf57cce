"""What the tests of metrics share: small networks, a model that remembers, cases."""

from typing import Any

import torch
from torch import Tensor, nn

from fans.metrics import Case


def network(n_channels: int = 1, side: int = 8, n_classes: int = 3, scale: float = 3.0) -> nn.Sequential:
    """A small convolutional network, the steeper the larger `scale`, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flat = 4 * (side - 2) ** 2
        parts = (nn.Conv2d(n_channels, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(flat, n_classes))
        model = nn.Sequential(*parts)
        for parameter in model.parameters():
            parameter.data *= scale
    return model.eval()


class Recorder(nn.Module):
    """A model that keeps the rows it is asked about."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.seen: list[Tensor] = []

    def forward(self, rows: Tensor) -> Tensor:
        self.seen.append(rows.clone())
        out: Tensor = self.model(rows)
        return out

    def rows(self) -> Tensor:
        return torch.cat(self.seen)

    @property
    def n_rows(self) -> int:
        return sum(len(rows) for rows in self.seen)


def images(n: int = 3, n_channels: int = 1, side: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images and scores, `(n, n_channels, side, side)` each."""
    random = torch.Generator().manual_seed(seed)
    shape = (n, n_channels, side, side)
    return torch.rand(shape, generator=random), torch.randn(shape, generator=random)


def case_of(model: Any, inputs: Tensor, scores: Tensor, **more: Any) -> Case:
    """A case whose targets are 0, 1, 2, 0, ... unless said."""
    target = torch.arange(len(inputs)) % 3
    settings: dict[str, Any] = {"target": target, "ids": range(len(inputs))} | more
    return Case(model, inputs, scores, **settings)
