"""The paper's sensitivity analysis: what hangs on the boundary b of the neighbourhood, and on the threshold c."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from fans.errors import choose
from fans.explanation import Attribution
from fans.metrics import Metric
from fans.report.sections import Chart, Claim, Line, Panel, Section, stated
from fans.report.tables import FEW, Entry, listed, number
from fans.runs import Cell, Ledger, Result
from fans.studies import images
from fans.studies._yaml import load
from fans.studies.base import Asked, FigureStudy, Plain, Size
from fans.studies.cells import judged
from fans.studies.differences import Values, by_input, difference, is_stable, mean, shards, together, turned
from fans.studies.made_by import facts

SOURCE = "Appendix, Sensitivity Analysis of boundary b and threshold c"
DATASETS = ("cifar10", "mnist")
METRICS = ("IR", "INF scale-free", "SPA")
"""Columns of Table 1."""

SUBSETS = ("PNS", "size")
"""What is kept of an explanation: the PNS of its subset, and how many features that has."""

Varied = Literal["b", "c"]
SETTING: Mapping[Varied, str] = {"b": "radius", "c": "tolerance"}
PAPER: Mapping[str, Mapping[Varied, float]] = {
    "cifar10": {"b": 1.0546, "c": 0.0118},
    "mnist": {"b": 1.0539, "c": 0.0534},
}
"""What the paper's heuristics give, as it states it."""

SOLVERS: Mapping[str, Mapping[str, Any]] = {"chain": {}, "relaxation": {"preset": "paper"}}
SAID = {"chain": "FANS as it is by default (the chain)", "relaxation": "The paper's relaxation"}

GRID: Mapping[str, Mapping[Varied, Sequence[float]]] = {
    "chain": {"b": (0.05, 0.12, 0.25, 0.5, 2.0, 5.0), "c": (0.001, 0.003, 0.03, 0.2, 0.4, 0.8)},
    "relaxation": {"b": (0.1, 0.25, 0.5, 2.0, 5.0, 20.0), "c": (0.001, 0.003, 0.1, 0.5, 2.0, 10.0)},
}
"""What is tried besides the heuristics of the default and of the paper, each with the other as its heuristic has it.

b is the root mean square of standardised differences by default, and the length of the difference in the paper's own
form; c is of a probability by default, and of the logits' length there.
"""

COARSE: Mapping[str, Mapping[Varied, Sequence[float]]] = {
    "chain": {"b": (0.12, 0.5, 5.0), "c": (0.003, 0.4)},
    "relaxation": {"b": (0.25, 20.0), "c": (0.1, 10.0)},
}
"""The same where a model is dear."""

NEIGHBOURS = {"n_background": 10, "n_local": 9}
"""Reference samples of the relaxation where a model is dear: 20 with the image itself, instead of 100."""

N: Mapping[Size, Mapping[str, Mapping[str, int]]] = {
    "quick": {"chain": {"mnist": 2}, "relaxation": {"mnist": 1}},
    "default": {"chain": {"cifar10": 5, "mnist": 24}, "relaxation": {"cifar10": 1, "mnist": 12}},
    "full": {"chain": {"cifar10": 64, "mnist": 200}, "relaxation": {"cifar10": 20, "mnist": 200}},
}
"""Images by size, solver and dataset; the paper does not say how many it took. An image of CIFAR10 is never quick."""

SHARD = {"chain": 12, "relaxation": 6}
"""Images of a cell; of CIFAR10 one."""

MARGIN = 0.1
"""A metric that changes by less than this share of its mean is stable."""


