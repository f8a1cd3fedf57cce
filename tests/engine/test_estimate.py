"""The strict quantities against slow enumeration, hand-computed values and populations."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import fans
from fans.engine import draws
from fans.engine.equations import moved, perturb, quantile, wilson
from tests import oracles

MEASURES = ("pns", "pn", "ps", "p_ab", "p_nab", "changes", "holds", "ess_nc", "ess_sf")

ENUMERATION: dict[str, Any] = {"input": oracles.exact_joint_pns, "subset": oracles.exact_pns}
POPULATION: dict[str, Any] = {"input": oracles.population_joint_pns, "subset": oracles.population_pns}
READINGS = pytest.mark.parametrize("closeness", ["input", "subset"])


def random_model(rng: np.random.Generator, n_features: int, n_outputs: int):
    """A smooth random function with interactions; class probabilities if it has several outputs."""
    first, second = rng.normal(size=(n_features, 8)), rng.normal(size=(8, n_outputs))

    def f(rows: np.ndarray) -> np.ndarray:
        out = np.tanh(rows @ first) @ second
        if n_outputs == 1:
            return out[:, 0]
        e = np.exp(out - out.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return f


def assert_equal(found: fans.PNS, expected: dict[str, float], i: int = 0) -> None:
    for name in MEASURES:
        value = getattr(found, name)[i]
        assert math.isnan(value) == math.isnan(expected[name]), name
        assert math.isnan(value) or abs(value - expected[name]) < 1e-9, name


@pytest.mark.parametrize("n_features", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    ("kernel", "distance", "change", "phi"),
    [
        ("gaussian", "rms", "target", 0.5),
        ("gaussian", "l2", "l2", 0.3),
        ("indicator", "rms", "label", 0.5),
        ("indicator", "l2", "target", 0.8),
        ("gaussian", "rms", "fall", 0.5),
        ("indicator", "l2", "fall", 0.3),
        ("gaussian", "rms", "target", 1),
        ("indicator", "rms", "label", 1.0),
        ("gaussian", "l2", "label", 0.8),
        ("indicator", "rms", "l2", 0.5),
    ],
)
@READINGS
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_exact_equals_enumeration(n_features, kernel, distance, change, phi, closeness):
    rng = np.random.default_rng(n_features)
    f = random_model(rng, n_features, 3)
    background, x, baseline = rng.normal(size=(9, n_features)), rng.normal(size=n_features), rng.normal(size=n_features)
    background[:, 0] = 1.5  # a constant column counts as scale 1
    background[:4] += 0.7 * (x - background[:4])  # some within any radius
    subset = rng.random(n_features) < 0.5
    for chosen in (subset, ~subset, np.ones(n_features, bool), np.zeros(n_features, bool)):
        found = fans.pns(
            f, x, chosen, background=background, baseline=baseline, radius=1.3, tolerance=0.2, kernel=kernel,
            distance=distance, change=change, target=1, phi=phi, estimator="exact", closeness=closeness,
        )  # fmt: skip
        expected = ENUMERATION[closeness](
            f, x, chosen, background, baseline, 1.3, 0.2, kernel=kernel, distance=distance, change=change, target=1,
            phi=phi,
        )  # fmt: skip
        assert_equal(found, expected)


@pytest.mark.parametrize(("closeness", "scale"), [("input", None), ("input", "joint"), ("subset", "paper")])
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_exact_on_a_batch_of_a_regressor_with_own_radii_and_scales(closeness, scale):
    rng = np.random.default_rng(0)
    f = random_model(rng, 4, 1)
    background, x = rng.normal(size=(12, 4)), rng.normal(size=(3, 4))
    subsets = np.array([[True, False, False, True], [False, True, True, False], [True, True, True, False]])
    radius, tolerance = np.array([0.9, 1.0, 2.0]), np.array([0.1, 0.0, 0.5])
    found = fans.pns(
        f, x, subsets, background=background, baseline=0.5, radius=radius, tolerance=tolerance, estimator="exact",
        closeness=closeness, scale=scale, max_batch=7,
    )  # fmt: skip
    paper = {"scale": 1.0} if scale == "paper" else {}
    for i in range(3):
        expected = ENUMERATION[closeness](
            f, x[i], subsets[i], background, np.full(4, 0.5), radius[i], tolerance[i], **paper
        )
        assert_equal(found, expected, i)


def test_the_papers_reading_computed_by_hand():
    """f = x1 AND x2 on the four binary rows, x = (1, 1), baseline 0, s = {x1}, hard kernels, b = 0.5 (l2), c = 0.5.

    Perturbing x1 changes f only on (1,1), half the time; perturbing x2 likewise.
    w_NC: rows with x1 = 1: (1,0) -> 0, (1,1) -> 1/2.   P(A,B) = (1/2)/4 = 1/8.   PN = P(unchanged by x2 | (1,1)) = 1/2.
    w_SF: rows with x2 = 1: (0,1) -> 1, (1,1) -> 1/2.   P(not-A,not-B) = (3/2)/4 = 3/8.
    PS = (1 * 0 + 1/2 * 1/2) / (3/2) = 1/6.             PNS = 1/2 (1/2 * 1/8 + 1/6 * 3/8) = 1/16.
    """
    with pytest.warns(fans.FansWarning, match="1.0 of 4"):
        found = fans.pns(
            lambda rows: rows[:, 0] * rows[:, 1], [1.0, 1.0], [True, False],
            background=np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), baseline=0, radius=0.5, tolerance=0.5,
            kernel="indicator", distance="l2", estimator="exact", closeness="subset",
        )  # fmt: skip
    expected = {"p_ab": 1 / 8, "pn": 1 / 2, "p_nab": 3 / 8, "ps": 1 / 6, "pns": 1 / 16}
    for name, value in expected.items():
        assert getattr(found, name)[0] == pytest.approx(value, abs=1e-12)


FOUR = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])


def test_the_joint_pns_computed_by_hand():
    """f = x1 AND x2 on the four binary rows, x = (1, 1), baseline 0, s = {x1}, b = 1 (l2, hard), c = 0.5, phi = 1/2.

    (0,0) is too far away; of the other three, perturbing x1 changes f on (1,1) alone, half the time, and so does x2.
    changes = (0 + 0 + 1/2) / 3 = 1/6.   holds = (1 + 1 + 1/2) / 3 = 5/6.   PNS = (0 + 0 + 1/2 * 1/2) / 3 = 1/12.
    PN = PNS / changes = 1/2.            PS = PNS / holds = 1/10.
    """
    with pytest.warns(fans.FansWarning, match="3.0 of 4"):
        found = fans.pns(
            lambda rows: rows[:, 0] * rows[:, 1], [1.0, 1.0], [True, False], background=FOUR, baseline=0, radius=1,
            tolerance=0.5, kernel="indicator", distance="l2", estimator="exact",
        )  # fmt: skip
    expected = {"changes": 1 / 6, "p_ab": 1 / 6, "holds": 5 / 6, "p_nab": 5 / 6, "pns": 1 / 12, "pn": 1 / 2, "ps": 0.1}
    for name, value in expected.items():
        assert getattr(found, name)[0] == pytest.approx(value, abs=1e-12)


def test_the_joint_pns_with_soft_closeness_computed_by_hand():
    """The same f with phi = 1, c = 0.5, Gaussian closeness, b = 1: k = e^-1, e^-1/2, e^-1/2, 1 by their distances.

    Perturbing x1 changes f on (1,1) alone and always, and so does x2: PNS = changes * 0 = 0. s = both: PNS = changes.
    """
    k = np.exp([-1.0, -0.5, -0.5, 0.0])
    settings: dict[str, Any] = {
        "background": FOUR, "baseline": 0, "radius": 1, "tolerance": 0.5, "distance": "l2", "phi": 1,
    }  # fmt: skip
    f = lambda rows: rows[:, 0] * rows[:, 1]
    with pytest.warns(fans.FansWarning, match="of 4"):
        one, both, none = (
            fans.pns(f, [1.0, 1.0], s, **settings) for s in ([True, False], [True, True], [False, False])
        )
    assert (one.pns[0], one.pn[0], one.ps[0]) == (0.0, 0.0, 0.0)
    assert one.changes[0] == pytest.approx(1 / k.sum(), abs=1e-12)
    assert one.holds[0] == pytest.approx(k[:3].sum() / k.sum(), abs=1e-12)
    assert (both.holds[0], both.pn[0]) == (1.0, 1.0)
    assert both.pns[0] == both.changes[0] == pytest.approx(1 / k.sum(), abs=1e-12)
    assert (none.pns[0], none.changes[0]) == (0.0, 0.0)
    assert math.isnan(none.pn[0])
    assert none.notes[0] == "PN is undefined: the subset is empty"


@pytest.mark.parametrize("estimator", ["exact", "weighted", "resample"])
@pytest.mark.parametrize("phi", [0.5, 1.0])
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_the_joint_pns_is_a_probability_and_below_both_of_its_parts(estimator, phi):
    """Also of everything: it holds always, PNS is how often it changes, and of nothing: 0."""
    rng = np.random.default_rng(1)
    f, background, x = random_model(rng, 5, 3), rng.normal(size=(20, 5)), rng.normal(size=(12, 5))
    subsets = rng.random((12, 5)) < 0.5
    subsets[0], subsets[1] = True, False
    found = fans.pns(f, x, subsets, background=background, baseline=0.0, estimator=estimator, phi=phi, n_resample=20)
    for values in (found.pns, found.changes, found.holds):
        assert ((values >= 0) & (values <= 1)).all()
    assert (found.holds[0], found.pn[0]) == (1.0, 1.0)
    assert (found.pns[1], found.changes[1]) == (0.0, 0.0)
    assert math.isnan(found.pn[1])
    assert tuple(found.interval[1, 0]) == (0.0, 0.0)
    if estimator != "resample":  # which draws its own trials for PN and PS
        assert (found.pns <= np.minimum(found.changes, found.holds) + 1e-12).all()
        assert found.pns[0] == pytest.approx(found.changes[0], abs=1e-12)
        assert found.pns == pytest.approx(np.nan_to_num(found.pn) * found.changes, abs=1e-12)
        assert found.pns == pytest.approx(np.nan_to_num(found.ps) * found.holds, abs=1e-12)
    low, high = np.moveaxis(found.interval[:, 0], -1, 0)
    assert ((low >= 0) & (low <= found.pns + 1e-12) & (found.pns <= high + 1e-12) & (high <= 1)).all()


@pytest.mark.parametrize(
    ("baseline", "settings"),
    [
        (0.0, {"phi": 0.5}),
        (0.0, {"phi": 1}),
        (0.0, {"phi": 0.5, "estimator": "exact"}),
        ("background", {"phi": 0.5}),
        ("background", {"phi": 1}),
    ],
)
def test_a_feature_that_the_model_does_not_read_moves_the_joint_pns_not_at_all(baseline, settings):
    """Whether it is in the subset or not. In the paper's reading it counts: closeness is measured on it."""
    background = np.random.default_rng(2).normal(size=(60, 6))  # smooth reads four columns of six
    x = np.append(X, [0.4, -2.0])
    f = lambda rows: smooth(rows[:, :4])
    members = ([True, True, False, False, *extra] for extra in itertools.product([False, True], repeat=2))
    found = [
        fans.pns(f, x, s, background=background, baseline=baseline, **settings) for s in members
    ]  # fmt: skip
    close = 1e-12 if "estimator" in settings else 0.0  # patterns are added up in another order
    for other in found[1:]:
        for name in ("pns", "pn", "ps", "changes", "holds"):
            assert getattr(other, name) == pytest.approx(getattr(found[0], name), rel=0, abs=close)
        assert other.interval == pytest.approx(found[0].interval, abs=1e-9)
    plain, larger = (
        fans.pns(f, x, s, background=background, baseline=baseline, closeness="subset", **settings).pns[0]
        for s in ([True, True, False, False, False, False], [True, True, False, False, False, True])
    )
    assert abs(plain - larger) > 1e-3


