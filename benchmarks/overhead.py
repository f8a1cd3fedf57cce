"""What FANS costs beyond the model: time against the bare model, memory, and how time grows with the work.

The bare model gets exactly the rows that FANS sent it, in full batches of the same `max_batch`, turn by turn with FANS
in one process on one thread. Run with `python -m benchmarks.overhead`.
"""

import ctypes
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn
from xgboost import XGBClassifier

import fans
from benchmarks.measuring import (
    N_COLUMNS,
    draw_inputs,
    draw_labels,
    loans,
    parse_arguments,
    print_table,
    rule,
    write_record,
)

SEED = 2028
MAX_BATCH = 8192
N_BACKGROUND = 500
N_BACKGROUND_PNS = 200
SUBSET = np.arange(N_COLUMNS) < 5
GOALS = ((10.0, 1.15), (1.0, 1.5))
"""Above so many microseconds a row, FANS may take at most so many times the bare model's time."""
MEMORY_GOAL = 1.2
EXPONENT_GOAL = 1.1


# --- Time against the bare model -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model, its data, and how many inputs to explain."""

    name: str
    model: Any
    rows: Any
    n_explained: int
    n_scored: int


@dataclass(frozen=True)
class Overhead:
    """FANS against the bare model on the same rows; times are medians over the repeats.

    `ratio_back` is against the bare model going backward as well on the rows whose slopes FANS asks for.
    """

    model: str
    call: str
    n_rows: int
    inputs_a_second: float
    bare_us_per_row: float
    own_us_per_row: float
    ratio: float
    ratio_lowest: float
    ratio_highest: float
    ratio_cpu: float
    ratio_back: float
    goal: float | None

    @property
    def verdict(self) -> str:
        """Say whether the goal was met."""
        return "no goal" if self.goal is None else "met" if self.ratio <= self.goal else "MISSED"


class RecordingModule(nn.Module):
    """A module that keeps the rows it is asked about."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.seen: list[Tensor] = []
        self.followed: list[Tensor] = []

    def forward(self, rows: Tensor) -> Tensor:
        """Keep the rows, and whether their slopes are asked for, and pass them on."""
        self.seen.append(rows.detach().clone())
        self.followed.append(torch.full((len(rows),), rows.requires_grad))
        out: Tensor = self.module(rows)
        return out


class RecordingEstimator:
    """A scikit-learn classifier that keeps the rows it is asked about."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.classes_ = estimator.classes_
        self.seen: list[Any] = []

    def predict_proba(self, rows: Any) -> Any:
        """Keep the rows and pass them on."""
        self.seen.append(rows.copy())
        return self.estimator.predict_proba(rows)


def make_cases(*, quick: bool) -> list[Case]:
    """Return trees and networks that take from half a microsecond to ten a row; the loans are a thousand inputs."""
    rows = draw_inputs(4000, SEED)
    forest = RandomForestClassifier(200, n_jobs=1, random_state=SEED).fit(rows, draw_labels(rows, SEED))
    single = rows.astype(np.float32)
    n_explained, n_scored = (4, 2) if quick else (64, 24)
    networks = [
        Case(f"torch MLP, 2 x {width}", make_network(width), single, n_explained, n_scored) for width in (768, 256, 176)
    ]
    table, labels = loans(4000, SEED)
    boosted = XGBClassifier(n_jobs=1, random_state=SEED).fit(table, labels)
    trees = [
        Case("random forest, 200 trees", forest, rows, n_explained, n_scored),
        Case("XGBoost, 100 trees, 8 columns", boosted, table, 20 if quick else 1000, n_scored),
    ]
    return [*trees, *networks]


def make_network(width: int) -> nn.Module:
    """Return an untrained network with two hidden layers."""
    torch.manual_seed(SEED)
    layers = (nn.Linear(N_COLUMNS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))
    return nn.Sequential(*layers).eval()


def run_explainer(case: Case, model: Any) -> int:
    """Explain the case's inputs, and return how many rows the model saw."""
    explainer = fans.Explainer(model, case.rows[:N_BACKGROUND], max_batch=MAX_BATCH)
    explainer(case.rows[-case.n_explained :], progress=False)
    return explainer.task.predict.n_rows


