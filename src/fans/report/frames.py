"""An explanation in other libraries' terms: a pandas frame, a shap object."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fans.core import Explanation, MissingExtra, extra

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


def to_shap(e: Explanation) -> Any:
    """Return a `shap.Explanation` of the scores.

    Of images: by pixel, channels last, shared evenly by the channels, as `shap.image_plot` takes them.
    """
    try:
        import shap
    except ImportError:
        raise MissingExtra("Expected shap for `to_shap`, got none; install it with: pip install shap") from None
    if e.modality == "image":
        axis = e.channel_axis
        pixels, scores = (a[..., None] if axis is None else np.moveaxis(a, axis + 1, -1) for a in (e.inputs, e.heatmap))
        return shap.Explanation(values=scores / scores.shape[-1], base_values=np.zeros(len(e)), data=pixels)
    data = e.inputs if e.inputs.shape[1] == len(e.feature_names) else None
    return shap.Explanation(
        values=e.scores, base_values=np.zeros(len(e)), data=data, feature_names=list(e.feature_names)
    )
