"""Models that nobody vouches for: nothing of a file runs unless that file is named as trusted."""

import os
import pickle
import sys
import zipfile

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fans.errors import InputError
from fans.own.models import in_batches, load_model
from tests.own import made


class Bomb:
    """Runs when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def doubled(x):
    return 2 * x


@pytest.fixture
def fitted():
    frame = made.table()
    return LogisticRegression().fit(frame[list(made.COLUMNS)], frame["label"])


def refused(name, match, trust=()):
    with pytest.raises(InputError, match=match) as caught:
        load_model(str(name), trust)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".sav"])
def test_a_pickle_is_not_opened_unless_that_very_file_is_trusted(tmp_path, fitted, suffix):
    path, went_off = tmp_path / f"model{suffix}", tmp_path / "went off"
    path.write_bytes(pickle.dumps(Bomb(went_off)))
    other = tmp_path / "other.joblib"
    joblib.dump(fitted, other)
    said = refused(path, "a pickle, which runs whatever its author put in it as soon as it is loaded", [other])
    assert "skops" in said
    assert f"--trust {path}" in said
    assert not went_off.exists()
    assert load_model(str(other), [other]).model.coef_.tolist() == fitted.coef_.tolist()


def test_a_pickle_under_another_name_is_not_opened(tmp_path):
    went_off = tmp_path / "went off"
    for suffix in (".skops", ".json", ".ubj", ".txt", ".onnx", ".pt2", ".pt", ".safetensors"):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(pickle.dumps(Bomb(went_off)))
        refused(path, "^Expected ")
        assert not went_off.exists(), suffix


@pytest.mark.parametrize("form", ["state dict", "module", "before zip"])
def test_a_pickle_of_torch_is_told_from_torchscript(tmp_path, form):
    model, path = made.Bright(), tmp_path / "net.pt"
    torch.save(
        model.state_dict() if form == "state dict" else model, path, _use_new_zipfile_serialization=form != "before zip"
    )
    refused(path, "a pickle of torch.save, which can run.*torch.export.save.*--trust")
    if form == "state dict":
        refused(path, "weights without the network", [path])
    else:
        assert isinstance(load_model(str(path), [path]).model, made.Bright)


def test_types_that_skops_does_not_know_are_refused_unless_trusted(tmp_path, fitted):
    from skops import io

    path = tmp_path / "model.skops"
    frame = made.table()
    model = make_pipeline(FunctionTransformer(doubled), fitted).fit(frame[list(made.COLUMNS)], frame["label"])
    io.dump(model, path)
    refused(path, r"got tests\.own\.test_models\.doubled, whose code would run; .*--trust")
    loaded = load_model(str(path), [path])
    assert loaded.wants.columns == made.COLUMNS
    assert not loaded.again
    io.dump(fitted, path)
    assert load_model(str(path)).again


def test_files_that_are_no_models(tmp_path):
    refused(tmp_path / "none.onnx", "got nothing at")
    refused("no_such_module_here:model", "Expected a module 'no_such_module_here'")
    for suffix in (".skops", ".json", ".ubj", ".txt", ".onnx", ".pt2", ".pt", ".ts", ".safetensors"):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(b"")
        refused(path, "an empty file")
        path.write_bytes(b"\x00\xff" * 50)
        refused(path, "^Expected ")
    with zipfile.ZipFile(tmp_path / "zip.skops", "w") as packed:
        packed.writestr("schema.json", "{}")
    refused(tmp_path / "zip.skops", "which is not one")
    (tmp_path / "model.h5").write_bytes(b"x")
    refused(tmp_path / "model.h5", r"got model\.h5")
    (tmp_path / "weights.safetensors").write_bytes(b"x")
    refused(tmp_path / "weights.safetensors", "weights alone are no model")


def test_a_damaged_booster_does_not_end_the_process(tmp_path):
    """LightGBM's own reader crashes on some files that end early."""
    lightgbm = pytest.importorskip("lightgbm")
    frame = made.table()
    model = lightgbm.LGBMClassifier(n_estimators=30, min_child_samples=5, verbose=-1)
    model.fit(frame[list(made.COLUMNS)], frame["label"] == "ill")
    model.booster_.save_model(tmp_path / "model.txt")
    whole = (tmp_path / "model.txt").read_text()
    assert load_model(str(tmp_path / "model.txt")).wants.columns == ("age", "dose_(mg)", "weight")
    (tmp_path / "model.txt").write_text(whole[: len(whole) // 3])
    refused(tmp_path / "model.txt", "LightGBM fails on it")


def test_modules(tmp_path, monkeypatch):
    made.write_module(tmp_path)
    (tmp_path / "faulty.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    refused("mine:nothing", "Expected 'nothing' in mine, got a module with")
    refused("mine:broken", "got ValueError from it: no weights today")
    refused("faulty:model", "got ZeroDivisionError from it")
    assert load_model("mine:praised").model(["good"]).tolist() == [[0.09999999999999998, 0.9]]
    assert type(load_model("mine:graph").model).__name__ == "Sum"
    assert type(load_model("mine:Sum").model).__name__ == "Sum"
    assert load_model("mine:rows").wants.frame


def test_a_checkpoint_of_ours():
    from fans.networks import find_checkpoint

    loaded = load_model(str(find_checkpoint("mnist")))
    assert (loaded.wants.channels, loaded.again) == (1, True)


def test_what_onnx_says_of_its_inputs(tmp_path):
    pytest.importorskip("onnx")
    made.onnx_pictures(tmp_path / "a.onnx", 5)
    wants = load_model(str(tmp_path / "a.onnx")).wants
    assert (wants.channels, wants.height, wants.width, wants.channels_last) == (1, 8, 8, False)
    made.onnx_table(tmp_path / "b.onnx")
    assert load_model(str(tmp_path / "b.onnx")).wants.n_columns == 3


@pytest.mark.parametrize("n", [1, 4, 5, 11])
def test_any_number_of_rows_by_batches_of_one_size(n):
    sizes = []

    def run(parts):
        sizes.append(len(parts[0]))
        return parts[0] * 2

    rows = np.arange(n * 3).reshape(n, 3)
    np.testing.assert_array_equal(in_batches(run, [rows], 4), rows * 2)
    assert set(sizes) == {4}
