"""Counts the rows that a model is asked, in all and of any piece of work, also where threads share the model."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int], None]

_LISTENERS: ContextVar[tuple[tuple["RowMeter", Listener], ...]] = ContextVar("fans_row_listeners", default=())
"""Who is to be told of rows, of which meter, in this thread (or asynchronous task)."""


class Spent:
    """Rows spent so far on a piece of work."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._lock = threading.Lock()

    def add(self, n_rows: int) -> None:
        """Count more rows."""
        with self._lock:
            self.n_rows += n_rows


class RowMeter:
    """How many rows a model was asked; every view of the model shares it.

    Example:
        >>> meter = RowMeter()
        >>> with meter.counting() as spent:
        ...     meter.add(3)
        >>> meter.add(2)
        >>> spent.n_rows, meter.n_rows
        (3, 5)
    """

    def __init__(self) -> None:
        self._all = Spent()

    @property
    def n_rows(self) -> int:
        """Rows asked in all, by every thread."""
        return self._all.n_rows

    def add(self, n_rows: int) -> None:
        """Count rows, and tell whoever listens in this thread."""
        self._all.add(n_rows)
        for meter, listener in _LISTENERS.get():
            if meter is self:
                listener(n_rows)

    @contextmanager
    def telling(self, listener: Listener) -> Iterator[None]:
        """Tell somebody of the rows that this thread asks for, each time how many."""
        token = _LISTENERS.set((*_LISTENERS.get(), (self, listener)))
        try:
            yield
        finally:
            _LISTENERS.reset(token)

    @contextmanager
    def counting(self) -> Iterator[Spent]:
        """Count the rows that this thread asks for, whatever other threads do."""
        spent = Spent()
        with self.telling(spent.add):
            yield spent

    def __getstate__(self) -> int:
        return self.n_rows

    def __setstate__(self, n_rows: int) -> None:
        self.__init__()  # type: ignore[misc]
        self._all.add(n_rows)
