"""The demo does its job and says where it left the pictures and the page."""

from types import SimpleNamespace

import pytest
import torch

from fans import cli, demo
from fans.networks import load

pytestmark = pytest.mark.slow("explains all of the demo")


def test_the_demo(tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "score, 95 %" in out
    assert ", and change everything else:" in out
    assert "of the image (" in out
    assert "P(Ankle boot) moves by more than" in out
    assert "of the 6 edges of its house" in out.lower()
    for name in ("table.png", "image.png", "graph.png", "demo.html"):
        assert (tmp_path / name).stat().st_size > 10_000
        assert name in out
    page = (tmp_path / "demo.html").read_text()
    assert page.count("<table>") == 4 + 1
    assert page.count("<svg") == 1
    assert page.count("data:image/png") >= 4 * 3


def test_a_photograph_is_explained_once_its_model_is_there(tmp_path, capsys, monkeypatch):
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(48, 10))
    pictures = demo._pictures
    card = SimpleNamespace(accuracy=0.5, n_test=10_000)
    monkeypatch.setattr(demo, "load", lambda name: (small, card) if name == "cifar10" else load(name))
    monkeypatch.setattr(demo, "_tumours", lambda console: pictures("mnist", 1, console, every=8, effort="low"))
    for there in (True, False):
        monkeypatch.setattr(demo, "_is_trained", lambda name, there=there: there and name == "cifar10")
        assert cli.main(["demo", "--out", str(tmp_path / str(there))]) == 0
        assert (tmp_path / str(there) / "photo.png").exists() == there
        out = capsys.readouterr().out
        assert ("photo.png" in out) == there
        assert ("on cifar10: 50.0% right" in out) == there


def test_what_is_trained():
    assert demo._is_trained("fashion_mnist")
    assert not demo._is_trained("nothing")
