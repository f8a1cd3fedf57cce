"""Convergence: objectives by iteration, when they have risen, and what holds of the paper's claims."""

import numpy as np
import pytest

import fans
from fans.errors import InputError
from fans.studies import Asked, find_study, images
from fans.studies.convergence import TOLERANCE, Convergence, Course
from tests.studies.made import made


def rising(n_steps, half, which):
    """Objectives of some inputs that rise to about a half, and have done half of it after so many iterations."""
    return 0.5 * (1 - 0.5 ** (np.arange(n_steps) / half)) * (1 + 0.01 * np.asarray(which))[:, None]


def run_of(folder, course, n=6, **asked):
    """A run whose relaxation by long steps takes this course, and whose own steps hardly move."""

    def values(spec):
        steps, which = spec["call"]["settings"]["n_steps"], range(*spec["shard"])
        found = np.full((len(which), steps), 1e-9)
        if "chain" in spec["way"]:
            found = rising(steps, 1, which)
        elif "0.1" in spec["way"]:
            found = course(steps, which)
        return {"objective": found.tolist(), "most": [0.05] * len(which), "mean": [0.01] * len(which)}

    return made(folder, Convergence(), Asked(n=n, size="full", **asked), values)


def test_it_is_found_by_its_name():
    assert isinstance(find_study("convergence"), Convergence)


def test_the_cells():
    specs = Convergence().plan(Asked(size="full"))
    assert {spec["n_background"] for spec in specs} == {20, 200, 2000}
    by_way = {(spec["dataset"], spec["method"]): spec["call"]["settings"] for spec in specs}
    assert by_way["mnist", "relaxation, paper's steps, |E| = 200"] == {
        "preset": "paper",
        "rate": 0.001,
        "n_steps": 50,
        "n_background": 200,
        "n_local": 0,
        "tolerance": 0.0534,
    }
    assert by_way["cifar10", "relaxation, steps of 0.1, |E| = 2000"]["n_steps"] == 100
    assert by_way["cifar10", "chain, |E| = 2000"] == {"n_steps": 10}
    dear = {s["method"]: s["call"]["settings"]["n_steps"] for s in Convergence().plan(Asked(only=["cifar10"]))}
    assert dear["relaxation, steps of 0.1, |E| = 2000"] == 12
    assert "relaxation, paper's steps, |E| = 2000" not in dear
    with pytest.raises(InputError, match=r"a way to be one of"):
        Convergence().plan(Asked(rows=["walks"]))


def test_shares_of_the_rise_by_hand():
    objective = np.array([[0.0, 0.2, 0.8, 1.0, 1.0, 1.0], [0.3] * 6])
    course = Course("mnist", "chain", 20, objective, np.ones(2), np.ones(2))
    assert course.gained.tolist() == [1.0, 0.0]
    assert course.shares[0].tolist() == [0.0, 0.2, 0.8, 1.0, 1.0, 1.0]
    assert np.isnan(course.shares[1]).all()  # what did not rise has no shares
    assert course.nearly_there.tolist() == [4]
    after = course.after(2)
    assert after is not None
    assert (after.value, after.n) == (0.8, 1)
    assert course.moves
    still = Course("mnist", "relaxation, paper's steps", 20, np.full((2, 50), 1e-8), np.ones(2), np.ones(2))
    assert not still.moves
    assert still.after(30) is None


def test_of_the_relaxation_five_steps_count_together():
    """A single lucky step among many is no convergence."""
    objective = np.concatenate([np.zeros(10), [1.0], np.zeros(9), np.ones(80)])[None]
    course = Course("mnist", "relaxation, steps of 0.1", 20, objective, np.ones(1), np.ones(1))
    assert course.shares[0, 10] == pytest.approx(0.2)
    assert course.nearly_there.tolist() == [23]


def verdicts(run):
    return {(c.found.split(".")[0], c.says.split(" ")[1]): c.held for c in Convergence.section(run).claims}


