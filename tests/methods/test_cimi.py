"""CIMI: its loss by hand, what the interpreter reads, what it learns and from what, and keeping it."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fans
from fans.engine import draws
from fans.methods import cimi
from fans.methods.cimi import CIMI, Interpreter
from fans.spaces import Image

# The samples of explanations here are few on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* estimates rest on:fans.FansWarning")

SETTINGS: dict[str, Any] = {
    "n_epochs": 3,
    "batch": 8,
    "rate": 1e-3,
    "width": 8,
    "sufficiency": 1.0,
    "intervention": 1.0,
    "prior": 1.0,
    "mix": 0.2,
}
"""Every setting, so that no result here depends on a default."""


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


class Two(nn.Module):
    """Two convolutions that run, declared in the other order, and one that does not; float64."""

    def __init__(self, n_channels: int = 2) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.second: nn.Module = nn.Conv2d(3, 4, 2, stride=2)
            self.first: nn.Module = nn.Conv2d(n_channels, 3, 3, padding=1)
            self.idle: nn.Module = nn.Conv2d(9, 9, 1)
            self.relu: nn.Module = nn.ReLU()
            self.last: nn.Module = nn.Linear(4 * 3 * 3, 3)
        self.double()
        self.seen, self.fail = list[Tensor](), False

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images.detach().clone())
        if self.fail:
            raise RuntimeError("out of order")
        out: Tensor = self.last(self.relu(self.second(self.relu(self.first(images)))).flatten(1)) * 4
        return out


BACKGROUND, IMAGES = random(20, 2, 6, 6), random(5, 2, 6, 6, seed=1)


def explainer(model: Any = None, background: Any = BACKGROUND, **settings: Any) -> fans.Explainer:
    given: dict[str, Any] = {"space": Image("pixel"), "baseline": 0.3} | SETTINGS | settings
    return fans.Explainer(Two() if model is None else model, background, method="cimi", **given)


def method_of(asked: fans.Explainer) -> CIMI:
    assert isinstance(asked.method, CIMI)
    return asked.method


def untrained(asked: Any) -> Interpreter:
    """The interpreter that training begins with."""
    network = method_of(asked).build(method_of(asked).sizes(asked.task))
    method_of(asked).draw_weights(network, 0)
    network.look(asked.task, 8)
    return network


def parameters(asked: fans.Explainer) -> list[Tensor]:
    return [p.clone() for p in method_of(asked).train(asked.task, asked.seed).parameters()]


# --- The loss, term by term ------------------------------------------------------------------------------------------


def test_the_terms_by_hand():
    p, kept, rest = (random(4, 3, seed=i) for i in range(3))
    squares = [[(p[i, c] - other[i, c]) ** 2 for i in range(4) for c in range(3)] for other in (kept, rest)]
    expected = float(sum(squares[0]) / 12 - sum(squares[1]) / 12)
    assert float(cimi.sufficiency(p, kept, rest)) == pytest.approx(expected)

    one, two = random(4, 1, 2, 3, seed=3), random(4, 1, 2, 3, seed=4)
    cosines, priors = [], []
    for a, b in zip(one, two, strict=True):
        pairs = [(float(a[0, y, x]), float(b[0, y, x])) for y in range(2) for x in range(3)]
        norms = math.sqrt(sum(u * u for u, _ in pairs)) * math.sqrt(sum(v * v for _, v in pairs))
        cosines.append(sum(u * v for u, v in pairs) / norms)
        priors += [-math.log(1 / (1 + math.exp(-(u - v)))) for u, v in pairs]
    assert float(cimi.intervention(one, two)) == pytest.approx(-sum(cosines) / 4)
    assert float(cimi.causal_prior(one, two)) == pytest.approx(sum(priors) / 24)


def features_of(model: Two, image: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = model.second(model.relu(model.first(image[None])))
        return out


@pytest.mark.parametrize(
    "weights", [(1.0, 1.0, 1.0), (2.0, 0.0, 0.0), (0.0, 3.0, 0.0), (0.0, 0.0, 4.0)], ids=["all", "s", "i", "p"]
)
def test_the_loss_of_a_batch_by_hand(weights):
    """One image at a time, with the draws of the second epoch."""
    model = Two().eval()
    names = ("sufficiency", "intervention", "prior")
    asked = explainer(model, **dict(zip(names, weights, strict=True)), mix=0.4)
    method, task = method_of(asked), asked.task
    network = untrained(asked)
    index, place = torch.tensor([3, 17, 0]), torch.tensor([20, 21, 22])
    with task.predict.session(), torch.enable_grad():
        found = method._loss(task, network, index, place, 0)
    key = {what: draws.stream_keys(0, [0], f"cimi/{what}") for what in ("other", "mix")}
    terms: list[list[Tensor]] = [[], [], []]
    with torch.no_grad():
        for i, at in zip(index.tolist(), place, strict=True):
            others = [j for j in range(20) if j != i]
            x, other = BACKGROUND[i], BACKGROUND[others[int(draws.integers(key["other"], at, 19))]]
            toward = 0.4 * draws.uniform(key["mix"], at)
            mask = network(x[None], features_of(model, x))
            p, kept, rest = (
                model(image).softmax(1) for image in (x[None], mask * x + (1 - mask) * 0.3, (1 - mask) * x + mask * 0.3)
            )
            moved = mask * x + (1 - mask) * ((1 - toward) * x + toward * other)
            terms[0].append(cimi.sufficiency(p, kept, rest))
            terms[1].append(cimi.intervention(mask, network(moved, features_of(model, moved[0]))))
            terms[2].append(cimi.causal_prior(mask, network(other[None], features_of(model, x))))
    expected = sum(w * float(sum(t)) / 3 for w, t in zip(weights, terms, strict=True))
    assert float(found.detach()) == pytest.approx(expected, abs=1e-6)


# --- What the interpreter reads --------------------------------------------------------------------------------------


def test_it_reads_pixels_beside_the_last_convolution_that_runs():
    """The first layer is one of the two, concatenated and scaled by their own statistics."""
    model = Two().eval()
    asked = explainer(model)
    assert method_of(asked).sizes(asked.task) == (2, 4)
    network = untrained(asked)
    features = torch.cat([features_of(model, image) for image in BACKGROUND])
    with torch.no_grad():
        scaled = (BACKGROUND - BACKGROUND.mean((0, 2, 3), keepdim=True)) / BACKGROUND.std(
            (0, 2, 3), correction=0, keepdim=True
        )
        deep = (features - features.mean((0, 2, 3), keepdim=True)) / features.std((0, 2, 3), correction=0, keepdim=True)
        fine = nn.functional.interpolate(deep, (6, 6), mode="bilinear")
        both = torch.cat([scaled, fine], 1).float()
        kernel = torch.zeros(8, 6, 3, 3)
        kernel[:, :2] = network.pixels.weight
        assert network.features is not None
        kernel[:, 2:, 1:2, 1:2] = network.features.weight
        hidden = nn.functional.conv2d(both, kernel, network.pixels.bias, padding=1).relu()
        hidden = nn.functional.conv2d(hidden, network.inner.weight, network.inner.bias, padding=1).relu()
        two = nn.functional.conv2d(hidden, network.out.weight, network.out.bias)
        expected = two[:, 1:].exp() / two.exp().sum(1, keepdim=True)
        found = network(BACKGROUND, features)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    scores = asked.scores(BACKGROUND[:3])
    trained = method_of(asked).train(asked.task, 0)
    with torch.no_grad():
        expected = trained(BACKGROUND[:3], features[:3])
    assert scores == pytest.approx(expected.flatten(1).numpy(), abs=1e-6)


def test_without_a_convolution_it_reads_pixels_alone():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(72, 3)).double()
    asked = explainer(model)
    scores = asked.scores(IMAGES)
    network = method_of(asked).train(asked.task, 0)
    assert network.features is None
    with torch.no_grad():
        assert scores == pytest.approx(network(IMAGES, None).flatten(1).numpy(), abs=1e-6)
    assert method_of(asked).training["rows"] == 3 * 2 * 20  # what is kept, and the rest


# --- What it learns --------------------------------------------------------------------------------------------------

PLUS = torch.tensor([[0, 1.0, 0], [1, 1, 1], [0, 1, 0]])
CROSS = torch.tensor([[1.0, 0, 1], [0, 1, 0], [1, 0, 1]])


class Finder(nn.Module):
    """P of class 1 is high if there is a plus somewhere; it does not mind a cross."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.conv.weight.data = (PLUS - CROSS)[None, None].clone()
        self.conv.weight.data[0, 0, 1, 1] = 1.0
        self.conv.bias.data.fill_(0.0)  # type: ignore[union-attr]
        self.relu = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        z = 2 * (self.relu(self.conv(images)).amax((1, 2, 3)) - 2.5)
        return torch.stack([-z, z], 1)


