"""The paper's studies, and yours: what is computed for each table or figure, over `runs`."""

from fans.studies._tables import TableStudy
from fans.studies._yaml import find_study, load, names
from fans.studies.base import Asked, FigureStudy, Rendered, Study
from fans.studies.inputs import Dataset

__all__ = ["Asked", "Dataset", "FigureStudy", "Rendered", "Study", "TableStudy", "find_study", "load", "names"]
