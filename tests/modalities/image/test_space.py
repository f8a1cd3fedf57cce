"""Images: regions, what stands in for them, reference sets, masks, and the game on many pixels."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from scipy.stats import kstest
from torch import nn

import fans
from fans.engine import draws
from fans.engine.neighbourhood import Reference
from fans.methods.fans import game as _game
from fans.modalities.base import Blocks, FeatureSpace, Units
from fans.modalities.image.space import FittedImage
from fans.modalities.image.superpixels import superpixels
from fans.modalities.registry import guess_space
from fans.model import N_AGAIN
from fans.spaces import Image, Table
from fans.task import Task
from tests.oracles import exact_joint_pns, exact_pns

# The samples of most tests are few on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

ENUMERATION: dict[str, Any] = {"input": exact_joint_pns, "subset": exact_pns}


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape)


def total(images: Any) -> Any:
    return np.asarray(images).reshape(len(images), -1).sum(1)


def shaped(channels: str, height: int, width: int, n_channels: int = 2) -> tuple[int, ...]:
    return {
        "first": (n_channels, height, width),
        "last": (height, width, n_channels),
        "none": (height, width),
    }[channels]


def tiles(height: int, width: int, side: int) -> Any:
    """The patch of each pixel `(height, width)`, numbered row by row."""
    across = len(range(0, width, side))
    return np.array([[(y // side) * across + x // side for x in range(width)] for y in range(height)])


def over_channels(planes: Any, channels: str, n_channels: int = 2) -> Any:
    """Repeat `(..., height, width)` along the channel axis, if there is one."""
    if channels == "none":
        return np.asarray(planes)
    axis = -3 if channels == "first" else -1
    return np.repeat(np.expand_dims(planes, axis), n_channels, axis)


def planes_of(images: Any, channels: str) -> Any:
    """Images as `(n, channels, height, width)`."""
    if channels == "none":
        return images[:, None]
    return images if channels == "first" else np.moveaxis(images, -1, 1)


class Recorder:
    """A model that keeps a copy of all it was fed."""

    def __init__(self, model: Any = total) -> None:
        self.model, self.fed = model, list[Any]()

    def __call__(self, images: Any) -> Any:
        self.fed.append(np.array(images))
        return self.model(images)

    @property
    def images(self) -> Any:
        return np.concatenate(self.fed)


def perturbed(x: Any, subset: Any, background: Any, **settings: Any) -> Any:
    """Every perturbed image that the model is shown for the PNS of a subset."""
    model = Recorder()
    fans.pns(model, x, subset, background=background, **{"tolerance": 0.1, "radius": 3.0} | settings)
    asked_again = min(N_AGAIN, max(1, len(background) - 1))
    return model.images[len(background) + asked_again :]


# --- PNS against the enumeration of every perturbation ---------------------------------------------------------------


def curved(rows: Any) -> Any:
    """Two outputs of flat images, with an interaction of the first element and the last."""
    rows = np.asarray(rows).reshape(len(rows), -1)
    weights = np.cos(np.arange(rows.shape[1]))
    first = np.tanh(rows @ weights) + rows[:, 0] * rows[:, -1]
    return np.stack([first, rows @ weights[::-1] - 0.5], 1)


def blurred(images: Any, channels: str, sigma: float) -> Any:
    """SciPy's Gaussian of every plane, its edges weighed anew by that of an image of ones."""
    planes = planes_of(images, channels)
    options: dict[str, Any] = {"sigma": (0, 0, sigma, sigma), "mode": "constant", "truncate": 40.0}
    out = gaussian_filter(planes, **options) / gaussian_filter(np.ones_like(planes), **options)
    return out[:, 0] if channels == "none" else np.moveaxis(out, 1, {"first": 1, "last": -1}[channels])


def own_colour(images: Any, channels: str) -> Any:
    """Images whose every pixel has the mean colour of the image."""
    out = np.empty_like(planes_of(images, channels))
    for image, planes in zip(out, planes_of(images, channels), strict=True):
        for plane, values in zip(image, planes, strict=True):
            plane[:] = values.sum() / values.size
    return out[:, 0] if channels == "none" else np.moveaxis(out, 1, {"first": 1, "last": -1}[channels])


