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
from benchmarks._images import banzhaf, captum_method, irof, pooled, segments, smooth_banzhaf
from benchmarks._shared import parse_arguments, print_table, write_record
from fans.data import load_images
from fans.models import load, load_released
from fans.spaces import Image
from fans.spaces._shared import Blocks

SEED = 0
N_EVALUATIONS = 500
N_LOCAL = 49
"""Of FANS's evaluations so many and one go to local copies and the image itself, the others to the solver."""
GAME: dict[str, Any] = {"solver": "game", "n_pairs": (N_EVALUATIONS - N_LOCAL - 1) // 2}
CLIMB: dict[str, Any] = {"solver": "gradient", "n_steps": 13}
"""Thirteen steps of 32 rows, and 16 rows that set the tolerance. (The default takes ten: 386 rows in all.)"""
EQUAL_SECONDS = 1000
"""Rows forward that take about as long as the default's, most of which also go backward."""
ALONE: dict[str, Any] = {"solver": "game", "n_pairs": N_EVALUATIONS // 2, "n_local": 0, "n_background": 0}
TUNING = slice(5000, 5032)
DEFAULT = "FANS (default: gradient, 2x2 patches)"
RIVALS = {"ig": "Integrated Gradients", "lime": "LIME", "shap": "KernelSHAP", "ablation": "FeatureAblation"}


def explain(model: nn.Module, background: Tensor, images: Tensor, space: Image, **settings: Any) -> Tensor:
    """Return FANS's scores by pixel `(n, H, W)`."""
    made = fans.Explainer(model, background, space=space, **({"n_local": N_LOCAL} | settings))
    return torch.from_numpy(made.heatmaps(images))[:, 0]


def units_of(space: Image, background: Tensor, images: Tensor) -> Tensor:
    """Return the units of each image `(n, H, W)`."""
    of_element = space.fit(background).units(images.flatten(1)).of_element
    return of_element.expand(len(images), -1).reshape(len(images), *images.shape[2:])


def settings_to_try(mean: float) -> dict[str, list[dict[str, Any]]]:
    """Return what each rival is tuned over."""
    fills = [{"fill": fill} for fill in (0.0, mean, 0.5)]
    spaces = [{"space": space} for space in (Image("superpixel"), Image("patch", patch=4), Image())]
    return {
        "ig": [f | {"n_steps": n} for f in fills for n in (20, 50)],
        "lime": [f | s | {"alpha": a} for f in fills[1:] for s in spaces for a in (0.01, 0.001, 0.0001)],
        "shap": [f | s for f in fills for s in spaces],
        "ablation": [f | s for f in fills for s in spaces],
    }


def run_rival(name: str, model: nn.Module, background: Tensor, images: Tensor, classes: Tensor, how: Any) -> Tensor:
    """Return a rival's scores by pixel `(n, H, W)`."""
    space = how.get("space", Image())
    units = units_of(space, background, images)
    rest = {k: v for k, v in how.items() if k != "space"}
    return captum_method(name, model, units, SEED, N_EVALUATIONS, **rest)(images, classes)


def evaluate(name: str, model: nn.Module, background: Tensor, test: Any, *, quick: bool) -> dict[str, Any]:
    """Tune the rivals on some images, score all methods on others; return IROF by method."""
    mean = float(background.mean())
    chosen: dict[str, dict[str, Any]] = {}
    images = test.tensor(TUNING)[: 2 if quick else None]
    classes, cut = predicted(model, images), segments(images)
    for rival, options in settings_to_try(mean).items():
        tried = [run_rival(rival, model, background, images, classes, how) for how in options]
        found = [float(irof(model, images, s, classes, cut).mean()) for s in tried]
        chosen[rival] = options[int(np.argmax(found))]
    images = test.tensor(slice(256, 260) if quick else slice(0, 200))
    classes, cut = predicted(model, images), segments(images)
    ours = units_of(Image(), background, images)
    slic, fill = units_of(Image("superpixel"), background, images), torch.tensor(mean)
    make = partial(explain, model, background, images)
    plain = partial(banzhaf, model, images, classes, fill=fill, n=N_EVALUATIONS, seed=SEED)
    smooth = partial(smooth_banzhaf, model, images, classes, space_blocks(background), fill, seed=SEED)
    methods: dict[str, Callable[[], Tensor]] = {
        DEFAULT: lambda: make(Image()),
        "FANS, gradient, 2x2 patches, 500 rows": lambda: make(Image(), **CLIMB),
        "FANS, gradient, superpixels": lambda: make(Image("superpixel"), **CLIMB),
        "FANS, gradient, pixels": lambda: make(Image("pixel"), **CLIMB),
        "FANS, game, 2x2 patches": lambda: make(Image(), **GAME),
        "FANS, game, superpixels": lambda: make(Image("superpixel"), **GAME),
        "FANS, game, pixels": lambda: make(Image("pixel"), **GAME),
        "FANS, game, 2x2 patches, image alone": lambda: make(Image(), **ALONE),
        "Banzhaf of the probability, 2x2 patches": lambda: plain(ours),
        "Banzhaf, 2x2 patches, drawn and regressed as FANS's game": lambda: smooth(n=N_EVALUATIONS),
        "Banzhaf, the same with 1,000 rows": lambda: smooth(n=EQUAL_SECONDS),
        "Banzhaf of the probability, superpixels": lambda: plain(slic),
        "random": lambda: torch.rand(images.shape[0], *images.shape[2:], generator=torch.Generator().manual_seed(SEED)),
    }
    for rival, label in RIVALS.items():
        methods[label] = partial(run_rival, rival, model, background, images, classes, chosen[rival])
        if rival != "ig":
            how = chosen[rival] | {"space": Image()}
            methods[f"{label}, 2x2 patches"] = partial(run_rival, rival, model, background, images, classes, how)
    values, seconds = {}, {}
    for label, method in methods.items():
        started = time.perf_counter()
        scores = method()
        seconds[label] = time.perf_counter() - started
        values[label] = irof(model, images, scores, classes, cut).numpy()
        if label in (*RIVALS.values(), "random"):
            even = pooled(scores, ours)
            values[f"{label}, pooled to 2x2 patches"] = irof(model, images, even, classes, cut).numpy()
    rows: dict[str, dict[str, Any]] = {}
    rows |= {
        k: interval(v) | {"ahead": interval(values[DEFAULT] - v), "seconds": seconds.get(k)} for k, v in values.items()
    }
    show(name, len(images), rows)
    return {
        "chosen": {k: {n: str(s) for n, s in v.items()} for k, v in chosen.items()},
        "n": len(images),
        "methods": rows,
    }


def space_blocks(background: Tensor) -> Blocks:
    """Return the blocks that FANS's game draws on its default patches."""
    blocks = Image().fit(background).blocks()
    assert blocks is not None
    return blocks


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
