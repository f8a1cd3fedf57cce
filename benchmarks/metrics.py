"""What our metrics cost against Quantus 0.4.3's on the same work: Infidelity as published, and IROF.

LeNet, Fashion-MNIST images, one thread; ours and theirs turn by turn, each from the images and the scores to one number
an image. Nothing is remembered from one turn to the next; of several scores of the same images we ask the model once
(Infidelity) or cut segments once (IROF). Run with `python -m benchmarks.metrics`.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measuring import parse_arguments, print_table, write_record
from fans.datasets import load_slice
from fans.metrics import Case, Metric, metric
from fans.networks import load
from tests.metrics.quantus_shim import VERSION, missing, quantus

SEED = 0
GOAL = 10.0
"""We want to be so many times as fast."""
N_REPEATS, PATCH = 5, 4
"""Of Infidelity, as the FANS authors call it."""
OURS: dict[str, Metric] = {
    "Infidelity (published)": metric("infidelity", kind="published", n_repeats=N_REPEATS, patch=PATCH),
    "IROF": metric("irof"),
}


@dataclass(frozen=True)
class Speed:
    """One metric of some images: seconds an image and scores (medians), and the ratio turn by turn."""

    metric: str
    n_images: int
    n_scores: int
    ours_ms: float
    theirs_ms: float
    ratio: float
    ratio_lowest: float
    ratio_highest: float
    median_ours: float
    median_theirs: float
    largest_difference: float

    @property
    def verdict(self) -> str:
        """Say whether the goal was met."""
        return "met" if self.ratio >= GOAL else "MISSED"


def run_ours(name: str, case: Case, scores: Sequence[Tensor]) -> Any:
    """Return our values, scores by images, with nothing remembered from before."""
    cache: dict[Any, Any] = {}
    return np.stack([OURS[name](replace(case, scores=s, cache=cache)).numpy() for s in scores])


def run_theirs(package: Any, name: str, case: Case, scores: Sequence[Tensor]) -> Any:
    """Return Quantus's values, scores by images."""
    if name == "IROF":
        judge = package.IROF(return_aggregate=False, disable_warnings=True)
    else:
        judge = package.Infidelity(
            perturb_patch_sizes=[PATCH], n_perturb_samples=N_REPEATS, perturb_baseline="uniform", disable_warnings=True
        )
    given = (case.model, case.inputs.numpy(), case.target.numpy())
    return np.stack([judge(*given, s.numpy()) for s in scores])


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds an action takes, and what it returns."""
    started = time.perf_counter()
    out = action()
    return time.perf_counter() - started, out


def measure(package: Any, name: str, case: Case, scores: Sequence[Tensor], n_turns: int) -> Speed:
    """Time ours and theirs turn by turn."""
    run_ours(name, case, scores[:1])
    turns = [
        (timed(lambda: run_ours(name, case, scores)), timed(lambda: run_theirs(package, name, case, scores)))
        for _ in range(n_turns)
    ]
    ratios = [theirs[0] / ours[0] for ours, theirs in turns]
    each = 1000 / (len(case) * len(scores))
    (_, ours), (_, theirs) = turns[-1]
    return Speed(
        metric=name,
        n_images=len(case),
        n_scores=len(scores),
        ours_ms=statistics.median(turn[0][0] for turn in turns) * each,
        theirs_ms=statistics.median(turn[1][0] for turn in turns) * each,
        ratio=statistics.median(ratios),
        ratio_lowest=min(ratios),
        ratio_highest=max(ratios),
        median_ours=float(np.median(ours)),
        median_theirs=float(np.median(theirs)),
        largest_difference=float(np.abs(ours - theirs).max()),
    )


def make_scores(model: nn.Module, images: Tensor, target: Tensor, n: int) -> list[Tensor]:
    """Return `n` scores of all images: the gradient, then noise. None has ties, which Quantus's IROF orders by luck."""
    rows = images.clone().requires_grad_()
    model(rows).gather(1, target[:, None]).sum().backward()
    assert rows.grad is not None
    random = torch.Generator().manual_seed(SEED)
    return [rows.grad, *(torch.randn(images.shape, generator=random) for _ in range(n - 1))]


def show(found: Sequence[Speed]) -> None:
    """Print the table of speeds."""
    header = (
        "metric",
        "images",
        "scores",
        "ours ms",
        "Quantus ms",
        "ratio",
        "range",
        "goal",
        "",
        "median",
        "Quantus's",
    )
    rows = [
        (
            *(f.metric, str(f.n_images), str(f.n_scores), f"{f.ours_ms:.2f}", f"{f.theirs_ms:.2f}", f"{f.ratio:.1f}"),
            *(f"{f.ratio_lowest:.1f}-{f.ratio_highest:.1f}", f">= {GOAL:.0f}", f.verdict),
            *(f"{f.median_ours:.4g}", f"{f.median_theirs:.4g}"),
        )
        for f in found
    ]
    print_table(f"Time of one image and its scores, against Quantus {VERSION} (medians; one thread)", header, rows)


def main() -> None:
    """Measure, print and write the record."""
    arguments = parse_arguments("Our metrics against Quantus's on the same work.", "metrics")
    if missing():
        raise SystemExit(f"This benchmark {missing()}: pip install -c constraints.txt -e '.[dev]'")
    torch.set_num_threads(1)
    n_images, n_turns, n_scores = (3, 2, 2) if arguments.quick else (40, 7, 5)
    images = load_slice("fashion_mnist", "test").tensor(slice(0, n_images))
    model = load("fashion_mnist")[0].eval()
    with torch.no_grad():
        target = model(images).argmax(1)
    scores = make_scores(model, images, target, n_scores)
    case = Case(model, images, scores[0], target, range(n_images), SEED)
    with quantus() as package:
        found = [
            measure(package, name, case, scores[:n], n_turns if n == 1 else max(1, n_turns // 2))
            for name in OURS
            for n in (1, n_scores)
        ]
    show(found)
    settings = {
        "seed": SEED,
        "quick": arguments.quick,
        "quantus": VERSION,
        "n_turns": n_turns,
        "max_batch": case.max_batch,
        "n_threads": 1,
    }
    write_record(arguments.out, settings, {"speed": [asdict(f) | {"verdict": f.verdict} for f in found]})


if __name__ == "__main__":
    main()
