"""BA-Community, Citeseer and Pubmed as graphs, read from their original files, and a generator of BA-Community."""

import hashlib
import io
import pickle
import warnings
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fans.datasets.files import File, cache_folder, find, obtain
from fans.errors import FansError, InputError, choose, extra
from fans.files import write
from fans.registry import Registered
from fans.types import Array

SLICES = Path(__file__).parent / "slices"

_HOUSE = ((0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1))
"""The edges of a house: two middle nodes, two bottom nodes, the roof."""


@dataclass(frozen=True)
class Graph:
    """A graph whose nodes are classified.

    Attributes:
        x: `(n, d)` float32 features of the nodes.
        edge_index: `(2, m)` int64, from and to, every edge in both directions.
        y: `(n,)` int64 classes.
        train_mask, val_mask, test_mask: `(n,)` bool.
        classes: their names.
        truth: `(m,)` bool, the edges that made the classes of their nodes; None where nobody knows them.
        motif: `(n,)` int64, the number of the house that a node belongs to, or -1; None likewise.
    """

    x: Array
    edge_index: Array
    y: Array
    train_mask: Array
    val_mask: Array
    test_mask: Array
    classes: tuple[str, ...]
    truth: Array | None = None
    motif: Array | None = None

    def __len__(self) -> int:
        return len(self.x)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Return `x` and `edge_index` as a model takes them."""
        return torch.from_numpy(self.x), torch.from_numpy(self.edge_index)

    def data(self) -> Any:
        """Return the graph as PyTorch Geometric's `Data`, under the same names."""
        names = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask", "truth", "motif")
        held = {name: torch.from_numpy(v) for name in names if (v := getattr(self, name)) is not None}
        return geometric("a graph as `Data`").data.Data(**held)


