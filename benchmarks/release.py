"""Is this faster than an earlier release? The same explanations by both, each in a process of its own, turn by turn.

The earlier release is a commit of this repository; `git archive` lays out its files, nothing is installed. Both run
with their own defaults, so what an explanation is may differ: seconds compare what their users wait for. Run with
`python -m benchmarks.release [--commit 57ef196] [--only images ...]` on an idle machine.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from xgboost import XGBClassifier

from benchmarks.measuring import loans, parse_arguments, print_table, write_record

ROOT = Path(__file__).parents[1]
BEFORE = "57ef196"
"""The release before the chain."""
REPEATS, QUICK_REPEATS = 5, 1
ASK = "--explain"
"""Of the process that explains: which case."""

SEED = 11
Explain = Callable[[], int]
"""Explains the inputs of a case and returns how many there were."""


def images() -> Explain:
    """64 bundled garments, our LeNet."""
    import fans
    import fans.datasets
    import fans.networks

    model, _ = fans.networks.load("fashion_mnist")
    train, test = (fans.datasets.load_slice("fashion_mnist", split=split) for split in ("train", "test"))
    inputs, explainer = test.tensor()[:64], fans.Explainer(model, train.tensor())
    return lambda: len(explainer(inputs))


def nodes() -> Explain:
    """12 corners of houses of BA-Community, our graph network."""
    import fans
    import fans.datasets
    import fans.networks

    model, _ = fans.networks.load("ba_community")
    graph = fans.datasets.load_graph("ba_community")
    corners, explainer = list(range(400, 412)), fans.Explainer(model, graph)
    return lambda: len(explainer(corners))


def rows(model: Any) -> Explain:
    """1,000 rows of 8 columns, boosted trees: the columns of a loan, as synthetic ones go."""
    import fans

    table, labels = loans(4000, SEED)
    model.fit(table, labels)
    inputs, explainer = loans(1000, SEED + 1)[0], fans.Explainer(model, table[:500])
    return lambda: len(explainer(inputs))


CASES: Mapping[str, Callable[[], Explain]] = {
    "images": images,
    "nodes": nodes,
    "rows, scikit-learn": lambda: rows(HistGradientBoostingClassifier(random_state=0)),
    "rows, XGBoost": lambda: rows(XGBClassifier(random_state=0)),
}


def lay_out(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    asked = ["git", "archive", commit]
    packed = subprocess.run(asked, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")


def seconds(case: str, root: Path) -> float:
    """Return the seconds an input takes with the library below `root`, after one call that warms up."""
    known = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(ROOT)])}
    asked = [sys.executable, "-m", "benchmarks.release", ASK, case]
    said = subprocess.run(asked, cwd=ROOT, env=known, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603
    found = json.loads(said.splitlines()[-1])
    assert Path(found["library"]).is_relative_to(root), found
    return float(found["seconds"])


def explain(case: str) -> None:
    """Explain a case in this process, and print what it took."""
    import fans

    warnings.simplefilter("ignore")
    work = CASES[case]()
    work()
    began = time.perf_counter()
    n_inputs = work()
    print(json.dumps({"seconds": (time.perf_counter() - began) / n_inputs, "library": fans.__file__}))


def compare(case: str, before: Path, repeats: int) -> dict[str, float]:
    """Explain a case by both, turn by turn."""
    pairs = [(seconds(case, before), seconds(case, ROOT)) for _ in range(repeats)]
    ratios = [old / new for old, new in pairs]
    old, new = (statistics.median(each) for each in zip(*pairs, strict=True))
    spread = {"ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
    return {"before": old, "now": new} | spread


def report(found: Mapping[str, Mapping[str, float]]) -> None:
    lines: Sequence[Sequence[str]] = [
        (
            case,
            f"{1000 * v['before']:.1f}",
            f"{1000 * v['now']:.1f}",
            f"{v['ratio']:.2f}",
            f"{v['lowest']:.2f}-{v['highest']:.2f}",
        )
        for case, v in found.items()
    ]
    print_table("Milliseconds an input, whole explanations", ("case", "before", "now", "ratio", "range"), lines)


def main() -> None:
    asking = argparse.ArgumentParser(add_help=False)
    asking.add_argument(ASK, choices=CASES)
    asked, _ = asking.parse_known_args()
    if asked.explain:
        explain(asked.explain)
        return
    arguments = parse_arguments(__doc__ or "", "release", among=tuple(CASES), commit=BEFORE)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder).resolve()
        lay_out(arguments.commit, before)
        for case in arguments.only or CASES:
            figures[case] = compare(case, before, QUICK_REPEATS if arguments.quick else REPEATS)
    report(figures)
    write_record(arguments.out, {"before": arguments.commit}, figures)


if __name__ == "__main__":
    main()
