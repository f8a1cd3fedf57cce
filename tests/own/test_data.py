"""Data that nobody vouches for: whatever is wrong with it is told in one sentence, before anything is computed."""

import json
import struct
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fans.errors import InputError
from fans.own.data import Graph, Reading, choose_background, open_data
from fans.own.wants import Wants
from tests.own import made

ANY = Wants()


def refused(path, match, reading=None, wants=ANY):
    """Opening this fails with one sentence of ours."""

    def opened():
        data = open_data(path, reading or Reading(), wants)
        data.take(range(len(data)))

    with pytest.raises(InputError, match=match) as caught:
        opened()
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith("Expected ")
    assert len(said) < 700


TABLES = {
    "empty": (b"", "an empty file"),
    "only names": (b"a,b\n", "got only the names of its columns"),
    "a short line": (b"a,b\n1,2\n3\n", "Expected 2 values in every line .*, got 1 in line 3"),
    "a long line": (b"a,b\n1,2\n3,4\n5,6,7\n", "got 3 in line 4"),
    "an open quote": (b'a,b\n1,"2\n3,4\n', "which is not one"),
    "zero bytes": (b"a,b\n1,\x002\n", "got bytes of zero"),
    "no text": (b"a,b\n\xff\xfe1,2\n", "which is not one"),
    "names twice": (b"a,a\n1,2\n", "got 'a' 2 times"),
    "a value too long": (b"a,b\n1," + b"x" * 200_000 + b"\n", "field larger than field limit"),
}


@pytest.mark.parametrize("name", TABLES)
def test_malformed_csv(tmp_path, name):
    content, match = TABLES[name]
    (tmp_path / "rows.csv").write_bytes(content)
    refused(tmp_path / "rows.csv", match)


def test_csv_is_read_as_it_was_written(tmp_path):
    frame = made.table()
    made.write_table(tmp_path)
    found = open_data(tmp_path / "rows.csv", Reading(ids="name", drop=("label",)), ANY)
    pd.testing.assert_frame_equal(
        found.take([3, 1]).reset_index(drop=True), frame.iloc[[3, 1], 1:4].reset_index(drop=True)
    )
    assert found.ids([3, 1]) == ["patient 3", "patient 1"]
    assert len(found) == made.N
    parquet = open_data(tmp_path / "rows.parquet", Reading(ids="name", drop=("label",)), ANY)
    pd.testing.assert_frame_equal(parquet.take([3, 1]), found.take([3, 1]))


def test_semicolons_and_tabs(tmp_path):
    (tmp_path / "a.csv").write_text('x;y\n"1,5";2\n')
    (tmp_path / "b.tsv").write_text("x\ty\n1\t2\n")
    (tmp_path / "c.csv").write_bytes(b"\xef\xbb\xbfx,y\n1,2\n\n3,4\n")
    assert open_data(tmp_path / "a.csv", Reading(), ANY).columns == ("x", "y")
    assert open_data(tmp_path / "b.tsv", Reading(), ANY).columns == ("x", "y")
    data = open_data(tmp_path / "c.csv", Reading(), ANY)
    assert data.columns == ("x", "y")
    assert data.take([0, 1]).to_numpy().tolist() == [[1, 2], [3, 4]]


def test_columns_that_are_not_there_or_too_many(tmp_path):
    path = made.write_table(tmp_path)
    refused(path, "'nme'.*did you mean 'name'", Reading(ids="nme"))
    refused(path, "--drop as a column of", Reading(drop=("wait",)))
    refused(path, "got no 'height'; rows.csv has name, age", Reading(), Wants(columns=("age", "height")))
    refused(path, "got no 'age'; do not --drop it", Reading(drop=("age",)), Wants(columns=("age",)))
    refused(path, "Expected 3 columns in .* got 5: name, age", Reading(), Wants(n_columns=3))
    only_ids = tmp_path / "ids.csv"
    only_ids.write_text("name\na\n")
    refused(only_ids, "got none besides those left out", Reading(ids="name"))


def test_the_model_s_columns_in_its_order_and_what_is_left_out(tmp_path):
    path = made.write_table(tmp_path)
    data = open_data(path, Reading(), Wants(columns=("weight", "dose_(mg)")))
    assert list(data.take([0]).columns) == ["weight", "dose (mg)"]
    assert data.notes == ("Left out, as the model does not know them: name, age, label.",)


