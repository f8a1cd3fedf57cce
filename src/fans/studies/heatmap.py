"""Whose score maps are sparse? Maps of a few digits by all methods, and how many pixels count for little in many."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fans.datasets import load_images
from fans.datasets.images import image_dataset
from fans.evaluation import evaluate
from fans.report.sections import Claim, Gallery, Section, stated
from fans.report.tables import Heading, Table
from fans.runs import Cell, Ledger, Record, Result
from fans.studies import images, tuned
from fans.studies._entries import Column
from fans.studies._yaml import load
from fans.studies.base import Asked, FigureStudy, Plain, Size
from fans.studies.differences import difference, mean
from fans.studies.made_by import facts
from fans.studies.tuned import METHODS, OURS, TRIVIAL, shown
from fans.types import Array

DATASET = "mnist"

PICTURED = 5
"""The first test images, which are of as many classes: a 7, a 2, a 1, a 0 and a 4."""

UNIMPORTANT = 0.05
"""A pixel whose score is below this share of its map's largest counts for little."""

THEMSELVES = "the images themselves"
"""The method in the cell that keeps what was explained."""

IG = "IG"
SOURCE = 'Section "Qualitative evaluation" and its figure'

SHARD = 50
SIZES: Mapping[Size, int] = {"quick": PICTURED, "default": 100, "full": 200}


class Heatmap(FigureStudy):
    """Score maps of Table 1's methods, a few of them as pictures on one scale, and how sparse many are.

    The paper paints raw scores. Methods score in units of their own, so that one scale for all takes each map as shares
    of its own largest absolute score. A cell explains a shard with one method; the predicted class is explained.
    """

    kind = "heatmap"
    sizes: ClassVar[Mapping[Size, int]] = SIZES

    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """Return a cell for the images that are pictured, and cells of each method, shard by shard."""
        tuned.check_asked(asked, [DATASET])
        columns = [Column("SPA", "sparseness")]
        table = tuned.table(self.kind, columns, DATASET, self.sizes[asked.size], SHARD)
        methods = asked.rows or [name for name in METHODS if asked.size != "quick" or name != "CIMI"]  # to be trained
        specs = [_pictured(spec) for spec in table.cells(asked.n, None, methods)]
        return [{**{name: specs[0][name] for name in _KEPT}, "method": THEMSELVES}, *specs]

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Return the cells with their model rows."""
        explaining = iter(load("table1").price([spec for spec in specs if "call" in spec]))
        return [
            next(explaining) if "call" in spec else Cell(dict(spec) | images.identify(spec), len(spec["pictured"]))
            for spec in specs
        ]

    def check(self, cells: Iterable[Cell]) -> None:  # noqa: ARG002
        """Raise if MNIST is not here."""
        images.check_data(DATASET)

    def do(self, cell: Cell) -> Result:
        """Explain a shard, and keep the maps that are pictured; or keep the images."""
        return _explain(cell.spec) if "call" in cell.spec else _keep(cell.spec)

    def about(self) -> dict[str, Any]:
        """Return the labels of the datasets, how many inputs each size has, and the side of an image."""
        return {
            "labels": tuned.labels([DATASET]),
            "sizes": {size: {DATASET: n} for size, n in self.sizes.items()},
            "shape": list(image_dataset(DATASET).shape[1:]),
        }

    @classmethod
    def section(cls, run: Ledger) -> Section:
        """Return the maps side by side, and whether FANS's are the sparser ones."""
        about, records = run.plan["about"], run.records()
        found = tuned.values(r for r in records if "call" in r.spec).get(DATASET, {})
        gallery = _gallery(records, about["shape"])
        return Section(
            cls.kind,
            "Heatmaps: what is marked, and how sparsely",
            claims=[_sparsest(found), _emptier(found)],
            summary=_summary(found),
            tables=[_table(found, about["labels"][DATASET])] if found else [],
            galleries=[] if gallery is None else [gallery],
            facts=facts(run, about["labels"], about["sizes"]),
        )


