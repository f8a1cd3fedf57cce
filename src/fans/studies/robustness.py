"""How far do explanations move when noise is put on the image? Max-Sensitivity against its strength, by method."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from fans.cases import cases_of
from fans.explainer import Explainer
from fans.metrics.max_sensitivity import MaxSensitivity
from fans.report.sections import Chart, Claim, Line, Panel, Section, stated
from fans.report.tables import FEW, Entry, Heading, Place, Table
from fans.runs import Cell, Ledger, Record, Result
from fans.studies import images, tuned
from fans.studies._entries import Column
from fans.studies._yaml import load
from fans.studies.base import Asked, FigureStudy, Plain, Size
from fans.studies.differences import difference, mean
from fans.studies.made_by import facts
from fans.studies.tuned import METHODS, OURS, TRIVIAL, shown

MODEL = "the model itself"
"""The method in the cells that tell how far the noise moves the model's own prediction."""

SLIGHT = 0.3
"""Noise up to here is looked at for itself."""

WITHIN = 3.0
"""A rival whose IROF is at most so much below FANS's explains about as well."""

SOURCE = 'Section "Robustness analysis" and its figure'


@dataclass(frozen=True)
class Extent:
    """How much of a dataset is computed.

    Attributes:
        n, shard: inputs, and inputs of a cell.
        radii: strengths of the noise.
        n_draws: noisy copies of an input at each of them.
        methods: unless others are asked for.
    """

    n: int
    shard: int
    radii: tuple[float, ...]
    n_draws: int
    methods: tuple[str, ...] = METHODS

    def columns(self) -> list[Column]:
        """Return what each method is judged by: how far its scores move, and what else may explain that."""
        moves = [
            Column(f"MS r={r:g}", "max_sensitivity", {"radius": r, "n_draws": self.n_draws, "normalise": True})
            for r in self.radii
        ]
        return [*moves, Column("IR", "irof", {"of": "predicted"}), Column("SPA", "sparseness")]


ALL = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
QUICK = tuple(name for name in METHODS if name != "CIMI")  # which has to be trained
CHEAP = ("IG", "FeatAblation", tuned.RANDOM, OURS)

EXTENTS: Mapping[Size, Mapping[str, Extent]] = {
    "quick": {"mnist": Extent(2, 2, (0.1, 0.3, 1.0), 1, QUICK), "cifar10": Extent(1, 1, (0.3, 1.0), 1, CHEAP)},
    "default": {"mnist": Extent(32, 16, ALL, 4), "cifar10": Extent(8, 2, (0.1, 0.3, 0.5, 1.0), 3)},
    "full": {"mnist": Extent(200, 25, ALL, 10), "cifar10": Extent(200, 4, ALL, 10)},
}
"""ResNet18 takes seconds an explanation: on CIFAR-10 fewer images, draws and strengths by default."""


