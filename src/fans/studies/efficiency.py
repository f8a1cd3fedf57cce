"""How many images does a method explain in a given time, and how well? Seconds and IROF of methods, turn by turn."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from fans.datasets.images import image_dataset
from fans.evaluation import evaluate
from fans.explainer import Explainer
from fans.explanation import Attribution
from fans.metrics import metric
from fans.report.sections import Chart, Claim, Line, Panel, Section
from fans.report.tables import FEW, Entry, Heading, Place, Table, entry, number
from fans.runs import Cell, Ledger, Record, Result
from fans.studies import images, tuned
from fans.studies.base import Asked, FigureStudy, Plain, Size
from fans.studies.differences import difference, mean
from fans.studies.made_by import facts
from fans.studies.tuned import OURS

DATASET = "cifar10"
TURNS = "turn by turn"
"""The method in a cell, which is all of them."""

PAPER_SECONDS = 100.0
PAPER = {OURS: 450, "LIME": 350, "MP": 75}
"""Images explained in that time, as the paper reads its figure."""

GOALS = {"LIME": 3.0, "MP": 20.0}
"""How many times as many images as these we want FANS to explain, no worse."""

LOW = f"{OURS}, effort low"
"""The way of FANS that is drawn besides the tuned one."""

SOURCE = 'Appendix "Efficiency Analysis" and its figure'

BUSY = 0.7
"""With less of one processor than this share a process was disturbed."""

SLOW = 1.0
"""What takes longer than so many seconds the first time is timed once in a cell."""


@dataclass(frozen=True)
class Way:
    """A method with settings that say how long it takes.

    Attributes:
        method: its row in Table 1.
        label: of the settings; empty for those of the row.
        settings: instead of the row's.
    """

    method: str
    label: str = ""
    settings: Plain | None = None

    @property
    def name(self) -> str:
        """Return method and settings in words."""
        return f"{self.method}, {self.label}" if self.label else self.method


def _chain(n_steps: int, n_rows: int) -> Way:
    """Return FANS with so many steps of so many model rows."""
    return Way(OURS, f"{n_steps} steps of {n_rows} rows", {"n_steps": n_steps, "n_rows": n_rows})


def _counted(method: str, setting: str, values: Sequence[int]) -> list[Way]:
    """Return a method with several values of a setting."""
    return [Way(method, f"{setting} {value}", {setting: value}) for value in values]


WAYS = (
    *(_chain(3, 4), _chain(5, 8), _chain(10, 8), Way(OURS, "effort low", {"effort": "low"}), Way(OURS)),
    Way(OURS, "effort high", {"effort": "high"}),
    *(*_counted("MP", "n_steps", [30, 100]), Way("MP")),
    *(*_counted("LIME", "n_samples", [50, 100, 200]), Way("LIME"), *_counted("LIME", "n_samples", [1000])),
    *(Way("CIMI"), Way("FeatAblation"), Way("Occlusion"), Way("DeepLift")),
    *(*_counted("IG", "n_steps", [5, 15]), Way("IG")),
)
"""All that is tried, the cheapest of each method first; those without a label have the settings of Table 1."""

QUICK = ("FANS, 5 steps of 8 rows", "FANS", "LIME, n_samples 50", "LIME", "FeatAblation", "DeepLift", "IG")


@dataclass(frozen=True)
class Extent:
    """How much is computed.

    Attributes:
        n, shard: images, and images that are explained at once, in one cell.
        rounds: how often what is fast is timed in a cell.
        ways: names of those tried, unless others are asked for.
    """

    n: int
    shard: int
    rounds: int
    ways: tuple[str, ...] = tuple(way.name for way in WAYS)


EXTENTS: Mapping[Size, Extent] = {
    "quick": Extent(1, 1, 1, QUICK),
    "default": Extent(32, 4, 3),
    "full": Extent(200, 20, 5),
}


class Efficiency(FigureStudy):
    """Seconds and IROF of methods on CIFAR-10, at their tuned settings and at dearer and cheaper ones.

    A cell explains a shard's images with every method in turn, so that all are timed within minutes of each other and
    ratios of their seconds hold whatever else the machine does. Scores alone are timed (`Explainer.attribute`):
    choosing FANS's subset and estimating its PNS is not what rivals do. Seconds are kept with the circumstances of a
    record: `--verify` compares scores and model rows.
    """

    kind = "efficiency"
    extents: ClassVar[Mapping[Size, Extent]] = EXTENTS

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """Return a cell a shard; rows are names of methods."""
        extent = self.extents[asked.size]
        tuned.check_asked(asked, [DATASET], dict.fromkeys(way.method for way in WAYS))
        tried = [w for w in WAYS if (w.method in asked.rows if asked.rows else w.name in extent.ways)]
        table = tuned.table(self.kind, [], DATASET, extent.n, extent.shard)
        calls = {row.name: row.on(DATASET) for row in table.rows}
        ways = [{"name": w.name, "method": w.method, "call": _with(calls[w.method], w.settings)} for w in tried]
        own, total = table.dataset(DATASET), len(table.dataset(DATASET).positions("reported", asked.n))
        common = {"experiment": self.kind, "dataset": DATASET, "model": own.model, "n_background": own.n_background}
        common |= {"method": TURNS, "seed": table.seed, "rounds": extent.rounds, "ways": ways}
        starts = range(0, total, extent.shard)
        return [common | {"shard": [start, min(start + extent.shard, total)]} for start in starts]

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Return the cells with their model rows; training counts once."""
        trained = sum(images.training({**specs[0], "call": way["call"]}) for way in specs[0]["ways"])
        costs = [_price(spec) + (0 if i else trained) for i, spec in enumerate(specs)]
        return [Cell(dict(s) | images.identify(s), cost) for s, cost in zip(specs, costs, strict=True)]

    def check(self, cells: Iterable[Cell]) -> None:  # noqa: ARG002
        """Raise if CIFAR-10 is not here."""
        images.check_data(DATASET)

    def do(self, cell: Cell) -> Result:
        """Explain a shard in every way, turn by turn, and judge the scores."""
        return _explain(cell.spec)

    def about(self) -> dict[str, Any]:
        """Return the labels of the datasets, and how many inputs each size has."""
        sizes = {size: {DATASET: extent.n} for size, extent in self.extents.items()}
        return {"labels": tuned.labels([DATASET]), "sizes": sizes}

    @classmethod
    def section(cls, run: Ledger) -> Section:
        """Return images against seconds, and how well they are explained."""
        about, found = run.plan["about"], _read(run.records())
        return Section(
            cls.kind,
            "Efficiency: images explained in a given time, and how well",
            claims=[_more(found)],
            summary=[*_busy(found), *_summary(found)],
            tables=[_table(found, about["labels"][DATASET])] if found else [],
            charts=[_chart(found, run.records())] if found else [],
            facts=facts(run, about["labels"], about["sizes"]),
        )


