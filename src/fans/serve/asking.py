"""The model is asked in the background, one question at a time: newer clicks take the place of older ones."""

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from fans.errors import FansError, InputError, quiet
from fans.explainer import Explainer

T = TypeVar("T")
Lane = Literal["live", "slow"]
"""Clicks, which a reader waits for; and what may take longer, which makes way for them."""

MOST_WAITING = 64
"""Questions that wait in a lane; more are refused."""


class Superseded(FansError):
    """A question that nobody waits for any more."""


class Busy(FansError):
    """Too many questions at once."""


@dataclass
class _Question:
    channel: str
    work: Callable[[], Any]
    answer: "Future[Any]" = field(default_factory=Future)
    cancelled: threading.Event = field(default_factory=threading.Event)


class Asker:
    """Asks a model in two threads, of which never both ask at a time.

    A question of one channel (a page's click) takes the place of that channel's older ones, also of one that is being
    answered: it ends after the model's current batch. The slow lane stops after its batch while the live one is asking.

    Args:
        explainer: whose model is asked; None where there is none.
    """

    def __init__(self, explainer: Explainer | None) -> None:
        self.explainer = explainer
        self._waiting: dict[Lane, deque[_Question]] = {"live": deque(), "slow": deque()}
        self._current: dict[Lane, _Question | None] = {"live": None, "slow": None}
        self._changed = threading.Condition()
        self._model = threading.Lock()
        self._closed = False
        self._prepared = False
        for lane in ("live", "slow"):
            threading.Thread(target=self._work, args=(lane,), name=f"fans-serve-{lane}", daemon=True).start()

    def ask(self, lane: Lane, channel: str, work: Callable[[], T]) -> "Future[T]":
        """Have a thread do some work; its future fails with `Superseded` where a newer question came."""
        question = _Question(channel, work)
        with self._changed:
            if self._closed:
                raise Busy("Expected a server that is up, got one that is closing; start it again")
            for older in [q for q in self._waiting[lane] if q.channel == channel]:
                self._waiting[lane].remove(older)
                older.answer.set_exception(Superseded("A newer choice took the place of this one."))
            running = self._current[lane]
            if running is not None and running.channel == channel:
                running.cancelled.set()
            if len(self._waiting[lane]) >= MOST_WAITING:
                raise Busy(f"Expected at most {MOST_WAITING} questions at a time, got more; try again in a moment")
            self._waiting[lane].append(question)
            self._changed.notify_all()
        return question.answer

    def close(self) -> None:
        """End both threads once they have finished what they are at."""
        with self._changed:
            self._closed = True
            for lane, waiting in self._waiting.items():
                for question in waiting:
                    question.answer.set_exception(Superseded("The server is closing."))
                waiting.clear()
                running = self._current[lane]
                if running is not None:
                    running.cancelled.set()
            self._changed.notify_all()

    def _work(self, lane: Lane) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting[lane])
                if self._closed:
                    return
                question = self._waiting[lane].popleft()
                self._current[lane] = question
            try:
                answer = contextvars.copy_context().run(self._answered, lane, question)
            except BaseException as error:  # whatever a user's model raises, the reader is told
                question.answer.set_exception(error if isinstance(error, Exception) else InputError(repr(error)))
            else:
                question.answer.set_result(answer)
            finally:
                with self._changed:
                    self._current[lane] = None
                    self._changed.notify_all()

    def _answered(self, lane: Lane, question: _Question) -> Any:
        explainer = self.explainer
        if explainer is None:
            return question.work()
        self._take_turn(lane)
        try:
            with quiet():  # what a result stands on is told on the page
                if not self._prepared:
                    explainer.prepare()  # what is found once is found here, where nobody makes way
                    self._prepared = True
                with explainer.task.predict.telling(lambda n_rows: self._after_batch(lane, question)):  # noqa: ARG005
                    return question.work()
        finally:
            self._model.release()

    def _after_batch(self, lane: Lane, question: _Question) -> None:
        """Stop where nobody waits any more; let clicks go first."""
        if question.cancelled.is_set():
            raise Superseded("A newer choice took the place of this one.")
        if lane == "slow" and self._is_live():
            self._model.release()
            self._take_turn(lane)

    def _take_turn(self, lane: Lane) -> None:
        if lane == "slow":
            with self._changed:
                self._changed.wait_for(lambda: self._closed or not self._is_live())
        self._model.acquire()

    def _is_live(self) -> bool:
        return self._current["live"] is not None or bool(self._waiting["live"])
