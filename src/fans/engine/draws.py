"""Random numbers as a pure function of (seed, id, stage, position).

A generator with a state would make a draw depend on everything drawn before it: on the batch size, the order of the
inputs, the number of workers. Here each draw is a hash of its own coordinates (SplitMix64), so the same coordinates
give the same bits on any machine, device or schedule, and any part of a run can be drawn again by itself.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64
_TIES = 0x2545F4914F6CDD1D  # parts the draws that break ties from the others of their stream


def _shift_right(z: Tensor, n: int, out: Tensor | None = None) -> Tensor:
    """Shift the 64 bits of `z` right by `n`, filling with zeros (torch's own shift copies the sign)."""
    return torch.bitwise_right_shift(z, n, out=out).bitwise_and_((1 << (64 - n)) - 1)


def _mix(z: Tensor) -> Tensor:
    """Scramble 64-bit integers in place: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    other = torch.empty_like(z)
    z.bitwise_xor_(_shift_right(z, 30, other)).mul_(_MIX_1)
    z.bitwise_xor_(_shift_right(z, 27, other)).mul_(_MIX_2)
    return z.bitwise_xor_(_shift_right(z, 31, other))


def _hash(text: str) -> int:
    """Return a signed 64-bit hash of `text`, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def stream_keys(seed: int, ids: Sequence[int | str], stage: str, device: torch.device | None = None) -> Tensor:
    """Return one key `(len(ids),)` per input: the start of its own stream of draws in this stage."""
    numbers = [i if isinstance(i, int) else _hash(f"id:{i}") for i in ids]
    return _mix(_mix(torch.tensor(numbers, dtype=torch.int64, device=device)) ^ _hash(f"{seed}/{stage}"))


def words(keys: Tensor, position: Tensor) -> Tensor:
    """Return 64 random bits for each key and position (the two broadcast)."""
    return _mix((position + 1).mul_(_GOLDEN) + keys)


def uniform(keys: Tensor, position: Tensor) -> Tensor:
    """Return float64 draws in the open interval (0, 1)."""
    return (_shift_right(words(keys, position), 11).double() + 0.5) * 2.0**-53


def normal(keys: Tensor, position: Tensor) -> Tensor:
    """Return float64 standard normal draws."""
    out: Tensor = torch.special.ndtri(uniform(keys, position))
    return out


def integers(keys: Tensor, position: Tensor, n: int | Tensor) -> Tensor:
    """Return draws from 0, ..., n - 1 (a number, or one for each draw)."""
    return (uniform(keys, position) * n).long()


def noise(keys: Tensor, position: Tensor, n_elements: int, low: float | Tensor, high: float | Tensor) -> Tensor:
    """Return float32 draws from `low` to `high`, on 65,536 levels, four to a word.

    Args:
        keys: `(n,)` the stream of each row.
        position: `(n,)` the row's own place in its stream.
        n_elements: E.
        low: of the range, one for all or `(E,)`.
        high: of the range, likewise.

    Returns:
        `(n, E)`.
    """
    n_words = -(-n_elements // 4)
    places = position[:, None] * n_words + torch.arange(n_words, device=keys.device)
    levels = words(keys[:, None], places).view(torch.int16)[:, :n_elements].float()
    return levels.mul_((high - low) / 2**16).add_(low + (high - low) * (0.5 + 2.0**-17))


def bernoulli(keys: Tensor, position: Tensor, n_features: int, phi: float = 0.5) -> Tensor:
    """Draw `hit ~ Bernoulli(phi)` for each feature of each row.

    Args:
        keys: `(n,)` the stream of each row.
        position: `(n,)` the row's own place in its stream.
        n_features: F.
        phi: probability of a hit; a feature costs one bit when it is a half, otherwise eight, and more only on a tie.

    Returns:
        `(n, F)` bool.
    """
    bits = 1 if phi == 0.5 else 8
    n_words = -(-n_features * bits // 64)
    places = position[:, None] * n_words + torch.arange(n_words, device=keys.device)
    # NumPy unpacks bits and compares octets several times faster than torch.
    octets = words(keys[:, None], places).view(torch.uint8).cpu().numpy()
    if bits == 1:
        unpacked = np.unpackbits(octets, axis=1, count=n_features, bitorder="little")
        return torch.from_numpy(unpacked.view(np.bool_)).to(keys.device)
    octets, level = octets[:, :n_features], int(phi * 256)
    hit = torch.from_numpy(octets < level).to(keys.device)
    if phi * 256 > level:  # octets equal to the level are hits as often as the rest of phi asks
        tied = torch.from_numpy(np.flatnonzero(octets == level)).to(keys.device)
        row = tied // n_features
        finer = uniform(keys[row] ^ _TIES, position[row] * n_features + tied % n_features)
        hit.view(-1)[tied] = finer < phi * 256 - level
    return hit


def numbers(flags: Tensor, dtype: torch.dtype) -> Tensor:
    """Return booleans as 1 and 0; torch converts octets several times as fast."""
    return flags.view(torch.uint8).to(dtype)
