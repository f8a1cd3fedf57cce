"""A user's own data, read from files that nobody vouches for: tables, folders of pictures, texts, a graph.

Each kind is a `Data`: so many inputs, each with an id, taken as an explainer takes them. Whatever is wrong with a file
is told in one sentence.
"""

import csv
import hashlib
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch

from fans.errors import FansError, InputError, choose, extra
from fans.own.wants import Wants
from fans.types import Array

if TYPE_CHECKING:
    import pandas as pd

TABLES, PICTURES, TEXTS, GRAPHS = (".csv", ".tsv", ".parquet"), (".png", ".jpg", ".jpeg"), (".txt",), (".npz",)
TENSORS = ".safetensors"

MOST_PIXELS = 50_000_000
"""Of a picture: a small file can hold a huge one, which would fill the memory."""

MOST_UNPACKED = 8 * 2**30
"""Bytes of a packed file when it is unpacked."""

MOST_LISTED = 20
"""Columns that a sentence names."""

Ids = list[int | str]


@dataclass(frozen=True)
class Reading:
    """How files are to be read.

    Attributes:
        ids: the column that names the inputs.
        drop: columns that are left out.
        text_column: the column that holds texts, where these are the inputs.
        size: height and width that pictures are brought to.
        mean, std: of pixels from 0 to 1, by channel, as the model was trained: `(pixel - mean) / std`.
    """

    ids: str | None = None
    drop: tuple[str, ...] = ()
    text_column: str | None = None
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> "Reading":
        """Undo `to_json`."""
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
        return cls(**given)


class Data(ABC):
    """Inputs in files.

    Attributes:
        kind: what they are.
        words: what one is called, and several.
        background_size: how many serve as the background.
        path: where they are.
        notes: what was left out, in sentences.
        feature_names: of columns that are given as a plain array; else None.
        columns: all that a table has, for sentences.
    """

    kind: ClassVar[str]
    words: ClassVar[tuple[str, str]]
    background_size: ClassVar[int] = 500
    path: Path
    notes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, places: Sequence[int]) -> Any:
        """Return some inputs as an explainer takes them."""

    @abstractmethod
    def ids(self, places: Sequence[int]) -> Ids:
        """Return how some inputs are called."""

    @cached_property
    def sha256(self) -> str:
        """Checksum of all of it."""
        return file_sha256(self.path)

    def background(self, places: Sequence[int]) -> Any:
        """Return what an explainer takes as background; of a graph the graph, whatever the places."""
        return self.take(places)


def open_data(path: Path, reading: Reading, wants: Wants) -> Data:
    """Return the inputs in a file or a folder, as far as the model wants them."""
    if not path.exists():
        raise InputError(f"Expected data in a file or a folder of pictures, got nothing at {path}; check the name")
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in PICTURES:
        _only(reading, "size", "mean", "std")
        return Pictures(path, reading, wants)
    if suffix in TEXTS or reading.text_column is not None:
        _only(reading, "ids", "text_column", "drop")
        return Texts(path, reading)
    if suffix in TABLES:
        _only(reading, "ids", "drop")
        return Table(path, reading, wants)
    if suffix in (*GRAPHS, TENSORS):
        _only(reading)
        return Graph(path)
    known = ", ".join((*TABLES, *TEXTS, *GRAPHS, TENSORS, "a folder of .png and .jpg"))
    raise InputError(f"Expected data as {known}, got {path.name}; convert it to one of these")


def _only(reading: Reading, *allowed: str) -> None:
    """Refuse options that mean nothing for this kind of data."""
    for name, value in asdict(reading).items():
        if value and name not in allowed:
            option = "--" + name.replace("_", "-")
            raise InputError(f"Expected no {option} for data of this kind, got {value!r}; leave it out")


