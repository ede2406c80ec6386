"""Kernels for AMD GPUs, compiled by ROCm's compilers as Debian has them: nothing here runs on such a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from debian_rocm import release_of, rocm_home
from factory import Factory, example

from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("fetches ROCm, and compiles for three architectures"),
    pytest.mark.xdist_group("rocm"),
]
ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
MATRIX = """\
kernel:
  path: {kernel}
axes:
  torch: {torch}
  rocm: ["{rocm}"]
  cuda: [{cuda}]
  arch: [x86_64]
gpu-archs: [9.0, {archs}]
"""
SECTION = """
[kernel.for_amd]
backend = "rocm"
depends = ["torch"]
src = {src}
include = {include}
rocm-archs = ["gfx900", "gfx90a", "gfx940", "gfx942", "gfx1100"]
"""


@pytest.fixture(scope="module")
def rocm(tmp_path_factory):
    return rocm_home(tmp_path_factory.mktemp("debian-rocm"))


def for_amd(factory: Factory, kernel: str, rocm: Path, *, torch: str, src: str, include: str = "[]", cuda="cpu"):
    """Add AMD's GPUs to a kernel, and build it."""
    folder, macros = factory.folder / kernel, "#if defined(CUDA_KERNEL) || defined(ROCM_KERNEL)"
    for binding in folder.glob("torch-ext/*.cpp"):
        guards = re.sub(r"#if(def CUDA_KERNEL| defined\(CUDA_KERNEL\))", macros, binding.read_text())
        binding.write_text(guards)
    toml = folder / "build.toml"
    text = toml.read_text().replace('"cuda"]', '"cuda", "rocm"]', 1)
    toml.write_text(text + SECTION.format(src=src, include=include))
    matrix = MATRIX.format(kernel=kernel, torch=torch, rocm=release_of(rocm), cuda=cuda, archs=", ".join(ARCHITECTURES))
    (factory.folder / "matrix.yaml").write_text(matrix)
    return factory.run(
        "build-matrix", "--engine", "bwrap", "--progress", "plain", "--only", "*rocm*", ROCM_PATH=str(rocm)
    )


def of_gallery(folder: Path) -> Factory:
    """Lay out the kernel for torch's stable ABI, of which test_folded_wheels.py builds the gallery's own matrix."""
    factory = example(folder)
    return replace(factory, folder=folder / "examples/gallery/stable-abi")


def stable(folder: Path, rocm: Path) -> Factory:
    factory = of_gallery(folder)
    answer = for_amd(factory, "affine", rocm, torch='["2.11", "2.13"]', src='["device.cu", "host.cpp"]')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return factory


@pytest.fixture(scope="module")
def affine(tmp_path_factory, rocm):
    return stable(tmp_path_factory.mktemp("rocm-stable"), rocm)


def wheels(factory):
    return sorted((factory.folder / "dist/wheels").iterdir())


def test_one_wheel_for_the_stable_abi(affine, rocm):
    (wheel,) = wheels(affine)
    assert wheel.name == f"affine-1+rocm{release_of(rocm)}.torchstable-cp39-abi3-manylinux_2_28_x86_64.whl"
    found = {name: result["status"] for name, result in affine.results().items()}
    assert set(found.values()) == {"built", "folded"}
    assert (affine.folder / f"dist/index/rocm{release_of(rocm)}/affine/index.html").is_file()


def test_every_code_object_is_read_back(affine):
    report = check_wheel(wheels(affine)[0])
    assert report.ok, report
    said = {finding.rule: finding.message for finding in report.findings}
    assert said["compute-platform"].endswith("GPU code for gfx90a, gfx942, gfx1100")
    assert said["machine-code"] == "the GPU code of 1 file is complete and matches its labels"
    assert "libamdhip64.so.7" in said["libraries"]


def test_the_same_bytes_in_another_folder(affine, rocm, tmp_path):
    elsewhere = tmp_path / "deeper" / "rocm"
    elsewhere.parent.mkdir()
    shutil.copytree(rocm, elsewhere, symlinks=True)
    other = stable(tmp_path / "other", elsewhere)
    assert other.hashes() == affine.hashes()


def test_a_function_that_no_source_defines_is_found_by_the_check(tmp_path, rocm):
    factory = of_gallery(tmp_path)
    answer = for_amd(factory, "affine", rocm, torch='["2.13"]', src='["device.cu"]')
    assert answer.returncode == 1
    assert "affine_cpu" in answer.stderr
    assert "but no library that it needs exports it" in answer.stderr


def test_a_header_of_an_include_folder_is_translated_and_an_error_tells_of_the_copy(tmp_path, rocm):
    factory = of_gallery(tmp_path)
    kernel = factory.folder / "affine"
    (kernel / "own").mkdir()
    (kernel / "own/launch.cuh").write_text("#pragma once\n#include <cuda_runtime.h>\n")
    device = kernel / "device.cu"
    device.write_text("#include <launch.cuh>\n" + device.read_text())
    src = '["device.cu", "host.cpp"]'
    answer = for_amd(factory, "affine", rocm, torch='["2.13"]', src=src, include='["own"]')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    device.write_text(device.read_text() + "int wrong = nothing;\n")
    answer = factory.run("build-matrix", "--engine", "bwrap", "--only", "*rocm*", ROCM_PATH=str(rocm))
    assert answer.returncode == 1
    assert "use of undeclared identifier 'nothing'" in answer.stderr
    assert "lines below build/hip are those of the source after torch's hipify" in answer.stderr


def test_a_kernel_with_torchs_own_headers(tmp_path, rocm):
    factory = example(tmp_path)
    factory = replace(factory, folder=tmp_path / "examples")
    src = '["img2gray_cuda/img2gray_cuda.cu", "include/img2gray.h"]'
    answer = for_amd(factory, "img2gray", rocm, torch='["2.13"]', src=src, include='["include"]')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (wheel,) = wheels(factory)
    assert wheel.name == f"img2gray-1+rocm{release_of(rocm)}.torch2.13-cp39-abi3-manylinux_2_28_x86_64.whl"
    report = check_wheel(wheel)
    assert report.ok, report
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    (extension,) = (tmp_path / "unpacked").rglob("*.so")
    needed = subprocess.run(["readelf", "-d", extension], capture_output=True, text=True, check=True).stdout
    assert "libc10_hip.so" in needed
    assert "libcudart" not in needed
