"""What our choices for images are worth: IROF of each alternative on images that are never reported.

64 Fashion-MNIST test images, those that `table1.yaml` keeps for development, target = predicted class, 320
(chain) or 500 (game) model rows each, the authors' LeNet and ours; the standard errors of the means are large, but
all alternatives see the same images. Run with `python -m benchmarks.choices` (about five minutes; needs FANS_DATA).
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fans
from benchmarks.irof import TABLE, case_of, irof
from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.datasets import load_images
from fans.methods.fans import chain as _chain
from fans.metrics import Case, metric
from fans.modalities.image import space as space_of_images
from fans.modalities.image.space import FittedImage
from fans.networks import load, load_released
from fans.spaces import Image

GAME: dict[str, Any] = {"solver": "game", "n_pairs": 225}
ALONE: dict[str, Any] = {"n_local": 0, "n_background": 0}
SLIC: dict[str, Any] = {"space": Image("superpixel")}

CONSTANTS: Mapping[str, tuple[Any, str, Any]] = {
    "chain, no noise": (_chain, "NOISE", 0.0),
    "chain, noise of 0.6": (_chain, "NOISE", 0.6),
    "chain, temperature 0.15": (_chain, "TEMPERATURE", 0.15),
    "chain, only falls count": (_chain, "FALL", 1.0),
    "chain, memberships less steep": (_chain, "SHARP", 4),
    "chain, one membership for all": (_chain, "ROUNDS", (16,)),
    "chain, scores below 0 count in full": (_chain, "AGAINST", 1.0),
    "chain, smoothed by 1": (space_of_images, "SMOOTH", 1.0),
    "chain, smoothed by 2": (space_of_images, "SMOOTH", 2.0),
}
"""Choices that are no settings: the module, the constant's name, and its other value."""

ALTERNATIVES: Mapping[str, dict[str, Any]] = {
    "chain, as shipped": {},
    "chain, effort low": {"effort": "low"},
    "chain, 20 steps": {"n_steps": 20},
    "chain, 64 rows a step": {"n_rows": 64},
    "chain, patches": {"space": Image("patch")},
    "chain, superpixels": SLIC,
    "chain, the image's own mean": {"baseline": "own"},
    "chain, the border's colour": {"baseline": "border"},
    "chain, the background's mean": {"baseline": "mean"},
    "chain, blur": {"baseline": "blur"},
    "chain, without SF": {"without": "SF"},
    "chain, without NC": {"without": "NC"},
    "game": GAME,
    "game, cells drawn singly": GAME | {"draw": "features"},
    "game, pixels": GAME | {"space": Image("pixel")},
    "game, 4x4 patches": GAME | {"space": Image("patch", patch=4)},
    "game, superpixels": GAME | SLIC,
    "game, image alone": GAME | ALONE | {"n_pairs": 250},
    "game, phi 0.5": GAME | {"phi": 0.5},
    "game, only falls count": GAME | {"change": "fall"},
    "game, uniform noise": GAME | {"baseline": "uniform"},
    "game, blur": GAME | {"baseline": "blur"},
    "game, background": GAME | {"baseline": "background"},
    "game, black": GAME | {"baseline": "zero"},
}
SWAPS = (0.02, 0.05, 0.1)


def try_all(model: nn.Module, background: Tensor, test: Any, index: range) -> dict[str, dict[str, float]]:
    case, out = case_of(model, test, index), {}

    def note(name: str, settings: Mapping[str, Any]) -> None:
        values = irof(model, background, case, settings)
        out[name] = {
            "mean": values.mean(),
            "se": values.std() / np.sqrt(len(values)),
            "median": float(np.median(values)),
        }

    for name, settings in ALTERNATIVES.items():
        note(name, settings)
    for name, (module, constant, value) in CONSTANTS.items():
        kept = getattr(module, constant)
        setattr(module, constant, value)
        note(name, {})
        setattr(module, constant, kept)
    shipped = FittedImage.swap_rate
    for rate in SWAPS:
        FittedImage.swap_rate = rate
        note(f"game, {rate:.0%} swapped", GAME)
    FittedImage.swap_rate = shipped
    return out


def released(test: Any, background: Tensor, n: int) -> dict[str, float]:
    """Return IROF and sparseness of `preset="released"` and of its start, as its authors evaluate: true labels."""
    model = load_released(normalise=False).eval()
    index = TABLE.dataset("fashion_mnist").positions("reported", n)
    images, labels = test.tensor(slice(index.start, index.stop)) * 2 - 1, torch.from_numpy(test.labels[index])
    beginning: dict[str, Any] = {"method": "integrated_gradients", "n_steps": 32, "rule": "riemann_middle"}
    end: dict[str, Any] = {"preset": "released", "n_background": 1, "n_local": 0}
    out = {}
    for name, settings in (("start", beginning), ("end", end)):
        asked: dict[str, Any] = {"space": Image("pixel"), "output": "raw", "baseline": 0.0} | settings
        scores = fans.Explainer(model, background[:50] * 2 - 1, **asked).heatmaps(images, labels.tolist())
        case = Case(model, images, torch.from_numpy(scores), labels, index)
        for label, judge in (("IROF", metric("irof")), ("sparseness", metric("sparseness"))):
            out[f"{name}, {label}"] = float(judge(case).mean())
    return out


def stated(n: int) -> dict[str, dict[str, float]]:
    """Judge what `preset="paper"` finds, the same scores reversed, and what it finds with the strict g."""
    out = {}
    for name in ("mnist", "fashion_mnist"):
        model, background = load(name)[0].eval(), load_images(name, "train").tensor(slice(0, 500))
        case = case_of(model, load_images(name, "test"), TABLE.dataset(name).positions("development", n))
        for g in ("paper", "strict"):
            made = fans.Explainer(model, background, preset="paper", relaxed_g=g)
            found = torch.from_numpy(made.heatmaps(case.inputs, case.target.tolist(), list(case.ids)))
            for sign, scores in (("", found), (", reversed", -found)):
                judged = Case(case.model, case.inputs, scores, case.target, case.ids, cache=case.cache)
                judges = {"irof": metric("irof", share=True), "infidelity": metric("infidelity", kind="scale_free")}
                out[f"{name}, {g} g{sign}"] = {k: float(judge(judged).mean()) for k, judge in judges.items()}
    return out


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "choices")
    test, background = load_images("fashion_mnist", "test"), load_images("fashion_mnist", "train").tensor(slice(0, 500))
    index = TABLE.dataset("fashion_mnist").positions("development", 4 if arguments.quick else None)
    models = {"the authors' LeNet": load_released(), "our LeNet": load("fashion_mnist")[0]}
    figures: dict[str, Any] = {name: try_all(model.eval(), background, test, index) for name, model in models.items()}
    first, second = figures.values()
    print_table(
        f"IROF on {len(index)} images, mean and standard error",
        ("alternative", *models),
        [(k, *(f"{v[k]['mean']:.1f} ({v[k]['se']:.1f})" for v in (first, second))) for k in first],
    )
    figures["released"] = released(test, background, 4 if arguments.quick else 40)
    print_table(
        "preset='released', true labels", ("figure", "value"), [(k, f"{v:.3f}") for k, v in figures["released"].items()]
    )
    figures["stated"] = stated(2 if arguments.quick else 16)
    print_table(
        "preset='paper' on the first of them and on MNIST's",
        ("scores", "IROF, share", "infidelity, scale-free"),
        [(k, *(f"{value:.3f}" for value in v.values())) for k, v in figures["stated"].items()],
    )
    write_record(arguments.out, {"images": [index.start, index.stop]}, figures)


if __name__ == "__main__":
    main()
