"""A matrix built by several jobs and joined: every cell is answered for, each wheel is the one that was told of."""

import hashlib
import json
import math
import shutil
from pathlib import Path

import pytest
import wants
from factory import Factory
from kernels import matrix, tiny_kernel
from wheels import make_wheel

from wheelsmith.store import Costs

pytestmark = [
    pytest.mark.network,
    pytest.mark.xdist_group("joined shards"),
    pytest.mark.usefixtures("in_process_worker"),
]
OUTPUTS = ("s1", "s2")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two cells, each built by a job, in folders as build-matrix leaves them."""
    wants.program("g++")
    factory = Factory.at(tmp_path_factory.mktemp("sharded"))
    tiny_kernel(factory.folder / "k")
    matrix(factory.folder, "k", torch="2.12, 2.13", more="toolchain: host\n")
    planned = factory.run("plan", "--engine", "bwrap", "--shards", "3", "--format", "github-matrix")
    assert json.loads(planned.stdout) == {"include": [{"shard": "1/3", "number": 1}, {"shard": "2/3", "number": 2}]}, (
        planned.stderr
    )
    for number, out in enumerate((*OUTPUTS, "s3"), 1):
        answer = factory.run("build-matrix", "--engine", "bwrap", "--shard", f"{number}/3", "--out", out)
        assert answer.returncode == 0, answer.stderr
    assert answer.stderr == "shard 3/3 is empty: nothing to build\n"
    assert not (factory.folder / "s3").exists()
    return factory


@pytest.fixture
def factory(built, tmp_path):
    """What the jobs left, to change, where another machine joins it: with a cache of its own."""
    for name in ("wheelsmith.shards.json", *OUTPUTS):
        path = built.folder / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / name)
    return Factory(folder=tmp_path, cache=tmp_path / "cache")


def join(factory, *folders, code=0, say=""):
    answer = factory.run_in_process("join", "--engine", "bwrap", *(folders or OUTPUTS))
    assert answer.returncode == code, answer.stderr
    assert say in answer.stderr
    return answer


def edit(factory, out, change):
    path = factory.folder / out / "results.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def cell_of(factory, out):
    (name,) = factory.results(out)
    return name


def test_one_index_and_one_answer_for_each_cell(built, factory):
    join(factory)
    told = {name: cell for out in OUTPUTS for name, cell in built.results(out).items()}
    joined = factory.results()
    assert {name: cell["wheel"] for name, cell in joined.items()} == {n: cell["wheel"] for n, cell in told.items()}
    assert {name: cell["timings"] for name, cell in joined.items()} == {n: cell["timings"] for n, cell in told.items()}
    assert {path.name for path in (factory.folder / "dist/wheels").iterdir()} == {
        cell["wheel"]["filename"] for cell in told.values()
    }
    for cell in told.values():
        assert (factory.folder / "dist/logs" / cell["log"]).is_file()
    assert factory.run("index", "verify", "dist/index").returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (factory.folder / "dist/index").rglob("*") if path.is_file()}
    join(factory)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    # Nothing of it is what a later build here takes for its own.
    assert not (factory.cache / "store").exists()


def test_the_next_plan_elsewhere_knows_what_the_builds_took(factory):
    for seconds, out in zip((10.0, 11.0), OUTPUTS, strict=True):
        path = factory.folder / out / "results.json"
        data = json.loads(path.read_text())
        ((cell, took),) = data["shard"]["costs"].items()
        assert (cell, took > 0) == (cell_of(factory, out), True)
        data["shard"]["costs"][cell] = seconds
        path.write_text(json.dumps(data))
    join(factory)
    known = Costs(factory.cache / "costs.sqlite")
    took = {known.find([f"build tiny cpu x86_64 torch{torch}"]).seconds for torch in ("2.12", "2.13")}
    assert took == {10.0, 11.0}


def test_wheels_that_require_different_things_are_named(factory, monkeypatch):
    """How they are found has a test of its own."""
    monkeypatch.setattr("wheelsmith.run.join.requirement_notes", lambda index, wheels: [f"of {len(wheels)} wheels"])
    assert "warning: of 2 wheels" in join(factory).stderr


def test_the_folder_that_a_ci_system_puts_all_of_them_in(factory):
    (factory.folder / "all").mkdir()
    for out in OUTPUTS:
        (factory.folder / out).rename(factory.folder / "all" / out)
    join(factory, "all")
    assert len(factory.results()) == 2


def test_a_missing_shard_is_named_with_its_cells(factory):
    cell = cell_of(factory, "s2")
    join(factory, "s1", code=1, say=f"shard 2/3: {cell}\n  help: run again: wheelsmith build-matrix --shard 2/3\n")
    assert not (factory.folder / "dist").exists()


@pytest.mark.parametrize("how", ["gone", "cancelled"])
def test_a_shard_that_was_killed_is_named(factory, how):
    cell = cell_of(factory, "s2")

    def change(data):
        if how == "gone":
            data["cells"].clear()
        else:
            data["cells"][cell] |= {"status": "cancelled", "wheel": None}

    edit(factory, "s2", change)
    join(factory, code=1, say=f"shard 2/3: {cell}")


def test_a_cell_that_failed_is_told_and_the_others_are_joined(factory):
    cell = cell_of(factory, "s2")
    failure = {"stage": "compile", "message": "g++ \x1b[31mfailed", "remedy": None, "tail": ["\x1b]0;title", "the end"]}
    edit(factory, "s2", lambda data: data["cells"][cell].update(status="failed", wheel=None, failure=failure))
    answer = join(factory, code=1)
    assert "\x1b" not in answer.stderr
    joined = factory.results()
    assert joined[cell]["failure"]["tail"] == ["\\x1b]0;title", "the end"]
    assert joined[cell_of(factory, "s1")]["status"] == "built"
    (page,) = (factory.folder / "dist/index/simple").glob("*/index.html")
    assert page.read_text().count(".whl</a>") == 1


def test_two_outputs_of_one_shard_are_refused(factory):
    shutil.copytree(factory.folder / "s1", factory.folder / "again")
    join(factory, "s1", "s2", "again", code=4, say="are both shard 1/3")


@pytest.mark.parametrize("change", [lambda data: data["shard"].update(plan="0" * 64), lambda data: data.pop("shard")])
def test_the_output_of_another_plan_or_of_a_whole_run_is_refused(factory, change):
    edit(factory, "s1", change)
    join(factory, code=4, say="s1 is not a shard of this plan")


def test_results_that_cannot_be_read(factory):
    (factory.folder / "s1/results.json").write_text("[" * 100_000)
    join(factory, code=4, say="s1/results.json: it cannot be read")


def wheel_in(factory, out) -> Path:
    (path,) = (factory.folder / out / "wheels").iterdir()
    return path


def forge(factory, out):
    """Put another wheel in the place of a job's, and have results.json tell of it."""
    path = wheel_in(factory, out)
    path.unlink()
    make_wheel(factory.folder, "tiny", "1").rename(path)
    said = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
    edit(factory, out, lambda data: next(iter(data["cells"].values()))["wheel"].update(said))


