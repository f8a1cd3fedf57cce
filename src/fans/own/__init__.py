"""Explaining a user's own model on a user's own data: `fans explain`, and what it leaves in a folder."""

from fans.own.results import Results

__all__ = ["Results"]
