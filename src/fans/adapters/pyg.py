"""FANS as an explainer of PyTorch Geometric: one name to swap.

Example:
    explainer = torch_geometric.explain.Explainer(
        model, algorithm=FANSExplainer(), explanation_type="model", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    explanation = explainer(data.x, data.edge_index, index=10)
"""

import inspect
import logging
from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, extra
from fans.explainer import Explainer
from fans.explanation import join
from fans.modalities.base import FeatureSpace
from fans.modalities.graph.space import (
    FittedEdges,
    FittedNodes,
    GraphEdges,
    GraphFeatures,
    GraphNodes,
    Level,
)
from fans.types import Array

try:
    from torch_geometric.explain import Explanation
    from torch_geometric.explain.algorithm import ExplainerAlgorithm
    from torch_geometric.explain.config import MaskType, ModelMode, ModelReturnType, ModelTaskLevel
except ImportError:
    raise extra("torch_geometric", "graph", "`fans.adapters.pyg`") from None


class FANSExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Score edges, nodes or columns by how necessary and sufficient they are for a prediction.

    Which of them, the explainer's mask types say: `edge_mask_type="object"` the edges; `node_mask_type="object"` the
    nodes, whose columns become 0; `node_mask_type="common_attributes"` the columns of all nodes together. A mask of
    PyTorch Geometric is the scores' positive part, divided by its largest; what FANS found besides (the chosen
    features, PN, PS and PNS with intervals) is in the explanation's `fans` if `full` is set.

    Links are explained at `task_level="edge"` by a model that is called with `edge_label_index`, as `(x, edge_index,
    edge_label_index=...)`, and returns one output for each pair: every pair from the graph as a whole.

    Args:
        tied: whether the two directions of an edge are one feature.
        hops: as in `fans.spaces.GraphEdges`.
        full: whether to choose a subset and estimate its PNS as well, which costs a few times more. Where both edges
            and nodes are asked for, `fans` is of the edges and `fans_nodes` of the nodes.
        node_names: of the one graph's nodes in order, for what `full` finds.
        settings: of `fans.Explainer`; `task` by default as the model's `mode` says, so that a single output of a binary
            classification is two classes.
    """

    def __init__(
        self,
        *,
        tied: bool = True,
        hops: int | None = None,
        full: bool = False,
        node_names: Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.tied, self.hops, self.full, self.node_names, self.settings = tied, hops, full, node_names, settings

    def supports(self) -> bool:
        """Tell whether these explanations can be given."""
        nodes = (None, MaskType.object, MaskType.common_attributes)
        refusals = {
            "edge_mask_type='object', the edges as features, or None": self.explainer_config.edge_mask_type
            in (None, MaskType.object),
            "node_mask_type='object', the nodes as features, 'common_attributes', the columns, or None": (
                self.explainer_config.node_mask_type in nodes
            ),
        }
        for wanted, given in refusals.items():
            if not given:
                logging.error("FANSExplainer: expected %s, got something else", wanted)
        return all(refusals.values())

    def forward(
        self,
        model: nn.Module,
        x: Any,
        edge_index: Any,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Explain one output or several; the mask of several is their mean."""
        if isinstance(x, dict):
            raise InputError(
                "Expected one kind of node and edge, got a heterogeneous graph; explain its homogeneous form, "
                "data.to_homogeneous(), with a model that takes the kinds as columns of x"
            )
        if (self.model_config.mode, self.model_config.return_type) == (
            ModelMode.binary_classification,
            ModelReturnType.raw,
        ):
            model = _of_probabilities(model)
        asked = _Asked.of(self.model_config.task_level, model, x, edge_index, index, kwargs)
        regression = self.model_config.mode == ModelMode.regression
        settings = {"task": "regression" if regression else "classification"} | self.settings
        classes = None if regression else target.flatten()
        out = Explanation()
        for name, space in self._spaces(asked.level).items():
            totals, found = list[Tensor](), list[Any]()
            for question in asked.questions:
                explainer = Explainer(question.model, question.background, space=space, **settings)
                wanted = None if classes is None else classes[torch.tensor(question.at, device=target.device)].tolist()
                if self.full:
                    found.append(explainer(question.inputs, wanted))
                scores = found[-1].scores if self.full else explainer.scores(question.inputs, wanted)
                totals.append(_masks(explainer, question, scores, x, edge_index).sum(0))
            n = sum(len(question.at) for question in asked.questions)
            mask = (torch.stack(totals).sum(0) / max(n, 1)).to(x.device, torch.float32)
            out[name] = mask if name == "edge_mask" else mask.reshape(self._node_shape)
            if self.full:
                places = iter(range(n))
                whole = join(found, [[next(places) for _ in question.at] for question in asked.questions])
                out["fans" if "fans" not in out else "fans_nodes"] = whole
        return out

    def _spaces(self, level: Level) -> dict[str, FeatureSpace]:
        """Return what the features are, by the mask that shows them."""
        how: dict[str, Any] = {"level": level, "node_names": self.node_names}
        hops = self.hops if level == "node" else None
        nodes = {MaskType.object: GraphNodes, MaskType.common_attributes: GraphFeatures}
        out: dict[str, FeatureSpace] = {}
        if self.explainer_config.edge_mask_type is not None:
            out["edge_mask"] = GraphEdges(hops, tied=self.tied, **how)
        if self.explainer_config.node_mask_type is not None:
            out["node_mask"] = nodes[self.explainer_config.node_mask_type](hops, **how)
        return out

    @property
    def _node_shape(self) -> tuple[int, int]:
        """The shape of a mask of nodes, or of columns."""
        return (-1, 1) if self.explainer_config.node_mask_type == MaskType.object else (1, -1)