def damage(factory, out):
    """Change the time of a member: the wheel stays one, of the same size and plan."""
    path = wheel_in(factory, out)
    data = bytearray(path.read_bytes())
    data[data.rfind(b"PK\1\2") + 12] ^= 1
    path.write_bytes(data)


def remove(factory, out):
    wheel_in(factory, out).unlink()


def link(factory, out):
    path = wheel_in(factory, out)
    path.rename(factory.folder / path.name)
    path.symlink_to(factory.folder / path.name)


def link_folder(factory, out):
    (factory.folder / out / "wheels").rename(factory.folder / "elsewhere")
    (factory.folder / out / "wheels").symlink_to(factory.folder / "elsewhere")


def name_elsewhere(factory, out):
    edit(factory, out, lambda data: next(iter(data["cells"].values()))["wheel"].update(filename="../../x.whl"))


def swap(factory, out):
    """Tell of the other cell's wheel: it is honest, and not of this cell's plan."""
    other = "s1" if out == "s2" else "s2"
    path = wheel_in(factory, other)
    shutil.copy(path, factory.folder / out / "wheels" / path.name)
    (told,) = factory.results(other).values()
    edit(factory, out, lambda data: next(iter(data["cells"].values())).update(wheel=told["wheel"]))


ATTACKS = [forge, damage, remove, link, link_folder, name_elsewhere, swap]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_wheel_that_is_not_its_cells_is_that_cells_failure(factory, attack):
    cell = cell_of(factory, "s2")
    attack(factory, "s2")
    join(factory, code=1, say=f"✗ {cell}")
    joined = factory.results()
    assert joined[cell]["status"] == "failed"
    assert joined[cell]["failure"]["stage"] == "store"
    assert joined[cell_of(factory, "s1")]["status"] == "built"
    assert len(list((factory.folder / "dist/wheels").iterdir())) == 1


def only(data):
    (cell,) = data["cells"].values()
    return cell


