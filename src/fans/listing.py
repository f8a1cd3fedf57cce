"""What there is: methods, metrics, datasets and experiments, from their registries."""

import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import fans.methods  # noqa: F401 - registers the methods
from fans.datasets import GraphDataset, ImageDataset
from fans.methods.base import Method
from fans.metrics import Metric
from fans.studies import names, suites

INDENT = " " * 6


class _Entry(NamedTuple):
    """A line of a list: a name, a word on where it serves, what it is, and lines for whoever looks closer."""

    name: str
    word: str
    about: str = ""
    more: Sequence[str] = ()


def describe(what: str | None = None) -> str:
    """Return lists of `what` ("methods", "metrics", "datasets", "experiments") with settings, or of all in brief."""
    if what is not None:
        return f"{what}\n" + _lines(_KINDS[what]())
    brief = {kind: [entry._replace(more=()) for entry in entries()] for kind, entries in _KINDS.items()}
    return "\n\n".join(f"{kind}\n" + _lines(entries) for kind, entries in brief.items())


def _methods() -> list[_Entry]:
    return [_entry(m, ", ".join(m.modalities)) for m in _members(Method)]


def _metrics() -> list[_Entry]:
    return [_entry(m, "higher is better" if m.higher_is_better else "lower is better") for m in _members(Metric)]


def _datasets() -> list[_Entry]:
    members: list[Any] = [*ImageDataset.registry.values(), *GraphDataset.registry.values()]
    return [_Entry(m.name, f"{len(m.classes)} classes", _first_line(m)) for m in members]


def _experiments() -> list[_Entry]:
    several = [
        _Entry(suite, f"fans run {suite}", f"All of these, and one page of them: {', '.join(suites.members(suite))}")
        for suite in suites.SUITES
    ]
    return [*(_Entry(name, f"fans run {name}") for name in names()), *several]


def _members(kind: Any) -> list[Any]:
    return [kind.registry[name] for name in sorted(kind.registry)]


def _entry(member: Any, word: str) -> _Entry:
    settings = ", ".join(f"{f.name}={f.default!r}" for f in fields(member)) or "none"
    return _Entry(member.name, word, _first_line(member), (f"Settings: {settings}", member.citation))


def _first_line(member: Any) -> str:
    return (member.__doc__ or "").partition("\n")[0]


def _lines(entries: Sequence[_Entry]) -> str:
    """Return entries one below the other, as wide as the terminal."""
    width = max(len(entry.name) for entry in entries)
    wrap = partial(textwrap.wrap, width=shutil.get_terminal_size().columns, initial_indent=INDENT)
    out = []
    for entry in entries:
        out.append(f"  {entry.name:{width}}  {entry.word}")
        for text in (entry.about, *entry.more):
            out += wrap(text, subsequent_indent=INDENT)
    return "\n".join(out)


_KINDS: dict[str, Callable[[], list[_Entry]]] = {
    "methods": _methods,
    "metrics": _metrics,
    "datasets": _datasets,
    "experiments": _experiments,
}
