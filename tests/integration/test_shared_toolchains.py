"""A machine takes the pinned files of its toolchains from a remote cache, if they are what was pinned."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import pytest
from memory_storage import Memory
from wheels import make_wheel

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.model import PinnedFile, PinnedPackage, PinnedTree
from wheelsmith.model.events import ignore
from wheelsmith.store import RemoteCache
from wheelsmith.toolchain.downloads import PrefixFiles
from wheelsmith.toolchain.prefix_builder import unpack


def wanted(name):
    return name.endswith((".h", "RECORD"))


def header(name):
    return name if name.endswith(".h") else None


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The only folder with wheels and archives."""
    folder = tmp_path / "place"
    folder.mkdir()
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "WHEELSMITH_ARCHIVES": str(folder)}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def wheel(place):
    path = make_wheel(place, "toy", "1", files={"toy/a.h": b"// a\n", "toy/lib.so": bytes(1 << 20)})
    with zipfile.ZipFile(path) as archive:
        record = sha256(archive.read("toy-1.dist-info/RECORD"))
    data = path.read_bytes()
    known = {"sha256": sha256(data), "size": len(data), "record_sha256": record}
    return PinnedFile(project="toy", version="1", filename=path.name, **known)


@pytest.fixture
def package(place):
    (place / "gcc.deb").write_bytes(b"a package")
    return PinnedPackage(filename="gcc.deb", url="file:///nowhere/gcc.deb", sha256=sha256(b"a package"), size=9)


@pytest.fixture
def tree(place):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("lib-1/include/lib.h")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"// h\n"))
    (place / "lib-1.tar.gz").write_bytes(gzip.compress(data.getvalue()))
    digest = canonical_digest([["lib.h", sha256(b"// h\n")]])
    where = {"filename": "lib-1.tar.gz", "url": "file:///nowhere/lib-1.tar.gz", "folder": "lib-1/include/"}
    return PinnedTree(**where, sha256=digest, files=1, size=5)


@pytest.fixture
def fetch(tmp_path, wheel, package, tree):
    """Fetch each kind of file on one more machine, and give the contents."""

    def fetch(files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name in ("scratch", "part", "tree"):
            (folder / name).mkdir(parents=True)
        remote = RemoteCache(files, ignore)
        given = PrefixFiles(name="toy-1", scratch=folder / "scratch", listen=ignore, shared=remote)
        found = [given.wheel(wheel).read_bytes(), given.package(package).read_bytes()]
        given.tree(tree, folder / "tree")
        given.partial_wheel(wheel, wanted, lambda path: unpack(wheel, path, folder / "part", header))
        remote.close()
        return [*found, *(path.read_bytes() for path in sorted(folder.rglob("*.h")))]

    return fetch


def test_the_second_machine_needs_no_other_place(fetch, place):
    files = Memory()
    made = fetch(files)
    assert len(files.files) == 4
    for path in place.iterdir():
        path.unlink()
    assert fetch(files) == made
    with pytest.raises(ToolchainError):
        fetch(Memory())


def test_what_is_not_as_pinned_is_fetched_elsewhere_and_replaced(fetch):
    files = Memory()
    made = fetch(files)
    right = {name: data for name, (data, *_) in files.files.items()}
    for name, data in right.items():
        files.put(name, data[: len(data) // 2] + b"noise")
    assert fetch(files) == made
    assert {name: files.files[name][0] for name in list(right)[:3]} == {name: right[name] for name in list(right)[:3]}
