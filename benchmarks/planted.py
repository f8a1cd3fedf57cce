"""What benchmarks of planted features share: how well what is named agrees with what was planted, with intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import Floats

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

BOOTSTRAP_SEED, N_BOOTSTRAP = 2029, 2000


def agreement(named: Bools, truth: Bools) -> dict[str, Floats]:
    """Return precision, recall and F1 of each input."""
    right, n_named, n_true = (named & truth).sum(1), named.sum(1), truth.sum(1)
    precision, recall = right / np.maximum(n_named, 1), right / n_true
    return {"f1": 2 * right / (n_named + n_true), "precision": precision, "recall": recall}


def highest(scores: Floats, sizes: Ints) -> Bools:
    """Name so many features of each input, those with the highest scores."""
    place = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return np.asarray(place < sizes[:, None])


def interval(values: Floats) -> list[float]:
    """Return the mean and its 95 % bootstrap interval over inputs."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    means = values[rng.integers(len(values), size=(N_BOOTSTRAP, len(values)))].mean(1)
    return [float(values.mean()), *(float(q) for q in np.quantile(means, [0.025, 0.975]))]


def ranked(truth: Bools, scores: Floats, sizes: Ints) -> dict[str, list[float]]:
    """Judge the highest so many of each input: by signed or by absolute scores, whichever is better."""
    both = [agreement(highest(values, sizes), truth) for values in (scores, np.abs(scores))]
    best = max(both, key=lambda found: float(found["f1"].mean()))
    return {name: interval(values) for name, values in best.items()}


def text(found: Mapping[str, Any], name: str) -> str:
    """Return a mean with its interval."""
    value, low, high = found[name]
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
