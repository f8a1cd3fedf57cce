"""The paper's convergence analysis: the objective by iteration, for reference samples E of three sizes."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fans.errors import choose
from fans.report.sections import Chart, Claim, Line, Panel, Section, stated
from fans.report.tables import FEW, Entry, entry, listed, number
from fans.runs import Cell, Ledger, Result
from fans.studies import images
from fans.studies._yaml import load
from fans.studies.base import Asked, FigureStudy, Plain, Size
from fans.studies.differences import by_input, shards, together
from fans.studies.made_by import facts
from fans.types import Array

SOURCE = "Section 5, Convergence Analysis"
DATASETS = ("cifar10", "mnist")
SIZES = (20, 200, 2000)
"""|E|: rows of the background, drawn from the training images as the paper has it; the input itself joins them."""

TOLERANCE = {"cifar10": 0.0118, "mnist": 0.0534}
"""The paper's c."""

RAPID = {"cifar10": 35, "mnist": 30}
"""Iterations within which the paper's training loss falls rapidly."""

SETTLED = 60
"""The iteration at which it has about converged."""

MOST, NEARLY = 0.8, 0.95
"""Shares of the improvement that count as a rapid fall, and as converged."""

SMALL = 0.01
"""An objective has not moved that rises by less than this part of what one sample of E adds to it at most."""

RATES: Mapping[str, Mapping[str, Any]] = {
    "relaxation, paper's steps": {"rate": 0.001, "n_steps": 50},
    "relaxation, steps of 0.1": {"rate": 0.1, "n_steps": 100},
}
"""The paper's own steps on images, and as long ones as it takes on graphs, enough of them to cross all of [0, 1]."""

CHAINS = {"chain": 10, "chain, more steps": 60}
"""Steps of the chain: its own, and as many as the paper's loss takes to converge."""

(OWN, LONG), (CHAIN, MORE) = RATES, CHAINS
SHORTER: Mapping[Size, Mapping[tuple[str, str, int], int]] = {
    "quick": {
        (OWN, "cifar10", 20): 3,
        (LONG, "cifar10", 20): 5,
        (MORE, "cifar10", 20): 0,
        (OWN, "mnist", 200): 10,
        (LONG, "mnist", 200): 10,
    },
    "default": {
        (LONG, "cifar10", 20): 60,
        (OWN, "cifar10", 200): 20,
        (LONG, "cifar10", 200): 40,
        (OWN, "cifar10", 2000): 0,
        (LONG, "cifar10", 2000): 12,
    },
    "full": {},
}
"""Steps at most where they are dear: a step of an image of CIFAR10 takes 2 (|E| + 51) rows of ResNet18. 0: none."""

N: Mapping[Size, Mapping[str, Mapping[int, int]]] = {
    "quick": {"cifar10": {20: 1}, "mnist": {20: 2, 200: 2}},
    "default": {"cifar10": {20: 2, 200: 1, 2000: 1}, "mnist": {20: 16, 200: 16, 2000: 5}},
    "full": {"cifar10": {20: 20, 200: 20, 2000: 20}, "mnist": {20: 100, 200: 100, 2000: 100}},
}
"""Images by size of the study, dataset and |E|; the paper does not say how many it took."""


