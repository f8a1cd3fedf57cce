"""The paper's studies: what is computed for each of its tables, over `runs`."""

from fans.experiments._inputs import Dataset
from fans.experiments._shared import Experiment, load, names

__all__ = ["Dataset", "Experiment", "load", "names"]
