"""GNNExplainer: PyTorch Geometric's, on the part of the graph that a prediction is computed from."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from fans.core import ModelError, check_whole, extra, warn
from fans.explainers._rivals import Inputs, check_number
from fans.explainers._shared import Method, Scores
from fans.pns import Settings
from fans.spaces.graph import FittedEdges
from fans.task import Task
from fans.trials import Block


@dataclass(frozen=True)
class GNNExplainer(Method):
    """Score an edge by its weight in the mask that keeps the class likely, is small, and is decided.

    PyTorch Geometric's implementation: minimise `-log p(target | M) + size * sum M + entropy * mean H(M)` by Adam, the
    sigmoid of the mask multiplying messages (degrees stay as they were). One node at a time, on the graph that its
    prediction is computed from instead of the whole one: the same gradients, as nothing else reaches the node, but the
    size of the mask does not grow with the graph. The score of an edge is the mean of its two directions.

    Each node has its own seed, so that its mask does not depend on what was explained before.

    Args:
        n_steps: of Adam, one model row each.
        rate: of Adam.
        size: price of an edge.
        entropy: price of undecided ones.
    """

    name: ClassVar[str] = "gnn_explainer"
    label: ClassVar[str] = "GNNExplainer"
    modalities: ClassVar[tuple[str, ...]] = ("graph",)
    citation: ClassVar[str] = (
        "Ying et al., GNNExplainer: Generating Explanations for Graph Neural Networks, NeurIPS 2019"
    )

    n_steps: int = 100
    rate: float = 0.01
    size: float = 0.005
    entropy: float = 1.0

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps, 1)
        check_number("rate", self.rate, 0, above=True)
        check_number("size", self.size, 0)
        check_number("entropy", self.entropy, 0)

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse what PyTorch Geometric's masks cannot reach."""
        if not task.predict.is_module:
            raise ModelError(
                f"Expected a torch module for method={self.name!r}, got {type(task.predict.model).__name__}"
            )
        kinds = [kind.__name__ for part in task.predict.model.modules() for kind in type(part).__mro__]
        if "MessagePassing" not in kinds:
            raise ModelError(
                f"Expected layers of PyTorch Geometric for method={self.name!r}, which masks their messages, got none "
                f"in {type(task.predict.model).__name__}; use another method, e.g. method='fans'"
            )

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """One row a step, and one without a mask."""
        return self.n_steps + 1

    def attribute(self, task: Task, block: Block, settings: Settings) -> Scores:  # noqa: ARG002
        """Learn one node's mask after another."""
        inputs, space = Inputs.of(task, block), task.space
        assert isinstance(space, FittedEdges)
        made, scores = self._made(task), torch.zeros(len(inputs), space.n_features, dtype=torch.float64)
        seeds, n_edges = inputs.keys("gnn_explainer").tolist(), (space.columns_of(inputs.x) >= 0).sum(1).tolist()
        n_bad = 0
        for i in range(len(inputs)):
            x, edges, more, node = space.alone(inputs.x[i])
            classes = inputs.target[i].expand(len(x)) if node >= 0 else inputs.target[i : i + 1]
            with torch.enable_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(seeds[i])
                found = made(x, edges, target=classes, **({"index": node} if node >= 0 else {}), **more)
            mask = found.edge_mask.double()[: n_edges[i]]
            n_bad += int(not torch.isfinite(mask).all())
            scores[i].index_add_(0, inputs.units.of_element[i, 1 : 1 + len(mask)], mask.nan_to_num(0.0))
        if n_bad:
            warn(f"GNNExplainer's mask was not a number for {n_bad} of {len(inputs)} inputs; those edges score 0")
        task.predict.n_rows += len(inputs) * self.cost(space.n_features)
        n_rows = torch.full((len(inputs),), self.cost(space.n_features))
        return Scores(scores / inputs.units.n_elements, None, n_rows)

    def _made(self, task: Task) -> Any:
        """Return PyTorch Geometric's explainer of this model."""
        try:
            from torch_geometric.explain import Explainer
            from torch_geometric.explain import GNNExplainer as Theirs
        except ImportError:
            raise extra("torch_geometric", "graph", f"method={self.name!r}") from None
        model: nn.Module = task.predict.model
        space: Any = task.space
        algorithm = Theirs(epochs=self.n_steps, lr=self.rate, edge_size=self.size, edge_ent=self.entropy)
        return Explainer(
            model,
            algorithm=algorithm,
            explanation_type="phenomenon",
            edge_mask_type="object",
            model_config={
                "mode": "multiclass_classification",
                "task_level": space.level,
                "return_type": "probs" if task.predict.returns_probabilities else "raw",
            },
        )
