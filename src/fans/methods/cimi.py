"""CIMI: an interpreter network, trained once on the background, that masks any image."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, interpolate, logsigmoid

from fans.engine import draws
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole
from fans.methods.base import Scores
from fans.methods.problem import Problem, replacement
from fans.methods.rivals import ElementMethod, check_classes, check_number, last_output, probabilities
from fans.methods.trained import Trained
from fans.modes import global_draws
from fans.task import Task


@dataclass(frozen=True)
class CIMI(Trained, ElementMethod):
    """Score a pixel by the mask of an interpreter network, trained on the background, never on what it explains.

    The interpreter g reads the pixels and the model's own last convolution (frozen, interpolated), and gives every
    pixel a share M of being a cause, a softmax over two. With x-hat another image and p the model's probabilities, it
    minimises the sum of

    - sufficiency, `MSE(p(x), p(M x)) - MSE(p(x), p((1 - M) x))`: what M keeps should do as the image did, the rest not;
    - intervention, `-cos(g(x), g(x'))`: moving the rest a little towards x-hat should not move the mask;
    - causal prior, `-log sigmoid(M - M-hat)`: with the convolution of x but the pixels of x-hat, M-hat should be less.

    One pass explains an image, whatever the class asked for: it explains the prediction. What is masked shows the
    baseline. Differs from the paper, which is on text: its image version, in the FANS paper, is not described.

    Args:
        n_epochs: over the background.
        batch: images a step.
        rate: of AdamW.
        width: channels of the interpreter's first layer.
        sufficiency: weight of the first term.
        intervention: weight of the second.
        prior: weight of the third; a model without a convolution has none.
        mix: the rest moves at most this far towards the other image.
    """

    name: ClassVar[str] = "cimi"
    label: ClassVar[str] = "CIMI"
    modalities: ClassVar[tuple[str, ...]] = ("image",)
    per_pixel: ClassVar[bool] = True
    citation: ClassVar[str] = "Wu et al., A Causality Inspired Framework for Model Interpretation, KDD 2023"
    network_name: ClassVar[str] = "an interpreter"
    size_names: ClassVar[str] = "images and a last convolution"

    n_epochs: int = 50
    batch: int = 8
    rate: float = 1e-3
    width: int = 32
    sufficiency: float = 1.0
    intervention: float = 1.0
    prior: float = 1.0
    mix: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch", "width"):
            check_whole(name, getattr(self, name), 1)
        for name in ("sufficiency", "intervention", "prior", "mix"):
            check_number(name, getattr(self, name), 0)
        if self.mix > 1:
            raise InputError(f"Expected `mix` from 0 to 1, got {self.mix!r}")

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse what it cannot be trained on."""
        super().check(task, settings)
        check_classes(task, f"method={self.name!r}")
        if len(task.background) < 2:
            raise InputError("Expected at least 2 background images to train method='cimi' on, got 1")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The image itself, for its convolution; training is apart."""
        return 1

    def attribute(self, problem: Problem) -> Scores:
        """Train if that was not done; then score. The rows are those of scoring."""
        self.train(problem.task, problem.seed)
        return super().attribute(problem)

    def elements(self, problem: Problem) -> Tensor:
        """Return the interpreter's mask."""
        network = self.train(problem.task, problem.seed)
        with torch.no_grad():
            mask = network(problem.task.space.planes(problem.x), _convolved(problem.task, problem.x))
        return problem.task.space.rows(mask)

    # --- Training ----------------------------------------------------------------------------------------------------

    def training_cost(self, n_background: int) -> int:
        """The background once, and four times an epoch."""
        return 1 + n_background * (1 + 4 * self.n_epochs)

    def sizes(self, task: Task) -> tuple[int, ...]:
        """Return the channels of the images, and of the model's last convolution (0 without one)."""
        with torch.no_grad():
            features = _convolved(task, task.background[:1])
        return task.space.planes(task.background[:1]).shape[1], 0 if features is None else features.shape[1]

    def build(self, sizes: Sequence[int]) -> "Interpreter":
        """Return an interpreter for so many channels."""
        n_channels, n_features = sizes
        return Interpreter(n_channels, n_features, self.width)

    def learn(self, task: Task, network: Any, seed: int) -> list[float]:
        """Train on the background."""
        self.draw_weights(network, seed)
        network.look(task, self._piece(task))

        def loss(index: Tensor, place: Tensor) -> Tensor:
            return self._loss(task, network, index, place, seed)

        return self.descend(network, seed, len(task.background), loss, self.batch, self.batch, decay=0.01)

    def _piece(self, task: Task) -> int:
        """Return how many rows the model sees at a time in training: whatever `max_batch`, a batch if it fits."""
        return min(self.batch, task.predict.max_batch)

    def _loss(self, task: Task, network: "Interpreter", index: Tensor, place: Tensor, seed: int) -> Tensor:
        """Return the loss on background images `index` `(n,)`, drawn from positions `place` `(n,)`."""
        n, x, piece = len(task.background), task.background[index], self._piece(task)
        other = draws.integers(self.key(seed, "other"), place, n - 1)
        x_other = task.background[other + (other >= index)]
        toward = self.mix * draws.uniform(self.key(seed, "mix"), place)[:, None].to(x.dtype)
        planes, features = task.space.planes(x), _convolved(task, x, piece)
        mask = network(planes, features)
        share, missing = task.space.rows(mask).to(x.dtype), replacement(task, x)
        p = probabilities(task, task.outputs[index])
        kept, rest = (
            probabilities(task, _outputs(task, torch.lerp(missing, x, keep), piece)) for keep in (share, 1 - share)
        )
        moved = x + (1 - share) * toward * (x_other - x)
        mask_moved = network(task.space.planes(moved), _convolved(task, moved, piece))
        loss = self.sufficiency * sufficiency(p, kept, rest) + self.intervention * intervention(mask, mask_moved)
        if features is not None:
            loss = loss + self.prior * causal_prior(mask, network(task.space.planes(x_other), features))
        return loss


