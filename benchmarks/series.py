"""Do explanations find the windows of a series that a prediction depends on? Noise with planted patterns.

Three channels of 120 steps of red and white noise, in windows of five steps by channel: 72 features. *burst*: a fast
oscillation in one window of one channel makes class 1. *and*: a bump in one channel together with a burst in another,
at places of their own; either alone is class 0. *or*: either of the two is enough, and an explained series has one. A
1d convolutional network is trained on each. *and (raw)* and *or (raw)* are for a scikit-learn classifier on the raw
values of one channel: bumps at two places that are always the same, others elsewhere. What is explained was held out
and is predicted to be class 1, as it is.

Every method explains the same series, and the rivals are told how many windows there are, FANS is not. Run with
`python -m benchmarks.series`; choices are made with `--seed 11` and 21, which the reported seed is apart from.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier
from torch import nn

import fans
from benchmarks.measuring import Floats, parse_arguments, print_table, write_record
from benchmarks.planted import Bools, Ints, agreement, interval, ranked, text

SEED, METHOD_SEED = 2026, 2028
N_TRAIN, N_BACKGROUND = 6000, 200
N_STEPS, N_CHANNELS, WINDOW = 120, 3, 5
N_WINDOWS = N_STEPS // WINDOW
LABELS = {
    "lime": "LIME",
    "kernel_shap": "KernelSHAP",
    "feature_ablation": "occlusion of windows",
    "integrated_gradients": "integrated gradients",
    "random": "random",
}
SAMPLED = ("lime", "kernel_shap")
"""Rivals that take as many model rows as they get: those that FANS took."""
UNDONE: Mapping[str, dict[str, Any]] = {
    **{f"baseline {name}": {"baseline": name} for name in ("blur", "linear", "background", "zero", "noise")},
    "walks": {"solver": "walks"},
    "the game": {"solver": "game"},
}
"""Our own choices undone, one at a time."""


# --- Data and models -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Series `(n, C, T)`, their classes, and which windows `(n, C * windows)` were planted."""

    series: Floats
    labels: Ints
    planted: Bools


DRIFT = 1.5


def noise(rng: np.random.Generator, n: int, n_channels: int, drift: float) -> Floats:
    """Draw noise of deviation 1, half of it white, half red, about a level and a slow wave of deviation `drift`."""
    steps = rng.standard_normal((2, n, n_channels, N_STEPS))
    slow = np.empty_like(steps[0])
    slow[..., 0] = steps[0, ..., 0]
    for t in range(1, N_STEPS):
        slow[..., t] = 0.9 * slow[..., t - 1] + math.sqrt(1 - 0.81) * steps[0, ..., t]
    level, size, phase = rng.standard_normal((3, n, n_channels, 1))
    wave = level + size * np.sin(2 * np.pi * (np.arange(N_STEPS) / N_STEPS + phase))
    return np.asarray(np.sqrt(0.5) * (slow + steps[1]) + drift * wave)


BUMP: Floats = 4.0 * np.sin(np.pi * (np.arange(WINDOW) + 0.5) / WINDOW)
BURST: Floats = 2.5 * np.cos(np.pi * np.arange(WINDOW))


def plant(drawn: Drawn, at: Bools, channel: int, place: Ints, shape: Floats) -> None:
    """Add a pattern to the series `at` `(n,)` in a window `place` `(n,)` of a channel."""
    for i in np.flatnonzero(at):
        start = WINDOW * place[i]
        drawn.series[i, channel, start : start + WINDOW] += shape
        drawn.planted[i, channel * N_WINDOWS + place[i]] = True


def empty(rng: np.random.Generator, n: int, n_channels: int) -> Drawn:
    windows = np.zeros((n, n_channels * N_WINDOWS), bool)
    return Drawn(noise(rng, n, n_channels, DRIFT if n_channels > 1 else 0.0), np.zeros(n, np.int64), windows)


