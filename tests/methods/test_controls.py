"""The controls: values computed by hand, and what no control does, which is to ask the model."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fans
from fans.methods.base import Method
from fans.methods.controls import Control
from fans.spaces import Image, Table
from fans.types import Array
from tests.modalities.graph.test_space import Net, kept, random_graph

NAMES = sorted(name for name, member in Method.registry.items() if issubclass(member, Control))
IMAGE = np.array([[[1.0, 3.0, 0.0, 0.0], [5.0, 7.0, 0.0, 2.0]], [[0.0, 0.0, 8.0, 8.0], [0.0, 4.0, 8.0, 8.0]]])
"""Two channels of 2 x 4."""


def brightness(images: Any) -> Any:
    return images.mean((1, 2, 3))


def scores(method: str, space: Any) -> Array:
    return fans.Explainer(brightness, np.stack([IMAGE, 0 * IMAGE]), space=space, method=method).scores(IMAGE[None])


def test_there_are_three():
    assert NAMES == ["equal", "input_itself", "random"]


def test_of_an_image_its_own_values_by_hand():
    assert scores("input_itself", Image("pixel")).tolist() == [[0.5, 1.5, 4.0, 4.0, 2.5, 5.5, 4.0, 5.0]]
    left, right = (1 + 3 + 5 + 7 + 4) / 8, (2 + 8 + 8 + 8 + 8) / 8
    assert scores("input_itself", Image("patch", patch=2)).tolist() == [[left, right]]
    assert scores("equal", Image("patch", patch=2)).tolist() == [[1.0, 1.0]]
    made = fans.Explainer(brightness, IMAGE[None], space=Image("patch", patch=2), method="input_itself")
    parts = made.on_elements(IMAGE[None], np.array([[2.5, 4.25]]), parts=True)
    assert parts[0, 0, 0].tolist() == [2.5, 2.5, 4.25, 4.25]


def test_of_a_table_its_standardised_values_by_hand():
    background = pd.DataFrame({"a": [0.0, 2.0], "b": [5.0, 5.0], "c": ["x", "y"], "d": [1.0, 0.0], "e": [0.0, 1.0]})
    x = pd.DataFrame({"a": [4.0], "b": [9.0], "c": ["y"], "d": [1.0], "e": [1.0]})
    space = Table(groups={"either": ["d", "e"]})
    made = fans.Explainer(lambda rows: rows["a"].to_numpy(), background, space=space, method="input_itself")
    # Three deviations of 1 from the mean 1; no scale; a category; two of one deviation.
    assert made.scores(x).tolist() == [[3.0, 0.0, 0.0, 1.0]]
    equal = fans.Explainer(lambda rows: rows["a"].to_numpy(), background, space=space, method="equal")
    assert equal.scores(x).tolist() == [[1.0, 1.0, 1.0, 1.0]]


@pytest.mark.parametrize("method", ["equal", "input_itself"])
def test_of_a_graph_every_edge_is_the_same(method):
    pytest.importorskip("torch_geometric")
    graph = random_graph(n=40, n_edges=60)
    found = fans.Explainer(Net().eval(), graph, method=method, n_sweep=1, n_local=19)([7])
    assert set(found.heatmap[0][kept(found)]) == {1.0}
    assert (found.scores[~found.present] == 0).all()
    assert (found.scores[found.present] == 1).all()


def test_random_ones_are_between_0_and_1_and_follow_the_id():
    rows = np.random.default_rng(0).normal(size=(30, 4))
    made = fans.Explainer(lambda r: r[:, 0], rows, method="random")
    found = made.scores(rows)
    assert ((found >= 0) & (found < 1)).all()
    assert len(np.unique(found)) == found.size
    assert np.array_equal(made.scores(rows[:1], ids=[3]), found[3:4])


@pytest.mark.parametrize("name", NAMES)
def test_absent_superpixels_score_nothing(name):
    images = torch.from_numpy(np.random.default_rng(0).random((6, 2, 6, 5))).round()
    made = fans.Explainer(brightness, images, space=Image("superpixel", n_segments=9, compactness=0.05), method=name)
    present = made.task.space.units(images.flatten(1)).present.numpy()
    assert not present.all()
    assert (made.scores(images)[~present] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_none_asks_the_model_or_takes_a_setting(name):
    rows, asked = np.eye(3), []

    def model(given: Any) -> Any:
        asked.append(len(given))
        return given[:, 0]

    made = fans.Explainer(model, rows, method=name)
    asked.clear()
    assert made.scores(rows).shape == (3, 3)
    assert sum(asked) == 3  # the inputs themselves
    with pytest.raises(fans.InputError, match="a setting to be one of "):
        fans.Explainer(model, rows, method=name, n_steps=3)