class Convergence(FigureStudy):
    """The objective of the paper's relaxation and of the chain at each iteration, on CIFAR10 and MNIST."""

    kind: ClassVar[str] = "convergence"

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """One cell for an image or a few, a way to climb, and a size of E; `rows` names ways."""
        ways = [choose("a way", row, [*RATES, *CHAINS]) for row in asked.rows or [*RATES, *CHAINS]]
        table, out = load("table1"), []
        for name in [choose("a dataset", name, DATASETS) for name in asked.only or DATASETS]:
            dataset = table.dataset(name)
            for size, n in N[asked.size][name].items():
                total = len(dataset.positions("reported", asked.n or n))
                for way in [way for way in ways if not _left_out(way, name, size, asked.size)]:
                    common = {
                        "dataset": name,
                        "model": dataset.model,
                        "n_background": size,
                        "method": f"{way}, |E| = {size}",
                        "call": {"method": "fans", "space": None, "settings": _settings(way, name, size, asked.size)},
                        "columns": [],
                        "way": way,
                        "seed": table.seed,
                    }
                    each = 1 if name == "cifar10" or size > 200 else 4
                    out += [common | {"shard": shard} for shard in shards(total, each)]
        return out

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Those of all steps."""
        return [Cell(dict(spec) | images.identify(spec), images.price(spec)) for spec in specs]

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise if the images are not here."""
        for dataset in sorted({cell.kind[0] for cell in cells}):
            images.check_data(dataset)

    def do(self, cell: Cell) -> Result:
        """Explain some images, and keep what was maximised at each step and how far the scores are from 0."""
        spec, (start, stop) = cell.spec, cell.spec["shard"]
        made = images.explainer(spec)
        made.prepare()
        before = made.task.predict.n_rows
        given = images.subject(spec["dataset"], spec["model"], spec["n_background"])
        found = made.attribute(given.images(start, stop), ids=list(range(start, stop)))
        assert found.history is not None
        moved = np.abs(found.scores)
        values = {
            "objective": found.history.tolist(),
            "most": moved.max(1).tolist(),
            "mean": moved.mean(1).tolist(),
        }
        return Result(values, made.task.predict.n_rows - before, {"explaining": found.seconds})

    def about(self) -> dict[str, Any]:
        """Return labels, and how many images each size has."""
        labels = {dataset.name: dataset.label for dataset in load("table1").datasets if dataset.name in DATASETS}
        sizes = {
            size: {_counted(labels[d], e): n for d, by_size in by_dataset.items() for e, n in by_size.items()}
            for size, by_dataset in N.items()
        }
        return {"labels": {name: labels[name] for name in DATASETS}, "sizes": sizes}

    @classmethod
    def section(cls, run: Ledger) -> Section:
        """Return the paper's claims for both solvers, and two figures: objectives, and shares of the improvement."""
        about, courses = run.plan["about"], _courses(run)
        labels, sizes = about["labels"], about["sizes"]
        counts: dict[str, int] = {}
        for course in courses:
            name = _counted(labels[course.dataset], course.size)
            counts[name] = max(counts.get(name, 0), len(course.objective))
        return Section(
            "convergence",
            "Convergence: the objective by iteration",
            _claims(courses, labels),
            [*_masks(courses, labels), *_sizes_of_chains(courses, labels), *_more_steps(courses, labels)],
            charts=[_objectives(courses, labels), _improvements(courses, labels)],
            facts=facts(run, about["labels"], sizes, counts),
        )


def _settings(way: str, dataset: str, size: int, of: Size) -> dict[str, Any]:
    """Return the explainer's settings."""
    if way in CHAINS:
        return {"n_steps": CHAINS[way]}
    settings = dict(RATES[way]) | {"n_background": size, "n_local": 0, "tolerance": TOLERANCE[dataset]}
    return {"preset": "paper"} | settings | {"n_steps": SHORTER[of].get((way, dataset, size), settings["n_steps"])}


def _left_out(way: str, dataset: str, size: int, of: Size) -> bool:
    """Tell what is not computed: too dear, or as it is with another size of E, on which the chain does not depend."""
    return SHORTER[of].get((way, dataset, size)) == 0 or (way == MORE and size != SIZES[0])


def _counted(label: str, size: int) -> str:
    return f"{label}, |E| = {size:,}"


