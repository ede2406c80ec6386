"""The way releases are built: in images made from nothing, by podman and by docker."""

import json
import os
import subprocess
import time
from fnmatch import fnmatch
from functools import partial

import containers
import processes
import pytest
import wants
from factory import Factory, example
from kernels import matrix, tiny_kernel

from wheelsmith.engine.containers import this_process
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.storage.folder import Folder

pytestmark = [pytest.mark.e2e, pytest.mark.network]

# The assembler writes the repetition out in memory before it reads it.
BOMB = """\
#include "registration.h"
#include <cstdio>
int answer() { return std::puts("42"); }
#ifdef CPU_KERNEL
__asm__(".rept 100000000\\n .byte 1, 2, 3\\n .endr");
#endif
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""


def image_command(*argv):
    return subprocess.run(["python3", "-m", "wheelsmith", "image", *argv], capture_output=True, text=True)


def check_the_same(factory, hashes, engine, *argv):
    """Build a factory's matrix in containers: nothing else is left of them than wheels of these hashes."""
    build = ("build-matrix", "--engine", engine, *argv)
    answer = factory.run(*build)
    assert answer.returncode == 0, answer.stderr
    assert factory.hashes() == hashes != {}
    planned = json.loads(factory.run("plan", "--json", "--engine", engine).stdout)
    images = {plan["image"]["digest"] for plan in planned["plans"]}
    assert len(images) == 1
    assert images.pop().startswith("sha256:")
    assert containers.containers_left(engine) == []
    again = factory.run(*build)
    assert again.returncode == 0
    assert {cell["status"] for cell in factory.results().values()} == {"cached"}


@pytest.mark.release("an image and a whole build; a container's isolation is tested by test_reach")
def test_the_same_compilers_give_the_same_bytes_out_of_a_container(container_engine, tmp_path):
    def tiny(name):
        factory = Factory.at(tmp_path / name)
        tiny_kernel(factory.folder / "k")
        matrix(factory.folder, "k", torch="2.11, 2.13", more="engine: {image: debian}\n")
        return factory

    outside = tiny("outside")
    assert outside.run("build-matrix", "--engine", "bwrap").returncode == 0
    check_the_same(tiny("inside"), outside.hashes(), container_engine)


@pytest.mark.release("a smaller kernel's turn of the same is quick")
@pytest.mark.parametrize("cells", ["*torch213-*-cpu-*", "*"])
def test_the_default_matrix(cells, container_engine, built, tmp_path):
    hashes = {cell: digest for cell, digest in built.hashes().items() if fnmatch(cell, cells)}
    check_the_same(example(tmp_path), hashes, container_engine, "--only", cells)


