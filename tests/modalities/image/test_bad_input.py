"""Images that cannot be used are refused in one sentence; odd ones and odd modules are explained all the same."""

import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import fans
from fans.spaces import Image

pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

BACKGROUND = np.random.default_rng(0).random((12, 3, 8, 8)).astype(np.float32)
X = np.random.default_rng(1).random((2, 3, 8, 8)).astype(np.float32)


def brightness(images: Any) -> Any:
    return images.reshape(len(images), -1).mean(1)


def two_classes(images: Any) -> Any:
    p = images.reshape(len(images), -1).mean(1)
    return np.stack([p, 1 - p], 1)


def network(n_channels: int = 3, n_classes: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(n_channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, n_classes))


def through_pns(model: Any = brightness, x: Any = X, background: Any = BACKGROUND, **settings: Any) -> fans.PNS:
    settings = {"n_factual": 2, "n_perturb": 2} | settings
    subset = settings.pop("subset", np.arange(64).reshape(8, 8) < 24)  # the upper three rows
    return fans.pns(model, x, subset, background=background, **settings)


def through_explainer(
    model: Any = brightness, x: Any = X, background: Any = BACKGROUND, **settings: Any
) -> fans.Explanation:
    small = {
        "n_pairs": 10,
        "n_sweep": 30,
        "n_background": 5,
        "n_local": 4,
        "n_factual": 2,
        "n_perturb": 2,
        "n_steps": 2,
    }
    settings.pop("subset", None)
    return fans.Explainer(model, background, **small | settings)(x)


BOTH = pytest.mark.parametrize("ask", [through_pns, through_explainer])


def exactly(text: str) -> str:
    return re.escape(text)


def with_bad(value: float) -> Any:
    images = X.copy()
    images[1, 2, 3, 4] = images[1, 2, 7, 7] = value
    return images


