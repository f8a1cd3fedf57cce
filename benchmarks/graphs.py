"""Edges of graphs: how good the scores are beside rivals', and what they cost.

Recall@12, Fidelity and sparseness on BA-Community (nodes 400, 405, ..., 695), and on test nodes of Citeseer and Pubmed;
batched against one node at a time; against PyTorch Geometric's GNNExplainer at equal model evaluations; the memory of a
hub. Run with `python -m benchmarks.graphs`; Pubmed needs FANS_DATA.
"""

import os
import resource
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import fans
from benchmarks._shared import Floats, parse_arguments, print_table, ratio, write_record
from fans.data.graphs import Graph, geometric, load_graph
from fans.evaluate import node_cases
from fans.experiments.graphs import nodes_in_order, subject
from fans.metrics import metric
from fans.models import load

SEED = 0
COLUMNS = {
    "Recall@12": ("recall", {}),
    "FID+": ("fidelity_plus", {}),
    "FID-": ("fidelity_minus", {}),
    "FID+ top 12": ("fidelity_plus", {"form": "top", "top": 12}),
    "FID- top 12": ("fidelity_minus", {"form": "top", "top": 12}),
    "SPA": ("sparseness", {}),
}
METHODS: dict[str, dict[str, Any]] = {
    "FANS, gradient": {"solver": "gradient"},
    "FANS, game": {"solver": "game"},
    "Saliency": {"method": "saliency"},
    "IG": {"method": "integrated_gradients"},
    "Banzhaf (control), 500 rows": {"method": "banzhaf", "n_samples": 500},
    "random (control)": {"method": "random"},
}
EPOCHS = 386
"""Model evaluations of GNNExplainer, as many as FANS takes rows a node."""


def gnn_explainer(model: nn.Module, epochs: int) -> Any:
    """Return PyTorch Geometric's explainer as it is called."""
    explain = geometric("GNNExplainer").explain
    return explain.Explainer(
        model,
        algorithm=explain.GNNExplainer(epochs=epochs),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )


def their_scores(model: nn.Module, graph: Graph, nodes: list[int], made: fans.Explainer, epochs: int) -> Floats:
    """Return GNNExplainer's masks as scores of our features: the mean of an edge's two directions."""
    asked = gnn_explainer(model, epochs)
    x, edge_index = graph.tensors()
    parts = made.task.split(nodes)
    out = np.zeros((len(nodes), max(task.space.n_features for task, *_ in parts)))
    for task, rows, at in parts:
        units, columns = task.space.units(rows), task.space.columns_of(rows)  # type: ignore[attr-defined]
        for i, place in enumerate(at):
            torch.manual_seed(SEED + nodes[place])
            mask = asked(x, edge_index, index=nodes[place]).edge_mask
            real = columns[i] >= 0
            total = torch.zeros(task.space.n_features)
            total.index_add_(0, units.of_element[i, 1:][real], mask[columns[i][real]])
            out[place, : len(total)] = (total / units.size[i].clamp(min=1)).numpy()
    return out


def quality(name: str, n: int, epochs: int) -> dict[str, dict[str, list[float]]]:
    """Return every metric of every method on each node."""
    given = subject(name, name)
    graph, model, nodes = given.graph, given.model, given.nodes[:n]
    target, scores = given.predicted[nodes].tolist(), {}
    for label, settings in METHODS.items():
        scores[label] = fans.Explainer(model, graph, seed=SEED, **settings).scores(nodes, target)
    scores[f"GNNExplainer, {epochs} epochs"] = their_scores(model, graph, nodes, given.plain, epochs)
    out = {}
    for label, values in scores.items():
        found: dict[str, list[float]] = {
            column: [] for column in COLUMNS if graph.truth is not None or column != "Recall@12"
        }
        for case in node_cases(given.plain, nodes, values, target, seed=SEED, truth=given.truth(nodes)):
            for column, kept in found.items():
                judge, how = COLUMNS[column]
                kept.append(float(metric(judge, **how)(case)))
        out[label] = found
    return out


