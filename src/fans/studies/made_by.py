"""What a run was made by, in words for a report: command, inputs, seed, time, processor and versions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fans.report.tables import listed
from fans.runs import Ledger, Record
from fans.studies.base import Size

OPTIONS: Mapping[Size, str] = {"default": "", "quick": " --quick", "full": " --full"}
"""What asks for each size."""


def facts(
    run: Ledger,
    labels: Mapping[str, str] | None = None,
    sizes: Mapping[Size, Mapping[str, int]] | None = None,
    counts: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Return facts by name, all from the run's plan and records.

    Args:
        run: of a study.
        labels: of its datasets, where they have any.
        sizes: how many inputs of each dataset each size of the study asks for, so that the command can name a size.
        counts: inputs by other names than those of datasets, where a dataset is explained in several ways; `sizes`
            has the same names then.
    """
    records = run.records()
    if not records:
        return {"Cells": f"0 of {len(run.cells)} done"}
    n = _inputs(records) if counts is None else counts
    seconds = sum(record.circumstances["seconds"] for record in records)
    days = sorted(str(record.circumstances.get("finished_at", ""))[:10] for record in records)
    processors = {str(record.circumstances.get("processor", "one not recorded")) for record in records}
    seeds = sorted({str(record.facts["seed"]) for record in records})
    of_datasets = counts is None
    commands = _commands(run, n, sizes or {}) if of_datasets else [_command(run, labels or {}, n, sizes or {})]
    return {
        "Command": "; ".join(commands),
        "Inputs": "; ".join(f"{(labels or {}).get(name, name)}: {most:,}" for name, most in n.items()),
        "Seed": ", ".join(seeds),
        "Cells": f"{len(records):,} of {len(run.cells):,} done",
        "Model rows": f"{sum(record.facts['evaluations'] for record in records):,}",
        "Computing time": f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min",
        "Finished": " to ".join(dict.fromkeys([days[0], days[-1]])),
        "Processor": "; ".join(sorted(processors)),
        "Versions": _versions(records),
    }


def _inputs(records: list[Record]) -> dict[str, int]:
    """Return how many inputs of each dataset there are records of."""
    seen: dict[str, set[int]] = defaultdict(set)
    for record in records:
        spec = record.spec
        seen[str(spec.get("dataset", ""))] |= set(range(*spec["shard"])) if "shard" in spec else set()
    return {name: len(inputs) for name, inputs in seen.items()}


def _commands(run: Ledger, n: Mapping[str, int], sizes: Mapping[Size, Mapping[str, int]]) -> list[str]:
    """Return what makes the same run again: a command for each size, or else number, of inputs."""
    start = _start(run)
    if run.plan["search"]:
        return [f"{start} --tune"]
    ways: dict[str, list[str]] = defaultdict(list)
    for name, most in n.items():
        ways[_option([size for size in OPTIONS if sizes.get(size, {}).get(name) == most], most)].append(name)
    if len(ways) == 1 and not sizes.get("default", {}).keys() > n.keys():
        return [start + option for option in ways]
    return [f"{start}{option} --only {' '.join(names)}" for option, names in ways.items()]


def _command(
    run: Ledger, labels: Mapping[str, str], n: Mapping[str, int], sizes: Mapping[Size, Mapping[str, int]]
) -> str:
    """Return what makes the same run again, where its counts are not by dataset: of which datasets its cells tell."""
    known = [size for size in OPTIONS if n.items() <= sizes.get(size, {}).items()]
    datasets = dict.fromkeys(str(cell.spec["dataset"]) for cell in run.cells)
    only = f" --only {' '.join(datasets)}" if labels.keys() > datasets.keys() else ""
    return _start(run) + _option(known, max(n.values())) + only


def _option(sizes: Sequence[Size], most: int) -> str:
    """Return the option for the first of some sizes, or for so many inputs where none fits."""
    return OPTIONS[sizes[0]] if sizes else f" --n {most}"


def _start(run: Ledger) -> str:
    return f"fans run {run.plan['study']}"


def _versions(records: list[Record]) -> str:
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for name, version in record.circumstances["versions"].items():
            found[name].add(str(version))
    return ", ".join(f"{name} {listed(sorted(versions), 'and')}" for name, versions in sorted(found.items()))
