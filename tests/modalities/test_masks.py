"""Features by a mask are captum's: the same numbers group the same elements."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans
from fans.spaces import FeatureMask, Image, Table

FEW: dict[str, Any] = {"n_local": 9, "n_sweep": 40, "n_perturb": 2, "n_steps": 3}
RNG = np.random.default_rng(0)
ROWS = torch.from_numpy(RNG.normal(size=(60, 6))).float()
IMAGES = torch.from_numpy(RNG.random((12, 3, 8, 8))).float()
QUARTERS = torch.arange(8)[:, None] // 4 * 2 + torch.arange(8) // 4
torch.manual_seed(0)
OF_ROWS = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval()
OF_IMAGES = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


@pytest.mark.parametrize(
    ("model", "rows", "mask"),
    [
        (OF_ROWS, ROWS, [0, 0, 1, 2, 1, 2]),
        (OF_ROWS, ROWS, [[7, 7, 3, 3, 3, -1]]),
        (OF_ROWS, ROWS, [5, 4, 3, 2, 1, 0]),
        (OF_IMAGES, IMAGES, QUARTERS[None, None]),
        (OF_IMAGES, IMAGES, QUARTERS),
        (OF_IMAGES, IMAGES, torch.arange(3)[:, None, None]),
        (OF_IMAGES, IMAGES, torch.arange(8)),
        (OF_IMAGES, IMAGES, torch.arange(192).flip(0).reshape(3, 8, 8)),
    ],
)
def test_ablation_is_captums(model, rows, mask):
    """Captum's own ablation of the same groups, to the number."""
    attr = pytest.importorskip("captum.attr")
    x = rows[:3]
    asked: dict[str, Any] = {"method": "feature_ablation", "baseline": 0.0, "output": "raw"}
    ours = fans.Explainer(model, rows, space=FeatureMask(mask), **asked).heatmaps(x, 1)
    theirs = attr.FeatureAblation(model).attribute(x, target=1, feature_mask=torch.as_tensor(mask))
    assert ours == pytest.approx(theirs.detach().numpy(), abs=1e-5)


def test_columns_of_one_feature_are_changed_together():
    """By hand: only the sum of the first two columns matters, so that its feature alone is the subset."""

    def above(rows: Any) -> Any:
        return (rows[:, 0] + rows[:, 1] > 0).astype(float)

    rows = ROWS.numpy()
    explainer = fans.Explainer(above, rows, space=FeatureMask([0, 0, 1, 1, 1, 1]), **FEW)
    found = explainer(np.array([2.0, 2, 0, 0, 0, 0]))
    assert found.feature_names == ("x1 + x2", "x3 and 3 more")
    assert found.chosen_names() == ["x1 + x2"]
    assert found.value(0, 0) == "x1 2, x2 2"
    asked = fans.pns(above, rows[:1], ["x1 + x2"], background=rows, space=FeatureMask([0, 0, 1, 1, 1, 1]))
    assert asked.holds[0] == pytest.approx(1)


def test_it_stands_for_a_table_or_images():
    assert FeatureMask([0, 1]).for_background(np.zeros((3, 2))) == Table()
    assert FeatureMask(QUARTERS).for_background(IMAGES) == Image()
    named = Table(columns=["a", "b", "c"], feature_mask=[1, 0, 1]).fit(np.zeros((4, 3)))
    assert named.feature_names == ("a + c", "b")


def test_distances_of_a_feature_are_those_of_its_columns():
    """By hand: squares over the columns' variances, summed; nothing is taken for a one-hot group."""
    space = Table(feature_mask=[0, 1, 0]).fit(ROWS[:, :3])
    x, row = space.encode(ROWS[:1, :3], "x"), space.encode(ROWS[1:2, :3], "x")
    squared = ((x - row) / ROWS[:, :3].std(0, correction=0)) ** 2
    found = space.unit_distances(x, row[None], space.units(x), "rms")[0, 0]
    assert found.numpy() == pytest.approx(torch.stack([squared[0, 0] + squared[0, 2], squared[0, 1]]).numpy())
    assert space.units(x).size.tolist() == [[2, 1]]


