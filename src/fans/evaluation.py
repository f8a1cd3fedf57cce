"""`fans.evaluate`: an explanation and some metrics in, one number for each input and metric out."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fans.cases import Cache, cases_of, rows_asked
from fans.errors import InputError, check_whole, choose, extra
from fans.explainer import Explainer
from fans.explanation import Attribution
from fans.metrics import Case, Metric, metric
from fans.report.notebook import counted, table_card
from fans.report.tables import FEW, entry
from fans.types import Array

HEADS = ("metric", "mean", "95 % interval", "median", "better")
"""What is said of each metric."""


@dataclass(frozen=True)
class Evaluation:
    """One number for each input and metric.

    Attributes:
        ids: of the inputs.
        values: by metric, `(B,)` float64; fewer where a metric was asked of the first inputs alone.
        higher_is_better: by metric.
        rows: model rows by metric, those of explaining changed inputs among them, but not `shared_rows`.
        shared_rows: model rows spent once for all scores of these inputs that share a cache: on the inputs as they are,
            and by metrics whose answers do not depend on the scores.
        seconds: by metric.
    """

    ids: tuple[int | str, ...]
    values: Mapping[str, Array]
    higher_is_better: Mapping[str, bool]
    rows: Mapping[str, int] = field(default_factory=dict)
    shared_rows: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    def __str__(self) -> str:
        lines = [HEADS, *self._rows()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"Evaluation(inputs={len(self.ids)}, metrics={list(self.values)})"

    def _repr_html_(self) -> str:
        more = ("inputs", "model rows", "seconds")
        rows = [
            (
                *(*row, f"{len(self.values[row[0]]):,}"),
                *(f"{self.rows.get(row[0], 0):,}", f"{self.seconds.get(row[0], math.nan):.3g}"),
            )
            for row in self._rows()
        ]
        shared = (
            f"{self.shared_rows:,} more model rows were spent once for all metrics and methods."
            if self.shared_rows
            else ""
        )
        interval = f"The interval is of the mean, by bootstrap over inputs, from {FEW} inputs on."
        return table_card(f"Evaluation of {counted(len(self.ids), 'input')}", (*HEADS, *more), rows, interval, shared)

    def _rows(self) -> list[tuple[str, ...]]:
        """Return of each metric what `HEADS` say."""
        rows = list[tuple[str, ...]]()
        for name, found in self.values.items():
            one = entry(found)
            interval = f"[{one.low:.4g}, {one.high:.4g}]" if one.n >= FEW else ""
            better = "higher" if self.higher_is_better[name] else "lower"
            rows.append((name, f"{found.mean():.4g}", interval, f"{np.median(found):.4g}", better))
        return rows

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per input, NaN where a metric was not asked of it."""
        try:
            import pandas as pd
        except ImportError:
            raise extra("pandas", "tabular", "`to_frame`") from None
        columns = {
            name: np.append(found, [np.nan] * (len(self.ids) - len(found))) for name, found in self.values.items()
        }
        return pd.DataFrame(columns, index=pd.Index(self.ids, name="id"))


def evaluate(
    explanation: Attribution,
    metrics: Sequence[str | Metric] | Mapping[str, Metric],
    *,
    model: Any = None,
    explainer: Explainer | None = None,
    truth: Any = None,
    max_batch: int | None = None,
    cache: Cache | None = None,
    first: Mapping[str, int] | None = None,
) -> Evaluation:
    """Judge scores by metrics.

    Args:
        explanation: of any method, or only its scores (`Explainer.attribute`).
        metrics: names, or metrics with settings of their own (`fans.metrics.metric("infidelity", kind="formula")`);
            a mapping names its columns.
        model: what was explained: a torch module, an estimator, or a callable on arrays. Not needed beside `explainer`.
        explainer: the one that made the explanation; metrics that explain changed inputs need it.
        truth: `(B, *input)` bool, the elements known to matter, for metrics that ask for them; of a graph `(edges,)`
            or `(B, edges)`, one for each column of its `edge_index`.
        max_batch: most rows the model sees at a time; the explainer's by default.
        cache: an empty dictionary to begin with: evaluations of other methods on the same inputs that are given the
            same one ask the model once for what does not depend on the scores.
        first: by metric, to ask it only of so many inputs, the first ones.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100, 2))
        >>> explainer = Explainer(lambda x: x[:, 0], rows, baseline=0.0)
        >>> evaluate(explainer(rows[:3]), ["sparseness"], explainer=explainer)["sparseness"].shape
        (3,)
    """
    if explainer is None and model is None:
        raise InputError("Expected the model that was explained, or its explainer, got neither; pass `explainer=`")
    judges = dict(_named(metrics))
    _refuse_lacking(judges, explanation, explainer, truth)
    limits = _checked_limits(first or {}, judges, len(explanation))
    given = {"model": model, "explainer": explainer, "truth": truth, "max_batch": max_batch, "cache": cache}
    cases = cases_of(explanation, **given)
    found = {name: _judged(judge, _first(cases, limits[name])) for name, judge in judges.items()}
    return Evaluation(
        explanation.ids,
        {name: one.values for name, one in found.items()},
        {name: judge.higher_is_better for name, judge in judges.items()},
        {name: one.rows for name, one in found.items()},
        sum(one.shared_rows for one in found.values()),
        {name: one.seconds for name, one in found.items()},
    )


