"""What a cell of an image experiment computes: explain a shard of test images, then judge the heatmaps."""

from collections.abc import Hashable
from functools import lru_cache, partial
from typing import Any, get_args

import torch
from torch import Tensor

from fans.datasets import load_images
from fans.datasets.images import Split, image_dataset
from fans.explainer import Explainer
from fans.methods.base import Method
from fans.methods.rivals import ElementMethod
from fans.metrics import metric
from fans.modalities.image.space import Image
from fans.runs import Cell, Result
from fans.studies.base import Plain
from fans.studies.cells import (
    all_settings,
    checkpoint,
    identify,
    import_others,
    judged,
    kept,
    price_of_call,
    result,
    training,
)

__all__ = ["check_data", "do", "explainer", "identify", "price", "subject", "training"]


class Subject:
    """A model, its background, and the test images it is explained on."""

    def __init__(self, dataset: str, model: str, n_background: int) -> None:
        self.model = checkpoint(model)
        self.background = load_images(dataset, "train").tensor(slice(0, n_background))
        self._test = load_images(dataset, "test")
        self.caches: dict[tuple[int, int], dict[Any, Any]] = {}
        self.explainers: dict[str, Explainer] = {}

    def images(self, start: int, stop: int) -> Tensor:
        """Return test images."""
        return self._test.tensor(slice(start, stop))

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
    given, made = subject(spec["dataset"], spec["model"], spec["n_background"]), explainer(spec)
    trained, before = made.prepare(), made.task.predict.n_rows
    attribution = made.attribute(given.images(start, stop), ids=list(range(start, stop)))
    n_explaining = made.task.predict.n_rows - before
    found = judged(spec, attribution, explainer=made, cache=given.cache(start, stop))
    return result(found, attribution.seconds, n_explaining, trained, n_explaining + sum(found.rows.values()))


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
