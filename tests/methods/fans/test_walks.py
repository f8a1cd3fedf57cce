"""Walks against steps enumerated by hand; fair shares; what is not read, not moved, or settled early."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

import fans
from fans.methods.base import Scores
from fans.methods.fans import walks as _walks
from fans.methods.fans.subset import NOTHING, Chosen, fair_subset
from fans.methods.fans.walks import FEWEST, ROUNDS, Route, rows_for, settled, walks_a_round

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(80, 5))
INPUTS = RNG.normal(size=(7, 5))


def curved(rows: Any) -> Any:
    """Four of five columns, two of which interact."""
    return 1 / (1 + np.exp(-(2 * rows[:, 0] - 1.5 * rows[:, 1] * rows[:, 2] + rows[:, 3])))


def mean_steps(model: Any, x: Any, others: Any, side: int) -> tuple[Any, Any, Any]:
    """Enumerate all orders and other rows: the mean size of each column's steps, of those alone, signed, and away."""
    n, at_x = len(x), model(x[None])[0]
    sizes, alone, times, away = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for b in others:
        for order in itertools.permutations(range(n)):
            for begin in range(0, n, side):
                row = x.copy()
                before = model(row[None])[0]
                for k, j in enumerate(order[begin : begin + side]):
                    row[j] = b[j]
                    after = model(row[None])[0]
                    sizes[j] += abs(after - before)
                    away[j] += max(abs(after - at_x) - abs(before - at_x), 0.0)
                    if not k:
                        alone[j] += after - before
                        times[j] += 1
                    before = after
    n_walks = len(others) * math.factorial(n)
    return sizes / n_walks, alone / times, away / n_walks


