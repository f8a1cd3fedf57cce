"""What a case offers to every metric, and what it refuses."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fans import InputError, ModelError
from fans.errors import FansError
from fans.metrics import Metric, metric
from tests.metrics.material import Recorder, case_of, images, network

ROWS = torch.tensor([[0.0, 2.0], [1.0, -1.0]])


# --- Outputs and probabilities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_batch", [1, 2, 3, 100])
def test_rows_go_in_batches(max_batch):
    model = Recorder(network())
    rows, _ = images(5)
    case = case_of(model, rows, rows, max_batch=max_batch)
    found = case.outputs(rows)
    assert [len(seen) for seen in model.seen] == [max_batch] * (5 // max_batch) + [5 % max_batch] * (5 % max_batch > 0)
    assert found.dtype == torch.float64
    assert found.numpy() == pytest.approx(model.model(rows).detach().numpy(), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda x: x, [[0.11920292, 0.88079708], [0.88079708, 0.11920292]]),  # logits
        (lambda x: x[:, 0], [[0.5, 0.5], [0.26894142, 0.73105858]]),  # one logit; but see the next test
        (lambda x: (x[:, :1] + 1) / 4, [[0.75, 0.25], [0.5, 0.5]]),  # one probability
        (lambda x: torch.stack([x[:, 0], 1 - x[:, 0]], 1), [[0, 1], [1, 0]]),  # two
    ],
)
def test_outputs_become_probabilities_once(model, expected):
    case = case_of(model, ROWS, ROWS, returns="logits" if model(ROWS).ndim == 1 else None)
    assert case.probabilities(ROWS).numpy() == pytest.approx(np.array(expected))


def test_what_the_model_returns_is_judged_from_its_inputs_unless_said():
    """Not from the rows at hand: a batch of changed rows must not be read in another way."""
    case = case_of(lambda x: x[:, :1], torch.tensor([[0.2], [3.0]]), torch.zeros(2, 1))
    assert case.probabilities(torch.tensor([[0.5]])).tolist() == [pytest.approx([0.3775407, 0.6224593])]
    said = replace(case, returns="probabilities", inputs=torch.tensor([[0.2], [0.3]]))
    assert said.probabilities(torch.tensor([[0.5]])).tolist() == [[0.5, 0.5]]
    assert replace(said, returns="logits").probabilities(torch.tensor([[0.0]])).tolist() == [[0.5, 0.5]]


def test_a_module_runs_in_evaluation_mode_without_gradients_and_is_restored():
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3))
    model[2].eval()
    rows, scores = images(2)
    case = case_of(model, rows.requires_grad_(), scores.requires_grad_())
    assert torch.equal(case.outputs(rows), case.outputs(rows))
    assert not metric("deletion")(case).requires_grad
    assert [part.training for part in model] == [True, True, False]


def test_a_model_may_overwrite_what_it_gets():
    rows, scores = images(2)
    kept = rows.clone()
    case = case_of(lambda x: x.zero_().flatten(1)[:, :3], rows, scores)
    for name in ("deletion", "fidelity_plus", "infidelity"):
        metric(name)(case)
    assert torch.equal(rows, kept)


# --- What cases share ------------------------------------------------------------------------------------------------


def test_the_cache_tells_models_inputs_targets_ids_and_seeds_apart():
    rows, scores = images(2)
    case = case_of(network(), rows, scores)
    judge = metric("infidelity", n_repeats=1)
    first = judge(case)
    others: dict[str, Any] = {
        "model": network(scale=2.0),
        "inputs": rows + 0.01,
        "target": torch.tensor([1, 0]),
        "ids": ["a", "b"],
        "seed": 1,
    }
    for name, other in others.items():
        changed = replace(case, **{name: other})
        assert changed.cache is case.cache
        assert judge(changed).tolist() == judge(replace(changed, cache={})).tolist()
        assert (judge(changed) != first).all(), name
    assert judge(case).tolist() == first.tolist()


class Unhashable:
    """A model that is equal to its likes, but has no hash."""

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, slope):
        self.slope, self.n = slope, 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    def __call__(self, rows):
        self.n += len(rows)
        return self.slope * rows.flatten(1)[:, :3]


def test_the_cache_knows_a_model_again_also_as_a_method_and_without_a_hash():
    rows, scores = images(2)
    judge = metric("infidelity", n_repeats=1)
    one = Recorder(network())
    cache: dict[Any, Any] = {}
    for _ in range(2):
        judge(case_of(one.forward, rows, scores, cache=cache))
    assert one.n_rows == 2 * judge.cost((1, 8, 8))
    first, second = Unhashable(1), Unhashable(2)
    values = [judge(case_of(model, rows, scores, cache=cache)).tolist() for model in (first, second, first)]
    assert values[0] == values[2] != values[1]
    assert first.n == second.n == 2 * judge.cost((1, 8, 8))


def test_ids_are_the_same_from_numpy():
    rows, scores = images(3)
    judge = metric("infidelity", n_repeats=1)
    found = [judge(case_of(network(), rows, scores, ids=ids)).tolist() for ids in (range(3), np.arange(3), [0, 1, 2])]
    assert found[0] == found[1] == found[2]


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("inputs", np.zeros((2, 2)), "`inputs` as a tensor, got ndarray"),
        ("inputs", torch.zeros(2), r"`inputs` \(B, \*input\), floating-point, got \(2,\)"),
        ("inputs", torch.zeros(0, 2), r"got \(0, 2\)"),
        ("inputs", torch.zeros(2, 2, dtype=torch.int64), "of torch.int64"),
        ("inputs", torch.tensor([[1.0, torch.nan], [0.0, 0.0]]), "finite `inputs`, got NaN or infinity in 1 of 2"),
        ("scores", torch.zeros(2, 3), r"inputs' shape \(2, 2\), got \(2, 3\); give every element"),
        ("scores", torch.full((2, 2), torch.inf), "finite `scores`, got NaN or infinity in 2 of 2"),
        ("scores", None, "`scores` as a tensor, got NoneType"),
        ("target", torch.tensor([0.0, 1.0]), "of torch.float32"),
        ("target", torch.tensor([0]), r"`target` \(2,\) of int64 from 0 up, got \(1,\)"),
        ("target", torch.tensor([0, -1]), "from 0 up"),
        ("ids", [1], "Expected 2 ids, one for each input, got 1"),
        ("ids", "ab", "Expected 2 ids"),
        ("truth", torch.zeros(2, 2), r"`truth` \(2, 2\) of bool, got \(2, 2\) of torch.float32"),
        ("truth", torch.zeros(2, dtype=torch.bool), r"got \(2,\)"),
        ("max_batch", 0, "`max_batch` as a whole number of at least 1, got 0"),
        ("seed", 0.5, "`seed` as a whole number, got 0.5"),
        (
            "returns",
            "probability",
            "'logits', 'probabilities', 'values', got 'probability'; did you mean 'probabilities'",
        ),
        ("model", "resnet", "as functions, got str"),
        ("explain", "saliency", "and str"),
    ],
)
def test_bad_cases_are_refused(field, value, word):
    with pytest.raises(InputError, match=word):
        case_of(**{"model": lambda x: x, "inputs": ROWS, "scores": ROWS} | {field: value})


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (lambda x: x.numpy(), "got ndarray"),
        (lambda x: x[:1], r"a tensor \(2, classes\) from the model, got \(1, 2\)"),
        (lambda x: x[:, None], r"got \(2, 1, 2\)"),
        (lambda x: x / 0, "finite outputs"),
    ],
)
def test_bad_models_are_refused(model, word):
    with pytest.raises(ModelError, match=word):
        metric("fidelity_plus")(case_of(model, ROWS, ROWS))


def test_a_target_beyond_the_classes_is_refused():
    with pytest.raises(InputError, match="below the model's 2 classes, got 7"):
        metric("infidelity", kind="formula")(case_of(lambda x: x, ROWS, ROWS, target=torch.tensor([0, 7])))


def test_a_case_without_what_a_metric_needs_is_refused():
    for name, need in (("max_sensitivity", "explain"), ("recall", "truth")):
        with pytest.raises(InputError, match=rf"`{need}` for '{name}', got none; pass Case\({need}=...\)"):
            metric(name)(case_of(lambda x: x, ROWS, ROWS))


def test_unknown_names_and_settings_are_refused_with_a_list():
    with pytest.raises(InputError, match=r"'deletion', .* got 'infidelty'; did you mean 'infidelity'"):
        metric("infidelty")
    with pytest.raises(InputError, match="a setting of 'irof' to be one of 'of', 'share', got 'target'"):
        metric("irof", target=1)
    with pytest.raises(InputError, match="no settings for 'sparseness', which has none, got 'abs'"):
        metric("sparseness", abs=True)


def test_a_value_that_is_no_number_is_refused():
    sparseness = Metric.registry["sparseness"]
    broken = type("Broken", (sparseness,), {"score": lambda *_: torch.tensor([1.0, torch.nan], dtype=torch.float64)})
    with pytest.raises(FansError, match="finite values of 'sparseness', got NaN or infinity for 1 of 2"):
        broken()(case_of(lambda x: x, ROWS, ROWS))