# --- Shapes and values -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:, :1], "x of shape (3, 8, 8) or (batch, 3, 8, 8) like the background, got (2, 1, 8, 8)"),
        (X[0, 0], "x of shape (3, 8, 8) or (batch, 3, 8, 8) like the background, got (8, 8)"),
        (X.transpose(0, 2, 3, 1), "like the background, got (2, 8, 8, 3)"),
        (X[..., :7], "like the background, got (2, 3, 8, 7)"),
        (X[None], "like the background, got (1, 2, 3, 8, 8)"),
        (np.float32(1), "like the background, got ()"),
        (torch.zeros(2, 4, 8, 8), "like the background, got (2, 4, 8, 8)"),
        (X[:0], "at least one image in x, got shape (0, 3, 8, 8)"),
        (
            torch.zeros(2, 3, 8, 8, dtype=torch.int64),
            "floating-point images in x, scaled as the model was trained, got",
        ),
        (X > 0.5, "floating-point images in x, scaled as the model was trained, got bool; convert them first"),
        (X.astype(str), "numbers in x, got <U"),
        (X.astype(object), "numbers in x, got object"),
        ([[[1.0, 2.0]], [[1.0]]], "x with rows of one length, got lists of different lengths"),
        (with_bad(np.nan), "finite numbers in x, got nan in image 1, row 3, column 4 (2 such values)"),
        (with_bad(-np.inf), "finite numbers in x, got -inf in image 1, row 3, column 4 (2 such values)"),
    ],
)
def test_x(ask, x, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(x=x)


@BOTH
@pytest.mark.parametrize(
    ("background", "message"),
    [
        (BACKGROUND[:0], "at least one background sample, got an empty background"),
        (BACKGROUND[:, :, :0], "(samples, height, width), got (12, 3, 0, 8)"),
        (
            (BACKGROUND * 255).astype(np.int32),
            "floating-point images in background, scaled as the model was trained, got",
        ),
        (with_bad(np.nan), "finite numbers in background, got nan in image 1, row 3, column 4 (2 such values)"),
        (with_bad(np.inf), "finite numbers in background, got inf in image 1, row 3, column 4 (2 such values)"),
        (BACKGROUND[None], "got shape (1, 12, 3, 8, 8); pass `space=`"),
    ],
)
def test_background(ask, background, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(background=background)


def test_where_a_bad_value_is_does_not_depend_on_the_channel_axis():
    last = np.moveaxis(with_bad(np.nan), 1, -1)
    with pytest.raises(fans.InputError, match="got nan in image 1, row 3, column 4"):
        through_explainer(background=np.moveaxis(BACKGROUND, 1, -1), x=last)


@pytest.mark.parametrize(
    ("space", "background", "message"),
    [
        (
            Image(channels="none"),
            BACKGROUND,
            '3 dimensions for channels="none", got a background of shape (12, 3, 8, 8)',
        ),
        (
            Image(channels="last"),
            BACKGROUND[:, 0],
            '4 dimensions for channels="last", got a background of shape (12, 8',
        ),
        (Image(), BACKGROUND[:, 0, 0], "(samples, height, width), got (12, 8)"),
    ],
)
def test_spaces_that_do_not_fit(space, background, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        through_explainer(space=space, background=background)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "segment"}, "`unit` to be one of 'superpixel', 'patch', 'pixel', 'cell', got 'segment'"),
        ({"unit": "pixels"}, "got 'pixels'; did you mean 'pixel'?"),
        ({"channels": "middle"}, "`channels` to be one of 'first', 'last', 'none', got 'middle'"),
        ({"n_segments": 0}, "`n_segments` as a whole number of at least 1, got 0"),
        ({"patch": 1.5}, "`patch` as a whole number of at least 1, got 1.5"),
        ({"compactness": 0}, "`compactness` above 0, got 0"),
        ({"sigma": -1.0}, "`sigma` above 0, got -1.0"),
        ({"sigma": "wide"}, "`sigma` above 0, got 'wide'"),
        ({"value_range": (1, 0)}, "`value_range` as (lowest, highest), finite numbers, got (1, 0)"),
        ({"value_range": (0, np.inf)}, "`value_range` as (lowest, highest), finite numbers, got (0, inf)"),
        ({"value_range": (np.nan, 1)}, "`value_range` as (lowest, highest), finite numbers, got (nan, 1)"),
        ({"value_range": 255}, "`value_range` as (lowest, highest), finite numbers, got 255"),
        ({"value_range": ("0", "1")}, "`value_range` as (lowest, highest), finite numbers, got ('0', '1')"),
    ],
)
def test_settings_of_the_space(settings, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        Image(**settings)


@BOTH
@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ("blurred", "got 'blurred'; did you mean 'blur'?"),
        (np.nan, "finite numbers in baseline, got nan in image 0, row 0, column 0 (192 such values)"),
        (X, "`baseline` as one image of shape (3, 8, 8), got 2 images"),
        (X[0, 0], "baseline of shape (3, 8, 8) or (batch, 3, 8, 8) like the background, got (8, 8)"),
        (["black", "white"], "numbers in baseline, got <U5"),
        ({"red": 1}, "`baseline` as a name, a number or an image, got {'red': 1}"),
    ],
)
def test_baselines(ask, baseline, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        ask(baseline=baseline)


@BOTH
def test_unknown_baselines_list_the_known_ones(ask):
    with pytest.raises(fans.InputError, match=r"`baseline` to be one of .*, got 'noise'$") as caught:
        ask(baseline="noise")
    for name in ("blank", "own", "border", "uniform", "mean", "zero", "blur", "background"):
        assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("subset", "message"),
    [
        (np.ones((3, 8, 8), bool), "`subset` of shape (64,) or (2, 64) (batch, features), got (3, 8, 8)"),
        (np.ones((8, 7), bool), "got (8, 7)"),
        (np.ones((8, 8)), "`subset` as booleans, one per feature, got torch.float64"),
        (["superpixel 65"], "a feature of `subset` to be one of 'row 0, column 0', 'row 0, column 1'"),
    ],
)
def test_subsets(subset, message):
    with pytest.raises(fans.InputError, match=exactly(message)):
        through_pns(subset=subset)


@BOTH
@pytest.mark.parametrize(
    ("images", "space", "message"),
    [
        (X * 255, None, "x in the range of the background, 0.000"),
        (X - 0.5, None, "x in the range of the background, 0.000"),
        (X * 2, Image(value_range=(0, 1)), "x in the range of the value_range, 0 to 1, got 0.00"),
    ],
)
def test_values_out_of_range_are_used_with_a_warning(ask, images, space, message):
    with pytest.warns(fans.FansWarning, match=exactly(message)) as caught:
        out = ask(x=images, space=space)
    told = [w for w in caught if "in the range of" in str(w.message)]
    assert [(w.filename, str(w.message).count("\n")) for w in told] == [(__file__, 0)]
    assert np.isfinite(out.pns).all()