# --- Cells -----------------------------------------------------------------------------------------------------------


def _with(call: Plain, settings: Plain | None) -> dict[str, Any]:
    return {**call, "settings": {**call["settings"], **(settings or {})}}


def _price(spec: Plain) -> int:
    """Return the rows of a cell: the warm-up, the images, what is timed again left out, and IROF."""
    start, stop = spec["shard"]
    explaining = sum(images.price({**spec, "call": w["call"], "columns": [], "shard": [0, 1]}) for w in spec["ways"])
    judging = len(spec["ways"]) * metric("irof").cost(image_dataset(DATASET).shape)
    return int((stop - start) * (explaining + judging))


def _explain(spec: Plain) -> Result:
    """Explain a shard in every way: rows and IROF are values, seconds and training circumstances."""
    start, stop = spec["shard"]
    given = images.subject(spec["dataset"], spec["model"], spec["n_background"])
    x, ids = given.images(start, stop), list(range(start, stop))
    made = {way["name"]: images.explainer({**spec, "call": way["call"]}) for way in spec["ways"]}
    training = {name: dict(how) for name, explainer in made.items() if (how := explainer.prepare())}
    _warm_up(spec["ways"], made, x[:1])
    first, clocks, rows = _timed(made, x, ids, spec["rounds"])
    scores: dict[str, list[float]] = {}
    judge, cache, n_judging = metric("irof", of="predicted"), dict[Any, Any](), 0
    for name, attribution in first.items():
        found = evaluate(attribution, {"IR": judge}, explainer=made[name], cache=cache)
        scores |= {f"IR {name}": found["IR"].tolist(), f"rows {name}": [rows[name] / len(x)] * len(x)}
        n_judging += found.rows["IR"]
    seconds, processor = ({name: clock[which] for name, clock in clocks.items()} for which in (0, 1))
    timing = {"seconds": seconds, "processor": processor, "training": training}
    return Result({"scores": scores}, sum(rows.values()) + n_judging, timing)


