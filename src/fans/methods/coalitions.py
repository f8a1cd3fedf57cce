"""Methods that keep some features, replace the others, and watch the output: no gradients, any black box.

Coalitions of all inputs are drawn, evaluated and regressed together; the libraries that offer these methods take one
input at a time.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.neighbourhood import draw_features
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole, choose
from fans.methods.base import Drawn, Method, Scores
from fans.methods.fans.game import Observed, fit, smooth_fit
from fans.methods.problem import Problem
from fans.methods.rivals import check_number
from fans.task import Task

MODALITIES = ("table", "image")
ANY = (*MODALITIES, "graph")

MOST_FEATURES = 4096
"""Of a regression that weighs every pair of features."""


@dataclass(frozen=True)
class FeatureAblation(Method):
    """Replace one feature at a time; its score is how much the output falls."""

    name: ClassVar[str] = "feature_ablation"
    label: ClassVar[str] = "FeatAblation"
    modalities: ClassVar[tuple[str, ...]] = ANY
    citation: ClassVar[str] = "Kokhlikyan et al., Captum: A unified and generic model interpretability library, 2020"

    def cost(self, n_features: int) -> int:
        """One row a feature, and the input itself."""
        return n_features + 1

    def attribute(self, problem: Problem) -> Scores:
        """Return `f(x) - f(x without the feature)`."""
        n_features = problem.n_features
        each = torch.arange(n_features)
        outputs = problem.kept(lambda _, place: place[:, None] != each, n_features + 1)  # the last one misses nothing
        return Scores.even(outputs[:, -1:] - outputs[:, :-1], self.cost(n_features))


@dataclass(frozen=True)
class Banzhaf(Method):
    """Plain Banzhaf values of the output: the control for what PNS adds.

    Random halves and their complements, a regression on who was kept. `draw="blocks"` draws and regresses as FANS's
    game does on a fine grid, so that only the game differs.

    Args:
        n_samples: model rows, two for each random half.
        ridge: penalty of the regression, as a share of its diagonal.
        draw: on a grid of many features, draw them in `"blocks"` at random offsets, or each of the `"features"` alone.
    """

    name: ClassVar[str] = "banzhaf"
    label: ClassVar[str] = "Banzhaf"
    modalities: ClassVar[tuple[str, ...]] = ANY
    citation: ClassVar[str] = "Banzhaf, Weighted voting doesn't work, 1965; Wang and Jia, Data Banzhaf, AISTATS 2023"

    n_samples: int = 500
    ridge: float = 1e-3
    draw: Drawn = "features"

    def __post_init__(self) -> None:
        check_whole("n_samples", self.n_samples, 2)
        choose("`draw`", self.draw, ("blocks", "features"))
        check_number("ridge", self.ridge, 0)

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse more features than a plain regression can hold."""
        if self.draw == "features" or task.space.blocks() is None:
            _refuse_many(self.name, task)

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """Two rows a pair."""
        return self.n_samples // 2 * 2

    def attribute(self, problem: Problem) -> Scores:
        """Regress the difference within pairs on membership."""
        n_pairs = self.n_samples // 2
        grid = problem.task.space.blocks() if self.draw == "blocks" else None
        half = _draw(problem, "banzhaf", n_pairs, blocks=grid is not None)
        present = problem.present[:, None]
        first, second = half & present, ~half & present
        outputs = problem.kept_of(torch.cat([first, second], 1))
        sample = torch.arange(n_pairs).expand(len(problem), -1)
        y = outputs[:, :n_pairs] - outputs[:, n_pairs:]
        observed = Observed(first, second, y, sample, n_pairs)
        scores, se = fit(observed, self.ridge) if grid is None else smooth_fit(observed, grid)
        return Scores.even(scores, 2 * n_pairs, se)


