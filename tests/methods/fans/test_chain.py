"""The chain: its slopes, its selection, the order it finds against all orders, its scores and its promises."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import optimize, special
from torch import Tensor, nn

import fans
from fans.datasets import load_graph
from fans.datasets.graphs import Graph
from fans.engine.neighbourhood import InputBatch
from fans.engine.perturbation import baselines
from fans.methods.fans import chain as _chain
from fans.methods.fans.chain import Step, changed, climb_chain, select
from fans.methods.fans.subset import coarse_sizes
from fans.modalities.base import DrawnRows, Noise
from fans.networks import load
from fans.spaces import GraphEdges, Image
from fans.studies.graphs import nodes_in_order
from tests.methods.blocks import inputs_of

# The samples of most tests are few on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

ABLATIONS = (None, "SF", "NC", "SR")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def network(n_columns: int = 5, n_outputs: int = 3, seed: int = 0, unread: tuple[int, ...] = ()) -> nn.Sequential:
    """A float64 network on rows with interactions, that does not read some of the columns."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first, last = nn.Linear(n_columns, 8), nn.Linear(8, n_outputs)
    first.weight.data *= 2
    last.weight.data *= 3
    first.weight.data[:, list(unread)] = 0
    return nn.Sequential(first, nn.Tanh(), last).double()


class Watched(nn.Module):
    """A small float32 network on 8 by 8 images that keeps count of what it was fed."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
        self.batches: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        self.batches.append(len(images))
        out: Tensor = 5 * self.layers(images)
        return out


class Constant(nn.Module):
    """Reads everything and says the same."""

    def forward(self, rows: Tensor) -> Tensor:
        return 0 * rows.flatten(1)[:, :2]


IMAGES = random(20, 1, 8, 8).float()


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    usual: dict[str, Any] = {"solver": "chain", "n_steps": 10, "n_rows": 32, "n_local": 9}
    return fans.Explainer(model, background, **usual | settings)


def ready(asked: fans.Explainer, x: Any, target: Any = None) -> InputBatch:
    """The block of inputs as the solver sees it."""
    rows = asked.task.space.encode(x, "x")
    with asked.task.predict.session():
        return inputs_of(asked, rows, target).block(slice(0, len(rows))).block


# --- The gradient ----------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "classes": (network(), normal(20, 5), {"baseline": "mean"}),
    "one logit": (network(n_outputs=1), normal(20, 5), {"baseline": "background", "task": "classification"}),
    "regression": (network(n_outputs=2), normal(20, 5), {"baseline": 0.2, "task": "regression"}),
    "patches": (nn.Sequential(nn.Flatten(), network(32)), random(20, 2, 4, 4), {"space": Image("patch", patch=2)}),
    "superpixels": (
        nn.Sequential(nn.Flatten(), network(32)),
        random(20, 2, 4, 4),
        {"space": Image("superpixel", n_segments=6), "baseline": "blur"},
    ),
}


@pytest.mark.parametrize("without", ABLATIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_slope_is_that_of_finite_differences(name, without, monkeypatch):
    """Of every row, so of every size and of both sides."""
    monkeypatch.setattr(_chain, "NEAR", 1e-12)
    model, background, settings = CASES[name]
    asked = explainer(model, background, **settings)
    block = ready(asked, background[:3])
    n_features = asked.task.space.n_features
    theta = 1.2 * normal(2, n_features, seed=3)
    step = Step(asked.task, block, torch.tensor([0, 2]), theta, 4, 12, without)
    with asked.task.predict.session():
        values, slopes, pulls, moved = step.ascend()
        noisy = (theta[:, None] + step.noise()).flatten(0, 1)
        selected = step.selected(noisy)
        worth, far = step.worth(selected)
        assert torch.equal(values.flatten(), worth)
        assert torch.equal(moved.flatten(), far)
        assert slopes.shape == pulls.shape == (2, 12, n_features)
        at = 1e-5 * torch.eye(n_features, dtype=theta.dtype)
        for f in range(n_features):
            above, below = (step.worth(step.selected(noisy + sign * at[f]))[0] for sign in (1, -1))
            assert slopes[..., f].flatten() == pytest.approx((above - below) / 2e-5, abs=1e-7)
        assert slopes.abs().amax(2).gt(1e-4).sum() >= (5 if without in ("SF", "NC") else 12)
        # More of one feature alone, nothing given up for it.
        for f in range(n_features):
            more = torch.logit(selected)
            above, below = (step.worth(torch.sigmoid(more + sign * at[f] / 0.3).nan_to_num())[0] for sign in (1, -1))
            assert pulls[..., f].flatten() == pytest.approx((above - below) / 2e-5, abs=1e-7)


def test_rows_are_those_of_the_definition():
    """Perturbed rows, their worth and their moves by hand: sizes, noise, sides, baselines."""
    model = network()
    asked = explainer(model, normal(20, 5), baseline=0.3)
    x = normal(2, 5, seed=7)
    block = ready(asked, x)
    theta = normal(2, 5, seed=3)
    step = Step(asked.task, block, torch.arange(2), theta, 3, 8, None)
    with asked.task.predict.session():
        values, _, _, moved = step.ascend()
    sizes, noise = step.sizes().view(2, 8), step.noise()
    spread = (np.arange(4) + (0.5 + 3 * 0.6180339887498949) % 1) / 4
    assert sizes[0].tolist() == pytest.approx([*(0.02 + 0.88 * spread)] * 2)
    assert torch.equal(noise[:4], noise[4:])
    for i in range(2):
        before = torch.softmax(model(x[i]), 0).detach()
        target = int(before.argmax())
        for row in range(8):
            entries = theta[i] + noise[row]
            s = _by_bisection(entries, float(sizes[i, row]))
            share = s if row < 4 else 1 - s
            after = torch.softmax(model(x[i] + share * (0.3 - x[i])), 0).detach()
            value = float(_changed(after.numpy(), before.numpy(), target))
            assert float(values[i, row]) == pytest.approx(value if row < 4 else 1 - value, abs=1e-6)
            assert float(moved[i, row]) == pytest.approx(abs(float(after[target] - before[target])), abs=1e-6)


def _by_bisection(theta: Tensor, size: float) -> Tensor:
    low, high = -20.0, 20.0
    for _ in range(80):
        tau = (low + high) / 2
        low, high = (tau, high) if float(torch.sigmoid((theta - tau) / 0.3).mean()) > size else (low, tau)
    return torch.sigmoid((theta - low) / 0.3)


@pytest.mark.parametrize(("n_steps", "n_rows"), [(10, 32), (6, 20)])
def test_all_rows_together_are_an_orthogonal_design(n_steps, n_rows):
    """Held to SciPy's Hadamard matrix, which is made in another way."""
    asked = explainer(network(40), normal(20, 40))
    block, n_sizes = ready(asked, normal(2, 40, seed=7)), n_rows // 2
    steps = [Step(asked.task, block, torch.arange(2), torch.zeros(2, 40), n, n_rows, None) for n in range(n_steps)]
    moves = torch.stack([step.noise()[:n_sizes] for step in steps]).flatten(0, 1)
    expected = 0.3 * scipy.linalg.hadamard(256)[1 : n_steps * n_sizes + 1, 1:41]
    assert torch.equal(moves.unique(dim=0), torch.from_numpy(expected).float().unique(dim=0))
    for n in range(n_steps):  # a step's own, whatever their order
        own = torch.from_numpy(expected[n * n_sizes : (n + 1) * n_sizes]).float()
        assert torch.equal(steps[n].noise()[:n_sizes].unique(dim=0), own.unique(dim=0))