def _warm_up(ways: Sequence[Plain], made: Mapping[str, Explainer], x: torch.Tensor) -> None:
    """Explain an image in the first way of each method, so that none is timed while the process wakes up."""
    for name in {way["method"]: way["name"] for way in reversed(ways)}.values():
        made[name].attribute(x)


class _Clocks(NamedTuple):
    """Seconds an image of every round: as they pass, and those that the processor worked for this process."""

    wall: list[float]
    processor: list[float]


def _timed(
    made: Mapping[str, Explainer], x: torch.Tensor, ids: Sequence[int], rounds: int
) -> tuple[dict[str, Attribution], "dict[str, _Clocks]", dict[str, int]]:
    """Explain images with all explainers in turn, several rounds of those that are fast.

    Returns:
        The attributions of the first round, what the clocks say of every round, and the model rows of one.
    """
    first: dict[str, Attribution] = {}
    clocks: dict[str, _Clocks] = {name: _Clocks([], []) for name in made}
    rows: dict[str, int] = {}
    for turn in range(rounds):
        for name, explainer in made.items():
            wall, processor = clocks[name]
            if turn and wall[0] * len(x) > SLOW:
                continue
            before, began, worked = explainer.task.predict.n_rows, time.perf_counter(), time.process_time()
            attribution = explainer.attribute(x, ids=ids)
            wall.append((time.perf_counter() - began) / len(x))
            processor.append((time.process_time() - worked) / len(x))
            rows.setdefault(name, explainer.task.predict.n_rows - before)
            first.setdefault(name, attribution)
    return first, clocks, rows


# --- What was found --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Timed:
    """A way to explain, as records have it.

    Attributes:
        method, name: of it.
        seconds: an image, by cell: the median of its rounds.
        processor: those of them that the processor worked for it.
        faithful: IROF by image.
        rows: model rows an image.
        trained: seconds of training, 0 where there is none.
    """

    method: str
    name: str
    seconds: Mapping[int, float]
    processor: Mapping[int, float]
    faithful: Mapping[int, float]
    rows: float
    trained: float

    @property
    def is_tuned(self) -> bool:
        """Whether it has the settings of Table 1."""
        return self.name == self.method

    @property
    def time(self) -> Entry:
        """Seconds an image: the median over cells, with the interval of their mean."""
        return entry(np.array(list(self.seconds.values())), "median")

    def times(self, other: "_Timed") -> Entry | None:
        """Return how many times as many images it explains as another, in cells that have both."""
        both = sorted(self.seconds.keys() & other.seconds.keys())
        return entry(np.array([other.seconds[i] / self.seconds[i] for i in both]), "median") if both else None

    def better(self, other: "_Timed") -> Entry | None:
        """Return its IROF less another's, paired by image."""
        return difference(self.faithful, other.faithful)


Timings = Mapping[str, _Timed]


