"""Inputs come out of PIL images, datasets and loaders as they went in, and what is left aside is said."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import fans
from fans.modalities.containers import unpacked

ROWS = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 3))).float()
LABELS = torch.arange(20) % 2
PLAIN: dict[str, Any] = {"n_walk_rows": 40, "n_local": 9}


def difference(rows: Any) -> Any:
    return rows[:, 0] - rows[:, 1]


class Listed(Dataset[Any]):
    """Entries from a list."""

    def __init__(self, entries: list[Any]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Any:
        return self.entries[i]


class Endless(IterableDataset[Any]):
    """Numbers without an end."""

    def __iter__(self) -> Any:
        while True:
            yield torch.zeros(2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (TensorDataset(ROWS), None),
        (
            TensorDataset(ROWS, LABELS),
            "Took the first of the things that the TensorDataset given as x holds, and left ",
        ),
        (TensorDataset(ROWS, LABELS, LABELS), "and left the others aside; to explain the classes of the labels pass"),
        (Subset(TensorDataset(ROWS), range(20)), None),
        (DataLoader(TensorDataset(ROWS), batch_size=6), None),
        (DataLoader(TensorDataset(ROWS, LABELS), batch_size=6), "the DataLoader given as x holds, and left the second"),
        (DataLoader(Listed(list(ROWS)), batch_size=7), None),
        (
            Listed([{"x": row, "y": 1} for row in ROWS]),
            "Took `x` of the dictionaries that the Listed .* left `y` aside",
        ),
        (Listed([{"mine": row} for row in ROWS]), None),
        (DataLoader(Listed([{"mine": row, "y": 1} for row in ROWS[:1]] * 20)), None),
    ],
)
def test_inputs_of_datasets_and_loaders_are_those_they_hold(given, said, recwarn):
    loads_one = isinstance(given, DataLoader) and given.batch_size == 1
    if loads_one:  # two tensors in a batch: what is meant is not told
        with pytest.raises(
            fans.InputError, match="Expected a dataset that says what its inputs are in x, got entries of"
        ):
            unpacked(given, "x")
        return
    found = unpacked(given, "x")
    assert torch.equal(found, ROWS)
    told = [str(one.message) for one in recwarn]
    assert len(told) == (said is not None)
    if said is not None:
        with pytest.warns(fans.FansWarning, match=said):
            unpacked(given, "x")


def test_explanations_of_a_dataset_are_those_of_its_rows():
    """Background and inputs alike, in an explanation and in `fans.pns`."""
    data = TensorDataset(ROWS)
    plain, found = fans.Explainer(difference, ROWS, **PLAIN)(ROWS[:4]), fans.Explainer(difference, data, **PLAIN)
    again = found(DataLoader(Subset(data, range(4)), batch_size=3))
    np.testing.assert_array_equal(plain.scores, again.scores)
    np.testing.assert_array_equal(plain.pns, again.pns)
    asked: dict[str, Any] = {"subset": ["x1"], "radius": 2.0}
    one = fans.pns(difference, Subset(data, [0]), background=data, **asked)
    np.testing.assert_array_equal(one.pns, fans.pns(difference, ROWS[:1], background=ROWS, **asked).pns)


def test_a_loader_that_shuffles_is_told_of_and_draws_the_same_each_time():
    loader, before = DataLoader(TensorDataset(ROWS), shuffle=True), torch.get_rng_state()
    with pytest.warns(fans.FansWarning, match="shuffles, so that inputs are numbered in an order of its own"):
        one, other = unpacked(loader, "x"), unpacked(loader, "x")
    assert torch.equal(one, other)
    assert torch.equal(one.sort(0).values, ROWS.sort(0).values)
    assert torch.equal(torch.get_rng_state(), before)


def test_texts_of_a_dataset_are_a_list_of_them():
    texts = ["a dog", "a cat", "a cow"]
    assert unpacked(Listed(texts), "x") == texts
    with pytest.warns(fans.FansWarning, match="left the second aside"):
        assert unpacked(DataLoader(Listed([(text, 1) for text in texts]), batch_size=2), "x") == texts
    assert unpacked(DataLoader(Listed(texts), batch_size=2), "x") == texts


def test_datasets_of_graphs_stay_what_they_are():
    data = pytest.importorskip("torch_geometric.data")
    from torch_geometric.loader import DataLoader as Loader

    graphs = [data.Data(x=torch.ones(3, 2) * i, edge_index=torch.tensor([[0, 1], [1, 2]])) for i in range(3)]
    listed = Listed(graphs)
    assert unpacked(listed, "x") is listed
    again = unpacked(Loader(graphs, batch_size=2), "x")
    assert [float(graph.x[0, 0]) for graph in again] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Listed([]), "Expected inputs in x, got the Listed without any"),
        (DataLoader(Listed([torch.zeros(2)]), batch_size=2, drop_last=True), "got the DataLoader without any"),
        (Listed([torch.zeros(2), torch.zeros(3)]), r"Expected inputs of one shape in x, got \(2,\) and \(3,\); resize"),
        (Endless(), r"Expected at most 100,000 inputs in x, got the Endless of more; take some: torch\.utils\.data"),
        (Listed([{"a": torch.zeros(2), "b": torch.zeros(2)}]), "got entries of a, b; pass the inputs alone"),
    ],
)
def test_what_cannot_be_read_is_refused(given, sentence):
    with pytest.raises(fans.InputError, match=sentence):
        unpacked(given, "x")


# --- Images of PIL ---------------------------------------------------------------------------------------------------


def pictures(n: int = 8, mode: str = "RGB", size: tuple[int, int] = (8, 6), seed: int = 0) -> list[Any]:
    image = pytest.importorskip("PIL.Image")
    numbers = np.random.default_rng(seed).integers(0, 256, (n, size[1], size[0], 3), dtype=np.uint8)
    return [image.fromarray(one).convert(mode) for one in numbers]


def test_pictures_are_their_bytes():
    given = pictures()
    np.testing.assert_array_equal(unpacked(given, "x"), np.stack([np.asarray(one) for one in given]))
    assert unpacked(given[0], "x").shape == (1, 6, 8, 3)
    assert unpacked(pictures(mode="L"), "x").shape == (8, 6, 8)
    palette = given[0].convert("P")
    np.testing.assert_array_equal(unpacked([palette], "x")[0], np.asarray(palette.convert("RGB")))
    assert unpacked(pictures(mode="1"), "x").max() == 255
    with pytest.warns(fans.FansWarning, match="left the second aside"):
        assert unpacked(Listed([(one, 1) for one in given]), "x").shape == (8, 6, 8, 3)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"mode": "L"}, "Expected images of one size and mode in x, got L of 8 x 6 and RGB of 8 x 6; prepare them"),
        ({"size": (8, 9)}, "got RGB of 8 x 6 and RGB of 8 x 9"),
    ],
)
def test_pictures_that_differ_are_refused(others, sentence):
    with pytest.raises(fans.InputError, match=sentence):
        unpacked(pictures() + pictures(1, **others), "x")
    with pytest.raises(fans.InputError, match="Expected images of PIL alone in x, got str among them"):
        unpacked([*pictures(), "a"], "x")