def geometric(purpose: str) -> ModuleType:
    """Return torch_geometric, imported only now; what it says of torch's own future stays with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import torch_geometric.data
            import torch_geometric.nn
    except ImportError:
        raise extra("torch_geometric", "graph", purpose) from None
    module: ModuleType = torch_geometric
    return module


class GraphDataset(Registered):
    """A graph; subclasses register themselves by `name`."""

    registry: ClassVar[dict[str, type[Registered]]] = {}
    classes: ClassVar[tuple[str, ...]]
    splits: ClassVar[tuple[str, ...]]
    """What its nodes can be split into; the first is the usual one."""
    files: ClassVar[tuple[File, ...]]
    home: ClassVar[str] = ""

    @classmethod
    def paths(cls, *, download: bool, home: str) -> list[Path]:
        """Return where the files lie, checksums verified; see `fetch_graph`."""
        return [
            obtain(file, home + file.path.rsplit("/", 1)[-1], cls.remedy(), download=download) for file in cls.files
        ]

    @classmethod
    def read(cls, paths: list[Path]) -> Graph:
        """Return the graph in the files, with its usual split."""
        raise NotImplementedError

    @classmethod
    def bundled(cls) -> Graph | None:
        """Return the graph as it comes with the package, if it does."""
        return None

    @classmethod
    def remedy(cls) -> str:
        """Return what to do about a missing file."""
        return f"download it with: fans data {cls.name} (or download=True)"


class BACommunity(GraphDataset):
    """Two communities of houses on Barabasi-Albert graphs, 1,400 nodes: the published instance."""

    name = "ba_community"
    classes = tuple(f"{part} {side}" for side in (1, 2) for part in ("base", "middle", "bottom", "roof"))
    splits = ("published",)
    files = (File("ba_community/ba_community.npz", "8631797653c4a888fbca70fc71fab7cafdde5da713eb2a121bfb8c3336217620"),)

    @classmethod
    def paths(cls, *, download: bool, home: str) -> list[Path]:  # noqa: ARG003 - there is nothing to download
        """Return where the file lies; it comes with the package."""
        return [find(*cls.files) or SLICES / f"{cls.name}.npz"]

    @classmethod
    def read(cls, paths: list[Path]) -> Graph:
        """Return the published graph."""
        raw = paths[0].read_bytes()
        _check(raw, cls.files[0], paths[0])
        with np.load(io.BytesIO(raw), allow_pickle=False) as kept:
            return Graph(
                x=kept["x"].astype(np.float32),
                **{name: kept[name] for name in ("edge_index", "y", "train_mask", "val_mask", "test_mask")},
                classes=cls.classes,
                truth=kept["gt_edge_mask"],
                motif=kept["motif_id"],
            )


class _Planetoid(GraphDataset):
    """Papers that cite each other: eight files of the Planetoid study, seven of them pickles of Python 2.

    They are read by an unpickler that knows six harmless names, only if their checksums are the known ones, and
    converted once into an npz file in the cache, which is all that is read afterwards.
    """

    splits = ("planetoid", "larger")
    home = "https://github.com/kimiyoung/planetoid/raw/master/data/"
    n_val: ClassVar[int] = 500

    @classmethod
    def read(cls, paths: list[Path]) -> Graph:
        kept = cache_folder() / "planetoid" / f"{cls.name}.npz"
        arrays = cls._kept(kept)
        if arrays is None:
            arrays = cls._convert([path.read_bytes() for path in paths])
            with suppress(OSError):  # where it cannot be kept it is made anew
                kept.parent.mkdir(parents=True, exist_ok=True)
                write(kept, cls.packed(arrays))
        return cls._graph(arrays)

    @classmethod
    def bundled(cls) -> Graph | None:
        path = SLICES / f"{cls.name}.npz"
        if not path.is_file():
            return None
        arrays = cls._kept(path)
        if arrays is None:
            raise FansError(f"Expected the graph that comes with the package, got {path}, damaged; install fans anew")
        return cls._graph(arrays)

    @classmethod
    def converted(cls) -> dict[str, Array]:
        """Return what a conversion keeps: rows and columns of features that are not 0, edges, classes, test nodes."""
        return cls._convert([path.read_bytes() for path in cls.paths(download=False, home=cls.home)])

    @classmethod
    def packed(cls, arrays: Mapping[str, Array]) -> bytes:
        """Return a conversion as an npz file, with a checksum of it and of the files it was made from."""
        file = io.BytesIO()
        np.savez_compressed(file, **arrays, check=np.array(cls._digest(arrays)))  # type: ignore[arg-type]
        return file.getvalue()

    @classmethod
    def _digest(cls, arrays: Mapping[str, Array]) -> str:
        digest = hashlib.sha256("".join(file.sha256 for file in cls.files).encode())
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name])
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
        return digest.hexdigest()

    @classmethod
    def _kept(cls, path: Path) -> dict[str, Array] | None:
        """Return an earlier conversion; None where there is none, or one that is damaged or of other files."""
        damaged = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file}
                check = str(arrays.pop("check"))
        except damaged:
            return None
        return arrays if check == cls._digest(arrays) else None

    @classmethod
    def _convert(cls, raws: list[bytes]) -> dict[str, Array]:
        """Bring what the files hold into the order of the nodes."""
        content: dict[str, Any] = {}
        for file, raw in zip(cls.files, raws, strict=True):
            part = file.path.rsplit(".", 1)[-1]
            if part == "index":
                _check(raw, file)
                content[part] = np.array(raw.split(), np.int64)
            else:
                content[part] = unpickle(raw, file)
        # The rows of `tx` are the test nodes in the order of `test.index`; nodes that neither it nor `allx` names have
        # no features and no class (they get the first).
        n_first, test = content["allx"].shape[0], content["index"]
        n = max(n_first, int(test.max()) + 1)
        place = np.concatenate([np.arange(n_first), test])
        first, rest = _entries(content["allx"]), _entries(content["tx"])
        rows = np.concatenate([first[0], rest[0] + n_first])
        columns, values = (np.concatenate([a, b]) for a, b in zip(first[1:], rest[1:], strict=True))
        y = np.zeros(n, np.uint8)
        y[place] = np.concatenate([content["ally"], content["ty"]]).argmax(1)
        order = np.lexsort((columns, place[rows]))
        kept = values[order].astype(np.float32)
        counts = np.bincount(place[rows], minlength=n)
        shape = np.array([n, content["allx"].shape[1], len(content["y"])])
        return {
            "shape": shape,
            "counts": counts.astype(np.uint16),
            "columns": columns[order].astype(np.uint16),
            "values": kept[:1] if (kept == kept[0]).all() else kept,
            "edges": _edges(content["graph"], n).astype(np.uint16),
            "y": y,
            "test": test.astype(np.uint16),
        }

    @classmethod
    def _graph(cls, kept: Mapping[str, Array]) -> Graph:
        """Return the graph of a conversion."""
        n, d, n_train = (int(v) for v in kept["shape"])
        x = np.zeros((n, d), np.float32)
        x[np.repeat(np.arange(n), kept["counts"]), kept["columns"]] = kept["values"]
        edges = kept["edges"].astype(np.int64)
        both = np.concatenate([edges, edges[::-1]], 1)
        index = np.arange(n)
        return Graph(
            x=x,
            edge_index=both[:, np.lexsort((both[0], both[1]))],
            y=kept["y"].astype(np.int64),
            train_mask=index < n_train,
            val_mask=(index >= n_train) & (index < n_train + cls.n_val),
            test_mask=np.isin(index, kept["test"]),
            classes=cls.classes,
        )


class Citeseer(_Planetoid):
    """Computer science papers and citations, 3,327 nodes: words as features, areas as classes."""

    name = "citeseer"
    classes = tuple(f"class {i}" for i in range(6))
    files = tuple(
        File(f"planetoid/CiteSeer/raw/ind.citeseer.{part}", sha256)
        for part, sha256 in (
            ("allx", "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
            ("ally", "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
            ("graph", "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
            ("test.index", "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"),
            ("tx", "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
            ("ty", "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
            ("x", "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
            ("y", "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
        )
    )


class Pubmed(_Planetoid):
    """Papers on diabetes and citations, 19,717 nodes: weighted words as features, kinds of diabetes as classes."""

    name = "pubmed"
    classes = ("class 0", "class 1", "class 2")
    files = tuple(
        File(f"planetoid/PubMed/raw/ind.pubmed.{part}", sha256)
        for part, sha256 in (
            ("allx", "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
            ("ally", "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
            ("graph", "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
            ("test.index", "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
            ("tx", "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
            ("ty", "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
            ("x", "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
            ("y", "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
        )
    )


class _Sparse:
    """What a pickled `csr_matrix` holds, without scipy."""

    data: Array
    indices: Array
    indptr: Array
    _shape: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape


class _Restricted(pickle.Unpickler):
    """An unpickler that makes arrays, lists and dictionaries and calls nothing else."""

    known: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): lambda _, shape, code: np.empty(shape, code),
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy.sparse.csr", "csr_matrix"): _Sparse,
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise InputError(
                f"Expected a pickle of arrays, lists and dictionaries, got one that asks for {module}.{name}"
            )
        return self.known[module, name]


def unpickle(raw: bytes, file: File) -> Any:
    """Return what a pickle holds if it is the known `file`, byte for byte; nothing in it is executed."""
    _check(raw, file)
    return _Restricted(io.BytesIO(raw), encoding="latin1").load()


def _check(raw: bytes, file: File, path: Path | None = None) -> None:
    if (found := hashlib.sha256(raw).hexdigest()) != file.sha256:
        raise InputError(
            f"Expected {path or file.path} with sha256 {file.sha256}, got {found}; delete it and fetch it anew"
        )


def _entries(matrix: _Sparse) -> tuple[Array, Array, Array]:
    """Return rows, columns and values of what is not 0."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices, matrix.data


