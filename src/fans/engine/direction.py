"""Direction: does perturbing a feature lower or raise the explained output, and by how much."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fans.engine.neighbourhood import InputBatch
from fans.engine.perturbation import baselines
from fans.task import Task

MOST_FEATURES = 64
"""Features that are perturbed alone; of a subset with more members (pixels) no direction is measured."""
N_DRAWS = 8
"""Perturbations of each, where the baseline is drawn."""


@dataclass(frozen=True)
class Directions:
    """The mean change of the output `(B, F)`, NaN where it was not measured, and model rows spent `(B,)`."""

    values: Tensor
    n_rows: Tensor


def directions(task: Task, block: InputBatch, scores: Tensor, subset: Tensor) -> Directions:
    """Perturb the leading features of each input alone: the members of its subset, then those of the next ranks.

    Not on a fine grid, where one cell alone does next to nothing.
    """
    n_inputs, n_features = scores.shape
    values = torch.full((n_inputs, n_features), torch.nan, dtype=torch.float64)
    n_rows = torch.zeros(n_inputs, dtype=torch.int64)
    present = block.pool.units.present.expand(n_inputs, -1)
    first = torch.where(subset, 2.0, 0.0) + torch.where(scores > 0, 1.0, 0.0)
    order = (-scores).argsort(dim=1, stable=True)
    order = order.gather(1, (-first.gather(1, order)).argsort(dim=1, stable=True))[:, :MOST_FEATURES]
    owner, place = (present.gather(1, order) & (subset.sum(1, keepdim=True) <= MOST_FEATURES)).nonzero(as_tuple=True)
    if not len(owner) or task.space.blocks() is not None:
        return Directions(values, n_rows)
    feature, k = order[owner, place], N_DRAWS if task.baseline.drawn else 1
    own = block.own[:, 0]
    before = block.pool.outputs[own].gather(1, block.target[:, None])[:, 0]
    found = []
    for flat in torch.split(torch.arange(len(owner) * k), task.predict.max_batch):
        whose, draw = owner[flat // k], flat % k
        missing = baselines(task, block.pool, block.keys("direction")[whose], draw, own[whose])
        hit = torch.nn.functional.one_hot(feature[flat // k], n_features).bool()
        x = block.pool.pool[own[whose]]
        rows = torch.where(block.pool.units.spread(hit, whose), missing.expand_as(x), x)
        found.append(
            task.predict(rows, block.pool.of[own[whose]], fresh=True).gather(1, block.target[whose, None])[:, 0]
        )
    change = torch.cat(found).view(-1, k).mean(1) - before[owner]
    values[owner, feature] = change
    return Directions(values, n_rows.index_add_(0, owner, torch.full_like(owner, k)))
