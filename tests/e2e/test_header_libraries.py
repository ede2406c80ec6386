"""A section that depends on CUTLASS is compiled with exactly the version that it names, and Python.h is found."""

from __future__ import annotations

import pytest
from factory import Factory
from kernels import DEVICE, TVM_CUDA, TVM_TOML, cuda_kernel, matrix, tiny_kernel, tvm_kernel
from wants import absent

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import default_cache
from wheelsmith.model import ignore
from wheelsmith.platforms import python_headers
from wheelsmith.toolchain import Toolchains

pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.release("another download, and nvcc")]
SEES = """\
#include <cutlass/version.h>
#include <cute/config.hpp>
static_assert(CUTLASS_MAJOR == 3 && CUTLASS_MINOR == {});
"""


@pytest.mark.parametrize("minor", [5, 6, 8])
def test_the_version_that_is_named(tmp_path, minor):
    toml = TVM_TOML.replace('backend = "cuda"\ndepends = []', f'backend = "cuda"\ndepends = ["cutlass_3_{minor}"]')
    kernel = tvm_kernel(tmp_path / "k", **{"build.toml": toml, "twice.cu": SEES.format(minor) + TVM_CUDA})
    (tmp_path / "matrix.yaml").write_text(
        f"kernel: {{path: {kernel}}}\naxes: {{tvm-ffi: [0.1], cuda: [13.0]}}\n"
        "gpu-archs: [9.0]\nengine: {name: bwrap}\n"
    )
    answer = Factory.at(tmp_path).run("build-matrix", "--progress", "plain")
    assert answer.returncode == 0, answer.stderr
    assert len(list((tmp_path / "dist/wheels").glob("*.whl"))) == 1


# As kernels have it that do not take kernel-builder's registration.h.
REGISTERS = """\
#include <Python.h>
#define INIT_(NAME) PyInit_##NAME
#define INIT(NAME) INIT_(NAME)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() {
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "own", nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&module);
}
"""
IN_NVCC = "#include <Python.h>\nPyObject *empty() { return PyList_New(0); }\n"


@pytest.fixture
def at_hand():
    try:
        Toolchains(default_cache(), ignore).prepare(python_headers().prefix)
    except ToolchainError as error:
        absent(str(error))


@pytest.mark.parametrize(
    ("kernel", "cuda", "changes"),
    [
        (tiny_kernel, "cpu", {"torch-ext/binding.cpp": REGISTERS}),
        (cuda_kernel, "13.0", {"add.cu": IN_NVCC + DEVICE.format(name="add", expression="x[i]")}),
    ],
    ids=["g++", "nvcc"],
)
def test_a_kernel_with_python_h_gets_a_wheel_for_every_python(tmp_path, at_hand, kernel, cuda, changes):
    kernel(tmp_path / "k", **changes)
    matrix(tmp_path, "k", cuda=cuda, more="gpu-archs: [9.0]\nengine: {name: bwrap}\n")
    answer = Factory.at(tmp_path).run("build-matrix", "--progress", "plain")
    assert answer.returncode == 0, answer.stderr
    (wheel,) = (tmp_path / "dist/wheels").glob("*.whl")
    assert "-cp39-abi3-" in wheel.name
