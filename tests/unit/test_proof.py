"""Toolchains are what they were when they were made, or are made again, or are named as what is wrong."""

import errno
import hashlib
import json
import os
import shutil
import threading

import pytest
from command_line import run_command

from wheelsmith.base.errors import ToolchainError
from wheelsmith.model.events import Notice
from wheelsmith.store import Kind, take_inventory
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain import integrity as proofs
from wheelsmith.toolchain.integrity import content_hash, find_change, find_change_by_content, manifest_path

NAME = "torch-2.11.0-x86_64-0123456789abcdef"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def folder(cache):
    make(cache)
    return cache / "prefix" / NAME


def make(cache, *, heard=None, maker=None):
    """Use the prefix, as a run does that has just begun."""
    made = []

    def usual(folder):
        made.append(folder)
        (folder / "include" / "ATen").mkdir(parents=True)
        (folder / "include" / "ATen" / "a.h").write_text("#define A 1\n")
        (folder / "include" / "b.h").write_text("#define B 1\n")
        (folder / "lib64").symlink_to("include")
        (folder / os.fsdecode(b"odd-\xff")).symlink_to("nowhere")

    listen = (lambda _: None) if heard is None else heard.append
    toolchains = Toolchains(cache, listen)
    path = toolchains._get_or_make(cache / "prefix" / NAME, maker or usual)
    assert toolchains._get_or_make(path, lambda _: pytest.fail("made twice")) == path
    return len(made)


def header(folder):
    return folder / "include" / "ATen" / "a.h"


def writable(path):
    path.parent.chmod(0o755)
    if path.exists() and not path.is_symlink():
        path.chmod(0o644)


def sealed(folder):
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o444)


def alter(folder):
    """Other bytes, of the same size, with the times that the file had."""
    was = header(folder).stat()
    writable(header(folder))
    header(folder).write_text("#define A 2\n")
    os.utime(header(folder), ns=(was.st_atime_ns, was.st_mtime_ns))


def append(folder):
    writable(header(folder))
    header(folder).write_text("#define A 1\n//\n")


def add(folder):
    writable(folder / "include" / "new.h")
    (folder / "include" / "new.h").write_text("")


def remove(folder):
    writable(header(folder))
    header(folder).unlink()


def link(folder):
    writable(header(folder))
    header(folder).unlink()
    header(folder).symlink_to("/etc/hostname")


def open_up(folder):
    (folder / "include").chmod(0o777)


def forget(folder):
    manifest_path(folder).unlink()


def before_ages(folder):
    """As an older wheelsmith wrote it, which left files as old as the moment in which they were unpacked."""
    said = json.loads(manifest_path(folder).read_text())
    del said["finished"]
    manifest_path(folder).write_text(json.dumps(said))


CHANGES = {
    before_ages: "its manifest is missing or invalid",
    alter: "the content of include/ATen/a.h changed",
    append: "the size of include/ATen/a.h changed",
    add: "include/new.h was added",
    remove: "include/ATen/a.h is missing",
    link: "the permissions or the kind of include/ATen/a.h changed",
    open_up: "the permissions or the kind of include changed",
    forget: "its manifest is missing or invalid",
}


def test_the_hash_of_a_file_is_the_recorded_one_until_it_changes(folder):
    contents = json.loads(manifest_path(folder).read_text())["contents"]
    manifest_path(folder).write_text(
        manifest_path(folder).read_text().replace(contents["include/ATen/a.h"], "recorded")
    )
    assert content_hash(folder, "include/ATen/a.h") == "recorded"
    alter(folder)
    assert content_hash(folder, "include/ATen/a.h") == hashlib.sha256(b"#define A 2\n").hexdigest()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changed_is_named_and_made_again(cache, folder, change):
    assert find_change(folder) is None
    assert find_change_by_content(folder) is None
    change(folder)
    if change is not open_up:
        sealed(folder)
    assert find_change_by_content(folder) == CHANGES[change]
    heard = []
    assert make(cache, heard=heard) == 1
    text = f"{NAME} has changed since it was made: {CHANGES[change]}; making it again"
    assert heard == [Notice(level="warning", text=text)]
    assert header(folder).read_text() == "#define A 1\n"
    assert make(cache, heard=heard) == 0
    assert len(heard) == 1


def test_what_changed_and_cannot_be_made_again_is_named(cache, folder):
    alter(folder)
    sealed(folder)

    def offline(_):
        raise ToolchainError("the index could not be reached", remedy="check the network")

    with pytest.raises(ToolchainError) as caught:
        make(cache, maker=offline)
    assert caught.value.message.startswith(f"{NAME} has changed since it was made: {CHANGES[alter]}; and it cannot")
    assert caught.value.message.endswith("be made again: the index could not be reached")
    assert caught.value.remedy == "check the network"


def test_a_copy_of_the_cache_is_as_good(cache, folder, tmp_path):
    """Its times and owners are others, so its bytes are compared, once."""
    other = tmp_path / "other"
    shutil.copytree(cache, other, symlinks=True)
    before = manifest_path(other / "prefix" / NAME).read_bytes()
    assert make(other) == 0
    assert manifest_path(other / "prefix" / NAME).read_bytes() != before
    assert find_change(other / "prefix" / NAME) is None