def batching(name: str, n: int, repeats: int) -> dict[str, float]:
    """Return seconds of one node at a time over all of them together."""
    graph, (model, _) = load_graph(name), load(name)
    nodes, made = nodes_in_order(graph)[:n], fans.Explainer(model, graph)
    made.scores(nodes[:2])

    def alone() -> None:
        for node in nodes:
            made.scores([node])

    return ratio(alone, partial(made.scores, nodes), repeats)


def against_gnn_explainer(name: str, n: int, repeats: int, epochs: int) -> dict[str, float]:
    """Return seconds of GNNExplainer over ours for the same nodes, at equal evaluations."""
    graph, (model, _) = load_graph(name), load(name)
    nodes, made = nodes_in_order(graph)[:n], fans.Explainer(model, graph)
    theirs = gnn_explainer(model, epochs)
    x, edge_index = graph.tensors()

    def other() -> None:
        for node in nodes:
            theirs(x, edge_index, index=node)

    return ratio(other, partial(made.scores, nodes), repeats)


def hub(name: str) -> int:
    """Return the node with the most edges."""
    return int(np.bincount(load_graph(name).edge_index[1]).argmax())


def weigh(name: str) -> None:
    """Print the peak memory in MiB of this process after explaining a hub, and how many edges it has in reach."""
    graph, (model, _) = load_graph(name), load(name)
    explanation = fans.Explainer(model, graph)([hub(name)])
    print(int(explanation.present.sum()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    if sys.argv[1:2] == ["--weigh"]:
        weigh(sys.argv[2])
        return
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "graphs")
    quick = arguments.quick
    sizes = {"ba_community": 60, "citeseer": 50} | ({"pubmed": 40} if os.environ.get("FANS_DATA") else {})
    epochs, repeats = (4, 1) if quick else (EPOCHS, 3)
    figures: dict[str, Any] = {"quality": {}}
    for name, full in sizes.items():
        n = 3 if quick else full
        found = figures["quality"][name] = quality(name, n, epochs)
        columns = list(next(iter(found.values())))
        rows = [[label, *(f"{np.mean(values[c]):.3f}" for c in columns)] for label, values in found.items()]
        print_table(f"{name}, {n} nodes", ["method", *columns], rows)
    names = [name for name in sizes if name != "pubmed"]
    figures["batching"] = {name: batching(name, 3 if quick else sizes[name], repeats) for name in names}
    figures["gnn_explainer"] = {
        name: against_gnn_explainer(name, 2 if quick else 8, 1 if quick else 2, epochs) for name in names
    }
    for title in ("batching", "gnn_explainer"):
        rows = [
            [
                k,
                f"{v['seconds']:.2f}",
                f"{v['other_seconds']:.2f}",
                f"{v['ratio']:.2f}",
                f"{v['lowest']:.2f}-{v['highest']:.2f}",
            ]
            for k, v in figures[title].items()
        ]
        what = "one node at a time" if title == "batching" else "GNNExplainer"
        print_table(f"{what} over ours", ["graph", "seconds", "ours", "ratio", "range"], rows)
    figures["hub"] = {}
    for name in sizes if not quick else ["citeseer"]:
        command = [sys.executable, "-m", "benchmarks.graphs", "--weigh", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        edges, peak = done.stdout.split()[-2:]
        figures["hub"][name] = {"node": hub(name), "edges": int(edges), "peak_mib": float(peak)}
    print_table(
        "The node with the most edges",
        ["graph", "edges in reach", "peak MiB"],
        [[k, str(v["edges"]), f"{v['peak_mib']:.0f}"] for k, v in figures["hub"].items()],
    )
    settings = {"seed": SEED, "nodes": sizes, "epochs": epochs, "repeats": repeats, "quick": quick}
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    main()
