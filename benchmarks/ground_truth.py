"""Do explanations name the features that a prediction really depends on? Tables where that is known.

*Planted*: three of twenty columns cause the label, six are correlated decoys, eleven are noise. *Switch*: one column
decides which two of four others count, five are decoys. *Or*: either of two pairs of columns is enough, and just one of
them is there. *Categories*: two columns of categories and a number decide, among eleven others of both kinds. The last
three are rules and boosted trees fitted to them. Every method explains the same inputs with the same number of model
rows. The rivals are told how many features matter, FANS is not. Run with `python -m benchmarks.ground_truth`; choices
are made with `--seed 11` (and confirmed with 21), which the reported seed is apart from.
"""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import shap
import torch
from captum.attr import KernelShap, Lime
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

import fans
from benchmarks.measuring import (
    CAUSAL,
    N_COLUMNS,
    Floats,
    draw_classes,
    draw_inputs,
    parse_arguments,
    print_table,
    rule,
    write_record,
)

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Predict = Callable[[Floats], Floats]

SEED, METHOD_SEED, BOOTSTRAP_SEED = 2026, 2028, 2029
"""The seed of training data, reported; that of inputs is the next."""
N_TRAIN, N_BACKGROUND, N_BOOTSTRAP, N_SHAP = 4000, 500, 2000, 50


# --- Data and models -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Where a truth is known.

    Attributes:
        draw: rows `(n, F)` by their number and seed.
        rule: their probabilities `(n, 2)`.
        truth: `(n, F)` which columns each prediction depends on.
        n_columns: F.
        codes: columns whose numbers are categories.
    """

    draw: Callable[[int, int], Floats]
    rule: Predict
    truth: Callable[[Floats], Bools]
    n_columns: int = N_COLUMNS
    codes: tuple[int, ...] = ()


def two_classes(z: Floats) -> Floats:
    p = 1 / (1 + np.exp(-z))
    return np.stack([1 - p, p], 1)


def with_decoys(n: int, seed: int, n_causal: int) -> Floats:
    """Draw twenty columns of which as many as there are causes are each correlated 0.8 with one."""
    rows = np.random.default_rng(seed).standard_normal((n, N_COLUMNS))
    for cause in range(n_causal):
        rows[:, n_causal + cause] = 0.8 * rows[:, cause] + 0.6 * rows[:, n_causal + cause]
    return rows


def switch(rows: Floats) -> Floats:
    return two_classes(3 * np.where(rows[:, 0] > 0, rows[:, 1] + rows[:, 2], rows[:, 3] + rows[:, 4]))


def of_switch(rows: Floats) -> Bools:
    first = rows[:, :1] > 0
    columns = np.arange(rows.shape[1])
    return np.asarray((columns == 0) | np.where(first, np.isin(columns, (1, 2)), np.isin(columns, (3, 4))))


def pairs(rows: Floats) -> tuple[Floats, Floats]:
    return np.minimum(rows[:, 0], rows[:, 1]), np.minimum(rows[:, 2], rows[:, 3])


def either(rows: Floats) -> Floats:
    return two_classes(8 * np.maximum(*pairs(rows)))


def of_either(rows: Floats) -> Bools:
    first, second = (pair > 0 for pair in pairs(rows))
    columns = np.arange(rows.shape[1])
    return np.asarray((first[:, None] & np.isin(columns, (0, 1))) | (second[:, None] & np.isin(columns, (2, 3))))


def normal(n: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, 12))


def one_pair(n: int, seed: int) -> Floats:
    """Draw twelve columns in which just one of the pairs is there."""
    rows = normal(8 * n, seed)
    first, second = (pair > 0 for pair in pairs(rows))
    return np.asarray(rows[first ^ second][:n])


def mixed(n: int, seed: int) -> Floats:
    """Draw fourteen columns, the first five of 4, 3, 5, 2 and 6 categories."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(k, size=n) for k in (4, 3, 5, 2, 6)], 1)
    return np.concatenate([codes, rng.standard_normal((n, 9))], 1)


