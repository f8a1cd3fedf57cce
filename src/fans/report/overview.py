"""A global view of many explained rows: how often each column is in the subset, and what its values do."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fans.errors import InputError, extra
from fans.explanation import Explanation
from fans.report.sentences import join_names, percent, unit_word
from fans.report.tables import FEW, listed
from fans.types import Array
from fans.wording import normal_quantile

if TYPE_CHECKING:
    import pandas as pd

CLEAR = 0.25
"""A trend is told where even the nearer end of the rank correlation's interval is beyond this."""
ENOUGH = 10
"""Fewer rows than this show no trend worth telling."""
MOST_NAMED = 3
"""Columns that the sentence names, and categories that a column's words name of either sign."""

Claim = tuple[str, str, str]
"""Which values, `raise` or `lower`, and what comes after the output."""

DEPENDS, UNMEASURED = "depends on the class", "not measured"
TOO_FEW, UNCLEAR = "too few to tell", "no clear trend"
UNTOLD = (DEPENDS, UNMEASURED, TOO_FEW, UNCLEAR)
"""Words of columns that a sentence leaves out."""
VERBS = {1: "raise", -1: "lower"}


class Estimate(NamedTuple):
    """A number with its interval, NaN where it has none."""

    value: float
    low: float
    high: float


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Level:
    """Some values of a column, and what they do to the output.

    Attributes:
        name: `"low"` or `"high"` (the lower or the upper half of all explained rows by value; `"all"` where these have
            one value), `"missing"`, or a category.
        span: from which value to which, of halves.
        n: rows that have one of them.
        raised: the mean by which they raise the output.
        missing: whether they are no values at all.
    """

    name: str
    span: str
    n: int
    raised: Estimate
    missing: bool

    def sign(self, e: Explanation) -> int:
        """Return 1 if these values raise the output, -1 if they lower it, 0 where that is small or unsure."""
        unsure = math.isnan(self.raised.low) or self.raised.low <= 0 <= self.raised.high
        return 0 if unsure or _hardly_any(e, self.raised.value) else int(np.sign(self.raised.value))


@dataclass(frozen=True)
class Column:
    """One column over all rows of a section.

    Attributes:
        feature: its number.
        name: how it is called.
        chosen: the share of rows whose subset has it (Wilson's interval).
        score: its mean score.
        measured: rows in which its direction is known.
        size: mean size of the direction, whatever its sign.
        raised: by how much the rows' own values raise the output on average, compared with the column changed.
        trend: Spearman's rank correlation of value and raise (Bonett and Wright's interval); NaN for categories.
        levels: what its low and high values, or its categories, do.
        shade: `(n,)` where the row's value ranks, from 0 (lowest) to 1 (highest); of categories the number of the
            level; NaN where it is missing.
        ordered: whether its values have an order.
        words: what its values do, e.g. `high values raise P(bad), low values lower it`.
    """

    feature: int
    name: str
    chosen: Estimate
    score: Estimate
    measured: int
    size: Estimate
    raised: Estimate
    trend: Estimate
    levels: tuple[Level, ...]
    shade: Array
    ordered: bool
    words: str


