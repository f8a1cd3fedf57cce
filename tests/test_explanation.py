"""The explanation as a value: slices, files, heatmaps, numbers."""

import json
from dataclasses import fields

import numpy as np
import pytest

import fans
from tests.planted import BACKGROUND, INPUTS, check_same, rule


@pytest.fixture(scope="module")
def explanation() -> fans.Explanation:
    return fans.Explainer(rule, BACKGROUND)(INPUTS)


def test_slicing_and_iteration(explanation):
    assert len(explanation[2:5]) == 3
    assert explanation[-1].ids == (8,)
    assert [len(e) for e in explanation] == [1] * 9
    check_same(explanation[[3, 1]], explanation[np.array([3, 1])])
    assert explanation[4].sentences[0] == explanation.sentences[4]
    with pytest.raises(IndexError, match="below 9, got 9"):
        explanation[9]


def test_saving_and_loading_keeps_everything(explanation, tmp_path):
    path = explanation.save(tmp_path / "e.safetensors")
    back = fans.load(path)
    for f in fields(fans.Explanation):
        saved, loaded = getattr(explanation, f.name), getattr(back, f.name)
        if isinstance(saved, np.ndarray):
            assert np.array_equal(saved, loaded, equal_nan=saved.dtype.kind == "f"), f.name
            assert saved.dtype == loaded.dtype, f.name
        elif f.name != "evaluations":
            assert loaded == saved, f.name
    assert {k: v.tolist() for k, v in back.evaluations.items()} == {
        k: v.tolist() for k, v in explanation.evaluations.items()
    }
    assert back.sentences == explanation.sentences
    assert json.dumps(dict(explanation.settings))


def test_the_heatmap_gives_each_element_its_features_score():
    space = fans.spaces.Table(groups={"pair": [1, 3]})
    e = fans.Explainer(rule, BACKGROUND, space=space)(INPUTS[:2])
    assert e.feature_names == ("x1", "pair", "x3", "x5", "x6")
    assert e.heatmap.shape == INPUTS[:2].shape
    assert np.array_equal(e.heatmap[:, 1], e.heatmap[:, 3])
    assert np.array_equal(e.heatmap[:, 4], e.scores[:, 3])


def test_numpy_numbers_are_settings_like_any_other(tmp_path):
    found = fans.Explainer(rule, BACKGROUND, n_pairs=np.int64(50), n_perturb=np.int32(4), enough=np.float32(1))(
        INPUTS[0]
    )
    assert fans.load(found.save(tmp_path / "e.safetensors")).settings["n_pairs"] == 50


def test_stability_is_a_share_of_resampled_runs(explanation):
    assert set(np.round(10 * explanation.stability, 9).ravel()) <= set(range(11))
    assert explanation.stability[explanation.subset].mean() > 0.9
    assert (explanation.stability[:, 2:] <= 0.2).all()  # what the model does not read