def sufficiency(p: Tensor, kept: Tensor, rest: Tensor) -> Tensor:
    """Return `MSE(p, kept) - MSE(p, rest)` of probabilities `(n, C)`."""
    return ((p - kept) ** 2).mean() - ((p - rest) ** 2).mean()


def intervention(mask: Tensor, moved: Tensor) -> Tensor:
    """Return minus the mean cosine between the masks `(n, 1, height, width)` of each image."""
    return -cosine_similarity(mask.flatten(1), moved.flatten(1)).mean()


def causal_prior(mask: Tensor, mismatched: Tensor) -> Tensor:
    """Return the mean of `-log sigmoid(mask - mismatched)` over pixels."""
    return -logsigmoid(mask - mismatched).mean()


class Interpreter(nn.Module):
    """g: pixels and convolutional features to a mask.

    The features' part of the first layer comes before their interpolation, with which it commutes.

    Args:
        n_channels: of the image.
        n_features: channels of the convolution; 0 for none.
        width: of the first layer.
    """

    mean: Tensor
    scale: Tensor
    feature_mean: Tensor
    feature_scale: Tensor

    def __init__(self, n_channels: int, n_features: int, width: int) -> None:
        super().__init__()
        with global_draws():
            self.pixels = nn.Conv2d(n_channels, width, 3, padding=1)
            self.features = nn.Conv2d(n_features, width, 1, bias=False) if n_features else None
            self.inner, self.out = nn.Conv2d(width, 16, 3, padding=1), nn.Conv2d(16, 2, 1)
        for name in ("mean", "scale"):
            self.register_buffer(name, torch.ones(n_channels, 1, 1))
            self.register_buffer(f"feature_{name}", torch.ones(n_features, 1, 1))

    def look(self, task: Task, piece: int) -> None:
        """Look at the background once, for its scales."""
        pieces = torch.split(task.background, piece)
        self.mean, self.scale = _scales(task.space.planes(rows) for rows in pieces)
        if self.features is not None:
            with torch.no_grad():
                found = (_convolved(task, rows, piece) for rows in pieces)
                self.feature_mean, self.feature_scale = _scales(f for f in found if f is not None)

    def forward(self, planes: Tensor, features: Tensor | None) -> Tensor:
        """Return the mask `(n, 1, height, width)` of images `(n, channels, height, width)`."""
        hidden = self.pixels((planes.float() - self.mean) / self.scale)
        if self.features is not None and features is not None:
            scaled = (features.float() - self.feature_mean) / self.feature_scale
            hidden = hidden + interpolate(self.features(scaled), planes.shape[2:], mode="bilinear")
        out: Tensor = self.out(self.inner(hidden.relu()).relu())
        return out.softmax(1)[:, 1:]


def _scales(pieces: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation `(channels, 1, 1)` of pieces `(n, channels, height, width)`; 1 for none."""
    n, total, squares = 0, torch.zeros(()), torch.zeros(())
    for piece in pieces:
        values = piece.detach().double().transpose(0, 1).flatten(1)
        n, total, squares = n + values.shape[1], total + values.sum(1), squares + (values**2).sum(1)
    mean = total / n
    scale = (squares / n - mean**2).clamp(min=0).sqrt()
    scale = torch.where(scale > 1e-6 * mean.abs().clamp(min=1e-6), scale, torch.ones(()))
    return mean.float()[:, None, None], scale.float()[:, None, None]


def _outputs(task: Task, rows: Tensor, piece: int) -> Tensor:
    """Return outputs `(n, C)` through which gradients flow, so many rows at a time."""
    return torch.cat([task.predict.differentiable(some) for some in torch.split(rows, piece)])


def _convolved(task: Task, rows: Tensor, piece: int | None = None) -> Tensor | None:
    """Return the activations `(n, channels, h, w)` of the last `nn.Conv2d` that runs; None if none does."""
    convolutions = [part for part in task.predict.model.modules() if isinstance(part, nn.Conv2d)]
    if not convolutions:
        return None
    pieces: Sequence[Tensor] = torch.split(rows, piece or task.predict.n_seen)
    parts = [last_output(convolutions, partial(task.predict.differentiable, some, whole=True)) for some in pieces]
    found = [part for part in parts if part is not None]
    return torch.cat(found) if found else None