@dataclass(frozen=True)
class Section:
    """Rows that are read together: all of them, or those explained for one class.

    Attributes:
        output: what the values raise or lower, e.g. `P(bad)`.
        rows: `(n,)` which of the explanation's.
        raised: `(n, F)` by how much the row's own value raises the output, compared with the column changed; NaN where
            that was not measured.
        columns: those most often in the subset first.
    """

    output: str
    rows: Array
    raised: Array
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Overview:
    """How often each column is in the subset, its mean score, and what its values do to the output."""

    explanation: Explanation
    sections: tuple[Section, ...]

    def to_frame(self, *, by_value: bool = False) -> "pd.DataFrame":
        """Return a pandas frame with one row per column, those most often in the subset first.

        Args:
            by_value: one row per column and kind of value instead: low and high halves, categories, missing.
        """
        try:
            import pandas as pd
        except ImportError:
            raise extra("pandas", "tabular", "`to_frame`") from None
        rows = _by_value if by_value else _by_column
        return pd.DataFrame([row for section in self.sections for row in rows(section)])

    def plot(self, path: str | Path | None = None, *, top: int = 10) -> Any:
        """Draw the leading columns with matplotlib and return the figure: shares, and a dot for each row and column.

        Args:
            path: where to write it as well.
            top: columns shown of each section.
        """
        from fans.report.figures import plot_scene
        from fans.report.swarms import picture

        return plot_scene(picture(self, top), path)

    def to_html(self, path: str | Path, *, top: int = 10) -> Path:
        """Write one self-contained HTML page, the leading columns drawn and all of them in tables; return its path."""
        from fans.report.overview_page import page

        return page(self, path, top)

    def _repr_html_(self) -> str:
        from fans.report.overview_page import fragment

        return fragment(self)

    def __str__(self) -> str:
        return "\n".join(
            _sentence(self.explanation, section, named=len(self.sections) > 1) for section in self.sections
        )

    def __repr__(self) -> str:
        e = self.explanation
        return f"Overview(rows={len(e)}, columns={len(e.feature_names)}, of={[s.output for s in self.sections]})"


class _Kind(NamedTuple):
    """Some values of a column: their name, from which to which, and `(n,)` the rows that have them."""

    name: str
    span: str
    rows: Array
    missing: bool = False


@dataclass(frozen=True)
class _Values:
    """What rows have in a column: numbers `(n,)`, whether they are ordered, its kinds of values, and its shades."""

    numbers: Array
    ordered: bool
    kinds: tuple[_Kind, ...]
    shade: Array

    def of(self, rows: Array) -> "_Values":
        """Return the same of some rows, with all kinds."""
        kinds = tuple(kind._replace(rows=kind.rows[rows]) for kind in self.kinds)
        return _Values(self.numbers[rows], self.ordered, kinds, self.shade[rows])


def overview(e: Explanation, *, by_class: bool = False) -> Overview:
    """Return the global view of all rows, or of those explained for each class apart."""
    if e.elements.ndim == e.inputs.ndim:
        raise InputError(
            f"Expected an explanation whose inputs share their features for `overview`, got {len(e)} inputs with "
            f"{unit_word(e, 2)} of their own; look at each with `plot` or `to_html`"
        )
    if not len(e):
        raise InputError("Expected at least one explained input for `overview`, got none; explain some rows first")
    values = [_values(e, f) for f in range(len(e.feature_names))]
    places = [e.target == target for target in np.unique(e.target)] if by_class else [np.ones(len(e), bool)]
    return Overview(e, tuple(_section(e, np.flatnonzero(rows), values) for rows in places))


def _section(e: Explanation, rows: Array, values: Sequence[_Values]) -> Section:
    """Read some rows together; of two classes everything is told of the second, whose probability mirrors the first."""
    part = e[rows]
    mixed, two = bool(np.ptp(part.target)), e.kind == "probability" and len(e.target_names) == 2
    sign = np.where(part.target == 0, -1, 1) if mixed and two else np.ones(len(part))
    output = part.target_name(int(part.target.argmax()))
    if mixed and not two:
        output = "P(explained class)" if e.kind == "probability" else "the explained output"
    raised = -part.direction * sign[:, None] + 0.0
    told = two or not mixed
    columns = [_column(part, f, raised[:, f], own.of(rows), output, told=told) for f, own in enumerate(values)]
    columns.sort(key=lambda column: (-column.chosen.value, -np.nan_to_num(column.score.value, nan=-np.inf)))
    return Section(output, rows, raised, tuple(columns))


