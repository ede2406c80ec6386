"""``builds: prefer`` takes what upstream compiled if it passes the check, and compiles the rest."""

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import forge
import pytest
from build_folders import lay_out, pure, write
from command_line import run_command
from kernels import BUILD_TOML, pure_kernel, stable_kernel, tiny_kernel
from loopback_hub import Hub, serve, use_here
from quick_builds import QuickBuilds

from wheelsmith.index.publish.verify import verify
from wheelsmith.index.storage.folder import Folder
from wheelsmith.plan.lock import read_lock
from wheelsmith.run.executors import EXECUTORS
from wheelsmith.run.executors.local import LocalExecutor

pytestmark = pytest.mark.usefixtures("in_process_worker")

CUDA = '\n[kernel.tiny_cuda]\nbackend = "cuda"\ndepends = []\nsrc = ["tiny.cu"]\n'
BROKEN = {"__init__.py": b"", "_ops.abi3.so": b"\x7fELF" + b"\xff" * 5000}


class QuickCompilers:
    """Writes a small wheel where wheelsmith compiles, and packs and checks the builds of upstream as it does."""

    def build(self, work, **more):
        ours, theirs = ([plan for plan in work.to_build if plan.repacked is repacked] for repacked in (False, True))
        QuickBuilds().build(replace(work, to_build=tuple(ours)), **more)
        LocalExecutor().build(replace(work, to_build=tuple(theirs)), **more)


def cell(torch, compute="cpu"):
    return f"torch{torch.replace('.', '')}-cxx11-{compute}-x86_64-linux"


