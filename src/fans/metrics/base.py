"""What every metric is, the `Case` it judges, and the few things metrics share: rankings, masks, images."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch import Tensor

from fans.engine.draws import stream_keys
from fans.errors import FansError, InputError, ModelError, check_whole, choose
from fans.modes import evaluating
from fans.registry import Registered

Id = int | str
Model = Callable[[Tensor], Tensor]
"""Rows `(n, *input)` to outputs `(n, C)`."""
Explain = Callable[[Tensor, Tensor, Sequence[Id]], Tensor]
"""Inputs `(n, *input)`, their targets `(n,)` and their ids to scores `(n, *input)`."""
Make = Callable[[Tensor, Tensor], Tensor]
"""Which input and which of its copies `(n,)` each row is, to the rows `(n, *input)`."""
Output = Literal["raw", "probability"]

Returns = Literal["logits", "probabilities", "values"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Case:
    """What a metric judges: scores of the elements of some inputs, and the model whose answers they explain.

    To judge other scores of the same inputs, make the next case with `dataclasses.replace(case, scores=...)`: both then
    share `cache`, and what does not depend on the scores (the answers to an infidelity's perturbations, IROF's
    segments) is computed once. The cache tells models, inputs, targets, ids and seeds apart; it lives as long as
    the caller keeps it, so keep one for each batch of inputs.

    Attributes:
        model: from rows `(n, *input)` to raw outputs `(n, C)`; a torch module is held in evaluation mode.
        inputs: `(B, *input)`, images as `(B, channels, height, width)`; their device and dtype are the rows'.
        scores: `(B, *input)` importance of each element; every element of a feature carries its feature's.
        target: `(B,)` the explained class, int64.
        ids: one for each input; its draws depend on its id and `seed` alone.
        seed: of all draws.
        max_batch: rows in one call of the model.
        explain: explains changed inputs as `scores` explain the given ones, for metrics that ask for it. It gets the
            target and the id of the input that each changed one comes from, so that a method whose draws follow the id
            repeats them, and its scores differ by the change alone.
        truth: `(B, *input)` bool, the elements known to matter, for metrics that ask for it.
        returns: what the model returns: `"logits"` or `"probabilities"` of classes, a single one being that of class 1,
            or `"values"`, which are followed as they are, a single one whatever the target. By default judged from its
            answers to `inputs`: in [0, 1] with sum 1 (or a single one in [0, 1]) they are probabilities, else
            logits, a single one as it is whatever the target where raw outputs count. Say so if there is a single one.
        cache: what cases share.
        parts: `(B, *input)` what each element adds to the output, for metrics that sum scores up: where a feature's
            score is that of all its elements together, or a pixel's that of its channels, each has its share. By
            default the scores.
        own: what metrics remember of these scores.
    """

    model: Model
    inputs: Tensor
    scores: Tensor
    target: Tensor
    ids: Sequence[Id]
    seed: int = 0
    max_batch: int = 1024
    explain: Explain | None = None
    truth: Tensor | None = None
    returns: Returns | None = None
    cache: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    parts: Tensor | None = field(default=None, repr=False)
    own: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_tensors()
        check_whole("max_batch", self.max_batch, 1)
        if not is_whole(self.seed):
            raise InputError(f"Expected `seed` as a whole number, got {self.seed!r}")
        if self.returns is not None:
            choose("`returns`", self.returns, get_args(Returns))
        if not callable(self.model) or not (self.explain is None or callable(self.explain)):
            raise InputError(
                "Expected `model`, and `explain` where it is given, as functions, got "
                f"{type(self.model).__name__} and {type(self.explain).__name__}"
            )
        if isinstance(self.ids, str) or len(self.ids) != len(self.inputs):
            raise InputError(f"Expected {len(self.inputs)} ids, one for each input, got {len(self.ids)}")
        ids = tuple(int(i) if is_whole(i) else str(i) for i in self.ids)
        settled = {"ids": ids, "inputs": self.inputs.detach(), "scores": self.scores.detach().to(self.inputs.device)}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def _check_tensors(self) -> None:
        """Refuse tensors of the wrong kind, shape or content."""
        for name in ("inputs", "scores", "target", "truth"):
            value = getattr(self, name)
            if not isinstance(value, Tensor) and not (name == "truth" and value is None):
                raise InputError(
                    f"Expected `{name}` as a tensor, got {type(value).__name__}; pass torch.as_tensor of it"
                )
        shape = tuple(self.inputs.shape)
        if len(shape) < 2 or not self.inputs.numel() or not self.inputs.is_floating_point():
            raise InputError(f"Expected `inputs` (B, *input), floating-point, got {shape} of {self.inputs.dtype}")
        if self.scores.shape != self.inputs.shape:
            raise InputError(
                f"Expected `scores` of the inputs' shape {shape}, got {tuple(self.scores.shape)}; give every element "
                "its feature's score"
            )
        if self.parts is not None and self.parts.shape != self.inputs.shape:
            raise InputError(f"Expected `parts` of the inputs' shape {shape}, got {tuple(self.parts.shape)}")
        for name in ("inputs", "scores", *(["parts"] if self.parts is not None else [])):
            n_bad = int((~torch.isfinite(getattr(self, name))).flatten(1).any(1).sum())
            if n_bad:
                raise InputError(f"Expected finite `{name}`, got NaN or infinity in {n_bad} of {shape[0]} inputs")
        if self.target.shape != shape[:1] or self.target.dtype != torch.int64 or int(self.target.min()) < 0:
            raise InputError(
                f"Expected `target` ({shape[0]},) of int64 from 0 up, got {tuple(self.target.shape)} of "
                f"{self.target.dtype}; pass the explained class of each input"
            )
        if self.truth is not None and (self.truth.shape != self.inputs.shape or self.truth.dtype != torch.bool):
            raise InputError(
                f"Expected `truth` {shape} of bool, got {tuple(self.truth.shape)} of {self.truth.dtype}; "
                "mark the elements that matter with True"
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def first(self, n: int) -> "Case":
        """Return the case of the first n inputs; it shares the cache."""
        given = {name: getattr(self, name) for name in ("inputs", "scores", "target", "ids", "truth", "parts")}
        return replace(self, **{name: value[:n] for name, value in given.items() if value is not None})

    # --- Asking the model ---------------------------------------------------------------------------------------------

    def _answer(self, rows: Tensor) -> Tensor:
        """Return the model's outputs for one batch, which it may overwrite: `(n, C)` in float64 on the CPU."""
        with evaluation_mode(self.model), torch.no_grad():
            out = self.model(rows)
        if not isinstance(out, Tensor) or out.ndim not in (1, 2) or len(out) != len(rows) or not out.numel():
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ModelError(
                f"Expected a tensor ({len(rows)}, classes) from the model, got {got}; one row for each input"
            )
        if not torch.isfinite(out).all():
            raise ModelError("Expected finite outputs from the model, got NaN or infinity; check it on changed inputs")
        return out.detach().reshape(len(rows), -1).cpu().double()

    def outputs(self, rows: Tensor) -> Tensor:
        """Return the model's outputs for any rows, `(n, C)` in float64, in batches of `max_batch`."""
        return torch.cat([self._answer(part.clone()) for part in torch.split(rows, self.max_batch)])

    def probabilities(self, rows: Tensor) -> Tensor:
        """Return the probabilities `(n, C)` of the classes for any rows; two columns where the model has one output."""
        return self.as_probabilities(self.outputs(rows))

    def predicted(self, rows: Tensor) -> Tensor:
        """Return the class `(n,)` that the model predicts for any rows."""
        return self.classes(self.outputs(rows))

    def ask(self, counts: int | Tensor, make: Make, *, target: Tensor | None = None, output: Output = "raw") -> Tensor:
        """Ask about changed copies of every input, and return its target's output for each.

        Args:
            counts: copies of each input, a number or `(B,)`.
            make: returns the copies of one batch, fresh ones.
            target: `(B,)` the class; by default the case's own.
            output: the raw output or the probability.

        Returns:
            float64, one for each copy of the first input, then of the second, and so on: `(B, counts)` if `counts` is a
            number, else `(counts.sum(),)`.
        """
        target = self.target if target is None else target
        parts = []
        for which, copy in self.chunks(counts):
            out = self._answer(make(which, copy))
            parts.append(self.of_target(out, target[which.to(target.device)], output))
        answers = torch.cat(parts)
        return answers if isinstance(counts, Tensor) else answers.view(len(self), counts)

    def chunks(self, counts: int | Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Cut all copies of all inputs into batches: which input and which of its copies `(n,)` each row is."""
        each = torch.as_tensor(counts, device=self.inputs.device).expand(len(self))
        ends = each.cumsum(0)
        for start in range(0, int(ends[-1]), self.max_batch):
            flat = torch.arange(start, min(start + self.max_batch, int(ends[-1])), device=ends.device)
            which = torch.searchsorted(ends, flat, right=True)
            yield which, flat - (ends - each)[which]

    # --- Reading its answers ------------------------------------------------------------------------------------------

    @cached_property
    def before(self) -> Tensor:
        """The model's outputs `(B, C)` for the inputs as they are, asked once."""
        return self.remember("outputs", lambda: self.outputs(self.inputs))

    @cached_property
    def are_probabilities(self) -> bool:
        """Whether the model returns probabilities: as said, else judged from `before`, be it rounded to bfloat16."""
        if self.returns is not None:
            return self.returns == "probabilities"
        inside = bool(((self.before >= 0) & (self.before <= 1)).all())
        return inside and (self.before.shape[1] == 1 or bool(((self.before.sum(1) - 1).abs() < 1e-2).all()))

    def as_probabilities(self, outputs: Tensor) -> Tensor:
        """Turn outputs `(n, C)` into probabilities: softmax, or a sigmoid and its complement; never a second time."""
        if self.returns == "values":
            raise InputError("Expected a model of classes, got one of values; choose a metric that asks for no class")
        if outputs.shape[1] > 1:
            return outputs if self.are_probabilities else torch.softmax(outputs, 1)
        p = outputs if self.are_probabilities else torch.sigmoid(outputs)
        return torch.cat([1 - p, p], 1)

    def classes(self, outputs: Tensor) -> Tensor:
        """Return the predicted class `(n,)` of outputs `(n, C)`."""
        return (outputs if outputs.shape[1] > 1 else self.as_probabilities(outputs)).argmax(1)

    def of_target(self, outputs: Tensor, target: Tensor, output: Output) -> Tensor:
        """Return the target's output or probability `(n,)` of outputs `(n, C)`; values are as they are."""
        single = outputs.shape[1] == 1
        if single and (self.returns == "values" or (self.returns is None and output == "raw")):
            return outputs[:, 0]
        columns = torch.cat([-outputs, outputs], 1) if single else outputs  # a single logit is that of class 1
        if self.returns != "values" and (output == "probability" or (single and self.are_probabilities)):
            columns = self.as_probabilities(outputs)
        if int(target.max()) >= columns.shape[1]:
            raise InputError(f"Expected `target` below the model's {columns.shape[1]} classes, got {int(target.max())}")
        return columns.gather(1, target.cpu()[:, None])[:, 0]

    # --- Draws and memory ---------------------------------------------------------------------------------------------

    def keys(self, stage: str) -> Tensor:
        """Return the start `(B,)` of each input's own stream of draws in a stage; see `fans.engine.draws`."""
        return stream_keys(self.seed, self.ids, stage, self.inputs.device)

    @cached_property
    def _identity(self) -> Hashable:
        """What an entry of the cache is about."""
        content = hashlib.blake2b(digest_size=16)
        for tensor in (self.inputs, self.target):
            content.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        # An object's method is another object each time it is looked up, but an equal one.
        model = self.model if isinstance(self.model, Hashable) else id(self.model)
        return (model, tuple(self.inputs.shape), content.digest(), self.ids, self.seed, self.returns)

    def remember(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for all cases of this model and these inputs that share a cache."""
        key = (what, self._identity)
        if key not in self.cache:
            self.cache[key] = (self.model, make())  # with the model, lest another one get its id
        made: T = self.cache[key][1]
        return made


def evaluation_mode(model: Model) -> AbstractContextManager[None]:
    """Hold a torch module in evaluation mode, restored afterwards, whatever happens and whoever else asks it."""
    return evaluating(model)


@dataclass(frozen=True)
class Metric(Registered):
    """A measure of scores: a frozen dataclass whose fields are its settings; a `Case` in, one number an input out."""

    registry: ClassVar[dict[str, type[Registered]]] = {}
    label: ClassVar[str]
    higher_is_better: ClassVar[bool]
    value_range: ClassVar[tuple[float, float]]
    citation: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Optional fields of a case that the metric cannot do without: `"explain"`, `"truth"`."""
    asks_once: ClassVar[bool] = False
    """Whether its model rows do not depend on the scores: cases that share a cache spend them once."""

    def __call__(self, case: Case) -> Tensor:
        """Return the metric of each input, `(B,)` float64.

        Raises:
            InputError: if the case lacks what the metric needs, or has inputs that it cannot work on.
        """
        for need in self.needs:
            if getattr(case, need) is None:
                raise InputError(f"Expected a case with `{need}` for {self.name!r}, got none; pass Case({need}=...)")
        self.check(tuple(case.inputs.shape[1:]))
        values = self.score(case).cpu()
        assert values.shape == (len(case),) and values.dtype == torch.float64, self.name  # noqa: PT018
        if not torch.isfinite(values).all():
            n_bad = int((~torch.isfinite(values)).sum())
            raise FansError(
                f"Expected finite values of {self.name!r}, got NaN or infinity for {n_bad} of {len(case)} inputs; "
                "check the model's outputs and the scores there"
            )
        return values

    @abstractmethod
    def score(self, case: Case) -> Tensor:
        """Return the metric of each input, `(B,)` float64."""

    @abstractmethod
    def cost(self, shape: tuple[int, ...]) -> int:
        """About how many model rows an input of this shape costs, with nothing remembered."""

    @property
    def asks(self) -> Hashable:
        """What it asks the model: of metrics that ask the same of one case, only the first spends rows."""
        return self

    @property
    def explanations(self) -> int:
        """How many changed copies of an input the metric has explained."""
        return 0

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs of a shape that the metric cannot work on, before anything is spent."""

    def refuse_ignored(self, ignored: Sequence[str], because: str) -> None:
        """Refuse settings that would have no effect."""
        changed = [f.name for f in fields(self) if f.name in ignored and getattr(self, f.name) != f.default]
        if changed:
            raise InputError(f"Expected {', '.join(f'`{n}`' for n in changed)} left alone, for {because} ignores it")

    def check_images(self, shape: tuple[int, ...]) -> None:
        """Refuse inputs that are not images."""
        if len(shape) != 3:
            raise InputError(
                f"Expected images (B, channels, height, width) for {self.name!r}, got inputs of shape (B, "
                f"{', '.join(map(str, shape))}); reshape them, or choose a metric that needs no images"
            )


def is_whole(value: object) -> bool:
    """Tell whether `value` is a whole number, Python's or NumPy's."""
    return isinstance(value, Integral)


def ranks(scores: Tensor) -> Tensor:
    """Return the place of each element `(B, E)` when the highest score comes first; of equals, the first one."""
    return scores.flatten(1).argsort(dim=1, descending=True, stable=True).argsort(dim=1)


def soft_mask(scores: Tensor) -> Tensor:
    """Return a mask in [0, 1] of the scores' shape: what is negative becomes 0, the highest score of an input 1.

    The same for every method, signed or not: a negative score speaks against the class, so it is not kept.
    """
    positive = scores.double().clamp(min=0)
    top = positive.flatten(1).amax(1).view(-1, *[1] * (scores.ndim - 1))
    return positive / torch.where(top > 0, top, 1.0)
