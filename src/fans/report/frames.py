"""An explanation in other libraries' terms: a pandas frame, a shap object."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fans.core import Explanation, MissingExtra, extra

if TYPE_CHECKING:
    import pandas as pd


def to_frame(e: Explanation) -> "pd.DataFrame":
    """Return one row per input and feature, with the input's estimates repeated."""
    try:
        import pandas as pd
    except ImportError:
        raise extra("pandas", "tabular", "`to_frame`") from None
    n, n_features = e.scores.shape
    se = np.full_like(e.scores, np.nan) if e.scores_se is None else e.scores_se
    per_feature = {
        "id": np.repeat(np.array(e.ids, dtype=object), n_features),
        "feature": np.tile(np.array(e.feature_names, dtype=object), n),
        "value": [e.value(i, f) for i in range(n) for f in range(n_features)],
        "score": e.scores.ravel(),
        "score_se": se.ravel(),
        "chosen": e.subset.ravel(),
    }
    per_input = {name: np.repeat(getattr(e, name), n_features) for name in ("target", "prediction", "pns", "pn", "ps")}
    return pd.DataFrame(per_feature | per_input)


def to_shap(e: Explanation) -> Any:
    """Return a `shap.Explanation` of the scores."""
    try:
        import shap
    except ImportError:
        raise MissingExtra("Expected shap for `to_shap`, got none; install it with: pip install shap") from None
    data = e.inputs if e.inputs.shape[1] == len(e.feature_names) else None
    return shap.Explanation(
        values=e.scores, base_values=np.zeros(len(e)), data=data, feature_names=list(e.feature_names)
    )