class Sensitivity(FigureStudy):
    """What the metrics, and the chosen subset, hang on: b and c over a grid each, on CIFAR10 and MNIST."""

    kind: ClassVar[str] = "sensitivity"

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """One cell for some images, a solver, and a value of b or c; `rows` names solvers."""
        solvers = [choose("a solver", row, SOLVERS) for row in asked.rows or SOLVERS]
        table, out = load("table1"), []
        known = [name for name in DATASETS if name in N[asked.size]["chain"]]
        for name in [choose(f"a dataset of the {asked.size} size", name, known) for name in asked.only or known]:
            dataset = table.dataset(name)
            columns = [column.on(name) for column in table.columns if column.name in METRICS]
            for solver in [solver for solver in solvers if name in N[asked.size][solver]]:
                total = len(dataset.positions("reported", asked.n or N[asked.size][solver][name]))
                for varied, value in _points(solver, name, asked.size):
                    common = {
                        "dataset": name,
                        "model": dataset.model,
                        "n_background": dataset.n_background,
                        "method": _named(solver, varied, value),
                        "call": {
                            "method": "fans",
                            "space": None,
                            "settings": _settings(solver, name, asked.size, varied, value),
                        },
                        "columns": columns,
                        "solver": solver,
                        "varied": varied,
                        "value": value,
                        "seed": table.seed,
                    }
                    each = 1 if name == "cifar10" else SHARD[solver]
                    out += [common | {"shard": shard} for shard in shards(total, each)]
        return out

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Those of scores and metrics, and where subsets are chosen what that takes."""
        known, out = set[tuple[str, int]](), []
        for spec in specs:
            shard = (spec["dataset"], spec["shard"][0])
            cost = images.price(spec, first=shard not in known)
            known.add(shard)
            if spec["solver"] == "chain":
                cost += len(range(*spec["shard"])) * CHOOSING
            out.append(Cell(dict(spec) | images.identify(spec), cost))
        return out

    def check(self, cells: Iterable[Cell]) -> None:
        """Raise if the images are not here."""
        for dataset in sorted({cell.kind[0] for cell in cells}):
            images.check_data(dataset)

    def do(self, cell: Cell) -> Result:
        """Explain some images and judge the scores; by default also keep the subset's size and PNS, b and c."""
        spec, (start, stop) = cell.spec, cell.spec["shard"]
        given, made = images.subject(spec["dataset"], spec["model"], spec["n_background"]), images.explainer(spec)
        made.prepare()
        before, x, ids = made.task.predict.n_rows, given.images(start, stop), list(range(start, stop))
        values: dict[str, list[float]] = {}
        attribution: Attribution
        if spec["solver"] == "chain":
            attribution = found = made(x, ids=ids, progress=False)
            values = {"PNS": found.pns.tolist(), "size": found.subset.sum(1).astype(float).tolist()}
            values |= {"b": found.radius.tolist(), "c": found.tolerance.tolist()}
        else:
            attribution = made.attribute(x, ids=ids)
        n_explaining = made.task.predict.n_rows - before
        judgement = judged(spec, attribution, explainer=made, cache=given.cache(start, stop))
        values |= {name: column.tolist() for name, column in judgement.values.items()}
        return Result(values, n_explaining + sum(judgement.rows.values()), {"explaining": attribution.seconds})

    def about(self) -> dict[str, Any]:
        """Return labels, the metrics' directions, and how many images each size has."""
        table, kinds = load("table1"), dict[str, Any](Metric.registry)
        labels = {name: table.dataset(name).label for name in DATASETS}
        higher = {c.name: kinds[c.metric].higher_is_better for c in table.columns if c.name in METRICS}
        sizes = {
            size: {f"{labels[d]}, {s}": n for s, by_dataset in by_solver.items() for d, n in by_dataset.items()}
            for size, by_solver in N.items()
        }
        return {"labels": labels, "higher": higher, "sizes": sizes}

    @classmethod
    def section(cls, run: Ledger) -> Section:
        """Return the paper's claims for both solvers, and a figure each for b, c, and the chosen subset."""
        about = run.plan["about"]
        labels, sweeps = about["labels"], _sweeps(run, about["higher"])
        counts = {f"{labels[s.dataset]}, {s.solver}": s.n for s in sweeps if s.varied == "b"}
        judged_of = [_claims(solver, sweeps, labels) for solver in SOLVERS if any(s.solver == solver for s in sweeps)]
        return Section(
            "sensitivity",
            "Sensitivity: the boundary b and the threshold c",
            [claim for claims in judged_of for claim in claims],
            [sentence for sweep in sweeps if sweep.solver == "chain" for sentence in sweep.told_of_subsets(labels)],
            charts=[
                *(_metrics_chart(varied, sweeps, labels, about["higher"]) for varied in get_args(Varied)),
                _subsets_chart(sweeps, labels),
            ],
            facts=facts(run, about["labels"], about["sizes"], counts),
        )


CHOOSING = 1700
"""Model rows of an image besides its scores: copies, trying sizes, directions, and the estimate."""


def _named(solver: str, varied: Varied | None, value: float | None) -> str:
    return f"{solver}, by its rules" if varied is None else f"{solver}, {varied} = {value:g}"


def _points(solver: str, dataset: str, size: Size) -> list[tuple[Varied | None, float | None]]:
    """Return what is varied, and to what: first nothing, then b, then c."""
    grid = GRID if size == "full" or (size == "default" and dataset == "mnist") else COARSE
    out: list[tuple[Varied | None, float | None]] = [(None, None)]
    for varied in get_args(Varied):
        own = [PAPER[dataset][varied]] if solver == "chain" else []
        out += [(varied, value) for value in sorted([*grid[solver][varied], *own])]
    return out


