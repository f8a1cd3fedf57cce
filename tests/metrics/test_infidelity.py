"""Infidelity against captum, Quantus 0.4.3, slow loops and a value by hand; each replays the copies that we made."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.metrics import infidelity as captum_infidelity

from fans import Explainer, InputError
from fans.datasets import load_slice
from fans.metrics import metric
from fans.networks import load
from tests.metrics import quantus_shim
from tests.metrics.material import Recorder, case_of, images, network

KINDS = ("formula", "published", "patch", "scale_free")
needs_quantus = pytest.mark.skipif(bool(quantus_shim.missing()), reason=quantus_shim.missing())


def judged(kind, n_channels=1, side=8, n=3, **settings):
    """Our values, and the copies that the model saw, `(n, K, C, H, W)`."""
    inputs, scores = images(n, n_channels, side)
    model = Recorder(network(n_channels, side))
    case = case_of(model, inputs, scores)
    assert case.before.shape == (n, 3)  # asked first, so that what follows are copies
    model.seen.clear()
    values = metric("infidelity", kind=kind, **settings)(case)
    return case, values, model.rows().view(n, -1, n_channels, side, side)


def fills_of(copies, patch, side):
    """The value of every repeat, patch and channel, read off a pixel that only this patch has by then covered."""
    corners = [(row, column) for row in range(0, side, patch) for column in range(0, side, patch)]
    repeats = copies.reshape(-1, len(corners), *copies.shape[1:])
    return np.stack([[one[k, :, row, column] for k, (row, column) in enumerate(corners)] for one in repeats])


# --- The product of scores and change: captum -----------------------------------------------------------------------


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("kind", ["formula", "patch", "scale_free"])
def test_equals_captum_on_the_same_copies(kind, n_channels):
    case, values, copies = judged(kind, n_channels)
    expected = captum_infidelity(
        case.model.model.double(),
        lambda rows: (rows - copies.flatten(0, 1).double(), copies.flatten(0, 1).double()),
        case.inputs.double(),
        case.scores.double(),
        target=case.target,
        n_perturb_samples=copies.shape[1],
        normalize=kind == "scale_free",
    )
    assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_probabilities_equal_captum_on_a_softmax():
    case, values, copies = judged("patch", output="probability")
    model = torch.nn.Sequential(case.model.model, torch.nn.Softmax(1)).double()
    flat = copies.flatten(0, 1).double()
    expected = captum_infidelity(
        model,
        lambda rows: (rows - flat, flat),
        case.inputs.double(),
        case.scores.double(),
        target=case.target,
        n_perturb_samples=copies.shape[1],
    )
    assert values.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


# --- What a copy is -------------------------------------------------------------------------------------------------


def test_the_formula_dims_every_element_by_a_factor_of_its_own():
    case, _, copies = judged("formula", n_draws=400)
    factors = copies / case.inputs[:, None]
    assert factors.min() > 0
    assert factors.max() < 1
    assert factors.mean((1, 2)).numpy() == pytest.approx(0.5, abs=0.07)  # every element, over 400 draws
    assert factors.var((1, 2)).numpy() == pytest.approx(1 / 12, abs=0.03)
    flat = factors.flatten(2)[0]
    assert torch.corrcoef(flat.T).fill_diagonal_(0).abs().max() < 0.25  # by chance about 0.2


@pytest.mark.parametrize(("side", "patch", "n_patches"), [(8, 4, 4), (7, 3, 9)])
def test_a_patch_is_replaced_alone_by_one_value_a_channel(side, patch, n_patches):
    case, _, copies = judged("patch", 2, side, patch=patch, low=-1.0, high=2.0, n_repeats=6)
    assert copies.shape[1] == 6 * n_patches
    blocks = [(r, c) for r in range(0, side, patch) for c in range(0, side, patch)]
    for i in range(len(case)):
        for k, copy in enumerate(copies[i]):
            row, column = blocks[k % n_patches]
            inside = torch.zeros(side, side, dtype=torch.bool)
            inside[row : row + patch, column : column + patch] = True
            assert torch.equal(copy[:, ~inside], case.inputs[i][:, ~inside])
            assert (copy[:, inside] == copy[:, row, column][:, None]).all()
    values = torch.stack([copies[:, k, :, r, c] for k, (r, c) in enumerate(blocks * 6)])
    assert len(values.unique()) == values.numel()  # every patch, repeat, channel and image has its own
    assert -1 <= values.min() < -0.9
    assert 1.9 < values.max() <= 2


# --- What was published: a slow loop from the description, and Quantus itself ----------------------------------------


def slow_published(predict, image, scores, fills, patch):
    """Pad by p - 1, replace the patch at the padded image's coordinates, cut the padding off, go on from there."""
    pad = patch - 1
    n_channels, side, _ = image.shape
    corners = [(row, column) for row in range(0, side, patch) for column in range(0, side, patch)]
    results = []
    for repeat in fills:
        current, errors = image.copy(), []
        for (row, column), values in zip(corners, repeat, strict=True):
            padded = np.pad(current, ((0, 0), (pad, pad), (pad, pad)), mode="edge")
            padded[:, row : row + patch, column : column + patch] = values[:, None, None]
            current = padded[:, pad : pad + side, pad : pad + side]
            moved = image.astype(float) - current
            product = 0.0
            for place in range(side):
                product += n_channels * scores[:, :, place].sum() * moved[:, place, :].sum()
            errors.append((product - (predict(image) - predict(current))) ** 2)
        results.append(np.mean(errors))
    return np.mean(results)


