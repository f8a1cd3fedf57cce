"""What every registered metric promises, whatever it measures."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fans import InputError
from fans.metrics import Case, Metric, metric
from tests.metrics.material import Recorder, images, network

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("infidelity", {"kind": "formula", "n_draws": 9}),
    ("infidelity", {"kind": "formula", "n_draws": 9, "output": "probability"}),
    ("infidelity", {"kind": "published"}),
    ("infidelity", {"kind": "patch", "n_repeats": 2}),
    ("infidelity", {"kind": "scale_free", "patch": 3, "output": "probability"}),
    ("irof", {}),
    ("irof", {"of": "predicted", "share": True}),
    ("sparseness", {}),
    ("max_sensitivity", {"n_draws": 3}),
    ("max_sensitivity", {"n_draws": 3, "absolute": True, "normalise": True, "relative": False}),
    ("fidelity_plus", {}),
    ("fidelity_plus", {"form": "top", "top": 20, "fill": 0.5}),
    ("fidelity_minus", {}),
    ("fidelity_minus", {"form": "top", "top": 0.2}),
    ("fidelity_gap", {}),
    ("recall", {"n": 30}),
    ("insertion", {"n_steps": 9}),
    ("insertion", {"fill": 0.5}),
    ("deletion", {"n_steps": 9}),
]
EVERY = pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=lambda v: v if isinstance(v, str) else str(v))
DRAWN = ("infidelity", "max_sensitivity")
INPUTS, SCORES = images(6, 3, 8)
TARGET, IDS = torch.tensor([0, 1, 2, 2, 1, 0]), ["a", 7, "c", 0, "zebra", 3]
TRUTH = INPUTS > 0.7
MODEL = Recorder(network(3))


def explain(inputs: Tensor, target: Tensor, ids: Any) -> Tensor:
    """Something that depends on all three, and on nothing else."""
    own = torch.tensor([len(str(i)) for i in ids]).view(-1, 1, 1, 1)
    return inputs * own + target.view(-1, 1, 1, 1)


class Counting:
    """`explain`, with its inputs counted."""

    n = 0

    def __call__(self, inputs: Tensor, target: Tensor, ids: Any) -> Tensor:
        self.n += len(inputs)
        return explain(inputs, target, ids)


def case(order: Any = slice(None), **settings: Any) -> Case:
    chosen = torch.arange(6)[order]
    common: dict[str, Any] = {"explain": explain, "truth": TRUTH[chosen]}
    return Case(
        MODEL,
        INPUTS[chosen],
        SCORES[chosen],
        TARGET[chosen],
        [IDS[i] for i in chosen],
        **common | settings,
    )


def test_every_metric_has_a_variant_here_and_a_best_and_a_worst():
    assert {name for name, _ in VARIANTS} == set(Metric.registry)
    assert {name for name, _, _, _ in EXTREMES} == set(Metric.registry)


@pytest.mark.parametrize("name", sorted(Metric.registry))
def test_a_metric_says_what_it_is(name):
    member = Metric.registry[name]
    assert issubclass(member, Metric)
    assert member.name == name
    assert member.label
    assert isinstance(member.higher_is_better, bool)
    assert member.value_range[0] < member.value_range[1]
    assert "," in member.citation
    assert (member.__doc__ or "").count("\n") or member.__base__ is not Metric


def close(values: Tensor) -> Any:
    """Equal but for what a forward pass loses in the last bits, which IROF's division may enlarge."""
    return pytest.approx(values.tolist(), rel=1e-5, abs=1e-6)


@EVERY
def test_values_are_one_number_an_input_whatever_the_batches(name, settings):
    judge = metric(name, **settings)
    one = judge(case())
    assert one.shape == (6,)
    assert one.dtype == torch.float64
    assert (one >= judge.value_range[0]).all()
    assert (one <= judge.value_range[1]).all()
    assert judge(case()).tolist() == one.tolist()
    for max_batch in (1, 7, 64):
        assert judge(case(max_batch=max_batch)).tolist() == close(one)
    order = [4, 0, 5, 2, 1, 3]
    assert judge(case(order)).tolist() == close(one[order])
    assert judge(case([3])).tolist() == close(one[3:4])
    other = judge(case(seed=1))
    assert (other != one).all() if name in DRAWN else other.tolist() == one.tolist()


@EVERY
def test_the_callers_tensors_and_the_model_are_left_alone(name, settings):
    kept = [t.clone() for t in (INPUTS, SCORES, TARGET, TRUTH, *MODEL.parameters())]
    metric(name, **settings)(case())
    for before, after in zip(kept, (INPUTS, SCORES, TARGET, TRUTH, *MODEL.parameters()), strict=True):
        assert torch.equal(before, after)


