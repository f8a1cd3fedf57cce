"""iGOS++: a mask that deletes and one that inserts, optimised together by integrated gradients."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fans.errors import check_whole, choose
from fans.methods.masks import REPLACE, Replace, grid, mean, noise, plane, replaced, tangent
from fans.methods.problem import Problem, gradient
from fans.methods.rivals import ElementMethod, check_number


@dataclass(frozen=True)
class IGOSPlusPlus(ElementMethod):
    """Score a pixel by how far it is deleted by two masks: one deletes the class, the other inserts it.

    With masks d and i in [0, 1], 1 where deletion keeps the image and where insertion leaves it out, minimise

        F(d) - F(1 - i) + F(d * i) - F(1 - d * i) + l1 * mean(1 - d * i) + tv * BTV(d * i)

    F(m) = f(m * x + (1 - m) * blurred x), but the slope of F is integrated along the line on which its mask fades: F is
    the mean over s = 1, ..., S of f with the mask s/S * m (or 1 - s/S * m), which reaches from the mask to the wholly
    deleted (or inserted) image, so that a step sees beyond the flat place it stands on. BTV weighs a mask's roughness
    by how alike the image's neighbouring pixels are:

        BTV(m) = mean exp(-(D x)^2 / edge^2) |D m|^beta, D the difference to the pixel below, + the same across

    A score is 1 - d * i. Both masks are coarse and interpolated; fresh noise on the image at every step keeps them from
    fitting the model's quirks. f is the explained output, a probability in the paper.

    Differs from the paper: the line search is replaced by steps along the slope in which the entry that moves most
    moves by `rate`, less at each step, down to 0; penalties are means, not sums; 5 points of a line, not 20; the noise
    of a step is that of all its rows.

    Args:
        n_steps: of 4 `n_path` model rows each.
        n_path: S, points on each of the four lines.
        rate: how far the entry that moves most moves in the first step.
        l1: price of deleting the whole image.
        tv: price of rough masks.
        beta: exponent of the roughness.
        edge: how far apart neighbouring pixels are between which a mask may change freely, in units of the images.
        cell: side of a cell of the masks, in pixels.
        replace: with the `"blur"` of the image, or the `"baseline"`.
        noise: on the image at each step, in standard deviations of each pixel over the background.
    """

    name: ClassVar[str] = "igos_plus_plus"
    label: ClassVar[str] = "iGOS++"
    modalities: ClassVar[tuple[str, ...]] = ("image",)
    per_pixel: ClassVar[bool] = True
    citation: ClassVar[str] = (
        "Khorram, Lawson and Li, iGOS++: Integrated Gradient Optimized Saliency by Bilateral Perturbations, CHIL 2021"
    )

    n_steps: int = 20
    n_path: int = 5
    rate: float = 0.5
    l1: float = 0.1
    tv: float = 2.0
    beta: float = 2.0
    edge: float = 0.1
    cell: int = 2
    replace: Replace = "blur"
    noise: float = 0.2

    def __post_init__(self) -> None:
        for name in ("n_steps", "n_path", "cell"):
            check_whole(name, getattr(self, name), 1)
        for name in ("rate", "edge"):
            check_number(name, getattr(self, name), 0, above=True)
        for name, least in (("l1", 0), ("tv", 0), ("beta", 1), ("noise", 0)):
            check_number(name, getattr(self, name), least)
        choose("`replace`", self.replace, REPLACE)

    def cost(self, n_features: int) -> int:
        """Four lines a step."""
        return self.n_steps * 4 * self.at_once(n_features)

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """The points of a line."""
        return self.n_path

    def elements(self, problem: Problem) -> Tensor:
        """Return what both masks together delete."""
        return problem.task.space.rows(1 - self._fine(problem, self.masks(problem)).prod(1, keepdim=True))

    def masks(self, problem: Problem) -> Tensor:
        """Return the masks `(n, 2, h, w)` after the last step: the one that deletes, the one that inserts."""
        masks = torch.ones(len(problem), 2, *grid(problem, self.cell), dtype=problem.x.dtype)
        replacement, alike = replaced(problem, self.replace), self._alike(problem)
        for step in range(self.n_steps):
            leaf = masks.requires_grad_()
            slope = gradient(self.objective(problem, replacement, alike, leaf, step), leaf)
            largest = slope.flatten(1).abs().amax(1).clamp(min=torch.finfo(slope.dtype).tiny)[:, None, None, None]
            masks = (masks.detach() - self.rate * (1 - step / self.n_steps) * slope / largest).clamp(0, 1)
        return masks

    def objective(
        self, problem: Problem, replacement: Tensor, alike: tuple[Tensor, Tensor], masks: Tensor, step: int
    ) -> Tensor:
        """Return what is minimised, `(n,)`."""
        fine = self._fine(problem, masks)
        deletes, inserts, both = fine[:, :1], fine[:, 1:], fine.prod(1, keepdim=True)
        rough = [(weight * both.diff(dim=axis).abs() ** self.beta) for axis, weight in zip((2, 3), alike, strict=True)]
        value = self.l1 * mean(1 - masks.prod(1)) + self.tv * (mean(rough[0]) + mean(rough[1]))
        fog = noise(problem, "igos_plus_plus", step, self.noise)
        share = torch.arange(1, self.n_path + 1, dtype=fine.dtype)[:, None, None, None, None] / self.n_path
        for mask in (deletes, both):
            value = value + self._along(problem, replacement, share * mask, fog)
        for mask in (inserts, both):
            value = value - self._along(problem, replacement, 1 - share * mask, fog)
        return value

    def _along(self, problem: Problem, replacement: Tensor, keep: Tensor, fog: Tensor) -> Tensor:
        """Return the mean output `(n,)` over masks `(points, n, 1, height, width)`."""
        owner = torch.arange(len(problem)).repeat(len(keep))
        shown = problem.task.space.rows(keep.flatten(0, 1))
        rows = torch.lerp(replacement[owner], problem.x[owner], shown) + fog[owner]
        return tangent(problem, rows, owner).view(len(keep), -1).mean(0)

    def _alike(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """Return how alike neighbours are below each other and beside each other, the mean over channels."""
        image = problem.task.space.planes(problem.x)
        down, across = (torch.exp(-((image.diff(dim=axis) / self.edge) ** 2)).mean(1, keepdim=True) for axis in (2, 3))
        return down, across

    def _fine(self, problem: Problem, masks: Tensor) -> Tensor:
        """Return the masks on every pixel, `(n, 2, height, width)`."""
        return interpolate(masks, plane(problem), mode="bilinear")
