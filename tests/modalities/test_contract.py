"""What explanations of every modality must do, whatever their inputs are."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import nn

import fans
from fans.modalities.presence import Pieces
from fans.modalities.registry import Modality, modalities
from fans.modalities.text.space import Text
from fans.spaces import GraphFeatures, GraphNodes, Image, Table


class Case(NamedTuple):
    """A model, a background, some inputs of which the first three are explained, and the space where one must say."""

    model: Any
    background: Any
    inputs: Any
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 5))
FEW = scipy.sparse.csr_array(np.where(RNG.random((30, 12)) < 0.4, RNG.random((30, 12)), 0))


def linear(x: Any) -> Any:
    return np.asarray(x)[:, 0] - 2 * np.asarray(x)[:, 3]


def on_sparse(x: Any) -> Any:
    return x[:, [1, 4, 5, 8]].sum(1)


class Net(nn.Module):
    """Two classes by where an image is bright."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x[..., :4].mean((1, 2, 3)), x[..., 4:].mean((1, 2, 3))
        return torch.stack([4 * left, 4 * right], 1)


class Bag(Pieces):
    """Words of a list, without a modality of its own."""

    modality = "bag"

    def pieces(self, x: Any) -> Any:
        return x

    def assemble(self, x: Any, kept: Any) -> Any:
        return [item for item, stays in zip(x, kept, strict=True) if stays]


def has_b(bags: Any) -> Any:
    return np.array([float("b" in bag) for bag in bags])


TEXTS = ["a weak film", "a great film, and a great cast", "dull", "the weak end"]


def has_weak(texts: Any) -> Any:
    return np.array([float("weak" in text) + 0.2 * text.count("a") for text in texts])


def bert() -> Case:
    from tests.modalities.text.tiny import module, tokenizer

    return Case(module(), TEXTS, TEXTS, {"space": Text(unit="token", tokenizer=tokenizer())})


def graph() -> Case:
    geometric = pytest.importorskip("torch_geometric.data")
    from torch_geometric.nn import GCNConv

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two = GCNConv(3, 8), GCNConv(8, 2)

        def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
            return self.two(self.one(x, edge_index, edge_weight).relu(), edge_index, edge_weight)

    edges = torch.from_numpy(RNG.integers(0, 12, (2, 30)))
    data = geometric.Data(
        x=torch.from_numpy(RNG.random((12, 3))).float(), edge_index=torch.cat([edges, edges.flip(0)], 1)
    )
    return Case(GCN(), data, [1, 4, 7, 9])


def frame() -> Case:
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(ROWS, columns=list("abcde")).assign(colour=np.where(ROWS[:, 1] > 0, "red", "blue"))
    rows.loc[3, "a"] = np.nan
    return Case(lambda x: x["a"].fillna(0) + (x["colour"] == "red"), rows, rows.iloc[:4])


CASES: dict[str, Callable[[], Case]] = {
    "array": lambda: Case(linear, ROWS, ROWS[:4]),
    "frame": frame,
    "groups": lambda: Case(linear, ROWS, ROWS[:4], {"space": Table(groups={"pair": [0, 1]})}),
    "sparse": lambda: Case(on_sparse, FEW, FEW[:4]),
    "image": lambda: Case(Net(), torch.rand(10, 1, 8, 8), torch.rand(4, 1, 8, 8)),
    "superpixels": lambda: Case(
        Net(), torch.rand(10, 1, 8, 8), torch.rand(4, 1, 8, 8), {"space": Image("superpixel", n_segments=6)}
    ),
    "edges": graph,
    "columns of nodes": lambda: graph()._replace(settings={"space": GraphFeatures()}),
    "nodes": lambda: graph()._replace(settings={"space": GraphNodes()}),
    "texts": lambda: Case(has_weak, TEXTS, ["a weak, weak film", "great 👩‍👩‍👧 and weak", "dull", "the end"]),
    "texts of tokens": bert,
    "pieces": lambda: Case(
        has_b, [["a", "b"], ["c"], ["b", "d", "e"]], [["a", "b", "c"], ["b", "a"], ["d"], ["b"]], {"space": Bag()}
    ),
}

