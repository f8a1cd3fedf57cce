"""How a torch module is held while it is asked, whatever else asks it at the same time.

A module's mode belongs to the module, not to a thread: whoever comes second finds it changed already, and must not put
it back under the first. So everything here counts its users, part by part: the first one changes a part, the last
one restores it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")
Restore = Callable[[], None]


class Held(Generic[T]):
    """Changes things for as long as anybody needs them changed, in any thread.

    Args:
        change: changes one thing, and returns the function that restores it; None if there is nothing to restore.

    Example:
        >>> held = Held(lambda names: names.append("changed") or names.clear)
        >>> names = []
        >>> with held([names]), held([names]):
        ...     print(names)
        ['changed']
        >>> names
        []
    """

    def __init__(self, change: Callable[[T], Restore | None]) -> None:
        self._change = change
        self._lock = threading.RLock()
        self._users: dict[int, tuple[int, T, Restore | None]] = {}  # by the identity of the thing, which is kept alive

    @contextmanager
    def __call__(self, things: Iterable[T]) -> Iterator[None]:
        """Hold some things changed; those that nobody else holds are restored afterwards, whatever happens."""
        mine = list[T]()
        try:
            for thing in things:
                self._enter(thing)
                mine.append(thing)
            yield
        finally:
            for thing in mine:
                self._leave(thing)

    def _enter(self, thing: T) -> None:
        with self._lock:
            n, _, restore = self._users.get(id(thing), (0, thing, None))
            self._users[id(thing)] = (n + 1, thing, restore if n else self._change(thing))

    def _leave(self, thing: T) -> None:
        with self._lock:
            n, _, restore = self._users.pop(id(thing))
            if n > 1:
                self._users[id(thing)] = (n - 1, thing, restore)
            elif restore is not None:
                restore()


def _to_evaluation(part: nn.Module) -> Restore | None:
    if not part.training:
        return None
    part.training = False
    return lambda: setattr(part, "training", True)


def _freeze(parameter: Tensor) -> Restore | None:
    if not parameter.requires_grad:
        return None
    parameter.requires_grad_(False)
    return lambda: setattr(parameter, "requires_grad", True)


_evaluating: Held[nn.Module] = Held(_to_evaluation)
_frozen: Held[Tensor] = Held(_freeze)


def evaluating(model: Any) -> AbstractContextManager[None]:
    """Hold a torch module in evaluation mode; anything else is left as it is."""
    return _evaluating(model.modules() if isinstance(model, nn.Module) else ())


@contextmanager
def asking(model: Any) -> Iterator[None]:
    """Hold a torch module in evaluation mode with its parameters frozen, and follow no gradients.

    A caller's inference mode is left for as long: error bars need derivatives.
    """
    if not isinstance(model, nn.Module):
        with torch.inference_mode(False):
            yield
        return
    with evaluating(model), _frozen(model.parameters()), torch.inference_mode(False), torch.no_grad():
        yield


def only_here(hook: Callable[..., T]) -> Callable[..., T | None]:
    """Return a hook on a module's calls that does nothing when another thread calls the module."""
    mine = threading.get_ident()

    @wraps(hook)
    def call(*given: Any) -> T | None:
        return hook(*given) if threading.get_ident() == mine else None

    return call


_DRAWING = threading.RLock()


@contextmanager
def global_draws(seed: int | None = None) -> Iterator[None]:
    """Draw from torch's global generator without other threads of ours, and leave it as it was."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield
