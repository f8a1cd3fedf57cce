"""Any model as one function: what its outputs become, how it is asked, and which of its outputs is explained."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import fans
from fans.task import Task
from tests.models import CLASSES, ROWS, WEIGHTS, X, logits
from tests.oracles import exact_joint_pns, exact_pns


def test_a_number_that_is_a_place_and_the_name_of_another_class_is_told():
    numbered = Task.bind(LogisticRegression().fit(ROWS, np.where(CLASSES == "ant", 1, 2)), ROWS)
    with pytest.warns(fans.FansWarning, match="Target 1 was taken as a place, that of the class '2'.*pass target='1'"):
        assert numbered.targets(1, numbered.outputs[:2]).tolist() == [1, 1]
    assert numbered.targets("1", numbered.outputs[:2]).tolist() == [0, 0]
    assert numbered.targets(0, numbered.outputs[:2]).tolist() == [0, 0]
    with pytest.raises(fans.InputError, match="`target` from 0 to 1, or a class name, got"):
        numbered.targets(torch.eye(2), numbered.outputs[:2])


# --- Targets ---------------------------------------------------------------------------------------------------------


def test_the_predicted_class_by_default():
    model = LogisticRegression().fit(ROWS, CLASSES)
    probabilities = model.predict_proba(X)
    out = fans.Explainer(model, ROWS, n_pairs=20, radius=2.0)(X)
    np.testing.assert_array_equal(out.target, probabilities.argmax(1))
    np.testing.assert_allclose(out.prediction, probabilities.max(1), rtol=1e-12)
    assert [out.target_name(i) for i in range(3)] == [f"P({name})" for name in model.predict(X)]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (1, [1, 1, 1]),
        ("cat", [2, 2, 2]),
        (np.int64(2), [2, 2, 2]),
        (np.array(1), [1, 1, 1]),
        (1.0, [1, 1, 1]),
        ([0, 2, 1], [0, 2, 1]),
        (np.array([2, 2, 0]), [2, 2, 0]),
        (torch.tensor([2, 0, 1]), [2, 0, 1]),
        (("ant", "cat", "bee"), [0, 2, 1]),
        (pd.Series(["bee", "bee", "ant"], index=[7, 8, 9]), [1, 1, 0]),
        (["ant", 2, "bee"], [0, 2, 1]),
    ],
)
@pytest.mark.parametrize("max_batch", [64, None])  # one input at a time, and in one block
def test_targets_by_index_and_name(target, expected, max_batch):
    model = LogisticRegression().fit(ROWS, CLASSES)
    small: dict[str, Any] = {"n_pairs": 20, "n_sweep": 50, "n_background": 10, "n_local": 9, "radius": 2.0}
    out = fans.Explainer(model, ROWS, max_batch=max_batch, **small)(X, target=target)
    np.testing.assert_array_equal(out.target, expected)
    np.testing.assert_allclose(out.prediction, model.predict_proba(X)[range(3), expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("target", "expected"),
    [(None, None), (0, [0, 0, 0]), ("1", [1, 1, 1]), ([2, 0, 1], [2, 0, 1]), (["2", "0", "2"], [2, 0, 2])],
)
@pytest.mark.parametrize("max_batch", [20, None])
def test_the_change_is_measured_on_the_target(target, expected, max_batch):
    if expected is None:
        expected = (X @ WEIGHTS.T + [0.1, 0.2, 0.3]).argmax(1).tolist()
        assert len(set(expected)) > 1
    for closeness, enumeration in (("input", exact_joint_pns), ("subset", exact_pns)):
        out = fans.pns(
            logits, X, [True, False], background=ROWS, baseline=0.0, radius=0.8, tolerance=0.4, estimator="exact",
            target=target, max_batch=max_batch, closeness=closeness,  # type: ignore[arg-type]
        )  # fmt: skip
        for i, c in enumerate(expected):
            oracle = enumeration(logits, X[i], [True, False], ROWS, np.zeros(2), 0.8, 0.4, target=c)
            for name, value in oracle.items():
                np.testing.assert_allclose(getattr(out, name)[i], value, rtol=1e-10, err_msg=f"{name} of {i}")


def test_a_regressor_has_one_target():
    out = fans.Explainer(lambda a: a[:, 0] * 3, ROWS, n_pairs=20, radius=2.0)(X)
    np.testing.assert_array_equal(out.target, [0, 0, 0])
    np.testing.assert_allclose(out.prediction, X[:, 0] * 3)
    assert out.target_name(0) == "the output"
