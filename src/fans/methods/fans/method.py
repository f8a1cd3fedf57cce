"""FANS: Feature Attribution with Necessity and Sufficiency (Chen et al., ICML 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args

from torch import nn

from fans.engine.neighbourhood import Block
from fans.engine.settings import Settings
from fans.errors import InputError, check_whole, choose, is_number, warn
from fans.methods.base import Drawn, Method, Scores, Without
from fans.methods.fans.chain import MOST_FITTING, climb_chain
from fans.methods.fans.game import play
from fans.methods.fans.relaxed import Climb, Relaxed, check_differentiable, climb
from fans.methods.fans.released import N_ROWS, ROWS_A_STEP, refine_integrated_gradients
from fans.methods.fans.walks import rows_for, rows_of_walks, walk
from fans.methods.rivals import check_number
from fans.task import Task

Solver = Literal["auto", "chain", "walks", "game", "relaxed"]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "solver": "relaxed",
        "relaxed_g": "paper",
        "rate": 0.001,
        "n_steps": 50,
        "estimator": "resample",
        "n_factual": 1,
        "n_perturb": 50,
        "n_resample": 1,
        "n_background": 50,
        "distance": "l2",
        "radius": "paper",
        "tolerance": "paper",
        "change": "l2",
        "output": "raw",
        "closeness": "subset",
        "scale": "paper",
        "phi": 0.5,
        "unit": "pixel",
        "baseline": "uniform",
    },
    "released": {"solver": "relaxed", "change": "l2", "output": "raw", "unit": "pixel", "phi": 0.5},
}
"""Settings by name, each of which the user may still override.

