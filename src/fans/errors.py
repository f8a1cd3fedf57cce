"""What `fans` refuses and warns of, each in one sentence: expected, got, remedy."""

import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fans.explanation import Explanation


class FansError(Exception):
    """Anything `fans` refuses, told in one sentence: what was expected, what came, what to do."""

    partial: "Explanation | None" = None
    """What was finished before the failure, where something was."""


class InputError(FansError, ValueError):
    """An argument that cannot be used as it is."""


class ModelError(FansError, ValueError):
    """A model whose outputs cannot be used."""


class MissingExtra(FansError, ImportError):
    """A feature whose optional dependency is not installed."""


class Interrupted(FansError, KeyboardInterrupt):
    """Ctrl-C; after an explanation `partial` holds the inputs already explained."""


class FansWarning(UserWarning):
    """A result that stands, but on weak ground."""


_UNSAID: ContextVar[tuple[str, ...]] = ContextVar("fans_unsaid", default=())


@contextmanager
def quiet(about: str = "") -> Iterator[None]:
    """Give no warnings of ours that contain `about`, in this thread alone: Python's own filters are for all threads."""
    token = _UNSAID.set((*_UNSAID.get(), about))
    try:
        yield
    finally:
        _UNSAID.reset(token)


def warn(message: str) -> None:
    """Warn the user, at the line of theirs that called into `fans`."""
    if any(about in message for about in _UNSAID.get()):
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "fans":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FansWarning, stacklevel=level)


def choose(what: str, value: object, known: Iterable[str]) -> str:
    """Return `value` if it is one of `known`, else raise an error that lists them."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError(f"Expected {what} to be one of {', '.join(map(repr, names))}, got {value!r}{hint}")


def check_written(what: str, names: Iterable[object]) -> None:
    """Raise if a name is text that no file can hold: half of a character."""
    for name in names:
        try:
            str(name).encode()
        except UnicodeEncodeError:
            raise InputError(
                f"Expected {what} as text that can be written as UTF-8, got {name!r:.100}; decode it with "
                'errors="replace"'
            ) from None


def texts(names: Any) -> list[str]:
    """Return names in any container, or one alone, as text."""
    return list(map(str, names)) if isinstance(names, Iterable) and not isinstance(names, str) else [str(names)]


def checked_names(what: str, names: Any, n: int, each: str, instead: str = "") -> tuple[str, ...]:
    """Return names as text, if there are `n` and no two are alike; `instead` ends the sentence of the error."""
    given = texts(names)
    if len(given) != n or len(set(given)) != n:
        raise InputError(f"Expected `{what}` as {n} different names, one per {each}, got {names!r}{instead}")
    check_written(f"`{what}`", given)
    return tuple(given)


def is_number(value: object) -> bool:
    """Tell whether `value` is a real number, Python's or NumPy's."""
    return isinstance(value, Real)


def check_whole(name: str, value: object, least: int) -> None:
    """Raise unless `value` is a whole number (Python's or NumPy's) of at least `least`."""
    if not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"Expected `{name}` as a whole number of at least {least}, got {value!r}")


def extra(package: str, extra_name: str, purpose: str) -> MissingExtra:
    """Return the error to raise when `package` is not installed."""
    return MissingExtra(
        f"Expected {package} for {purpose}, got none; install it with: pip install 'fans[{extra_name}]'"
    )
