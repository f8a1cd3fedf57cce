"""The figures of the image benchmarks: IROF and the controls against loops and closed forms."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks._images import banzhaf, irof, pooled, smooth_banzhaf
from fans.spaces._shared import Blocks


class Linear(nn.Module):
    """Two logits, linear in the pixels; nearly linear in probability where they are small."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, images: Tensor) -> Tensor:
        logit = (images[:, 0] * self.weights).sum((1, 2))
        return torch.stack([logit, -logit], 1)


def slow_irof(model: nn.Module, image: Tensor, scores: Tensor, target: int, cut: np.ndarray) -> float:
    """IROF of one image as its description reads: remove, predict, integrate."""
    numbers = sorted(set(cut.ravel().tolist()), key=lambda s: -float(scores[torch.from_numpy(cut) == s].mean()))
    current, before = image.clone(), float(torch.softmax(model(image[None]), 1)[0, target])
    curve = []
    for number in numbers:
        fill = current.mean((1, 2))
        for channel in range(len(current)):
            current[channel][torch.from_numpy(cut) == number] = fill[channel]
        curve.append(float(torch.softmax(model(current[None]), 1)[0, target]) / before)
    return len(curve) - sum((a + b) / 2 for a, b in itertools.pairwise(curve))


def test_irof_equals_a_slow_loop():
    """Also with different numbers of segments in a batch, and channels of different means."""
    random = torch.Generator().manual_seed(0)
    images, scores = torch.rand(3, 2, 6, 6, generator=random), torch.rand(3, 6, 6, generator=random)
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 3))
    cut = [np.arange(36).reshape(6, 6) // 6, np.arange(36).reshape(6, 6) % 4, np.zeros((6, 6), int)]
    classes = torch.tensor([0, 2, 1])
    found = irof(model, images, scores, classes, cut)
    with torch.no_grad():
        expected = [slow_irof(model, *row) for row in zip(images, scores, classes.tolist(), cut, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_pooling_gives_each_unit_its_mean():
    scores, labels = torch.tensor([[[1.0, 3.0], [5.0, 7.0]]]), torch.tensor([[[0, 0], [2, 2]]])
    assert pooled(scores, labels).tolist() == [[[2.0, 2.0], [6.0, 6.0]]]


def test_banzhaf_values_of_a_linear_model_are_its_terms():
    """P is 1/2 + z/2 for small logits z and -z, so that a unit's value is half of what its pixels add to z."""
    random = torch.Generator().manual_seed(1)
    weights = 0.002 * torch.randn(6, 6, generator=random)
    images, labels = torch.rand(2, 1, 6, 6, generator=random), (torch.arange(36).view(6, 6) // 12).expand(2, -1, -1)
    found = banzhaf(Linear(weights), images, torch.tensor([0, 0]), labels, torch.tensor(0.25), 400, 0)
    terms = (images[:, 0] - 0.25) * weights / 2  # softmax of (z, -z): the slope at 0 is 1/2
    expected = 12 * pooled(terms, labels)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=2e-5)


def test_smooth_banzhaf_values_follow_a_smooth_truth():
    """With plenty of evaluations: the order of a smooth bump, up to the prior's smoothing."""
    rows = torch.arange(12.0)
    bump = torch.exp(-((rows[:, None] - 4) ** 2 + (rows - 7) ** 2) / 8)
    images = torch.ones(1, 1, 12, 12)
    blocks = Blocks(12, 12, 2)
    found = smooth_banzhaf(Linear(0.01 * bump), images, torch.tensor([0]), blocks, torch.tensor(0.0), 2000, 0)[0]
    assert np.corrcoef(found.flatten().numpy(), bump.flatten().numpy())[0, 1] > 0.97
    assert divmod(int(found.argmax()), 12) == (4, 7)
