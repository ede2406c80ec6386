"""On a system of 2021, whose glibc is 2.31 and which has no compiler: wheels are imported and called beside a torch."""

import os
import platform
import shutil
import subprocess
import zipfile

import pytest
import wants
from factory import example

from wheelsmith.base.files import default_cache
from wheelsmith.model import ignore
from wheelsmith.model.cell import PINNED
from wheelsmith.platforms import cxx_toolchain
from wheelsmith.toolchain import Toolchains

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("an old Debian and a whole torch with CUDA, 4 GB"),
    pytest.mark.xdist_group("old root"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="pins of compilers are for x86_64"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a root of another system is made by root"),
]
RELEASE = "bullseye"
PYTHON = "3.9"  # its own, whose newest torch is this
TORCH = "2.8"

# What crosses the border between an extension and torch, whose libstdc++ may be another: errors both ways, threads,
# thread-locals, streams, files, locales.
BORDER = """\
#include <torch/all.h>
#include <filesystem>
#include <iostream>
#include <locale>
#include <shared_mutex>
#include <sstream>
#include <thread>
static thread_local int calls = 0;
static std::shared_mutex mutex;
extern "C" int torch_throws() {
  try { at::empty({-1}); }
  catch (const c10::Error &error) { return std::string(error.what()).find("negative dimension") != std::string::npos; }
  return 0;
}
extern "C" int thrown_through_torch() {
  try { at::parallel_for(0, 1000, 1, [](int64_t, int64_t) { (void)std::filesystem::file_size("/there/is/none"); }); }
  catch (const std::filesystem::filesystem_error &error) { return error.code().value(); }
  return 0;
}
extern "C" int threads() {
  int sum = 0;
  std::vector<std::thread> all;
  for (int n = 0; n < 8; n++) all.emplace_back([&] {
    int ones = at::ones({3}).sum().item<int>();
    std::unique_lock held(mutex);
    sum += ++calls + ones;
  });
  for (auto &each : all) each.join();
  return sum;
}
extern "C" int locale() {
  std::ostringstream out;
  out.imbue(std::locale(""));
  out << 2.5;
  std::cout << "said " << out.str() << std::endl;
  return std::stod(out.str()) == 2.5;
}
"""
SCRIPT = """\
import ctypes, platform, sys
import torch
from img2gray import img2gray
assert platform.libc_ver() == ("glibc", "2.31"), platform.libc_ver()
assert torch.version.cuda is None
pixels = torch.randint(0, 255, (4, 5, 3), dtype=torch.uint8)
weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.double)
assert torch.equal(img2gray(pixels), (pixels.double() @ weights).round().to(torch.uint8))
border = ctypes.CDLL("/opt/here/border.so")
print(border.torch_throws(), border.thrown_through_torch(), border.threads(), border.locale())
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A bare Debian 11 with its Python."""
    wants.program("mmdebstrap")
    wants.program("bwrap")
    folder = tmp_path_factory.mktemp("old") / "root"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3", RELEASE, folder]
    subprocess.run(command, check=True, capture_output=True)
    assert not list(folder.glob("usr/bin/*g++*"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def torch():
    """A whole torch for that Python, as a cell for the CPU sees it."""
    toolchains = Toolchains(default_cache(), ignore)
    wheels = toolchains.lock((f"torch=={TORCH}.0",), PYTHON, "x86_64")
    assert not isinstance(wheels, str), wheels
    return toolchains.environment_without_cuda(wheels, PYTHON, "x86_64")


def test_wheels_are_called_beside_a_torch_and_errors_cross_the_border(root, torch, tmp_path):
    factory = example(tmp_path / "build")
    path = factory.folder / "matrix.yaml"
    path.write_text(f"kernel: {{path: examples/img2gray}}\naxes: {{torch: [{TORCH}], cuda: [cpu]}}\n")
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stderr
    (wheel,) = (factory.folder / "dist/wheels").iterdir()
    assert wheel.name.endswith("-cp39-abi3-manylinux_2_28_x86_64.whl")
    here = tmp_path / "here"
    zipfile.ZipFile(wheel).extractall(here)
    compilers = Toolchains(default_cache(), ignore).prepare(cxx_toolchain(PINNED, "2_28", "x86_64", "x86_64").prefix)
    (here / "border.cpp").write_text(BORDER)
    (here / "script.py").write_text(SCRIPT)
    include, libraries = torch / "torch/include", torch / "torch/lib"
    own = ["-std=c++20", "-O2", "-fPIC", "-shared", f"-I{include}", f"-I{include}/torch/csrc/api/include"]
    linked = [f"-L{libraries}", "-ltorch", "-ltorch_cpu", "-lc10"]
    command = [compilers / "bin/g++", *own, "border.cpp", "-o", "border.so", *linked]
    subprocess.run(command, cwd=here, env={}, check=True, capture_output=True)
    mounts = ["--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    mounts += ["--ro-bind", torch, "/opt/site", "--ro-bind", here, "/opt/here"]
    command = ["bwrap", *mounts, "--unshare-net", "--clearenv", "--setenv", "PYTHONPATH", "/opt/here:/opt/site"]
    answer = subprocess.run([*command, "/usr/bin/python3", "/opt/here/script.py"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "said 2.5\n1 2 32 1\n"
