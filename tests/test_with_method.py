"""An explainer with another method: the same as one made with it."""

import numpy as np
import pytest

import fans

ROWS = np.random.default_rng(0).normal(0, 1.5, (60, 4))


def model(x):
    return np.tanh(x[:, 0]) + 0.5 * np.tanh(x[:, 1] * x[:, 2])


@pytest.fixture(scope="module")
def explainer():
    return fans.Explainer(model, ROWS, effort="low", tolerance=0.2)


@pytest.mark.parametrize("method", ["kernel_shap", "lime", "feature_ablation", "banzhaf"])
def test_it_is_one_made_with_the_method(explainer, method):
    other = explainer.with_method(method)(ROWS[:3])
    made = fans.Explainer(model, ROWS, effort="low", tolerance=0.2, method=method)(ROWS[:3])
    for name in ("scores", "subset", "pns", "changes", "holds", "tolerance"):
        assert np.array_equal(getattr(other, name), getattr(made, name)), name
    assert explainer(ROWS[:1]).method == "fans"  # the first is as it was


def test_settings_of_the_method_are_taken(explainer):
    other = explainer.with_method("fans", walks_a_column=3.0)
    assert other.method.walks_a_column == 3.0
    with pytest.raises(fans.InputError, match=r"got 'radius'|setting"):
        explainer.with_method("lime", radius=1.0)


def test_methods_that_do_not_fit_are_refused(explainer):
    with pytest.raises(fans.InputError, match="Expected image inputs for method='rise'"):
        explainer.with_method("rise")
    with pytest.raises(fans.ModelError, match="Expected a torch module"):
        explainer.with_method("saliency")
    with pytest.raises(fans.InputError, match="Expected `method` to be one of"):
        explainer.with_method("nobody")
