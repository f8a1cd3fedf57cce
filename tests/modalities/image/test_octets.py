"""Images of whole numbers from 0 to 255, those of PIL among them, reach the model as it saw them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fans
from fans.spaces import Image

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

FEW: dict[str, Any] = {"n_local": 4, "n_sweep": 30, "n_perturb": 2, "n_steps": 2}
BYTES = np.random.default_rng(0).integers(0, 256, (10, 6, 8, 3), dtype=np.uint8)
AS_TENSORS = torch.from_numpy(BYTES).permute(0, 3, 1, 2).float() / 255
"""As torchvision's ToTensor makes them."""

torch.manual_seed(0)
NET = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 24, 3)).eval()
SAID = "The background is of whole numbers from 0 to 255: a torch module gets them divided by 255, channels first"


def pil(images: Any = BYTES) -> list[Any]:
    image = pytest.importorskip("PIL.Image")
    return [image.fromarray(one) for one in images]


def brightness(images: Any) -> Any:
    assert images.dtype == np.uint8
    return images.reshape(len(images), -1).mean(1) / 255


@pytest.mark.parametrize("given", [lambda: BYTES, lambda: torch.from_numpy(BYTES), pil])
def test_a_module_gets_what_to_tensor_makes(given):
    """The same scores and figures as of the images prepared by hand, but for the order in which numbers are added."""
    plain = fans.Explainer(NET, AS_TENSORS, space=Image("patch", patch=2), **FEW)(AS_TENSORS[:2])
    with pytest.warns(fans.FansWarning, match=SAID):
        found = fans.Explainer(NET, given(), space=Image("patch", patch=2), **FEW)(given()[:2])
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-6)
    np.testing.assert_array_equal(found.subset, plain.subset)
    np.testing.assert_allclose(found.pns, plain.pns, atol=1e-5)
    np.testing.assert_allclose(found.prediction, plain.prediction, atol=1e-6)
    np.testing.assert_array_equal(found.inputs, BYTES[:2].astype(np.float32) / 255)


@pytest.mark.parametrize("given", [lambda: BYTES, pil])
def test_any_other_model_gets_bytes(given):
    with pytest.warns(fans.FansWarning, match=SAID):
        explainer = fans.Explainer(brightness, given(), space=Image("patch", patch=2), **FEW)
    found = explainer(given()[:2])
    assert found.prediction == pytest.approx(BYTES[:2].reshape(2, -1).mean(1) / 255)
    np.testing.assert_array_equal(explainer.inputs_of(found), BYTES[:2])
    again = explainer(explainer.inputs_of(found))
    np.testing.assert_array_equal(again.scores, found.scores)


@pytest.mark.parametrize(
    ("scale", "how"), [(1, "divided by 255, as the background's values lie from 0 to 1"), (255, "without scaling")]
)
@pytest.mark.parametrize("x", [lambda: BYTES[:2], pil, lambda: BYTES[:2].transpose(0, 3, 1, 2)])
def test_bytes_beside_floats_are_scaled_as_these_are(scale, how, x):
    background = AS_TENSORS * scale
    explainer = fans.Explainer(NET, background, space=Image("patch", patch=2), **FEW)
    with pytest.warns(fans.FansWarning, match=f"Took the uint8 images of x {how}"):
        found = explainer.scores(x()[:2])
    np.testing.assert_array_equal(found, explainer.scores(background[:2]))


def test_grey_pictures_beside_a_channel():
    grey = BYTES[..., 0]
    background = torch.from_numpy(grey)[:, None].float() / 255
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2)).eval()
    explainer = fans.Explainer(model, background, space=Image("patch", patch=2), **FEW)
    with pytest.warns(fans.FansWarning, match="divided by 255"):
        found = explainer.scores(pil(grey[:2]))
    np.testing.assert_array_equal(found, explainer.scores(background[:2]))


def test_bytes_beside_normalised_floats_are_refused():
    explainer = fans.Explainer(NET, AS_TENSORS * 4 - 2, **FEW)
    with pytest.raises(fans.InputError, match="x scaled as the background, whose values lie from -2 to 2, got uint8"):
        explainer(BYTES[:1])


def test_a_baseline_is_on_the_images_scale():
    """By hand: the ablation of all of an image leaves a brightness of 51 of 255, a fifth."""
    with pytest.warns(fans.FansWarning, match=SAID):
        explainer = fans.Explainer(
            brightness, BYTES, space=Image("patch", patch=8), baseline=51, method="feature_ablation"
        )
    expected = BYTES[:2].reshape(2, -1).mean(1) / 255 - 0.2
    assert explainer.scores(BYTES[:2])[:, 0] == pytest.approx(expected, abs=1e-6)
    for row in (np.full((6, 8, 3), 51, np.uint8), torch.full((6, 8, 3), 51, dtype=torch.uint8)):
        with pytest.warns(fans.FansWarning, match=SAID):
            other = fans.Explainer(
                brightness, BYTES, space=Image("patch", patch=8), baseline=row, method="feature_ablation"
            )
        np.testing.assert_array_equal(other.scores(BYTES[:2]), explainer.scores(BYTES[:2]))
    for bad in (0.5, -1, 256):
        with (
            pytest.raises(fans.InputError, match="`baseline` from 0 to 255, as the images are"),
            pytest.warns(fans.FansWarning, match=SAID),
        ):
            fans.Explainer(brightness, BYTES, baseline=bad)


def test_a_range_is_on_the_images_scale():
    with pytest.warns(fans.FansWarning, match=SAID):
        assert Image(value_range=(0, 255)).fit(BYTES).value_range == (0, 1)