# --- What the records say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """The climbs of some images with one way and one size of E.

    Attributes:
        dataset, way, size: which.
        objective: `(n, T)` what was maximised, before each step.
        most, mean: `(n,)` the largest score and the mean one, signs aside: of the relaxation how far its mask moved.
    """

    dataset: str
    way: str
    size: int
    objective: Array
    most: Array
    mean: Array

    @property
    def n_steps(self) -> int:
        """T."""
        return int(self.objective.shape[1])

    @cached_property
    def gained(self) -> Array:
        """How much higher the last steps (a tenth of them, at least three) are on average than the first, `(n,)`."""
        last = max(3, self.n_steps // 10)
        return np.asarray(self.objective[:, -last:].mean(1) - self.objective[:, 0])

    @property
    def least(self) -> float:
        """What the objective has to rise by to have moved: a mean over |E| + 1 samples, of the chain over all rows."""
        return SMALL if self.way in CHAINS else SMALL / (self.size + 1)

    @cached_property
    def shares(self) -> Array:
        """How much of `gained` there is before each step, `(n, T)`; NaN of an image whose objective did not rise.

        Of the relaxation means of five steps, as each has draws of its own.
        """
        around = 0 if self.way in CHAINS else 2
        padded = np.pad(self.objective, ((0, 0), (around, around)), mode="edge")
        smooth = np.lib.stride_tricks.sliding_window_view(padded, 1 + 2 * around, axis=1).mean(2)
        rise = np.where(self.gained > self.least, self.gained, np.nan)
        return np.asarray((smooth - self.objective[:, :1]) / rise[:, None])

    @cached_property
    def moves(self) -> bool:
        """Whether the objective rises by more than `least` on average."""
        return bool(self.gained.mean() > self.least)

    @property
    def cut_short(self) -> bool:
        """Whether these are fewer steps than the way has, and than convergence would be seen in."""
        return self.n_steps < min(SETTLED, RATES[self.way]["n_steps"] if self.way in RATES else CHAINS[self.way])

    def after(self, iteration: int) -> Entry | None:
        """Return the mean share after so many iterations, or after the last; None where none rose."""
        known = self.shares[np.isfinite(self.shares[:, 0])]
        return entry(known[:, min(iteration, self.n_steps - 1)]) if len(known) else None

    @cached_property
    def nearly_there(self) -> Array:
        """The iteration at which `NEARLY` all of the improvement is first reached, of each image that rose."""
        known = self.shares[np.isfinite(self.shares[:, 0])]
        return np.asarray((known >= NEARLY).argmax(1) + 1)


def _courses(run: Ledger) -> list[Course]:
    """Return all climbs of a run."""
    records = run.records()
    names = {record.spec["method"]: (record.spec["way"], record.spec["n_background"]) for record in records}
    out = []
    for (method, dataset), columns in by_input(records).items():
        arrays = [np.array([columns[name][i] for i in sorted(columns[name])]) for name in ("objective", "most", "mean")]
        out.append(Course(dataset, *names[method], *arrays))
    return sorted(out, key=lambda course: (course.dataset, course.way, course.size))


def _of(courses: Sequence[Course], dataset: str, way: str) -> list[Course]:
    return [course for course in courses if (course.dataset, course.way) == (dataset, way)]


SPOKEN = {
    OWN: "The paper's relaxation by its own steps",
    LONG: "The paper's relaxation by steps of 0.1",
    CHAIN: "Our chain",
}


def _claims(courses: Sequence[Course], labels: Mapping[str, str]) -> list[Claim]:
    """Return the claim about each dataset, with what each way to climb came to."""
    out = []
    for way, dataset in itertools.product(SPOKEN, labels):
        if found := _of(courses, dataset, way):
            told = [f"|E| = {course.size:,}: {_told(course, RAPID[dataset])}" for course in found]
            says = (
                f"On {labels[dataset]} the training loss falls rapidly within the first {RAPID[dataset]} iterations "
                f"and has about converged by {SETTLED}, for |E| = 20, 200 and 2,000."
            )
            verdicts = [*(_held(course, RAPID[dataset]) for course in found), *[None] * (len(SIZES) - len(found))]
            out.append(Claim(says, SOURCE, f"{SPOKEN[way]}. {'; '.join(told)}.", together(verdicts)))
    return out


def _told(course: Course, rapid: int) -> str:
    """Say how one climb went."""
    first, last = course.objective[:, 0].mean(), (course.objective[:, 0] + course.gained).mean()
    levels = f"objective {number(first)} to {number(last)} in {course.n_steps} iterations, N = {len(course.objective)}"
    early = course.after(rapid)
    if course.cut_short:
        return f"{levels}, too few to tell"
    if not course.moves or early is None:
        return f"{levels}, which is not to move"
    when = f"{NEARLY:.0%} of the rise by iteration {np.median(course.nearly_there):.0f} (median)"
    within = min(rapid, course.n_steps)
    return f"{levels}; share of the rise within {within} iterations {stated(early)}; {when}"


def _held(course: Course, rapid: int) -> bool | None:
    """Tell whether most of the rise comes early, and nearly all of it by the time at which the paper's converged."""
    early = course.after(rapid)
    if len(course.objective) < FEW or course.cut_short:
        return None
    if not course.moves or early is None:
        return False
    late = np.median(course.nearly_there) > SETTLED
    return False if late or early.high < MOST else True if early.low >= MOST else None


def _masks(courses: Sequence[Course], labels: Mapping[str, str]) -> list[str]:
    """Say how far the relaxation's masks moved."""
    out = []
    for way, how in RATES.items():
        for dataset, label in labels.items():
            told = [
                f"|E| = {c.size:,} {number(c.mean.mean())} (at most {number(c.most.max())}, {c.n_steps} steps)"
                for c in _of(courses, dataset, way)
            ]
            if told:
                reach = number(how["rate"] * how["n_steps"]) if how["rate"] * how["n_steps"] < 0.5 else "0.5"
                out.append(
                    f"{label}, steps of {how['rate']:g}: an entry of the mask moved by {listed(told)} on average, of "
                    f"{reach} that it could."
                )
    return out