@dataclass(frozen=True)
class _Judged:
    """What one metric says of some inputs, and what that took, as in `Evaluation`."""

    values: Array
    rows: int
    shared_rows: int
    seconds: float


def _judged(judge: Metric, cases: Sequence[Case]) -> _Judged:
    """Judge cases, and tell what these scores cost from what any other scores need not spend again."""
    values, rows, shared_rows, seconds = list[Array](), 0, 0, 0.0
    for case in cases:
        start, shape = rows_asked(case), tuple(case.inputs.shape[1:])
        judge.check(shape)
        if judge.cost(shape):
            case.before  # noqa: B018 - asked once for all metrics and methods
        ready, began = rows_asked(case), time.perf_counter()
        values.append(judge(case).numpy())
        seconds += time.perf_counter() - began
        spent = rows_asked(case) - ready
        rows += 0 if judge.asks_once else spent
        shared_rows += ready - start + (spent if judge.asks_once else 0)
    return _Judged(np.concatenate(values), rows, shared_rows, seconds)


def _first(cases: Sequence[Case], n: int) -> list[Case]:
    """Return the cases of the first n inputs."""
    out = []
    for case in cases:
        if n > 0:
            out.append(case if len(case) <= n else case.first(n))
            n -= len(case)
    return out


def _checked_limits(first: Mapping[str, int], judges: Mapping[str, Metric], n_inputs: int) -> dict[str, int]:
    """Return of how many inputs each metric is asked."""
    for name, n in first.items():
        choose("a metric of `first`", name, judges)
        check_whole(f"first[{name!r}]", n, 1)
    return {name: min(n_inputs, first.get(name, n_inputs)) for name in judges}


def _refuse_lacking(
    judges: Mapping[str, Metric], explanation: Attribution, explainer: Explainer | None, truth: Any
) -> None:
    """Refuse metrics that need what was not given, before anything is spent."""
    for judge in judges.values():
        if "explain" in judge.needs and (explanation.edges is not None or explanation.sparse):
            what = "one graph" if explanation.edges is not None else "features that are there or not"
            raise InputError(f"Expected metrics of {what}, got {judge.name!r}, which explains changed inputs")
        if "explain" in judge.needs and explainer is None:
            raise InputError(
                f"Expected an explainer for {judge.name!r}, which explains changed inputs, got none; pass `explainer=`"
            )
        if "truth" in judge.needs and truth is None:
            raise InputError(f"Expected the elements known to matter for {judge.name!r}, got none; pass `truth=`")


def _named(metrics: Any) -> list[tuple[str, Metric]]:
    """Return metrics with the names of their columns, no two alike."""
    if isinstance(metrics, str | Metric):
        metrics = [metrics]
    pairs = list(metrics.items()) if isinstance(metrics, Mapping) else [(None, m) for m in metrics]
    made = [(name, metric(m) if isinstance(m, str) else m) for name, m in pairs]
    named = [(name or judge.name, judge) for name, judge in made]
    names = [name for name, _ in named]
    if not names or len(set(names)) != len(names):
        raise InputError(
            f"Expected metrics of different names, got {names}; pass a mapping of names to metrics to tell them apart"
        )
    return named
