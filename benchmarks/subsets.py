"""The subset that FANS names: its PNS against every rival's as many highest features, how steady it is, its interval.

**Leads.** On inputs of the tables, FANS with its defaults names a subset of k features; each rival, with the settings
of its row, its k highest. Both have their joint PNS estimated in one neighbourhood of fresh copies (1,000 of an image,
of CIFAR-10's 250, each with both baselines; 2,000 of a graph). **Steadiness.** The Jaccard index of the subsets of two
seeds, and of two orders of the features, which the chain's design goes by: what it would be if another design had been
taken. **Coverage.** How often the interval of the chosen subset's PNS holds the population's, the background drawn anew
each time. Run with `python -m benchmarks.subsets [--only mnist ...]` (needs FANS_DATA; few images of CIFAR-10).
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

import fans
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans import studies as experiments
from fans.methods.fans.chain import Step
from fans.report.tables import entry
from fans.studies import graphs, images
from fans.studies.inputs import Part
from fans.types import Array

SEED, FRESH = 0, 10_001
"""Of the explanations, and of the copies on which subsets are compared."""
N_INPUTS = {"mnist": 64, "fashion_mnist": 64, "cifar10": 6, "ba_community": 60, "citeseer": 50, "pubmed": 40}
N_COPIES = {"mnist": 999, "fashion_mnist": 999, "cifar10": 249, "ba_community": 1999, "citeseer": 1999, "pubmed": 1999}
N_STEADY = {"mnist": 32, "fashion_mnist": 32, "cifar10": 4, "ba_community": 16, "citeseer": 32, "pubmed": 16}
LEFT_OUT = ("FANS", "our units", "absolute")
"""Rows that are FANS itself, or another form of a row that is here."""
CONTROL = "drawn as FANS"
ELSEWHERE = 341


@dataclass(frozen=True)
class Inputs:
    """Inputs of a dataset, their predicted classes, and a maker of explainers of its model."""

    dataset: str
    x: Any
    target: Sequence[int]
    make: Callable[..., fans.Explainer]


def table_of(dataset: str) -> experiments.TableStudy:
    """Return the table that has a dataset."""
    tables = [experiments.load(name) for name in ("table1", "table2")]
    return next(table for table in tables if dataset in [d.name for d in table.datasets])


def inputs_of(dataset: str, part: Part, n: int) -> Inputs:
    """Return the first inputs that serve a purpose."""
    own = table_of(dataset).dataset(dataset)
    at = own.positions(part, n)
    if table_of(dataset).name == "table2":
        graph = graphs.subject(dataset, own.model)
        nodes = graph.nodes[at.start : at.stop]
        return Inputs(
            dataset, nodes, graph.predicted[nodes].tolist(), partial(fans.Explainer, graph.model, graph.graph)
        )
    given = images.subject(dataset, own.model, own.n_background)
    x = given.images(at.start, at.stop)
    with torch.no_grad():
        target = given.model(x).argmax(1).tolist()
    return Inputs(dataset, x, target, partial(fans.Explainer, given.model, given.background))


def rivals(given: Inputs, n: int) -> dict[str, Array]:
    """Return the scores of FANS's features `(B, F)` by each rival of the dataset's table, with its row's settings."""
    table = table_of(given.dataset)
    names = [row.name for row in table.rows if not any(word in row.name for word in LEFT_OUT) or CONTROL in row.name]
    scores, space = {}, given.make().task.space
    for spec in table.cells(n, [given.dataset], names):
        if spec["method"] in scores:  # another shard
            continue
        if space.modality == "graph":
            made = graphs.explainer(spec)
            made.prepare()
            scores[spec["method"]] = made.scores(given.x, given.target)
        else:
            maps = images.explainer(spec).heatmaps(given.x, given.target, list(range(n)))
            elements = torch.from_numpy(maps).double().flatten(1)
            scores[spec["method"]] = space.units(given.x.flatten(1)).collect(elements[:, None])[:, 0].numpy()
    return scores


def highest(scores: Array, sizes: Array) -> Array:
    """Return the `sizes` `(B,)` highest of scores `(B, F)`, of equals the first."""
    return np.argsort(np.argsort(-scores, 1, kind="stable"), 1, kind="stable") < sizes[:, None]


def lead(ours: Array, theirs: Array) -> dict[str, float]:
    """Return how far one PNS is ahead of another on the same inputs, and how often it is no less."""
    found = entry((ours - theirs).tolist())
    shown = {"lead": found.value, "low": found.low, "high": found.high}
    return shown | {"no_less": float((ours >= theirs - 1e-9).mean()), "pns": float(theirs.mean())}


def jaccard(one: Array, other: Array) -> float:
    """Return the mean over inputs of what two subsets have in common; two empty ones are the same."""
    union, common = (one | other).sum(1), (one & other).sum(1)
    return float(np.where(union > 0, common / np.maximum(union, 1), 1.0).mean())


class Judge:
    """The PNS of subsets in one neighbourhood of fresh copies: each subset of an input is asked about once."""

    def __init__(self, given: Inputs, modality: str) -> None:
        self.given, self.explainer = given, given.make(seed=FRESH, n_local=N_COPIES[given.dataset])
        # Nodes are called by their numbers, other inputs by their places.
        self.ids = list(given.x) if modality == "graph" else list(range(len(given.x)))
        self.known: dict[tuple[int, bytes], float] = {}

    def __call__(self, subset: Array) -> Array:
        """Return the PNS `(B,)` of one subset `(B, F)` of each input."""
        keys = [(i, one.tobytes()) for i, one in enumerate(subset)]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            x = [self.given.x[i] for i in new] if isinstance(self.given.x, list) else self.given.x[new]
            width = max(task.space.n_features for task, *_ in self.explainer.task.split(x))
            target, ids = ([each[i] for i in new] for each in (self.given.target, self.ids))
            found = self.explainer.score(x, subset[new, :width], target, ids)
            self.known |= {keys[i]: float(value) for i, value in zip(new, found.pns, strict=True)}
        return np.array([self.known[key] for key in keys])


