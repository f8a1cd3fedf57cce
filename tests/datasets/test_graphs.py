"""Graphs: files are read as PyTorch Geometric reads them, nothing in them is executed; the generator makes more."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from fans import cli
from fans.datasets import fetch_graph, graphs, load_graph, make_ba_community
from fans.datasets import files as _shared
from fans.datasets.files import File
from fans.datasets.graphs import SLICES, Citeseer, Graph, _barabasi_albert, geometric, unpickle
from fans.errors import FansError, InputError, MissingExtra

FOLDERS = {"citeseer": "CiteSeer", "pubmed": "PubMed"}
PARTS = ("allx", "ally", "graph", "test.index", "tx", "ty", "x", "y")


def same(a: Graph, b: Graph) -> bool:
    names = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names) and a.classes == b.classes


@pytest.mark.usefixtures("full_data")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_papers_as_pytorch_geometric_reads_them(name, tmp_path):
    geometric("an oracle")
    from torch_geometric.datasets import Planetoid

    raw = Path(os.environ["FANS_DATA"]) / "planetoid" / FOLDERS[name] / "raw"
    (tmp_path / FOLDERS[name] / "raw").mkdir(parents=True)
    for path in raw.iterdir():
        shutil.copyfile(path, tmp_path / FOLDERS[name] / "raw" / path.name)
    for split, theirs in (("planetoid", "public"), ("larger", "full")):
        ours, expected = load_graph(name, split).data(), Planetoid(str(tmp_path), FOLDERS[name], split=theirs)[0]
        assert sorted(ours.keys()) == sorted(expected.keys())
        for key in ours.keys():  # noqa: SIM118 - a Data is no dictionary
            assert ours[key].dtype == expected[key].dtype, key
            assert torch.equal(ours[key], expected[key]), key
        assert ours.is_undirected()
        assert not ours.has_self_loops()


def array(values, code):
    """An array as Python 2 pickled it."""
    values = np.asarray(values, code)
    shape = "".join(f"I{n}\n" for n in values.shape)
    raw = repr(values.tobytes())[1:]
    return (
        f"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n({shape}t"
        f"cnumpy\ndtype\n(S'{code}'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS{raw}\ntb"
    )


def sparse(values):
    """A matrix as scipy did."""
    values = np.asarray(values)
    rows, columns = np.nonzero(values)
    starts = np.searchsorted(rows, np.arange(len(values) + 1))
    parts = {"data": (values[rows, columns], "f4"), "indices": (columns, "i4"), "indptr": (starts, "i4")}
    held = "".join(f"S'{name}'\n{array(*part)}s" for name, part in parts.items())
    shape = "".join(f"I{n}\n" for n in values.shape)
    return f"cscipy.sparse.csr\ncsr_matrix\n)\x81(d{held}S'_shape'\n({shape}tsb"


def lists(neighbours):
    """Lists of neighbours as they were."""
    held = "".join(f"I{node}\n(l{''.join(f'I{end}' + chr(10) + 'a' for end in ends)}s" for node, ends in neighbours)
    return f"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR{held}"


@pytest.fixture
def papers(no_data, monkeypatch):
    """Six papers in the place of Citeseer: 0 to 2 in `allx`, tested 5 and 3, and 4, of which nothing is known."""
    monkeypatch.setattr(Citeseer, "n_val", 1)
    monkeypatch.setattr(graphs, "SLICES", no_data)  # nothing comes with the package
    return put(
        no_data,
        monkeypatch,
        {
            "allx": sparse([[1, 0, 1], [0, 0, 0], [0, 1, 0]]),
            "ally": array([[0, 1], [1, 0], [0, 1]], "i4"),
            "graph": lists([(0, [1, 2, 2, 0]), (1, [0]), (2, [0, 5]), (5, [2]), (3, []), (4, [4])]),
            "test.index": "5\n3\n",
            "tx": sparse([[1, 1, 1], [0, 0, 1]]),
            "ty": array([[0, 1], [1, 0]], "i4"),
            "x": sparse([[1, 0, 1]]),
            "y": array([[0, 1]], "i4"),
        },
    )


def put(folder, monkeypatch, content):
    """Write the files and take their checksums for the known ones; return where they lie."""
    raw = folder / "planetoid/CiteSeer/raw"
    raw.mkdir(parents=True, exist_ok=True)
    known = []
    for part, text in content.items():
        whole = (text + ("" if part == "test.index" else ".")).encode("latin1")
        (raw / f"ind.citeseer.{part}").write_bytes(whole)
        known.append(File(f"planetoid/CiteSeer/raw/ind.citeseer.{part}", hashlib.sha256(whole).hexdigest()))
    monkeypatch.setattr(Citeseer, "files", tuple(known))
    return raw


@pytest.mark.usefixtures("papers")
def test_papers_by_hand():
    found = load_graph("citeseer")
    assert found.x.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1]]
    assert found.edge_index.tolist() == [[1, 2, 0, 0, 5, 2], [0, 0, 1, 2, 2, 5]]
    assert found.y.tolist() == [1, 0, 1, 0, 0, 1]
    assert np.flatnonzero(found.train_mask).tolist() == [0]
    assert np.flatnonzero(found.val_mask).tolist() == [1]
    assert np.flatnonzero(found.test_mask).tolist() == [3, 5]
    assert [str(v.dtype) for v in (found.x, found.edge_index, found.y)] == ["float32", "int64", "int64"]
    larger = load_graph("citeseer", "larger")
    assert np.flatnonzero(larger.train_mask).tolist() == [0, 2, 4]
    assert np.array_equal(larger.test_mask, found.test_mask)
    assert len(larger) == 6


def test_weighted_words_stay_as_they_are(papers, no_data, monkeypatch):
    parts = {part: (papers / f"ind.citeseer.{part}").read_text("latin1").removesuffix(".") for part in PARTS}
    put(no_data, monkeypatch, parts | {"tx": sparse([[0.5, 0, 0], [0, 0.25, 1]])})
    assert load_graph("citeseer").x[[5, 3]].tolist() == [[0.5, 0, 0], [0, 0.25, 1]]


@pytest.mark.parametrize("order", ["cos\nsystem\n(S'touch {}'\ntR", 'c__builtin__\neval\n(S\'open("{}", "w")\'\ntR'])
def test_a_malicious_pickle_is_refused_unexecuted(papers, no_data, monkeypatch, tmp_path, order):
    """Even where its checksum is a known one."""
    touched = tmp_path / "touched"
    parts = {part: (papers / f"ind.citeseer.{part}").read_text("latin1").removesuffix(".") for part in PARTS}
    put(no_data, monkeypatch, parts | {"graph": order.format(touched)})
    with pytest.raises(InputError, match=r"arrays, lists and dictionaries, got one that asks for (os.system|.*eval)"):
        load_graph("citeseer")
    assert not touched.exists()
    assert not (no_data / "planetoid/citeseer.npz").exists()


def test_another_file_is_not_even_unpickled(papers, monkeypatch):
    path = papers / "ind.citeseer.allx"
    raw = path.read_bytes() + b"?"
    monkeypatch.setattr(graphs, "_Restricted", None)
    with pytest.raises(InputError, match=rf"allx with sha256 .*, got {hashlib.sha256(raw).hexdigest()}; delete it"):
        unpickle(raw, Citeseer.files[0])
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"ind.citeseer.allx with sha256 .*; delete it"):
        load_graph("citeseer")


def forbid(*_):
    raise AssertionError("unpickled again")


def test_files_are_unpickled_once(papers, no_data, monkeypatch):
    first = load_graph("citeseer")
    kept = no_data / "planetoid/citeseer.npz"
    with monkeypatch.context() as patch:
        patch.setattr(graphs, "unpickle", forbid)
        assert same(load_graph("citeseer"), first)
    whole = kept.read_bytes()
    with np.load(kept) as file:
        arrays = dict(file)
    np.savez(kept, **arrays | {"y": arrays["y"][::-1]})
    changed = kept.read_bytes()
    for damage in (whole[:-30], whole[: len(whole) // 2], b"", b"?", changed):
        kept.write_bytes(damage)
        assert same(load_graph("citeseer"), first)
        assert kept.read_bytes() == whole, "made anew"
    parts = {part: (papers / f"ind.citeseer.{part}").read_text("latin1").removesuffix(".") for part in PARTS}
    put(no_data, monkeypatch, parts | {"test.index": "3\n5\n"})
    assert load_graph("citeseer").y.tolist() == [1, 0, 1, 1, 0, 0], "other files, another conversion"


@pytest.mark.usefixtures("papers")
def test_a_conversion_that_cannot_be_kept(no_data, monkeypatch, tmp_path):
    first = load_graph("citeseer")
    monkeypatch.setenv("FANS_DATA", str(no_data))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert same(load_graph("citeseer"), first)


@pytest.mark.usefixtures("full_data")
def test_what_comes_with_the_package_is_the_original(monkeypatch):
    original = load_graph("citeseer"), load_graph("ba_community")
    monkeypatch.delenv("FANS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    assert same(load_graph("citeseer"), original[0])
    assert same(load_graph("ba_community"), original[1])


@pytest.mark.usefixtures("no_data")
def test_what_comes_with_the_package():
    papers = load_graph("citeseer", download=True)  # nothing is missing
    assert papers.x.shape == (3327, 3703)
    assert papers.edge_index.shape == (2, 9104)
    assert np.bincount(papers.y).tolist() == [249 + 15, 590, 668, 701, 596, 508]
    assert [m.sum() for m in (papers.train_mask, papers.val_mask, papers.test_mask)] == [120, 500, 1000]
    assert load_graph("citeseer", "larger").train_mask.sum() == 3327 - 1500
    assert papers.truth is papers.motif is None
    houses = load_graph("ba_community")
    assert (len(houses), len(houses.classes)) == (1400, 8)
    for name in ("ba_community", "citeseer"):
        assert (SLICES / f"{name}.npz").stat().st_size < 200_000


def test_a_damaged_package(no_data, monkeypatch):
    no_data.mkdir(parents=True)
    monkeypatch.setattr(graphs, "SLICES", no_data)
    for name in ("citeseer", "ba_community"):
        (no_data / f"{name}.npz").write_bytes((SLICES / f"{name}.npz").read_bytes()[:-9])
    with pytest.raises(FansError, match=r"Expected the graph .* got .*citeseer.npz, damaged; install fans anew"):
        load_graph("citeseer")
    with pytest.raises(InputError, match=r"ba_community.npz with sha256 8631797"):
        load_graph("ba_community")


def test_pubmed_is_not_downloaded_unasked(no_data):
    with pytest.raises(InputError) as caught:
        load_graph("pubmed")
    for word in (
        "PubMed/raw/ind.pubmed.allx",
        "FANS_DATA (not set)",
        str(no_data),
        "fans data pubmed",
        "download=True",
    ):
        assert word in str(caught.value)


def test_fetching(no_data, monkeypatch):
    asked = []

    def fetch(url, path, digest):
        asked.append((url, digest))
        return path

    monkeypatch.setattr(_shared, "fetch", fetch)
    found = fetch_graph("citeseer")
    assert found == [no_data / f"planetoid/CiteSeer/raw/ind.citeseer.{part}" for part in PARTS]
    home = "https://github.com/kimiyoung/planetoid/raw/master/data/"
    assert asked == [(home + path.name, file.sha256) for path, file in zip(found, Citeseer.files, strict=True)]
    fetch_graph("pubmed", home="http://mirror/")
    assert asked[-1][0] == "http://mirror/ind.pubmed.y"


@pytest.mark.usefixtures("no_data")
def test_the_commands(capsys):
    assert cli.main(["data", "ba_community"]) == 0
    assert capsys.readouterr().out == f"ba_community: {SLICES / 'ba_community.npz'}\n"
    assert cli.main(["list", "datasets"]) == 0
    out = capsys.readouterr().out
    assert "ba_community   8 classes" in out
    assert "mnist " in out
    assert cli.main(["data", "pubmde"]) == 1
    assert "got 'pubmde'; did you mean 'pubmed'" in capsys.readouterr().err


def test_names_and_splits_are_checked():
    with pytest.raises(InputError, match="'ba_community', 'citeseer', 'pubmed', got 'cora'"):
        load_graph("cora")
    with pytest.raises(
        InputError, match="`split` to be one of 'planetoid', 'larger', got 'large'; did you mean 'larger'"
    ):
        load_graph("citeseer", "large")
    with pytest.raises(InputError, match="`split` to be one of 'published', got 'larger'"):
        load_graph("ba_community", "larger")


def test_a_graph_as_data(monkeypatch):
    made = make_ba_community()
    data = made.data()
    assert data.num_nodes == 1400
    assert data.is_undirected()
    for name in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask", "truth", "motif"):
        assert np.array_equal(data[name].numpy(), getattr(made, name))
    x, edges = made.tensors()
    assert torch.equal(x, data.x)
    assert torch.equal(edges, data.edge_index)
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingExtra, match=r"torch_geometric for a graph as `Data`.*pip install 'fans\[graph\]'"):
        made.data()


def facts(graph: Graph) -> dict[str, object]:
    """What the published BA-Community and ours have in common."""
    start, end = graph.edge_index
    assert graph.truth is not None
    assert graph.motif is not None
    side, base = np.arange(1400) // 700, graph.motif < 0
    within = side[start] == side[end]
    houses = np.stack([start, end])[:, graph.truth]
    links = {(300 + 700 * s + 5 * k, 700 * s + 3 * k) for s in (0, 1) for k in range(80)}
    return {
        "edges": graph.edge_index.shape,
        "in order": bool((np.diff(start * 1400 + end) > 0).all()),
        "both ways": set(zip(start, end, strict=True)) == set(zip(end, start, strict=True)),
        "loops": int((start == end).sum()),
        "classes": np.bincount(graph.y).tolist(),
        "order of classes": graph.y[[0, 299, 300, 301, 302, 303, 304, 699, 700, 1000, 1002, 1399]].tolist(),
        "masks": [int(m.sum()) for m in (graph.train_mask, graph.val_mask, graph.test_mask)],
        "covered": bool((graph.train_mask.astype(int) + graph.val_mask + graph.test_mask == 1).all()),
        "houses": np.bincount(graph.motif[~base]).tolist(),
        "order of houses": graph.motif[[0, 299, 300, 304, 305, 699, 700, 999, 1000, 1399]].tolist(),
        "edges of houses": np.bincount(graph.motif[houses[0]], minlength=160).tolist(),
        "inside": bool((graph.motif[houses[0]] == graph.motif[houses[1]]).all()),
        "shape of houses": sorted(set(zip(*(houses % 5).tolist(), strict=True))),
        "links": links <= set(zip(start.tolist(), end.tolist(), strict=True)),
        "by community": [int((within & (side[start] == s)).sum()) // 2 for s in (0, 1)],
        "between": int((~within).sum()) // 2,
        "connected": nx.is_connected(nx.from_edgelist(graph.edge_index.T.tolist())),
        "types": [str(v.dtype) for v in (graph.x, graph.edge_index, graph.y, graph.truth, graph.motif)],
        "features": graph.x.shape,
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_the_generator_makes_what_was_published(seed):
    published, made = load_graph("ba_community"), make_ba_community(seed)
    assert facts(made) == facts(published)
    assert facts(made)["edges"] == (2, 8920)
    assert made.truth is not None
    assert made.truth.sum() == 1920
    assert not np.array_equal(made.edge_index, published.edge_index)


def test_the_features_of_the_generator():
    x = np.stack([make_ba_community(seed).x for seed in range(30)]).reshape(30, 2, 700, 10)
    expected = np.zeros((2, 10))
    expected[:, :2] = [[-1, -1], [1, 1]]
    variance = np.array([0.5] * 2 + [1.0] * 8)
    n = 30 * 700
    assert np.abs((x.mean((0, 2)) - expected) / np.sqrt(variance / n)).max() < 4.5
    assert np.abs((x.var((0, 2)) / variance - 1) / np.sqrt(2 / n)).max() < 4.5
    published = load_graph("ba_community").x.reshape(2, 700, 10)
    assert np.abs((published.mean(1) - expected) / np.sqrt(variance / 700)).max() < 4
    assert np.abs((published.var(1) / variance - 1) / np.sqrt(2 / 700)).max() < 4


def test_the_generator_follows_its_seed():
    assert same(make_ba_community(7), make_ba_community(7))
    assert not np.array_equal(make_ba_community(7).x, make_ba_community(8).x)
    assert not np.array_equal(make_ba_community(7).edge_index, make_ba_community(8).edge_index)


def test_graphs_grow_as_networkx_lets_them():
    """Degrees of 200 graphs: the largest, and the mean of squares, which preferential attachment makes large."""

    def spread(edges):
        degrees = np.bincount(np.asarray(edges).ravel(), minlength=300)
        return degrees.max(), np.square(degrees).mean()

    grown = [_barabasi_albert(300, 5, np.random.default_rng(seed)) for seed in range(200)]
    assert {edges.shape for edges in grown} == {(1475, 2)}
    assert all(len({tuple(edge) for edge in edges.tolist()}) == 1475 for edges in grown)
    ours = np.array([spread(edges) for edges in grown])
    theirs = np.array([spread(nx.barabasi_albert_graph(300, 5, seed=seed).edges) for seed in range(200)])
    error = np.sqrt((ours.var(0) + theirs.var(0)) / 200)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * error).all()
