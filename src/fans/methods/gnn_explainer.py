"""GNNExplainer and PGExplainer: PyTorch Geometric's, on the part of the graph that a prediction is computed from.

Both mask messages: degrees stay as they were. Theirs draw from torch's global generator, PGExplainer keeps its settings
in one dictionary for all instances, either may return NaN, and what one leaves in a model's layers keeps the other from
learning. Here every instance has its own settings and every node its own seed, a NaN in a mask counts as 0 with a
warning, and masks are put into a copy of the model.
"""

import importlib
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fans.engine.settings import Settings
from fans.errors import check_whole, extra, warn
from fans.methods.base import Method, Scores
from fans.methods.edges import OfLastLayer, check_layers
from fans.methods.problem import Problem
from fans.methods.rivals import check_classes, check_number
from fans.modalities.graph.space import FittedEdges, message_layers
from fans.modalities.graph.union import by_parts, fitting, forgetting
from fans.modes import global_draws
from fans.task import Task


@dataclass(frozen=True)
class GNNExplainer(Method):
    """Score an edge by its weight in the mask that keeps the class likely, is small, and is decided.

    PyTorch Geometric's implementation: minimise `-log p(target | M) + size * sum M + entropy * mean H(M)` by Adam, the
    sigmoid of the mask multiplying messages. One node at a time, on the graph that its prediction is computed from
    instead of the whole one: the same gradients, as nothing else reaches the node, but the size of the mask does not
    grow with the graph. The score of an edge is the mean of its two directions.

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
        check_layers(task, f"method={self.name!r}", "masks their messages")
        check_classes(task, f"method={self.name!r}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """One row a step."""
        return self.n_steps

    def attribute(self, problem: Problem) -> Scores:
        """Learn one node's mask after another."""
        algorithm = _theirs("GNNExplainer", self.name)(epochs=self.n_steps, lr=self.rate)
        algorithm.coeffs |= {"edge_size": self.size, "edge_ent": self.entropy}
        return masks_of(problem, algorithm, self)


@dataclass(frozen=True)
class PGExplainer(OfLastLayer):
    """Score an edge by a network of both its ends and of the explained node, trained to keep classes likely.

    PyTorch Geometric's implementation: a network of two layers reads what the model's last layer makes of the three
    nodes, in the whole graph, and gives the edge a logit. It is trained, one node after another, by Adam on
    `-log p(target | M) + size * sum M + entropy * mean H(M)`, M being a concrete sample of the logits whose temperature
    falls from epoch to epoch; the sigmoid of the logit is the score, the mean of the two directions.

    A loss that is no number ends the training with the network of the epoch before, and a warning.

    Args:
        n_train: nodes to learn from.
        n_epochs: over them.
        rate: of Adam.
        size: price of an edge.
        entropy: price of undecided ones.
        temperature: at the beginning, and in the end.
        bias: how far the draws stay away from 0 and 1.
    """

    name: ClassVar[str] = "pg_explainer"
    label: ClassVar[str] = "PGExplainer"
    citation: ClassVar[str] = "Luo et al., Parameterized Explainer for Graph Neural Network, NeurIPS 2020"

    size: float = 0.05
    entropy: float = 1.0
    temperature: tuple[float, float] = (5.0, 2.0)
    bias: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("size", self.size, 0)
        check_number("entropy", self.entropy, 0)
        check_number("bias", self.bias, 0, above=True)
        for value in self.temperature:
            check_number("temperature", value, 0, above=True)

    def check(self, task: Task, settings: Settings) -> None:  # noqa: ARG002
        """Refuse what PyTorch Geometric's masks cannot reach."""
        check_layers(task, f"method={self.name!r}", "masks their messages")
        check_classes(task, f"method={self.name!r}")

    def cost(self, n_features: int) -> int:  # noqa: ARG002
        """None of its own: one row tells what the model makes of all nodes; training is apart."""
        return 0

    def training_cost(self, n_background: int) -> int:  # noqa: ARG002
        """Each node once, and once an epoch; twice what the model makes of all nodes."""
        return 2 + self.n_train * (1 + self.n_epochs)

    def learn(self, task: Task, network: Any, seed: int) -> list[float]:
        """Train on one node after another, in an order of its own each epoch."""
        self.draw_weights(network, seed)
        lessons = self.lessons(task, seed)
        algorithm, seen = self._algorithm(network), self.seen(lessons)
        n, history = len(lessons), list[float]()
        with global_draws(int(self.key(seed, "samples"))), warnings.catch_warnings(), own_model(task) as model:
            warnings.filterwarnings("ignore", "Converting a tensor with requires_grad")  # they read their loss so
            wrapped(task, model, algorithm, self.name)  # tells it what the model returns
            for epoch in range(self.n_epochs):
                before, total = deepcopy(network.state_dict()), 0.0
                with task.predict.direct(n):
                    for i in self.order(n, seed, epoch).tolist():
                        x, edges, more = asked(lessons, i)
                        algorithm.seen = seen[i]
                        total += algorithm.train(epoch, model, x, edges, **more)
                if not math.isfinite(total) or not all(p.isfinite().all() for p in network.parameters()):
                    network.load_state_dict(before)
                    warn(f"PGExplainer's loss was not a number in epoch {epoch}; the network before it is kept")
                    break
                history.append(total / n)
        return history

    def _algorithm(self, network: Any) -> Any:
        """Return their algorithm around a network.

        With coefficients of its own, which theirs shares with all instances, also those to come; and it does not ask
        what the model makes of a node in the part of the graph that it is given: `seen` has that of the whole.
        """
        made = _theirs("PGExplainer", self.name)(epochs=self.n_epochs, lr=self.rate)
        made.mlp = network
        made.optimizer = torch.optim.Adam(network.parameters(), self.rate)
        made._curr_epoch = self.n_epochs  # what is explained was trained
        own = {"edge_size": self.size, "edge_ent": self.entropy, "temp": list(self.temperature), "bias": self.bias}
        made.coeffs = dict(made.coeffs) | own
        made._get_embeddings = lambda *_, **__: made.seen
        return made

    def attribute(self, problem: Problem) -> Scores:
        """Score by the network, which is trained if that was not done. The rows are those of scoring."""
        network = self.train(problem.task, problem.seed)
        return masks_of(problem, self._algorithm(network), self, self.seen(problem))


