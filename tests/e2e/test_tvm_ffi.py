"""One wheel of a kernel for tvm-ffi serves every Python and every release of a minor; page and pick know it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from factory import Factory, gallery
from kept_objects import objects_kept
from kernels import tvm_kernel

from wheelsmith.frameworks.tvm_ffi import tvm_ffi_releases
from wheelsmith.wheel.check import check_wheel

pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.xdist_group("tvm-ffi")]
CALL = """
import numpy, sys, tvm_ffi, twice
x = numpy.arange(5, dtype="float32")
out = numpy.empty_like(x)
twice.twice(tvm_ffi.from_dlpack(out), tvm_ffi.from_dlpack(x))
assert (out == 2 * x).all(), out
print(tvm_ffi.__version__)
"""
OTHER_PYTHONS = ("3.13", "3.12", "3.10")


@pytest.fixture(scope="module")
def built(request, tmp_path_factory):
    """The kernel's wheels and its index, for the CPU and for CUDA 13.0."""
    factory = gallery(tmp_path_factory.mktemp("tvm"), "tvm-ffi")
    with objects_kept(request.config, "tvm-ffi", factory):
        answer = factory.run("build-matrix", "--engine", "bwrap", "--progress", "plain")
        assert answer.returncode == 0, answer.stderr
    return factory


def another_python() -> str | None:
    """Return a Python of another minor than this one, where there is one."""
    for minor in OTHER_PYTHONS:
        asked = ["uv", "python", "find", "--no-python-downloads", minor]
        found = subprocess.run(asked, capture_output=True, text=True)
        if found.returncode == 0 and f"3.{sys.version_info.minor}" != minor:
            return found.stdout.strip()
    return None


def call(python: str, tvm_ffi: str, wheels: Path, folder: Path) -> str:
    """Install the kernel beside one release of tvm-ffi, call it, and return the release."""
    subprocess.run(["uv", "venv", "-q", "--python", python, folder], check=True)
    subprocess.run(
        [
            *("uv", "pip", "install", "-q", "--python", folder, "--find-links", wheels),
            *("twice==1+cpu.tvmffi0.1", f"apache-tvm-ffi=={tvm_ffi}", "numpy"),
        ],
        check=True,
    )
    answer = subprocess.run([folder / "bin/python", "-c", CALL], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


@pytest.mark.release("compiles kernels for tvm-ffi")
def test_the_wheels_are_what_they_say(built):
    wheels = sorted((built.folder / "dist/wheels").glob("*.whl"))
    assert [wheel.name.split("-manylinux")[0] for wheel in wheels] == [
        "twice-1+cpu.tvmffi0.1-py3-none",
        "twice-1+cu130.tvmffi0.1-py3-none",
    ]
    for wheel in wheels:
        report = check_wheel(wheel)
        assert report.ok, report
        told = [finding.message for finding in report.findings if finding.rule == "symbols"]
        assert "of them from libtvm_ffi.so" in told[0]


@pytest.mark.release("compiles kernels for tvm-ffi")
def test_the_oldest_and_the_newest_tvm_ffi_call_it(built, tmp_path):
    versions = tvm_ffi_releases()["0.1"].versions
    for version in (versions[0], versions[-1]):
        assert call(sys.executable, version, built.folder / "dist/wheels", tmp_path / version).startswith("0.1.")


@pytest.mark.release("compiles kernels for tvm-ffi")
def test_another_python_calls_the_same_wheel(built, tmp_path):
    other = another_python()
    if other is None:
        pytest.skip("there is no other Python here")
    assert call(other, tvm_ffi_releases()["0.1"].version, built.folder / "dist/wheels", tmp_path / "env")


@pytest.mark.release("compiles kernels for tvm-ffi")
def test_pick_names_what_installs_it(built, tmp_path):
    subprocess.run(["uv", "venv", "-q", "--seed", "--python", sys.executable, tmp_path / "env"], check=True)
    answer = built.run_in_process("pick", "twice", "--index", "dist/index", "--python", str(tmp_path / "env"), "--json")
    found = json.loads(answer.stdout)
    assert (found["target"]["tvm-ffi"], found["tvm-ffi"]) == ("0.1", "absent")
    argv = [word for line in found["argv"] for word in line]
    assert any(word.startswith("twice @ file://") for word in argv)
    assert "apache-tvm-ffi==0.1.*" in argv
    assert not [word for word in argv if "torch" in word]


@pytest.mark.release("compiles kernels for tvm-ffi")
def test_the_page_asks_for_tvm_ffi_and_not_for_torch(built):
    page = (built.folder / "dist/index/projects/twice/index.html").read_text()
    assert 'name="tvm-ffi" value="0.1"' in page
    assert "tvm-ffi is</legend>" in page
    assert 'name="torch"' not in page


def test_a_torch_axis_is_answered_for_every_cell(tmp_path):
    (tmp_path / "matrix.yaml").write_text(
        f"kernel: {{path: {tvm_kernel(tmp_path / 'k')}}}\naxes: {{torch: [2.12, 2.13], cuda: [cpu]}}\n"
    )
    answer = Factory.at(tmp_path).run_in_process("plan")
    assert answer.returncode == 3  # nothing is left to build
    # Once for each cell, and once below the table.
    assert answer.stdout.count("the kernel is for tvm-ffi, not for torch") == 3
