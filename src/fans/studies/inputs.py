"""Which inputs of a dataset serve what, so that nothing is chosen on what is reported."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fans.errors import InputError, check_whole, choose

Part = Literal["reported", "development", "tuning", "check"]
"""What inputs are for: the table, our choices, the search for rivals' settings, or a second look at a choice."""

Range = Sequence[int]
"""The first input, and the one after the last."""


@dataclass(frozen=True)
class Dataset:
    """Inputs and the model that is explained on them.

    Inputs are counted from 0: test images as they lie in their file, nodes as `graphs.nodes_in_order` has them.

    Attributes:
        name: registered name of the dataset.
        label: in the table.
        model: name of the checkpoint, with its folder where that is not ours (`folder/name`).
        n: inputs that are reported by default, the first ones.
        shard: inputs of a cell.
        n_background: training inputs that serve as background, the first ones.
        tuning: inputs on which the rivals' settings are searched.
        development: inputs on which anything else is chosen, those of `tuning` among them; by default no others.
        check: inputs on which a choice is confirmed before it is reported.

    Raises:
        InputError: if an input would be reported and chosen on, or chosen on and confirmed on.
    """

    name: str
    label: str
    model: str
    n: int
    shard: int
    n_background: int
    tuning: Range
    development: Range | None = None
    check: Range | None = None

    def __post_init__(self) -> None:
        check_whole(f"n of {self.name}", self.n, 1)
        parts = self._parts()
        tuned = parts.pop("tuning")
        if not set(tuned) <= set(parts["development"]):
            raise InputError(
                f"Expected `tuning` of {self.name} within its `development`, got {_shown(tuned)} and "
                f"{_shown(parts['development'])}"
            )
        for (one, here), (other, there) in itertools.combinations(parts.items(), 2):
            if set(here) & set(there):
                raise InputError(
                    f"Expected inputs of {self.name} that serve one purpose each, got {_shown(here)} as {one} ones and "
                    f"{_shown(there)} as {other} ones, which overlap; move one of the two"
                )

    def positions(self, part: Part, n: int | None = None) -> range:
        """Return which inputs serve a purpose; whoever chooses anything takes his inputs from here.

        Args:
            part: the purpose.
            n: only so many, the first ones; of the reported ones also more than by default, up to those that serve
                another purpose.

        Raises:
            InputError: if there are not so many, or none for that purpose.
        """
        parts = self._parts()
        found = parts[choose(f"a purpose of inputs of {self.name}", part, parts)]
        most = min(other.start for name, other in parts.items() if name != part) if part == "reported" else len(found)
        n = len(found) if n is None else n
        check_whole("n", n, 1)
        if n > most:
            raise InputError(
                f"Expected at most {most:,} inputs of {self.name} as {part} ones, others serving another purpose, "
                f"got {n:,}"
            )
        return range(found.start, found.start + n)

    def _parts(self) -> dict[str, range]:
        """Return which inputs serve each purpose that it has."""
        own = self.tuning if self.development is None else self.development
        given = {"development": own, "tuning": self.tuning, "check": self.check}
        read = {part: self._range(part, value) for part, value in given.items() if value is not None}
        return {"reported": range(self.n)} | read

    def _range(self, part: str, given: Any) -> range:
        match given:
            case [int(first), int(end)] if 0 <= first < end:
                return range(first, end)
        raise InputError(
            f"Expected `{part}` of {self.name} as its first input and the one after its last, e.g. [500, 532], "
            f"got {given!r}"
        )


def _shown(inputs: range) -> str:
    return f"[{inputs.start}, {inputs.stop})"
