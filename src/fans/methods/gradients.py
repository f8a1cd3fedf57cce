"""Methods that read a torch module's gradients: at the input, along a path to it, or bent at its activations.

Captum has most of them, and the tests hold these to its answers. It is not called: its DeepLift is wrong where one
module that it bends feeds another directly (a ReLU and its max-pool), and refuses an activation that is used twice; its
hooks also bend what passes beside an activation (residual networks that activate first); the rest are a few lines each.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fans.engine import draws
from fans.engine.settings import Settings
from fans.errors import check_whole, choose, warn
from fans.methods.problem import Problem, gradient
from fans.methods.rivals import ElementMethod, check_number
from fans.modes import only_here
from fans.task import Task

MODALITIES = ("table", "image")
ANY = (*MODALITIES, "graph")

Rule = Literal["gausslegendre", "riemann_trapezoid", "riemann_left", "riemann_middle", "riemann_right"]
RULES = ("gausslegendre", "riemann_trapezoid", "riemann_left", "riemann_middle", "riemann_right")


@dataclass(frozen=True)
class Saliency(ElementMethod):
    """Score an element by the gradient of the explained output, `|df/dx|`.

    Args:
        absolute: without it, the gradient keeps its sign.
        times_input: multiply the gradient by the input.
    """

    name: ClassVar[str] = "saliency"
    label: ClassVar[str] = "Saliency"
    modalities: ClassVar[tuple[str, ...]] = ANY
    citation: ClassVar[str] = (
        "Simonyan, Vedaldi and Zisserman, Deep Inside Convolutional Networks: Visualising Image Classification Models "
        "and Saliency Maps, ICLR Workshop 2014"
    )

    absolute: bool = True
    times_input: bool = False

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The input itself."""
        return 1

    def elements(self, problem: Problem) -> Tensor:
        """Return the gradient."""
        return _at_the_input(problem, absolute=self.absolute, times_input=self.times_input)