def scenes(n: int, seed: int, *, every: int = 1) -> tuple[Tensor, Tensor]:
    """Noise with a cross, and a plus in one of `every` images; and where the plus is."""
    rng = np.random.default_rng(seed)
    images, places = torch.from_numpy(rng.random((n, 1, 10, 10)) * 0.2).float(), torch.zeros(n, 10, 10).bool()
    for i in range(n):
        down, right = rng.integers(1, 7, 2)
        images[i, 0, down : down + 3, right : right + 3] += 0.8 * CROSS
        if i % every == 0:
            down = (down + 4) % 8
            images[i, 0, down : down + 3, right : right + 3] = PLUS
            places[i, down : down + 3, right : right + 3] = PLUS.bool()
    return images, places


def chance_above(scores: Any, inside: Any) -> float:
    """The chance that a pixel inside scores above one outside."""
    a, b = scores[inside], scores[~inside]
    return float(np.mean([np.mean((v > b) + 0.5 * (v == b)) for v in a]))


def test_it_finds_what_the_model_looks_at():
    background, _ = scenes(60, 0, every=2)
    images, places = scenes(12, 1)
    settings: dict[str, Any] = {"n_epochs": 20, "rate": 3e-3, "baseline": 0.0}

    def chances(found: Any) -> list[float]:
        return [chance_above(s, p) for s, p in zip(found.reshape(12, 10, 10), places.numpy(), strict=True)]

    asked = explainer(Finder(), background, **settings)
    assert min(chances(asked.scores(images))) > 0.6
    loss = method_of(asked).training["loss"]
    assert loss[-1] < loss[0] - 0.1
    # The prior wants more of every pixel than of a mismatch, wherever the cause; without it the cause stands out.
    alone = explainer(Finder(), background, **settings, prior=0.0)
    assert np.mean(chances(alone.scores(images))) > 0.85
    with torch.no_grad():
        blank = untrained(asked)(images, Finder().conv(images))
    assert np.mean(chances(blank.numpy())) < 0.6


