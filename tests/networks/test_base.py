"""The target models are the networks they say they are, and their checkpoints what their cards say."""

import json
from dataclasses import replace
from operator import add, sub, truediv
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch as safetensors
import torch
from torch import nn
from torch.nn import functional

from fans import networks as models
from fans.datasets import ImageDataset, load_images, load_slice
from fans.errors import InputError
from fans.networks.base import CHECKPOINTS, Network, network
from fans.networks.lenet import RELEASED

ROOT = Path(__file__).parents[2] / CHECKPOINTS
KEPT = sorted(p.stem for p in ROOT.glob("*.json") if p.stem in ImageDataset.registry)  # graphs: `test_gcn.py`
GOALS = {"mnist": 0.985, "fashion_mnist": 0.89, "cifar10": 0.9}


def shaken(name: str) -> Network:
    """A network whose every number, batch-norm statistics included, is its own."""
    generator = torch.Generator().manual_seed(0)
    made = network(name)
    for tensor in made.state_dict().values():
        if tensor.is_floating_point():
            scale = 1.0 if tensor.ndim == 1 else tensor[0].numel() ** -0.5
            tensor.copy_(scale * (torch.rand(tensor.shape, generator=generator) + 0.1))
    return made.eval()


def card(**changes):
    plain = models.Card("x", "lenet5", "mnist", 0.5, n_test=2, seed=0, seconds=1.0, recipe={}, history=[], versions={})
    return replace(plain, **changes)


@pytest.mark.parametrize(("name", "count", "n_relus"), [("lenet5", 44_426, 4), ("resnet18", 11_173_962, 17)])
def test_size_and_one_module_an_activation(name, count, n_relus):
    made = network(name)
    assert sum(p.numel() for p in made.parameters()) == count
    nodes = list(torch.fx.symbolic_trace(made).graph.nodes)
    modules = dict(made.named_modules())
    called = [n.target for n in nodes if n.op == "call_module"]
    assert len(called) == len(set(called)), "a module used twice"
    relus = [t for t in called if isinstance(modules[t], nn.ReLU)]
    assert len(relus) == n_relus == sum(isinstance(m, nn.ReLU) for m in made.modules())
    assert not any(m.inplace for m in made.modules() if isinstance(m, nn.ReLU))
    functions = {n.target for n in nodes if n.op in ("call_function", "call_method")}
    assert functions <= {add, sub, truediv, torch.flatten}, "what else is computed is a module"


def test_lenet_by_hand():
    made = shaken("lenet5")
    w = made.state_dict()
    images = torch.rand(2, 1, 28, 28)
    h = (images - 0.5) / 0.5
    for layer in ("conv1", "conv2"):
        h = functional.max_pool2d(functional.conv2d(h, w[f"{layer}.weight"], w[f"{layer}.bias"]).relu(), 2)
    h = h.flatten(1)
    for layer in ("fc1", "fc2"):
        h = (h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]).relu()
    torch.testing.assert_close(made(images), h @ w["fc3.weight"].T + w["fc3.bias"])


def test_resnet_by_hand():
    """He et al. 2016, section 4.2, with the widths of ResNet18 and projections where the shape changes."""
    made = shaken("resnet18")
    w = made.state_dict()

    def conv(x, name, stride=1):
        return functional.conv2d(x, w[name], stride=stride, padding=w[name].shape[-1] // 2)

    def norm(x, name):
        mean, var, gain, bias = (
            w[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * gain + bias

    images = torch.rand(2, 3, 16, 16)
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616])
    h = norm(conv((images - mean[:, None, None]) / std[:, None, None], "conv1.weight"), "bn1").relu()
    for stage in range(4):
        for block in range(2):
            at, stride = f"stages.{stage}.{block}", 2 if stage and not block else 1
            short = h
            if stride == 2:
                short = norm(conv(h, f"{at}.shortcut.0.weight", 2), f"{at}.shortcut.1")
            h = norm(conv(h, f"{at}.conv1.weight", stride), f"{at}.bn1").relu()
            h = (norm(conv(h, f"{at}.conv2.weight"), f"{at}.bn2") + short).relu()
    assert h.shape == (2, 512, 2, 2)
    expected = h.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]
    torch.testing.assert_close(made(images), expected, rtol=1e-4, atol=0)


def test_normalisation_is_no_part_of_a_checkpoint():
    for name in Network.registry:
        assert not [key for key in network(name).state_dict() if "normalise" in key]