@dataclass(frozen=True)
class _Question:
    """Outputs that one explainer explains.

    Attributes:
        model: that has them.
        background, inputs: as `fans.Explainer` takes them.
        at: their places among all outputs of the user's model.
        of_node: `(n,)` the graph in which each node of what was given is; None where there is one graph.
    """

    model: nn.Module
    background: Any
    inputs: Any
    at: list[int]
    of_node: Tensor | None = None


@dataclass(frozen=True)
class _Asked:
    """All that is asked of a graph, and what its outputs are of."""

    level: Level
    questions: list[_Question]

    @classmethod
    def of(
        cls, level: ModelTaskLevel, model: nn.Module, x: Tensor, edge_index: Tensor, index: Any, more: dict[str, Any]
    ) -> "_Asked":
        """Take apart what PyTorch Geometric hands on."""
        more = {name: value for name, value in more.items() if value is not None}
        batch = more.pop("batch", None)
        links = more.pop("edge_label_index", None) if level == ModelTaskLevel.edge else None
        own = {name: more.pop(name) for name in ("edge_weight", "edge_attr") if name in more}
        if more:
            raise InputError(
                f"Expected edge_weight, edge_attr or batch besides x and edge_index, got {', '.join(more)}"
            )
        graph = SimpleNamespace(x=x, edge_index=edge_index, **own)
        if level == ModelTaskLevel.node:
            nodes = _nodes(index, edge_index)
            return cls("node", [_Question(model, graph, nodes, nodes)])
        if level == ModelTaskLevel.edge:
            return cls("graph", _links(model, graph, links, index))
        graphs, numbers = _graphs(graph, batch), _numbers(index, batch)
        inputs = [graphs[i] for i in numbers]
        return cls("graph", [_Question(model, graphs, inputs, numbers, None if batch is None else batch.cpu())])


def _of_probabilities(model: nn.Module) -> nn.Module:
    """Return a model of one logit as one of its probability, with the same layers and called as it is."""
    other = copy(model)
    other._forward_hooks = OrderedDict(model._forward_hooks)
    other.register_forward_hook(lambda _, __, out: torch.sigmoid(out))
    return other


def _links(model: nn.Module, graph: SimpleNamespace, links: Tensor | None, index: Any) -> list[_Question]:
    """Return a question for each link, with a model that has that link's output alone."""
    known = inspect.signature(model.forward).parameters
    if links is None or "edge_label_index" not in known:
        raise InputError(
            "Expected `edge_label_index`, the pairs of nodes to explain, for task_level='edge', and a model that takes "
            "it, got none; wrap the model in a module with forward(x, edge_index, edge_label_index)"
        )
    if hasattr(graph, "edge_attr"):
        raise InputError("Expected no edge_attr for task_level='edge', got some; leave it out, or pass edge_weight")
    wrap = _OfWeighedLink if "edge_weight" in known else _OfLink
    at = range(links.shape[1]) if index is None else _listed(index)
    return [_Question(wrap(model, links[:, k : k + 1]), [graph], [graph], [k]) for k in at]


