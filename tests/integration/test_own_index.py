"""The index of a run: whole when the run ends, with the wheels of its matrix, and a mark on those of older sources."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run_command
from kernels import NOARCH_TOML, matrix, pure_kernel, tiny_kernel
from sampled import sampled
from signatures import SIGNATURE
from states import cell, of_torch, project, unserved

from wheelsmith.index.entries.entry import NoWheel
from wheelsmith.index.entries.side_files import side_files
from wheelsmith.index.entries.stored_states import load_states
from wheelsmith.index.publish.run_index import keep_valid
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.plan.planned_run import PlannedRun

pytestmark = pytest.mark.usefixtures("in_process_worker")


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


def flip_wheel():
    path = wheels()[0]
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


GUTTED = {
    "pages": lambda: shutil.rmtree("dist/index/simple"),
    "the state": lambda: Path("dist/index/_state/pure.json").unlink(),
    "a side-car": lambda: next(Path("dist/index").rglob("*.metadata")).unlink(),
    "a page too many": lambda: shutil.copytree("dist/index/cpu", "dist/index/cu130"),
    "a wheel's bytes": flip_wheel,
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


@pytest.mark.release("several versions are built")
def test_wheels_of_earlier_versions_stay_while_they_are_there(build):
    assert build().code == 0
    edit(1, version=2)
    assert build().code == 0
    (old,) = (path for path in wheels() if "-1-" in path.name)
    old.with_name(f"{old.name}.metadata").unlink()
    edit(1, version=3)
    assert build().code == 0
    assert [path.name[:6] for path in wheels("dist/wheels")] == ["pure-1", "pure-2", "pure-3"]
    assert verify(Folder(Path("dist/index"))) == ()
    old.unlink()
    edit(2, version=3)
    assert build().code == 0
    assert sorted(path.name[:6] for path in wheels()) == ["pure-2", "pure-3"]
    assert verify(Folder(Path("dist/index"))) == ()


def test_what_lies_beside_a_wheel_stays_while_it_is_there(build, run, monkeypatch):
    monkeypatch.setitem(side_files(), SIGNATURE.suffix, SIGNATURE)
    assert build().code == 0
    kept = Path("kept")
    kept.mkdir()
    copy = Path(shutil.copy(wheels()[0], kept))
    copy.with_name(f"{copy.name}.signature").write_bytes(b"signed")
    assert run("index", "add", "dist/index", copy).code == 0
    (beside,) = Path("dist/index").rglob("*.signature")
    page = Path("dist/index/simple/pure/index.html")
    for lost, signed in ((wheels()[0], True), (beside, False)):
        lost.unlink()
        assert build().code == 0
        assert verify(Folder(Path("dist/index"))) == ()
        assert (beside.exists(), b"data-signature" in page.read_bytes()) == (signed, signed)


def test_the_index_has_what_the_source_gives_now(build, run, tmp_path):
    for value in range(3):
        edit(value)
        assert build().code == 0
        (wheel,), (copy,) = wheels(), wheels("dist/wheels")
        assert wheel.read_bytes() == copy.read_bytes()
        assert verify(Folder(Path("dist/index"))) == ()
    before = content()
    edit(5)
    assert build().code == 0
    edit(2)
    assert build().code == 0
    assert wheels()[0].read_bytes() == wheel.read_bytes()
    assert before.keys() == content().keys()
    assert run("publish", tmp_path / "target", "--from", "dist/index").code == 0
    edit(6)
    assert build().code == 0
    answer = run("publish", tmp_path / "target", "--from", "dist/index")
    assert answer.code == 4
    assert "a published file never changes" in answer.err
    assert "new version" in answer.err
    edit(6, version=2)
    shutil.rmtree("dist")
    assert build().code == 0
    assert run("publish", tmp_path / "target", "--from", "dist/index").code == 0
    assert {path.name[:6] for path in wheels(tmp_path / "target")} == {"pure-1", "pure-2"}
    assert verify(Folder(tmp_path / "target")) == ()


@pytest.mark.parametrize(
    "step",
    sampled(
        ["run_index.built_wheels", "run_index.dump_state", "verify.expected_files", "run_index._link"],
        "run_index.dump_state",
    ),
)
def test_a_run_that_is_killed_leaves_nothing_behind_once_another_ends(step, build, monkeypatch):
    assert build().code == 0
    edit(step)
    with monkeypatch.context() as patch:
        patch.setattr(f"wheelsmith.index.publish.{step}", lambda *_, **__: 1 / 0)
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
CELLS = frozenset(cell(torch, cuda).id for torch in ("2.12", "2.13") for cuda in (None, "13.0"))


def made(tree=OLD, cells=CELLS):
    """A run of the source and the matrix."""
    names = tuple(sorted(cells))
    return PlannedRun(
        kernel="k",
        distribution="k",
        version="1.0",
        cells=names,
        offered=names,
        trees=(tree,),
        commit=None,
        plans=(),
        excluded=(),
        not_folded={},
        variants=False,
        matrix_sha256=None,
    )


@pytest.mark.parametrize(
    ("run", "digests", "hashes", "left"),
    [
        (made(), {}, {}, [CPU, CUDA, OTHER]),
        (made(NEW), {}, {}, [replace(CPU, older=True), replace(CUDA, older=True), OTHER]),
        (made(NEW), {CPU.cells[0].id: "ab" * 32}, {}, [replace(CUDA, older=True), OTHER]),
        # What the run left out, or plans otherwise, is not served by what was made before.
        (made(), {CPU.cells[0].id: ""}, {}, [CUDA, OTHER]),
        (made(), {CPU.cells[0].id: "ab" * 32}, {}, [CUDA, OTHER]),
        (made(), {CPU.cells[0].id: "d1" * 32}, {}, [CPU, CUDA, OTHER]),
        # The same plan may give other bytes where nothing is reproducible.
        (made(), {}, {CPU.filename: "ab" * 32}, [CUDA, OTHER]),
        (made(), {}, {CPU.filename: CPU.sha256}, [CPU, CUDA, OTHER]),
        # A cell that the matrix has no more, unlike one that the run merely did not answer.
        (made(cells=CELLS - {CUDA.cells[0].id}), {}, {}, [CPU, OTHER]),
    ],
)
def test_wheels_of_another_source_are_older(run, digests, hashes, left):
    assert keep_valid(project(CPU, CUDA, OTHER), run, digests, hashes) == project(*left)


def test_a_wheel_keeps_the_cells_that_are_still_its_own():
    both = replace(CPU, cells=(*CPU.cells, cell("2.13", None)))
    (left,) = keep_valid(project(both), made(), {CPU.cells[0].id: ""}, {}).entries
    assert left.cells == (cell("2.13", None),)


def test_what_became_of_a_cell_goes_with_the_cell():
    gone, kept = (unserved(cell(torch, None), NoWheel.FAILED, "it did") for torch in ("2.11", "2.13"))
    assert keep_valid(project(CPU, answers=(gone, kept)), made(), {}, {}) == project(CPU, answers=(kept,))


def test_the_index_follows_the_matrix(build, tmp_path):
    assert build().code == 0
    matrix(tmp_path, "k", torch="2.13")
    assert build().code == 0
    (entry,) = Index(Folder(Path("dist/index"))).entries("pure")
    assert [cell.release for cell in entry.cells] == ["2.13"]
    assert "torch=2.12" not in Path("dist/index/projects/pure/index.html").read_text()
    assert verify(Folder(Path("dist/index"))) == ()


@pytest.mark.release("it compiles, against two releases of torch: what goes is tried on states below")
def test_two_matrices_with_one_output_folder_keep_their_wheels(run, tmp_path):
    """A run removes what its own matrix no longer has, and nothing of the other matrix."""
    pure_kernel(tmp_path / "k")

    def build(name, torch):
        matrix(tmp_path, "k", torch=torch).rename(name)
        assert run("build-matrix", "--engine", "local", "--progress", "plain", "--matrix", name).code == 0
        (state,) = load_states(Folder(Path("dist/index"))).values()
        assert not any(entry.older for entry in state.entries)
        served = sorted(cell.id for entry in state.entries for cell in entry.cells)
        assert [list(item.cells) for item in state.planned] == [served]
        return [name.removesuffix("-cxx11-cpu-x86_64-linux") for name in served]

    assert build("one.yaml", "2.11") == ["torch211"]
    assert build("other.yaml", "2.12, 2.13") == ["torch211", "torch212", "torch213"]
    assert build("one.yaml", "2.11") == ["torch211", "torch212", "torch213"]
    assert build("other.yaml", "2.13") == ["torch211", "torch213"]


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
