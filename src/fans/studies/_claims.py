"""What records say of a claim about a table: who is ahead of whom on the same inputs, and how sure that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from fans.report.sections import Claim
from fans.report.tables import FEW, Entry, entry, listed, number
from fans.studies._entries import Said
from fans.studies._report import About
from fans.studies.differences import together

Values = Mapping[tuple[str, str, str], Mapping[int, float]]
"""The value of every input, by row, dataset and column."""


class Found(NamedTuple):
    """What records say, in words, and whether the claim holds by them; None where they cannot tell."""

    words: str
    held: bool | None


@dataclass(frozen=True)
class Race:
    """A row on one dataset, and those it is compared with.

    Attributes:
        said: the claim.
        label: of the dataset.
        own: the row's value of every input.
        rivals: those of the others on the same inputs, by name, the best first.
        higher: whether a higher value is better.
        stated: the lead in the paper, in per cent; None where it states none.
    """

    said: Said
    label: str
    own: Mapping[int, float]
    rivals: Mapping[str, Mapping[int, float]]
    higher: bool
    stated: float | None

    @property
    def value(self) -> float:
        """The row's mean."""
        return float(np.mean(list(self.own.values())))

    @property
    def start(self) -> str:
        """The dataset, N, and the row's mean."""
        return f"{self.label} (N = {len(self.own)}): {number(self.value)}"

    def lead(self, rival: str) -> Entry:
        """Return how far the row is ahead, paired by input."""
        sign = 1.0 if self.higher else -1.0
        return entry(np.array([sign * (value - self.rivals[rival][i]) for i, value in self.own.items()]))

    def told(self, rival: str) -> str:
        """Say how far the row is ahead of another or behind it; where the paper states a lead, in per cent as well."""
        lead, value = self.lead(rival), float(np.mean(list(self.rivals[rival].values())))
        stated = f" (the paper: ahead by {self.stated:.2f} %)" if self.stated is not None else ""
        if lead.low == lead.high == 0:
            return f"level with {rival}{stated}"
        way, sign = ("ahead of", 1.0) if lead.value >= 0 else ("behind", -1.0)
        low, high = sorted((sign * lead.low, sign * lead.high))
        interval = f" [{number(low)}, {number(high)}]" if len(self.own) >= FEW else ""
        share = f", {100 * lead.value / abs(value):.2f} %" if stated and value and lead.value > 0 else ""
        return f"{way} {rival} ({number(value)}) by {number(abs(lead.value))}{interval}{share}{stated}"


def judged(said: Said, about: About, values: Values) -> Claim:
    """Return a claim with what the records say of it; `values` are theirs, and the claim names its datasets."""
    races = [_race(said, about, values, dataset) for dataset in said.datasets]
    missing = [about.labels[d] for d, race in zip(said.datasets, races, strict=True) if race is None]
    run = [race for race in races if race is not None]
    found = _JUDGES[said.kind](run) if run else Found("", None)
    few = any(len(race.own) < FEW for race in run)
    held = None if few or (missing and found.held) else found.held
    words = [found.words] if run else []
    words += [f"nothing measured of {listed(missing, 'and')}"] if missing else []
    words += _beside(said, about, values)
    return Claim(said.says, said.source, "; ".join(words), held)


def _race(said: Said, about: About, values: Values, dataset: str) -> Race | None:
    """Return the row and its rivals on a dataset; None where there are none, or no value of the row."""
    own = values.get((said.row, dataset, said.column))
    higher = next(c.higher_is_better for c in about.columns if c.name == said.column)
    groups = {row.name: row.group for row in about.rows}
    trivial = {row.name for row in about.rows if row.trivial}
    if not own:
        return None
    rivals = {}
    for (row, where, column), found in values.items():
        counts = groups.get(row) in said.among if said.among else groups.get(row) != groups.get(said.row)
        if (where, column) == (dataset, said.column) and counts and row not in trivial and found.keys() >= own.keys():
            rivals[row] = {i: found[i] for i in own}
    if not rivals:
        return None
    order = sorted(rivals, key=lambda row: float(np.mean(list(rivals[row].values()))), reverse=higher)
    return Race(said, about.labels[dataset], own, {row: rivals[row] for row in order}, higher, said.by.get(dataset))


def _each(judge: Callable[[Race], Found], races: Sequence[Race]) -> Found:
    """Return what holds on every dataset: what fails on one fails."""
    found = [judge(race) for race in races]
    return Found("; ".join(f.words for f in found), together([f.held for f in found]))


def _beyond(lead: Entry, at_least: float = 0.0) -> bool | None:
    """Tell whether a lead is certainly more than so much; None where its interval holds both."""
    if lead.low > at_least:
        return True
    return False if lead.high <= at_least else None


def _first(race: Race) -> Found:
    best = next(iter(race.rivals))
    return Found(f"{race.start}, {race.told(best)}", _beyond(race.lead(best)))


def _second(race: Race) -> Found:
    """Behind one row, and ahead of the next."""
    best, *others = race.rivals
    before = _beyond(race.lead(best))
    behind = None if before is None else not before
    if not others:
        return Found(f"{race.start}, {race.told(best)}", behind)
    held = together([behind, _beyond(race.lead(others[0]))])
    return Found(f"{race.start}, {race.told(best)} and {race.told(others[0])}", held)


def _near(race: Race) -> Found:
    """Not further behind the best than so much."""
    best = next(iter(race.rivals))
    return Found(f"{race.start}, {race.told(best)}", _beyond(race.lead(best), -race.said.within))


def _equals(race: Race) -> Found:
    return Found(race.start, _is(race.value, race.said.value))


def _only(races: Sequence[Race]) -> Found:
    """Return whether the row's mean is the value on all datasets, and no other row's is."""
    own = _each(_equals, races)
    alike = [
        {row for row, v in race.rivals.items() if _is(float(np.mean(list(v.values()))), race.said.value)}
        for race in races
    ]
    others = sorted(set.intersection(*alike))
    also = listed(others, "and") if others else "no other row"
    return Found(f"{own.words}; the same of {also}", together([own.held, not others]))


def _is(mean: float, value: float) -> bool:
    return abs(mean - value) <= 1e-9


_JUDGES: Mapping[str, Callable[[Sequence[Race]], Found]] = {
    "first": partial(_each, _first),
    "second": partial(_each, _second),
    "near": partial(_each, _near),
    "equals": partial(_each, _equals),
    "only": _only,
}


def _beside(said: Said, about: About, values: Values) -> list[str]:
    """Say what the means of other rows are, where they have any."""
    out = []
    for row in said.beside:
        found = {d: values[row, d, said.column] for d in said.datasets if values.get((row, d, said.column))}
        means = [f"{number(float(np.mean(list(v.values()))))} on {about.labels[d]}" for d, v in found.items()]
        out += [f"{row} has {listed(means, 'and')}"] if means else []
    return out