@READINGS
def test_what_was_used_is_printed(closeness):
    background = np.random.default_rng(3).normal(size=(40, 4))
    found = fans.pns(smooth, X, SUBSET, background=background, radius=0.75, tolerance=0.125, closeness=closeness)
    text = str(found)
    assert text.endswith("(tolerance 0.125, radius 0.75, phi 0.5)")
    assert text.startswith(f"PNS {found.pns[0]:.3f} [{found.interval[0, 0, 0]:.2f}, {found.interval[0, 0, 1]:.2f}]")
    assert f"changes {found.changes[0]:.2f}  holds {found.holds[0]:.2f}  PN {found.pn[0]:.3f}" in text
    batch = fans.pns(smooth, [X, X], SUBSET, background=background, radius=[0.75, 2], closeness=closeness, phi=1)
    first, second = str(batch).splitlines()
    spread = 0.1 * smooth(background).std()
    assert first.endswith(f"(tolerance {spread:.3g}, radius 0.75, phi 1)")
    assert second.endswith(f"(tolerance {spread:.3g}, radius 2, phi 1)")


@pytest.mark.parametrize(
    ("closeness", "scale", "message"),
    [
        ("input", "unit", "Expected `scale` with closeness=\"input\" to be one of 'joint', got 'unit'"),
        ("input", "paper", "Expected `scale` with closeness=\"input\" to be one of 'joint', got 'paper'"),
        ("subset", "joint", "Expected `scale` with closeness=\"subset\" to be one of 'unit', 'paper', got 'joint'"),
        ("all", None, "Expected `closeness` to be one of 'input', 'subset', got 'all'"),
        (None, None, "Expected `closeness` to be one of 'input', 'subset', got None"),
    ],
)
def test_a_scale_belongs_to_a_closeness(closeness, scale, message):
    with pytest.raises(fans.InputError, match=message):
        fans.pns(smooth, X, SUBSET, background=FOUR, closeness=closeness, scale=scale)


