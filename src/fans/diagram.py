"""An explainer as a notebook shows it: model, background, neighbourhood, method, subset and estimate, with settings."""

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fans.methods.fans.subset import Members
from fans.modalities.base import Baseline, DrawnRows, Fixed, Mixed, Noise, OfSample
from fans.report.notebook import Part, counted, diagram
from fans.report.sentences import percent

if TYPE_CHECKING:
    from fans.explainer import Explainer

BASELINES: dict[type[Baseline], str] = {
    Fixed: "one fixed value for each feature",
    OfSample: "made from the input itself",
    Mixed: "made from the input itself, in several ways by turns",
    DrawnRows: "values of background rows, drawn anew each time",
    Noise: "noise, drawn anew each time",
}
"""What a missing feature gets."""

CHOICES: dict[Members, str] = {
    "share": "features with a fair share of the scores",
    "pns": "smallest with nearly the highest PNS",
    "auto": "as the method does best",
}
"""Which features are in the subset."""

MOST_NAMES = 10


def wants_text() -> bool:
    """Tell whether the user asked scikit-learn to show estimators as text: `set_config(display="text")`."""
    sklearn: Any = sys.modules.get("sklearn")
    return sklearn is not None and sklearn.get_config().get("display") == "text"


def model_name(model: Any) -> str:
    """Return what a model is called: a function by its name, anything else by its class."""
    return str(getattr(model, "__qualname__", type(model).__name__))


def drawn(explainer: "Explainer", given: frozenset[str]) -> str:
    """Return the explainer as HTML to embed; `given` are the settings that the user gave."""
    task, around, settings = explainer.task, explainer.neighbourhood, explainer.settings
    kind = "probability" if task.predict.kind == "probability" else "number"
    of_model = {
        "outputs": _listing(task.predict.target_names or ()),
        "read as": f"a {kind}",
        "rows at a time": f"{task.predict.n_seen:,}",
        "model": repr(task.predict.model),
    }
    of_rows = {
        "features": _listing(task.space.all_names),
        "a missing feature gets": BASELINES.get(type(task.baseline), type(task.baseline).__name__),
    }
    own = f"{task.space.modality}: every input has features of its own"
    shared = f"{counted(len(task.background), 'row')} of {counted(task.space.n_features, 'feature')}"
    if not task.space.has_background:
        del of_rows["features"]
    parts = [
        Part("model", model_name(task.predict.model), of_model),
        Part("background", f"{shared} ({task.space.modality})" if task.space.has_background else own, of_rows),
        _part("neighbourhood", f"{around.n_local:,} copies near each input", around, given),
        _part("method", explainer.method.label, explainer.method, given),
        _part("subset", CHOICES[explainer.selection.members], explainer.selection, given),
        _part("estimate", f"{percent(settings.confidence)} intervals", settings, given),
    ]
    fact = (
        f'About {explainer.rows_an_input:,} model rows an input (effort="{explainer.effort}"), seed {explainer.seed}. '
        f"{'In blue: the settings that were given.' if given else ''}"
    )
    return diagram("fans.Explainer", parts, fact)


def _part(name: str, said: str, owner: Any, given: frozenset[str]) -> Part:
    """Return a part with the fields of a dataclass as its settings."""
    settings = {f.name: str(getattr(owner, f.name)) for f in fields(owner)}
    return Part(name, said, settings, given & settings.keys())


def _listing(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
