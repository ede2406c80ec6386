"""Several kernels in one file are planned, built and published in one run, and none of them keeps another from it."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from command_line import run_command
from kernels import pure_kernel, tiny_kernel, write
from quick_builds import use_quick_builds

from wheelsmith.index.publish.publishing import publish_folders
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model.run_record import RunRecord
from wheelsmith.plan.lock import read_lock
from wheelsmith.run.executors import EXECUTORS

pytestmark = pytest.mark.usefixtures("in_process_worker")

BUILDS = EXECUTORS["local"]
SET = """\
axes: {torch: [2.12, 2.13], cuda: [cpu]}
kernels:
  tiny: {path: tiny}
  other:
    path: tiny
    distribution: other
    module: other
    axes: {torch: [2.13]}
  lost: {path: nowhere}
include: [pure/matrix.yaml]
"""


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    use_quick_builds(monkeypatch)
    tiny_kernel(tmp_path / "tiny")
    pure_kernel(tmp_path / "pure")
    (tmp_path / "pure" / "matrix.yaml").write_text("kernel: {path: .}\n")
    (tmp_path / "matrix.yaml").write_text(SET)
    return lambda *argv: run_command(monkeypatch, capsys, *argv, "--engine", "local")


@pytest.fixture
def show(run, monkeypatch, capsys):
    """Run a command without an engine, and return what it prints."""
    return lambda *argv: run_command(monkeypatch, capsys, *argv).out


def results():
    return json.loads(Path("dist/results.json").read_text())


def projects():
    index = Index(Folder(Path("dist/index")))
    assert verify(Folder(Path("dist/index"))) == ()
    return {name: len(index.entries(name)) for name in ("tiny", "other", "pure")}


def test_one_run_has_one_index_and_one_record(run):
    answer = run("build-matrix", "--progress", "plain")
    assert answer.code == 1
    assert "warning: lost: it is not built: matrix.yaml:9:16: there is no folder" in answer.err
    assert "4 kernels" in answer.err
    assert projects() == {"tiny": 2, "other": 1, "pure": 1}
    record = RunRecord.read(Path("dist"))
    assert {name: each.status for name, each in record.cells.items() if each.planned} == {
        "tiny/torch212-cxx11-cpu-x86_64-linux": "built",
        "tiny/torch213-cxx11-cpu-x86_64-linux": "built",
        "other/torch213-cxx11-cpu-x86_64-linux": "built",
        "pure/torch212-cxx11-cpu-x86_64-linux": "built",
        "pure/torch213-cxx11-cpu-x86_64-linux": "folded",
    }
    assert {item.cell.kernel: item.reason.partition(":")[0] for item in record.excluded} == {"lost": "not planned"}
    assert {name: each.distribution for name, each in record.kernels.items()} == {
        "tiny": "tiny",
        "other": "other",
        "pure": "pure",
    }
    assert list(record.failures) == ["lost"]
    assert RunRecord.from_json(results()) == record
    page = Path("dist/report.html").read_text()
    captions = re.findall(r"<caption>(.*?)</caption>", page)
    assert captions == [f"{name} · x86_64" for name in ("tiny", "other", "pure", "lost")]
    assert "1 kernel not planned" in " ".join(re.sub("<.*?>", "", page).split())


def test_repeated_it_builds_and_writes_nothing(run):
    run("build-matrix", "--skip", "lost/*")
    before = {path: path.stat().st_mtime_ns for path in Path("dist/index").rglob("*")}
    assert run("build-matrix", "--skip", "lost/*").code == 0
    assert {cell["status"] for cell in results()["cells"].values()} == {"cached"}
    assert {path: path.stat().st_mtime_ns for path in Path("dist/index").rglob("*")} == before


def test_a_part_of_a_set_keeps_the_wheels_of_the_others(run):
    run("build-matrix")
    answer = run("build-matrix", "--kernel", "o*", "--kernel", "pure", "--only", "*213*")
    assert answer.code == 0
    assert list(results()["cells"]) == [f"{name}/torch213-cxx11-cpu-x86_64-linux" for name in ("other", "pure")]
    assert projects() == {"tiny": 2, "other": 1, "pure": 1}


def test_what_a_kernel_built_by_itself_is_cached_in_a_set(run):
    alone = Path("alone.yaml")
    alone.write_text("kernel: {path: tiny}\naxes: {torch: [2.12, 2.13], cuda: [cpu]}\n")
    run("build-matrix", "--matrix", "alone.yaml", "--out", "elsewhere")
    assert "2 cached" in run("build-matrix", "--kernel", "tiny", "--progress", "plain").err


def test_everything_of_a_set_is_published(run):
    run("build-matrix")
    assert len(publish_folders([Path("dist")], "published").new) == 4


def test_the_coverage_of_an_index_is_a_grid_of_its_projects(run, show):
    rules = "rules: [{exclude: {torch: 2.12, cuda: cpu}, reason: too old}]\n"
    Path("matrix.yaml").write_text(SET.replace("  lost: {path: nowhere}\n", "") + rules)
    run("build-matrix")
    assert show("coverage", "--format", "markdown").splitlines() == [
        "|  | torch 2.12, CPU | torch 2.13, CPU |",
        "| --- | :-: | :-: |",
        "| other |  | ✓ |",
        "| pure | · | ✓ |",
        "| tiny | · | ✓ |",
    ]
    shown = show("coverage", "--project", "tiny", "--project", "other")
    assert "tiny, torch 2.12, CPU: too old (matrix.yaml:10)" in shown
    assert "all of them have a wheel for: torch 2.13, CPU" in shown
    data = json.loads(show("coverage", "--format", "json"))
    assert data["common"] == ["torch 2.13, CPU"]
    assert [row["project"] for row in data["rows"]] == ["other", "pure", "tiny"]


def test_a_plan_names_the_kernels_and_fails_if_one_has_none(run):
    answer = run("plan", "--json")
    assert answer.code == 1
    plan = json.loads(answer.out)
    assert {each["cell"]["kernel"] for each in plan["plans"]} == {"tiny", "other", "pure"}
    assert {each["id"] for each in plan["excluded"]} == {f"lost/torch2{n}-cxx11-cpu-x86_64-linux" for n in (12, 13)}
    assert run("plan", "--kernel", "tiny").code == 0


@pytest.fixture
def pure_kernels(run, monkeypatch, tmp_path):
    """Two kernels with nothing compiled, and real builds."""
    monkeypatch.setitem(EXECUTORS, "local", BUILDS)
    axes = "axes: {torch: [2.13], cuda: [cpu]}\n"
    other = "{path: pure, distribution: other, module: other}"
    (tmp_path / "matrix.yaml").write_text(f"{axes}kernels:\n  pure: {{path: pure}}\n  other: {other}\n")


@pytest.mark.usefixtures("pure_kernels")
def test_the_wheels_of_all_kernels_are_built_again_from_their_plans(run):
    assert run("build-matrix").code == 0
    answer = run("verify-rebuild", "dist/wheels")
    assert (answer.code, answer.out.count(": equal")) == (0, 2), answer


@pytest.mark.usefixtures("pure_kernels")
def test_jobs_share_a_set_and_join_to_one_index(run):
    assert run("plan", "--shards", "2").code == 0
    for shard in ("1/2", "2/2"):
        answer = run("build-matrix", "--shard", shard, "--out", f"job-{shard[0]}")
        assert answer.code == 0, answer.err
    answer = run("join", "job-1", "job-2")
    assert answer.code == 0, answer.err
    assert {name: each.status for name, each in RunRecord.read(Path("dist")).cells.items()} == {
        f"{name}/torch213-cxx11-cpu-x86_64-linux": "built" for name in ("pure", "other")
    }
    assert projects() == {"tiny": 0, "other": 1, "pure": 1}
    lost = run("join", "job-1")
    assert lost.code == 1
    assert "shard 2/2: " in lost.err


def test_two_kernels_with_wheels_of_one_name_are_a_mistake(run, tmp_path):
    tiny_kernel(tmp_path / "fork", **{"README.md": "# another\n"})
    axes = "axes: {torch: [2.13], cuda: [cpu]}\n"
    (tmp_path / "matrix.yaml").write_text(f"{axes}kernels: {{tiny: {{path: tiny}}, fork: {{path: fork}}}}\n")
    answer = run("plan")
    assert (answer.code, "would have different wheels of one name, tiny-1+cpu.torch2.13" in answer.err) == (2, True)
    assert "give one of the kernels another name: distribution and module" in answer.err
    (tmp_path / "matrix.yaml").write_text(f"{axes}kernels: {{tiny: {{path: tiny}}, same: {{path: tiny}}}}\n")
    assert "1 combination shares a wheel: the same source and settings" in run("plan").out


GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def commit(folder, text):
    (folder / "tiny.cpp").write_text(text)
    subprocess.run([*GIT, "add", "."], cwd=folder, check=True)
    subprocess.run([*GIT, "commit", "--quiet", "--message", "x"], cwd=folder, check=True)
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_one_lock_holds_the_sources_of_all_kernels(run, tmp_path):
    repo = tiny_kernel(tmp_path / "repo")
    subprocess.run([*GIT, "init", "--quiet", "--initial-branch", "main"], cwd=repo, check=True)
    locked = commit(repo, "int tiny_answer() { return 1; }\n")
    moving = "{git: repo, revision: main, distribution: moving, module: moving}"
    axes = "axes: {torch: [2.13], cuda: [cpu]}\n"
    (tmp_path / "matrix.yaml").write_text(f"{axes}kernels:\n  moving: {moving}\n  tiny: {{path: tiny}}\n")
    answer = run("lock")
    assert (answer.code, "2 combinations" in answer.out) == (0, True), answer.err
    lock = read_lock(tmp_path / "wheelsmith.lock")
    assert {name: source.commit for name, source in lock.sources.items()} == {"moving": locked}
    assert lock.cells == tuple(f"{name}/torch213-cxx11-cpu-x86_64-linux" for name in ("moving", "tiny"))
    before = (tmp_path / "wheelsmith.lock").read_bytes()
    assert run("build-matrix", "--locked").code == 0
    moved = commit(repo, "int tiny_answer() { return 2; }\n")
    assert run("build-matrix").code == 0
    assert {cell["source"]["commit"] for cell in results()["cells"].values()} == {locked, None}
    refused = run("build-matrix", "--locked")
    assert refused.code == 2
    assert f"git:repo main has moved from {locked[:12]} to {moved[:12]}" in refused.err
    assert run("lock").code == 0
    assert (tmp_path / "wheelsmith.lock").read_bytes() == before
    assert f"changed: git:repo main has moved from {locked[:12]} to {moved[:12]}" in run("lock", "--upgrade").err


def test_two_kernels_with_one_import_package_are_warned_of(run, tmp_path):
    text = SET.replace("    module: other\n", "")
    (tmp_path / "matrix.yaml").write_text(text)
    assert "warning: tiny and other have the import package tiny: give one another module" in run("plan").err
    (tmp_path / "matrix.yaml").write_text(SET)
    assert "import package" not in run("plan").err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--kernel", "tinny"), "error: 'tinny' matches no kernel\n  help: did you mean 'tiny'?"),
        (("--only", "tiny/*210*"), "error: 'tiny/*210*' matches no combination"),
        (("--kernel", "lost"), "error: no kernel can be built; lost: matrix.yaml:9:16: there is no folder"),
    ],
)
def test_a_selection_that_is_none_is_told(argv, message, run):
    answer = run("build-matrix", *argv)
    assert answer.code in {2, 3}
    assert message in answer.err


COMMON = """\
axes: {torch: [2.13], cuda: [cpu], python: ["3.11", "3.12"]}
env: {OPTION: "1"}
rules: [{where: {python: "3.12"}, set: {before-build: "true"}}]
kernels:
  tiny: {path: tiny%s}
  project: {path: project}
