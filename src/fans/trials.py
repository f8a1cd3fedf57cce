"""Asking the model: perturb subsets of features on reference samples and measure how far the prediction moves.

All inputs, subsets, samples and perturbations go through the model in batches of at most `max_batch` rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from fans import draws
from fans.core import InputError
from fans.pns import Change, Search, Settings, measure_change, moved, perturb
from fans.spaces._shared import Distance, DrawnRows, Fixed, Mixed, Noise, OfSample, Units
from fans.task import Task

MANY = 64
"""More features than this, and a draw that is used twice is not made twice."""

MOST_EXACT_ROWS = 2**24
"""More model rows than this and `exact` refuses."""


@dataclass(frozen=True)
class Reference:
    """The samples E of each of B inputs, drawn from one pool so that shared ones are held and evaluated once.

    Attributes:
        pool: `(P, E)` all samples.
        outputs: `(P, C)` the model's outputs on them.
        index: `(B, S)` which of the pool are the samples of each input.
        source: `(P,)` the background row each pool sample is, or -1.
        units: the features of each input.
        missing: `(P, E)` each sample's own baseline, where it has one.
    """

    pool: Tensor
    outputs: Tensor
    index: Tensor
    source: Tensor
    units: Units
    missing: Tensor | None

    @classmethod
    def shared(cls, task: Task, x: Tensor) -> "Reference":
        """Use exactly the background for every input `(B, E)`."""
        rows = torch.arange(len(task.background))
        units, missing = task.space.units(x), own_baselines(task, task.background)
        return cls(task.background, task.outputs, rows.expand(len(x), -1), rows, units, missing)

    @classmethod
    def around(
        cls, task: Task, x: Tensor, ids: Sequence[int | str], seed: int, n_background: int, n_local: int, noise: float
    ) -> tuple["Reference", Tensor]:
        """Give each input its own E: some background rows, the input itself, and local copies of it.

        In a local copy each feature is swapped with a background row's at a low rate, so that the neighbourhood is
        populated however high the dimension; or, if `noise` is above 0, every element gets normal noise of that many
        of its standard deviations. The background rows are the same for all inputs.

        Returns:
            The reference set, and the outputs on `x` `(B, C)`. It costs `1 + n_local` model rows an input.
        """
        kept = background_sample(task, seed, n_background)
        units = task.space.units(x)
        place = torch.arange(n_local).expand(len(x), -1)
        keys = [draws.stream_keys(seed, ids, f"local/{what}")[:, None].expand_as(place) for what in ("hit", "donor")]
        owner = torch.arange(len(x)).repeat_interleave(n_local)
        if noise:
            positions = place[..., None] * x.shape[1] + torch.arange(x.shape[1])
            normals = draws.normal(keys[0][..., None], positions).flatten(0, 1)
            copies = x[owner] + task.space.noise(normals, noise, relative=True).to(x.dtype)
        else:
            rate = max(task.space.swap_rate, 1 / task.space.n_features)
            hit = draw_features(task, keys[0].flatten(), place.flatten(), rate)
            hit &= units.present if units.shared else units.present[owner]
            donors = task.background[draws.integers(keys[1], place, len(task.background))].flatten(0, 1)
            copies = perturb(x[owner], units.spread(draws.numbers(hit, x.dtype), owner), donors)
        n_own = 1 + n_local
        own = torch.cat([x[:, None], copies.view(len(x), n_local, x.shape[1])], 1).flatten(0, 1)  # (B * n_own, E)
        outputs = task.predict(own)
        places_kept = torch.arange(len(kept)).expand(len(x), -1)
        places_own = len(kept) + torch.arange(len(own)).view(len(x), n_own)
        index = torch.cat([places_kept, places_own], 1)
        source = torch.cat([kept, torch.full((len(own),), -1)])
        rows = torch.cat([task.background[kept], own])
        answers = torch.cat([task.outputs[kept], outputs])
        return cls(rows, answers, index, source, units, own_baselines(task, rows)), outputs[::n_own]

    def solid(self, task: Task) -> Tensor:
        """Tell which features of each input, `(B, F)` or `(1, F)`, are at their baseline in no sample at all."""
        units = self.units
        if isinstance(task.baseline, Fixed):
            differs = (self.pool != task.baseline.row).all(0)
        elif self.missing is not None:
            differs = (self.pool != self.missing).all(0)
        elif isinstance(task.baseline, Mixed):
            differs = torch.ones(self.pool.shape[1], dtype=torch.bool)
            for rows in torch.split(self.pool, task.predict.max_batch):
                for function in task.baseline.functions:
                    differs &= (rows != function(rows)).all(0)
        else:
            differs = torch.zeros(self.pool.shape[1], dtype=torch.bool)
        elements = differs.double().expand(len(units.of_element), 1, -1)
        return units.collect(elements)[:, 0] > 0

    def samples(self) -> Tensor:
        """Return `(B, S, E)`, or `(1, S, E)` where all inputs share them."""
        index = self.index[:1] if self.index.stride(0) == 0 else self.index
        return self.pool[index]


def draw_features(
    task: Task, keys: Tensor, place: Tensor, p: float, *, blocks: bool = True, offset: Tensor | None = None
) -> Tensor:
    """Draw features `(n, F)` with probability `p`: each alone, or on a fine grid in blocks at an offset of their own.

    `keys` `(n,)` and `place` `(n,)` say where the draws come from. `blocks=False` draws each alone on any grid;
    `offset` `(n, 2)` is for draws that are to share theirs.
    """
    grid = task.space.blocks() if blocks else None
    if grid is None:
        return draws.bernoulli(keys, place, task.space.n_features, p)
    if offset is None:  # from places that the bits do not use
        offset = draws.integers(keys[:, None], -1 - (2 * place[:, None] + torch.arange(2)), grid.side)
    return grid.masks(draws.bernoulli(keys, place, grid.n, p), offset)


def own_baselines(task: Task, rows: Tensor) -> Tensor | None:
    """Return the baseline of each sample `(n, E)`, where it is its own; those that are mixed are made when needed."""
    return task.baseline.function(rows) if isinstance(task.baseline, OfSample) else None


def background_sample(task: Task, seed: int, n: int | None) -> Tensor:
    """Return the places of `n` background rows (all by default), the same for every input."""
    everything = torch.arange(len(task.background))
    order = draws.words(draws.stream_keys(seed, [0], "reference"), everything).argsort()
    return everything if n is None else order[:n].sort().values


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


def run(
    task: Task,
    pool: Reference,
    jobs: Jobs,
    k: int,
    hits: Callable[[Tensor, Tensor], Tensor],
    kind: Change,
    turns: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Perturb each job's samples `k` times and return the changes `(J, S, K)` and the model rows spent `(J,)`.

    `hits(job, place)` says which features `(n, F)` the perturbation at `place` (of S * K) hits; `turns` `(K,)` which
    draws of the baseline those of a sample take, by default one of its own each. At most `max_batch` rows exist at a
    time. A perturbation that leaves its sample as it was (no feature hit, or hit by its own value)
    changes nothing by definition and costs no evaluation; nor do rows that come out the same as others asked with them,
    where the space has many of those.
    """
    n_jobs, n_samples = jobs.index.shape
    change = torch.zeros(n_jobs * n_samples * k, dtype=torch.float64)
    n_rows = torch.zeros(n_jobs, dtype=torch.int64)
    step, solid = task.predict.max_batch, pool.solid(task)
    for start in range(0, len(change), step):
        flat = torch.arange(start, min(start + step, len(change)))
        job, place = flat // (n_samples * k), flat % (n_samples * k)
        origin, owner = jobs.index.take(flat // k), jobs.owner[job]
        hit = hits(job, place)
        drawn = place if turns is None else turns[place % k]
        baseline = baselines(task, pool, jobs.row_keys[job], drawn, origin)
        weights = pool.units.spread(draws.numbers(hit, pool.pool.dtype), owner)
        perturbed = perturb(pool.pool.index_select(0, origin), weights, baseline)
        surely = solid if len(solid) == 1 else solid.index_select(0, owner)
        changes = (hit & surely).view(torch.uint8).amax(1) > 0
        unsure = (~changes).nonzero()[:, 0]
        if len(unsure):
            changes[unsure] = moved(perturbed[unsure], pool.pool[origin[unsure]])
        if not changes.all():
            kept = changes.nonzero()[:, 0]
            perturbed, flat, job, origin = (t.index_select(0, kept) for t in (perturbed, flat, job, origin))
        if len(flat):
            before, asked = pool.outputs.index_select(0, origin), job
            if task.space.repeats:
                first, which = distinct(perturbed)
                after, asked = task.predict(perturbed[first], fresh=True)[which], job[first]
            else:
                after = task.predict(perturbed, fresh=True)
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


ROUNDING = 1e-5
"""Of an input's largest element: less is no difference, but that of a mean or a blur to what it is of."""


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


def perturbed_changes(task: Task, pool: Reference, jobs: Jobs, k: int, phi: float, kind: Change) -> Changes:
    """Perturb each job's subset `k` times on each of its samples, with a fresh m each time."""
    n_features, n_places = task.space.n_features, jobs.index.shape[1] * k

    def hits(job: Tensor, place: Tensor) -> Tensor:
        keys = jobs.hit_keys[job]
        if n_features <= MANY:
            return draws.bernoulli(keys, place, n_features, phi) & jobs.subset.index_select(0, job)
        # Subsets and sides of an input share its draws, which take longer than looking up who has the same.
        changes = torch.cat([torch.zeros(1, dtype=torch.int64), (keys[1:] != keys[:-1]).long()]).cumsum(0)
        drawn, which = torch.unique(changes * n_places + place, return_inverse=True)
        first = torch.empty_like(drawn).scatter_(0, which, torch.arange(len(which)))
        once = draws.bernoulli(keys[first], place[first], n_features, phi)
        return once.index_select(0, which) & jobs.subset.index_select(0, job)

    change, n_rows = run(task, pool, jobs, k, hits, kind)
    return Changes(change, torch.full((len(change), k), 1 / k, dtype=torch.float64), n_rows)


def n_ways(task: Task, settings: Settings) -> int:
    """Return how many perturbations of a whole subset there are on a sample, 0 where that is a matter of luck."""
    if settings.phi < 1 or settings.estimator == "resample":
        return 0
    if isinstance(task.baseline, Mixed):
        return len(task.baseline.functions)
    return 0 if task.baseline.drawn else 1


def whole_changes(task: Task, pool: Reference, jobs: Jobs, kind: Change) -> Changes:
    """Perturb the whole of each job's subset, by every baseline that takes turns once, weighed by its turns."""
    turns = task.baseline.turns if isinstance(task.baseline, Mixed) else (0,)
    ways = sorted(set(turns))
    first = torch.tensor([turns.index(way) for way in ways])
    share = torch.tensor([turns.count(way) / len(turns) for way in ways], dtype=torch.float64)
    change, n_rows = run(task, pool, jobs, len(ways), lambda job, _: jobs.subset[job], kind, first)
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

    change, n_rows = run(task, pool, jobs, k, hits, kind)
    pattern = torch.arange(k)
    n_hits = (pattern[:, None] >> torch.arange(int(size.max()) + 1) & 1).sum(1).double()  # (K,)
    share = phi**n_hits * (1 - phi) ** (size[:, None] - n_hits)
    return Changes(change, share.masked_fill(pattern >= 2 ** size[:, None], 0.0), n_rows)


@dataclass(frozen=True)
class Trials:
    """What perturbing n subsets of each of B inputs, and their complements, did: J = B * n, grouped by input.

    Attributes:
        pool: the samples.
        distances: `(B, S, F)` squared distance by feature between each input and its samples.
        owner: `(J,)` the input of each subset.
        subset: `(J, F)`.
        rest: `(J, F)` the features outside it.
        on_subset, on_rest: changes of perturbing s and its complement.
        jobs_subset, jobs_rest: where those came from.
        factual, interventional: shares `(J, K)` of each perturbation, of s and of the rest, in the weights, and in PN
            and PS.
    """

    pool: Reference
    distances: Tensor
    owner: Tensor
    subset: Tensor
    rest: Tensor
    on_subset: Changes
    on_rest: Changes
    jobs_subset: Jobs
    jobs_rest: Jobs
    factual: tuple[Tensor, Tensor]
    interventional: tuple[Tensor, Tensor]

    @property
    def n_rows(self) -> Tensor:
        """Model rows spent on each subset, `(J,)`."""
        return self.on_subset.n_rows + self.on_rest.n_rows


@dataclass(frozen=True)
class Block:
    """Some inputs, ready for trials.

    Attributes:
        pool: their samples.
        distances: `(B, S, F)` squared distance by feature between each input and its samples.
        target: `(B,)` explained class.
        ids: names that key the draws.
        radius, tolerance: `(B,)` b and c.
        search: what to try for b and c, if they are only where a search starts (`fans.pns` alone).
        seed: of the draws.
        graded: whether a solver may count changes by their size, the user having set no tolerance.
    """

    pool: Reference
    distances: Tensor
    target: Tensor
    ids: Sequence[int | str]
    radius: Tensor
    tolerance: Tensor
    search: Search | None
    seed: int
    graded: bool = False

    @property
    def own(self) -> Tensor:
        """Where each input `(B, 1)` is in the pool: it is among its own samples, at distance 0."""
        shared = self.pool.source[self.pool.index] >= 0  # a background row may be the same, but counts as another
        place = self.distances.sum(2).masked_fill(shared, torch.inf).argmin(1, keepdim=True)
        return self.pool.index.gather(1, place)

    def at(self, some: Tensor) -> "Block":
        """Return the block of some of its inputs `(n,)`."""
        return replace(
            self,
            pool=replace(self.pool, index=self.pool.index[some], units=self.pool.units.at(some)),
            distances=self.distances[some],
            target=self.target[some],
            ids=[self.ids[i] for i in some.tolist()],
            radius=self.radius[some],
            tolerance=self.tolerance[some],
        )

    def nearest(self, n: int) -> "Block":
        """Return the block with the `n` nearest samples of each input."""
        place = self.distances.sum(2).argsort(dim=1, stable=True)[:, :n]
        distances = self.distances.gather(1, place[..., None].expand(-1, -1, self.distances.shape[2]))
        return replace(self, pool=replace(self.pool, index=self.pool.index.gather(1, place)), distances=distances)

    def keys(self, stage: str) -> Tensor:
        """Return the key `(B,)` of each input's own stream of draws in a stage."""
        return draws.stream_keys(self.seed, self.ids, stage)


def run_trials(task: Task, block: Block, subsets: Tensor, stage: str, settings: Settings) -> Trials:
    """Perturb n subsets `(B, n, F)` of each input, and their complements, on every sample of the input.

    One m serves both sides: they read it on disjoint features, so they stay independent. All subsets of an input share
    its draws, which makes their comparison sharper.
    """
    n_inputs, n_subsets, _ = subsets.shape
    owner = torch.arange(n_inputs).repeat_interleave(n_subsets)
    subset = subsets.flatten(0, 1)
    rest = ~subset & (block.pool.units.present if block.pool.units.shared else block.pool.units.present[owner])
    hit_keys = block.keys(f"{stage}/hit")[owner]
    sides = [
        Jobs(
            owner, block.pool.index[owner], chosen, block.target[owner], hit_keys, block.keys(f"{stage}/{side}")[owner]
        )
        for side, chosen in (("subset", subset), ("rest", rest))
    ]
    if settings.estimator == "exact":
        on_subset, on_rest = (
            enumerated_changes(task, block.pool, jobs, settings.phi, settings.change) for jobs in sides
        )
        factual = interventional = (on_subset.share, on_rest.share)
    elif n_ways(task, settings):
        both = whole_changes(task, block.pool, sides[0].join(sides[1]), settings.change)
        on_subset, on_rest = both.halves()
        factual = interventional = (on_subset.share, on_rest.share)
    else:
        n_kept = settings.n_perturb if settings.estimator == "weighted" else settings.n_factual
        # The joint PNS weighs with the same perturbations that it counts.
        n_factual = n_kept if settings.joint else settings.n_factual
        k = max(n_factual, n_kept)
        if settings.phi == 1 and not task.baseline.drawn:  # all perturbations of a sample are the same
            k = n_factual = n_kept = 1
        both = perturbed_changes(task, block.pool, sides[0].join(sides[1]), k, settings.phi, settings.change)
        on_subset, on_rest = both.halves()
        factual = (_first(k, n_factual, len(owner)),) * 2
        interventional = (_first(k, n_kept, len(owner)),) * 2
    return Trials(
        pool=block.pool,
        distances=block.distances,
        owner=owner,
        subset=subset,
        rest=rest,
        on_subset=on_subset,
        on_rest=on_rest,
        jobs_subset=sides[0],
        jobs_rest=sides[1],
        factual=factual,
        interventional=interventional,
    )


def _first(k: int, n: int, n_jobs: int) -> Tensor:
    """Return equal shares `(J, K)` of the first n of k perturbations."""
    return ((torch.arange(k) < n).double() / n).expand(n_jobs, -1)


def subset_sum(distances: Tensor, weights: Tensor) -> Tensor:
    """Sum distances by feature `(B, S, F)` over the weighted features `(J, F)` of each subset: `(J, S)`."""
    grouped = weights.to(distances.dtype).view(len(distances), -1, weights.shape[1])
    return (grouped @ distances.transpose(1, 2)).flatten(0, 1)


def subset_distance(distances: Tensor, subset: Tensor, sizes: Tensor, kind: Distance) -> Tensor:
    """Return squared distances `(J, S)` on the features of each subset `(J, F)`; 0 for an empty one.

    `sizes` `(J or 1, F)` says how many elements each feature counts for.
    """
    total = subset_sum(distances, draws.numbers(subset, distances.dtype))
    return total / subset_size(subset, sizes)[:, None].to(total.dtype) if kind == "rms" else total


def subset_size(subset: Tensor, sizes: Tensor) -> Tensor:
    """Return how many elements each subset has in a distance, `(J,)`, at least 1."""
    total = (
        draws.numbers(subset, torch.float64) @ sizes[0].double()
        if len(sizes) == 1
        else (subset * sizes.double()).sum(1)
    )
    return total.clamp(min=1)


def noise_tolerance(
    task: Task, change: Change, seed: int, *, relative: bool = True, n_draws: int = 16, n_background: int | None = None
) -> Tensor:
    """Return c for each class `(C,)`: the largest change small noise makes on the background (Section 4.6).

    `c := max over x in E, e in R of |f(x) - f(x + e)|`, e normal with a standard deviation of 0.001: of each feature's
    own if `relative`, else in the feature's units (the paper's form). `n_background` uses only some of the rows.
    """
    kept = background_sample(task, seed, n_background)
    rows, outputs = task.background[kept], task.outputs[kept]
    n_classes = outputs.shape[1]
    if change == "label":
        return torch.full((n_classes,), 0.5, dtype=torch.float64)
    key = draws.stream_keys(seed, [0], "tolerance")
    largest = torch.zeros(n_classes, dtype=torch.float64)
    n_columns = task.space.n_elements
    step = task.predict.max_batch
    for start in range(0, len(rows) * n_draws, step):
        flat = torch.arange(start, min(start + step, len(rows) * n_draws))
        places = flat[:, None] * n_columns + torch.arange(n_columns)
        noisy = rows[flat // n_draws] + task.space.noise(draws.normal(key, places), 0.001, relative=relative).to(
            rows.dtype
        )
        moved = (task.predict(noisy) - outputs[flat // n_draws]).abs()
        if change == "l2":
            moved = moved.norm(dim=1, keepdim=True).expand(-1, n_classes)
        largest = torch.maximum(largest, moved.amax(0))
    return largest


def equals_baseline(task: Task, block: Block) -> Tensor:
    """Tell which inputs `(B,)` no perturbation can change, as an image of one colour by its own mean."""
    own = block.own[:, 0]
    if isinstance(task.baseline, DrawnRows | Noise):
        return torch.zeros(len(own), dtype=torch.bool)
    turns = range(len(task.baseline.turns)) if isinstance(task.baseline, Mixed) else range(1)
    keys, x = block.keys("blank"), block.pool.pool[own]
    each = [baselines(task, block.pool, keys, torch.full_like(own, turn), own) for turn in turns]
    of_columns = task.space.modality == "table"  # each of a size of its own
    largest = x.abs() if of_columns else x.abs().amax(1, keepdim=True)
    return torch.stack([((missing - x).abs() <= ROUNDING * largest).all(1) for missing in each]).all(0)
