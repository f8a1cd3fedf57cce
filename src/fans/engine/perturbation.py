"""Perturbing features: what stands in for them, and how far the prediction moves."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from fans.engine import draws
from fans.engine.equations import Change, measure_change, moved, perturb
from fans.engine.neighbourhood import Reference
from fans.engine.settings import Settings
from fans.errors import InputError
from fans.modalities.base import DrawnRows, Fixed, Mixed, Noise
from fans.task import Task

SHARE_DRAWS_ABOVE = 64
"""More features than this, and a draw that is used twice is not made twice."""

MOST_EXACT_ROWS = 2**24
"""More model rows than this and `exact` refuses."""


@dataclass(frozen=True)
class Jobs:
    """J pairs of an input and a subset to perturb, with the streams their draws come from.

    Attributes:
        owner: `(J,)` the input.
        index: `(J, S)` the pool samples of each job.
        subset: `(J, F)` what is perturbed.
        target: `(J,)` explained class.
        hit_keys: `(J,)` streams of m.
        row_keys: `(J,)` streams of drawn baselines.
    """

    owner: Tensor
    index: Tensor
    subset: Tensor
    target: Tensor
    hit_keys: Tensor
    row_keys: Tensor

    def join(self, other: "Jobs") -> "Jobs":
        """Put two lists of jobs together, one of each in turn, so that they fill the model's batches together."""
        pairs = (torch.stack([getattr(self, f.name), getattr(other, f.name)], 1) for f in fields(self))
        return Jobs(*(pair.flatten(0, 1) for pair in pairs))


@dataclass(frozen=True)
class Changes:
    """What perturbing did: the change `(J, S, K)`, each perturbation's share `(J, K)` and model rows spent `(J,)`."""

    change: Tensor
    share: Tensor
    n_rows: Tensor

    def halves(self) -> tuple["Changes", "Changes"]:
        """Undo the join of as many jobs with as many others."""
        first, second = (Changes(*(getattr(self, f.name)[side::2] for f in fields(self))) for side in range(2))
        return first, second


@dataclass(frozen=True)
class Ways:
    """K ways to perturb each sample of some jobs.

    Attributes:
        k: how many.
        hits: `hits(job, place)` says which features `(n, F)` the perturbation at `place` (of S * K) hits.
        turns: `(K,)` which draws of the baseline those of a sample take, by default one of its own each.
    """

    k: int
    hits: Callable[[Tensor, Tensor], Tensor]
    turns: Tensor | None = None


@dataclass(frozen=True)
class Perturbed:
    """Some perturbations of samples.

    Attributes:
        rows: `(n, E)` what came of them.
        hit: `(n, F)` which features were hit.
        origin: `(n,)` the pool samples perturbed.
    """

    rows: Tensor
    hit: Tensor
    origin: Tensor