def test_a_checkpoint_comes_back(tmp_path):
    made = shaken("lenet5")
    path = models.save(made.state_dict(), card(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.json", "x.safetensors"]
    found, its_card = models.load("x", tmp_path)
    assert not found.training
    assert its_card == card(sha256=its_card.sha256)
    images = torch.rand(2, 1, 28, 28)
    assert torch.equal(found(images), made(images))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(InputError, match=rf"x.safetensors with sha256 {its_card.sha256}, got [0-9a-f]{{64}}; the file"):
        models.load("x", tmp_path)


def test_loading_leaves_torch_s_generator_alone(tmp_path):
    models.save(shaken("lenet5").state_dict(), card(), tmp_path)
    before = torch.get_rng_state()
    models.load("x", tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_half_precision_spares_the_statistics(tmp_path):
    made = shaken("resnet18")
    made.state_dict()["bn1.running_var"].fill_(1e-9)  # nothing, in half precision
    kept = safetensors.load_file(models.save(made.state_dict(), card(network="resnet18"), tmp_path, half=True))
    for key, tensor in kept.items():
        expected = torch.int64 if "tracked" in key else torch.float16 if tensor.ndim > 1 else torch.float32
        assert tensor.dtype == expected, key
    found = models.load("x", tmp_path)[0].state_dict()
    assert {t.dtype for t in found.values()} == {torch.float32, torch.int64}
    assert found["bn1.running_var"][0] == np.float32(1e-9)
    assert torch.equal(found["conv1.weight"], made.state_dict()["conv1.weight"].half().float())


def test_what_is_no_checkpoint_is_refused(tmp_path):
    models.save(shaken("lenet5").state_dict(), card(), tmp_path)
    with pytest.raises(InputError, match=r"called 'y' in .*, got x there; make one with: fans train"):
        models.load("y", tmp_path)
    (tmp_path / "x.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(InputError, match=r"got .*x.json, which is not one \(.*missing"):
        models.load("x", tmp_path)
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InputError, match=r"got .*x.json, which is not one"):
        models.load("x", tmp_path)
    (tmp_path / "x.json").unlink()
    with pytest.raises(InputError, match=r"Expected the card .*x.json beside the checkpoint"):
        models.load("x", tmp_path)
    with pytest.raises(InputError, match="'lenet5', 'resnet18', got 'lenet'"):
        network("lenet")


def right(model, images, n=None):
    """The share of images that a model gets right."""
    with torch.no_grad():
        found = [model(images.tensor(slice(i, i + 500))[: n or 500]).argmax(1) for i in range(0, n or len(images), 500)]
    return float((torch.cat(found).numpy() == images.labels[:n]).mean())


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_works(name):
    model, its_card = models.load(name)
    assert its_card.dataset == name
    assert its_card.seconds > 0
    assert its_card.n_test == 10_000
    assert its_card.accuracy >= GOALS.get(name, 0.9)
    assert len(its_card.history) == sum(epochs for epochs, _ in its_card.recipe["stages"])
    assert {"fans", "torch", "numpy"} <= set(its_card.versions)
    assert right(model, load_slice(name, "test"), 64) >= 0.85


@pytest.mark.usefixtures("full_data")
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])  # of cifar10 that takes minutes
def test_accuracy_is_what_the_card_says(name):
    model, its_card = models.load(name)
    assert right(model, load_images(name, "test")) == pytest.approx(its_card.accuracy, abs=2e-4)


@pytest.mark.usefixtures("full_data")
def test_the_authors_own_network():
    images = load_images("fashion_mnist", "test")
    first = images.tensor(slice(0, 1))
    model = models.load_released()
    logits = [-3.5076, -2.3295, -5.0719, -4.6970, -3.8839, 3.5924, -3.6133, 6.1341, -1.5258, 13.6035]
    assert model(first)[0].tolist() == pytest.approx(logits, abs=1e-4)
    assert models.load_released(normalise=False)(first * 2 - 1)[0].tolist() == pytest.approx(logits, abs=1e-4)
    assert right(model, images) == pytest.approx(0.8836, abs=1e-4)


def test_the_authors_own_network_is_read_only_if_it_is_theirs(no_data):
    with pytest.raises(InputError, match=r"fans_lenet_fashionmnist.pt under .*load_released\(download=True\)"):
        models.load_released()
    path = no_data / RELEASED.path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not theirs")
    with pytest.raises(InputError, match=rf"sha256 {RELEASED.sha256}, got"):
        models.load_released()


@pytest.mark.parametrize("name", KEPT)
def test_the_documentation_gives_the_accuracy_of_the_card(name):
    text = (ROOT.parent / "docs" / "data.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` | ") and "Net" in line)
    assert f"| {models.load(name)[1].accuracy:.2%} |" in row