BY_STEPS = "The paper's relaxation by steps of 0"


@pytest.mark.parametrize(
    ("course", "held"),
    [
        (lambda steps, which: rising(steps, 5, which), True),
        (lambda steps, which: rising(steps, 25, which), False),  # half of it after 25 iterations
        (lambda steps, which: np.linspace(0, 1, steps) * np.ones((len(which), 1)), False),
        (lambda steps, which: np.full((len(which), steps), 0.3), False),
    ],
)
def test_a_claim_falls_with_its_numbers(tmp_path, course, held):
    found = verdicts(run_of(tmp_path / "run", course))
    assert found[BY_STEPS, "MNIST"] is held
    assert found[BY_STEPS, "CIFAR10"] is held
    assert found["The paper's relaxation by its own steps", "MNIST"] is False
    assert found["Our chain", "MNIST"] is True


def test_few_images_or_steps_settle_nothing(tmp_path):
    assert set(verdicts(run_of(tmp_path / "few", lambda steps, which: rising(steps, 5, which), n=4)).values()) == {None}
    short = Course("cifar10", "relaxation, steps of 0.1", 20, rising(12, 2, range(6)), np.ones(6), np.ones(6))
    assert short.cut_short
    whole = Course("cifar10", "relaxation, paper's steps", 20, rising(50, 2, range(6)), np.ones(6), np.ones(6))
    assert not whole.cut_short


def test_the_section_says_how_far_masks_moved_and_draws(tmp_path):
    section = Convergence.section(
        run_of(tmp_path / "run", lambda steps, which: rising(steps, 5, which), only=["mnist"])
    )
    said = " ".join(section.summary)
    assert "|E| = 20 0.0100 (at most 0.0500, 50 steps)" in said
    assert "backgrounds of 20, 200 and 2,000 rows are the same to the last digit (N = 6)" in said
    objectives, shares = section.charts
    assert [panel.title.split(": ")[1] for panel in objectives.panels] == [
        "relaxation, paper's steps",
        "relaxation, steps of 0.1",
        "chain",
    ]
    line = objectives.panels[0].lines[0]
    assert len(line.x) == 50
    assert line.y[0] == pytest.approx(-9)
    assert len(shares.panels) == 2
    assert section.facts["Inputs"] == "MNIST, |E| = 20: 6; MNIST, |E| = 200: 6; MNIST, |E| = 2,000: 6"
    for chart in section.charts:
        assert chart.drawn("png").startswith(b"\x89PNG")


@pytest.mark.usefixtures("full_data")
def test_what_a_cell_keeps_is_what_the_explainer_says():
    study = Convergence()
    cells = {
        cell.spec["way"]: cell
        for cell in study.price(study.plan(Asked(n=1, size="quick", only=["mnist"])))
        if cell.spec["n_background"] == 200
    }
    cell = cells["relaxation, steps of 0.1"]
    found = study.do(cell)
    given = images.subject("mnist", "mnist", 200)
    explainer = fans.Explainer(
        given.model,
        given.background,
        preset="paper",
        rate=0.1,
        n_steps=10,
        n_background=200,
        n_local=0,
        tolerance=TOLERANCE["mnist"],
    )
    oracle = explainer.attribute(given.images(0, 1), ids=[0])
    assert oracle.history is not None
    np.testing.assert_allclose(found.values["objective"], oracle.history)
    assert found.values["most"] == [np.abs(oracle.scores).max()]
    # The image itself; then in each step all samples, and one that is perturbed fifty times, both ways.
    assert found.evaluations == 1 + 10 * 2 * (201 + 50)
    again = study.do(cell)
    assert again.values == found.values


@pytest.mark.usefixtures("full_data")
def test_the_chain_knows_no_background():
    study = Convergence()
    cells = study.price(study.plan(Asked(n=1, size="quick", only=["mnist"], rows=["chain"])))
    one, other = (study.do(cell).values for cell in cells)
    assert one == other