@dataclass(frozen=True)
class GuidedBackprop(ElementMethod):
    """Score an element by the gradient that is left when every ReLU passes back only what is positive.

    It bends `nn.ReLU` modules: a ReLU called as a function is out of its reach.

    Args:
        absolute: of the guided gradient, which has a sign otherwise.
        times_input: multiply it by the input.
    """

    name: ClassVar[str] = "guided_backprop"
    label: ClassVar[str] = "GuidedBP"
    modalities: ClassVar[tuple[str, ...]] = ANY
    citation: ClassVar[str] = (
        "Springenberg et al., Striving for Simplicity: The All Convolutional Net, ICLR Workshop 2015"
    )

    absolute: bool = False
    times_input: bool = False

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse what has no gradient; warn where there is nothing to bend."""
        super().check(task, settings)
        _warn_without(task, (nn.ReLU,), "an nn.ReLU module", self.name)

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The input itself."""
        return 1

    def elements(self, problem: Problem) -> Tensor:
        """Return the guided gradient."""

        def enter(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            entry = given[0].clone()  # only this ReLU sees it, whatever else its input is used for
            if entry.requires_grad:
                entry.register_hook(lambda slope: slope.clamp(min=0))
            return (entry, *given[1:])

        with _hooked(problem.task.predict.model, (nn.ReLU,), enter):
            return _at_the_input(problem, absolute=self.absolute, times_input=self.times_input)


@dataclass(frozen=True)
class IntegratedGradients(ElementMethod):
    """Score an element by its gradient averaged on the straight line from the baseline, times how far it moved.

    Completeness: the scores of the elements add up to `f(x) - f(baseline)`, as well as the rule integrates.

    Args:
        n_steps: points on the line.
        rule: of integration, by Captum's names. As in Captum, the weights of `"riemann_trapezoid"` add up to
            `1 - 1 / n_steps`.
    """

    name: ClassVar[str] = "integrated_gradients"
    label: ClassVar[str] = "IG"
    modalities: ClassVar[tuple[str, ...]] = ANY
    citation: ClassVar[str] = "Sundararajan, Taly and Yan, Axiomatic Attribution for Deep Networks, ICML 2017"

    n_steps: int = 50
    rule: Rule = "gausslegendre"

    def __post_init__(self) -> None:
        choose("`rule`", self.rule, RULES)
        check_whole("n_steps", self.n_steps, 1 if self.rule == "gausslegendre" else 2)

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The points on the line."""
        return self.n_steps

    def elements(self, problem: Problem) -> Tensor:
        """Integrate."""
        places, weights = (torch.from_numpy(v) for v in _quadrature(self.rule, self.n_steps))
        _, slopes = _along(problem, places)
        return torch.einsum("nke,k->ne", slopes, weights.to(slopes.dtype)) * (problem.x - problem.missing)


@dataclass(frozen=True)
class GradientShap(ElementMethod):
    """Score an element by its mean gradient at random points between the input and random references, times the way.

    The expectation of Integrated Gradients over references (and, with `stdev`, over noise on the input).

    Args:
        n_samples: points.
        stdev: of normal noise on the input, in its own units.
        references: rows of the `"background"`, or the `"baseline"`.
    """

    name: ClassVar[str] = "gradient_shap"
    label: ClassVar[str] = "GradShap"
    modalities: ClassVar[tuple[str, ...]] = MODALITIES
    citation: ClassVar[str] = "Lundberg and Lee, A Unified Approach to Interpreting Model Predictions, NeurIPS 2017"

    n_samples: int = 5
    stdev: float = 0.0
    references: Literal["background", "baseline"] = "background"

    def __post_init__(self) -> None:
        check_whole("n_samples", self.n_samples, 1)
        check_number("stdev", self.stdev, 0)
        choose("`references`", self.references, ("background", "baseline"))

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The points."""
        return self.n_samples

    def elements(self, problem: Problem) -> Tensor:
        """Average over the draws."""
        noisy, reference, place = self.drawn(problem)
        way = noisy - reference
        owner = torch.arange(len(problem)).repeat_interleave(self.n_samples)
        _, slopes = problem.slopes((reference + place[..., None] * way).flatten(0, 1), owner)
        return (slopes.view_as(way) * way).mean(1)

    def drawn(self, problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the noisy input `(n, K, E)`, its reference `(n, K, E)` and the place between them `(n, K)`."""
        x, sample = problem.x[:, None], torch.arange(self.n_samples)
        noisy = x.expand(-1, self.n_samples, -1)
        if self.stdev:
            position = sample[:, None] * x.shape[2] + torch.arange(x.shape[2])
            normals = draws.normal(problem.keys("gradient_shap/noise")[:, None, None], position)
            noisy = noisy + self.stdev * normals.to(x.dtype)
        reference = problem.missing[:, None].expand_as(noisy)
        if self.references == "background":
            background = problem.task.background
            reference = background[
                draws.integers(problem.keys("gradient_shap/reference")[:, None], sample, len(background))
            ]
        place = draws.uniform(problem.keys("gradient_shap/place")[:, None], sample)
        return noisy, reference, place.to(x.dtype)


@dataclass(frozen=True)
class IDGI(ElementMethod):
    """Score elements along the baseline's straight line to the input by their part in each step's change.

    `sum_j (g_j * g_j) / |g_j|^2 * (f(x_{j+1}) - f(x_j))`, where `g_j` is the gradient at `x_j`: each step shares out
    what it changed in proportion to squared gradients, so the scores add up to `f(x) - f(baseline)` for any number of
    steps. A step from where the gradient is 0 has nobody to share with, and is left out.

    Args:
        n_steps: of the line.
    """

    name: ClassVar[str] = "idgi"
    label: ClassVar[str] = "IDGI"
    modalities: ClassVar[tuple[str, ...]] = MODALITIES
    citation: ClassVar[str] = (
        "Yang, Wang and Bilgic, IDGI: A Framework to Eliminate Explanation Noise from Integrated Gradients, CVPR 2023"
    )

    n_steps: int = 50

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The steps, and where the last one ends."""
        return self.n_steps + 1

    def elements(self, problem: Problem) -> Tensor:
        """Share out every step."""
        values, slopes = _along(problem, torch.linspace(0, 1, self.n_steps + 1, dtype=torch.float64))
        squared = slopes[:, :-1].double() ** 2
        total = squared.sum(2)
        rate = torch.where(total > 0, values.diff(dim=1) / total, torch.zeros((), dtype=total.dtype))
        return torch.einsum("nke,nk->ne", squared, rate)


# --- DeepLift --------------------------------------------------------------------------------------------------------

POINTWISE: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Hardtanh),
    *(nn.Sigmoid, nn.Tanh, nn.Softplus),
)
POOLS: dict[type[nn.Module], Callable[..., Any]] = {
    nn.MaxPool1d: nn.functional.max_pool1d,
    nn.MaxPool2d: nn.functional.max_pool2d,
    nn.MaxPool3d: nn.functional.max_pool3d,
}
STILL = 1e-10
"""A difference below this counts as none, as in Captum: the gradient stands in for the quotient."""


