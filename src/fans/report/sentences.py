"""Plain words and numbers for every explanation, computed from its estimates: what pages, figures and prints say."""

import math
import shutil
import textwrap
from collections.abc import Sequence

import numpy as np

from fans.explanation import Explanation
from fans.report.tables import listed
from fans.result import estimate_texts
from fans.types import Array
from fans.wording import normal_quantile, plain_number

MOST_NAMES, MOST_DIRECTIONS = 5, 3
"""Members of a subset that a sentence names, and those of which it tells the direction."""

LITTLE = 0.9
"""Where all changed leaves the prediction at least so often, little or nothing changes it."""

MOST_LINES = 60
"""Inputs that a print tells of."""


def printed(e: Explanation) -> str:
    """Return what `print` shows: of each input the prediction, the subset and the three shares."""
    width = max(40, shutil.get_terminal_size().columns)
    shows = e.presenter
    lines = ["\n".join([line(e, i, width), *shows.printed(e, i, width)]) for i in range(min(len(e), MOST_LINES))]
    if len(e) > MOST_LINES:
        lines.append(f"{len(e) - MOST_LINES:,} more inputs: `sentences` tells of all.")
    return "\n".join(lines)


def line(e: Explanation, i: int, width: int) -> str:
    """Say what was found of input `i` on one line, else with the shares on a second, naming as many members as fit."""
    for most in range(MOST_NAMES, 0, -1):
        found, shares = _briefly(e, i, most)
        if len(found) <= width:
            break
    if len(found) + 1 + len(shares) <= width:
        return f"{found} {shares}"
    lines = textwrap.wrap(found, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    parts = "; ".join(part.replace(" ", "\xa0") for part in shares.split("; "))
    shared = textwrap.wrap(parts, width, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
    return "\n".join([*lines, *shared]).replace("\xa0", " ")


SHORT = {
    "target": ("stays", "moves"),
    "fall": ("does not fall", "falls"),
    "label": ("class stays", "class changes"),
    "l2": ("output stays", "output moves"),
}
"""How "holds" and "changes" read on a line, by what counts as a change."""


def _briefly(e: Explanation, i: int, most: int) -> tuple[str, str]:
    """Return by what the prediction is, naming at most so many members, and the shares."""
    found = f"{e.title(i)}: {outcome(e, i)}"
    holds, changes, both, between = keep_change_both(e, i)
    stays, moves = SHORT[e.change]
    if not e.subset[i].any():
        return f"{found}; {_little(e, i, 'it').lower()}:", f"all changed, {stays} in {holds}"
    if _is_all(e, i):
        return f"{found} by {_everything(e, i)}:", f"changed, {moves} in {changes}"
    names, shows = e.chosen_names(i), e.presenter
    listing = f"{', '.join(names[:most])}, ..." if len(names) > most else listed(names, "and")
    what = shows.together(e, i) or listing
    named = between.replace("[", f"[{percent(e.confidence)}: ")
    shares = f"kept, {stays} in {holds}; changed, {moves} in {changes}; both {both} {named}"
    return f"{found} by {what} ({chosen_count(e, i)}):", shares.rstrip()


def sentence(e: Explanation, i: int) -> str:
    """Say what was found of input `i`, PNS, PN and PS in brackets at the end."""
    return f"{finding(e, i)} ({', '.join(_short_estimates(e, i))})"


def finding(e: Explanation, i: int) -> str:
    """Say what was found of input `i` in plain words.

    First what its strict estimates say: how often keeping the subset holds the prediction (`holds`), how often changing
    it does not (`changes`), and both at once (`pns`). Then the direction and the stability of the subset's members.
    """
    if not e.subset[i].any():
        return _nothing(e, i)
    members = [int(f) for f in e.ranked(i) if e.subset[i, f]]
    return " ".join(filter(None, [_claims(e, i), _directions(e, i, members), _least_stable(e, i, members)]))


def _nothing(e: Explanation, i: int) -> str:
    """Say that the subset is empty: `holds` is then how often changing everything leaves the prediction."""
    stays, _ = _verbs(e, i)
    who, holds = _subject(e, i), e.holds[i]
    again = "it" if holds >= LITTLE else who
    return f"{_little(e, i, who)}: whatever is changed near this input, {again} {stays} in {_share(holds)}."


def _little(e: Explanation, i: int, who: str) -> str:
    """Say in general what an empty subset means."""
    if e.holds[i] >= LITTLE:
        return f"{'Nothing' if e.holds[i] == 1 else 'Almost nothing'} changes {who}"
    return "Nothing stands out"


def _is_all(e: Explanation, i: int) -> bool:
    """Tell whether the subset has every feature of the input."""
    return bool((e.subset[i] | ~e[i].present[0]).all())


def _everything(e: Explanation, i: int) -> str:
    """Return what all features of an input are called together."""
    words = {1: f"its only {unit_word(e, 1)}", 2: f"both {unit_word(e, 2)}"}
    return words.get(int(e[i].present.sum()), f"all {feature_count(e, i)}")


def _claims(e: Explanation, i: int) -> str:
    """Say how often it holds, how often it changes, and both."""
    what, who = _what(e, i), _subject(e, i)
    stays, moves = _verbs(e, i)
    if _is_all(e, i):
        n, together = int(e.subset[i].sum()), " together" if e.subset[i].sum() > 1 else ""
        alone = {1: f"There is only one {unit_word(e, 1)}", 2: f"Neither of the {feature_count(e, i)} stands out"}
        found = alone.get(n, f"No part of the {feature_count(e, i)} stands out")
        return f"{found}. Change {what}{together}: {who} {moves} in {_share(e.changes[i])}."
    whole = e.presenter.together(e, i)
    only = "this part" if whole else what if e.subset[i].sum() == 1 else "these"
    return (
        f"Keep {what} ({chosen_count(e, i)}), and change everything else: {who} {stays} in {_share(e.holds[i])}. "
        f"Change only {only}: {who} {moves} in {_share(e.changes[i])}. Both: {_share(e.pns[i], '')}."
    )


def _directions(e: Explanation, i: int, members: Sequence[int]) -> str:
    """Say what changing the leading members does to the output; pixels and regions are too many to tell of."""
    known = [f for f in members if not math.isnan(e.direction[i, f])][:MOST_DIRECTIONS]
    if e.presenter.together(e, i) or not known:
        return ""
    who, parts = e.target_name(i), []
    if len(known) > 1 and all(_is_none(amount(e, i, f)) for f in known):
        return f"On average changing one of them alone barely moves {who}."
    for f in known:
        by = amount(e, i, f)
        does = f"barely moves {who}" if _is_none(by) else f"{_verb(e.direction[i, f])} {who} by {by}"
        parts.append(f"changing *{e.name(i, f)}* {does}")
        who = "it"
    return f"On average {listed(parts, 'and')}."


def _verb(direction: float) -> str:
    return "lowers" if direction < 0 else "raises"


def _least_stable(e: Explanation, i: int, members: Sequence[int]) -> str:
    """Say how often the least stable member is chosen, of an image the mean; nothing where all always are."""
    shares = e.stability[i, members]
    if np.isnan(shares).any() or shares.min() >= 1:
        return ""
    if e.presenter.together(e, i):
        return f"On average a {unit_word(e, 1)} of it is chosen in {times(shares.mean())} resampled runs."
    if len(members) == 1:
        return f"*{e.name(i, members[0])}* is chosen in {times(shares.min())} resampled runs."
    least = e.name(i, members[int(shares.argmin())])
    return f"The least stable, *{least}*, is chosen in {times(shares.min())} resampled runs."


def _short_estimates(e: Explanation, i: int) -> list[str]:
    """Return PNS with its interval, PN and PS without."""
    pns, pn, ps = estimate_texts(e, i)
    named = pns.replace(" [", f", {percent(e.confidence)} interval [")
    return [named, pn.partition(" [")[0], ps.partition(" [")[0]]


def keep_change_both(e: Explanation, i: int) -> tuple[str, str, str, str]:
    """Return how often it holds, changes, and both, e.g. `93 %`, `97 %`, `90 %`, and the interval of both in per cent.

    Only whatever applies: the empty subset has no changes, `-`.
    """
    empty = not e.subset[i].any()
    low, high = e.interval[i, 0]
    between = "" if empty or math.isnan(low + high) else f"[{100 * low:.0f}, {100 * high:.0f}]"
    return percent(e.holds[i]), "-" if empty else percent(e.changes[i]), "-" if empty else percent(e.pns[i]), between


def headline(e: Explanation, i: int) -> str:
    """Return the three shares on one line, e.g. `keep 93 %   change 97 %   both 90 % [86, 93]`."""
    holds, changes, both, between = keep_change_both(e, i)
    if not e.subset[i].any():
        return f"nothing chosen: all changed, it holds in {holds}"
    return f"keep {holds}   change {changes}   both {both} {between}".rstrip()


def legend(e: Explanation) -> str:
    """Return what the words of a headline mean."""
    alike = e.change == "label" or np.ptp(e.tolerance) == 0
    stays, moves = _verbs(e, 0) if alike else ("stays within the tolerance", "moves by more")
    return (
        f"keep: everything else changed, the prediction {stays}; change: only the subset changed, it {moves}; "
        f"both: both at once (PNS), [{percent(e.confidence)} interval]. Shares of trials near the input."
    )


def column_legend(e: Explanation) -> str:
    """Return what the scores of walks and the columns beside scores mean, where they have anything."""
    parts, one = [], unit_word(e, 1)
    if e.settings.get("solver") == "walks" and e.change == "target":
        what = f"when the {one} is changed, alone or after others"
        parts.append(f"score: how far the output moves on average, up or down, {what}")
    if not np.isnan(e.direction).all():
        who = "it" if parts else "the output"
        parts.append(f"if changed: by how much {who} rises (▲) or falls (▼) on average when only the {one} is changed")
    if not np.isnan(e.stability).all():
        parts.append("chosen in: share of resampled runs in which it is in the subset")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if parts else ""


def facts(e: Explanation, i: int) -> str:
    """Return the estimates with intervals, the tolerance and the radius, and what could not be estimated."""
    used = "" if e.change == "label" else f"tolerance {number(e.tolerance[i])}, "
    parts = [f"{', '.join(estimate_texts(e, i))} at {percent(e.confidence)} confidence"]
    return "; ".join([*parts, f"{used}radius {number(e.radius[i])}", *filter(None, [e.notes[i]])])


def unit_word(e: Explanation, n: int) -> str:
    """Return what `n` features are called: superpixels, patches, pixels, edges, columns, or features."""
    word = e.presenter.feature_word(e)
    return word if n == 1 else f"{word}es" if word.endswith("h") else f"{word}s"


def chosen_count(e: Explanation, i: int) -> str:
    """Return how many features of those input `i` has were chosen, e.g. `11 of 64 superpixels`."""
    return f"{e.subset[i].sum():,} of {feature_count(e, i)}"


def feature_count(e: Explanation, i: int) -> str:
    """Return how many features input `i` has, e.g. `64 superpixels`."""
    n = int(e[i].present.sum())
    return f"{n:,} {unit_word(e, n)}"


def left_out(e: Explanation, i: int, shown: Sequence[int]) -> str:
    """Say how many features of input `i` are not shown, and how many of those are in the subset; nothing if none."""
    hidden = [int(f) for f in e.ranked(i) if int(f) not in shown]
    if not hidden:
        return ""
    inside = int(e.subset[i, hidden].sum())
    words = f"{len(hidden):,} more {unit_word(e, len(hidden))} not shown"
    return f"{words}, {inside:,} of them in the subset" if inside else words


def subset_caption(e: Explanation, i: int) -> str:
    """Return what stands below the picture of a subset; single pixels are drawn as smooth regions."""
    drawn = ", smoothed" if unit_word(e, 1) == "pixel" and e.subset[i].any() else ""
    return chosen_count(e, i) + drawn


def score_label(e: Explanation) -> str:
    """Return how a column or an axis of scores is called, e.g. `score, 95 % interval`."""
    return "score" if e.scores_se is None else f"score, {percent(e.confidence)} interval"


def score_text(e: Explanation, i: int, f: int) -> str:
    """Return a score with its interval, where the method has one."""
    half, score = half_width(e, i, f), float(e.scores[i, f])
    if math.isnan(score):
        return "unknown"
    text, low, high = (f"{value:z,.{_decimals(e.scores[i])}f}" for value in (score, score - half, score + half))
    if math.isnan(half):
        return text
    return f"{text} [{low} to {high}]" if "," in low + high else f"{text} [{low}, {high}]"


def _decimals(values: Array) -> int:
    """Return how many decimals show three digits of the largest of some values; three from 0.01 to 1."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    return 3 if largest < 1e-9 or 0.01 <= largest < 1 else min(max(0, 2 - math.floor(math.log10(largest))), 9)


def half_width(e: Explanation, i: int, f: int) -> float:
    """Return half the width of a score's interval, NaN where the method has none."""
    return math.nan if e.scores_se is None else normal_quantile(e.confidence) * float(e.scores_se[i, f])


def direction_text(e: Explanation, i: int, f: int) -> str:
    """Return what changing a feature does to the output on average: `▼ 0.31` lowers, `▲ 0.31` raises it."""
    value = float(e.direction[i, f])
    if math.isnan(value):
        return ""
    by = amount(e, i, f)
    return by if _is_none(by) else f"{'▼' if value < 0 else '▲'} {by}"


def stability_text(e: Explanation, i: int, f: int) -> str:
    """Return in which share of resampled runs a feature is chosen."""
    value = float(e.stability[i, f])
    return "" if math.isnan(value) else percent(value)


def _what(e: Explanation, i: int) -> str:
    """Return what was chosen: by name, of an image its area."""
    shows = e.presenter
    names = e.chosen_names(i)
    kind = f"the {unit_word(e, len(names))} " if shows.names_kind else ""
    return shows.together(e, i) or kind + join_names(names)


def _subject(e: Explanation, i: int) -> str:
    """Return what is said to change."""
    return {"label": "the predicted class", "l2": "the prediction"}.get(e.change, e.target_name(i))


def _verbs(e: Explanation, i: int) -> tuple[str, str]:
    """Return how "holds" and "changes" read for the change and tolerance in use."""
    if e.change == "label":
        return "stays the same", "changes"
    by = number(e.tolerance[i])
    if e.change == "fall":
        return (
            (f"falls by at most {by}", f"falls by more than {by}") if e.tolerance[i] > 0 else ("never falls", "falls")
        )
    if e.tolerance[i] > 0:
        return f"stays within {by}", f"moves by more than {by}"
    return "stays where it is", "moves"


def amount(e: Explanation, i: int, f: int) -> str:
    """Write how far changing a feature moves the output."""
    return f"{abs(e.direction[i, f]):,.{2 if e.kind == 'probability' else _decimals(e.direction[i])}f}"


def _is_none(by: str) -> bool:
    """Tell whether a movement as it is written is none."""
    return float(by.replace(",", "")) == 0


def outcome(e: Explanation, i: int) -> str:
    """Return the prediction, e.g. `P(malignant) = 0.98`; a probability is written as 0 or 1 only where it is."""
    p = float(e.prediction[i])
    if e.kind == "probability" and 0 < p < 1 and not 1e-4 <= p < 0.9995:
        return f"{e.target_name(i)} {'< 0.0001' if p < 1e-4 else '> 0.999'}"
    return f"{e.target_name(i)} = {number(p)}"


def number(value: float) -> str:
    """Write an amount with three significant digits, in thousands where it has some: 0.824, 5,340, 324,542."""
    if math.isnan(value):
        return "unknown"
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.1e}" if 0 < abs(value) < 1e-4 else plain_number(value, 3)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many letters, the middle of a longer one left out."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def percent(p: float) -> str:
    """Write a probability as a percentage; only a true 0 or 1 is written as such."""
    if math.isnan(p):
        return "unknown"
    if p in (0.0, 1.0):
        return f"{100 * p:.0f} %"
    return f"{min(max(round(100 * p), 1), 99)} %"


def _share(p: float, of: str = " of trials") -> str:
    return f"an unknown share{of}" if math.isnan(p) else f"{percent(p)}{of}"


def times(share: float) -> str:
    """Write a share as so many of 10; only a true 0 or 1 is written as such."""
    if share < 1 and round(10 * share) == 10:
        return "more than 9 of 10"
    if share > 0 and round(10 * share) == 0:
        return "fewer than 1 of 10"
    return f"{round(10 * share)} of 10"


def join_names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Join names as prose, the tail of a long list as a count."""
    shown = [f"*{name}*" for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return listed(shown, "and")
