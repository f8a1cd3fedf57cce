"""How well scores order the regions of an image: IROF of FANS and rivals at equal evaluations, with controls.

200 Fashion-MNIST test images, target = predicted class, IROF with its own SLIC segments (which no method sees) and mean
fill. Rivals' settings are chosen on 32 other test images. Run with `python -m benchmarks.irof` (about six minutes;
needs FANS_DATA).
"""

import itertools
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fans
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans import studies as experiments
from fans.datasets import load_images
from fans.metrics import Case, metric
from fans.networks import load, load_released
from fans.spaces import Image

SEED = 0
N_EVALUATIONS = 500
TABLE = experiments.load("table1")
INPUTS = TABLE.dataset("fashion_mnist")
SLIC, PIXELS, COARSE = Image("superpixel"), Image("pixel"), Image("patch", patch=4)

GAME: dict[str, Any] = {"solver": "game", "n_pairs": (N_EVALUATIONS - 50) // 2}
"""Fifty evaluations go to local copies and the image itself."""
CHAIN: dict[str, Any] = {"n_steps": 15}
"""Fifteen steps of 32 rows. (The default takes ten: 320 in all.)"""
ALONE: dict[str, Any] = {"solver": "game", "n_pairs": N_EVALUATIONS // 2, "n_local": 0, "n_background": 0}
PLAIN: dict[str, Any] = {"method": "banzhaf", "n_samples": N_EVALUATIONS, "baseline": "mean"}
LIKE_OURS: dict[str, Any] = PLAIN | {"draw": "blocks"}
EQUAL_SECONDS = 1000
"""Rows forward that take about as long as the default's, most of which also go backward."""

CONTROL = "Banzhaf, the same with 1,000 rows"
DEFAULT = "FANS (default: chain, pixels, 320 rows)"
OURS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "FANS, chain, pixels, 480 rows": CHAIN,
    "FANS, chain, superpixels, 480 rows": CHAIN | {"space": SLIC},
    "FANS, chain, 2x2 patches, 480 rows": CHAIN | {"space": Image("patch")},
    "FANS, game, 2x2 patches": GAME,
    "FANS, game, superpixels": GAME | {"space": SLIC},
    "FANS, game, pixels": GAME | {"space": PIXELS},
    "FANS, game, 2x2 patches, image alone": ALONE,
    "Banzhaf of the probability, 2x2 patches": PLAIN,
    "Banzhaf of the probability, superpixels": PLAIN | {"space": SLIC},
    "Banzhaf, 2x2 patches, drawn and regressed as FANS's game": LIKE_OURS,
    CONTROL: LIKE_OURS | {"n_samples": EQUAL_SECONDS},
    "random": {"method": "random", "space": PIXELS},
    "random, 2x2 patches": {"method": "random"},
}
SPACES, FILLS = [SLIC, COARSE, Image()], [0.0, "mean", 0.5]
RIVALS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "Integrated Gradients": (
        {"method": "integrated_gradients", "space": PIXELS},
        {"baseline": FILLS, "n_steps": [20, 50], "output": ["raw", "probability"]},
    ),
    "LIME": (
        {"method": "lime", "n_samples": N_EVALUATIONS},
        {"baseline": FILLS[1:], "space": SPACES, "alpha": [0.01, 0.001, 0.0001]},
    ),
    "KernelSHAP": (
        {"method": "kernel_shap", "n_samples": N_EVALUATIONS - 2},
        {"baseline": FILLS, "space": SPACES},
    ),
    "FeatureAblation": ({"method": "feature_ablation"}, {"baseline": FILLS, "space": SPACES}),
}
"""What each is tuned over, all combinations."""


def irof(model: nn.Module, background: Tensor, case: Case, settings: Mapping[str, Any]) -> Any:
    """Return IROF of each image for the heatmaps of an explainer with these settings."""
    made = fans.Explainer(model, background, seed=SEED, **settings)
    scores = torch.from_numpy(made.heatmaps(case.inputs, case.target.tolist(), list(case.ids)))
    judged = Case(case.model, case.inputs, scores, case.target, case.ids, cache=case.cache)
    return metric("irof")(judged).numpy()


