"""What cells of images and of graphs have in common: their model, their method, and its price."""

import importlib
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from torch import nn

import fans.methods  # noqa: F401 - registers the methods
from fans.engine.settings import Settings
from fans.evaluation import Evaluation, evaluate
from fans.explainer import Explainer, Neighbourhood
from fans.explanation import Attribution
from fans.methods.base import Method
from fans.metrics import metric
from fans.networks import find_checkpoint, load, read_card
from fans.runs import Result
from fans.studies.base import Plain


def import_others(spec: Plain) -> None:
    """Import the modules of methods, metrics and datasets that are not ours."""
    for module in spec.get("imports", ()):
        importlib.import_module(module)


def checkpoint(model: str) -> nn.Module:
    """Return a trained model by the name of its checkpoint, with its folder where that is not ours (`folder/name`)."""
    folder, _, name = model.rpartition("/")
    return load(name, folder or None)[0]


def kept(explainers: dict[str, Explainer], spec: Plain, make: Callable[..., Explainer]) -> Explainer:
    """Return the explainer that a cell asks for, the same one for all cells of a row: it may have to be trained.

    `make` takes the method, the seed and the settings by name.
    """
    call = spec["call"]
    key = json.dumps([call, spec["seed"]], sort_keys=True)
    if key not in explainers:
        explainers[key] = make(method=call["method"], seed=spec["seed"], **call["settings"])
    return explainers[key]


def identify(spec: Plain) -> dict[str, Any]:
    """Return what else decides a cell's values: the checksum of its model."""
    folder, _, name = spec["model"].rpartition("/")
    return {"sha256": read_card(find_checkpoint(name, folder or None)).sha256}


def judged(spec: Plain, attribution: Attribution, **given: Any) -> Evaluation:
    """Judge a shard's scores by every column that is asked of any of its inputs; the rest goes to `fans.evaluate`."""
    start, stop = spec["shard"]
    limits = {c["name"]: (stop if c["limit"] is None else c["limit"]) - start for c in spec["columns"]}
    judges = {c["name"]: metric(c["metric"], **c["settings"]) for c in spec["columns"] if limits[c["name"]]}
    return evaluate(attribution, judges, first={name: limits[name] for name in judges}, **given)


def result(found: Evaluation, seconds: float, n_explaining: int, trained: Any, n_rows: int) -> Result:
    """Return what a cell came to: values by column, rows, and how long each part took."""
    values = {name: column.tolist() for name, column in found.values.items()}
    timing = {"explaining": seconds, "judging": dict(found.seconds), "training": trained}
    return Result({"scores": values, "rows": {"explaining": n_explaining}}, n_rows, timing)


def training(spec: Plain) -> int:
    """Return the rows of training a row's method, where it has to be: once for all its cells in a process."""
    settings = spec["call"]["settings"]
    member: Any = _member(spec["call"]["method"], settings)
    return int(member(**_own(member, settings)).training_cost(spec["n_background"]))


def all_settings(call: Plain) -> dict[str, Any]:
    """Return a call's settings, with those of its preset."""
    member: Any = Method.registry[call["method"]]
    return dict(member.presets.get(call["settings"].get("preset"), {})) | dict(call["settings"])


def price_of_call(call: Plain, n_features: int) -> int:
    """Return the model rows of one explanation."""
    settings = all_settings(call)
    member: Any = _member(call["method"], settings)
    around = Neighbourhood(**_own(Neighbourhood, settings))
    made: Method = member(**_own(member, settings))
    cost = 1 + made.cost(n_features)
    if not made.looks_around:
        return cost
    if settings.get("estimator") == "resample":  # all samples at every step, and some again
        asked = Settings(**_own(Settings, settings))
        n_samples = 1 + around.n_local + around.n_background
        cost = settings["n_steps"] * 2 * (n_samples * asked.n_factual + asked.n_resample * asked.n_perturb)
    return int(cost) + around.n_local


def _member(name: str, settings: Plain) -> Any:
    """Return the class of a method that takes these settings."""
    member: Any = Method.registry[name]
    return member.taking(settings)


def _own(member: Any, settings: Plain) -> dict[str, Any]:
    return {f.name: settings[f.name] for f in fields(member) if f.name in settings}
