"""The paper's studies, and yours: what is computed for each table or figure, over `runs`."""

import importlib
import pkgutil

from fans.studies._tables import TableStudy
from fans.studies._yaml import find_study, load, names, tables
from fans.studies.base import Asked, FigureStudy, Rendered, Study
from fans.studies.inputs import Dataset

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

for _module in pkgutil.iter_modules(__path__):  # a study of ours is a file on this shelf: importing it registers it
    importlib.import_module(f"{__name__}.{_module.name}")
