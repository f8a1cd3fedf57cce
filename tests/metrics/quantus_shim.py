"""Quantus 0.4.3 as an oracle: what it needs to run beside today's NumPy, patched only while it runs.

It calls `np.trapz`, which NumPy 2.4 no longer has; it makes a number of an array of one element, which NumPy 2.4
refuses; and it imports OpenCV, which is large, for rotations that nobody asks of it here.
"""

import builtins
import contextlib
import importlib
import importlib.metadata
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

VERSION = "0.4.3"


def missing() -> str:
    """Say why the oracle cannot be asked, or "" if it can."""
    for package, wanted in (("quantus", VERSION), ("cachetools", "")):
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return f"needs {package} {wanted}".rstrip()
        if not found.startswith(wanted):
            return f"needs {package} {wanted}, found {found}"
    return ""


def one_float(value: Any) -> float:
    return builtins.float(np.asarray(value).item())


def load() -> Any:
    """Import the package, with nothing in the place of OpenCV unless that is there already."""
    stand_in = None if "cv2" in sys.modules else types.ModuleType("cv2")
    try:
        if stand_in is not None:
            sys.modules["cv2"] = stand_in
        return importlib.import_module("quantus")
    finally:
        if stand_in is not None:
            del sys.modules["cv2"]


@contextlib.contextmanager
def quantus(uniform: Callable[..., Any] | None = None) -> Iterator[Any]:
    """Yield the package, ready to run; `uniform` takes the place of `np.random.uniform`."""
    with contextlib.ExitStack() as patches, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patches.enter_context(mock.patch.object(np, "trapz", np.trapezoid, create=True))
        package = load()
        for module in ("infidelity", "irof"):
            found = importlib.import_module(f"quantus.metrics.faithfulness.{module}")
            patches.enter_context(mock.patch.object(found, "float", one_float, create=True))
        utils = importlib.import_module("quantus.helpers.utils")
        cut = utils.create_patch_slice  # takes a size for every side as it should
        sides = lambda patch_size, coords: cut((patch_size,) * len(coords), coords)
        patches.enter_context(mock.patch.object(utils, "create_patch_slice", sides))
        if uniform is not None:
            patches.enter_context(mock.patch.object(np.random, "uniform", uniform))
        yield package