@contextmanager
def _reading(path: Path, expected: str) -> Iterator[None]:
    """Tell in one sentence of a file that cannot be read, whatever the library that reads it says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    except FansError:
        raise
    except ImportError as error:
        raise extra(str(error.name), "explain", expected) from None
    except MemoryError:
        raise InputError(f"Expected {expected} that fits into memory, got {path}; cut it into parts") from None
    except Exception as error:  # a file of anybody's making
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"Expected {expected}, got {path}, which is not one: {said}") from None


def file_sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- Tables ----------------------------------------------------------------------------------------------------------


def _frame(path: Path) -> "pd.DataFrame":
    """Return a table with names of its own for its columns and at least one row."""
    if path.stat().st_size == 0:
        raise InputError(f"Expected a table with a line of names and rows below, got {path}, an empty file")
    suffix = path.suffix.lower()
    what = {".parquet": "a Parquet file", ".tsv": "a TSV file"}.get(suffix, "a CSV file")
    with _reading(path, what):
        import pandas as pd

        found: pd.DataFrame
        if suffix == ".parquet":
            _check_parquet(path)
            found = pd.read_parquet(path, engine="pyarrow")
            if any(name is not None for name in found.index.names):
                found = found.reset_index()
        else:
            separator = _checked_lines(path, suffix)
            found = pd.read_csv(path, sep=separator, index_col=False, encoding="utf-8-sig", low_memory=False)
        found.columns = [str(name) for name in found.columns]
    twice = [name for name, n in Counter(found.columns).items() if n > 1]
    if twice:
        raise InputError(f"Expected columns of different names in {path}, got {twice[0]!r} twice; rename one")
    if not len(found):
        raise InputError(f"Expected at least one row in {path}, got only the names of its columns")
    return found


def _check_parquet(path: Path) -> None:
    """Raise if what a Parquet file holds would not fit into memory."""
    import pyarrow.parquet as pq

    about = pq.ParquetFile(path).metadata
    size = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
    size = max(size, about.num_rows * about.num_columns)
    if size > MOST_UNPACKED:
        raise InputError(f"Expected at most {MOST_UNPACKED:,} bytes in {path}, got {size:,}; cut it into parts")


def _checked_lines(path: Path, suffix: str) -> str:
    """Return the separator of a file whose lines all have a value for each name; raise naming the first that has not.

    pandas would fill short lines with missing values, and shift the columns of long ones.
    """
    with path.open("rb") as raw:
        if any(b"\0" in piece for piece in iter(lambda: raw.read(2**20), b"")):
            raise InputError(f"Expected text in UTF-8 in {path}, got bytes of zero; save the table as CSV in UTF-8")
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        separator = "\t" if suffix == ".tsv" else ";" if ";" in first and "," not in first else ","
        file.seek(0)
        lines = csv.reader(file, delimiter=separator, strict=True)
        names = next(lines)
        for twice, n in Counter(names).items():
            if n > 1:
                raise InputError(f"Expected columns of different names in {path}, got {twice!r} {n} times; rename them")
        for line in lines:
            if line and len(line) != len(names):
                raise InputError(
                    f"Expected {len(names)} values in every line of {path}, as in its first, got {len(line)} in line "
                    f"{lines.line_num}; mend that line"
                )
    return separator


def _columns(frame: "pd.DataFrame", names: Sequence[str], path: Path, why: str) -> None:
    """Raise if a column that is named is not there."""
    for name in names:
        if name not in frame.columns:
            choose(f"{why} a column of {path}", name, _some(frame.columns))


def _some(names: Any) -> list[str]:
    return [str(name) for name in names][:MOST_LISTED]


def _named(frame: "pd.DataFrame", column: str | None, path: Path) -> Ids:
    """Return the ids of the rows: their places, or a column's values, of which no two are alike."""
    if column is None:
        return list(range(len(frame)))
    _columns(frame, [column], path, "--ids as")
    values = frame[column]
    if values.isna().any():
        first = int(values.isna().to_numpy().argmax())
        raise InputError(
            f"Expected an id in every row of column {column!r}, got none in row {first} of {path}; name another "
            "column, or leave out --ids"
        )
    given: Ids = [int(v) for v in values] if values.dtype.kind in "iu" else [str(v) for v in values]
    twice = [name for name, n in Counter(given).items() if n > 1]
    if twice:
        raise InputError(
            f"Expected an id of its own for every row in column {column!r}, got {str(twice[0])[:80]!r} "
            f"{Counter(given)[twice[0]]} times in {path}; name another column, or leave out --ids"
        )
    return given


