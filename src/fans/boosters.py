"""Raw boosters of XGBoost and LightGBM as models: asked for what they predict, of the columns they were trained on."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fans.errors import ModelError
from fans.modalities.base import FittedSpace

BINARY = ("binary:logistic", "binary", "cross_entropy", "xentropy")
"""Objectives whose one output is the probability of the second class."""

MOST_NAMES = 20
"""Columns that a sentence names."""


class Booster:
    """A booster as a function from what `FittedSpace.decode` returns to its outputs.

    Where it returns the probability of the second of two classes, that of both, if `classes`.
    """

    def __init__(self, model: Any, space: FittedSpace, *, classes: bool) -> None:
        self._model, self._xgboost = model, _library(model) == "xgboost"
        self._order = _order(space, model.feature_names if self._xgboost else model.feature_name(), self._n_columns)
        if self._xgboost:
            objective = json.loads(model.save_config())["learner"]["objective"]["name"]
        else:
            objective = str(model.dump_model(num_iteration=1).get("objective", "")).partition(" ")[0]
        if objective == "multi:softmax":
            raise ModelError(
                "Expected a Booster that returns probabilities, got one trained for multi:softmax, which returns "
                "labels; train it for multi:softprob"
            )
        self._binary = classes and objective in BINARY

    @property
    def _n_columns(self) -> int:
        return int(self._model.num_features() if self._xgboost else self._model.num_feature())

    def __call__(self, rows: Any) -> Any:
        """Return the booster's outputs."""
        given = rows if self._order is None else rows.iloc[:, self._order]
        found = np.asarray(self._model.inplace_predict(given) if self._xgboost else self._model.predict(given))
        return np.stack([1 - found, found], 1) if self._binary else found


def is_booster(model: Any) -> bool:
    """Tell whether this is a raw booster, without importing its library."""
    return type(model).__name__ == "Booster" and _library(model) in ("xgboost", "lightgbm")


def _library(model: Any) -> str:
    return type(model).__module__.partition(".")[0]


def _order(space: FittedSpace, trained: Sequence[str] | None, n_trained: int) -> list[int] | None:
    """Return the places of a frame's columns in the booster's order, None for rows without names."""
    given = list(space.model_columns)
    if len(given) != n_trained:
        names = f": {_some(trained)}" if trained and space.named else ""
        raise ModelError(
            f"Expected the {n_trained:,} columns that the Booster was trained on{names}, got {len(given):,}: "
            f"{_some(given)}; pass a background with the same columns"
        )
    if not space.named or not trained:
        return None
    # LightGBM writes what its own files cannot hold, such as a blank, as an underscore.
    known = {name: j for j, name in enumerate(given)} | {name.replace(" ", "_"): j for j, name in enumerate(given)}
    if missing := [name for name in trained if name not in known]:
        raise ModelError(
            f"Expected the columns that the Booster was trained on, {_some(trained)}, got {_some(given)}, without "
            f"{_some(missing)}; pass a background with the same columns"
        )
    return [known[name] for name in trained]


def _some(names: Sequence[str]) -> str:
    """Return names as a list, of many the first."""
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{list(names[:MOST_NAMES])}{more}"
