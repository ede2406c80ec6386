"""Turn an installed CUDA build of torch into an equivalent of its CPU build, by editing a few text files.

PyPI's torch for x86_64 is a CUDA build. The CPU build is on torch's own index, which some machines cannot reach. Both
are built from the same commit: libtorch_cpu and the headers that a CPU extension includes have the same interface.

The files below differ between torch 2.13.0+cpu and 2.13.0+cu130. Other differences are kept: libraries (libtorch_python
needs libtorch_cuda, which needs all of NVIDIA's libraries), tests, headers of tensorpipe and THC, and the record of
torch's compiler flags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

# Headers that a CPU build does not have. They are removed, so that sources that include them fail to compile.
CUDA_HEADERS = ("torch/include/ATen/cuda/CUDAConfig.h", "torch/include/c10/cuda/impl/cuda_cmake_macros.h")

_CUDA_TARGET = r"\w*(?:cuda|nvshmem)\w*"
_BEGIN = rf"^# (?:Create imported|Import) target \"?{_CUDA_TARGET}\"?[ \n]"
_TARGET_BLOCK = re.compile(rf"{_BEGIN}(?s:.*?)(?=^# )", re.MULTILINE)
_EXPECTED = re.compile(r"^foreach\(_\w*expected_?[tT]arget (?:IN ITEMS )?[^)]*\)", re.MULTILINE)
_LINKED = re.compile(rf";{_CUDA_TARGET}(?=[;\"])")
_ON = r"(?:ON|1|TRUE)"
_USES_CUDA = re.compile(rf"if\({_ON}\)((?:\s*#[^\n]*)*\s*set\(CAFFE2_USE_CUDA ){_ON}\)")
_USES_NVRTC = re.compile(rf"if\({_ON}\)(\s*if\(MSVC\)\s*find_library\(CAFFE2_NVRTC_LIBRARY)")
# torch's own Python code checks these two attributes. The extension module has them regardless of version.py.
_DISABLE_CUDA = """

# Added by wheelsmith: this torch is for a CPU cell, and users of its wheel have a torch without CUDA.
torch._C._has_cuda = False
del torch._C._cuda_getDeviceCount
"""


def _edit_version(text: str) -> str:
    text = re.sub(r"^(__version__ = '[^'+]*)[^']*'", r"\1+cpu'", text, flags=re.MULTILINE)
    return re.sub(r"^(cuda\b[^=\n]*)=.*$", r"\1= None", text, flags=re.MULTILINE)


def _edit_package(text: str) -> str:
    return text + _DISABLE_CUDA


def _edit_macros(text: str) -> str:
    return re.sub(r"^#define (CAFFE2_USE_CUDNN)$", r"/* #undef \1 */", text, flags=re.MULTILINE)


def _edit_config(text: str) -> str:
    return _USES_NVRTC.sub(r"if(OFF)\1", _USES_CUDA.sub(r"if(OFF)\1OFF)", text))


def _edit_targets(text: str) -> str:
    text = _EXPECTED.sub(lambda found: re.sub(rf" {_CUDA_TARGET}\b", "", found[0]), text)
    return _LINKED.sub("", _TARGET_BLOCK.sub("", text))


# Path below the folder that torch is installed in → the function that returns the text of a CPU build.
CPU_EDITS: Mapping[str, Callable[[str], str]] = {
    "torch/__init__.py": _edit_package,
    "torch/version.py": _edit_version,
    "torch/include/caffe2/core/macros.h": _edit_macros,
    "torch/share/cmake/Torch/TorchConfig.cmake": _edit_config,
    "torch/share/cmake/Caffe2/Caffe2Config.cmake": _edit_config,
    "torch/share/cmake/Caffe2/Caffe2Targets.cmake": _edit_targets,
    "torch/share/cmake/Caffe2/Caffe2Targets-release.cmake": _edit_targets,
}
