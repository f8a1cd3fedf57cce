"""`fans.evaluate`: an explanation and some metrics in, one number for each input and metric out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, extra, quiet
from fans.explainer import Explainer
from fans.explanation import Explanation
from fans.methods.base import Method
from fans.metrics import Case, Metric, Returns, evaluation_mode, metric
from fans.modalities.base import FittedSpace, Units
from fans.modalities.graph.space import FittedEdges
from fans.modalities.image.space import Channels, Image
from fans.modalities.registry import guess_space
from fans.task import Task
from fans.types import Array


@dataclass(frozen=True)
class Evaluation:
    """One number for each input and metric.

    Attributes:
        ids: of the inputs.
        values: by metric, `(B,)` float64.
        higher_is_better: by metric.
    """

    ids: tuple[int | str, ...]
    values: Mapping[str, Array]
    higher_is_better: Mapping[str, bool]

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    def __str__(self) -> str:
        lines = [("metric", "mean", "median", "better")]
        for name, found in self.values.items():
            better = "higher" if self.higher_is_better[name] else "lower"
            lines.append((name, f"{found.mean():.4g}", f"{np.median(found):.4g}", better))
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per input."""
        try:
            import pandas as pd
        except ImportError:
            raise extra("pandas", "tabular", "`to_frame`") from None
        return pd.DataFrame(dict(self.values), index=pd.Index(self.ids, name="id"))


def evaluate(
    explanation: Explanation,
    metrics: Sequence[str | Metric] | Mapping[str, Metric],
    *,
    model: Any = None,
    explainer: Explainer | None = None,
    truth: Any = None,
    max_batch: int | None = None,
) -> Evaluation:
    """Judge an explanation's scores by metrics.

    Args:
        explanation: of any method.
        metrics: names, or metrics with settings of their own (`fans.metrics.metric("infidelity", kind="formula")`);
            a mapping names its columns.
        model: what was explained: a torch module, or a callable on arrays. Not needed beside `explainer`.
        explainer: the one that made the explanation; metrics that explain changed inputs need it.
        truth: `(B, *input)` bool, the elements known to matter, for metrics that ask for them; of a graph `(edges,)`,
            one for each column of its `edge_index`.
        max_batch: most rows the model sees at a time; the explainer's by default.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> explainer = Explainer(lambda x: x[:, 0], rows, baseline=0.0)
        >>> evaluate(explainer(rows[:3]), ["sparseness"], explainer=explainer)["sparseness"].shape
        (3,)
    """
    if explainer is None and model is None:
        raise InputError("Expected the model that was explained, or its explainer, got neither; pass `explainer=`")
    if explanation.sparse:
        raise InputError(
            "Expected an explanation of a table, images or nodes, got one of sparse rows, which metrics do not read; "
            "compare subsets by `explainer.score`"
        )
    if n_gaps := int(np.isnan(explanation.inputs).reshape(len(explanation), -1).any(1).sum()):
        raise InputError(
            f"Expected inputs without missing values, which metrics cannot move a little, got {n_gaps} of "
            f"{len(explanation)} with some; leave these out, as in explanation[~np.isnan(explanation.inputs).any(1)]"
        )
    judges = dict(_named(metrics))
    _refuse_lacking(judges, explanation, explainer, truth)
    if explanation.edges is not None:
        cases = _graph_cases(explanation, explainer, truth, max_batch)
        values = {name: np.concatenate([judge(case).numpy() for case in cases]) for name, judge in judges.items()}
        return Evaluation(explanation.ids, values, {name: judge.higher_is_better for name, judge in judges.items()})
    space = explainer.task.space if explainer is not None else _space_of(explanation)
    ask = _model_of(explainer) if explainer is not None and model is None else _wrapped(model, space)
    inputs, heatmap, parts = (
        space.planes(torch.from_numpy(np.array(a)).flatten(1))
        for a in (explanation.inputs, explanation.heatmap.astype(np.float64), _parts(explanation, space))
    )
    case = Case(
        ask,
        inputs,
        heatmap,
        torch.from_numpy(explanation.target.astype(np.int64)),
        explanation.ids,
        explanation.seed,
        max_batch or (explainer.task.predict.n_seen if explainer is not None else 1024),
        None if explainer is None else _explain_with(explainer),
        None if truth is None else space.planes(torch.from_numpy(_truth(truth, explanation)).flatten(1)),
        returns=_returns(explainer.task) if model is None and explainer is not None else _told(explanation),
        parts=parts,
    )
    if case.returns is None and case.before.shape[1] == 1:  # of two classes: one alone would be values
        case = replace(case, returns="probabilities" if case.are_probabilities else "logits")
    values = {name: judge(case).numpy() for name, judge in judges.items()}
    return Evaluation(explanation.ids, values, {name: judge.higher_is_better for name, judge in judges.items()})


