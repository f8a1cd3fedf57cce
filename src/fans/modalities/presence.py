"""Inputs whose features are there or not: words of a text, items of a basket, columns of a sparse row.

`FittedPresence` is what all of them share. `Pieces` is a whole modality but for two functions: the pieces that an input
falls into, and the input made of some of them. Every input has pieces of its own, so each is read by a space of its
own, whose rows `(n, K)` say which of its K pieces are there: 1 or 0.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError, is_number
from fans.explanation import Attribution
from fans.modalities.base import Baseline, Distance, FeatureSpace, FittedSpace, OfSample, Units
from fans.types import Array

TYPICAL = 0.9
"""As many background inputs have at most as many pieces as the one by which costs are reckoned."""


class FittedPresence(FittedSpace):
    """Features that can only be there, with their value, or not: 0."""

    has_background: ClassVar[bool] = False
    solver: ClassVar[Literal["game", "walks"]] = "walks"
    signed: ClassVar[bool] = True
    reach: ClassVar[float] = 1.0
    repeats: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    things: ClassVar[str] = "these inputs"
    """What sentences call the inputs."""
    gone: ClassVar[str] = "zero"
    """The name of the only baseline."""
    baseline_remedy: ClassVar[str] = "leave it out"
    """What to do about a baseline that is none."""

    def inputs_of(self, e: Attribution) -> Any:  # noqa: ARG002
        """Return None: an explanation keeps which features there are, not what they are part of."""
        return None

    def take(self, names: tuple[str, ...]) -> None:
        """Have features of these names, each an element."""
        self.feature_names, self.shape, self.scale = names, (len(names),), torch.ones(len(names), dtype=torch.float64)

    def units(self, rows: Tensor, of: Tensor | None = None) -> Units:  # noqa: ARG002
        """Return the elements, each a feature."""
        return Units(torch.arange(self.n_features)[None], torch.ones(1, self.n_features), shared=True)

    def baseline(self, value: Any, background: Tensor) -> Baseline:  # noqa: ARG002
        """Return nothing, the only baseline there is."""
        if value != self.gone if isinstance(value, str) else not is_number(value) or value != 0:
            got = repr(value) if isinstance(value, str) or is_number(value) else type(value).__name__
            raise InputError(
                f"Expected baseline=0 for {self.things}, where what is missing is not there, got {got}; "
                f"{self.baseline_remedy}"
            )
        return OfSample(self.zero)

    def unit_distances(self, x: Tensor, rows: Tensor, units: Units, distance: Distance) -> Tensor:  # noqa: ARG002
        """Return 1 for each feature that differs: it is missing."""
        return (x[:, None] != rows).to(x.dtype)

    def deviations(self, background: Tensor) -> Tensor:
        """Return zeros: no scale is estimated."""
        return torch.zeros_like(background)

    def noise(self, normals: Tensor, size: float, *, relative: bool) -> Tensor:  # noqa: ARG002
        """Refuse: what can only be there or not has no neighbouring value."""
        raise InputError(
            f"Expected a tolerance as a number for {self.things}, got one that is measured by noise; pass "
            "tolerance=0.1, say, or leave it out"
        )


class Pieces(FeatureSpace):
    """A space of inputs that fall into pieces; a missing piece is gone.

    Attributes:
        modality: as `Explanation.modality` has it.
        things: what sentences call the inputs.
    """

    baselines: ClassVar[tuple[str, ...]] = ("gone",)
    modality: ClassVar[str]
    things: ClassVar[str] = "these inputs"

    @abstractmethod
    def pieces(self, x: Any) -> Sequence[str]:
        """Return what the pieces of one input are called."""

    @abstractmethod
    def assemble(self, x: Any, kept: Array) -> Any:
        """Return an input with only those of its pieces that are kept `(K,)` bool, as the model takes it."""

    def batch(self, inputs: list[Any]) -> Any:
        """Return several inputs as the model takes them: by default as a list."""
        return inputs

    def fit(self, background: Any) -> "FittedPieces":
        """Bind to a list of real inputs."""
        return FittedPieces(self, list(background))


class FittedPieces(FittedPresence):
    """A background of inputs that fall into pieces, read by their numbers.

    Its features are those of a background input of typical size: what the costs of inputs are reckoned by.
    """

    gone: ClassVar[str] = "gone"

    def __init__(self, space: Pieces, background: list[Any]) -> None:
        super().__init__()
        self.space, self.inputs = space, background
        sizes = np.array([len(space.pieces(x)) for x in background])
        filled = np.flatnonzero(sizes)
        if not len(filled):
            raise InputError(f"Expected {space.things} with something in them as background, got none")
        typical = filled[np.argsort(sizes[filled], kind="stable")[int(TYPICAL * (len(filled) - 1))]]
        self.take(tuple(map(str, space.pieces(background[typical]))))

    @property
    def modality(self) -> str:  # type: ignore[override]
        """Of the space."""
        return self.space.modality

    @property
    def things(self) -> str:  # type: ignore[override]
        """Of the space."""
        return self.space.things

    def encode(self, inputs: Any, what: str) -> Tensor:  # noqa: ARG002
        """Return the numbers `(n, 1)` of the background's inputs."""
        return torch.arange(len(self.inputs), dtype=torch.float64)[:, None]

    def decode(self, rows: Tensor) -> Any:
        """Return the background's inputs of these numbers."""
        return self.space.batch([self.inputs[int(i)] for i in rows[:, 0]])

    def split(self, x: Any) -> list[tuple[FittedSpace, Tensor, list[int]]]:
        """Return for each input a space of its own, its row, and its place."""
        given = list(x)
        each = [FittedInput(self, one) for one in given]
        empty = [i for i, space in enumerate(each) if not space.n_features]
        if not each or empty:
            got = f"input {empty[0]} with nothing in it" if empty else "none"
            raise InputError(f"Expected {self.space.things} with something in them to explain, got {got}; leave it out")
        most = max(space.n_features for space in each)
        for space in each:
            space.most = most
        return [(space, space.encode(None, "x"), [i]) for i, space in enumerate(each)]


