"""Explaining a user's own model on a user's own data: `fans explain`, and what it leaves in a folder."""

from fans.own.bound import Asked
from fans.own.data import Reading
from fans.own.results import Results
from fans.own.run import explain

__all__ = ["Asked", "Reading", "Results", "explain"]