@READINGS
def test_the_default_scale_is_that_of_the_closeness(closeness):
    background = np.random.default_rng(3).normal(size=(40, 4))
    by_name: dict[str, Any] = {"input": "joint", "subset": "unit"}
    settings: dict[str, Any] = {"background": background, "radius": 1.0, "closeness": closeness}
    named, unnamed = (fans.pns(smooth, X, SUBSET, scale=s, **settings) for s in (by_name[closeness], None))
    assert named.pns == unnamed.pns
    if closeness == "subset":
        paper = fans.pns(smooth, X, SUBSET, scale="paper", **settings)
        assert paper.pns == pytest.approx(2 * unnamed.pns)
    else:
        assert fans.pns(smooth, X, SUBSET, background=background, radius=1.0).pns == unnamed.pns


def test_far_from_every_sample_the_nearest_count():
    """exp(-d^2 / 2 b^2) of all samples underflows, their shares do not."""
    background = np.array([[3.0, 0.0], [5.0, 0.0], [5.0, 1.0]])
    f = lambda rows: rows[:, 0]
    with pytest.warns(fans.FansWarning, match="1.0 of 3"):
        found = fans.pns(f, [-90.0, 0.0], [True, False], background=background, baseline=3.0, radius=0.1, tolerance=0.5)
    assert (found.changes[0], found.holds[0], found.pns[0]) == pytest.approx((0.0, 1.0, 0.0))