@pytest.mark.release("bubblewrap's turn of the same is quick")
def test_killed_in_the_middle_it_cleans_up_and_completes(container_engine, tmp_path):
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k", **{"tiny.cpp": '#include <cstdio>\nint tiny_answer() { return std::puts("42"); }\n'})
    matrix(tmp_path, "k", torch="2.11, 2.13", more="engine: {image: debian}\n")
    killed_while_running = 0
    for _ in range(6):
        run = subprocess.Popen(
            factory.command("build-matrix", "--engine", container_engine, "--force"),
            cwd=factory.folder,
            env=factory.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            if containers.containers_left(container_engine) or run.poll() is not None:
                break
            time.sleep(0.02)
        running = bool(containers.containers_left(container_engine))
        run.kill()
        run.wait()
        killed_while_running += running
    assert killed_while_running >= 3
    answer = factory.run("build-matrix", "--engine", container_engine)
    assert answer.returncode == 0, answer.stderr
    assert containers.containers_left(container_engine) == []
    assert verify(Folder(factory.folder / "dist" / "index")) == ()
    assert processes.left(partial(processes.in_folder, factory.folder)) == []
    assert list((factory.cache / "work").iterdir()) == []


@pytest.mark.release("bubblewrap's turn of the same is quick")
def test_what_a_dead_run_left_is_removed(container_engine, tmp_path):
    """A container whose owner died without its leash, as when the machine lost power."""
    reference = "localhost/wheelsmith/debian:latest"
    owner = this_process().rpartition(":")[0] + ":0"  # a process of our number that started at another time
    start = [container_engine, "run", "--detach", "--network", "none", "--label", f"org.wheelsmith.owner={owner}"]
    options = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    started = subprocess.run([*_client(container_engine, start), *options, reference, "sleep", "600"])
    assert started.returncode == 0
    assert containers.containers_left(container_engine)
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k")
    matrix(tmp_path, "k", more="engine: {image: debian}\n")
    assert factory.run("build-matrix", "--engine", container_engine).returncode == 0
    assert containers.containers_left(container_engine) == []


def _client(engine, argv):
    from pathlib import Path

    from wheelsmith.engine import engines

    return [*engines(Path(os.devnull))[engine].client(), *argv[1:]]


@pytest.mark.release("bubblewrap's turn of the same is quick")
def test_out_of_memory_is_told_and_the_others_finish(container_engine, tmp_path):
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k", **{"torch-ext/binding.cpp": BOMB})
    matrix(tmp_path, "k", cuda="cpu, 13.0", more="engine: {image: debian, memory: 600MiB}\n")
    answer = factory.run("build-matrix", "--engine", container_engine)
    assert answer.returncode == 1
    cells = {cell["cell"]["cuda"]: cell for cell in factory.results().values()}
    assert cells["13.0"]["status"] == "built"
    failure = cells[None]["failure"]
    if wants.COUNTED:  # an ordinary user's assembler is refused more than the limit, and says so itself
        assert failure["message"] == "out of memory: the limit is 600 MiB"
    assert "engine.memory" in failure["remedy"]
    assert "out of memory" in answer.stderr


def test_an_image_that_is_not_there(container_engine, tmp_path):
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k")
    matrix(tmp_path, "k", more="engine: {image: nowhere}\n")
    answer = factory.run("build-matrix", "--engine", container_engine)
    assert answer.returncode == 4
    assert f"error: {container_engine} has no image nowhere" in answer.stderr
    assert f"help: wheelsmith image build nowhere --engine {container_engine}" in answer.stderr
    auto = factory.run("build-matrix")
    assert auto.returncode == 0, auto.stderr
    assert f"not used: {container_engine} has no image nowhere" in auto.stderr


@pytest.mark.release("makes or pulls images that nothing else needs")
def test_what_image_list_and_prune_say(podman_image):
    listed = image_command("list", "--engine", "podman")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["base-bookworm", "debian"]
    assert image_command("prune", "--engine", "podman").stdout == ""
    assert image_command("build", "manylinux_2_28", "--engine", "podman").returncode == 4
    loose = image_command("build", "debian", "--base", "debian:bookworm", "--engine", "podman")
    assert loose.returncode == 4
    assert "is not pinned" in loose.stderr


@pytest.fixture(scope="session")
def cuda12(podman_image):
    containers.make_image("podman", "cuda12")


@pytest.mark.release("makes or pulls images that nothing else needs")
def test_nothing_of_this_machine_stays_in_an_image(cuda12):
    """The image, which holds a toolkit, is saved and every layer of it read."""
    from wheelsmith.toolchain.pip import pip_settings

    reference = "localhost/wheelsmith/cuda12:latest"
    settings = pip_settings()
    history = subprocess.run(["podman", "history", "--no-trunc", reference], capture_output=True, text=True).stdout
    assert len(history.splitlines()) > 3
    for secret in (*settings.indexes, settings.cert or "/run/secrets/ca "):
        assert secret not in history
    look = "find /run/secrets /run/shared /run/cuda12 /etc/pip.conf ~/.pip ~/.config -type f 2>/dev/null; env"
    options = ["--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    run = _client("podman", ["podman", "run", *options, reference, "sh", "-c", look])
    found = subprocess.run(run, capture_output=True, text=True).stdout.splitlines()
    names = {line.partition("=")[0] for line in found}
    assert names == {"PATH", "CUDA_HOME", "HOME", "HOSTNAME", "PWD", "TERM", "container"}


@pytest.mark.release("makes or pulls images that nothing else needs")
def test_cuda_12_by_a_toolkit_in_an_image(cuda12, tmp_path):
    """The toolkit is read whole for its digest, and the cells are built from nothing."""
    from wheelsmith.wheel.check import check_wheel

    factory = example(tmp_path)
    (tmp_path / "matrix.yaml").write_text(
        "kernel: {path: examples/img2gray}\n"
        "axes: {torch: [2.6, 2.9], cuda: [12.4]}\n"
        "gpu-archs: [8.0, 9.0]\n"
        "rules: [{where: {cuda: '12.*'}, set: {image: cuda12}}]\n"
    )
    answer = factory.run("build-matrix", "--engine", "podman")
    assert answer.returncode == 0, answer.stderr
    wheels = {path.name.split("-")[1]: path for path in (factory.folder / "dist" / "wheels").iterdir()}
    assert sorted(wheels) == ["1+cu124.torch2.6", "1+cu124.torch2.9"]
    for wheel in wheels.values():
        report = check_wheel(wheel)
        assert report.ok
        toolkit = next(finding for finding in report.findings if finding.rule == "toolkit")
        assert toolkit.message.startswith("machine code by CUDA 12.4")
    assert "torch26-cxx98-cu124-x86_64-linux" in factory.results()
