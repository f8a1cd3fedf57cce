"""The paper's ablation study: FANS without each of its three parts, on two citation graphs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fans.errors import choose
from fans.report.sections import Chart, Claim, Line, Panel, Section, stated
from fans.report.tables import Entry, listed
from fans.runs import Cell, Ledger, Result
from fans.studies import graphs
from fans.studies._yaml import load
from fans.studies.base import Asked, FigureStudy, Plain, Size
from fans.studies.differences import (
    Values,
    by_input,
    difference,
    is_much_worse,
    is_slightly_worse,
    is_stable,
    is_worse,
    mean,
    shards,
    together,
    turned,
)
from fans.studies.made_by import facts

SOURCE = "Section 5, Ablation Study"
DATASETS = ("citeseer", "pubmed")
METRICS: Mapping[str, int] = {"FID+": 1, "FID-": -1, "SPA": 1}
"""The columns of Table 2 that the figure shows: 1 where the paper has more for better, -1 where less."""

SOLVERS: Mapping[str, Mapping[str, Any]] = {
    "chain": {},
    "relaxation": {"preset": "paper", "rate": 0.1, "n_steps": 30},  # the paper's on graphs
}
SAID = {"chain": "Our chain", "relaxation": "The paper's relaxation"}
PARTS = ("SF", "NC", "SR")
BRIEF = {"n_steps": 3}
"""What the relaxation does in the quick size."""

N: Mapping[Size, Mapping[str, Mapping[str, int]]] = {
    "quick": {"chain": {"citeseer": 3, "pubmed": 3}, "relaxation": {"citeseer": 1, "pubmed": 1}},
    "default": {"chain": {"citeseer": 50, "pubmed": 40}, "relaxation": {"citeseer": 50, "pubmed": 40}},
    "full": {"chain": {"citeseer": 50, "pubmed": 40}, "relaxation": {"citeseer": 50, "pubmed": 40}},
}
"""Nodes by size, solver and dataset; the paper's digits show 50 and 40, which the default has."""

SHARD = {"chain": 10, "relaxation": 2}
"""Nodes of a cell."""


def variant(solver: str, part: str | None) -> str:
    """Return what a variant is called in records."""
    return solver if part is None else f"{solver}, without {part}"


VARIANTS = {variant(solver, part): (solver, part) for solver in SOLVERS for part in (None, *PARTS)}


class Ablation(FigureStudy):
    """FANS and FANS without SF, NC and SR: the chain and the paper's relaxation, on the nodes that Table 2 reports."""

    kind: ClassVar[str] = "ablation"

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """One cell for some nodes and a variant; `rows` names variants."""
        rows = [choose("a variant", row, VARIANTS) for row in asked.rows or VARIANTS]
        table, out = load("table2"), []
        for name in [choose("a dataset", name, DATASETS) for name in asked.only or DATASETS]:
            dataset = table.dataset(name)
            columns = [column.on(name) for column in table.columns if column.name in METRICS]
            for row in rows:
                solver, part = VARIANTS[row]
                nodes = dataset.positions("reported", asked.n or N[asked.size][solver][name])
                settings = dict(SOLVERS[solver]) | ({} if part is None else {"without": part})
                settings |= BRIEF if asked.size == "quick" and solver == "relaxation" else {}
                common = {
                    "dataset": name,
                    "model": dataset.model,
                    "n_background": dataset.n_background,
                    "method": row,
                    "call": {"method": "fans", "space": None, "settings": settings},
                    "columns": columns,
                    "seed": table.seed,
                }
                out += [common | {"shard": shard} for shard in shards(len(nodes), SHARD[solver])]
        return out

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Those of the explanations and of the metrics."""
        return [Cell(dict(spec) | graphs.identify(spec), graphs.price(spec)) for spec in specs]

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise if the graphs are not here."""
        for dataset in sorted({cell.kind[0] for cell in cells}):
            graphs.check_data(dataset)

    def do(self, cell: Cell) -> Result:
        """Explain some nodes and judge the scores."""
        return graphs.do(cell)

    def about(self) -> dict[str, Any]:
        """Return labels, and how many nodes each size has."""
        labels = {dataset.name: dataset.label for dataset in load("table2").datasets if dataset.name in DATASETS}
        sizes = {
            size: {f"{labels[d]}, {s}": n for s, by_dataset in by_solver.items() for d, n in by_dataset.items()}
            for size, by_solver in N.items()
        }
        return {"labels": labels, "sizes": sizes}

    @classmethod
    def section(cls, run: Ledger) -> Section:
        """Return the paper's five claims of each solver, and two figures."""
        about, found = run.plan["about"], by_input(run.records())
        studies = [Solved(solver, about["labels"], found) for solver in SOLVERS]
        studies = [study for study in studies if study.datasets]
        counts = {
            f"{label}, {solver}": max(len(values) for values in columns.values())
            for solver in SOLVERS
            for name, label in about["labels"].items()
            if (columns := found.get((variant(solver, None), name)))
        }
        return Section(
            "ablation",
            "Ablation: FANS without sufficiency, necessity or resampling",
            [claim for study in studies for claim in study.claims()],
            [sentence for study in studies for sentence in study.summary()],
            charts=[_levels(studies), _differences(studies)],
            facts=facts(run, about["labels"], about["sizes"], counts) | _steps(run),
        )