def _column(e: Explanation, f: int, raised: Array, values: _Values, output: str, *, told: bool) -> Column:
    """Put together what is known of a column; what its values do only where they all do it to one output."""
    effect = raised if told else np.full_like(raised, np.nan)
    column = Column(
        feature=f,
        name=e.feature_names[f],
        chosen=wilson(int(e.subset[:, f].sum()), len(e), e.confidence),
        score=_mean(e.scores[:, f], e.confidence),
        measured=int((~np.isnan(raised)).sum()),
        size=_mean(np.abs(raised), e.confidence),
        raised=_mean(raised, e.confidence),
        trend=_trend(values.numbers, effect, e.confidence) if values.ordered else UNKNOWN,
        levels=tuple(
            Level(kind.name, kind.span, int(kind.rows.sum()), _mean(effect[kind.rows], e.confidence), kind.missing)
            for kind in values.kinds
        ),
        shade=values.shade,
        ordered=values.ordered,
        words=DEPENDS,
    )
    return replace(column, words=_words(e, column, output)) if told else column


def _values(e: Explanation, f: int) -> _Values:
    """Return what the rows have in a column, and which of them have low and high values, or each category."""
    places = np.flatnonzero(e.elements.ravel() == f)
    numbers = e.inputs.reshape(len(e), -1)[:, places].mean(1)
    place = str(places[0])
    in_order = place not in e.categories or e.kinds.get(place) == "ordered"
    ordered = not e.presenter.has_categories or (len(places) == 1 and in_order)
    kinds, shade = (_halves if ordered else _categories)(e, f, numbers)
    kinds.append(_Kind("missing", "", np.isnan(numbers), missing=True))
    return _Values(numbers, ordered, tuple(kind for kind in kinds if kind.rows.any()), shade)


def _halves(e: Explanation, f: int, numbers: Array) -> tuple[list[_Kind], Array]:
    """Split rows at the middle rank of their values; the shade of a row is where its own ranks."""
    ranks, known = _ranks(numbers), ~np.isnan(numbers)
    lowest, highest = np.min(ranks[known], initial=np.inf), np.max(ranks[known], initial=-np.inf)
    middle = (known.sum() + 1) / 2
    if lowest < highest:
        kinds, shade = [("low", ranks < middle), ("high", ranks > middle)], (ranks - lowest) / (highest - lowest)
    else:
        kinds, shade = [("all", known)], np.where(known, 0.5, np.nan)
    return [_Kind(name, _span(e, f, numbers, rows), rows) for name, rows in kinds], shade


def _span(e: Explanation, f: int, numbers: Array, rows: Array) -> str:
    """Return from which value to which the rows go, as text."""
    places = np.flatnonzero(rows)
    ends = (places[numbers[places].argmin()], places[numbers[places].argmax()]) if len(places) else ()
    return " to ".join(dict.fromkeys(e.value(int(i), f) for i in ends))


def _categories(e: Explanation, f: int, numbers: Array) -> tuple[list[_Kind], Array]:
    """Split rows by category, the most frequent first; the shade of a row is the number of its category."""
    known = np.flatnonzero(~np.isnan(numbers))
    codes = e.inputs[np.ix_(known, np.flatnonzero(e.elements == f))]
    _, first, code, counts = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shade = np.full(len(numbers), np.nan)
    shade[known] = np.argsort(order)[code.ravel()]
    return [_Kind(e.value(int(known[first[k]]), f), "", shade == place) for place, k in enumerate(order)], shade


def wilson(k: int, n: int, confidence: float) -> Estimate:
    """Return the share `k / n` with Wilson's score interval."""
    p, z2 = k / n, normal_quantile(confidence) ** 2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return Estimate(p, centre - half if k else 0.0, centre + half if k < n else 1.0)


def _mean(values: Array, confidence: float) -> Estimate:
    """Return the mean of the values that are known, more or less so many standard errors; of a few without."""
    values = values[~np.isnan(values)]
    if not len(values):
        return UNKNOWN
    half = math.nan
    if len(values) >= FEW:
        half = normal_quantile(confidence) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Estimate(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)


