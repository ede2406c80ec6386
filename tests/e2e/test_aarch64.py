"""Wheels for aarch64, cross-built here: what others say of them, and what one of them computes under emulation.

WHEELSMITH_TEST_CACHE names a folder that keeps the arm64 Python and its torch for the next run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import wants
from arm64 import Arm64, lacking, lacking_for_emulation
from factory import gallery

from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.manylinux import implies_tag

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("needs a cross compiler and an emulator"),
    pytest.mark.xdist_group("aarch64"),
]
# PyPI's torch 2.9 for aarch64 is a CPU build, and so the small one. torch 2.13 there is a CUDA build.
CELLS = {"cpu": "torch29-cxx11-cpu-aarch64-linux", "cuda": "torch213-cxx11-cu130-aarch64-linux"}
# Integers and doubles of plain Python say what is right.
SCRIPT = """
import platform
import torch
from img2gray import img2gray

torch.manual_seed(0)
for size in (1, 1, 3), (7, 13, 3), (101, 33, 3):
    image = torch.randint(0, 256, size, dtype=torch.uint8)
    right = [[(299 * r + 587 * g + 114 * b + 500) // 1000 for r, g, b in row] for row in image.tolist()]
    gray = img2gray(image)
    assert gray.dtype == torch.uint8 and gray.tolist() == right, size

    image = torch.rand(size)
    right = [[0.299 * r + 0.587 * g + 0.114 * b for r, g, b in row] for row in image.tolist()]
    gray = img2gray(image)
    assert gray.dtype == torch.float32
    torch.testing.assert_close(gray.double(), torch.tensor(right, dtype=torch.float64), rtol=2e-7, atol=1e-7)

print("OK", platform.machine(), torch.__version__)
"""


def need(reason: str | None) -> None:
    if reason:
        wants.absent(reason)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    need(lacking("aarch64-linux-gnu-g++"))
    factory = gallery(tmp_path_factory.mktemp("aarch64"), "arm64")
    answer = factory.run("build-matrix", "-j", "2")
    assert answer.returncode == 0, answer.stderr
    results = factory.results()
    folder = factory.folder / "dist" / "wheels"
    return {name: folder / results[cell]["wheel"]["filename"] for name, cell in CELLS.items()}


@pytest.fixture(scope="module")
def torch29(tmp_path_factory) -> Arm64:
    need(lacking_for_emulation())
    cache = Path(os.environ.get("WHEELSMITH_TEST_CACHE") or tmp_path_factory.mktemp("arm64")).resolve()
    python = Arm64.at(cache / "arm64-python")
    return python.with_packages(cache / "arm64-torch2.9", "torch==2.9.*", "typing-extensions")


@pytest.mark.parametrize("name", CELLS)
def test_auditwheel_agrees_with_the_tag(name, wheels):
    """The first that asks for the wheels, which are cross-built from nothing."""
    command = [Path(sys.executable).parent / "auditwheel", "show", "--json", wheels[name]]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert shown["sym_tag"].startswith("manylinux_")
    # They are built for 2_28, and may need less.
    assert wheels[name].stem.split("-")[-1] == "manylinux_2_28_aarch64"
    assert implies_tag("manylinux_2_28_aarch64", shown["sym_tag"])
    assert shown["sym_tag"].endswith("_aarch64")


@pytest.mark.parametrize(
    ("name", "code"), [("cpu", "no GPU code"), ("cuda", "GPU code for 8.0, 9.0, 9.0 as PTX")], ids=["cpu", "cuda"]
)
def test_our_check_agrees(name, code, wheels):
    report = check_wheel(wheels[name])
    assert report.ok, [f.message for f in report.findings if not f.ok]
    found = {finding.rule: finding.message for finding in report.findings}
    assert found["compute-platform"] == code
    assert found["architecture"].endswith("is for Linux on aarch64")


def test_the_operator_is_right_under_emulation(wheels, torch29, tmp_path):
    """An emulated Python imports a whole torch."""
    answer = torch29.with_packages(tmp_path / "img2gray", str(wheels["cpu"])).run(SCRIPT)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "OK aarch64 2.9.1+cpu\n"
