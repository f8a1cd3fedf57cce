"""The paper's studies: what is computed for each of its tables, over `runs`."""

from fans.experiments._shared import Experiment, load, names

__all__ = ["Experiment", "load", "names"]