def leads(dataset: str, n: int) -> dict[str, Any]:
    given = inputs_of(dataset, "reported", n)
    found = given.make(seed=SEED)(given.x, given.target)
    judge, size = Judge(given, found.modality), found.subset.sum(1)
    ours = judge(found.subset)
    against = {}
    for name, scores in rivals(given, n).items():
        against[name] = lead(ours, judge(highest(np.where(found.present, scores, -np.inf), size)))
    return {"n": n, "pns": float(ours.mean()), "size": float(size.mean()), "against": against}


def steadiness(dataset: str, n: int) -> dict[str, float]:
    """Compare subsets of two seeds, and of two designs: the other one counts the features from another place on."""
    given = inputs_of(dataset, "development", n)
    one, other = (given.make(seed=seed)(given.x, given.target).subset for seed in (0, 1))
    plain = Step.noise

    def from_elsewhere(step: Step) -> Tensor:
        wider = torch.zeros(1, step.theta.shape[1] + ELSEWHERE, dtype=step.theta.dtype)
        return plain(replace(step, theta=wider))[:, ELSEWHERE:]

    with mock.patch.object(Step, "noise", from_elsewhere):
        design = given.make(seed=0)(given.x, given.target).subset
    return {"n": n, "seeds": jaccard(one, other), "designs": jaccard(one, design)}


def coverage(n_repeats: int, *, black_box: bool, local: bool) -> dict[str, float]:
    """Return how often the 95 % interval of the chosen subset's PNS holds its value.

    A network on five normal columns, of which no gradient is known if it is a `black_box`; six inputs; 100 background
    rows are drawn anew in every repetition. The samples are these rows, and the value is that on 20,000 such; or, as by
    default, `local` copies of the input, and the value is that on 20,000 copies with 20,000 rows to draw from.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, last = nn.Linear(5, 16), nn.Linear(16, 2)
    for layer in (first, last):
        layer.weight.data *= 2
    network = nn.Sequential(first, nn.Tanh(), last).double()

    def ask(rows: Array) -> Array:
        with torch.no_grad():
            return np.asarray(network(torch.from_numpy(rows)).softmax(1))

    model: Any = ask if black_box else network
    rng = np.random.default_rng(0)
    population, inputs = rng.normal(size=(20_000, 5)), rng.normal(size=(6, 5))
    usual: dict[str, Any] = {"radius": 1.0} | ({} if local else {"n_local": 0, "n_background": 100})
    judge = fans.Explainer(model, population, radius=1.0, n_local=20_000, n_perturb=16)
    covered, known = list[bool](), dict[tuple[int, bytes], float]()
    for seed in range(n_repeats):
        rows = np.random.default_rng([1, seed]).normal(size=(100, 5))
        found = fans.Explainer(model, rows, seed=seed, **usual)(inputs)
        for i, (x, subset, (low, high)) in enumerate(zip(inputs, found.subset, found.interval[:, 0], strict=True)):
            key = i, subset.tobytes()
            if key not in known:
                on_rows = partial(fans.pns, background=population, radius=1.0, phi=1.0, n_perturb=16)
                known[key] = float((judge.score(x, subset) if local else on_rows(model, x, subset)).pns[0])
            covered.append(bool(low <= known[key] <= high))
    held = np.array(covered).reshape(n_repeats, len(inputs))
    n_subsets = [sum(one == i for one, _ in known) for i in range(len(inputs))]
    return {
        "repetitions": n_repeats,
        "covered": float(held.mean()),
        "covered_of_each": held.mean(0).tolist(),
        "subsets_of_each": n_subsets,
    }


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "subsets", among=("coverage", *N_INPUTS))
    asked = arguments.only or ["coverage", *N_INPUTS]
    sizes: Mapping[str, int] = dict.fromkeys(N_INPUTS, 2) if arguments.quick else N_INPUTS
    figures: dict[str, Any] = {}
    if "coverage" in asked:
        for solver, samples in itertools.product(("chain", "walks"), ("local copies", "background rows")):
            how = {"black_box": solver == "walks", "local": samples == "local copies"}
            name = f"{solver}, {samples}"
            figures[f"coverage, {name}"] = found = coverage(10 if arguments.quick else 300, **how)
            print(f"95 % interval of the chosen subset's PNS, {name}: {found}")
        write_record(arguments.out, {"seed": SEED}, figures)
    for dataset in [name for name in asked if name in N_INPUTS]:
        figures[dataset] = leads(dataset, sizes[dataset])
        figures[dataset]["steady"] = steadiness(dataset, min(sizes[dataset], N_STEADY[dataset]))
        one = figures[dataset]
        print_table(
            f"{dataset}: PNS {one['pns']:.3f} with {one['size']:.1f} features; Jaccard of two seeds "
            f"{one['steady']['seeds']:.2f}, of two designs {one['steady']['designs']:.2f}",
            ("against its k highest", "PNS", "ahead", "95 % interval", "no less"),
            [
                (
                    name,
                    f"{v['pns']:.3f}",
                    f"{v['lead']:+.3f}",
                    f"[{v['low']:.3f}, {v['high']:.3f}]",
                    f"{v['no_less']:.0%}",
                )
                for name, v in one["against"].items()
            ],
        )
        write_record(arguments.out, {"seed": SEED, "fresh": FRESH, "n": dict(sizes)}, figures)


if __name__ == "__main__":
    main()
