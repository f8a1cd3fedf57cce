"""fans.pns: the paper's examples, the search of Definition 4, and what it says it used."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fans
from tests import oracles
from tests.engine.subjects import (
    ENUMERATION,
    FOUR,
    READINGS,
    SUBSET,
    X,
    smooth,
)


@READINGS
def test_what_was_used_is_printed(closeness):
    background = np.random.default_rng(3).normal(size=(40, 4))
    found = fans.pns(smooth, X, SUBSET, background=background, radius=0.75, tolerance=0.125, closeness=closeness)
    text = str(found)
    assert text.endswith("(tolerance 0.125, radius 0.75, phi 0.5; 95 % intervals)")
    assert text.startswith(f"PNS {found.pns[0]:.3f} [{found.interval[0, 0, 0]:.2f}, {found.interval[0, 0, 1]:.2f}]")
    assert f"changes {found.changes[0]:.2f}  holds {found.holds[0]:.2f}  PN {found.pn[0]:.3f}" in text
    batch = fans.pns(smooth, [X, X], SUBSET, background=background, radius=[0.75, 2], closeness=closeness, phi=1)
    first, second = str(batch).splitlines()
    spread = 0.1 * smooth(background).std()
    assert first.endswith(f"(tolerance {spread:.3g}, radius 0.75, phi 1; 95 % intervals)")
    assert second.endswith(f"(tolerance {spread:.3g}, radius 2, phi 1; 95 % intervals)")


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
