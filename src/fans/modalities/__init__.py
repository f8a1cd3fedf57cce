"""What a feature is in each modality, how to perturb it, and how to show it: importing this finds every folder here.

What a modality of one's own is made of is here: a `Modality`, its spaces (`FeatureSpace`, and the `FittedSpace` bound
to a background; `Pieces` for features that are there or not), and its `Presenter`.
"""

import importlib
import pkgutil

from fans.modalities.base import FeatureSpace, FittedSpace
from fans.modalities.presence import Pieces
from fans.modalities.present import Presenter
from fans.modalities.registry import Modality

__all__ = ["FeatureSpace", "FittedSpace", "Modality", "Pieces", "Presenter"]

for _module in pkgutil.iter_modules(__path__):
    if _module.ispkg:
        importlib.import_module(f"{__name__}.{_module.name}")