def _edges(neighbours: Mapping[int, list[int]], n: int) -> Array:
    """Return each edge between two nodes once, `(2, m)`, the lower node first."""
    start = np.repeat(np.array(list(neighbours)), [len(ends) for ends in neighbours.values()])
    end = np.concatenate([np.array(ends, np.int64) for ends in neighbours.values()])
    low, high = np.minimum(start, end), np.maximum(start, end)
    return np.stack(np.divmod(np.unique((low * n + high)[low < high]), n))


def load_graph(name: str, split: str | None = None, *, download: bool = False) -> Graph:
    """Return the graph called `name`.

    Args:
        name: `"ba_community"`, `"citeseer"` or `"pubmed"`.
        split: of Citeseer and Pubmed `"planetoid"`, the usual one with 20 training nodes a class, or `"larger"`, where
            all nodes train but the same validation and test nodes.
        download: whether to download what is neither under `FANS_DATA` nor in the cache nor in the package.
    """
    found = graph_dataset(name)
    chosen = choose("`split`", split or found.splits[0], found.splits)
    graph = None if all(find(file) for file in found.files) else found.bundled()
    graph = graph or found.read(found.paths(download=download, home=found.home))
    return replace(graph, train_mask=~(graph.val_mask | graph.test_mask)) if chosen == "larger" else graph


