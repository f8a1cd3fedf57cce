"""MP: meaningful perturbation, an optimised mask on the image."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fans.engine.settings import Settings
from fans.errors import check_whole, choose
from fans.methods.masks import REPLACE, Replace, grid, mean, noise, plane, replaced
from fans.methods.problem import Problem, gradient
from fans.methods.rivals import Adam, ElementMethod, check_classes, check_number, probabilities
from fans.task import Task


@dataclass(frozen=True)
class MeaningfulPerturbation(ElementMethod):
    """Score a pixel by how much of it the smallest, smoothest deletion that lowers the class's probability deletes.

    With a mask m in [0, 1], 1 where the image is kept, minimise

        l1 * mean(1 - m) + tv * (mean |dm/dy|^beta + mean |dm/dx|^beta) + p(m * x + (1 - m) * blurred x)

    by Adam, all inputs at once; a score is 1 - m. The mask is coarse and interpolated; fresh noise on the image at
    every step keeps it from fitting the model's quirks. p is a probability also where raw outputs are explained.

    Differs from the paper: penalties are means, not sums, as in the usual PyTorch port, whence `l1`, `tv` and `noise`;
    the mask starts at 1 everywhere. The FANS authors set `l1=0.1`.

    Args:
        n_steps: of Adam, one model row each.
        rate: of Adam.
        l1: price of deleting the whole image.
        tv: price of a rough mask.
        beta: exponent of the roughness.
        cell: side of a cell of the mask, in pixels.
        upsampling: of the mask, `"bilinear"` or `"nearest"`.
        replace: with the `"blur"` of the image, or the `"baseline"`.
        sigma: of the blur, in pixels; by default an eighth of the longer side.
        noise: on the image at each step, in standard deviations of each pixel over the background.
    """

    name: ClassVar[str] = "meaningful_perturbation"
    label: ClassVar[str] = "MP"
    modalities: ClassVar[tuple[str, ...]] = ("image",)
    per_pixel: ClassVar[bool] = True
    citation: ClassVar[str] = (
        "Fong and Vedaldi, Interpretable Explanations of Black Boxes by Meaningful Perturbation, ICCV 2017"
    )

    n_steps: int = 300
    rate: float = 0.1
    l1: float = 0.01
    tv: float = 0.2
    beta: float = 3.0
    cell: int = 2
    upsampling: Literal["bilinear", "nearest"] = "bilinear"
    replace: Replace = "blur"
    sigma: float | None = None
    noise: float = 0.2

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)
        check_whole("cell", self.cell, 1)
        check_number("rate", self.rate, 0, above=True)
        for name, least in (("l1", 0), ("tv", 0), ("beta", 1), ("noise", 0)):
            check_number(name, getattr(self, name), least)
        if self.sigma is not None:
            check_number("sigma", self.sigma, 0, above=True)
        choose("`upsampling`", self.upsampling, ("bilinear", "nearest"))
        choose("`replace`", self.replace, REPLACE)

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse models without a gradient or classes."""
        super().check(task, settings)
        check_classes(task, f"method={self.name!r}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """One row a step."""
        return self.n_steps

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """One."""
        return 1

    def elements(self, problem: Problem) -> Tensor:
        """Return what the mask deletes."""
        return 1 - self._upsampled(problem, self.mask(problem)[0])

    def mask(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """Return the mask `(n, 1, h, w)` after the last step, and the objective `(n, steps)` before each.

        Adam looks at every entry alone, so no input's mask depends on what else is in the batch.
        """
        mask = torch.ones(len(problem), 1, *grid(problem, self.cell), dtype=problem.x.dtype).requires_grad_()
        optimiser = Adam([mask], self.rate)
        replacement, history = self.replacement(problem), []
        for step in range(self.n_steps):
            value = self.objective(problem, replacement, mask, step)
            optimiser.step([gradient(value, mask)])
            with torch.no_grad():
                mask.clamp_(0, 1)
            history.append(value.detach())
        return mask.detach(), torch.stack(history, 1)

    def objective(self, problem: Problem, replacement: Tensor, mask: Tensor, step: int) -> Tensor:
        """Return what is minimised, `(n,)`."""
        task, keep = problem.task, self._upsampled(problem, mask)
        rows = torch.lerp(replacement, problem.x, keep) + noise(problem, "meaningful_perturbation", step, self.noise)
        p = probabilities(task, task.predict.differentiable(rows)).gather(1, problem.target[:, None])[:, 0]
        rough = sum(mean(mask.diff(dim=axis).abs() ** self.beta) for axis in (2, 3))
        return self.l1 * mean(1 - mask) + self.tv * rough + p

    def replacement(self, problem: Problem) -> Tensor:
        """Return what deleted pixels show, `(n, E)`."""
        return replaced(problem, self.replace, self.sigma)

    def _upsampled(self, problem: Problem, mask: Tensor) -> Tensor:
        """Return the mask on every element, `(n, E)`."""
        return problem.task.space.rows(interpolate(mask, plane(problem), mode=self.upsampling))
