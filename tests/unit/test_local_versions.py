"""What local versions say, as projects spell them."""

from __future__ import annotations

import pytest

from wheelsmith.wheel.local_version import cuda_major, cuda_release, read_local_version


@pytest.mark.parametrize(
    ("local", "compute", "torch"),
    [
        (None, None, None),
        ("cpu", "cpu", None),
        ("cpu.torch2.11", "cpu", "2.11"),
        ("cu130.torch2.11", "cu130", "2.11"),
        ("torch2.11", None, "2.11"),
        ("torchstable", None, None),
        ("cpu.torch2.110", "cpu", "2.110"),
        ("cu12torch2.11cxx11abitrue", "cu12", "2.11"),
        ("cu126torch2.11", "cu126", "2.11"),
        ("cu118torch20", "cu118", "2.0"),
        ("pt2.11cu126", "cu126", "2.11"),
        ("pt211cu126", "cu126", "2.11"),
        ("pt2.11.0cu126", "cu126", "2.11"),
        ("cu126.pt2.11", "cu126", "2.11"),
        ("torch2.11.cu126", "cu126", "2.11"),
        ("pytorch2.11.cuda12.6", "cu126", "2.11"),
        ("cuda12", "cu12", None),
        ("cu1262", "cu126", None),
        ("cu92", None, None),
        ("cu12.cu126", "cu126", None),
        ("torch2.11.cpu", "cpu", "2.11"),
        ("pt2.11cpu", "cpu", "2.11"),
        ("cpu.avx512.torch2.11", "cpu", "2.11"),
        ("cpucxx11abi", "cpu", None),
        ("cpu2", "cpu", None),
        ("g0a1b2c3", None, None),
        ("gcu3a", None, None),
        ("rocm6.2", None, None),
        ("20240101", None, None),
        ("torch20240101", None, None),
    ],
)
def test_what_is_named_is_read(local, compute, torch):
    read = read_local_version(local)
    assert (read.compute, read.torch, read.wrong) == (compute, torch, ())


@pytest.mark.parametrize(
    ("local", "said"),
    [
        ("cu999", "cu999"),
        ("cu999.torch2.11", "cu999"),
        ("cu12345678", "cu12345678"),
        ("cuda99.1", "cuda99.1"),
        ("cu119", "cu119"),
        ("cu126.cu130", "cu126 and cu130"),
        ("cpu.cu130", "cpu and cu130"),
        ("torch2.6.torch2.11", "torch 2.6 and 2.11"),
    ],
)
def test_what_is_not_there_is_told(local, said):
    read = read_local_version(local)
    assert len(read.wrong) == 1
    assert said in read.wrong[0]


def test_a_major_alone_has_no_release():
    assert (cuda_major("cu13"), cuda_release("cu13")) == (13, None)
    assert (cuda_major("cu126"), cuda_release("cu126")) == (12, "12.6")
