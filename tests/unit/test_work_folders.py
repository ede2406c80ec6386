"""Folders that a build could have written: no link is followed, nothing is waited for, nothing else is touched."""

import contextlib
import hashlib
import io
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from wheelsmith.base.beneath import WorkFolder, apparent_size, make_read_only, remove_tree, statuses
from wheelsmith.base.errors import OutputError
from wheelsmith.pipeline.outputs import StepOutputs

ROOT = Path(__file__).parent.parent.parent
GIB = 2**30


@pytest.fixture
def host(tmp_path):
    """A folder of the host, with a private file."""
    folder = tmp_path / "host"
    (folder / "inside").mkdir(parents=True)
    for name in ("private", "inside/key"):
        (folder / name).write_text("of the host")
        (folder / name).chmod(0o400)
    (folder / "inside").chmod(0o500)
    return folder


@pytest.fixture
def untouched(host):
    """The host's folder must be after the test what it was before."""

    def look():
        return [
            (path.name, path.lstat().st_mode, path.is_dir() or path.read_text()) for path in sorted(host.rglob("*"))
        ]

    before = look()
    yield host
    assert look() == before


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    yield tmp_path / "work"
    remove_tree(tmp_path / "work")


def read(folder: Path, name: str, most: int = GIB) -> bytes:
    with WorkFolder(folder) as open_folder:
        return b"".join(open_folder.chunks(name, most))


# --- what is there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", ["a", "a/b", "a/b/private"])
def test_no_link_is_followed_anywhere_on_the_way(linked, work, untouched):
    inner = {"a": work.parent / "tree", "a/b": untouched, "a/b/private": untouched / "private"}[linked]
    if linked == "a":
        inner.mkdir()
        (inner / "b").symlink_to(untouched)
    (work / linked).parent.mkdir(parents=True, exist_ok=True)
    (work / linked).symlink_to(inner)
    with pytest.raises(OutputError, match="private from the build is missing or not a regular file"):
        read(work, "a/b/private")
    with WorkFolder(work) as folder:
        if linked == "a/b/private":
            with folder.create("a/b/private") as file:
                file.write(b"of the build")
            assert (work / "a/b/private").read_bytes() == b"of the build"
            return
        with pytest.raises(OSError, match="Not a directory"):
            folder.create("a/b/private")
        with pytest.raises(OSError, match="Not a directory"):
            folder.make_folder("a/b/c")
        with pytest.raises(OutputError, match="replaced its a/b folder"):
            list(folder.names("a/b"))


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # such an address is at most 107 bytes long
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


THINGS = {
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "device": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(5, 0)),
}


@pytest.fixture(params=THINGS)
def thing(request, work):
    path = work / "thing"
    try:
        THINGS[request.param](path)
    except PermissionError:
        pytest.skip(f"may not make a {request.param}")
    return path


def test_what_is_no_file_is_not_opened(thing, work):
    with pytest.raises(OutputError, match="thing from the build is missing or not a regular file"):
        read(work, "thing")


def test_what_became_another_after_the_look_is_not_waited_for(thing, work, monkeypatch):
    """As if it had been a file when it was looked at."""
    real, a_file = os.stat, Path(__file__).stat()
    monkeypatch.setattr(os, "stat", lambda name, **kw: a_file if name == "thing" else real(name, **kw))
    with pytest.raises(OutputError, match="thing from the build is missing or not a regular file"):
        read(work, "thing")


def test_a_second_name_of_a_file_is_refused(work, untouched):
    os.link(untouched / "private", work / "mine")
    with pytest.raises(OutputError, match="has other hard links"):
        read(work, "mine")


def test_what_is_written_is_a_new_file(work, untouched):
    """Written through to another name of it, a plan would land in a file of the host."""
    os.link(untouched / "private", work / "plan.json")
    with WorkFolder(work) as folder, folder.create("plan.json") as file:
        file.write(b"{}")
    assert (work / "plan.json").read_bytes() == b"{}"


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a//b", "", ".", "a/."])
def test_names_lead_down(name, work):
    with WorkFolder(work) as folder, pytest.raises(ValueError, match="not a path below the folder"):
        folder.create(name)


# --- while it changes ---------------------------------------------------------------------------------------


def test_a_file_with_holes_is_refused_by_what_it_looks_like(work):
    with (work / "big").open("wb") as file:
        file.truncate(6 * GIB)
    with WorkFolder(work) as folder, pytest.raises(OutputError, match="including holes"):
        next(folder.chunks("big", GIB))
    assert apparent_size(work) >= 6 * GIB


def test_a_look_ends_where_there_is_too_much(tmp_path):
    for number in range(1000):
        (tmp_path / str(number)).touch()
    assert apparent_size(tmp_path) >= 1000 * 4096
    assert apparent_size(tmp_path, 40_000) == 40_960


@pytest.mark.parametrize("change", [lambda file: file.truncate(2**20), lambda file: file.write(b"more")])
def test_a_file_that_changes_while_it_is_read_is_refused(change, work):
    (work / "x").write_bytes(bytes(2**21))
    with WorkFolder(work) as folder, (work / "x").open("ab") as left_open:
        pieces = folder.chunks("x", GIB)
        next(pieces)
        change(left_open)
        left_open.flush()
        with pytest.raises(OutputError, match="changed while it was read"):
            list(pieces)