Judge = Callable[[Entry], bool | None]


@dataclass(frozen=True)
class Solved:
    """What one solver and its ablations came to.

    Attributes:
        solver: which.
        labels: of the datasets.
        found: of all records, by variant and dataset.
    """

    solver: str
    labels: Mapping[str, str]
    found: Mapping[tuple[str, str], Mapping[str, Values]]

    @property
    def datasets(self) -> list[str]:
        """Datasets on which the full method is there."""
        return [name for name in self.labels if (self.solver, name) in self.found]

    def level(self, part: str | None, dataset: str, metric: str) -> Entry | None:
        """Return the mean of a variant."""
        values = self.found.get((variant(self.solver, part), dataset), {}).get(metric)
        return mean(values) if values else None

    def change(self, part: str, dataset: str, metric: str) -> Entry | None:
        """Return a variant's values less the full method's, of the same nodes."""
        one, full = (self.found.get((variant(self.solver, p), dataset), {}).get(metric, {}) for p in (part, None))
        return difference(one, full)

    def worse(self, part: str, dataset: str, metric: str) -> Entry | None:
        """Return by how much a variant is worse than the full method."""
        change = self.change(part, dataset, metric)
        if change is None or METRICS[metric] < 0:
            return change
        return turned(change)

    def claims(self) -> list[Claim]:
        """Return the paper's claims, with what was found."""
        return [
            self._claim(
                "Without SF, FID+ is slightly lower, FID- much worse, and SPA stable.",
                "SF",
                {"FID+": is_slightly_worse, "FID-": is_much_worse, "SPA": is_stable},
            ),
            self._claim(
                "Without NC, FID+ is much worse, FID- stable, and SPA worse.",
                "NC",
                {"FID+": is_much_worse, "FID-": is_stable, "SPA": is_worse},
            ),
            self._claim(
                "Without SR, both FID+ and FID- are worse, and SPA is stable.",
                "SR",
                {"FID+": is_worse, "FID-": is_worse, "SPA": is_stable},
            ),
            self._uniform(),
        ]

    def _claim(self, says: str, part: str, judges: Mapping[str, Judge]) -> Claim:
        verdicts, told = list[bool | None](), []
        for dataset in self.datasets:
            words = []
            for metric, judge in judges.items():
                worse, change = self.worse(part, dataset, metric), self.change(part, dataset, metric)
                verdicts.append(None if worse is None else judge(worse))
                words.append(f"{metric} by {_signed(change)}" if change else f"{metric} not yet measured")
            told.append(f"{self.labels[dataset]}: {', '.join(words)}")
        found = f"{SAID[self.solver]}, difference from the full method. {'; '.join(told)}."
        return Claim(says, SOURCE, found, together(verdicts))

    def _uniform(self) -> Claim:
        """Return whether the full method is nowhere worse, and each variant worse somewhere."""
        ahead, weak = list[str](), dict[str, list[bool | None]]()
        for part in PARTS:
            for dataset in self.datasets:
                for metric in METRICS:
                    worse = self.worse(part, dataset, metric)
                    verdict = None if worse is None else is_worse(worse)
                    weak.setdefault(part, []).append(verdict)
                    if worse is not None and is_worse(turned(worse)):
                        ahead.append(f"without {part} in {metric} on {self.labels[dataset]}")
        steady = [part for part, verdicts in weak.items() if True not in verdicts]
        sure = [part for part in steady if None not in weak[part]]
        words = [
            f"better than the full method is {listed(ahead)}" if ahead else "no variant is seen to be better anywhere",
            f"nowhere seen to be worse: without {listed(steady)}" if steady else "each variant is worse somewhere",
        ]
        held = False if ahead or sure else True if weak and not steady else None
        says = "Only the full algorithm performs uniformly well across both datasets and all metrics."
        found = f"{SAID[self.solver]}, where 95 % intervals of paired differences leave out 0: {'; '.join(words)}."
        return Claim(says, SOURCE, found, held)

    def summary(self) -> list[str]:
        """Say what the full method reaches."""
        out = []
        for dataset in self.datasets:
            levels = [(metric, self.level(None, dataset, metric)) for metric in METRICS]
            told = [f"{metric} {stated(entry)}" for metric, entry in levels if entry]
            out.append(f"{SAID[self.solver]}, nothing left out, on {self.labels[dataset]}: {'; '.join(told)}.")
        return out