class Robustness(FigureStudy):
    """Max-Sensitivity of Table 1's methods against the strength of the noise, beside what the noise does to the model.

    A cell explains a shard's images and their noisy copies with one method; the copies are the same for all methods,
    and at every strength but for their size. The class that the model predicts for the clean image is explained
    throughout. The score maps are compared as in Table 1, each divided by its own maximum.
    """

    kind = "robustness"
    extents: ClassVar[Mapping[Size, Mapping[str, Extent]]] = EXTENTS

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """Return cells of the model and of each method, shard by shard."""
        extents = self.extents[asked.size]
        tuned.check_asked(asked, extents)
        specs = []
        for name in asked.only or extents:
            extent = extents[name]
            table = tuned.table(self.kind, extent.columns(), name, extent.n, extent.shard)
            cells = table.cells(asked.n, None, asked.rows or extent.methods)
            firsts = {spec["shard"][0]: spec for spec in cells}
            specs += [_of_the_model(spec, extent) for spec in firsts.values()] + cells
        return specs

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Return the cells with their model rows."""
        explaining = iter(load("table1").price([spec for spec in specs if "call" in spec]))
        return [next(explaining) if "call" in spec else _priced(spec) for spec in specs]

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise if the data of these cells are not here."""
        for dataset in sorted({cell.kind[0] for cell in cells}):
            images.check_data(dataset)

    def do(self, cell: Cell) -> Result:
        """Explain images and their noisy copies, or ask the model about them."""
        return images.do(cell) if "call" in cell.spec else _ask(cell.spec)

    def about(self) -> dict[str, Any]:
        """Return the labels of the datasets, and how many inputs each size has."""
        sizes = {size: {name: e.n for name, e in extents.items()} for size, extents in self.extents.items()}
        return {"labels": tuned.labels(self.extents["default"]), "sizes": sizes}

    @classmethod
    def section(cls, run: Ledger) -> Section:
        """Return the curves, and who is steadier than FANS."""
        about, found = run.plan["about"], _read(run.records(), run.plan["about"]["labels"])
        return Section(
            cls.kind,
            "Robustness: how far explanations move under noise",
            claims=[_worsening(found), _steadiest(found)],
            summary=[*(sentence for one in found for sentence in _summary(one))],
            tables=[_table(found)] if found else [],
            charts=[_chart(found)] if found else [],
            facts=facts(run, about["labels"], about["sizes"]),
        )


# --- Cells of the model itself ---------------------------------------------------------------------------------------


def _of_the_model(spec: Plain, extent: Extent) -> dict[str, Any]:
    """Return the cell that asks the model about the noisy copies of a shard."""
    kept = ("experiment", "dataset", "model", "n_background", "shard", "seed")
    asked = {"method": MODEL, "radii": list(extent.radii), "n_draws": extent.n_draws}
    return {name: spec[name] for name in kept} | asked


def _priced(spec: Plain) -> Cell:
    start, stop = spec["shard"]
    copies = len(spec["radii"]) * spec["n_draws"]
    return Cell(dict(spec) | images.identify(spec), (stop - start) * (1 + copies))


def _ask(spec: Plain) -> Result:
    """Tell of each image how many noisy copies have another class, and how far the class's probability moves."""
    (start, stop), n_draws = spec["shard"], spec["n_draws"]
    given = images.subject(spec["dataset"], spec["model"], spec["n_background"])
    made = Explainer(given.model, given.background, method="equal", seed=spec["seed"])
    before = made.task.predict.n_rows
    (case,) = cases_of(made.attribute(given.images(start, stop), ids=list(range(start, stop))), explainer=made)
    clean = case.of_target(case.before, case.target, "probability")
    scores: dict[str, list[float]] = {}
    for radius in spec["radii"]:
        changed, moved = [], []
        for which, copies in MaxSensitivity(radius=radius, n_draws=n_draws).copies(case):
            outputs = case.outputs(copies)
            changed.append((case.classes(outputs) != case.target[which]).double())
            moved.append((case.of_target(outputs, case.target[which], "probability") - clean[which]).abs())
        for name, parts in (("changed", changed), ("moved", moved)):
            scores[f"{name} r={radius:g}"] = torch.cat(parts).view(-1, n_draws).mean(1).tolist()
    return Result({"scores": scores}, made.task.predict.n_rows - before)


