"""wheelsmith pick on a machine whose driver lists AMD GPUs: the sandbox of a build shows it such files."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from shop import HERE, NOW
from wheels import make_wheel, offer

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

ARCHITECTURES = {"rocm7.1": ("gfx90a",), "rocm7.2": ("gfx942", "gfx1100")}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Wheels of one version for the CPU, for CUDA and for two releases of ROCm."""
    root, offers = tmp_path_factory.mktemp("amd"), []
    for platform, toolkit in (("cuda", None), ("cuda", "13.0"), ("rocm", "7.1"), ("rocm", "7.2")):
        cell = Cell(release="2.13", platform=platform, toolkit=toolkit, arch="x86_64")
        local = f"{cell.compute}.torch2.13"
        path = make_wheel(root / "made", "scale", f"1+{local}", requires=("torch==2.13.*",), tag=HERE)
        given = offer(path, cell)
        archs = ARCHITECTURES.get(cell.compute, ())
        offers.append(replace(given, entry=replace(given.entry, gpu_archs=archs)))
    Index(Folder(root / "index")).add(offers, upload_time=NOW)
    return root / "index"


@pytest.fixture
def pick(tmp_path, index):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)

    def pick(gpu, *argv, hip=None):
        node = tmp_path / "sys/kfd/kfd/topology/nodes/1"
        node.mkdir(parents=True, exist_ok=True)
        (node / "properties").write_text(f"simd_count 304\ngfx_target_version {gpu}\nunique_id 77\n")
        (node / "name").write_text("aqua vanjaram\n")
        if hip:
            (site,) = tmp_path.glob("venv/lib/python*/site-packages")
            info = site / "torch-2.13.0+rocm7.2.dist-info"
            for folder in (info, site / "torch"):
                folder.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+rocm7.2\n")
            (site / "torch/__init__.py").touch()
            (site / "torch/version.py").write_text(f"cuda = None\nhip: str = '{hip}'\n")
        shown = [*("bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"), "--tmpfs", "/sys"]
        shown += ["--bind", str(tmp_path / "sys"), "/sys/class"] if gpu else []
        command = [sys.executable, "-m", "wheelsmith", "pick", "scale", "--index", str(index), "--json", *argv]
        answer = subprocess.run(
            [*shown, *command, "--python", str(tmp_path / "venv")], capture_output=True, text=True, env=os.environ
        )
        assert "Traceback" not in answer.stderr, answer.stderr
        return json.loads(answer.stdout or "{}"), answer

    return pick


def test_a_wheel_with_code_for_the_gpu_and_torchs_own_index(pick):
    found, _ = pick(90402)
    assert found["machine"]["gpu_platform"] == "rocm"
    assert [(gpu["name"], gpu["capability"]) for gpu in found["machine"]["gpus"]] == [("aqua vanjaram", "gfx942")]
    assert "scale==1+rocm7.2.torch2.13 torch==2.13.0+rocm7.2 " in found["command"]
    assert "index/rocm7.2/ --index https://download.pytorch.org/whl/rocm7.2" in found["command"]


def test_the_release_that_has_code_for_the_gpu(pick):
    assert "scale==1+rocm7.1.torch2.13" in pick(90010)[0]["command"]


def test_a_gpu_without_code_gets_the_wheel_for_the_cpu(pick):
    assert "scale==1+cpu.torch2.13" in pick(120001)[0]["command"]


def test_an_installed_torch_decides(pick):
    found, _ = pick(90402, hip="7.2.26015-fc0010cf6a")
    assert found["machine"]["torch_compute"] == "rocm7.2"
    assert "scale==1+rocm7.2.torch2.13" in found["command"]
    assert "pytorch.org" not in found["command"]


def test_options_for_another_machine(pick):
    found, _ = pick(None, "--rocm", "7.2", "--capability", "gfx1100")
    assert "scale==1+rocm7.2.torch2.13" in found["command"]
    _, answer = pick(None, "--rocm", "7.2", "--capability", "gfx1201")
    assert answer.returncode == 3
    assert "it has code for gfx942 and gfx1100, but the GPU has capability gfx1201" in answer.stderr


def test_one_platform_at_a_time(pick):
    _, answer = pick(90402, "--cuda", "13.0", "--rocm", "7.2")
    assert answer.returncode == 2
    assert "--cuda, --rocm and --xpu exclude each other" in answer.stderr