@pytest.mark.parametrize(("n_channels", "side", "patch"), [(1, 8, 4), (3, 8, 2), (1, 8, 1), (2, 7, 3)])
def test_published_equals_a_slow_loop(n_channels, side, patch):
    case, values, copies = judged("published", n_channels, side, patch=patch, n_repeats=2)
    network_ = case.model.model
    for i, target in enumerate(case.target.tolist()):
        with torch.no_grad():
            found = slow_published(
                lambda image, t=target: float(network_(torch.tensor(image)[None])[0, t]),
                case.inputs[i].numpy(),
                case.scores[i].double().numpy(),
                fills_of(copies[i].numpy(), patch, side),
                patch,
            )
        assert float(values[i]) == pytest.approx(found, rel=1e-5)


@needs_quantus
@pytest.mark.parametrize("n_channels", [1, 3])
def test_published_equals_quantus_on_the_same_draws(n_channels):
    """Quantus has one score a pixel: the sum of ours over the channels."""
    case, values, copies = judged("published", n_channels, patch=4)
    draws = iter(np.concatenate([fills_of(one.numpy(), 4, 8) for one in copies]).reshape(-1, n_channels))
    with quantus_shim.quantus(lambda **asked: next(draws).reshape(asked["size"])) as quantus:
        theirs = quantus.Infidelity(
            perturb_patch_sizes=[4],
            n_perturb_samples=5,
            perturb_baseline="uniform",
            disable_warnings=True,
        )(
            case.model.model,
            case.inputs.numpy(),
            case.target.numpy(),
            case.scores.sum(1, keepdim=True).double().numpy(),
        )
    assert values.tolist() == pytest.approx(theirs, rel=1e-5)
    assert next(draws, None) is None  # as many as ours


def test_published_leaves_the_last_rows_and_columns_clean():
    case, _, copies = judged("published", patch=4, n_repeats=1)
    changed = (copies[:, -1] != case.inputs).flatten(0, 1).any(0)
    assert changed[:5, :5].all()
    assert not changed[5:].any()
    assert not changed[:, 5:].any()


# --- Values by hand, and what they are for ---------------------------------------------------------------------------


