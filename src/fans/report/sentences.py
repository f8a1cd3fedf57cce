"""A plain sentence for every explanation, computed from its estimates."""

import math
from collections.abc import Sequence

from fans.core import Explanation

UNITS = {"superpixel ": "superpixel", "rows ": "patch", "row ": "pixel", "edge ": "edge"}
"""What the features of an image or a graph are called, by how their names begin."""


def sentence(e: Explanation, i: int) -> str:
    """Say what the strict estimates of input `i` found, and nothing else.

    PS is the share of trials in which perturbing the subset changed the prediction, PN that in which perturbing
    everything else left it: each half of the sentence is one of the two numbers, and is left out where it is undefined.
    """
    names = _what(e, i)
    present = e[i].present[0]
    moved, left = _verbs(e, i)
    clauses = []
    if not math.isnan(e.ps[i]):
        clauses.append(f"perturbing {names} {moved} in {percent(e.ps[i])} of trials")
    if bool((e.subset[i] | ~present).all()):
        together = names if e.modality == "table" else "all of them"
        units = unit_word(e, int(present.sum()))
        clauses.append(f"no part of the {present.sum()} {units} stands out: only {together} together are named")
    elif not math.isnan(e.pn[i]):
        clauses.append(f"perturbing everything else {left} in {percent(e.pn[i])}")
    else:
        clauses.append("no perturbation of it that changed the prediction was seen near this input")
    text = "; ".join(clauses)
    return text[0].upper() + text[1:] + "."


def unit_word(e: Explanation, n: int) -> str:
    """Return what `n` features are called: superpixels, patches, pixels, or features."""
    first = e.feature_names[0]
    word = next((w for start, w in UNITS.items() if e.modality != "table" and first.startswith(start)), "feature")
    return word if n == 1 else f"{word}es" if word.endswith("h") else f"{word}s"


def chosen_count(e: Explanation, i: int) -> str:
    """Return how many features of those input `i` has were chosen, e.g. `11 of 64 superpixels`."""
    one = e[i]
    n = int(one.present.sum())
    return f"{one.subset.sum()} of {n} {unit_word(e, n)}"


def _what(e: Explanation, i: int) -> str:
    """Return what was chosen: by name, of an image by number and area."""
    if e.modality == "image":
        return f"{chosen_count(e, i)} ({percent(e[i].mask.mean())} of the image)"
    names = join_names(e.chosen_names(i))
    return names if e.modality == "table" else f"{chosen_count(e, i)} ({names})"


def _verbs(e: Explanation, i: int) -> tuple[str, str]:
    """Return how "changes the prediction" and "leaves it" read for the change and tolerance in use."""
    if e.change == "label":
        return "flips the predicted class", "leaves it"
    subject = "the prediction" if e.change == "l2" else e.target_name(i)
    verb = "lowers" if e.change == "fall" else "moves"
    if e.tolerance[i] > 0:
        return f"{verb} {subject} by more than {number(e.tolerance[i])}", "leaves it within that"
    return f"{verb} {subject}", "leaves it where it is"


def number(value: float) -> str:
    """Write a tolerance with two significant digits, without an exponent where that is short."""
    return f"{value:.2g}" if 1e-4 <= abs(value) < 100 else f"{value:.1e}" if abs(value) < 1 else f"{value:,.0f}"


def percent(p: float) -> str:
    """Write a probability as a percentage; only a true 0 or 1 is written as such."""
    if p in (0.0, 1.0):
        return f"{100 * p:.0f} %"
    return f"{min(max(round(100 * p), 1), 99)} %"


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Join names as prose, the tail of a long list as a count."""
    shown = [f"*{name}*" for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