def one_burst(n: int, seed: int) -> Drawn:
    """Half the series have a burst in the second channel; a third of all a bump in the first, which says nothing."""
    rng = np.random.default_rng(seed)
    drawn = empty(rng, n, N_CHANNELS)
    has, other, places = rng.random(n) < 0.5, rng.random(n) < 1 / 3, rng.integers(N_WINDOWS, size=(2, n))
    plant(drawn, other, 0, places[1], BUMP)
    drawn.planted[:] = False
    plant(drawn, has, 1, places[0], BURST)
    drawn.labels[:] = has
    return drawn


def two(n: int, seed: int, *, both: bool) -> Drawn:
    """A bump in the first channel and a burst in the third, each in half the series; class 1 is both, or either."""
    rng = np.random.default_rng(seed)
    drawn = empty(rng, n, N_CHANNELS)
    first, second = rng.random((2, n)) < (0.6 if both else 0.35)
    places = rng.integers(N_WINDOWS, size=(2, n))
    plant(drawn, first, 0, places[0], BUMP)
    plant(drawn, second, 2, places[1], BURST)
    drawn.labels[:] = first & second if both else first | second
    drawn.planted[drawn.labels == 0] = False
    return drawn


FIXED = (5, 16)
"""Windows of the one channel that the raw problems look at."""


def two_fixed(n: int, seed: int, *, both: bool) -> Drawn:
    """The same of bumps at two places of one channel; bumps at other places say nothing."""
    rng = np.random.default_rng(seed)
    drawn = empty(rng, n, 1)
    first, second = rng.random((2, n)) < (0.6 if both else 0.35)
    others = np.setdiff1d(np.arange(N_WINDOWS), FIXED)
    for _ in range(2):
        plant(drawn, rng.random(n) < 0.5, 0, rng.choice(others, n), BUMP)
    drawn.planted[:] = False
    for has, place in zip((first, second), FIXED, strict=True):
        plant(drawn, has, 0, np.full(n, place), BUMP)
    drawn.labels[:] = first & second if both else first | second
    drawn.planted[drawn.labels == 0] = False
    return drawn


WORLDS: Mapping[str, tuple[Callable[[int, int], Drawn], str, int]] = {
    "burst": (one_burst, "network", 1),
    "and": (lambda n, seed: two(n, seed, both=True), "network", 2),
    "or": (lambda n, seed: two(n, seed, both=False), "network", 1),
    "and (raw)": (lambda n, seed: two_fixed(n, seed, both=True), "sklearn", 2),
    "or (raw)": (lambda n, seed: two_fixed(n, seed, both=False), "sklearn", 1),
}
"""How to draw, who classifies, and how many windows decide an explained series."""


class Network(nn.Module):
    """Two convolutions, the largest answer of each filter, and a small network on those."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(N_CHANNELS, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 32, 5, padding=2), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        out: torch.Tensor = self.head(self.features(series).amax(2))
        return out


def trained_network(train: Drawn, seed: int) -> Network:
    torch.manual_seed(seed)
    network = Network()
    series, labels = torch.from_numpy(train.series).float(), torch.from_numpy(train.labels)
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    for epoch in range(12):
        order = torch.randperm(len(series), generator=torch.Generator().manual_seed(seed + epoch))
        for some in torch.split(order, 64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(series[some]), labels[some]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return network.eval()


@dataclass(frozen=True)
class Problem:
    """A model to explain, series like those it was trained on, and held-out ones it calls class 1, rightly."""

    name: str
    model: Any
    background: Any
    inputs: Any
    truth: Bools
    accuracy: float

    @property
    def space(self) -> Any:
        """Windows such as the patterns were planted in."""
        return fans.spaces.Series(window=WINDOW)


def make_problem(name: str, n_inputs: int, seed: int) -> Problem:
    draw, kind, n_deciding = WORLDS[name]
    train, test = draw(N_TRAIN, seed), draw(20 * n_inputs, seed + 1)
    model: Any
    background: Any = train.series[:N_BACKGROUND]
    series: Any = test.series
    if kind == "network":
        model = trained_network(train, seed)
        background, series = torch.from_numpy(background).float(), torch.from_numpy(series).float()
        with torch.no_grad():
            said = model(series).argmax(1).numpy()
    else:
        background, series = background[:, 0], series[:, 0]
        model = MLPClassifier((64,), alpha=0.1, max_iter=200, early_stopping=True, random_state=seed)
        model.fit(train.series[:, 0], train.labels)
        said = model.predict(series)
    right = (said == 1) & (test.labels == 1) & (test.planted.sum(1) == n_deciding)
    chosen = np.flatnonzero(right)[:n_inputs]
    accuracy = float((said == test.labels).mean())
    return Problem(name, model, background, series[chosen], test.planted[chosen], accuracy)


# --- What is measured ------------------------------------------------------------------------------------------------


def explained(problem: Problem, **settings: Any) -> tuple[fans.Explanation, float]:
    """Explain class 1 of all inputs; return also the seconds it took."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.errors.FansWarning)
        explainer = fans.Explainer(problem.model, problem.background, space=problem.space, seed=METHOD_SEED, **settings)
        found = explainer(problem.inputs, target=1)
    return found, time.perf_counter() - started


