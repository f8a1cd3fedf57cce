"""Slow, plain re-implementations of the definitions, for the tests to compare with. Imports nothing from `fans`.

Everything here is a loop over samples and perturbation patterns, written from the paper and docs/design.md.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def patterns(features: Sequence[int], phi: float) -> Iterator[tuple[list[int], float]]:
    """Every set of hit features among `features`, with its probability."""
    for bits in itertools.product([0, 1], repeat=len(features)):
        hit = [f for f, bit in zip(features, bits, strict=True) if bit]
        yield hit, phi ** len(hit) * (1 - phi) ** (len(features) - len(hit))


def change_of(f: Function, row: np.ndarray, hit: Sequence[int], baseline: np.ndarray, kind: str, target: int) -> float:
    """How much the prediction moves when the hit features take their baseline."""
    moved = row.copy()
    for j in hit:
        moved[j] = baseline[j]
    before, after = np.atleast_1d(f(row[None])[0]), np.atleast_1d(f(moved[None])[0])
    if kind == "target":
        return abs(float(after[target]) - float(before[target]))
    if kind == "fall":
        return max(0.0, float(before[target]) - float(after[target]))
    if kind == "l2":
        return math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(after, before, strict=True)))
    return float(int(np.argmax(after)) != int(np.argmax(before)))


def closeness(
    x: np.ndarray, row: np.ndarray, features: Sequence[int], std: np.ndarray, radius: float, kernel: str, distance: str
) -> float:
    """The kernel of the distance between two rows on some features."""
    if not features:
        d = 0.0
    elif distance == "rms":
        d = math.sqrt(sum(((x[j] - row[j]) / std[j]) ** 2 for j in features) / len(features))
    else:
        d = math.sqrt(sum((x[j] - row[j]) ** 2 for j in features))
    return soft(d, radius, kernel)


def soft(d: float, width: float, kernel: str) -> float:
    """Gaussian or hard kernel; a Gaussian of width 0 tells 0 from the rest."""
    if kernel == "indicator":
        return float(d <= width)
    if width == 0:
        return float(d == 0)
    return math.exp(-(d**2) / (2 * width**2))


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted mean, NaN without weight."""
    total = sum(weights)
    return sum(w * v for w, v in zip(weights, values, strict=True)) / total if total > 0 else math.nan


def exact_pns(
    f: Function,
    x: np.ndarray,
    subset: Sequence[bool] | np.ndarray,
    background: np.ndarray,
    baseline: np.ndarray,
    radius: float,
    tolerance: float,
    *,
    kernel: str = "gaussian",
    distance: str = "rms",
    change: str = "target",
    target: int = 0,
    phi: float = 0.5,
    scale: float = 0.5,
    std: np.ndarray | None = None,
    elements: Sequence[Sequence[int]] | None = None,
) -> dict[str, float]:
    """PN, PS, P(A,B), P(not-A,not-B), PNS and both effective sizes, by enumeration of every perturbation.

    The paper's reading: samples count by their closeness on s in one term, and on the rest in the other.

    `elements` lists the elements of each feature, which are perturbed together (by default each is one of its own); a
    distance is over elements. A `baseline` of the background's shape is each sample's own.
    """
    if elements is None:
        elements = [[j] for j in range(len(x))]
    baselines = np.broadcast_to(baseline, background.shape)

    def of(features: Sequence[int]) -> list[int]:
        return [e for j in features for e in elements[j]]

    inside = [j for j, chosen in enumerate(subset) if chosen]
    outside = [j for j, chosen in enumerate(subset) if not chosen]
    if std is None:
        std = background.std(axis=0)
        std = np.where(std == 0, 1.0, std)
    w_nc, w_sf, unchanged, changed = [], [], [], []
    near: list[list[float]] = [[], []]
    for row, missing in zip(background, baselines, strict=True):
        moved_in = soft_out = p_changed = p_unchanged = 0.0
        for hit, p in patterns(inside, phi):
            d = change_of(f, row, of(hit), missing, change, target)
            moved_in += p * (1 - soft(d, tolerance, kernel))  # exactly 0 if nothing moves
            p_changed += p * (d > tolerance)
        for hit, p in patterns(outside, phi):
            d = change_of(f, row, of(hit), missing, change, target)
            soft_out += p * soft(d, tolerance, kernel)
            p_unchanged += p * (d <= tolerance)
        for side, features in zip(near, (inside, outside), strict=True):
            side.append(closeness(x, row, of(features), std, radius, kernel, distance))
        w_nc.append(near[0][-1] * moved_in)
        w_sf.append(near[1][-1] * soft_out)
        changed.append(p_changed)
        unchanged.append(p_unchanged)
    n = len(background)
    pn = sum(w * u for w, u in zip(w_nc, unchanged, strict=True)) / sum(w_nc) if sum(w_nc) > 0 else math.nan
    ps = sum(w * c for w, c in zip(w_sf, changed, strict=True)) / sum(w_sf) if sum(w_sf) > 0 else math.nan
    p_ab, p_nab = sum(w_nc) / n, sum(w_sf) / n
    if not outside:  # Example 2: nothing left to perturb
        pn, ps, p_nab = 1.0, math.nan, 0.0
    term_nc = 0.0 if math.isnan(pn) else pn * p_ab
    term_sf = 0.0 if math.isnan(ps) else ps * p_nab
    return {
        "pn": pn,
        "ps": ps,
        "p_ab": p_ab,
        "p_nab": p_nab,
        "pns": scale * (term_nc + term_sf),
        "changes": mean(changed, near[0]),
        "holds": mean(unchanged, near[1]),
        "ess_nc": sum(w_nc) ** 2 / sum(w * w for w in w_nc) if sum(w_nc) > 0 else 0.0,
        "ess_sf": sum(w_sf) ** 2 / sum(w * w for w in w_sf) if sum(w_sf) > 0 and outside else 0.0,
    }


