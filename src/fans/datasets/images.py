"""MNIST, Fashion-MNIST and CIFAR-10, read from their original files."""

import gzip
import lzma
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fans.datasets.files import File, cache_folder, fetch, find, missing, obtain, unpack
from fans.errors import InputError, choose
from fans.registry import Registered
from fans.types import Array

Split = Literal["train", "test"]

SLICES = Path(__file__).parent / "slices"
_RECORD = 3073


@dataclass(frozen=True)
class Images:
    """Labelled images of one split.

    Attributes:
        pixels: `(n, channels, height, width)` uint8.
        labels: `(n,)` int64.
        classes: their names.
    """

    pixels: Array
    labels: Array
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pixels)

    def tensor(self, index: Array | slice = slice(None)) -> Tensor:
        """Return the images at `index` as float32 in [0, 1]."""
        return torch.from_numpy(self.pixels[index].astype(np.float32) / np.float32(255))


class ImageDataset(Registered):
    """A dataset of images; subclasses register themselves by `name`."""

    registry: ClassVar[dict[str, type[Registered]]] = {}
    classes: ClassVar[tuple[str, ...]]
    shape: ClassVar[tuple[int, int, int]]
    """Channels, height and width."""
    home: ClassVar[str] = ""

    @classmethod
    def paths(cls, split: Split, *, download: bool, home: str) -> list[Path]:
        """Return where the files of a split lie, checksums verified; see `fetch_images`."""
        raise NotImplementedError

    @classmethod
    def read(cls, paths: list[Path]) -> Images:
        """Return the images in the files of a split."""
        raise NotImplementedError

    @classmethod
    def remedy(cls) -> str:
        """Return what to do about a missing file."""
        return f"download it with: fans data {cls.name} (or download=True)"


class _Idx(ImageDataset):
    """Two IDX files a split."""

    shape: ClassVar[tuple[int, int, int]] = (1, 28, 28)
    folder: ClassVar[str]
    sha256: ClassVar[dict[str, str]]

    @classmethod
    def paths(cls, split: Split, *, download: bool, home: str) -> list[Path]:
        prefix = "train" if split == "train" else "t10k"
        return [
            obtain(File(f"{cls.folder}/raw/{name}", cls.sha256[name]), home + name, cls.remedy(), download=download)
            for name in (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz")
        ]

    @classmethod
    def read(cls, paths: list[Path]) -> Images:
        pixels, labels = (read_idx(gzip.decompress(path.read_bytes())) for path in paths)
        return Images(pixels[:, None], labels.astype(np.int64), cls.classes)


class MNIST(_Idx):
    """Handwritten digits, 28x28."""

    name = "mnist"
    folder = "MNIST"
    home = "https://ossci-datasets.s3.amazonaws.com/mnist/"
    classes = tuple("0123456789")
    sha256: ClassVar[dict[str, str]] = {
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    }


class FashionMNIST(_Idx):
    """Clothes, 28x28."""

    name = "fashion_mnist"
    folder = "FashionMNIST"
    home = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
    classes = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )
    sha256: ClassVar[dict[str, str]] = {
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    }


