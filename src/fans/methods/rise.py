"""RISE: random smooth masks, weighed by the output they leave."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fans.engine import draws
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole, is_number
from fans.methods.masks import plane
from fans.methods.problem import Problem
from fans.methods.rivals import ElementMethod
from fans.task import Task


@dataclass(frozen=True)
class Rise(ElementMethod):
    """Score a pixel by the mean output over random masks, each mask weighed by how much of the pixel it shows.

    With N masks m_i in [0, 1] of expectation p, 1 where the image is kept, the score of a pixel u is

        sum_i f(m_i * x + (1 - m_i) * baseline) m_i(u) / (N p)

    A mask begins as a grid of `cells` x `cells` zeros and ones, each 1 with probability p. It is interpolated
    bilinearly to one cell more than the image has on either axis, and cut to the image's size at a random offset of up
    to a cell. Only outputs are asked for, so any black box will do.

    Differs from the paper: every image has masks of its own; missing pixels show the baseline, which is black there; a
    cell's side is rounded up where the image is no multiple of it.

    Args:
        n_samples: N, one model row each.
        cells: of the grid, along each side of the image.
        p: probability that a cell is kept, between 0 and 1.
    """

    name: ClassVar[str] = "rise"
    label: ClassVar[str] = "RISE"
    modalities: ClassVar[tuple[str, ...]] = ("image",)
    per_pixel: ClassVar[bool] = True
    citation: ClassVar[str] = (
        "Petsiuk, Das and Saenko, RISE: Randomized Input Sampling for Explanation of Black-box Models, BMVC 2018"
    )

    n_samples: int = 500
    cells: int = 7
    p: float = 0.5

    def __post_init__(self) -> None:
        check_whole("n_samples", self.n_samples, 1)
        check_whole("cells", self.cells, 1)
        if not (is_number(self.p) and 0 < self.p < 1):
            raise InputError(f"Expected `p` above 0 and below 1, got {self.p!r}; 0.5 keeps half of the image")

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse images with fewer pixels than cells on a side."""
        side = min(task.space.planes(task.background[:1]).shape[2:])
        if self.cells > side:
            raise InputError(f"Expected `cells` of at most {side}, the image's shorter side, got {self.cells}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """One row a mask."""
        return self.n_samples

    def elements(self, problem: Problem) -> Tensor:
        """Return the weighed sum of the masks."""
        task, n = problem.task, len(problem)
        total = torch.zeros(n, *plane(problem), dtype=torch.float64)
        for piece in torch.split(torch.arange(n * self.n_samples), problem.max_batch):
            owner = piece // self.n_samples
            masks = self.masks(problem, owner, piece % self.n_samples)
            rows = torch.lerp(problem.missing[owner], problem.x[owner], task.space.rows(masks[:, None]))
            total.index_add_(0, owner, problem.ask(rows, owner, fresh=True)[:, None, None] * masks)
        return task.space.rows((total / (self.n_samples * self.p))[:, None])

    def masks(self, problem: Problem, owner: Tensor, place: Tensor) -> Tensor:
        """Return the masks `(m, height, width)` at some places of some inputs' own lists, both `(m,)`."""
        size = plane(problem)
        kept = draws.bernoulli(problem.keys("rise")[owner], place, self.cells**2, self.p)
        grid = draws.numbers(kept, problem.x.dtype).view(-1, 1, self.cells, self.cells)
        cell = torch.tensor([-(-side // self.cells) for side in size])
        large = interpolate(grid, tuple(((self.cells + 1) * cell).tolist()), mode="bilinear")[:, 0]
        offsets = problem.keys("rise, offset")[owner, None]
        start = draws.integers(offsets, 2 * place[:, None] + torch.arange(2), cell + 1)
        down, across = (start[:, i, None] + torch.arange(side) for i, side in enumerate(size))
        return large[torch.arange(len(large))[:, None, None], down[:, :, None], across[:, None]]