def _trend(values: Array, raised: Array, confidence: float) -> Estimate:
    """Return Spearman's rank correlation, NaN where either is constant, with Bonett and Wright's interval (2000)."""
    known = ~np.isnan(values + raised)
    one, other = _ranks(values[known]), _ranks(raised[known])
    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0:
        return UNKNOWN
    rho = float(np.corrcoef(one, other)[0, 1])
    if len(one) < ENOUGH:
        return Estimate(rho, math.nan, math.nan)
    centre = math.atanh(min(max(rho, -1 + 1e-12), 1 - 1e-12))
    half = normal_quantile(confidence) * math.sqrt((1 + rho**2 / 2) / (len(one) - 3))
    return Estimate(rho, math.tanh(centre - half), math.tanh(centre + half))


def _ranks(values: Array) -> Array:
    """Return the rank of each value from 1, ties sharing their mean; NaN stays NaN."""
    known = ~np.isnan(values)
    _, which, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    ranks = np.full(len(values), np.nan)
    ranks[known] = (counts.cumsum() - (counts - 1) / 2)[which]
    return ranks


def _hardly_any(e: Explanation, move: float) -> bool:
    """Tell whether a movement of the output is none, as one of a probability is that would be written 0.00."""
    return abs(move) < (0.005 if e.kind == "probability" else 1e-12)


def _words(e: Explanation, column: Column, output: str) -> str:
    """Say what a column's values do to the output on average."""
    if not column.measured:
        return UNMEASURED
    if column.measured < ENOUGH:
        return TOO_FEW
    if _hardly_any(e, column.size.value):
        return f"alone it hardly moves {output}"
    signs = {level: level.sign(e) for level in column.levels}
    claims = _value_claims(column.trend, signs) if column.ordered else _category_claims(signs)
    spoken = [f"{who} {does} {'it' if k else output}{how}" for k, (who, does, how) in enumerate(claims)]
    return ", ".join(spoken) or UNCLEAR


def _value_claims(trend: Estimate, signs: Mapping[Level, int]) -> list[Claim]:
    """Return what high, low and missing values do: of both only where the ranks agree, or they do the same."""
    ends = {level.name: sign for level, sign in signs.items() if level.n >= ENOUGH and not level.missing}
    gone = [("missing values", sign) for level, sign in signs.items() if level.missing]
    clear = trend.low >= CLEAR or trend.high <= -CLEAR
    most, least = ("high", "low") if trend.value > 0 else ("low", "high")
    rise, fall = ends.get(most, 0), ends.get(least, 0)
    if rise == fall != 0:
        how = f", {most if rise > 0 else least} ones most" if clear else ""
        return [("high and low values", VERBS[rise], how), *_claims(gone)]
    if len(ends) > 1:
        ends = {most: rise, least: fall} if clear and rise >= 0 >= fall else {}
    return _claims([*((f"{name} values", sign) for name, sign in ends.items()), *gone])


def _claims(signs: Sequence[tuple[str, int]]) -> list[Claim]:
    return [(who, VERBS[sign], "") for who, sign in signs if sign]


def _category_claims(signs: Mapping[Level, int]) -> list[Claim]:
    """Return which categories raise the output, and which lower it, those that do most first."""
    claims = []
    for sign, verb in VERBS.items():
        levels = sorted((level for level in signs if signs[level] == sign), key=lambda v: -sign * v.raised.value)
        names = ["missing values" if level.missing else f'"{level.name}"' for level in levels[:MOST_NAMED]]
        if len(levels) > MOST_NAMED:
            names.append(f"{len(levels) - MOST_NAMED} more")
        if names:
            one = len(levels) == 1 and not levels[0].missing
            claims.append((listed(names, "and"), f"{verb}s" if one else verb, ""))
    return claims


