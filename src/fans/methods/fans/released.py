"""What the FANS authors' public code computes (Fashion-MNIST only), rebuilt from its description in words.

The mask starts as Integrated Gradients and takes fifty small steps; PN, PS and PNS do not occur. docs/design.md says
how its figures compare with those of its own start.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.neighbourhood import InputBatch
from fans.engine.settings import Settings
from fans.errors import InputError
from fans.methods.base import Scores
from fans.methods.fans.relaxed import integrated_gradients, logits
from fans.methods.fans.solver import Solver, check_differentiable
from fans.methods.problem import Problem
from fans.task import Task

N_STEPS, RATE, DECAY = 50, 0.001, 0.1
N_COPIES, N_DRAWS, PEPPER = 9, 15, 0.1
ROWS_A_STEP = (1 + N_COPIES) * (N_DRAWS + 1)
N_ROWS = 32 + 1 + N_STEPS * ROWS_A_STEP
"""Of an input: Integrated Gradients, the input itself, and all steps."""


@dataclass(frozen=True)
class Released(Solver):
    """What `preset="released"` asks for: no name, as nobody else may choose it."""

    looks_around: ClassVar[bool] = True

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse graphs, for which nothing was released."""
        if task.space.modality == "graph":
            raise InputError("Expected images for preset='released', whose authors released no graphs, got a graph")
        check_differentiable(task, settings, "relaxed")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """As many rows whatever the image."""
        return N_ROWS

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """Those of one step."""
        return ROWS_A_STEP

    def attribute(self, problem: Problem) -> Scores:
        """Refine."""
        return refine_integrated_gradients(problem.task, problem.batch)


def refine_integrated_gradients(task: Task, block: InputBatch) -> Scores:
    """Return the mask of each input `(B, F)` after the released code's fifty steps."""
    mask, n_rows = integrated_gradients(task, block)
    x = block.pool.pool[block.own[:, 0]]  # (B, E)
    samples = _with_pepper(block, x)  # (B, 10, E)
    with torch.no_grad():
        before = logits(task, x)  # (B, C)
    moments = [torch.zeros_like(mask) for _ in range(3)]
    history = torch.zeros(len(x), N_STEPS, dtype=torch.float64)
    size = max(1, task.predict.max_batch // ROWS_A_STEP)
    for step in range(N_STEPS):
        slope = torch.zeros_like(mask)
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            with torch.enable_grad():
                leaf = mask[part].detach().requires_grad_()
                loss = _loss(task, block, part, leaf, samples[part], before[part], step)
                (slope[part],) = torch.autograd.grad(loss.sum(), leaf)
            history[part, step] = -loss.detach()
        mask = _amsgrad(mask, slope + DECAY * mask, moments, step)
    return Scores(mask.double(), None, n_rows + 1 + N_STEPS * ROWS_A_STEP, history)


def _with_pepper(block: InputBatch, x: Tensor) -> Tensor:
    """Return each input and nine identical copies of it in which a tenth of the elements are emptied."""
    keys = block.keys("released/pepper")
    kept = draws.uniform(keys[:, None], torch.arange(x.shape[1])) >= PEPPER
    noisy = x * kept
    return torch.cat([x[:, None], noisy[:, None].expand(-1, N_COPIES, -1)], 1)


def _loss(
    task: Task, block: InputBatch, part: slice, mask: Tensor, samples: Tensor, before: Tensor, step: int
) -> Tensor:
    """Return the loss `(n,)`: what is called necessity (fifteen noisy masks) plus what is called sufficiency (one)."""
    n, n_samples, n_elements = samples.shape
    n_features = mask.shape[1]
    keys = block.keys(f"released/{step}")[part]
    u = draws.uniform(keys[:, None, None], torch.arange(N_DRAWS * n_features).view(N_DRAWS, n_features))
    logistic = (u.log() - torch.log1p(-u)).to(mask.dtype)
    gates = torch.sigmoid(torch.cat([mask[:, None] + logistic, mask[:, None]], 1))  # (n, 15 + 1, F)
    owner = torch.arange(block.pool.index.shape[0])[part].repeat_interleave(gates.shape[1])
    of_elements = block.pool.units.spread(gates.flatten(0, 1), owner).view(n, 1, -1, n_elements)
    keep = torch.cat([1 - of_elements[:, :, :N_DRAWS], of_elements[:, :, N_DRAWS:]], 2)
    after = logits(task, (samples[:, :, None] * keep).flatten(0, 2)).view(n, n_samples, N_DRAWS + 1, -1)
    moved = torch.linalg.vector_norm(after[:, :, :N_DRAWS] - before[:, None, None], dim=-1)
    necessity = torch.exp(-moved / 100).mean((1, 2))
    target = block.target[part]
    last = after[:, :, N_DRAWS]
    wanted = last.gather(2, target[:, None, None].expand(-1, n_samples, 1))[..., 0]
    others = last.scatter(2, target[:, None, None].expand(-1, n_samples, 1), -torch.inf).amax(2)
    return necessity + (others - wanted).clamp(min=0).mean(1)


def _amsgrad(mask: Tensor, slope: Tensor, moments: list[Tensor], step: int) -> Tensor:
    """Take a step of Adam in its AMSGrad form."""
    moments[0] = 0.9 * moments[0] + 0.1 * slope
    moments[1] = 0.999 * moments[1] + 0.001 * slope**2
    moments[2] = torch.maximum(moments[2], moments[1])
    root = (moments[2] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
    return mask - RATE * moments[0] / (1 - 0.9 ** (step + 1)) / root