# --- What was found --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OnDataset:
    """What the records of a dataset say; values are by input.

    Attributes:
        label: of the dataset.
        moves: Max-Sensitivity by method and strength of the noise.
        faithful, sparse: IROF and sparseness by method.
        changed, moved: what the noise does to the model's prediction, by strength.
        n_draws: noisy copies of an input at each strength.
    """

    label: str
    moves: Mapping[str, Mapping[float, Mapping[int, float]]]
    faithful: Mapping[str, Mapping[int, float]]
    sparse: Mapping[str, Mapping[int, float]]
    changed: Mapping[float, Mapping[int, float]]
    moved: Mapping[float, Mapping[int, float]]
    n_draws: int

    @property
    def radii(self) -> list[float]:
        """The strengths of the noise that there are."""
        return sorted({r for of_method in self.moves.values() for r in of_method} | self.changed.keys())

    def overall(self, method: str, most: float = np.inf) -> dict[int, float]:
        """Return Max-Sensitivity by input, averaged over the strengths up to `most`.

        All curves begin at 0, so that a lower average over the same strengths is a lower slope.
        """
        return tuned.averaged(each for r, each in self.moves.get(method, {}).items() if r <= most)

    def against(self, method: str, most: float = np.inf) -> Entry | None:
        """Return how much further a method's scores move than FANS's."""
        return difference(self.overall(method, most), self.overall(OURS, most))

    @property
    def rivals(self) -> list[str]:
        """The methods that look at the model, FANS aside."""
        return [name for name in METHODS if name in self.moves and name not in (OURS, *TRIVIAL)]

    @property
    def comparable(self) -> list[str]:
        """Those of them whose IROF is at most `WITHIN` below FANS's, on the same images."""
        behind = {name: difference(self.faithful[OURS], self.faithful[name]) for name in self.rivals}
        return [name for name, less in behind.items() if less is not None and less.value <= WITHIN]


def _read(records: Sequence[Record], labels: Mapping[str, str]) -> list[_OnDataset]:
    """Return what records say, dataset by dataset."""
    found, draws = tuned.values(records), {r.spec["dataset"]: _draws(r.spec) for r in records}
    out = []
    for dataset, methods in found.items():
        model = methods.pop(MODEL, {})
        out.append(
            _OnDataset(
                labels.get(dataset, dataset),
                {name: _by_radius(columns, "MS") for name, columns in methods.items()},
                {name: columns["IR"] for name, columns in methods.items()},
                {name: columns["SPA"] for name, columns in methods.items()},
                _by_radius(model, "changed"),
                _by_radius(model, "moved"),
                draws[dataset],
            )
        )
    return out


def _draws(spec: Plain) -> int:
    """Return how many noisy copies of an input a cell has at each strength."""
    if "n_draws" in spec:
        return int(spec["n_draws"])
    return next(int(c["settings"]["n_draws"]) for c in spec["columns"] if c["metric"] == MaxSensitivity.name)


def _by_radius(columns: Mapping[str, Mapping[int, float]], what: str) -> dict[float, Mapping[int, float]]:
    """Return the columns called `what` at a strength, by the strength."""
    start = f"{what} r="
    return {float(name.removeprefix(start)): of for name, of in columns.items() if name.startswith(start)}


# --- Claims ----------------------------------------------------------------------------------------------------------


def _worsening(found: Sequence[_OnDataset]) -> Claim:
    """Return whether every method's scores move further under the strongest noise than under the weakest."""
    says, parts, signs = "All methods get worse step by step as the noise grows.", [], list[int]()
    for one in found:
        knowing = [*one.rivals, *([OURS] if OURS in one.moves else [])]
        rises = {n: tuned.sign(difference(each[max(each)], each[min(each)])) for n in knowing if (each := one.moves[n])}
        others = [name for name, rise in rises.items() if rise <= 0]
        signs += rises.values()
        if (n := max((len(one.overall(name)) for name in knowing), default=0)) < FEW:
            parts.append(f"on {one.label} {n} image{'s are' if n > 1 else ' is'} too few to tell")
            continue
        parts.append(
            f"on {one.label} the scores of {len(rises) - len(others)} of {len(rises)} methods move further at "
            f"r = {one.radii[-1]:g} than at r = {one.radii[0]:g}, told by 95 % intervals"
            + (f"; not so with {tuned.named(others)}" if others else "")
        )
    if not signs:
        return Claim(says, SOURCE, "nothing is computed yet", None)
    held = True if min(signs) > 0 else False if min(signs) < 0 else None
    return Claim(says, SOURCE, f"{'; '.join(parts)}.", held)