def test_a_background_out_of_range_is_warned_of_once():
    with pytest.warns(
        fans.FansWarning, match=r"background in the range of the value_range, -1 to 0.5, got 0\.00"
    ) as all_:
        fans.Explainer(brightness, BACKGROUND, space=Image(value_range=np.array([-1, 0.5])))  # type: ignore[arg-type]
    assert len(all_) == 1
    assert all_[0].filename == __file__


def test_values_a_little_out_of_range_are_no_news():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        through_explainer(x=np.clip(X * 1.04, 0, 1.04))
    assert not [w for w in told if "in the range of" in str(w.message)]


# --- Images that are odd, and explained ------------------------------------------------------------------------------


def sane(out: Any) -> None:
    assert np.isfinite(out.pns).all()
    assert ((out.pns >= 0) & (out.pns <= 1)).all()
    if isinstance(out, fans.Explanation):
        assert np.isfinite(out.scores).all()
        for chosen, told in zip(out.subset, out.sentences, strict=True):
            assert told.startswith(("Nothing ", "Almost nothing ")) == (not chosen.any())


@BOTH
@pytest.mark.parametrize("unit", ["superpixel", "patch", "pixel"])
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 1), (1, 1)])
def test_images_of_one_pixel(ask, unit, shape):
    background = np.random.default_rng(0).random((12, *shape))
    out = ask(background=background, x=background[:2], space=Image(unit), subset=[True], baseline=-9.0, phi=1)
    sane(out)
    assert out.notes == ("",) * 2
    np.testing.assert_array_equal([out.pns, out.pn, out.ps, out.changes, out.holds], 1.0)
    own = ask(background=background, x=background[:2], space=Image(unit), subset=[True])  # the own colour: no change
    sane(own)
    np.testing.assert_array_equal([own.pns, own.changes], 0.0)
    np.testing.assert_array_equal(own.holds, 1.0)


@BOTH
@pytest.mark.parametrize("unit", ["superpixel", "patch", "pixel"])
@pytest.mark.parametrize("baseline", ["blank", "own", "border", "uniform", "blur", "background"])
def test_an_image_of_one_colour(ask, unit, baseline):
    grey = np.full_like(X, 0.5)
    out = ask(x=grey, space=Image(unit, n_segments=4), baseline=baseline)
    sane(out)
    assert len(out.pns) == len(X)


@pytest.mark.parametrize("baseline", [None, "own", "border", "blur"])
@pytest.mark.parametrize("solver", ["auto", "game"])
def test_an_image_of_one_colour_is_changed_by_nothing_and_says_so(solver, baseline):
    """Whatever is missing is replaced by what was there; up to the rounding of a blur."""
    grey = np.full_like(X, 0.5)
    out = through_explainer(network(), grey, solver=solver, baseline=baseline, n_background=0, n_local=0, phi=1)
    assert not out.subset.any()
    assert (out.holds == 1).all()
    assert (out.pns == 0).all()
    for i, told in enumerate(out.sentences):
        assert told.startswith(f"Nothing changes {out.target_name(i)}: whatever is changed near this input, it stays ")
        assert out.notes[i].startswith("it equals its baseline, so that nothing in it can be changed: pass another `b")
    black = through_explainer(network(), grey, solver=solver, baseline=0.0, n_background=0, n_local=0, phi=1)
    assert not any("equals its baseline" in note for note in black.notes)


@BOTH
def test_a_background_of_one_colour(ask):
    grey = np.full_like(BACKGROUND, 0.5)
    with pytest.raises(fans.InputError, match=r'baseline="uniform", got only 0\.5; pass Image\(value_range='):
        ask(background=grey, x=grey[:2], baseline="uniform")
    sane(ask(background=grey, x=grey[:2], baseline="uniform", tolerance=0.01, space=Image(value_range=(0, 1))))
    for baseline in ("zero", 0.25, X[0]):
        out = ask(background=grey, x=grey[:2], baseline=baseline, subset=np.ones((8, 8), bool))
        sane(out)
        if ask is through_pns:  # of everything; no part of as many alike stands out
            assert (out.pns > 0).all()
    for baseline in (
        "mean",
        "blur",
        "background",
        "blank",
        "own",
        "border",
    ):  # nothing to perturb with: nothing changes
        out = ask(background=grey, x=grey[:2], baseline=baseline)
        np.testing.assert_allclose(out.pns, 0, atol=1e-6)
    with pytest.warns(fans.FansWarning, match=r"in the range of the background, 0\.5 to 0\.5, got 0\."):
        ask(background=grey, baseline="zero")