# --- The selection ---------------------------------------------------------------------------------------------------


def test_the_selection_has_the_size_asked_for_and_keeps_the_order():
    theta, size = 2 * normal(30, 11), 0.02 + 0.88 * random(30, seed=2)
    present = random(30, 11, seed=3) < 0.7
    present[:, :2] = True
    found = select(theta, present, size)
    assert found.shape == (30, 11)
    own = (found * present).sum(1) / present.sum(1)
    assert own == pytest.approx(size, abs=1e-6)
    for row, chosen in zip(theta, found, strict=True):
        assert torch.equal(chosen[row.argsort()], chosen.sort().values)
    assert torch.equal(select(theta + 3, present, size).round(decimals=6), found.round(decimals=6))
    extreme = select(torch.tensor([[50.0, 50, -50, -50]]), torch.ones(1, 4, dtype=torch.bool), torch.tensor([0.5]))
    assert extreme[0].tolist() == pytest.approx([1, 1, 0, 0], abs=1e-6)


@pytest.mark.parametrize("kind", ["normal", "far apart", "heavy tails", "equal", "one of two", "one feature"])
def test_the_threshold_is_the_root(kind):
    """That of SciPy, for sizes from end to end; which rows are asked together does not matter."""
    theta = {
        "normal": normal(40, 30).double(),
        "far apart": 40 * normal(40, 30).double().sign(),
        "heavy tails": normal(40, 30).double() ** 5,
        "equal": torch.ones(40, 30).double(),
        "one of two": torch.tensor([[15.0, -15.0]]).double().expand(40, -1),
        "one feature": normal(40, 1).double(),
    }[kind]
    size = torch.linspace(0.02, 0.9, 40).double()
    present = torch.ones_like(theta, dtype=torch.bool)
    found = select(theta, present, size)
    for row, wanted, chosen in zip(theta.numpy(), size.tolist(), found.numpy(), strict=True):
        ends = row.min() - 20, row.max() + 20
        tau = optimize.brentq(lambda at, row=row, wanted=wanted: special.expit((row - at) / 0.3).mean() - wanted, *ends)
        assert chosen == pytest.approx(special.expit((row - tau) / 0.3), abs=1e-7 * len(row))
        assert chosen.mean() == pytest.approx(wanted, abs=1e-8)
    single = theta.float()
    together = select(single, present, size.float())
    apart = [select(single[i : i + 1], present[i : i + 1], size[i : i + 1].float()) for i in range(40)]
    assert torch.allclose(torch.cat(apart), together, atol=1e-6)


def test_the_slope_of_the_selection_follows_the_constraint(monkeypatch):
    monkeypatch.setattr(_chain, "NEAR", 1e-12)
    theta, size = normal(6, 7), 0.05 + 0.8 * random(6, seed=2)
    present = torch.ones(6, 7, dtype=torch.bool)
    present[2, 3] = present[4, 0] = False
    towards = normal(6, 7, seed=5) * present  # what is absent is in no row
    leaf = theta.clone().requires_grad_()
    (slope,) = torch.autograd.grad((select(leaf, present, size) * towards).sum(), leaf)
    for f in range(7):
        step = torch.zeros(7, dtype=theta.dtype)
        step[f] = 1e-5
        above, below = ((select(theta + sign * step, present, size) * towards).sum(1) for sign in (1, -1))
        assert slope[:, f] == pytest.approx((above - below) / 2e-5, abs=1e-7)
    assert slope.sum(1) == pytest.approx(torch.zeros(6).double(), abs=1e-12)  # all higher: the same selection
    assert not slope[2, 3]
    assert not slope[4, 0]


