"""Cases of a test matrix: which Pythons and GPUs a wheel is tested with, and why others are not."""

import threading
from dataclasses import replace

import pytest
from machines import machine

from wheelsmith.base.errors import NoEnvironmentError
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.resolve.target import ParsedWheel, Target
from wheelsmith.model import Cell
from wheelsmith.platforms import Gpu
from wheelsmith.run.testing.cases import CaseExpander, MatrixFilter
from wheelsmith.run.testing.environments import InstalledEnvironment, ObstacleError, why_unsuitable

H200, H100 = (Gpu(name=f"NVIDIA {name}", capability="9.0", uuid=f"GPU-{name}") for name in ("H200", "H100"))
MACHINE = replace(machine(torch="2.11.0+cu130", driver="13.0"), gpus=(H200, H200, H100))
PYTHONS = {"3.13": "/13", "3.9": "/9", "3.10": "/10", "3.14t": "/14t"}
OF_211 = Cell(release="2.11", toolkit="13.0", arch="x86_64")


def wheel(*cells, name="kernel-1+cu130.torch2.11-cp39-abi3-manylinux_2_28_x86_64.whl", requires="==2.11.*"):
    return IndexEntry(
        filename=name, sha256="0" * 64, size=1, upload_time="", requires_python=">=3.9", requires_torch=requires,
        metadata_sha256="1" * 64, cells=cells, gpu_archs=("9.0",),
    )  # fmt: skip


def expand(*wheels, machine=MACHINE, pythons=PYTHONS, lacking=(), limited=None):
    def choose(parsed, target):
        if target.python in lacking:
            raise NoEnvironmentError(f"no torch for Python {target.python}")
        return InstalledEnvironment(python=pythons[target.python], packages=(), paths=())

    expander = CaseExpander(machine=machine, pythons=pythons, choose=choose, cancel=threading.Event())
    return expander.expand(wheels, limited or MatrixFilter())


def ran(cases):
    return [(case.cell.release, case.target.python, case.gpu and case.gpu.name) for case in cases if case.target]


def test_the_oldest_and_newest_usable_python_and_one_gpu_of_each_model_are_tested():
    everything = [("2.11", python, gpu.name) for gpu in (H200, H100) for python in ("3.10", "3.13")]
    assert ran(expand(wheel(OF_211), lacking=("3.9",))) == everything
    # A Python without the GIL loads no stable ABI.
    (case, _) = expand(wheel(OF_211), pythons={"3.14t": "/14t"})
    assert str(case.obstacle).endswith("is not for Python without the GIL")


def test_a_wheel_of_one_python_is_tested_with_it():
    cell = replace(OF_211, python="3.10")
    name = "kernel-1+cu130.torch2.11-cp310-cp310-manylinux_2_28_x86_64.whl"
    assert {each[1] for each in ran(expand(wheel(cell, name=name)))} == {"3.10"}
    (case, _) = expand(wheel(replace(OF_211, python="3.12"), name=name))
    assert (case.target, str(case.obstacle)) == (None, "this machine has no Python 3.12")


OBSTACLES = {
    "this machine is x86_64": (replace(OF_211, arch="aarch64"), {}),
    "this machine has no GPU for CUDA 13.0": (OF_211, {"gpus": ()}),
    "it needs glibc 2.28 or newer, this machine has 2.17": (OF_211, {"glibc": "2.17"}),
    "it has code for 9.0, but the GPU has capability 8.0": (OF_211, {"gpus": (Gpu(name="A100", capability="8.0"),)}),
    "it requires torch ==2.11.*, not 2.13": (replace(OF_211, release="2.13"), {}),
}


@pytest.mark.parametrize("reason", OBSTACLES)
def test_what_cannot_be_tested_here_is_one_case_with_the_reason(reason):
    cell, changes = OBSTACLES[reason]
    cases = expand(wheel(cell), machine=replace(MACHINE, **changes))
    assert {str(case.obstacle) for case in cases} == {reason}
    assert all(isinstance(case.obstacle, ObstacleError) for case in cases)


def test_an_environment_that_cannot_be_resolved_is_an_error():
    (case,) = expand(
        wheel(replace(OF_211, toolkit=None)), lacking=("3.9", "3.10", "3.13"), pythons={"3.9": "", "3.10": ""}
    )
    assert (type(case.obstacle), str(case.obstacle)) == (NoEnvironmentError, "no torch for Python 3.10")


def test_a_filter_limits_releases_and_platforms():
    cells = [
        Cell(release=release, toolkit=cuda, arch="x86_64") for release in ("2.9", "2.11") for cuda in (None, "13.0")
    ]
    stable = wheel(*cells, requires=">=2.9")
    one = {"pythons": {"3.10": "/10"}, "machine": replace(MACHINE, gpus=(H200,))}
    assert ran(expand(stable, **one)) == [
        ("2.9", "3.10", None), ("2.9", "3.10", "NVIDIA H200"), ("2.11", "3.10", None), ("2.11", "3.10", "NVIDIA H200"),
    ]  # fmt: skip
    limited = MatrixFilter(releases=("2.11",), computes=("cpu",))
    assert ran(expand(stable, **one, limited=limited)) == [("2.11", "3.10", None)]


@pytest.mark.parametrize(
    ("found", "compute", "reason"),
    [
        ({}, "cu130", None),
        ({"torch": "2.11.1+cu130"}, "cu130", None),
        ({"torch": "2.12.0+cu130"}, "cu130", "has torch 2.12.0+cu130, not 2.11"),
        ({"torch_compute": "cu126"}, "cu130", "has torch 2.11.0+cu130 for CUDA 12.6, not CUDA 13.0"),
        ({"torch": "2.11.0+cpu", "torch_compute": "cpu"}, "cu130", "has torch 2.11.0+cpu for CPU, not CUDA 13.0"),
        ({"torch": None, "torch_compute": None}, "cpu", "has no torch 2.11"),
        ({}, "cpu", None),
        ({"python_version": "3.13.0"}, "cpu", "is Python 3.13, not 3.12"),
    ],
)
def test_an_environment_is_compared_with_the_target(found, compute, reason):
    target = Target(release="2.11", compute=compute, arch="x86_64", python="3.12")
    assert why_unsuitable(replace(MACHINE, **found), ParsedWheel(wheel(OF_211)), target) == reason
