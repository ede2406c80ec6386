"""What projects expect of a machine with CUDA: every library, found by CMake and by Meson, and the driver's names."""

import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from factory import gallery

from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.inspection import Inspection

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("environments with a whole torch, and all of CUDA's libraries"),
    pytest.mark.xdist_group("projects"),
]
PROJECTS = Path(__file__).parent / "projects"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
DRIVER = "libcuda.so.1"
MATRIX = """\
kernel: {{path: k, test: "python3 -c 'import {imported}'"}}
axes: {{torch: [2.13], cuda: [cpu, 13.0], python: [{python}]}}
env: {{CAPABILITIES: "{{capabilities}}"}}
rules:
- where: {{cuda: "13.0"}}
  set: {{gpu-archs: [8.0, 9.0+PTX]}}
"""
# Project → what its wheel for CUDA needs beside torch's libraries and the platform's.
NEEDED = {
    "setuptools": {
        *("libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12", "libcusolver.so.12", "libcurand.so.10"),
        *("libcufft.so.12", "libnvrtc.so.13", "libcupti.so.13", "libnvidia-ml.so.1", DRIVER),
    },
    "scikit": {"libcublas.so.13", "libcusparse.so.12", "libnvrtc.so.13", "libnvidia-ml.so.1", DRIVER},
    "meson": {"libcublas.so.13", "libnvrtc.so.13", DRIVER},
    "cmake": {"libcufft.so.12", "libcurand.so.10", "libcusolver.so.12", "libcupti.so.13", "libnvJitLink.so.13"},
}
# What needs no driver is loaded, too: torch has brought its libraries.
IMPORTED = {"cmake": "torch, cmake_by_hand"}


@pytest.mark.parametrize("name", NEEDED)
def test_a_project_becomes_checked_wheels(name, tmp_path):
    factory = gallery(tmp_path, "cmake")
    if name != "scikit":
        shutil.copytree(PROJECTS / name, factory.folder / "k")
        (factory.folder / "matrix.yaml").write_text(MATRIX.format(imported=IMPORTED.get(name, "torch"), python=PYTHON))
    answer = factory.run("build-matrix", "--engine", "bwrap", "--test", "--only", f"*-cp{PYTHON.replace('.', '')}")
    assert answer.returncode == 0, answer.stderr
    for_cpu, for_cuda = sorted((factory.folder / "dist" / "wheels").iterdir())
    assert "+cpu.torch2.13-" in for_cpu.name
    assert "+cu130.torch2.13-" in for_cuda.name
    for wheel in (for_cpu, for_cuda):
        report = check_wheel(wheel)
        assert report.ok, report
    said = {finding.rule: finding.message for finding in report.findings}
    assert said["compute-platform"].endswith("8.0, 9.0, 9.0 as PTX")
    with Inspection(for_cuda) as wheel:
        (extension,) = wheel.extensions.values()
    assert set(extension.needed) >= NEEDED[name]
    with zipfile.ZipFile(for_cuda) as archive:
        assert not [member for member in archive.namelist() if ".libs/" in member]
