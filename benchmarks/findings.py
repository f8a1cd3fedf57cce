"""What of the paper reproduces and what does not: the figures behind docs/findings.md.

- `initial-mask`: what the released code's fifty steps add to the Integrated Gradients it starts from.
- `weights`: how many samples count once they are weighed by closeness and event, by the paper's radius and by ours.
- `infidelity`: raw Infidelity of a map and of the same map times a constant, 0 among them.
- `irof`: IROF of images that the model gets wrong, by the true label and by the predicted class.
- `relaxed-g`: IROF of the paper's own solver with the relaxed g as printed, the same scores reversed, and the strict g.

All on test images that Table 1 reports; nothing is chosen. Run with `python -m benchmarks.findings [--only ...]` (needs
FANS_DATA).
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

import fans
from benchmarks.irof import TABLE, case_of
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.datasets import load_images
from fans.methods.fans import released
from fans.metrics import Case, metric
from fans.networks import load, load_released
from fans.report.tables import Entry, entry, number
from fans.spaces import Image

Figures = dict[str, dict[str, Any]]
DATASETS = ("mnist", "fashion_mnist")
PAPER = {"Integrated Gradients": (1.7e4, 60.8, 0.612), "FANS as released": (1.2e4, 63.1, 0.630)}
"""INF, IR and SPA that the paper prints for Fashion-MNIST."""


def reported(dataset: str, n: int) -> range:
    """Return images that Table 1 reports."""
    return TABLE.dataset(dataset).positions("reported", n)


def judged(case: Case, scores: Tensor, judges: Mapping[str, Any]) -> dict[str, Entry]:
    """Return what metrics say of scores, with 95 % intervals over images."""
    one = Case(case.model, case.inputs, scores, case.target, case.ids, cache=case.cache)
    return {name: entry(judge(one).numpy()) for name, judge in judges.items()}


def shown(found: Entry) -> str:
    """Return a mean with its interval."""
    return f"{number(found.value)} [{number(found.low)}, {number(found.high)}]"


def table(title: str, found: Mapping[str, Mapping[str, Entry]]) -> Figures:
    """Print entries as a table, and return them as plain numbers."""
    columns = next(iter(found.values()))
    print_table(title, ("", *columns), [(name, *(shown(e) for e in row.values())) for name, row in found.items()])
    return {
        name: {column: {"mean": e.value, "low": e.low, "high": e.high, "n": e.n} for column, e in row.items()}
        for name, row in found.items()
    }


def authors_case(n: int) -> Case:
    """Return the authors' network on images in [-1, 1] with true labels, as they evaluate."""
    test, index = load_images("fashion_mnist", "test"), reported("fashion_mnist", n)
    labels = torch.from_numpy(test.labels[np.asarray(index)])
    images = test.tensor(slice(index.start, index.stop)) * 2 - 1
    return Case(load_released(normalise=False).eval(), images, torch.zeros_like(images), labels, index)


def explained(case: Case, **settings: Any) -> Tensor:
    """Return the heatmaps of the authors' network for the case's own classes."""
    made = fans.Explainer(case.model, case.inputs[:50], **({"baseline": 0.0} | settings))
    return torch.from_numpy(made.heatmaps(case.inputs, case.target.tolist(), list(case.ids)))


def initial_mask(n: int) -> Figures:
    """Return INF, IROF and sparseness of the released code's start, its end, and its end when parts are taken out."""
    case = authors_case(n)
    pixels: dict[str, Any] = {"space": Image("pixel", value_range=(-1.0, 1.0)), "output": "raw"}
    end = pixels | {"preset": "released", "n_background": 1, "n_local": 0}

    def flat(task: Any, batch: Any) -> tuple[Tensor, Tensor]:
        n_inputs = len(batch.target)
        return torch.full((n_inputs, task.space.n_features), 0.5), torch.zeros(n_inputs, dtype=torch.int64)

    def silent(task: Any, block: Any, part: Any, mask: Tensor, *rest: Any) -> Tensor:  # noqa: ARG001
        return 0 * mask.sum(1)

    found = {
        "its start, Integrated Gradients": explained(
            case, **pixels, method="integrated_gradients", n_steps=32, rule="riemann_middle"
        ),
        "FANS as released": explained(case, **end),
    }
    with mock.patch.object(released, "_loss", silent):
        found["the same without its loss: weight decay alone"] = explained(case, **end)
    with mock.patch.object(released, "integrated_gradients", flat):
        found["the same from 0.5 everywhere"] = explained(case, **end)
    found["the chain (our default)"] = explained(case, space=Image(value_range=(-1.0, 1.0)), baseline="own")
    found["random"] = explained(case, **pixels, method="random")
    judges = {"INF": metric("infidelity", kind="published"), "IROF": metric("irof"), "SPA": metric("sparseness")}
    return table(
        f"The released code: the authors' LeNet, {n} images, true labels (paper: IG {PAPER['Integrated Gradients']}, "
        f"FANS {PAPER['FANS as released']})",
        {name: judged(case, scores, judges) for name, scores in found.items()},
    )


