"""Images: files made by hand are read as their formats say; the real ones hold what their authors say."""

import gzip
import hashlib
import lzma
import struct

import numpy as np
import pytest
import torch

from fans.datasets import Images, images, load_images, load_slice
from fans.datasets.images import SLICES, ImageDataset, read_idx, read_records
from fans.errors import InputError
from tools.make_slices import balanced

NAMES = sorted(ImageDataset.registry)

COUNTS = {
    ("mnist", "train"): [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    ("mnist", "test"): [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ("fashion_mnist", "train"): [6000] * 10,
    ("fashion_mnist", "test"): [1000] * 10,
    ("cifar10", "train"): [5000] * 10,
    ("cifar10", "test"): [1000] * 10,
}


def idx(*shape: int, values: bytes) -> bytes:
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


def write(path, content):
    """Write a file and return its checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def test_an_idx_file():
    assert read_idx(idx(2, 3, values=bytes(range(6)))).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read_idx(idx(300, values=bytes(300))).shape == (300,)


def test_an_idx_file_that_is_none():
    with pytest.raises(InputError, match=r"magic 00 00 08\), got 00 00 0d"):
        read_idx(b"\0\0\x0d\x01" + bytes(8))
    with pytest.raises(InputError, match=r"of \(2, 3\) bytes, got 5 bytes"):
        read_idx(idx(2, 3, values=bytes(5)))
    with pytest.raises(InputError, match=r"3,073 bytes, got 3,072 bytes"):
        read_records(bytes(3072))


def test_mnist_from_files(no_data, monkeypatch):
    pixels, labels = bytes(range(12)), bytes([7, 200])
    folder = no_data / "MNIST/raw"
    made = {
        "t10k-images-idx3-ubyte.gz": gzip.compress(idx(2, 2, 3, values=pixels)),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(2, values=labels)),
    }
    monkeypatch.setattr(images.MNIST, "sha256", {name: write(folder / name, c) for name, c in made.items()})
    found = load_images("mnist", "test")
    assert found.pixels.shape == (2, 1, 2, 3)
    assert found.pixels[1, 0].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert found.labels.tolist() == [7, 200]
    assert found.labels.dtype == np.int64


@pytest.mark.parametrize(
    "form", ["cifar10/test_batch.bin.xz", "cifar10/test_batch.bin", "cifar-10-batches-bin/test_batch.bin"]
)
def test_cifar_from_files(no_data, monkeypatch, form):
    records = np.arange(2 * 3073, dtype=np.uint32).astype(np.uint8).reshape(2, 3073)
    records[:, 0] = [3, 9]
    raw = records.tobytes()
    digest = write(no_data / form, lzma.compress(raw) if form.endswith("xz") else raw)
    monkeypatch.setattr(images.CIFAR10, "packed" if form.endswith("xz") else "sha256", {"test_batch.bin": digest})
    monkeypatch.setattr(images.CIFAR10, "packed" if not form.endswith("xz") else "sha256", {"test_batch.bin": ""})
    found = load_images("cifar10", "test")
    assert found.labels.tolist() == [3, 9]
    red, green, blue = found.pixels[1]
    assert red[0, 0] == records[1, 1]
    assert green[0, 1] == records[1, 1 + 1024 + 1], "columns run fastest"
    assert blue[1, 0] == records[1, 1 + 2048 + 32]


def test_tensors_are_in_the_unit_interval():
    made = Images(np.array([0, 51, 255], np.uint8).reshape(3, 1, 1, 1), np.zeros(3, np.int64), ("a",))
    assert len(made) == 3
    assert made.tensor().dtype == torch.float32
    assert made.tensor().flatten().tolist() == pytest.approx([0, 0.2, 1])
    assert made.tensor(np.array([2])).flatten().tolist() == [1]


def test_names_and_splits_are_checked():
    with pytest.raises(InputError, match="'cifar10', got 'cifar100'; did you mean 'cifar10'"):
        load_images("cifar100", "test")
    with pytest.raises(InputError, match="'train', 'test', got 'valid'"):
        load_slice("mnist", "valid")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_slices(name):
    shape = (256, 3, 32, 32) if name == "cifar10" else (256, 1, 28, 28)
    for split in ("train", "test"):
        found = load_slice(name, split)
        assert found.pixels.shape == shape
        assert found.pixels.dtype == np.uint8
        assert found.labels.dtype == np.int64
        assert len(found.classes) == 10
        assert (SLICES / f"{name}_{split}.npz").stat().st_size < 800_000
    assert sorted(np.bincount(load_slice(name, "train").labels)) == [25] * 4 + [26] * 6


def test_a_balanced_choice():
    labels = np.array([0] * 50 + [1] * 5 + [2] * 5)
    chosen = balanced(labels, 8)
    assert np.bincount(labels[chosen]).tolist() == [3, 3, 2]
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert chosen.tolist() != balanced(labels, 8, seed=1).tolist()


@pytest.mark.usefixtures("full_data")
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", NAMES)
def test_the_real_files(name, split):
    found = load_images(name, split)
    assert np.bincount(found.labels).tolist() == COUNTS[name, split]
    if (name, split) == ("cifar10", "train"):
        assert found.pixels.mean((0, 2, 3)) / 255 == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    index = balanced(found.labels) if split == "train" else np.arange(256)
    with np.load(SLICES / f"{name}_{split}.npz", allow_pickle=False) as kept:
        assert np.array_equal(kept["index"], index)
    cut = load_slice(name, split)
    assert np.array_equal(cut.pixels, found.pixels[index])
    assert np.array_equal(cut.labels, found.labels[index])
