"""What explaining images costs: batched against one at a time, against the bare model, against captum; memory.

Ratios come from one run, the two sides turn by turn. Run with `python -m benchmarks.images` (about fifteen minutes).
"""

import resource
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import fans
from benchmarks.measuring import parse_arguments, print_table, ratio, timed, write_record
from fans.datasets import load_slice
from fans.networks import ResNet18, load
from fans.spaces import Image

SEED = 0
N_IMAGES, N_FEWER = 64, 32
FEW_ROWS: dict[str, Any] = {"n_rows": 8}
PAPER_ROWS: dict[str, Any] = {"n_rows": 100}
ONLY_SCORES: dict[str, Any] = {"n_background": 20, "n_local": 20}


class Recorder(nn.Module):
    """A module that keeps how many rows came in each call, and whether gradients flow back through them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.calls: list[tuple[int, bool]] = []

    def forward(self, rows: Tensor) -> Tensor:
        """Return the module's outputs."""
        self.calls.append((len(rows), rows.requires_grad))
        out: Tensor = self.module(rows)
        return out


def one_at_a_time(explainer: fans.Explainer, images: Tensor) -> None:
    for i in range(len(images)):
        explainer.scores(images[i : i + 1], ids=[i])


def batching(model: nn.Module, background: Tensor, images: Tensor, repeats: int) -> dict[str, Any]:
    """(a), (a2): the batched chain against the same one image at a time, and against the released one."""
    out: dict[str, Any] = {}
    for name, rows in (("few rows a step", FEW_ROWS), ("50 perturbations", PAPER_ROWS)):
        made = fans.Explainer(model, background, **rows, **ONLY_SCORES)
        made.scores(images[:2])
        out[name] = ratio(partial(one_at_a_time, made, images), partial(made.scores, images), repeats)
    released = fans.Explainer(model, background, preset="released", n_background=1, n_local=0)
    some = images[: max(2, len(images) // 8)]
    per_image = len(images) / len(some)
    for n_steps in (10, 20):
        ours = fans.Explainer(model, background, n_steps=n_steps, **ONLY_SCORES)
        found = ratio(partial(one_at_a_time, released, some), partial(ours.scores, images), repeats)
        name = f"released, one at a time, against {n_steps} steps"
        out[name] = {k: v * (1 if k == "other_seconds" else per_image) for k, v in found.items()}
    return out


def overhead(model: nn.Module, background: Tensor, images: Tensor, repeats: int) -> dict[str, Any]:
    """(b): a whole explanation against the bare model on as many rows, in full batches of the same size."""
    out = {}
    cases: dict[str, dict[str, Any]] = {
        "chain, cells (default)": {},
        "chain, superpixels": {"space": Image("superpixel")},
        "chain, patches": {"space": Image("patch")},
        "game, patches": {"solver": "game"},
        "game, superpixels": {"solver": "game", "space": Image("superpixel")},
        "game, pixels": {"solver": "game", "space": Image("pixel")},
        "game, patches, uniform noise": {"solver": "game", "baseline": "uniform"},
    }
    for name, settings in cases.items():
        recorder = Recorder(model)
        made = fans.Explainer(recorder, background, **settings)
        recorder.calls.clear()
        made(images)
        plain = sum(n for n, back in recorder.calls if not back)
        back = sum(n for n, back in recorder.calls if back)
        size = made.task.predict.n_seen
        explainer = fans.Explainer(model, background, **settings)
        found = ratio(partial(explainer, images), partial(bare, model, images, plain, back, size), repeats)
        out[name] = found | {"rows": plain / len(images), "rows_with_gradient": back / len(images)}
    return out


def bare(model: nn.Module, images: Tensor, n_plain: int, n_back: int, size: int) -> None:
    """Run the bare model forward on some rows, and forward and back to its input on others."""
    rows = images.repeat(-(-size // len(images)), 1, 1, 1)[:size]
    with torch.no_grad():
        for start in range(0, n_plain, size):
            torch.softmax(model(rows[: min(size, n_plain - start)]).double(), 1)
    for start in range(0, n_back, size):
        part = rows[: min(size, n_back - start)].clone().requires_grad_()
        torch.autograd.grad(torch.softmax(model(part).double(), 1)[:, 0].sum(), part)


def captum_method(name: str, model: nn.Module, labels: Tensor, fill: float) -> Callable[[Tensor, Tensor], None]:
    """Return captum's LIME or KernelSHAP at 500 evaluations, one image after the other, as captum takes them."""
    from captum import attr

    def probability(rows: Tensor) -> Tensor:
        return torch.softmax(model(rows), 1)

    def attribute(images: Tensor, classes: Tensor) -> None:
        method = attr.Lime(probability) if name == "lime" else attr.KernelShap(probability)
        for i in range(len(images)):
            _, mask = torch.unique(labels[i][None, None].expand(1, *images.shape[1:]), return_inverse=True)
            torch.manual_seed(SEED + i)
            base = torch.full_like(images[:1], fill)
            asked = {"n_samples": 500, "perturbations_per_eval": 100, "feature_mask": mask, "baselines": base}
            method.attribute(images[i : i + 1], target=int(classes[i]), **asked)

    return attribute


def against_captum(model: nn.Module, background: Tensor, images: Tensor, repeats: int) -> dict[str, Any]:
    """(c): seconds an image at 500 evaluations on the same superpixels."""
    space = Image("superpixel")
    explainer = fans.Explainer(model, background, space=space, solver="game", n_pairs=225)
    labels = explainer.task.space.units(images.flatten(1)).of_element.view(len(images), *images.shape[2:])
    with torch.no_grad():
        classes = model(images).argmax(1)
    out = {}
    for name in ("lime", "shap"):
        rival = captum_method(name, model, labels, float(background.mean()))
        out[name] = ratio(partial(rival, images, classes), partial(explainer.scores, images), repeats)
    return out


def peak_memory(n_images: int) -> float:
    """(d): the peak memory in MiB of a fresh process that explains so many images."""
    command = [sys.executable, "-m", "benchmarks.images", "--weigh", str(n_images)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout.strip().splitlines()[-1])


def weigh(n_images: int) -> None:
    torch.set_num_threads(1)
    model, _ = load("fashion_mnist")
    background = load_slice("fashion_mnist", "train").tensor()
    images = load_slice("fashion_mnist", "test").tensor().repeat(-(-n_images // 256), 1, 1, 1)[:n_images]
    fans.Explainer(model, background, max_batch=512, n_background=10, n_local=9)(images, progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def pieces(model: nn.Module, background: Tensor, repeats: int) -> dict[str, Any]:
    """(f): the bare model on as many rows as exist at a time, all at once over in the pieces that it sees."""
    asked = fans.Explainer(model, background).task.predict
    n, out = asked.max_batch, dict[str, Any]()
    for name, rows in (("forward", (n, 0)), ("forward and back", (0, n))):
        whole, parts = (partial(bare, model, background, *rows, size) for size in (n, asked.n_seen))
        out[name] = ratio(whole, parts, repeats) | {"rows": n, "piece": asked.n_seen}
    return out


def residual_network(repeats: int, n_images: int) -> dict[str, Any]:
    """(e): images a minute of the game at 500 evaluations on ResNet18; trained or not takes the same time."""
    try:
        model: nn.Module = load("cifar10")[0]
    except fans.InputError:
        model = ResNet18().eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    background, images = load_slice("cifar10", "train").tensor()[:64], load_slice("cifar10", "test").tensor()[:n_images]
    explainer = fans.Explainer(model, background, solver="game", n_pairs=225)
    seconds = [timed(lambda: explainer.scores(images)) for _ in range(repeats)]
    work = partial(bare, model, images, 500 * n_images, 0, explainer.task.predict.n_seen)
    bare_seconds = [timed(work) for _ in range(repeats)]
    return {
        "images_a_minute": 60 * n_images / statistics.median(seconds),
        "ratio_to_bare": statistics.median(seconds) / statistics.median(bare_seconds),
        "pieces": pieces(model, background, repeats),
    }


def large_images(n_images: int) -> dict[str, Any]:
    """(g): ResNet18 with the usual stem on images of 224x224, whole explanations at each effort; trained or not."""
    torch.manual_seed(SEED)
    model = ResNet18().eval()
    model.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
    model.relu1 = nn.Sequential(nn.ReLU(), nn.MaxPool2d(3, 2, 1))  # type: ignore[assignment]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    small = load_slice("cifar10", "test").tensor()[: 8 + n_images]
    images = torch.nn.functional.interpolate(small, size=(224, 224), mode="bilinear").clamp(0, 1)
    out: dict[str, Any] = {}
    for effort in ("low", "normal"):
        recorder = Recorder(model)
        explainer = fans.Explainer(recorder, images[:8], effort=effort, tolerance=0.0)
        recorder.calls.clear()
        seconds = timed(partial(explainer, images[8:]))
        plain, back = (sum(n for n, with_back in recorder.calls if with_back == which) for which in (False, True))
        rows = partial(bare, model, images[8:], plain, back, explainer.task.predict.n_seen)
        out[effort] = {
            "rows": plain / n_images,
            "rows_with_gradient": back / n_images,
            "seconds": seconds / n_images,
            "ratio_to_bare": seconds / timed(rows),
        }
    return out


def measure(model: nn.Module, background: Tensor, images: Tensor, *, quick: bool) -> dict[str, Any]:
    """Return all figures."""
    repeats, fewer = (1 if quick else 3), images[:N_FEWER]
    counts = (8, 16) if quick else (64, 1024)
    peaks = {str(count): peak_memory(count) for count in counts}
    return {
        "batching": batching(model, background, images, repeats),
        "overhead": overhead(model, background, fewer, 1 if quick else 5),
        "captum": against_captum(model, background, fewer, repeats),
        "peak_mib": peaks | {"ratio": peaks[str(counts[1])] / peaks[str(counts[0])]},
        "pieces": pieces(model, background, repeats),
        "resnet18": residual_network(1 if quick else 2, 2 if quick else 4),
        "large": large_images(1 if quick else 4),
    }


def told(found: Mapping[str, float]) -> tuple[str, str]:
    """Return a ratio and its range."""
    return f"{found['ratio']:.2f}", f"{found['lowest']:.2f}-{found['highest']:.2f}"


def asked(found: Mapping[str, float]) -> tuple[str, str]:
    """Return the model rows of an image, and those that go back as well."""
    return f"{found['rows']:.0f}", f"{found['rows_with_gradient']:.0f}"


def show(figures: Mapping[str, Any], n_images: int) -> None:
    print_table(
        f"Other seconds over the batched chain's, LeNet, {n_images} images",
        ("against", "ratio", "range"),
        [(k, *told(v)) for k, v in figures["batching"].items()],
    )
    print_table(
        "Explanation over the bare model on as many rows",
        ("solver, units", "rows an image", "with gradient", "ratio", "range"),
        [(k, *asked(v), *told(v)) for k, v in figures["overhead"].items()],
    )
    print_table(
        "captum over FANS at 500 evaluations an image, same superpixels",
        ("rival", "ratio", "range"),
        [(k, *told(v)) for k, v in figures["captum"].items()],
    )
    print_table("Peak memory", ("images", "MiB"), [(k, f"{v:.2f}") for k, v in figures["peak_mib"].items()])
    shown = [(k, f"{v:.2f}") for k, v in figures["resnet18"].items() if k != "pieces"]
    print_table("ResNet18", ("figure", "value"), shown)
    print_table(
        "ResNet18 on 224x224, a whole explanation",
        ("effort", "rows an image", "with gradient", "seconds", "over the bare model"),
        [(k, *asked(v), f"{v['seconds']:.1f}", f"{v['ratio_to_bare']:.2f}") for k, v in figures["large"].items()],
    )
    print_table(
        "The bare model on all rows at once over in pieces",
        ("model", "pass", "rows", "a piece", "ratio", "range"),
        [
            (name, k, str(v["rows"]), str(v["piece"]), *told(v))
            for name, found in (("LeNet", figures["pieces"]), ("ResNet18", figures["resnet18"]["pieces"]))
            for k, v in found.items()
        ],
    )


def main() -> None:
    if sys.argv[1:2] == ["--weigh"]:
        weigh(int(sys.argv[2]))
        return
    warnings.simplefilter("ignore", fans.FansWarning)
    arguments = parse_arguments(__doc__ or "", "images")
    model, card = load("fashion_mnist")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    background, test = load_slice("fashion_mnist", "train").tensor(), load_slice("fashion_mnist", "test").tensor()
    images = test[: 8 if arguments.quick else N_IMAGES]
    figures = measure(model, background, images, quick=arguments.quick)
    show(figures, len(images))
    settings = {
        "seed": SEED,
        "n_images": len(images),
        "n_overhead": len(images[:N_FEWER]),
        "threads": torch.get_num_threads(),
    }
    write_record(arguments.out, settings | {"model": card.name, "sha256": card.sha256}, figures)


if __name__ == "__main__":
    main()