# --- Cells -----------------------------------------------------------------------------------------------------------

_KEPT = ("experiment", "dataset", "model", "n_background", "shard", "seed", "pictured")


def _pictured(spec: Plain) -> dict[str, Any]:
    """Return a cell that also says which of its images are pictured."""
    start, stop = spec["shard"]
    return dict(spec) | {"pictured": list(range(start, min(stop, PICTURED)))}


def _explain(spec: Plain) -> Result:
    """Explain a shard; keep of each map its sparseness and how much of it counts for little, of some all pixels."""
    start, stop = spec["shard"]
    given, made = images.subject(spec["dataset"], spec["model"], spec["n_background"]), images.explainer(spec)
    trained, before = made.prepare(), made.task.predict.n_rows
    attribution = made.attribute(given.images(start, stop), ids=list(range(start, stop)))
    n_rows = made.task.predict.n_rows - before
    shares = as_shares(attribution.heatmap)
    maps = {f"map {i}": shares[i - start].ravel().round(5).tolist() for i in spec["pictured"]}
    scores = {
        "SPA": evaluate(attribution, ["sparseness"], explainer=made)["sparseness"].tolist(),
        "unimportant": unimportant(shares).tolist(),
    }
    return Result({"scores": scores, "maps": maps}, n_rows, {"explaining": attribution.seconds, "training": trained})


def _keep(spec: Plain) -> Result:
    """Keep the images that are pictured, what they show, and what the model takes them for."""
    given = images.subject(spec["dataset"], spec["model"], spec["n_background"])
    at = spec["pictured"]
    x, known = given.images(at[0], at[-1] + 1), load_images(spec["dataset"], "test")
    predicted = given.model(x).argmax(1).tolist()
    maps = {f"map {i}": x[i - at[0]].flatten().tolist() for i in at}
    classes = {"label": known.labels[at].tolist(), "predicted": predicted}
    return Result({"scores": classes, "maps": maps}, len(at))


def as_shares(maps: Array) -> Array:
    """Return score maps `(n, channels, H, W)` as shares of each one's largest absolute score; those of 0 stay 0."""
    flat = np.asarray(maps, dtype=np.float64).reshape(len(maps), -1)
    largest = np.abs(flat).max(1, keepdims=True)
    found: Array = (flat / np.where(largest > 0, largest, 1.0)).reshape(maps.shape)
    return found


def unimportant(shares: Array) -> Array:
    """Return the share of the pixels of each map `(n, ...)` that count for little, for or against the class."""
    found: Array = (np.abs(shares) < UNIMPORTANT).reshape(len(shares), -1).mean(1)
    return found


# --- What was found --------------------------------------------------------------------------------------------------

