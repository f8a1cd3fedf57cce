"""What a cell of an image experiment computes: explain a shard of test images, then judge the heatmaps."""

import time
import warnings
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, get_args

import torch
from torch import Tensor

from fans.datasets import load_images
from fans.datasets.images import Split, image_dataset
from fans.errors import FansWarning
from fans.explainer import Explainer
from fans.methods.base import Method
from fans.methods.rivals import ElementMethod
from fans.metrics import Case, metric
from fans.modalities.image.space import Image
from fans.runs import Cell, Result
from fans.studies.base import Plain
from fans.studies.cells import all_settings, checkpoint, identify, import_others, kept, price_of_call, training

__all__ = ["check_data", "do", "explainer", "identify", "price", "subject", "training"]


class Subject:
    """A model, its background, and the test images it is explained on."""

    def __init__(self, dataset: str, model: str, n_background: int) -> None:
        self.model = checkpoint(model)
        self.background = load_images(dataset, "train").tensor(slice(0, n_background))
        self._test = load_images(dataset, "test")
        self.n_rows = 0
        self.caches: dict[tuple[int, int], dict[Any, Any]] = {}
        self.explainers: dict[str, Explainer] = {}

    def images(self, start: int, stop: int) -> Tensor:
        """Return test images."""
        return self._test.tensor(slice(start, stop))

    def ask(self, images: Tensor) -> Tensor:
        """Return the model's logits, rows counted."""
        self.n_rows += len(images)
        out: Tensor = self.model(images)
        return out

    def cache(self, start: int, stop: int) -> dict[Any, Any]:
        """Return what metrics remember of a shard; only the last one's memory is kept."""
        if (start, stop) not in self.caches:
            self.caches = {(start, stop): {}}
        return self.caches[start, stop]


@lru_cache(maxsize=1)
def subject(dataset: str, model: str, n_background: int) -> Subject:
    """Return the subject of a dataset; the last one is kept."""
    return Subject(dataset, model, n_background)


def check_data(dataset: str) -> None:
    """Raise unless the files of a dataset are here; nothing is downloaded."""
    found = image_dataset(dataset)
    for split in get_args(Split):
        found.paths(split, download=False, home=found.home)


def explainer(spec: Plain) -> Explainer:
    """Return the explainer that a cell asks for."""
    given, units = subject(spec["dataset"], spec["model"], spec["n_background"]), spec["call"]["space"]
    space = None if units is None else Image(**units)
    return kept(given.explainers, spec, partial(Explainer, given.model, given.background, space=space))


def do(cell: Cell) -> Result:
    """Explain the shard's images with the predicted class as target, and judge the heatmaps by every column.

    The evaluations of a cell are its own: rows that a metric asks once for all methods of a shard are not among them,
    nor is training, so that a record does not depend on which cells its process did before.
    """
    spec, (start, stop) = cell.spec, cell.spec["shard"]
    import_others(spec)
    given = subject(spec["dataset"], spec["model"], spec["n_background"])
    made, images, ids = explainer(spec), given.images(start, stop), list(range(start, stop))
    with torch.no_grad():
        target = given.model(images).argmax(1)

    def explain(rows: Tensor, classes: Tensor, names: Any) -> Tensor:
        with warnings.catch_warnings():  # a metric's noise leaves the range of the data, as it is meant to
            warnings.filterwarnings("ignore", ".*in the range of", FansWarning)
            return torch.from_numpy(made.heatmaps(rows, classes.tolist(), list(names)))

    trained = made.prepare()
    before, began = made.task.predict.n_rows, time.perf_counter()
    found = made.scores(images, target.tolist(), ids)
    seconds, n_explaining = time.perf_counter() - began, made.task.predict.n_rows - before
    size, cache = made.task.predict.n_seen, given.cache(start, stop)
    scores, parts = (torch.from_numpy(made.on_elements(images, found, parts=parts)) for parts in (False, True))
    case = Case(given.ask, images, scores, target, ids, spec["seed"], size, explain, cache=cache, parts=parts)
    values, n_judging, judging = _judge(given, case, spec["columns"], stop)
    rows = made.task.predict.n_rows - before + n_judging
    timing = {"explaining": seconds, "judging": judging, "training": trained}
    return Result({"scores": values, "rows": {"explaining": n_explaining}}, rows, timing)


def _judge(given: Subject, case: Case, columns: Any, stop: int) -> tuple[dict[str, Any], int, dict[str, float]]:
    """Return the values of every column, the rows they took, and the seconds of each."""
    values, seconds, n_rows = dict[str, Any](), dict[str, float](), 0
    for column in columns:
        judge = metric(column["metric"], **column["settings"])
        n = len(case) if column["limit"] is None else column["limit"] - (stop - len(case))
        if not n:
            continue
        part = case if n == len(case) else _first(case, n)
        part.before  # noqa: B018 - asked once for all
        asked, began = given.n_rows, time.perf_counter()
        values[column["name"]] = judge(part).tolist()
        seconds[column["name"]] = time.perf_counter() - began
        n_rows += 0 if judge.asks_once else given.n_rows - asked
    return values, n_rows, seconds


def _first(case: Case, n: int) -> Case:
    assert case.parts is not None
    shown = {name: getattr(case, name)[:n] for name in ("inputs", "scores", "target", "ids", "parts")}
    return replace(case, **shown)


def price(spec: Plain, *, first: bool = True) -> int:
    """Return about how many model rows a cell takes, from its settings alone.

    `first`: whether it is the first one of its shard, which asks what the others remember.
    """
    start, stop = spec["shard"]
    shape = image_dataset(spec["dataset"]).shape
    one = _price_of_call(spec["call"], shape)
    total, known = int(stop - start) * one, set[Hashable]()
    for column in spec["columns"]:
        judge = metric(column["metric"], **column["settings"])
        n = (stop if column["limit"] is None else column["limit"]) - start
        asked = 0 if judge.asks in known or (judge.asks_once and not first) else judge.cost(shape)
        known.add(judge.asks)
        total += n * (asked + judge.explanations * one)
    return int(total)


def _price_of_call(call: Plain, shape: tuple[int, ...]) -> int:
    """Return the rows of one explanation."""
    settings = all_settings(call)
    space = Image(**call["space"]) if call["space"] is not None else Image(settings.get("unit"))
    # What scores elements costs the same whatever they are pooled to.
    by_element = issubclass(Method.registry[call["method"]], ElementMethod)
    return price_of_call(call, shape[1] * shape[2] if by_element else space.fit(torch.zeros(1, *shape)).n_features)
