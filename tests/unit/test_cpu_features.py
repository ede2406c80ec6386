"""What a wheel's code for CPUs needs of a machine: read from compiler flags, listed by the index, and told by pick."""

from dataclasses import replace

import pytest
from machines import machine
from shop import HERE
from wheels import make_wheel, offer

from wheelsmith.index.entries.catalogue import Catalogue
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.pick.decide import Overrides, decide
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.model import Cell, WheelSpec
from wheelsmith.platforms import cpu_features, features_of_flags, machine_features

AVX512 = ("avx512f", "f16c")


@pytest.mark.parametrize(
    ("flags", "features"),
    [
        (("g++", "-O3", "-c", "a.cpp"), ()),
        (("-mavx2", "-mfma"), ("avx2", "fma")),
        (("-mf16c", "-mavx512f", "-mavx512bf16", "-mamx-tile"), ("amx_tile", "avx512_bf16", "avx512f", "f16c")),
        (("-march=armv8.2-a+sve+bf16",), ("bf16", "sve")),
        (("-march=x86-64-v3",), ("avx", "avx2", "bmi2", "f16c", "fma")),
        (("-march=native", "-mcpu=neoverse-v1", "-mno-avx2"), ()),
    ],
)
def test_flags(flags, features):
    assert features_of_flags(flags) == features


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("processor : 0\nflags\t\t: fpu sse2 avx2 f16c avx512f\nflags : none\n", ("avx2", "avx512f", "f16c")),
        ("Features\t: fp asimd sve bf16\n", ("bf16", "sve")),
        ("processor : 0\n", None),
    ],
)
def test_the_cpu_of_a_machine(tmp_path, monkeypatch, text, features):
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(cpu_features, "_CPUINFO", tmp_path / "cpuinfo")
    assert machine_features() == features


def test_a_plan_without_them_is_recorded_as_before():
    spec = WheelSpec(
        distribution="a", version="1", python_tag="py3", abi_tag="none", platform="any", metadata="", module="a",
        gpu_archs=(), release=None, toolkit=None, arch="any", stable_abi=None,
    )  # fmt: skip
    assert "cpu_features" not in spec.to_json()
    assert WheelSpec.from_json(spec.to_json()) == spec
    assert replace(spec, cpu_features=AVX512).to_json()["cpu_features"] == list(AVX512)


def chosen(tmp_path, **changes):
    cell = Cell(release="2.13", toolkit=None, arch="x86_64")
    wheel = make_wheel(tmp_path, "fast", "1+cpu.torch2.13", requires=("torch==2.13.*",), tag=HERE)
    entry = replace(offer(wheel, cell).entry, cpu_features=AVX512, upload_time="2026-01-02T03:04:05Z")
    assert IndexEntry.from_json(entry.to_json()) == entry
    catalogue = Catalogue(project="fast", wheels=(entry,), unserved=())
    return decide(Chooser(catalogue), replace(machine(), **changes), Overrides(compute="cpu"))


def test_pick_tells_what_the_cpu_lacks(tmp_path):
    note = "some of its code needs a CPU with avx512f, which this one lacks: the kernel must not call it here"
    assert note in chosen(tmp_path, cpu_features=("avx2", "f16c")).notes
    assert not any("CPU with" in each for each in chosen(tmp_path, cpu_features=AVX512).notes)
    assert not any("CPU with" in each for each in chosen(tmp_path, cpu_features=None).notes)
