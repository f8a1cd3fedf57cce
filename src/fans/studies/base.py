"""What a study is: a question cut into cells, and files that tell the answer from what the cells left behind."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fans.errors import InputError
from fans.report.sections import Section, drawn_files, section_text
from fans.runs import Cell, Ledger, Result, differences

Plain = Mapping[str, Any]

Size = Literal["quick", "default", "full"]
"""A few inputs of everything, in minutes; what two cores do in an hour or so; as many as the paper has."""


@dataclass(frozen=True)
class Asked:
    """How much of a study is asked for, as the options of `fans run` say it.

    Attributes:
        n: inputs of every dataset, instead of the study's own number.
        only: names of datasets.
        rows: names of methods.
        tune: the search for the methods' settings instead.
        size: of the study, where `n` does not say how many inputs.
    """

    n: int | None = None
    only: Sequence[str] | None = None
    rows: Sequence[str] | None = None
    tune: bool = False
    size: Size = "default"


@dataclass(frozen=True)
class Rendered:
    """A report.

    Attributes:
        text: for the terminal.
        files: by name, what is written into the run's folder.
    """

    text: str
    files: Mapping[str, bytes]


class Study(ABC):
    """A study: what its cells are, what they cost, what doing one gives, and how the results are shown.

    A subclass with a `kind` registers itself; where it takes no arguments, `fans list experiments` shows it and
    `fans run` finds it by that name. It implements `plan`, `do` and `render`. Worker processes get it pickled, so it
    stands at the top of a module and holds plain data.

    Attributes:
        kind: its registered name, by which a report finds `render` again.
    """

    kinds: ClassVar[dict[str, type["Study"]]] = {}
    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        if kind in Study.kinds:
            raise TypeError(f"Expected a new kind for {cls.__qualname__}, got {kind!r}, taken by {Study.kinds[kind]}")
        Study.kinds[kind] = cls

    @property
    def called(self) -> str:
        """The name that a run stores."""
        return self.kind

    @abstractmethod
    def plan(self, asked: Asked) -> list[dict[str, Any]]:
        """Return the specs of the cells that are asked for (see `fans.runs.Cell`)."""

    def price(self, specs: Sequence[Plain]) -> list[Cell]:
        """Return these cells with what each costs in model rows; not known by default."""
        return [Cell(spec) for spec in specs]

    def check(self, cells: Iterable[Cell]) -> None:  # noqa: B027 - many have nothing to check
        """Raise if what these cells need, their data for one, is not there."""

    def admit(self, asked: Asked, cells: Sequence[Cell], others: Sequence[Cell]) -> None:  # noqa: ARG002
        """Raise if `others`, which are in the folder of a run already, cannot stand beside its cells; none by default.

        Raises:
            InputError: they cannot.
        """
        if others:
            raise InputError(
                f"Expected a folder of {self.called} with the {len(cells)} cells asked for, got {len(others)} others "
                "in it; choose another folder (--out), or the same settings"
            )

    @abstractmethod
    def do(self, cell: Cell) -> Result:
        """Do one cell, here or in a worker process; for `fans report --verify`, values are lists of numbers by name."""

    def about(self) -> dict[str, Any]:
        """Return what `render` has to know besides the records, as plain data: it is stored in the run's plan."""
        return {}

    @classmethod
    def section(cls, run: Ledger) -> Section | None:  # noqa: ARG003
        """Return what a page of several studies says of a run, from what is stored in it; None: what `render` tells."""
        return None

    @classmethod
    @abstractmethod
    def render(cls, run: Ledger) -> Rendered:
        """Return the report of a run from what is stored in it: `run.plan["about"]` and `run.records()`, no more."""


class FigureStudy(Study):
    """A study whose answer is figures: it implements `plan`, `do` and `section`.

    Its folder takes further cells at any time, of other datasets or methods.
    """

    def admit(self, asked: Asked, cells: Sequence[Cell], others: Sequence[Cell]) -> None:  # noqa: ARG002
        """Raise if a method would be computed in two ways."""
        refuse_mixed(cell.spec for cell in (*others, *cells))

    @classmethod
    @abstractmethod
    def section(cls, run: Ledger) -> Section:
        """Return claims, figures and what they are made by."""

    @classmethod
    def render(cls, run: Ledger) -> Rendered:
        """Return the section as text, and its figures as files: vectors, pixels and numbers."""
        section = cls.section(run)
        files = {"section.txt": section_text(section).encode()}
        for figure in section.figures:
            files |= drawn_files(figure)
        return Rendered(section_text(section), files)


def refuse_mixed(specs: Iterable[Mapping[str, Any]]) -> None:
    """Raise if two cells of one row and dataset differ in anything but their inputs and columns, or two of one column.

    They would be in one line of the table, or in one mean.
    """
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    for spec in specs:
        row = (spec["method"], spec["dataset"])
        columns = {
            c["name"]: {k: v for k, v in c.items() if k not in ("name", "limit")} for c in spec.get("columns", ())
        }
        judged = {"columns": columns, "imports": spec.get("imports")}
        common = {k: v for k, v in spec.items() if k not in ("shard", *judged)}
        for place, here in ((row, common), *(((*row, name), judged) for name in columns)):
            there = known.setdefault(place, here)
            if there != here:
                raise InputError(
                    f"Expected one configuration of {row[0]} on {row[1]} in a folder, got two: "
                    f"{', '.join(differences(there, here)[:3])}; choose another folder (--out), or the same settings"
                )
