"""What is compiled is what was planned, and what wheelsmith writes is never source."""

import json
import os
import shutil
from pathlib import Path

import containers
import pytest
from command_line import run_command
from kernels import matrix, pure_kernel
from one_build import build_one

from wheelsmith.base.beneath import WorkFolder, remove_tree
from wheelsmith.base.errors import SourceError
from wheelsmith.model import Status
from wheelsmith.run.build import make_build_request
from wheelsmith.run.executors.local import make_context
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.run.scratch import scratch
from wheelsmith.source import tree as source_tree
from wheelsmith.source.builds import read_build_folder
from wheelsmith.source.folder import Outputs, read_folder
from wheelsmith.source.hub import _files
from wheelsmith.source.tree import SourceTree, copy_into

MODULE = "torch-ext/pure/__init__.py"


@pytest.fixture
def kernel(tmp_path):
    yield pure_kernel(tmp_path / "k")
    remove_tree(tmp_path / "k")  # pytest itself cannot remove what is very deep


def tree_of(kernel: Path, out: str = "dist", cache: str = "cache") -> SourceTree:
    return read_folder(kernel, Outputs(out=kernel.parent / out, cache=kernel.parent / cache))


def paths_of(kernel: Path, **places: str) -> list[str]:
    return [path for path in tree_of(kernel, **places).paths if not path.startswith("torch-ext")]


HONEST = ["README.md", "build.toml"]

# --- what is compiled is what was planned -------------------------------------------------------------------


def _swap_for_pipe(path):
    path.unlink()
    os.mkfifo(path)


def _swap_for_link(path):
    path.rename(path.with_name("other"))
    path.symlink_to("/dev/zero")


EDITS = {
    "other bytes": lambda path: path.write_text("VALUE = 2\n"),
    "6 GiB more": lambda path: os.truncate(path, 6 << 30),
    "gone": Path.unlink,
    "a pipe": _swap_for_pipe,
    "an endless link": _swap_for_link,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_source_that_was_edited_after_the_plan_is_not_built(edit, kernel, tmp_path):
    """It put one source's wheel into the store under another's digest, for good."""
    containers.wanted("bwrap")
    request = Request(matrix=matrix(tmp_path, "k"), cache=tmp_path / "cache", engine="bwrap")
    prepared = prepare(request, lambda event: None)
    edit(kernel / MODULE)
    with scratch(tmp_path / "cache" / "work") as folder:
        context = make_context(make_build_request(PreparedSet.of(prepared), folder), lambda event: None)
        result = build_one(prepared.plans[0], context)
    assert result.status is Status.FAILED
    assert result.failure
    assert result.failure.message.startswith((f"{MODULE} was changed after", f"{MODULE} cannot be read"))
    assert not list((tmp_path / "cache").rglob("*.whl"))


def test_a_source_that_is_edited_while_it_is_copied_is_not_kept(kernel, tmp_path, monkeypatch):
    """Half is read before the edit, half after: neither is what was planned."""
    (kernel / "big.bin").write_bytes(b"a" * (3 << 20))
    tree = tree_of(kernel)
    real = source_tree.open_file

    def edited(path):
        file = real(path)
        if path.name == "big.bin":
            file.read(1)
            with path.open("r+b") as other:
                other.seek(2 << 20)
                other.write(b"b")
            file.seek(0)
        return file

    monkeypatch.setattr(source_tree, "open_file", edited)
    with WorkFolder.make(tmp_path / "work") as work, pytest.raises(SourceError, match="was changed after"):
        copy_into(tree, work, "src")


def hub_cache(kernel: Path, root: Path) -> Path:
    """Lay a kernel out as the Hub's client does: links into blobs."""
    snapshot, blobs = root / "snapshots" / ("c" * 40), root / "blobs"
    blobs.mkdir(parents=True)
    for number, path in enumerate(sorted(kernel.rglob("*"))):
        if path.is_file():
            link = snapshot / path.relative_to(kernel)
            link.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, blobs / str(number))
            link.symlink_to(blobs / str(number))
    return snapshot


def test_a_hub_cache_that_changed_after_the_plan_is_not_built(kernel, tmp_path):
    snapshot = hub_cache(kernel, tmp_path / "hub")
    tree = source_tree.make_tree(_files(snapshot), origin="hub:org/pure")
    assert tree.id.tree == tree_of(kernel).id.tree
    blob = (snapshot / MODULE).resolve()
    blob.write_text("VALUE = 2\n")
    with WorkFolder.make(tmp_path / "work") as work, pytest.raises(SourceError, match="was changed after"):
        copy_into(tree, work, "src")


@pytest.mark.parametrize("target", ["/etc/hostname", "../../../other/blobs/0", "../../blobs/none"])
def test_a_link_in_a_hub_cache_leads_to_a_file_of_its_own_repo(kernel, tmp_path, target):
    snapshot = hub_cache(kernel, tmp_path / "hub")
    hub_cache(kernel, tmp_path / "other")
    (snapshot / "more").symlink_to(target)
    with pytest.raises(SourceError, match=r"more is a (link that leads out of the source|dangling link)"):
        source_tree.make_tree(_files(snapshot), origin="hub:org/pure")


# --- modes --------------------------------------------------------------------------------------------------