def test_no_sample_within_the_radius_is_undefined_and_says_so():
    found = fans.pns(
        smooth, X + 9, SUBSET, background=np.random.default_rng(3).normal(size=(40, 4)), baseline=0.0, radius=0.1,
        tolerance=0.1, kernel="indicator",
    )  # fmt: skip
    for values in (found.pns, found.pn, found.ps, found.changes, found.holds):
        assert math.isnan(values[0])
    assert found.notes[0] == "PNS is undefined: no reference sample is within the radius"
    assert str(found).startswith("PNS undefined")


WEIGHTS = np.array([1.5, -1.0, 0.8, 0.4])
X = np.array([0.5, -0.3, 0.4, 0.2])
SUBSET = np.array([True, True, False, False])


def smooth(rows: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(rows @ WEIGHTS + rows[:, 0] * rows[:, 1])))


def ask(background: np.ndarray, **settings) -> fans.PNS:
    return fans.pns(smooth, X, SUBSET, background=background, radius=0.7, tolerance=0.1, **settings)


@READINGS
@pytest.mark.parametrize(
    ("few", "many"),
    [
        ({"n_factual": 8, "n_perturb": 8}, {"n_factual": 128, "n_perturb": 128}),
        (
            {"estimator": "resample", "n_factual": 256, "n_perturb": 4, "n_resample": 50},
            {"estimator": "resample", "n_factual": 256, "n_perturb": 4, "n_resample": 800},
        ),
    ],
    ids=["weighted", "resample"],
)
def test_estimators_converge_to_exact_as_one_over_root_n(few, many, closeness):
    background = np.random.default_rng(3).normal(size=(40, 4))
    if closeness == "input" and "estimator" in few:  # whose weights come from the trials that the weighted one counts
        few, many = few | {"n_factual": 1000}, many | {"n_factual": 1000}
    shared: dict[str, Any] = {"baseline": 0.0, "closeness": closeness}
    exact = ask(background, estimator="exact", **shared).pns[0]

    def error(settings) -> float:
        found = [ask(background, seed=seed, **shared, **settings).pns[0] - exact for seed in range(60)]
        return float(np.sqrt(np.mean(np.square(found))))

    ratio = error(few) / error(many)  # sixteen times the draws: a quarter of the error
    assert 2.6 < ratio < 6.0
    assert error(many) < 0.02 * exact + 0.01


