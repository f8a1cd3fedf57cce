"""How well scores order the regions of an image: IROF of FANS and rivals at equal evaluations, with controls.

200 Fashion-MNIST test images, target = predicted class, IROF with its own SLIC segments (which no method sees) and mean
fill. Rivals' settings are chosen on 32 other test images. Run with `python -m benchmarks.irof` (needs FANS_DATA).
"""

import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fans
from benchmarks._images import banzhaf, captum_method, irof, pooled, segments
from benchmarks._shared import parse_arguments, print_table, write_record
from fans.data import load_images
from fans.models import load, load_released
from fans.spaces import Image

SEED = 0
N_EVALUATIONS = 500
N_LOCAL = 49
"""Of FANS's evaluations so many and one go to local copies and the image itself, the others to the game."""
TUNING = slice(5000, 5032)


def explain(model: nn.Module, background: Tensor, images: Tensor, **settings: Any) -> tuple[Tensor, Tensor]:
    """Return FANS's scores by pixel and its units `(n, H, W)`."""
    n_pairs = (N_EVALUATIONS - N_LOCAL - 1) // 2
    settings = {"n_pairs": n_pairs, "n_local": N_LOCAL} | settings
    made = fans.Explainer(model, background, **settings)
    units = made.task.space.units(images.flatten(1)).of_element.expand(len(images), -1)
    scores = torch.from_numpy(made.scores(images)).gather(1, units)
    shape = (len(images), *images.shape[2:])
    return scores.view(shape), units.reshape(shape)


def settings_to_try(fills: Mapping[str, float]) -> dict[str, list[dict[str, Any]]]:
    """Return what each rival is tuned over: six settings or more, but for the ones that have fewer."""
    every = [{"fill": fill} for fill in fills.values()]
    return {
        "ig": [f | {"n_steps": n} for f in every for n in (20, 50)],
        "lime": [f | {"alpha": a} for f in every for a in (0.01, 0.001, 0.0001)],
        "shap": every,
        "ablation": every,
    }


def evaluate(name: str, model: nn.Module, background: Tensor, test: Any, *, quick: bool) -> dict[str, Any]:
    """Tune the rivals on some images, score all methods on others; return IROF by method."""
    fills = {"black": 0.0, "mean": float(background.mean()), "grey": 0.5, "white": 1.0}
    chosen: dict[str, dict[str, Any]] = {}
    images = test.tensor(TUNING)[: 4 if quick else None]
    classes, cut = predicted(model, images), segments(images)
    _, units = explain(model, background, images, n_pairs=2)
    for rival, options in settings_to_try(fills).items():
        found = []
        for option in options:
            scores = captum_method(rival, model, units, SEED, N_EVALUATIONS, **option)(images, classes)
            found.append(float(irof(model, images, scores, classes, cut).mean()))
        chosen[rival] = options[int(np.argmax(found))]
    images = test.tensor(slice(0, 8 if quick else 200))
    classes, cut = predicted(model, images), segments(images)
    ours, units = explain(model, background, images)
    fill = torch.tensor(fills["mean"])
    alone: dict[str, Any] = {"n_local": 0, "n_background": 0, "n_pairs": N_EVALUATIONS // 2}
    methods: dict[str, Callable[[], Tensor]] = {
        "FANS, game, superpixels (default)": lambda: ours,
        "FANS, game, pixels": lambda: explain(model, background, images, space=Image("pixel"))[0],
        "FANS, game, 4x4 patches": lambda: explain(model, background, images, space=Image("patch"))[0],
        "FANS, gradient, superpixels": lambda: explain(model, background, images, solver="gradient", n_steps=13)[0],
        "FANS, game, image alone": lambda: explain(model, background, images, **alone)[0],
        "Banzhaf of the probability": lambda: banzhaf(model, images, classes, units, fill, N_EVALUATIONS, SEED),
        "random": lambda: torch.rand(images.shape[0], *images.shape[2:], generator=torch.Generator().manual_seed(SEED)),
    }
    labels = {"ig": "Integrated Gradients", "lime": "LIME", "shap": "KernelSHAP", "ablation": "FeatureAblation"}
    for rival, label in labels.items():
        make = captum_method(rival, model, units, SEED, N_EVALUATIONS, **chosen[rival])
        methods[label] = partial(make, images, classes)
    values, seconds = {}, {}
    for label, method in methods.items():
        started = time.perf_counter()
        scores = method()
        seconds[label] = time.perf_counter() - started
        values[label] = irof(model, images, scores, classes, cut).numpy()
        if label in ("Integrated Gradients", "random"):
            values[f"{label}, pooled to FANS's superpixels"] = irof(
                model, images, pooled(scores, units), classes, cut
            ).numpy()
    first = values["FANS, game, superpixels (default)"]
    rows: dict[str, dict[str, Any]] = {}
    rows |= {k: interval(v) | {"ahead": interval(first - v), "seconds": seconds.get(k)} for k, v in values.items()}
    show(name, len(images), rows)
    return {"chosen": chosen, "n": len(images), "methods": rows}


def predicted(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        classes: Tensor = model(images).argmax(1)
    return classes


def interval(values: Any) -> dict[str, Any]:
    """Return the mean and median, and the mean's 95 % bootstrap interval."""
    random = np.random.default_rng(SEED)
    means = values[random.integers(0, len(values), (2000, len(values)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"mean": values.mean(), "median": float(np.median(values)), "low": float(low), "high": float(high)}


def show(name: str, n: int, rows: Mapping[str, Any]) -> None:
    print_table(
        f"IROF on {n} images, {name} (ahead: the default over this one)",
        ("method", "mean", "95 % interval", "median", "ahead", "95 % interval", "s"),
        [
            (
                *(k, f"{v['mean']:.2f}", f"[{v['low']:.2f}, {v['high']:.2f}]", f"{v['median']:.2f}"),
                *(f"{v['ahead']['mean']:+.2f}", f"[{v['ahead']['low']:.2f}, {v['ahead']['high']:.2f}]"),
                "" if v["seconds"] is None else f"{v['seconds']:.1f}",
            )
            for k, v in sorted(rows.items(), key=lambda item: -item[1]["mean"])
        ],
    )


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "irof")
    train, test = load_images("fashion_mnist", "train"), load_images("fashion_mnist", "test")
    background = train.tensor(slice(0, 500))
    models = {"the authors' LeNet": load_released(), "our LeNet": load("fashion_mnist")[0]}
    figures = {
        name: evaluate(name, model.eval(), background, test, quick=arguments.quick) for name, model in models.items()
    }
    settings = {"seed": SEED, "evaluations": N_EVALUATIONS, "tuned on test images": [TUNING.start, TUNING.stop]}
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    main()