LIES = {
    "another cell": lambda cell: cell["cell"].update(release="2.99"),
    "not advertised": lambda cell: cell["cell"]["settings"].update(advertise=False),
    "folded": lambda cell: cell.update(status="folded"),
    "another plan": lambda cell: cell.update(plan_digest="0" * 64),
    "untested": lambda cell: cell.update(untested="\x1b[31m"),
    "times": lambda cell: cell.update(timings=[{"stage": "##\x1b", "seconds": 1}, {"stage": "a", "seconds": math.nan}]),
    "a log": lambda cell: cell.update(log="../../../../etc/passwd"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_a_job_says_beside_its_wheel_is_not_believed(built, factory, lie):
    edit(factory, "s2", lambda data: lie(only(data)))
    join(factory)
    honest = {name: cell for out in OUTPUTS for name, cell in built.results(out).items()}
    text = (factory.folder / "dist/results.json").read_text()
    joined = json.loads(text, parse_constant=pytest.fail)["cells"]
    for name, cell in honest.items():
        told = joined[name]
        assert (told["cell"], told["wheel"], told["status"]) == (cell["cell"], cell["wheel"], "built")
        assert told["log"] in {f"{name}.log", None}
        assert told["untested"] is None
    assert "\\u001b" not in text
    assert "passwd" not in text + (factory.folder / "dist/report.html").read_text()
    (page,) = (factory.folder / "dist/index/simple").glob("*/index.html")
    assert page.read_text().count(".whl</a>") == len(honest)


@pytest.mark.parametrize("out", ["s1/more", "all"])
def test_what_the_jobs_left_is_not_written_to(factory, out):
    (factory.folder / "all").mkdir()
    shutil.copytree(factory.folder / "s1", factory.folder / "all/s1")
    folders = ("all", "s2") if out == "all" else OUTPUTS
    before = (factory.folder / "s1/results.json").read_bytes()
    join(factory, "--out", out, *folders, code=2, say="overlap: choose")
    assert (factory.folder / "s1/results.json").read_bytes() == before


def test_links_to_outputs_are_not_followed(factory):
    (factory.folder / "all").mkdir()
    for out in OUTPUTS:
        (factory.folder / "all" / out).symlink_to(factory.folder / out)
    join(factory, "all", code=4, say="all has no output of a job")


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.update(version="no version"),
        lambda plan: plan.update(distribution="../x"),
        lambda plan: plan["shards"][0]["cells"].clear(),
        lambda plan: plan["excluded"].append({"cell": plan["plans"][0]["cell"], "reason": "x"}),
    ],
)
def test_a_plan_that_somebody_changed_is_refused(factory, change):
    path = factory.folder / "wheelsmith.shards.json"
    plan = json.loads(path.read_text())
    change(plan)
    path.write_text(json.dumps(plan))
    join(factory, code=2, say="wheelsmith.shards.json: ")


@pytest.mark.parametrize("word", ["0/3", "1/2", "x"])
def test_a_word_that_is_no_shard(built, word):
    answer = built.run_in_process("build-matrix", "--engine", "bwrap", "--shard", word, "--dry-run")
    assert answer.returncode == 2
    assert "1/3 to 3/3" in answer.stderr


def test_a_shard_chooses_its_own_cells(built):
    answer = built.run("build-matrix", "--shard", "1/3", "--only", "*")
    assert (answer.returncode, "--only" in answer.stderr) == (2, True)


@pytest.mark.parametrize("text", [None, "{}"])
def test_a_plan_that_is_none(built, tmp_path, text):
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    for command in (("build-matrix", "--shard", "1/3"), ("join", "s1")):
        answer = built.run_in_process(*command, "--shard-plan", str(path))
        assert answer.returncode == 2
        assert "wheelsmith plan --shards" in answer.stderr


def test_what_is_planned_otherwise_here_is_not_built(built, tmp_path):
    path = built.folder / "k/tiny.cpp"
    text = path.read_text()
    path.write_text(text.replace("42", "43"))
    try:
        answer = built.run("build-matrix", "--engine", "bwrap", "--shard", "1/3", "--out", str(tmp_path / "out"))
    finally:
        path.write_text(text)
    assert answer.returncode == 2
    assert "is planned differently here than in the shared plan: " in answer.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.release("it waits for a limit, or plans again")
def test_the_plan_is_no_source(tmp_path):
    """Of a matrix in the kernel's own folder it lies there, too."""
    factory = Factory(folder=tmp_path, cache=tmp_path / "cache")
    tiny_kernel(tmp_path)
    matrix(tmp_path, ".", more="toolchain: host\n")
    wants.program("g++")
    before = factory.run("plan", "--engine", "bwrap", "--json").stdout
    assert factory.run("plan", "--engine", "bwrap", "--shards", "auto").returncode == 0
    assert (tmp_path / "wheelsmith.shards.json").exists()
    assert factory.run("plan", "--engine", "bwrap", "--json").stdout == before


@pytest.mark.release("it waits for a limit, or plans again")
def test_what_takes_too_long_is_said(built, tmp_path):
    out = str(tmp_path / "plan.json")
    answer = built.run("plan", "--shards", "auto", "--max-hours", "1", "--cores", "1", "--shard-plan", out)
    assert answer.returncode == 0
    answer = built.run("plan", "--shards", "0", "--shard-plan", out)
    assert answer.returncode == 2
    answer = built.run("plan", "--format", "gitlab")
    assert (answer.returncode, "--shards" in answer.stderr) == (2, True)
