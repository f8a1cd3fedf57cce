"""The paper's relaxation: its slopes, its limits at binary subsets, its steps. What the authors' code computes."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.engine import draws
from fans.engine.estimate import closeness, moments
from fans.engine.moments import Moments, point
from fans.engine.neighbourhood import InputBatch, draw_features
from fans.engine.trials import run_trials
from fans.methods.fans import relaxed as _relaxed
from fans.methods.fans import released as _released
from fans.methods.fans.method import FANS, PRESETS
from fans.methods.fans.relaxed import Relaxation, Step, integrated_gradients
from fans.modalities.base import Fixed, Noise
from fans.spaces import Image
from tests import oracles
from tests.methods.blocks import inputs_of

# The samples of most tests are few on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

HOW: dict[str, Any] = {"n_steps": 5, "rate": 0.05, "init": 0.5, "relaxed_g": "strict", "without": None}
"""Every setting of the climb, so that no result here depends on a default."""

AROUND: dict[str, Any] = {
    "n_background": 6,
    "n_local": 2,
    "radius": 1.0,
    "tolerance": 0.05,
    "phi": 0.5,
    "kernel": "gaussian",
    "distance": "rms",
    "change": "target",
    "estimator": "weighted",
    "n_factual": 2,
    "n_perturb": 2,
    "n_resample": 3,
    "closeness": "subset",
    "scale": "unit",
    "n_sweep": 1,
}

UNITS: dict[str, Any] = {
    "pixel": Image("pixel"),
    "patch": Image("patch", patch=2),
    "superpixel": Image("superpixel", n_segments=6),
}


def how(**changed: Any) -> Relaxation:
    return Relaxation(**HOW | changed)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


def smooth(*shape: int, n_classes: int = 3, seed: int = 0) -> nn.Module:
    """A smooth float64 module on rows or images of a shape, with predictions that move."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if len(shape) == 1:
            first: list[nn.Module] = [nn.Linear(shape[0], 8)]
            wide = 8
        else:
            first = [nn.Conv2d(shape[0], 3, 3, padding=1)]
            wide = 3 * shape[1] * shape[2]
        last = nn.Linear(wide, n_classes)
        module = nn.Sequential(*first, nn.Tanh(), nn.Flatten(), last).double()
    last.weight.data *= 4
    return module


def explainer(model: Any, background: Any, **settings: Any) -> fans.Explainer:
    climb = {} if settings.get("preset") == "released" else HOW
    return fans.Explainer(model, background, **{"solver": "relaxed"} | climb | AROUND | settings)


def ready(asked: fans.Explainer, x: Any) -> InputBatch:
    """The block of inputs as the solver sees it."""
    rows = asked.task.space.encode(x, "x")
    with asked.task.predict.session():
        return inputs_of(asked, rows).block(slice(0, len(rows))).block


def history_of(found: fans.Explanation) -> Any:
    assert found.history is not None
    return found.history


def case(unit: str, **settings: Any) -> tuple[fans.Explainer, InputBatch]:
    """A module on a table or on small images, and two inputs."""
    shape = {"table": (5,), "pixel": (1, 4, 4)}.get(unit, (2, 4, 4))
    asked = explainer(smooth(*shape), random(20, *shape), space=UNITS.get(unit), **settings)
    return asked, ready(asked, random(2, *shape, seed=1))


# --- The objective, one perturbation at a time -----------------------------------------------------------------------


