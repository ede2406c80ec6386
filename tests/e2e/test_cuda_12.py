"""CUDA 12 without an image: nvcc out of a distribution's package makes wheels, which serve the newer minors, too."""

import pytest
from factory import gallery

from wheelsmith.wheel.check import check_wheel

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("another toolkit of 92 MB"),
    pytest.mark.xdist_group("cuda 12"),
]


@pytest.fixture(scope="module")
def factory(tmp_path_factory):
    factory = gallery(tmp_path_factory.mktemp("cuda12"), "cuda-12")
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr
    return factory


def test_one_wheel_serves_cells_whose_own_toolkit_needs_an_image(factory):
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