def order_sought(explainer: fans.Explainer, x: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Explain one input, and return the order in which its subset of the highest PNS would be sought."""
    kept: list[Scores] = []

    def keep(scored: Scores) -> Chosen:
        kept.append(scored)
        return fair_subset(scored)

    monkeypatch.setattr("fans.explainer.fair_subset", keep)
    explainer(x)
    assert kept[0].order is not None
    return kept[0].order[0].numpy()


@pytest.mark.parametrize("reach", [0.1, 0.4, 1.0])
def test_scores_are_mean_steps(reach, monkeypatch):
    missing, x = np.array([0.5, 0.2, -0.3, 1.0, 0.1]), INPUTS[0]
    explainer = fans.Explainer(curved, BACKGROUND, baseline=missing, reach=reach, n_walk_rows=80_000)
    found = explainer(x)
    sizes, alone, away = mean_steps(curved, x, [missing], math.ceil(5 * reach))
    assert order_sought(explainer, x, monkeypatch) == pytest.approx(away, abs=0.003)
    assert reach == 0.1 or (away < 0.99 * sizes)[:4].any()  # some steps lead back
    assert found.scores_se is not None
    assert (np.abs(found.scores[0] - sizes) < 4.5 * found.scores_se[0] + 1e-12).all()
    assert found.scores[0] == pytest.approx(sizes, abs=0.003)
    assert found.direction[0] == pytest.approx(alone, abs=1e-12)
    assert found.scores[0, 4] == 0


def test_steps_towards_drawn_rows_are_means_over_the_background(monkeypatch):
    background, x = BACKGROUND[:6], INPUTS[1]
    explainer = fans.Explainer(curved, background, n_walk_rows=120_000)
    found = explainer(x)
    sizes, alone, away = mean_steps(curved, x, background, 2)
    assert order_sought(explainer, x, monkeypatch) == pytest.approx(away, abs=0.004)
    assert found.scores[0] == pytest.approx(sizes, abs=0.004)
    assert found.direction[0] == pytest.approx(alone, abs=0.01)


def test_standard_errors_of_scores_are_their_spread_over_seeds_and_backgrounds():
    found = [
        fans.Explainer(curved, np.random.default_rng([1, r]).normal(size=(400, 5)), seed=r, n_local=9)(INPUTS[2])
        for r in range(100)
    ]
    spread = np.std([e.scores[0] for e in found], axis=0)[:4]
    errors = np.sqrt(np.mean([e.scores_se[0] ** 2 for e in found if e.scores_se is not None], axis=0))[:4]
    assert spread / errors == pytest.approx(np.ones(4), abs=0.25)


def test_the_route_is_balanced_and_the_same_for_all():
    a_round = walks_a_round(6, 1200)
    route = Route.over(6, a_round, 0.4)
    assert route.side == 3
    assert a_round == 50
    assert torch.equal(route.order.gather(1, route.place), torch.arange(6).expand(200, -1))
    for begin in range(0, 200, a_round):  # each round is spread over the whole background, all together finer
        assert torch.equal((route.part[begin : begin + a_round] * a_round).long().sort().values, torch.arange(a_round))
    assert torch.equal((route.part * 200).long().sort().values, torch.arange(200))
    assert walks_a_round(10_000, 4000) == FEWEST
    assert not torch.equal(route.order, Route.over(6, a_round, 0.4, design=1).order)


@pytest.mark.parametrize(
    ("n_features", "walks", "n_rows"), [(2, 10.0, 500), (8, 10.0, 640), (30, 10.0, 4000), (8, 2.5, 160)]
)
def test_model_rows_grow_with_the_columns(n_features, walks, n_rows):
    assert rows_for(n_features, walks) == n_rows
    rows = np.random.default_rng(0).normal(size=(20, n_features))
    explainer = fans.Explainer(lambda a: a[:, 0], rows, walks_a_column=walks, n_local=0, n_perturb=1)
    a_round = max(FEWEST, n_rows // (n_features * ROUNDS))
    assert explainer.rows_an_input == 1 + ROUNDS * a_round * n_features + 2


def test_another_seed_takes_the_same_walks():
    one, other = (fans.Explainer(curved, BACKGROUND, seed=seed)(INPUTS) for seed in (0, 1))
    assert (one.scores == other.scores).all()
    assert (one.subset == other.subset).all()
    assert (one.pns != other.pns).any()  # what is said of them is from draws of its own


@pytest.mark.parametrize("max_batch", [1, 13, 10_000])
def test_batches_order_and_company_do_not_matter(max_batch):
    settings: dict[str, Any] = {"n_walk_rows": 400, "n_local": 9}
    whole = fans.Explainer(curved, BACKGROUND, **settings)(INPUTS)
    some = fans.Explainer(curved, BACKGROUND, max_batch=max_batch, **settings)(INPUTS[[4, 1]], ids=[4, 1])
    for name in ("scores", "scores_se", "subset", "stability", "direction", "pns", "interval"):
        assert getattr(some, name) == pytest.approx(getattr(whole[[4, 1]], name), abs=1e-12), name
    assert some.evaluations["scoring"].tolist() == whole.evaluations["scoring"][[4, 1]].tolist()


def test_a_step_that_changes_nothing_costs_nothing(monkeypatch):
    """A column that is the same everywhere, and one of two values: of three steps a walk one and a half are asked."""
    monkeypatch.setattr(_walks, "SURE", math.inf)  # nothing is settled
    background = np.column_stack([BACKGROUND[:, 0], np.ones(80), (np.arange(80) % 2).astype(float)])
    explainer = fans.Explainer(lambda rows: rows[:, 0] * rows[:, 2], background, n_walk_rows=1200)
    found = explainer(np.array([2.0, 1.0, 1.0]))
    assert found.scores[0, 1] == 0
    n_walks = ROUNDS * walks_a_round(3, 1200)
    assert found.evaluations["scoring"][0] == pytest.approx(1.5 * n_walks, rel=0.05)


def test_superpixels_differ_from_image_to_image():
    """One at a time from a blank image: the score is what removing the superpixel does, by hand."""
    images = np.random.default_rng(0).random((12, 1, 8, 8)).astype(np.float32)
    weights = np.zeros((8, 8), np.float32)
    weights[:4, :4] = 1.0
    model = lambda rows: (rows[:, 0] * weights).sum((1, 2))
    space = fans.spaces.Image("superpixel", n_segments=6)
    found = fans.Explainer(model, images, space=space, solver="walks", baseline=0.0, reach=0.01)(images[:3])
    for i in range(3):
        for j in np.flatnonzero(found.present[i]):
            there = found.elements[i].reshape(8, 8) == j
            assert found.scores[i, j] == pytest.approx((images[i, 0] * weights)[there].sum(), abs=1e-5)
        assert not found.scores[i, ~found.present[i]].any()


@pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")
@pytest.mark.filterwarnings("ignore:The background has one row")
def test_a_background_of_one_row_like_the_input():
    """No column can be replaced by anything else: nothing is asked, nothing chosen."""
    found = fans.Explainer(curved, np.ones((1, 5)), n_local=2)(np.ones((2, 5)))
    assert not found.scores.any()
    assert not found.subset.any()
    assert not found.evaluations["scoring"].any()


def test_a_settled_subset_needs_no_more_walks():
    rng = np.random.default_rng(0)
    steps = torch.from_numpy(rng.normal([[[9.0, 9.0, 0.1, 0.1]], [[9.0, 9.0, 2.9, 0.1]]], 1.0, size=(2, 40, 4))).abs()
    # A fair share is an eighth of all, here 2.7: the third column of the second input is nearly that.
    assert settled(steps).tolist() == [True, False]
    clear = fans.Explainer(lambda rows: rows[:, 0] + rows[:, 1], BACKGROUND, n_walk_rows=4000)(INPUTS + 9)
    assert (clear.evaluations["scoring"] == 4000 // ROUNDS).all()
    assert (clear.subset == [True, True, False, False, False]).all()


def test_fair_shares_by_hand():
    """An eighth of all scores, or 1.25 times an even share where that is less: of twenty features a sixteenth."""
    scores = torch.zeros(4, 20, dtype=torch.float64)
    scores[0, :3] = torch.tensor([12.0, 3.0, 1.0])  # a sixteenth is in
    scores[1, :3] = torch.tensor([12.0, 3.1, 0.9])
    scores[2] = 1.0  # none has more than another
    found = fair_subset(Scores(scores, None, torch.zeros(4, dtype=torch.int64)))
    assert found.subset[:2].sum(1).tolist() == [3, 2]
    assert not found.subset[2:].any()
    few = torch.tensor([[7.0, 1.0, 0.0], [7.01, 0.99, 0.0]], dtype=torch.float64)
    assert fair_subset(Scores(few, None, torch.zeros(2, dtype=torch.int64))).subset.sum(1).tolist() == [2, 1]
    again = few[:, None].repeat(1, 10, 1)
    again[0, 7:, 1] = 0.5
    kept = Scores(few, None, torch.zeros(2, dtype=torch.int64), replicates=again, moving=torch.tensor([NOTHING, 1.0]))
    found = fair_subset(kept)
    assert found.subset.tolist() == [[False] * 3, [True, False, False]]  # nothing moves the first one
    assert found.stability.numpy() == pytest.approx(np.array([[1, 0.7, 0], [1, 0, 0]]))
    assert not found.n_rows.any()


PROBLEMS: dict[str, Any] = {
    "two of four": (lambda rows: 50.0 * rows[:, 0] + 10.0 * rows[:, 1], 4),
    "two of ten, a rule": (lambda rows: ((rows[:, 2] > 0) & (rows[:, 7] > -0.5)).astype(float), 10),
    "Example 1": (lambda rows: (rows[:, 0] - rows[:, 1] > 1).astype(float), 3),
    "constant": (lambda rows: np.full(len(rows), 0.3), 4),
}
READ = {"two of four": [0, 1], "two of ten, a rule": [2, 7], "Example 1": [0, 1], "constant": []}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_column_that_is_not_read_is_in_no_subset(name):
    model, n_columns = PROBLEMS[name]
    rows = np.random.default_rng(5).normal(size=(260, n_columns))
    found = fans.Explainer(model, rows[:200])(rows[200:])
    unread = np.isin(np.arange(n_columns), READ[name], invert=True)
    assert not found.subset[:, unread].any()
    assert not found.scores[:, unread].any()
    assert not found.stability[:, unread].any()
    if name == "constant":
        assert all("the subset is empty" in note for note in found.notes)
        assert not found.pns.any()


def test_what_hardly_moves_the_prediction_is_no_answer():
    """Steps have shares, however small: the subset is empty where next to none is above the tolerance."""
    faint = lambda rows: 0.5 + 0.01 * np.tanh(rows[:, 0])
    found = fans.Explainer(faint, BACKGROUND, tolerance=0.1)(INPUTS)
    assert (found.scores[:, 0] > 0).all()
    assert not found.subset.any()


def test_each_way_to_measure_a_change():
    """By the class itself steps are 0 or 1; by all outputs, their norm."""
    table = lambda rows: np.stack([1 - curved(rows), curved(rows)], 1)
    usual: dict[str, Any] = {"baseline": 0.0, "reach": 0.1, "n_walk_rows": 400}
    zero = np.zeros(5)
    for i, x in enumerate(INPUTS):
        each = np.where(np.eye(5, dtype=bool), zero, x)
        outputs, own = table(each), table(x[None])[0]
        target = own.argmax()
        expected = {
            "target": np.abs(outputs[:, target] - own[target]),
            "fall": np.maximum(own[target] - outputs[:, target], 0),
            "l2": np.linalg.norm(outputs - own, axis=1),
            "label": (outputs.argmax(1) != target).astype(float),
        }
        for change, sizes in expected.items():
            found = fans.Explainer(table, BACKGROUND, change=change, **usual).scores(x, ids=[i])
            assert found[0] == pytest.approx(sizes, abs=1e-12), change


def test_features_of_several_elements_move_together():
    """A one-hot group is one feature: all its columns take the other row's values at once."""
    rng = np.random.default_rng(0)
    colours = np.eye(3)[rng.integers(3, size=120)]
    rows = np.column_stack([rng.normal(size=120), colours])
    space = fans.spaces.Table(groups={"colour": [1, 2, 3]})
    seen: list[Any] = []

    def model(given: Any) -> Any:
        seen.append(given)
        return given[:, 0] + 2.0 * given[:, 2]

    found = fans.Explainer(model, rows[:100], space=space)(rows[100:103])
    assert found.scores.shape == (3, 2)
    assert (np.concatenate(seen)[:, 1:].sum(1) == 1).all()


@pytest.mark.parametrize(("n_columns", "settings", "expected"), [
    (250, {}, "walks"), (251, {}, "game"), (251, {"n_walk_rows": 8000}, "walks"), (251, {"solver": "walks"}, "walks"),
    (5, {"without": "SR"}, "game"), (5, {"closeness": "subset"}, "game"),
])  # fmt: skip
def test_wide_tables_and_ablations_are_played(n_columns, settings, expected):
    rows = np.random.default_rng(0).normal(size=(20, n_columns))
    made = fans.Explainer(lambda given: given[:, 0], rows, **settings)
    assert made._plain_settings()["solver"] == expected


def test_the_other_way_to_choose_is_a_setting():
    found = fans.Explainer(curved, BACKGROUND, members="pns")(INPUTS)
    fair = fans.Explainer(curved, BACKGROUND)(INPUTS)
    assert (found.evaluations["sweep"] > 0).all()
    assert not fair.evaluations["sweep"].any()
    assert found.pns.mean() >= fair.pns.mean() - 0.02
    assert not found.subset[:, 4].any()


@pytest.mark.parametrize("bad", [0, -0.1, 1.5, "far", math.nan])
def test_bad_reaches(bad):
    with pytest.raises(fans.InputError, match=r"`reach` above 0 and up to 1, got"):
        fans.Explainer(curved, BACKGROUND, reach=bad)


def test_bad_settings():
    with pytest.raises(fans.InputError, match=r"`n_walk_rows`"):
        fans.Explainer(curved, BACKGROUND, n_walk_rows=0)
    with pytest.raises(fans.InputError, match=r"no ablation for solver=\"walks\".*without='SF'"):
        fans.Explainer(curved, BACKGROUND, solver="walks", without="SF")
    with pytest.raises(fans.InputError, match=r"`members` to be one of 'auto', 'pns', 'share', got 'best'"):
        fans.Explainer(curved, BACKGROUND, members="best")
