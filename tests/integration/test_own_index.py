"""The index of a run's own: whole when the run ends, and what the source is until it is published."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run_command
from kernels import NOARCH_TOML, matrix, pure_kernel, tiny_kernel
from packaging.version import Version
from signatures import Signature
from states import cell, of_torch, project, unserved

from wheelsmith.index.entries import NoWheel
from wheelsmith.index.entries.side_files.known import side_files
from wheelsmith.index.publish import Index, verify
from wheelsmith.index.publish.run_index import ReleaseState, RunSources, follow_source
from wheelsmith.index.storage import Folder


@pytest.fixture
def run(monkeypatch, capsys, stored, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))

    def run(*argv):
        return run_command(monkeypatch, capsys, *map(str, argv))

    return run


@pytest.fixture
def build(run, tmp_path):
    """A kernel with nothing compiled, and what builds it."""
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.12, 2.13")
    return lambda: run("build-matrix", "--engine", "local", "--progress", "plain")


def edit(value, version=1):
    pure_kernel(
        Path("k"),
        **{
            "torch-ext/pure/__init__.py": f"VALUE = {value!r}\n",
            "build.toml": NOARCH_TOML.replace("version = 1", f"version = {version}"),
        },
    )


def content(folder="dist/index"):
    return {
        str(p): p.read_bytes()
        for p in sorted(Path(folder).rglob("*"))
        if p.is_file() and p.name != ".lock" and p.parent.name != "runs"
    }


def touched(folder="dist"):
    return {str(p): p.stat().st_mtime_ns for p in sorted(Path(folder).rglob("*")) if p.is_file() and "index" in p.parts}


def wheels(folder="dist/index"):
    return sorted(Path(folder).rglob("*.whl"))


def cut_wheel():
    path = wheels()[0]
    path.write_bytes(path.read_bytes()[:-1])


def flip_wheel():
    path = wheels()[0]
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


def flip_copy():
    path = wheels("dist/wheels")[0]
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


GUTTED = {
    "pages": lambda: shutil.rmtree("dist/index/simple"),
    "files": lambda: shutil.rmtree("dist/index/files"),
    "both": lambda: (shutil.rmtree("dist/index/simple"), shutil.rmtree("dist/index/files")),
    "all but the note": lambda: [
        shutil.rmtree(p) for p in Path("dist/index").iterdir() if p.is_dir() and p.name != "_state"
    ],
    "the state": lambda: Path("dist/index/_state/pure.json").unlink(),
    "the lists": lambda: Path("dist/index/_state/.listing.json").unlink(),
    "one page": lambda: Path("dist/index/cpu/pure/index.json").unlink(),
    "another page": lambda: Path("dist/index/index.html").write_text("x"),
    "a side-car": lambda: next(Path("dist/index").rglob("*.metadata")).unlink(),
    "a side-car's bytes": lambda: next(Path("dist/index").rglob("*.metadata")).write_text("Name: x"),
    "a page too many": lambda: shutil.copytree("dist/index/cpu", "dist/index/cu130"),
    "a wheel's end": cut_wheel,
    "a wheel's bytes": flip_wheel,
    "a copy's bytes": flip_copy,
    "the copies": lambda: shutil.rmtree("dist/wheels"),
    "a yank": None,
}


@pytest.mark.parametrize("name", GUTTED)
def test_a_run_leaves_its_index_whole(name, build, run):
    assert build().code == 0
    before, copies = content(), content("dist/wheels")
    if GUTTED[name]:
        GUTTED[name]()
    else:
        assert run("index", "yank", "dist/index", "pure", "1").code == 0
    assert build().code == 0
    assert verify(Folder(Path("dist/index"))) == ()
    assert content("dist/wheels") == copies
    if GUTTED[name] and name != "the state":
        assert content() == before


def test_a_run_with_nothing_new_writes_nothing(build):
    assert build().code == 0
    assert build().code == 0
    before = touched()
    assert build().code == 0
    assert touched() == before


def test_what_nothing_can_make_again_is_said(build, run):
    assert build().code == 0
    edit(1, version=2)
    assert build().code == 0
    (old,) = (path for path in wheels() if "-1-" in path.name)
    kept = Path("kept")
    kept.mkdir()
    shutil.move(old, kept)
    old.with_name(f"{old.name}.metadata").unlink()
    assert build().code == 0  # the store has it
    assert verify(Folder(Path("dist/index"))) == ()
    old.unlink()
    shutil.rmtree("cache/store/wheels")
    answer = build()
    assert answer.code == 4
    assert "has lost 1 file of earlier runs, such as pure-1-py3-none-any.whl" in answer.err
    assert run("index", "repair", "dist/index", "--from", kept).code == 0
    assert build().code == 0
    assert verify(Folder(Path("dist/index"))) == ()


def test_what_was_put_beside_a_wheel_stays_or_is_missed(build, run, monkeypatch):
    monkeypatch.setitem(side_files(), Signature.suffix, Signature())
    assert build().code == 0
    kept = Path("kept")
    kept.mkdir()
    copy = Path(shutil.copy(wheels()[0], kept))
    copy.with_name(f"{copy.name}.signature").write_bytes(b"signed")
    assert run("index", "add", "dist/index", copy).code == 0
    before = content()
    (beside,) = Path("dist/index").rglob("*.signature")
    wheels()[0].unlink()
    assert build().code == 0
    assert content() == before
    beside.unlink()
    answer = build()
    assert answer.code == 4
    assert f"has lost 1 file of earlier runs, such as {beside.name}" in answer.err
    assert run("index", "repair", "dist/index", "--from", kept).code == 0
    assert build().code == 0
    assert content() == before


def test_the_index_follows_the_source_until_it_is_published(build, run, tmp_path):
    for value in range(3):
        edit(value)
        assert build().code == 0
        (wheel,), (copy,) = wheels(), wheels("dist/wheels")
        assert wheel.read_bytes() == copy.read_bytes()
        assert verify(Folder(Path("dist/index"))) == ()
    before = content()
    foreseen = run("publish", tmp_path / "target", "--from", "dist/index", "--dry-run")
    assert foreseen.code == 0
    edit(5)
    assert build().code == 0
    edit(2)
    assert build().code == 0
    assert wheels()[0].read_bytes() == wheel.read_bytes()
    assert before.keys() == content().keys()
    assert run("publish", tmp_path / "target", "--from", "dist/index").code == 0
    edit(6)
    answer = build()
    assert answer.code == 4
    assert "a published file never changes" in answer.err
    assert "new version" in answer.err
    edit(6, version=2)
    assert build().code == 0
    assert run("publish", tmp_path / "target", "--from", "dist/index").code == 0
    assert [path.name for path in wheels(tmp_path / "target")].count("pure-1-py3-none-any.whl") == 1
    assert verify(Folder(tmp_path / "target")) == ()


def test_what_came_from_elsewhere_was_published(build, run):
    """Nobody knows that of an index that was made before this was noted, either."""
    assert build().code == 0
    Path("dist/index/_state/.unpublished.json").unlink()
    edit(2)
    assert build().code == 4
    edit(1)
    assert build().code == 0


def test_a_run_that_is_killed_between_leaves_nothing_that_passes_for_published(build, monkeypatch):
    assert build().code == 0
    for step in ("add", "_drop", "_make_whole", "_name"):
        edit(step)
        with monkeypatch.context() as patch:
            place = (
                "wheelsmith.index.publish.Index.add" if step == "add" else f"wheelsmith.index.publish.run_index.{step}"
            )
            patch.setattr(place, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                build()
        edit(f"{step} again")
        assert build().code == 0
        assert verify(Folder(Path("dist/index"))) == ()
        assert len(wheels()) == len(wheels("dist/wheels")) == 1


OLD, NEW = "7e" * 32, "8f" * 32
CPU, CUDA, OTHER = (
    replace(entry, sha256=digit * 64)
    for entry, digit in (
        (of_torch("2.12", None), "1"),
        (of_torch("2.12", "13.0"), "2"),
        (of_torch("2.12", None, version="2.0"), "3"),
    )
)
ALL = frozenset(entry.sha256 for entry in (CPU, CUDA, OTHER))


CELLS = frozenset(cell(torch, cuda).id for torch in ("2.12", "2.13") for cuda in (None, "13.0"))


def made(tree=OLD, digests=None, hashes=None, cells=CELLS):
    return ReleaseState(
        project="k",
        version=Version("1.0"),
        sources=RunSources(trees=frozenset({tree})),
        cells=cells,
        offered=cells,
        digests=digests or {},
        hashes=hashes or {},
    )


@pytest.mark.parametrize(
    ("run", "changing", "left"),
    [
        (made(), ALL, [CPU, CUDA, OTHER]),
        (made(NEW), ALL, [OTHER]),
        (made(NEW), frozenset(), [CPU, CUDA, OTHER]),
        (made(NEW), frozenset({CPU.sha256}), [CUDA, OTHER]),
        # What the run left out, or plans otherwise, is not served by what was made before.
        (made(digests={cell("2.12", None).id: None}), ALL, [CUDA, OTHER]),
        (made(digests={cell("2.12", None).id: "ab" * 32}), ALL, [CUDA, OTHER]),
        (made(digests={cell("2.12", None).id: "d1" * 32}), ALL, [CPU, CUDA, OTHER]),
        (made(digests={cell("2.12", None).id: None}), frozenset(), [CPU, CUDA, OTHER]),
        # The same plan may give other bytes where nothing is reproducible.
        (made(hashes={CPU.filename: "ab" * 32}), ALL, [CUDA, OTHER]),
        (made(hashes={CPU.filename: CPU.sha256}), ALL, [CPU, CUDA, OTHER]),
        # A cell that the matrix has no more, unlike one that the run merely did not answer.
        (made(cells=CELLS - {cell("2.12", "13.0").id}), ALL, [CPU, OTHER]),
        (made(cells=CELLS - {cell("2.12", "13.0").id}), frozenset(), [CPU, CUDA, OTHER]),
    ],
)
def test_wheels_of_another_source_go(run, changing, left):
    assert follow_source(project(CPU, CUDA, OTHER), changing, run) == project(*left)


def test_a_wheel_keeps_the_cells_that_are_still_its_own():
    both = replace(CPU, cells=(*CPU.cells, cell("2.13", None)))
    (left,) = follow_source(project(both), ALL, made(digests={CPU.cells[0].id: None})).entries
    assert left.cells == (cell("2.13", None),)


def test_what_became_of_a_cell_goes_with_the_cell():
    gone, kept = (unserved(cell(torch, None), NoWheel.FAILED, "it did") for torch in ("2.11", "2.13"))
    assert follow_source(project(CPU, answers=(gone, kept)), ALL, made()) == project(CPU, answers=(kept,))


def test_the_index_follows_the_matrix(build, tmp_path):
    assert build().code == 0
    matrix(tmp_path, "k", torch="2.13")
    assert build().code == 0
    (entry,) = Index(Folder(Path("dist/index"))).entries("pure")
    assert [cell.release for cell in entry.cells] == ["2.13"]
    assert "torch=2.12" not in Path("dist/index/projects/pure/index.html").read_text()
    assert verify(Folder(Path("dist/index"))) == ()


@pytest.mark.release("it compiles, against two releases of torch: what goes is tried on states below")
def test_a_wheel_goes_from_every_place_with_its_cell(run, tmp_path):
    tiny_kernel(tmp_path / "k")
    for torch, names in (("2.12, 2.13", 2), ("2.13", 1)):
        matrix(tmp_path, "k", torch=torch)
        assert run("build-matrix", "--engine", "local", "--progress", "plain").code == 0
        assert len(wheels()) == len(wheels("dist/wheels")) == names
        assert len({path.stat().st_ino for path in wheels("dist")}) == names
    assert "torch2.13" in wheels()[0].name


def test_a_wheel_takes_its_room_once(build, monkeypatch):
    assert build().code == 0
    (wheel,), (name,) = wheels(), wheels("dist/wheels")
    assert name.samefile(wheel)
    name.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("wheelsmith.index.publish.run_index.atomic_link", lambda *_: False)
        assert build().code == 0
    assert name.read_bytes() == wheel.read_bytes()
    assert not name.samefile(wheel)


def test_a_run_whose_cells_are_all_left_out_says_why_in_its_index(build, run, tmp_path):
    everything = "rules: [{exclude: {torch: '2.1*'}, reason: they are old}]\n"
    matrix(tmp_path, "k", more=everything, torch="2.12, 2.13")
    assert build().code == 3
    assert [(a.cell.release, a.status) for a in Index(Folder(Path("dist/index"))).known("pure").answers] == [
        ("2.12", "excluded"),
        ("2.13", "excluded"),
    ]
    assert verify(Folder(Path("dist/index"))) == ()
    assert run("publish", "target", "--from", "dist").code == 0
    assert "they are old" in Path("target/projects/pure/index.html").read_text()


def test_a_cell_that_is_left_out_later_loses_its_wheel(build, tmp_path):
    assert build().code == 0
    matrix(tmp_path, "k", more="rules: [{exclude: {torch: '2.1*'}, reason: they are old}]\n", torch="2.12, 2.13")
    assert build().code == 3
    assert wheels("dist") == []
    assert len(Index(Folder(Path("dist/index"))).known("pure").answers) == 2


def test_a_run_without_any_wheel_says_why_in_its_index(build, tmp_path):
    """As where a distribution's name is not its normalized form; no answer may get lost."""
    matrix(tmp_path, "k", more="rules: [{exclude: {torch: 2.13}, reason: they are old}]\n", torch="2.12, 2.13")
    assert build().code == 0
    (answer,) = Index(Folder(Path("dist/index"))).known("pure").answers
    assert (answer.cell.release, answer.status) == ("2.13", "excluded")
    assert "they are old" in json.dumps(json.loads(Path("dist/index/projects/pure/catalogue.json").read_text()))


@pytest.mark.parametrize("name", ["logs", "wheels", "index", "index/_state", "index/_state/runs"])
def test_an_output_folder_that_leads_elsewhere_is_not_written_to(name, run, build, tmp_path):
    """It may have come with the kernel."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.json").write_text("mine")
    link = tmp_path / "dist" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    answer = build()
    assert answer.code == 4
    assert "is a link" in answer.err
    assert [path.name for path in outside.iterdir()] == ["mine.json"]