class Stripes(nn.Module):
    """A small convolution of stride 8 whose largest call it remembers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.most = nn.Conv2d(3, 2, 8, stride=8), 0

    def forward(self, images: Tensor) -> Tensor:
        self.most = max(self.most, len(images))
        return self.convolution(images).mean((2, 3))


def peak(restart: bool = False) -> float:
    """The most memory of this process in MB, since the last restart."""
    if restart:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) / 1024


def test_large_images_fit_into_a_small_memory():
    """512x512x3: one image takes 3 MB."""
    background = torch.rand(4, 3, 512, 512, generator=torch.Generator().manual_seed(0))
    model = Stripes()
    try:
        before = peak(restart=True)
    except (OSError, StopIteration):
        pytest.skip("needs Linux's peak of memory")
    started = time.process_time()
    out = through_explainer(
        model, background[:2], background, max_batch=4, n_pairs=8, n_sweep=8, n_background=2, n_local=2, n_factual=1,
        n_perturb=1, output="raw", space=Image("superpixel"), solver="game",
    )  # fmt: skip
    seconds, grown = time.process_time() - started, peak() - before
    sane(out)
    assert model.most == 4
    assert out.elements.shape == out.heatmap.shape == (2, 3, 512, 512)
    assert grown < 500
    assert seconds < 15


# --- Modules ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_module_for_other_channels(ask):
    message = (
        "Expected a module that takes inputs of shape (12, 3, 8, 8), got RuntimeError from Sequential: Given groups=1, "
        "weight of size [4, 1, 3, 3], expected input[12, 3, 8, 8] to have 1 channels, but got 3 channels instead; pass"
    )
    model = network(n_channels=1)
    with pytest.raises(fans.ModelError, match=exactly(message)) as caught:
        ask(model)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "\n" not in str(caught.value)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())


class Raising(nn.Module):
    """Fails with an error of choice, from a call on."""

    def __init__(self, error: BaseException, calls: int = 0) -> None:
        super().__init__()
        self.error, self.calls, self.inner = error, calls, network()

    def forward(self, images: Tensor) -> Any:
        if self.calls <= 0:
            raise self.error
        self.calls -= 1
        return self.inner(images)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("mask"), "got KeyError from Raising: 'mask'; pass"),
        (TypeError(), "got TypeError from Raising: ; pass"),
        (ValueError("first line\nsecond line"), "got ValueError from Raising: first line; pass"),
        (fans.ModelError("My own words"), "My own words"),
    ],
)
def test_what_a_module_raises_at_first_is_quoted(error, message):
    with pytest.raises(fans.ModelError, match=exactly(message)) as caught:
        through_explainer(Raising(error))
    assert error in (caught.value, caught.value.__cause__)


@pytest.mark.parametrize("error", [RuntimeError("lost connection"), KeyboardInterrupt()])
def test_what_it_raises_later_stays_its_own(error):
    with pytest.raises(type(error)) as caught:
        through_explainer(Raising(error, calls=1))
    assert caught.value is error or isinstance(caught.value, fans.Interrupted)


def test_what_another_model_raises_stays_its_own():
    def model(_):
        raise RuntimeError("no connection")

    with pytest.raises(RuntimeError, match=r"^no connection$"):
        through_explainer(model)


def test_a_module_interrupted_at_first():
    with pytest.raises(KeyboardInterrupt):
        fans.Explainer(Raising(KeyboardInterrupt()), BACKGROUND)


@pytest.mark.parametrize("solver", ["game", "chain"])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-5), (torch.bfloat16, 0.02), (torch.half, 0.003)])
def test_modules_of_other_precision(solver, dtype, error):
    single, other = network().float(), network().to(dtype)
    with torch.no_grad():
        expected = torch.softmax(single(torch.tensor(X)), 1).max(1).values
    settings: dict[str, Any] = {"solver": solver, "n_pairs": 40, "space": Image("patch", patch=4)}
    out = through_explainer(other, **settings)
    sane(out)
    np.testing.assert_allclose(out.prediction, expected, atol=error)
    assert {p.dtype for p in other.parameters()} == {dtype}
    if solver == "game":
        np.testing.assert_allclose(out.scores, through_explainer(single, **settings).scores, atol=max(10 * error, 0.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.half])
def test_probabilities_of_low_precision_are_still_probabilities(dtype):
    """Bfloat16 rounds each to three digits, so that their sum is off by some thousandths: no second softmax."""
    model = nn.Sequential(*network(n_classes=3), nn.Softmax(1)).to(dtype)
    with torch.no_grad():
        expected = model(torch.tensor(BACKGROUND, dtype=dtype)).double()
    explainer = fans.Explainer(model, BACKGROUND)
    assert (expected.sum(1) - 1).abs().max() > (1e-3 if dtype is torch.bfloat16 else 0)
    np.testing.assert_allclose(explainer.task.outputs, expected, atol=1e-7)


class Fragile(nn.Module):
    """Its logits are NaN for dark images."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.inner, self.least = network(), least

    def forward(self, images: Tensor) -> Any:
        dark = images.mean((1, 2, 3)) < self.least
        return self.inner(images).masked_fill(dark[:, None], torch.nan)