def perturbed(task: Task, pool: Reference, jobs: Jobs, ways: Ways, flat: Tensor) -> Perturbed:
    """Perturb samples: those at the places `flat` `(n,)` among the J * S * K of some jobs."""
    n_samples, k = jobs.index.shape[1], ways.k
    job, place = flat // (n_samples * k), flat % (n_samples * k)
    origin, owner = jobs.index.take(flat // k), jobs.owner[job]
    hit = ways.hits(job, place)
    drawn = place if ways.turns is None else ways.turns[place % k]
    baseline = baselines(task, pool, jobs.row_keys[job], drawn, origin)
    weights = pool.units.spread(draws.numbers(hit, pool.pool.dtype), owner)
    return Perturbed(perturb(pool.pool.index_select(0, origin), weights, baseline), hit, origin)


def run(task: Task, pool: Reference, jobs: Jobs, ways: Ways, kind: Change) -> tuple[Tensor, Tensor]:
    """Perturb each job's samples and return the changes `(J, S, K)` and the model rows spent `(J,)`.

    At most `max_batch` rows exist at a time. A perturbation that leaves its sample as it was (no feature hit, or hit by
    its own value) changes nothing by definition and costs no evaluation; nor do rows that come out the same as others
    asked with them, where the space has many of those.
    """
    (n_jobs, n_samples), k = jobs.index.shape, ways.k
    change = torch.zeros(n_jobs * n_samples * k, dtype=torch.float64)
    n_rows = torch.zeros(n_jobs, dtype=torch.int64)
    step, solid = task.predict.max_batch, pool.solid(task)
    for start in range(0, len(change), step):
        flat = torch.arange(start, min(start + step, len(change)))
        made = perturbed(task, pool, jobs, ways, flat)
        job, rows, origin = flat // (n_samples * k), made.rows, made.origin
        surely = solid if len(solid) == 1 else solid.index_select(0, jobs.owner[job])
        changes = (made.hit & surely).view(torch.uint8).amax(1) > 0
        unsure = (~changes).nonzero()[:, 0]
        if len(unsure):
            changes[unsure] = moved(rows[unsure], pool.pool[origin[unsure]])
        if not changes.all():
            kept = changes.nonzero()[:, 0]
            rows, flat, job, origin = (t.index_select(0, kept) for t in (rows, flat, job, origin))
        if len(flat):
            before, asked, of = pool.outputs.index_select(0, origin), job, pool.of.index_select(0, origin)
            if task.space.repeats:
                first, which = distinct(rows if pool.units.shared else torch.cat([of[:, None], rows], 1))
                after, asked = task.predict(rows[first], of[first], fresh=True)[which], job[first]
            else:
                after = task.predict(rows, of, fresh=True)
            change.index_copy_(0, flat, measure_change(after, before, jobs.target[job], kind))
            n_rows.index_add_(0, asked, torch.ones_like(asked))
    return change.view(n_jobs, n_samples, k), n_rows


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places `(m,)` of different rows among `(n, E)`, and which of these each row equals, `(n,)`."""
    alike = rows.double() @ draws.uniform(draws.stream_keys(0, [0], "distinct"), torch.arange(rows.shape[1]))
    values, which = torch.unique(alike, return_inverse=True)
    first = torch.full((len(values),), len(rows)).scatter_reduce_(0, which, torch.arange(len(rows)), "amin")
    if torch.equal(rows[first][which], rows):
        return first, which
    return torch.arange(len(rows)), torch.arange(len(rows))  # two different rows with one sum: none is spared


def baselines(task: Task, pool: Reference, keys: Tensor, place: Tensor, origin: Tensor) -> Tensor:
    """Return what stands in for missing features in each perturbation, `(n, E)` or `(E,)`.

    `keys` `(n,)` and `place` `(n,)` say where its draws come from, `origin` `(n,)` which pool sample is perturbed.
    """
    match task.baseline:
        case Fixed(row):
            return row
        case DrawnRows():
            return task.background.index_select(0, baseline_rows(task, keys, place, pool.source[origin]))
        case Noise(low, high):
            return draws.noise(keys, place, task.space.n_elements, low, high).to(pool.pool.dtype)
        case Mixed(functions, turns):
            samples, which = torch.unique(origin, return_inverse=True)
            rows = pool.pool[samples]
            return torch.stack([function(rows) for function in functions])[
                torch.tensor(turns)[place % len(turns)], which
            ]
        case _:
            assert pool.missing is not None
            return pool.missing.index_select(0, origin)


def baseline_rows(task: Task, keys: Tensor, place: Tensor, source: Tensor) -> Tensor:
    """Return which background row is the baseline of each perturbation: one fresh draw for each.

    A sample that is itself a background row (`source` >= 0) draws among the others: replaced by its own values it would
    seem to resist a perturbation that never happened, a bias of order 1/n.
    """
    n = len(task.background)
    if n == 1:
        return torch.zeros_like(source)
    row = draws.integers(keys, place, n - (source >= 0).long())
    return row + ((source >= 0) & (row >= source))


def by_chance(task: Task, jobs: Jobs, k: int, phi: float) -> Ways:
    """Return how to perturb each job's subset `k` times on each of its samples, with a fresh m each time."""
    n_features, n_places = task.space.n_features, jobs.index.shape[1] * k

    def hits(job: Tensor, place: Tensor) -> Tensor:
        keys = jobs.hit_keys[job]
        if n_features <= SHARE_DRAWS_ABOVE:
            return draws.bernoulli(keys, place, n_features, phi) & jobs.subset.index_select(0, job)
        # Subsets and sides of an input share its draws, which take longer than looking up who has the same.
        changes = torch.cat([torch.zeros(1, dtype=torch.int64), (keys[1:] != keys[:-1]).long()]).cumsum(0)
        drawn, which = torch.unique(changes * n_places + place, return_inverse=True)
        first = torch.empty_like(drawn).scatter_(0, which, torch.arange(len(which)))
        once = draws.bernoulli(keys[first], place[first], n_features, phi)
        return once.index_select(0, which) & jobs.subset.index_select(0, job)

    return Ways(k, hits)


def perturbed_changes(task: Task, pool: Reference, jobs: Jobs, k: int, phi: float, kind: Change) -> Changes:
    """Perturb each job's subset `k` times on each of its samples, with a fresh m each time."""
    change, n_rows = run(task, pool, jobs, by_chance(task, jobs, k, phi), kind)
    return Changes(change, torch.full((len(change), k), 1 / k, dtype=torch.float64), n_rows)


def n_ways(task: Task, settings: Settings) -> int:
    """Return how many perturbations of a whole subset there are on a sample, 0 where that is a matter of luck."""
    if settings.phi < 1 or settings.estimator == "resample":
        return 0
    if isinstance(task.baseline, Mixed):
        return len(task.baseline.functions)
    return 0 if task.baseline.drawn else 1


def whole(task: Task, jobs: Jobs) -> tuple[Ways, Tensor]:
    """Return how to perturb the whole of each job's subset by every baseline that takes turns once.

    Beside it the share `(K,)` of each: how many of the turns it has.
    """
    turns = task.baseline.turns if isinstance(task.baseline, Mixed) else (0,)
    each = sorted(set(turns))
    first = torch.tensor([turns.index(one) for one in each])
    share = torch.tensor([turns.count(one) / len(turns) for one in each], dtype=torch.float64)
    return Ways(len(each), lambda job, _: jobs.subset[job], first), share


def whole_changes(task: Task, pool: Reference, jobs: Jobs, kind: Change) -> Changes:
    """Perturb the whole of each job's subset, by every baseline that takes turns once, weighed by its turns."""
    ways, share = whole(task, jobs)
    change, n_rows = run(task, pool, jobs, ways, kind)
    return Changes(change, share.expand(len(change), -1), n_rows)


def enumerated_changes(task: Task, pool: Reference, jobs: Jobs, phi: float, kind: Change) -> Changes:
    """Perturb each job's subset with every pattern of hits once, weighed by the pattern's probability."""
    if task.baseline.drawn:
        raise InputError(
            'Expected a fixed baseline for estimator="exact", got one that is drawn; '
            'pass baseline="mean", a number or a row, or use estimator="weighted"'
        )
    size = jobs.subset.sum(1)  # (J,)
    n_needed = jobs.index.shape[1] * float((2.0 ** size.double()).sum())
    if n_needed > MOST_EXACT_ROWS:
        raise InputError(
            f'Expected at most {MOST_EXACT_ROWS:,} model rows for estimator="exact", got {n_needed:,.0f} '
            f'(2 to the power of up to {int(size.max())} perturbed features, a sample); use estimator="weighted"'
        )
    k = 2 ** int(size.max())
    rank = (jobs.subset.long().cumsum(1) - 1).clamp(min=0)  # (J, F) place of each selected feature among the selected

    def hits(job: Tensor, place: Tensor) -> Tensor:
        pattern = (place % k)[:, None]
        bits = (pattern >> rank[job] & 1).bool()
        idle = pattern >= torch.pow(2, size[job])[:, None]  # a job with fewer patterns than the largest
        out: Tensor = bits & jobs.subset[job] & ~idle
        return out

    change, n_rows = run(task, pool, jobs, Ways(k, hits), kind)
    pattern = torch.arange(k)
    n_hits = (pattern[:, None] >> torch.arange(int(size.max()) + 1) & 1).sum(1).double()  # (K,)
    share = phi**n_hits * (1 - phi) ** (size[:, None] - n_hits)
    return Changes(change, share.masked_fill(pattern >= 2 ** size[:, None], 0.0), n_rows)
