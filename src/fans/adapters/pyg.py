"""FANS as an explainer of PyTorch Geometric: one name to swap.

Example:
    explainer = torch_geometric.explain.Explainer(
        model, algorithm=FANSExplainer(), explanation_type="model", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    explanation = explainer(data.x, data.edge_index, index=10)
"""

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, extra
from fans.explainer import Explainer
from fans.modalities.graph.space import FittedEdges, GraphEdges
from fans.types import Array

try:
    from torch_geometric.explain import Explanation
    from torch_geometric.explain.algorithm import ExplainerAlgorithm
    from torch_geometric.explain.config import MaskType, ModelMode, ModelTaskLevel
except ImportError:
    raise extra("torch_geometric", "graph", "`fans.adapters.pyg`") from None


class FANSExplainer(ExplainerAlgorithm):  # type: ignore[misc]
    """Score edges by how necessary and sufficient they are for a prediction.

    The mask of a PyTorch Geometric explanation is the scores' positive part, divided by its largest; what FANS found
    besides (the chosen edges, PN, PS and PNS with intervals) is in the explanation's `fans` if `full` is set.

    Args:
        tied: whether the two directions of an edge are one feature.
        hops: as in `fans.spaces.GraphEdges`.
        full: whether to choose a subset and estimate its PNS as well, which costs a few times more.
        settings: of `fans.Explainer`; `task` by default as the model's `mode` says, so that a single output of a binary
            classification is two classes.
    """

    def __init__(self, *, tied: bool = True, hops: int | None = None, full: bool = False, **settings: Any) -> None:
        super().__init__()
        self.tied, self.hops, self.full, self.settings = tied, hops, full, settings

    def supports(self) -> bool:
        """Tell whether these explanations can be given: masks of edges, for nodes or graphs."""
        refusals = {
            "edge_mask_type='object', the edges as features": self.explainer_config.edge_mask_type == MaskType.object,
            "node_mask_type=None": self.explainer_config.node_mask_type is None,
            "task_level='node' or 'graph'": self.model_config.task_level in (ModelTaskLevel.node, ModelTaskLevel.graph),
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
                "Expected one kind of node and edge, got a heterogeneous graph; explain its homogeneous form"
            )
        regression = self.model_config.mode == ModelMode.regression
        settings = {"task": "regression" if regression else "classification"} | self.settings
        by_node = self.model_config.task_level == ModelTaskLevel.node
        batch = kwargs.pop("batch", None)
        own = {name: kwargs.pop(name) for name in ("edge_weight", "edge_attr") if kwargs.get(name) is not None}
        others = [name for name, value in kwargs.items() if value is not None]
        if others:
            raise InputError(
                f"Expected edge_weight, edge_attr or batch besides x and edge_index, got {', '.join(others)}"
            )
        graph = SimpleNamespace(x=x, edge_index=edge_index, **own)
        if by_node:
            background: Any = graph
            inputs: Any = self._nodes(index, edge_index)
            asked = inputs
        else:
            background, asked = _graphs(graph, batch), _numbers(index, batch)
            inputs = [background[i] for i in asked]
        space = GraphEdges(None if not by_node else self.hops, tied=self.tied, level="node" if by_node else "graph")
        explainer = Explainer(model, background, space=space, **settings)
        classes = None if regression else target.flatten()[torch.tensor(asked, device=target.device)].tolist()
        found = explainer(inputs, classes) if self.full else None
        scores = explainer.scores(inputs, classes) if found is None else found.scores
        mask = self._mask(explainer, inputs, scores, edge_index, batch, asked, by_node)
        out = Explanation(edge_mask=torch.from_numpy(mask).to(x.device, torch.float32))
        if found is not None:
            out.fans = found
        return out

    def _nodes(self, index: int | Tensor | None, edge_index: Tensor) -> list[int]:
        """Return the nodes to explain, all that have edges by default."""
        able = torch.unique(edge_index[1][edge_index[0] != edge_index[1]])
        if index is None:
            return [int(n) for n in able]
        return _listed(index)

    def _mask(
        self,
        explainer: Explainer,
        inputs: Any,
        scores: Array,
        edge_index: Tensor,
        batch: Tensor | None,
        asked: list[int],
        by_node: bool,
    ) -> Array:
        """Return the mean of the inputs' masks for the edges of the whole graph."""
        total = np.zeros(edge_index.shape[1])
        for task, rows, at in explainer.task.split(inputs):
            assert isinstance(task.space, FittedEdges)
            columns, units = task.space.columns_of(torch.arange(len(rows))), task.space.units(rows)
            part = torch.from_numpy(task.space.own(np.asarray(scores)[at]))
            spread = task.space.shown(units.spread(part, torch.arange(len(rows)))).clamp(min=0)
            shares = (spread / spread.amax(1, keepdim=True).clamp(min=1e-12)).numpy()
            for i, place in enumerate(at):
                real = columns[i] >= 0
                of_graph = columns[i][real].numpy()
                if not by_node and batch is not None:
                    of_graph = np.flatnonzero((batch[edge_index[0]] == asked[place]).cpu().numpy())[of_graph]
                total[of_graph] += shares[i][real.numpy()]
        return total / max(len(asked), 1)


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