def _signed(entry: Entry) -> str:
    """Return a difference with its sign."""
    return f"{'+' if entry.value > 0 else ''}{stated(entry)}"


def _steps(run: Ledger) -> dict[str, str]:
    """Say how far the relaxation was followed."""
    settings = [record.spec["call"]["settings"] for record in run.records()]
    steps = dict.fromkeys(f"{s['n_steps']} of {s['rate']}" for s in settings if "n_steps" in s)
    return {"steps of the relaxation": ", ".join(steps)} if steps else {}


def _levels(studies: Sequence[Solved]) -> Chart:
    """Return the figure of the variants' means, a row a solver."""
    places = [(float(i), f"w/o {part}" if part else "FANS") for i, part in enumerate((None, *PARTS))]
    panels = []
    for study in studies:
        for metric in METRICS:
            points = {
                dataset: [(i, study.level(part, dataset, metric)) for i, part in enumerate((None, *PARTS))]
                for dataset in study.datasets
            }
            title = f"{SAID[study.solver]}: {_arrow(metric)}"
            panels.append(Panel(title, "", metric, _lines(points, study.labels), ticks=places))
    note = "Means of nodes with 95 % intervals. The arrow points to what the paper has for better."
    return Chart("ablation", "FANS and FANS without one of its parts", panels, columns=3, note=note)


def _differences(studies: Sequence[Solved]) -> Chart:
    """Return the figure of the differences from the full method, paired by node."""
    places = [(float(i), f"w/o {part}") for i, part in enumerate(PARTS)]
    panels = []
    for study in studies:
        for metric in METRICS:
            points = {
                dataset: [(i, study.change(part, dataset, metric)) for i, part in enumerate(PARTS)]
                for dataset in study.datasets
            }
            title = f"{SAID[study.solver]}: {_arrow(metric)}"
            panels.append(Panel(title, "", f"{metric} less full", _lines(points, study.labels), ticks=places))
    note = "Differences from the full method on the same nodes, with 95 % intervals; 0: as good as the full method."
    return Chart("ablation_differences", "What leaving out a part changes", panels, columns=3, note=note)


def _arrow(metric: str) -> str:
    return f"{metric} {'↑' if METRICS[metric] > 0 else '↓'}"


def _lines(points: Mapping[str, Sequence[tuple[int, Entry | None]]], labels: Mapping[str, str]) -> list[Line]:
    """Return a line of dots for each dataset, one a little left and one a little right of each tick."""
    out = []
    for i, (dataset, entries) in enumerate(points.items()):
        known = {at + 0.16 * (i - (len(points) - 1) / 2): entry for at, entry in entries if entry}
        if known:
            out.append(Line.of(labels[dataset], known, dots=True))
    return out
