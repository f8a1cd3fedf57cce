"""From scores to what metrics judge: the one place where a `Case` is made of an attribution or explanation."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError, quiet
from fans.explainer import Explainer
from fans.explanation import Attribution
from fans.methods.base import Method
from fans.metrics import Case, Returns
from fans.modalities.base import FittedSpace
from fans.modalities.graph.space import FittedEdges
from fans.modalities.image.space import Channels, Image
from fans.modalities.registry import guess_space
from fans.model import ModelCaller
from fans.task import Task
from fans.types import Array

N_SEEN = 1024
"""Most rows that a model sees at a time, where no explainer says."""

Cache = dict[Hashable, Any]


def cases_of(
    attribution: Attribution,
    *,
    model: Any = None,
    explainer: Explainer | None = None,
    truth: Any = None,
    max_batch: int | None = None,
    cache: Cache | None = None,
) -> list[Case]:
    """Return what metrics judge: one case of all inputs, or one for each node, as no two have the same edges.

    Args:
        attribution: of any method; an explanation is one.
        model: what was explained: a torch module, an estimator, or a callable on arrays. Not needed beside `explainer`.
        explainer: the one that made the attribution; it explains changed inputs for metrics that ask for that.
        truth: `(B, *input)` bool, the elements known to matter; of nodes `(edges,)` or `(B, edges)`, one for each
            column of the graph's `edge_index`.
        max_batch: most rows the model sees at a time; the explainer's by default.
        cache: what metrics remember of the model and these inputs, whatever the scores.

    Raises:
        InputError: if the model or its explainer is missing, or the inputs are ones that metrics do not read.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> explainer = Explainer(lambda x: x[:, 0], rows, baseline=0.0, method="feature_ablation")
        >>> (case,) = cases_of(explainer.attribute(rows[:3]), explainer=explainer)
        >>> case.scores.shape
        torch.Size([3, 2])
    """
    _refuse_unreadable(attribution)
    cache = {} if cache is None else cache
    if attribution.edges is not None:
        return _of_nodes(_with_shares(attribution), explainer, truth, max_batch, cache)
    if attribution.sparse:
        return _of_each(_with_shares(attribution), explainer, truth, max_batch, cache)
    return [_of_all(_with_shares(attribution), model, explainer, truth, max_batch, cache)]


def rows_asked(case: Case) -> int:
    """Return how many rows the model of a case made here has been asked, for whatever purpose."""
    assert isinstance(case.model, Asked)
    return case.model.predict.n_rows


# --- The model as metrics ask it -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A model as metrics ask it: a module's outputs as they come, any other's as they were explained.

    Two are equal if they give the same answers, so that cases of different methods share a cache.

    Attributes:
        predict: asks the model, and counts the rows.
        dtype: of the rows.
        what: the model and the form of its inputs and outputs.
    """

    predict: ModelCaller = field(compare=False)
    dtype: torch.dtype
    what: Hashable

    @classmethod
    def of(cls, predict: ModelCaller, dtype: torch.dtype) -> "Asked":
        """Return what asks the model of a predictor."""
        read = () if predict.is_module else (predict.kind, predict.target_names)
        return cls(predict, dtype, (id(predict.model), predict.space.shape, read))

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the outputs `(n, C)` for inputs in the form that metrics take."""
        return self._outputs(self.predict.space.rows(inputs).to(self.dtype))

    def _outputs(self, rows: Tensor, of: Tensor | None = None) -> Tensor:
        with self.predict.session():
            return self.predict.differentiable(rows, of, raw=True) if self.predict.is_module else self.predict(rows, of)


@dataclass(frozen=True, eq=False)
class AskedByEdges(Asked):
    """The same of one node: inputs are the weights of its edges.

    Attributes:
        row: `(E,)` the node as it is.
        place: of the node among those of its layout.
    """

    row: Tensor
    place: int

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the outputs `(n, C)` for weights `(n, edges)`."""
        rows = self.row.repeat(len(inputs), 1)
        rows[:, : inputs.shape[1]] = inputs.to(self.dtype)
        return self._outputs(rows, torch.full((len(rows),), self.place))