class ByHand:
    """The relaxed objective of the first input in loops, from the definitions."""

    def __init__(self, asked: fans.Explainer, block: InputBatch, climb: Relaxation, s: Tensor) -> None:
        assert isinstance(asked.task.baseline, Fixed)
        self.asked, self.block, self.climb = asked, block, climb
        self.missing, self.samples = asked.task.baseline.row, block.pool.samples()[0]
        self.owner = block.pool.units.of_element[0]
        self.shares = (s, 1 - s)

    def predict(self, row: Tensor) -> float:
        with torch.no_grad():
            out = self.asked.task.predict.model(self.asked.task.space.for_module(row[None]))
        return float(torch.softmax(out, 1)[0, self.block.target[0]])

    def change(self, side: int, sample: int, stage: str, position: int) -> float:
        keys, place = self.block.keys(f"{stage}/hit")[:1], torch.tensor([position])
        m = draws.bernoulli(keys, place, len(self.shares[0]), 0.5)[0].double()[self.owner]
        x, share = self.samples[sample], self.shares[side][self.owner]
        if self.climb.relaxed_g == "strict":
            g = x - share * m * (x - self.missing)
        else:
            g = ((1 - m) * x + m * self.missing) * share
        return abs(self.predict(g) - self.predict(x))

    def near(self, side: int, sample: int) -> float:
        share = self.shares[side][self.owner]
        apart = share * (self.samples[6] - self.samples[sample])  # the input comes after six background samples
        if self.asked.settings.distance == "rms":
            squared = float(((apart / self.asked.task.space.scale) ** 2).sum() / max(1.0, float((share**2).sum())))
        else:
            squared = float((apart**2).sum())
        return math.exp(-squared / (2 * 1.5**2))

    def weights(self, stage: str, k: int) -> tuple[list[float], list[float]]:
        still = [
            [np.mean([math.exp(-(self.change(side, j, stage, j * k + i) ** 2) / (2 * 0.05**2)) for i in range(k)])
             for j in range(9)]
            for side in (0, 1)
        ]  # fmt: skip
        w_nc = [self.near(0, j) * (1 - float(still[0][j])) for j in range(9)]
        return w_nc, [self.near(1, j) * float(still[1][j]) for j in range(9)]

    def changed(self, side: int, sample: int, stage: str, positions: range) -> float:
        """How much, by the paper's smooth indicator, the prediction changes."""
        return float(np.mean([1 - math.exp(-self.change(side, sample, stage, position)) for position in positions]))

    def parts(self) -> tuple[float, float, float, float]:
        """PN, PS, P(A,B) and P(not-A,not-B): weigh all samples, draw three by weight, perturb each twice."""
        w_nc, w_sf = self.weights("climb/3/factual", 2)
        if self.climb.without == "SR":
            w_nc = w_sf = [1.0] * 9
        u = draws.uniform(self.block.keys("climb/3/sample")[0], torch.arange(6)).tolist()
        again = "climb/3/interventional"
        by_nc, by_sf = (
            [int((np.cumsum(w) < at * sum(w)).sum()) for at in some] for w, some in ((w_nc, u[:3]), (w_sf, u[3:]))
        )
        pn = 1 - float(np.mean([self.changed(1, j, again, range(2 * r, 2 * r + 2)) for r, j in enumerate(by_nc)]))
        ps = float(np.mean([self.changed(0, j, again, range(2 * r, 2 * r + 2)) for r, j in enumerate(by_sf)]))
        return pn, ps, sum(w_nc) / 9, sum(w_sf) / 9


@pytest.mark.parametrize("g", ["strict", "paper"])
@pytest.mark.parametrize("scale", ["unit", "paper"])
@pytest.mark.parametrize(("unit", "distance"), [("table", "rms"), ("patch", "l2"), ("superpixel", "rms")])
def test_the_objective_by_hand(g, scale, unit, distance):
    asked, block = case(unit, distance=distance, radius=1.5, baseline=0.3, scale=scale)
    s = 0.15 + 0.7 * random(1, asked.task.space.n_features, seed=2)
    prior = {"unit": 0.5, "paper": 1.0}[scale]
    for without in (None, "SF", "NC", "SR"):
        climb = how(relaxed_g=g, without=without)
        pn, ps, p_ab, p_nab = ByHand(asked, block, climb, s[0]).parts()
        with asked.task.predict.session():
            found = Step(asked.task, block, asked.settings, climb, torch.tensor([0]), s, 3).objective()
        kept = {"SF": pn * p_ab, "NC": ps * p_nab}.get(without or "", pn * p_ab + ps * p_nab)
        assert float(found) == pytest.approx(prior * kept, abs=1e-9), without


# --- The gradient ----------------------------------------------------------------------------------------------------


def slope_by_difference(
    asked: fans.Explainer, block: InputBatch, settings: Any, climb: Relaxation, s: Tensor
) -> Tensor:
    """Central differences of the objective, all features of all inputs in one call."""
    n, n_features = s.shape
    step = 1e-6 * torch.eye(n_features, dtype=s.dtype)
    moved = torch.stack([s[:, None] + step, s[:, None] - step], 1)  # (n, 2, F, F)
    some = torch.arange(n).repeat_interleave(2 * n_features)
    values = Step(asked.task, block, settings, climb, some, moved.flatten(0, 2), 3).objective().view(n, 2, n_features)
    return (values[:, 0] - values[:, 1]) / 2e-6


@pytest.mark.parametrize("unit", ["pixel", "patch", "superpixel", "table"])
def test_the_slope_is_that_of_finite_differences(unit):
    asked, block = case(unit, baseline="background")
    s = 0.15 + 0.7 * random(2, asked.task.space.n_features, seed=2)
    grid = itertools.product(("strict", "paper"), (None, "SF", "NC", "SR"), ("target", "fall", "l2"))
    for g, without, change in grid:
        climb = how(relaxed_g=g, without=without)
        settings = replace(asked.settings, change=change)  # type: ignore[arg-type]
        with asked.task.predict.session():
            expected = slope_by_difference(asked, block, settings, climb, s)
            value, slope = Step(asked.task, block, settings, climb, torch.arange(2), s, 3).ascend()
            same = Step(asked.task, block, settings, climb, torch.arange(2), s, 3).objective()
        assert torch.equal(value, same)
        assert slope.dtype == s.dtype
        assert (slope - expected).norm() <= 1e-5 * expected.norm(), (g, without, change)
        steepest = (expected.abs() * block.pool.units.present).amax(1)
        assert (steepest.max() if change == "fall" else steepest.min()) > 1e-4  # nothing may lower an input's class