def border_colour(images: Any, channels: str) -> Any:
    """Images whose every pixel has the median colour of the image's four edges; of two in the middle the lower."""
    out = np.empty_like(planes_of(images, channels))
    for image, planes in zip(out, planes_of(images, channels), strict=True):
        for plane, values in zip(image, planes, strict=True):
            edges = sorted([*values[0], *values[-1], *values[:, 0], *values[:, -1]])
            plane[:] = edges[len(edges) // 2 - 1]
    return out[:, 0] if channels == "none" else np.moveaxis(out, 1, {"first": 1, "last": -1}[channels])


@pytest.mark.parametrize("closeness", ["input", "subset"])
@pytest.mark.parametrize("baseline", [0.3, "zero", "mean", "blur", "own", "border", "image"])
@pytest.mark.parametrize(
    ("channels", "height", "width", "n_channels", "side"),
    [("first", 2, 3, 1, 1), ("first", 2, 3, 2, 1), ("last", 3, 2, 2, 1), ("none", 2, 3, 1, 1), ("first", 3, 5, 2, 2),
     ("last", 3, 5, 2, 2), ("none", 5, 5, 1, 3)],
)  # fmt: skip
def test_pns_is_that_of_the_enumeration(channels, height, width, n_channels, side, baseline, closeness):
    shape = shaped(channels, height, width, n_channels)
    background, x = random(12, *shape), random(2, *shape, seed=1)
    background.reshape(12, -1)[:, 1] = 0.25  # an element that is constant counts as scale 1
    labels = over_channels(tiles(height, width, side), channels, n_channels).ravel()
    elements = [np.flatnonzero(labels == f).tolist() for f in range(labels.max() + 1)]
    subset = np.arange(len(elements)) % 2 == 0
    image = random(*shape, seed=2)
    missing = {
        "zero": np.zeros(shape),
        "mean": _channel_means(background, channels),
        "blur": blurred(background, channels, 1.5),
        "own": own_colour(background, channels),
        "border": border_colour(background, channels),
        "image": image,
    }.get(str(baseline), np.full(shape, 0.3))
    missing = np.broadcast_to(missing, background.shape).reshape(12, -1)
    space = Image("patch" if side > 1 else "pixel", patch=side, channels=channels, sigma=1.5)
    for kind, distance in (("target", "rms"), ("fall", "rms"), ("l2", "l2"), ("label", "rms")):
        out = fans.pns(
            curved, x, subset, background=background, space=space, baseline=image if baseline == "image" else baseline,
            radius=1.3, tolerance=0.2, change=kind, distance=distance, target=0, estimator="exact",  # type: ignore[arg-type]
            closeness=closeness,
        )  # fmt: skip
        for i in range(2):
            oracle = ENUMERATION[closeness](
                curved, x[i].ravel(), subset, background.reshape(12, -1), missing, 1.3, 0.2, change=kind,
                distance=distance, elements=elements,
            )  # fmt: skip
            for name, value in oracle.items():
                np.testing.assert_allclose(getattr(out, name)[i], value, rtol=0, atol=1e-9, err_msg=f"{name}, {kind}")


def _channel_means(background: Any, channels: str) -> Any:
    """One image whose every pixel has the mean colour of the background."""
    means = planes_of(background, channels).mean((0, 2, 3))
    planes = np.broadcast_to(means[:, None, None], (len(means), *planes_of(background, channels).shape[2:]))
    return planes[0] if channels == "none" else planes if channels == "first" else np.moveaxis(planes, 0, -1)


@pytest.mark.parametrize("closeness", ["input", "subset"])
def test_pns_of_superpixels_is_that_of_the_enumeration(closeness):
    background, x = random(12, 2, 4, 4), random(2, 2, 4, 4, seed=1)
    space = Image(n_segments=4, compactness=0.2)
    subset = np.array([True, False, False, True])
    out = fans.pns(curved, x, subset, background=background, space=space, baseline=0.1, radius=1.0, tolerance=0.2,
                   target=1, estimator="exact", closeness=closeness)  # fmt: skip
    labels = superpixels(torch.from_numpy(x), 4, 0.2).numpy()
    assert not np.array_equal(labels[0], labels[1])
    for i in range(2):
        of_element = np.concatenate([labels[i].ravel()] * 2)
        elements = [np.flatnonzero(of_element == f).tolist() for f in range(4)]
        oracle = ENUMERATION[closeness](
            curved, x[i].ravel(), subset, background.reshape(12, -1), np.full(32, 0.1), 1.0, 0.2, target=1,
            elements=elements,
        )  # fmt: skip
        for name, value in oracle.items():
            np.testing.assert_allclose(getattr(out, name)[i], value, rtol=0, atol=1e-9, err_msg=name)


# --- Units: a perturbation replaces exactly the pixels of the hit regions, in all channels ---------------------------


def flat_images(n: int, shape: tuple[int, ...]) -> Any:
    """Images of one value each: 1, 2, ..., n."""
    return np.ones((n, *shape)) * np.arange(1.0, n + 1).reshape(n, *[1] * len(shape))


def hits_of(images: Any, n: int) -> Any:
    """Which elements of perturbed `flat_images` took the baseline of -1; all others must be their own image's still."""
    hit = images == -1
    for image, away in zip(images, hit, strict=True):
        kept = set(image[~away])
        assert len(kept) <= 1
        assert kept <= set(range(1, n + 1))
    return hit


@pytest.mark.parametrize("channels", ["first", "last", "none"])
@pytest.mark.parametrize(("height", "width", "side"), [(4, 6, 2), (5, 7, 3), (3, 4, 1), (4, 3, 9)])
def test_a_patch_is_its_pixels_in_all_channels(channels, height, width, side):
    shape = shaped(channels, height, width)
    background = flat_images(6, shape)
    labels = over_channels(tiles(height, width, side), channels)
    space = Image("patch", patch=side, channels=channels)
    names = space.fit(background).feature_names
    assert len(names) == labels.max() + 1
    for unit in (0, labels.max() // 2, labels.max()):
        subset = np.arange(len(names)) == unit
        images = perturbed(
            np.full(shape, 3.0), subset, background, space=space, baseline=-1.0, phi=1, n_factual=1, n_perturb=1
        )
        hit = hits_of(images, 6)
        on_subset, on_rest = hit[:6], hit[6:]
        assert (on_subset == (labels == unit)).all()
        assert (on_rest == (labels != unit)).all()
        assert len(on_rest) == (6 if len(names) > 1 else 0)
        y, x = np.argwhere(tiles(height, width, side) == unit).T
        if side > 1:
            assert names[unit] == f"rows {y.min()}-{y.max()}, columns {x.min()}-{x.max()}"


def test_names_of_pixels():
    fitted = Image("pixel").fit(random(3, 2, 2, 3))
    assert fitted.feature_names == tuple(f"row {y}, column {x}" for y in range(2) for x in range(3))


@pytest.mark.parametrize("channels", ["first", "last", "none"])
@pytest.mark.parametrize("unit", ["patch", "superpixel", "pixel"])
def test_random_hits_are_unions_of_whole_units(channels, unit):
    shape = shaped(channels, 6, 5)
    x = 1 + 3 * random(*shape)
    background = flat_images(4, shape)
    space = Image(unit, n_segments=6, patch=3, compactness=0.2, channels=channels)
    labels = tiles(6, 5, 3 if unit == "patch" else 1)
    if unit == "superpixel":
        labels = superpixels(torch.from_numpy(planes_of(x[None], channels)), 6, 0.2)[0].numpy()
    n_units = labels.max() + 1
    subset = np.arange(n_units) < n_units // 2
    images = perturbed(x, subset, background, space=space, baseline=-1.0, n_factual=40, n_perturb=40)
    hit = hits_of(images, 4)
    of_element = over_channels(labels, channels)
    first = [np.argwhere(of_element == f)[0] for f in range(n_units)]
    units_hit = np.stack([hit[(slice(None), *place)] for place in first], 1)
    np.testing.assert_array_equal(hit, units_hit[:, of_element])
    inside = units_hit[:, subset].any(1)
    assert not (inside & units_hit[:, ~subset].any(1)).any()
    assert units_hit[inside][:, subset].mean(0) == pytest.approx(0.5, abs=0.25)
    assert units_hit[~inside][:, ~subset].mean(0) == pytest.approx(0.5, abs=0.25)


def in_order(images: Any) -> Any:
    rows = images.reshape(len(images), -1)
    return rows[np.lexsort(rows.T)]


def test_every_image_of_a_batch_has_its_own_superpixels():
    """What a batch shows the model is what its images show it one by one."""
    x, background = 1 + 4 * random(5, 2, 6, 5), flat_images(6, (2, 6, 5))
    space = Image(n_segments=6, compactness=0.1)
    labels = superpixels(torch.from_numpy(x), 6, 0.1)
    assert all(not torch.equal(labels[0], other) for other in labels[1:])
    settings: dict[str, Any] = {"space": space, "baseline": -1.0, "n_factual": 5, "n_perturb": 5}
    subset = np.arange(30).reshape(5, 6) % 4 == 0
    together = perturbed(x, subset, background, **settings)
    alone = [perturbed(x[i], subset[i], background, ids=[i], **settings) for i in range(5)]
    np.testing.assert_array_equal(in_order(together), in_order(np.concatenate(alone)))
    one = perturbed(x[3], np.arange(6) == 2, background, **settings | {"phi": 1, "n_factual": 1, "n_perturb": 1})
    assert (hits_of(one[:6], 6) == np.asarray(labels[3] == 2)).all()


def explain(model: Any, background: Any, x: Any, **settings: Any) -> fans.Explanation:
    small = {
        "n_pairs": 60,
        "n_sweep": 100,
        "n_background": 10,
        "n_local": 9,
        "n_factual": 2,
        "n_perturb": 2,
        "phi": 0.5,
    }
    call = {"ids": settings.pop("ids", None)}
    return fans.Explainer(model, background, **small | settings)(x, **call)


@pytest.mark.parametrize("max_batch", [5, 40, 10_000])
def test_elements_of_superpixels_are_each_images_own_however_many_are_explained_at_a_time(max_batch):
    x, background = random(4, 1, 6, 5), random(8, 1, 6, 5, seed=1)
    space = Image(n_segments=6, compactness=0.1)
    out = explain(total, background, x, space=space, max_batch=max_batch, n_pairs=10, n_background=3, n_local=2)
    labels = superpixels(torch.from_numpy(x), 6, 0.1).numpy()
    np.testing.assert_array_equal(out.elements, labels[:, None])
    np.testing.assert_array_equal(out.heatmap[:, 0], [s[one] for s, one in zip(out.scores, labels, strict=True)])
    np.testing.assert_array_equal(out[2].elements, labels[2:3, None])


# --- Absent features -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_absent() -> tuple[Any, Any]:
    """Five images that have nine superpixels or fewer, and which they have."""
    x = torch.rand(5, 2, 6, 5, generator=torch.Generator().manual_seed(0)).double()
    labels = superpixels(x, 9, 0.05)
    present = np.array([[f in one for f in range(9)] for one in labels.flatten(1).tolist()])
    assert present.sum(1).tolist() == [8, 9, 9, 9, 9]
    return x.numpy(), present


@pytest.mark.parametrize("enough", [0.5, 1.0])
def test_absent_superpixels_are_never_chosen(with_absent, enough):
    x, present = with_absent
    out = explain(total, random(10, 2, 6, 5), x, space=Image(n_segments=9, compactness=0.05), enough=enough)
    np.testing.assert_array_equal(out.present, present)
    assert not out.subset[~present].any()
    assert (out.scores[~present] == 0).all()
    assert out.scores_se is not None
    assert (out.scores_se[~present] == 0).all()
    assert (out.stability[~present] == 0).all()
    assert np.isnan(out.direction[~present]).all()
    assert (out.scores[present] != 0).all()
    for i in range(2):
        space = Image(n_segments=9, compactness=0.05)
        one = explain(total, random(10, 2, 6, 5), x[i], space=space, enough=enough, ids=[i])
        np.testing.assert_allclose(one.scores[0], out.scores[i], atol=1e-9)
        np.testing.assert_allclose(one.pns[0], out.pns[i], atol=1e-9)


def test_an_absent_superpixel_in_a_subset_says_nothing(with_absent):
    x, present = with_absent
    absent = np.flatnonzero(~present[0])
    without = np.arange(9) % 2 == 1
    having = without.copy()
    without[absent], having[absent] = False, True
    settings: dict[str, Any] = {"background": random(10, 2, 6, 5), "space": Image(n_segments=9, compactness=0.05)}
    a, b = (fans.pns(total, x[0], s, radius=2.0, **settings) for s in (without, having))
    assert (a.pns, a.n_evaluations) == (b.pns, b.n_evaluations)
    everything = fans.pns(total, x[0], present[0], radius=2.0, **settings)
    assert (everything.pn[0], everything.holds[0], everything.notes[0]) == (1.0, 1.0, "")
    assert everything.ps[0] == everything.pns[0] == everything.changes[0] > 0
    of_subset = fans.pns(total, x[0], present[0], radius=2.0, closeness="subset", **settings)
    assert (of_subset.pn[0], of_subset.holds[0], np.isnan(of_subset.ps[0])) == (1.0, 1.0, True)
    assert of_subset.notes[0] == "PS is undefined: nothing is left outside the subset"
    assert (
        fans.pns(total, x[0], ~present[0], radius=2.0, **settings)
        .notes[0]
        .startswith("PN is undefined: the subset is empty")
    )


@dataclass(frozen=True)
class Given(FeatureSpace):
    """Regions given by labels `(height, width)` below `n`; those without a pixel are absent."""

    baselines: ClassVar[tuple[str, ...]] = Image.baselines

    labels: Any
    n: int

    def fit(self, background: Any) -> FittedImage:
        labels, n = torch.from_numpy(self.labels), self.n

        class Fitted(FittedImage):
            def units(self, rows: torch.Tensor, of: torch.Tensor | None = None) -> Units:  # noqa: ARG002
                self.feature_names = tuple(map(str, range(n)))
                return self._sized(labels.flatten()[self._pixel].expand(len(rows), -1), shared=False)

        fitted = Fitted(Image(), background)
        fitted.units(torch.zeros(1, 1))
        return fitted


def test_absent_features_leave_draws_and_results_as_they_were():
    labels = tiles(4, 6, 2)
    background, x = random(10, 2, 4, 6), random(3, 2, 4, 6, seed=1)
    settings: dict[str, Any] = {"n_local": 0, "n_pairs": 100, "tolerance": 0.3, "radius": 2.0}
    lean, padded = (explain(total, background, x, space=Given(labels, n), **settings) for n in (6, 9))
    np.testing.assert_allclose(padded.scores[:, :6], lean.scores, rtol=1e-6)  # closeness is in single precision
    assert lean.scores_se is not None
    assert padded.scores_se is not None
    np.testing.assert_allclose(padded.scores_se[:, :6], lean.scores_se, rtol=1e-6)
    assert not padded.scores[:, 6:].any()
    np.testing.assert_array_equal(padded.evaluations["scoring"], lean.evaluations["scoring"])
    subset = np.arange(9) % 2 == 0
    found = [fans.pns(total, x, subset[:n], background=background, space=Given(labels, n), radius=2.0) for n in (6, 9)]
    for name in ("pns", "pn", "ps", "p_ab", "p_nab", "se", "interval"):
        np.testing.assert_allclose(getattr(found[1], name), getattr(found[0], name), rtol=1e-12, err_msg=name)


# --- Baselines -------------------------------------------------------------------------------------------------------

COLOURS = random(8, 2, 4, 6) * 4 - 1
"""A background of values from -1 to 3."""

EVERYTHING: dict[str, Any] = {"phi": 1, "subset": np.ones(6, bool), "background": COLOURS, "x": COLOURS[0]}


@pytest.mark.parametrize(("value_range", "low", "high"), [(None, COLOURS.min(), COLOURS.max()), ((-5, 5.0), -5.0, 5.0)])
def test_uniform_noise(value_range, low, high):
    space = Image("patch", patch=2, value_range=value_range)
    images = perturbed(**EVERYTHING, space=space, baseline="uniform", n_factual=500, n_perturb=500)
    n = 8 * 500
    assert images.shape == (n, 2, 4, 6)
    assert low < images.min() < low + 0.01 * (high - low)
    assert high - 0.01 * (high - low) < images.max() < high
    span = high - low
    assert np.abs(images.mean(0) - (low + high) / 2).max() < 4.5 * span / np.sqrt(12 * n)
    assert np.abs(images.var(0) / (span**2 / 12) - 1).max() < 4.5 * np.sqrt(0.8 / n)  # kurtosis 1.8
    correlation = np.corrcoef(images.reshape(n, -1).T) - np.eye(48)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(n)
    assert len(np.unique(images[:, 0, 0, 0])) > 0.9 * n  # fresh for every draw
    assert kstest((images.ravel() - low) / span, "uniform").pvalue > 1e-3


def test_uniform_noise_leaves_what_is_not_hit():
    def ask(seed: int) -> Any:
        return perturbed(
            COLOURS[0],
            np.arange(6) < 3,
            COLOURS,
            space=Image("patch", patch=2),
            baseline="uniform",
            n_factual=20,
            n_perturb=20,
            seed=seed,
        )

    images = ask(0)
    kept = images[:, None] == COLOURS  # (n, 8, ...)
    own = kept[np.arange(len(kept)), kept.sum((2, 3, 4)).argmax(1)]
    labels = over_channels(tiles(4, 6, 2), "first")
    for unit in range(6):
        part = own[:, labels == unit]
        assert (part.all(1) | ~part.any(1)).all()
        assert 0.2 < (~part.any(1)).mean() < 0.37  # half of the time, when its side of three is perturbed and moves
    np.testing.assert_array_equal(images, ask(0))
    assert np.isin(ask(1), images[~np.isin(images, COLOURS)]).mean() < 0.05


def assert_mixtures(images: Any, background: Any, missing: Any, labels: Any) -> None:
    """Every image is one of the background with whole regions taken from `missing` (one, or one for each)."""
    missing = np.broadcast_to(missing, background.shape)
    for image in images:
        kept, replaced = np.isclose(image, background, atol=1e-12), np.isclose(image, missing, atol=1e-12)
        origin = int((kept | replaced).reshape(len(background), -1).all(1).argmax())
        assert (kept | replaced)[origin].all()
        for unit in range(labels.max() + 1):
            assert kept[origin][labels == unit].all() or replaced[origin][labels == unit].all()


@pytest.mark.parametrize("channels", ["first", "last", "none"])
@pytest.mark.parametrize("baseline", ["mean", "zero", "blur", "own", "border", 0.7, "an image"])
def test_fixed_baselines_and_blur(baseline, channels):
    shape = shaped(channels, 4, 6)
    background, image = random(5, *shape) + 0.1, random(*shape, seed=3)
    missing = {
        "mean": _channel_means(background, channels),
        "zero": np.zeros(shape),
        "blur": blurred(background, channels, 1.0),
        "own": own_colour(background, channels),
        "border": border_colour(background, channels),
        "an image": image,
    }.get(str(baseline), np.full(shape, 0.7))
    space = Image("patch", patch=2, channels=channels)
    given = image if baseline == "an image" else baseline
    settings: dict[str, Any] = {"space": space, "baseline": given, "n_factual": 6, "n_perturb": 6}
    images = perturbed(background[0], np.arange(6) < 2, background, **settings)
    labels = over_channels(tiles(4, 6, 2), channels)
    assert len(images) > 40
    assert_mixtures(images, background, missing, labels)
    whole = perturbed(background[0], [True] * 6, background, **settings | {"phi": 1, "n_factual": 1, "n_perturb": 1})
    np.testing.assert_allclose(whole, np.broadcast_to(missing, background.shape), atol=1e-12)


def test_own_and_border_colours_by_hand():
    """A white ring around grey: 12 pixels of 1 and 4 of 0.2 have a mean of 0.8; the border is white."""
    ring = np.ones((4, 4))
    ring[1:3, 1:3] = 0.2
    images = np.stack([ring, 1 - ring])
    space = Image("patch", patch=4)
    for baseline, expected in (("own", [0.8, 0.2]), ("border", [1.0, 0.0])):
        seen = perturbed(images[0], [True], images, space=space, baseline=baseline, phi=1)
        np.testing.assert_allclose(seen, np.array(expected)[:, None, None] * np.ones((4, 4)), atol=1e-12)


@pytest.mark.parametrize("channels", ["first", "last", "none"])
@pytest.mark.parametrize("baseline", [None, "blank"])
def test_a_blank_is_the_own_colour_or_the_borders_each_asked_once(channels, baseline):
    shape = shaped(channels, 4, 6)
    background = random(5, *shape) + 0.1
    settings: dict[str, Any] = {"space": Image("patch", patch=2, channels=channels), "baseline": baseline, "phi": 1}
    own, border = own_colour(background, channels), border_colour(background, channels)
    missing = np.stack([own, border], 1).reshape(10, *shape)
    whole = perturbed(background[0], [True] * 6, background, **settings, n_perturb=3)
    np.testing.assert_allclose(whole, missing, atol=1e-12)
    part = perturbed(background[0], np.arange(6) < 2, background, **settings, n_perturb=3)
    labels, samples = over_channels(tiles(4, 6, 2), channels), np.repeat(background, 2, 0)
    expected = [np.where(hit, missing, samples) for hit in (labels < 2, labels >= 2)]
    np.testing.assert_allclose(part, np.concatenate(expected), atol=1e-12)
    in_turns = perturbed(background[0], [True] * 6, background, **settings | {"phi": 1 - 1e-9}, n_perturb=3)
    np.testing.assert_allclose(in_turns, np.stack([own, own, border], 1).reshape(15, *shape), atol=1e-12)


def test_pns_with_a_blank_is_that_of_the_enumeration():
    """A third of the perturbations has the one colour, two thirds the other, on either side."""
    background, x = random(12, 2, 4, 4), random(2, 2, 4, 4, seed=1)
    labels = over_channels(tiles(4, 4, 2), "first").ravel()
    elements = [np.flatnonzero(labels == f).tolist() for f in range(4)]
    subset = np.array([True, False, True, False])
    own, border = (colour(background, "first").reshape(12, -1) for colour in (own_colour, border_colour))
    found = fans.pns(curved, x, subset, background=background, space=Image("patch", patch=2), radius=1.3, tolerance=0.2,
                     target=0, phi=1, n_perturb=3)  # fmt: skip
    for i in range(2):
        oracle = exact_joint_pns(
            curved, x[i].ravel(), subset, background.reshape(12, -1), own, 1.3, 0.2, phi=1, elements=elements,
            alternatives=[own, own, border],
        )  # fmt: skip
        for name, value in oracle.items():
            np.testing.assert_allclose(getattr(found, name)[i], value, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(("size", "sigma", "used"), [(24, None, 3.0), (4, None, 1.0), (24, 0.5, 0.5)])
def test_the_blur_is_an_eighth_of_the_longer_side_by_default(size, sigma, used):
    background = random(3, 2, 4, size)
    whole = perturbed(
        background[0], [True], background, space=Image("patch", patch=size, sigma=sigma), baseline="blur", phi=1,
        n_factual=1, n_perturb=1,
    )  # fmt: skip
    np.testing.assert_allclose(whole, blurred(background, "first", used), atol=1e-12)


def test_a_blurred_copy_is_of_the_perturbed_sample_itself_local_copies_included():
    model = Recorder()
    out = explain(model, COLOURS, COLOURS[0], baseline="blur", space=Image("patch", patch=4), phi=1, n_local=5)
    labels = over_channels(tiles(4, 6, 4), "first")
    samples = np.concatenate([COLOURS, model.images[12:18]])  # the background (four asked again), x and its copies
    np.testing.assert_array_equal(samples[8], COLOURS[0])
    assert_mixtures(model.images[18:], samples, blurred(samples, "first", 1.0), labels)
    assert out.evaluations["reference"][0] == 6


def test_a_missing_region_comes_from_one_other_background_image():
    settings: dict[str, Any] = {"baseline": "background", "n_factual": 20, "n_perturb": 20}
    images = perturbed(COLOURS[0], np.arange(6) < 4, COLOURS, space=Image("patch", patch=2), **settings)
    labels = over_channels(tiles(4, 6, 2), "first")
    pairs = set()
    for image in images:
        of = image == COLOURS
        owners = frozenset(np.flatnonzero(of.any((1, 2, 3))))
        assert len(owners) <= 2
        for unit in range(6):
            assert of[:, labels == unit].all(1).sum() == 1  # the whole of it, in both channels, from one image
        pairs.add(owners)
    assert len(pairs) > 25  # of 28 pairs, and 8 images wholly replaced
    whole = perturbed(**EVERYTHING, space=Image("patch", patch=2), **settings)
    assert len(whole) == 8 * 20  # none is replaced by itself, which would move nothing
    donors = (whole[:, None] == COLOURS).all((2, 3, 4))
    assert (donors.sum(1) == 1).all()
    assert not donors[np.arange(160), np.arange(160) // 20].any()


def test_baselines_keep_the_precision_of_the_background():
    fitted = Image("pixel").fit(random(3, 2, 2))
    rows = fitted.encode(random(3, 2, 2), "background")
    baseline: Any = fitted.baseline(0.1, rows)
    assert baseline.row.tolist() == [0.1] * 4


# --- Reference sets --------------------------------------------------------------------------------------------------


def around(x: Any, n_background: int, n_local: int, noise: float, **settings: Any) -> tuple[Task, Reference, Any]:
    task = Task.bind(total, COLOURS, space=Image("patch", patch=2), **settings)
    rows = task.space.encode(x, "x")
    pool, _ = Reference.around(task, rows, list(range(len(rows))), 0, n_background, n_local, noise)
    return task, pool, pool.samples().numpy().reshape(len(rows), -1, 2, 4, 6)


INPUTS = random(3, 2, 4, 6, seed=5) * 2


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_reference_images_from_data_alone(noise):
    _, pool, samples = around(INPUTS, 5, 0, noise)
    assert samples.shape == (3, 6, 2, 4, 6)
    np.testing.assert_array_equal(samples[:, 5], INPUTS)
    for i in range(3):
        np.testing.assert_array_equal(samples[i, :5], COLOURS[pool.source[:5]])
    assert len(set(pool.source[:5].tolist())) == 5
    assert pool.source[5:].tolist() == [-1] * 3


def test_noisy_copies_alone():
    background = COLOURS.copy()
    background[:, 1, 2, 3] = 0.5  # constant: gets no noise
    task = Task.bind(total, background, space=Image("patch", patch=2))
    pool, outputs = Reference.around(task, task.space.encode(INPUTS, "x"), [0, 1, 2], 0, 0, 400, 0.25)
    samples = pool.samples().numpy().reshape(3, 401, 2, 4, 6)
    np.testing.assert_array_equal(samples[:, 0], INPUTS)
    np.testing.assert_allclose(outputs[:, 0], total(INPUTS))
    moved = samples[:, 1:] - INPUTS[:, None]
    constant = np.zeros((2, 4, 6), bool)
    constant[1, 2, 3] = True
    assert not moved[..., constant].any()
    z = (moved[..., ~constant] / (0.25 * background.std(0)[~constant])).ravel()
    assert kstest(z, "norm").pvalue > 1e-3
    assert len(np.unique(z)) == z.size


def test_swapped_copies_take_whole_regions_of_one_background_image():
    _, pool, samples = around(INPUTS, 0, 300, 0.0)
    labels = over_channels(tiles(4, 6, 2), "first")
    swapped = np.zeros((3, 300, 6), bool)
    for i in range(3):
        for j in range(300):
            copy = samples[i, 1 + j]
            donors = set()
            for unit in range(6):
                region = labels == unit
                own = np.array_equal(copy[region], INPUTS[i][region])
                donor = (copy[region] == COLOURS[:, region]).all(1)
                assert own or donor.sum() == 1
                donors |= set() if own else {int(donor.argmax())}
                swapped[i, j, unit] = not own
            assert len(donors) <= 1
    assert np.abs(swapped.mean((0, 1)) - 1 / 6).max() < 4.5 * np.sqrt(5 / 36 / 900)  # a rate of 1/6, for six features
    assert pool.source.tolist() == [-1] * 903


def test_both_kinds_of_reference_images():
    _, pool, samples = around(INPUTS, 3, 4, 0.0)
    assert samples.shape == (3, 8, 2, 4, 6)
    np.testing.assert_array_equal(samples[0, :3], samples[2, :3])
    np.testing.assert_array_equal(samples[:, 3], INPUTS)
    assert pool.source.tolist() == [*pool.source[:3].tolist(), *[-1] * 15]
    assert not np.array_equal(samples[0, 4:], samples[1, 4:])
    _, _, alone = around(INPUTS, 3, 4, 0.0)
    np.testing.assert_array_equal(alone, samples)


def test_constant_up_to_rounding_is_constant():
    """Float32 values one rounding apart are no scale to measure by: such a pixel counts as scale 1."""
    background = COLOURS.astype(np.float32)
    background[::2, 0, 0, 0], background[1::2, 0, 0, 0] = 0.1, np.nextafter(np.float32(0.1), np.float32(1))
    scale = Image("pixel").fit(background).scale.view(2, 4, 6)
    assert scale[0, 0, 0] == 1
    np.testing.assert_allclose(scale[1], background.std(0)[1], rtol=1e-5)


# --- Masks of pixels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", ["first", "last", "none"])
@pytest.mark.parametrize("unit", ["patch", "superpixel", "pixel"])
def test_a_region_is_in_a_mask_if_most_of_it_is(unit, channels):
    x = random(3, *shaped(channels, 6, 5), seed=4)
    fitted = Image(unit, n_segments=6, patch=4, compactness=0.1, channels=channels).fit(x)
    units = fitted.units(fitted.encode(x, "x"))
    labels = np.stack([tiles(6, 5, 4 if unit == "patch" else 1)] * 3)
    if unit == "superpixel":
        labels = superpixels(torch.from_numpy(planes_of(x, channels)), 6, 0.1).numpy()
    masks = random(3, 6, 5, seed=9) > 0.4
    masks[0, :4, :4] = np.arange(4) < 2  # exactly half of a patch is not most of it

    def expected(mask: Any, one: Any) -> list[bool]:
        return [bool(mask[one == f].sum() > (one == f).sum() / 2) for f in range(fitted.n_features)]

    own = fitted.feature_subset(masks, units, 3).tolist()
    assert own == [expected(m, one) for m, one in zip(masks, labels, strict=True)]
    shared = fitted.feature_subset(masks[1], units, 3).tolist()
    assert shared == [expected(masks[1], one) for one in labels]
    assert fitted.feature_subset(torch.from_numpy(masks[1]), units, 3).tolist() == shared
    alone = fitted.units(fitted.encode(x[2], "x"))
    assert fitted.feature_subset(masks[2:], alone, 1).tolist() == [expected(masks[2], labels[2])]


def test_masks_through_pns_and_score():
    background = random(8, 1, 4, 4)
    mask = np.zeros((4, 4), bool)
    mask[:2, 2:] = True
    space, features = Image("patch", patch=2), [False, True, False, False]

    def ask(subset: Any) -> Any:
        return fans.pns(total, background[:3], subset, background=background, space=space, radius=2.0).pns

    np.testing.assert_array_equal(ask(mask), ask(features))
    np.testing.assert_array_equal(ask(np.stack([mask] * 3)), ask(features))
    np.testing.assert_array_equal(ask(["rows 0-1, columns 2-3"]), ask(features))
    explainer = fans.Explainer(total, background, space=space, n_background=8, n_local=5)
    np.testing.assert_array_equal(
        explainer.score(background[:2], mask).pns, explainer.score(background[:2], features).pns
    )


def test_a_subset_of_features_in_the_shape_of_an_image_is_one_of_features():
    """Four images of 4x4 in four patches: (4, 4) is the batch by features."""
    background = random(8, 1, 4, 4)
    fitted = Image("patch", patch=2).fit(background)
    rows = fitted.encode(background[:4], "x")
    np.testing.assert_array_equal(fitted.feature_subset(np.eye(4, dtype=bool), fitted.units(rows), 4), np.eye(4))


# --- The guess of the space ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((5, 3, 32, 32), "first"), ((5, 1, 28, 28), "first"), ((5, 28, 28, 1), "last"), ((5, 32, 20, 3), "last"),
     ((5, 32, 20, 4), "last"), ((5, 28, 28), "none"), ((5, 4, 6, 8), "first"), ((5, 10, 28, 28), "first"),
     ((5, 1, 2, 2), "first"), ((5, 3, 3), "none")],
)  # fmt: skip
def test_images_are_guessed_with_their_channels(shape, channels):
    background = random(*shape)
    space = guess_space(background)
    assert isinstance(space, Image)
    fitted = space.fit(background)
    height, width = {"first": shape[2:], "last": shape[1:3], "none": shape[1:]}[channels]
    rows = fitted.encode(background, "x")
    planes = fitted.planes(rows)
    assert planes.shape[-2:] == (height, width)
    np.testing.assert_array_equal(planes, planes_of(background, channels))
    np.testing.assert_array_equal(fitted.decode(rows), background)
    assert fitted.shape == shape[1:]


def test_other_spaces_are_guessed_too():
    assert isinstance(guess_space(random(5, 3)), Table)
    with pytest.raises(fans.InputError, match=r"got shape \(5, 2, 2, 2, 2\); pass `space=`"):
        guess_space(random(5, 2, 2, 2, 2))


ARRAYS = [
    (np.float16, "32"),
    (np.float32, "32"),
    (np.float64, "64"),
    (np.longdouble, "64"),
    (">f4", "32"),
    (">f8", "64"),
]
TENSORS = [(torch.float16, "32"), (torch.bfloat16, "32"), (torch.float32, "32"), (torch.float64, "64")]


@pytest.mark.parametrize(("dtype", "bits"), [*ARRAYS, *TENSORS])
def test_number_types_of_images(dtype, bits):
    """Arrays reach a callable as arrays, tensors as tensors, of the background's precision."""
    images: Any = random(6, 1, 4, 4)
    form: Any = torch.Tensor if isinstance(dtype, torch.dtype) else np.ndarray
    images = torch.from_numpy(images).to(dtype) if form is torch.Tensor else images.astype(dtype)
    seen = []

    def model(batch: Any) -> Any:
        seen.append(batch)
        return batch.sum((1, 2, 3))

    fans.pns(model, images[0], [True], background=images, space=Image("patch", patch=4), radius=2.0)
    assert {type(batch) for batch in seen} == {form}
    assert {str(batch.dtype).removeprefix("torch.") for batch in seen} == {f"float{bits}"}


# --- Determinism -----------------------------------------------------------------------------------------------------


def convolution(size: int) -> nn.Module:
    torch.manual_seed(0)
    width = (size - 2) // 2
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * width * width, 3)
    )  # fmt: skip


