"""Methods whose network is trained once and explains any input: training, what it cost, and keeping the result."""

import json
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from fans.core import InputError, write_atomically
from fans.explainers._shared import Method
from fans.task import Task


@dataclass(frozen=True)
class Trained(Method):
    """A method with a network of its own, trained on what it will not be asked to explain."""

    network_name: ClassVar[str]
    """What the network is called in sentences, with its article."""
    size_names: ClassVar[str]
    """What `sizes` are, in sentences."""

    @abstractmethod
    def sizes(self, task: Task) -> tuple[int, ...]:
        """Return what of a task decides the shape of its network."""

    @abstractmethod
    def build(self, sizes: Sequence[int]) -> nn.Module:
        """Return an untrained network for these sizes and settings."""

    @abstractmethod
    def learn(self, task: Task, network: Any, seed: int) -> list[float]:
        """Train the network; return the mean loss of each epoch. Gradients are enabled."""

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
        kept = self._kept
        if kept.network is not None and self._serves(task, seed):
            return kept.network
        started, before = time.perf_counter(), task.predict.n_rows
        with task.predict.session():
            sizes = self.sizes(task)
            network = self.build(sizes)
            with torch.enable_grad():
                loss = self.learn(task, network, seed)
        cost = {"seconds": time.perf_counter() - started, "rows": task.predict.n_rows - before, "loss": loss}
        self.__dict__["_kept"] = _Kept(network.requires_grad_(False).eval(), sizes, task, seed, cost)
        return network

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
        write_atomically(Path(path), save(kept.network.state_dict(), {self.name: json.dumps(text)}))
        return Path(path)

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