class CIFAR10(ImageDataset):
    """Photographs, 32x32 in colour: the binary version, as it is or each file packed with xz."""

    name = "cifar10"
    shape: ClassVar[tuple[int, int, int]] = (3, 32, 32)
    home = "https://www.cs.toronto.edu/~kriz/"
    archive: ClassVar[tuple[str, str]] = ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
    folder: ClassVar[str] = "cifar-10-batches-bin"
    classes = (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    )
    names: ClassVar[File] = File("batches.meta.txt", "558e74b5e208382e186da55784b4bac2cd52e558448e1b5800990fdb28ed8033")
    sha256: ClassVar[dict[str, str]] = {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }
    packed: ClassVar[dict[str, str]] = {
        "data_batch_1.bin": "05dc5fe09eb23af23d8cdc4c0afc27125702a4bd1c9101b17f7be474b58e29c7",
        "data_batch_2.bin": "9408d65b03160954798b117ebee9819a2368881713199df59ffb6843569753a2",
        "data_batch_3.bin": "fa9d2e124c5ad29c6affb87c6b1ae2b597d1c444b8dffddc640b040fb2edb61a",
        "data_batch_4.bin": "9c7c6acd603162f0e5069601652fd683d3a0c2457de630f803386e9b98c9eafd",
        "data_batch_5.bin": "467b11d5c55692292fa6d4f9c0829919e72266ec9bc6cf065fa2b28350cbccd2",
        "test_batch.bin": "a596cd4947d3e8a1c368733d09a65f89c003a5a6b0376161a498e83631674e9d",
    }

    @classmethod
    def paths(cls, split: Split, *, download: bool, home: str) -> list[Path]:
        """Return where the batches of a split lie; what is missing comes with the whole archive."""
        found = []
        for name in (n for n in cls.sha256 if n.startswith("test") == (split == "test")):
            path = cls._find(name)
            if path is None and download:
                cls._download(home)
                path = cls._find(name)
            if path is None:
                raise missing(File(f"{cls.folder}/{name}", cls.sha256[name]), cls.remedy())
            found.append(path)
        return found

    @classmethod
    def read(cls, paths: list[Path]) -> Images:
        """Return the images of some batches."""
        table = np.concatenate([read_records(_unpacked(path)) for path in paths])
        return Images(table[:, 1:].reshape(-1, 3, 32, 32), table[:, 0].astype(np.int64), cls.classes)

    @classmethod
    def _find(cls, name: str) -> Path | None:
        return find(
            File(f"cifar10/{name}.xz", cls.packed[name]),
            File(f"cifar10/{name}", cls.sha256[name]),
            File(f"{cls.folder}/{name}", cls.sha256[name]),
        )

    @classmethod
    def _download(cls, home: str) -> None:
        name, md5 = cls.archive
        archive = fetch(home + name, cache_folder() / name, md5, "md5")
        wanted = cls.sha256 | {cls.names.path: cls.names.sha256}
        unpack(archive, [File(f"{cls.folder}/{n}", digest) for n, digest in wanted.items()], cache_folder())
        archive.unlink()


def read_idx(raw: bytes) -> Array:
    """Return the array of an IDX file of unsigned bytes."""
    if raw[:3] != b"\0\0\x08":
        raise InputError(f"Expected an IDX file of unsigned bytes (magic 00 00 08), got {raw[:3].hex(' ')}")
    n_dims = raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", n_dims, 4))
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dims)
    if values.size != math.prod(shape):
        raise InputError(f"Expected an IDX file of {shape} bytes, got {values.size} bytes")
    return values.reshape(shape)


def read_records(raw: bytes) -> Array:
    """Return the records `(n, 3073)` of a CIFAR-10 file: a label and 1,024 bytes each of red, green and blue."""
    if len(raw) % _RECORD:
        raise InputError(f"Expected whole records of {_RECORD:,} bytes, got {len(raw):,} bytes")
    return np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)


def _unpacked(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def load_images(name: str, split: Split, *, download: bool = False) -> Images:
    """Return a whole split of the dataset called `name`.

    Args:
        name: `"mnist"`, `"fashion_mnist"` or `"cifar10"`.
        split: `"train"` or `"test"`.
        download: whether to download what is neither under `FANS_DATA` nor in the cache.
    """
    found = image_dataset(name)
    return found.read(found.paths(_split(split), download=download, home=found.home))


def fetch_images(name: str, *, home: str | None = None) -> list[Path]:
    """Download what is missing of a dataset and return where its files lie, all checksums verified.

    Args:
        name: `"mnist"`, `"fashion_mnist"` or `"cifar10"`.
        home: an address to download from instead of the public one; ends with `/`.
    """
    found = image_dataset(name)
    splits: tuple[Split, ...] = ("train", "test")
    return [path for split in splits for path in found.paths(split, download=True, home=home or found.home)]


def load_slice(name: str, split: Split) -> Images:
    """Return 256 real images that come with the package, for trying things out and for tests.

    Of `"test"` they are the first 256; of `"train"` a seeded choice, balanced over the classes, in their order.
    """
    found = image_dataset(name)
    with np.load(SLICES / f"{name}_{_split(split)}.npz", allow_pickle=False) as kept:
        return Images(kept["pixels"], kept["labels"].astype(np.int64), found.classes)


def image_dataset(name: str) -> type[ImageDataset]:
    """Return the registered dataset called `name`."""
    found = ImageDataset.registry[choose("the dataset", name, ImageDataset.registry)]
    assert issubclass(found, ImageDataset)
    return found


def _split(split: Split) -> Split:
    choose("`split`", split, ("train", "test"))
    return split