def exact_joint_pns(
    f: Function,
    x: np.ndarray,
    subset: Sequence[bool] | np.ndarray,
    background: np.ndarray,
    baseline: np.ndarray,
    radius: float,
    tolerance: float,
    *,
    kernel: str = "gaussian",
    distance: str = "rms",
    change: str = "target",
    target: int = 0,
    phi: float = 0.5,
    std: np.ndarray | None = None,
    elements: Sequence[Sequence[int]] | None = None,
    alternatives: Sequence[np.ndarray] | None = None,
) -> dict[str, float]:
    """The joint probability that perturbing s changes f and perturbing the rest does not, by enumeration.

    Arguments as in `exact_pns`; samples count by their closeness on all features. `alternatives` are several baselines
    of the background's shape, each as likely as the others in every perturbation; they take the place of `baseline`.
    """
    if elements is None:
        elements = [[j] for j in range(len(x))]
    everywhere = [e for members in elements for e in members]
    inside = [j for j, chosen in enumerate(subset) if chosen]
    outside = [j for j, chosen in enumerate(subset) if not chosen]
    if std is None:
        std = background.std(axis=0)
        std = np.where(std == 0, 1.0, std)
    options = [np.broadcast_to(b, background.shape) for b in alternatives or [baseline]]
    k, changed, unchanged = [], [], []
    for i, row in enumerate(background):
        moves = []
        for features in (inside, outside):
            p_moves = 0.0
            for missing, (hit, p) in itertools.product(options, list(patterns(features, phi))):
                hit_elements = [e for j in hit for e in elements[j]]
                p_moves += p / len(options) * (change_of(f, row, hit_elements, missing[i], change, target) > tolerance)
            moves.append(p_moves)
        k.append(closeness(x, row, everywhere, std, radius, kernel, distance))
        changed.append(moves[0])
        unchanged.append(1 - moves[1])
    changes, holds = mean(changed, k), mean(unchanged, k) if outside else 1.0
    pns = mean([a * b for a, b in zip(changed, unchanged, strict=True)], k)
    ess = sum(k) ** 2 / sum(a * a for a in k) if sum(k) > 0 else 0.0
    return {
        "pns": pns,
        "pn": 1.0 if not outside else pns / changes if changes > 0 else math.nan,
        "ps": pns / holds if holds > 0 else math.nan,
        "p_ab": changes,
        "p_nab": mean(unchanged, k),
        "changes": changes,
        "holds": holds,
        "ess_nc": ess,
        "ess_sf": ess,
    }