def _read(records: Sequence[Record]) -> dict[str, _Timed]:
    """Return what records say of each way."""
    columns = tuned.values(records).get(DATASET, {}).get(TURNS, {})
    methods = {way["name"]: way["method"] for record in records for way in record.spec["ways"]}
    found = {}
    for name, method in methods.items():
        seconds, processor, trained = dict[int, float](), dict[int, float](), [0.0]
        for record in records:
            timing = record.circumstances["timing"]
            if name in timing["seconds"]:
                for found_by, of in ((seconds, timing["seconds"]), (processor, timing["processor"])):
                    found_by[int(record.spec["shard"][0])] = float(np.median(of[name]))
            trained.append(float(timing["training"].get(name, {}).get("seconds", 0.0)))
        rows = float(np.mean(list(columns[f"rows {name}"].values())))
        found[name] = _Timed(method, name, seconds, processor, columns[f"IR {name}"], rows, max(trained))
    return found


def _more(found: Timings) -> Claim:
    """Return whether FANS explains more images than LIME and MP in the same time."""
    says = (
        f"In {PAPER_SECONDS:g} seconds FANS explains about {PAPER[OURS]} images of CIFAR10, LIME {PAPER['LIME']} and "
        f"MP {PAPER['MP']}: {PAPER[OURS] / PAPER['LIME']:.2f} and {PAPER[OURS] / PAPER['MP']:.0f} times as many."
    )
    rivals = [name for name in GOALS if name in found]
    if OURS not in found or not rivals:
        return Claim(says, SOURCE, "FANS, LIME or MP is not computed yet", None)
    counts = ", ".join(f"{name} {PAPER_SECONDS / found[name].time.value:,.0f}" for name in [OURS, *rivals])
    ratios = [r for name in rivals if (r := found[OURS].times(found[name])) is not None]
    parts = [f"{_compared(found[OURS], found[name])}" for name in rivals]
    said = f"at their tuned settings, in {PAPER_SECONDS:g} seconds here: {counts}. FANS explains {' and '.join(parts)}."
    cheaper = [way for way in found.values() if way.method == OURS and _meets(way, found, 1.0)]
    if cheaper and not _meets(found[OURS], found, 1.0):
        best = max(cheaper, key=lambda way: mean(way.faithful).value)
        said += f" With {_setting(best)} it explains {' and '.join(_compared(best, found[name]) for name in rivals)}."
    held = None
    if len(rivals) == len(GOALS) and all(ratio.n > 1 for ratio in ratios):
        held = True if all(r.low > 1 for r in ratios) else False if any(r.high < 1 for r in ratios) else None
    return Claim(says, SOURCE, said, held)


def _setting(way: _Timed) -> str:
    """Return the settings of a way of FANS in words."""
    return "its defaults" if way.is_tuned else way.name.removeprefix(f"{way.method}, ")


def _compared(way: _Timed, other: _Timed) -> str:
    """Say how many times as many images as another a way explains, and how much better."""
    ratio, better = way.times(other), way.better(other)
    assert ratio is not None
    assert better is not None
    ends = f" [{number(ratio.low)}, {number(ratio.high)}]" if ratio.n > 1 else ""
    return f"{number(ratio.value)}{ends} times as many images as {other.name} (IROF {tuned.signed(better)})"


def _meets(way: _Timed, found: Timings, share: float | None = None) -> bool:
    """Tell whether a way explains as many times as many images as `GOALS`, or `share`, asks, at no lower mean IROF."""
    for name, goal in GOALS.items():
        if name not in found:
            return False
        ratio, better = way.times(found[name]), way.better(found[name])
        if ratio is None or better is None or ratio.value < (share or goal) or better.value < 0:
            return False
    return True


def _summary(found: Timings) -> list[str]:
    """Say which settings of FANS meet our goal, what a second buys, and what is timed apart."""
    out, ours = [], [way for way in found.values() if way.method == OURS]
    if ours and all(name in found for name in GOALS):
        goal = " and ".join(f"{times:g} times as many images as {name}" for name, times in GOALS.items())
        met = [_setting(way) for way in ours if _meets(way, found)]
        told = f"it is met with {' and with '.join(met)}" if met else "no setting of FANS meets it"
        out.append(f"Our goal is {goal}, at no lower IROF: {told}.")
        out += [f"FANS with {_setting(way)}: {'; '.join(_compared(way, found[n]) for n in GOALS)}." for way in ours]
    out += [
        f"{way.name} is trained for {way.trained:,.0f} s first, which is not counted in its seconds an image."
        for way in found.values()
        if way.trained
    ]
    return out