def _settings(solver: str, dataset: str, size: Size, varied: Varied | None, value: float | None) -> dict[str, Any]:
    """Return the explainer's settings: those of the solver, the paper's b and c for its own, and one of them varied."""
    settings = dict(SOLVERS[solver])
    if solver == "relaxation":
        settings |= {SETTING[name]: PAPER[dataset][name] for name in get_args(Varied)}
        settings |= NEIGHBOURS if dataset == "cifar10" and size != "full" else {}
    return settings if varied is None else settings | {SETTING[varied]: value}


# --- What the records say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """One solver on one dataset while b or c varies.

    Attributes:
        solver, dataset, varied: which.
        rule: what was measured with b and c by their rules, by column and input.
        at: the same by value of b or c.
        mark: what the rule gives, on average.
        higher: whether more is better, by metric.
    """

    solver: str
    dataset: str
    varied: Varied
    rule: Mapping[str, Values]
    at: Mapping[float, Mapping[str, Values]]
    mark: float
    higher: Mapping[str, bool]

    @property
    def n(self) -> int:
        """Images."""
        return len(self.rule["SPA"])

    def points(self, column: str) -> dict[float, Entry]:
        """Return means by value, that of the rule among them."""
        points = {value: mean(columns[column]) for value, columns in self.at.items()}
        return points | {self.mark: mean(self.rule[column])}

    def changes(self, column: str) -> dict[float, Entry]:
        """Return what changes against the rule, paired by image, as a share of its mean there."""
        level = abs(mean(self.rule[column]).value) or 1.0
        out = {}
        for value, columns in sorted(self.at.items()):
            if found := difference(columns[column], self.rule[column]):
                out[value] = Entry(found.value / level, found.low / level, found.high / level, found.n)
        return out

    def same(self) -> bool:
        """Tell whether no metric changes at all."""
        return all(e.value == e.low == e.high == 0 for m in METRICS for e in self.changes(m).values())

    def stable(self, metric: str) -> bool | None:
        """Tell whether a metric stays within `MARGIN` of what it is by the rule."""
        return True if self.same() else together(is_stable(e, MARGIN) for e in self.changes(metric).values())

    def fading(self) -> bool | None:
        """Tell whether IR falls from the smallest value to the largest, and is stable over the last two."""
        values = sorted(self.at)
        if self.same():
            return False
        fall = difference(self.at[values[-1]]["IR"], self.at[values[0]]["IR"])
        last = difference(self.at[values[-1]]["IR"], self.at[values[-2]]["IR"])
        if fall is None or last is None or fall.n < FEW:
            return None
        falls = True if fall.high < 0 else False if fall.low >= 0 or self.stable("IR") else None
        level = abs(mean(self.rule["IR"]).value) or 1.0
        return together([falls, is_stable(last, MARGIN * level)])

    def comparable(self, metric: str) -> bool | None:
        """Tell whether no value tried is better than the rule by more than `MARGIN`."""
        if self.same():
            return True
        better = [e if self.higher[metric] else turned(e) for e in self.changes(metric).values()]
        return together(
            None if e.n < FEW else True if e.high <= MARGIN else False if e.low > MARGIN else None for e in better
        )

    def told(self, label: str) -> str:
        """Say how far the metrics change."""
        if self.same():
            n = len(self.at)
            return f"{label}: the scores are the same to the last digit at {n} values of {self.varied}, N = {self.n}"
        words = []
        for metric in METRICS:
            value, most = max(self.changes(metric).items(), key=lambda pair: abs(pair[1].value))
            interval = f" [{most.low:+.0%}, {most.high:+.0%}]" if most.n >= FEW else ""
            words.append(f"{metric} by {most.value:+.0%}{interval} at {self.varied} = {value:g}")
        return f"{label}, over {self.varied}: at most {listed(words)}, N = {self.n}"

    def told_of_subsets(self, labels: Mapping[str, str]) -> list[str]:
        """Say what the chosen subset is over the grid."""
        values = sorted(self.at)
        told = []
        for column, word in (("PNS", "PNS"), ("size", "features")):
            shown = [f"{number(mean(self.at[v][column]).value)} at {v:g}" for v in (values[0], values[-1])]
            told.append(f"{word} {stated(mean(self.rule[column]))} at {number(self.mark)}, {listed(shown)}")
        scores = "do not hang on it" if self.same() else "change with it"
        return [
            f"{labels[self.dataset]}, {self.varied} by default {number(self.mark)}: the scores {scores}; the chosen "
            f"subset does: {'; '.join(told)}."
        ]


def _sweeps(run: Ledger, higher: Mapping[str, bool]) -> list[Sweep]:
    """Return all sweeps of a run whose centre is done."""
    records = run.records()
    found, specs = by_input(records), {(r.spec["method"], r.spec["dataset"]): r.spec for r in records}
    out = []
    for (method, dataset), rule in found.items():
        solver = specs[method, dataset]["solver"]
        if specs[method, dataset]["varied"] is not None:
            continue
        for varied in get_args(Varied):
            at = {
                specs[key]["value"]: columns
                for key, columns in found.items()
                if key[1] == dataset and (specs[key]["solver"], specs[key]["varied"]) == (solver, varied)
            }
            given = specs[method, dataset]["call"]["settings"].get(SETTING[varied])
            mark = mean(rule[varied]).value if given is None else given
            if at:
                out.append(Sweep(solver, dataset, varied, rule, at, float(mark), higher))
    return out


def _claims(solver: str, sweeps: Sequence[Sweep], labels: Mapping[str, str]) -> list[Claim]:
    """Return the paper's three claims of one solver."""
    of_b, of_c = ([s for s in sweeps if (s.solver, s.varied) == (solver, varied)] for varied in get_args(Varied))

    def claim(says: str, about: Sequence[Sweep], verdicts: Iterable[bool | None]) -> Claim:
        told = "; ".join(sweep.told(labels[sweep.dataset]) for sweep in about)
        return Claim(says, SOURCE, f"{SAID[solver]}, against b and c by the rules. {told}.", together(verdicts))

    return [
        claim(
            "The performance of FANS is not sensitive to changes in the values of b.",
            of_b,
            (sweep.stable(metric) for sweep in of_b for metric in METRICS),
        ),
        claim(
            "As c grows, the performance gradually decreases and becomes stable.",
            of_c,
            (sweep.fading() for sweep in of_c),
        ),
        claim(
            "The heuristics' values of b and c give a robust and comparable performance.",
            [*of_b, *of_c],
            (sweep.comparable(metric) for sweep in (*of_b, *of_c) for metric in METRICS),
        ),
    ]


