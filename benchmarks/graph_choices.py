"""What our choices for graphs are worth: scores of each alternative on nodes that are never reported.

16 corners of houses of BA-Community's second community, and 32 test nodes of Citeseer, of those that `fans run table2`
keeps for tuning; target = predicted class. All alternatives see the same nodes. Run with
`python -m benchmarks.graph_choices` (about ten minutes).
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import fans
from benchmarks._shared import parse_arguments, print_table, write_record
from fans.evaluate import node_cases
from fans.experiments import load
from fans.experiments.graphs import Subject, subject
from fans.metrics import metric
from fans.spaces.graph import FittedEdges

CLIMB: dict[str, Any] = {"solver": "gradient"}
GAME: dict[str, Any] = {"solver": "game"}
ALTERNATIVES: Mapping[str, dict[str, Any]] = {
    "gradient, as shipped": CLIMB,
    "gradient, phi 0.1": CLIMB | {"phi": 0.1},
    "gradient, phi 0.2": CLIMB | {"phi": 0.2},
    "gradient, phi 0.5": CLIMB | {"phi": 0.5},
    "gradient, phi 0.8": CLIMB | {"phi": 0.8},
    "gradient, 20 steps": CLIMB | {"n_steps": 20},
    "gradient, objective PNS": CLIMB | {"objective": "pns", "l1": 0.0},
    "gradient, the paper's indicator": CLIMB | {"indicator": "paper"},
    "gradient, graph alone": CLIMB | {"n_local": 0},
    "gradient, logits": CLIMB | {"output": "raw"},
    "gradient, only falls count": CLIMB | {"change": "fall"},
    "game": GAME,
    "game, phi 0.2": GAME | {"phi": 0.2},
    "game, phi 0.5": GAME | {"phi": 0.5},
    "game, only falls count": GAME | {"change": "fall"},
    "game, graph alone": GAME | {"n_local": 0},
    "Banzhaf (control), 1,000 rows": {"method": "banzhaf", "n_samples": 1000},
    "IG": {"method": "integrated_gradients"},
    "Saliency": {"method": "saliency"},
    "random (control)": {"method": "random"},
}
DROPS = (0.02, 0.1, 0.5)
COLUMNS = {
    "Recall@12": ("recall", {}),
    "FID+ top 12": ("fidelity_plus", {"form": "top", "top": 12}),
    "FID- top 12": ("fidelity_minus", {"form": "top", "top": 12}),
    "FID+ top 10 %": ("fidelity_plus", {"form": "top", "top": 0.1}),
    "FID- top 10 %": ("fidelity_minus", {"form": "top", "top": 0.1}),
    "area between": ("fidelity_gap", {}),
}


def judge(given: Subject, nodes: list[int], settings: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean of every metric over the nodes."""
    target = given.predicted[nodes].tolist()
    scores = fans.Explainer(given.model, given.graph, **settings).scores(nodes, target)
    truth = given.truth(nodes)
    cases = node_cases(given.plain, nodes, scores, target, truth=truth)
    asked = {k: metric(name, **how) for k, (name, how) in COLUMNS.items() if truth is not None or name != "recall"}
    return {k: float(np.mean([float(one(case)) for case in cases])) for k, one in asked.items()}


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "graph_choices")
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name, n in (("citeseer", 32), ("ba_community", 16)):
        given, inputs = subject(name, name), load("table2").dataset(name)
        nodes = [given.nodes[i] for i in inputs.positions("tuning", 2 if arguments.quick else n)]
        found = figures[name] = {label: judge(given, nodes, how) for label, how in ALTERNATIVES.items()}
        shipped = FittedEdges.swap_rate
        for rate in DROPS:
            FittedEdges.swap_rate = rate
            found[f"gradient, copies drop {rate:.0%}"] = judge(given, nodes, CLIMB)
        FittedEdges.swap_rate = shipped
        columns = list(next(iter(found.values())))
        rows = [[label, *(f"{values[c]:.3f}" for c in columns)] for label, values in found.items()]
        print_table(f"{name}, {len(nodes)} nodes", ["alternative", *columns], rows)
    write_record(arguments.out, {"quick": arguments.quick}, figures)


if __name__ == "__main__":
    main()
