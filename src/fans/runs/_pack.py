"""The records of a run in one file: a line for each, as it was stored before in a file of its own."""

import json
import os
import re
from pathlib import Path

Mark = tuple[int, int, int]
"""What changes when a file is written anew: its inode, its size, and when it was written."""

_KEY = re.compile(rb'"facts":\{"evaluations":\d+,"key":"([^"\\]+)"')
"""Where a line that is no JSON any more may still name its cell."""


def mark_of(path: Path) -> Mark | None:
    """Return the mark of a file, None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Pack:
    """The lines of a file of records, read again only when it has changed; whether they are whole is not looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark: Mark | None = None
        self._lines: dict[str, bytes] = {}
        self._nameless: list[bytes] = []

    def lines(self) -> dict[str, bytes]:
        """Return the lines by the keys of their cells; of two for one cell the later."""
        self._refresh()
        return self._lines

    def nameless(self) -> list[bytes]:
        """Return the lines that name no cell, or one that a later line names."""
        self._refresh()
        return self._nameless

    def _refresh(self) -> None:
        mark = mark_of(self.path)
        if mark == self._mark:
            return
        self._mark, self._lines, self._nameless = mark, {}, []
        for line in self.path.read_bytes().splitlines(keepends=True) if mark else ():
            key = _key(line)
            self._nameless += [line] if key is None else [self._lines[key]] if key in self._lines else []
            if key is not None:
                self._lines[key] = line


def _key(line: bytes) -> str | None:
    """Return the key of the cell that a line is about."""
    try:
        return str(json.loads(line)["facts"]["key"])
    except (ValueError, TypeError, KeyError, RecursionError):
        found = _KEY.search(line)
        return found[1].decode(errors="replace") if found else None
