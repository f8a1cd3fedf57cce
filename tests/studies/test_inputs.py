"""Inputs that are reported, chosen on and confirmed on: no input serves two purposes."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from fans.datasets import load_graph
from fans.errors import InputError
from fans.studies import Dataset, load, tables
from fans.studies.graphs import nodes_in_order

DATASETS = [dataset for name in tables() for dataset in load(name).datasets]


def made(**changes: Any) -> Dataset:
    given: dict[str, Any] = {"n": 4, "tuning": [10, 12], "development": [8, 14], "check": [20, 23]}
    return Dataset("d", "D", "d", shard=2, n_background=0, **given | changes)


def test_each_purpose_has_its_inputs():
    dataset = made()
    assert dataset.positions("reported") == range(4)
    assert dataset.positions("reported", 8) == range(8)
    assert dataset.positions("tuning") == range(10, 12)
    assert dataset.positions("development") == range(8, 14)
    assert dataset.positions("check", 1) == range(20, 21)
    assert made(development=None).positions("development") == range(10, 12)


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_no_input_of_ours_serves_two_purposes(dataset):
    parts = [set(dataset.positions(part)) for part in ("reported", "development", "check")]
    assert all(parts)
    assert not any(one & other for one, other in itertools.combinations(parts, 2))
    assert set(dataset.positions("tuning")) <= parts[1]


@pytest.mark.usefixtures("full_data")
@pytest.mark.parametrize("name", ["citeseer", "pubmed"])
def test_there_are_as_many_nodes(name):
    assert len(nodes_in_order(load_graph(name))) >= load("table2").dataset(name).positions("check").stop


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"n": 9},
            r"of d that serve one purpose each, got \[0, 9\) as reported ones and \[8, 14\) as development ones",
        ),
        ({"check": [3, 5]}, r"got \[0, 4\) as reported ones and \[3, 5\) as check ones, which overlap; move one"),
        ({"check": [13, 15]}, r"got \[8, 14\) as development ones and \[13, 15\) as check ones"),
        ({"tuning": [13, 15]}, r"`tuning` of d within its `development`, got \[13, 15\) and \[8, 14\)"),
        ({"check": [5, 5]}, r"`check` of d as its first input and the one after its last, e.g. .*, got \[5, 5\]"),
        ({"tuning": 7}, r"`tuning` of d as its first input and .*, got 7"),
        ({"n": 0}, "`n of d` as a whole number of at least 1, got 0"),
    ],
)
def test_what_overlaps_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        made(**changes)


def test_it_is_refused_when_the_file_is_read(tmp_path):
    own = tmp_path / "own.yaml"
    entries = "label: M, model: mnist, n: 200, shard: 50, n_background: 10"
    own.write_text(f"extends: table1\ndatasets:\n  mnist: {{{entries}, tuning: [100, 300]}}\n")
    with pytest.raises(InputError, match=r"inputs of mnist .* \[0, 200\) as reported ones and \[100, 300\) as dev"):
        load(own)


def test_no_more_are_given_than_there_are():
    with pytest.raises(InputError, match=r"at most 8 inputs of d as reported ones, others serving another.*, got 9"):
        made().positions("reported", 9)
    with pytest.raises(InputError, match=r"at most 3 inputs of d as check ones, .* got 4"):
        made().positions("check", 4)
    with pytest.raises(InputError, match=r"a purpose of inputs of d to be one of 'reported', .* got 'check'"):
        made(check=None).positions("check")


def test_no_benchmark_names_test_images_by_number():
    """They ask the experiment for the inputs that choices may be made on."""
    texts = {path.name: path.read_text() for path in (Path(__file__).parents[2] / "benchmarks").glob("*.py")}
    asking = {name: text for name, text in texts.items() if "load_images(" in text}
    assert set(asking) == {"choices.py", "findings.py", "irof.py"}
    for name, text in asking.items():
        assert "positions(" in text, name
        assert not re.findall(r"\b[4-9],?\d{3}\b", text), name