@pytest.mark.parametrize("baseline", [0.0, "background"])
@pytest.mark.parametrize("estimator", ["weighted", "resample"])
@READINGS
def test_intervals_cover_the_population_value(baseline, estimator, closeness):
    truth = POPULATION[closeness](
        smooth, X, SUBSET, 0.7, 0.1, baseline=None if baseline == "background" else 0.0
    )  # (3,): pns, pn, ps
    settings: dict[str, Any] = {"baseline": baseline, "estimator": estimator, "closeness": closeness}
    inside = np.zeros(3)
    for repetition in range(500):
        background = np.random.default_rng([7, repetition]).normal(size=(100, 4))
        found = ask(background, seed=repetition, n_factual=16, n_perturb=16, **settings)
        low, high = found.interval[0].T
        inside += (low <= truth) & (truth <= high)
    assert (inside / 500 >= 0.92).all(), inside / 500
    assert (inside / 500 <= 0.98).all(), inside / 500


@READINGS
def test_standard_errors_equal_the_spread_over_repetitions(closeness):
    settings: dict[str, Any] = {"baseline": "background", "n_factual": 8, "n_perturb": 8, "closeness": closeness}
    found = [ask(np.random.default_rng([8, r]).normal(size=(150, 4)), seed=r, **settings) for r in range(300)]
    values = np.array([[p.pns[0], p.pn[0], p.ps[0]] for p in found])
    errors = np.sqrt(np.mean([p.se[0] ** 2 for p in found], axis=0))
    assert values.std(axis=0) / errors == pytest.approx(np.ones(3), abs=0.12)


@READINGS
def test_the_delta_method_agrees_with_the_jackknife(closeness):
    """Leaving out one background row at a time, scales recomputed, is an oracle for the variance (fixed baseline)."""
    background = np.random.default_rng(5).normal(size=(60, 4)) * np.array([1.0, 2.0, 0.5, 1.0])
    found = ask(background, baseline=0.0, estimator="exact", closeness=closeness)
    left_out = []
    for i in range(len(background)):
        rest = np.delete(background, i, axis=0)
        e = ENUMERATION[closeness](smooth, X, SUBSET, rest, np.zeros(4), 0.7, 0.1)
        left_out.append([e["pns"], e["pn"], e["ps"]])
    n = len(background)
    jackknife = np.sqrt((n - 1) / n * np.square(left_out - np.mean(left_out, axis=0)).sum(axis=0))
    assert found.se[0] == pytest.approx(jackknife, rel=0.06)


@pytest.mark.parametrize(("closeness", "search"), [("subset", True), ("input", True), ("input", False)])
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_the_paper_example_1(closeness, search):
    """h = I(x1 - x2 > 1) at (1, 1, 1) against 0: Shapley values and gradients give x1 and x3 the same 0."""
    h = lambda rows: (rows[:, 0] - rows[:, 1] > 1).astype(float)
    x, zero = np.ones(3), np.zeros(3)
    values = oracles.shapley(h, x, zero)
    assert values[0] == values[2] == 0.0
    step = 1e-4 * np.eye(3)
    assert (h(x + step) - h(x - step) == 0).all()

    background = np.random.default_rng(0).normal(0, 1.5, (200, 3))
    found: dict[str, dict[tuple[int, ...], float]] = {"exact": {}, "weighted": {}}
    for size in (1, 2, 3):
        for members in itertools.combinations(range(3), size):
            subset = np.isin(np.arange(3), members)
            for estimator, of in found.items():
                settings: dict[str, Any] = {"estimator": estimator, "closeness": closeness, "search": search}
                of[members] = fans.pns(h, x, subset, background=background, baseline=0, **settings).pns[0]
    for of in found.values():
        assert of[(2,)] == 0.0
        assert of[(0,)] > 0.05
        assert of[(1,)] > 0.05
        assert max(of, key=lambda m: of[m]) == (0, 1)  # of the first: x3 adds nothing