def _sizes_of_chains(courses: Sequence[Course], labels: Mapping[str, str]) -> list[str]:
    """Say whether the chain is the same for all sizes of E."""
    out = []
    for dataset, label in labels.items():
        found = _of(courses, dataset, CHAIN)
        if len(found) > 1:
            n = min(len(course.objective) for course in found)
            apart = max(float(np.abs(c.objective[:n] - found[0].objective[:n]).max()) for c in found)
            same = "are the same to the last digit" if apart == 0 else f"differ by at most {number(apart)}"
            sizes = listed([f"{course.size:,}" for course in found])
            out.append(
                f"{label}: the chain asks about the input alone; its objectives with backgrounds of {sizes} rows "
                f"{same} (N = {n})."
            )
    return out


def _more_steps(courses: Sequence[Course], labels: Mapping[str, str]) -> list[str]:
    """Say what more steps of the chain bring."""
    out = []
    for dataset, label in labels.items():
        both = [found[0] for way in CHAINS if (found := _of(courses, dataset, way))]
        if len(both) == len(CHAINS):
            levels = [entry(course.objective[:, 0] + course.gained) for course in both]
            told = [f"{stated(level)} after {c.n_steps} steps" for level, c in zip(levels, both, strict=True)]
            out.append(f"{label}: the chain's objective, of at most 1, is {listed(told)}.")
    return out


# --- Figures ----------------------------------------------------------------------------------------------------------


def _objectives(courses: Sequence[Course], labels: Mapping[str, str]) -> Chart:
    """Return the figure of the objectives: a row a dataset; the relaxation's logarithms, as its objectives are tiny."""
    panels = []
    for dataset, label in labels.items():
        for way in RATES:
            lines = [_line(np.log10(np.maximum(c.objective, 1e-45)), c) for c in _of(courses, dataset, way)]
            panels.append(_panel(f"{label}: {way}", "log10 of the objective, mean", lines, dataset))
        lines = [
            _line(c.objective, c, more)
            for way, more in zip(CHAINS, ("", ", 60 steps"), strict=True)
            for c in _of(courses, dataset, way)
            if not more or c.size == SIZES[0]
        ]
        panels.append(_panel(f"{label}: chain", "objective, mean", lines, dataset))
    note = (
        "Maximised; the training loss is its negative. Means of images, with 95 % intervals where there are five. The "
        "chain's lines of all |E| lie on each other."
    )
    title = "What is maximised, by iteration and number of reference samples |E|"
    return Chart("convergence", title, [p for p in panels if p.lines], columns=3, note=note)


def _improvements(courses: Sequence[Course], labels: Mapping[str, str]) -> Chart:
    """Return the figure of the shares of the improvement, of climbs that move."""
    panels = []
    for dataset, label in labels.items():
        for way in (LONG, CHAIN):
            known = [(c.shares[np.isfinite(c.shares[:, 0])], c) for c in _of(courses, dataset, way) if c.moves]
            lines = [_line(shares, course) for shares, course in known if len(shares)]
            panels.append(_panel(f"{label}: {way}", "share of the rise", lines, dataset))
    note = (
        "1: the mean of the last tenth of the steps. Means of the images whose objective moved; of the relaxation over "
        "five steps. The paper's own steps are not here, as they hardly move it: see the other figure."
    )
    title = "How much of its rise the objective has made"
    return Chart("convergence_shares", title, [p for p in panels if p.lines], columns=2, note=note)


def _panel(title: str, y: str, lines: Sequence[Line], dataset: str) -> Panel:
    longest = max((line.x[-1] for line in lines), default=0)
    marks = [(float(RAPID[dataset]), "paper: rapid until"), (float(SETTLED), "paper: converged")]
    return Panel(title, "iteration", y, lines, marks=[mark for mark in marks if mark[0] <= longest])


def _line(values: Array, course: Course, more: str = "") -> Line:
    """Return a line of means `(n, T)` over images."""
    points = {float(step + 1): entry(values[:, step], n_draws=500) for step in range(values.shape[1])}
    return Line.of(f"|E| = {course.size:,}{more}", points)
