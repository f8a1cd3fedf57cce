"""Putting what was found of several parts of a batch back into the order of its inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fans.types import Array


def in_order(arrays: Sequence[Array], places: Sequence[Sequence[int]], fill: float = 0) -> Array:
    """Put the arrays of some inputs each together in the order of their places, filled up to one shape."""
    if len(arrays) == 1 and list(places[0]) == list(range(len(arrays[0]))):
        return arrays[0]
    shape = np.max([array.shape[1:] for array in arrays], axis=0) if arrays[0].ndim > 1 else ()
    out = np.full((sum(map(len, arrays)), *map(int, shape)), fill, arrays[0].dtype)
    everywhere = np.sort(np.concatenate([np.asarray(at) for at in places]))  # not all that were asked for, perhaps
    for array, at in zip(arrays, places, strict=True):
        part = np.full((len(array), *out.shape[1:]), fill, out.dtype)
        part[tuple(slice(n) for n in array.shape)] = array
        out[np.searchsorted(everywhere, np.asarray(at))] = part
    return out


def tuples_in_order(tuples: Sequence[tuple[Any, ...]], places: Sequence[Sequence[int]]) -> tuple[Any, ...]:
    """Put the entries of tuples together in the order of their places."""
    flat = dict(zip((i for at in places for i in at), (entry for one in tuples for entry in one), strict=True))
    return tuple(flat[i] for i in sorted(flat))