def test_the_paper_example_2():
    """One feature: nothing is left to perturb, PN = 1 and the score is P(A,B); half of it on the unit scale."""
    y = lambda rows: 1 / (1 + np.exp(-(rows[:, 0] ** 2)))
    background = np.random.default_rng(1).normal(0, 1, (300, 1))
    settings: dict[str, Any] = {
        "background": background,
        "baseline": 0,
        "radius": 0.5,
        "tolerance": 0.1,
        "estimator": "exact",
        "closeness": "subset",
    }
    unit, paper = (fans.pns(y, [0.2], [True], scale=scale, **settings) for scale in ("unit", "paper"))
    z = (background[:, 0] - 0.2) / background.std()
    soft = np.exp(-(np.abs(y(background) - 0.5) ** 2) / (2 * 0.1**2))  # perturbed: sigma(0) = 1/2
    p_ab = (np.exp(-(z**2) / (2 * 0.5**2)) * (1 - (0.5 + 0.5 * soft))).mean()
    for found in (unit, paper):
        assert found.pn[0] == 1.0
        assert tuple(found.interval[0, 1]) == (1.0, 1.0)
        assert math.isnan(found.ps[0])
        assert found.p_nab[0] == 0.0
        assert found.p_ab[0] == pytest.approx(p_ab, abs=1e-12)
    assert paper.pns[0] == pytest.approx(p_ab, abs=1e-12)
    assert unit.pns[0] == pytest.approx(p_ab / 2, abs=1e-12)
    assert "nothing is left" in unit.notes[0]
    joint = fans.pns(y, [0.2], [True], **settings | {"closeness": "input"})
    near = np.exp(-(z**2) / (2 * 0.5**2))
    changes = (near * 0.5 * (np.abs(y(background) - 0.5) > 0.1)).sum() / near.sum()  # hit half of the time
    assert joint.pns[0] == joint.changes[0] == pytest.approx(changes, abs=1e-12)
    assert joint.ps[0] == pytest.approx(changes, abs=1e-12)
    assert (joint.pn[0], joint.holds[0]) == (1.0, 1.0)


def test_no_sample_with_weight_gives_nan_with_the_reason_never_a_half():
    found = fans.pns(
        lambda rows: rows[:, 0], np.zeros(2), [False, True], background=np.random.default_rng(0).normal(size=(30, 2)),
        baseline=0, radius=5.0, tolerance=0.0, kernel="indicator",
    )  # fmt: skip
    assert math.isnan(found.pn[0])
    assert found.p_ab[0] == 0.0
    assert "changed no nearby sample" in found.notes[0]
    assert found.pns[0] == 0.0


@READINGS
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_search_reports_a_maximiser_on_the_grid_and_estimates_it_anew(closeness):
    background = np.random.default_rng(2).normal(size=(80, 4))
    settings: dict[str, Any] = {
        "background": background, "baseline": 0.0, "estimator": "exact", "closeness": closeness,
    }  # fmt: skip
    given = fans.pns(smooth, X, SUBSET, **settings)
    best = fans.pns(smooth, X, SUBSET, search=True, **settings)
    again = fans.pns(smooth, X, SUBSET, radius=best.radius, tolerance=best.tolerance, **settings)
    assert best.pns[0] > given.pns[0]
    assert best.pns[0] == pytest.approx(again.pns[0], abs=1e-12)
    for b, c in itertools.product((0.5, 1.0, 2.0), (0.5, 1.0, 2.0)):
        other = fans.pns(smooth, X, SUBSET, radius=given.radius * b, tolerance=given.tolerance * c, **settings)
        assert other.pns[0] <= best.pns[0] + 1e-12


@READINGS
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_the_searched_estimate_is_not_flattered_by_the_search(closeness):
    """On draws that chose (b, c) the maximum is biased upwards; the reported one comes from fresh draws."""
    background = np.random.default_rng(2).normal(size=(30, 4))
    settings: dict[str, Any] = {
        "background": background,
        "baseline": 0.0,
        "search": True,
        "n_factual": 1,
        "n_perturb": 1,
        "closeness": closeness,
    }
    gaps = []
    for seed in range(80):
        found = fans.pns(smooth, X, SUBSET, seed=seed, **settings)
        e = ENUMERATION[closeness](smooth, X, SUBSET, background, np.zeros(4), found.radius[0], found.tolerance[0])
        gaps.append(found.pns[0] - e["pns"])
    assert abs(np.mean(gaps)) < 2.6 * np.std(gaps) / math.sqrt(len(gaps))


@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_heuristics_equal_their_formulas():
    rng = np.random.default_rng(4)
    background = rng.normal(size=(200, 4)) * np.array([1.0, 3.0, 0.2, 1.0])
    x = background.mean(axis=0)
    common: dict[str, Any] = {"background": background, "baseline": 0.0, "n_factual": 1, "n_perturb": 1}
    ask_for = lambda **s: fans.pns(smooth, x, SUBSET, **common, **s)
    assert ask_for(radius="scott").radius[0] == pytest.approx(1.06 * 200 ** (-1 / 5))
    assert ask_for(radius="paper").radius[0] == pytest.approx(1.06 * 200 ** (-1 / 8))
    d2 = (((background - x) / background.std(axis=0)) ** 2).mean(axis=1)
    size = lambda b: np.exp(-d2 / (2 * b**2)).sum() ** 2 / np.exp(-d2 / b**2).sum()
    assert size(ask_for(radius="ess").radius[0]) == pytest.approx(40, rel=1e-3)
    far = fans.pns(smooth, x + 6 * background.std(axis=0), SUBSET, tolerance=0.1, **common)
    d2 = (((background - x) / background.std(axis=0) - 6) ** 2).mean(axis=1)
    assert far.radius[0] > 1.06 * 200 ** (-1 / 5)
    assert size(far.radius[0]) == pytest.approx(10, rel=1e-3)


