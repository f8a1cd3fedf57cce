"""Draws are a pure function of their coordinates, and behave like draws."""

import numpy as np
import pytest
import torch

from fans.engine import draws


def splitmix64(state: int, n: int) -> list[int]:
    """The published generator (Steele, Lea, Flood 2014) in plain integers."""
    mask, out = 2**64 - 1, []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


def test_words_are_splitmix64():
    for seed in (0, 1, 2**63 + 12345):
        key = torch.tensor(seed - 2**64 if seed >= 2**63 else seed)
        found = draws.words(key, torch.arange(100)).tolist()
        assert [w % 2**64 for w in found] == splitmix64(seed, 100)
    assert splitmix64(1234567, 1)[0] == 6457827717110365317  # the reference implementation's first output


def test_keys_depend_on_seed_id_and_stage_alone():
    keys = draws.stream_keys(0, [3, "a", 7], "hit")
    assert keys[[2, 0]].tolist() == draws.stream_keys(0, [7, 3], "hit").tolist()
    others = [draws.stream_keys(1, [3], "hit"), draws.stream_keys(0, [3], "row"), draws.stream_keys(0, ["3"], "hit")]
    assert len({int(keys[0]), *(int(k[0]) for k in others)}) == 4


@pytest.mark.parametrize("phi", [0.5, 0.75, 0.3, 0.05])
@pytest.mark.parametrize("n_features", [1, 8, 70])
def test_hits_have_the_asked_probability_and_are_independent(phi, n_features):
    n = 20_000
    keys = draws.stream_keys(0, list(range(2)), "hit").repeat_interleave(n // 2)
    hit = draws.bernoulli(keys, torch.arange(n // 2).repeat(2), n_features, phi).double().numpy()
    assert hit.shape == (n, n_features)
    error = np.sqrt(phi * (1 - phi) / n)
    assert np.abs(hit.mean(axis=0) - phi).max() < 4.5 * error
    if n_features > 1:
        correlation = np.corrcoef(hit.T) - np.eye(n_features)
        assert np.abs(correlation).max() < 5.5 / np.sqrt(n)


@pytest.mark.parametrize("phi", [0.0, 0.002, 0.25, 0.8, 1.0])
def test_hits_are_octets_of_the_words_and_finer_draws_where_they_tie(phi):
    """One by one in plain integers: octet by octet, little end first, and 53 further bits for the octets that tie."""
    seeds, places, n_features = [5, 2**62 + 3], [0, 41], 1500
    found = draws.bernoulli(torch.tensor(seeds), torch.tensor(places), n_features, phi)
    n_words = -(-n_features // 8)
    for seed, place, row in zip(seeds, places, found.tolist(), strict=True):
        drawn = splitmix64(seed, (place + 1) * n_words)[place * n_words :]
        octets = [b for word in drawn for b in word.to_bytes(8, "little")][:n_features]
        finer = splitmix64(seed ^ 0x2545F4914F6CDD1D, (place + 1) * n_features)[place * n_features :]
        expected = [(b + ((w >> 11) + 0.5) / 2**53) / 256 < phi for b, w in zip(octets, finer, strict=True)]
        assert row == expected


def test_uniform_normal_and_integers_have_their_moments():
    key, place = draws.stream_keys(0, [0], "u"), torch.arange(100_000)
    u, z, i = draws.uniform(key, place), draws.normal(key, place), draws.integers(key, place, 7)
    assert 0 < float(u.min()) < float(u.max()) < 1
    assert float(u.mean()) == pytest.approx(0.5, abs=0.004)
    assert float(u.var()) == pytest.approx(1 / 12, abs=0.001)
    assert float(z.mean()) == pytest.approx(0.0, abs=0.013)
    assert float(z.var()) == pytest.approx(1.0, abs=0.02)
    counts = np.bincount(i.numpy(), minlength=7)
    assert len(counts) == 7
    assert ((counts - 100_000 / 7) ** 2 / (100_000 / 7)).sum() < 24  # chi-square, 6 degrees, p = 0.0005