def run_pns(case: Case, model: Any) -> int:
    """Estimate PNS of one subset for the case's inputs, and return how many rows the model saw."""
    background, inputs = case.rows[:N_BACKGROUND_PNS], case.rows[-case.n_scored :]
    return fans.pns(model, inputs, SUBSET[: inputs.shape[1]], background=background, max_batch=MAX_BATCH).n_evaluations


CALLS: dict[str, Callable[[Case, Any], int]] = {"Explainer": run_explainer, "pns": run_pns}


def rows_sent(case: Case, call: Callable[[Case, Any], int]) -> tuple[Any, Tensor]:
    """Return all rows that FANS sends the model and of which it asks for slopes; check that it counted them."""
    if isinstance(case.model, nn.Module):
        module = RecordingModule(case.model)
        counted = call(case, module)
        rows: Any = torch.cat(module.seen)
        followed = torch.cat(module.followed)
    else:
        estimator = RecordingEstimator(case.model)
        counted = call(case, estimator)
        rows = np.concatenate(estimator.seen)
        followed = torch.zeros(len(rows), dtype=torch.bool)
    if counted != len(rows):
        raise RuntimeError(f"Expected FANS to count the {len(rows)} rows it sent, got {counted}")
    return rows, followed


def follow_bare(model: Any, rows: Tensor) -> None:
    """Run a network alone over rows, forward and back, in full batches."""
    for some in torch.split(rows, MAX_BATCH) if len(rows) else ():
        given = some.clone().requires_grad_()
        torch.autograd.grad(model(given).sum(), given)


def run_bare(model: Any, rows: Any) -> None:
    """Run the model alone over rows, in full batches."""
    predict = model if isinstance(model, nn.Module) else model.predict_proba
    with torch.no_grad():
        for start in range(0, len(rows), MAX_BATCH):
            predict(rows[start : start + MAX_BATCH])


def timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall and the processor time an action takes, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def goal_for(us_per_row: float) -> float | None:
    """Return the largest ratio allowed for a model of this cost, or None below all goals."""
    return next((ratio for least, ratio in GOALS if us_per_row > least), None)


def measure_overhead(case: Case, name: str, n_repeats: int) -> Overhead:
    """Time the bare model and FANS turn by turn."""
    call = CALLS[name]
    rows, followed = rows_sent(case, call)

    def backward_too() -> None:
        run_bare(case.model, rows[~followed.numpy()])
        follow_bare(case.model, rows[followed])

    run_bare(case.model, rows)
    pairs = [
        (timed(lambda: run_bare(case.model, rows)), timed(lambda: call(case, case.model))) for _ in range(n_repeats)
    ]
    same_work = [timed(backward_too)[0] for _ in range(n_repeats)] if followed.any() else [bare[0] for bare, _ in pairs]
    ratios = [ours[0] / bare[0] for bare, ours in pairs]
    per_row, n_inputs = 1e6 / len(rows), case.n_explained if name == "Explainer" else case.n_scored
    bare_us = statistics.median(bare[0] for bare, _ in pairs) * per_row
    return Overhead(
        model=case.name,
        call=name,
        n_rows=len(rows),
        inputs_a_second=n_inputs / statistics.median(ours[0] for _, ours in pairs),
        bare_us_per_row=bare_us,
        own_us_per_row=statistics.median(ours[0] - bare[0] for bare, ours in pairs) * per_row,
        ratio=statistics.median(ratios),
        ratio_lowest=min(ratios),
        ratio_highest=max(ratios),
        ratio_cpu=statistics.median(ours[1] / bare[1] for bare, ours in pairs),
        ratio_back=statistics.median(ours[0] for _, ours in pairs) / statistics.median(same_work),
        goal=goal_for(bare_us),
    )


