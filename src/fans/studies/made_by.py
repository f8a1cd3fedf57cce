"""What a run was made by, in words for a report: command, inputs, seed, time, processor and versions."""

from collections import defaultdict
from collections.abc import Mapping

from fans.report.tables import listed
from fans.runs import Ledger, Record
from fans.studies.base import Size


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
    return {
        "Command": "; ".join(_commands(run, n, sizes or {}, of_datasets=counts is None)),
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


def _commands(
    run: Ledger, n: Mapping[str, int], sizes: Mapping[Size, Mapping[str, int]], *, of_datasets: bool
) -> list[str]:
    """Return what makes the same run again: a command for each size, or else number, of inputs."""
    start = f"fans run {run.plan['study']}"
    if run.plan["search"]:
        return [f"{start} --tune"]
    ways: dict[str, list[str]] = defaultdict(list)
    for name, most in n.items():
        known = [size for size in ("default", "quick", "full") if sizes.get(size, {}).get(name) == most]
        option = {"default": "", "quick": " --quick", "full": " --full"}[known[0]] if known else f" --n {most}"
        ways[option].append(name)
    if len(ways) == 1:
        some = of_datasets and sizes.get("default", {}).keys() > n.keys()
        return [start + option + (f" --only {' '.join(n)}" if some else "") for option in ways]
    if not of_datasets:
        whole = [size for size in sizes if all(sizes[size].get(name) == most for name, most in n.items())]
        return [start + (f" --{whole[0]}" if whole and whole[0] != "default" else "")]
    return [f"{start} --only {' '.join(names)}{option}" for option, names in ways.items()]


def _versions(records: list[Record]) -> str:
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for name, version in record.circumstances["versions"].items():
            found[name].add(str(version))
    return ", ".join(f"{name} {listed(sorted(versions), 'and')}" for name, versions in sorted(found.items()))
