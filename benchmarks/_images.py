"""What the image benchmarks share: IROF, and the rivals at pixel level and on any units."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.spaces._shared import Blocks

Attribution = Callable[[Tensor, Tensor], Tensor]
"""Images `(n, C, H, W)` and classes `(n,)` to scores `(n, H, W)`."""


def segments(images: Tensor) -> list[np.ndarray[Any, Any]]:
    """Return the metric's own segments of each image `(H, W)`: scikit-image's SLIC at its defaults, as Quantus."""
    from skimage.segmentation import slic

    return [slic(image.numpy().transpose(1, 2, 0), start_label=0) for image in images]


def irof(model: nn.Module, images: Tensor, scores: Tensor, classes: Tensor, cut: list[np.ndarray[Any, Any]]) -> Tensor:
    """Return IROF of each image: the area over the curve of the class's probability as segments are removed.

    Segments go in the order of their mean score `(n, H, W)`, replaced by the mean of the image as it is then.
    """
    n = len(images)
    longest = max(int(s.max()) + 1 for s in cut)
    labels = torch.stack([torch.from_numpy(s) for s in cut]).flatten(1)  # (n, HW)
    count = torch.zeros(n, longest).scatter_add_(1, labels, torch.ones(labels.shape))
    total = torch.zeros(n, longest, dtype=torch.float64).scatter_add_(1, labels, scores.flatten(1).double())
    mean = (total / count.clamp(min=1)).masked_fill(count == 0, -torch.inf)
    order = mean.argsort(dim=1, descending=True, stable=True)
    current = images.flatten(2).clone()  # (n, C, HW)
    with torch.no_grad():
        before = torch.softmax(model(images), 1).gather(1, classes[:, None])[:, 0]
        curves = []
        for step in range(longest):
            hit = labels == order[:, step : step + 1]
            fill = current.mean(2, keepdim=True)
            current = torch.where(hit[:, None], fill, current)
            p = torch.softmax(model(current.view(images.shape)), 1).gather(1, classes[:, None])[:, 0]
            curves.append(p / before)
    curve = torch.stack(curves, 1).double()
    n_cut = (count > 0).sum(1)
    inside = torch.arange(longest) < n_cut[:, None]
    area = (curve * inside).sum(1) - (curve[:, 0] + curve.gather(1, n_cut[:, None] - 1)[:, 0]) / 2
    return n_cut - area


def pooled(scores: Tensor, labels: Tensor) -> Tensor:
    """Give every pixel the mean score of its unit: `(n, H, W)` scores and unit numbers."""
    flat, units = scores.flatten(1).double(), labels.flatten(1)
    size = int(units.max()) + 1
    total = torch.zeros(len(flat), size, dtype=torch.float64).scatter_add_(1, units, flat)
    count = torch.zeros_like(total).scatter_add_(1, units, torch.ones_like(flat))
    return (total / count.clamp(min=1)).gather(1, units).view(scores.shape)


def captum_method(
    name: str,
    model: nn.Module,
    labels: Tensor,
    seed: int,
    n_evaluations: int,
    *,
    fill: float,
    n_steps: int = 50,
    alpha: float = 0.01,
) -> Attribution:
    """Return one of captum's methods; `labels` `(n, H, W)` are the units of the perturbation methods."""
    from captum import attr
    from captum._utils.models.linear_model import SkLearnLasso

    def probability(rows: Tensor) -> Tensor:
        return torch.softmax(model(rows), 1)

    def integrate(images: Tensor, classes: Tensor) -> Tensor:
        base = torch.full_like(images[:1], fill)
        made = attr.IntegratedGradients(model).attribute(images, baselines=base, target=classes, n_steps=n_steps)
        return torch.as_tensor(made.detach().sum(1))

    def one_by_one(images: Tensor, classes: Tensor) -> Tensor:
        out = []
        for i in range(len(images)):
            _, mask = torch.unique(labels[i][None, None].expand(1, *images.shape[1:]), return_inverse=True)
            torch.manual_seed(seed + i)
            asked = {"baselines": torch.full_like(images[:1], fill), "target": int(classes[i]), "feature_mask": mask}
            one = images[i : i + 1]
            if name == "ablation":
                made = attr.FeatureAblation(probability).attribute(one, **asked, perturbations_per_eval=64)
            else:
                asked |= {"n_samples": n_evaluations, "perturbations_per_eval": 100}
                lime = attr.Lime(probability, interpretable_model=SkLearnLasso(alpha=alpha))
                method = lime if name == "lime" else attr.KernelShap(probability)
                made = method.attribute(one, **asked)
            out.append(torch.as_tensor(made.detach().sum(1) / one.shape[1]))
        return torch.cat(out)

    return integrate if name == "ig" else one_by_one


def banzhaf(
    model: nn.Module, images: Tensor, classes: Tensor, labels: Tensor, fill: Tensor, n: int, seed: int
) -> Tensor:
    """Return Banzhaf values of the class's probability on the units, from n evaluations an image in n/2 pairs."""
    random = torch.Generator().manual_seed(seed)
    out = []
    for i in range(len(images)):
        n_units = int(labels[i].max()) + 1
        half = torch.rand(n // 2, n_units, generator=random) < 0.5
        kept = torch.cat([half, ~half])
        mask = kept[:, labels[i].flatten()].view(-1, 1, *labels[i].shape)
        with torch.no_grad():
            p = torch.softmax(model(torch.where(mask, images[i], fill)), 1)[:, classes[i]].double()
        design = kept.double() - 0.5
        gram = design.T @ design
        slopes = torch.linalg.solve(gram + 1e-3 * torch.diag(gram.diagonal() + 1e-9), design.T @ (p - p.mean()))
        out.append(slopes[labels[i]])
    return torch.stack(out)


def smooth_banzhaf(
    model: nn.Module, images: Tensor, classes: Tensor, blocks: Blocks, fill: Tensor, n: int, seed: int
) -> Tensor:
    """Return Banzhaf values of the class's probability, drawn in blocks and regressed under the game's smooth prior."""
    random = torch.Generator().manual_seed(seed)
    rows, columns = blocks.prior(torch.float64)
    side = images.shape[2] // blocks.rows
    out = []
    for i in range(len(images)):
        bits = torch.rand(n // 2, blocks.n, generator=random) < 0.5
        half = blocks.masks(bits, torch.randint(0, blocks.side, (n // 2, 2), generator=random))
        kept = torch.cat([half, ~half]).view(-1, 1, blocks.rows, blocks.columns)
        mask = kept.repeat_interleave(side, 2).repeat_interleave(side, 3)
        with torch.no_grad():
            p = torch.softmax(model(torch.where(mask, images[i], fill)), 1)[:, classes[i]].double()
        design = kept[: n // 2, 0].double() * 2 - 1
        smooth = rows @ design @ columns
        gram = smooth.flatten(1) @ design.flatten(1).T
        weights = torch.linalg.solve(
            gram + 0.3 * gram.diagonal().mean() * torch.eye(n // 2), (p[: n // 2] - p[n // 2 :]) / 2
        )
        values = torch.einsum("m,mhw->hw", weights, smooth)
        out.append(values.repeat_interleave(side, 0).repeat_interleave(side, 1))
    return torch.stack(out)