def weights(n: int) -> Figures:
    """Return how many of 200 samples count, for subsets of half the pixels."""
    ways: dict[str, dict[str, Any]] = {
        "the paper's: plain distance, b = 1.0534": {"distance": "l2", "radius": 1.0534},
        "the paper's rule as printed": {"distance": "l2", "radius": "paper"},
        "ours: standardised, 1.06 n^(-1/5)": {"radius": "scott"},
    }
    found = {}
    for name in DATASETS:
        model, _ = load(name)
        train, test = (load_images(name, split) for split in ("train", "test"))
        index = reported(name, n)
        images = test.tensor(slice(index.start, index.stop))
        subset = np.random.default_rng(0).random((n, images[0].numel())) < 0.5
        for way, settings in ways.items():
            one = fans.pns(
                model.eval(), images, subset, background=train.tensor(slice(0, 200)), space=Image("pixel"),
                closeness="subset", scale="paper", baseline="uniform", n_perturb=8, n_factual=8, **settings,
            )  # fmt: skip
            found[f"{name}: {way}"] = {
                "of 200, necessity": entry(np.asarray(one.ess_nc)),
                "of 200, sufficiency": entry(np.asarray(one.ess_sf)),
            }
    return table(f"Effective samples behind PN and PS, {n} images, half of the pixels", found)


def infidelity(n: int) -> Figures:
    """Return raw Infidelity of FANS's map at several scales."""
    judges = {
        "INF published": metric("infidelity", kind="published"),
        "INF scale-free": metric("infidelity", kind="scale_free"),
    }
    found = {}
    for name in DATASETS:
        model, test = load(name)[0].eval(), load_images(name, "test")
        case = case_of(model, test, reported(name, n))
        background = load_images(name, "train").tensor(slice(0, 500))
        maps = torch.from_numpy(
            fans.Explainer(model, background).heatmaps(case.inputs, case.target.tolist(), list(case.ids))
        )
        for factor in (10.0, 1.0, 0.1, 0.0):
            what = "FANS" if factor == 1 else "scores of 0" if factor == 0 else f"FANS times {factor:g}"
            found[f"{name}: {what}"] = judged(case, factor * maps, judges)
    return table(f"Infidelity and the scale of scores, {n} images", found)


def irof(n: int) -> Figures:
    """Return IROF by the true label and by the predicted class, of images that are got right and wrong."""
    case = authors_case(n)
    scores = explained(
        case, space=Image("pixel", value_range=(-1.0, 1.0)), output="raw", method="integrated_gradients", n_steps=10
    )
    one = Case(case.model, case.inputs, scores, case.target, case.ids, cache=case.cache)
    values = {of: metric("irof", of=of)(one).numpy() for of in ("given", "predicted")}
    with torch.no_grad():
        right = (case.model(case.inputs).argmax(1) == case.target).numpy()
    groups = {"got right": right, "got wrong": ~right, "all": right | ~right}
    found = {
        f"{what} ({int(where.sum())} images)": {
            "by the true label": entry(values["given"][where]),
            "by the predicted class": entry(values["predicted"][where]),
            "lowest, true label": entry(values["given"][where][[values["given"][where].argmin()]]),
        }
        for what, where in groups.items()
        if where.any()
    }
    return table(f"IROF of Integrated Gradients, the authors' LeNet, {n} images", found)


def relaxed_g(n: int) -> Figures:
    """Return IROF of the paper's solver with either g, and of the same scores reversed, beside random scores."""
    judges, found = {"IROF": metric("irof", of="predicted")}, {}
    for name in DATASETS:
        model, background = load(name)[0].eval(), load_images(name, "train").tensor(slice(0, 500))
        case = case_of(model, load_images(name, "test"), reported(name, n))
        ways: dict[str, dict[str, Any]] = {
            "as printed": {"preset": "paper"},
            "the strict g": {"preset": "paper", "relaxed_g": "strict"},
            "random": {"method": "random", "space": Image("pixel")},
        }
        for way, settings in ways.items():
            made = fans.Explainer(model, background, **settings)
            scores = torch.from_numpy(made.heatmaps(case.inputs, case.target.tolist(), list(case.ids)))
            found[f"{name}: {way}"] = judged(case, scores, judges)
            if way == "as printed":
                found[f"{name}: as printed, reversed"] = judged(case, -scores, judges)
    return table(f"The paper's solver and its relaxed g, {n} images", found)


PARTS: Mapping[str, tuple[Callable[[int], Figures], int]] = {
    "initial-mask": (initial_mask, 200),
    "weights": (weights, 64),
    "infidelity": (infidelity, 200),
    "irof": (irof, 200),
    "relaxed-g": (relaxed_g, 32),
}


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "findings", among=list(PARTS))
    figures = {}
    for name in arguments.only or PARTS:
        part, n = PARTS[name]
        figures[name] = part(8 if arguments.quick else n)
    write_record(arguments.out, {"images": {name: n for name, (_, n) in PARTS.items()}, "seed": 0}, figures)


if __name__ == "__main__":
    main()
