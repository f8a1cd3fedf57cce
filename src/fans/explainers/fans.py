"""FANS: Feature Attribution with Necessity and Sufficiency (Chen et al., ICML 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

from fans.core import InputError, check_whole, choose, is_number
from fans.explainers._game import play
from fans.explainers._gradient import (
    PILOT,
    Climb,
    Indicator,
    Objective,
    Optimiser,
    Relaxed,
    check_differentiable,
    climb,
)
from fans.explainers._released import N_ROWS, ROWS_A_STEP, refine_integrated_gradients
from fans.explainers._shared import Drawn, Method, Scores, Without
from fans.pns import Settings
from fans.task import Task
from fans.trials import Block

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "solver": "gradient",
        "objective": "pns",
        "relaxed_g": "paper",
        "indicator": "paper",
        "optimiser": "adam",
        "rate": 0.001,
        "n_steps": 50,
        "l1": 0.0,
        "patience": 0,
        "draw": "features",
        "estimator": "resample",
        "n_factual": 1,
        "n_perturb": 50,
        "n_resample": 1,
        "distance": "l2",
        "radius": "paper",
        "tolerance": "paper",
        "change": "l2",
        "output": "raw",
        "scale": "paper",
        "phi": 0.5,
        "unit": "pixel",
        "baseline": "uniform",
    },
    "released": {"solver": "gradient", "change": "l2", "output": "raw", "unit": "pixel", "phi": 0.5},
}
"""Settings by name, each of which the user may still override.

