"""Old import paths: what used to be imported from there still is, with one deprecation warning for each path.

Where things were before the house was rebuilt, and in which rooms they are now. The paths go with version 0.3.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ENGINE = (
    *("fans.engine.equations", "fans.engine.settings", "fans.engine.moments", "fans.engine.neighbourhood"),
    *("fans.engine.perturbation", "fans.engine.trials", "fans.engine.tolerance", "fans.engine.estimate"),
    *("fans.engine.inputs", "fans.hypothesis"),
)

MOVED: dict[str, tuple[str, ...]] = {
    "fans.core": (
        *("fans.errors", "fans.explanation", "fans.result", "fans.registry", "fans.types", "fans.wording"),
        *("fans.joining", "fans.files"),
    ),
    "fans.draws": ("fans.engine.draws",),
    "fans.pns": ENGINE,
    "fans.estimate": ENGINE,
    "fans.trials": ENGINE,
    "fans.uncertainty": ("fans.engine.uncertainty",),
    "fans.explain": ("fans.explainer",),
    "fans.evaluate": ("fans.evaluation", "fans.cases"),
    "fans.superpixels": ("fans.modalities.image.superpixels",),
    "fans.spaces.table": ("fans.modalities.table.space",),
    "fans.spaces.sparse": ("fans.modalities.table.sparse",),
    "fans.spaces.image": ("fans.modalities.image.space",),
    "fans.spaces.graph": ("fans.modalities.graph.space",),
    "fans.explainers": ("fans.methods", "fans.methods.base"),
    "fans.explainers.fans": ("fans.methods.fans.method",),
    "fans.data": ("fans.datasets",),
    "fans.models": ("fans.networks",),
    "fans.train": ("fans.networks.train",),
    "fans.train_graph": ("fans.networks.train_graph",),
    "fans.experiments": ("fans.studies",),
    "fans.report.images": ("fans.modalities.image.pictures", "fans.report.colours"),
    "fans.report.graphs": ("fans.modalities.graph.drawing",),
}
"""Of each old module, or package with modules of the same names, the new ones."""

SHADOWED = ("fans.pns", "fans.evaluate")
"""Old modules whose names are those of functions now: importing one must not put it in the function's place."""


class _Moved(ModuleType):
    """Stands where a module was."""

    def __init__(self, name: str, homes: Sequence[str]) -> None:
        super().__init__(name, f"Moved to {' and '.join(homes)}.")
        self.__path__: list[str] = []
        self._homes, self._warned = tuple(homes), False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for home in self._homes:
            found = vars(importlib.import_module(home)).get(name, self)
            if found is not self:
                self._warn(name, home)
                return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _warn(self, name: str, home: str) -> None:
        """Warn once, at the line that imports."""
        if self._warned:
            return
        self._warned = True
        words = f"{self.__name__} has moved: import {name} from {home}"
        warnings.warn(words, DeprecationWarning, stacklevel=3)  # past `__getattr__`; importing itself does not count


class _Finder(MetaPathFinder, Loader):
    """Finds modules by their old names."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """Return a stand-in for a module that was moved."""
        return ModuleSpec(name, self, is_package=True) if _homes(name) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        return _Moved(spec.name, _homes(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing more."""


def _homes(name: str) -> tuple[str, ...]:
    """Return the new homes of an old module; those below an old package keep their own names."""
    if name in MOVED:
        return MOVED[name]
    package, _, leaf = name.rpartition(".")
    below = [f"{home}.{leaf}" for home in MOVED.get(package, ())[:1]]
    return tuple(home for home in below if importlib.util.find_spec(home))


def install() -> None:
    """Have old paths lead to the new ones."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    for name in SHADOWED:
        sys.modules[name] = _Moved(name, MOVED[name])
