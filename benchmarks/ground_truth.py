"""Do explanations name the features that a prediction really depends on? Tables where that is known.

Three of twenty columns cause the label, six are correlated decoys, eleven are noise. Every method explains the same
inputs with the same number of model rows. The rivals are told how many features matter (three), FANS is not. Run with
`python -m benchmarks.ground_truth`.
"""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from captum.attr import KernelShap, Lime
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

import fans
from benchmarks._shared import (
    CAUSAL,
    N_COLUMNS,
    Floats,
    draw_inputs,
    draw_labels,
    parse_arguments,
    print_table,
    rule,
    write_record,
)

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Predict = Callable[[Floats], Floats]

TRAIN_SEED, TEST_SEED, METHOD_SEED, BOOTSTRAP_SEED = 2026, 2027, 2028, 2029
N_TRAIN, N_BACKGROUND, N_BOOTSTRAP = 4000, 500, 2000
COLUMN_ORDER: Ints = np.random.default_rng(TRAIN_SEED).permutation(N_COLUMNS)
"""Columns are shown shuffled, so that no method gains where ties go to the first."""
TRUTH: Bools = np.isin(COLUMN_ORDER, CAUSAL)
TRUE_SIZE = len(CAUSAL)


# --- Data and models -------------------------------------------------------------------------------------------------


def shuffled_rule(rows: Floats) -> Floats:
    """Apply the rule to rows whose columns are in the order shown."""
    return rule(rows[:, np.argsort(COLUMN_ORDER)])


@dataclass(frozen=True)
class Problem:
    """A model to explain, data like that it was fitted on, inputs it has not seen, and its accuracy on them."""

    name: str
    model: Any
    background: Floats
    inputs: Floats
    accuracy: float = math.nan

    @property
    def predict(self) -> Predict:
        """The model as a function from rows to class probabilities."""
        predict: Predict = getattr(self.model, "predict_proba", self.model)
        return predict

    @property
    def targets(self) -> Ints:
        """The predicted class of each input, which is the explained one."""
        return np.asarray(self.predict(self.inputs).argmax(1))


def make_problems(n_inputs: int) -> Iterator[Problem]:
    """Yield the rule itself, boosted trees and a network, the latter two fitted."""
    train, test = draw_inputs(N_TRAIN, TRAIN_SEED), draw_inputs(n_inputs, TEST_SEED)
    train_labels, test_labels = draw_labels(train, TRAIN_SEED + 100), draw_labels(test, TEST_SEED + 100)
    train, test = train[:, COLUMN_ORDER], test[:, COLUMN_ORDER]
    models = {
        "the rule itself": shuffled_rule,
        "gradient boosting": HistGradientBoostingClassifier(max_iter=60, random_state=TRAIN_SEED),
        "neural network": MLPClassifier((32, 32), alpha=0.1, early_stopping=True, random_state=TRAIN_SEED),
    }
    for name, model in models.items():
        if hasattr(model, "fit"):
            model.fit(train, train_labels)
        problem = Problem(name, model, train[:N_BACKGROUND], test)
        yield replace(problem, accuracy=float((problem.targets == test_labels).mean()))


# --- Rivals: the attributions (F,) of one input, from a given number of model rows -----------------------------------


@dataclass(frozen=True)
class Question:
    """One input to a rival: which class to attribute, with how many model rows, from which seed."""

    predict: Predict
    background: Floats
    x: Floats
    target: int
    n_rows: int
    seed: int


def banzhaf(q: Question) -> Floats:
    """Return plain Banzhaf values of the class probability: what a feature adds when kept, on average.

    Perturbed as FANS does by default: each feature is hit with probability 1/2, and replaced by that of a background
    row drawn anew each time.
    """
    rng = np.random.default_rng(q.seed)
    kept = rng.random((q.n_rows, len(q.x))) < 0.5
    drawn = q.background[rng.integers(len(q.background), size=q.n_rows)]
    outputs = q.predict(np.where(kept, q.x, drawn))[:, q.target]
    return np.asarray(np.linalg.lstsq(np.column_stack([np.ones(q.n_rows), kept]), outputs)[0][1:], np.float64)