def case_of(model: nn.Module, test: Any, index: range) -> Case:
    images = test.tensor(slice(index.start, index.stop))
    with torch.no_grad():
        classes = model(images).argmax(1)
    return Case(model, images, torch.zeros_like(images), classes, list(index))


def tune(model: nn.Module, background: Tensor, case: Case) -> dict[str, dict[str, Any]]:
    """Return each rival's best settings on the tuning images."""
    out = {}
    for name, (fixed, search) in RIVALS.items():
        options = [fixed | dict(zip(search, values, strict=True)) for values in itertools.product(*search.values())]
        found = [irof(model, background, case, settings).mean() for settings in options]
        out[name] = options[int(np.argmax(found))]
    return out


def evaluate(name: str, model: nn.Module, background: Tensor, test: Any, *, quick: bool) -> dict[str, Any]:
    """Tune the rivals on some images, score all methods on others; return IROF by method."""
    chosen = tune(model, background, case_of(model, test, INPUTS.positions("tuning", 2 if quick else None)))
    case = case_of(model, test, INPUTS.positions("check", 4) if quick else INPUTS.positions("reported"))
    methods = OURS | {f"{k} (tuned)": v for k, v in chosen.items()}
    methods |= {f"{k}, 2x2 patches": v | {"space": Image()} for k, v in chosen.items()}
    values, seconds = {}, {}
    for label, settings in methods.items():
        started = time.perf_counter()
        values[label] = irof(model, background, case, settings)
        seconds[label] = time.perf_counter() - started
    rows = {k: interval(v) | {"ahead": interval(values[DEFAULT] - v), "seconds": seconds[k]} for k, v in values.items()}
    show(name, len(case), rows)
    wrong = failures(case, values)
    print_table(
        f"Images whose IROF is below 0 for the default, {name} (control: {CONTROL})",
        ("image", "probability", "default", "control"),
        [(str(v["image"]), *(f"{v[k]:.2f}" for k in ("probability", "default", "control"))) for v in wrong],
    )
    return {
        "below_0": wrong,
        "chosen": {k: {n: str(s) for n, s in v.items()} for k, v in chosen.items()},
        "n": len(case),
        "methods": rows,
    }


def failures(case: Case, values: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the images on which the default's order is worse than none: how sure the model is, and the control's."""
    sure = case.as_probabilities(case.before).amax(1).tolist()
    found = np.flatnonzero(values[DEFAULT] < 0).tolist()
    columns = {"probability": sure, "default": values[DEFAULT], "control": values[CONTROL]}
    return [{"image": i} | {k: float(v[i]) for k, v in columns.items()} for i in found]


def interval(values: Any) -> dict[str, Any]:
    """Return the mean and median, and the mean's 95 % bootstrap interval."""
    random = np.random.default_rng(SEED)
    means = values[random.integers(0, len(values), (2000, len(values)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"mean": values.mean(), "median": float(np.median(values)), "low": float(low), "high": float(high)}


def show(name: str, n: int, rows: Mapping[str, Any]) -> None:
    print_table(
        f"IROF on {n} images, {name} (ahead: the default over this one; s: with IROF's own rows)",
        ("method", "mean", "95 % interval", "median", "ahead", "95 % interval", "s"),
        [
            (
                *(k, f"{v['mean']:.2f}", f"[{v['low']:.2f}, {v['high']:.2f}]", f"{v['median']:.2f}"),
                *(f"{v['ahead']['mean']:+.2f}", f"[{v['ahead']['low']:.2f}, {v['ahead']['high']:.2f}]"),
                f"{v['seconds']:.1f}",
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
    tuning = INPUTS.positions("tuning")
    settings = {"seed": SEED, "evaluations": N_EVALUATIONS, "tuned on test images": [tuning.start, tuning.stop]}
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    main()
