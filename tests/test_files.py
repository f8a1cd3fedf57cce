"""A file is written whole or not at all, by any number of writers, and nowhere but where it was asked for."""

import ast
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fans.errors import InputError
from fans.files import sweep, write, writing

SOURCE = Path(__file__).parents[1] / "src" / "fans"


def test_what_is_written_is_there(tmp_path):
    path = tmp_path / "a.txt"
    assert write(path, "Ü\n") == path
    assert path.read_bytes() == "Ü\n".encode()
    assert write(str(path), b"\0") == path
    assert path.read_bytes() == b"\0"
    assert list(tmp_path.iterdir()) == [path]
    umask = os.umask(0o027)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_long_names(tmp_path):
    path = tmp_path / ("ü" * 120 + ".json")
    assert write(path, "x").read_text() == "x"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write(tmp_path / "a.txt", "old")
    with pytest.raises(FileNotFoundError), writing(path) as temporary:
        temporary.with_name("nowhere").rename(temporary)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_and_one_that_is_in_the_way(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(f"'{tmp_path / 'no' / 'a.txt'}'")):
        write(tmp_path / "no" / "a.txt", "x")
    with pytest.raises(IsADirectoryError):
        write(tmp_path, "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_symbolic_links_are_refused(tmp_path, target):
    write(tmp_path / "there", "precious")
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(InputError, match=rf"got {link}, a symbolic link to {target}; delete it or name another"):
        write(link, "x")
    assert (tmp_path / "there").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]


def test_nobody_s_temporary_file_is_another_s(tmp_path):
    """Whoever writes at the same time, what is there is whole, and one of what was written."""
    path, contents = tmp_path / "a", [bytes([i]) * 200_000 for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write(path, content), contents * 4))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_writers_left_is_swept(tmp_path):
    code = (
        "import os; from fans.files import writing\n"
        f"with writing({str(tmp_path / 'a[1].json')!r}) as temporary:\n    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)  # noqa: S603
    write(tmp_path / "b.json", "x")
    (left,) = tmp_path.glob(".*.partial")
    sweep(tmp_path / "b.json")
    assert left.exists()
    sweep(tmp_path / "a[1].json")
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_is_written_past_it(path):
    """No other module opens a file to write; `data/_shared.py` keeps what came of a download, to go on with it."""
    if path.name == "files.py":
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {node.func.attr for node in calls if isinstance(node.func, ast.Attribute)}
    assert not names & {"write_text", "write_bytes", "savez", "tofile", "NamedTemporaryFile", "mkstemp"}
    opened = [node for node in calls if ast.unparse(node.func).endswith("open") and "wb" in ast.unparse(node)]
    assert len(opened) == (path.parts[-2:] == ("data", "_shared.py"))