def kernel_shap(q: Question) -> Floats:
    """Return Captum's KernelSHAP; its baseline is the mean of the background, since it takes one row."""
    return attribute_with_captum(KernelShap(partial(torch_predict, q.predict)), shap_coalitions, q)


def lime(q: Question) -> Floats:
    """Return Captum's LIME with its own settings (cosine kernel of width 1, lasso of 0.01) and the same baseline."""
    return attribute_with_captum(Lime(partial(torch_predict, q.predict), None, cosine_kernel), coin_coalitions, q)


def random_control(q: Question) -> Floats:
    """Return noise."""
    return np.random.default_rng(q.seed).standard_normal(len(q.x))


RIVALS: dict[str, Callable[[Question], Floats]] = {
    "Banzhaf": banzhaf,
    "KernelSHAP": kernel_shap,
    "LIME": lime,
    "random": random_control,
}


def torch_predict(predict: Predict, rows: Tensor) -> Tensor:
    """Call a NumPy model on a tensor."""
    return torch.from_numpy(predict(rows.numpy()))


def attribute_with_captum(method: Any, coalitions: Callable[..., Iterator[Tensor]], q: Question) -> Floats:
    """Run a method of Captum on one input.

    Captum draws coalitions, and reads them back for the regression, one by one; here both are done at once, with the
    same distribution and the same regression, in less time.
    """
    torch.manual_seed(q.seed)
    method.perturb_func = coalitions
    method.from_interp_rep_transform = lambda kept, x, baselines, **_: torch.where(kept.bool(), x, baselines)
    fit = method.interpretable_model.fit
    method.interpretable_model.fit = lambda loader: fit([loader.dataset.tensors])
    x, baseline = torch.from_numpy(q.x)[None], torch.from_numpy(q.background.mean(0))[None]
    found = method.attribute(x, baseline, q.target, n_samples=q.n_rows, perturbations_per_eval=q.n_rows)
    values: Floats = found[0].double().numpy()
    return values


def shap_coalitions(_: Tensor, num_interp_features: int, num_select_distribution: Any, **__: Any) -> Iterator[Tensor]:
    """Yield coalitions as Captum's KernelSHAP draws them: all, none, then some of a random size."""
    yield torch.ones(1, num_interp_features, dtype=torch.long)
    yield torch.zeros(1, num_interp_features, dtype=torch.long)
    while True:
        sizes = num_select_distribution.sample((1024,))
        place = torch.rand(1024, num_interp_features).argsort(1).argsort(1)
        yield from (place < sizes[:, None]).long()[:, None]


def coin_coalitions(_: Tensor, num_interp_features: int, **__: Any) -> Iterator[Tensor]:
    """Yield coalitions as Captum's LIME draws them: each feature by a coin."""
    while True:
        yield from torch.randint(2, (1024, 1, num_interp_features))


def cosine_kernel(original: Tensor, perturbed: Tensor, *_: Any, **__: Any) -> float:
    """Return the weight that Captum's LIME gives a perturbation, computed with fewer steps."""
    a, b = original[0].numpy(), perturbed[0].numpy()
    distance = 1 - (a @ b) / max(math.sqrt(a @ a) * math.sqrt(b @ b), 1e-8)
    return math.exp(-(distance**2) / 2)


class CountedModel:
    """A model that counts its rows."""

    def __init__(self, predict: Predict) -> None:
        self.predict = predict
        self.n_rows = 0

    def __call__(self, rows: Floats) -> Floats:
        """Count the rows and pass them on."""
        self.n_rows += len(rows)
        return self.predict(rows)


def attribute(problem: Problem, rival: str, n_rows: int, i: int) -> tuple[Floats, int]:
    """Return a rival's attributions of input `i`, and the rows they really took."""
    model = CountedModel(problem.predict)
    target = int(problem.targets[i])
    question = Question(model, problem.background, problem.inputs[i], target, n_rows, METHOD_SEED + 1000 * i)
    return RIVALS[rival](question), model.n_rows


