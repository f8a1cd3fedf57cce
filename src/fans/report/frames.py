"""An explanation in other libraries' terms: a pandas frame, a shap object."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from fans.errors import InputError, MissingExtra, extra
from fans.explanation import Explanation

if TYPE_CHECKING:
    import pandas as pd


def to_frame(e: Explanation) -> "pd.DataFrame":
    """Return one row per input and feature it has, with the input's estimates repeated."""
    try:
        import pandas as pd
    except ImportError:
        raise extra("pandas", "tabular", "`to_frame`") from None
    inputs, features = np.nonzero(e.present)
    se = np.full_like(e.scores, np.nan) if e.scores_se is None else e.scores_se
    per_feature = {
        "id": np.array(e.ids, dtype=object)[inputs],
        "feature": [e.name(int(i), int(f)) for i, f in zip(inputs, features, strict=True)],
        "value": [e.value(int(i), int(f)) for i, f in zip(inputs, features, strict=True)],
        "score": e.scores[inputs, features],
        "score_se": se[inputs, features],
        "chosen": e.subset[inputs, features],
        "direction": e.direction[inputs, features],
        "stability": e.stability[inputs, features],
    }
    names = ("target", "prediction", "pns", "pn", "ps", "changes", "holds")
    per_input = {name: getattr(e, name)[inputs] for name in names}
    return pd.DataFrame(per_feature | per_input)


ADDITIVE = ("kernel_shap",)
"""Methods whose scores add up, exactly, to the prediction less the output where all features are missing."""


def to_shap(e: Explanation) -> Any:
    """Return a `shap.Explanation` of the scores, whose `display_data` has words where `data` has codes.

    Only scores that add up to the prediction have `base_values`; without, plots that draw a sum are refused. Of images:
    by pixel, channels last, shared evenly by the channels, as `shap.image_plot` takes them. Of texts whose scores add
    up `data` has the words, as `shap.plots.text` takes them; else whether a text has so many.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what shap itself is warned of as it is imported
            import shap
    except ImportError:
        raise MissingExtra("Expected shap for `to_shap`, got none; install it with: pip install shap") from None
    shows = e.presenter
    if (pixels := shows.shap_pixels(e)) is not None:
        values, data = pixels
        return shap.Explanation(values=values, base_values=_NoBase(e.method), data=data)
    additive = e.method in ADDITIVE
    given = shows.shap_data(e)
    if additive and (words := shows.shap_words(e)) is not None:
        given["data"] = words
    outputs = {e.target_name(i) for i in range(len(e))}
    return shap.Explanation(
        values=e.scores,
        base_values=e.prediction - e.scores.sum(1) if additive else _NoBase(e.method),
        error_std=e.scores_se,
        feature_names=list(e.feature_names),
        output_names=outputs.pop() if len(outputs) == 1 else "the explained output",
        instance_names=[f"{e.title(i)}: {e.target_name(i)}" for i in range(len(e))],
        **given,
    )


class _NoBase:
    """Stands in for the value that a sum of scores starts from, where there is none; whoever adds to it is refused."""

    __array_ufunc__ = None  # NumPy leaves the adding to us
    shape = ()

    def __init__(self, method: str) -> None:
        self.method = method

    def __repr__(self) -> str:
        return "none: the scores are no parts of a sum"

    def _refuse(self, *_: object) -> Any:
        raise InputError(
            "Expected scores that add up to the prediction for a waterfall, force, decision or text plot, got those of "
            f"method={self.method!r}, which do not; use shap.plots.bar or beeswarm, or explain with "
            "method='kernel_shap'"
        )

    __float__ = __add__ = __radd__ = __sub__ = __rsub__ = _refuse