def test_the_noise_tolerance_is_the_largest_change_under_small_noise():
    """For a linear f the change is |w . e|, so its maximum over n * 16 normal draws is known in distribution."""
    background = np.random.default_rng(0).normal(size=(100, 3)) * np.array([1.0, 5.0, 0.1])
    weights = np.array([1.0, -2.0, 3.0])
    model = lambda rows: rows @ weights
    deviation = 0.001 * np.sqrt(((weights * background.std(axis=0)) ** 2).sum())
    ask_for = lambda **s: fans.pns(model, background[0], [True, False, False], background=background, baseline=0.0,
                                   radius=3.0, n_factual=1, n_perturb=1, **s).tolerance[0]  # fmt: skip
    maxima = np.array([ask_for(tolerance="noise", seed=seed) for seed in range(40)]) / deviation
    expected = np.abs(np.random.default_rng(1).normal(size=(2000, 1600))).max(axis=1)
    assert maxima.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / math.sqrt(40))
    plain = ask_for(tolerance="paper") / (0.001 * np.linalg.norm(weights))
    assert expected.min() < plain < expected.max()


@READINGS
def test_a_step_function_has_a_noise_tolerance_of_zero_and_an_exact_kernel(closeness):
    rng = np.random.default_rng(0)
    background = rng.integers(0, 5, size=(50, 3)).astype(float)
    step = lambda rows: (rows[:, 0] > 2.5).astype(float)
    found = fans.pns(step, background[0], [True, False, False], background=background, baseline=0.0, radius=2.0,
                     tolerance="noise", estimator="exact", closeness=closeness)  # fmt: skip
    assert found.tolerance[0] == 0.0
    expected = ENUMERATION[closeness](step, background[0], [True, False, False], background, np.zeros(3), 2.0, 0.0)
    assert_equal(found, expected)


@pytest.mark.parametrize("tolerance", [None, "noise", "paper"])
def test_the_label_change_uses_a_tolerance_of_a_half(tolerance):
    f = random_model(np.random.default_rng(0), 3, 3)
    background = np.random.default_rng(1).normal(size=(40, 3))
    found = fans.pns(f, background[0], [True, True, False], background=background, baseline=0.0, radius=2.0,
                     change="label", estimator="exact", tolerance=tolerance)  # fmt: skip
    assert found.tolerance[0] == 0.5


@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_the_default_tolerance_is_a_tenth_of_probability_or_of_the_outputs_deviation():
    """By hand: the population's standard deviation of the explained output over the background."""
    background = np.random.default_rng(1).normal(size=(40, 3)) * [1.0, 20.0, 1.0]
    network = torch.nn.Linear(3, 3).double()
    logits = network(torch.tensor(background)).detach().numpy()
    classes = random_model(np.random.default_rng(0), 3, 3)

    def used(model: Any, **settings: Any) -> Any:
        found = fans.pns(model, background[:2], [True, False, False], background=background, baseline=0.0, radius=2.0,
                         n_factual=1, n_perturb=1, **settings)  # fmt: skip
        return found.tolerance

    for model in (network, classes):
        for change in ("target", "fall", "l2"):
            assert used(model, change=change).tolist() == [0.1, 0.1]
    linear = lambda rows: rows @ np.array([1.0, -2.0, 3.0])
    assert used(linear) == pytest.approx(0.1 * linear(background).std())
    assert used(linear, change="l2") == pytest.approx(0.1 * linear(background).std())
    spread = logits.std(axis=0)
    for settings in ({"output": "raw"}, {"task": "regression"}):
        assert used(network, target=[2, 0], **settings) == pytest.approx(0.1 * spread[[2, 0]])
    assert used(network, output="raw", change="l2") == pytest.approx(0.1 * np.linalg.norm(spread))
    assert used(network, output="raw", change="label").tolist() == [0.5, 0.5]


