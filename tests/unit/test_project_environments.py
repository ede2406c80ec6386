"""What a project is built in and what its wheel is tested in: two environments with one torch."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from plans import plan
from wheels import make_wheel

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.engine import Command, Limits, Local, Mount
from wheelsmith.matrix.types import KernelRef
from wheelsmith.model import ImageId, LockedWheel, Notice, Project
from wheelsmith.pipeline.command import build_command, environment_mounts
from wheelsmith.pipeline.repair_job import RepairJob
from wheelsmith.pipeline.smoke import _lay_out, smoke_test
from wheelsmith.source import fetch_source
from wheelsmith.source.folder import Outputs
from wheelsmith.toolchain import Toolchains


def wheel(name, version="1"):
    return LockedWheel(name=name, version=version, sha256=name)


TORCH = (wheel("torch", "2.11.0"), wheel("nvidia-cublas"), wheel("nvidia_cudnn_cu13"), wheel("triton"))
PROJECT = Project(
    python="3.12", environment=(*TORCH, wheel("setuptools")), variables={}, test_requires=("pytest", "numpy")
)


IMAGE = ImageId(name="debian", digest="sha256:0")


class Made:
    """Toolchains that make nothing, and remember what they were asked."""

    def __init__(self, found=()):
        self.found, self.asked = found, []

    def environment(self, wheels, *_):
        return "-".join(each.name for each in wheels)

    def environment_without_cuda(self, wheels, *_):
        return f"cpu:{self.environment(wheels)}"

    def lock(self, *question):
        self.asked.append(question)
        if isinstance(self.found, ToolchainError):
            raise self.found
        return self.found


def test_torch_is_shared_by_all_who_use_it():
    (torch, rest) = environment_mounts(PROJECT, PROJECT.environment, "x86_64", Made())
    assert (torch.source, torch.target) == ("torch-nvidia-cublas-nvidia_cudnn_cu13-triton", "/opt/environment")
    assert (rest.source, rest.target) == ("setuptools", "/opt/requirements")
    (only,) = environment_mounts(PROJECT, TORCH, "x86_64", Made())
    assert only == torch
    cpu, rest = environment_mounts(replace(PROJECT, without_cuda=True), PROJECT.environment, "x86_64", Made())
    assert cpu.source == f"cpu:{torch.source}"
    assert rest.source == "setuptools"


@pytest.mark.parametrize(("isolates", "compilers"), [(False, "3"), (True, "6")])
def test_a_build_sees_both_and_how_many_compilers_it_may_start(isolates, compilers, tmp_path):
    """As many as are its own, or, where each call is answered, as the whole run keeps busy and one that waits."""
    made = Made()
    made.tools = lambda: "tools"
    context = SimpleNamespace(
        cores=3,
        all_cores=5,
        toolchains=SimpleNamespace(toolchains=made),
        limits=Limits(),
        engine=SimpleNamespace(isolates=isolates),
    )
    command = build_command(replace(plan(1), project=replace(PROJECT, variables={"MAX_JOBS": "1"})), context, tmp_path)
    assert command.env["PYTHONPATH"] == "/opt/wheelsmith/site:/opt/environment:/opt/requirements"
    assert [mount.source for mount in command.mounts][-1] == "setuptools"
    assert (command.env["CMAKE_BUILD_PARALLEL_LEVEL"], command.env["MAX_JOBS"]) == (compilers, "1")
    assert command.env.get("WHEELSMITH_LAUNCH") == ("/work/calls" if isolates else None)


def test_an_environment_without_cuda_takes_no_second_place(tmp_path, monkeypatch):
    made, told = [], []
    unpacked = tmp_path / "unpacked"
    (unpacked / "torch").mkdir(parents=True)
    (unpacked / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\ncuda: str = '13.0'\n")
    (unpacked / "torch/libtorch_cpu.so").write_bytes(b"library")

    def unpack(_, wheels, *target):
        made.append(wheels)
        return [unpacked]

    def toolchains():
        return Toolchains(tmp_path, told.append)

    monkeypatch.setattr(Toolchains, "_unpack", unpack)
    cpu = toolchains().environment_without_cuda(TORCH, "3.12", "x86_64")
    whole = toolchains().environment(TORCH, "3.12", "x86_64")
    assert (cpu.name, made) == (f"{whole.name}-cpu", [TORCH])
    assert "cuda: str = None" in (cpu / "torch/version.py").read_text()
    assert (cpu / "torch/libtorch_cpu.so").samefile(whole / "torch/libtorch_cpu.so")
    remove_tree(whole)
    assert toolchains().environment_without_cuda(TORCH, "3.12", "x86_64") == cpu
    assert (len(made), [event for event in told if isinstance(event, Notice)]) == (1, [])


def smoke(tmp_path, found, project=PROJECT, requires=("torch==2.11.*", "scipy; python_version >= '3.12'")):
    commands, made = [], Made(found)
    engine = SimpleNamespace(
        build_host=lambda _: SimpleNamespace(python="3.11"), run=lambda command, *_: commands.append(command)
    )
    (tmp_path / "k").mkdir()
    (tmp_path / "k/test_it.py").write_text("")
    outputs = Outputs(out=tmp_path / "o", cache=tmp_path / "c")
    source = fetch_source(KernelRef(path="k"), base=tmp_path, outputs=outputs)
    smoke_test(
        replace(plan(1), project=project),
        make_wheel(tmp_path / "dist", "k", "1", requires=requires),
        "pytest",
        tmp_path / "work",
        context=SimpleNamespace(
            source=lambda _: source,
            required_wheels=lambda _: (),
            engine=engine,
            toolchains=SimpleNamespace(toolchains=made),
            limits=Limits(),
        ),
        on_line=print,
        cancel=threading.Event(),
    )
    return commands[0], made.asked


def test_a_wheel_is_tested_with_what_it_requires_and_not_with_what_built_it(tmp_path):
    command, asked = smoke(tmp_path, (*TORCH, wheel("scipy"), wheel("pytest")))
    assert asked == [(("torch===2.11.0", "torch==2.11.*", "scipy", "pytest", "numpy"), "3.12", "a1")]
    assert [mount.target for mount in command.mounts] == ["/work", "/opt/environment", "/opt/requirements"]
    assert command.mounts[2].source == "scipy-pytest"
    assert command.env["PYTHONPATH"] == "/work/start:/work/site:/opt/environment:/opt/requirements"
    assert command.python == "3.12"
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["site", "src", "start"]
    assert (tmp_path / "work/src/test_it.py").is_file()


def test_what_cannot_be_installed_cannot_be_tested(tmp_path):
    with pytest.raises(ToolchainError, match=r"with torch 2\.11\.0 to be tested: No matching distribution") as caught:
        smoke(tmp_path, NoEnvironmentError("No matching distribution found for scipy"))
    assert "test-requires" in caught.value.remedy


INSTALLED = {
    "k/__init__.py": b"",
    "k-1.data/platlib/moved.py": b"",
    "shared/of_k.py": b"",
    "tests/test_it.py": b"",
}
OF_THE_SOURCE = ("k/__init__.py", "moved.py", "shared/more.py", "tests/test_other.py")
ASKED = """
import k, moved, shared.of_k, shared.more, tests.test_other
for each in (k, moved, shared.of_k, shared.more, tests.test_other):
    print(each.__file__)
