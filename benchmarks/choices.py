"""What our choices for images are worth: IROF of each alternative on images that are never reported.

64 Fashion-MNIST test images (5,000 to 5,063), target = predicted class, about 400 (gradient) or 500 (game) model rows
each, the authors' LeNet and ours; the standard errors of the means are large, but all alternatives see the same images.
Run with `python -m benchmarks.choices` (about three minutes; needs FANS_DATA).
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fans
from benchmarks._images import captum_method, irof, segments
from benchmarks._shared import parse_arguments, print_table, write_record
from fans.data import load_images
from fans.models import load, load_released
from fans.spaces import Image
from fans.spaces.image import FittedImage

CHOSEN_ON = slice(5000, 5064)
CLIMB: dict[str, Any] = {"solver": "gradient"}
GAME: dict[str, Any] = {"solver": "game", "n_pairs": 225}
ALONE: dict[str, Any] = {"n_local": 0, "n_background": 0}
SLIC: dict[str, Any] = {"space": Image("superpixel")}

ALTERNATIVES: Mapping[str, dict[str, Any]] = {
    "gradient, as shipped": CLIMB,
    "gradient, 20 steps": CLIMB | {"n_steps": 20},
    "gradient, 13 steps": CLIMB | {"n_steps": 13},
    "gradient, cells drawn singly": CLIMB | {"draw": "features"},
    "gradient, pixels": CLIMB | {"space": Image("pixel")},
    "gradient, superpixels": CLIMB | SLIC,
    "gradient, objective PNS": CLIMB | {"objective": "pns", "l1": 0.0},
    "gradient, temperature 0.5": CLIMB | {"temperature": 0.5},
    "gradient, the paper's indicator": CLIMB | {"indicator": "paper"},
    "gradient, Adam of 0.05": CLIMB | {"optimiser": "adam", "rate": 0.05},
    "gradient, the paper's g": CLIMB | {"relaxed_g": "paper"},
    "gradient, 2 samples of 8 perturbations": CLIMB | {"step_samples": 2, "step_perturb": 8},
    "game": GAME,
    "game, cells drawn singly": GAME | {"draw": "features"},
    "game, pixels": GAME | {"space": Image("pixel")},
    "game, 4x4 patches": GAME | {"space": Image("patch", patch=4)},
    "game, superpixels": GAME | SLIC,
    "game, image alone": GAME | ALONE | {"n_pairs": 250},
    "game, phi 0.5": GAME | {"phi": 0.5},
    "game, uniform noise": GAME | {"baseline": "uniform"},
    "game, blur": GAME | {"baseline": "blur"},
    "game, background": GAME | {"baseline": "background"},
    "game, black": GAME | {"baseline": "zero"},
}
SWAPS = (0.02, 0.05, 0.1)


def score(model: nn.Module, background: Tensor, images: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """Return scores by pixel `(n, H, W)`."""
    return torch.from_numpy(fans.Explainer(model, background, **settings).heatmaps(images))[:, 0]


def try_all(model: nn.Module, background: Tensor, images: Tensor) -> dict[str, dict[str, float]]:
    with torch.no_grad():
        classes = model(images).argmax(1)
    cut, out = segments(images), {}

    def note(name: str, settings: Mapping[str, Any]) -> None:
        values = irof(model, images, score(model, background, images, settings), classes, cut).numpy()
        out[name] = {
            "mean": values.mean(),
            "se": values.std() / np.sqrt(len(values)),
            "median": float(np.median(values)),
        }

    for name, settings in ALTERNATIVES.items():
        note(name, settings)
    shipped = FittedImage.swap_rate
    for rate in SWAPS:
        FittedImage.swap_rate = rate
        note(f"game, {rate:.0%} swapped", GAME)
    FittedImage.swap_rate = shipped
    return out


def released(test: Any, background: Tensor, n: int) -> dict[str, float]:
    """Return IROF and sparseness of `preset="released"` and of its start, as its authors evaluate: true labels."""
    model = load_released(normalise=False).eval()
    images, labels = test.tensor(slice(0, n)) * 2 - 1, torch.from_numpy(test.labels[:n])
    made = fans.Explainer(model, background[:50] * 2 - 1, preset="released", n_background=1, n_local=0)
    end = torch.from_numpy(made.heatmaps(images, target=labels))[:, 0]
    everywhere = torch.zeros(n, *images.shape[2:], dtype=torch.int64)
    begin = captum_method("ig", model, everywhere, 0, 0, fill=0.0, n_steps=32)(images, labels)
    cut, out = segments(images), {}
    for name, scores in (("start", begin), ("end", end)):
        out[f"{name}, IROF"] = float(irof(model, images, scores, labels, cut).mean())
        out[f"{name}, sparseness"] = float(np.mean([gini(s) for s in scores.abs().flatten(1).numpy()]))
    return out


def gini(values: Any) -> float:
    """Return the Gini coefficient."""
    ranked = np.sort(values)
    n = len(ranked)
    return float(((2 * np.arange(1, n + 1) - n - 1) * ranked).sum() / (n * ranked.sum()))


def main() -> None:
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "choices")
    test, background = load_images("fashion_mnist", "test"), load_images("fashion_mnist", "train").tensor(slice(0, 500))
    images = test.tensor(CHOSEN_ON)[: 4 if arguments.quick else None]
    models = {"the authors' LeNet": load_released(), "our LeNet": load("fashion_mnist")[0]}
    figures: dict[str, Any] = {name: try_all(model.eval(), background, images) for name, model in models.items()}
    first, second = figures.values()
    print_table(
        f"IROF on {len(images)} images, mean and standard error",
        ("alternative", *models),
        [(k, *(f"{v[k]['mean']:.1f} ({v[k]['se']:.1f})" for v in (first, second))) for k in first],
    )
    figures["released"] = released(test, background, 4 if arguments.quick else 40)
    print_table(
        "preset='released', true labels", ("figure", "value"), [(k, f"{v:.3f}") for k, v in figures["released"].items()]
    )
    write_record(arguments.out, {"images": [CHOSEN_ON.start, CHOSEN_ON.start + len(images)]}, figures)


if __name__ == "__main__":
    main()