@dataclass(frozen=True)
class DeepLift(ElementMethod):
    """Score an element by its part in the difference from the baseline, traced back through every activation.

    The rescale rule: an activation passes back `difference out / difference in` where its gradient would be. The scores
    of the elements add up to the difference of the output, exactly. Explained is the logit of the class, as its authors
    advise (their Section 3.6), also where the output is a probability. It bends modules: an activation called as a
    function keeps its gradient.

    Args:
        multiply: by the difference of the element from the baseline; without, its multiplier.
    """

    name: ClassVar[str] = "deep_lift"
    label: ClassVar[str] = "DeepLift"
    modalities: ClassVar[tuple[str, ...]] = MODALITIES
    citation: ClassVar[str] = (
        "Shrikumar, Greenside and Kundaje, Learning Important Features Through Propagating Activation Differences, "
        "ICML 2017"
    )

    multiply: bool = True

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse what has no gradient; warn where the rule has nothing to hold on to."""
        super().check(task, settings)
        _warn_without(task, POINTWISE, "a module of its own for every activation", self.name)
        if any(isinstance(part, nn.Softmax | nn.LogSoftmax) for part in task.predict.model.modules()):
            warn(
                "Expected a module that returns logits for method='deep_lift', got one with a softmax in it, whose "
                "gradient is used as it is; leave it out, probabilities are made of logits here",
            )

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """The input and its baseline."""
        return 2

    def elements(self, problem: Problem) -> Tensor:
        """Return multipliers, times the difference."""
        task, calls = problem.task, list[_Call]()

        def enter(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            calls.append(_Call(module, given[0]))
            return (calls[-1].entry, *given[1:])

        def leave(_: nn.Module, __: tuple[Any, ...], out: Any) -> None:
            calls.pop().leave(out)

        leaf = torch.cat([problem.x, problem.missing]).requires_grad_()
        with _hooked(task.predict.model, (*POINTWISE, *POOLS), enter, leave):
            logits = task.predict.differentiable(leaf, raw=True, whole=True)
            if logits.shape[1] < task.outputs.shape[1]:  # a single logit of two classes
                logits = torch.cat([-logits, logits], 1)
            explained = logits.gather(1, problem.target.repeat(2)[:, None])
            multiplier = gradient(explained, leaf)[: len(problem)]
        scores = multiplier * (problem.x - problem.missing)
        _warn_if_incomplete(scores.sum(1), _difference(explained.detach())[:, 0])
        return scores if self.multiply else multiplier


class _Call:
    """One call of an activation on inputs and, in the second half of the batch, their baselines."""

    def __init__(self, module: nn.Module, x: Tensor) -> None:
        self.module, self.x, self.entry = module, x.detach().clone(), x.clone()
        self.y = self.x
        self.slope_out: Tensor | None = None
        if self.entry.requires_grad:
            self.entry.register_hook(self._rescale)  # type: ignore[no-untyped-call]

    def leave(self, out: Tensor) -> None:
        """Keep what came out, and later the slope that arrives there."""
        self.y = out.detach().clone()
        if out.requires_grad:
            out.register_hook(self._arrive)  # type: ignore[no-untyped-call]

    def _arrive(self, slope: Tensor) -> None:
        self.slope_out = slope

    def _rescale(self, slope_in: Tensor) -> Tensor:
        """Return, in place of the slope of the activation's input, that by the rule."""
        assert self.slope_out is not None
        difference = _twice(_difference(self.x))
        return torch.where(difference.abs() < STILL, slope_in, self._contribution(self.slope_out) / difference)

    def _contribution(self, slope: Tensor) -> Tensor:
        pool = next((f for kind, f in POOLS.items() if isinstance(self.module, kind)), None)
        return slope * _twice(_difference(self.y)) if pool is None else self._pooled(slope, pool)

    def _pooled(self, slope: Tensor, pool: Callable[..., Any]) -> Tensor:
        """Give what a maximum rose by to the input's largest place, and what it fell by to the baseline's."""
        m, (y, y_baseline) = self.module, self.y.chunk(2)
        _, place = pool(self.x, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, return_indices=True)
        top = torch.maximum(y, y_baseline)
        moved = slope * torch.cat([top - y_baseline, y - top])
        flat = torch.zeros_like(self.x).flatten(2).scatter_add_(2, place.flatten(2), moved.flatten(2))
        return _twice(sum(flat.view_as(self.x).chunk(2)))