def _busy(found: Timings) -> list[str]:
    """Say so where other work took the processor away."""
    passed = sum(sum(way.seconds.values()) for way in found.values())
    worked = sum(sum(way.processor.values()) for way in found.values())
    if worked >= BUSY * passed:
        return []
    return [
        f"Other work ran beside this one, which had {worked / passed:.0%} of one processor:"
        " its seconds are too many, and their "
        "ratios may be off. Run it again on a machine that does nothing else."
    ]


def _table(found: Timings, label: str) -> Table:
    """Return seconds, images, rows and IROF of every way."""
    names = {
        "s an image": False,
        "processor s": False,
        f"images in {PAPER_SECONDS:g} s": True,
        "model rows": False,
        "IR": True,
    }
    headings = [Heading(name, higher_is_better=higher, ranked=False) for name, higher in names.items()]
    entries: dict[Place, Entry] = {}
    for way in found.values():
        rows = Entry(way.rows, way.rows, way.rows, len(way.faithful))
        worked = entry(np.array(list(way.processor.values())), "median")
        each = [way.time, worked, _images(way, PAPER_SECONDS), rows, mean(way.faithful)]
        entries |= {(way.name, label, name): e for name, e in zip(names, each, strict=True)}
    notes = ["Seconds: the median over cells of images explained at once; their n is that of cells. Scores alone."]
    return Table(
        "Time and quality", [label], headings, [(w.name, w.method) for w in found.values()], entries, notes=notes
    )


def _images(way: _Timed, seconds: float) -> Entry:
    """Return how many images a way explains in so many seconds."""
    each = way.time
    return Entry(seconds / each.value, seconds / each.high, seconds / each.low, each.n, "median")


def _chart(found: Timings, records: Sequence[Record]) -> Chart:
    """Return images against seconds, at tuned settings, and IROF against seconds an image, at all."""
    shown = [*(way for way in found.values() if way.is_tuned), *(w for w in found.values() if w.name == LOW)]
    many = [
        Line.of(way.name, {s: _images(way, s) for s in (1.0, 10.0, PAPER_SECONDS, 1000.0)}, ours=way.method == OURS)
        for way in shown
    ]
    methods = dict.fromkeys(way.method for way in found.values())
    quality = [_line(method, [way for way in found.values() if way.method == method]) for method in methods]
    spec = records[0].spec
    note = (
        f"{len(next(iter(found.values())).faithful)} images, {spec['shard'][1] - spec['shard'][0]} explained at once, "
        f"methods in turn, {records[0].circumstances['threads']} thread(s); scores alone. Right: settings "
        "from cheap to dear, named beside the numbers. Seconds are of one machine, their ratios less so."
    )
    mark = [(PAPER_SECONDS, "the paper's time")]
    panels = [
        Panel("At tuned settings", "seconds", "images explained", many, log_x=True, log_y=True, marks=mark),
        Panel("What a second buys", "seconds an image", "IROF", quality, log_x=True),
    ]
    return Chart("efficiency", "Time and quality on CIFAR10", panels, note=note)


def _line(method: str, ways: Sequence[_Timed]) -> Line:
    """Return IROF against seconds an image of one method at several settings."""
    ordered = sorted(ways, key=lambda way: way.time.value)
    entries = [mean(way.faithful) for way in ordered]
    several = min(e.n for e in entries) >= FEW
    return Line(
        method,
        [way.time.value for way in ordered],
        [e.value for e in entries],
        [e.low for e in entries] if several else (),
        [e.high for e in entries] if several else (),
        [e.n for e in entries],
        ours=method == OURS,
        dots=len(ways) == 1,
        labels=["as in Table 1" if way.is_tuned else way.name.removeprefix(f"{method}, ") for way in ordered],
    )
