"""What our choices for graphs are worth: scores of each alternative on nodes that are never reported.

16 corners of houses of BA-Community's second community, and 32 test nodes of Citeseer, of those that `fans run table2`
keeps for tuning; target = predicted class. All alternatives see the same nodes. Run with
`python -m benchmarks.graph_choices` (about ten minutes).
"""

import warnings
from collections.abc import Mapping
from typing import Any

import fans
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.methods.fans import chain as _chain
from fans.metrics import metric
from fans.studies import load
from fans.studies.graphs import Subject, subject

GAME: dict[str, Any] = {"solver": "game"}
CONSTANTS: Mapping[str, tuple[str, Any]] = {
    "chain, no noise": ("NOISE", 0.0),
    "chain, noise of 0.5": ("NOISE", 0.5),
    "chain, only falls count": ("FALL", 1.0),
    "chain, memberships less steep": ("SHARP", 4),
    "chain, one membership for all": ("ROUNDS", (16,)),
}
"""Choices of the chain that are no settings: the constant's name, and its other value."""
ALTERNATIVES: Mapping[str, dict[str, Any]] = {
    "chain, as shipped": {},
    "chain, effort low": {"effort": "low"},
    "chain, effort high": {"effort": "high"},
    "chain, 20 steps": {"n_steps": 20},
    "chain, logits": {"output": "raw"},
    "chain, without SF": {"without": "SF"},
    "chain, without NC": {"without": "NC"},
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
    explainer, truth = fans.Explainer(given.model, given.graph, **settings), given.truth(nodes)
    asked = {k: metric(name, **how) for k, (name, how) in COLUMNS.items() if truth is not None or name != "recall"}
    found = fans.evaluate(explainer.attribute(nodes, target), asked, explainer=explainer, truth=truth)
    return {k: float(values.mean()) for k, values in found.values.items()}


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "graph_choices")
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name, n in (("citeseer", 32), ("ba_community", 16)):
        given, inputs = subject(name, name), load("table2").dataset(name)
        nodes = [given.nodes[i] for i in inputs.positions("tuning", 2 if arguments.quick else n)]
        found = figures[name] = {label: judge(given, nodes, how) for label, how in ALTERNATIVES.items()}
        for label, (constant, value) in CONSTANTS.items():
            kept = getattr(_chain, constant)
            setattr(_chain, constant, value)
            found[label] = judge(given, nodes, {})
            setattr(_chain, constant, kept)
        columns = list(next(iter(found.values())))
        rows = [[label, *(f"{values[c]:.3f}" for c in columns)] for label, values in found.items()]
        print_table(f"{name}, {len(nodes)} nodes", ["alternative", *columns], rows)
    write_record(arguments.out, {"quick": arguments.quick}, figures)


if __name__ == "__main__":
    main()
