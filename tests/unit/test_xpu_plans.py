"""Intel GPUs: kernels without compiled code have wheels for them, and the others a reason."""

from dataclasses import replace

import pytest

from wheelsmith.base.errors import MatrixMistakesError
from wheelsmith.frameworks import framework
from wheelsmith.index.resolve.incompatibility import torch_build
from wheelsmith.index.resolve.target import Target
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.model import BuildHost, Cell, SourceId
from wheelsmith.plan.kernel import plan_kernel
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.platforms import compute_name, platform_of, platforms

CELL = Cell(release="2.12", platform="xpu", toolkit="2025.3", arch="x86_64")
HEAD = '[general]\nname = "twice"\nversion = 1\nedition = 5\nlicense = "MIT"\nbackends = ["cuda", "xpu"]\n'
NOARCH = HEAD + "[torch-noarch]\n"
COMPILED = HEAD + (
    '[torch]\nsrc = ["torch-ext/b.cpp"]\n[kernel.x]\nbackend = "xpu"\ndepends = ["torch"]\nsrc = ["x.cpp"]\n'
    'sycl-flags = ["-fsycl-targets=spir64"]\n'
)
SOURCE = KernelSource(
    id=SourceId(origin="path", revision=None, commit=None, tree="f" * 16),
    paths=("x.cpp", "torch-ext/b.cpp", "torch-ext/twice/__init__.py"),
    readme=None,
    code="0123456789abcdef",
)
HOST = BuildHost(image=None, machine="x86_64", python="3.11", toolsets=(), pythons={}, toolkits={})


def plan(text, cell=CELL):
    return plan_kernel(
        cell, spec=parse_build_toml(text), source=SOURCE, distribution=None, version=None, build_host=HOST
    )


def test_names():
    assert (CELL.compute, CELL.id) == ("xpu2025.3", "torch212-cxx11-xpu20253-x86_64-linux")
    assert platform_of("xpu2025.3") == (platforms()["xpu"], "2025.3")
    assert (platform_of("xpu"), compute_name("xpu2025.3")) == (None, "XPU 2025.3")


def test_a_kernel_without_compiled_code_has_a_wheel():
    made = plan(NOARCH)
    assert made.wheel.platform == "any"
    cuda = plan(NOARCH, Cell(release="2.12", toolkit="13.0", arch="x86_64"))
    assert cuda.build_digest == made.build_digest


def test_a_kernel_with_compiled_code_has_a_reason():
    assert plan(COMPILED).reason == (
        "wheelsmith does not call XPU's compiler: only kernels without compiled code have wheels for XPU; "
        "kernel-builder compiles the others"
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"toolkit": "2026.0"}, "torch 2.12 was built with XPU 2025.3; a kernel needs the same release"),
        (
            {"release": "2.15"},
            "wheelsmith does not know which XPU torch 2.15 was built with; it knows XPU for torch 2.10 to 2.13",
        ),
        ({"arch": "aarch64"}, "torch's builds for XPU are for x86_64, not for aarch64"),
    ],
)
def test_torch_is_built_for_one_release(changes, why):
    assert framework("torch").why_incompatible(replace(CELL, **changes), any_minor=False) == why


def test_other_frameworks_have_a_reason():
    cell = Cell(framework="tvm-ffi", release="0.1", platform="xpu", toolkit="2025.3", arch="x86_64", cxx11_abi=None)
    why = framework("tvm-ffi").why_impossible(cell, any_minor=False)
    assert why == "wheelsmith builds nothing for tvm-ffi with XPU 2025.3"


def test_torch_has_one_build_of_each_release():
    assert torch_build(Target(release="2.12", compute="xpu2025.3", arch="x86_64", python="3.12")) == "xpu"


def test_the_axis():
    text = "kernel: {path: .}\naxes: {torch: ['2.12'], xpu: ['2025.3', 'cpu'], arch: [x86_64]}\n"
    assert parse_matrix(text).computes == ("xpu2025.3", "cpu")
    with pytest.raises(MatrixMistakesError) as caught:
        parse_matrix(text.replace("2025.3", "2025"))
    assert "2025" in str(caught.value.mistakes[0])
