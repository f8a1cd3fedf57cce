"""What methods on the edges of graphs share: the model under masks of edges, and what it makes of the nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fans.engine import draws
from fans.errors import ModelError, check_whole
from fans.methods.problem import Problem
from fans.methods.rivals import last_output, probabilities
from fans.methods.trained import Trained
from fans.modalities.graph.space import FittedEdges, message_layers
from fans.modes import global_draws
from fans.task import Task

TINY = 1e-12
"""Least probability whose logarithm is taken."""


def answers(problem: Problem, *keeps: Tensor, **how: Any) -> list[Tensor]:
    """Return the probabilities `(n, C)` of nodes whose edges have the weights `keeps` `(n, F)`.

    What else is given goes to `differentiable`.
    """
    n, owner = len(problem), torch.arange(len(problem))
    rows = [torch.lerp(problem.missing, problem.x, problem.units.spread(keep, owner)) for keep in keeps]
    of = problem.place.repeat(len(keeps))
    out = probabilities(problem.task, problem.task.predict.differentiable(torch.cat(rows), of, **how))
    return list(torch.split(out, n))


def of_target(problem: Problem, p: Tensor) -> Tensor:
    """Return the probability `(n,)` of the explained class."""
    return p.gather(1, problem.target[:, None])[:, 0]


def of_rival(problem: Problem, p: Tensor) -> Tensor:
    """Return the probability `(n,)` of the likeliest other class."""
    return p.scatter(1, problem.target[:, None], -1.0).amax(1)


def entropy(mask: Tensor) -> Tensor:
    """Return the entropy of each edge's weight, as if it were a probability."""
    inside = mask.clamp(1e-6, 1 - 1e-6)
    return -(inside * inside.log() + (1 - inside) * (1 - inside).log())


def check_layers(task: Task, asker: str, why: str) -> None:
    """Refuse a model without layers of PyTorch Geometric to a method that looks into them."""
    if not task.predict.is_module:
        raise ModelError(f"Expected a torch module for {asker}, got {type(task.predict.model).__name__}")
    if not message_layers(task.predict.model):
        raise ModelError(
            f"Expected layers of PyTorch Geometric for {asker}, which {why}, got none in "
            f"{type(task.predict.model).__name__}; use another method, e.g. method='fans'"
        )


def embeddings(task: Task, rows: Tensor, of: Tensor) -> Tensor:
    """Return what the last message-passing layer makes of the nodes `(nodes, h)` of the inputs `of` `(n,)`, in order.

    Of a node among all its neighbours: what was cut out for another node's prediction does not have them. That is one
    model row for all nodes, or one for each graph.
    """
    space, layers = task.space, message_layers(task.predict.model)
    assert isinstance(space, FittedEdges)
    with torch.no_grad():
        if space.level == "node":
            whole = last_output(layers, partial(space.ask_whole, task.predict))
            assert whole is not None
            return whole.float()[space.joined(of).origin]
        pieces = torch.split(torch.arange(len(rows)), task.predict.max_batch)
        parts = [last_output(layers, partial(task.predict, rows[some], of[some])) for some in pieces]
    return torch.cat([part for part in parts if part is not None]).float()


@dataclass(frozen=True)
class TrainedOnEdges(Trained):
    """A network that is trained on other nodes (or graphs) than those it explains.

    It learns from nodes of the graph's `train_mask` where it has one, else from any; of several graphs, from those that
    the explainer was made with.

    Attributes:
        n_train: how many, drawn once.
    """

    modalities: ClassVar[tuple[str, ...]] = ("graph",)

    n_train: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("n_train", self.n_train, 2)

    def same(self, one: Task, other: Task) -> bool:
        """One graph, whatever the sizes of what is explained."""
        a: Any = one.space
        b: Any = other.space
        return one.predict.model is other.predict.model and a.graphs is b.graphs

    def lessons(self, task: Task, seed: int) -> Problem:
        """Return what the network learns from, with the predicted classes as targets."""
        space = task.space
        assert isinstance(space, FittedEdges)
        able = space.learnable()
        order = draws.words(self.key(seed, "nodes"), torch.arange(len(able))).argsort()
        names = sorted(able[i] for i in order[: self.n_train].tolist())
        held, rows = space.together(names)
        own = task.on(held, rows)
        rows = rows.to(own.background.dtype)
        outputs = own.predict(rows)
        return Problem(own, rows, outputs.argmax(1), held.units(rows), names, seed)


@dataclass(frozen=True)
class OfLastLayer(TrainedOnEdges):
    """A network of two layers that reads what the model's last layer makes of an edge's ends and the explained node."""

    network_name: ClassVar[str] = "a network"
    size_names: ClassVar[str] = "a last layer and a level"
    width: ClassVar[int] = 64

    def sizes(self, task: Task) -> tuple[int, ...]:
        """Return how many numbers the last layer makes of a node, and how many nodes matter to an edge."""
        space = task.space
        assert isinstance(space, FittedEdges)
        held, rows = space.together(space.learnable()[:1])
        own = task.on(held, rows)
        found = embeddings(own, rows.to(own.background.dtype), torch.arange(1)).shape[1]
        return found, 3 if space.level == "node" else 2

    @staticmethod
    def seen(problem: Problem) -> Sequence[Tensor]:
        """Return what the last layer makes of the nodes `(nodes, h)` of each input's graph."""
        space = problem.task.space
        assert isinstance(space, FittedEdges)
        found = embeddings(problem.task, problem.x, problem.place)
        return torch.split(found, space.joined(problem.place).size.tolist())

    def build(self, sizes: Sequence[int]) -> nn.Module:
        """Return the network, its weights not drawn yet."""
        with global_draws():
            return nn.Sequential(nn.Linear(sizes[0] * sizes[1], self.width), nn.ReLU(), nn.Linear(self.width, 1))