Values = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Method and column, to the value of each image."""


def _sparsest(found: Values) -> Claim:
    """Return whether FANS and IG are each sparser than every other method."""
    says = "The attributions of FANS and IG are sparser than those of other methods."
    others = [name for name in found if name not in (OURS, IG, *TRIVIAL)]
    if not others or OURS not in found or IG not in found:
        return Claim(says, SOURCE, "FANS, IG or another method is not computed yet", None)
    parts, signs = [], []
    for own in (OURS, IG):
        ahead = {name: difference(found[name]["SPA"], found[own]["SPA"]) for name in others}
        by_sign = {s: [name for name, gap in ahead.items() if tuned.sign(gap) == s] for s in (-1, 0, 1)}
        signs += [-tuned.sign(gap) for gap in ahead.values()]
        sparser = [f"{shown(n)} {tuned.signed(gap)}" for n in by_sign[1] if (gap := ahead[n]) is not None]
        said = f"{own} has a sparseness of {stated(mean(found[own]['SPA']))}"
        said += f", more than {len(by_sign[-1])} of {len(others)} other methods"
        said += f"; sparser: {', '.join(sparser)}" if sparser else ""
        parts.append(said + (f"; not told apart: {tuned.named(by_sign[0])}" if by_sign[0] else ""))
    held = False if min(signs) < 0 else True if min(signs) > 0 else None
    return Claim(says, SOURCE, f"{'. '.join(parts)} (Gini index of absolute scores, paired by image).", held)


def _emptier(found: Values) -> Claim:
    """Return whether FANS leaves more pixels unimportant than IG."""
    says = "FANS has more blue pixels, unimportant ones, than IG, and so more contrast."
    if OURS not in found or IG not in found:
        return Claim(says, SOURCE, "FANS or IG is not computed yet", None)
    own, other = (found[name]["unimportant"] for name in (OURS, IG))
    gap = difference(own, other)
    assert gap is not None
    return Claim(
        says,
        SOURCE,
        f"of FANS's pixels {stated(mean(own))} score below {UNIMPORTANT:.0%} of the map's largest, of IG's "
        f"{stated(mean(other))}; the difference, paired by image, is {tuned.signed(gap)}.",
        {1: True, -1: False, 0: None}[tuned.sign(gap)],
    )


def _summary(found: Values) -> list[str]:
    """Say what sparseness is not."""
    if OURS not in found:
        return []
    order = sorted((mean(found[name]["unimportant"]).value, shown(name)) for name in found if name not in TRIVIAL)
    (least, first), (most, last) = order[0], order[-1]
    return [
        f"The share of unimportant pixels goes from {least:.0%} ({first}) to {most:.0%} ({last}). Most of a "
        "digit's image is black, and a method whose baseline is black gives these pixels 0 whatever the model does. A "
        "map may be sparse and wrong: how well it names what the model uses is in table1 (IR, insertion, deletion)."
    ]


def _table(found: Values, label: str) -> Table:
    """Return sparseness and the share of unimportant pixels of every method."""
    columns = {"sparseness": "SPA", "unimportant pixels": "unimportant"}
    headings = [Heading(name, higher_is_better=True, ranked=False) for name in columns]
    rows = [name for name in METHODS if name in found]
    entries = {(r, label, name): mean(found[r][column]) for r in rows for name, column in columns.items()}
    notes = [f"Unimportant: scores below {UNIMPORTANT:.0%} of the map's largest, in absolute value."]
    return Table("How sparse the maps are", [label], headings, [(r, "") for r in rows], entries, notes=notes)


def _gallery(records: Sequence[Record], shape: Sequence[int]) -> Gallery | None:
    """Return the maps that are pictured; None until they and the images are there."""
    maps: dict[str, dict[str, list[float]]] = {}
    for record in records:
        maps.setdefault(record.spec["method"], {}).update(record.values["maps"])
    themselves = next((r for r in records if r.spec["method"] == THEMSELVES), None)
    methods = sorted((name for name in METHODS if maps.get(name)), key=lambda name: name != OURS)
    if themselves is None or not methods:
        return None
    places = themselves.spec["pictured"]
    grey = np.array([maps[THEMSELVES][f"map {i}"] for i in places]).reshape(-1, *shape)
    scores = np.array([[maps[name][f"map {i}"] for name in methods] for i in places])
    return Gallery(
        "heatmap",
        "Score maps by method, each as shares of its own largest absolute score, in the same colours",
        [_title(themselves, i) for i in range(len(places))],
        [shown(name) for name in methods],
        grey,
        scores.reshape(*scores.shape[:2], *shape),
        note="White: no score. From orange to brown: for the predicted class, brown the largest. Blue: against it. "
        "Methods score in units of their own, so that colours compare pixels of one map, not maps.",
    )


def _title(record: Record, i: int) -> str:
    """Return what an image shows, and what the model takes it for where that is another thing."""
    label, predicted = (int(record.values["scores"][name][i]) for name in ("label", "predicted"))
    return f"a {label}" if label == predicted else f"a {label}, predicted {predicted}"
