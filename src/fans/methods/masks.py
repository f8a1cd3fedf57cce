"""What methods share that optimise a mask on the image: what deleted pixels show, noise, and slopes in pieces."""

from typing import Literal

import torch
from torch import Tensor

from fans.engine import draws
from fans.methods.problem import Problem
from fans.modalities.image.space import blurred

Replace = Literal["blur", "baseline"]
REPLACE = ("blur", "baseline")


def plane(problem: Problem) -> tuple[int, int]:
    """Return height and width of the images."""
    height, width = problem.task.space.planes(problem.x).shape[2:]
    return height, width


def grid(problem: Problem, cell: int) -> tuple[int, int]:
    """Return how many cells of some side cover the height and the width; the last may reach beyond the image."""
    height, width = plane(problem)
    return -(-height // cell), -(-width // cell)


def replaced(problem: Problem, replace: Replace, sigma: float | None = None) -> Tensor:
    """Return what deleted pixels show, `(n, E)`: the image blurred, or the baseline."""
    if replace == "baseline":
        return problem.missing
    return problem.task.space.rows(blurred(problem.task.space.planes(problem.x), sigma))


def noise(problem: Problem, stage: str, step: int, size: float) -> Tensor:
    """Return the noise of a step `(n, E)`, `size` in standard deviations of each pixel over the background."""
    if not size:
        return torch.zeros_like(problem.x)
    place = step * problem.x.shape[1] + torch.arange(problem.x.shape[1])
    normals = draws.normal(problem.keys(stage)[:, None], place)
    return problem.task.space.noise(normals.to(problem.x.dtype), size, relative=True).to(problem.x.dtype)


def tangent(problem: Problem, rows: Tensor, owner: Tensor, *, raw: bool = False) -> Tensor:
    """Return the output `(m,)` on rows `(m, E)` of inputs `owner` as `Inputs.slopes` does, with a way back to the rows.

    The model is asked in pieces and what it computed is let go at once, so no more than a batch exists at a time.
    """
    out, slopes = problem.slopes(rows, owner, raw=raw)
    return out + ((rows - rows.detach()) * slopes).sum(1)


def mean(values: Tensor) -> Tensor:
    """Return the mean of each input's values `(n,)`; 0 where there is none."""
    flat = values.flatten(1)
    return flat.sum(1) / max(1, flat.shape[1])
