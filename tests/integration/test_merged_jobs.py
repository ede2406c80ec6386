"""What several jobs made, merged in the ways in which CI systems merge folders: published whole, or refused."""

import shutil
from pathlib import Path

import pytest
from command_line import run_command
from kernels import matrix, pure_kernel
from wheels import make_wheel, offer

from wheelsmith.index.entries.entry import CellWithoutWheel, NoWheel
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")

NOW = "2026-01-02T03:04:05Z"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))

    def run(*argv):
        return run_command(monkeypatch, capsys, *map(str, argv))

    return run


def job(folder, *torches, failed=()):
    """Leave what a job leaves: an index, and the wheels beside it."""
    offers = []
    for torch in torches:
        path = make_wheel(folder / "wheels", "kernel", f"1+cpu.torch{torch}", requires=(f"torch=={torch}.*",))
        offers.append(offer(path, Cell(release=torch, toolkit=None, arch="x86_64")))
    answers = [
        CellWithoutWheel(
            cell=Cell(release=t, toolkit=None, arch="x86_64"), version="1", status=NoWheel.FAILED, reason="it did"
        )
        for t in failed
    ]
    Index(Folder(folder / "index")).add(offers, upload_time=NOW, answers={"kernel": answers})
    # As a run names what it told.
    runs = folder / "index" / "_state" / "runs"
    runs.mkdir()
    (runs / f"{'-'.join((*torches, *failed))}.json").write_text("{}")


def over(a, b):
    """The second over the first: GitHub's merge-multiple, GitLab's artifacts of several jobs, tar and zip."""
    shutil.copytree(a, "dist", dirs_exist_ok=True)
    shutil.copytree(b, "dist", dirs_exist_ok=True)


def under(a, b):
    """What is there stays: cp --no-clobber, rsync --ignore-existing."""
    over(b, a)


def only_indexes(a, b):
    over(Path(a, "index"), Path(b, "index"))


def without_hidden(a, b):
    """actions/upload-artifact leaves hidden files out."""
    over(a, b)
    for path in list(Path("dist").rglob(".*")):
        path.unlink()


def newest(a, b):
    """As ``under``, but pages are the other's."""
    under(a, b)
    shutil.copytree(Path(b, "index", "simple"), "dist/index/simple", dirs_exist_ok=True)


def beside(a, b):
    """Each in a folder of its own, as actions/download-artifact does."""
    shutil.copytree(a, "dist/job-a")
    shutil.copytree(b, "dist/job-b")


WAYS = (over, under, only_indexes, without_hidden, newest, beside)


def published():
    (state,) = Index(Folder(Path("target"))).states().values()
    return {cell.release for entry in state.entries for cell in entry.cells}, {a.cell.release for a in state.answers}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("place", ["dist", "dist/index"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((("2.12",), ()), (("2.13",), ())),
        ((("2.12",), ("2.11",)), (("2.13",), ())),
        (((), ("2.11",)), (("2.13",), ())),
        ((("2.12",), ()), ((), ("2.11",))),
    ],
    ids=["wheels", "a-failure", "failures-first", "failures-last"],
)
def test_merged_in_one_folder(first, second, place, way, run):
    job(Path("a"), *first[0], failed=first[1])
    job(Path("b"), *second[0], failed=second[1])
    way(Path("a"), Path("b"))
    answer = run("publish", "target", "--from", place)
    if answer.code:
        assert answer.code == 4
        assert not Path("target").exists()
    else:
        assert published() == ({*first[0], *second[0]}, {*first[1], *second[1]})


@pytest.mark.parametrize("index", ["index", "."])
def test_named_apart_they_are_one_release(index, run):
    job(Path("a"), "2.12", failed=["2.11", "2.13"])
    job(Path("b"), "2.13")
    answer = run("publish", "target", "--from", Path("a", index), "--from", Path("b", index))
    assert answer.code == 0
    assert published() == ({"2.12", "2.13"}, {"2.11"})
    assert answer.err.splitlines() == [
        "+ kernel-1+cpu.torch2.12-py3-none-any.whl: simple, cpu",
        "+ kernel-1+cpu.torch2.13-py3-none-any.whl: simple, cpu",
        "2 wheels published, 0 already there, 2 combinations without a wheel: target",
    ]
    assert verify(Folder(Path("target"))) == ()


def test_the_same_wheel_of_two_jobs_serves_the_cells_of_both(run):
    path = make_wheel(Path("made"), "kernel", "1")
    for name, torch in (("a", "2.12"), ("b", "2.13")):
        Index(Folder(Path(name))).add([offer(path, Cell(release=torch, toolkit=None, arch="x86_64"))], upload_time=NOW)
    answer = run("publish", "target", "--from", "a", "--from", "b")
    assert "1 wheel published, 0 already there" in answer.err
    assert published() == ({"2.12", "2.13"}, set())


def test_other_bytes_of_one_name_are_refused_before_anything_is_written(run):
    job(Path("a"), "2.12")
    path = make_wheel(Path("made"), "kernel", "1+cpu.torch2.12", files={"x.py": b""}, requires=("torch==2.12.*",))
    Index(Folder(Path("b"))).add([offer(path)], upload_time=NOW)
    assert run("publish", "target", "--from", "a", "--from", "b").code == 4
    assert not list(Path("target").rglob("*.*ml"))
    assert Index(Folder(Path("target"))).states() == {}
    shutil.copytree("a/wheels", "w/a")
    shutil.copytree("made", "w/b")
    answer = run("publish", "target", "--from", "w")
    assert (answer.code, "in the index with other bytes" in answer.err) == (4, True)
    assert Index(Folder(Path("target"))).states() == {}


def test_a_folder_that_holds_indexes_names_them(run):
    job(Path("a"), "2.12")
    job(Path("b"), "2.13")
    beside(Path("a"), Path("b"))
    answer = run("publish", "target", "--from", "dist")
    assert "--from dist/job-a/index --from dist/job-b/index" in answer.err


def test_a_wheel_that_the_state_lacks_is_named(run):
    job(Path("a"), "2.12")
    extra = make_wheel(Path("made"), "kernel", "1+cpu.torch2.13")
    shutil.copy(extra, "a/index")
    answer = run("publish", "target", "--from", "a/index")
    assert answer.code == 4
    assert f"does not list 1 of the wheels in a/index, such as {extra.name}" in answer.err
    assert "--from A --from B" in answer.err


def test_runs_that_share_every_wheel_are_told_apart(run):
    """A kernel with nothing compiled: two jobs make one wheel, and the states differ in the cells alone."""
    pure_kernel(Path("k"))
    matrix(Path(), "k", torch="2.12, 2.13")
    for name, torch in (("a", "212"), ("b", "213")):
        argv = ("build-matrix", "--engine", "local", "--progress", "plain", "--only", f"torch{torch}*", "--out", name)
        assert run(*argv).code == 0
    over(Path("a"), Path("b"))
    answer = run("publish", "target", "--from", "dist/index")
    assert (answer.code, "a mixture of the indexes of 2 runs" in answer.err) == (4, True)
    assert run("publish", "target", "--from", "a", "--from", "b").code == 0
    assert published() == ({"2.12", "2.13"}, set())