def by_category(rows: Floats) -> Floats:
    """Two categories of four help, and a number counts the other way round in one of three."""
    sign = np.where(rows[:, 1] == 2, -1.0, 1.0)
    return two_classes(5 * np.isin(rows[:, 0], (1, 3)) - 2.5 + 2.5 * sign * rows[:, 5])


def always(columns: tuple[int, ...], rows: Floats) -> Bools:
    return np.tile(np.isin(np.arange(rows.shape[1]), columns), (len(rows), 1))


WORLDS: Mapping[str, World] = {
    "planted": World(draw_inputs, rule, partial(always, CAUSAL)),
    "switch": World(partial(with_decoys, n_causal=5), switch, of_switch),
    "or": World(normal, either, of_either, 12),
    "categories": World(mixed, by_category, partial(always, (0, 1, 5)), 14, tuple(range(5))),
}
DRAW_INPUTS: Mapping[str, Callable[[int, int], Floats]] = {"or": one_pair}
"""How inputs are drawn where that is not as training data is."""


@dataclass(frozen=True)
class Problem:
    """A model to explain, data like that it was fitted on, inputs it has not seen, and its accuracy on them.

    `truth` `(B, F)` is what each prediction depends on; `codes` are columns of categories.
    """

    name: str
    model: Any
    background: Floats
    inputs: Floats
    truth: Bools
    codes: tuple[int, ...] = ()
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

    @property
    def space(self) -> Any:
        """What FANS is told of the columns."""
        return fans.spaces.Table(categorical=self.codes) if self.codes else None

    @property
    def missing(self) -> Floats:
        """The row that stands for missing values where a rival takes one: means, of categories the most frequent."""
        row = self.background.mean(0)
        for j in self.codes:
            values, counts = np.unique(self.background[:, j], return_counts=True)
            row[j] = values[counts.argmax()]
        return np.asarray(row)


def make_problems(n_inputs: int, seed: int) -> Iterator[Problem]:
    """Yield the rules themselves and models fitted to them. Columns are shown shuffled: ties go to no cause."""
    for world_name, world in WORLDS.items():
        order = np.random.default_rng(seed).permutation(world.n_columns)
        train, test = world.draw(N_TRAIN, seed), DRAW_INPUTS.get(world_name, world.draw)(n_inputs, seed + 1)
        # The same draws for all worlds of the seed.
        labels, test_labels = draw_classes(world.rule(train), seed + 100), draw_classes(world.rule(test), seed + 101)
        truth, codes = world.truth(test)[:, order], tuple(int(i) for i in np.flatnonzero(np.isin(order, world.codes)))
        train, test = train[:, order], test[:, order]
        models: dict[str, Any] = {
            "the rule itself": partial(shown, world.rule, np.argsort(order)),
            "gradient boosting": HistGradientBoostingClassifier(
                max_iter=60, random_state=seed, categorical_features=list(codes) or None
            ),
        }
        if world_name == "planted":
            models["neural network"] = MLPClassifier((32, 32), alpha=0.1, early_stopping=True, random_state=seed)
        for name, model in models.items():
            if hasattr(model, "fit"):
                model.fit(train, labels)
            problem = Problem(f"{world_name}, {name}", model, train[:N_BACKGROUND], test, truth, codes)
            yield replace(problem, accuracy=float((problem.targets == test_labels).mean()))


def shown(rule_of_world: Predict, back: Ints, rows: Floats) -> Floats:
    """Apply a rule to rows whose columns are in the order shown."""
    return rule_of_world(rows[:, back])


# --- Rivals: the attributions (F,) of one input, from a given number of model rows -----------------------------------