def test_a_copy_that_cannot_be_written_is_as_good(cache, folder, tmp_path, monkeypatch):
    """For example, a cache in an image, which another user reads."""
    other = tmp_path / "other"
    shutil.copytree(cache, other, symlinks=True)
    before = manifest_path(other / "prefix" / NAME).read_bytes()

    def refuse(path, content):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(proofs, "atomic_write", refuse)
    assert make(other) == 0
    assert manifest_path(other / "prefix" / NAME).read_bytes() == before
    copied = header(other / "prefix" / NAME)
    writable(copied)
    copied.write_text("#define A 2\n")
    copied.chmod(header(folder).stat().st_mode)
    copied.parent.chmod(header(folder).parent.stat().st_mode)
    assert find_change(other / "prefix" / NAME) == "the content of include/ATen/a.h changed"


@pytest.fixture
def twin(folder, tmp_path):
    """A folder with the same files under other names, and with one of its own."""
    twin = folder.with_name(f"{NAME}-twin")
    shutil.copytree(folder, twin, symlinks=True, copy_function=os.link)
    (twin / "include").chmod(0o755)
    (twin / "include" / "b.h").unlink()
    (twin / "include" / "b.h").write_text("#define B 2\n")
    sealed(twin)
    # A file system's clock ticks: what is changed within the same tick has the same times.
    probe = tmp_path / "probe"
    probe.touch()
    while probe.stat().st_ctime_ns <= max(path.lstat().st_ctime_ns for path in twin.rglob("*")):
        probe.touch()
    return twin


@pytest.fixture
def compared(twin, monkeypatch):
    """Names of the files that are read from now on."""
    compared, real = [], proofs.sha256_file
    monkeypatch.setattr(proofs, "sha256_file", lambda path: compared.append(path.name) or real(path))
    return compared


def test_only_what_looks_otherwise_is_compared(folder, compared):
    """Of a.h, another name was made, and of b.h, one was removed."""
    assert find_change(folder) is None
    assert compared == ["a.h", "b.h"]
    assert find_change(folder) is None
    os.utime(header(folder), ns=(0, 0))
    assert find_change(folder) is None
    assert compared == ["a.h", "b.h", "a.h"]


def test_a_change_under_another_name_is_seen(folder, twin):
    alter(twin)
    sealed(twin)
    assert find_change(folder) == CHANGES[alter]


def test_a_builder_cannot_write_what_is_made(folder):
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            assert path.stat().st_mode & 0o222 == 0, path


def test_what_is_put_aside_goes_with_a_prune_and_the_proof_with_its_folder(cache, folder):
    append(folder)
    make(cache)
    stock = take_inventory(cache)
    assert [item.path.name.rpartition("-")[0] for item in stock.of(Kind.LEFTOVERS).items] == [f".{NAME}.changed"]
    (toolchain,) = stock.of(Kind.TOOLCHAINS).items
    assert [stock.contents[key].path for key in toolchain.shares] == [manifest_path(folder)]
    shutil.rmtree(folder)
    assert manifest_path(folder) in [item.path for item in take_inventory(cache).of(Kind.LEFTOVERS).items]


def test_many_at_once_fix_once(cache, folder):
    append(folder)
    made, threads = [], []
    for _ in range(6):
        threads.append(threading.Thread(target=lambda: made.append(make(cache))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [0, 0, 0, 0, 0, 1]


def test_verify_compares_every_byte(cache, folder, monkeypatch, capsys):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(cache))
    blob = cache / "objects" / "blobs" / "ab" / "ab12"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"not zlib")
    wheel = cache / "store" / "wheels" / "cd34" / "k-1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"")
    alter(folder)
    sealed(folder)
    answer = run_command(monkeypatch, capsys, "cache", "verify")
    assert answer.code == 4
    assert answer.out.splitlines() == [
        f"✗ {NAME}: the content of include/ATen/a.h changed",
        "✗ store/wheels/cd34/k-1-py3-none-any.whl: its content has another hash",
        "✗ objects/blobs/ab/ab12: its content has another hash",
        "1 toolchain, 0 environments, 1 wheel, 1 object, 0 sources: 3 changed",
    ]
    blob.unlink()
    wheel.unlink()
    make(cache)
    (cache / "prefix" / "environment-3.11-x86_64-ab").mkdir()
    answer = run_command(monkeypatch, capsys, "cache", "verify", "--json")
    checked = {"toolchains": 1, "environments": 1, "wheels": 0, "objects": 0, "sources": 0}
    assert json.loads(answer.out)["checked"] == checked
    assert [*json.loads(answer.out)["changed"]] == ["environment-3.11-x86_64-ab"]
    (cache / "prefix" / "environment-3.11-x86_64-ab").rmdir()
    answer = run_command(monkeypatch, capsys, "cache", "verify")
    assert answer.out == "1 toolchain, 0 environments, 0 wheels, 0 objects, 0 sources: none changed\n"
    assert answer.code == 0
