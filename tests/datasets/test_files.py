"""Files are found, downloaded, gone on with and refused as promised; the server is a local one with bad manners."""

import errno
import hashlib
import io
import re
import socket
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fans import cli
from fans.datasets import fetch_images, images, load_images
from fans.datasets import files as _shared
from fans.datasets.files import File, fetch, find, unpack
from fans.errors import FansError, InputError

CONTENT = np.random.default_rng(0).bytes(100_000)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `files`; `cuts` says after how many bytes to hang up, `codes` what to answer first instead."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.codes: list[int] = []
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        self.home = f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, name, wanted = self.server, self.path[1:], self.headers["Range"]
        server.asked.append((name, wanted))
        if server.codes or name not in server.files:
            return self.send_error(server.codes.pop(0) if server.codes else 404)
        content, start = server.files[name], 0
        if wanted and server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        end = server.cuts.pop(0) if server.cuts else len(content)
        self.wfile.write(content[start:end])
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(_shared, "_PAUSE", 0.0)
    with Server() as made:
        made.files["file"] = CONTENT
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "file"


def partial(path):
    return path.with_name(path.name + ".partial")


def refused(server, path, *words):
    """The one sentence with which a download is refused."""
    with pytest.raises(FansError) as caught:
        fetch(server.home + "file", path, sha(CONTENT))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("Expected ")
    for word in words:
        assert word in message, message
    assert not path.exists()


def test_a_download(server, path):
    assert fetch(server.home + "file", path, sha(CONTENT)) == path
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    fetch(server.home + "file", path, sha(CONTENT))
    assert len(server.asked) == 1, "what is there is not downloaded again"


def test_a_cut_connection_is_gone_on_with(server, path):
    server.cuts = [30_000, 70_000]
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=30000-", "bytes=70000-"]


def test_what_an_earlier_process_left_is_gone_on_with(server, path):
    path.parent.mkdir()
    partial(path).write_bytes(CONTENT[:60_000])
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT
    assert server.asked == [("file", "bytes=60000-")]


def test_a_whole_file_that_was_not_yet_renamed_is_taken(server, path):
    path.parent.mkdir()
    partial(path).write_bytes(CONTENT)
    assert fetch(server.home + "file", path, sha(CONTENT)).read_bytes() == CONTENT
    assert not server.asked


def test_a_server_without_ranges_sends_it_all_again(server, path):
    server.ranges, server.cuts = False, [30_000]
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=30000-"]


def test_a_connection_that_is_always_cut_is_given_up(server, path):
    server.ranges, server.cuts = False, [30_000] * 20
    refused(server, path, "cut after 30,000 of 100,000 bytes", "4 tries", "the 30,000 bytes that came are kept")
    assert len(server.asked) == 5
    assert partial(path).read_bytes() == CONTENT[:30_000]


def test_a_wrong_checksum_leaves_nothing(server, path):
    server.files["file"] = CONTENT[:-1] + b"?"
    refused(server, path, f"sha256 {sha(CONTENT)}", f"got {sha(server.files['file'])}", "deleted")
    assert not list(path.parent.iterdir())


def test_a_damaged_part_is_deleted_and_the_next_try_succeeds(server, path):
    path.parent.mkdir()
    partial(path).write_bytes(b"?" * 50_000)
    refused(server, path, "try again")
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_dropped(server, path):
    path.parent.mkdir()
    partial(path).write_bytes(b"?" * 200_000)
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_what_came(server, path, monkeypatch, number):
    def write(file, block):
        file.write(block[:1000])
        raise OSError(number, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_shared, "_write", write)
        refused(server, path, str(path), "full disk", "goes on with what came so far")
    assert partial(path).read_bytes() == CONTENT[:1000]
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT
    assert server.asked[-1] == ("file", "bytes=1000-")


def test_a_missing_page_is_asked_for_once(server, path):
    del server.files["file"]
    refused(server, path, server.home + "file", "HTTP status 404", "FANS_DATA")
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server, path):
    server.codes = [503, 500]
    fetch(server.home + "file", path, sha(CONTENT))
    assert path.read_bytes() == CONTENT


