"""Extremal perturbations: of all smooth masks of a given area the one that matters most, for several areas."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad, pixel_shuffle

from fans.errors import InputError, check_whole, choose, is_number
from fans.methods.masks import REPLACE, Replace, grid, plane, replaced, tangent
from fans.methods.problem import Problem, gradient
from fans.methods.rivals import ElementMethod, check_number
from fans.modalities.image.space import blurred

SIGNS: dict[str, tuple[int, ...]] = {"preserve": (1,), "delete": (-1,), "hybrid": (1, -1)}
"""Of the output where the mask is kept (1) and where it is deleted (-1), in what is maximised."""

MOMENTUM = 0.9
GROWTH = 16.0
"""How many times the area's price grows from the first step to the last."""

TEMPERATURE = 0.05
"""Of the smooth maximum."""

LEAST = 0.05
"""Cells whose kernel is less than this everywhere on a pixel's cell are left out of its maximum."""


@dataclass(frozen=True)
class ExtremalPerturbation(ElementMethod):
    """Score a pixel by how many of the masks that matter most, one of each area, it is in.

    A mask m in [0, 1] of area a maximises

        sign * f(m * x + (1 - m) * blurred x) - weight * mean (vecsort(m) - r_a)^2

    r_a is a share 1 - a of zeros followed by ones, so that the penalty is 0 only for a mask that is 1 on the share a of
    the pixels and 0 on the others. `"preserve"` keeps what is in the mask; `"delete"` deletes it (1 - m in place of m)
    and lowers the output; `"hybrid"` maximises the difference of the two. The mask is a smooth maximum over coarse
    cells c, m(u) = smax_v k(u - v) c(v), with

        k(d) = exp(-max(0, |d| / sigma - 1)^2 / 4),   smax f = sum f exp(f / T) / sum exp(f / T),   T = 1 / 20

    so that no detail of it is finer than the kernel k. Cells take steps of gradient ascent with momentum 0.9, within 0
    and 1, while `weight` grows 16 times. The score is the mean of the masks over the areas, blurred. f is the logit,
    whatever `output=` says: a probability is flat where the model is sure.

    Differs from the paper: 100 steps of a rate of 0.1 with a penalty of 10, not 800 of 0.01 with 300; the areas are
    larger, for small images; cells begin at a half and the first step has no penalty, because among pixels that are all
    alike the order, and so the mask, would be that of their places; one blur, not a pyramid of them.

    Args:
        areas: shares of the image, each above 0 and below 1.
        variant: `"preserve"`, `"delete"` or `"hybrid"`.
        n_steps: for each area, of one model row each (`"hybrid"`: two).
        rate: of the steps; 0.03 for images of a few hundred pixels or fewer, where every cell covers more of the area.
        weight: of the area's penalty at the first step.
        cell: side of a coarse cell, in pixels.
        sigma: of the kernel, in pixels; by default half a cell.
        replace: with the `"blur"` of the image, or the `"baseline"`.
        smooth: deviation of the Gaussian that blurs the mean mask, as a share of the shorter side; 0 leaves it.
    """

    name: ClassVar[str] = "extremal_perturbation"
    label: ClassVar[str] = "Extremal perturbations"
    modalities: ClassVar[tuple[str, ...]] = ("image",)
    per_pixel: ClassVar[bool] = True
    citation: ClassVar[str] = (
        "Fong, Patrick and Vedaldi, Understanding Deep Networks via Extremal Perturbations and Smooth Masks, ICCV 2019"
    )

    areas: Sequence[float] = (0.1, 0.2, 0.4, 0.6)
    variant: Literal["preserve", "delete", "hybrid"] = "preserve"
    n_steps: int = 100
    rate: float = 0.1
    weight: float = 10.0
    cell: int = 2
    sigma: float | None = None
    replace: Replace = "blur"
    smooth: float = 0.09

    def __post_init__(self) -> None:
        listed = isinstance(self.areas, tuple | list) and len(self.areas) > 0
        if not listed or not all(is_number(a) and 0 < a < 1 for a in self.areas):
            raise InputError(
                f"Expected `areas` as shares of the image above 0 and below 1, got {self.areas!r}; e.g. (0.1, 0.2)"
            )
        object.__setattr__(self, "areas", tuple(self.areas))
        choose("`variant`", self.variant, SIGNS)
        check_whole("n_steps", self.n_steps, 1)
        check_whole("cell", self.cell, 1)
        check_number("rate", self.rate, 0, above=True)
        check_number("weight", self.weight, 0)
        check_number("smooth", self.smooth, 0)
        if self.sigma is not None:
            check_number("sigma", self.sigma, 0, above=True)
        choose("`replace`", self.replace, REPLACE)

    def cost(self, n_features: int) -> int:
        """One row a step and area, two for the hybrid."""
        return self.n_steps * len(SIGNS[self.variant]) * self.at_once(n_features)

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """One an area."""
        return len(self.areas)

    def elements(self, problem: Problem) -> Tensor:
        """Return the mean of the masks, blurred."""
        size = plane(problem)
        mean = self.fine(self.cells(problem), size).view(len(problem), -1, *size).mean(1, keepdim=True)
        return problem.task.space.rows(blurred(mean, self.smooth * min(size)) if self.smooth else mean)

    def cells(self, problem: Problem) -> Tensor:
        """Return the coarse cells `(n * areas, 1, h, w)` after the last step.

        Each entry moves by its own mask's slope alone, so no input's masks depend on what else is in the batch.
        """
        shape = (len(problem) * len(self.areas), 1, *grid(problem, self.cell))
        cells = torch.full(shape, 0.5, dtype=problem.x.dtype)
        velocity, replacement = torch.zeros_like(cells), replaced(problem, self.replace)
        for step in range(self.n_steps):
            leaf = cells.requires_grad_()
            velocity = MOMENTUM * velocity + gradient(self.objective(problem, replacement, leaf, step), leaf)
            cells = (cells.detach() - self.rate * velocity).clamp(0, 1)
        return cells

    def objective(self, problem: Problem, replacement: Tensor, cells: Tensor, step: int) -> Tensor:
        """Return what is minimised `(n * areas,)`, the areas of an input after one another."""
        owner = torch.arange(len(problem)).repeat_interleave(len(self.areas))
        fine = self.fine(cells, plane(problem))
        ordered = fine.flatten(1).sort(dim=1, stable=True).values
        wanted = self.wanted(ordered.shape[1]).to(ordered.dtype).repeat(len(problem), 1)
        value = self.weight_at(step) * ((ordered - wanted) ** 2).mean(1)
        for sign in SIGNS[self.variant]:
            keep = problem.task.space.rows(fine if sign > 0 else 1 - fine)
            rows = torch.lerp(replacement[owner], problem.x[owner], keep)
            value = value - sign * tangent(problem, rows, owner, raw=True)
        return value

    def weight_at(self, step: int) -> float:
        """Return the price of a wrong area at a step."""
        return self.weight * GROWTH ** (step / max(1, self.n_steps - 1)) if step else 0.0

    def wanted(self, n_pixels: int) -> Tensor:
        """Return r_a for every area, `(areas, n_pixels)`."""
        n_ones = (torch.tensor(self.areas) * n_pixels).round()
        return torch.arange(n_pixels) >= n_pixels - n_ones[:, None]

    def fine(self, cells: Tensor, size: tuple[int, int]) -> Tensor:
        """Return the masks `(m, 1, height, width)` of coarse cells."""
        out: Tensor = _SmoothMax.apply(cells, *self._kernel(cells.dtype))  # type: ignore[no-untyped-call]
        return pixel_shuffle(out, self.cell)[:, :, : size[0], : size[1]]

    def _kernel(self, dtype: torch.dtype) -> tuple[Tensor, list[list[int]], int]:
        """Return k from every pixel of a cell to the cells around, `(cells around, pixels, 1, 1)`.

        And where those cells are, from the first row and column of `reach` cells to either side, and `reach`.
        """
        sigma = self.sigma or self.cell / 2
        reach = math.ceil((1 + 2 * math.sqrt(-math.log(LEAST))) * sigma / self.cell)
        around, inside = torch.arange(-reach, reach + 1, dtype=dtype), torch.arange(self.cell, dtype=dtype)
        away = (around[:, None] + 0.5) * self.cell - (inside + 0.5)  # between the centres, along one axis
        distance = (away[:, None, :, None] ** 2 + away[None, :, None] ** 2).sqrt() / sigma
        kernel = torch.exp(-((distance - 1).clamp(min=0) ** 2) / 4).flatten(2)
        places = (kernel.amax(2) >= LEAST).nonzero()
        return kernel[places[:, 0], places[:, 1], :, None, None], places.tolist(), reach