@pytest.mark.parametrize("settings", [{"kernel": "indicator"}, {"distance": "l2"}, {"scale": "paper"}, {"phi": 0.3}])
@pytest.mark.parametrize("baseline", ["mean", "uniform", "blur"])
def test_the_slope_is_right_for_other_kernels_distances_and_baselines(settings, baseline):
    asked, block = case("patch", baseline=baseline, **settings)
    s = 0.15 + 0.7 * random(2, asked.task.space.n_features, seed=2)
    with asked.task.predict.session():
        expected = slope_by_difference(asked, block, asked.settings, how(), s)
        _, slope = Step(asked.task, block, asked.settings, how(), torch.arange(2), s, 3).ascend()
    assert (slope - expected).norm() <= 1e-5 * expected.norm()


def test_absent_superpixels_have_no_slope_and_no_score():
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    x[1, :, :4] = 0
    space = Image("superpixel", n_segments=16, compactness=0.02)
    asked = explainer(Recorder(), BACKGROUND, space=space, baseline="mean")
    block = ready(asked, x)
    absent = ~block.pool.units.present
    assert absent.any()
    with asked.task.predict.session():
        s = torch.full((6, 16), 0.5)
        value, slope = Step(asked.task, block, asked.settings, how(), torch.arange(6), s, 0).ascend()
        other, _ = Step(
            asked.task, block, asked.settings, how(), torch.arange(6), s.masked_fill(absent, 0.9), 0
        ).ascend()
    assert torch.equal(value, other)
    assert not slope[absent].any()
    assert (slope[~absent] != 0).all()
    found = asked(x)
    assert not found.scores[absent.numpy()].any()
    assert (found.scores[~absent.numpy()] != 0).all()


# --- Binary subsets --------------------------------------------------------------------------------------------------


def relaxed_moments(step: Step, k: int, stage: str) -> Moments:
    """What each sample says of the step's subsets, when all of them are perturbed `k` times."""
    everything = torch.arange(step.block.pool.index.shape[1]).expand(len(step.some), -1)
    return step._moments(everything, step._change((everything, everything), k, stage))


@pytest.mark.parametrize("unit", ["pixel", "patch", "superpixel", "table"])
@pytest.mark.parametrize("kernel", ["gaussian", "indicator"])
@pytest.mark.parametrize("distance", ["rms", "l2"])
def test_at_binary_subsets_the_relaxed_estimate_is_the_strict_one(unit, kernel, distance, monkeypatch):
    """On the same draws; PN and PS where the indicator is hard."""
    radius = {"rms": 1.5, "l2": 3.0}[distance]  # so that a hard kernel holds some samples
    asked, block = case(
        unit, kernel=kernel, distance=distance, radius=radius, n_factual=3, n_perturb=3, baseline="background"
    )
    n_features, present = asked.task.space.n_features, block.pool.units.present.expand(2, -1)
    subsets = random(2, 7, n_features, seed=4) < 0.5
    subsets[:, 0], subsets[:, 1] = False, True
    subsets &= present[:, None]
    n = subsets.shape[1]
    some = torch.arange(2).repeat_interleave(n)
    s = subsets.flatten(0, 1).double()
    monkeypatch.setattr(_relaxed, "_changed", lambda change: (change > AROUND["tolerance"]).double())
    with asked.task.predict.session():
        trials = run_trials(asked.task, block, subsets, "climb/6", asked.settings)
        near = closeness(trials, block.radius[some], asked.settings)
        strict = moments(near, trials, block.tolerance[some], asked.settings)
        relaxed = relaxed_moments(Step(asked.task, block, asked.settings, how(), some, s, 6), 3, "climb/6")
    for name in ("near_subset", "near_rest", "unchanged_subset", "unchanged_rest", "p_changed", "p_unchanged"):
        assert torch.allclose(getattr(relaxed, name), getattr(strict, name), rtol=0, atol=1e-9), name
    found, expected = point(relaxed, asked.settings), point(strict, asked.settings)
    for name in ("p_ab", "p_nab", "pn", "ps", "pns"):
        given, wanted = getattr(found, name), getattr(expected, name)
        defined = ~wanted.isnan()
        assert defined.sum() >= len(wanted) - 2
        assert torch.allclose(given[defined], wanted[defined], rtol=0, atol=1e-9), name
    assert expected.ps[1::n].isnan().all()  # nothing is left outside