def _explain_with(explainer: Explainer) -> Callable[[Tensor, Tensor, Sequence[int | str]], Tensor]:
    """Return what explains changed inputs, in the form that metrics take."""
    space = explainer.task.space

    def explain(inputs: Tensor, target: Tensor, ids: Sequence[int | str]) -> Tensor:
        rows = space.rows(inputs).view(-1, *space.shape)
        with quiet("in the range of"):  # of the data, which a metric's noise leaves, as it is meant to
            found = torch.from_numpy(explainer.heatmaps(rows, target.tolist(), list(ids)))
        return space.planes(found.flatten(1))

    return explain


# --- Tables and images -----------------------------------------------------------------------------------------------


def _of_all(
    attribution: Attribution, model: Any, explainer: Explainer | None, truth: Any, max_batch: int | None, cache: Cache
) -> Case:
    """Return the case of all inputs, which have one shape."""
    returns: Returns | None
    if explainer is not None:
        space, size = explainer.task.space, max_batch or explainer.task.predict.n_seen
    else:
        space, size = _space_of(attribution), max_batch or N_SEEN
    inputs, scores, parts = (_planes(space, a) for a in (attribution.inputs, *_on_elements(attribution)))
    if explainer is not None and model is None:
        asked, returns = Asked.of(explainer.task.predict, explainer.task.background.dtype), _returns(explainer.task)
    else:
        asked, returns = Asked.of(_predictor(model, space, size), inputs.dtype), _told(attribution)
    case = Case(
        *(asked, inputs, scores, torch.from_numpy(attribution.target.astype(np.int64))),
        *(attribution.ids, attribution.seed, size),
        explain=None if explainer is None else _explain_with(explainer),
        truth=None if truth is None else _planes(space, _checked_truth(truth, attribution)),
        returns=returns,
        cache=cache,
        parts=parts,
    )
    if returns is None and case.before.shape[1] == 1:  # of two classes: one alone would be values
        return replace(case, returns="probabilities" if case.are_probabilities else "logits")
    return case


def _predictor(model: Any, space: FittedSpace, size: int) -> ModelCaller:
    """Return what asks a model of which nothing else is known."""
    predict = ModelCaller(model, space, output="raw", task=None)
    predict.bound_batches(size)
    return predict


def _planes(space: FittedSpace, values: Array) -> Tensor:
    """Return what is said of each element in the form that metrics take."""
    return space.planes(torch.from_numpy(np.array(values, order="C")).flatten(1))


def _space_of(attribution: Attribution) -> FittedSpace:
    """Return the space of an attribution's inputs."""
    inputs = attribution.inputs
    if attribution.modality != "image":
        return guess_space(inputs).fit(inputs)
    channels: dict[int | None, Channels] = {None: "none", 0: "first", 2: "last"}
    return Image(channels=channels[attribution.channel_axis]).fit(inputs)


def _returns(task: Task) -> Returns:
    """Return what the model of a task returns where metrics ask it."""
    if task.outputs.shape[1] == 1:
        return "values"
    return "probabilities" if task.predict.returns_probabilities else "logits"


def _told(attribution: Attribution) -> Returns | None:
    """Return what is told of the model's outputs: one that has no classes was explained as it is."""
    return "values" if len(attribution.target_names) == 1 else None


# --- Nodes -----------------------------------------------------------------------------------------------------------