def _sentence(e: Explanation, section: Section, *, named: bool) -> str:
    """Say which columns are in most subsets, and what the values of those do."""
    n, n_columns = len(section.rows), len(section.columns)
    begin, rows = f"{section.output}: the" if named else "The", f"{n:,} explained {units(e, n)[0]}"
    leading = [found for found in section.columns if found.chosen.value > 0]
    empty = f"empty: no {units(e, 1)[1]} stands out."
    if n == 1:
        has_it = f"has {join_names([found.name for found in leading])}." if leading else f"is {empty}"
        return f"{begin} subset of {rows} {has_it}"
    if not leading:
        return f"{begin} subsets of {rows} are {empty}"
    shares = [_share(found.chosen, n) for found in leading[:MOST_NAMED]]
    shares[0] = shares[0].replace(" [", f", {percent(e.confidence)} interval [")
    has = [f"*{found.name}* in {share}" for found, share in zip(leading, shares, strict=False)]
    n_never = n_columns - len(leading)
    if n_never:
        has[-1] += f"; {n_never:,} of {n_columns:,} {units(e, n_columns)[1]} {'is' if n_never == 1 else 'are'} in none"
    does = [f"*{found.name}*: {found.words}." for found in leading[:MOST_NAMED] if found.words not in UNTOLD]
    if leading[0].words == DEPENDS:
        does = ["What their values do depends on the class: `overview(by_class=True)` tells of each."]
    return " ".join([f"{begin} subsets of {rows} have {listed(has, 'and')}.", *does])


def units(e: Explanation, n: int) -> tuple[str, str]:
    """Return what `n` inputs are called, and what `n` features."""
    shows = e.presenter
    return shows.input_words[n != 1], shows.column_words[n != 1] if shows.column_words else unit_word(e, n)


def _share(chosen: Estimate, n: int) -> str:
    """Return a share with its interval, of a few rows in how many of them."""
    return f"{round(n * chosen.value)} of {n}" if n < ENOUGH else share_text(chosen)


def share_text(share: Estimate) -> str:
    """Return a share with its interval in per cent, e.g. `64 % [61, 67]`."""
    value, low, high = map(hundredths, share)
    return f"{value} % [{low}, {high}]"


def hundredths(share: float) -> str:
    """Return a share as whole hundredths; only a true 0 or 1 is written as such."""
    if 0 < share < 0.01 or 0.99 < share < 1:
        return "<1" if share < 0.5 else ">99"
    return f"{100 * share:.0f}"


def bracketed(estimate: Estimate, write: Callable[[float], str]) -> str:
    """Return a number with its interval, where it has one; nothing for what is unknown."""
    if math.isnan(estimate.value):
        return ""
    value, low, high = map(write, estimate)
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"


def legend(e: Explanation) -> str:
    """Return what the words and numbers of an overview mean."""
    row, column = units(e, 1)
    return (
        f"A value raises the output where that is on average higher with the {row}'s own value than with the {column} "
        f"alone changed (minus the direction), and lowers it where it is lower; moves by: the mean size of both. Low "
        f"and high values: the lower and the upper half of all explained {row}s. Rank correlation: Spearman's, of the "
        f"value and by how much it raises the output; near 1: the higher the value, the more; near -1: the lower. "
        f"In brackets: {percent(e.confidence)} intervals."
    )


def _by_column(section: Section) -> list[dict[str, Any]]:
    """Return the rows of a frame with one for each column."""
    return [
        {"output": section.output, "column": c.name, "rows": len(section.rows)}
        | _spread("chosen", c.chosen)
        | _spread("score", c.score)
        | {"measured": c.measured}
        | _spread("size", c.size)
        | _spread("raised", c.raised)
        | _spread("rank_correlation", c.trend)
        | {"words": c.words}
        for c in section.columns
    ]


def _by_value(section: Section) -> list[dict[str, Any]]:
    """Return the rows of a frame with one for each column and kind of value."""
    return [
        {"output": section.output, "column": c.name, "values": level.name, "span": level.span, "rows": level.n}
        | _spread("raised", level.raised)
        for c in section.columns
        for level in c.levels
    ]


def _spread(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