def _warn_if_incomplete(total: Tensor, wanted: Tensor) -> None:
    """Warn where the scores do not add up: something in the model is out of the rule's reach."""
    gap = (total - wanted).abs() > 0.01 * wanted.abs().clamp(min=1e-3)
    if gap.any():
        warn(
            f"Expected DeepLift's scores to add up to the difference of the output, got a gap of more than 1 % for "
            f"{int(gap.sum())} of {len(gap)} inputs; the model has an activation that is no module of its own, or of a "
            "kind that the rule does not know",
        )


def _difference(both: Tensor) -> Tensor:
    x, baseline = both.chunk(2)
    return x - baseline


def _twice(half: Any) -> Tensor:
    return torch.cat([half, half])


# --- What they share -------------------------------------------------------------------------------------------------


def _at_the_input(problem: Problem, *, absolute: bool, times_input: bool) -> Tensor:
    """Return the gradient at the inputs `(n, E)`, as it is wanted."""
    _, slopes = problem.slopes(problem.x, torch.arange(len(problem)))
    slopes = slopes * problem.x if times_input else slopes
    return slopes.abs() if absolute else slopes


def _along(problem: Problem, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs `(n, K)` and gradients `(n, K, E)` at places `(K,)` of the line from the baseline to the input."""
    n, k = len(problem), len(places)
    points = torch.lerp(problem.missing[:, None], problem.x[:, None], places.to(problem.x.dtype)[:, None])
    values, slopes = problem.slopes(points.flatten(0, 1), torch.arange(n).repeat_interleave(k))
    return values.view(n, k), slopes.view(n, k, -1)


def _quadrature(rule: Rule, n: int) -> tuple[Any, Any]:
    """Return places in [0, 1] and their weights, `(n,)` each."""
    if rule == "gausslegendre":
        nodes, weights = np.polynomial.legendre.leggauss(n)
        return (nodes + 1) / 2, weights / 2
    weights = np.full(n, 1 / n)
    if rule == "riemann_trapezoid":
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, n), weights
    shift = {"riemann_left": 0.0, "riemann_middle": 0.5, "riemann_right": 1.0}[rule]
    return (np.arange(n) + shift) / n, weights


@contextmanager
def _hooked(
    model: nn.Module,
    kinds: tuple[type[nn.Module], ...],
    enter: Callable[..., Any],
    leave: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Call `enter` before, and `leave` after, each module of some kinds, in this thread; the hooks are gone afterwards.

    `enter` gives the module a copy of its input. What a module would have overwritten, it overwrites all the same.
    """
    handles = []
    overwritten: list[Tensor] = []

    def stash(_: nn.Module, given: tuple[Any, ...]) -> None:
        overwritten.append(given[0])

    def overwrite(_: nn.Module, __: tuple[Any, ...], out: Tensor) -> None:
        overwritten.pop().copy_(out)

    try:
        for part in model.modules():
            if isinstance(part, kinds):
                in_place = getattr(part, "inplace", False)
                if in_place:
                    handles.append(part.register_forward_pre_hook(only_here(stash)))
                handles.append(part.register_forward_pre_hook(only_here(enter)))
                if leave is not None:
                    handles.append(part.register_forward_hook(only_here(leave)))
                if in_place:
                    handles.append(part.register_forward_hook(only_here(overwrite)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _warn_without(task: Task, kinds: tuple[type[nn.Module], ...], wanted: str, name: str) -> None:
    """Warn of a model that has no module to bend."""
    if not any(isinstance(part, kinds) for part in task.predict.model.modules()):
        warn(
            f"Expected {wanted} for method={name!r}, got none in {type(task.predict.model).__name__}; activations "
            "called as functions keep their gradient, which is then what the scores are made of",
        )
