"""What was asked of a run, and the explainer that does it: the same one here, in a worker, and when a run is opened."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fans.errors import InputError, check_whole, choose
from fans.explainer import Explainer
from fans.own.data import Background, Data, Graph, Reading, choose_background, open_data, sized
from fans.own.models import Loaded, OnnxClassifier, is_module, load_model
from fans.own.store import Plan
from fans.spaces import GraphEdges

BLOCKS: Mapping[str, int] = {"table": 64, "text": 16, "image": 16, "graph": 16}
"""Inputs of a shard: what a kill loses at most, for each process."""


@dataclass(frozen=True)
class Asked:
    """What is to be explained, by what, and how.

    Attributes:
        model: a file, or `module:object`.
        data: a file or a folder.
        limit: so many inputs, the first ones; None: all.
        target: the explained class, by name or number; None: the predicted one.
        background: a file or folder of the same kind as the data; None: drawn from the data.
        method, effort, seed, max_batch, task: of the explainer.
        classes: names of the model's outputs.
        reading: how the files are read.
        trust: files that may be loaded though that may run what is in them.
    """

    model: str
    data: Path
    limit: int | None = None
    target: str | None = None
    background: Path | None = None
    method: str = "fans"
    effort: str = "normal"
    seed: int = 0
    max_batch: int | None = None
    task: str | None = None
    classes: tuple[str, ...] = ()
    reading: Reading = Reading()  # noqa: RUF009 - a frozen value
    trust: tuple[Path, ...] = ()

    def settings(self) -> dict[str, Any]:
        """Return what decides the figures besides the files, as JSON can hold it."""
        names = ("limit", "target", "method", "effort", "seed", "max_batch", "task")
        return {name: getattr(self, name) for name in names} | {"classes": list(self.classes)}

    def paths(self) -> dict[str, str]:
        """Return where the files are, from the root of the file system; a module as it was named."""
        found = {"data": str(self.data.resolve())}
        found["model"] = self.model if is_module(self.model) else str(Path(self.model).resolve())
        return found | ({} if self.background is None else {"background": str(self.background.resolve())})

    @classmethod
    def of_plan(cls, plan: Plan, model: str | None = None, trust: tuple[Path, ...] = ()) -> "Asked":
        """Return what a plan says was asked; a model named here is loaded instead of the one named there."""
        background = plan.paths.get("background")
        return cls(
            model=model or plan.paths["model"],
            data=Path(plan.paths["data"]),
            background=None if background is None else Path(background),
            reading=Reading.of_json(plan.data["reading"]),
            trust=trust,
            **({**plan.settings, "classes": tuple(plan.settings["classes"])}),
        )


@dataclass(frozen=True)
class Bound:
    """What was asked, with everything loaded and checked."""

    asked: Asked
    loaded: Loaded
    data: Data
    background: Background
    background_sha256: str
    explainer: Explainer
    target: int | str | None
    n: int

    def plan(self) -> Plan:
        """Return what a run of it is known by."""
        asked, data = self.asked, self.data
        name = asked.model if is_module(asked.model) else Path(asked.model).name
        return Plan(
            title=f"{name} on {asked.data.name}",
            n=self.n,
            block=BLOCKS[data.kind],
            data={
                "kind": data.kind,
                "sha256": data.sha256,
                "inputs": len(data),
                "reading": asked.reading.to_json(),
            },
            model=dict(self.loaded.about),
            background={"source": self.background.source, "sha256": self.background_sha256},
            settings=asked.settings(),
            paths=asked.paths(),
            words=self.background.words,
        )


def bind(asked: Asked) -> Bound:
    """Load model and data, and bind them to an explainer.

    Raises:
        InputError: anything of it cannot be read or used; one sentence says what, and what to do.
    """
    if asked.limit is not None:
        check_whole("--limit", asked.limit, 1)
    loaded = load_model(asked.model, asked.trust)
    data = open_data(asked.data, asked.reading, loaded.wants)
    n = len(data) if asked.limit is None else min(asked.limit, len(data))
    source, own = data, asked.background is not None
    if asked.background is not None:
        if data.kind == "graph":
            raise InputError("Expected no --background for a graph, which is its own, got one; leave it out")
        reading = replace(sized(asked.reading, data), ids=None, drop=_dropped(asked))
        source = open_data(asked.background, reading, loaded.wants)
        if source.kind != data.kind:
            raise InputError(f"Expected a background of the data's kind, {data.kind}, got {source.kind}; name another")
    chosen = choose_background(source, n, asked.seed, own=own)
    background = source.background(chosen.places.tolist())
    if isinstance(loaded.model, OnnxClassifier):
        loaded.model.look(source.take(chosen.places[:1].tolist()))
    explainer = _explainer(asked, loaded, data, background)
    target = _target(asked, data, explainer)
    return Bound(asked, loaded, data, chosen, source.sha256 if own else "", explainer, target, n)


def _dropped(asked: Asked) -> tuple[str, ...]:
    """Return the columns left out of a background as well, as far as it has them."""
    from fans.own.data import column_names

    assert asked.background is not None
    there = column_names(asked.background)
    ids = () if asked.reading.ids is None else (asked.reading.ids,)
    return tuple(name for name in (*asked.reading.drop, *ids) if name in there)


def _explainer(asked: Asked, loaded: Loaded, data: Data, background: Any) -> Explainer:
    space = None
    if isinstance(data, Graph) and data.node_names is not None:
        space = GraphEdges(node_names=data.node_names)
    task: Any = asked.task
    effort: Any = asked.effort
    return Explainer(
        loaded.model,
        background,
        space=space,
        method=asked.method,
        task=task,
        target_names=asked.classes or None,
        feature_names=data.feature_names,
        seed=asked.seed,
        max_batch=asked.max_batch,
        effort=effort,
    )


def _target(asked: Asked, data: Data, explainer: Explainer) -> int | str | None:
    """Return the explained class as an explainer takes it."""
    if asked.target is None:
        return None
    names = explainer.task.predict.target_names or ()
    if asked.target in names:
        return asked.target
    if asked.target in data.columns:
        raise InputError(
            f"Expected --target as a class of the model ({', '.join(names[:20])}), got {asked.target!r}, a column of "
            f"the data; leave a column out with --drop {asked.target}"
        )
    if asked.target.isdecimal() and int(asked.target) < len(names):
        return int(asked.target)
    choose("--target", asked.target, names)
    return None