def test_it_learns_from_the_background_alone():
    """Whatever is explained; every row it shows the model lies between background images and the baseline."""
    model = Two()
    first, second = explainer(model), explainer(Two())
    before = len(model.seen)
    method_of(first).train(first.task)
    shown = torch.cat(model.seen[before:])
    first.scores(IMAGES)
    second.scores(random(3, 2, 6, 6, seed=9))
    assert all(torch.equal(a, b) for a, b in zip(parameters(first), parameters(second), strict=True))
    low, high = min(0.3, float(BACKGROUND.min())), max(0.3, float(BACKGROUND.max()))
    assert shown.min() >= low - 1e-9
    assert shown.max() <= high + 1e-9
    whole = [row for row in shown if any(torch.equal(row, image) for image in IMAGES)]
    assert not whole
    untouched = sum(any(torch.equal(row, image) for image in BACKGROUND) for row in shown)
    assert untouched >= 4 * 20  # once for the scales, and once an epoch


def test_the_same_seed_gives_the_same_interpreter():
    generator = torch.get_rng_state()
    one, again, other = explainer(), explainer(), explainer(seed=1)
    scores = one.scores(IMAGES)
    assert np.array_equal(scores, again.scores(IMAGES))
    assert not np.allclose(scores, other.scores(IMAGES), atol=1e-3)
    assert torch.equal(torch.get_rng_state(), generator)
    assert np.array_equal(scores, one.scores(IMAGES, 2))  # it explains the prediction, whatever the class


def test_neither_batch_nor_order_matters():
    x = random(9, 2, 6, 6, seed=4)
    one = explainer(max_batch=64).scores(x)
    for max_batch in (1, 7):
        assert explainer(max_batch=max_batch).scores(x) == pytest.approx(one, abs=1e-5)
    order = [4, 0, 8, 2]
    assert explainer().scores(x[order], ids=order) == pytest.approx(one[order], abs=1e-6)
    few = explainer(max_batch=64)
    few.task.predict.n_seen = 2  # as a network on the CPU may see fewer rows at a time than there are
    assert few.scores(x) == pytest.approx(one, abs=1e-5)
    assert np.ptp(one) > 1e-3


# --- What it costs, and leaves ---------------------------------------------------------------------------------------