@BOTH
def test_logits_that_are_nan_from_the_start(ask):
    model = Fragile(2.0)
    with pytest.raises(
        fans.ModelError, match=r"got NaN or infinity for 12 of 12 rows; check the model on the background$"
    ):
        ask(model)
    assert all(p.requires_grad for p in model.parameters())


@BOTH
@pytest.mark.parametrize("solver", ["game", "chain"])
def test_logits_that_are_nan_on_perturbed_images_only(ask, solver):
    model = Fragile(0.35)
    settings: dict[str, Any] = {} if ask is through_pns else {"solver": solver}
    with pytest.raises(fans.ModelError, match=r"got NaN or infinity .*perturbed inputs") as caught:
        ask(model, baseline="zero", tolerance=0.1, space=Image("patch", patch=4), **settings)
    assert "\n" not in str(caught.value)
    assert all(part.training for part in model.modules())
    assert all(p.requires_grad for p in model.parameters())


def test_what_was_finished_before_a_nan_is_kept():
    """Two bright images, then one that is too dark as soon as it is perturbed."""
    images = np.concatenate([X, X[:1] * 0.8])
    settings: dict[str, Any] = {"baseline": 0.5, "space": Image("patch", patch=4), "max_batch": 2, "n_background": 0}
    with pytest.raises(fans.ModelError, match="got NaN or infinity") as caught:
        through_explainer(Fragile(0.42), images, **settings)
    partial = caught.value.partial
    assert partial is not None
    assert len(partial) == 2
    whole = through_explainer(network(), images, **settings)
    np.testing.assert_allclose(partial.scores, whole.scores[:2], atol=1e-6)


def training_network() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(4 * 36, 2))
    model[1].running_mean.normal_()  # type: ignore[operator]
    model[0].requires_grad_(False)  # a frozen part, as in fine-tuning
    model[3].eval()
    model[5].weight.grad = torch.ones_like(model[5].weight)  # type: ignore[arg-type]
    return model


@BOTH
@pytest.mark.parametrize("solver", ["game", "chain"])
def test_a_module_in_training_is_explained_as_in_evaluation_and_left_as_it_was(ask, solver):
    model, evaluated = training_network(), training_network().eval()
    settings: dict[str, Any] = {} if ask is through_pns else {"solver": solver}

    def state(module: nn.Module) -> Any:
        modes = [part.training for part in module.modules()]
        return modes, [p.requires_grad for p in module.parameters()], [p.is_leaf for p in module.parameters()]

    before, weights = state(model), {name: value.clone() for name, value in model.state_dict().items()}
    assert before[1] == [False, False, True, True, True, True]
    out, again = ask(model, **settings), ask(model, **settings)
    assert state(model) == before
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert torch.equal(model[5].weight.grad, torch.ones(2, 144))  # type: ignore[arg-type]
    assert all(model[i].weight.grad is None for i in (0, 1))
    np.testing.assert_array_equal(out.pns, again.pns)
    np.testing.assert_array_equal(out.pns, ask(evaluated, **settings).pns)
    loss = model(torch.tensor(X)).sum()  # it still learns
    loss.backward()
    assert not torch.equal(model[5].weight.grad, torch.ones(2, 144))  # type: ignore[arg-type]