`"paper"`: what the paper states (Sections 4.3 to 4.7 and its appendix on implementation). `"released"`: what the
authors' public code does instead of that. docs/design.md describes both.
"""


@dataclass(frozen=True)
class FANS(Method):
    """Score features by how much they add to the probability of necessity and sufficiency.

    **The game** (any black box): each feature's Banzhaf value in the game whose value of a subset is its PNS. Draw a
    random subset s; draw a sample by how close it is on s or outside it (the weight both terms of PNS share); perturb
    s, and separately the rest. One sample's part in PNS is then `k * P(s changes f) * P(the rest does not)`, and the
    Banzhaf value depends only on how a game differs between s and its complement, which here is `k * (changed by s -
    changed by the rest)`. So each pair of model rows is one observation of a linear regression on which features were
    hit on which side, and no pair is wasted. A feature joins a subset but is hit only with probability phi, so the
    slope times phi is the Banzhaf value. docs/design.md derives it, and says what it neglects.

    "Changed" means beyond the tolerance. Where the tolerance is searched for, PNS is averaged over the tolerances that
    tell the changes that occurred apart: a change counts by its rank among them.

    **The gradient** (torch modules): the paper's solver. The subset is relaxed to [0, 1] and climbs the gradient of its
    PNS; a score is how far the feature's share moved from where it began.

    Args:
        solver: `"game"` or `"gradient"`; `"auto"` climbs where that was measured to be better: images and graphs,
            torch modules.
        preset: None, `"paper"` or `"released"`: see `PRESETS`.
        without: an ablation: without the sufficiency term (`"SF"`), the necessity term (`"NC"`), or sampling by
            closeness (`"SR"`).
        n_pairs: of the game: random subsets drawn, two model rows each.
        ridge: of the game: penalty of the regression, as a share of its diagonal.
        objective: of the gradient: `"pns"`, or `"sum"` for PN + PS.
        relaxed_g: `"strict"` perturbs what is selected and leaves the rest; `"paper"` multiplies all by the subset.
        indicator: of a changed prediction: `"soft"`, a sigmoid around the tolerance, or `"paper"`, `1 - exp(-change)`.
        temperature: of the soft indicator, in tolerances.
        optimiser: `"plain"` steps along the gradient, or `"adam"`.
        n_steps: at most.
        rate: length of the first step.
        l1: price of the whole input in the objective.
        init: share of every feature to begin with, or `"ig"` for Integrated Gradients.
        step_samples: reference samples drawn at each step.
        step_perturb: perturbations of each on each side.
        patience: stop an input when the mean objective of so many steps is no better than of as many before; 0: never.
        draw: on a grid of many features, draw them in `"blocks"` at random offsets, or each of the `"features"` alone.
    """

    name: ClassVar[str] = "fans"
    label: ClassVar[str] = "FANS"
    modalities: ClassVar[tuple[str, ...]] = ("table", "image", "graph")
    citation: ClassVar[str] = (
        "Chen et al., Feature Attribution with Necessity and Sufficiency via Dual-stage Perturbation Test for Causal "
        "Explanation, ICML 2024"
    )
    looks_around: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS

    solver: Literal["game", "gradient", "auto"] = "auto"
    preset: Literal["paper", "released"] | None = None
    without: Without = None
    n_pairs: int = 500
    ridge: float = 1e-3
    objective: Objective = "sum"
    relaxed_g: Relaxed = "strict"
    indicator: Indicator = "soft"
    temperature: float = 2.0
    optimiser: Optimiser = "plain"
    n_steps: int = 10
    rate: float = 0.5
    l1: float = 0.1
    init: float | str = 0.5
    step_samples: int = 8
    step_perturb: int = 2
    patience: int = 8
    draw: Drawn = "blocks"

    def __post_init__(self) -> None:
        choose("`solver`", self.solver, ("game", "gradient", "auto"))
        choose("`draw`", self.draw, ("blocks", "features"))
        if self.preset is not None:
            choose("`preset`", self.preset, PRESETS)
            self._refuse_what_released_ignores()
        if self.without is not None:
            choose("`without`", self.without, ("SF", "NC", "SR"))
        check_whole("n_pairs", self.n_pairs, 2)
        if not is_number(self.ridge) or not self.ridge >= 0:
            raise InputError(f"Expected `ridge` of at least 0, got {self.ridge!r}")
        self._climb()

    def _refuse_what_released_ignores(self) -> None:
        usual = {f.name: f.default for f in fields(self) if f.name not in ("preset", "solver")}
        changed = [name for name, value in usual.items() if getattr(self, name) != value]
        changed += ["solver"] if self.solver == "game" else []
        if self.preset == "released" and changed:
            raise InputError(
                f"Expected no solver settings beside preset='released', which fixes its own, got {', '.join(changed)}; "
                f"leave them out or choose preset='paper'"
            )

    def _climb(self) -> Climb:
        return Climb(**{f.name: getattr(self, f.name) for f in fields(Climb)})

    def settle(self, task: Task, settings: Settings) -> "FANS":
        """Choose the solver."""
        if self.solver != "auto":
            return self
        able = task.predict.is_module and not task.space.no_gradient and settings.change != "label"
        climbs = task.space.climbs and able
        return replace(self, solver="gradient" if climbs else "game")

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse what has no gradient, if one is needed; and graphs where there is nothing to follow."""
        if self.preset == "released" and task.space.modality == "graph":
            raise InputError("Expected images for preset='released', whose authors released no graphs, got a graph")
        if self.solver == "gradient" or self.preset == "released":
            check_differentiable(task, settings)

    def cost(self, n_features: int) -> int:
        """Two rows a pair; or those of all steps and of what sets the tolerance."""
        if self.preset == "released":
            return N_ROWS
        return 2 * self.n_pairs if self.solver == "game" else PILOT + self.n_steps * self.at_once(n_features)

    def at_once(self, n_features: int) -> int:
        """All pairs of the game; the rows of one step."""
        if self.preset == "released":
            return ROWS_A_STEP
        if self.solver == "game":
            return self.cost(n_features)
        return 2 * self.step_samples * self.step_perturb

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:
        """Play the game, or climb."""
        if self.preset == "released":
            return refine_integrated_gradients(task, block)
        if self.solver == "gradient":
            return climb(task, block, settings, self._climb())
        return play(task, block, settings, self.n_pairs, self.ridge, self.draw, self.without)