def test_training_is_paid_once_and_reported_apart():
    model = Two()
    asked = explainer(model, max_batch=13)
    method = method_of(asked)
    assert method.training == {"seconds": 0.0, "rows": 0, "loss": []}
    model.seen.clear()
    found = asked(IMAGES)
    sizes = [len(rows) for rows in model.seen]
    assert max(sizes) <= 13
    assert found.evaluations["scoring"].tolist() == [1] * 5
    assert method.cost(36) == 1
    training = method.training
    assert (
        training["rows"] == method.training_cost(20) == 1 + 20 + 3 * 4 * 20
    )  # channels, scales, and four times every image an epoch
    assert training["seconds"] > 0
    assert len(training["loss"]) == 3
    model.seen.clear()
    asked.scores(IMAGES)
    assert sum(len(rows) for rows in model.seen) == 2 * 5  # its neighbourhood and its convolution
    assert method.training == training
    assert set(found.settings) >= set(SETTINGS)
    json.dumps(dict(found.settings))


def test_the_model_is_left_as_it_was():
    """Also when it fails in training."""
    model = Two().train()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    asked = explainer(model)
    for model.fail in (True, False):
        if model.fail:
            with pytest.raises(RuntimeError, match="out of order"):
                method_of(asked).train(asked.task)
        else:
            asked.scores(IMAGES)
        assert all(part.training and not part._forward_hooks for part in model.modules())
        assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
        assert all(p.requires_grad and p.grad is None for p in model.parameters())


# --- Keeping it ------------------------------------------------------------------------------------------------------


def test_a_saved_interpreter_gives_the_same_scores(tmp_path):
    asked = explainer()
    scores = asked.scores(IMAGES)
    path = method_of(asked).save(tmp_path / "cimi.safetensors")
    other = explainer(seed=5)
    method_of(other).load(path)
    before = other.task.predict.n_rows
    assert np.array_equal(other.scores(IMAGES), scores)
    assert np.array_equal(other.scores(IMAGES), scores)
    assert other.task.predict.n_rows - before == 1 + 2 * 2 * 5  # its sizes were checked once; nothing was trained
    assert method_of(other).training == method_of(asked).training
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        text = json.loads(file.metadata()["cimi"])
    assert text["settings"] == SETTINGS
    assert text["seed"] == 0
    assert method_of(other).save(tmp_path / "again").read_bytes() == path.read_bytes()


def test_what_is_no_interpreter_is_refused(tmp_path):
    asked = explainer()
    method = method_of(asked)
    with pytest.raises(fans.FansError, match="Expected an interpreter to save, trained, got none yet"):
        method.save(tmp_path / "none")
    with pytest.raises(fans.FansError, match=r"Expected an interpreter saved with `save`, got no file at .*none"):
        method.load(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"nonsense")
    with pytest.raises(fans.FansError, match=r"Expected an interpreter saved with `save`, got .*bad, which is none"):
        method.load(tmp_path / "bad")
    asked(IMAGES).save(tmp_path / "explanation")
    with pytest.raises(fans.FansError, match=r"saved with `save`, got .*explanation, which is none \('cimi'\)"):
        method.load(tmp_path / "explanation")
    method.save(tmp_path / "good")
    grey = explainer(Two(1), random(20, 1, 6, 6))
    method_of(grey).load(tmp_path / "good")
    with pytest.raises(fans.FansError, match=r"a last convolution of \(2, 4\) for .* got \(1, 4\); train one"):
        grey.scores(random(1, 1, 6, 6))


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_epochs": 0}, "`n_epochs` as a whole number of at least 1, got 0"),
        ({"batch": 1.5}, "`batch` as a whole number of at least 1, got 1.5"),
        ({"width": "wide"}, "`width` as a whole number of at least 1, got 'wide'"),
        ({"rate": 0.0}, "`rate` above 0, got 0.0"),
        ({"sufficiency": -1}, "`sufficiency` of at least 0, got -1"),
        ({"intervention": math.nan}, "`intervention` of at least 0, got nan"),
        ({"prior": None}, "`prior` of at least 0, got None"),
        ({"mix": 1.1}, "`mix` from 0 to 1, got 1.1"),
        ({"background": BACKGROUND[:1]}, "at least 2 background images to train method='cimi' on, got 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(fans.FansError, match=f"Expected {message}"):
        explainer(**settings)


def test_a_table_and_what_has_no_gradient_are_refused():
    with pytest.raises(fans.FansError, match="Expected image inputs for method='cimi', got table inputs; use"):
        explainer(nn.Linear(4, 2), np.eye(4), space=None)
    with pytest.raises(fans.FansError, match="a torch module for method='cimi', got function; use"):
        explainer(lambda images: images.mean((1, 2, 3)), BACKGROUND.numpy())

    class Cut(Two):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images.detach())

    with pytest.raises(fans.FansError, match="Expected a module through which gradients flow, got outputs that"):
        explainer(Cut()).scores(IMAGES)