def test_what_is_kept_is_what_was_hashed(work, tmp_path):
    """A process that outlives a build has its files open still."""
    (work / "x").write_bytes(b"honest")
    outputs = StepOutputs(tmp_path / "texts", None)
    with WorkFolder(work) as folder, (work / "x").open("r+b") as left_open:
        outputs.put(None, {"x": folder.chunks("x", GIB)}, ())
        left_open.write(b"forged")
        left_open.flush()
    kept = io.BytesIO()
    outputs.copy("x", kept)
    assert outputs.digest("x") == hashlib.sha256(kept.getvalue()).hexdigest() == hashlib.sha256(b"honest").hexdigest()


@contextlib.contextmanager
def restless(work: Path, outside: Path):
    """Have a folder and a link to a folder of the host take turns under one name."""
    (work / "a").mkdir()
    (work / "a" / "x").touch()
    (work / "link").symlink_to(outside)
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for this, other in (("a", "link"), ("link", "a")):
                with contextlib.suppress(OSError):
                    (work / "now").rename(work / other)
                with contextlib.suppress(OSError):
                    (work / this).rename(work / "now")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_folder_that_changes_with_a_link_leads_nowhere(work, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    with (outside / "x").open("wb") as file:
        file.truncate(GIB)
    seen = set()
    with restless(work, outside):
        for _ in range(3000):
            assert apparent_size(work) < GIB
            with contextlib.suppress(OutputError):
                seen.add(read(work, "now/x", 10))
            for found in statuses(work):
                assert found.st_size < GIB
    assert seen <= {b""}


def test_removing_what_changes_with_a_link_removes_nothing_else(tmp_path, untouched):
    for number in range(50):
        work = tmp_path / f"work-{number}"
        work.mkdir()
        with restless(work, untouched):
            remove_tree(work)
        remove_tree(work)
        assert not work.exists()


# --- whole trees --------------------------------------------------------------------------------------------


def test_a_tree_goes_and_nothing_that_it_names(work, untouched):
    (work / "a" / "b").mkdir(parents=True)
    (work / "a" / "link").symlink_to(untouched)
    os.link(untouched / "private", work / "a" / "b" / "mine")
    _socket(work / "socket")
    os.mkfifo(work / "pipe")
    remove_tree(work)
    assert not work.exists()


def test_a_link_goes_in_the_place_of_a_tree(work, untouched):
    (work / "dist").symlink_to(untouched)
    remove_tree(work / "dist")
    assert list(work.iterdir()) == []
    remove_tree(work / "dist")
    remove_tree(work / "nowhere" / "dist")


def deep(folder: Path, levels: int) -> None:
    """Make folders in folders, deeper than any path can name."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(at)
        at = below
    os.close(at)


@pytest.fixture
def in_memory(tmp_path):
    """A folder for many files, where making them costs nothing of a disk."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path))
    yield folder
    remove_tree(folder)


def test_trees_may_be_deep(in_memory):
    deep(in_memory, 10_000)
    assert apparent_size(in_memory) == sys.maxsize
    assert len(list(statuses(in_memory))) < 1000
    remove_tree(in_memory)
    assert not in_memory.exists()


CLOSED = """
import os, sys
from pathlib import Path
from wheelsmith.base.beneath import apparent_size, remove_tree
root = Path(sys.argv[1], "tree")
if os.geteuid() == 0:
    os.setuid(65534)
for mode, name in ((0o000, "none"), (0o300, "hidden"), (0o500, "fixed")):
    (root / name / "below" / "far").mkdir(parents=True)
    (root / name / "below" / "far" / "x").write_bytes(bytes(1 << 20))
    (root / name / "below" / "far").chmod(mode)
    (root / name / "below").chmod(mode)
    (root / name).chmod(mode)
root.chmod(0o500)
assert apparent_size(root) > 3 << 20, apparent_size(root)
remove_tree(root)
assert not root.exists(), [str(p) for p in root.rglob("*")]
"""


def test_what_its_owner_may_not_enter_is_counted_and_goes():
    """Asked of an ordinary user: root may enter everything."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        subprocess.run([sys.executable, "-c", CLOSED, folder], check=True, cwd=ROOT)


def test_read_only_means_all_of_it(work, untouched):
    (work / "a").mkdir()
    (work / "a" / "run").write_text("x")
    (work / "a" / "run").chmod(0o775)
    (work / "a" / "link").symlink_to(untouched)
    make_read_only(work)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (work, work / "a", work / "a" / "run")}
    assert modes == {"work": 0o555, "a": 0o555, "run": 0o555}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_stays_open(work):
    deep(work, 200)
    (work / "x").write_text("x")
    before = descriptors()
    apparent_size(work)
    next(statuses(work))
    with WorkFolder(work) as folder:
        next(folder.names("d"))
        with contextlib.suppress(OutputError):
            next(folder.chunks("d", 1))
        next(folder.chunks("x", 1))
    remove_tree(work)
    assert descriptors() == before
