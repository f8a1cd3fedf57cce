"""What is told of one input, as plain values that JSON can hold."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fans.curve import TrialSample
from fans.errors import FansError
from fans.explainer import Explainer
from fans.explanation import Explanation
from fans.methods.base import Method
from fans.report.sentences import (
    LITTLE,
    chosen_count,
    column_legend,
    direction_text,
    facts,
    finding,
    half_width,
    legend,
    outcome,
    score_label,
    score_text,
    stability_text,
    unit_word,
)
from fans.result import PNS

MOST_LISTED = 300
"""Features that the page lists of one input: the leading ones, and all that were chosen."""

RIVALS = ("kernel_shap", "lime", "feature_ablation", "occlusion", "rise", "integrated_gradients", "saliency", "random")
"""Methods that may be put side by side with the explanation's own, the first few that fit."""

MOST_RIVALS = 5


def view(e: Explanation, *, count: tuple[int, int]) -> dict[str, Any]:
    """Return everything that the page of one input shows at once; `count`: its place, and how many there are."""
    shown = listed(e)
    return {
        "i": count[0],
        "n": count[1],
        "title": e.title(0),
        "outcome": outcome(e, 0),
        "target": e.target_name(0),
        "finding": view_finding(e),
        "nothing": nothing_in_particular(e),
        "facts": facts(e, 0),
        "legend": f"{legend(e)} {column_legend(e)}",
        "method": e.method,
        "units": [unit_word(e, 1), unit_word(e, 2)],
        "n_features": int(e.present.sum()),
        "score_label": score_label(e),
        "confidence": e.confidence,
        "change": e.change,
        "tolerance": plain(e.tolerance[0]),
        "subset": np.flatnonzero(e.subset[0]).tolist(),
        "figures": own_figures(e),
        "features": [_feature(e, f) for f in shown],
        "n_more": int(e.present.sum()) - len(shown),
        "lists": e.presenter.lists_features,
        "scene": plain(e.presenter.scene_data(e, 0)),
    }


def listed(e: Explanation) -> list[int]:
    """Return the features that the page lists: the leading ones, and all that were chosen."""
    order = [int(f) for f in e.ranked(0)]
    return order[:MOST_LISTED] + [f for f in order[MOST_LISTED : 10 * MOST_LISTED] if e.subset[0, f]]


def nothing_in_particular(e: Explanation) -> str:
    """Say what it means that an input whose every feature was changed is still predicted alike; "" where it is not."""
    if e.subset[0].any() or not e.holds[0] >= LITTLE or e.notes[0].startswith("it equals its baseline"):
        return ""
    what = "This class" if e.kind == "probability" else "This output"
    return f"{what} is what the model says of nothing in particular: it says so whatever the features are."


def _feature(e: Explanation, f: int) -> dict[str, Any]:
    score, half = float(e.scores[0, f]), half_width(e, 0, f)
    return {
        "f": f,
        "name": e.name(0, f),
        "value": e.value(0, f) if e.presenter.lists_features else "",
        "score": plain(score),
        "half": plain(half),
        "score_text": score_text(e, 0, f),
        "direction": direction_text(e, 0, f),
        "stability": stability_text(e, 0, f),
    }


def own_figures(e: Explanation) -> dict[str, Any]:
    """Return keep, change and both of the explanation's own subset, with their intervals."""
    return _figures(e.pns[0], e.changes[0], e.holds[0], e.interval[0, 0], e.share_interval[0], e.notes[0])


def figures(found: PNS) -> dict[str, Any]:
    """Return keep, change and both of anybody's subset, with their intervals."""
    named = (found.pns[0], found.changes[0], found.holds[0], found.interval[0, 0], found.share_interval[0])
    return _figures(*named, found.notes[0]) | {"rows": int(found.n_evaluations)}


def _figures(pns: Any, changes: Any, holds: Any, interval: Any, shares: Any, note: str) -> dict[str, Any]:
    named = {"both": (pns, *interval), "change": (changes, *shares[0]), "keep": (holds, *shares[1])}
    return {name: plain(values) for name, values in named.items()} | {"note": note}