class Table(Data):
    """The rows of a table; columns that the model does not know are left out."""

    kind, words = "table", ("row", "rows")

    def __init__(self, path: Path, reading: Reading, wants: Wants) -> None:
        self.path = path
        frame = _frame(path)
        self.columns = tuple(frame.columns)
        self._ids = _named(frame, reading.ids, path)
        _columns(frame, reading.drop, path, "--drop as")
        left_out = {*reading.drop, *([reading.ids] if reading.ids is not None else [])}
        frame = frame.drop(columns=sorted(left_out))
        if wants.columns is not None:
            frame = self._matched(frame, wants.columns, left_out)
        elif wants.n_columns is not None and wants.n_columns != len(frame.columns):
            raise InputError(
                f"Expected {wants.n_columns} columns in {path}, as the model takes, got {len(frame.columns)}: "
                f"{', '.join(_some(frame.columns))}; leave out what is no feature with --drop COLUMN or --ids COLUMN"
            )
        if not len(frame.columns):
            raise InputError(f"Expected columns for the model in {path}, got none besides those left out")
        if wants.categories:
            words = [name for name in frame.columns if frame[name].dtype.kind not in "iufbmM"]
            frame = frame.astype(dict.fromkeys(words, "category"))
        numbers = all(kind.kind in "iufb" for kind in frame.dtypes)
        if not wants.frame and numbers:
            self.feature_names = tuple(frame.columns)
            self._rows: Any = frame.to_numpy(dtype=np.float64)
        else:
            self._rows = frame

    def _matched(self, frame: "pd.DataFrame", wanted: Sequence[str], left_out: set[str]) -> "pd.DataFrame":
        """Return the model's columns in its order; LightGBM writes a blank in a name as an underscore."""
        known = {name.replace(" ", "_"): name for name in frame.columns} | {name: name for name in frame.columns}
        missing = [name for name in wanted if name not in known]
        if missing:
            more = f" nor {len(missing) - 1} others" if len(missing) > 1 else ""
            there = f"{self.path.name} has {', '.join(_some(frame.columns))}"
            remedy = "do not --drop it" if missing[0] in left_out else there
            raise InputError(
                f"Expected the columns that the model was trained on in {self.path}, got no {missing[0]!r}{more}; "
                f"{remedy}"
            )
        chosen = [known[name] for name in wanted]
        others = [name for name in frame.columns if name not in chosen]
        if others:
            more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
            self.notes = (f"Left out, as the model does not know them: {', '.join(_some(others))}{more}.",)
        return frame[chosen]

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, places: Sequence[int]) -> Any:
        """Return rows as a frame, or as an array for a model that knows no names."""
        at = np.asarray(places, dtype=np.int64)
        return self._rows[at] if isinstance(self._rows, np.ndarray) else self._rows.iloc[at]

    def ids(self, places: Sequence[int]) -> Ids:
        """Return the values of the column of ids, or places."""
        return [self._ids[i] for i in places]


# --- Texts -----------------------------------------------------------------------------------------------------------