NAMES = ("scores", "scores_se", "pns", "pn", "ps", "interval", "radius", "tolerance", "prediction", "heatmap")


@pytest.mark.parametrize(
    ("unit", "size", "n_pairs", "baseline"),
    [
        ("superpixel", 8, 60, "mean"),
        ("superpixel", 8, 60, "uniform"),
        ("pixel", 8, 60, "background"),
        ("pixel", 11, 200, "mean"),
        ("patch", 8, 60, "blur"),
        ("cell", 11, 200, "blank"),
        ("patch", 8, 60, "border"),
    ],
)
def test_batches_do_not_matter(unit, size, n_pairs, baseline):
    """Also where the game draws blocks: 121 pixels are more than it tells apart."""
    images, background = (random(n, 1, size, size, seed=n).astype(np.float32) for n in (64, 20))
    model, ids = convolution(size), [f"image {i}" for i in range(64)]
    settings: dict[str, Any] = {
        "space": Image(unit, n_segments=9, compactness=0.1), "n_pairs": n_pairs, "n_sweep": 20, "n_background": 6,
        "n_local": 5, "n_factual": 1, "n_perturb": 1, "baseline": baseline, "solver": "game",
    }  # fmt: skip
    whole = explain(model, background, images, ids=ids, **settings)
    others = [
        (explain(model, background, images[:7], ids=ids[:7], **settings), slice(0, 7)),
        (explain(model, background, images[60:61], ids=ids[60:61], **settings), slice(60, 61)),
        (explain(model, background, images[3], ids=ids[3:4], max_batch=5, **settings), slice(3, 4)),
        (explain(model, background, images[3:6], ids=ids[3:6], max_batch=1000, **settings), slice(3, 6)),
    ]
    for other, part in others:
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(other, name), getattr(whole[part], name), rtol=0, atol=1e-5, err_msg=name
            )  # fmt: skip
        np.testing.assert_array_equal(other.subset, whole.subset[part])
        np.testing.assert_array_equal(other.n_evaluations, whole.n_evaluations[part])
    assert np.abs(whole.scores).max() > 1e-3


