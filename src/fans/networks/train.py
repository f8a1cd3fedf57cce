"""Training of the target models: seeded, and resumable to the same weights after a kill at any step."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

from fans.datasets.images import Images, load_images
from fans.errors import Interrupted, choose
from fans.networks.base import Card, Network, as_stored, network, read_progress, save, write_progress
from fans.version import __version__


@dataclass(frozen=True)
class Recipe:
    """How a target model is trained.

    Attributes:
        network: the registered architecture.
        stages: pairs of epochs and image size: small images first are many times cheaper.
        batch: images a step.
        peak: the learning rate at its highest; it rises linearly over the first fifth and falls linearly to zero.
        momentum: of stochastic gradient descent, Nesterov's.
        decay: weight decay.
        smoothing: label smoothing.
        shift: random translation, up to so many pixels.
        flip: whether to mirror at random.
        half: whether to store the weights in half precision.
    """

    network: str
    stages: tuple[tuple[int, int], ...]
    batch: int = 128
    peak: float = 0.1
    momentum: float = 0.9
    decay: float = 5e-4
    smoothing: float = 0.0
    shift: int = 0
    flip: bool = False
    half: bool = False

    @property
    def epochs(self) -> int:
        """All epochs."""
        return sum(n for n, _ in self.stages)

    def size(self, epoch: int) -> int:
        """Return the image size of an epoch."""
        for n, size in self.stages:
            if epoch < n:
                return size
            epoch -= n
        raise IndexError(epoch)


RECIPES = {
    "mnist": Recipe("lenet5", ((8, 28),), peak=0.05, shift=2),
    "fashion_mnist": Recipe("lenet5", ((16, 28),), peak=0.05, shift=1, flip=True),
    "cifar10": Recipe("resnet18", ((6, 16), (3, 24), (2, 32)), smoothing=0.1, shift=4, flip=True, half=True),
}
"""By dataset."""


_TELL_EVERY, _TELL_SHARE = 10.0, 0.01
"""Between two lines within an epoch: seconds, and the share of the time so far."""


@dataclass
class _State:
    """Everything a step needs: stored whole, so that a resumed run ends in the same weights."""

    model: Network
    optimiser: torch.optim.SGD
    step: int
    seconds: float
    history: list[dict[str, float]]
    losses: list[float]
    """Of the steps so far in this epoch."""


def train(
    dataset: str,
    folder: Path,
    *,
    seed: int = 0,
    recipe: Recipe | None = None,
    tell: Callable[[str], None] = lambda _: None,
    every: float = 300.0,
) -> Path:
    """Train the target model of `dataset` and write its checkpoint and card into `folder`; return the checkpoint.

    Progress is stored each epoch and every `every` seconds. Orders and augmentations are functions of the seed and
    the step alone, so a run that was killed goes on where it was stored and ends as if nothing had happened.

    Raises:
        Interrupted: Ctrl-C; the message says how to go on.
    """
    recipe = recipe or RECIPES[choose("the dataset", dataset, RECIPES)]
    images, test = load_images(dataset, "train"), load_images(dataset, "test")
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{dataset}.training.safetensors"
    identity = json.dumps({"dataset": dataset, "seed": seed, "recipe": asdict(recipe), "n": len(images)})
    state = _begin(recipe, seed, partial, identity, tell)
    try:
        _run(state, recipe, seed, images, test, tell, every, lambda: _store(state, partial, identity))
    except KeyboardInterrupt:
        kept = "goes on where progress was last stored" if partial.is_file() else "starts again: nothing was stored yet"
        raise Interrupted(f"Interrupted at step {state.step}; the same command {kept}") from None
    return _finish(state, recipe, dataset, seed, folder, test, partial, tell)


def _run(
    state: _State,
    recipe: Recipe,
    seed: int,
    images: Images,
    test: Images,
    tell: Callable[[str], None],
    every: float,
    store: Callable[[], None],
) -> None:
    """Take all the steps that are left."""
    per_epoch = len(images) // recipe.batch
    n_steps = per_epoch * recipe.epochs
    began = time.monotonic() - state.seconds
    stored = told = time.monotonic()
    state.model.train()
    order: Any = None
    while state.step < n_steps:
        epoch, within = divmod(state.step, per_epoch)
        if order is None or not within:
            order = np.random.default_rng([seed, epoch]).permutation(len(images))
        chosen = order[within * recipe.batch : (within + 1) * recipe.batch]
        loss = _step(state, recipe, images, chosen, seed, state.step / n_steps, recipe.size(epoch))
        state.losses.append(loss)
        state.step += 1
        state.seconds = time.monotonic() - began
        left = state.seconds / state.step * (n_steps - state.step)
        where = f"epoch {epoch + 1} of {recipe.epochs}, {recipe.size(epoch)} px"
        if within + 1 == per_epoch:
            result = _end_epoch(state, epoch, measure(state.model, test, recipe.size(epoch), limit=2000))
            tell(f"{where}: {result}, {state.seconds:.0f} s so far, about {left:.0f} s left")
            told = time.monotonic()
        elif time.monotonic() - told > max(_TELL_EVERY, _TELL_SHARE * state.seconds):
            tell(f"{where}, step {within + 1} of {per_epoch}: loss {loss:.3f}, about {left:.0f} s left")
            told = time.monotonic()
        if within + 1 == per_epoch or time.monotonic() - stored > every:
            store()
            stored = time.monotonic()


def _end_epoch(state: _State, epoch: int, accuracy: float) -> str:
    """Enter an epoch into the history and return it in words."""
    loss = float(np.mean(state.losses))
    state.history.append({"epoch": epoch + 1, "loss": loss, "accuracy_2000": accuracy})
    state.losses.clear()
    return f"loss {loss:.3f}, {accuracy:.2%} of 2,000 test images"


def _begin(recipe: Recipe, seed: int, partial: Path, identity: str, tell: Callable[[str], None]) -> _State:
    """Return a fresh state, or the one stored by an earlier run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(recipe.network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(
        model.parameters(), recipe.peak, momentum=recipe.momentum, weight_decay=recipe.decay, nesterov=True
    )
    state = _State(model, optimiser, 0, 0.0, [], [])
    if not partial.is_file():
        return state
    kept, tensors = read_progress(partial, identity)
    model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    for name, parameter in model.named_parameters():
        if f"momentum.{name}" in tensors:
            optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(
                tensors[f"momentum.{name}"]
            )
    state.step, state.seconds = int(kept["step"]), float(kept["seconds"])
    state.history, state.losses = json.loads(kept["history"]), json.loads(kept.get("losses", "[]"))
    tell(f"going on at step {state.step} of an earlier run ({state.seconds:.0f} s)")
    return state


def _store(state: _State, partial: Path, identity: str) -> None:
    tensors = {f"model.{k}": v for k, v in state.model.state_dict().items()}
    for name, parameter in state.model.named_parameters():
        tensors[f"momentum.{name}"] = state.optimiser.state[parameter]["momentum_buffer"]
    kept = {"step": str(state.step), "seconds": str(state.seconds)}
    kept |= {"history": json.dumps(state.history), "losses": json.dumps(state.losses)}
    write_progress(partial, identity, kept, tensors)


def _step(state: _State, recipe: Recipe, images: Images, chosen: Any, seed: int, progress: float, size: int) -> float:
    """Take one step and return its loss."""
    batch = images.tensor(chosen)
    batch = augment(batch, np.random.default_rng([seed, state.step, 1]), recipe.shift, recipe.flip)
    if size != batch.shape[-1]:
        batch = interpolate(batch, size=(size, size), mode="area")
    rate = recipe.peak * min(progress / 0.2, (1 - progress) / 0.8)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    logits = state.model(batch.to(memory_format=torch.channels_last))
    loss = cross_entropy(logits, torch.from_numpy(images.labels[chosen]), label_smoothing=recipe.smoothing)
    state.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    state.optimiser.step()
    return loss.item()


def augment(batch: Tensor, random: np.random.Generator, shift: int, flip: bool) -> Tensor:
    """Return the images moved by up to `shift` pixels (zeros come in) and mirrored at random, each on its own."""
    n, _, height, width = batch.shape
    if shift:
        padded = nn.functional.pad(batch, (shift,) * 4)
        down, right = (torch.from_numpy(random.integers(0, 2 * shift + 1, n)) for _ in range(2))
        rows = down[:, None] + torch.arange(height)
        columns = right[:, None] + torch.arange(width)
        batch = padded[torch.arange(n)[:, None, None], :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)
    if flip:
        mirrored = torch.from_numpy(random.random(n) < 0.5)
        batch = torch.where(mirrored[:, None, None, None], batch.flip(-1), batch)
    return batch


def measure(model: nn.Module, test: Images, size: int | None = None, limit: int | None = None) -> float:
    """Return the share of test images that the model gets right; it is left in the mode it was in."""
    mode = model.training
    model.eval()
    right, n = 0, min(len(test), limit or len(test))
    with torch.no_grad():
        for start in range(0, n, 500):
            part = slice(start, min(start + 500, n))
            batch = test.tensor(part)
            if size not in (None, batch.shape[-1]):
                batch = interpolate(batch, size=(size, size), mode="area")
            predicted = model(batch.to(memory_format=torch.channels_last)).argmax(1).numpy()
            right += int((predicted == test.labels[part]).sum())
    model.train(mode)
    return right / n


def _finish(
    state: _State,
    recipe: Recipe,
    dataset: str,
    seed: int,
    folder: Path,
    test: Images,
    partial: Path,
    tell: Callable[[str], None],
) -> Path:
    """Measure the weights as they will be stored, store them, and clear what was kept for resuming."""
    weights = state.model.state_dict()
    stored = network(recipe.network)
    stored.load_state_dict(as_stored(weights, half=recipe.half))
    accuracy = measure(stored, test)
    versions = {"fans": __version__, "torch": torch.__version__, "numpy": np.__version__}
    card = Card(
        name=dataset,
        network=recipe.network,
        dataset=dataset,
        accuracy=accuracy,
        n_test=len(test),
        seed=seed,
        seconds=round(state.seconds, 1),
        recipe=asdict(recipe),
        history=state.history,
        versions=versions,
    )
    path = save(weights, card, folder, half=recipe.half)
    partial.unlink(missing_ok=True)
    tell(f"{accuracy:.2%} of {len(test)} test images; wrote {path} and its card")
    return path
