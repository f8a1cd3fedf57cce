"""IROF: how fast the class's probability falls as an image's segments are removed, the most important first."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fans.errors import choose, extra
from fans.metrics.base import Case, Metric

N_SEGMENTS = 100
"""What SLIC is asked for by default; it rarely returns as many."""


@dataclass(frozen=True)
class IROF(Metric):
    """Area over the curve of the class's probability, as a share of the first, while segments are removed one by one.

    `L - trapezoid(p(x_1) / p(x), ..., p(x_L) / p(x))`, where x_l has the l segments of the highest mean score replaced.
    As published (Quantus): segments are scikit-image's SLIC at its defaults, and a segment takes the mean, over all
    channels, of the image as damaged so far. Of segments with equal mean scores the first goes first; in Quantus the
    sort decides by luck, so that scores with many zeros may differ by some tenths from it.

    With the given class of a misclassified image p(x) may be near 0, and a single image decide the mean: prefer the
    predicted class, and look at medians.

    Args:
        of: the class whose probability is followed, the one `"given"` as the case's target or the `"predicted"` one.
        share: whether to divide by L, the number of segments: at most 1 then.
    """

    name: ClassVar[str] = "irof"
    label: ClassVar[str] = "IROF"
    higher_is_better: ClassVar[bool] = True
    value_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    citation: ClassVar[str] = "Rieger and Hansen, IROF: a low resource evaluation metric for explanation methods, 2020"

    of: Literal["given", "predicted"] = "given"
    share: bool = False

    def __post_init__(self) -> None:
        choose("`of`", self.of, ("given", "predicted"))

    @property
    def asks(self) -> Hashable:
        """Both forms follow one curve."""
        return replace(self, share=False)

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse what has no segments."""
        self.check_images(shape)

    def cost(self, shape: tuple[int, ...]) -> int:
        """The image and each of its segments, as many as SLIC has seeds; it may join some or split one."""
        step = math.sqrt(max(1.0, shape[1] * shape[2] / N_SEGMENTS))
        return 1 + math.prod(len(range(int(step // 2), side, round(step))) for side in shape[1:])

    def score(self, case: Case) -> Tensor:
        """Remove segments from all images at once; both forms of one case share the work."""
        if self.asks not in case.own:
            case.own[self.asks] = self._areas(case)
        value: Tensor
        value, count = case.own[self.asks]
        return value / count if self.share else value

    def _areas(self, case: Case) -> tuple[Tensor, Tensor]:
        """Return the area over the curve and the number of segments, `(B,)` each.

        What an image looks like after some removals does not depend on the model's answers.
        """
        labels = case.remember((self.name, "segments"), lambda: _segments(case.inputs))
        queue = _line_up(case, labels)
        images = case.inputs.flatten(2)

        def make(which: Tensor, copy: Tensor) -> Tensor:
            place, fill, whole = (each.index_select(0, which) for each in (queue.place, queue.fill, images))
            damaged = torch.where((place <= copy[:, None])[:, None], fill[:, None], whole)
            return damaged.view(-1, *case.inputs.shape[1:])

        target = case.target if self.of == "given" else case.classes(case.before)
        before = case.of_target(case.before, target, "probability")
        after = case.ask(queue.count, make, target=target, output="probability")
        count = queue.count.cpu()
        curve = torch.zeros(len(case), int(count.max()), dtype=torch.float64)
        curve[torch.arange(curve.shape[1]) < count[:, None]] = after
        ends = curve[:, 0] + curve.gather(1, count[:, None] - 1)[:, 0]
        return count - (curve.sum(1) - ends / 2) / before, count


@dataclass(frozen=True)
class _Queue:
    """Segments in the order of their removal.

    Attributes:
        count: `(B,)` segments of each image.
        place: `(B, HW)` when each pixel is removed.
        fill: `(B, HW)` what it is replaced by.
    """

    count: Tensor
    place: Tensor
    fill: Tensor


def _segments(images: Tensor) -> Tensor:
    """Return the segment `(B, HW)` of each pixel."""
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise extra("scikit-image", "image", "the segments of IROF") from None
    arrays = np.moveaxis(images.cpu().double().numpy(), 1, -1)
    return torch.stack([torch.from_numpy(slic(a, start_label=0)).flatten() for a in arrays]).long().to(images.device)


def _line_up(case: Case, labels: Tensor) -> _Queue:
    """Order segments by their mean score, and follow the mean of the damaged image, which needs only their sums."""
    of_each = (torch.ones_like(case.inputs), case.scores, case.inputs)
    size, score, value = (_sums(v.double().flatten(2).sum(1), labels) for v in of_each)  # (B, L)
    mean = (score / size.clamp(min=1)).masked_fill(size == 0, -torch.inf)
    order = mean.argsort(dim=1, descending=True, stable=True)
    total, fills = value.sum(1), []
    for segment in torch.split(order, 1, dim=1):
        fills.append(total / size.sum(1))
        total = total + (size.gather(1, segment) * fills[-1][:, None] - value.gather(1, segment))[:, 0]
    place = order.argsort(dim=1).gather(1, labels)
    return _Queue((size > 0).sum(1), place, torch.stack(fills, 1).gather(1, place).to(case.inputs.dtype))


def _sums(values: Tensor, labels: Tensor) -> Tensor:
    """Sum values `(B, HW)` over every segment: `(B, L)`."""
    sums = torch.zeros(len(values), int(labels.max()) + 1, dtype=values.dtype, device=values.device)
    return sums.scatter_add_(1, labels, values)
