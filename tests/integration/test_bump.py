"""`outdated` says what is newer than a matrix; `bump` takes it, locks what is new, and leaves the rest alone."""

import json
import subprocess
import tomllib

import pytest
from factory import Factory
from kernels import pure_kernel, tiny_kernel

from wheelsmith.frameworks import torch_releases
from wheelsmith.source.references import References

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
NEWEST = list(torch_releases())[-1]
MATRIX = """\
# wheels of our kernel
kernel: {git: repo, revision: v1.0}  # pinned
axes:
  torch: [2.11, 2.13]  # what our users run
  cuda:
    - cpu
    - '13.0'
"""


def tag(repo, *names):
    subprocess.run([*GIT, "commit", "--quiet", "--allow-empty", "--message", "more"], cwd=repo, check=True)
    for name in names:
        subprocess.run(["git", "tag", name], cwd=repo, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def factory(tmp_path):
    """A matrix of a pure kernel in a git repository with versions."""
    made = Factory.at(tmp_path)
    repo = pure_kernel(made.folder / "repo")
    subprocess.run([*GIT, "init", "--quiet", "--initial-branch", "main"], cwd=repo, check=True)
    subprocess.run([*GIT, "add", "--all"], cwd=repo, check=True)
    tag(repo, "v1.0")
    (made.folder / "matrix.yaml").write_text(MATRIX)
    return made


def text(factory):
    return (factory.folder / "matrix.yaml").read_text()


def lock(factory):
    return tomllib.loads((factory.folder / "wheelsmith.lock").read_text())


def rows(factory, **env):
    answer = factory.run_in_process("outdated", "--json", **env)
    assert answer.returncode == 0, answer.stderr
    return {row["name"]: row for row in json.loads(answer.stdout)["components"]}


def test_a_new_torch_is_added_locked_and_planned(factory):
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    before = lock(factory)
    assert rows(factory)["torch"] == {
        "name": "torch",
        "current": "2.11, 2.13",
        "newest": NEWEST,
        "revision": None,
        "command": f"wheelsmith bump torch {NEWEST}",
        "problem": None,
    }
    assert factory.run_in_process("outdated", "--exit-code").returncode == 1
    answer = factory.run_in_process("bump", "torch", NEWEST, "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    assert text(factory) == MATRIX.replace("2.13]", f"2.13, {NEWEST}]")
    after, digits = lock(factory), NEWEST.replace(".", "")
    new = {f"torch{digits}-cxx11-{compute}-x86_64-linux" for compute in ("cpu", "cu130")}
    assert set(after.pop("cells")) == {*before.pop("cells"), *new}
    assert after == before
    lines = [line for line in answer.stdout.splitlines() if "-linux" in line]
    assert {line.split()[0] for line in lines} == new
    assert all(line.split()[1] == "folded" and "torch211-cxx11-cpu" in line for line in lines)
    again = factory.run_in_process("bump", "torch", NEWEST, "--engine", "local")
    assert (again.returncode, again.stdout) == (0, f"matrix.yaml has torch {NEWEST} already\n")
    assert factory.run_in_process("plan", "--locked", "--engine", "local").returncode == 0


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["torch", "2.20"], 2, "matrix.yaml:4:23: 2.20 is not known"),
        (["torch", "2.15.0"], 2, "2.15.0 is a patch release: write 2.15"),
        (["torch", "2.14", "--replace", "2.12"], 2, "the axis torch has no 2.12"),
        (["cuda", "14.0"], 2, "14.0 is not known"),
        (["torhc", "2.15"], 2, "did you mean 'torch'?"),
        (["tvm-ffi"], 2, "tvm-ffi is neither an axis with releases nor a kernel"),
        (["kernel", "v9"], 4, "has no revision 'v9'"),
        ([], 2, "name an axis"),
        (["arch", "aarch64"], 2, "arch is neither an axis with releases nor a kernel"),
        (["torch", "--dry-run"], 0, ""),
        (["torch", "2.13"], 0, ""),
        (["kernel"], 0, ""),
    ],
    ids=str,
)
def test_nothing_is_written(factory, argv, code, message):
    answer = factory.run_in_process("bump", *argv, "--engine", "local")
    assert (answer.returncode, text(factory)) == (code, MATRIX)
    assert message in answer.stderr
    if "--dry-run" in argv:
        assert f"+  torch: [2.11, 2.13, {NEWEST}]  # what our users run" in answer.stdout.splitlines()