class Texts(Data):
    """Texts: the lines of a file, or a column of a table."""

    kind, words = "text", ("text", "texts")

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        if path.suffix.lower() in TEXTS:
            if reading.text_column is not None or reading.ids is not None:
                raise InputError(f"Expected --text-column and --ids with a table, got {path.name}, a text a line")
            with _reading(path, "UTF-8 text, a text a line"):
                lines = path.read_text(encoding="utf-8-sig").split("\n")
            kept = [(k + 1, line.strip()) for k, line in enumerate(lines) if line.strip()]
            self._ids: Ids = [k for k, _ in kept]
            self._texts = [line for _, line in kept]
            if not kept:
                raise InputError(f"Expected a text a line in {path}, got no line that is not blank")
            return
        if path.suffix.lower() not in TABLES:
            raise InputError(f"Expected --text-column with a table ({', '.join(TABLES)}), got {path.name}")
        frame = _frame(path)
        assert reading.text_column is not None
        _columns(frame, [reading.text_column], path, "--text-column as")
        self._ids = _named(frame, reading.ids, path)
        column = frame[reading.text_column]
        bad = [i for i, value in enumerate(column) if not isinstance(value, str) or not value.strip()]
        if bad:
            raise InputError(
                f"Expected a text in every row of column {reading.text_column!r} of {path}, got "
                f"{column.iloc[bad[0]]!r} in row {bad[0]} ({len(bad)} such rows); leave those rows out of the file"
            )
        self._texts = list(column)

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, places: Sequence[int]) -> list[str]:
        """Return texts."""
        return [self._texts[i] for i in places]

    def ids(self, places: Sequence[int]) -> Ids:
        """Return the numbers of the lines, from 1, or of the rows, or the values of a column."""
        return [self._ids[i] for i in places]


# --- Pictures --------------------------------------------------------------------------------------------------------

_GREY, _COLOUR = ("1", "L", "LA"), ("P", "RGB", "RGBA", "CMYK", "YCbCr")


class Pictures(Data):
    """Pictures in a folder and the folders below it, read one block at a time."""

    kind, words = "image", ("image", "images")
    background_size = 100

    def __init__(self, path: Path, reading: Reading, wants: Wants) -> None:
        self.path, self._last = path, wants.channels_last
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        self._root = path if path.is_dir() else path.parent
        self._files = [p for p in files if p.suffix.lower() in PICTURES and not p.name.startswith(".")]
        if not self._files:
            raise InputError(f"Expected pictures ({', '.join(PICTURES)}) in {path}, got none")
        if len(files) > len(self._files):
            self.notes = (f"Left out: {len(files) - len(self._files):,} files that are no {', '.join(PICTURES)}.",)
        seen = {p: self._about(p) for p in self._files}
        own_channels = 1 if all(mode in _GREY for mode, _ in seen.values()) else 3
        self.channels = wants.channels or own_channels
        self.size = reading.size or self._one_size({p: size for p, (_, size) in seen.items()}, wants)
        for name in ("mean", "std"):
            given = getattr(reading, name)
            if given and (len(given) not in (1, self.channels) or not np.isfinite(given).all()):
                raise InputError(f"Expected --{name} as 1 or {self.channels} finite numbers, got {list(given)}")
        if any(number <= 0 for number in reading.std):
            raise InputError(f"Expected --std above 0, got {list(reading.std)}")
        self._mean = np.array(reading.mean or (0,), np.float32).reshape(-1, 1, 1)
        self._std = np.array(reading.std or (1,), np.float32).reshape(-1, 1, 1)

    def _about(self, path: Path) -> tuple[str, tuple[int, int]]:
        """Return the mode of a picture, and its height and width: from its header, before anything is unpacked."""
        with _opened(path) as picture:
            width, height = picture.size
            if width * height > MOST_PIXELS:
                raise _too_large(path, f"{height} x {width}")
            if picture.mode not in (*_GREY, *_COLOUR):
                raise InputError(
                    f"Expected grey or coloured pictures of 8 bits, got {path} of mode {picture.mode!r}; convert it"
                )
            return str(picture.mode), (height, width)

    def _one_size(self, sizes: Mapping[Path, tuple[int, int]], wants: Wants) -> tuple[int, int]:
        """Return the one size of all pictures, which is the one that the model takes."""
        (most, _), *_ = Counter(sizes.values()).most_common(1)
        wanted = (wants.height or most[0], wants.width or most[1])
        for path, size in sizes.items():
            if size != wanted:
                why = "as the model takes" if wanted != most else "as most others have"
                raise InputError(
                    f"Expected pictures of {wanted[0]} x {wanted[1]} pixels, {why}, got {path} of {size[0]} x "
                    f"{size[1]}; pass --size {wanted[0]}x{wanted[1]} to have all brought to that size"
                )
        return wanted

    @cached_property
    def sha256(self) -> str:
        """Checksum of all pictures and of their names."""
        found = hashlib.sha256()
        for path in self._files:
            found.update(f"{path.relative_to(self._root).as_posix()}\0{file_sha256(path)}\n".encode())
        return found.hexdigest()

    def __len__(self) -> int:
        return len(self._files)

    def take(self, places: Sequence[int]) -> Array:
        """Return pictures `(n, C, H, W)`, or with their channels last, from 0 to 1 or as normalised."""
        found = np.stack([self._pixels(self._files[i]) for i in places])
        return np.moveaxis(found, 1, -1).copy() if self._last else found

    def _pixels(self, path: Path) -> Array:
        """Return a picture `(C, H, W)`."""
        with _opened(path) as picture:
            shown = picture.convert("L" if self.channels == 1 else "RGB")
            height, width = self.size
            if shown.size != (width, height):
                shown = shown.resize((width, height), resample=2)  # bilinear
            pixels = np.asarray(shown, dtype=np.float32) / np.float32(255)
        pixels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
        return ((pixels - self._mean) / self._std).astype(np.float32)

    def ids(self, places: Sequence[int]) -> Ids:
        """Return the names of the files, below the folder."""
        return [self._files[i].relative_to(self._root).as_posix() for i in places]


