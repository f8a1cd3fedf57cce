"""FANS as an attribution method of captum, for images and tables."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, MissingExtra
from fans.explainer import Explainer
from fans.modalities.base import FeatureSpace

try:
    from captum.attr import Attribution
    from captum.log import log_usage
except ImportError:
    raise MissingExtra(
        "Expected captum for `fans.adapters.captum`, got none; install it with: pip install 'fans[bench]'"
    ) from None


class FANS(Attribution):  # type: ignore[misc]
    """Score features by how necessary and sufficient they are, behind captum's interface.

    Args:
        model: a torch module; captum calls it `forward_func`.
        background: real data, what the neighbourhood and scales come from.
        space: as in `fans.Explainer`.
        settings: of `fans.Explainer`: `task="classification"`, say, where a single output is the logit of class 1.
    """

    def __init__(
        self, model: nn.Module, background: Tensor, *, space: FeatureSpace | None = None, **settings: Any
    ) -> None:
        super().__init__(model)
        self.explainer = Explainer(model, background, space=space, **settings)

    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self, inputs: Tensor | tuple[Tensor, ...], target: Any = None, additional_forward_args: Any = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the scores in the inputs' own shape, each element with its feature's; a tuple for a tuple.

        Args:
            inputs: `(n, ...)`, or a tuple of one such.
            target: explained class, one for all or one per input; the predicted one by default.
            additional_forward_args: must be None: wrap the model in one that has them.
        """
        if additional_forward_args is not None:
            raise InputError(
                "Expected no `additional_forward_args`, got some; wrap the model in a module that holds them"
            )
        together = isinstance(inputs, tuple)
        if together and len(inputs) != 1:
            raise InputError(f"Expected one tensor of inputs, got {len(inputs)}; wrap the model in one that joins them")
        x: Tensor = inputs[0] if isinstance(inputs, tuple) else inputs
        classes = target.tolist() if isinstance(target, Tensor) else target
        values = self.explainer.heatmaps(x.detach().cpu(), classes)
        out = torch.from_numpy(np.ascontiguousarray(values)).to(x.device, x.dtype)
        return (out,) if together else out

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether scores are multiplied by the inputs: they are not."""
        return False

    def has_convergence_delta(self) -> bool:
        """Whether the scores are to add up to something: they are not."""
        return False