@dataclass(frozen=True)
class Question:
    """One input to a rival: which class to attribute, with how many model rows, from which seed."""

    predict: Predict
    background: Floats
    missing: Floats
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
    """Return Captum's KernelSHAP; its baseline is the background's mean (of categories the mode): it takes one row."""
    return attribute_with_captum(KernelShap(partial(torch_predict, q.predict)), shap_coalitions, q)


def lime(q: Question) -> Floats:
    """Return Captum's LIME with its own settings (cosine kernel of width 1, lasso of 0.01) and the same baseline."""
    return attribute_with_captum(Lime(partial(torch_predict, q.predict), None, cosine_kernel), coin_coalitions, q)


def permutation_shap(q: Question) -> Floats:
    """Return shap's permutation explainer against a sample of the background, which it averages over."""
    some = q.background[np.random.default_rng(q.seed).choice(len(q.background), N_SHAP, replace=False)]
    n_evaluations = max(2 * len(q.x) + 1, q.n_rows // N_SHAP)
    masker = shap.maskers.Independent(some, max_samples=N_SHAP)
    found = shap.PermutationExplainer(lambda rows: q.predict(rows)[:, q.target], masker, seed=q.seed)(
        q.x[None], max_evals=n_evaluations, silent=True
    )
    return np.asarray(found.values[0], np.float64)


def random_control(q: Question) -> Floats:
    """Return noise."""
    return np.random.default_rng(q.seed).standard_normal(len(q.x))


RIVALS: dict[str, Callable[[Question], Floats]] = {
    "Banzhaf": banzhaf,
    "KernelSHAP": kernel_shap,
    "LIME": lime,
    "permutation SHAP": permutation_shap,
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
    x, baseline = torch.from_numpy(q.x)[None], torch.from_numpy(q.missing)[None]
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
    x, seed = problem.inputs[i], METHOD_SEED + 1000 * i
    question = Question(model, problem.background, problem.missing, x, target, n_rows, seed)
    return RIVALS[rival](question), model.n_rows


def tree_shap(problem: Problem) -> Floats | None:
    """Return shap's TreeSHAP of probabilities `(B, F)`, against a sample of the background; None for what is no tree.

    It reads the trees and costs no model rows. shap refuses trees that split by categories.
    """
    if not isinstance(problem.model, HistGradientBoostingClassifier) or problem.codes:
        return None
    explainer = shap.TreeExplainer(problem.model, problem.background[:200], model_output="probability")
    values = np.asarray(explainer.shap_values(problem.inputs), np.float64)
    return np.where(problem.targets[:, None] == 1, 1.0, -1.0) * values


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
    truth: Bools

    @property
    def precision(self) -> Floats:
        """Share of the named features that matter, `(B,)`; of none named 1."""
        return np.asarray((self.named & self.truth).sum(1) / np.maximum(self.named.sum(1), 1)) + ~self.named.any(1)

    @property
    def recall(self) -> Floats:
        """Share of the features that matter which were named, `(B,)`."""
        return np.asarray((self.named & self.truth).sum(1) / self.truth.sum(1))

    @property
    def f1(self) -> Floats:
        """Harmonic mean of the two, `(B,)`."""
        return np.asarray(2 * (self.named & self.truth).sum(1) / (self.named.sum(1) + self.truth.sum(1)))


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
    explainer = fans.Explainer(problem.model, problem.background, space=problem.space, **settings)
    explanation = explainer(problem.inputs, progress=False)
    return explanation, float(explanation.n_evaluations.mean() + explanation.evaluations["shared"] / len(explanation))


VARIANTS: dict[str, dict[str, Any]] = {
    "blocks of all columns": {"reach": 1.0},
    "blocks of a third": {"reach": 1 / 3},
    "blocks of one column": {"reach": 0.01},
    "chosen by PNS": {"members": "pns"},
    "the game": {"solver": "game"},
    "effort low": {"effort": "low"},
}
"""Choices docs/design.md defends, undone one at a time."""


def run_problem(problem: Problem, pool: ProcessPoolExecutor) -> list[Result]:
    """Run every method on one problem, the rivals with as many rows an input as FANS took."""
    chosen, n_rows = explain(problem)
    truth, sizes = problem.truth, chosen.subset.sum(1)
    told = truth.sum(1)
    results = [Result("FANS, its subset", chosen.subset, n_rows, truth)]
    for name, settings in VARIANTS.items():
        variant, n_rows_variant = explain(problem, **settings)
        results.append(Result(f"FANS, {name}", variant.subset, n_rows_variant, truth))
    results.append(Result("FANS scores, told *", top(chosen.scores, told), n_rows, truth))
    found: dict[str, tuple[Floats, float]] = {}
    for rival in RIVALS:
        answers = list(
            pool.map(partial(attribute, problem, rival, round(n_rows)), range(len(problem.inputs)), chunksize=5)
        )
        found[rival] = np.stack([a for a, _ in answers]), float(np.mean([n for _, n in answers]))
    trees = tree_shap(problem)
    found |= {} if trees is None else {"TreeSHAP": (trees, 0.0)}
    for rival, (values, spent) in found.items():
        rankings = {"": values} if rival == "random" else {" |value|": np.abs(values), " signed": values}
        for how, scores in rankings.items():
            results.append(Result(f"{rival}{how}, told *", top(scores, told), spent, truth))
            results.append(Result(f"{rival}{how}, FANS's size", top(scores, sizes), spent, truth))
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
        ("ranking, both told the size", "FANS scores, told *", "told *"),
        ("members, both of FANS's size", "FANS, its subset", "FANS's size"),
        ("subset, rival told the size", "FANS, its subset", "told *"),
    )
    found = []
    for rival in ("Banzhaf", "KernelSHAP", "LIME", "permutation SHAP", "TreeSHAP"):
        if not any(r.method.startswith(f"{rival} ") for r in results):
            continue
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
    title = f"{problem.name}: does FANS add anything over plain Banzhaf values, and over the others?"
    print_table(title, ("about", "FANS", "rival", "difference in F1", "verdict"), lines)
    verdicts = [asdict(c) | {"verdict": c.verdict} for c in compared]
    return {"model": problem.name, "accuracy": problem.accuracy, "methods": figures, "contrasts": verdicts}


def main() -> None:
    """Run every problem, print its tables, and write the record."""
    about = "Precision and recall against a known truth, at equal model rows."
    arguments = parse_arguments(about, "ground_truth", among=tuple(WORLDS), seed=SEED)
    n_inputs = 6 if arguments.quick else 200
    warnings.simplefilter("ignore", fans.FansWarning)
    use_one_thread()
    started = time.perf_counter()
    context = get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context, initializer=use_one_thread) as pool:
        figures = [
            report(problem, run_problem(problem, pool))
            for problem in make_problems(n_inputs, arguments.seed)
            if problem.name.split(",")[0] in (arguments.only or WORLDS)
        ]
    print(
        "\n* Told how many features matter to each input, which is a gift: FANS's own subset is not.\n"
        "Intervals: 95 %, by bootstrap over inputs (not over fits of the model). Rows: model rows an input, all phases "
        "of FANS.\nKernelSHAP and LIME perturb towards the background's mean, the others and FANS towards drawn "
        "rows.\nRivals are ranked by |value| and by signed value: both are shown, the better one marked."
    )
    seeds = {"train": arguments.seed, "test": arguments.seed + 1, "methods": METHOD_SEED, "bootstrap": BOOTSTRAP_SEED}
    settings = {"seeds": seeds, "quick": arguments.quick, "n_inputs": n_inputs, "n_train": N_TRAIN}
    settings |= {"n_background": N_BACKGROUND, "n_bootstrap": N_BOOTSTRAP, "seconds": time.perf_counter() - started}
    write_record(arguments.out, settings, {"problems": figures})


if __name__ == "__main__":
    main()
