"""The toolkit of a project: its compilers, what torch's packages have, and the driver's names."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from wheelsmith.base.errors import ToolchainError
from wheelsmith.model import LockedWheel
from wheelsmith.platforms import cuda_prefix, cuda_toolkits
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.project_toolkit import assemble_toolkit, link_stub
from wheelsmith.wheel.elf import read_extension

RUNTIME = LockedWheel(name="nvidia-cuda-runtime", version="13.0.1", sha256="r")
BLAS = LockedWheel(name="nvidia-cublas", version="13.1", sha256="b")


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def laid_out(tmp_path):
    toolkit = write(
        tmp_path / "toolkit",
        {
            "bin/nvcc": "#!",
            "include/cuda.h": "CUresult cuInit(unsigned int);\n#define cuMemAlloc cuMemAlloc_v2\n",
            "include/cuda_runtime.h": "the toolkit's",
            "include/cublas_v2.h": "of another release",
            "lib/libcudart.so.13": "the toolkit's",
        },
    )
    (toolkit / "bin" / "nvcc").chmod(0o555)
    (toolkit / "include").chmod(0o555)
    (toolkit / "lib64").symlink_to("lib")
    environment = write(
        tmp_path / "environment",
        {
            "nvidia/cu13/include/cuda_runtime.h": "torch's",
            "nvidia/cu13/include/cublas_v2.h": "torch's",
            "nvidia/cu13/include/deep/er.h": "torch's",
            "nvidia/cu13/lib/libcudart.so.13": "torch's",
            "nvidia/cu13/lib/libcublas.so.13": "torch's",
            "nvidia/cu13/lib/liba.py": "no library",
            "nvidia/cudnn/include/cudnn.h": "torch's",
            "nvidia/cudnn/include/cublas_v2.h": "a copy",
            "nvidia/cudnn/lib/libcudnn.so.9": "torch's",
            "nvidia_cuda_runtime-13.0.1.dist-info/RECORD": (
                "nvidia/cu13/include/cuda_runtime.h,,\nnvidia/cu13/lib/libcudart.so.13,,\n"
            ),
        },
    )
    more = write(tmp_path / "more", {"include/nvml.h": "nvmlReturn_t nvmlInit_v2(void);"})
    (tmp_path / "made").mkdir()
    assemble_toolkit(tmp_path / "made", toolkit, [more], environment, [RUNTIME], "x86_64")
    return tmp_path / "made"


def test_what_the_toolkit_has_stays_and_the_rest_is_torchs(laid_out):
    home = laid_out / "cuda"
    assert os.access(home / "bin" / "nvcc", os.X_OK)
    texts = {path.relative_to(home / "include").as_posix(): path for path in (home / "include").rglob("*.h")}
    assert {name for name, path in texts.items() if path.read_text() == "torch's"} == {
        *("cublas_v2.h", "cudnn.h", "deep/er.h"),
    }
    assert texts["cuda_runtime.h"].read_text() == "the toolkit's"
    for library in ("lib64", "targets/x86_64-linux/lib"):
        assert (home / library / "libcudart.so.13").read_text() == "the toolkit's"
    assert (home / "targets" / "x86_64-linux" / "include" / "cudnn.h").read_text() == "torch's"


def test_libraries_have_names_to_link_with_and_stay_in_the_environment(laid_out):
    """The same links lead there inside a sandbox, where the environment lies beside the toolkit, too."""
    library = laid_out / "cuda" / "lib"
    assert (library / "libcublas.so").read_text() == "torch's"
    assert (library / "libcublas.so").readlink() == Path("libcublas.so.13")
    assert (library / "libcublas.so.13").readlink() == Path("../../environment/nvidia/cu13/lib/libcublas.so.13")
    assert (library / "libcudnn.so").read_text() == "torch's"
    assert not (library / "liba.py").exists()


def test_of_the_driver_there_are_the_names(laid_out):
    stubs = laid_out / "cuda" / "lib" / "stubs"
    assert sorted(path.name for path in stubs.iterdir()) == ["libcuda.so", "libnvidia-ml.so"]
    read = read_extension("libcuda.so", io.BytesIO((stubs / "libcuda.so").read_bytes()))
    assert (read.soname, read.arch, read.needed) == ("libcuda.so.1", "x86_64", ())
    assert read.exported == {"cuInit", "cuMemAlloc", "cuMemAlloc_v2"}


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
@pytest.mark.parametrize("symbols", [(), ("one",), ("a", "b" * 100, "a")])
def test_a_stub_is_a_library(arch, symbols):
    read = read_extension("x", io.BytesIO(link_stub("libx.so.1", symbols, arch)))
    assert (read.kind, read.arch, read.soname) == ("library", arch, "libx.so.1")
    assert read.exported == set(symbols)


def test_an_environment_without_records_is_said(laid_out, tmp_path):
    (tmp_path / "again").mkdir()
    lost = replace(RUNTIME, version="0")
    with pytest.raises(ToolchainError, match="the RECORD of nvidia-cuda-runtime cannot be read"):
        assemble_toolkit(tmp_path / "again", tmp_path / "toolkit", [], tmp_path / "environment", [lost], "x86_64")


def test_it_is_made_once_for_one_environment(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("wheelsmith.toolchain.prefixes.assemble_toolkit", lambda *given: made.append(given))
    monkeypatch.setattr("wheelsmith.toolchain.prefixes.Toolchains.prepare", lambda _, prefix: tmp_path / prefix.kind)
    monkeypatch.setattr("wheelsmith.toolchain.prefixes.Toolchains._unpack", lambda *_: [])
    prefix = cuda_prefix(cuda_toolkits()["13.0"], "x86_64", "x86_64")

    def home(*wheels):
        return Toolchains(tmp_path, print).complete_toolkit(prefix, (), wheels, "3.11")

    first = home(BLAS, RUNTIME)
    assert first.name == "cuda"
    assert home(BLAS, RUNTIME) == first
    assert [given[4] for given in made] == [[RUNTIME]]
    assert home(RUNTIME) != first
