"""What a method is given, against the model asked by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.methods import Problem
from fans.spaces import Image, Table
from tests.methods.blocks import inputs_of

pytestmark = pytest.mark.filterwarnings("ignore::fans.FansWarning")
RNG = np.random.default_rng(0)


class Squares(nn.Module):
    """Three outputs that are no classes."""

    def forward(self, rows: Tensor) -> Tensor:
        flat = rows.flatten(1)
        return torch.stack([(flat**2).sum(1), flat[:, 0], -flat[:, 1]], 1)


def problem_of(rows: Tensor, space: Any, **settings: Any) -> Problem:
    how: dict[str, Any] = {"space": space, "output": "raw", "baseline": 0.5, "max_batch": 7}
    explainer = fans.Explainer(Squares(), rows, **how | settings)
    ready = inputs_of(explainer, rows[:5].flatten(1), alone=True).block(slice(0, 5))
    return Problem.of(explainer.task, ready.block, explainer.settings)


TABLE = torch.from_numpy(RNG.normal(size=(20, 4))).float()
IMAGES = torch.from_numpy(RNG.random((20, 1, 4, 4))).float()
GIVEN = [(TABLE, Table(groups={"both": [0, 1]})), (IMAGES, Image("patch", patch=2))]


@pytest.mark.parametrize(("rows", "space"), GIVEN)
def test_outputs_of_coalitions_are_those_of_rows_with_the_rest_replaced(rows, space):
    problem = problem_of(rows, space)
    keep = torch.from_numpy(RNG.random((5, 6, problem.n_features)) < 0.5)
    with problem.counting() as spent:
        found = problem.kept_of(keep)
    of_element = problem.units.of_element[0]
    for i in range(5):
        for j in range(6):
            row = torch.where(keep[i, j][of_element], problem.x[i], torch.tensor(0.5))
            assert torch.equal(problem.perturb(~keep[i, j][None], torch.tensor([i]))[0], row)
            assert found[i, j] == pytest.approx(float(Squares()(row[None])[0, problem.target[i]]), rel=1e-6)
    assert spent.n_rows == 30


@pytest.mark.parametrize(("rows", "space"), GIVEN)
def test_slopes_are_the_gradients_of_the_explained_output(rows, space):
    problem = problem_of(rows, space)
    owner = torch.tensor([4, 0, 2])
    with torch.enable_grad():
        values, slopes = problem.slopes(problem.x[owner], owner)
    assert torch.equal(values, problem.ask(problem.x[owner], owner))
    leaf = problem.x[owner].clone().requires_grad_()
    with torch.enable_grad():
        Squares()(leaf.view(3, *rows.shape[1:])).gather(1, problem.target[owner, None]).sum().backward()
    assert leaf.grad is not None
    assert slopes.numpy() == pytest.approx(leaf.grad.numpy(), rel=1e-6)


@pytest.mark.parametrize("baseline", [0.5, "mean"])
def test_pieces_are_the_inputs_in_order_each_with_its_own_draws(baseline):
    problem = problem_of(IMAGES, Image("superpixel", n_segments=4), baseline=baseline)
    pieces = list(problem.pieces(3))  # seven rows at a time: two inputs of three rows each
    assert [len(piece) for piece in pieces] == [2, 2, 1]
    for name in ("x", "missing", "target", "present"):
        assert torch.equal(torch.cat([getattr(piece, name) for piece in pieces]), getattr(problem, name)), name
    assert torch.equal(torch.cat([piece.keys("stage") for piece in pieces]), problem.keys("stage"))
    assert [i for piece in pieces for i in piece.ids] == list(problem.ids)
    some = problem.part(torch.tensor([3, 1]))
    assert torch.equal(some.x, problem.x[[3, 1]])
    assert torch.equal(some.units.of_element, problem.units.of_element[[3, 1]])


def test_the_neighbourhood_is_there_for_who_asks_and_not_in_pieces():
    problem = problem_of(TABLE, None)
    assert problem.batch.target is problem.target
    assert problem.settings.phi == 1.0
    with pytest.raises(AssertionError, match="have no neighbourhood"):
        _ = problem.part(slice(0, 1)).batch
