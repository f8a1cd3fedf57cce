"""Inputs out of what they come in: PIL images, and torch's datasets and loaders."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from fans.errors import InputError, warn
from fans.modes import global_draws

MOST = 100_000
"""Entries of a dataset that are read; one that goes on is refused."""

_NAMES = ("x", "input", "inputs", "image", "images", "pixel_values", "features", "text")
"""What the inputs are called among several things in a dictionary."""

_MODES = {"1": "L", "P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB"}
"""What images are converted to whose numbers are no colours."""


def unpacked(value: Any, what: str) -> Any:
    """Return inputs as an array, a tensor or a list, out of PIL images and torch's datasets and loaders.

    Of pairs, as (image, label), the first is taken, which is said. Anything else is returned as it is, datasets of
    graphs among it; `what` names the argument.

    Example:
        >>> unpacked(torch.utils.data.TensorDataset(torch.eye(2)), "x")
        tensor([[1., 0.],
                [0., 1.]])
    """
    if isinstance(value, Dataset | DataLoader):
        value = _from_loader(value, what) if isinstance(value, DataLoader) else _from_dataset(value, what)
    if _is_picture(value):
        return _colours([value], what)
    if isinstance(value, list | tuple) and value and _is_picture(value[0]):
        return _colours(value, what)
    return value


def _from_dataset(data: Any, what: str) -> Any:
    """Return the inputs of a dataset, in its order."""
    length = len(data) if hasattr(data, "__len__") else None
    if length == 0:
        raise InputError(f"Expected inputs in {what}, got {_a(data)} without any")
    with global_draws(0):  # a dataset may draw
        entries = iter(data) if length is None else (data[i] for i in range(length))
        first = next(entries, None)
        if hasattr(first, "edge_index"):
            return data
        return _together(_taken(chain([first], entries), data, what), what, torch.stack, np.stack)


def _from_loader(loader: Any, what: str) -> Any:
    """Return the inputs of a loader's batches, in the order in which it gives them."""
    if isinstance(loader.sampler, RandomSampler):
        warn(
            f"The DataLoader given as {what} shuffles, so that inputs are numbered in an order of its own; pass one "
            "with shuffle=False, or `ids=`"
        )
    with global_draws(0):
        batches = iter(loader)
        first = next(batches, None)
        if first is None:
            raise InputError(f"Expected inputs in {what}, got {_a(loader)} without any")
        if hasattr(first, "edge_index"):
            return [graph for batch in chain([first], batches) for graph in batch.to_data_list()]
        return _together(_taken(chain([first], batches), loader, what), what, torch.cat, np.concatenate)


def _taken(entries: Iterable[Any], source: Any, what: str) -> Iterator[Any]:
    """Yield the inputs of each entry, or batch, and say once what is left aside."""
    n_read = 0
    for number, entry in enumerate(entries):
        found, aside = _inputs_in(entry, what)
        if aside and not number:
            warn(
                f"Took {aside[0]} that {_a(source)} given as {what} holds, and left {aside[1]} aside; to explain the "
                "classes of the labels pass `target=`"
            )
        n_read += len(found) if isinstance(source, DataLoader) else 1
        if n_read > MOST:
            raise InputError(
                f"Expected at most {MOST:,} inputs in {what}, got {_a(source)} of more; take some: "
                "torch.utils.data.Subset(dataset, range(500))"
            )
        yield found


def _inputs_in(entry: Any, what: str) -> tuple[Any, tuple[str, str] | None]:
    """Return the inputs in an entry, and what was taken and what left aside, if anything was."""
    if isinstance(entry, Mapping):
        named = next((name for name in _NAMES if name in entry), None)
        keys = [name for name, value in entry.items() if getattr(value, "ndim", 0)]
        if named is None and len(keys) != 1:
            raise InputError(
                f"Expected a dataset that says what its inputs are in {what}, got entries of "
                f"{', '.join(map(str, entry))}; pass the inputs alone"
            )
        name = named if named is not None else keys[0]
        others = ", ".join(f"`{key}`" for key in entry if key != name)
        return entry[name], (f"`{name}` of the dictionaries", others) if others else None
    if isinstance(entry, list | tuple) and entry and not _are_inputs(entry):
        others = "the second" if len(entry) == 2 else "the others"
        return entry[0], ("the first of the things", others) if len(entry) > 1 else None
    return entry, None


def _are_inputs(entry: Any) -> bool:
    """Tell whether a list is a batch of texts or of pictures, rather than inputs and their labels."""
    return all(isinstance(one, str) for one in entry) or all(map(_is_picture, entry))


def _together(parts: Iterable[Any], what: str, tensors: Any, arrays: Any) -> Any:
    """Return inputs, or batches of them, as one."""
    listed = list(parts)
    first = listed[0]
    if isinstance(first, str) or _is_picture(first):
        return listed
    if isinstance(first, list | tuple):
        return [one for part in listed for one in part]
    if not isinstance(first, Tensor):
        listed = [np.asarray(part) for part in listed]
    shapes = {tuple(part.shape[1:] if tensors is torch.cat else part.shape) for part in listed}
    if len(shapes) > 1:
        one, other = sorted(shapes)[:2]
        raise InputError(f"Expected inputs of one shape in {what}, got {one} and {other}; resize them alike")
    return tensors(listed) if isinstance(first, Tensor) else arrays(listed)


def _is_picture(value: Any) -> bool:
    """Tell whether this is an image of PIL, without importing it."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(value).__mro__)


def _colours(pictures: Any, what: str) -> Any:
    """Return pictures as numbers `(n, height, width)` or `(n, height, width, channels)`, mostly uint8."""
    other = next((one for one in pictures if not _is_picture(one)), None)
    if other is not None:
        raise InputError(f"Expected images of PIL alone in {what}, got {type(other).__name__} among them")
    kinds = {(_MODES.get(one.mode, one.mode), one.height, one.width) for one in pictures}
    if len(kinds) > 1:
        (mode, height, width), (mode_2, height_2, width_2) = sorted(kinds)[:2]
        raise InputError(
            f"Expected images of one size and mode in {what}, got {mode} of {width} x {height} and {mode_2} of "
            f"{width_2} x {height_2}; prepare them as the model's were: image.convert('RGB').resize((224, 224)), say"
        )
    return np.stack([np.asarray(one.convert(_MODES[one.mode]) if one.mode in _MODES else one) for one in pictures])


def _a(source: Any) -> str:
    return f"the {type(source).__name__}"
