"""The paper's studies, and yours: what is computed for each table or figure, over `runs`."""

import importlib

from fans.studies._tables import TableStudy
from fans.studies._yaml import find_study, load, names, tables
from fans.studies.base import Asked, FigureStudy, Rendered, Study
from fans.studies.inputs import Dataset

FIGURES = ("ablation", "convergence", "sensitivity")
"""Our studies that are modules, one each: importing them registers them."""

for _module in FIGURES:
    importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "Asked",
    "Dataset",
    "FigureStudy",
    "Rendered",
    "Study",
    "TableStudy",
    "find_study",
    "load",
    "names",
    "tables",
]
