"""A section that depends on CUTLASS is compiled with exactly the version that it names."""

from __future__ import annotations

import pytest
from factory import Factory
from kernels import TVM_CUDA, TVM_TOML, tvm_kernel

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