def _of_nodes(
    attribution: Attribution, explainer: Explainer | None, truth: Any, max_batch: int | None, cache: Cache
) -> list[Case]:
    """Return the case of each node: its edges, their scores, and the model's answers by the edges' weights."""
    nodes = attribution.nodes
    if explainer is None or nodes is None or (nodes < 0).any():
        raise InputError(
            "Expected explained nodes and the `explainer` of their graph, got other ones; pass `explainer=`"
        )
    scores, parts = (torch.from_numpy(a) for a in _on_elements(attribution))
    known = None if truth is None else torch.from_numpy(np.array(truth, dtype=bool)).expand(len(attribution), -1)
    cases: dict[int, Case] = {}
    for task, rows, at in explainer.task.split(nodes):
        assert isinstance(task.space, FittedEdges)
        columns = task.space.columns_of(torch.arange(len(rows)))
        for place, (row, column, i) in enumerate(zip(rows, columns, at, strict=True)):
            n_edges = int((column >= 0).sum())
            asked = AskedByEdges(task.predict, row.dtype, i, row, place)
            cases[i] = Case(
                *(asked, row[None, :n_edges], scores[i, None, :n_edges]),
                *(torch.from_numpy(attribution.target[i : i + 1].astype(np.int64)), attribution.ids[i : i + 1]),
                *(attribution.seed, max_batch or task.predict.n_seen),
                truth=None if known is None else known[i][column[:n_edges]][None],
                returns=_returns(task),
                cache=cache,
                parts=parts[i, None, :n_edges],
            )
    return [cases[i] for i in sorted(cases)]


# --- Inputs with features of their own -------------------------------------------------------------------------------


def _of_each(
    attribution: Attribution, explainer: Explainer | None, truth: Any, max_batch: int | None, cache: Cache
) -> list[Case]:
    """Return the case of each input: whether its features are there, their scores, and the model's answers by that."""
    given = None if explainer is None else explainer.task.space.given_again(attribution.details)
    if explainer is None or given is None:
        raise InputError(
            "Expected an explanation of a table, images, nodes or, beside its `explainer`, texts, got one of sparse "
            "rows, which metrics do not read, or no explainer; compare subsets by `explainer.score`"
        )
    scores, parts = (torch.from_numpy(a) for a in _on_elements(attribution))
    known = None if truth is None else torch.from_numpy(_checked_truth(truth, attribution).astype(bool))
    cases: dict[int, Case] = {}
    with quiet():  # told of when they were explained
        split = explainer.task.split(given)
    for task, row, (i,) in split:
        n, asked = row.shape[1], Asked.of(task.predict, row.dtype)
        cases[i] = Case(
            *(replace(asked, what=(asked.what, i)), row, scores[i, None, :n]),
            *(torch.from_numpy(attribution.target[i : i + 1].astype(np.int64)), attribution.ids[i : i + 1]),
            *(attribution.seed, max_batch or task.predict.n_seen),
            truth=None if known is None else known[i, None, :n],
            returns=_returns(task),
            cache=cache,
            parts=parts[i, None, :n],
        )
    return [cases[i] for i in sorted(cases)]


# --- What is read of an attribution ----------------------------------------------------------------------------------


def _on_elements(attribution: Attribution) -> tuple[Array, Array]:
    """Return every element's score and its share of it, `(B, *input)` each."""
    return attribution.heatmap.astype(np.float64), attribution.parts.astype(np.float64)


def _with_shares(attribution: Attribution) -> Attribution:
    """Return an attribution that says whether it scored elements: one saved before that was kept, by its method."""
    if attribution.per_element is not None:
        return attribution
    member: Any = Method.registry.get(attribution.method, Method)
    return replace(attribution, per_element=member.per_element, per_pixel=member.per_pixel)


def _refuse_unreadable(attribution: Attribution) -> None:
    """Refuse inputs that metrics cannot read or move a little."""
    if n_gaps := int(np.isnan(attribution.inputs).reshape(len(attribution), -1).any(1).sum()):
        raise InputError(
            f"Expected inputs without missing values, which metrics cannot move a little, got {n_gaps} of "
            f"{len(attribution)} with some; leave these out, as in explanation[~np.isnan(explanation.inputs).any(1)]"
        )


def _checked_truth(truth: Any, attribution: Attribution) -> Array:
    """Return which elements are known to matter, checked."""
    found: Array = np.array(truth)
    if found.shape != attribution.inputs.shape:
        raise InputError(f"Expected `truth` of the inputs' shape {attribution.inputs.shape}, got {found.shape}")
    return found