def measure(problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what FANS and its rivals find."""
    found, seconds = explained(problem)
    n_rows, sizes, truth = int(found.n_evaluations.mean()), found.subset.sum(1), problem.truth.sum(1)
    own = {name: interval(values) for name, values in agreement(found.subset, problem.truth).items()}
    about = {"size": float(sizes.mean()), "rows": n_rows, "seconds": seconds / len(found)}
    yield "FANS, its subset", own | about
    yield "FANS, told the number", ranked(problem.truth, found.scores, truth)
    for name, label in LABELS.items():
        if name == "integrated_gradients" and not isinstance(problem.model, nn.Module):
            continue
        scores = rival_scores(problem, name, {"n_samples": n_rows} if name in SAMPLED else {})
        yield f"{label}, told the number", ranked(problem.truth, scores, truth)
        if name != "random":
            yield f"{label}, at FANS's own size", ranked(problem.truth, scores, sizes)


def rival_scores(problem: Problem, name: str, settings: Mapping[str, Any]) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.errors.FansWarning)
        explainer = fans.Explainer(
            problem.model, problem.background, space=problem.space, seed=METHOD_SEED, method=name, **settings
        )
        return np.asarray(explainer.scores(problem.inputs, target=1))


def undo(problem: Problem) -> dict[str, dict[str, Any]]:
    """Return what FANS finds with other choices."""
    out = {}
    for name, settings in UNDONE.items():
        found, _ = explained(problem, **settings)
        size = float(found.subset.sum(1).mean())
        out[name] = {k: interval(v) for k, v in agreement(found.subset, problem.truth).items()} | {"size": size}
    return out


def show(figures: Mapping[str, Any]) -> None:
    for name, found in figures.items():
        rows = [[who, *(text(what, k) for k in ("f1", "precision", "recall"))] for who, what in found["found"].items()]
        own = found["found"]["FANS, its subset"]
        about = f"{own['size']:.1f} windows named, {own['rows']:,} model rows, {own['seconds']:.3f} s a series"
        title = f"{name}: {found['n_deciding']} of {found['n_windows']} windows decide; the model is right in "
        print_table(f"{title}{100 * found['accuracy']:.1f} %; {about}", ["", "F1", "precision", "recall"], rows)
        undone = [[who, text(what, "f1"), f"{what['size']:.1f}"] for who, what in found["undone"].items()]
        print_table(f"{name}: our choices undone", ["", "F1", "size"], undone)


def main() -> None:
    arguments = parse_arguments(__doc__ or "", "series", among=list(WORLDS), seed=SEED)
    torch.set_num_threads(1)
    n_inputs = 20 if arguments.quick else 200
    figures = {}
    for name in arguments.only or WORLDS:
        problem = make_problem(name, n_inputs, arguments.seed)
        figures[name] = {
            "accuracy": problem.accuracy,
            "n_inputs": len(problem.inputs),
            "n_windows": problem.truth.shape[1],
            "n_deciding": WORLDS[name][2],
            "found": dict(measure(problem)),
            "undone": undo(problem),
        }
        show({name: figures[name]})
    settings = {"seed": arguments.seed, "method_seed": METHOD_SEED, "n_train": N_TRAIN, "n_background": N_BACKGROUND}
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    main()
