"""Runs that are killed, stopped or hit a limit: what is done stays done, and nothing is left over."""

import json
import random
import signal
import subprocess
import time
from functools import partial

import processes
import pytest
from factory import Factory
from kernels import matrix, pure_kernel, tiny_kernel

from wheelsmith.index.publish.verify import verify
from wheelsmith.index.storage.folder import Folder

pytestmark = [pytest.mark.e2e, pytest.mark.network]


@pytest.fixture
def factory(tmp_path):
    made = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.11, 2.13")
    return made


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.release("the same, more often"))])
def test_killed_at_random_it_still_finishes(kills, factory):
    """Each kill takes up to three seconds of work with it, which is done again."""
    generator = random.Random(20)
    for _ in range(kills):
        run = subprocess.Popen(
            factory.command("build-matrix", "-j", "2"),
            cwd=factory.folder,
            env=factory.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(generator.uniform(0.05, 3.0))
        run.kill()
        run.wait()
        assert processes.left(partial(processes.in_folder, factory.folder)) == []
        dist = factory.folder / "dist"
        if (dist / "index" / "_state").is_dir():
            # Pages may be a step behind the state; nothing may be listed that is not there, or half there.
            assert [w for w in verify(Folder(dist / "index")) if w.entry] == []
        if (dist / "results.json").exists():
            json.loads((dist / "results.json").read_text())
    answer = factory.run_in_process("build-matrix")
    assert answer.returncode == 0, answer.stderr
    assert verify(Folder(factory.folder / "dist" / "index")) == ()
    assert list((factory.cache / "work").iterdir()) == []
    leftovers = [p for p in (factory.folder / "dist").rglob(".*") if p.name != ".lock"]
    assert [p for p in leftovers if p.suffix == ".whl"] == []


@pytest.mark.release("builds the default matrix in part")
def test_only_missing_cells_are_built_again(factory):
    assert factory.run_in_process("build-matrix", "--only", "*torch211*").returncode == 0
    assert factory.run_in_process("build-matrix").returncode == 0
    assert sorted(cell["status"] for cell in factory.results().values()) == ["built", "cached"]


def test_ctrl_c_ends_with_the_summary(factory):
    run = subprocess.Popen(
        factory.command("build-matrix", "-j", "1"),
        cwd=factory.folder,
        env=factory.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in run.stderr:
        if "started" in line:
            break
    run.send_signal(signal.SIGINT)
    _, rest = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "interrupted after" in rest
    assert "Traceback" not in rest
    assert processes.left(partial(processes.in_folder, factory.folder)) == []
    assert {cell["status"] for cell in factory.results().values()} & {"cancelled", "built"}


def test_one_broken_cell_does_not_stop_the_others(factory):
    honest = (factory.folder / "k" / "tiny.cpp").read_text()
    source = "#if __cplusplus > 201703L\n#error no C++20 today\n#endif\n" + honest
    (factory.folder / "k" / "tiny.cpp").write_text(source)
    answer = factory.run_in_process("build-matrix")
    assert answer.returncode == 1
    assert {name[:8]: cell["status"] for name, cell in factory.results().items()} == {
        "torch211": "built",
        "torch213": "failed",
    }
    assert "no C++20 today" in answer.stderr
    log = factory.folder / "dist" / "logs" / "torch213-cxx11-cpu-x86_64-linux.log"
    assert str(log) in answer.stderr
    assert "no C++20 today" in log.read_text()


def test_the_memory_limit_is_named_with_its_remedy(factory):
    (factory.folder / "k" / "tiny.cpp").write_text("#include <regex>\nstd::regex tiny_answer;\n")
    (factory.folder / "matrix.yaml").write_text(
        (factory.folder / "matrix.yaml").read_text() + "engine: {memory: 40MiB}\n"
    )
    answer = factory.run_in_process("build-matrix", "--only", "*torch213*")
    assert answer.returncode == 1
    failure = next(iter(factory.results().values()))["failure"]
    assert "out of memory" in failure["message"] or "memory" in " ".join(failure["tail"])


def test_a_kernel_with_nothing_compiled_is_one_wheel_for_all(tmp_path):
    factory = Factory.at(tmp_path)
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", torch="2.8, 2.13", cuda="cpu, 13.0")
    assert factory.run_in_process("build-matrix").returncode == 0
    cells = factory.results()
    assert sorted(cell["status"] for cell in cells.values()) == ["built", "excluded", "folded", "folded"]
    assert {cell["wheel"]["filename"] for cell in cells.values() if "wheel" in cell} == {"pure-1-py3-none-any.whl"}


@pytest.mark.release("builds another matrix")
def test_an_unadvertised_cell_is_built_but_not_listed(factory):
    rule = "rules: [{set: {advertise: false}, where: {torch: 2.13}}]\n"
    path = factory.folder / "matrix.yaml"
    path.write_text(path.read_text() + rule)
    assert factory.run_in_process("build-matrix").returncode == 0
    page = (factory.folder / "dist/index/simple/tiny/index.html").read_text()
    assert "torch2.11" in page
    assert "torch2.13" not in page
    assert len(list((factory.folder / "dist" / "wheels").iterdir())) == 2
