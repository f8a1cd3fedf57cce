"""FANS: Feature Attribution with Necessity and Sufficiency (Chen et al., ICML 2024)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, make_dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from fans.engine.settings import Settings
from fans.errors import InputError, choose
from fans.methods.base import Method, Scores, Without
from fans.methods.fans.chain import Chain
from fans.methods.fans.game import Game
from fans.methods.fans.relaxed import Relaxation
from fans.methods.fans.released import Released
from fans.methods.fans.solver import Solver
from fans.methods.fans.walks import Walks
from fans.methods.problem import Problem
from fans.task import Task

SOLVERS: tuple[type[Solver], ...] = (Chain, Walks, Game, Relaxation)
"""Ours; others register themselves."""

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


def with_settings(cls: type) -> type:
    """Give a class the settings of our solvers as fields, those of one name once."""
    for f in (f for kind in SOLVERS for f in fields(kind) if f.name not in cls.__annotations__):
        cls.__annotations__[f.name] = f.type
        setattr(cls, f.name, f.default)
    return cls


def efforts_of(*kinds: type[Solver]) -> dict[str, dict[str, Any]]:
    """Return the settings of solvers by effort."""
    levels = ("low", "normal", "high")
    return {level: {k: v for kind in kinds for k, v in kind.efforts.get(level, {}).items()} for level in levels}


@dataclass(frozen=True)
@with_settings
class FANS(Method):
    """Order features so that perturbing the first ones changes the prediction and perturbing the others does not.

    **The chain** (torch modules): one order, good at every size. It maximises, on average over all sizes, how much
    perturbing the first features changes the prediction plus how little perturbing all others does, by gradient.

    **Walks** (tables and sparse rows of any black box): features are replaced one by one by another row's, in random
    orders; a score is the mean size of the feature's steps, and the subset are those with a fair share of them.

    **The game** (any black box): each feature's Banzhaf value in the game whose value of a subset is its PNS.

    **The relaxation** (torch modules): the paper's own solver, as `preset="paper"` has it.

    Args:
        solver: `"chain"`, `"walks"`, `"game"`, `"relaxed"` or another registered one; `"auto"` is the chain where the
            model has a gradient, else walks in tables of up to 250 columns and in sparse rows, and the game elsewhere.
        preset: None, `"paper"` or `"released"`: see `PRESETS`.
        without: an ablation: without the sufficiency term (`"SF"`), the necessity term (`"NC"`), or sampling by
            closeness (`"SR"`).

    All else are settings of a solver, told where it is: `Chain`, `Walks`, `Game`, `Relaxation`.
    """

    name: ClassVar[str] = "fans"
    label: ClassVar[str] = "FANS"
    modalities: ClassVar[tuple[str, ...]] = ("table", "image", "graph")
    citation: ClassVar[str] = (
        "Chen et al., Feature Attribution with Necessity and Sufficiency via Dual-stage Perturbation Test for Causal "
        "Explanation, ICML 2024"
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = efforts_of(*SOLVERS)

    solver: str = "auto"
    preset: Literal["paper", "released"] | None = None
    without: Without = None

    def __post_init__(self) -> None:
        known = dict.fromkeys(("auto", *(kind.name for kind in SOLVERS), *Solver.registry))
        choose("`solver`", self.solver, known)
        if self.preset is not None:
            choose("`preset`", self.preset, PRESETS)
            self._refuse_what_released_ignores()
        if self.without is not None:
            choose("`without`", self.without, ("SF", "NC", "SR"))
        for kind in (*SOLVERS, type(self.solving)):
            self._made(kind)

    def _refuse_what_released_ignores(self) -> None:
        usual = {f.name: f.default for f in fields(self) if f.name not in ("preset", "solver")}
        changed = [name for name, value in usual.items() if getattr(self, name) != value]
        changed += ["solver"] if self.solver not in ("auto", "relaxed") else []
        if self.preset == "released" and changed:
            raise InputError(
                f"Expected no solver settings beside preset='released', which fixes its own, got {', '.join(changed)}; "
                f"leave them out or choose preset='paper'"
            )

    @classmethod
    def taking(cls, settings: Mapping[str, Any]) -> "type[FANS]":
        """Return the class that takes the settings of the chosen solver as well, where it is not ours."""
        chosen = settings.get("solver")
        kind: Any = Solver.registry.get(chosen) if isinstance(chosen, str) else None
        return cls if kind is None or kind in SOLVERS else _extended(kind)

    def __reduce__(self) -> Any:
        """Pickle by the settings: the class may be one made for a solver."""
        return _remade, (asdict(self),)

    def _made(self, kind: Any) -> Solver:
        """Return a solver with its settings."""
        known = {f.name for f in fields(self)}
        made: Solver = kind(**{f.name: getattr(self, f.name) for f in fields(kind) if f.name in known})
        return made

    @property
    def solving(self) -> Solver:
        """The solver; the chain as long as that is not settled."""
        if self.preset == "released":
            return Released()
        return self._made(Chain if self.solver == "auto" else Solver.registry[self.solver])

    @property
    def looks_around(self) -> bool:
        """Whether the scores depend on the input's neighbourhood: the chain asks about the input alone."""
        return self.solving.looks_around or self.without == "SR"

    @property
    def shares(self) -> bool:
        """Whether the subset follows from the scores: those of walks."""
        return self.solving.shares

    @classmethod
    def unit_for(cls, model: Any, settings: Mapping[str, Any]) -> Any:
        """Return cells for a solver that serves a fine grid; the game on as many is too noisy."""
        solver = settings.get("solver", "auto")
        kind: Any = Chain if solver == "auto" else Solver.registry.get(solver, Solver)
        return "cell" if kind.fine and settings.get("change") != "label" and isinstance(model, nn.Module) else None

    def settle(self, task: Task, settings: Settings) -> "FANS":
        """Choose the solver, and let it settle."""
        chosen = replace(self, solver=self._choice(task, settings)) if self.solver == "auto" else self
        return replace(chosen, **asdict(chosen.solving.settle(task, settings)))

    def _choice(self, task: Task, settings: Settings) -> str:
        """Return the solver that serves a task best."""
        if settings.change != "label" and task.predict.has_gradient(task.background[:1], torch.tensor([0])):
            return Chain.name
        walks = self._made(Walks)
        assert isinstance(walks, Walks)
        wide = walks.too_long(task.space.n_features) and not task.space.sparse
        return Game.name if wide or self.without is not None or not settings.joint else task.space.solver

    def check(self, task: Task, settings: Settings) -> None:
        """Refuse what the solver cannot work with."""
        self.solving.check(task, settings)

    def cost(self, n_features: int) -> int:
        """Those of the solver."""
        return self.solving.cost(n_features)

    def at_once(self, n_features: int) -> int:
        """Those of the solver."""
        return self.solving.at_once(n_features)

    def attribute(self, problem: Problem) -> Scores:
        """Follow the solver."""
        return self.solving.attribute(problem)


@lru_cache
def _extended(kind: type[Solver]) -> type[FANS]:
    """Return FANS with the settings of a solver that is not ours."""
    known = {f.name for f in fields(FANS)}
    own = [(f.name, Any, f.default) for f in fields(kind) if f.name not in known]
    made: type[FANS] = make_dataclass(
        "FANS",
        own,
        bases=(FANS,),
        frozen=True,
        namespace={"efforts": efforts_of(*SOLVERS, kind), "__doc__": kind.__doc__},
    )
    return made


def _remade(settings: Mapping[str, Any]) -> FANS:
    """Return FANS with these settings."""
    return FANS.taking(settings)(**settings)
