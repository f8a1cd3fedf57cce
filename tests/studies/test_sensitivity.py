"""Sensitivity: which points, what holds of the paper's claims, and what a cell keeps."""

import numpy as np
import pytest

import fans
from fans.errors import InputError
from fans.metrics import metric
from fans.studies import Asked, find_study, images
from fans.studies.sensitivity import GRID, MARGIN, Sensitivity
from tests.studies.made import made


def flat(value, centre):  # noqa: ARG001
    return 1.0


def fading(value, centre):
    """What falls as c grows, and has fallen by the last two values."""
    return 1.0 if centre or value < 1 else 0.5


def run_of(folder, of_b=flat, of_c=flat, n=6, **asked):
    """A run whose relaxation has IR of 60 times these functions of b and c; the chain's scores never change."""

    def values(spec):
        which = np.arange(*spec["shard"])
        of = {"b": of_b, "c": of_c, None: flat}[spec["varied"]]
        share = of(spec["value"], spec["varied"] is None) if spec["solver"] == "relaxation" else 1.0
        ones = np.ones(len(which))
        found = {"IR": 60 * share * ones + which, "INF scale-free": 2 * ones, "SPA": 0.8 * ones}
        if spec["solver"] == "chain":
            pns, size = (0.9, 20.0) if spec["varied"] != "c" else (1 - spec["value"], 100 * (1 - spec["value"]))
            found |= {"PNS": pns * ones, "size": size * ones, "b": 0.4 * ones + 0.01 * which, "c": 0.1 * ones}
        return {name: column.tolist() for name, column in found.items()}

    return made(folder, Sensitivity(), Asked(n=n, size="full", **asked), values)


def held(run):
    """What holds of the three claims, of the chain and then of the relaxation."""
    return [claim.held for claim in Sensitivity.section(run).claims]


def test_it_is_found_by_its_name():
    assert isinstance(find_study("sensitivity"), Sensitivity)


def test_the_points():
    specs = Sensitivity().plan(Asked(size="full"))
    settings = {(spec["dataset"], spec["method"]): spec["call"]["settings"] for spec in specs}
    assert settings["mnist", "chain, by its rules"] == {}
    assert settings["cifar10", "chain, c = 0.0118"] == {"tolerance": 0.0118}
    assert settings["mnist", "chain, b = 1.0539"] == {"radius": 1.0539}
    assert settings["mnist", "relaxation, c = 10"] == {"preset": "paper", "radius": 1.0539, "tolerance": 10.0}
    values = sorted(spec["value"] for spec in specs if spec["varied"] == "c" and spec["solver"] == "chain")
    assert {0.0534, 0.0118} <= set(values)
    assert len(settings) == 2 * (2 + sum(len(g) for grids in GRID.values() for g in grids.values()) + 2)
    dear = Sensitivity().plan(Asked(only=["cifar10"], rows=["relaxation"]))
    assert {spec["call"]["settings"]["n_local"] for spec in dear} == {9}
    assert all(spec["shard"] == [0, 1] for spec in dear)
    with pytest.raises(InputError, match=r"a dataset of the quick size to be one of 'mnist', got 'cifar10'"):
        Sensitivity().plan(Asked(size="quick", only=["cifar10"]))


@pytest.mark.parametrize(
    ("of_b", "of_c", "verdicts"),
    [
        (flat, flat, [True, False, True]),
        (flat, fading, [True, True, True]),
        (fading, fading, [False, True, True]),
        (lambda value, _: 1.5 if value < 0.2 else 1.0, flat, [False, False, False]),  # another b is much better
        (flat, lambda value, _: 1 / (1 + value), [True, False, True]),  # still falling at the last
        (flat, lambda value, _: 1.0 if value < 5 else 1.5, [True, False, False]),
    ],
)
def test_a_claim_falls_with_its_numbers(tmp_path, of_b, of_c, verdicts):
    run = run_of(tmp_path / "run", lambda v, centre: 1.0 if centre else of_b(v, centre), of_c, only=["mnist"])
    assert held(run) == [True, False, True, *verdicts]


def test_few_images_settle_nothing_unless_scores_are_the_same(tmp_path):
    run = run_of(tmp_path / "run", of_b=fading, of_c=fading, n=3)
    assert held(run) == [True, False, True, None, None, None]


def test_the_section_says_what_changes(tmp_path):
    section = Sensitivity.section(run_of(tmp_path / "run", of_c=fading, only=["mnist"]))
    assert "the same to the last digit at 7 values of b, N = 6" in section.claims[0].found
    assert "IR by -48%" in section.claims[4].found
    of_c = next(sentence for sentence in section.summary if "c by default 0.1" in sentence)
    assert "PNS 0.900 [0.900, 0.900], N = 6 at 0.100, 0.999 at 0.001 and 0.200 at 0.8" in of_c
    assert section.facts["Inputs"] == "MNIST, chain: 6; MNIST, relaxation: 6"


def test_the_figures_mark_the_rules(tmp_path):
    section = Sensitivity.section(run_of(tmp_path / "run", only=["mnist"]))
    of_b, of_c, subsets = section.charts
    marks = {word: at for at, word in of_b.panels[0].marks}
    assert marks == {"default": pytest.approx(0.425), "paper's": 1.0539}
    marks = {word: at for at, word in of_c.panels[0].marks}
    assert marks == {"default": pytest.approx(0.1), "paper's": 0.0534}
    chain = next(line for line in of_b.panels[0].lines if line.ours)
    assert len(chain.x) == 8  # the grid, the paper's, and the rule's own
    assert chain.y == [62.5] * 8
    assert [panel.y for panel in subsets.panels] == ["PNS of the chosen subset", "features in it"] * 2
    for chart in section.charts:
        assert chart.drawn("png").startswith(b"\x89PNG")
    assert 0 < MARGIN < 0.5


@pytest.mark.usefixtures("full_data")
def test_what_a_cell_keeps_is_what_the_explainer_says():
    study = Sensitivity()
    cells = study.price(study.plan(Asked(n=2, only=["mnist"], rows=["chain"])))
    cell = next(cell for cell in cells if cell.spec["value"] == 0.4)
    found = study.do(cell)
    given = images.subject("mnist", "mnist", 500)
    explainer = fans.Explainer(given.model, given.background, tolerance=0.4)
    e = explainer(given.images(0, 2), ids=[0, 1])
    np.testing.assert_allclose(found.values["PNS"], e.pns)
    assert found.values["size"] == e.subset.sum(1).tolist()
    np.testing.assert_allclose(found.values["b"], e.radius)
    judges = {"IR": metric("irof", of="predicted"), "SPA": metric("sparseness")}
    judged = fans.evaluate(e, judges, explainer=explainer)
    for name in judges:
        np.testing.assert_allclose(found.values[name], judged[name])
    usual = study.do(cells[0])
    assert [usual.values[name] for name in ("IR", "SPA")] == [found.values[name] for name in ("IR", "SPA")]
    assert usual.values["size"] != found.values["size"]
    assert abs(found.evaluations - cell.cost) < 0.3 * cell.cost
