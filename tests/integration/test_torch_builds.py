"""Of every torch that is known, the CUDA build becomes what a cell for the CPU sees: read from the very wheels."""

import re
import zipfile

import pytest

from wheelsmith.frameworks import torch_releases
from wheelsmith.frameworks.torch_without_cuda import CPU_EDITS, CUDA_HEADERS
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip import pip_settings
from wheelsmith.toolchain.remote import fetch_part

pytestmark = [
    pytest.mark.network,
    pytest.mark.release("asks an index for a few files of twenty wheels, which change only with a new torch"),
]
CMAKE = "torch/share/cmake/Caffe2/Caffe2"
# Where torch's own code asks whether it was compiled with CUDA.
ASKED = {
    "torch/cuda/__init__.py": 'hasattr(torch._C, "_cuda_getDeviceCount")',
    "torch/backends/cuda/__init__.py": "torch._C._has_cuda",
}


@pytest.mark.parametrize(
    ("minor", "arch"), [(minor, arch) for minor, release in torch_releases().items() for arch in release.wheels]
)
def test_nothing_of_cuda_is_left_in_what_a_build_is_told(minor, arch, tmp_path):
    release, settings = torch_releases()[minor], pip_settings()
    pin = release.wheels[arch]
    with settings.client() as client:
        path = fetch_part(pin, locate(pin, settings), tmp_path, {*CPU_EDITS, *ASKED}.__contains__, client, print)
    with zipfile.ZipFile(path) as wheel:
        there = set(wheel.namelist())
        text = {name: wheel.read(name).decode() for name in (*CPU_EDITS, *ASKED) if name in there}
    assert CPU_EDITS.keys() - there <= {"torch/include/caffe2/core/macros.h"}  # there from 2.8 on
    assert all(words in text[name] for name, words in ASKED.items())
    made = {name: change(text[name]) for name, change in CPU_EDITS.items() if name in there}
    version = made["torch/version.py"]
    assert f"\n__version__ = '{release.version}+cpu'\n" in version
    assert re.search(r"^cuda: Optional\[str\] = None$", version, re.MULTILINE)
    assert not [name for name in made if name.startswith(f"{CMAKE}Targets") and re.search("cuda|nvshmem", made[name])]
    assert re.search(r"set\(CAFFE2_USE_CUDA (OFF|0)\)", made[f"{CMAKE}Config.cmake"])
    compiled_with_cuda = arch not in release.without_cuda
    for name in (f"{CMAKE}Config.cmake", "torch/share/cmake/Torch/TorchConfig.cmake"):
        assert (made[name] != text[name]) is compiled_with_cuda
    assert [header in there for header in CUDA_HEADERS] == [compiled_with_cuda] * 2
