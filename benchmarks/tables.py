"""Is the answer for a table one to act on? How steady it is, what it leaves out, and its PNS against rivals' columns.

**Steadiness**: of ten seeds, and of ten backgrounds drawn from the given one with replacement, the Jaccard index of the
subsets and Spearman's rank correlation of the scores, over all pairs. **Leads**: the joint PNS of FANS's subset of k
columns against that of each rival's k highest, all with as many model rows, on 2,000 fresh background rows: how often
replacing the k changes the prediction by more than the tolerance, times how often replacing the others does not;
of the subset as it is, and of that with the highest PNS.
**Unread columns**: in how many of 1,000 rows one is named.
Boosted trees on wine, breast cancer and synthetic loans; and on iris and diabetes (regression), on which nothing was
chosen. Run with `python -m benchmarks.tables [--only steadiness ...]` (a few minutes); `--seed 11` is for choices.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import fans
from benchmarks.ground_truth import Question, banzhaf, lime, permutation_shap
from benchmarks.measuring import Floats, loans, parse_arguments, print_table, write_record
from benchmarks.subsets import highest, jaccard, lead
from fans.types import Array

SEED = 2026
N_INPUTS, N_SEEDS, N_FRESH = 60, 10, 2000
LOADERS: Mapping[str, Callable[..., Any]] = {
    "wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris, "diabetes": load_diabetes
}  # fmt: skip
RIVALS: Mapping[str, Callable[[Question], Floats]] = {
    "Banzhaf": banzhaf, "permutation SHAP": permutation_shap, "LIME": lime
}  # fmt: skip
SUBSETS: Mapping[str, Mapping[str, Any]] = {"": {}, 'members="pns"': {"members": "pns"}}
PARTS = ("steadiness", "leads", "unread")
PROBLEMS = {"2 of 4": 4, "2 of 10": 10, "trees on 2 of 10": 10, "Example 1": 3, "constant": 4}
"""How many columns there are where some are not read."""


@dataclass(frozen=True)
class Case:
    """A fitted model, some of the data it was fitted to, and inputs that it was not."""

    name: str
    model: Any
    background: Floats
    inputs: Floats

    @property
    def ask(self) -> Callable[[Floats], Floats]:
        """The model as a function to outputs `(n, C)`."""
        if hasattr(self.model, "predict_proba"):
            found: Callable[[Floats], Floats] = self.model.predict_proba
            return found
        return lambda rows: self.model.predict(rows)[:, None]

    def explainer(self, **settings: Any) -> fans.Explainer:
        """Return an explainer of the model."""
        return fans.Explainer(self.model, self.background, **settings)


def cases(n_inputs: int, seed: int) -> list[Case]:
    """Return all cases; the split of the data goes by the seed."""
    table, labels = loans(4000, seed)
    model = HistGradientBoostingClassifier(random_state=0).fit(table, labels)
    out = [Case("loans", model, table[:500], loans(n_inputs, seed + 1)[0])]
    for name, load in LOADERS.items():
        x, y = load(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(x))
        train, test = order[: int(0.6 * len(x))], order[int(0.6 * len(x)) :]
        kind = HistGradientBoostingRegressor if name == "diabetes" else HistGradientBoostingClassifier
        out.append(Case(name, kind(random_state=0).fit(x[train], y[train]), x[train][:500], x[test][:n_inputs]))
    return out


def other_background(case: Case, number: int) -> Floats:
    """Return as many rows as the background has, drawn from it with replacement: what it might have been as well."""
    rows = np.random.default_rng(number).integers(len(case.background), size=len(case.background))
    return case.background[rows]


def steadiness(case: Case, n_seeds: int, *, backgrounds: bool) -> dict[str, float]:
    """Explain by ten seeds; or, since walks take none, by ten backgrounds that might have been passed as well."""
    explainers = [
        fans.Explainer(case.model, other_background(case, number)) if backgrounds else case.explainer(seed=number)
        for number in range(n_seeds)
    ]
    found = [explainer(case.inputs, progress=False) for explainer in explainers]
    pairs = list(itertools.combinations(found, 2))
    ranks = [spearmanr(a, b)[0] for one, other in pairs for a, b in zip(one.scores, other.scores, strict=True)]
    sizes = np.concatenate([e.subset.sum(1) for e in found])
    return {
        "columns": case.inputs.shape[1],
        "size": float(sizes.mean()),
        "jaccard": float(np.mean([jaccard(one.subset, other.subset) for one, other in pairs])),
        "spearman": float(np.nanmean(ranks)),
        "nearly_all": float((sizes >= case.inputs.shape[1] - 1).mean()),
        "rows": float(np.mean([e.n_evaluations.mean() for e in found])),
    }


def joint_pns(case: Case, subset: Array, target: Array, tolerance: Array, n: int) -> Array:
    """Return the joint PNS `(B,)` of a subset of each input, at the input itself, on fresh background rows."""
    out = []
    for i, x in enumerate(case.inputs):
        rows = case.background[np.random.default_rng(i).integers(len(case.background), size=(2, n))]
        before = case.ask(x[None])[0, target[i]]
        often = [
            (np.abs(case.ask(np.where(hit, row, x))[:, target[i]] - before) > tolerance[i]).mean()
            for hit, row in zip((subset[i], ~subset[i]), rows, strict=True)
        ]
        out.append(often[0] * (1 - often[1]))
    return np.array(out)


def leads(case: Case, n_fresh: int, **settings: Any) -> dict[str, Any]:
    found = case.explainer(**settings)(case.inputs, progress=False)
    judge = partial(joint_pns, case, target=found.target, tolerance=found.tolerance, n=n_fresh)
    ours, size, n_rows = judge(found.subset), found.subset.sum(1), round(float(found.n_evaluations.mean()))
    out: dict[str, Any] = {"pns": float(ours.mean()), "size": float(size.mean()), "rows": n_rows, "against": {}}
    for name, rival in RIVALS.items():
        asked = [
            Question(case.ask, case.background, case.background.mean(0), x, int(t), n_rows, i)
            for i, (x, t) in enumerate(zip(case.inputs, found.target, strict=True))
        ]
        theirs = judge(highest(np.abs(np.stack([rival(question) for question in asked])), size))
        out["against"][name] = lead(ours, theirs) | {"worse": float((ours < theirs - 0.01).mean())}
    return out


def unread(n_inputs: int, seed: int) -> dict[str, float]:
    """Return the share of inputs that name a column the model does not read, in five problems."""
    rng = np.random.default_rng(seed)

    def boosted(rows: Floats) -> tuple[Any, list[int]]:
        labels = (rows[:, 0] + rows[:, 3] > 0.3 * rng.normal(size=len(rows))).astype(int)
        model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=4, random_state=0)
        return model.fit(rows[:, [0, 3]], labels), [0, 3]

    def of_two(model: Any, columns: list[int]) -> Callable[[Floats], Floats]:
        return lambda rows: model.predict_proba(rows[:, columns])

    out = {}
    for name, n_columns in PROBLEMS.items():
        rows = rng.normal(size=(500 + n_inputs, n_columns))
        read = [] if name == "constant" else [0, 3] if "trees" in name else [0, 1]
        model: Any = {
            "2 of 4": lambda rows: 50 * rows[:, 0] + 10 * rows[:, 1],
            "2 of 10": lambda rows: 50 * rows[:, 0] + 10 * rows[:, 1],
            "Example 1": lambda rows: (rows[:, 0] - rows[:, 1] > 1).astype(float),
            "constant": lambda rows: np.full(len(rows), 0.5),
        }.get(name) or of_two(*boosted(rows[:500]))
        found = fans.Explainer(model, rows[:500])(rows[500:], progress=False)
        out[name] = float(found.subset[:, np.isin(np.arange(n_columns), read, invert=True)].any(1).mean())
    return out


def report(figures: Mapping[str, Any]) -> None:
    """Print what was found."""
    shown = {"columns": "d", "size": ".1f", "jaccard": ".3f", "spearman": ".3f", "nearly_all": ".1%", "rows": ",.0f"}
    header = ("data", "columns", "size", "Jaccard", "Spearman", "all or all but one", "rows")
    for kind in ("seeds", "backgrounds"):
        cases = figures.get(f"steadiness of {kind}", {}).items()
        lines = [(name, *(format(found[key], how) for key, how in shown.items())) for name, found in cases]
        if lines:
            print_table(f"{N_SEEDS} {kind}", header, lines)
    for name, found in figures.get("leads", {}).items():
        lines = [
            (rival, f"{v['pns']:.3f}", f"{v['lead']:+.3f}", f"[{v['low']:.3f}, {v['high']:.3f}]", f"{v['worse']:.0%}")
            for rival, v in found["against"].items()
        ]
        title = f"{name}: PNS {found['pns']:.3f} with {found['size']:.1f} columns, {found['rows']:,} rows"
        print_table(title, ("against its k highest", "PNS", "ahead", "95 % interval", "worse by more than 0.01"), lines)
    if "unread" in figures:
        lines = [(name, f"{share:.1%}") for name, share in figures["unread"].items()]
        print_table("rows that name a column which is not read", ("problem", "share"), lines)


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "tables", among=PARTS, seed=SEED)
    asked, quick = arguments.only or PARTS, arguments.quick
    all_cases = cases(4 if quick else N_INPUTS, arguments.seed)
    figures: dict[str, Any] = {}
    for kind in ("seeds", "backgrounds") if "steadiness" in asked else ():
        figures[f"steadiness of {kind}"] = {
            case.name: steadiness(case, 2 if quick else N_SEEDS, backgrounds=kind == "backgrounds")
            for case in all_cases
        }
    if "leads" in asked:
        n_fresh = 200 if quick else N_FRESH
        figures["leads"] = {
            f"{case.name}{', ' if how else ''}{how}": leads(case, n_fresh, **settings)
            for case in all_cases
            for how, settings in SUBSETS.items()
        }
    if "unread" in asked:
        figures["unread"] = unread(10 if quick else 1000, arguments.seed)
    report(figures)
    settings = {"seed": arguments.seed, "inputs": N_INPUTS, "seeds": N_SEEDS, "fresh": N_FRESH, "quick": quick}
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    main()
