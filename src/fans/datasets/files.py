"""Where dataset files come from: `FANS_DATA`, the user's cache, or their public home; always checked by checksum."""

import errno
import hashlib
import os
import ssl
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fans.errors import FansError, InputError
from fans.files import sync, write

_BLOCK = 2**18
_TIMEOUT = 30.0
_TRIES = 4
_PAUSE = 0.5
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_UNSATISFIABLE = 416


@dataclass(frozen=True)
class File:
    """One file of a dataset.

    Attributes:
        path: below the data folder, e.g. `MNIST/raw/train-images-idx3-ubyte.gz`.
        sha256: of the file.
    """

    path: str
    sha256: str


def cache_folder() -> Path:
    """Return the user's cache for datasets."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "fans"


def find(*alternatives: File) -> Path | None:
    """Return where the first of these files lies, under `FANS_DATA` or in the cache; None where none does.

    Raises:
        InputError: a file lies there whose checksum is wrong.
    """
    given = os.environ.get("FANS_DATA")
    for folder in [Path(given), cache_folder()] if given else [cache_folder()]:
        for file in alternatives:
            path = folder / file.path
            if not path.is_file():
                continue
            if (found := digest_of(path)) != file.sha256:
                raise InputError(f"Expected {path} with sha256 {file.sha256}, got {found}; delete it and fetch it anew")
            return path
    return None


def missing(file: File, remedy: str) -> InputError:
    """Return the error to raise when a file is not there and nobody asked for a download."""
    given = os.environ.get("FANS_DATA") or "not set"
    return InputError(
        f"Expected {file.path} under FANS_DATA ({given}) or in {cache_folder()}, got no such file; {remedy}"
    )


def obtain(file: File, url: str, remedy: str, *, download: bool) -> Path:
    """Return where a file lies; where it does not, download it into the cache if asked to, else raise `remedy`."""
    if path := find(file):
        return path
    if not download:
        raise missing(file, remedy)
    return fetch(url, cache_folder() / file.path, file.sha256)


def digest_of(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def fetch(url: str, path: Path, digest: str, algorithm: str = "sha256") -> Path:
    """Download `url` to `path` and return it; nothing is left there but the whole file with the right checksum.

    What came before a failure is kept in `<path>.partial` and asked for no more, unless the server only sends files
    whole. A connection that fails is tried again; each try that brought something new starts the count afresh.

    Raises:
        FansError: the download failed, the disk is full, or the checksum is wrong.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"Expected an address that begins with http:// or https://, got {url!r}")
    if path.is_symlink():
        raise InputError(f"Expected a file to download to, got {path}, a symbolic link; delete it")
    with _room_for(path), _alone_at(path):
        if not (path.is_file() and digest_of(path, algorithm) == digest):
            _download(url, path, digest, algorithm)
    return path


@contextmanager
def _alone_at(path: Path) -> Iterator[None]:
    """Keep other processes from downloading the same file at the same time: they wait, and then have it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock")
    with FileLock(lock, fallback_to_soft=False):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _download(url: str, path: Path, digest: str, algorithm: str) -> None:
    partial = path.with_name(path.name + ".partial")
    if not (partial.is_file() and digest_of(partial, algorithm) == digest):
        _receive_all(url, partial)
    if (found := digest_of(partial, algorithm)) != digest:
        partial.unlink()
        raise FansError(
            f"Expected {url} with {algorithm} {digest}, got {found}; it was deleted: try again, later perhaps"
        )
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def unpack(archive: Path, files: Iterable[File], folder: Path) -> None:
    """Write these members of a gzipped tar below `folder`, each whole and checked; no other name in it is used."""
    wanted = {file.path: file for file in files}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() and member.name in wanted else None
            if content is None:
                continue
            file, raw = wanted.pop(member.name), content.read()
            if (found := hashlib.sha256(raw).hexdigest()) != file.sha256:
                raise FansError(f"Expected {file.path} in {archive} with sha256 {file.sha256}, got {found}; delete it")
            path = folder / file.path
            with _room_for(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, raw)
    if wanted:
        raise FansError(f"Expected {', '.join(wanted)} in {archive}, got an archive without; delete it and try again")


def _receive_all(url: str, partial: Path) -> None:
    """Fill `partial` from `url`, going on after failures."""
    most, failures = _size(partial), 0
    with _progress() as progress:
        bar = progress.add_task(url.rsplit("/", 1)[-1], total=None)
        while True:
            try:
                _receive(url, partial, progress, bar)
                return
            except (URLError, HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
                reason = _reason(error, url, partial)
            failures = 0 if _size(partial) > most else failures + 1
            most = max(most, _size(partial))
            if failures == _TRIES:
                kept = f"; the {_size(partial):,} bytes that came are kept" if _size(partial) else ""
                raise FansError(
                    f"Expected the whole of {url}, got {reason} in {_TRIES} tries; check the network, try again{kept}"
                )
            time.sleep(_PAUSE * 2 ** (failures - 1))


def _receive(url: str, partial: Path, progress: Progress, bar: TaskID) -> None:
    """Append to `partial` what it lacks, or all of it if the server sends nothing less."""
    start = _size(partial)
    asked = Request(url, headers={"Range": f"bytes={start}-"} if start else {})  # noqa: S310 - checked by `fetch`
    with urlopen(asked, timeout=_TIMEOUT) as response:  # noqa: S310
        start = _start(response, start)
        length = response.headers.get("Content-Length")
        end = start + int(length) if length else None
        progress.update(bar, completed=start, total=end)
        with partial.open("r+b" if start else "wb") as file:
            file.seek(start)
            while block := response.read(_BLOCK):
                _write(file, block)
                progress.advance(bar, len(block))
    if end is not None and _size(partial) < end:
        raise ConnectionError(f"a connection cut after {_size(partial):,} of {end:,} bytes")


def _start(response: HTTPResponse, asked: int) -> int:
    """Return at which byte an answer begins."""
    if response.status != 206:
        return 0
    given = response.headers.get("Content-Range", "")
    if not given.startswith(f"bytes {asked}-"):
        raise ConnectionError(f"bytes other than those asked for ({given!r})")
    return asked


def _write(file: BinaryIO, block: bytes) -> None:
    file.write(block)
    file.flush()


def _reason(error: Exception, url: str, partial: Path) -> str:
    """Return why a try failed, in words; raise at once where another try would fail alike."""
    if isinstance(error, HTTPError):
        with error:
            if error.code == _UNSATISFIABLE:  # longer than the file: not a part of it
                partial.unlink(missing_ok=True)
            elif error.code not in _PASSING:
                raise FansError(
                    f"Expected {url}, got HTTP status {error.code} ({error.reason}); "
                    f"put the file under FANS_DATA or in {cache_folder()} by other means"
                ) from None
            return f"HTTP status {error.code} ({error.reason})"
    return str(error.reason if isinstance(error, URLError) else error) or type(error).__name__


@contextmanager
def _room_for(path: Path) -> Iterator[None]:
    """Tell of a full disk in one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise FansError(
            f"Expected room for {path}, got a full disk ({error.strerror}); "
            "free some and try again: it goes on with what came so far"
        ) from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _progress() -> Progress:
    """Return a bar on the standard error stream, so that what a command prints stays clean."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))
