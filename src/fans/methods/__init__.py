"""Attribution methods: importing this package registers every file on the shelf.

What a method of one's own is made of is here: `Method` (or `ElementMethod`, which scores elements), the `Problem` it is
given, the `Scores` it returns; and `Solver` for another way to find FANS's scores.
"""

import importlib
import pkgutil

from fans.methods.base import Method, Scores
from fans.methods.fans.solver import Solver
from fans.methods.problem import Problem
from fans.methods.rivals import ElementMethod

__all__ = ["ElementMethod", "Method", "Problem", "Scores", "Solver"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