@EVERY
def test_rows_of_a_table_are_judged_or_refused_in_one_sentence(name, settings):
    """A metric works on inputs of any shape, or says that it wants images before the model is asked."""
    rows, scores = INPUTS[:, 0, 0], SCORES[:, 0, 0]
    asked: list[int] = []

    def model(x: Tensor) -> Tensor:
        asked.append(len(x))
        return 3 * x[:, :3]

    def told(inputs: Tensor, target: Tensor, ids: Any) -> Tensor:
        return inputs * target[:, None] + len(ids[0] if isinstance(ids[0], str) else "")

    judge = metric(name, **settings)
    on_rows = Case(
        model, rows, scores, TARGET, list[Any](IDS), explain=told, truth=TRUTH[:, 0, 0] | (torch.arange(8) < 1)
    )
    wants_images = name == "irof" or (name == "infidelity" and settings["kind"] != "formula")
    if wants_images or (name in ("insertion", "deletion") and "fill" not in settings):
        with pytest.raises(InputError, match=r"^Expected images \(B, channels, height, width\) for [^.]*; [^.]*$"):
            judge(on_rows)
        assert not asked
        return
    values = judge(on_rows)
    assert values.shape == (6,)
    assert ((values >= judge.value_range[0]) & (values <= judge.value_range[1])).all()
    assert sum(asked) <= 6 * judge.cost((8,))


@EVERY
def test_a_fresh_case_of_the_first_inputs_is_judged_as_they_were_among_all(name, settings):
    judge, whole = metric(name, **settings), case()
    values, first = judge(whole), judge(whole.first(2))
    assert first.tolist() == close(values[:2])


@EVERY
def test_cost_is_what_it_costs(name, settings):
    judge, counting = metric(name, **settings), Counting()
    judged = case(explain=counting)
    MODEL.seen.clear()
    judge(judged)
    assert MODEL.n_rows == 6 * judge.cost((3, 8, 8))
    assert counting.n == 6 * judge.explanations
    MODEL.seen.clear()
    judge(judged)  # what is remembered does not cost again
    assert MODEL.n_rows <= 6 * judge.cost((3, 8, 8))
    if name == "infidelity":
        assert not MODEL.seen


# --- Which end is good -----------------------------------------------------------------------------------------------

SLOPES = torch.linspace(-1, 1, 8)[:, None].expand(8, 8)
"""Of a linear logit: one for each row of the image."""
PLAIN = torch.full((1, 1, 8, 8), 0.5)
BRIGHT = torch.rand((1, 1, 8, 8), generator=torch.Generator().manual_seed(3))


def linear(rows: Tensor) -> Tensor:
    logit = (rows[:, 0] * SLOPES).sum((1, 2))
    return torch.stack([logit, -logit], 1)


GOOD = SLOPES.expand(1, 1, 8, 8)
LINES = GOOD.transpose(2, 3) / 8
"""What the published product takes for exact: column l holds the slope of row l."""
ONE = torch.eye(64)[9].view(1, 1, 8, 8)
HALF = SLOPES.expand(1, 1, 8, 8) > 0
LIT = PLAIN + 0.1 * HALF

EXTREMES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("infidelity", {"kind": "formula"}, {"scores": GOOD}, {"scores": -GOOD}),
    ("infidelity", {"kind": "patch"}, {"scores": GOOD}, {"scores": -GOOD}),
    ("infidelity", {"kind": "scale_free"}, {"scores": GOOD}, {"scores": GOOD.flip(3, 2).cos()}),
    ("infidelity", {"kind": "published"}, {"scores": LINES}, {"scores": -LINES}),
    ("irof", {}, {"scores": GOOD * BRIGHT, "inputs": BRIGHT}, {"scores": -GOOD * BRIGHT, "inputs": BRIGHT}),
    ("sparseness", {}, {"scores": ONE}, {"scores": torch.ones_like(ONE)}),
    ("max_sensitivity", {}, {"explain": lambda x, *_: torch.ones_like(x)}, {"explain": lambda x, *_: x.exp()}),
    ("fidelity_plus", {}, {"scores": HALF.float(), "inputs": LIT}, {"scores": ONE, "inputs": LIT}),
    ("fidelity_minus", {"form": "top", "top": 0.5}, {"scores": GOOD, "inputs": LIT}, {"scores": -GOOD, "inputs": LIT}),
    ("fidelity_gap", {"shares": (0.5,)}, {"scores": GOOD, "inputs": LIT}, {"scores": -GOOD, "inputs": LIT}),
    ("recall", {"n": 32}, {"scores": GOOD}, {"scores": -GOOD}),
    ("insertion", {"fill": 0.0}, {"scores": GOOD}, {"scores": -GOOD}),
    ("deletion", {"fill": 0.0}, {"scores": GOOD}, {"scores": -GOOD}),
]
EXACT = {
    "infidelity": 0.0,
    "max_sensitivity": 0.0,
    "fidelity_plus": 1.0,
    "fidelity_minus": 0.0,
    "fidelity_gap": 1.0,
    "recall": 1.0,
}
"""The best possible value, where the best example reaches it."""


@pytest.mark.parametrize(("name", "settings", "best", "worst"), EXTREMES, ids=[f"{n} {s}" for n, s, _, _ in EXTREMES])
def test_the_better_end_is_the_declared_one(name, settings, best, worst):
    judge = metric(name, **settings)
    common: dict[str, Any] = {"inputs": PLAIN, "scores": torch.ones_like(PLAIN), "truth": HALF, "ids": [0]}
    target = torch.tensor([0])
    good, bad = (judge(Case(linear, target=target, **common | given)).item() for given in (best, worst))
    assert good > bad if judge.higher_is_better else good < bad
    assert math.isclose(good, EXACT.get(name, good), abs_tol=1e-6)
