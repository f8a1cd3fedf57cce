"""The bar of long work: it moves with the model's rows, so also inside one input."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = bool | Callable[[int, int], None] | None
"""True shows a bar, False none, None one for long work on a terminal; or a function of (inputs done, of how many)."""

PATIENCE = 2.0
"""Seconds before a bar that nobody asked for is shown."""


class Watch:
    """Hears of every model row and every input done."""

    def heard(self, n_rows: int) -> None:
        """Count rows that the model was asked."""

    def done(self, n_inputs: int) -> None:
        """Say how many inputs are done by now."""


class _Told(Watch):
    """Tells a function of the user's."""

    def __init__(self, tell: Callable[[int, int], None], n_inputs: int) -> None:
        self._tell, self._n_inputs = tell, n_inputs

    def done(self, n_inputs: int) -> None:
        self._tell(n_inputs, self._n_inputs)


class _Bar(Watch):
    """Draws a bar with the time that is left."""

    def __init__(self, console: Any, n_inputs: int, rows_an_input: int, patience: float) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        text = TextColumn("{task.description}")
        self.bar = Bar(text, BarColumn(), TimeRemainingColumn(), console=console, transient=True)
        self._n_inputs, self._rows, self._patience = n_inputs, 0, patience
        self._started = time.perf_counter()
        self._task = self.bar.add_task(self._said(0, rows_an_input), total=n_inputs * rows_an_input)

    def _said(self, n_done: int, rows_an_input: float) -> str:
        if self._n_inputs == 1:
            return f"explaining 1 input, about {rows_an_input:,.0f} model rows"
        return f"explaining {n_done:,} of {self._n_inputs:,} inputs, about {rows_an_input:,.0f} model rows each"

    def heard(self, n_rows: int) -> None:
        if not self.bar.live.is_started and time.perf_counter() - self._started >= self._patience:
            self.bar.start()
        self._rows += n_rows
        self.bar.update(self._task, completed=self._rows)

    def done(self, n_inputs: int) -> None:
        """What an input costs is known by now: the subset, and with it some of the rows, is each input's own."""
        each = self._rows / n_inputs
        self.bar.update(self._task, total=each * self._n_inputs, description=self._said(n_inputs, each))


@contextmanager
def watching(progress: Progress, n_inputs: int, rows_an_input: int) -> Iterator[Watch]:
    """Yield who is to be told of the work: on a terminal, or where asked for, a bar with an estimate."""
    if callable(progress):
        yield _Told(progress, n_inputs)
        return
    from rich.console import Console

    console = Console(stderr=True)
    if progress is False or (progress is None and not console.is_terminal):
        yield Watch()
        return
    watch = _Bar(console, n_inputs, rows_an_input, 0.0 if progress else PATIENCE)
    try:
        yield watch
    finally:
        watch.bar.stop()
