"""What a run asks of the disk: files written and locked by one process at a time, and errors told in a sentence."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fans import files
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
    """Lock a file and yield whether that worked; the patient wait until it does. The death of a process frees it."""
    lock = FileLock(path, blocking=patient, fallback_to_soft=False)
    with suppress(Timeout):
        lock.acquire()
    try:
        yield lock.is_locked
    finally:
        lock.release()


def write(path: Path, content: bytes) -> None:
    """Write a file that nobody else writes now; what a killed process left of it goes."""
    files.sweep(path)
    files.write(path, content)