class _SmoothMax(torch.autograd.Function):
    """The smooth maximum over the cells around each cell, one of them at a time: all together take too much memory."""

    @staticmethod
    def forward(ctx: Any, cells: Tensor, kernel: Tensor, places: list[list[int]], reach: int) -> Tensor:
        h, w = cells.shape[2:]
        padded = pad(cells, [reach] * 4)
        above = torch.zeros(len(cells), kernel.shape[1], h, w, dtype=cells.dtype)
        below = torch.zeros_like(above)
        for k, (i, j) in zip(kernel, places, strict=True):
            value = padded[:, :, i : i + h, j : j + w] * k
            share = torch.exp(value / TEMPERATURE)
            below += share
            above.addcmul_(value, share)
        out = above / below
        ctx.save_for_backward(padded, kernel, below, out)
        ctx.places, ctx.reach = places, reach
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None]:
        padded, kernel, below, out = ctx.saved_tensors
        (h, w), total = out.shape[2:], torch.zeros_like(padded)
        share, ahead = slope / below, 1 - out / TEMPERATURE
        for k, (i, j) in zip(kernel, ctx.places, strict=True):
            warm = padded[:, :, i : i + h, j : j + w] * (k / TEMPERATURE)
            part = (warm + ahead).mul_(warm.exp_()).mul_(share).mul_(k)
            total[:, :, i : i + h, j : j + w] += part.sum(1, keepdim=True)
        inner = slice(ctx.reach, -ctx.reach)
        return total[:, :, inner, inner], None, None, None