def _steadiest(found: Sequence[_OnDataset]) -> Claim:
    """Return whether no method that explains as well is steadier than FANS, nor as steady."""
    says = (
        "The slope of this deterioration is considerably lower with FANS, which is far more robust on both CIFAR10 "
        "and MNIST."
    )
    known = [one for one in found if OURS in one.moves and one.rivals]
    if not known:
        return Claim(says, SOURCE, "FANS or its rivals are not computed yet", None)
    signs = [tuned.sign(one.against(name, most)) for one in known for most in _ranges(one) for name in one.comparable]
    steadiest = len(known) == len(EXTENTS["default"]) and all(one.comparable for one in known) and min(signs) > 0
    held = False if min(signs, default=0) < 0 else True if steadiest else None
    return Claim(says, SOURCE, " ".join(_compared(one) for one in known), held)


def _ranges(one: _OnDataset) -> list[float]:
    """Return up to which strengths methods are compared: a slight one, and the strongest."""
    return sorted({max([r for r in one.radii if r <= SLIGHT], default=one.radii[-1]), one.radii[-1]})


def _compared(one: _OnDataset) -> str:
    """Say who of those that explain about as well as FANS is steadier, and who less so."""
    if not one.comparable:
        return f"On {one.label} no rival's IROF is at most {WITHIN:g} below FANS's."
    said = []
    for most in _ranges(one):
        gaps = {name: gap for name in one.comparable if (gap := one.against(name, most)) is not None}
        ordered = sorted(gaps, key=lambda name: gaps[name].value)
        by_sign = {s: [n for n in ordered if tuned.sign(gaps[n]) == s] for s in (-1, 0, 1)}
        words = {-1: "steadier", 0: "not told apart from FANS", 1: "less steady"}
        parts = [
            f"{words[s]}: {', '.join(f'{_named(one, n)} {tuned.signed(gaps[n])}' for n in names)}"
            for s, names in by_sign.items()
            if names
        ]
        own = stated(mean(one.overall(OURS, most)))
        said.append(f"Up to r = {most:g} {_named(one, OURS)} has a mean Max-Sensitivity of {own}; {'; '.join(parts)}")
    return (
        f"On {one.label}, against rivals whose IROF is at most {WITHIN:g} below FANS's (differences paired by image, "
        f"95 % intervals; in brackets each method's sparseness, for an even map moves little): {'. '.join(said)}."
    )


def _named(one: _OnDataset, method: str) -> str:
    """Return a method with the sparseness of its maps."""
    return f"{shown(method)} ({mean(one.sparse[method]).value:.2f})"


# --- Sentences, table and figure -------------------------------------------------------------------------------------


def _summary(one: _OnDataset) -> list[str]:
    """Say what the noise does to the model, and what steadiness comes with."""
    out = []
    if one.changed:
        shares = [f"{mean(one.changed[r]).value:.0%} at r = {r:g}" for r in sorted(one.changed)]
        falls = [f"{mean(one.moved[r]).value:.2f} at r = {r:g}" for r in sorted(one.moved)]
        out.append(
            f"{one.label}: the model itself gives another class to {', '.join(shares)} of the noisy copies, and the "
            f"clean image's class another probability, by {', '.join(falls)} on average. Where that is much, scores "
            "that stay the same explain a prediction that is gone."
        )
    steady = {name: mean(one.overall(name, _ranges(one)[0])).value for name in one.rivals}
    if len(steady) >= 3:
        even = {name: mean(one.sparse[name]).value for name in steady}
        first = sorted(steady, key=lambda name: steady[name])[:3]
        told = ", ".join(
            f"{shown(n)} (sparseness {even[n]:.2f}, IROF {mean(one.faithful[n]).value:.1f})" for n in first
        )
        both = [[values[name] for name in steady] for values in (steady, even)]
        out.append(
            f"{one.label}: steadiness is not worth much alone, for a map that is nearly even, or follows the image and "
            f"not the model, moves little. The steadiest rivals are {told}; over all rivals the rank correlation of "
            f"Max-Sensitivity with sparseness is {_rank_correlation(*both):+.2f}."
            + (" A random map, which does not look at the model, moves by 0." if tuned.RANDOM in one.moves else "")
        )
    return out