FIELDS = ("scores", "subset", "direction", "stability", "pns", "pn", "ps", "interval", "prediction", "target")


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    torch.manual_seed(0)
    return CASES[request.param]()


def explain(case: Case, x: Any, **more: Any) -> fans.Explanation:
    ids = more.pop("ids", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.FansWarning)
        return fans.Explainer(case.model, case.background, effort="low", **case.settings, **more)(x, ids=ids)


def same(one: fans.Explanation, other: fans.Explanation, *, exactly: bool = True) -> None:
    """Compare what two explanations say of the features that inputs have; modules round by how many rows they get."""
    assert one.present.sum() == other.present.sum()
    for name in FIELDS:
        a, b = getattr(one, name), getattr(other, name)
        if a.shape == one.present.shape:
            a, b = a[one.present], b[other.present]
        if exactly:
            np.testing.assert_array_equal(a, b, err_msg=name)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6, err_msg=name)


def test_every_modality_is_here():
    """Those that register themselves in their own folders have a case, here or in a test of their own."""
    folders = {kind.__module__.rpartition(".")[2] for kind in modalities() if kind.__module__.startswith("fans.")}
    assert {"table", "image", "graph"} <= folders
    assert all(
        issubclass(kind, Modality) and kind.spaces for kind in modalities() if kind.__module__.startswith("fans.")
    )


def test_the_same_twice_and_whatever_the_batches(case):
    first = explain(case, case.inputs[:3])
    same(first, explain(case, case.inputs[:3]))
    same(first, explain(case, case.inputs[:3], max_batch=7), exactly=not isinstance(case.model, nn.Module))


def test_an_input_is_explained_as_it_is_alone(case):
    together = explain(case, case.inputs[:3], ids=["one", "two", "three"])
    same(together[1], explain(case, case.inputs[1:2], ids=["two"]), exactly=not isinstance(case.model, nn.Module))


def test_saved_and_loaded_sliced_and_joined(case, tmp_path):
    e = explain(case, case.inputs[:3])
    again = fans.load(e.save(tmp_path / "e.safetensors"))
    same(e, again)
    assert str(again) == str(e)
    assert again.details == {k: tuple(map(_listed, v)) for k, v in e.details.items()}
    for i, one in enumerate(e):
        assert one.sentences == e.sentences[i : i + 1]
        assert one.chosen_names() == e.chosen_names(i)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_it_can_be_read(case, tmp_path):
    e = explain(case, case.inputs[:3])
    for i in range(len(e)):
        names = [e.name(i, int(f)) for f in np.flatnonzero(e.present[i])]
        assert all(names)
        assert set(e.chosen_names(i)) <= set(names)
        assert e.title(i)
    frame = e.to_frame()
    assert len(frame) == e.present.sum()
    assert len(str(e).splitlines()) >= len(e)
    assert "<div" in e._repr_html_()
    page = e.to_html(tmp_path / "e.html").read_text()
    assert all(title in page for title in map(e.title, range(len(e))))
    pytest.importorskip("matplotlib")
    e.plot(tmp_path / "e.png")
    assert (tmp_path / "e.png").stat().st_size > 1000


def test_shares_are_shares_and_absent_features_have_nothing(case):
    e = explain(case, case.inputs[:3])
    for name in ("pns", "changes", "holds", "stability"):
        values = getattr(e, name)
        values = values[e.present] if values.shape == e.present.shape else values
        values = values[~np.isnan(values)]
        assert ((values >= 0) & (values <= 1)).all(), name
    assert not e.subset[~e.present].any()
    assert not e.scores[~e.present].any()


def test_the_users_own_subset(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fans.FansWarning)
        explainer = fans.Explainer(case.model, case.background, effort="low", **case.settings)
        e = explainer(case.inputs[:1])
        found = explainer.score(case.inputs[:1], e.subset)
    assert found.pns.shape == (1,)
    if e.subset.any():
        assert found.pns[0] == pytest.approx(e.pns[0], abs=0.35)  # other draws