def print_overheads(found: Sequence[Overhead]) -> None:
    """Print the table of times."""
    header = (
        "model",
        "call",
        "rows",
        "inputs/s",
        "bare us/row",
        "own us/row",
        "ratio",
        "range",
        "CPU ratio",
        "with slopes",
        "goal",
        "",
    )
    rows = [
        (
            f.model,
            f.call,
            f"{f.n_rows:,}",
            f"{f.inputs_a_second:,.0f}",
            f"{f.bare_us_per_row:.2f}",
            f"{f.own_us_per_row:.2f}",
            f"{f.ratio:.3f}",
            f"{f.ratio_lowest:.2f}-{f.ratio_highest:.2f}",
            f"{f.ratio_cpu:.3f}",
            f"{f.ratio_back:.3f}",
            "-" if f.goal is None else f"<= {f.goal}",
            f.verdict,
        )
        for f in found
    ]
    print_table("Time against the bare model on the same rows (median of the repeats; one thread)", header, rows)


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next batch, for the bare model and FANS alike.

    By default it returns large blocks to the system or not, by the luck of what was freed before, and the same bare
    network then costs 2.2 or 3.6 us a row.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(trim_threshold, 2**30)
        mallopt(mmap_threshold, 2**25)


# --- Memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Peak memory of a fresh process that explains so many inputs, in MB."""

    call: str
    n_inputs: int
    peak: float
    before: float
    results: float

    @property
    def net(self) -> float:
        """The peak without the results themselves."""
        return self.peak - self.results

    @property
    def added(self) -> float:
        """What explaining added to the process, without the results: the imports, most of the peak, hide it."""
        return self.net - self.before


def memory_now(field: str) -> float:
    """Return `VmRSS` (now) or `VmHWM` (the highest so far) of this process in MB.

    Not `getrusage`: a child process starts with its parent's peak there.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


def explain_and_weigh(name: str, n_inputs: int) -> Memory:
    """Explain many inputs with the rule as the model, in this process, and return its peak memory."""
    rows = draw_inputs(N_BACKGROUND + n_inputs, SEED)
    background, inputs = rows[:N_BACKGROUND], rows[N_BACKGROUND:]
    before = memory_now("VmRSS")
    if name == "Explainer":
        result: Any = fans.Explainer(rule, background)(inputs, progress=False)
    else:
        result = fans.pns(rule, inputs, SUBSET, background=background[:50], n_factual=8, n_perturb=8)
    arrays = [value for value in vars(result).values() if isinstance(value, np.ndarray)]
    size = (sum(array.nbytes for array in arrays) + rows.nbytes) / 2**20
    return Memory(name, n_inputs, memory_now("VmHWM"), before, size)


def weigh_in_fresh_process(name: str, n_inputs: int) -> Memory:
    """Run `explain_and_weigh` in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.overhead", "--weigh", name, str(n_inputs)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own module
    return Memory(**json.loads(out))


def print_memory(found: Sequence[Memory]) -> None:
    """Print the table of peaks against those of the fewest inputs, and of what explaining added against the next.

    The fewest inputs do not fill a block, so what they add is not yet what every block adds.
    """
    header = ("call", "inputs", "peak MB", "results MB", "peak - results", "ratio", "goal", "", "added MB", "ratio", "")
    rows = []
    for call in CALLS:
        fewest, *others = [f for f in found if f.call == call]
        for f in (fewest, *others):
            ratio, ratio_added = f.net / fewest.net, f.added / others[0].added
            verdicts = ["met" if r <= MEMORY_GOAL else "MISSED" for r in (ratio, ratio_added)]
            peak = (
                f"{f.peak:.1f}",
                f"{f.results:.1f}",
                f"{f.net:.1f}",
                f"{ratio:.3f}",
                f"<= {MEMORY_GOAL}",
                verdicts[0],
            )
            added = (f"{f.added:.1f}", *(("-", "-") if f is fewest else (f"{ratio_added:.3f}", verdicts[1])))
            rows.append((call, f"{f.n_inputs:,}", *peak, *added))
    print_table("Peak memory of a fresh process (the rule as a NumPy function)", header, rows)


# --- Growth ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """Seconds at each size (the least of the repeats), and the slope of log time on log size."""

    call: str
    what: str
    sizes: list[int]
    seconds: list[float]
    exponent: float


