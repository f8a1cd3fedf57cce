"""The paper's studies: what is computed for each of its tables, over `runs`."""

from fans.studies.inputs import Dataset
from fans.studies.table import Experiment, load, names

__all__ = ["Dataset", "Experiment", "load", "names"]
