"""Headers from archives that no package index has: any packing of what was pinned will do, and nothing else."""

import gzip
import io
import itertools
import socket
import tarfile
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.cli.doctor import _toolchains
from wheelsmith.model import PinnedTree
from wheelsmith.model.events import ignore
from wheelsmith.toolchain import downloads, http
from wheelsmith.toolchain.downloads import fetch_tree, is_available_locally
from wheelsmith.toolchain.pip import PipSettings
from wheelsmith.toolchain.remote import sha256_bytes

FILES = {"lib/lib.h": b"#define LIB 1\n", "lib/deep/more.h": b"#define MORE 1\n"}
ROOT = "lib-1.0.0/"
NOWHERE = "file:///nowhere/lib.tar.gz"
SETTINGS = PipSettings(
    indexes=(), find_links=(), cert=None, client_cert=None, proxy=None, trusted_hosts=(), timeout=10.0
)


def packed(path, members, *, compress=gzip.compress):
    """Write an archive of (name, content) pairs; content may be what tarfile takes in its place."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content
                archive.addfile(member)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(compress(data.getvalue()))
    return path


def headers(files=FILES, root=f"{ROOT}include/"):
    return [(root + name, content) for name, content in files.items()]


@pytest.fixture
def tree():
    content = sorted([name, sha256_bytes(data)] for name, data in FILES.items())
    return PinnedTree(
        filename="lib-1.0.0.tar.gz",
        url=NOWHERE,
        folder=f"{ROOT}include/",
        sha256=canonical_digest(content),
        files=len(FILES),
        size=sum(map(len, FILES.values())),
    )


@pytest.fixture
def fetch(tree, tmp_path, monkeypatch):
    """Fetch from some places, and give what was written."""

    def fetch(*places):
        monkeypatch.setenv("WHEELSMITH_ARCHIVES", " ".join(map(str, places)))
        folder, scratch = tmp_path / "made", tmp_path / "scratch"
        for each in (folder, scratch):
            each.mkdir(exist_ok=True)
        fetch_tree(tree, folder, scratch, SETTINGS, ignore)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return fetch


@pytest.fixture
def served(tmp_path):
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handle_error = lambda request, address: None  # whoever is left before the end
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "members",
    [
        headers(),
        list(reversed(headers())),
        [(f"./{name}", data) for name, data in headers()],
        [
            (ROOT, (tarfile.DIRTYPE, "")),
            (f"{ROOT}README.md", b"# lib\n"),
            (f"{ROOT}link", (tarfile.SYMTYPE, "/etc/passwd")),
            *headers(),
            (f"{ROOT}include-more/x.h", b""),
        ],
    ],
    ids=["as it is", "in another order", "as tar packs a folder", "with what else a tag holds"],
)
def test_any_packing_will_do(fetch, tmp_path, members):
    packed(tmp_path / "here/lib-1.0.0.tar.gz", members)
    assert fetch(tmp_path / "here") == FILES


def test_a_mirror_will_do(fetch, tmp_path, served):
    packed(tmp_path / "here/lib-1.0.0.tar.gz", headers())
    assert fetch(f"{served}/here") == FILES


def test_a_place_that_has_it_not_or_another_is_passed_over(fetch, tmp_path, served):
    packed(tmp_path / "other/lib-1.0.0.tar.gz", headers(FILES | {"lib/lib.h": b"#define LIB 2\n"}))
    packed(tmp_path / "right/lib-1.0.0.tar.gz", headers())
    assert fetch(tmp_path / "empty", f"{served}/nothing", f"{served}/other/", tmp_path / "right") == FILES


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (headers(FILES | {"lib/lib.h": b"#define LIB 2\n"}), "its files differ"),
        (headers(FILES | {"lib/new.h": b""}), "its files differ"),
        ([*headers()[:1], (f"{ROOT}include/lib/deep/more.h", (tarfile.SYMTYPE, "/etc/passwd"))], "its files differ"),
        ([*headers()[:1], (f"{ROOT}include/lib/deep/more.h", (tarfile.LNKTYPE, f"{ROOT}include/lib/lib.h"))], "differ"),
        ([*headers()[:1], (f"{ROOT}include/../../../escaped", FILES["lib/deep/more.h"])], "its files differ"),
        ([(f"{ROOT}include/lib/lib.h", bytes(1 << 20))], "its files differ"),
    ],
    ids=["changed", "more", "a link", "a second name", "outside", "large"],
)
def test_nothing_else_is_taken(fetch, tmp_path, members, why):
    packed(tmp_path / "here/lib-1.0.0.tar.gz", members)
    with pytest.raises(ToolchainError, match=why) as raised:
        fetch(tmp_path / "here")
    assert "WHEELSMITH_ARCHIVES=" in raised.value.remedy
    assert not list((tmp_path / "made").iterdir())
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize("compress", [lambda data: data, lambda data: gzip.compress(data)[:-20]])
def test_what_is_no_archive_is_said_to_be_none(fetch, tmp_path, compress):
    packed(tmp_path / "here/lib-1.0.0.tar.gz", headers(), compress=compress)
    with pytest.raises(ToolchainError, match=r"cannot be unpacked|other files"):
        fetch(tmp_path / "here")


def test_what_is_skipped_is_bounded_too(fetch, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "_MAX_UNPACKED", 1 << 20)
    packed(tmp_path / "here/lib-1.0.0.tar.gz", [(f"{ROOT}film", bytes(2 << 20)), *headers()])
    with pytest.raises(ToolchainError, match="unpacks to more than 1 MiB"):
        fetch(tmp_path / "here")


def test_doctor_names_what_is_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WHEELSMITH_ARCHIVES", str(tmp_path))
    (tmp_path / "cutlass-4.0.0.tar.gz").touch()
    here, later = (symptom.found.split(", ") for symptom in _toolchains())
    assert "cutlass_4_0" in here
    assert {"cutlass_3_6", "cutlass_4_5"} <= set(later)


@pytest.mark.parametrize(
    "place",
    ["~nobody-of-this-name/x", "http://[x", "/" + "x" * 5000],
    ids=["a home of nobody", "no address", "long"],
)
def test_a_place_that_is_none_is_passed_over(fetch, tree, tmp_path, place):
    packed(tmp_path / "here/lib-1.0.0.tar.gz", headers())
    assert fetch(place, tmp_path / "here") == FILES
    assert is_available_locally(tree)


def test_a_mirrors_password_is_not_told(fetch, served):
    with pytest.raises(ToolchainError, match="404") as raised:
        fetch(served.replace("//", "//somebody:word@"))
    assert "word@" not in raised.value.message


@pytest.fixture
def answering():
    """Serve one answer to everybody, piece by piece, as long as it is listened to."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(pieces):
            def answer():
                while True:
                    try:
                        client, _ = server.accept()
                    except OSError:
                        return
                    with client, suppress(OSError):
                        client.recv(1 << 16)
                        for piece in pieces():
                            client.sendall(piece)

            threading.Thread(target=answer, daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}"

        yield serve
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_never_begins_is_left(fetch, answering, monkeypatch):
    monkeypatch.setattr(http, "_RESPONSE_TIMEOUT", 0.5)
    with pytest.raises(ToolchainError, match="took longer than"):
        fetch(answering(lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")))
