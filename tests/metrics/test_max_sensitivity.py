"""Max-Sensitivity against captum on the same draws, a loop, and by hand."""

import pytest
import torch
from captum.attr import Saliency
from captum.metrics import sensitivity_max

from fans import InputError
from fans.metrics import max_sensitivity, metric
from fans.metrics.max_sensitivity import MaxSensitivity
from tests.metrics.material import case_of, images, network


class Explains:
    """Saliency that keeps what it was asked."""

    def __init__(self, model):
        self.method = Saliency(model)
        self.inputs, self.target, self.ids = [], [], []

    def __call__(self, inputs, target, ids):
        self.inputs.append(inputs.clone())
        self.target.append(target)
        self.ids += ids
        return self.method.attribute(inputs.clone().requires_grad_(), target=target, abs=False)


def explained_case(n=3, **settings):
    inputs, _ = images(n, 2)
    model = network(2)
    explain = Explains(model)
    case = case_of(model, inputs, explain(inputs, torch.arange(n) % 3, []), explain=explain, ids=list("abcdefg"[:n]))
    explain.inputs.clear()
    explain.target.clear()
    return case, metric("max_sensitivity", **settings)(case)


def test_equals_captum_on_the_same_draws():
    case, values = explained_case(radius=0.1, n_draws=7)
    near = torch.cat(case.explain.inputs)
    expected = sensitivity_max(
        lambda inputs, target: (case.explain(inputs[0] if isinstance(inputs, tuple) else inputs, target, []),),
        case.inputs,
        perturb_func=lambda _: near,
        n_perturb_samples=7,
        target=case.target,
    )
    assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_equals_a_loop(relative, absolute, normalise):
    case, values = explained_case(relative=relative, absolute=absolute, normalise=normalise)
    near = torch.cat(case.explain.inputs).view(3, 10, *case.inputs.shape[1:])

    def read(scores):
        scores = scores / scores.abs().max() if normalise else scores
        return scores.abs() if absolute else scores

    for i in range(3):
        found = []
        own = read(case.scores[i].double())
        for z in near[i]:
            other = read(case.explain(z[None], case.target[i : i + 1], [])[0].double())
            found.append(float(((other - own) ** 2).sum() ** 0.5) / (float((own**2).sum() ** 0.5) if relative else 1))
        assert float(values[i]) == pytest.approx(max(found), rel=1e-5)


def test_by_hand():
    """Scores twice the input: |2 z - 2 x| / |2 x| at x = 2 is at most radius / 2, and near it after many draws."""
    inputs = torch.full((1, 1), 2.0)
    case = case_of(lambda rows: rows, inputs, 2 * inputs, explain=lambda x, *_: 2 * x)
    value = metric("max_sensitivity", radius=0.5, n_draws=2000)(case).item()
    assert 0.249 < value <= 0.25
    case = case_of(lambda rows: rows, inputs, 0 * inputs, explain=lambda x, *_: x / x)
    assert metric("max_sensitivity")(case).tolist() == [1]  # no scores to compare with: the change itself


def test_all_draws_are_explained_at_once_with_target_and_id_of_their_input(monkeypatch):
    case, values = explained_case(n_draws=4, radius=0.3)
    assert len(case.explain.inputs) == 1
    assert case.explain.ids == list("aaaabbbbcccc")
    assert torch.cat(case.explain.target).tolist() == [0] * 4 + [1] * 4 + [2] * 4
    moved = case.explain.inputs[0] - case.inputs.repeat_interleave(4, 0)
    assert 0.29 < moved.abs().max() < 0.30001
    assert len(moved.flatten().unique()) > 0.9 * moved.numel()
    monkeypatch.setattr(max_sensitivity, "EXPLAINED_AT_ONCE", 5)
    assert explained_case(n_draws=4, radius=0.3)[1].tolist() == pytest.approx(values.tolist(), rel=1e-5)


def test_copies_are_those_explained_and_of_one_direction_at_every_radius():
    case, _ = explained_case(n_draws=4, radius=0.3)
    ((which, near),) = MaxSensitivity(n_draws=4, radius=0.3).copies(case)
    assert which.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert torch.equal(near, case.explain.inputs[0])
    ((_, far),) = MaxSensitivity(n_draws=4, radius=0.6).copies(case)
    of = case.inputs[which]
    assert torch.allclose(far - of, 2 * (near - of), atol=1e-6)


def test_bad_settings_and_explanations_are_refused():
    with pytest.raises(InputError, match="`radius` above 0, got 0"):
        metric("max_sensitivity", radius=0)
    inputs, scores = images()
    for explain, got in ((lambda x, *_: x[:, 0], r"got \(30, 8, 8\)"), (lambda *_: None, "got NoneType")):
        with pytest.raises(InputError, match=got):
            metric("max_sensitivity")(case_of(network(), inputs, scores, explain=explain))
