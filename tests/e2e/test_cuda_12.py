"""CUDA 12 without an image: nvcc out of a pinned package or archive makes wheels, which serve newer minors, too."""

import hashlib
import io
import platform
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from factory import Factory, gallery

from wheelsmith.base.files import default_cache
from wheelsmith.model.events import ignore
from wheelsmith.platforms import cuda_prefix, cuda_toolkits
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.downloads import PrefixFiles
from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("another toolkit of 92 MB"),
    pytest.mark.xdist_group("cuda 12"),
]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def factory(tmp_path_factory):
    factory = gallery(tmp_path_factory.mktemp("cuda12"), "cuda-12")
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr
    return factory


def test_one_wheel_serves_cells_of_a_newer_minor(factory):
    names = {cell: result["wheel"]["filename"] for cell, result in factory.results().items()}
    assert set(names) == {f"torch2{minor}-cxx11-cu12{n}-x86_64-linux" for minor in (10, 11) for n in (4, 8)}
    assert len(set(names.values())) == 1
    (wheel,) = (factory.folder / "dist" / "wheels").iterdir()
    assert "-1+cu124.torchstable-" in wheel.name
    for root in ("cu124", "cu128", "simple"):
        assert (
            wheel.name.replace("+", "%2B") in (factory.folder / "dist/index" / root / "affine/index.html").read_text()
        )


def test_every_cubin_is_genuine(factory):
    (wheel,) = (factory.folder / "dist" / "wheels").iterdir()
    report = check_wheel(wheel)
    assert report.ok, report
    said = {finding.rule: finding.message for finding in report.findings}
    assert said["toolkit"] == "machine code by CUDA 12.4; PTX 8.4 of CUDA 12.4"
    assert said["compute-platform"].endswith("8.0, 9.0, 9.0 as PTX")
    assert "libcudart.so.12" in said["libraries"]


def test_a_newer_minor_is_built_with_an_archive_at_hand(tmp_path, monkeypatch):
    """With an archive in NVIDIA's layout of the nvcc of 12.4 and the ptxas of 12.8, which the package index has."""
    toolkit = cuda_toolkits()["12.8"]
    pin = toolkit.compilers[platform.machine()]
    archive = tmp_path / "mirror" / pin.filename
    archive.parent.mkdir()
    write_archive(archive, ptxas_of(toolkit, tmp_path))
    content = archive.read_bytes()
    ours = replace(pin, url="file:///nowhere", sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    monkeypatch.setitem(cuda_toolkits(), "12.8", replace(toolkit, compilers={platform.machine(): ours}))
    factory = Factory.at(tmp_path / "work")
    (factory.folder / "matrix.yaml").write_text(
        f"kernel: {{path: {ROOT}/examples/gallery/stable-abi/affine}}\n"
        "axes: {torch: [2.10], cuda: [12.8]}\ngpu-archs: [8.0, 9.0]\n"
    )
    answer = factory.run_in_process("build-matrix", WHEELSMITH_ARCHIVES=str(archive.parent))
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr
    (wheel,) = (factory.folder / "dist" / "wheels").iterdir()
    assert "-1+cu128.torchstable-" in wheel.name
    report = check_wheel(wheel)
    assert report.ok, report
    said = {finding.rule: finding.message for finding in report.findings}
    assert said["toolkit"] == "machine code by CUDA 12.8"


def ptxas_of(toolkit, folder):
    pin = toolkit.headers[0]
    assert pin.project == "nvidia-cuda-nvcc-cu12"
    wheel = PrefixFiles(name="test", scratch=folder, listen=ignore).wheel(pin)
    with zipfile.ZipFile(wheel) as opened:
        return opened.read("nvidia/cuda_nvcc/bin/ptxas")


def write_archive(path, ptxas):
    """Write the compilers of CUDA 12.4 in the layout of NVIDIA's archives, with another ptxas."""
    machine = platform.machine()
    home = Toolchains(default_cache(), ignore).prepare(cuda_prefix(cuda_toolkits()["12.4"], machine, machine))
    top = path.name.removesuffix(".tar.xz")
    with tarfile.open(path, "w:xz", preset=0) as archive:
        for file in sorted(file for folder in ("bin", "nvvm") for file in (home / folder).rglob("*") if file.is_file()):
            name = file.relative_to(home)
            content = ptxas if name.name == "ptxas" else file.read_bytes()
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode = len(content), file.stat().st_mode & 0o777
            archive.addfile(member, io.BytesIO(content))
