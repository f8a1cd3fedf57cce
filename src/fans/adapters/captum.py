"""FANS as an attribution method of captum, for images and tables."""

import inspect
from collections import defaultdict
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fans.errors import InputError, MissingExtra, quiet
from fans.explainer import Explainer
from fans.modalities.base import FeatureSpace
from fans.modalities.masks import FeatureMask

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

    Attributes:
        explainer: of `fans`, for inputs of which nothing else is asked; None where the model takes more than inputs,
            so that each call of `attribute` makes its own.
    """

    def __init__(
        self, model: nn.Module, background: Tensor, *, space: FeatureSpace | None = None, **settings: Any
    ) -> None:
        super().__init__(model)
        self._background, self._space, self._settings = background, space, settings
        self.explainer = None if _takes_more(model) else self._made(None, None, ())

    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        target: Any = None,
        additional_forward_args: Any = None,
        *,
        baselines: Any = None,
        feature_mask: Any = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the scores in the inputs' own shape, each element with its feature's; a tuple for a tuple.

        Inputs that differ in their mask, baseline or further arguments are explained apart, and the background is
        evaluated for each.

        Args:
            inputs: `(n, ...)`, or a tuple of one such.
            target: explained class, one for all or one per input; the predicted one by default.
            additional_forward_args: what the model is called with after the inputs: one thing, or a tuple. A tensor of
                n rows has one for each input, which all copies of that input get; anything else is handed on as it is.
            baselines: what stands in for a missing feature: a number, one input, or one for each; by default what the
                explainer was made with, which is not 0 unless you said so.
            feature_mask: which feature each element belongs to, in whole numbers, for all inputs or one for each; by
                default the features of the explainer's `space`.
        """
        together = isinstance(inputs, tuple)
        if together and len(inputs) != 1:
            raise InputError(f"Expected one tensor of inputs, got {len(inputs)}; wrap the model in one that joins them")
        x: Tensor = inputs[0] if isinstance(inputs, tuple) else inputs
        if self.explainer is None and additional_forward_args is None:
            raise InputError(
                "Expected `additional_forward_args` for a model that takes more than the inputs, got none; pass them"
            )
        given = x.detach().cpu()
        targets = target.tolist() if isinstance(target, Tensor) else target
        masks, missing = _one_each(feature_mask, "feature_mask", x), _one_each(baselines, "baselines", x)
        further = _arguments(additional_forward_args, len(x))
        alike = defaultdict[Any, list[int]](list)
        for i in range(len(x)):
            alike[_key((masks[i], missing[i], further[i]))].append(i)
        values = np.empty(given.shape)
        for at in alike.values():
            asked = (masks[at[0]], missing[at[0]], further[at[0]])
            with quiet() if at[0] else nullcontext():  # what there is to say is said of the first
                plain = self.explainer is not None and asked == (None, None, ())
                explainer = self.explainer if plain else self._made(*asked)
                own = [targets[i] for i in at] if np.ndim(targets) == 1 and len(targets) == len(x) else targets
                assert explainer is not None
                values[at] = explainer.heatmaps(given[at], own, ids=at)
        out = torch.from_numpy(values).to(x.device, x.dtype)
        return (out,) if together else out

    def _made(self, mask: Any, baseline: Any, further: tuple[Any, ...]) -> Explainer:
        """Return what explains inputs of one mask, one baseline and the same further arguments."""
        model = _With(self.forward_func, further) if further else self.forward_func
        space = self._space if mask is None else FeatureMask(mask)
        settings = self._settings if baseline is None else self._settings | {"baseline": baseline}
        return Explainer(model, self._background, space=space, **settings)

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether scores are multiplied by the inputs: they are not."""
        return False

    def has_convergence_delta(self) -> bool:
        """Whether the scores are to add up to something: they are not."""
        return False


class _Row:
    """One input's row `(1, ...)` of an argument."""

    def __init__(self, row: Tensor) -> None:
        self.row = row


class _With(nn.Module):
    """A model that is called with the same further arguments each time; of a `_Row`, each copy of the input has one."""

    def __init__(self, model: nn.Module, further: tuple[Any, ...]) -> None:
        super().__init__()
        self.model, self.further = model, further

    def forward(self, x: Tensor) -> Any:
        """Call the model."""
        rows = [
            one.row.to(x.device).expand(len(x), *one.row.shape[1:]) if isinstance(one, _Row) else one
            for one in self.further
        ]
        return self.model(x, *rows)


def _takes_more(model: nn.Module) -> bool:
    """Tell whether a model must be called with more than the inputs."""
    try:
        known = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # a compiled one, say
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional and one.default is inspect.Parameter.empty for one in known) > 1


def _one_each(given: Any, name: str, x: Tensor) -> list[Any]:
    """Return what is said of each input, be it said of all at once."""
    if isinstance(given, tuple):
        if len(given) != 1:
            raise InputError(f"Expected one entry in `{name}`, for the one tensor of inputs, got {len(given)}")
        (given,) = given
    if not isinstance(given, Tensor) or given.ndim != x.ndim:
        return [given] * len(x)
    if len(given) not in (1, len(x)):
        raise InputError(
            f"Expected `{name}` for all inputs, or one for each of {len(x)}, got shape {tuple(given.shape)}"
        )
    return list(given.detach().cpu().expand(len(x), *given.shape[1:]))


def _arguments(given: Any, n: int) -> list[tuple[Any, ...]]:
    """Return the further arguments of each of n inputs."""
    together = given if isinstance(given, tuple) else () if given is None else (given,)
    own = [isinstance(one, Tensor) and one.ndim > 0 and len(one) == n for one in together]
    return [
        tuple(_Row(one[i : i + 1]) if is_own else one for one, is_own in zip(together, own, strict=True))
        for i in range(n)
    ]


def _key(value: Any) -> Any:
    """Return what two inputs have in common if they are to be explained together."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, _Row):
        return _key(value.row)
    if isinstance(value, Tensor):
        return (str(value.dtype), tuple(value.shape), value.detach().cpu().contiguous().numpy().tobytes())
    return id(value)
