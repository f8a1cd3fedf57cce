"""Outputs in company are taken out, and that is said once."""

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fans
from fans.task import Task
from tests.models import LOGITS, ROWS, WEIGHTS, X, linear, logits

SMALL: dict[str, Any] = {
    "n_steps": 3,
    "n_walk_rows": 40,
    "n_sweep": 50,
    "n_background": 10,
    "n_local": 9,
    "radius": 2.0,
}


# --- What outputs come in --------------------------------------------------------------------------------------------


class Answer(OrderedDict[str, Any]):
    """What a transformer returns: a dict whose entries are attributes too, those that are None left out."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


@dataclass
class Record:
    """The same as a record."""

    loss: Any = None
    hidden: Any = None
    logits: Any = None


class Pair(NamedTuple):
    """Two outputs with names."""

    score: Any
    embedding: Any


def embedding(out: Any) -> Any:
    """Return another output of the model."""
    return out[:, :, None] * 2


COMES_IN = {
    "`logits` of the Answer": lambda out: Answer(loss=out.mean(), hidden=embedding(out), logits=out),
    "`logits` of the Record": lambda out: Record(loss=out.mean(), hidden=embedding(out), logits=out),
    "`logits` of the SimpleNamespace": lambda out: SimpleNamespace(hidden=embedding(out), logits=out),
    "`logits` of the dict": lambda out: {"hidden": embedding(out), "logits": out},
    "`score` of the dict": lambda out: {"loss": out.mean(), "class": out.argmax(1), "score": out, "e": embedding(out)},
    "`score` of the Pair": lambda out: Pair(out, embedding(out)),
    "`hidden` of the Record": lambda out: Record(loss=out.mean(), hidden=out),
    "item 0 of the tuple": lambda out: (out, embedding(out)),
    "item 2 of the tuple": lambda out: (None, out.mean(), out, embedding(out)),
    "item 0 of the list": lambda out: [out, embedding(out), None],
}


class Wrapping(nn.Module):
    """A module that returns its outputs in something."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.inner, self.wrap = linear(3), wrap

    def forward(self, rows: Any) -> Any:
        return self.wrap(self.inner(rows))


@pytest.mark.parametrize("name", COMES_IN)
@pytest.mark.parametrize(
    ("bare", "wrapped"),
    [
        (linear(3), Wrapping),
        (logits, lambda wrap: lambda rows: wrap(logits(rows))),
        (logits, lambda wrap: lambda rows: wrap(torch.tensor(logits(rows)))),
    ],
    ids=["module", "arrays", "tensors"],
)
def test_outputs_in_company_are_taken_out_and_that_is_said_once(bare, wrapped, name):
    """Exactly what the bare outputs give, with and without a gradient, in many batches."""
    model = wrapped(COMES_IN[name])
    message = f"^Took {name} that the model returns as its outputs; if another is meant, pass a model that returns that"

    def ask(model: Any) -> Any:
        explainer = fans.Explainer(model, ROWS, max_batch=64, **SMALL)
        return explainer(X), explainer.score(X, ["x1"])

    with pytest.warns(fans.FansWarning, match=message) as told:
        found, asked = ask(model)
    assert len(told) == 1
    plain, plainly = ask(bare)
    assert found.settings["solver"] == ("chain" if isinstance(bare, nn.Module) else "walks")
    for field in ("scores", "subset", "pns", "interval", "prediction", "direction", "n_evaluations"):
        np.testing.assert_array_equal(getattr(found, field), getattr(plain, field))
    np.testing.assert_array_equal(asked.pns, plainly.pns)
    with pytest.warns(fans.FansWarning, match=message) as told:
        one = fans.pns(model, X, ["x1"], background=ROWS, radius=2.0)
    assert len(told) == 1
    np.testing.assert_array_equal(one.pns, fans.pns(bare, X, ["x1"], background=ROWS, radius=2.0).pns)


def test_it_is_said_once_of_images_too_whose_units_are_settled_twice():
    class Outside(nn.Module):
        def forward(self, images: torch.Tensor) -> Any:
            return {"value": images.detach().numpy().sum((1, 2, 3))}

    images = torch.rand(8, 1, 24, 24, generator=torch.Generator().manual_seed(0))
    with pytest.warns(fans.FansWarning) as told:
        found = fans.Explainer(Outside(), images)
    assert [str(one.message).partition(" ")[0] for one in told] == ["Took", "The"]
    assert found.task.space.n_features < 576
    np.testing.assert_allclose(found.task.outputs[:, 0], images.sum((1, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("n_rows", [2, 3, 4, 30])
@pytest.mark.parametrize(
    "listed",
    [
        list,
        lambda out: [torch.tensor(row) for row in out],
        lambda out: out.tolist(),
        lambda out: [list(row) for row in out],
        lambda out: [np.float64(number) for number in out[:, 0]],
        lambda out: [torch.tensor(number) for number in out[:, 0]],
        lambda out: tuple(out[:, 0]),
        lambda out: pd.DataFrame({"logits": out[:, 0], "other": out[:, 1]}),
    ],
)
def test_a_row_for_each_input_is_no_company(listed, n_rows):
    """However many rows there are: also as many as classes."""
    bound = Task.bind(lambda rows: listed(logits(rows)), ROWS[:n_rows])
    np.testing.assert_array_equal(bound.outputs, LOGITS[:n_rows, : bound.outputs.shape[1]])


@pytest.mark.parametrize("n_rows", [2, 30])
def test_two_numbers_a_row_in_a_tuple_are_two_outputs(n_rows):
    """However many rows there are: also two."""
    with pytest.warns(fans.FansWarning, match="Took item 0 of the tuple"):
        bound = Task.bind(lambda rows: (logits(rows)[:, 0], logits(rows)[:, 1]), ROWS[:n_rows])
    np.testing.assert_array_equal(bound.outputs, LOGITS[:n_rows, :1])


def test_rows_that_a_module_lists_have_their_gradient():
    class Listing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear(3)

        def forward(self, rows: torch.Tensor) -> Any:
            return [self.inner(row) for row in rows]

    settings: dict[str, Any] = {"method": "saliency", "absolute": False, "output": "raw"}
    np.testing.assert_array_equal(fans.Explainer(Listing(), ROWS, **settings).scores(X, 1), [WEIGHTS[1]] * 3)
