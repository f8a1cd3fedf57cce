"""IROF against Quantus 0.4.3, a slow loop, and by hand."""

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage.segmentation import slic

from fans import InputError, MissingExtra
from fans.datasets import load_slice
from fans.metrics import metric
from tests.metrics import quantus_shim
from tests.metrics.material import Recorder, case_of, images, network

needs_quantus = pytest.mark.skipif(bool(quantus_shim.missing()), reason=quantus_shim.missing())


def smooth_images(n, n_channels, side, seed=0):
    """Images with regions, each with segments of its own: blurred noise."""
    coarse, _ = images(n, n_channels, side // 4, seed)
    inputs = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")
    return inputs, images(n, n_channels, side, seed + 1)[1]


@needs_quantus
@pytest.mark.parametrize("n_channels", [1, 2, 3])
def test_equals_quantus(n_channels):
    """Quantus has one score a pixel; the order of the segments is the same for the sum over the channels."""
    inputs, scores = smooth_images(3, n_channels, 16)
    case = case_of(network(n_channels, 16, scale=1.0), inputs, scores)
    with quantus_shim.quantus() as quantus:
        theirs = quantus.IROF(return_aggregate=False, disable_warnings=True)(
            case.model, inputs.numpy(), case.target.numpy(), scores.sum(1, keepdim=True).numpy()
        )
    assert metric("irof")(case).tolist() == pytest.approx(theirs, rel=1e-5, abs=1e-5)


def slow_irof(predict, image, scores, target):
    """Remove, predict, integrate, as the description reads; also the number of segments."""
    cut = slic(np.moveaxis(image, 0, -1).astype("double"), start_label=0)
    order = sorted(set(cut.ravel().tolist()), key=lambda s: -scores[:, cut == s].mean())
    current, curve = image.astype(float), []
    for segment in order:
        mean = current.mean()
        current[:, cut == segment] = mean
        curve.append(predict(current)[target] / predict(image)[target])
    return len(curve) - sum((a + b) / 2 for a, b in itertools.pairwise(curve)), len(curve)


@pytest.mark.parametrize("of", ["given", "predicted"])
def test_equals_a_slow_loop_also_where_images_differ_in_segments(of):
    inputs, scores = images(4, 3, 16)
    scores[1] = scores[1].relu().round()  # ties: the first segment first
    scores[2] = 0
    model = network(3, 16, scale=1.0).double()
    case = case_of(model, inputs.double(), scores)

    def predict(image):
        with torch.no_grad():
            return torch.softmax(model(torch.as_tensor(image, dtype=torch.float64)[None]), 1)[0].numpy()

    expected, counts = [], []
    for image, score, given in zip(inputs.double().numpy(), scores.numpy(), case.target.tolist(), strict=True):
        target = given if of == "given" else int(predict(image).argmax())
        value, count = slow_irof(predict, image, score, target)
        expected.append(value)
        counts.append(count)
    assert len(set(counts)) > 1
    assert metric("irof", of=of)(case).tolist() == pytest.approx(expected, rel=1e-9)
    shares = [value / count for value, count in zip(expected, counts, strict=True)]
    assert metric("irof", of=of, share=True)(case).tolist() == pytest.approx(shares, rel=1e-9)


def test_by_hand():
    """Four pixels, each a segment; P is the first one's value, 0.8.

    Removed first it becomes the mean, 0.4, and stays so: 4 - 3 / 2. Removed last, after 0.4 -> 0.4, 0.2 -> 0.4 and
    0.2 -> 0.45, it becomes 0.5125: 4 - (1 + 1 + (1 + 0.640625) / 2).
    """
    image = torch.tensor([[[[0.8, 0.4], [0.2, 0.2]]]]).repeat(2, 1, 1, 1)
    scores = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]], [[[0.0, 3.0], [2.0, 1.0]]]])
    first = lambda rows: torch.stack([rows[:, 0, 0, 0], 1 - rows[:, 0, 0, 0]], 1)
    case = case_of(first, image, scores, target=torch.tensor([0, 0]))
    assert metric("irof")(case).tolist() == pytest.approx([2.5, 1.1796875], rel=1e-6)


def test_segments_are_cut_once():
    inputs, scores = smooth_images(2, 1, 8)
    case = case_of(network(), inputs, scores)
    metric("irof")(case)
    found = next(entry for key, entry in case.cache.items() if "segments" in str(key))
    found[1].zero_()  # one segment from now on: the curve has one point, and 1 - 0 is left
    assert metric("irof", of="predicted")(replace(case, scores=-scores)).tolist() == [1, 1]


def test_cost_is_close_on_real_images():
    inputs = load_slice("fashion_mnist", "test").tensor(slice(0, 6))
    model = Recorder(network(1, 28))
    metric("irof")(case_of(model, inputs, inputs))
    assert metric("irof").cost((1, 28, 28)) == 82
    assert model.n_rows == pytest.approx(6 * 82, rel=0.1)


def test_what_is_no_image_or_no_class_is_refused():
    rows = torch.rand(2, 5)
    with pytest.raises(InputError, match=r"images .* for 'irof', got inputs of shape \(B, 5\)"):
        metric("irof")(case_of(lambda x: x, rows, rows))
    with pytest.raises(InputError, match="'given', 'predicted', got 'true'"):
        metric("irof", of="true")


def test_without_scikit_image_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    inputs, scores = images()
    with pytest.raises(MissingExtra, match=r"scikit-image for the segments of IROF.*pip install 'fans\[image\]'"):
        metric("irof")(case_of(network(), inputs, scores))