`"paper"`: what the paper states (Sections 4.3 to 4.7 and its appendix on implementation). `"released"`: what the
authors' public code does instead of that. docs/design.md describes both.
"""


WIDE = 2
"""Of a table so wide that walks through all its columns take more than this times their rows, the game is played."""


@dataclass(frozen=True)
class FANS(Method):
    """Order features so that perturbing the first ones changes the prediction and perturbing the others does not.

    **The chain** (torch modules): one order, good at every size. It maximises, on average over all sizes, how much
    perturbing the first features changes the prediction plus how little perturbing all others does, by gradient.

    **Walks** (tables and sparse rows of any black box): features are replaced one by one by another row's, in random
    orders; a score is the mean size of the feature's steps, and the subset are those with a fair share of them.

    **The game** (any black box): each feature's Banzhaf value in the game whose value of a subset is its PNS. Draw a
    random subset s; perturb s, and separately the rest, on a sample near the input. The Banzhaf value depends only on
    how a game differs between s and its complement, which here is `k * (changed by s - changed by the rest)`. So each
    pair of model rows is one observation of a linear regression on which features were hit on which side.

    **The relaxation** (torch modules): the paper's own solver, as `preset="paper"` has it.

    Args:
        solver: `"chain"`, `"walks"`, `"game"` or `"relaxed"`; `"auto"` is the chain where the model has a gradient,
            else walks in tables of up to 250 columns and in sparse rows, and the game elsewhere.
        preset: None, `"paper"` or `"released"`: see `PRESETS`.
        without: an ablation: without the sufficiency term (`"SF"`), the necessity term (`"NC"`), or sampling by
            closeness (`"SR"`).
        n_steps: of the chain and of the relaxation.
        n_rows: of the chain: model rows of each step, half of them perturbing the subset and half the rest.
        walks_a_column: of walks: how many there are for each column; of few columns more, of more than twenty fewer.
        n_walk_rows: of walks: model rows at most, in place of that. Fewer where the subset is settled sooner.
        reach: of walks: share of the features that are replaced together at most. 1 asks what a feature does anywhere
            between the input and other rows, less what it does near the input. By default 0.4, of sparse rows 1.
        n_pairs: of the game: random subsets drawn, two model rows each.
        ridge: of the game: penalty of the regression, as a share of its diagonal.
        draw: of the game: on a grid of many features, draw them in `"blocks"` at random offsets, or each of the
            `"features"` alone.
        relaxed_g: of the relaxation: `"paper"` multiplies all by the subset, `"strict"` perturbs what is selected and
            leaves the rest.
        rate: of the relaxation: Adam's.
        init: of the relaxation: share of every feature to begin with, or `"ig"` for Integrated Gradients.
    """

    name: ClassVar[str] = "fans"
    label: ClassVar[str] = "FANS"
    modalities: ClassVar[tuple[str, ...]] = ("table", "image", "graph")
    citation: ClassVar[str] = (
        "Chen et al., Feature Attribution with Necessity and Sufficiency via Dual-stage Perturbation Test for Causal "
        "Explanation, ICML 2024"
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "low": {"n_rows": 16, "walks_a_column": 2.5, "n_pairs": 200},
        "normal": {},
        "high": {"n_steps": 20, "n_rows": 64, "walks_a_column": 40.0, "n_pairs": 2000},
    }

    solver: Solver = "auto"
    preset: Literal["paper", "released"] | None = None
    without: Without = None
    n_steps: int = 10
    n_rows: int = 32
    walks_a_column: float = 10.0
    n_walk_rows: int | None = None
    reach: float | None = None
    n_pairs: int = 500
    ridge: float = 1e-3
    draw: Drawn = "blocks"
    relaxed_g: Relaxed = "paper"
    rate: float = 0.001
    init: float | str = 0.5

    def __post_init__(self) -> None:
        choose("`solver`", self.solver, get_args(Solver))
        choose("`draw`", self.draw, ("blocks", "features"))
        choose("`relaxed_g`", self.relaxed_g, ("paper", "strict"))
        if self.preset is not None:
            choose("`preset`", self.preset, PRESETS)
            self._refuse_what_released_ignores()
        if self.without is not None:
            choose("`without`", self.without, ("SF", "NC", "SR"))
        for name, least in (("n_steps", 1), ("n_rows", 4), ("n_pairs", 2)):
            check_whole(name, getattr(self, name), least)
        if self.n_walk_rows is not None:
            check_whole("n_walk_rows", self.n_walk_rows, 1)
        check_number("walks_a_column", self.walks_a_column, 0, above=True)
        if self.n_rows % 2:
            raise InputError(f"Expected `n_rows` as an even number, half of them for either side, got {self.n_rows}")
        check_number("ridge", self.ridge, 0)
        if self.reach is not None and (not is_number(self.reach) or not 0 < float(self.reach) <= 1):
            raise InputError(f"Expected `reach` above 0 and up to 1, got {self.reach!r}")
        check_number("rate", self.rate, 0, above=True)
        if self.init != "ig" and not (is_number(self.init) and 0 <= float(self.init) <= 1):
            raise InputError(f'Expected `init` between 0 and 1, or "ig", got {self.init!r}')

    def _refuse_what_released_ignores(self) -> None:
        usual = {f.name: f.default for f in fields(self) if f.name not in ("preset", "solver")}
        changed = [name for name, value in usual.items() if getattr(self, name) != value]
        changed += ["solver"] if self.solver not in ("auto", "relaxed") else []
        if self.preset == "released" and changed:
            raise InputError(
                f"Expected no solver settings beside preset='released', which fixes its own, got {', '.join(changed)}; "
                f"leave them out or choose preset='paper'"
            )

    @property
    def looks_around(self) -> bool:
        """Whether the scores depend on the input's neighbourhood: the chain asks about the input alone."""
        return self.solver in ("game", "relaxed") or self.without == "SR"

    @property
    def shares(self) -> bool:
        """Whether the subset follows from the scores: those of walks."""
        return self.solver == "walks"

    @classmethod
    def unit_for(cls, model: Any, settings: Mapping[str, Any]) -> Any:
        """Return cells for the chain, which is smooth; the game on as many is too noisy."""
        chain = settings.get("solver", "auto") in ("auto", "chain") and settings.get("change") != "label"
        return "cell" if chain and isinstance(model, nn.Module) else None

    def settle(self, task: Task, settings: Settings) -> "FANS":
        """Choose the solver, and how far walks go."""
        solver = self._solver(task, settings) if self.solver == "auto" else self.solver
        reach = task.space.reach if solver == "walks" and self.reach is None else self.reach
        return replace(self, solver=solver, reach=reach)

    def _solver(self, task: Task, settings: Settings) -> Solver:
        if settings.change != "label" and task.predict.has_gradient(task.background[:1]):
            return "chain"
        most = self._walk_rows(task.space.n_features)
        wide = rows_of_walks(task.space.n_features, most) > WIDE * most and not task.space.sparse
        game = wide or self.without is not None or not settings.joint
        return "game" if game else task.space.solver

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse what has no gradient, if one is needed; and graphs where there is nothing to follow."""
        if self.preset == "released" and task.space.modality == "graph":
            raise InputError("Expected images for preset='released', whose authors released no graphs, got a graph")
        if self.solver == "relaxed" and self.preset != "released" and settings.joint:
            raise InputError(
                'Expected closeness="subset" for solver="relaxed", which is the paper\'s, got "input"; '
                'pass preset="paper", or closeness="subset"'
            )
        if self.solver == "walks" and self.without is not None:
            raise InputError(
                f'Expected no ablation for solver="walks", which has no terms, got without={self.without!r}; '
                'pass solver="chain" or "game"'
            )
        if self.solver == "game" and self.without in ("SF", "NC") and settings.joint:
            raise InputError(
                f'Expected closeness="subset" for without="{self.without}" of the game, got "input", with which both '
                'terms of PNS are the same; pass closeness="subset", or solver="chain"'
            )
        if self.solver == "game" and task.space.own_scales and task.space.n_features > 2 * self.n_pairs:
            warn(
                f"The {task.space.n_features:,} columns are more than the {2 * self.n_pairs:,} model rows that tell "
                'them apart, so that only those that matter most stand out; pass effort="high", or put columns that '
                "belong together into groups: space=Table(groups=...)"
            )
        if self.solver not in ("game", "walks"):
            check_differentiable(task, settings, self.solver)

    def _walk_rows(self, n_features: int) -> int:
        """Return the model rows that walks may take."""
        return self.n_walk_rows or rows_for(n_features, self.walks_a_column)

    def cost(self, n_features: int) -> int:
        """Two rows a pair, or those of all steps or walks."""
        if self.preset == "released":
            return N_ROWS
        if self.solver == "walks":
            return rows_of_walks(n_features, self._walk_rows(n_features))
        if self.solver == "game":
            return 2 * self.n_pairs
        return self.n_steps * self.n_rows + (0 if self.solver == "relaxed" else MOST_FITTING)

    def at_once(self, n_features: int) -> int:
        """All pairs of the game; the rows of one step."""
        if self.preset == "released":
            return ROWS_A_STEP
        return self.cost(n_features) if self.solver in ("game", "walks") else self.n_rows

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:
        """Follow the solver."""
        if self.preset == "released":
            return refine_integrated_gradients(task, block)
        if self.solver == "chain":
            return climb_chain(task, block, self.n_steps, self.n_rows, self.without)
        if self.solver == "walks":
            assert self.reach is not None  # settled
            return walk(task, block, settings.change, self._walk_rows(task.space.n_features), self.reach)
        if self.solver == "relaxed":
            how = Climb(self.n_steps, self.rate, self.init, self.relaxed_g, self.without)
            return climb(task, block, settings, how)
        return play(task, block, settings, self.n_pairs, self.ridge, self.draw, self.without)
