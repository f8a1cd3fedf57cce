"""A walk through the house: how often a call crosses from one module of `fans` into another, and between how many.

Run with `python -m tools.walk`; the fewer crossings, the easier a call is to follow. Counted are calls of functions
whose module differs from the caller's, both of `fans`, for one explained row of a table, one image, one node of a
graph, and one cell of Table 1 (Integrated Gradients of one image; where FANS_DATA is set).
"""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def crossings(call: Callable[[], Any]) -> tuple[int, int]:
    """Return how many calls cross between modules of ours, and how many modules they touch."""
    count, touched = 0, set[str]()

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        if event != "call" or frame.f_back is None:
            return
        here, there = (f.f_globals.get("__name__", "") for f in (frame, frame.f_back))
        if here != there and here.startswith("fans.") and there.startswith("fans."):
            count += 1
            touched.update((here, there))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count, len(touched)


def walks() -> dict[str, Callable[[], Any]]:
    """Return one call of each kind, ready to be followed."""
    import fans
    from fans.datasets import load_graph, load_slice
    from fans.networks import load
    from fans.runs import Cell
    from fans.studies import Asked
    from fans.studies import load as study

    rows = np.random.default_rng(0).normal(size=(200, 8))
    table = fans.Explainer(lambda x: (x[:, 0] + x[:, 1] > 0).astype(float), rows)
    images = load_slice("fashion_mnist", split="train").tensor()
    image = fans.Explainer(load("fashion_mnist")[0], images[:100])
    node = fans.Explainer(load("ba_community")[0], load_graph("ba_community"))
    for explainer, x in ((table, rows[:1]), (image, images[:1]), (node, [430])):
        explainer(x)  # what is done once is not counted
    found: dict[str, Callable[[], Any]] = {
        "a row of a table": lambda: table(rows[:1]),
        "an image": lambda: image(images[:1]),
        "a node of a graph": lambda: node([430]),
    }
    if os.environ.get("FANS_DATA"):
        table1 = study("table1")
        cell = Cell(table1.plan(Asked(n=1, only=["mnist"], rows=["IG"]))[0])
        table1.do(cell)
        found["a cell of Table 1"] = lambda: table1.do(cell)
    return found


def main() -> None:
    """Print the crossings of each walk."""
    warnings.simplefilter("ignore")
    for name, call in walks().items():
        count, touched = crossings(call)
        sys.stdout.write(f"{name:20} {count:6} crossings between {touched} modules\n")


if __name__ == "__main__":
    main()