def test_no_network(server, path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server.home = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        refused(server, path, "Connection refused", "check the network")


def test_only_the_web_is_read(path):
    with pytest.raises(InputError, match=r"http:// or https://, got 'file:///etc/hostname'"):
        fetch("file:///etc/hostname", path, "")


def test_where_files_are_found(no_data, tmp_path, monkeypatch):
    file = File("some/file", sha(CONTENT))
    assert find(file) is None
    (no_data / "some").mkdir(parents=True)
    (no_data / "some/file").write_bytes(CONTENT)
    assert find(File("other", ""), file) == no_data / "some/file"
    monkeypatch.setenv("FANS_DATA", str(tmp_path))
    assert find(file) == no_data / "some/file"
    (tmp_path / "some").mkdir()
    (tmp_path / "some/file").write_bytes(CONTENT)
    assert find(file) == tmp_path / "some/file", "FANS_DATA comes before the cache"
    (tmp_path / "some/file").write_bytes(b"?")
    with pytest.raises(InputError, match=rf"some/file with sha256 {sha(CONTENT)}, got {sha(b'?')}; delete it"):
        find(file)


def test_nothing_is_downloaded_unasked(no_data, monkeypatch):
    with pytest.raises(InputError) as caught:
        load_images("fashion_mnist", "test")
    words = (
        "FashionMNIST/raw/t10k-images-idx3-ubyte.gz",
        "FANS_DATA (not set)",
        str(no_data),
        "fans data fashion_mnist",
    )
    for word in (*words, "download=True"):
        assert word in str(caught.value)
    monkeypatch.setenv("FANS_DATA", "/nowhere")
    with pytest.raises(InputError, match=r"cifar-10-batches-bin/test_batch.bin under FANS_DATA \(/nowhere\)"):
        load_images("cifar10", "test")


def tar_of(path, members):
    """A gzipped tar; a member whose content is a string is a symbolic link to it."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_writes_only_what_was_named(tmp_path):
    members = [("../evil", b"1"), ("/tmp/evil", b"2"), ("a/link", "/etc/passwd"), ("a/b", b"good"), ("a/c", b"other")]  # noqa: S108
    unpack(tar_of(tmp_path / "x.tar.gz", members), [File("a/b", sha(b"good"))], tmp_path / "out")
    assert [p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*")] == ["a", "a/b"]
    assert (tmp_path / "out/a/b").read_bytes() == b"good"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "x.tar.gz"]


def test_an_archive_that_lacks_or_spoils_a_member_is_refused(tmp_path):
    archive = tar_of(tmp_path / "x.tar.gz", [("a/link", "b"), ("a/b", b"bad")])
    with pytest.raises(FansError, match=r"Expected a/link in .*x\.tar\.gz, got an archive without"):
        unpack(archive, [File("a/link", sha(b"bad"))], tmp_path / "out")
    with pytest.raises(FansError, match=rf"a/b in .* with sha256 {sha(b'good')}, got {sha(b'bad')}"):
        unpack(archive, [File("a/b", sha(b"good"))], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_while_unpacking(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_shared, "write", full)
    with pytest.raises(FansError, match=r"Expected room for .*a/b, got a full disk"):
        unpack(tar_of(tmp_path / "x.tar.gz", [("a/b", b"good")]), [File("a/b", sha(b"good"))], tmp_path / "out")


def test_cifar_comes_out_of_its_archive(server, no_data, tmp_path, monkeypatch):
    batches = {name: bytes([i]) + bytes(3072) for i, name in enumerate(images.CIFAR10.sha256)}
    members = batches | {"batches.meta.txt": b"airplane\n"}
    folder = images.CIFAR10.folder
    archive = tar_of(tmp_path / "x.tar.gz", [(f"{folder}/{name}", content) for name, content in members.items()])
    raw = archive.read_bytes()
    server.files["cifar-10-binary.tar.gz"], server.cuts = raw, [len(raw) // 2]
    monkeypatch.setattr(images.CIFAR10, "sha256", {name: sha(content) for name, content in batches.items()})
    monkeypatch.setattr(images.CIFAR10, "names", File("batches.meta.txt", sha(b"airplane\n")))
    monkeypatch.setattr(
        images.CIFAR10, "archive", ("cifar-10-binary.tar.gz", hashlib.md5(raw, usedforsecurity=False).hexdigest())
    )
    found = fetch_images("cifar10", home=server.home)
    assert found == [no_data / folder / name for name in batches]
    assert load_images("cifar10", "train").labels.tolist() == [0, 1, 2, 3, 4]
    assert sorted(p.name for p in no_data.iterdir()) == [folder], "the archive is not kept"
    assert fetch_images("cifar10", home=server.home) == found
    assert len(server.asked) == 2


def test_the_command(server, no_data, monkeypatch, capsys):
    monkeypatch.setattr(images.MNIST, "home", server.home)
    monkeypatch.setattr(images.MNIST, "sha256", {name: sha(name.encode()) for name in images.MNIST.sha256})
    server.files = {name: name.encode() for name in images.MNIST.sha256}
    assert cli.main(["data", "mnist"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 4
    assert out[0] == f"mnist: {no_data}/MNIST/raw/train-images-idx3-ubyte.gz"
    assert len(server.asked) == 4


@pytest.mark.usefixtures("no_data")
def test_the_command_interrupted(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_shared, "urlopen", interrupt)
    assert cli.main(["data", "cifar10"]) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_an_unknown_name_lists_the_known_ones(capsys):
    for command in ("data", "train"):
        assert cli.main([command, "mnits"]) == 1
        said = capsys.readouterr().err
        assert re.search(r"'mnist', 'fashion_mnist', 'cifar10', got 'mnits'; did you mean 'mnist'", said)