def time_pns(n_inputs: int, n_background: int, n_perturb: int) -> float:
    """Return the seconds `fans.pns` takes with the rule as the model."""
    rows = draw_inputs(n_background + n_inputs, SEED)
    background, inputs = rows[:n_background], rows[n_background:]
    return timed(
        lambda: fans.pns(rule, inputs, SUBSET, background=background, n_factual=n_perturb, n_perturb=n_perturb)
    )[0]


def time_explainer(n_inputs: int) -> float:
    """Return the seconds an `Explainer` takes with the rule as the model."""
    rows = draw_inputs(N_BACKGROUND + n_inputs, SEED)
    explainer = fans.Explainer(rule, rows[:N_BACKGROUND])
    return timed(lambda: explainer(rows[N_BACKGROUND:], progress=False))[0]


def measure_growth(call: str, what: str, action: Callable[[int], float], sizes: Sequence[int], repeats: int) -> Growth:
    """Time an action at every size, turn by turn, and fit the exponent."""
    rounds = [[action(size) for size in sizes] for _ in range(repeats)]
    seconds = [min(times) for times in zip(*rounds, strict=True)]
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return Growth(call, what, list(sizes), seconds, exponent)


def measure_growths(*, quick: bool) -> list[Growth]:
    """Measure how time grows with inputs, background and perturbations."""
    factors, repeats = ((1, 2), 1) if quick else ((4, 8, 16, 32, 64), 3)
    plan: list[tuple[str, str, Callable[[int], float], int]] = [
        ("pns", "inputs", lambda n: time_pns(n, 50, 8), 16),
        ("pns", "background rows", lambda n: time_pns(32, n, 8), 20),
        ("pns", "perturbations", lambda n: time_pns(32, 50, n), 2),
        ("Explainer", "inputs", time_explainer, 4),
    ]
    return [measure_growth(call, what, go, [unit * f for f in factors], repeats) for call, what, go, unit in plan]


def print_growths(found: Sequence[Growth]) -> None:
    """Print the table of exponents."""
    header = ("call", "grows with", "sizes", "seconds", "exponent", "goal", "")
    rows = []
    for f in found:
        seconds = f"{f.seconds[0]:.3f} - {f.seconds[-1]:.2f}"
        verdict = "met" if f.exponent <= EXPONENT_GOAL else "MISSED"
        sizes = f"{f.sizes[0]} - {f.sizes[-1]}"
        rows.append((f.call, f.what, sizes, seconds, f"{f.exponent:.3f}", f"<= {EXPONENT_GOAL}", verdict))
    print_table("Growth of time: slope of log time on log size (1 is linear; the rule as the model)", header, rows)


# --- All of it -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Measure everything, print it, and write the record."""
    arguments = parse_arguments("Time, memory and growth of FANS against the bare model.", "overhead")
    quick: bool = arguments.quick
    warnings.simplefilter("ignore", fans.FansWarning)
    torch.set_num_threads(1)
    keep_freed_memory()
    n_repeats = 2 if quick else 7
    overheads = [measure_overhead(case, call, n_repeats) for case in make_cases(quick=quick) for call in CALLS]
    print_overheads(overheads)
    sizes = (10, 50, 100) if quick else (10, 200, 2000)
    memory = [weigh_in_fresh_process(call, n) for call in CALLS for n in sizes]
    print_memory(memory)
    growths = measure_growths(quick=quick)
    print_growths(growths)
    settings = {
        "seed": SEED,
        "quick": quick,
        "max_batch": MAX_BATCH,
        "n_background": N_BACKGROUND,
        "n_background_pns": N_BACKGROUND_PNS,
        "n_repeats": n_repeats,
        "n_threads": 1,
    }
    figures = {
        "overhead": [asdict(f) | {"verdict": f.verdict} for f in overheads],
        "memory_mb": [asdict(f) | {"net": f.net, "added": f.added} for f in memory],
        "growth": [asdict(f) for f in growths],
    }
    write_record(arguments.out, settings, figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--weigh"]:
        torch.set_num_threads(1)
        print(json.dumps(asdict(explain_and_weigh(sys.argv[2], int(sys.argv[3])))))
    else:
        main()