"""
PROJECT = """\
from setuptools import Extension, setup
setup(name="project", version="1", ext_modules=[Extension("project", ["project.c"])])
"""


def test_settings_for_projects_do_not_apply_to_kernels_that_have_none(run, tmp_path):
    """One wheel of a kernel with a build.toml serves every Python."""
    write(tmp_path / "project", {"setup.py": PROJECT, "project.c": ""})
    (tmp_path / "matrix.yaml").write_text(COMMON % "")
    planned = json.loads(run("plan", "--kernel", "tiny", "--json").out)
    assert [each["cell"]["python"] for each in planned["plans"]] == [None]
    some = json.loads(run("plan", "--kernel", "tiny", "--only", "*-cp312", "--json").out)
    assert some["plans"] == planned["plans"]
    both = json.loads(run("plan", "--json").out)
    found = {(each["cell"]["kernel"], each["cell"]["python"]) for each in (*both["plans"], *both["excluded"])}
    assert found == {("tiny", None), ("project", "3.11"), ("project", "3.12")}


@pytest.mark.parametrize(
    ("own", "remedy"),
    [
        ("axes: {python: ['3.12']}", "remove python from axes"),
        ("env: {OTHER: '2'}", "set compiler flags with cxx-flags and cuda-flags in build.toml"),
    ],
)
def test_settings_for_projects_in_the_entry_of_such_a_kernel_are_a_mistake(run, own, remedy):
    Path("matrix.yaml").write_text(COMMON % f", {own}")
    answer = run("plan", "--kernel", "tiny")
    assert answer.code != 0
    assert remedy in answer.err
