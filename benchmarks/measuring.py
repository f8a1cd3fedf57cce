"""What the benchmarks share: the command line, the synthetic data, tables of text and the JSON record."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fans import keep_freed_memory
from fans.files import write

Floats = npt.NDArray[np.float64]

PACKAGES = ("numpy", "torch", "scikit-learn", "captum")
N_COLUMNS = 20
CAUSAL = (0, 1, 2)
"""Columns the rule reads."""
DECOYS = (3, 4, 5, 6, 7, 8)
"""Columns it does not, each correlated 0.8 with a causal one."""


def draw_inputs(n: int, seed: int) -> Floats:
    """Draw rows `(n, 20)`: three causal columns, two decoys of each, and eleven of noise, all standard normal."""
    rows = np.random.default_rng(seed).standard_normal((n, N_COLUMNS))
    for place, decoy in enumerate(DECOYS):
        rows[:, decoy] = 0.8 * rows[:, CAUSAL[place % len(CAUSAL)]] + 0.6 * rows[:, decoy]
    return rows


def rule(rows: Floats) -> Floats:
    """Return the probabilities `(n, 2)` of the two classes: a slope, an interaction and a slope against it."""
    z = 1.5 * rows[:, 0] + 1.5 * rows[:, 1] * rows[:, 2] - rows[:, 2]
    p = 1 / (1 + np.exp(-2 * z))
    return np.stack([1 - p, p], 1)


def draw_labels(rows: Floats, seed: int) -> npt.NDArray[np.int64]:
    """Draw a class for each row by the rule's probabilities."""
    return draw_classes(rule(rows), seed)


def draw_classes(p: Floats, seed: int) -> npt.NDArray[np.int64]:
    """Draw a class for each of the probabilities `(n, 2)`."""
    return (np.random.default_rng(seed).random(len(p)) < p[:, 1]).astype(np.int64)


def loans(n: int, seed: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Draw loans `(n, 8)` and who fails: income, debt, age, years of work, late payments, lines, use, savings."""
    rng = np.random.default_rng(seed)
    wealth, settled, strain = rng.standard_normal((3, n))
    income = np.exp(10.3 + 0.5 * wealth + 0.2 * rng.standard_normal(n))
    age = np.clip(40 + 11 * (0.5 * wealth + 0.8 * settled), 18, 80).round()
    years = np.clip((age - 20) * rng.beta(2, 3, n), 0, 45).round(1)
    debt = income * np.exp(-1.2 + 0.5 * strain + 0.3 * rng.standard_normal(n))
    late = rng.poisson(np.exp(-0.8 + 0.7 * strain - 0.3 * wealth))
    lines = rng.poisson(np.exp(1.4 + 0.2 * settled))
    use = 1 / (1 + np.exp(-(0.2 + 0.8 * strain + 0.7 * rng.standard_normal(n))))
    savings = np.exp(8 + 0.8 * wealth + 0.6 * rng.standard_normal(n))
    z = 3.3 * (debt / income - 0.35) + 0.8 * late + 3.2 * (use - 0.5) * (late > 0) - 0.35 * np.log(savings / 3000)
    z += -2.4 - 0.03 * (years - 6) + 0.5 * (income < 20_000)
    rows = np.stack([income, debt, age, years, late, lines, use, savings], 1)
    return rows, draw_classes(np.stack([z * 0, 1 / (1 + np.exp(-z))], 1), seed + 100)


def parse_arguments(
    description: str, name: str, among: Sequence[str] = (), commit: str | None = None, seed: int | None = None
) -> argparse.Namespace:
    """Read `--quick` and `--out`, and where there are such `--only`, some of the parts, `--commit` and `--seed`.

    Freed memory is kept from now on, as by the command line.
    """
    keep_freed_memory(children=True)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how well")
    default = Path(__file__).parent / "results" / f"{name}.json"
    parser.add_argument("--out", type=Path, default=default, help="where the JSON record goes")
    if among:
        parser.add_argument("--only", nargs="+", choices=among, help="only these")
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed, help=f"of the data ({seed}, which is reported)")
    if commit:
        parser.add_argument("--commit", default=commit, help=f"what to compare with ({commit})")
    return parser.parse_args()


def timed(action: Callable[[], Any]) -> float:
    """Return the seconds that an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def ratio(one: Callable[[], Any], other: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Time two actions turn by turn; return the median seconds of each and of their ratio, and the ratio's range."""
    pairs = [(timed(one), timed(other)) for _ in range(repeats)]
    ratios = [a / b for a, b in pairs]
    return {
        "seconds": statistics.median(a for a, _ in pairs),
        "other_seconds": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first column flush left and the others flush right."""
    first, *others = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join([row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))])
        for row in (header, ["-" * width for width in (first, *others)], *rows)
    ]
    print("\n".join(["", title, *lines]), flush=True)


def write_record(path: Path, settings: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Write what was run, on what, and what came out, as one JSON file."""
    about = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    versions = about | {package: version(package) for package in ("fans", *PACKAGES)}
    record = {"settings": dict(settings), "versions": versions, "figures": dict(figures)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(record, indent=1) + "\n")
    print(f"\nRecord: {path}")
