"""What a report says that a run was made by: the command is the one that makes it again."""

import pytest

from fans.runs import Cell, Result, Run
from fans.studies.base import Size
from fans.studies.made_by import facts

SIZES: dict[Size, dict[str, int]] = {
    "quick": {"a": 1, "b": 1},
    "default": {"a": 4, "b": 2},
    "full": {"a": 8, "b": 8},
}


def made(folder, **n: int) -> Run:
    """A run of so many inputs of each dataset."""
    cells = [Cell({"dataset": name, "method": "M", "shard": [0, most], "seed": 0}) for name, most in n.items()]
    run = Run.create(folder, {"kind": "table", "study": "mine", "search": False, "about": {}}, cells)
    run.work(lambda cell: Result({"x": [0.0] * len(cell.inputs)}, 5))
    return run


@pytest.mark.parametrize(
    ("n", "command"),
    [
        ({"a": 4, "b": 2}, "fans run mine"),
        ({"a": 1, "b": 1}, "fans run mine --quick"),
        ({"a": 8, "b": 8}, "fans run mine --full"),
        ({"a": 5, "b": 5}, "fans run mine --n 5"),
        ({"b": 2}, "fans run mine --only b"),
        ({"a": 4, "b": 64}, "fans run mine --only a; fans run mine --n 64 --only b"),
    ],
)
def test_the_command_of_datasets(tmp_path, n, command):
    found = facts(made(tmp_path / "run", **n), {"a": "A"}, SIZES)
    assert found["Command"] == command
    assert found["Model rows"] == str(5 * len(n))


@pytest.mark.parametrize(
    ("n", "counts", "command"),
    [
        ({"a": 4, "b": 2}, {"A, slow": 4, "A, fast": 2}, "fans run mine"),
        ({"a": 4}, {"A, slow": 4}, "fans run mine --only a"),
        ({"a": 3, "b": 3}, {"A, slow": 3, "A, fast": 3}, "fans run mine --n 3"),
    ],
)
def test_the_command_where_a_dataset_is_explained_in_several_ways(tmp_path, n, counts, command):
    sizes: dict[Size, dict[str, int]] = {"default": {"A, slow": 4, "A, fast": 2}, "quick": {"A, slow": 1, "A, fast": 1}}
    found = facts(made(tmp_path / "run", **n), {"a": "A", "b": "B"}, sizes, counts)
    assert found["Command"] == command
    assert found["Inputs"] == "; ".join(f"{name}: {most}" for name, most in counts.items())