def _theirs(name: str, asker: str) -> Any:
    """Return something of PyTorch Geometric's."""
    try:
        return getattr(importlib.import_module("torch_geometric.explain"), name)
    except ImportError:
        raise extra("torch_geometric", "graph", f"method={asker!r}") from None


def wrapped(task: Task, model: Any, algorithm: Any, name: str) -> Any:
    """Return PyTorch Geometric's explainer of this model."""
    space: Any = task.space
    mode = "binary" if task.predict.n_outputs == 1 else "multiclass"
    return _theirs("Explainer", name)(
        model,
        algorithm=algorithm,
        explanation_type="phenomenon",
        edge_mask_type="object",
        model_config={
            "mode": f"{mode}_classification",
            "task_level": space.level,
            "return_type": "probs" if task.predict.returns_probabilities else "raw",
        },
    )


@contextmanager
def own_model(task: Task) -> Iterator[Any]:
    """Yield a copy of the model for PyTorch Geometric to put masks into, which other threads do not see.

    It returns the outputs alone.
    """
    model = deepcopy(task.predict.model)
    with without_masks(model), task.space.unwrap.inside(model):
        yield by_parts(model)


@contextmanager
def without_masks(model: Any) -> Iterator[None]:
    """Leave no trace of a mask in a model's layers, neither from before nor for later, and have them remember no edges.

    A layer that once had a mask as a parameter, as GNNExplainer leaves it, makes parameters of all later ones, and no
    gradient reaches PGExplainer's network any more.
    """
    clear = importlib.import_module("torch_geometric.explain.algorithm.utils").clear_masks

    def clean() -> None:
        clear(model)
        for layer in message_layers(model):
            layer._parameters.pop("_edge_mask", None)
            layer._edge_mask = None  # type: ignore[assignment]

    clean()
    try:
        with forgetting(model):
            yield
    finally:
        clean()


def asked(problem: Problem, i: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return one input as PyTorch Geometric's algorithms take it: nodes, edges, and all else by name."""
    space: Any = problem.task.space
    x, edges, more, node = space.alone(int(problem.place[i]))
    target = problem.target[i : i + 1] if node < 0 else problem.target[i].expand(len(x))
    x, edges, target, *rest = fitting(problem.task.predict.model, x, edges, target, *more.values())
    more = dict(zip(more, rest, strict=True)) | {"target": target}
    return x, edges, more if node < 0 else more | {"index": node}


def masks_of(problem: Problem, algorithm: Any, method: Method, seen: Sequence[Tensor] | None = None) -> Scores:
    """Ask for one node's mask after another; `seen` is what the model makes of each one's nodes, where that is read."""
    task, space = problem.task, problem.task.space
    assert isinstance(space, FittedEdges)
    scores = torch.zeros(len(problem), space.n_features, dtype=torch.float64)
    seeds, n_edges = problem.keys(method.name).tolist(), (space.columns_of(problem.place) >= 0).sum(1).tolist()
    n_bad, n_rows = 0, method.cost(space.n_features)
    with (
        torch.enable_grad(),
        global_draws(),
        own_model(task) as model,
        task.predict.direct(len(problem) * n_rows),
    ):
        made = wrapped(task, model, algorithm, method.name)
        for i in range(len(problem)):
            x, edges, more = asked(problem, i)
            if seen is not None:
                algorithm.seen = seen[i]
            torch.manual_seed(seeds[i])
            mask = made(x, edges, **more).edge_mask.detach().cpu().double()[: n_edges[i]]
            n_bad += int(not torch.isfinite(mask).all())
            scores[i].index_add_(0, problem.units.of_element[i, : len(mask)], mask.nan_to_num(0.0))
    if n_bad:
        warn(f"{method.label}'s mask was not a number for {n_bad} of {len(problem)} inputs; those edges score 0")
    return Scores.even(scores / problem.units.n_elements, n_rows)
