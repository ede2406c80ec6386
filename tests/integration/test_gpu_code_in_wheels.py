"""GPU code in whole wheels, right and wrong, as a check tells of it."""

import re
import tempfile

import pytest
from forge_gpu import CUBIN, PTX, code, cubin, entry, fatbin, ptx
from wheels import make_wheel

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.inspection import Inspection

GOOD = code("90a")


def findings(folder, version, **files):
    wheel = make_wheel(folder, "k", version, files={name.replace("_", "."): data for name, data in files.items()})
    return {finding.rule: finding for finding in check_wheel(wheel).findings}


@pytest.mark.parametrize("data", [cubin("90"), code("90"), ptx("90")])
@pytest.mark.parametrize("name", ["k_bin", "k_cubin", "k_txt"])
def test_a_cpu_wheel_has_no_gpu_code_in_any_file(tmp_path, name, data):
    found = findings(tmp_path, "1+cpu", **{name: data})
    assert not found["compute-platform"].ok
    assert "contains GPU code: 9.0" in found["compute-platform"].message
    assert found["machine-code"].ok


def test_a_data_file_with_gpu_code_is_no_extension(tmp_path):
    found = findings(tmp_path, "1+cu130", k_fatbin=GOOD, k_cubin=cubin("80"))
    assert found["compute-platform"].ok
    assert found["compute-platform"].message == "GPU code for 8.0, 9.0a"
    assert found["toolkit"].message == "machine code by CUDA 13.0"
    assert found["machine-code"].ok


def test_the_toolkit_of_a_data_file_is_the_versions(tmp_path):
    found = findings(tmp_path, "1+cu130", k_fatbin=code("90", toolkit="12.8"))
    assert found["toolkit"].message == "the version is for CUDA 13.0, but CUDA 12.8 made GPU code of k.fatbin"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "k_bin",
            fatbin(entry(CUBIN, "90", cubin("80"))),
            "k.bin, at byte 0x0: .* labelled 9.0, .* itself is for 8.0",
        ),
        ("k_bin", fatbin(entry(PTX, "90", b"noise" * 9)), "k.bin, at byte 0x0: .* it is not PTX"),
        ("k_cubin", cubin("90")[:-8], "k.cubin, at byte 0x0: a cubin: it is truncated"),
        ("k_cubin", b"noise" * 99, "k.cubin contains no readable GPU code"),
        ("k_ptx", b"noise" * 99, "k.ptx contains no readable GPU code"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, data, message):
    found = findings(tmp_path, "1", **{name: data})
    assert not found["machine-code"].ok
    assert re.search(message, found["machine-code"].message)


def test_gpu_code_that_is_data_is_not_kept(tmp_path, monkeypatch):
    files = {f"k/{number}.cubin": cubin("80") for number in range(9)} | {"k/large": bytes(9 << 20) + cubin("90")}
    wheel = make_wheel(tmp_path, "k", "1", files=files)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with Inspection(wheel) as inspection:
        found = inspection.gpu_code
        assert not list(scratch.iterdir())
    assert {name: code.machine_code for name, code in found.items()} == {
        name: {"9.0" if name == "k/large" else "8.0"} for name in files
    }


def test_no_room_to_unpack_is_said(tmp_path, monkeypatch):
    wheel = make_wheel(tmp_path, "k", "1", files={"k/large": bytes(9 << 20) + cubin("90")})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with Inspection(wheel) as inspection, pytest.raises(WheelError, match=r"k/large cannot be unpacked: No such file"):
        _ = inspection.gpu_code
