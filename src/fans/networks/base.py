"""What the target models have in common: the family, normalisation as a first layer, checkpoints with cards."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch as safetensors
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fans.errors import InputError, choose
from fans.files import write
from fans.registry import Registered

CHECKPOINTS = "checkpoints"
"""The folder of committed checkpoints: in the package where it was installed, at the root of a checkout."""


class Network(nn.Module, Registered):
    """A target model; subclasses register themselves by `name`."""

    registry: ClassVar[dict[str, type[Registered]]] = {}
    layout: ClassVar[torch.memory_format] = torch.contiguous_format
    """Of a loaded model's weights: which one is faster depends on how wide its layers are."""


class Normalise(nn.Module):
    """`(x - mean) / std` by channel, so that a model takes images in [0, 1]; not part of a checkpoint."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the normalised images."""
        return (images - self.mean) / self.std


@dataclass(frozen=True)
class Card:
    """What a checkpoint is: written beside it as JSON.

    Attributes:
        name: the checkpoint's name, e.g. `"cifar10"`.
        network: the registered name of its architecture.
        dataset: what it was trained on.
        accuracy: on the whole test set, of the weights as stored.
        n_test: how many test images that is.
        seed: of initialisation, order and augmentation.
        seconds: of training.
        recipe: the training settings.
        history: one entry an epoch.
        versions: of the packages that trained it.
        sha256: of the weights file.
    """

    name: str
    network: str
    dataset: str
    accuracy: float
    n_test: int
    seed: int
    seconds: float
    recipe: dict[str, Any]
    history: list[dict[str, float]]
    versions: dict[str, str]
    sha256: str = ""


def network(name: str) -> Network:
    """Return a new network of the registered `name`; torch's generator is left as it was."""
    found = Network.registry[choose("the network", name, Network.registry)]
    with torch.random.fork_rng(devices=[]):
        made = found()
    assert isinstance(made, Network)
    return made


def as_stored(weights: dict[str, Tensor], *, half: bool) -> dict[str, Tensor]:
    """Return the weights as a checkpoint keeps them."""
    return {k: v.half() if half and v.ndim > 1 else v for k, v in weights.items()}


def save(weights: dict[str, Tensor], card: Card, folder: Path, *, half: bool = False) -> Path:
    """Write weights and card as `<name>.safetensors` and `<name>.json`; return the first path.

    `half` stores convolutions and linear layers in half precision; batch-norm statistics, where a small variance
    matters, stay in float32.
    """
    kept = as_stored(weights, half=half)
    path = folder / f"{card.name}.safetensors"
    write(path, safetensors.save({k: v.contiguous() for k, v in kept.items()}))
    checked = asdict(card) | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    write(path.with_suffix(".json"), json.dumps(checked, indent=2) + "\n")
    return path


def find_checkpoint(name: str, folder: str | Path | None = None) -> Path:
    """Return the weights file of a checkpoint, in `folder` or where checkpoints are kept."""
    package = Path(__file__).parents[1]
    places = [Path(folder)] if folder is not None else [package / CHECKPOINTS, package.parents[1] / CHECKPOINTS]
    for place in places:
        if (path := place / f"{name}.safetensors").is_file():
            return path
    known = sorted({p.stem for place in places for p in place.glob("*.json")})
    raise InputError(
        f"Expected a checkpoint called {name!r} in {' or '.join(map(str, places))}, got {', '.join(known) or 'none'} "
        "there; make one with: fans train, or fans.networks.train.train for a dataset of your own"
    )


def load(name: str, folder: str | Path | None = None) -> tuple[Network, Card]:
    """Return a trained target model in evaluation mode, and its card; the weights are checked against its checksum."""
    path = find_checkpoint(name, folder)
    card = read_card(path)
    raw = path.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != card.sha256:
        raise InputError(
            f"Expected {path} with sha256 {card.sha256}, got {found}; the file is damaged or not the card's"
        )
    model = network(card.network)
    model.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in safetensors.load(raw).items()})
    model.eval().to(memory_format=model.layout)  # type: ignore[call-overload]
    return model, card


def read_card(weights: Path) -> Card:
    """Return the card beside a checkpoint."""
    path = weights.with_suffix(".json")
    if not path.is_file():
        raise InputError(f"Expected the card {path} beside the checkpoint, got none")
    try:
        return Card(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise InputError(f"Expected the card of a checkpoint, got {path}, which is not one ({error})") from None


def read_progress(path: Path, identity: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read what a training stored: what it noted, and its tensors; another training's is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            noted = file.metadata()
    except SafetensorError as error:
        raise InputError(
            f"Expected the progress of a training, got {path}, which cannot be read ({error}); delete it"
        ) from None
    if noted["identity"] != identity:
        raise InputError(
            f"Expected {path} of the same dataset, seed and recipe, got another; delete it, or choose another folder"
        )
    return noted, safetensors.load_file(path)


def write_progress(path: Path, identity: str, noted: dict[str, str], tensors: dict[str, Tensor]) -> None:
    """Store a training whole, so that it can go on."""
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write(path, safetensors.save(contiguous, {"identity": identity, **noted}))
