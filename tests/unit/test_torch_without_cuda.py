"""A cell for the CPU sees nothing of CUDA in torch's CUDA build: made of it is what the CPU build of that torch has."""

import os
import subprocess
import sys

import pytest

from wheelsmith.base.beneath import make_read_only
from wheelsmith.base.errors import ToolchainError
from wheelsmith.frameworks.torch_without_cuda import CPU_EDITS
from wheelsmith.toolchain.environment import make_cpu_environment

VERSION = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.13.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = None
"""
PACKAGE = """\
import torch
from . import version

class _C:
    _has_cuda = True
    _cuda_getDeviceCount = None
    other = 1
"""
# Of torch 2.13.0+cu130, shortened; torch 2.11 has ON where this has 1.
TARGETS = """\
foreach(_cmake_expected_target IN ITEMS {c10_cuda }c10 {torch_nvshmem }torch_cpu {torch_cuda_library }torch)
endforeach()

{# Create imported target c10_cuda
add_library(c10_cuda SHARED IMPORTED)

set_target_properties(c10_cuda PROPERTIES
  INTERFACE_LINK_LIBRARIES "c10;torch::cudart"
)

}# Create imported target c10
add_library(c10 SHARED IMPORTED)

{# Create imported target torch_cuda_library
add_library(torch_cuda_library INTERFACE IMPORTED)

}# Create imported target torch
add_library(torch SHARED IMPORTED)

set_target_properties(torch PROPERTIES
  INTERFACE_LINK_LIBRARIES "torch_cpu_library{;torch_cuda_library}"
)

# Load information for each installed configuration.
"""
RELEASE = """\
# Commands may need to know the format version.
set(CMAKE_IMPORT_FILE_VERSION 1)

{# Import target "torch_cuda" for configuration "Release"
set_property(TARGET torch_cuda APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)

}# Import target "torch" for configuration "Release"
set_property(TARGET torch APPEND PROPERTY IMPORTED_CONFIGURATIONS RELEASE)

# Commands beyond this point should not need to know the version.
"""


def both(text):
    """Return what the CUDA build has, and the CPU build: all less what stands in braces."""
    whole, left, depth = [], [], 0
    for character in text:
        if character in "{}":
            depth += 1 if character == "{" else -1
            continue
        whole.append(character)
        left += [] if depth else [character]
    return "".join(whole), "".join(left)


def test_its_targets_are_those_of_the_cpu_build():
    whole, left = both(TARGETS)
    assert CPU_EDITS["torch/share/cmake/Caffe2/Caffe2Targets.cmake"](whole) == left


@pytest.fixture
def whole(tmp_path):
    folder = tmp_path / "whole"
    for name, text in {
        "torch/version.py": VERSION,
        "torch/__init__.py": PACKAGE,
        "torch/lib/libtorch_cpu.so": "library",
        "torch/include/ATen/cuda/CUDAConfig.h": "#define AT_CUDNN_ENABLED() 1",
        "torch/include/ATen/ATen.h": "",
        "nvidia/cu13/lib/libcudart.so.13": "runtime",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    make_read_only(folder)
    return folder


def test_an_environment_without_cuda_is_made_from_one_with_it(whole, tmp_path):
    (tmp_path / "made").mkdir()
    make_cpu_environment(whole, tmp_path / "made")
    ask = "import torch; print(torch.__file__, torch.version.__version__, torch.version.cuda, vars(torch._C).keys())"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'made')!r}); {ask}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{tmp_path}/made/torch/__init__.py 2.13.0+cpu None")
    assert "_cuda_getDeviceCount" not in said
    assert "other" in said
    assert sorted(path.name for path in (tmp_path / "made/torch/include/ATen").rglob("*")) == ["ATen.h", "cuda"]
    library = "torch/lib/libtorch_cpu.so"
    assert (tmp_path / "made" / library).samefile(whole / library)
    assert (whole / "torch/version.py").read_text() == VERSION
    assert not os.access(tmp_path / "made/torch/lib", os.W_OK) or os.geteuid() == 0


@pytest.mark.parametrize("text", [None, "__version__ = '9.9'\n", "import cuda\n"])
def test_a_torch_that_is_another_is_refused(text, whole, tmp_path):
    other = tmp_path / "other"
    (other / "torch").mkdir(parents=True)
    if text is not None:
        (other / "torch/version.py").write_text(text)
    (tmp_path / "made").mkdir()
    with pytest.raises(ToolchainError, match="CUDA build of torch that wheelsmith cannot convert") as caught:
        make_cpu_environment(other, tmp_path / "made")
    assert "an index with CPU builds of torch" in caught.value.remedy
