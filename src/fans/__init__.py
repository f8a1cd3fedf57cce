"""Which features were necessary and sufficient for a prediction?"""

from fans import moved, spaces
from fans.curve import Curve, TrialSample
from fans.errors import FansError, FansWarning, InputError, Interrupted, MissingExtra, ModelError
from fans.evaluation import evaluate
from fans.explainer import Explainer
from fans.explanation import Attribution, Explanation, load
from fans.hypothesis import pns
from fans.memory import keep_freed_memory
from fans.result import PNS
from fans.version import __version__

__all__ = [
    "PNS",
    "Attribution",
    "Curve",
    "Explainer",
    "Explanation",
    "FansError",
    "FansWarning",
    "InputError",
    "Interrupted",
    "MissingExtra",
    "ModelError",
    "TrialSample",
    "__version__",
    "evaluate",
    "keep_freed_memory",
    "load",
    "pns",
    "spaces",
]

moved.install()
