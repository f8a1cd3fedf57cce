"""What methods on the edges of graphs share: the model under masks of edges, and what it makes of the nodes."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fans import draws
from fans.core import ModelError, check_whole
from fans.explainers._rivals import Inputs, check_number, probabilities, replacement
from fans.explainers._trained import Trained
from fans.spaces.graph import FittedEdges
from fans.task import Task

TINY = 1e-12
"""Least probability whose logarithm is taken."""


def answers(inputs: Inputs, *keeps: Tensor) -> list[Tensor]:
    """Return the probabilities `(n, C)` of nodes whose edges have the weights `keeps` `(n, F)`, in one pass for all."""
    n, owner = len(inputs), torch.arange(len(inputs))
    rows = [torch.lerp(inputs.missing, inputs.x, inputs.units.spread(keep, owner)) for keep in keeps]
    out = probabilities(inputs.task, inputs.task.predict.differentiable(torch.cat(rows)))
    return list(torch.split(out, n))


def of_target(inputs: Inputs, p: Tensor) -> Tensor:
    """Return the probability `(n,)` of the explained class."""
    return p.gather(1, inputs.target[:, None])[:, 0]


def of_rival(inputs: Inputs, p: Tensor) -> Tensor:
    """Return the probability `(n,)` of the likeliest other class."""
    return p.scatter(1, inputs.target[:, None], -1.0).amax(1)


def entropy(mask: Tensor) -> Tensor:
    """Return the entropy of each edge's weight, as if it were a probability."""
    inside = mask.clamp(1e-6, 1 - 1e-6)
    return -(inside * inside.log() + (1 - inside) * (1 - inside).log())


def message_layers(model: Any) -> list[nn.Module]:
    """Return the layers of PyTorch Geometric in a model, in the order in which they were made."""
    if not isinstance(model, nn.Module):
        return []
    return [m for m in model.modules() if any(kind.__name__ == "MessagePassing" for kind in type(m).__mro__)]


def check_layers(task: Task, asker: str, why: str) -> None:
    """Refuse a model without layers of PyTorch Geometric to a method that looks into them."""
    if not task.predict.is_module:
        raise ModelError(f"Expected a torch module for {asker}, got {type(task.predict.model).__name__}")
    if not message_layers(task.predict.model):
        raise ModelError(
            f"Expected layers of PyTorch Geometric for {asker}, which {why}, got none in "
            f"{type(task.predict.model).__name__}; use another method, e.g. method='fans'"
        )


def embeddings(task: Task, rows: Tensor) -> Tensor:
    """Return what the last message-passing layer makes of the nodes `(nodes, h)` of the rows' graphs, in order."""
    last, parts = list[Tensor](), list[Tensor]()

    def take(_: nn.Module, __: tuple[Any, ...], out: Tensor) -> None:
        last[:] = [out.detach().cpu().float()]

    handles = [layer.register_forward_hook(take) for layer in message_layers(task.predict.model)]
    try:
        for some in torch.split(rows, task.predict.max_batch):
            task.predict(some)
            parts += last
    finally:
        for handle in handles:
            handle.remove()
    return torch.cat(parts)


def layer_sizes(task: Task) -> tuple[int, int]:
    """Return how many numbers the last message-passing layer makes of a node, and how many nodes matter to an edge."""
    space = task.space
    assert isinstance(space, FittedEdges)
    held, rows = space.together(space.learnable()[:1])
    own = task.on(held, rows)
    found = embeddings(own, rows.to(own.background.dtype)).shape[1]
    task.predict.n_rows += own.predict.n_rows
    return found, 3 if space.level == "node" else 2


@dataclass(frozen=True)
class TrainedOnEdges(Trained):
    """A network that is trained on other nodes (or graphs) than those it explains.

    It learns from nodes of the graph's `train_mask` where it has one, else from any; of several graphs, from those that
    the explainer was made with.

    Attributes:
        n_train: how many, drawn once.
        n_epochs: over them.
        rate: of Adam.
    """

    n_train: int = 100
    n_epochs: int = 20
    rate: float = 3e-3

    def __post_init__(self) -> None:
        check_whole("n_train", self.n_train, 2)
        check_whole("n_epochs", self.n_epochs, 1)
        check_number("rate", self.rate, 0, above=True)

    def same(self, one: Task, other: Task) -> bool:
        """One graph, whatever the sizes of what is explained."""
        a: Any = one.space
        b: Any = other.space
        return one.predict.model is other.predict.model and a.graphs is b.graphs

    def lessons(self, task: Task, seed: int) -> Inputs:
        """Return what the network learns from, with the predicted classes as targets."""
        space = task.space
        assert isinstance(space, FittedEdges)
        able = space.learnable()
        order = draws.words(key(self.name, seed, "nodes"), torch.arange(len(able))).argsort()
        names = sorted(able[i] for i in order[: self.n_train].tolist())
        held, rows = space.together(names)
        own = task.on(held, rows)
        rows = rows.to(own.background.dtype)
        outputs = own.predict(rows)
        return Inputs(own, rows, replacement(own, rows), outputs.argmax(1), held.units(rows), names, seed)


def key(name: str, seed: int, what: str) -> Tensor:
    """Return the key of a stream of draws in training."""
    return draws.stream_keys(seed, [0], f"{name}/{what}")


def begin(network: nn.Module, name: str, seed: int) -> None:
    """Draw the weights of linear layers as torch does, evenly within the inverse root of their inputs."""
    for path, layer in network.named_modules():
        if isinstance(layer, nn.Linear):
            for kind, parameter in layer.named_parameters():
                u = draws.uniform(key(name, seed, f"start/{path}/{kind}"), torch.arange(parameter.numel()))
                parameter.data = ((2 * u - 1) / math.sqrt(layer.in_features)).float().view_as(parameter)


def two_layers(n_inputs: int, width: int) -> nn.Module:
    """Return a network that makes one number of so many; its weights are not drawn yet."""
    with torch.random.fork_rng(devices=[]):
        return nn.Sequential(nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, 1))