def _refuse_lacking(
    judges: Mapping[str, Metric], explanation: Explanation, explainer: Explainer | None, truth: Any
) -> None:
    """Refuse metrics that need what was not given, before anything is spent."""
    for judge in judges.values():
        if "explain" in judge.needs and explanation.edges is not None:
            raise InputError(f"Expected metrics of one graph, got {judge.name!r}, which explains changed inputs")
        if "explain" in judge.needs and explainer is None:
            raise InputError(
                f"Expected an explainer for {judge.name!r}, which explains changed inputs, got none; pass `explainer=`"
            )
        if "truth" in judge.needs and truth is None:
            raise InputError(f"Expected the elements known to matter for {judge.name!r}, got none; pass `truth=`")


def _truth(truth: Any, explanation: Explanation) -> Array:
    """Return which elements are known to matter, checked."""
    found: Array = np.array(truth)
    if found.shape != explanation.inputs.shape:
        raise InputError(f"Expected `truth` of the inputs' shape {explanation.inputs.shape}, got {found.shape}")
    return found


def _space_of(explanation: Explanation) -> FittedSpace:
    """Return the space of an explanation's inputs."""
    inputs = explanation.inputs
    if explanation.modality != "image":
        return guess_space(inputs).fit(inputs)
    channels: dict[int | None, Channels] = {None: "none", 0: "first", 2: "last"}
    return Image(channels=channels[explanation.channel_axis]).fit(inputs)


def _graph_cases(
    explanation: Explanation, explainer: Explainer | None, truth: Any, max_batch: int | None
) -> list[Case]:
    """Return a case for each node: no two have the same edges."""
    if explainer is None or explanation.nodes is None or (explanation.nodes < 0).any():
        raise InputError(
            "Expected explained nodes and the `explainer` of their graph, got other ones; pass `explainer=`"
        )
    how = {"ids": explanation.ids, "seed": explanation.seed, "truth": truth, "max_batch": max_batch}
    return node_cases(explainer, explanation.nodes, explanation.scores, explanation.target, **how)


def node_cases(
    explainer: Explainer,
    nodes: Any,
    scores: Array,
    target: Any,
    *,
    ids: Sequence[int | str] | None = None,
    seed: int = 0,
    truth: Any = None,
    max_batch: int | None = None,
) -> list[Case]:
    """Return what metrics take of each node; no two have the same edges.

    Args:
        explainer: of the graph; its model is asked.
        nodes: their numbers.
        scores: `(B, F)` of their features, any method's.
        target: `(B,)` the explained classes.
        ids: names of the nodes; their numbers by default.
        seed: of metrics' draws.
        truth: `(edges,)` or `(B, edges)` bool, which columns of the graph's `edge_index` are known to matter.
        max_batch: most rows the model sees at a time.
    """
    names = [int(node) for node in nodes] if ids is None else list(ids)
    known = None if truth is None else torch.from_numpy(np.array(truth, dtype=bool)).expand(len(names), -1)
    cases: dict[int, Case] = {}
    for task, rows, at in explainer.task.split(nodes):
        for i, place in enumerate(at):
            own = None if known is None else known[place]
            about = (task, rows[i], scores[place], int(target[place]), names[place])
            cases[place] = _node_case(*about, seed, own, max_batch)
    return [cases[i] for i in sorted(cases)]


def _node_case(
    task: Task,
    row: Tensor,
    scores: Array,
    target: int,
    name: int | str,
    seed: int,
    truth: Tensor | None,
    max_batch: int | None,
) -> Case:
    """Return one node's edges, their scores, and the model's answers by the edges' weights."""
    space, units = task.space, task.space.units(row[None])
    assert isinstance(space, FittedEdges)
    column = space.columns_of(row[None])[0]
    n_edges = int((column >= 0).sum())
    column, owner = column[:n_edges], torch.zeros(1, dtype=torch.int64)
    values = torch.from_numpy(np.asarray(scores, dtype=np.float64)[: space.n_features])[None]

    def ask(weights: Tensor) -> Tensor:
        full = row.repeat(len(weights), 1)
        full[:, 1 : 1 + n_edges] = weights.to(row.dtype)
        with task.predict.session():
            return task.predict.differentiable(full, raw=True) if task.predict.is_module else task.predict(full)

    known = None if truth is None else truth[column][None]
    heatmap, parts = (space.shown(units.spread(v, owner))[:, :n_edges] for v in (values, values / units.n_elements))
    size = max_batch or task.predict.n_seen
    return Case(
        *(ask, row[None, 1 : 1 + n_edges], heatmap, torch.tensor([target]), [name], seed, size),
        truth=known,
        returns=_returns(task),
        parts=parts,
    )