"""


def test_a_test_imports_what_was_installed_wherever_it_is_run(tmp_path):
    """pytest puts the folder of the tests before all else on the path, and there the source is importable, too."""
    wheel = make_wheel(tmp_path, "k", "1", files=INSTALLED)
    _lay_out((wheel,), tmp_path / "work")
    source = tmp_path / "work/src"
    for path in OF_THE_SOURCE:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).touch()
    path = os.pathsep.join(str(tmp_path / "work" / name) for name in ("start", "site"))
    answer = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=source, env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    found = [str(Path(line).relative_to(tmp_path / "work")) for line in answer.stdout.splitlines()]
    installed = ["site/k/__init__.py", "site/moved.py", "site/shared/of_k.py"]
    assert found == [*installed, "src/shared/more.py", "src/tests/test_other.py"], answer.stderr


@pytest.mark.parametrize(
    ("project", "image", "grafts"), [(PROJECT, None, True), (PROJECT, IMAGE, False), (None, None, False)]
)
def test_libraries_come_into_a_wheel_only_from_where_it_was_linked(project, image, grafts, tmp_path):
    """What reads the finished wheel runs on the machine: what it has under that name is not what an image has."""
    job = RepairJob(plan=replace(plan(1), project=project, image=image), engine=Local(), folder=tmp_path / "finish")
    job.lay_out("k-1-py3-none-any.whl", [b""])
    assert json.loads((tmp_path / "finish/request.json").read_text())["input"]["grafts"] is grafts


def test_every_folder_of_a_variable_is_found_on_the_machine_itself(tmp_path):
    """Engine local mounts nothing: what lies in the second folder must be importable, too."""
    mounts = []
    for number, target in enumerate(("/work", "/opt/environment", "/opt/requirements")):
        (tmp_path / str(number) / "site").mkdir(parents=True)
        (tmp_path / str(number) / "site" / f"found{number}.py").write_text("")
        mounts.append(Mount(source=tmp_path / str(number), target=target, writable=number == 0))
    path = ":".join(f"{mount.target}/site" for mount in mounts)
    command = Command(
        name="n",
        argv=("python3", "-c", "import found0, found1, found2; print('found')"),
        mounts=tuple(mounts),
        env={"PYTHONPATH": path},
        workdir="/work",
        limits=Limits(seconds=60.0),
    )
    lines = []
    Local().run(command, lines.append, threading.Event())
    assert lines == ["found"]


def test_an_end_is_told_of_what_fails(tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr("wheelsmith.toolchain.prefixes.locate_wheels", mistaken)
    with pytest.raises(ToolchainError):
        Toolchains(tmp_path, heard.append).environment(
            (LockedWheel(name="torch", version="2.13.0", sha256="0" * 64),), "3.12", "x86_64"
        )
    assert [event.done for event in heard] == [False, True]
    assert heard[0].what == "installing torch 2.13.0 for Python 3.12"


def mistaken(*_):
    raise ToolchainError("uv took longer than 1 s")