def test_the_default_tolerance_costs_no_evaluation_and_is_the_same_for_all_rows():
    background = np.random.default_rng(1).normal(size=(40, 4))
    one, given = (fans.pns(smooth, background, SUBSET, background=background, tolerance=c) for c in (None, 0.3))
    assert set(one.tolerance) == {0.1 * smooth(background).std()}
    assert one.n_evaluations == given.n_evaluations


@pytest.mark.parametrize("max_batch", [1, 7, 64])
@pytest.mark.parametrize("baseline", [0.0, "background"])
@pytest.mark.filterwarnings("ignore::fans.FansWarning")
def test_draws_do_not_depend_on_the_batch_size_or_on_the_other_inputs(max_batch, baseline):
    network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(30, 4)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    subsets = rng.random((5, 4)) < 0.5
    subsets[:, 0], subsets[:, 1] = True, False
    settings: dict[str, Any] = {
        "background": background,
        "baseline": baseline,
        "radius": 2.0,
        "n_factual": 3,
        "n_perturb": 3,
    }
    whole = fans.pns(network, x, subsets, **settings)
    order = [3, 0, 4]
    part = fans.pns(network, x[order], subsets[order], ids=order, max_batch=max_batch, **settings)
    for name in MEASURES:
        assert getattr(part, name) == pytest.approx(getattr(whole, name)[order], rel=1e-5, abs=1e-5, nan_ok=True)


def test_the_background_is_evaluated_once_and_nothing_that_did_not_move():
    seen = []

    def model(rows: np.ndarray) -> np.ndarray:
        seen.append(len(rows))
        return rows[:, 0]

    background = np.random.default_rng(0).normal(size=(20, 3))
    background[:5, 0] = 0.0
    found = fans.pns(model, background[6], [True, False, False], background=background, baseline=0.0, radius=2.0,
                     tolerance=0.1, estimator="exact")  # fmt: skip
    assert seen[0] == 20
    # x1: one pattern moves the 15 rows that are not 0 there; the rest: three patterns move all 20 rows.
    assert sum(seen) == found.n_evaluations == 20 + 15 + 3 * 20


def test_a_thin_neighbourhood_warns_once_and_says_what_to_do():
    background = np.random.default_rng(0).normal(size=(50, 4))
    with pytest.warns(fans.FansWarning, match=r'2 of 2 estimates.*of 50.*radius="ess"') as caught:
        fans.pns(smooth, background[:2], SUBSET, background=background, baseline=0.0, radius=0.05, tolerance=0.1)
    assert len(caught) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perturbing_replaces_what_is_hit_and_tells_what_moved(dtype):
    rng = np.random.default_rng(0)
    whole, sizes = rng.integers(-2, 3, size=(2, 500, 3)), 10.0 ** rng.integers(-30, 31, size=(500, 1))
    for values in (whole, rng.normal(size=(2, 500, 3)) * sizes):  # with equals among them, and without
        rows, baseline = torch.tensor(values, dtype=dtype)
        hit = torch.tensor(rng.random((500, 3)) < 0.5)
        expected = np.where(hit.numpy(), baseline.numpy(), rows.numpy())
        differs = (expected != rows.numpy()).any(axis=1)
        perturbed = perturb(rows.clone(), draws.numbers(hit, dtype), baseline)
        assert np.array_equal(perturbed.numpy(), expected)
        assert np.array_equal(moved(perturbed, rows).numpy(), differs)


def test_wilson_intervals_solve_their_equation_and_students_factor_widens_them():
    """The ends of a score interval are where the estimate is exactly z standard errors away."""
    p, n = np.array([0.0, 0.03, 0.3, 0.9, 1.0]), 50.0
    se = np.sqrt(p * (1 - p) / n)
    support = torch.full((5,), 1e9, dtype=torch.float64)
    support[[0, 4]] = n  # at 0 and 1 the support stands in for the sample size
    low, high = wilson(torch.tensor(p), torch.tensor(se), support, 0.95).numpy().T
    z = stats.t.ppf(0.975, np.where(se > 0, 1e9, n - 1))
    for end, inner in ((low, p > 0), (high, p < 1)):
        distance = np.abs(p - end)[inner]
        assert distance == pytest.approx((z * np.sqrt(end * (1 - end) / n))[inner], rel=1e-3)
    assert low[0] == pytest.approx(0.0, abs=1e-12)
    assert high[4] == pytest.approx(1.0, abs=1e-12)
    for freedom in (5, 10, 40):
        found = float(quantile(0.95, torch.tensor(float(freedom), dtype=torch.float64)))
        assert found == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)