# --- What counts as changed ------------------------------------------------------------------------------------------


def _changed(after: Any, before: Any, target: int) -> Any:
    """From the definition: the share of the class that is gone, and one minus exp of minus the divergence."""
    fall = (before[target] - after[target]) / max(before[target], 1e-3)
    divergence = sum(b * (math.log(b) - math.log(a)) for a, b in zip(after, before, strict=True))
    return 0.7 * fall + 0.3 * (1 - math.exp(-divergence))


def test_changes_of_probabilities_by_hand():
    before = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [1e-4, 0.5, 0.4999]]).double()
    after = torch.tensor([[0.25, 0.5, 0.25], [0.8, 0.1, 0.1], [0.9, 0.05, 0.05], [2e-4, 0.5, 0.4998]]).double()
    target = torch.tensor([0, 0, 1, 0])
    found = changed(after, before, target, None)
    expected = [_changed(a, b, int(t)) for a, b, t in zip(after.tolist(), before.tolist(), target, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert found[0] == pytest.approx(0.7 * 0.5 + 0.3 * (1 - math.exp(-0.5 * math.log(2) - 0.3 * math.log(0.6) - 0.2 * math.log(0.8))))  # fmt: skip  # noqa: E501
    assert found[1] < 0  # a class that rises is the opposite of gone
    assert found[2] == 0
    gone = changed(torch.tensor([[0.0, 1.0]]).double(), torch.tensor([[1.0, 0.0]]).double(), torch.tensor([0]), None)
    assert float(gone) == pytest.approx(1, abs=1e-9)


def test_changes_of_other_outputs_by_hand():
    before, after = torch.tensor([[1.0, 2.0], [1.0, 2.0], [5.0, 0.0]]), torch.tensor([[9.0, 2.5], [3.0, 0.0], [5.0, 7]])
    found = changed(after, before, torch.tensor([1, 0, 0]), torch.tensor([0.5, 4.0, 1.0]))
    assert found.tolist() == pytest.approx([1 - math.exp(-1), 1 - math.exp(-0.5), 0.0], abs=1e-6)


def test_other_outputs_are_measured_by_their_spread_over_the_background():
    rows = normal(50, 3)
    scale = torch.tensor([1.0, 10.0]).double()
    model = nn.Linear(3, 2, bias=False).double()
    model.weight.data = torch.tensor([[1.0, 0, 0], [10.0, 0, 0]]).double()
    asked = explainer(model, rows, task="regression")
    found = _chain._scale(asked.task, torch.tensor([1, 0]))
    assert found == pytest.approx(scale.flip(0) * rows[:, 0].std(correction=0))
    still = explainer(Constant(), rows, task="regression")
    constant = _chain._scale(still.task, torch.tensor([0]))
    assert constant is not None
    assert constant.tolist() == [1.0]
    assert _chain._scale(explainer(network(), normal(20, 5)).task, torch.tensor([0])) is None


# --- The order against all orders ------------------------------------------------------------------------------------


class Exhaustive:
    """What any order of the features of one input is worth, in plain NumPy."""

    def __init__(self, f: Any, x: Any, missing: Any, differ: Any) -> None:
        self.n, self.before = len(x), f(x)
        self.value = {}
        for hit in itertools.product([False, True], repeat=self.n):
            self.value[hit] = differ(f(np.where(hit, missing, x)), self.before)

    def worth(self, order: Any, without: str | None = None) -> float:
        total = 0.0
        for k in range(1, self.n):
            first = tuple(j in set(order[:k]) for j in range(self.n))
            rest = tuple(not inside for inside in first)
            total += (without != "SF") * self.value[first] + (without != "NC") * (1 - self.value[rest])
        return total / (self.n - 1)

    def all(self, without: str | None = None) -> list[float]:
        return [self.worth(order, without) for order in itertools.permutations(range(self.n))]


@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_the_order_is_as_good_as_the_best_of_all(kind):
    gaps, ranges = [], []
    for seed in range(20):
        model = network(n_outputs=3 if kind == "classes" else 1, seed=seed)
        background, x = normal(30, 5, seed=seed), normal(1, 5, seed=seed + 100)
        asked = explainer(model, background, baseline=0.0, task="regression" if kind == "regression" else None)
        order = np.argsort(-asked.scores(x)[0], kind="stable")

        def outputs(row: Any, model: Any = model) -> Any:
            out = model(torch.from_numpy(row)[None])[0].detach()
            return (torch.softmax(out, 0) if kind == "classes" else out).numpy()

        target = int(outputs(x[0].numpy()).argmax())
        spread = float(model(background).detach().std(correction=0))

        def differ(after: Any, before: Any, target: int = target, spread: float = spread) -> float:
            if kind == "classes":
                return float(_changed(after, before, target))
            return 1 - math.exp(-abs(float(after[0] - before[0])) / spread)

        every = Exhaustive(outputs, x[0].numpy(), np.zeros(5), differ)
        values = every.all()
        gaps.append(max(values) - every.worth(order.tolist()))
        ranges.append(max(values) - min(values))
    lost = np.array(gaps) / np.array(ranges)
    if kind == "classes":
        assert lost.max() < 0.005
        assert (lost < 1e-9).sum() >= 19
    else:  # an output may pass its old value half-way to the baseline, which the soft selection sees and no order does
        assert lost.mean() < 0.06
        assert (lost < 0.1).sum() >= 18


# --- Ablations -------------------------------------------------------------------------------------------------------


class Gates(nn.Module):
    """P(class 1) is high by `x1 or x2`, and by `x3 and x4`, softly."""

    def forward(self, rows: Tensor) -> Tensor:
        either = 1 - (1 - rows[:, 0]) * (1 - rows[:, 1])
        both = rows[:, 2] * rows[:, 3]
        p = 0.02 + 0.48 * either + 0.48 * both
        return torch.stack([1 - p, p], 1)


def test_ablations_do_what_their_names_say():
    """Changing: a member of the conjunction first, then the disjunction, which falls only as a whole.

    Holding: what keeps most when everything else is gone, one of the disjunction and then both of the conjunction.
    """
    background = random(30, 4)
    x = np.ones((1, 4))

    def outputs(row: Any) -> Any:
        return Gates()(torch.from_numpy(row)[None])[0].numpy()

    every = Exhaustive(outputs, x[0], np.zeros(4), lambda after, before: _changed(after, before, 1))
    orders = {}
    for without in (None, "SF", "NC"):
        asked = explainer(Gates(), background, baseline=0.0, without=without, n_steps=30, n_rows=64)
        orders[without] = np.argsort(-asked.scores(x, target=1)[0], kind="stable").tolist()
    # Without sufficiency as the paper has it only "held" counts; without necessity only "changed".
    assert every.worth(orders["SF"], "SF") == pytest.approx(max(every.all("SF")), abs=1e-9)
    assert every.worth(orders["NC"], "NC") == pytest.approx(max(every.all("NC")), abs=1e-9)
    assert every.worth(orders[None]) > max(every.all()) - 0.02
    assert orders["SF"][0] in (0, 1)
    assert orders["NC"][0] in (2, 3)


def test_without_sampling_by_closeness_rows_start_from_any_sample():
    """Of the input the first column is away from the baseline, of the samples the second."""
    background = np.tile([0.0, 1.0, 0.0], (40, 1))
    x = np.array([[1.0, 0.0, 0.0]])

    class Sum(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            logit = 4 * rows.sum(1)
            return torch.stack([-logit, logit], 1)

    usual: dict[str, Any] = {"baseline": 0.0, "n_background": 40, "n_local": 0}
    near, far = (explainer(Sum(), background, without=w, **usual).scores(x)[0] for w in (None, "SR"))
    assert near[0] > near[1] == near[2] == 0
    assert far.argmax() == 1
    assert far[2] == 0
    asked = explainer(Sum(), background, without="SR", **usual)
    block = ready(asked, x)
    step = Step(asked.task, block, torch.zeros(1, dtype=torch.int64), torch.zeros(1, 3), 0, 400, "SR")
    origin = step.origin(torch.zeros(400, dtype=torch.int64))
    assert torch.equal(origin[:200], origin[200:])  # both sides alike
    assert len(set(origin.tolist())) > 35  # of 41


# --- Scores ----------------------------------------------------------------------------------------------------------


def _member(theta: Any, r: float) -> Any:
    """From the definition: drawn at least once in r rounds, a hundredth in one, and less in proportion."""
    scaled = theta / max(np.abs(theta).max(), 1e-30)
    share = np.abs(scaled) ** 6
    return np.where(theta > 0, 0.987 * (1 - (1 - share) ** r) + 0.01 * share, -0.1 * share) + 0.003 * scaled


@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_scores_share_out_the_largest_move(kind, monkeypatch):
    """Positive ones add up to it, their order is the chain's, and those below 0 count a tenth."""
    thetas, rounds, moves = [], [], []
    plain, ascend = _chain.fitting, Step.ascend

    def kept(task: Any, block: InputBatch, theta: Tensor) -> Any:
        thetas.append(theta)
        rounds.append(plain(task, block, theta)[0])
        return plain(task, block, theta)

    def watched(step: Step) -> Any:
        found = ascend(step)
        moves.append(found[3].amax(1))
        return found

    monkeypatch.setattr(_chain, "fitting", kept)
    monkeypatch.setattr(Step, "ascend", watched)
    model = network(8, n_outputs=3 if kind == "classes" else 1, unread=(6,))
    asked = explainer(model, normal(30, 8), task="regression" if kind == "regression" else None)
    scores = asked.scores(normal(12, 8, seed=4))
    theta, most = thetas[0].double().numpy(), torch.stack(moves).amax(0).numpy()
    assert np.clip(scores, 0, None).sum(1) == pytest.approx(most, rel=1e-6)
    assert np.array_equal(np.sign(scores), np.sign(theta))
    for found, chain, r, far in zip(scores, theta, rounds[0].tolist(), most, strict=True):
        members = _member(chain, r)
        total = members[members > 0].sum()
        expected = np.where(members > 0, members / total, members / max(total, 1)) * far
        assert found == pytest.approx(expected, abs=1e-6)
        assert (np.diff(found[np.argsort(chain, kind="stable")]) >= 0).all()


def test_memberships_and_scores_by_hand():
    theta = torch.tensor([[2.0, 1.0, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-2.0, -1.0, 0.0, 0.0]])
    part = 0.5**6
    once, often = (_chain.membership(theta, torch.tensor(r)) for r in (1.0, 4.0))
    less, against = 0.997 * part + 0.0015, -0.1 * part - 0.0015
    assert once.tolist()[0] == pytest.approx([1, less, against, 0])
    assert often.tolist()[0] == pytest.approx([1, 0.987 * (1 - (1 - part) ** 4) + 0.01 * part + 0.0015, against, 0])
    assert often.tolist()[1] == [0, 0, 0, 0]
    assert often.tolist()[2] == pytest.approx([-0.103, against, 0, 0])
    found = _chain.as_scores(once[:, None], torch.tensor([0.5, 0.3, 0.2]).double())
    total = 1 + less
    assert found[0, 0].tolist() == pytest.approx([0.5 / total, 0.5 * less / total, 0.5 * against / total, 0])
    assert found[1, 0].tolist() == [0, 0, 0, 0]
    assert found[2, 0].tolist() == pytest.approx([-0.0206, 0.2 * against, 0, 0])


@pytest.mark.parametrize("baseline", [0.3, "background"])
def test_the_membership_is_the_sparsest_that_does_what_the_best_does(baseline):
    """Every membership that is tried, by hand: soft perturbation of the members, and of all others."""
    model, background, x = network(), normal(20, 5), normal(6, 5, seed=7)
    asked = explainer(model, background, baseline=baseline)
    block, theta = ready(asked, x), 1 + 0.2 * normal(6, 5, seed=3)
    with asked.task.predict.session():
        found, from_lowest, n_rows = _chain.fitting(asked.task, block, theta)
        keys = block.keys("chain/membership")
        drawn = [baselines(asked.task, block.pool, keys, torch.full((6,), j), block.own[:, 0]) for j in range(4)]
    missing = [torch.full((6, 5), 0.3, dtype=x.dtype)] if baseline == 0.3 else drawn
    tried = (1, 4, 16, 64, 256, 4096, 1e6)
    assert n_rows == 2 * len(tried) * len(missing)
    assert not from_lowest.any()
    for i in range(6):
        before = torch.softmax(model(x[i]), 0).detach().numpy()
        worth, joint = [], []
        for r in tried:
            share = torch.from_numpy(np.clip(_member(theta[i].numpy(), r), 0, None))
            sides, switches = [], []
            for weights in (share, 1 - share):
                rows = [x[i] + weights * (m[i] - x[i]) for m in missing]
                after = [torch.softmax(model(row), 0).detach().numpy() for row in rows]
                sides.append(np.mean([_changed(a, before, int(before.argmax())) for a in after]))
                switches.append(sum(int(a.argmax() != before.argmax()) for a in after))
            worth.append(sides[0] - sides[1])
            joint.append(2 * switches[0] - 3 * switches[1])
        able = [j == max(joint) for j in joint]
        counted = np.where(able, worth, -np.inf)
        among = counted[:5] if any(able[:5]) else counted
        at = next((k for k in range(7) if able[k] and worth[k] >= 0.9 * among.max()), able.index(True))
        if at == 0 or not able[at - 1] or worth[at - 1] >= 0.9 * among.max():
            expected = tried[at]
        else:
            expected = math.exp(np.interp(0.9 * among.max(), worth[at - 1 : at + 1], np.log(tried[at - 1 : at + 1])))
        assert float(found[i]) == pytest.approx(expected, rel=1e-4)
    assert len(set(found.tolist())) > 1


def test_which_membership_is_the_sparsest_by_hand():
    value = torch.tensor(
        [
            [0.95, 1.0, 0.9, 0.9, 0.9, 2.0, 2.0, 2.0, 2.0],  # the first will do; the further ones are not asked
            [0.0, 0.6, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],  # 0.9 is three quarters of the way from 4 to 16
            [0.0, 0.6, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],  # where 4 does not change the class, 16 itself
            [0.9, 0.9, 0.9, 0.9, 0.9, 0.4, 0.6, 0.6, 0.6],  # only the further ones do: 0.54 is seven tenths of the way
            [-0.2, -0.1, -0.2, -0.2, -0.2, -0.2, -0.2, -0.2, -0.2],  # nothing does
            [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.2],  # only the second of the lifted ones holds it
            [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.9, 0.9],  # the first of them, without a way between
        ]
    ).double()
    joint = torch.tensor(
        [
            *([0.0] * 9, [0.0] * 9, [0, 0, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1, 1, 1], [0.0] * 9),
            *([0, 0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1]),
        ]
    ).double()
    found, from_lowest = _chain.sparsest(value, joint)
    expected = [1, 4**0.25 * 16**0.75, 16, 4096**0.3 * 1e6**0.7, 1, 256, 16]
    assert found.log().tolist() == pytest.approx(np.log(expected))
    assert from_lowest.tolist() == [False] * 5 + [True] * 2
    assert _chain.sparsest(value[:5, :7], joint[:5, :7])[0].tolist() == found[:5].tolist()  # where none are lifted


def test_a_lifted_chain_counts_from_its_lowest_feature():
    lifted = _chain.lifted(torch.tensor([[2.0, -2.0, 0.0, 1.0]]))
    assert lifted[0].tolist() == pytest.approx([4.004, 0.004, 0.0, 3.004])
    everything = _chain.membership(lifted, torch.tensor(1e30))
    assert (everything[0, [0, 1, 3]] > 0.98).all()
    assert everything[0, 2] == 0


@pytest.mark.parametrize("n_edges", [1, 2])
def test_the_only_edge_that_holds_a_class_is_found(n_edges):
    """A single feature has no order to climb, yet it may be all that there is to say."""

    class Reads(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
            told = torch.zeros(len(x)).index_add(0, edge_index[1], weight * x[edge_index[0], 0])
            return torch.stack([2 - 4 * told, 4 * told - 2], 1)

    nobody, edges = np.zeros(3, dtype=bool), np.array([[1, 2], [0, 0]])[:, :n_edges]
    x, y = np.array([[0.0], [1.0], [0.0]], dtype=np.float32), np.zeros(3, dtype=np.int64)
    graph = Graph(x, edges, y, *(nobody,) * 3, classes=("no", "yes"))
    found = fans.Explainer(Reads(), graph, space=GraphEdges(1, tied=False))([0])
    assert found.subset[0].tolist()[:n_edges] == [True, False][:n_edges]
    assert found.scores[0, 0] > 0
    assert found.pns[0] > 0.9


# --- The second chain ------------------------------------------------------------------------------------------------


class Strokes(nn.Module):
    """A class of 12 by 12 images that two thin lines make, of which either would do for less."""

    def forward(self, images: Tensor) -> Tensor:
        lines = 2 * images[:, 0, 3, 2:10].mean(1) + 2 * images[:, 0, 2:10, 8].mean(1)
        return torch.stack([2.0 - 3 * lines, 3 * lines - 2.0], 1)


def strokes() -> tuple[Tensor, fans.Explainer]:
    images = 0.1 * random(8, 1, 12, 12).float()
    images[:4, 0, 3, 2:10] = images[:4, 0, 2:10, 8] = 1
    return images, explainer(Strokes(), images, baseline=0.0)


def test_slopes_of_many_features_are_levelled():
    """By hand: largest entries 4, 1 and 4e-9 become 4, 2 and, as the flattest that count, 4e-9 * 100."""
    slopes = torch.tensor([[[4.0, -2.0], [0.5, 1.0], [-4e-9, 0.0]]], dtype=torch.float64)
    expected = [[4.0, -2.0], [1.0, 2.0], [-4e-7, 0.0]]
    assert _chain.levelled(slopes)[0].tolist() == pytest.approx(np.array(expected))
    assert (_chain.levelled(torch.zeros(1, 3, 2)) == 0).all()


@pytest.mark.parametrize(("n_features", "steep"), [(_chain.FEW, 0.9), (_chain.FEW + 1, 0.75)])
def test_of_few_features_the_slope_itself_is_followed(n_features, steep):
    """Two rows pull on two features, one nine times as much as the other: of many features three times as much."""
    task = explainer(network(n_features), normal(5, n_features)).task
    slopes = torch.zeros(1, 2, n_features)
    slopes[0, 0, 0], slopes[0, 1, 1] = 9.0, 1.0
    climb = _chain.Climb(task, None, 1, 2, None)  # type: ignore[arg-type]
    way = climb._direction(slopes, torch.ones(1, 1, 2))[0, 0]
    assert float(way[0] / (way[0] + way[1])) == pytest.approx(steep)


def test_the_second_chain_has_sizes_about_one():
    """From three tenths of it to six fifths, growing by equal factors; both sides alike."""
    images, asked = strokes()
    block, about = ready(asked, images[:2]), torch.tensor([0.1, 0.85])
    step = Step(asked.task, block, torch.arange(2), torch.zeros(2, 144), 0, 8, None, about=about)
    first, second = step.sizes().view(2, 2, 4)
    factors = [0.3 * 4 ** ((i + 0.5) / 4) for i in range(4)]
    assert first.tolist() == [pytest.approx([0.1 * f for f in factors])] * 2
    assert second.tolist() == [pytest.approx([min(0.85 * f, 0.9) for f in factors])] * 2


def test_the_second_chain_is_not_smoothed_and_finds_what_is_thin():
    images, asked = strokes()
    truth = np.zeros((12, 12), dtype=bool)
    truth[3, 2:10] = truth[2:10, 8] = True
    with asked.task.predict.session():
        block = ready(asked, images[:4])
        first = climb_chain(asked.task, block, 10, 32, None)
        assert first.sharpen is not None
        second = first.sharpen(500)
        assert second is not None
        assert first.sharpen(300) is None  # 320 rows are the least
    assert second.n_rows.tolist() == [320 + 2 * len(coarse_sizes(144))] * 4
    right = [truth.ravel()[one.scores.argsort(dim=1, descending=True)[:, :14]].mean() for one in (first, second)]
    assert right[0] < 1
    assert right[1] == 1
    found = asked(images[:4])
    assert (found.subset & ~truth.ravel()).sum() == 0
    assert (found.subset.sum(1) < truth.sum()).all()
    assert (found.pns > 0.9).all()


def test_the_second_chain_does_not_depend_on_batches():
    images, asked = strokes()
    whole = asked(images[:4]).subset
    small = explainer(Strokes(), images, baseline=0.0, max_batch=40)
    assert np.array_equal(small(images[:4]).subset, whole)
    one = small(images[2:3], ids=[2]).subset
    assert np.array_equal(one[0], whole[2])


def test_few_features_need_no_second_chain():
    """One order of few columns is as good at each size: no rows are spent on another."""
    asked = explainer(network(), normal(20, 5), n_sweep=10_000)
    with asked.task.predict.session():
        first = climb_chain(asked.task, ready(asked, normal(3, 5, seed=1)), 10, 32, None)
    assert first.sharpen is not None
    assert first.sharpen(10_000) is None


@pytest.mark.parametrize("baseline", [0.0, "background"])
@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_what_is_not_read_scores_nothing_and_is_never_chosen(kind, baseline):
    chosen = 0
    for seed in range(8):
        model = network(6, n_outputs=3 if kind == "classes" else 1, seed=seed, unread=(1, 4))
        task: Any = "regression" if kind == "regression" else None
        found = explainer(model, normal(30, 6, seed=seed), task=task, baseline=baseline)(normal(6, 6, seed=seed + 50))
        assert not found.scores[:, [1, 4]].any()
        assert (found.scores[:, [0, 2, 3, 5]] != 0).all()
        assert not found.subset[:, [1, 4]].any()
        assert found.stability is not None
        assert not found.stability[:, [1, 4]].any()
        chosen += int(found.subset.any(1).sum())
    assert chosen > 40


def test_the_sign_tells_for_from_against():
    """Two columns lower the class when they go, one raises it; none of them is better than nothing by being weak."""

    class Sum(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            logit = (rows * torch.tensor([2.0, 0.4, -0.6], dtype=rows.dtype)).sum(1)
            return torch.stack([torch.zeros_like(logit), logit], 1)

    found = explainer(Sum(), normal(30, 3), baseline=0.0)(np.ones((1, 3)))
    assert found.scores[0, 0] > found.scores[0, 1] > 0 > found.scores[0, 2]
    alone = explainer(Sum(), normal(30, 3), baseline=0.0)(np.array([[1.0, 1.0, 0.0]]))  # at its baseline: not read
    assert alone.scores[0, 0] > alone.scores[0, 1] > alone.scores[0, 2] == 0


def test_both_of_two_columns_can_be_chosen():
    class Both(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            logit = 12 * (rows[:, 0] * rows[:, 1] - 0.5)
            return torch.stack([-logit, logit], 1)

    found = explainer(Both(), random(30, 2).round(), baseline=0.0)(np.ones((1, 2)))
    assert found.subset.tolist() == [[True, True]]
    assert (found.scores > 0).all()


# --- Any input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [None, Image("pixel"), Image("patch", patch=2), Image("superpixel", n_segments=12)])
def test_images(space):
    """A bright quarter decides."""
    where = torch.zeros(8, 8)
    where[:4, 4:] = 1

    class Quarter(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            logit = 12 * ((images * where).sum((1, 2, 3)) / 16 - 0.5)
            return torch.stack([-logit, logit], 1)

    images = 0.3 * random(5, 1, 8, 8, seed=3).float()
    images[:, :, :4, 4:] += 0.7
    found = explainer(Quarter(), IMAGES, space=space, baseline="mean")(images)
    flat, truth = found.heatmap.reshape(5, -1), where.numpy().ravel() > 0
    assert (flat[:, truth, None] > flat[:, None, ~truth]).mean() > (0.97 if space is None else 0.9)
    assert found.subset.any(1).all()
    assert (found.pns > 0.8).all()
    assert found.settings["solver"] == "chain"
    assert found.history is not None
    assert found.history.shape == (5, 10)
    assert found.evaluations["scoring"].tolist() == [320 + 24] * 5


def test_absent_superpixels_score_nothing():
    x = random(6, 1, 8, 8, seed=1).float()
    x[1, :, :4] = 0
    found = explainer(Watched(), IMAGES, space=Image("superpixel", n_segments=16, compactness=0.02))(x)
    assert not found.present.all()
    assert not found.scores[~found.present].any()
    assert not found.subset[~found.present].any()
    assert (found.scores[found.present] != 0).all()


@pytest.mark.slow("real nodes of a real network")
def test_nodes_of_ba_community():
    """The house that makes a node's class is what the chain finds; on nodes that are never reported."""
    pytest.importorskip("torch_geometric")
    model, _ = load("ba_community")
    graph = load_graph("ba_community")
    assert graph.truth is not None
    assert graph.motif is not None
    nodes = nodes_in_order(graph)[400:404]
    found = fans.Explainer(model, graph, n_local=11, n_sweep=200)(nodes)
    assert found.settings["solver"] == "chain"
    assert found.edges is not None
    shares = []
    for i, node in enumerate(nodes):
        inside = graph.truth & (graph.motif[graph.edge_index] == graph.motif[node]).all(0)
        house = {frozenset(edge) for edge in graph.edge_index[:, inside].T.tolist()}
        joined = dict(zip(found.elements[i].tolist(), map(frozenset, found.edges[i].tolist()), strict=True))
        best = [joined[f] for f in found.ranked(i)[: len(house)].tolist()]
        shares.append(sum(edge in house for edge in best) / len(house))
    assert np.mean(shares) > 0.8
    assert found.subset.any(1).all()
    assert not found.subset[~found.present].any()


@pytest.mark.parametrize(
    ("n_outputs", "task"), [(3, None), (1, "classification"), (1, "regression"), (2, "regression")]
)
def test_tables(n_outputs, task):
    model = network(6, n_outputs=n_outputs)
    found = fans.Explainer(model, normal(40, 6), task=task, n_local=9)(normal(7, 6, seed=2))
    assert found.settings["solver"] == "chain"
    assert found.scores.shape == (7, 6)
    assert np.isfinite(found.scores).all()
    assert found.scores_se is not None
    assert np.isfinite(found.scores_se).all()
    assert (found.scores_se > 0).any()
    assert found.kind == ("output" if task == "regression" else "probability")


@pytest.mark.parametrize("background", [normal(20, 4), IMAGES, 0.1 * random(20, 1, 16, 16).float()])
@pytest.mark.parametrize("task", [None, "regression"])
def test_a_constant_model_has_no_chain(background, task):
    found = explainer(Constant(), background, task=task)(background[:3])
    assert not found.scores.any()
    assert not found.subset.any()
    assert found.stability is not None
    assert not found.stability.any()
    assert not found.pns.any()


# --- Stability -------------------------------------------------------------------------------------------------------


def test_replicates_are_chains_of_resampled_rows():
    asked = explainer(network(6), normal(30, 6))
    block = ready(asked, normal(4, 6, seed=2))
    with asked.task.predict.session():
        found = climb_chain(asked.task, block, 6, 16, None)
    assert found.replicates is not None
    assert found.se is not None
    assert found.replicates.shape == (4, 10, 6)
    assert torch.equal(found.se, found.replicates.std(1))
    assert found.n_rows.tolist() == [96 + 56] * 4
    assert len(found.replicates[0].unique(dim=0)) == 10  # no two alike
    totals = found.replicates.clamp(min=0).sum(2)
    assert totals == pytest.approx(found.scores.clamp(min=0).sum(1, keepdim=True).expand(-1, 10), rel=1e-9)
    counts = _chain._resampled(block, torch.arange(4), "chain/3/resampled", 16)
    assert counts.shape == (4, 11, 16)
    assert (counts[:, 0] == 1).all()
    assert (counts.sum(2) == 16).all()
    assert (counts[:, 1:] == 0).any(2).all()


def test_a_feature_that_always_wins_is_always_chosen():
    class First(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            logit = 8 * rows[:, 0] + 0.01 * rows[:, 1:].sum(1)
            return torch.stack([-logit, logit], 1)

    rows = normal(40, 5)
    rows[:, 0] = rows[:, 0].sign() * (0.5 + rows[:, 0].abs())
    found = explainer(First(), rows, baseline="background")(rows[:6])
    assert found.stability is not None
    assert found.stability.shape == (6, 5)
    assert ((found.stability >= 0) & (found.stability <= 1)).all()
    assert (found.stability[:, 0] == 1).all()
    assert found.subset.tolist() == [[True, False, False, False, False]] * 6
    unsure = explainer(network(8), normal(40, 8))(normal(10, 8, seed=3))
    assert unsure.stability is not None
    assert ((unsure.stability > 0) & (unsure.stability < 1)).any()
    assert np.allclose(unsure.stability * 10, np.round(unsure.stability * 10))


# --- The same whatever the batch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "background", "settings"),
    [
        (Watched(), IMAGES, {"space": Image("patch", patch=2)}),
        (Watched(), IMAGES, {"space": Image("pixel"), "baseline": "uniform"}),
        (network(6), normal(30, 6), {}),
        (network(6), normal(30, 6), {"without": "SR"}),
    ],
)
def test_the_same_scores_whatever_the_batch_and_the_order(model, background, settings):
    x, ids = background[:9], [f"input {i}" for i in range(9)]
    whole = explainer(model, background, **settings)(x, ids=ids)
    assert np.ptp(whole.scores) > 1e-3
    for max_batch in (1, 7, 64):
        asked = explainer(model, background, max_batch=max_batch, **settings)
        assert asked.scores(x, ids=ids) == pytest.approx(whole.scores, abs=1e-5)
    asked = explainer(model, background, **settings)
    other = [5, 0, 8, 3]
    part = asked(x[other], ids=[ids[i] for i in other])
    assert part.scores == pytest.approx(whole.scores[other], abs=1e-5)
    assert part.scores_se == pytest.approx(whole.scores_se[other], abs=1e-5)  # type: ignore[index]
    assert part.history == pytest.approx(whole.history[other], abs=1e-5)  # type: ignore[index]
    other_draws = asked.scores(x), explainer(model, background, seed=1, **settings).scores(x, ids=ids)
    for found in other_draws:  # where nothing is drawn, neither the seed nor the ids matter
        assert (np.abs(found - whole.scores).max() > 1e-5) == isinstance(asked.task.baseline, DrawnRows | Noise)
    alone = asked.scores(x[2], ids=[ids[2]])
    assert alone[0] == pytest.approx(whole.scores[2], abs=1e-5)


@pytest.mark.parametrize("max_batch", [5, 40, 170])
def test_the_model_sees_no_more_rows_than_it_may_and_all_are_reported(max_batch):
    model = Watched()
    frozen = next(model.parameters())
    frozen.requires_grad_(False)
    asked = explainer(model, IMAGES, space=Image("patch", patch=2), max_batch=max_batch)
    found = asked(IMAGES[:7])
    assert max(model.batches) == max_batch
    again = 7 * 320 if max_batch < 32 else 0  # activations computed anew on the way back
    assert sum(model.batches) == found.n_evaluations.sum() + found.evaluations["shared"] + again
    assert found.evaluations["scoring"].tolist() == [320 + 24] * 7
    for parameter in model.parameters():
        assert parameter.grad is None
        assert parameter.requires_grad == (parameter is not frozen)
    assert model.training
    del model.batches[:]
    asked.scores(IMAGES[:7])
    assert max(model.batches) <= max_batch
    assert sum(model.batches) == 7 * (1 + 320 + 24) + again


def test_nothing_near_is_asked_for_scores_alone():
    asked = explainer(network(), normal(20, 5))
    assert not asked.method.looks_around
    x = normal(3, 5, seed=2)
    assert asked.scores(x) == pytest.approx(asked(x).scores, abs=1e-12)


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (lambda rows: rows[:, 0], {}, 'a torch module for solver="chain", got function; use solver="game"'),
        (network(), {"change": "label"}, 'a change with a gradient for solver="chain", got "label"'),
        (network(), {"n_rows": 5}, "`n_rows` as an even number, half of them for either side, got 5"),
        (network(), {"n_rows": 2}, "`n_rows` as a whole number of at least 4, got 2"),
        (network(), {"n_steps": 0}, "`n_steps` as a whole number of at least 1, got 0"),
        (network(), {"without": "PN"}, "`without` to be one of 'SF', 'NC', 'SR', got 'PN'"),
    ],
)
def test_bad_settings(model, settings, message):
    with pytest.raises(fans.FansError, match=message):
        explainer(model, normal(20, 5), **settings)
