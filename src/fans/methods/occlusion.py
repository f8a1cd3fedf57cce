"""Occlusion: cover a window of the image at a time."""

from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.engine.settings import Settings
from fans.errors import InputError, check_whole
from fans.methods.problem import Problem
from fans.methods.rivals import ElementMethod
from fans.task import Task


@dataclass(frozen=True)
class Occlusion(ElementMethod):
    """Score a pixel by how much the output falls when a window over it shows the baseline: the mean over windows.

    A window covers all channels. The last ones of a row or column may reach beyond the image. Only outputs are asked
    for, so any black box will do.

    Args:
        window: its side in pixels.
        stride: pixels from one window to the next.
    """

    name: ClassVar[str] = "occlusion"
    label: ClassVar[str] = "Occlusion"
    modalities: ClassVar[tuple[str, ...]] = ("image",)
    per_pixel: ClassVar[bool] = True
    citation: ClassVar[str] = "Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014"

    window: int = 4
    stride: int = 1

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1)
        check_whole("stride", self.stride, 1)
        if self.stride > self.window:
            raise InputError(
                f"Expected `stride` of at most `window`, {self.window}, so that no pixel is skipped, got {self.stride}"
            )

    def settle(self, task: Task, settings: Settings) -> "Occlusion":  # noqa: ARG002
        """Count the windows."""
        settled = copy(self)
        rows, columns = self._covers(task)
        object.__setattr__(settled, "_n_windows", len(rows) * len(columns))
        return settled

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse images smaller than a window."""
        side = min(_plane(task))
        if self.window > side:
            raise InputError(f"Expected `window` of at most {side}, the image's shorter side, got {self.window}")

    def cost(self, n_features: int) -> int:
        """The windows, and the image itself; before the image is known, those of a square of so many pixels."""
        across = max(1, -(-(round(n_features**0.5) - self.window) // self.stride) + 1)
        return int(getattr(self, "_n_windows", across**2)) + 1

    def elements(self, problem: Problem) -> Tensor:
        """Return the mean fall over the windows on each pixel."""
        task, n = problem.task, len(problem)
        rows, columns = self._covers(task)
        n_windows = len(rows) * len(columns)
        after = []
        for piece in torch.split(torch.arange(n * n_windows), problem.max_batch):
            owner, window = piece // n_windows, piece % n_windows
            cover = rows[window // len(columns)][:, :, None] & columns[window % len(columns)][:, None]
            hidden = task.space.rows(cover[:, None])
            after.append(problem.ask(torch.where(hidden, problem.missing[owner], problem.x[owner]), owner, fresh=True))
        fall = problem.ask(problem.x, torch.arange(n))[:, None] - torch.cat(after).view(n, n_windows)
        down, across = rows.to(fall.dtype), columns.to(fall.dtype)
        total = torch.einsum("nij,ih,jw->nhw", fall.view(n, len(rows), -1), down, across)
        return task.space.rows((total / (down.sum(0)[:, None] * across.sum(0)))[:, None])

    def _covers(self, task: Task) -> tuple[Tensor, Tensor]:
        """Return which rows each window of a column covers, `(windows, height)`, and the same across."""
        out = []
        for side in _plane(task):
            start = self.stride * torch.arange(max(0, -(-(side - self.window) // self.stride) + 1))[:, None]
            place = torch.arange(side)
            out.append((start <= place) & (place < start + self.window))
        return out[0], out[1]


def _plane(task: Task) -> tuple[int, int]:
    """Return height and width."""
    height, width = task.space.planes(task.background[:1]).shape[2:]
    return height, width
