"""What methods share that optimise a mask on the image: what deleted pixels show, noise, and slopes in pieces."""

from typing import Literal

import torch
from torch import Tensor

from fans.engine import draws
from fans.methods.rivals import Inputs
from fans.modalities.image.space import blurred

Replace = Literal["blur", "baseline"]
REPLACE = ("blur", "baseline")


def plane(inputs: Inputs) -> tuple[int, int]:
    """Return height and width of the images."""
    height, width = inputs.task.space.planes(inputs.x).shape[2:]
    return height, width


def grid(inputs: Inputs, cell: int) -> tuple[int, int]:
    """Return how many cells of some side cover the height and the width; the last may reach beyond the image."""
    height, width = plane(inputs)
    return -(-height // cell), -(-width // cell)


def replaced(inputs: Inputs, replace: Replace, sigma: float | None = None) -> Tensor:
    """Return what deleted pixels show, `(n, E)`: the image blurred, or the baseline."""
    if replace == "baseline":
        return inputs.missing
    return inputs.task.space.rows(blurred(inputs.task.space.planes(inputs.x), sigma))


def noise(inputs: Inputs, stage: str, step: int, size: float) -> Tensor:
    """Return the noise of a step `(n, E)`, `size` in standard deviations of each pixel over the background."""
    if not size:
        return torch.zeros_like(inputs.x)
    place = step * inputs.x.shape[1] + torch.arange(inputs.x.shape[1])
    normals = draws.normal(inputs.keys(stage)[:, None], place)
    return inputs.task.space.noise(normals.to(inputs.x.dtype), size, relative=True).to(inputs.x.dtype)


def tangent(inputs: Inputs, rows: Tensor, owner: Tensor, *, raw: bool = False) -> Tensor:
    """Return the output `(m,)` on rows `(m, E)` of inputs `owner` as `Inputs.slopes` does, with a way back to the rows.

    The model is asked in pieces and what it computed is let go at once, so no more than a batch exists at a time.
    """
    out, slopes = inputs.slopes(rows, owner, raw=raw)
    return out + ((rows - rows.detach()) * slopes).sum(1)


def mean(values: Tensor) -> Tensor:
    """Return the mean of each input's values `(n,)`; 0 where there is none."""
    flat = values.flatten(1)
    return flat.sum(1) / max(1, flat.shape[1])
