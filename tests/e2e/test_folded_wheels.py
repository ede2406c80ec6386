"""Few builds for many cells, and that what they claim is true: one wheel, run under several torches really installed.

What is proven without a GPU: wheels import, and their CPU operator computes what torch does. The CPU wheel runs under
every torch; a CUDA wheel under those built for CUDA 13, which torch 2.13 is not where pip finds its CPU build.
WHEELSMITH_TEST_TORCH names the torches; each costs up to 5 GB in the cache, where the tests of projects find it too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from factory import gallery
from kernels import matrix

from wheelsmith.base.files import default_cache
from wheelsmith.frameworks import torch_releases
from wheelsmith.model.events import ignore
from wheelsmith.toolchain import Toolchains
from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("two whole torches, and headers of six"),
    pytest.mark.xdist_group("folded"),
]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TORCHES = os.environ.get("WHEELSMITH_TEST_TORCH", "2.11,2.13").split(",")
# A setup.py's build environment: the one that the tests of projects make.
BESIDE = ("setuptools>=40.8", "wheel")
SIX = "2.10, 2.11, 2.12, 2.13, 2.14, 2.15"
SCRIPT = """
import affine, torch

torch.manual_seed(0)
for x in torch.randn(0), torch.randn(1), torch.randn(3, 5, 101), torch.randn(7, 13).t():
    torch.testing.assert_close(affine.affine(x, 1.5, -0.25), x * 1.5 - 0.25)
print("OK", torch.__version__)
"""


@pytest.fixture(scope="module")
def factory(tmp_path_factory):
    return gallery(tmp_path_factory.mktemp("folding"), "stable-abi")


def build(factory, *argv):
    """Build, and give the names of the cells that were really started."""
    answer = factory.run("build-matrix", "--engine", "bwrap", "--progress", "json", *argv)
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr
    events = [json.loads(line) for line in answer.stdout.splitlines()]
    return [event["cell_id"] for event in events if event["event"] == "CellStarted"]


@pytest.fixture(scope="module")
def started(factory):
    """Six torches and two CUDAs, and then the CPU cells, which change nothing of the others."""
    return build(factory, "--only", "*-cu13*"), build(factory)


def test_six_torches_and_two_cudas_are_two_builds(factory, started):
    """The first that asks for the two builds, which are made from nothing."""
    cuda, cpu = started
    assert sorted(cuda) == [f"torch210-cxx11-{compute}-x86_64-linux" for compute in ("cu130", "cu132")]
    assert cpu == ["torch210-cxx11-cpu-x86_64-linux"]
    results = factory.results()
    assert len(results) == 18
    assert {cell["wheel"]["filename"].split("-")[1] for cell in results.values()} == {
        "1+cpu.torchstable",
        "1+cu130.torchstable",
        "1+cu132.torchstable",
    }
    folded = {name: cell["folded"] for name, cell in results.items() if cell["folded"]}
    assert len(folded) == 15
    for name, whose in folded.items():
        assert whose == {"cell": name.replace(name[:8], "torch210"), "reason": "torch's stable ABI from 2.10 on"}
    for wheel in (factory.folder / "dist" / "wheels").iterdir():
        report = check_wheel(wheel)
        assert report.ok, report
        said = {finding.rule: finding.message for finding in report.findings}
        assert said["symbols"].endswith(f"of them from torch {SIX}")


def test_the_oldest_minor_answers_from_the_newer_ones_page(factory, started, tmp_path):
    """No build more: CUDA 13.0's wheel is there, and pip finds it where people with CUDA 13.2 look."""
    more = "cuda-compatibility: oldest-minor\ngpu-archs: [8.0, 9.0+PTX]\n"
    matrix(factory.folder, "affine", torch=SIX, cuda="13.2, 13.0", more=more)
    assert build(factory, "--out", "one") == []
    results = factory.results("one")
    assert {cell["version"] for cell in results.values()} == {"1+cu130.torchstable"}
    whose = results["torch213-cxx11-cu132-x86_64-linux"]["folded"]
    assert whose["cell"] == "torch210-cxx11-cu130-x86_64-linux"
    assert whose["reason"] == "torch's stable ABI from 2.10 on and CUDA minor-version compatibility"
    for compute in ("cu130", "cu132"):
        site = install(factory.folder / "one" / "index" / compute, tmp_path / compute)
        assert [path.name for path in site.glob("*.dist-info")] == ["affine-1+cu130.torchstable.dist-info"]


def install(index: Path, site: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    subprocess.run(
        [*pip, "--target", site, "--index-url", index.as_uri(), "affine"],
        check=True,
        env={**environment, "PIP_CONFIG_FILE": os.devnull},
    )
    return site


@pytest.fixture(scope="module", params=TORCHES)
def torch(request):
    """A folder with a whole torch, and the CUDA that it was built with, if any."""
    toolchains = Toolchains(default_cache(), ignore)
    locked = toolchains.lock((f"torch=={torch_releases()[request.param].version}", *BESIDE), PYTHON, "x86_64")
    assert not isinstance(locked, str), locked
    folder = toolchains.environment(locked, PYTHON, "x86_64")
    said = run(["-c", "import torch; print(torch.__version__, torch.version.cuda)"], folder)
    version, cuda = said.stdout.split()
    assert version.startswith(request.param + ".")
    return folder, version, cuda


def run(argv, *importable):
    return subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        check=True,
        # Without bytecode: the folder is one that builds share, and is what it was made as.
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, importable)),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )


def test_its_wheels_are_right_under(torch, factory, started, tmp_path):
    """A whole torch is installed for each release, which is most of what it takes."""
    folder, version, cuda = torch
    for compute in ("cpu", "cu130", "cu132") if cuda.startswith("13.") else ("cpu",):
        site = install(factory.folder / "dist" / "index" / compute, tmp_path / compute)
        assert [path.name for path in site.glob("*.dist-info")] == [f"affine-1+{compute}.torchstable.dist-info"]
        # A process each: both CUDA wheels register the same operators.
        assert run(["-c", SCRIPT], site, folder).stdout == f"OK {version}\n"
