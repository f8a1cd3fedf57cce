"""The runner: work cut into cells, and a ledger of the finished ones; kill it anywhere, start it again, it goes on."""

from fans.runs._ledger import Ledger
from fans.runs._pace import describe, progress, span
from fans.runs._records import Cell, Record, Result, differences, processor, versions
from fans.runs._run import Run

__all__ = [
    "Cell",
    "Ledger",
    "Record",
    "Result",
    "Run",
    "describe",
    "differences",
    "processor",
    "progress",
    "span",
    "versions",
]
