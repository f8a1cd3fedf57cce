"""The one way in which this package writes a file: whole or not at all, whoever else writes it at the same time."""

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fans.errors import InputError


def write(path: str | Path, content: bytes | str) -> Path:
    """Write a file whole or not at all, text as UTF-8; return its path. See `writing`."""
    with writing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """Yield an empty temporary file to be filled, which becomes `path` at the end.

    A reader sees the old file or the whole new one. A failure leaves the old one and nothing else. The new one outlives
    a loss of power. Of two who write at once the later one wins. Only a killed process leaves its temporary file: a
    hidden one beside `path`, which ends in `.partial` (see `sweep`).

    Raises:
        InputError: `path` is a symbolic link.
        OSError: it cannot be written.
    """
    path = Path(path)
    if path.is_symlink():
        raise InputError(
            f"Expected a file to write, got {path}, a symbolic link to {os.readlink(path)}; delete it or name another"
        )
    temporary = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}.partial")
    with _named(path):
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sweep(path: Path) -> None:
    """Delete the temporary files that killed writers of `path` left; only for a path that nobody else writes now."""
    for temporary in path.parent.glob(f"{glob.escape(_prefix(path))}*.partial"):
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make sure that a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prefix(path: Path) -> str:
    """Return what the names of temporary files of `path` begin with: its end, for names can be too long."""
    return f".{path.name[-50:]}."


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Have an error name the file that was asked for, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