def test_everything_newer_is_taken(factory):
    tag(factory.folder / "repo", "v1.1", "v2.0rc1", "other-3.0")
    answer = factory.run_in_process("bump", "--all", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    cuda = rows(factory)["cuda"]["newest"]
    expected = MATRIX.replace("v1.0", "v1.1").replace("2.13]", f"2.13, {NEWEST}]")
    assert text(factory) == f"{expected}    - '{cuda}'\n"
    assert all(row["command"] is None for row in rows(factory).values())
    again = factory.run_in_process("bump", "--all")
    assert (again.returncode, again.stdout) == (0, "matrix.yaml is up to date\n")


def test_what_is_new_is_shown_with_the_reason_of_an_exclusion(factory):
    tiny_kernel(factory.folder / "tiny")
    (factory.folder / "matrix.yaml").write_text(MATRIX.replace("{git: repo, revision: v1.0}", "{path: tiny}"))
    answer = factory.run_in_process("bump", "torch", "2.8", "--replace", "2.11", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    assert "  torch: [2.8, 2.13]  # what our users run\n" in text(factory)
    built, excluded = (line.split() for line in answer.stdout.splitlines() if line.startswith("torch"))
    assert (built[:2], excluded[:2]) == (
        ["torch28-cxx11-cpu-x86_64-linux", "build"],
        ["torch28-cxx11-cu130-x86_64-linux", "excluded"],
    )
    assert "torch 2.8 was built with CUDA" in answer.stdout
    assert not (factory.folder / "wheelsmith.lock").exists()


def test_revisions_of_a_repository(factory):
    repo = factory.folder / "repo"
    first = tag(repo)
    assert rows(factory)["kernel"]["newest"] == "v1.0"
    tag(repo, "v1.10", "v1.9")
    assert rows(factory)["kernel"]["command"] == "wheelsmith bump kernel v1.10"
    (factory.folder / "matrix.yaml").write_text(MATRIX.replace("v1.0", "main"))
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    assert rows(factory)["kernel"]["command"] is None
    last = tag(repo)
    row = rows(factory)["kernel"]
    assert (row["newest"], row["command"]) == (f"main ({last[:12]})", "wheelsmith lock --upgrade")
    (factory.folder / "matrix.yaml").write_text(MATRIX.replace("v1.0", first))
    assert rows(factory)["kernel"]["command"] == f"wheelsmith bump kernel {last}"


def test_what_cannot_be_reached_is_a_row(factory):
    (factory.folder / "matrix.yaml").write_text(MATRIX.replace("repo", "nowhere"))
    row = rows(factory)["kernel"]
    assert (row["newest"], row["command"], "there is no git repository" in row["problem"]) == (None, None, True)
    shown = factory.run_in_process("outdated").stdout
    assert "not known: there is no git repository" in " ".join(shown.split())
    index = factory.folder / "index" / "torch-scatter"
    index.mkdir(parents=True)
    files = ("torch_scatter-2.1.10.tar.gz", "torch_scatter-3.0rc1.tar.gz")
    (index / "index.html").write_text("".join(f'<a href="{name}">{name}</a>' for name in files))
    axes = MATRIX.partition("pinned\n")[2]
    (factory.folder / "matrix.yaml").write_text(f"kernel: {{sdist: torch-scatter==2.1.2}}\n{axes}")
    served = {"PIP_INDEX_URL": f"file://{factory.folder}/index", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}
    row = rows(factory, **served)["kernel"]
    assert (row["newest"], row["command"]) == ("torch-scatter==2.1.10", "wheelsmith bump kernel 2.1.10")
    (factory.folder / "matrix.yaml").write_text(f"kernel: {{sdist: torch-scatter==3.0rc2}}\n{axes}")
    assert rows(factory, **served)["kernel"]["command"] is None


SET = """\
axes: {torch: &torch [2.13], cuda: [cpu]}  # common
kernels:
  tiny: {path: tiny}
  old: {path: tiny, distribution: old, axes: {torch: [2.11]}}  # its own axis
  pure: {git: repo, revision: v1.0}
include: [more/matrix.yaml]
"""
MORE = "kernel: {git: ../repo, revision: 'v1.0', distribution: another}\n"


@pytest.fixture
def kernels(factory):
    """A matrix of several kernels, and of one in an included file."""
    tiny_kernel(factory.folder / "tiny")
    (factory.folder / "more").mkdir()
    (factory.folder / "more/matrix.yaml").write_text(MORE)
    (factory.folder / "matrix.yaml").write_text(SET)
    return factory


def test_an_axis_with_cpu_alone_takes_a_cuda(factory):
    (factory.folder / "matrix.yaml").write_text(
        "kernel: {git: repo, revision: v1.0}\naxes: {torch: [2.13], cuda: [cpu]}\n"
    )
    answer = factory.run_in_process("bump", "cuda", "13.0", "--dry-run")
    assert "+axes: {torch: [2.13], cuda: [cpu, 13.0]}" in answer.stdout


def test_every_axis_of_a_set_takes_the_release(kernels):
    assert kernels.run_in_process("lock", "--engine", "local").returncode == 0
    before = lock(kernels)
    answer = kernels.run_in_process("bump", "torch", "2.14", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    assert text(kernels) == SET.replace("[2.13]", "[2.13, 2.14]").replace("[2.11]", "[2.11, 2.14]")
    assert (kernels.folder / "more/matrix.yaml").read_text() == MORE
    new = {line.split()[0]: line.split()[1] for line in answer.stdout.splitlines() if "-linux" in line}
    cell = "torch214-cxx11-cpu-x86_64-linux"
    assert new == {f"tiny/{cell}": "build", f"old/{cell}": "build", f"pure/{cell}": "folded", f"more/{cell}": "folded"}
    after = lock(kernels)
    assert set(after["cells"]) == {*before["cells"], *new}
    assert after["sources"] == before["sources"]


def test_one_kernel_of_a_set_takes_a_revision(kernels):
    tag(kernels.folder / "repo", "v1.1")
    asked = rows(kernels)
    assert {name: row["command"] for name, row in asked.items() if row["revision"]} == {
        "pure": "wheelsmith bump pure v1.1",
        "more": "wheelsmith bump more v1.1",
    }
    refused = kernels.run_in_process("bump", "more", "v9", "--engine", "local")
    assert (refused.returncode, "more: " in refused.stderr, "no revision 'v9'" in refused.stderr) == (2, True, True)
    answer = kernels.run_in_process("bump", "more", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    assert (kernels.folder / "more/matrix.yaml").read_text() == MORE.replace("'v1.0'", "'v1.1'")
    assert text(kernels) == SET
    assert [line.split("/")[0] for line in answer.stdout.splitlines() if "-linux" in line] == ["more"]
    unknown = kernels.run_in_process("bump", "mroe")
    assert (unknown.returncode, "did you mean 'more'?" in unknown.stderr) == (2, True)


def test_a_pull_request_tells_what_is_new_and_how_the_coverage_changes(kernels):
    (kernels.folder / "matrix.yaml").write_text(SET.replace("cuda: [cpu]", "cuda: [cpu, 13.0]"))
    answer = kernels.run_in_process("bump", "torch", "2.8", "--engine", "local", "--pull-request", "pr")
    assert answer.returncode == 0, answer.stderr
    assert (kernels.folder / "pr/title.txt").read_text() == "Take torch 2.8\n"
    body = (kernels.folder / "pr/body.md").read_text()
    assert body.startswith("### Taken into `matrix.yaml`\n\n- torch 2.8\n\n### Coverage")
    lines = body.splitlines()
    heads = ("torch 2.8, CPU", "torch 2.8, CUDA 13.0", "torch 2.11, CPU", "torch 2.11, CUDA 13.0", "torch 2.13, CPU")
    assert f"|  | {' | '.join(heads)} | torch 2.13, CUDA 13.0 |" in lines
    assert "| tiny | **✓ new** | **· new** |  |  | ✓ | ✓ |" in lines
    assert "| old | **✓ new** | **· new** | ✓ | ✓ |  |  |" in lines
    assert "| `tiny/torch28-cxx11-cpu-x86_64-linux` | build | `tiny 1+cpu.torch2.8` |" in lines
    (excluded,) = (line for line in lines if line.startswith("| `old/torch28-cxx11-cu130-x86_64-linux` | excluded |"))
    assert "torch 2.8 was built with CUDA" in excluded


def test_a_branch_that_moved_is_locked_and_what_is_not_taken_is_told(factory):
    (factory.folder / "matrix.yaml").write_text(MATRIX.replace("v1.0", "main").replace("2.13]", f"{NEWEST}]"))
    assert factory.run_in_process("bump", "cuda", "--engine", "local").returncode == 0
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    before, last = text(factory), tag(factory.folder / "repo")
    answer = factory.run_in_process("bump", "--all", "--engine", "local", "--pull-request", "pr")
    assert answer.returncode == 0, answer.stderr
    assert (text(factory), lock(factory)["source"]["commit"]) == (before, last)
    title = (factory.folder / "pr/title.txt").read_text()
    assert title.startswith(f"Take kernel main ({last[:12]}) instead of main (")
    body = (factory.folder / "pr/body.md").read_text()
    assert body.startswith("### Taken into `wheelsmith.lock`\n")
    assert "| pure | ✓ |" in body
    again = factory.run_in_process("bump", "--all", "--pull-request", "again")
    assert (again.stdout, (factory.folder / "again").exists()) == ("matrix.yaml is up to date\n", False)


def test_a_newest_revision_that_nobody_tells_is_in_the_pull_request(kernels):
    (kernels.folder / "matrix.yaml").write_text(SET.replace("git: repo", "git: nowhere"))
    answer = kernels.run_in_process("bump", "--all", "--engine", "local", "--pull-request", "pr")
    assert answer.returncode == 1, answer.stderr
    body = (kernels.folder / "pr/body.md").read_text()
    assert "### Not taken\n\n- the newest pure is not known: there is no git repository" in body
    assert "### Not planned\n\n- pure: " in body
    old, new = (f"`more/torch{release.replace('.', '')}-cxx11-cpu-x86_64-linux`" for release in ("2.13", NEWEST))
    assert f"| {new} | folded | {old}: nothing is compiled |" in body.splitlines()


def test_a_new_revision_is_of_the_same_kind():
    found = References(
        branches={"main": "a" * 40, "v1": "b" * 40, "v2": "c" * 40},
        tags={"1.0": "d" * 40, "1.2": "e" * 40, "1.3rc1": "f" * 40, "v9": "0" * 40},
        default="a" * 40,
    )
    asked = ("main", "v1", "1.0", "1.3rc1", "b" * 40, "gone")
    assert [found.newest(each) for each in asked] == ["main", "v2", "1.2", "1.3rc1", "a" * 40, "gone"]