# --- Figures ----------------------------------------------------------------------------------------------------------

AXES: Mapping[Varied, str] = {"b": "boundary b", "c": "threshold c"}


def _metrics_chart(
    varied: Varied, sweeps: Sequence[Sweep], labels: Mapping[str, str], higher: Mapping[str, bool]
) -> Chart:
    """Return the figure of the metrics over b or c."""
    panels = []
    for dataset, label in labels.items():
        here = [s for s in sweeps if (s.dataset, s.varied) == (dataset, varied)]
        for metric in METRICS if here else ():
            lines = [Line.of(SAID[s.solver], s.points(metric), ours=s.solver == "chain") for s in here]
            title = f"{label}: {metric} {'↑' if higher[metric] else '↓'}"
            panels.append(Panel(title, AXES[varied], metric, lines, log_x=True, marks=_marks(here)))
    units = {
        "b": "root mean square of standardised differences by default, length of the difference in the paper's form",
        "c": "of a probability by default, of the logits' length in the paper's form",
    }
    note = f"Means of images, 95 % intervals where there are five. {varied}: {units[varied]}."
    return Chart(f"sensitivity_{varied}", f"What scores hang on: {AXES[varied]}", panels, columns=3, note=note)


def _subsets_chart(sweeps: Sequence[Sweep], labels: Mapping[str, str]) -> Chart:
    """Return the figure of the chosen subset over b and c, of the default."""
    panels = []
    for dataset, label in labels.items():
        for sweep in [s for s in sweeps if (s.dataset, s.solver) == (dataset, "chain")]:
            for column, y in zip(SUBSETS, ("PNS of the chosen subset", "features in it"), strict=True):
                lines = [Line.of(SAID["chain"], sweep.points(column), ours=True)]
                marks = [(sweep.mark, "default"), (PAPER[dataset][sweep.varied], "paper's")]
                panels.append(Panel(f"{label}: {column}", AXES[sweep.varied], y, lines, log_x=True, marks=marks))
    note = "Means of images, 95 % intervals where there are five."
    return Chart("sensitivity_subset", "What the chosen subset hangs on", panels, note=note)


def _marks(sweeps: Sequence[Sweep]) -> list[tuple[float, str]]:
    words = {"chain": "default", "relaxation": "paper's"}
    return [(sweep.mark, words[sweep.solver]) for sweep in sweeps]