@pytest.mark.parametrize(("without", "share"), [("NC", 1.0), ("SF", 0.0)])
def test_what_is_undefined_counts_for_nothing(without, share):
    """PS where nothing is left outside, PN where nothing is inside."""
    asked, block = case("patch", baseline=0.0)
    climb, s = how(without=without), torch.full((2, 4), share, dtype=torch.float64)
    with asked.task.predict.session():
        value, slope = Step(asked.task, block, asked.settings, climb, torch.arange(2), s, 0).ascend()
    assert value.tolist() == [0.0, 0.0]
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("distance", ["rms", "l2"])
@pytest.mark.parametrize("kernel", ["gaussian", "indicator"])
@pytest.mark.parametrize("unit", ["table", "patch"])
def test_over_all_patterns_of_hits_the_relaxed_estimate_is_the_enumeration(unit, kernel, distance, monkeypatch):
    radius = {"rms": 1.5, "l2": 2.5}[distance]
    asked, block = case(unit, kernel=kernel, distance=distance, radius=radius, tolerance=0.1, baseline="mean")
    space = asked.task.space
    n_features = space.n_features
    every = 2**n_features

    def patterns(keys: Tensor, position: Tensor, n: int, phi: float) -> Tensor:
        assert (len(keys), n, phi) == (len(position), n_features, 0.5)
        return (position[:, None] % every >> torch.arange(n) & 1).bool()

    monkeypatch.setattr(draws, "bernoulli", patterns)
    subsets = random(5, n_features, seed=8) < 0.5
    subsets[0], subsets[1] = True, False
    monkeypatch.setattr(_relaxed, "_changed", lambda change: (change > 0.1).double())
    first = torch.zeros(5, dtype=torch.int64)
    with asked.task.predict.session():
        step = Step(asked.task, block, asked.settings, how(), first, subsets.double(), 0)
        m = relaxed_moments(step, every, "all")
    found = point(m, asked.settings)
    target = int(block.target[0])

    def model(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.softmax(asked.task.predict.model(space.for_module(torch.from_numpy(rows))), 1).numpy()

    samples = block.pool.samples()[0].numpy()
    assert isinstance(asked.task.baseline, Fixed)
    owner = block.pool.units.of_element[0].numpy()
    for j, subset in enumerate(subsets.tolist()):
        expected = oracles.exact_pns(
            *(model, samples[6], subset, samples, asked.task.baseline.row.numpy(), radius, 0.1),
            **{"kernel": kernel, "distance": distance, "target": target, "std": space.scale.numpy()},
            elements=[list(np.flatnonzero(owner == f)) for f in range(n_features)],
        )
        for name in ("p_ab", "p_nab", "pn", "ps", "pns"):
            if not np.isnan(expected[name]):
                assert float(getattr(found, name)[j]) == pytest.approx(expected[name], abs=1e-9), name


# --- Steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [0.5, 0.2, 0.98])
@pytest.mark.parametrize("max_batch", [40, 8192])
def test_the_climb_is_adam_from_a_neutral_start(init, max_batch):
    """Against torch's own optimiser on the same slopes; a share that did not move scores 0, one given up less.

    In double precision: Adam divides by the slope, so that of a tiny one it is the rounding that decides.
    """
    images = BACKGROUND[:9].double()
    asked = explainer(
        *(Recorder().double(), BACKGROUND.double()),
        **{"space": UNITS["patch"], "init": init, "n_steps": 6, "rate": 0.05, "max_batch": max_batch},
    )
    block = ready(asked, images)
    s = nn.Parameter(torch.full((9, asked.task.space.n_features), init, dtype=torch.float64))
    optimiser = torch.optim.Adam([s], lr=0.05, maximize=True)
    climb, values = Relaxation(n_steps=6, rate=0.05, init=init, relaxed_g="strict"), []
    with asked.task.predict.session():
        for number in range(6):
            step = Step(asked.task, block, asked.settings, climb, torch.arange(9), s.detach().clone(), number)
            value, s.grad = step.ascend()
            values.append(value)
            with torch.enable_grad():
                optimiser.step()
            s.data.clamp_(0, 1)
    found = asked(images)
    assert found.scores == pytest.approx((s.detach() - init).numpy(), abs=1e-4)
    assert history_of(found) == pytest.approx(torch.stack(values, 1).numpy(), abs=1e-5)
    assert (found.scores < 0).any()
    assert (found.scores > 0).any()
    if init == 0.98:
        assert (s == 1).any()  # the clamp was at work


def test_the_released_optimiser_is_that_of_torch():
    mask = (random(2, 5) - 0.5).double()
    expected = nn.Parameter(mask.clone())
    optimiser = torch.optim.Adam([expected], lr=0.001, weight_decay=0.1, amsgrad=True)
    kept = [torch.zeros_like(mask) for _ in range(3)]
    for step in range(20):
        slope = (random(2, 5, seed=step) - 0.5) * (5 if step < 3 else 0.1)  # so that the largest is not the latest
        mask = _released._amsgrad(mask, slope + _released.DECAY * mask, kept, step)
        expected.grad = slope
        optimiser.step()
    assert torch.allclose(mask, expected, rtol=0, atol=1e-12)


# --- Integrated Gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_batch", [1000, 64, 7])
@pytest.mark.parametrize("unit", ["pixel", "patch"])
def test_integrated_gradients_are_captums(unit, max_batch):
    captum = pytest.importorskip("captum.attr")
    model = smooth(2, 4, 4, seed=3)
    asked = explainer(model, random(10, 2, 4, 4), space=UNITS[unit], max_batch=max_batch)
    x = random(5, 2, 4, 4, seed=9)
    block = ready(asked, x)
    with asked.task.predict.session():
        found, n_rows = integrated_gradients(asked.task, block, n_steps=20)
    options: dict[str, Any] = {"target": block.target, "n_steps": 20, "method": "riemann_middle"}
    of_pixels = captum.IntegratedGradients(model).attribute(x, **options).sum(1).detach()
    expected = of_pixels if unit == "pixel" else of_pixels.view(5, 2, 2, 2, 2).sum((2, 4))
    assert torch.allclose(found, expected.flatten(1), rtol=0, atol=1e-7)
    assert n_rows.tolist() == [20] * 5


@pytest.mark.parametrize("target", [0, 1])
def test_integrated_gradients_of_a_single_logit_follow_the_explained_class(target):
    captum = pytest.importorskip("captum.attr")
    model = smooth(5, n_classes=1)
    x = random(3, 5, seed=9)
    asked = explainer(model, random(10, 5), init="ig", task="classification")
    block = replace(ready(asked, x), target=torch.full((3,), target))
    with asked.task.predict.session():
        found, _ = integrated_gradients(asked.task, block, n_steps=20)
    expected = captum.IntegratedGradients(model).attribute(x, n_steps=20, method="riemann_middle").detach()
    assert torch.allclose(found, expected if target else -expected, rtol=0, atol=1e-7)
    for settings in ({"init": "ig"}, {"preset": "released"}):
        asked = explainer(model, random(10, 5), output="probability", task="classification", **settings)
        assert np.isfinite(asked(x, target).scores).all()


# --- The same whatever the batch -------------------------------------------------------------------------------------


class Recorder(nn.Module):
    """A small float32 network on 8 by 8 images that keeps count of what it was fed."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(256, 3)
            )
        self.batches: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        self.batches.append(len(images))
        return 5 * self.layers(images)


BACKGROUND = random(20, 1, 8, 8).float()
IMAGES = random(64, 1, 8, 8, seed=5).float()


def on_images(**settings: Any) -> tuple[Recorder, fans.Explainer]:
    model = Recorder()
    return model, explainer(model, BACKGROUND, **{"space": Image("patch", patch=2), "max_batch": 512} | settings)


@pytest.mark.parametrize("tolerance", [0.05, None])
def test_the_same_heatmap_whatever_the_batch(tolerance):
    ids = [f"image {i}" for i in range(64)]
    _, asked = on_images(tolerance=tolerance)
    whole = asked(IMAGES, ids=ids)
    assert np.ptp(whole.heatmap) > 0.1
    for size, starts in ((7, range(0, 64, 7)), (1, range(0, 64, 8))):
        for start in starts:
            part = asked(IMAGES[start : start + size], ids=ids[start : start + size])
            assert part.heatmap == pytest.approx(whole.heatmap[start : start + size], abs=1e-5)
            assert history_of(part) == pytest.approx(history_of(whole)[start : start + size], abs=1e-5)


@pytest.mark.parametrize(
    "settings", [{}, {"n_factual": 1}, {"init": "ig"}, {"relaxed_g": "paper"}, {"preset": "released"}]
)
def test_the_same_heatmap_however_little_fits(settings, monkeypatch):
    """Where the rows of one input do not fit, activations are computed again on the way back."""
    monkeypatch.setattr(_released, "N_STEPS", 2)
    large = on_images(max_batch=8192, **settings)[1](IMAGES[:4])
    model, asked = on_images(max_batch=5, **settings)
    small = asked(IMAGES[:4])
    assert small.heatmap == pytest.approx(large.heatmap, abs=1e-5)
    assert history_of(small) == pytest.approx(history_of(large), abs=1e-5)
    assert max(model.batches) == 5
    for phase, rows in large.evaluations.items():
        assert np.array_equal(small.evaluations[phase], rows), phase


# --- What the model is asked -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{}, {"estimator": "resample"}, {"init": "ig"}, {"tolerance": "noise"},
     {"n_factual": 8, "n_perturb": 1},  # more rows in a block than fit, those of one input do
     {"preset": "released"}, {"relaxed_g": "paper"}],
)  # fmt: skip
def test_every_row_the_model_sees_is_reported_and_no_parameter_gets_a_gradient(settings, monkeypatch):
    monkeypatch.setattr(_released, "N_STEPS", 5)
    model = Recorder()
    frozen = next(model.parameters())
    frozen.requires_grad_(False)
    asked = explainer(model, BACKGROUND, space=Image("patch", patch=2), max_batch=170, **settings)
    found = asked(IMAGES[:12])
    assert sum(model.batches) == found.n_evaluations.sum() + found.evaluations["shared"]
    assert max(model.batches) <= 170
    for parameter in model.parameters():
        assert parameter.grad is None
        assert parameter.requires_grad == (parameter is not frozen)
    assert model.training
    per_step = 2 * (9 * settings.get("n_factual", 2) + 3 * settings.get("n_perturb", 2))
    extra = {"ig": 32}.get(settings.get("init"), 0)
    if "preset" not in settings:
        assert found.evaluations["scoring"].tolist() == [5 * per_step + extra] * 12


def test_what_is_computed_again_is_not_counted_twice():
    model, asked = on_images(max_batch=5)
    found = asked(IMAGES[:3])
    reported = found.n_evaluations.sum() + found.evaluations["shared"]
    assert max(model.batches) == 5
    assert found.evaluations["scoring"].tolist() == [5 * 48] * 3
    assert sum(model.batches) == reported + found.evaluations["scoring"].sum()


def test_parameters_are_as_before_after_an_error():
    model, asked = on_images()
    next(model.parameters()).data[:] = torch.nan
    with pytest.raises(fans.FansError, match="finite outputs"):
        asked(IMAGES[:2])
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_a_tolerance_of_nothing_is_survived():
    where = torch.zeros(8, 8)
    where[:2, :2] = 1  # most perturbations change nothing at all
    found = explainer(Blob(where), BACKGROUND, space=UNITS["patch"], tolerance=0.0)(IMAGES[:2])
    assert np.isfinite(history_of(found)).all()
    assert np.isfinite(found.scores).all()


# --- It finds the truth ----------------------------------------------------------------------------------------------


class Blob(nn.Module):
    """Two classes by the brightness of some pixels; no other matters."""

    def __init__(self, where: Tensor) -> None:
        super().__init__()
        self.where = where

    def forward(self, images: Tensor) -> Tensor:
        score = 12 * ((images * self.where).sum((1, 2, 3)) / self.where.sum() - 0.5)
        return torch.stack([-score, score], 1)


def tiled(n: int, seed: int) -> Tensor:
    """Images of 4 by 4 flat tiles, so that patches and superpixels can tell them apart."""
    return random(n, 1, 4, 4, seed=seed).float().repeat_interleave(2, 2).repeat_interleave(2, 3)


@pytest.mark.parametrize("unit", ["pixel", "patch", "superpixel"])
def test_the_pixels_that_decide_get_the_highest_scores(unit):
    where = torch.zeros(8, 8)
    where[2:6, 4:6] = 1
    asked = explainer(
        Blob(where),
        tiled(60, 0),
        space=UNITS[unit] if unit != "superpixel" else Image("superpixel", n_segments=16, compactness=0.1),
        **{"baseline": "uniform", "n_steps": 30, "rate": 0.01, "tolerance": 0.2, "n_factual": 2, "change": "fall"},
        **{"n_resample": 32, "n_perturb": 4, "n_background": 20, "n_local": 40, "radius": 1.0},
    )
    images = tiled(8, 3)
    images[:, :, 2:6, 4:6] = images[:, :, 2:6, 4:6] * 0.3 + torch.tensor([0.0, 0.7] * 4)[:, None, None, None]
    found = asked(images)
    flat, truth = found.heatmap.reshape(8, -1), where.numpy().ravel() > 0
    above = (flat[:, truth, None] > flat[:, None, ~truth]).mean()  # a half at random
    top = truth[np.argsort(-flat, 1, kind="stable")[:, :8]].mean()  # an eighth at random
    assert above > 0.98
    assert top > 0.9


# --- Presets ---------------------------------------------------------------------------------------------------------

PAPER: dict[str, Any] = {
    "solver": "relaxed",
    "relaxed_g": "paper",
    "rate": 0.001,
    "n_steps": 50,
    "estimator": "resample",
    "n_factual": 1,
    "n_perturb": 50,
    "n_resample": 1,
    "n_background": 50,
    "distance": "l2",
    "radius": "paper",
    "tolerance": "paper",
    "change": "l2",
    "closeness": "subset",
    "scale": "paper",
    "phi": 0.5,
}


def settings_of(asked: fans.Explainer) -> dict[str, Any]:
    return asked._plain_settings()


def test_the_papers_preset_on_images():
    asked = fans.Explainer(Recorder(), BACKGROUND, preset="paper")
    assert {k: settings_of(asked)[k] for k in PAPER} == PAPER
    assert set(PRESETS["paper"]) == {*PAPER, "output", "unit", "baseline"}
    assert asked.task.space.n_features == 64
    assert asked.task.baseline == Noise(float(BACKGROUND.min()), float(BACKGROUND.max()))
    assert asked.task.predict.kind == "output"
    assert not torch.allclose(asked.task.outputs.sum(1), torch.ones((), dtype=torch.float64))
    assert isinstance(asked.method, FANS)
    assert asked.method.preset == "paper"
    quick: dict[str, Any] = {"n_steps": 3, "n_perturb": 4, "n_sweep": 1, "init": 0.5}
    found = fans.Explainer(Recorder(), BACKGROUND, preset="paper", n_local=10, **quick)(IMAGES[:2])
    assert found.scores.shape == (2, 64)
    assert 0.001 < np.abs(found.scores).max() < 0.0033  # three steps of a thousandth
    assert found.radius == pytest.approx(1.06 * (20 + 10 + 1) ** (-1 / 68))
    assert found.kind == "output"


def test_the_user_overrides_the_preset():
    changed: dict[str, Any] = {
        **{"solver": "game", "relaxed_g": "strict", "rate": 0.2, "n_steps": 7, "estimator": "weighted"},
        **{"n_factual": 3, "n_perturb": 5, "n_resample": 6, "n_background": 9, "distance": "rms", "radius": 0.7},
        **{"tolerance": 0.1, "change": "target", "closeness": "subset", "scale": "unit", "phi": 0.25},
    }
    assert set(changed) == set(PAPER)
    for name, value in changed.items():
        asked = fans.Explainer(Recorder(), BACKGROUND, preset="paper", **{name: value})
        assert {k: settings_of(asked)[k] for k in PAPER} == PAPER | {name: value}
    other = fans.Explainer(
        Recorder(), BACKGROUND, preset="paper", space=Image("patch", patch=4), baseline=0.5, output="probability"
    )
    assert other.task.space.n_features == 4
    assert isinstance(other.task.baseline, Fixed)
    assert other.task.predict.kind == "probability"
    assert {k: settings_of(other)[k] for k in PAPER} == PAPER


def test_presets_on_a_table_leave_features_and_baseline_alone():
    plain = fans.Explainer(smooth(5), random(10, 5))
    for preset in ("paper", "released"):
        asked = fans.Explainer(smooth(5), random(10, 5), preset=preset)
        assert asked.task.space.feature_names == plain.task.space.feature_names
        assert type(asked.task.baseline) is type(plain.task.baseline)
        assert asked.task.predict.kind == "output"
        assert fans.Explainer(smooth(5), random(10, 5), preset=preset, n_perturb=3)(random(2, 5)).scores.shape == (2, 5)


def test_no_preset_is_allowed():
    assert settings_of(fans.Explainer(Recorder(), BACKGROUND, preset=None))["preset"] is None


# --- What the authors' code does -------------------------------------------------------------------------------------


def released(x: Tensor) -> Any:
    return fans.Explainer(Recorder(), BACKGROUND, preset="released", n_sweep=1)(x).scores


def test_the_released_mask_starts_as_integrated_gradients_and_moves_a_little(monkeypatch):
    captum = pytest.importorskip("captum.attr")
    asked = fans.Explainer(Recorder(), BACKGROUND, preset="released", n_sweep=1)
    assert asked.task.space.n_features == 64
    assert asked.task.predict.kind == "output"
    assert (asked.settings.change, asked.settings.phi) == ("l2", 0.5)
    after = asked(IMAGES[:3])
    assert history_of(after).shape == (3, 50)
    assert after.evaluations["scoring"].tolist() == [32 + 1 + 50 * 160] * 3
    monkeypatch.setattr(_released, "N_STEPS", 0)
    start = asked(IMAGES[:3]).scores
    model = Recorder().eval()
    options: dict[str, Any] = {"n_steps": 32, "method": "riemann_middle"}
    expected = captum.IntegratedGradients(model).attribute(IMAGES[:3], target=torch.from_numpy(after.target), **options)
    assert start == pytest.approx(expected.detach().flatten(1).numpy(), abs=1e-5)
    moved = np.abs(after.scores - start)
    assert 0.01 < moved.max() <= 0.06


def test_without_a_loss_the_released_mask_only_decays(monkeypatch):
    monkeypatch.setattr(_released, "N_STEPS", 0)
    start = torch.from_numpy(released(IMAGES[:3]))
    monkeypatch.undo()
    monkeypatch.setattr(_released, "_loss", lambda *given: 0 * given[3].sum(1))
    found = released(IMAGES[:3])
    expected = nn.Parameter(start.clone())
    optimiser = torch.optim.Adam([expected], lr=0.001, weight_decay=0.1, amsgrad=True)
    for _ in range(50):
        expected.grad = torch.zeros_like(start)
        optimiser.step()
    assert found == pytest.approx(expected.detach().numpy(), abs=1e-6)


def test_the_released_loss_by_hand():
    """One loop over masks and samples."""
    asked = fans.Explainer(Recorder(), BACKGROUND, preset="released")
    block = ready(asked, IMAGES[:2])
    x = IMAGES[:2].flatten(1)
    model = Recorder().eval()
    mask = (random(2, 64, seed=6) - 0.5).float()
    samples = _released._with_pepper(block, x)
    assert samples.shape == (2, 10, 64)
    with torch.no_grad(), asked.task.predict.session():
        found = _released._loss(asked.task, block, slice(0, 2), mask, samples, model(IMAGES[:2]).double(), 4)
        for i in range(2):
            assert torch.equal(samples[i, 0], x[i])
            assert all(torch.equal(samples[i, j], samples[i, 1]) for j in range(2, 10))
            emptied = samples[i, 1] != x[i]
            assert 0 < emptied.sum() < 20
            assert not samples[i, 1][emptied].any()
            before = model(IMAGES[i : i + 1])[0]
            u = draws.uniform(block.keys("released/4")[i], torch.arange(15 * 64)).view(15, 64)
            necessity, sufficiency = [], []
            for sample in samples[i]:
                for draw in u:
                    gate = torch.sigmoid(mask[i] + torch.logit(draw).float())
                    out = model((sample * (1 - gate)).view(1, 1, 8, 8))[0]
                    necessity.append(float(torch.exp(-(out - before).norm() / 100)))
                out = model((sample * torch.sigmoid(mask[i])).view(1, 1, 8, 8))[0]
                target = int(block.target[i])
                rival = max(float(v) for c, v in enumerate(out) if c != target)
                sufficiency.append(max(0.0, rival - float(out[target])))
            assert float(found[i]) == pytest.approx(np.mean(necessity) + np.mean(sufficiency), abs=1e-4)


# --- Which solver, and what it draws ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "background", "settings", "solver"),
    [
        (Recorder(), BACKGROUND, {}, "chain"),
        (Recorder(), BACKGROUND, {"preset": "paper"}, "relaxed"),
        (Recorder(), BACKGROUND, {"change": "label"}, "game"),
        (Recorder(), BACKGROUND, {"solver": "game"}, "game"),
        (lambda rows: rows.mean((1, 2, 3)), BACKGROUND, {}, "game"),
        (torch.nn.Linear(4, 2), np.eye(4), {}, "chain"),
    ],
)
def test_modules_climb_by_default(model, background, settings, solver):
    assert settings_of(fans.Explainer(model, background, **settings))["solver"] == solver


def test_a_fine_grid_is_hit_in_blocks_at_random_offsets():
    """Each perturbation hits whole 2x2 blocks of one offset, each with probability phi; or, if asked, single cells."""
    background = np.random.default_rng(0).random((4, 1, 16, 16))
    asked = fans.Explainer(torch.nn.Flatten(), background, output="raw", space=Image("pixel"))
    keys, n = draws.stream_keys(0, [5], "hits"), 4000
    offsets = set()
    blocks, single = (
        draw_features(asked.task, keys.expand(n), torch.arange(n), 0.8, blocks=in_blocks).view(n, 16, 16)
        for in_blocks in (True, False)
    )
    for hit in blocks[:200]:
        fits = [
            (down, right)
            for down in (0, 1)
            for right in (0, 1)
            if all(
                hit[max(2 * i - down, 0) : 2 * i - down + 2, max(2 * j - right, 0) : 2 * j - right + 2].float().std(
                    correction=0
                ) == 0
                for i in range(9)
                for j in range(9)
                if 2 * i - down < 16 and 2 * j - right < 16
            )
        ]  # fmt: skip
        assert fits
        if len(fits) == 1:
            offsets.add(fits[0])
    assert offsets == {(0, 0), (0, 1), (1, 0), (1, 1)}
    for hit in (blocks, single):
        assert hit.float().mean((1, 2)).mean() == pytest.approx(0.8, abs=0.01)
        assert hit.float().mean(0).numpy() == pytest.approx(np.full((16, 16), 0.8), abs=0.035)
    assert (single[:, 0, 0] == single[:, 0, 1]).float().mean() == pytest.approx(0.68, abs=0.03)  # 0.8^2 + 0.2^2
    assert (blocks[:, 0, 0] == blocks[:, 0, 1]).float().mean() == pytest.approx(0.84, abs=0.03)  # one offset in two


def test_the_relaxation_asks_for_the_papers_closeness():
    with pytest.raises(fans.InputError, match='closeness="subset" for solver="relaxed", which is the paper'):
        fans.Explainer(Recorder(), BACKGROUND, solver="relaxed")
    with pytest.raises(fans.FansError, match='a torch module for solver="relaxed", got function'):
        fans.Explainer(lambda rows: rows.mean((1, 2, 3)), BACKGROUND, preset="paper")