def _parts(explanation: Explanation, space: FittedSpace) -> Array:
    """Return each element's share of its feature's or its pixel's score, where that is the score of all together."""
    member: Any = Method.registry.get(explanation.method)
    if member is not None and member.per_element:
        of_inputs = torch.from_numpy(np.array(explanation.inputs[:1])).flatten(1)
        n_channels = space.planes(of_inputs).shape[1] if member.per_pixel else 1
        return explanation.heatmap.astype(np.float64) / n_channels
    shared = explanation.elements.ndim < explanation.inputs.ndim
    of_element = torch.from_numpy(explanation.elements.copy()).reshape(1 if shared else len(explanation), -1)
    units = Units(of_element, torch.zeros(len(of_element), len(explanation.feature_names)), shared)
    return replace(explanation, scores=explanation.scores / units.n_elements.numpy()).heatmap


def _returns(task: Task) -> Returns:
    """Return what the model of an explainer returns as `_model_of` asks it."""
    if task.outputs.shape[1] == 1:
        return "values"
    return "probabilities" if task.predict.returns_probabilities else "logits"


def _told(explanation: Explanation) -> Returns | None:
    """Return what an explanation tells of its model's outputs: one that has no classes was explained as it is."""
    return "values" if len(explanation.target_names) == 1 else None


def _named(metrics: Any) -> list[tuple[str, Metric]]:
    """Return metrics with the names of their columns, no two alike."""
    if isinstance(metrics, str | Metric):
        metrics = [metrics]
    pairs = list(metrics.items()) if isinstance(metrics, Mapping) else [(None, m) for m in metrics]
    made = [(name, metric(m) if isinstance(m, str) else m) for name, m in pairs]
    named = [(name or judge.name, judge) for name, judge in made]
    names = [name for name, _ in named]
    if not names or len(set(names)) != len(names):
        raise InputError(
            f"Expected metrics of different names, got {names}; pass a mapping of names to metrics to tell them apart"
        )
    return named


def _model_of(explainer: Explainer) -> Callable[[Tensor], Tensor]:
    """Return an explainer's model: a module's outputs as they come, any other's as they were explained."""
    predict = explainer.task.predict

    def ask(rows: Tensor) -> Tensor:
        flat = explainer.task.space.rows(rows).to(explainer.task.background.dtype)
        with predict.session():
            return predict.differentiable(flat, raw=True) if predict.is_module else predict(flat)

    return ask


def _wrapped(model: Any, space: FittedSpace) -> Callable[[Tensor], Tensor]:
    """Return a module, or a callable on arrays, as a function of inputs in the form that metrics take."""
    if not callable(model):
        raise InputError(f"Expected `model` as a torch module or a callable, got {type(model).__name__}")
    like = (
        next((p for p in model.parameters() if p.is_floating_point()), None) if isinstance(model, nn.Module) else None
    )

    def ask(inputs: Tensor) -> Tensor:
        rows = space.rows(inputs).view(-1, *space.shape)
        if isinstance(model, nn.Module):
            with evaluation_mode(model):
                out: Tensor = space.unwrap(model(rows if like is None else rows.to(like.device, like.dtype)), len(rows))
            return out
        return torch.as_tensor(np.asarray(space.unwrap(model(rows.numpy()), len(rows))))

    return ask


def _explain_with(explainer: Explainer) -> Callable[[Tensor, Tensor, Sequence[int | str]], Tensor]:
    """Return what explains changed inputs, in the form that metrics take."""
    space = explainer.task.space

    def explain(inputs: Tensor, target: Tensor, ids: Sequence[int | str]) -> Tensor:
        rows = space.rows(inputs).view(-1, *space.shape)
        with quiet("in the range of"):  # of the data, which a metric's noise leaves, as it is meant to
            found = torch.from_numpy(explainer.heatmaps(rows, target.tolist(), list(ids)))
        return space.planes(found.flatten(1))

    return explain