def _too_large(path: Path, size: str) -> InputError:
    return InputError(f"Expected pictures of at most {MOST_PIXELS:,} pixels, got {path} of {size}; make it smaller")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a picture of a known format; nothing of it is unpacked yet."""
    with _reading(path, "a PNG or JPEG picture"):
        from PIL import Image

        try:
            with Image.open(path, formats=("PNG", "JPEG")) as picture:
                yield picture
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise _too_large(path, "more") from None
        except OSError as error:
            raise InputError(f"Expected a PNG or JPEG picture, got {path}, which cannot be read ({error})") from None


# --- Graphs ----------------------------------------------------------------------------------------------------------

_OF_GRAPH = ("x", "edge_index", "edge_weight", "edge_attr", "train_mask", "nodes", "node_names")


class Graph(Data):
    """The nodes of one graph: arrays `x` and `edge_index` of a file, and `nodes` to explain where not all are."""

    kind, words = "graph", ("node", "nodes")

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path, "a graph with arrays `x` and `edge_index`"):
            arrays = _arrays(path)
        for name in ("x", "edge_index"):
            if name not in arrays:
                raise InputError(
                    f"Expected arrays `x` and `edge_index` in {path}, got no `{name}` but {_some(arrays) or 'nothing'}"
                )
        x, edges = arrays["x"], arrays["edge_index"]
        if x.dtype.kind not in "iufb" or edges.dtype.kind not in "iu":
            raise InputError(
                f"Expected numbers in `x` and whole ones in `edge_index` of {path}, got {x.dtype} and {edges.dtype}"
            )
        names = arrays.pop("node_names", None)
        self.node_names = None if names is None else [str(name) for name in names]
        nodes = arrays.pop("nodes", np.arange(len(x)) if x.ndim else np.arange(0))
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu" or not len(nodes) or len(np.unique(nodes)) != len(nodes):
            raise InputError(f"Expected `nodes` of {path} as different whole numbers, got {nodes.dtype} {nodes.shape}")
        if nodes.min() < 0 or nodes.max() >= len(x):
            raise InputError(f"Expected `nodes` of {path} from 0 to {len(x) - 1}, got {nodes.min()} to {nodes.max()}")
        self._nodes = nodes.astype(np.int64)
        plain = {"x": x.astype(np.float32), "edge_index": edges.astype(np.int64)} | {
            name: arrays[name] for name in ("edge_weight", "edge_attr", "train_mask") if name in arrays
        }
        self.graph = SimpleNamespace(**{name: torch.from_numpy(np.array(value)) for name, value in plain.items()})

    def __len__(self) -> int:
        return len(self._nodes)

    def take(self, places: Sequence[int]) -> Array:
        """Return the numbers of nodes."""
        found: Array = self._nodes[np.asarray(places, dtype=np.int64)]
        return found

    def ids(self, places: Sequence[int]) -> Ids:
        """Return the numbers of nodes."""
        return [int(i) for i in self.take(places)]

    def background(self, places: Sequence[int]) -> Any:  # noqa: ARG002
        """Return the graph."""
        return self.graph


def _arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file that a graph may have; objects, which would be pickles, are refused."""
    if path.suffix.lower() == TENSORS:
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys() if name in _OF_GRAPH}  # noqa: SIM118
    with zipfile.ZipFile(path) as packed:
        size = sum(entry.file_size for entry in packed.infolist())
    if size > MOST_UNPACKED:
        raise InputError(f"Expected at most {MOST_UNPACKED:,} bytes in {path}, got {size:,} when unpacked")
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files if name in _OF_GRAPH}


