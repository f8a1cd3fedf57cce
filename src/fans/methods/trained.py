"""Methods whose network is trained once and explains any input: training, what it cost, and keeping the result."""

import json
import math
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fans.engine import draws
from fans.errors import InputError, check_whole
from fans.files import write
from fans.methods.base import Method
from fans.methods.rivals import Adam, check_number
from fans.task import Task

_TRAINING = threading.RLock()
"""Threads train one network at a time, lest two of them train the same one."""


@dataclass(frozen=True)
class Trained(Method):
    """A method with a network of its own, trained on what it will not be asked to explain.

    Attributes:
        n_epochs: over what it learns from.
        rate: of Adam, in training.
    """

    network_name: ClassVar[str]
    """What the network is called in sentences, with its article."""
    size_names: ClassVar[str]
    """What `sizes` are, in sentences."""

    n_epochs: int = 20
    rate: float = 3e-3

    def __post_init__(self) -> None:
        check_whole("n_epochs", self.n_epochs, 1)
        check_number("rate", self.rate, 0, above=True)

    @abstractmethod
    def sizes(self, task: Task) -> tuple[int, ...]:
        """Return what of a task decides the shape of its network."""

    @abstractmethod
    def build(self, sizes: Sequence[int]) -> nn.Module:
        """Return an untrained network for these sizes and settings."""

    @abstractmethod
    def learn(self, task: Task, network: Any, seed: int) -> list[float]:
        """Train the network; return the mean loss of each epoch. Gradients are enabled."""

    def key(self, seed: int, what: str) -> Tensor:
        """Return the key of a stream of draws in training."""
        return draws.stream_keys(seed, [0], f"{self.name}/{what}")

    def order(self, n: int, seed: int, epoch: int) -> Tensor:
        """Return the order of n lessons in an epoch."""
        return draws.words(self.key(seed, f"order/{epoch}"), torch.arange(n)).argsort()

    def draw_weights(self, network: nn.Module, seed: int) -> None:
        """Draw the weights of linear and convolutional layers as torch does: evenly, by the number of their inputs."""
        for path, layer in network.named_modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                for kind, parameter in layer.named_parameters():
                    u = draws.uniform(self.key(seed, f"start/{path}/{kind}"), torch.arange(parameter.numel()))
                    width = 1 / math.sqrt(layer.weight[0].numel())
                    parameter.data = (width * (2 * u - 1)).float().view_as(parameter)

    def descend(
        self,
        network: nn.Module,
        seed: int,
        n: int,
        loss: Callable[[Tensor, Tensor], Tensor],
        batch: int,
        piece: int,
        decay: float = 0.0,
    ) -> list[float]:
        """Train on n lessons by Adam, each epoch in an order of its own; return the mean loss of each.

        Args:
            network: to train.
            seed: of the orders.
            n: how many lessons there are.
            loss: the mean loss of lessons `index` `(m,)`, with draws from positions `place` `(m,)`.
            batch: lessons a step.
            piece: lessons that are looked at together; a batch's slope is the mean of its pieces'.
            decay: of AdamW.
        """
        parameters = list(network.parameters())
        optimiser, history = Adam(parameters, self.rate, decay), list[float]()
        for epoch in range(self.n_epochs):
            order, total = self.order(n, seed, epoch), 0.0
            for step in torch.split(torch.arange(n), batch):
                slopes = [torch.zeros_like(parameter) for parameter in parameters]
                for place in torch.split(step, piece):
                    value = loss(order[place], epoch * n + place)
                    found = torch.autograd.grad(value, parameters, materialize_grads=True)
                    for slope, more in zip(slopes, found, strict=True):
                        slope.add_(more, alpha=len(place) / len(step))
                    total += float(value.detach()) * len(place)
                optimiser.step(slopes)
            history.append(total / n)
        return history

    def same(self, one: Task, other: Task) -> bool:
        """Tell whether a network trained for one task serves the other."""
        return one is other

    @cached_property
    def _kept(self) -> "_Kept":
        """What training left: no field, so that settings stay settings."""
        return _Kept()

    @property
    def training(self) -> dict[str, Any]:
        """What training cost, apart from explaining: `seconds`, model `rows`, and the mean `loss` of each epoch."""
        return dict(self._kept.training)

    def prepare(self, task: Task, seed: int) -> dict[str, Any]:
        """Train, unless that is done; return `training`."""
        self.train(task, seed)
        return self.training

    def train(self, task: Task, seed: int = 0) -> Any:
        """Return the network of a task, trained the first time; the same seed, the same one."""
        with _TRAINING:
            kept = self._kept
            if kept.network is None or not self._serves(task, seed):
                kept = self.__dict__["_kept"] = self._trained(task, seed)
            return kept.network

    def _trained(self, task: Task, seed: int) -> "_Kept":
        """Train a network for a task."""
        started = time.perf_counter()
        with task.predict.session(), task.predict.counting() as spent:
            sizes = self.sizes(task)
            network = self.build(sizes)
            with torch.enable_grad():
                loss = self.learn(task, network, seed)
        cost = {"seconds": time.perf_counter() - started, "rows": spent.n_rows, "loss": loss}
        return _Kept(network.requires_grad_(False).eval(), sizes, task, seed, cost)

    def _serves(self, task: Task, seed: int) -> bool:
        """Tell whether the network that is kept is for this task; a loaded one refuses what it does not fit."""
        kept = self._kept
        if kept.task is not None and self.same(kept.task, task):
            return kept.loaded or kept.seed == seed
        if not kept.loaded:
            return False
        with task.predict.session():
            found = self.sizes(task)
        if found != kept.sizes:
            raise InputError(
                f"Expected {self.size_names} of {kept.sizes} for the loaded network, got {found}; "
                "train one for this model"
            )
        kept.task = task
        return True

    def save(self, path: str | Path) -> Path:
        """Write the trained network as a safetensors file, its settings as JSON in the header; return the path."""
        from safetensors.torch import save

        kept = self._kept
        if kept.network is None:
            raise InputError(
                f"Expected {self.network_name} to save, trained, got none yet; explain something, or call `train`"
            )
        text = {"settings": asdict(self), "sizes": kept.sizes, "training": kept.training, "seed": kept.seed}
        return write(path, save(kept.network.state_dict(), {self.name: json.dumps(text)}))

    def load(self, path: str | Path) -> None:
        """Use a network written by `save` from now on and train none. Nothing in the file is executed."""
        from safetensors import SafetensorError, safe_open

        what = f"{self.network_name} saved with `save`"
        if not Path(path).is_file():
            raise InputError(f"Expected {what}, got no file at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                text = json.loads((file.metadata() or {})[self.name])
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            sizes = tuple(text["sizes"])
            network = type(self)(**text["settings"]).build(sizes)
            network.load_state_dict(weights)
            found = _Kept(
                network.requires_grad_(False).eval(), sizes, None, text["seed"], text["training"], loaded=True
            )
        except (SafetensorError, OSError, KeyError, TypeError, RuntimeError, json.JSONDecodeError) as error:
            said = next(iter(str(error).splitlines()), "")
            raise InputError(f"Expected {what}, got {path}, which is none ({said})") from None
        self.__dict__["_kept"] = found


@dataclass
class _Kept:
    """A network, its sizes, the task and seed it was trained for (a loaded one serves any), and what that cost."""

    network: nn.Module | None = None
    sizes: tuple[int, ...] = ()
    task: Task | None = None
    seed: int | None = None
    training: dict[str, Any] = field(default_factory=lambda: {"seconds": 0.0, "rows": 0, "loss": []})
    loaded: bool = False
