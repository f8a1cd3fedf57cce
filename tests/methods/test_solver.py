"""A solver of one's own is one class: no other file knows of it."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import fans
import fans.metrics
from fans.methods import Problem, Scores, Solver

pytestmark = pytest.mark.filterwarnings("ignore::fans.FansWarning")
ROWS = np.random.default_rng(0).normal(size=(60, 4))


def model(rows: Any) -> Any:
    return 3 * rows[:, 0] - 2 * rows[:, 2]


@dataclass(frozen=True)
class Mine(Solver):
    """Replace each feature alone; a score is the size of the change, to a power."""

    name: ClassVar[str] = "mine"
    efforts: ClassVar[Mapping[str, Mapping[str, Any]]] = {"high": {"power": 4.0}}

    power: float = 1.0

    def cost(self, n_features: int) -> int:
        return n_features + 1

    def attribute(self, problem: Problem) -> Scores:
        each = torch.arange(problem.n_features)
        outputs = problem.kept(lambda _, place: place[:, None] != each, problem.n_features + 1)
        return Scores.even((outputs[:, -1:] - outputs[:, :-1]).abs() ** self.power, self.cost(problem.n_features))


del Solver.registry["mine"]  # other tests list what there is


@pytest.fixture(autouse=True)
def registered(monkeypatch: Any) -> None:
    monkeypatch.setitem(Solver.registry, "mine", Mine)


def test_it_is_chosen_by_its_name_with_settings_of_its_own():
    explainer = fans.Explainer(model, ROWS, baseline=0.0, solver="mine", power=2.0)
    x = np.array([[1.0, 5.0, 1.0, 5.0]])
    found = explainer(x)
    assert found.scores[0] == pytest.approx([9.0, 0.0, 4.0, 0.0])
    assert found.settings["solver"] == "mine"
    assert found.settings["power"] == 2.0
    assert found.evaluations["scoring"].tolist() == [5]
    assert found.chosen_names(0)[0] == "x1"
    assert fans.evaluate(found, {"d": fans.metrics.metric("deletion", fill=0.0)}, explainer=explainer)["d"].shape == (
        1,
    )


def test_defaults_efforts_and_refusals_are_those_of_any_solver():
    def power(**settings: Any) -> Any:
        return fans.Explainer(model, ROWS, baseline=0.0, solver="mine", **settings).method.solving  # type: ignore[attr-defined]

    assert power() == Mine()
    assert power(effort="high") == Mine(power=4.0)
    assert power(effort="high", power=3.0) == Mine(power=3.0)
    with pytest.raises(fans.InputError, match=r"a setting to be one of .*'power'.*, got 'powr'; did you mean 'power'"):
        power(powr=1.0)
    with pytest.raises(fans.InputError, match=r"a setting to be one of .*, got 'power'"):
        fans.Explainer(model, ROWS, power=2.0)
    with pytest.raises(fans.InputError, match=r'no ablation for solver="mine", which has no terms'):
        power(without="SF")
    with pytest.raises(fans.InputError, match="'relaxed', 'mine', got 'yours'"):
        fans.Explainer(model, ROWS, solver="yours")


def test_the_method_with_its_settings_can_be_pickled():
    given: list[dict[str, Any]] = [{"solver": "mine", "power": 2.0}, {"solver": "walks", "reach": 0.5}, {}]
    for settings in given:
        method = fans.Explainer(model, ROWS, **settings).method
        again = pickle.loads(pickle.dumps(method))  # noqa: S301
        assert again == method
        assert type(again) is type(method)


def test_a_name_is_taken_once():
    with pytest.raises(TypeError, match=r"a new name for .*, got 'game', taken by"):

        @dataclass(frozen=True)
        class Again(Solver):
            name: ClassVar[str] = "game"