def test_what_is_executable_stays_so_and_is_in_the_digest(kernel, tmp_path):
    plain = tree_of(kernel).id.tree
    (kernel / "README.md").chmod(0o600)
    assert tree_of(kernel).id.tree == plain  # what others may do with it is this machine's
    (kernel / "run.sh").write_text("#!/bin/sh\n")
    before = tree_of(kernel).id.tree
    (kernel / "run.sh").chmod(0o755)
    tree = tree_of(kernel)
    assert tree.id.tree != before
    (kernel / "run.sh").chmod(0o644)  # as it was planned is how it is copied
    with WorkFolder.make(tmp_path / "work") as work:
        copy_into(tree, work, "src")
    assert (tmp_path / "work/src/run.sh").stat().st_mode & 0o111
    assert not (tmp_path / "work/src/README.md").stat().st_mode & 0o111


def test_a_hub_tree_has_the_same_digest_whatever_the_modes_of_its_cache(kernel, tmp_path):
    snapshot = hub_cache(kernel, tmp_path / "hub")
    before = source_tree.make_tree(_files(snapshot), origin="hub:org/pure").id
    for blob in (tmp_path / "hub/blobs").iterdir():
        blob.chmod(0o777)
    assert source_tree.make_tree(_files(snapshot), origin="hub:org/pure").id == before


# --- outputs ------------------------------------------------------------------------------------------------


def build(monkeypatch, capsys, kernel: Path, *argv: str) -> dict[str, dict]:
    monkeypatch.setenv("WHEELSMITH_CACHE", str(kernel / "my-cache"))
    monkeypatch.chdir(kernel)
    answer = run_command(monkeypatch, capsys, "build-matrix", "--engine", "bwrap", "--json", *argv)
    assert answer.code == 0, answer.err
    return json.loads(answer.out)["cells"]


def test_what_a_run_writes_into_the_kernel_is_not_source(monkeypatch, capsys, kernel):
    """Every run found another source, that of the run before it among it, and built all anew."""
    containers.wanted("bwrap")
    matrix(kernel, ".")
    found = [
        build(monkeypatch, capsys, kernel, *argv)
        for argv in ((), ("--out", "out"), ("--out", "out"), ("--out", "sub/out"), ("--out", "."), ())
    ]
    (first, *others) = [[cell["wheel"] for cell in cells.values()] for cells in found]
    assert all(other == first for other in others)
    assert [cell["status"] for cells in found[1:] for cell in cells.values()] == ["cached"] * 5
    (kernel / "out" / "CHANGES.md").write_text("What a release says.\n")
    assert paths_of(kernel, out="k/sub/out", cache="k/my-cache") == HONEST


def test_an_index_in_the_kernel_is_not_source(monkeypatch, capsys, kernel):
    containers.wanted("bwrap")
    matrix(kernel, ".")
    build(monkeypatch, capsys, kernel)
    answer = run_command(monkeypatch, capsys, "publish", "published/here")
    assert answer.code == 0, answer.err
    assert (kernel / "published/here").is_dir()
    assert paths_of(kernel, cache="k/my-cache") == HONEST


def test_what_git_keeps_is_not_source(kernel):
    """A worktree and a submodule have a file of that name, with a path of this machine in it."""
    (kernel / ".git").write_text("gitdir: /home/somebody/kernel/.git/worktrees/k\n")
    (kernel / "third_party" / "lib").mkdir(parents=True)
    (kernel / "third_party" / "lib" / ".git").write_text("gitdir: ../../.git/modules/lib\n")
    assert paths_of(kernel) == HONEST
    (kernel / ".git").unlink()
    (kernel / ".git").mkdir()
    (kernel / ".git" / "config").write_text("x")
    assert paths_of(kernel) == HONEST
    (kernel / "settings").symlink_to(".git/config")
    with pytest.raises(SourceError, match=r"settings leads into \.git, which is not part of the source"):
        paths_of(kernel)


def test_what_only_looks_like_an_output_is_source(kernel):
    for name in ("index/a.h", "wheels/b.h", "logs/c.h", "sub/report.html"):
        (kernel / name).parent.mkdir(exist_ok=True)
        (kernel / name).write_text("x")
    assert paths_of(kernel) == ["README.md", "build.toml", "index/a.h", "logs/c.h", "sub/report.html", "wheels/b.h"]


def test_an_output_folder_that_is_a_link_is_left_out(kernel, tmp_path):
    (tmp_path / "disk").mkdir()
    (kernel / "out").symlink_to(tmp_path / "disk")
    assert paths_of(kernel, out="k/out") == HONEST
    with pytest.raises(SourceError, match="out is a link that leads out"):
        paths_of(kernel)


def test_a_build_with_a_link_that_leads_round_stops_no_other(tmp_path):
    for name in ("torch211-cxx11-cpu-x86_64-linux", "torch213-cxx11-cpu-x86_64-linux"):
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / "__init__.py").touch()
    (tmp_path / "build" / name / "round").symlink_to("round")
    (tmp_path / "LICENSE").symlink_to("LICENSE")
    builds = read_build_folder(tmp_path)
    good, bad = builds.fetch(builds.names).values()
    assert isinstance(good, SourceTree)
    assert str(bad) == "round is a dangling link"


# --- names and sizes ----------------------------------------------------------------------------------------


def test_trees_that_no_kernel_has_are_refused_at_once(kernel):
    at = os.open(kernel, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    with pytest.raises(SourceError, match="more than 100 folders"):
        tree_of(kernel)


def test_a_file_with_holes_is_refused_by_what_it_looks_like(kernel):
    (kernel / "big").touch()
    os.truncate(kernel / "big", 600 << 20)
    with pytest.raises(SourceError, match="larger than 512 MiB"):
        tree_of(kernel)