def _rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's correlation of values without ties."""
    a, b = (np.argsort(np.argsort(values)) - (len(values) - 1) / 2 for values in (one, other))
    return float(a @ b / (a @ a))


def _table(found: Sequence[_OnDataset]) -> Table:
    """Return who moves how far, beside how well and how sparsely he explains."""
    names = [f"MS up to r = {SLIGHT:g}", "MS, all r", "MS less FANS's", "IR", "SPA"]
    headings = [Heading(name, higher_is_better=name in ("IR", "SPA"), ranked=False) for name in names]
    entries: dict[Place, Entry] = {}
    for one in found:
        for method in one.moves:
            of = [one.overall(method, _ranges(one)[0]), one.overall(method), {}, one.faithful[method]]
            each = [mean(values) if values else None for values in (*of, one.sparse[method])]
            if OURS in one.moves and method != OURS:
                each[2] = one.against(method, _ranges(one)[0])
            entries |= {(method, one.label, name): e for name, e in zip(names, each, strict=True) if e is not None}
    rows = [(name, "") for name in METHODS if any(place[0] == name for place in entries)]
    notes = [f"MS less FANS's: up to r = {SLIGHT:g}, paired by image; below 0 the method is steadier than FANS."]
    labels = [one.label for one in found]
    return Table("Max-Sensitivity under noise", labels, headings, rows, entries, notes=notes, trivial=TRIVIAL)


def _chart(found: Sequence[_OnDataset]) -> Chart:
    """Return the curves of all methods, and below them those of the model."""
    above = [
        Panel(f"{one.label}: explanations", "noise strength r", "Max-Sensitivity", _lines(one), log_y=True)
        for one in found
    ]
    names = {"noisy copies of another class": "changed", "change of the class's probability": "moved"}
    below = [
        Panel(
            f"{one.label}: the model's own predictions",
            "noise strength r",
            "share, or mean change",
            [Line.of(name, _from_nothing(_points(getattr(one, what)))) for name, what in names.items()],
        )
        for one in found
        if one.changed
    ]
    draws = ", ".join(f"{one.n_draws} on {one.label}" for one in found)
    still = [n for n in METHODS if any(n in one.moves for one in found) and not any(_moves(one, n) for one in found)]
    note = (
        f"Noise from [-r, r] on every pixel of images in [0, 1]; noisy copies of an image at each r: {draws}, the same "
        "for all methods. Max-Sensitivity as in Table 1: each score map divided by its own maximum. The class "
        "predicted for the clean image is explained throughout. Bands: 95 % intervals of means over images."
        + (f" Not drawn, for it is 0 at every strength: {tuned.named(still)}." if still else "")
    )
    title = "How far explanations, and predictions, move under noise"
    return Chart("robustness", title, [*above, *below], note=note)


def _lines(one: _OnDataset) -> list[Line]:
    """Return a line a method that moves at all; without noise none does, which a logarithm cannot show."""
    return [Line.of(shown(n), _points(one.moves[n]), ours=n == OURS) for n in METHODS if _moves(one, n)]


def _moves(one: _OnDataset, method: str) -> bool:
    """Tell whether any map of a method moves at any strength."""
    return any(value > 0 for each in one.moves.get(method, {}).values() for value in each.values())


def _points(by_radius: Mapping[float, Mapping[int, float]]) -> dict[float, Entry]:
    """Return the mean at each strength."""
    return {r: mean(each) for r, each in by_radius.items()}


def _from_nothing(points: Mapping[float, Entry]) -> dict[float, Entry]:
    """Return points with one more: without noise no prediction moves."""
    return {0.0: Entry(0.0, 0.0, 0.0, max(point.n for point in points.values())), **points}
