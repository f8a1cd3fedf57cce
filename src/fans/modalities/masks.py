"""Features by a mask of whole numbers, as captum has them: elements of one number belong together."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fans.errors import InputError
from fans.modalities.base import FeatureSpace, FittedSpace
from fans.modalities.registry import guess_space


@dataclass(frozen=True)
class FeatureMask(FeatureSpace):
    """The features that a mask says, for tables and images: elements with one number are one feature.

    Args:
        mask: whole numbers of the shape of one input, or of one that broadcasts to it, with or without a leading 1 for
            the batch: `(1, 1, height, width)` serves all channels. The numbers need not be consecutive.

    Example:
        >>> FeatureMask([0, 0, 1]).for_background(np.zeros((4, 3))).fit(np.zeros((4, 3))).feature_names
        ('x1 + x2', 'x3')
    """

    baselines: ClassVar[tuple[str, ...]] = ()

    mask: Any = field(compare=False)

    def __post_init__(self) -> None:
        if self.mask is None:
            raise InputError("Expected a mask of whole numbers for `FeatureMask`, got None; leave the space out")

    def for_background(self, background: Any) -> FeatureSpace:
        """Return the space of tables or images with this mask."""
        space: Any = guess_space(background)
        if "feature_mask" not in getattr(space, "__dataclass_fields__", ()):
            raise InputError(
                "Expected a table or images for a feature mask, got a background that is read as "
                f"{type(space).__name__}; pass space=fans.spaces.Image(feature_mask=...) if it is images"
            )
        changed: FeatureSpace = replace(space, feature_mask=self.mask)
        return changed

    def fit(self, background: Any) -> FittedSpace:
        """Bind to a background set of rows or images."""
        return self.for_background(background).fit(background)


def features_of_mask(mask: Any, shape: tuple[int, ...]) -> tuple[list[int], Tensor]:
    """Return the numbers in a mask, as they first appear, and which of them each element `(E,)` of an input has."""
    try:
        array = np.asarray(mask.detach().cpu() if isinstance(mask, Tensor) else mask)
    except (TypeError, ValueError):  # uneven lists
        array = np.array("?")
    if array.dtype.kind not in "iub":
        raise InputError(
            f"Expected `feature_mask` as whole numbers of shape {shape}, got {array.dtype} of shape {array.shape}; "
            "number the features, e.g. mask.long()"
        )
    if array.ndim == len(shape) + 1 and len(array) == 1:
        array = array[0]
    if array.ndim == len(shape) + 1:
        raise InputError(
            f"Expected one `feature_mask` for all inputs, of shape {shape}, got {len(array)}; make an explainer for "
            "each, or use fans.adapters.captum.FANS, whose `attribute` takes a mask for each input"
        )
    try:
        whole = np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(
            f"Expected `feature_mask` of shape {shape}, or one that broadcasts to it, got {array.shape}"
        ) from None
    numbers, first, of_element = np.unique(whole, return_index=True, return_inverse=True)
    order = first.argsort()  # a mask that numbers each element leaves elements in their order, whatever the numbers
    return numbers[order].tolist(), torch.from_numpy(order.argsort()[of_element.reshape(-1)])