def test_ids_that_name_several_rows_or_none(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("k,x\na,1\nb,2\na,3\n")
    refused(path, "got 'a' 2 times", Reading(ids="k"))
    path.write_text("k,x\na,1\n,2\n")
    refused(path, "got none in row 1", Reading(ids="k"))


def test_numbers_without_names_come_as_an_array(tmp_path):
    made.write_table(tmp_path)
    data = open_data(tmp_path / "rows.csv", Reading(drop=("name", "label")), Wants(n_columns=3, frame=False))
    np.testing.assert_array_equal(data.take([2]), made.table()[list(made.COLUMNS)].to_numpy()[2:3])
    assert data.feature_names == made.COLUMNS


def test_no_parquet(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 nothing PAR1")
    refused(tmp_path / "rows.parquet", "a Parquet file, got .*, which is not one")


def test_what_is_no_data(tmp_path):
    refused(tmp_path / "none.csv", "got nothing at")
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    refused(tmp_path / "rows.xlsx", "got rows.xlsx; convert it")
    path = made.write_table(tmp_path)
    refused(path, "Expected no --size", Reading(size=(8, 8)))


def test_texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"caf\xe9\n")
    refused(path, "UTF-8 text")
    path.write_text("\n \n")
    refused(path, "no line that is not blank")
    path.write_text("one\n\n two\u2028more\n")
    data = open_data(path, Reading(), ANY)
    assert data.take([0, 1]) == ["one", "two\u2028more"]
    assert data.ids([0, 1]) == [1, 3]
    table = tmp_path / "texts.csv"
    table.write_text("k,said\n1,good\n2,\n")
    refused(table, "got nan in row 1", Reading(text_column="said"))
    refused(table, "--text-column as a column", Reading(text_column="text"))


# --- Pictures --------------------------------------------------------------------------------------------------------


def huge_png(path, side=15_000):
    """Write a PNG of a few bytes whose header says 225 megapixels."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def test_a_file_that_is_no_picture(tmp_path):
    place = made.write_pictures(tmp_path)
    (place / "x.png").write_text("<script>alert(1)</script>")
    refused(place, r"a PNG or JPEG picture, got .*x\.png, which cannot be read")


def test_a_format_that_hides_behind_another_name(tmp_path):
    place = made.write_pictures(tmp_path)
    Image.fromarray(made.pictures()[0]).save(tmp_path / "a.gif")
    (tmp_path / "a.gif").rename(place / "a.png")
    refused(place, "a PNG or JPEG picture")


@pytest.mark.parametrize("side", [8_000, 12_000, 15_000])
def test_a_picture_of_many_megapixels_is_refused_before_it_is_unpacked(tmp_path, side):
    huge_png(tmp_path / "huge.png", side)
    refused(tmp_path, "at most 50,000,000 pixels")


def test_a_picture_that_ends_early(tmp_path):
    place = made.write_pictures(tmp_path)
    raw = (place / "03.png").read_bytes()
    (place / "03.png").write_bytes(raw[: len(raw) // 2])
    refused(place, r"03\.png, which cannot be read")


def test_pictures_of_several_sizes(tmp_path):
    place = made.write_pictures(tmp_path)
    Image.fromarray(np.zeros((9, 8), np.uint8)).save(place / "z.png")
    refused(place, r"of 8 x 8 pixels, as most others have, got .*z\.png of 9 x 8; pass --size 8x8")
    refused(place, "of 6 x 6 pixels, as the model takes", wants=Wants(height=6, width=6))
    data = open_data(place, Reading(size=(4, 6)), ANY)
    assert data.take([0, 24]).shape == (2, 1, 4, 6)


def test_pictures_as_arrays(tmp_path):
    place = made.write_pictures(tmp_path)
    data = open_data(place, Reading(), ANY)
    expected = made.pictures()[:, None] / 255
    np.testing.assert_allclose(data.take([5, 2]), expected[[5, 2]], rtol=1e-6)
    assert data.ids([5]) == ["05.png"]
    normal = open_data(place, Reading(mean=(0.5,), std=(0.25,)), Wants(channels=3))
    np.testing.assert_allclose(normal.take([5])[0, 2], (expected[5, 0] - 0.5) / 0.25, rtol=1e-5)
    last = open_data(place, Reading(), Wants(channels=3, channels_last=True))
    assert last.take([0]).shape == (1, 8, 8, 3)
    refused(place, "--mean as 1 or 1 finite numbers", Reading(mean=(0.1, 0.2)))
    refused(place, "--std above 0", Reading(std=(0.0,)))
    (tmp_path / "none").mkdir()
    refused(tmp_path / "none", "Expected pictures")


def test_the_checksum_of_a_folder_is_of_names_and_contents(tmp_path):
    place = made.write_pictures(tmp_path)
    before = open_data(place, Reading(), ANY).sha256
    assert open_data(place, Reading(), ANY).sha256 == before
    (place / "00.png").rename(place / "99.png")
    renamed = open_data(place, Reading(), ANY).sha256
    Image.fromarray(made.pictures()[1]).save(place / "99.png")
    assert len({before, renamed, open_data(place, Reading(), ANY).sha256}) == 3


# --- Graphs ----------------------------------------------------------------------------------------------------------

GRAPHS: dict[str, tuple[dict[str, Any], str]] = {
    "no edges": ({"edge_index": None}, "got no `edge_index`"),
    "words": ({"x": np.array([["a"]] * 40)}, "Expected numbers in `x`"),
    "parts of edges": ({"edge_index": np.zeros((2, 3))}, "whole ones in `edge_index`"),
    "nodes beyond": ({"nodes": np.array([40])}, "`nodes` of .* from 0 to 39"),
    "nodes twice": ({"nodes": np.array([1, 1])}, "different whole numbers"),
    "a pickle": ({"x": np.array([{}], dtype=object)}, "which is not one"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_malformed_graphs(tmp_path, name):
    changed, match = GRAPHS[name]
    path = made.write_graph(tmp_path)
    arrays = dict(np.load(path)) | changed
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    refused(path, match)


def test_a_graph_from_safetensors(tmp_path):
    from safetensors.numpy import save_file

    path = made.write_graph(tmp_path)
    with np.load(path) as arrays:
        save_file(dict(arrays), tmp_path / "graph.safetensors")
    one, two = (open_data(p, Reading(), ANY) for p in (path, tmp_path / "graph.safetensors"))
    assert isinstance(one, Graph)
    assert isinstance(two, Graph)
    assert (one.graph.edge_index == two.graph.edge_index).all()
    assert one.ids(range(6)) == two.ids(range(6)) == list(range(6))
    (tmp_path / "graph.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    refused(tmp_path / "graph.safetensors", "which is not one")
    refused(path, "Expected no --ids", Reading(ids="x"))


def test_node_names(tmp_path):
    path = made.write_graph(tmp_path, node_names=np.array([f"n{i}" for i in range(40)]))
    data = open_data(path, Reading(), ANY)
    assert isinstance(data, Graph)
    assert data.node_names is not None
    assert data.node_names[3] == "n3"


# --- Background ------------------------------------------------------------------------------------------------------


def test_the_background_is_drawn_from_what_is_not_explained(tmp_path):
    path = made.write_table(tmp_path, 1200)
    data = open_data(path, Reading(), ANY)
    chosen = choose_background(data, 100, 0, own=False)
    assert len(chosen.places) == 500
    assert chosen.places.min() >= 100
    assert (np.diff(chosen.places) > 0).all()
    assert chosen.words == "The background: 500 drawn (seed 0) from the 1,100 rows that are not explained."
    again, other = choose_background(data, 100, 0, own=False), choose_background(data, 100, 1, own=False)
    assert (again.places == chosen.places).all()
    assert (other.places != chosen.places).any()
    late = choose_background(data, 1180, 0, own=False)
    assert late.source == "all"
    assert late.places.min() < 100
    few = choose_background(data, 1100, 0, own=False)
    assert (few.places == np.arange(1100, 1200)).all()
    assert choose_background(data, 1200, 0, own=True).words.endswith("from the rows of the file named.")


def test_reading_is_kept_as_json():
    reading = Reading("k", ("a",), None, (3, 4), (0.5,), (1.0,))
    assert Reading.of_json(json.loads(json.dumps(reading.to_json()))) == reading