# --- The game on a grid of many features: drawn in blocks, regressed under a smooth prior ----------------------------


@pytest.mark.parametrize(
    ("space", "size", "grid"),
    [
        (Image("pixel"), (10, 10), None),
        (Image("pixel"), (16, 16), (16, 16, 2)),
        (Image("pixel"), (11, 13), (11, 13, 2)),
        (Image("pixel"), (28, 28), (28, 28, 4)),
        (Image("patch", patch=2), (31, 32), (16, 16, 2)),
        (Image("patch", patch=4), (32, 32), None),
        (Image("pixel"), (1, 101), (1, 101, 2)),
        (Image("superpixel"), (32, 32), None),
        (Image(), (32, 32), (16, 16, 2)),
        (Image(), (512, 300), (16, 10, 2)),
        (Image("cell"), (28, 28), (28, 28, 4)),
        (Image("cell"), (64, 40), (32, 20, 4)),
        (Image("cell"), (8, 8), None),
    ],
)
def test_many_pixels_or_patches_form_blocks(space, size, grid):
    blocks = space.fit(random(3, *size)).blocks()
    assert (None if blocks is None else (blocks.rows, blocks.columns, blocks.side)) == grid


@pytest.mark.parametrize(
    ("size", "side"), [((28, 28), 1), ((32, 20), 1), ((33, 20), 2), ((40, 64), 2), ((224, 224), 7), ((300, 512), 16)]
)
def test_a_cell_is_the_smallest_patch_of_which_32_span_the_longer_side(size, side):
    fitted = Image("cell").fit(random(2, *size))
    assert fitted.feature_names == Image("patch", patch=side).fit(random(2, *size)).feature_names
    assert fitted.n_features == -(-size[0] // side) * -(-size[1] // side)
    units = fitted.units(fitted.encode(random(1, *size), "x"))
    np.testing.assert_array_equal(units.of_element[0], tiles(size[0], size[1], side).ravel())


def test_cells_are_what_the_chain_takes():
    """Of a module whose gradient it follows; the game, and other methods, have patches."""
    model, images = convolution(34), random(6, 1, 34, 34).astype(np.float32)
    asked: list[tuple[Any, dict[str, Any], int]] = [
        (model, {}, 17 * 17),
        (model, {"solver": "chain"}, 17 * 17),
        (model, {"solver": "game"}, 12 * 12),
        (model, {"change": "label"}, 12 * 12),
        (model, {"space": Image("patch", patch=17)}, 4),
        (model, {"method": "occlusion"}, 12 * 12),
        (total, {}, 12 * 12),
    ]
    for asker, settings, n_features in asked:
        assert fans.Explainer(asker, images, **settings).task.space.n_features == n_features


@pytest.mark.parametrize(
    ("space", "size", "grid"),
    [
        (Image("pixel"), (11, 13), (11, 13)),
        (Image("cell"), (40, 36), (20, 18)),
        (Image("pixel"), (10, 10), None),
        (Image("superpixel"), (32, 32), None),
    ],
)
def test_values_of_many_cells_are_smoothed(space, size, grid):
    """SciPy's Gaussian of one and a half cells, edges weighed anew; few features, and superpixels, stay as they are."""
    fitted = space.fit(random(3, *size))
    values = random(2, fitted.n_features, seed=4)
    expected = values if grid is None else blurred(values.reshape(2, *grid), "none", 1.5).reshape(2, -1)
    np.testing.assert_allclose(fitted.smooth(torch.from_numpy(values)), expected, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns", "side"), [(3, 4, 2), (5, 5, 3), (4, 6, 1), (2, 7, 4)])
def test_blocks_by_hand(rows, columns, side):
    blocks = Blocks(rows, columns, side)
    down, across = -(-rows // side) + 1, -(-columns // side) + 1
    assert blocks.n == down * across
    bits = torch.from_numpy(random(30, blocks.n) < 0.5)
    offset = torch.from_numpy(np.random.default_rng(1).integers(0, side, (30, 2)))
    masks = blocks.masks(bits, offset).view(30, rows, columns)
    for n in range(30):
        for y in range(rows):
            for x in range(columns):
                block = (y + int(offset[n, 0])) // side * across + (x + int(offset[n, 1])) // side
                assert masks[n, y, x] == bits[n, block]
    for covariance, size in zip(blocks.prior(torch.float64), (rows, columns), strict=True):
        expected = [[np.exp(-((i - j) ** 2) / (2 * (side / 2) ** 2)) for j in range(size)] for i in range(size)]
        np.testing.assert_allclose(covariance, expected, rtol=1e-12)


def test_copies_and_hits_on_a_fine_grid_are_blocks():
    """By hand on 12x12 pixels: every copy is of x and one background image, in blocks of 2x2 at one offset."""
    background, x = random(6, 12, 12), random(12, 12, seed=1)
    task = Task.bind(total, background, space=Image("pixel"), baseline=-1.0)
    blocks = task.space.blocks()
    assert blocks is not None
    assert blocks.side == 2
    pool, _ = Reference.around(task, task.space.encode(x, "x"), [0], 0, 0, 40, 0.0)
    for copy in pool.samples()[0, 1:].view(40, 12, 12).numpy():
        assert_blocks(copy != x)
        own = (copy == background)[:, copy != x].all(1)
        assert own.any()


def assert_blocks(mask: Any) -> None:
    """The mask is constant on 2x2 blocks at one of the four offsets."""
    padded = [np.pad(mask, ((dy, 2 - dy), (dx, 2 - dx)), mode="edge") for dy in (0, 1) for dx in (0, 1)]
    cells = [p.reshape(7, 2, 7, 2) for p in padded]
    assert any((c.all((1, 3)) | ~c.any((1, 3))).all() for c in cells)


def blob(images: Any) -> Any:
    """A linear model of 16x16 pixels: nine of them count."""
    weights = np.zeros((16, 16))
    weights[5:8, 9:12] = [[1.0, 1.2, 1.0], [1.2, 1.5, 1.2], [1.0, 1.2, 1.0]]
    return (np.asarray(images).reshape(len(images), -1) * weights.ravel()).sum(1)


BLOBS: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.0, "n_sweep": 20}


def test_the_pixels_of_a_blob_score_highest():
    background, x = random(30, 1, 16, 16) + 0.5, random(3, 1, 16, 16, seed=1) + 0.5
    out = explain(blob, background, x, n_pairs=800, **BLOBS)
    inside, far = np.zeros((16, 16), bool), np.ones((16, 16), bool)
    inside[5:8, 9:12], far[3:10, 7:14] = True, False
    for heat in out.heatmap[:, 0]:
        assert inside.ravel()[np.argsort(-heat.ravel())[:9]].sum() >= 7
        assert inside.ravel()[heat.argmax()]
        assert heat[inside].min() > np.abs(heat[far]).max()
        assert heat[inside].mean() > 6 * np.abs(heat[far]).mean()


@pytest.mark.parametrize("n_pairs", [20, 250])
def test_scores_do_not_depend_on_the_other_images(n_pairs):
    background, x = random(20, 1, 16, 16), random(4, 1, 16, 16, seed=1)
    x[2] = background[0] = 0  # one with nothing to find
    together = explain(blob, background, x, n_pairs=n_pairs, **BLOBS)
    for i in range(4):
        alone = explain(blob, background, x[i], ids=[i], n_pairs=n_pairs, **BLOBS)
        np.testing.assert_allclose(alone.scores[0], together.scores[i], atol=1e-9)
        np.testing.assert_array_equal(alone.n_evaluations[0], together.n_evaluations[i])


def test_changes_that_differ_by_rounding_count_alike():
    """By hand: of 0.5 (thrice, as one module may round it), 0.2, and 0.001, which is below a fiftieth."""
    block: Any = SimpleNamespace(graded=True, tolerance=torch.zeros(1, dtype=torch.float64))
    change = torch.tensor([[0.5, 0.5 + 1e-9, 0.2, 0.001, 0.5 - 1e-9]], dtype=torch.float64)
    assert _game._changed(change, block).tolist() == [[1.0, 1.0, 0.25, 0.0, 1.0]]
    given: Any = SimpleNamespace(graded=False, tolerance=torch.tensor([0.2], dtype=torch.float64))
    assert _game._changed(change, given).tolist() == [[1.0, 1.0, 0.0, 0.0, 1.0]]


@pytest.mark.parametrize(("smallest", "close"), [(1e-9, 1e-5), (None, 1e-3)])
def test_the_smooth_regression_is_that_of_a_dense_gaussian_process(smallest, close, monkeypatch):
    """To rounding with all components of the prior, and to a thousandth with those that are used."""
    monkeypatch.setattr(_game, "SMALLEST", smallest or _game.SMALLEST)
    rng = np.random.default_rng(0)
    blocks, n_pairs, n_samples = Blocks(5, 4, 2), 30, 6
    drawn = torch.from_numpy(rng.random((2, 2, n_pairs, 20)) < 0.3)
    sides = (drawn[0], drawn[1] & ~drawn[0])
    y, sample = rng.normal(size=(2, n_pairs)), rng.integers(0, n_samples, (2, n_pairs))
    observed = _game.Observed(*sides, torch.from_numpy(y), torch.from_numpy(sample), n_samples)
    slopes, se = _game.smooth_fit(observed, blocks)
    place = np.array([(r, c) for r in range(5) for c in range(4)], dtype=float)
    prior = np.exp(-((place[:, None] - place) ** 2).sum(2) / 2)  # a length of half a block: 1
    for i in range(2):
        design = sides[0][i].numpy().astype(float) - sides[1][i].numpy()
        gram = design @ prior @ design.T
        smoother = prior @ design.T @ np.linalg.inv(gram + _game.NOISE * gram.diagonal().mean() * np.eye(n_pairs))
        np.testing.assert_allclose(slopes[i], smoother @ y[i], atol=close)
        residual = y[i] - design @ smoother @ y[i]
        pulls = [smoother[:, sample[i] == s] @ residual[sample[i] == s] for s in range(n_samples)]
        np.testing.assert_allclose(se[i], np.sqrt((np.array(pulls) ** 2).sum(0)), atol=close)


@pytest.mark.parametrize("baseline", [0.2, "background"])
def test_pixels_of_one_level_are_columns_of_a_table(baseline):
    """Sixteen pixels, or sixteen columns: the same draws, the same numbers."""
    images, x = random(20, 4, 4), random(3, 4, 4, seed=1)
    settings: dict[str, Any] = {"baseline": baseline, "solver": "game", "n_pairs": 200, "n_local": 0}
    of_pixels = explain(curved, images, x, space=Image("pixel"), **settings)
    of_columns = explain(curved, images.reshape(20, 16), x.reshape(3, 16), **settings)
    for name in ("scores", "scores_se", "subset", "pns", "pn", "ps", "interval", "ess", "radius", "tolerance"):
        np.testing.assert_allclose(getattr(of_pixels, name), getattr(of_columns, name), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(of_pixels.heatmap.reshape(3, 16), of_columns.heatmap)


# --- Noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_elements", [1, 4, 7, 64])
def test_noise_is_uniform_and_independent(n_elements):
    n = 4000
    keys = draws.stream_keys(0, list(range(4)), "noise").repeat_interleave(n // 4)
    noise = draws.noise(keys, torch.arange(n // 4).repeat(4), n_elements, -2.0, 3.0)
    assert (noise.shape, noise.dtype) == ((n, n_elements), torch.float32)
    assert -2 < float(noise.min()) < float(noise.max()) < 3
    values = (noise.double().numpy() + 2) / 5
    assert kstest(values.ravel(), "uniform").pvalue > 1e-3
    if n_elements > 1:
        correlation = np.corrcoef(values.T) - np.eye(n_elements)
        assert np.abs(correlation).max() < 5 / np.sqrt(n)
    lags = [
        abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]),
        abs(np.corrcoef(values[:-1, 0], values[1:, -1])[0, 1]),
    ]
    assert max(lags) < 5 / np.sqrt(n)


def test_noise_reaches_the_whole_range_and_no_further():
    """By hand: 65,536 levels in the middle of as many equal bins."""
    keys = draws.stream_keys(0, [0], "noise").expand(400)
    noise = draws.noise(keys, torch.arange(400), 1001, 0.0, 65536.0).double()
    np.testing.assert_allclose(noise - noise.floor(), 0.5, atol=2**-8)
    assert 0 <= int(noise.min()) < 4
    assert 65531 < int(noise.max()) < 65536


def test_noise_does_not_depend_on_the_chunks():
    keys, places = draws.stream_keys(3, list(range(50)), "noise"), torch.arange(50) * 7
    whole = draws.noise(keys, places, 11, 0.0, 1.0)
    for size in (1, 3, 49):
        parts = [draws.noise(keys[i : i + size], places[i : i + size], 11, 0.0, 1.0) for i in range(0, 50, size)]
        assert torch.equal(torch.cat(parts), whole)
    other = draws.noise(keys, places + 1, 11, 0.0, 1.0)
    assert not torch.isin(other, whole).float().mean() > 0.05