WORDS: Mapping[str, tuple[str, str]] = {kind.kind: kind.words for kind in (Table, Texts, Pictures, Graph)}
"""What one input is called, and several, by the kind of data."""

# --- Background ------------------------------------------------------------------------------------------------------

FEW = 50
"""Fewer inputs than this that are not explained are no background of their own."""

Source = Literal["others", "all", "file"]


@dataclass(frozen=True)
class Background:
    """Which inputs serve as the background.

    Attributes:
        source: those that are not explained, all of the data, or a file of the user's.
        places: of them there.
        words: all this as a sentence.
    """

    source: Source
    places: Array
    words: str


def choose_background(data: Data, n_explained: int, seed: int, *, own: bool) -> Background:
    """Say which inputs are the background: drawn from those not explained where there are enough, else from all.

    Args:
        data: that it is drawn from.
        n_explained: how many of them are explained, the first ones.
        seed: of the draw.
        own: whether `data` is a file that the user named as the background.
    """
    if data.kind == "graph":
        return Background("all", np.arange(0), "The background is the graph itself.")
    things = data.words[1]
    first = 0 if own or len(data) - n_explained < FEW else n_explained
    source: Source = "file" if own else "others" if first else "all"
    there = np.arange(first, len(data))
    kept = there
    if len(there) > data.background_size:
        kept = np.sort(np.random.default_rng([seed % 2**63, len(there)]).choice(there, data.background_size, False))
    of = {"file": f"the {things} of the file named", "others": f"the {len(there):,} {things} that are not explained"}
    whole = of.get(source, f"all {things} of the data, the explained ones among them")
    drawn = f"{len(kept):,} drawn (seed {seed}) from {whole}" if len(kept) < len(there) else whole
    return Background(source, kept, f"The background: {drawn}.")


def column_names(path: Path) -> tuple[str, ...]:
    """Return the names of a table's columns; none of what is no table."""
    return tuple(_frame(path).columns) if path.is_file() and path.suffix.lower() in TABLES else ()


def sized(reading: Reading, data: Data) -> Reading:
    """Return how a background is read so that it fits the data: pictures at the same size."""
    return replace(reading, size=data.size) if isinstance(data, Pictures) else reading