def population_joint_pns(
    f: Function,
    x: np.ndarray,
    subset: Sequence[bool] | np.ndarray,
    radius: float,
    tolerance: float,
    *,
    baseline: float | None,
    phi: float = 0.5,
    n: int = 400_000,
    n_draws: int = 8,
    seed: int = 54321,
) -> np.ndarray:
    """The joint PNS, PN, PS, changes and holds for independent standard normal features, as `population_pns`."""
    rng = np.random.default_rng(seed)
    chosen = np.asarray(subset)
    rows = rng.normal(size=(n, len(chosen)))
    before = f(rows)
    k = np.exp(-((rows - x) ** 2).mean(axis=1) / (2 * radius**2))
    moves = []
    for side in (chosen, ~chosen):
        count = np.zeros(n)
        for _ in range(n_draws):
            hit = (rng.random(rows.shape) < phi) & side
            other = rng.normal(size=rows.shape) if baseline is None else baseline
            count += np.abs(f(np.where(hit, other, rows)) - before) > tolerance
        moves.append(count / n_draws)
    changed, unchanged = moves[0], 1 - moves[1]
    both = (k * changed * unchanged).sum()
    changes, holds = (k * changed).sum() / k.sum(), (k * unchanged).sum() / k.sum()
    return np.array([both / k.sum(), both / (k * changed).sum(), both / (k * unchanged).sum(), changes, holds])


def population_pns(
    f: Function,
    x: np.ndarray,
    subset: Sequence[bool] | np.ndarray,
    radius: float,
    tolerance: float,
    *,
    baseline: float | None,
    n: int = 400_000,
    n_draws: int = 8,
    seed: int = 12345,
) -> np.ndarray:
    """PNS, PN, PS, changes and holds for independent standard normal features, by brute force.

    A `baseline` of None is drawn from the same distribution. Gaussian kernels, rms distance with the true scale of 1.
    """
    rng = np.random.default_rng(seed)
    chosen = np.asarray(subset)
    rows = rng.normal(size=(n, len(chosen)))
    before = f(rows)
    near, softly, often = [], [], []
    for side in (chosen, ~chosen):
        near.append(np.exp(-((rows - x)[:, side] ** 2).mean(axis=1) / (2 * radius**2)))
        soft_sum, count = np.zeros(n), np.zeros(n)
        for _ in range(n_draws):
            hit = (rng.random(rows.shape) < 0.5) & side
            other = rng.normal(size=rows.shape) if baseline is None else baseline
            d = np.abs(f(np.where(hit, other, rows)) - before)
            soft_sum += np.exp(-(d**2) / (2 * tolerance**2))
            count += d > tolerance
        softly.append(soft_sum / n_draws)
        often.append(count / n_draws)
    w_nc, w_sf = near[0] * (1 - softly[0]), near[1] * softly[1]
    pn, ps = (w_nc * (1 - often[1])).sum() / w_nc.sum(), (w_sf * often[0]).sum() / w_sf.sum()
    changes, holds = ((w * share).sum() / w.sum() for w, share in ((near[0], often[0]), (near[1], 1 - often[1])))
    return np.array([0.5 * (pn * w_nc.mean() + ps * w_sf.mean()), pn, ps, changes, holds])


def shapley(f: Function, x: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """Shapley values of f at x against a baseline, over all orders."""
    n = len(x)
    out = np.zeros(n)
    for order in itertools.permutations(range(n)):
        row = baseline.copy()
        for j in order:
            before = float(f(row[None])[0])
            row[j] = x[j]
            out[j] += float(f(row[None])[0]) - before
    return out / math.factorial(n)


def banzhaf(value: Callable[[tuple[bool, ...]], float], n: int) -> np.ndarray:
    """Banzhaf values of a game on n players, by enumeration."""
    out = np.zeros(n)
    for members in itertools.product([False, True], repeat=n):
        for j in range(n):
            out[j] += (1.0 if members[j] else -1.0) * value(members) / 2 ** (n - 1)
    return out