def fetch_graph(name: str, *, home: str | None = None) -> list[Path]:
    """Download what is missing of a graph and return where its files lie, all checksums verified.

    Args:
        name: `"ba_community"`, `"citeseer"` or `"pubmed"`.
        home: an address to download from instead of the public one; ends with `/`.
    """
    found = graph_dataset(name)
    return found.paths(download=True, home=home or found.home)


def graph_dataset(name: str) -> type[GraphDataset]:
    """Return the registered dataset called `name`."""
    found = GraphDataset.registry[choose("the dataset", name, GraphDataset.registry)]
    assert issubclass(found, GraphDataset)
    return found


def make_ba_community(seed: int = 0) -> Graph:
    """Return a new BA-Community, made as the published one was: the same counts, another draw.

    Two communities of 700 nodes: a Barabasi-Albert graph of 300, every new node with 5 edges, 80 houses of five nodes
    that hang on every third base node, and 20 random edges. 350 random edges join the two. Of ten normal features the
    first two tell the community (mean -1 or 1, variance 0.5), the others nothing (mean 0, variance 1).
    """
    random = np.random.default_rng(seed)
    side, roles = np.arange(1400) // 700, np.array([0] * 300 + [1, 1, 2, 2, 3] * 80)
    numbers = np.concatenate([np.full(300, -1), np.arange(400) // 5])
    houses = (np.array(_HOUSE) + 300 + 5 * np.arange(80)[:, None, None]).reshape(-1, 2)
    others = [_surroundings(houses, random) + offset for offset in (0, 700)]
    between = np.stack(np.divmod(random.choice(700 * 700, 350, replace=False), 700), 1) + np.array([0, 700])
    once = np.concatenate([houses, houses + 700, *others, between]).T
    both = np.concatenate([once, once[::-1]], 1)
    truth = np.tile(np.arange(once.shape[1]) < 2 * len(houses), 2)
    order = np.lexsort((both[1], both[0]))
    x = random.normal(0, 1, (1400, 10))
    x[:, :2] = x[:, :2] * np.sqrt(0.5) + (2 * side - 1)[:, None]
    train, val, test = (np.isin(np.arange(1400), part) for part in np.split(random.permutation(1400), [1120, 1260]))
    return Graph(
        x=x.astype(np.float32),
        edge_index=both[:, order],
        y=np.tile(roles, 2) + 4 * side,
        train_mask=train,
        val_mask=val,
        test_mask=test,
        classes=BACommunity.classes,
        truth=truth[order],
        motif=np.concatenate([numbers, np.where(numbers < 0, -1, numbers + 80)]),
    )


def _surroundings(houses: Array, random: np.random.Generator) -> Array:
    """Return the edges of a community that are not in houses, `(1575, 2)`: base, links and random ones."""
    links = np.stack([3 * np.arange(80), 300 + 5 * np.arange(80)], 1)
    made = np.concatenate([_barabasi_albert(300, 5, random), links])
    free = np.triu(np.ones((700, 700), bool), 1)
    taken = np.concatenate([made, houses])
    free[taken.min(1), taken.max(1)] = False
    more = random.choice(np.flatnonzero(free), 20, replace=False)
    return np.concatenate([made, np.stack(np.divmod(more, 700), 1)])


def _barabasi_albert(n: int, m: int, random: np.random.Generator) -> Array:
    """Return the edges of a graph that grows by nodes with `m` edges each, to nodes as likely as they have edges."""
    edges = [(i, m) for i in range(m)]
    ends = [node for edge in edges for node in edge]
    for new in range(m + 1, n):
        chosen: dict[int, None] = {}
        while len(chosen) < m:
            chosen[ends[random.integers(len(ends))]] = None
        edges += [(old, new) for old in chosen]
        ends += [*chosen, *[new] * m]
    return np.array(edges)