def said_of(e: Explanation, found: PNS, subset: Sequence[int]) -> list[dict[str, Any]]:
    """Return the sentence of a subset that the reader chose, in the words of the explanation's own."""
    chosen = np.zeros_like(e.subset)
    chosen[0, list(subset)] = True
    asked = replace(
        e,
        subset=chosen & e.present,
        stability=np.full_like(e.stability, np.nan),
        direction=np.full_like(e.direction, np.nan),
        pns=found.pns,
        changes=found.changes,
        holds=found.holds,
        tolerance=found.tolerance,
        interval=found.interval,
        share_interval=found.share_interval,
        notes=found.notes,
    )
    return emphasised(finding(asked, 0), asked.chosen_names(0))


def trials(e: Explanation, found: TrialSample) -> dict[str, Any]:
    """Return the trials of a subset by side, those that moved the prediction and those that did not."""
    return {side: _alike(_trial(e, found, side, k) for k in range(found.moved[side].shape[1])) for side in found.moved}


def _trial(e: Explanation, found: TrialSample, side: str, k: int) -> dict[str, Any]:
    before, after = found.before[side][0, k], found.inputs[side][0, k]
    return {
        "moved": bool(found.moved[side][0, k]),
        "before": _said(e, found.outputs_before[side][0, k]),
        "after": _said(e, found.outputs[side][0, k]),
        "shown": plain(e.presenter.trial_data(e, before, after, _at(found, side, k))),
    }


def _alike(trials: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return trials, those that look the same once, and how many of each there were."""
    counted: dict[str, dict[str, Any]] = {}
    for each in trials:
        counted.setdefault(json.dumps(each), each | {"n": 0})["n"] += 1
    return list(counted.values())


def _at(found: TrialSample, side: str, k: int) -> Any:
    """Return what the model was given in a trial; None of what cannot be taken apart."""
    given = found.given[side][0]
    if hasattr(given, "iloc"):
        return given.iloc[k]
    return given[k] if isinstance(given, list | np.ndarray) and k < len(given) else None


def _said(e: Explanation, output: float) -> str:
    """Return an output without its name."""
    words = outcome(replace(e, prediction=np.array([output])), 0)
    return words.removeprefix(e.target_name(0)).removeprefix(" =").strip()


def rivals(explainer: Explainer) -> list[dict[str, str]]:
    """Return a handful of methods that fit an explainer's inputs and model, by name and label."""
    found: list[dict[str, str]] = []
    for name in ("fans", *RIVALS):
        if name == explainer.method.name or len(found) == MOST_RIVALS:
            continue
        try:
            explainer.with_method(name)
        except FansError:  # not for these inputs, or this model
            continue
        member: Any = Method.registry[name]
        found.append({"name": name, "label": member.label})
    return found


def rival(e: Explanation) -> dict[str, Any]:
    """Return what another method says of the same input."""
    names = e.chosen_names(0)
    return {
        "method": e.method,
        "subset": np.flatnonzero(e.subset[0]).tolist(),
        "count": chosen_count(e, 0),
        "names": names[:5] if e.presenter.lists_features else [],
        "n_names": len(names) if e.presenter.lists_features else 0,
        "figures": own_figures(e),
        "rows": int(e.n_evaluations[0]),
    }


def emphasised(text: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a sentence in parts, those between asterisks that are names marked as such."""
    known = sorted(set(names), key=len, reverse=True)
    if not known:
        return [{"text": text}]
    parts = re.split("|".join(re.escape(f"*{name}*") for name in known).join("()"), text)
    return [
        {"text": part[1:-1], "em": True} if k % 2 else {"text": part} for k, part in enumerate(parts) if k % 2 or part
    ]


def plain(value: Any) -> Any:
    """Return values as JSON can hold them: None for what is no number."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def view_finding(e: Explanation) -> list[dict[str, Any]]:
    """Return what was found of the explanation's own subset, in parts."""
    return emphasised(finding(e, 0), e.chosen_names(0))
