"""A sanity sheet for methods on edges: a rule that two short paths decide, which each of them should find.

The model is a rule, not trained: a node is of class 1 if it has a neighbour of kind A that has a neighbour of kind B,
and a neighbour of kind C that has a neighbour of kind D. Its graph is made so that there is just one such path of each,
four edges in all, among dozens that lead nowhere; other nodes have but one of the two. Recall of those four among
the four highest, on nodes that no trained method has learned from, each method with the settings below. Run with
`python -m benchmarks.sanity` (two minutes).
"""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fans
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.datasets.graphs import geometric
from fans.metrics import metric
from fans.report.tables import entry
from fans.types import Array

SEED = 0
KINDS = "ABCD-"
METHODS: dict[str, dict[str, Any]] = {  # their defaults, or what `table2.yaml` has where no search was
    "saliency": {},
    "guided_backprop": {},
    "integrated_gradients": {},
    "gnn_explainer": {"n_steps": 200},
    "pg_explainer": {},
    "refine": {},
    "mixup_explainer": {},
    "cf_gnn_explainer": {"n_steps": 300},
    "cf2": {"n_steps": 300, "rate": 0.05, "strength": 100.0},
    "nseg": {"n_steps": 300, "rate": 0.05, "alpha": 0.05},
    "banzhaf": {"n_samples": 500},
    "fans": {},
    "fans, game": {"method": "fans", "solver": "game"},
    "random": {},
}


def rule() -> nn.Module:
    """Return the rule as a model of two message-passing layers of PyTorch Geometric, without parameters."""
    passing: Any = geometric("the rule").nn.MessagePassing

    class Heard(passing):  # type: ignore[misc]
        """The sum of what neighbours are."""

        def __init__(self) -> None:
            super().__init__(aggr="add")

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            """Sum."""
            weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
            out: Tensor = self.propagate(edge_index, x=x, weight=weight)
            return out

        def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
            """Weigh."""
            return weight[:, None] * x_j

    class Rule(nn.Module):
        """Two sums, each cut off at 1; what ends a path is passed on only by what is its middle."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Heard(), Heard()
            self.relus = nn.ModuleList(nn.ReLU() for _ in range(2))

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            """Return the logits of both classes."""
            ends = self.first(x[:, [1, 3]], edge_index, edge_weight)  # neighbours of kind B and D
            middles = x[:, [0, 2]] * (1 - self.relus[0](1 - ends))
            seen = torch.cat([middles, x], 1)
            paths = 1 - self.relus[1](1 - self.second(seen, edge_index, edge_weight)[:, :2])
            logit = 8 * (paths.amin(1) - 0.5)
            return torch.stack([-logit, logit], 1)

    return Rule().eval()


def planted(seed: int, n_explained: int, n_nodes: int = 200, n_distractors: int = 6) -> tuple[Any, list[int], Tensor]:
    """Return a graph, so many nodes of class 1, and which columns of `edge_index` are the four edges of each.

    Its `train_mask` are the other nodes that paths may start from, half of them of class 1.
    """
    rng = np.random.default_rng(seed)
    pairs, kinds, own = list[tuple[int, int]](), list[str](), dict[int, list[int]]()

    def new(kind: str) -> int:
        kinds.append(kind)
        return len(kinds) - 1

    def leaves(node: int, n: int) -> None:
        pairs.extend((node, new("-")) for _ in range(n))

    for i in range(n_nodes):
        start = new("-")
        own[start] = []
        for middle, end, there in (("A", "B", True), ("C", "D", i % 2 == 0)):
            between = new(middle)
            own[start].append(len(pairs))
            pairs.append((start, between))
            leaves(between, 2)
            if there:
                own[start].append(len(pairs))
                pairs.append((between, new(end)))
        for _ in range(n_distractors):  # middles without an end, and ends without a middle
            other = new(str(rng.choice(list("AC-"))))
            pairs.append((start, other))
            leaves(other, int(rng.integers(1, 3)))
            if kinds[other] == "-":
                pairs.append((other, new(str(rng.choice(list("BD"))))))
    edges, n_pairs = torch.tensor(pairs).T, len(pairs)
    x = torch.nn.functional.one_hot(torch.tensor([KINDS.index(kind) for kind in kinds]), len(KINDS)).float()
    nodes = [start for start, columns in own.items() if len(columns) == 4][:n_explained]
    truth = torch.zeros(len(nodes), 2 * n_pairs, dtype=torch.bool)
    for row, node in zip(truth, nodes, strict=True):
        row[own[node]], row[[column + n_pairs for column in own[node]]] = True, True
    train = torch.zeros(len(x), dtype=torch.bool)
    train[[start for start in own if start not in set(nodes)]] = True
    edge_index = torch.cat([edges, edges.flip(0)], 1)
    return geometric("a graph").data.Data(x=x, edge_index=edge_index, train_mask=train), nodes, truth


def recalls(name: str, settings: dict[str, Any], n: int) -> tuple[Array, dict[str, Any]]:
    """Return for each node the share of its four edges, eight with both directions, among the highest, and training."""
    graph, nodes, truth = planted(SEED, n)
    explainer = fans.Explainer(rule(), graph, **({"method": name} | settings), seed=SEED)
    training = explainer.prepare()
    recall = {"recall": metric("recall", n=8)}
    found = fans.evaluate(explainer.attribute(nodes, [1] * n), recall, explainer=explainer, truth=truth)
    return found["recall"], dict(training)


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "sanity")
    n = 4 if arguments.quick else 50
    figures: dict[str, Any] = {}
    for name, settings in METHODS.items():
        quick = {"n_epochs": 1, "n_train": 4} if name in ("pg_explainer", "refine", "mixup_explainer") else {}
        found, training = recalls(name, settings | (quick if arguments.quick else {}), n)
        of = entry(found, seed=SEED)
        figures[name] = {"recall": of.value, "interval": [of.low, of.high], "training": training.get("seconds", 0.0)}
    print_table(
        f"Recall of the four edges that decide, {n} nodes",
        ("method", "recall", "95 % interval", "s of training"),
        [
            (k, f"{v['recall']:.3f}", f"[{v['interval'][0]:.3f}, {v['interval'][1]:.3f}]", f"{v['training']:.1f}")
            for k, v in figures.items()
        ],
    )
    write_record(arguments.out, {"seed": SEED, "n": n, "quick": arguments.quick}, figures)


if __name__ == "__main__":
    main()