class _OfLink(nn.Module):
    """The output for one pair of nodes, of many copies of a graph: what a graph as a whole has to say."""

    def __init__(self, model: nn.Module, link: Tensor) -> None:
        super().__init__()
        self.model, self.link = model, link

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Ask about the pair in each copy."""
        return self._answer(x, edge_index, batch)

    def _answer(self, x: Tensor, edge_index: Tensor, batch: Tensor, **more: Any) -> Tensor:
        n = int(batch.max()) + 1
        links = self.link.to(x.device) + len(x) // n * torch.arange(n, device=x.device)
        out: Tensor = self.model(x, edge_index, edge_label_index=links, **more)
        return out.reshape(n, -1)


class _OfWeighedLink(_OfLink):
    """The same of a model that takes weights of edges."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_weight: Any = None) -> Tensor:
        """Ask about the pair in each copy."""
        return self._answer(x, edge_index, batch, edge_weight=edge_weight)


def _masks(explainer: Explainer, question: _Question, scores: Array, x: Tensor, edge_index: Tensor) -> Tensor:
    """Return for each input the positive part of its scores, divided by the largest, where they belong in the graph.

    That is one number for each edge of what was given, for each node, or for each column.
    """
    space = explainer.task.space
    by_edge, by_node = isinstance(space, FittedEdges), isinstance(space, FittedNodes)
    out = torch.zeros(len(question.at), edge_index.shape[1] if by_edge else x.shape[0 if by_node else 1])
    for task, rows, at in explainer.task.split(question.inputs):
        owner, own = torch.arange(len(rows)), task.space.own(np.asarray(scores)[at])
        spread = task.space.units(rows).spread(torch.from_numpy(own), owner).clamp(min=0)
        shares = (spread / spread.amax(1, keepdim=True).clamp(min=1e-12)).float()
        columns = task.space.columns_of(owner) if isinstance(task.space, FittedEdges) else None
        for i, place in enumerate(at):
            real = torch.arange(rows.shape[1]) if columns is None else (columns[i] >= 0).nonzero()[:, 0]
            to = real if columns is None else columns[i][real]
            if question.of_node is not None and (by_edge or by_node):
                inside = question.of_node == question.at[place]
                own_places = (inside[edge_index[0].cpu()] if by_edge else inside).nonzero()[:, 0]
                real, to = real[to < len(own_places)], own_places[to[to < len(own_places)]]
            out[place, to] = shares[i][real]
    return out


def _nodes(index: int | Tensor | None, edge_index: Tensor) -> list[int]:
    """Return the nodes to explain, all that have edges by default."""
    if index is not None:
        return _listed(index)
    return [int(n) for n in torch.unique(edge_index[1][edge_index[0] != edge_index[1]])]


def _listed(index: int | Tensor) -> list[int]:
    """Return the numbers in an index, or the places that a mask marks."""
    given = torch.as_tensor(index).flatten()
    return [int(n) for n in (given.nonzero()[:, 0] if given.dtype == torch.bool else given)]


def _numbers(index: int | Tensor | None, batch: Tensor | None) -> list[int]:
    """Return the graphs of a batch to explain, all by default."""
    if index is not None:
        return _listed(index)
    return list(range(1 if batch is None else int(batch.max()) + 1))


def _graphs(graph: SimpleNamespace, batch: Tensor | None) -> list[SimpleNamespace]:
    """Take a batch of graphs apart."""
    if batch is None:
        return [graph]
    out = []
    for number in range(int(batch.max()) + 1):
        nodes = (batch == number).nonzero()[:, 0]
        edges = batch[graph.edge_index[0]] == number
        place = torch.full((len(batch),), -1, device=batch.device)
        place[nodes] = torch.arange(len(nodes), device=batch.device)
        own = {k: v[edges] for k, v in vars(graph).items() if k not in ("x", "edge_index")}
        out.append(SimpleNamespace(x=graph.x[nodes], edge_index=place[graph.edge_index[:, edges]], **own))
    return out