@dataclass(frozen=True)
class Lime(Method):
    """LIME: a sparse linear model of the output around the input, on which features were kept.

    As captum has it: coalitions of half the features, weighed by the cosine between the input and what is left of it,
    and a Lasso; here for all inputs at once.

    Args:
        n_samples: coalitions, one model row each.
        alpha: penalty of the Lasso.
        width: of the kernel, in cosine distances.
        weigh: `"cosine"`, or `"equal"`: every coalition counts alike.
    """

    name: ClassVar[str] = "lime"
    label: ClassVar[str] = "LIME"
    modalities: ClassVar[tuple[str, ...]] = MODALITIES
    citation: ClassVar[str] = 'Ribeiro et al., "Why should I trust you?", KDD 2016'

    n_samples: int = 500
    alpha: float = 0.01
    width: float = 1.0
    weigh: Literal["cosine", "equal"] = "cosine"

    def __post_init__(self) -> None:
        check_whole("n_samples", self.n_samples, 2)
        choose("`weigh`", self.weigh, ("cosine", "equal"))
        check_number("alpha", self.alpha, 0)
        check_number("width", self.width, 0, above=True)

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse more features than a plain regression can hold."""
        _refuse_many(self.name, task)

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """One row a coalition."""
        return self.n_samples

    def attribute(self, problem: Problem) -> Scores:
        """Fit the surrogate."""
        keep = _draw(problem, "lime", self.n_samples, blocks=False) & problem.present[:, None]
        weights = torch.ones(keep.shape[:2], dtype=torch.float64)
        if self.weigh == "cosine":
            weights = torch.exp(-((1 - _cosine(problem, keep)) ** 2) / (2 * self.width**2))
            if not weights.any(1).all():
                raise InputError(
                    f"Expected a `width` at which some coalitions count, got {self.width!r}, at which all weigh 0; "
                    "take a larger one"
                )
        slopes = lasso(keep.double(), problem.kept_of(keep), weights, self.alpha)
        return Scores.even(slopes, self.n_samples)


@dataclass(frozen=True)
class KernelShap(Method):
    """KernelSHAP: Shapley values of the output by a regression on coalitions drawn from the Shapley kernel.

    Coalitions come with their complements, and the scores add up to the whole difference exactly. Where there are no
    more than `n_samples` coalitions, all of them are taken, and the values are exact. With fewer coalitions than
    features the solution is the one of least norm.

    Args:
        n_samples: coalitions, one model row each; two more for everything and nothing.
    """

    name: ClassVar[str] = "kernel_shap"
    label: ClassVar[str] = "KernelSHAP"
    modalities: ClassVar[tuple[str, ...]] = MODALITIES
    citation: ClassVar[str] = "Lundberg and Lee, A unified approach to interpreting model predictions, NeurIPS 2017"

    n_samples: int = 500

    def __post_init__(self) -> None:
        check_whole("n_samples", self.n_samples, 2)

    def cost(self, n_features: int) -> int:
        """One row a coalition, and two."""
        return 2**n_features if self._takes_all(n_features) else self.n_samples // 2 * 2 + 2

    def _takes_all(self, n_features: int) -> bool:
        return n_features < 30 and 2**n_features - 2 <= self.n_samples

    def attribute(self, problem: Problem) -> Scores:
        """Solve the regression with its constraint."""
        present = problem.present
        n_features, weights = present.shape[1], None
        if self._takes_all(n_features):
            some = _all_coalitions(n_features).expand(len(problem), -1, -1) & present[:, None]
            weights = _shapley_kernel(some, present)
        else:
            half = _shapley_coalitions(problem.keys("kernel_shap"), present, self.n_samples // 2)
            some = torch.cat([half, ~half & present[:, None]], 1)
        keep = torch.cat([some, present[:, None], torch.zeros_like(present)[:, None]], 1)
        outputs = problem.kept_of(keep)
        ends = (outputs[:, -2], outputs[:, -1])
        scores = shapley_regression(some.double(), outputs[:, :-2], *ends, present, weights)
        return Scores.even(scores, keep.shape[1])


# --- Drawing ---------------------------------------------------------------------------------------------------------


def _draw(problem: Problem, stage: str, n: int, *, blocks: bool) -> Tensor:
    """Draw n random halves of the features of each input, `(B, n, F)`."""
    keys, place = problem.keys(stage).repeat_interleave(n), torch.arange(n).repeat(len(problem))
    return draw_features(problem.task, keys, place, 0.5, blocks=blocks).view(len(problem), n, -1)


def _all_coalitions(n_features: int) -> Tensor:
    """Return every coalition but everything and nothing, `(2^F - 2, F)`."""
    return (torch.arange(1, 2**n_features - 1)[:, None] >> torch.arange(n_features) & 1).bool()


def _shapley_kernel(keep: Tensor, present: Tensor) -> Tensor:
    """Return the Shapley kernel `(B, M)` of coalitions `(B, M, F)`: 1 / (C(F, k) k (F - k)); 0 for all and none."""
    n, k = present.sum(1, keepdim=True).double(), keep.sum(2).double()
    ways = torch.exp(torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1))
    return torch.where((k > 0) & (k < n), 1 / (ways * k * (n - k)).clamp(min=1e-12), 0.0)


def _shapley_coalitions(keys: Tensor, present: Tensor, n: int) -> Tensor:
    """Draw n coalitions of each input `(B, n, F)`: of size k in proportion to 1 / (k (F - k)), its members at random.

    That is the Shapley kernel times the number of coalitions of that size.
    """
    n_present = present.sum(1, keepdim=True)
    size = torch.arange(1, present.shape[1] + 1).expand(len(present), -1)
    share = torch.where(size < n_present, 1 / (size * (n_present - size)).clamp(min=1).double(), 0.0)
    cumulative = share.cumsum(1)
    u = draws.uniform(keys[:, None], -1 - torch.arange(n)) * cumulative[:, -1:]
    drawn = (torch.searchsorted(cumulative, u) + 1).clamp(max=present.shape[1])  # (B, n)
    drawn = torch.where(n_present > 1, drawn, torch.zeros_like(drawn))
    place = torch.arange(n * present.shape[1]).view(n, -1)
    order = draws.uniform(keys[:, None, None], place).masked_fill(~present[:, None], 2.0)
    return order.argsort(-1).argsort(-1) < drawn[..., None]


def _cosine(problem: Problem, keep: Tensor) -> Tensor:
    """Return the cosine `(B, M)` between each input and what is left of it, from sums over features."""
    x, missing = problem.x.double(), problem.missing.double()
    own, crossed, other = (problem.units.collect(v[:, None])[:, 0] for v in (x * x, x * missing, missing * missing))
    kept = keep.double()
    total = own.sum(1, keepdim=True)
    inner = crossed.sum(1, keepdim=True) + torch.einsum("bmf,bf->bm", kept, own - crossed)
    square = (other.sum(1, keepdim=True) + torch.einsum("bmf,bf->bm", kept, own - other)).clamp(min=0)
    return inner / (total * square).sqrt().clamp(min=1e-8)


# --- Regressions, all inputs at once ---------------------------------------------------------------------------------


def lasso(design: Tensor, y: Tensor, weights: Tensor, alpha: float, tolerance: float = 1e-6) -> Tensor:
    """Minimise `sum w (y - a - X b)^2 / (2 sum w) + alpha |b|_1` over b `(B, F)` for each input.

    By alternating directions (ADMM): where features outnumber rows, coordinate descent takes thousands of rounds.

    Args:
        design: X `(B, M, F)`.
        y: `(B, M)`.
        weights: `(B, M)`.
        alpha: the penalty.
        tolerance: an input stops when no slope of it moves a fitted value further than this, in deviations of y.
    """
    share = (weights / weights.sum(1, keepdim=True))[..., None]
    centred = design - (design * share).sum(1, keepdim=True)
    response = y[..., None] - (y[..., None] * share).sum(1, keepdim=True)
    gram = centred.transpose(1, 2) @ (centred * share)  # (B, F, F)
    wanted = (centred.transpose(1, 2) @ (response * share))[..., 0]
    deviation = (response**2 * share).sum(1).sqrt()  # (B, 1)
    spread = gram.diagonal(dim1=1, dim2=2).amax(1, keepdim=True).sqrt().clamp(min=1e-6)  # of a feature
    # How firmly the smooth half is held to the sparse one decides the speed alone: 16 is the best of those tried.
    firmness = spread**2 * (16 * alpha / (deviation * spread).clamp(min=1e-30)).clamp(1e-3, 2)
    least = tolerance * deviation / spread
    eye = torch.eye(wanted.shape[1], dtype=gram.dtype)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram + firmness[..., None] * eye))
    slopes = torch.zeros_like(wanted)
    at, b, held = torch.arange(len(wanted)), slopes.clone(), slopes.clone()
    for i in range(5000):
        smooth = 1.6 * (inverse @ (wanted + firmness * (b - held))[..., None])[..., 0] - 0.6 * b  # over-relaxed
        held += smooth
        new = held.sign() * (held.abs() - alpha / firmness).clamp(min=0)
        held -= new
        moved = torch.maximum((new - b).abs(), (smooth - new).abs())
        b = new
        if i % 10 == 9:
            done = (moved <= least).all(1)
            slopes[at] = b
            if done.all():
                break
            if done.any():  # an input that has settled does not wait for its neighbours, nor depend on them
                going = ~done
                at, b, held, inverse = at[going], b[going], held[going], inverse[going]
                wanted, firmness, least = wanted[going], firmness[going], least[going]
    return slopes


def shapley_regression(
    design: Tensor, y: Tensor, everything: Tensor, nothing: Tensor, present: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Fit coalitions' outputs `(B, M)` by additive scores that sum to `everything - nothing`; of least norm if many do.

    An even split takes care of the constraint: what is left is regressed on memberships less their mean, which moves
    scores from one feature to another only.
    """
    n_present = present.sum(1, keepdim=True).double()
    even = (everything - nothing)[:, None] / n_present
    size = design.sum(2, keepdim=True)
    centred = (design - size / n_present[..., None]) * present[:, None]
    left = y - nothing[:, None] - size[..., 0] * even
    if weights is not None:
        root = weights.sqrt()
        centred, left = centred * root[..., None], left * root
    n_draws, n_features = design.shape[1:]
    wide = n_features > n_draws
    gram = centred @ centred.transpose(1, 2) if wide else centred.transpose(1, 2) @ centred
    scale = gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-12)
    gram = gram + 1e-9 * scale[:, None, None] * torch.eye(gram.shape[1], dtype=gram.dtype)
    if wide:
        moved: Tensor = centred.transpose(1, 2) @ torch.linalg.solve(gram, left[..., None])
    else:
        moved = torch.linalg.solve(gram, centred.transpose(1, 2) @ left[..., None])
    level = moved[..., 0].sum(1, keepdim=True) / n_present  # 0 but for rounding: nothing in the data speaks of it
    return (even + moved[..., 0] - level) * present


def _refuse_many(name: str, task: Task) -> None:
    if task.space.n_features > MOST_FEATURES:
        raise InputError(
            f"Expected at most {MOST_FEATURES:,} features for method={name!r}, got {task.space.n_features:,}; "
            "choose larger ones, e.g. space=Image('superpixel')"
        )
