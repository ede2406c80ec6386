"""What local versions say, as projects spell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from wheelsmith.frameworks.local_version import local_version_of, read_local_version
from wheelsmith.model import Cell


@pytest.mark.parametrize(
    ("local", "compute", "torch"),
    [
        (None, None, None),
        ("cpu.torch2.11", "cpu", "2.11"),
        ("cu130.torch2.11", "cu130", "2.11"),
        ("cu130.torchstable", "cu130", None),
        ("cu12torch2.11cxx11abitrue", "cu12", "2.11"),
        ("cu118torch20", "cu118", "2.0"),
        ("pt2.11cu126", "cu126", "2.11"),
        ("pytorch2.11.cuda12.6", "cu126", "2.11"),
        ("cu1262", "cu126", None),
        ("cu12.cu126", "cu126", None),
        ("g0a1b2c3", None, None),
    ],
)
def test_what_is_named_is_read(local, compute, torch):
    read = read_local_version(local)
    assert (read.compute, read.torch, read.wrong) == (compute, torch, ())


@pytest.mark.parametrize(
    ("local", "said"),
    [
        ("cu999", "cu999"),
        ("cu126.cu130", "cu126 and cu130"),
        ("torch2.6.torch2.11", "torch 2.6 and 2.11"),
        ("cpu.tvmffi0.1.torch2.11", "torch and tvm-ffi"),
        ("cu130.torchstable.torch2.11", "torchstable and torch 2.11"),
        ("cpu.jaxstable.jax0.10", "jaxstable and jax 0.10"),
        ("cpu.jaxstable.torchstable", "torch and jax"),
        ("cpu.jaxstable.torch2.11", "torch and jax"),
    ],
)
def test_what_is_not_there_is_told(local, said):
    read = read_local_version(local)
    assert len(read.wrong) == 1
    assert said in read.wrong[0]


cells = st.builds(
    Cell,
    release=st.from_regex(r"\A2\.[1-9][0-9]?\Z"),
    toolkit=st.none() | st.sampled_from(["12.6", "12.9", "13.0", "13.2"]),
    arch=st.sampled_from(["x86_64", "aarch64"]),
)


@given(cells, st.booleans())
def test_what_is_written_is_read(cell, stable):
    read = read_local_version(local_version_of(cell, stable_abi=stable))
    assert (read.compute, read.torch, read.stable) == (cell.compute, None if stable else cell.release, stable)
    assert read.own
    assert not read.wrong


@given(st.lists(cells, min_size=1))
def test_the_stable_abi_sorts_above_every_torch(many):
    for cell in many:
        stable = Version(f"1+{local_version_of(cell, stable_abi=True)}")
        assert stable > Version(f"1+{local_version_of(cell, stable_abi=False)}") > Version(f"1+{cell.compute}")
        assert str(stable) == f"1+{cell.compute}.torchstable"
        # A newer version of the kernel sorts above, whatever it is for.
        assert Version("1.0.1+cpu.torch2.6") > stable


@pytest.mark.parametrize(
    ("local", "own"),
    [
        ("cpu", True),
        ("cu130.torchstable", True),
        (None, False),
        ("torchstable", False),
        ("cu13.torch2.11", False),
        ("cu130.torch2.11.torchstable", False),
    ],
)
def test_one_spelling_is_ours(local, own):
    assert read_local_version(local).own is own