def use_one_thread() -> None:
    """Keep every library to one thread: the inputs are what runs in parallel."""
    torch.set_num_threads(1)
    threadpool_limits(1)


# --- Scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """The features a method named for each input `(B, F)`, and model rows an input."""

    method: str
    named: Bools
    n_rows: float

    @property
    def precision(self) -> Floats:
        """Share of the named features that matter, `(B,)`."""
        return np.asarray((self.named & TRUTH).sum(1) / self.named.sum(1))

    @property
    def recall(self) -> Floats:
        """Share of the features that matter which were named, `(B,)`."""
        return np.asarray((self.named & TRUTH).sum(1) / TRUE_SIZE)

    @property
    def f1(self) -> Floats:
        """Harmonic mean of the two, `(B,)`."""
        return np.asarray(2 * (self.named & TRUTH).sum(1) / (self.named.sum(1) + TRUE_SIZE))


def top(scores: Floats, size: int | Ints) -> Bools:
    """Name the features `(B, F)` with the highest scores, so many of each input."""
    rank = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return rank < np.reshape(size, (-1, 1))


def bootstrap(values: Floats) -> tuple[float, float, float]:
    """Return the mean over inputs and its 95 % bootstrap interval."""
    drawn = np.random.default_rng(BOOTSTRAP_SEED).integers(len(values), size=(N_BOOTSTRAP, len(values)))
    low, high = np.quantile(values[drawn].mean(1), (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def explain(problem: Problem, **settings: Any) -> tuple[fans.Explanation, float]:
    """Explain all inputs with FANS; return also the mean model rows an input, its share of the common ones included."""
    explanation = fans.Explainer(problem.model, problem.background, **settings)(problem.inputs, progress=False)
    return explanation, float(explanation.n_evaluations.mean() + explanation.evaluations["shared"] / len(explanation))


VARIANTS: dict[str, dict[str, Any]] = {
    "at enough 0.5": {"enough": 0.5},
    "at enough 1": {"enough": 1.0},
    "by noise tolerance": {"tolerance": "noise"},
    "without local copies": {"n_background": 100, "n_local": 0},
}
"""Choices docs/design.md defends, undone one at a time."""


def run_problem(problem: Problem, pool: ProcessPoolExecutor) -> list[Result]:
    """Run every method on one problem, the rivals with as many rows an input as FANS took."""
    chosen, n_rows = explain(problem)
    sizes = chosen.subset.sum(1)
    results = [Result("FANS, its subset", chosen.subset, n_rows)]
    for name, settings in VARIANTS.items():
        variant, n_rows_variant = explain(problem, **settings)
        results.append(Result(f"FANS, its subset {name}", variant.subset, n_rows_variant))
    results.append(Result("FANS scores, top 3 *", top(chosen.scores, TRUE_SIZE), n_rows))
    for rival in RIVALS:
        answers = list(
            pool.map(partial(attribute, problem, rival, round(n_rows)), range(len(problem.inputs)), chunksize=5)
        )
        values, spent = np.stack([a for a, _ in answers]), float(np.mean([n for _, n in answers]))
        rankings = {"": values} if rival == "random" else {" |value|": np.abs(values), " signed": values}
        for how, scores in rankings.items():
            results.append(Result(f"{rival}{how}, top 3 *", top(scores, TRUE_SIZE), spent))
            results.append(Result(f"{rival}{how}, FANS's size", top(scores, sizes), spent))
    return sorted(results, key=lambda r: "FANS's size" in r.method)


@dataclass(frozen=True)
class Contrast:
    """The difference in F1 between FANS and a rival on the same inputs, with its interval."""

    about: str
    ours: str
    theirs: str
    difference: tuple[float, float, float]

    @property
    def verdict(self) -> str:
        """Say plainly who is better."""
        _, low, high = self.difference
        return "FANS adds" if low > 0 else "FANS LOSES" if high < 0 else "FANS adds nothing"


def contrasts(results: list[Result]) -> list[Contrast]:
    """Compare FANS with the better ranking of each rival, input by input; plain Banzhaf values come first."""
    by_name = {r.method: r for r in results}
    questions = (
        ("ranking, both told the size", "FANS scores, top 3 *", "top 3 *"),
        ("members, both of FANS's size", "FANS, its subset", "FANS's size"),
        ("subset, rival told the size", "FANS, its subset", "top 3 *"),
        ("all of PNS, rival told the size", "FANS, its subset at enough 1", "top 3 *"),
    )
    found = []
    for rival in ("Banzhaf", "KernelSHAP", "LIME"):
        for about, ours, ending in questions:
            theirs = better_ranking(results, rival, ending)
            found.append(Contrast(about, ours, theirs, bootstrap(by_name[ours].f1 - by_name[theirs].f1)))
    return found


def better_ranking(results: list[Result], rival: str, ending: str) -> str:
    """Return which of a rival's two rankings does better, by its result's name."""
    mine = [r for r in results if r.method.startswith(f"{rival} ") and r.method.endswith(ending)]
    return max(mine, key=lambda r: float(r.f1.mean())).method


# --- Report ----------------------------------------------------------------------------------------------------------


def with_interval(figures: tuple[float, float, float]) -> str:
    """Format a mean and its interval."""
    mean, low, high = figures
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def report(problem: Problem, results: list[Result]) -> dict[str, Any]:
    """Print the tables of one problem and return their figures."""
    compared = contrasts(results)
    better = {c.theirs for c in compared}
    rows, figures = [], []
    for r in results:
        scores = {name: bootstrap(getattr(r, name)) for name in ("precision", "recall", "f1")}
        size = float(r.named.sum(1).mean())
        mark = "better" if r.method in better else ""
        rows.append((r.method, f"{size:.2f}", f"{r.n_rows:,.0f}", *map(with_interval, scores.values()), mark))
        figures.append({"method": r.method, "size": size, "n_rows": r.n_rows, "better_ranking": bool(mark)} | scores)
    title = f"{problem.name}: right on {problem.accuracy:.1%} of the test labels; {len(problem.inputs)} inputs"
    print_table(title, ("method", "size", "rows", "precision", "recall", "F1", "ranking"), rows)
    lines = [(c.about, c.ours, c.theirs, with_interval(c.difference), c.verdict) for c in compared]
    title = f"{problem.name}: does PNS add anything over plain Banzhaf values, and over the others?"
    print_table(title, ("about", "FANS", "rival", "difference in F1", "verdict"), lines)
    verdicts = [asdict(c) | {"verdict": c.verdict} for c in compared]
    return {"model": problem.name, "accuracy": problem.accuracy, "methods": figures, "contrasts": verdicts}


def main() -> None:
    """Run every problem, print its tables, and write the record."""
    arguments = parse_arguments("Precision and recall against a known truth, at equal model rows.", "ground_truth")
    n_inputs = 6 if arguments.quick else 200
    warnings.simplefilter("ignore", fans.FansWarning)
    use_one_thread()
    started = time.perf_counter()
    context = get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context, initializer=use_one_thread) as pool:
        figures = [report(problem, run_problem(problem, pool)) for problem in make_problems(n_inputs)]
    print(
        "\n* Told that three features matter, which is a gift: FANS's own subset is not.\n"
        "Intervals: 95 %, by bootstrap over inputs (not over fits of the model). Rows: model rows an input, all phases "
        "of FANS.\nKernelSHAP and LIME perturb towards the background's mean, Banzhaf and FANS towards drawn "
        "rows.\nRivals are ranked by |value| and by signed value: both are shown, the better one marked."
    )
    seeds = {"train": TRAIN_SEED, "test": TEST_SEED, "methods": METHOD_SEED, "bootstrap": BOOTSTRAP_SEED}
    settings = {"seeds": seeds, "quick": arguments.quick, "n_inputs": n_inputs, "n_train": N_TRAIN}
    settings |= {"n_background": N_BACKGROUND, "n_bootstrap": N_BOOTSTRAP, "seconds": time.perf_counter() - started}
    write_record(arguments.out, settings, {"problems": figures})


if __name__ == "__main__":
    main()