def test_by_hand():
    """f = 2 x, a = 3, x = 1: each draw adds (3 (1 - m) - 2 (1 - m))^2, a third in the mean."""
    one = torch.ones(1, 1)
    case = case_of(lambda rows: 2 * rows, one, 3 * one)
    assert metric("infidelity", kind="formula", n_draws=20_000)(case).item() == pytest.approx(1 / 3, rel=0.02)
    image = torch.ones(1, 1, 1, 1)
    case = case_of(lambda rows: 2 * rows[:, :, 0, 0], image, 3 * image)
    settings = {"patch": 1, "n_repeats": 20_000}
    assert metric("infidelity", **settings)(case).item() == pytest.approx(1 / 3, rel=0.02)
    assert metric("infidelity", kind="scale_free", **settings)(case).item() == pytest.approx(0, abs=1e-9)


def test_scale_free_knows_no_scale_and_no_scores_at_all():
    case, values, _ = judged("scale_free")
    again = metric("infidelity", kind="scale_free")
    assert again(replace(case, scores=-128 * case.scores)).tolist() == pytest.approx(values.tolist(), rel=1e-9)
    none = replace(case, scores=torch.zeros_like(case.scores))
    assert again(none).tolist() == pytest.approx(metric("infidelity", kind="patch")(none).tolist())
    assert (again(none) >= values).all()


def test_other_scores_of_the_same_inputs_cost_no_rows():
    """And `patch` and `scale_free` ask the same."""
    for kind in KINDS:
        case, values, _ = judged(kind)
        case.model.seen.clear()
        other = metric("infidelity", kind=kind)(replace(case, scores=2 * case.scores))
        assert other.shape == values.shape
        assert not case.model.seen
    metric("infidelity", kind="patch")(case)  # after scale_free
    assert not case.model.seen
    metric("infidelity", kind="patch", low=0.5)(case)
    assert case.model.n_rows == 3 * 20


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"kind": "quantus"}, "'published'"),
        ({"kind": "published", "low": -1.0}, "`low` left alone, for kind='published'"),
        ({"kind": "published", "output": "probability"}, "`output` left alone"),
        ({"kind": "formula", "patch": 2}, "`patch` left alone"),
        ({"n_draws": 3}, "`n_draws` left alone, for kind='patch'"),
        ({"n_repeats": 0}, "`n_repeats`"),
        ({"low": 2.0}, "2.0 and 1.0"),
        ({"output": "logit"}, "'raw'"),
    ],
)
def test_bad_settings_are_refused(settings, word):
    with pytest.raises(InputError, match=word):
        metric("infidelity", **settings)


def test_shapes_that_have_no_patches_are_refused():
    inputs = torch.rand(2, 5)
    with pytest.raises(InputError, match=r"images .* got inputs of shape \(B, 5\)"):
        metric("infidelity")(case_of(lambda rows: rows, inputs, inputs))
    wide = torch.rand(2, 1, 4, 8)
    with pytest.raises(InputError, match=r"square images .* got 4 by 8"):
        metric("infidelity", kind="published")(case_of(lambda rows: rows[:, 0, 0], wide, wide))


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_published_is_lowest_for_scores_that_say_nothing(name):
    """On real images and networks: a map times 0.1 says the same and comes out lower, and no map at all the lowest."""
    model = load(name)[0].eval()
    inputs = load_slice(name, "test").tensor(slice(16))
    with torch.no_grad():
        target = model(inputs).argmax(1)
    explainer = Explainer(model, load_slice(name, "train").tensor(slice(None)))
    scores = explainer.scores(inputs, target.tolist())
    shares = torch.from_numpy(explainer.on_elements(inputs, scores, parts=True))
    judge = metric("infidelity", kind="published")
    maps = [factor * shares for factor in (0, 0.1, 1, 10)]
    found = [float(judge(case_of(model, inputs, each, target=target, parts=each)).mean()) for each in maps]
    assert found == sorted(found)
    assert found[3] > 5 * found[0]
