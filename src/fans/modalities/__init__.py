"""What a feature is in each modality, how to perturb it, and how to show it: importing this finds every folder here."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    if _module.ispkg:
        importlib.import_module(f"{__name__}.{_module.name}")
