"""FANS itself: its solvers, and from scores to the chosen subset."""

from fans.methods.fans.method import FANS

__all__ = ["FANS"]
