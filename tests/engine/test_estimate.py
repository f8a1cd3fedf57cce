"""The strict estimate against an independent enumeration, and values computed by hand."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fans
from tests.engine.subjects import (
    ENUMERATION,
    FOUR,
    READINGS,
    X,
    ask,
    assert_equal,
    random_model,
    smooth,
)


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


@pytest.mark.slow("repetitions at two sizes")
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
