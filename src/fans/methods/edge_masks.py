"""Masks on edges, learned by gradient for each node alone and for many nodes at once: CF-GNNExplainer, CF2, NSEG.

All learn one number an edge (both directions where they are tied) whose sigmoid is the edge's weight, in the graph that
the node's prediction is computed from. Nodes share a forward pass, but no node's mask depends on another's: losses are
summed, and every optimiser looks at a node by itself.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.settings import Settings
from fans.errors import check_whole
from fans.methods.base import Method, Scores
from fans.methods.edges import TINY, answers, entropy, of_rival, of_target
from fans.methods.problem import Problem, gradient
from fans.methods.rivals import Adam, check_classes, check_number
from fans.task import Task


@dataclass(frozen=True)
class EdgeMask(Method):
    """What the methods share.

    Attributes:
        n_steps: of the optimiser.
        rate: of the optimiser.
    """

    modalities: ClassVar[tuple[str, ...]] = ("graph",)
    copies: ClassVar[int]
    """Model rows of a step."""

    n_steps: int = 500
    rate: float = 0.01

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)
        check_number("rate", self.rate, 0, above=True)

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse models without a gradient or classes."""
        task.predict.check_gradients(f"method={self.name!r}", "a method that asks for outputs only, e.g. method='fans'")
        check_classes(task, f"method={self.name!r}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """Some rows a step."""
        return self.n_steps * self.copies

    def at_once(self, n_features: int) -> int:  # noqa: ARG002
        """The rows of a step."""
        return self.copies

    def attribute(self, problem: Problem) -> Scores:
        """Learn masks, as many nodes at a time as fit."""
        with torch.enable_grad(), problem.counting() as spent:
            parts = [self.masks(some).detach().double() * some.present for some in problem.pieces(self.copies)]
        return Scores.even(torch.cat(parts), spent.n_rows // len(problem))

    @abstractmethod
    def masks(self, problem: Problem) -> Tensor:
        """Return the score `(n, F)` of each edge; gradients are enabled."""


@dataclass(frozen=True)
class Minimised(EdgeMask):
    """A mask that Adam takes from a random start to where an objective is least; it is the score itself."""

    def masks(self, problem: Problem) -> Tensor:
        """Learn."""
        mask = self.start(problem).to(problem.x.dtype).requires_grad_()
        optimiser = Adam([mask], self.rate)
        for step in range(self.n_steps):
            optimiser.step([gradient(self.objective(problem, mask.sigmoid(), step), mask)])
        return mask.sigmoid()

    @abstractmethod
    def start(self, problem: Problem) -> Tensor:
        """Return the mask `(n, F)` to begin with, before its sigmoid."""

    @abstractmethod
    def objective(self, problem: Problem, mask: Tensor, step: int) -> Tensor:
        """Return what is minimised, `(n,)`."""


@dataclass(frozen=True)
class CFGNNExplainer(EdgeMask):
    """CF-GNNExplainer: score an edge by how far it is deleted in the smallest deletion that changes the class.

    With P = 1 where the sigmoid of the mask is at least a half, minimise

        1[class under P is the explained one] * log p(target under the sigmoid) + beta * (edges deleted by P)

    by gradient descent with Nesterov momentum, gradients cut to a length of 2; of all steps at which P changes the
    class, the mask with the least loss is the answer, and the last mask where there is none. Score: 1 - sigmoid. The
    number of deleted edges is a step function without a gradient, so without momentum the first counterfactual is the
    last one too.

    Differs from the paper: an edge is an undirected pair of the node's own computation graph, of as many hops as the
    model looks, not one more.

    Args:
        n_steps: of descent.
        rate: of descent.
        momentum: Nesterov's; 0 is none.
        beta: price of a deleted edge.
        init: of the mask, before its sigmoid.
    """

    name: ClassVar[str] = "cf_gnn_explainer"
    label: ClassVar[str] = "CF-GNNExplainer"
    citation: ClassVar[str] = (
        "Lucic et al., CF-GNNExplainer: Counterfactual Explanations for Graph Neural Networks, AISTATS 2022"
    )
    copies: ClassVar[int] = 2

    n_steps: int = 500
    rate: float = 0.1
    momentum: float = 0.0
    beta: float = 0.5
    init: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("momentum", self.momentum, 0)
        check_number("beta", self.beta, 0)

    def masks(self, problem: Problem) -> Tensor:
        """Descend, and keep the best counterfactual."""
        present = problem.present
        mask = torch.full(present.shape, self.init, dtype=problem.x.dtype).requires_grad_()
        velocity = torch.zeros_like(mask)
        best, least = mask.detach().clone(), torch.full((len(problem),), torch.inf, dtype=torch.float64)
        for _ in range(self.n_steps):
            soft = mask.sigmoid()
            hard = (soft >= 0.5).to(soft.dtype)
            p_soft, p_hard = answers(problem, soft, hard)
            same = (p_hard.argmax(1) == problem.target).double()
            prediction = same.detach() * of_target(problem, p_soft).clamp(min=TINY).log()
            deleted = ((1 - hard) * present).sum(1).double()
            loss = prediction.detach() + self.beta * deleted
            found = (same == 0) & (loss < least)
            best[found], least[found] = mask.detach()[found], loss[found]
            slope = gradient(prediction, mask)
            slope = slope * (2 / slope.norm(dim=1, keepdim=True).clamp(min=2))
            with torch.no_grad():
                velocity.mul_(self.momentum).add_(slope)
                mask.sub_(slope + self.momentum * velocity if self.momentum else slope, alpha=self.rate)
        none = torch.isinf(least)
        best[none] = mask.detach()[none]
        return 1 - best.sigmoid()


@dataclass(frozen=True)
class CF2(Minimised):
    """CF2: score an edge by its weight in the smallest subgraph that is both factual and counterfactual.

    With the mask M in [0, 1], minimise by Adam

        sum M + strength * [alpha * relu(gamma + p(best other | M) - p(target | M))
                            + (1 - alpha) * relu(gamma + p(target | 1 - M) - p(best other | 1 - M))]

    Differs from the paper: an edge is an undirected pair of the node's own computation graph, so that `strength`, which
    weighs predictions against a number of edges, is not the paper's either.

    Args:
        n_steps: of Adam.
        rate: of Adam.
        strength: of the two predictions against the size of the mask.
        alpha: share of the factual one.
        gamma: margin.
    """

    name: ClassVar[str] = "cf2"
    label: ClassVar[str] = "CF2"
    citation: ClassVar[str] = (
        "Tan et al., Learning and Evaluating Graph Neural Network Explanations based on Counterfactual and Factual "
        "Reasoning, WWW 2022"
    )
    copies: ClassVar[int] = 2

    n_steps: int = 500
    rate: float = 0.01
    strength: float = 500.0
    alpha: float = 0.6
    gamma: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("strength", "alpha", "gamma"):
            check_number(name, getattr(self, name), 0)

    def start(self, problem: Problem) -> Tensor:
        """Draw normals around 1, with a variance of two edges' share."""
        present = problem.present
        sd = (2 / present.sum(1, keepdim=True).clamp(min=1)).sqrt()
        return 1 + sd * draws.normal(problem.keys("cf2")[:, None], torch.arange(present.shape[1]))

    def objective(self, problem: Problem, mask: Tensor, step: int) -> Tensor:  # noqa: ARG002
        """Return what is minimised, `(n,)`."""
        kept, left = answers(problem, mask, 1 - mask)
        factual = (self.gamma + of_rival(problem, kept) - of_target(problem, kept)).relu()
        counter = (self.gamma + of_target(problem, left) - of_rival(problem, left)).relu()
        size = (mask * problem.present).sum(1)
        return size + self.strength * (self.alpha * factual + (1 - self.alpha) * counter)


@dataclass(frozen=True)
class NSEG(Minimised):
    """NSEG: score an edge by its weight in the mask with the largest lower bound of PNS.

    With the mask M in [0, 1] and two draws of noise e, uniform within `noise`, minimise by Adam

        -[p(target | M) - mean p(target | 1 - M + e)] + alpha * sum M + beta * mean H(M)

    H the entropy of an edge's weight. It has no neighbourhood: the input alone is perturbed.

    Differs from the paper: an edge is an undirected pair of the node's own computation graph, not of the whole graph;
    weights stay in [0, 1] with the noise.

    Args:
        n_steps: of Adam.
        rate: of Adam.
        alpha: price of an edge.
        beta: price of an undecided one.
        noise: on the weights of what is removed.
    """

    name: ClassVar[str] = "nseg"
    label: ClassVar[str] = "NSEG"
    citation: ClassVar[str] = (
        "Cai et al., On the Probability of Necessity and Sufficiency of Explaining Graph Neural Networks: A Lower "
        "Bound Optimization Approach, Neural Networks 2025"
    )
    copies: ClassVar[int] = 3

    n_steps: int = 500
    rate: float = 0.01
    alpha: float = 0.005
    beta: float = 1.0
    noise: float = 0.025

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("alpha", "beta", "noise"):
            check_number(name, getattr(self, name), 0)

    def start(self, problem: Problem) -> Tensor:
        """Draw evenly around 0, less widely the more edges there are."""
        present = problem.present
        width = 1 / present.sum(1, keepdim=True).clamp(min=1).sqrt()
        return width * (2 * draws.uniform(problem.keys("nseg/mask")[:, None], torch.arange(present.shape[1])) - 1)

    def objective(self, problem: Problem, mask: Tensor, step: int) -> Tensor:
        """Return what is minimised, `(n,)`."""
        present, key = problem.present, problem.keys("nseg/noise")[:, None]
        places = (2 * step + torch.arange(2)[:, None]) * mask.shape[1] + torch.arange(mask.shape[1])  # (2, F)
        noise = [self.noise * (2 * draws.uniform(key, place) - 1).to(mask.dtype) for place in places]
        kept, *left = answers(problem, mask, *((1 - mask + e).clamp(0, 1) for e in noise))
        removed = (of_target(problem, left[0]) + of_target(problem, left[1])) / 2
        size = (mask * present).sum(1)
        undecided = (entropy(mask) * present).sum(1) / present.sum(1).clamp(min=1)
        return removed - of_target(problem, kept) + self.alpha * size + self.beta * undecided