class FittedInput(FittedPresence):
    """The pieces of one input; feature k is its k-th piece, as it is of all inputs given with it."""

    def __init__(self, fitted: FittedPieces, x: Any) -> None:
        self.unwrap, self.space, self.input = fitted.unwrap, fitted.space, x
        self.take(tuple(map(str, self.space.pieces(x))))
        self.most = self.n_features

    @property
    def modality(self) -> str:  # type: ignore[override]
        """Of the space."""
        return self.space.modality

    @property
    def all_names(self) -> tuple[str, ...]:
        """Places of pieces, of as many as the largest input has."""
        return tuple(f"piece {k + 1}" for k in range(self.most))

    @property
    def element_names(self) -> tuple[str, ...]:
        """One name per element that is shown."""
        return self.all_names

    def encode(self, inputs: Any, what: str) -> Tensor:  # noqa: ARG002
        """Return the row `(1, K)` of the input itself: everything is there."""
        return torch.ones(1, self.n_features, dtype=torch.float64)

    def decode(self, rows: Tensor) -> Any:
        """Return the inputs that rows say."""
        return self.space.batch([self.space.assemble(self.input, row) for row in (rows != 0).numpy()])

    def details(self, rows: Tensor) -> dict[str, list[Any]]:
        """Return what the pieces of each input are called."""
        return {"pieces": [list(self.feature_names) for _ in rows]}

    def shown(self, rows: Tensor) -> Tensor:
        """Return what is said of the pieces `(n, K)`, with zeros for those of larger inputs."""
        return torch.from_numpy(self.among_all(rows.numpy()))

    def elements(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Return `(most,)`: each piece is a feature."""
        return torch.arange(self.most)

    def among_all(self, of_features: Array, fill: float = 0) -> Array:
        """Return what is said of the pieces `(n, K)` among as many as the largest input has."""
        out = np.full((len(of_features), self.most), fill, of_features.dtype)
        out[:, : self.n_features] = of_features
        return out