def package(wheel):
    return {"__init__.py": b"from . import _ops\n", "_ops.abi3.so": wheel("x86_64").library.build()}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """A kernel whose maker built two of four combinations well, and one that is broken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(EXECUTORS, "local", (__name__, "QuickCompilers"))
    repo = tiny_kernel(tmp_path / "repo", **{"build.toml": BUILD_TOML + CUDA, "tiny.cu": ""})
    lay_out(repo, cell("2.11"), "tiny", package(forge.cpu))
    lay_out(repo, cell("2.11", "cu130"), "tiny", package(forge.cuda))
    lay_out(repo, cell("2.12"), "tiny", BROKEN)
    prefer("path: repo")
    return lambda *argv: run_command(monkeypatch, capsys, *argv, "--engine", "local")


def prefer(place, more="gpu-archs: [8.0]\n"):
    axes = "axes: {torch: [2.11, 2.12], cuda: [cpu, 13.0]}\n"
    Path("matrix.yaml").write_text(f"kernel: {{{place}, builds: prefer}}\n{axes}{more}")


def results():
    return json.loads(Path("dist/results.json").read_text())["cells"]


def statuses():
    return {name: each["status"] for name, each in results().items()}


def test_of_a_hub_repo_good_builds_are_taken_and_the_rest_is_compiled(run, monkeypatch, tmp_path):
    prefer("hub: org/tiny, revision: main")
    with serve(Hub()) as hub:
        hub.add_folder("org/tiny", Path("repo"))
        use_here(monkeypatch, hub.endpoint, tmp_path / "hf")
        shown = run("plan")
        answer = run("build-matrix", "--progress", "plain")
        commit = hub.repos["org/tiny"].branches["main"]
    assert shown.code == 0, shown.err
    rows = dict(line.split()[:2] for line in shown.out.splitlines() if line.startswith("torch2"))
    taken = {cell("2.11"): "upstream", cell("2.11", "cu130"): "upstream"}
    assert rows == {**taken, cell("2.12"): "build", cell("2.12", "cu130"): "build"}
    assert "4 combinations → 4 builds (2 from upstream, 0 cached)" in shown.out
    assert "not from upstream: it has no build for this combination" in shown.out
    assert answer.code == 0, answer.err
    assert statuses() == {**taken, cell("2.12"): "built", cell("2.12", "cu130"): "built"}
    reason = results()[cell("2.12")]["not_upstream"]
    assert reason.startswith(f"{cell('2.12')} is refused: ")
    assert "cannot be read as an ELF file" in reason
    source = results()[cell("2.11")]["source"]
    assert (source["origin"], source["revision"], source["commit"]) == ("hub:org/tiny", "main", commit)


def test_wheel_index_and_report_say_who_compiled(run):
    assert run("build-matrix").code == 0
    wheels = [each["wheel"]["filename"] for each in results().values()]
    assert {name.rpartition("-")[2] for name in wheels} == {"manylinux_2_28_x86_64.whl"}
    state = json.loads(Path("dist/index/_state/tiny.json").read_text())
    compilers = {each["filename"]: each["provenance"]["compiler"] == "upstream" for each in state["entries"]}
    assert compilers == {name: "torch2.11" in name for name in wheels}
    with zipfile.ZipFile(Path("dist/wheels", wheels[0])) as archive:
        info = "tiny-1+cpu.torch2.11.dist-info"
        bill = json.loads(archive.read(f"{info}/sboms/tiny.cdx.json"))
        plan = json.loads(archive.read(f"{info}/build-plan.json"))
    assert {"name": "wheelsmith:compiled-by", "value": "upstream"} in bill["metadata"]["component"]["properties"]
    assert plan["repacked"]
    page = Path("dist/report.html").read_text()
    assert page.count("<dt>Compiler</dt><dd>upstream</dd>") == 2
    assert page.count("<dt>Not from upstream</dt>") == 2


def test_a_cell_has_one_file_in_the_index_whoever_compiled_it(run):
    Path("repo/build").rename("builds")
    assert run("build-matrix").code == 0
    assert set(statuses().values()) == {"built"}
    Path("builds").rename("repo/build")
    assert run("build-matrix").code == 0
    assert len([*Path("dist/wheels").glob("*.whl")]) == 4
    assert verify(Folder(Path("dist/index"))) == ()
    assert sorted(statuses().values()) == ["cached", "cached", "upstream", "upstream"]


def renamed(repo, name):
    shutil.rmtree(repo / "build/X")
    lay_out(repo, "X", name, package(forge.cpu))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda repo: write(repo, {"build/X/__init__.py": b"x = 1\n"}), "__init__.py does not match its digest"),
        (lambda repo: lay_out(repo, "X", "tiny", package(forge.cpu), version=2), "has version 2, but build.toml has 1"),
        (lambda repo: renamed(repo, "other"), "its package is other, but build.toml names"),
        (lambda repo: prefer("path: repo", "gpu-archs: [8.0, 12.0]\n"), "no machine code for 12.0"),
    ],
    ids=["changed", "version", "kernel", "gpu-archs"],
)
def test_a_build_that_does_not_fit_is_compiled_and_the_reason_is_told(run, spoil, reason, monkeypatch):
    name = cell("2.11", "cu130" if "12.0" in reason else "cpu")
    (repo := Path("repo")).joinpath("build", name).rename(repo / "build/X")
    spoil(repo)
    (repo / "build/X").rename(repo / "build" / name)
    assert run("build-matrix", "--only", name).code == 0
    assert statuses() == {name: "built"}
    assert reason in results()[name]["not_upstream"]


def test_a_build_that_changes_after_the_lock_is_refused(run):
    assert run("lock").code == 0
    lock = read_lock(Path("wheelsmith.lock"))
    assert [*lock.upstream] == [cell("2.11"), cell("2.11", "cu130")]
    assert run("build-matrix", "--locked").code == 0
    write(Path("repo"), {"LICENSE": b"new\n"})
    changed = run("build-matrix", "--locked")
    assert changed.code == 2
    assert re.search(r"cpu-x86_64-linux is now upstream's build \w{12}, was upstream's build \w{12}", changed.err)
    shutil.rmtree("repo/build")
    gone = run("build-matrix", "--locked")
    assert gone.code == 2
    assert f"{cell('2.11')} is now compiled, was upstream's build " in gone.err


def test_a_stable_abi_build_folds(run):
    repo = stable_kernel(Path("affine"))
    lay_out(repo, "torch-stable-abi210-cu130-x86_64-linux", "affine", package(forge.stable))
    prefer("path: affine")
    assert run("build-matrix", "--only", "*cu130*").code == 0
    first, second = cell("2.11", "cu130"), cell("2.12", "cu130")
    assert statuses() == {first: "upstream", second: "upstream"}
    assert results()[second]["folded"]["cell"] == first
    (wheel,) = Path("dist/wheels").glob("*.whl")
    assert wheel.name.startswith("affine-1+cu130.torchstable-")


def test_a_wheel_that_all_cells_share_is_taken_for_all_or_for_none(run):
    repo = pure_kernel(Path("pure"))
    lay_out(repo, "torch-cuda", "pure", pure("pure"))
    prefer("path: pure", "")
    assert run("build-matrix").code == 0
    assert sorted(statuses().values()) == ["built", "folded", "folded", "folded"]
    assert f"{cell('2.12')}, which it does not serve" in results()[cell("2.11", "cu130")]["not_upstream"]
    lay_out(repo, "torch-cpu", "pure", pure("pure"))
    assert run("build-matrix").code == 0
    assert set(statuses().values()) == {"upstream"}
    assert sum(each["folded"] is None for each in results().values()) == 1


def test_builds_of_a_source_that_has_none(run):
    Path("matrix.yaml").write_text(
        "kernel: {git: https://example.org/x, revision: v1, builds: prefer}\naxes: {torch: [2.13], cuda: [cpu]}\n"
    )
    answer = run("plan")
    assert answer.code == 2
    assert "builds requires hub or path" in answer.err