class Derived(nn.Module):
    """A weight that is no parameter but computed from one, as weight norm makes it; and a buffer that requires grad."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.utils.parametrizations.weight_norm(network()[0])
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.derived = self.scale * 3
        self.register_buffer("shift", torch.zeros((), requires_grad=True))

    def forward(self, images: Tensor) -> Any:
        return self.inner(images).mean((2, 3)) * self.derived + self.shift


@BOTH
@pytest.mark.parametrize("solver", ["game", "chain"])
def test_tensors_that_are_no_leaves_keep_their_flags(ask, solver):
    model = Derived()
    settings: dict[str, Any] = {} if ask is through_pns else {"solver": solver}
    sane(ask(model, **settings))
    assert model.derived.requires_grad
    assert not model.derived.is_leaf
    assert model.shift.requires_grad
    assert all(p.requires_grad for p in model.parameters())
    assert all(p.grad is None for p in model.parameters())
    model(torch.tensor(X)).sum().backward()
    assert model.scale.grad is not None


def test_the_callers_gradient_mode_and_images_are_left_alone():
    x = torch.tensor(X, requires_grad=True)
    with torch.no_grad():
        sane(through_explainer(network(), x, torch.tensor(BACKGROUND), solver="chain"))
        assert not torch.is_grad_enabled()
    assert x.grad is None
    assert x.requires_grad


# --- Settings of the gradient solver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [brightness, LogisticRegression()], ids=["callable", "estimator"])
def test_the_gradient_needs_a_module(model):
    if isinstance(model, LogisticRegression):
        rows = BACKGROUND.reshape(12, -1)
        model.fit(rows, np.arange(12) % 2)
        background, x = rows, rows[:2]
    else:
        background, x = BACKGROUND, X
    name = type(model).__name__
    message = f'a torch module for solver="chain", got {name}; use solver="game", which asks for outputs only'
    with pytest.raises(fans.ModelError, match=exactly(message)):
        through_explainer(model, x, background, solver="chain")


def test_a_label_has_no_gradient():
    message = 'a change with a gradient for solver="chain", got "label"; use change="target" or solver="game"'
    with pytest.raises(fans.InputError, match=exactly(message)):
        through_explainer(network(), solver="chain", change="label")
    sane(through_explainer(network(), change="label"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0}, "`rate` above 0, got 0"),
        ({"rate": np.inf}, "`rate` above 0, got inf"),
        ({"rate": "fast"}, "`rate` above 0, got 'fast'"),
        ({"init": 2}, '`init` between 0 and 1, or "ig", got 2'),
        ({"init": -0.1}, '`init` between 0 and 1, or "ig", got -0.1'),
        ({"init": "gi"}, "`init` between 0 and 1, or \"ig\", got 'gi'"),
        ({"n_steps": 0}, "`n_steps` as a whole number of at least 1, got 0"),
        ({"relaxed_g": "x"}, "`relaxed_g` to be one of 'paper', 'strict', got 'x'"),
        (
            {"preset": "released", "n_steps": 3},
            "no solver settings beside preset='released', which fixes its own, got n_steps",
        ),
        ({"preset": "x"}, "`preset` to be one of 'paper', 'released', got 'x'"),
        ({"without": "x"}, "`without` to be one of 'SF', 'NC', 'SR', got 'x'"),
        ({"solver": "x"}, "`solver` to be one of 'auto', 'chain', 'walks', 'game', 'relaxed', got 'x'"),
        ({"n_step": 3}, "got 'n_step'; did you mean 'n_steps'?"),
        ({"unit": "pixel"}, "a setting to be one of "),
        ({"local_noise": -1}, "`local_noise` of at least 0, got -1"),
    ],
)
def test_settings(settings, message):
    """All refused before the model is asked anything."""

    def never(_):
        raise AssertionError("asked")

    with pytest.raises(fans.InputError, match=exactly(message)) as caught:
        fans.Explainer(never, BACKGROUND, **settings)
    assert "\n" not in str(caught.value)


def test_unknown_settings_list_the_known_ones():
    with pytest.raises(fans.InputError) as caught:
        fans.Explainer(brightness, BACKGROUND, segments=3)
    for name in ("n_pairs", "solver", "rate", "local_noise", "n_background", "phi", "enough"):
        assert repr(name) in str(caught.value)


def test_nothing_is_warned_of_in_an_ordinary_explanation():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fans.Explainer(network(), BACKGROUND, n_background=12, n_local=20, n_pairs=20, n_sweep=50)(X)
    sane(found)
    assert len(found) == len(X)
