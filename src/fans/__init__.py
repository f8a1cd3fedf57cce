"""Which features were necessary and sufficient for a prediction?"""

from fans import spaces
from fans.core import (
    PNS,
    Explanation,
    FansError,
    FansWarning,
    InputError,
    Interrupted,
    MissingExtra,
    ModelError,
    load,
)
from fans.estimate import pns
from fans.evaluate import evaluate
from fans.explain import Explainer
from fans.version import __version__

__all__ = [
    "PNS",
    "Explainer",
    "Explanation",
    "FansError",
    "FansWarning",
    "InputError",
    "Interrupted",
    "MissingExtra",
    "ModelError",
    "__version__",
    "evaluate",
    "load",
    "pns",
    "spaces",
]