def test_regions_of_images_are_told_of_and_drawn():
    pytest.importorskip("matplotlib")

    def upper_left(images: Any) -> Any:
        return images[:, 0, :4, :4].mean((1, 2))

    explainer = fans.Explainer(upper_left, IMAGES.numpy(), space=Image(feature_mask=QUARTERS), baseline=0.0, **FEW)
    found = explainer(IMAGES[:2].numpy())
    assert found.chosen_names() == ["region 0"]
    assert found.feature_names == tuple(f"region {k}" for k in range(4))
    assert "region" in found.sentences[0]
    assert found.channel_axis == 0
    assert found.plot() is not None


@pytest.mark.parametrize(("shape", "axis"), [((3, 8, 8), 0), ((8, 8, 3), 2)])
def test_a_feature_for_each_channel_leaves_channels_where_they_are(shape, axis):
    background = RNG.random((6, *shape)).astype(np.float32)
    mask = np.arange(3).reshape([-1 if a == axis else 1 for a in range(3)])

    def red(images: Any) -> Any:
        return images.take(0, axis + 1).reshape(len(images), -1).mean(1)

    found = fans.Explainer(red, background, space=FeatureMask(mask), **FEW)(background[:1])
    assert found.channel_axis == axis
    assert found.feature_names == ("region 0", "region 1", "region 2")
    assert np.abs(found.scores[0]).argmax() == 0


@pytest.mark.parametrize(
    "mask", [QUARTERS, QUARTERS[None, None], QUARTERS[None], QUARTERS.tolist(), QUARTERS[..., None]]
)
def test_a_mask_of_pixels_serves_channels_that_come_last(mask):
    """The same features as where they come first."""
    last = FeatureMask(mask).fit(IMAGES.movedim(1, -1))
    first = FeatureMask(QUARTERS).fit(IMAGES)
    assert last.feature_names == first.feature_names
    images = IMAGES[:1]
    of_last = last.units(last.encode(images.movedim(1, -1), "x")).of_element.view(8, 8, 3)
    of_first = first.units(first.encode(images, "x")).of_element.view(3, 8, 8)
    assert torch.equal(of_last.movedim(-1, 0), of_first)


@pytest.mark.parametrize(
    ("space", "background", "sentence"),
    [
        (FeatureMask([0, 1]), ROWS, r"`feature_mask` of shape \(6,\), or one that broadcasts to it, got \(2,\)"),
        (
            FeatureMask([0.0] * 6),
            ROWS,
            "`feature_mask` as whole numbers of shape .*, got float64 .*; number the features",
        ),
        (FeatureMask([[0], [0, 1]]), ROWS, "`feature_mask` as whole numbers"),
        (FeatureMask(torch.zeros(2, 6).long()), ROWS, r"Expected one `feature_mask` for all inputs, .*captum\.FANS"),
        (FeatureMask([0]), torch.zeros(8, 2, 400), "a table or images for a feature mask, .* read as Series"),
        (Table(groups={"a": [0, 1]}, feature_mask=[0] * 6), ROWS, "`groups` or `feature_mask`, got both"),
    ],
)
def test_masks_that_do_not_fit_are_refused(space, background, sentence):
    with pytest.raises(fans.InputError, match=sentence):
        fans.Explainer(lambda rows: rows.reshape(len(rows), -1)[:, 0], background, space=space)


def test_no_mask_and_a_mask_with_a_unit_are_refused():
    with pytest.raises(fans.InputError, match="Expected a mask of whole numbers for `FeatureMask`, got None"):
        FeatureMask(None)
    with pytest.raises(fans.InputError, match="Expected `feature_mask` or `patch`, got both"):
        Image(feature_mask=QUARTERS, patch=2)
