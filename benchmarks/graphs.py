"""Edges of graphs: what explaining them costs; `fans run table2` tells how good the scores are.

Batched against one node at a time; against PyTorch Geometric's GNNExplainer on the whole graph at equal model
evaluations; the memory of a hub. Run with `python -m benchmarks.graphs`; Pubmed needs FANS_DATA.
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
from torch import Tensor, nn

import fans
from benchmarks.measuring import parse_arguments, print_table, ratio, timed, write_record
from fans.datasets.graphs import geometric, load_graph
from fans.networks import load
from fans.studies.graphs import nodes_in_order

SEED = 0
EPOCHS = 330
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


class Timed(nn.Module):
    """A model that does everything it is asked twice, and knows how long the first time took, way back included."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.seconds = model, 0.0

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the model's outputs."""

        def bare() -> None:
            leaf = None if edge_weight is None else edge_weight.detach().requires_grad_(edge_weight.requires_grad)
            out = self.model(x.detach(), edge_index, leaf)
            if leaf is not None and leaf.requires_grad:
                torch.autograd.grad(out.sum(), leaf)

        self.seconds += timed(bare)
        out: Tensor = self.model(x, edge_index, edge_weight)
        return out


def batching(name: str, n: int, repeats: int) -> dict[str, float]:
    """Return seconds of one node at a time over all of them together, and how many of the latter are the model's."""
    graph, (model, _) = load_graph(name), load(name)
    nodes, made, watched = nodes_in_order(graph)[:n], fans.Explainer(model, graph), Timed(model)
    made.scores(nodes[:2])

    def alone() -> None:
        for node in nodes:
            made.scores([node])

    found = ratio(alone, partial(made.scores, nodes), repeats)
    asked = fans.Explainer(watched.eval(), graph)
    watched.seconds = 0.0
    asked.scores(nodes)
    return found | {"model_seconds": watched.seconds}


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
    figures: dict[str, Any] = {}
    names = [name for name in sizes if name != "pubmed"]
    figures["batching"] = {name: batching(name, 3 if quick else sizes[name], repeats) for name in names}
    figures["gnn_explainer"] = {
        name: against_gnn_explainer(name, 2 if quick else 8, 1 if quick else 2, epochs) for name in names
    }
    for title in ("batching", "gnn_explainer"):
        what, more = ("one node at a time", ["model's own"]) if title == "batching" else ("GNNExplainer", [])
        rows = [
            [
                k,
                f"{v['seconds']:.2f}",
                f"{v['other_seconds']:.2f}",
                f"{v['ratio']:.2f}",
                f"{v['lowest']:.2f}-{v['highest']:.2f}",
                *(f"{v['model_seconds']:.2f}" for _ in more),
            ]
            for k, v in figures[title].items()
        ]
        print_table(f"{what} over ours", ["graph", "seconds", "ours", "ratio", "range", *more], rows)
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
