"""Files of a run: written whole or not at all, and locked by one process at a time."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fans.errors import FansError


def is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Tell in one sentence of a disk that is full, or cannot be written to."""
    try:
        yield
    except OSError as error:
        expected, got = ("a folder that can be written to and locked", str(error))
        if is_full(error):
            expected, got = "room", f"a full disk ({error.strerror})"
        raise FansError(
            f"Expected {expected} in {folder}, got {got}; what is done is kept: "
            "put this right, and the same command goes on"
        ) from None


@contextmanager
def locked(path: Path, *, patient: bool = False) -> Iterator[bool]:
    """Lock a file and yield whether that worked; the patient wait until it does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _lock(descriptor, patient)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patient: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and so that it outlives a loss of power; one process at a time."""
    temporary = path.with_name(path.name + ".partial")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
