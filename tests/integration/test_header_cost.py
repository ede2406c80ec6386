"""What torch's largest headers cost in .cu files is told by init and plan."""

import pytest
from factory import Factory
from kernels import cuda_kernel

ALL = "#include <torch/all.h>\n"
MATRIX = "kernel: {path: k}\ngpu-archs: [8.0, 9.0]\naxes: {torch: [2.13, 2.14], cuda: [13.0]}\n"


def told(factory, *argv):
    answer = factory.run_in_process(*argv)
    assert answer.returncode == 0, answer.stderr
    return [line.removeprefix("info: ") for line in answer.stderr.splitlines() if "costs about" in line]


@pytest.fixture
def factory(tmp_path):
    made = Factory.at(tmp_path)
    cuda_kernel(tmp_path / "k")
    return made


def write(factory, name, text):
    path = factory.folder / "k" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + (path.read_text() if path.exists() else ""))


def test_it_is_told_with_its_figure(factory):
    write(factory, "add.cu", ALL)
    (line,) = told(factory, "init", "k")
    # By default, for each capability of the toolkit.
    assert line.startswith(
        "add.cu includes torch/all.h, which costs about 20 seconds and 20 more for each capability: "
    )
    (factory.folder / "matrix.yaml").write_text(MATRIX)
    (line,) = told(factory, "plan")
    assert "capability: 2m of CPU time in 2 builds, with 2.6 GB of memory for each file; " in line
    assert line.endswith("include torch/types.h instead, or for a kernel set torch-headers: light, which halves it")
    (factory.folder / "matrix.yaml").write_text(f"{MATRIX}torch-headers: light\n")
    assert told(factory, "plan") == []


def test_also_by_a_header_of_its_own(factory):
    toml = (factory.folder / "k/build.toml").read_text()
    (factory.folder / "k/build.toml").write_text(toml.replace('"scale.cu"', '"scale.cu", "include/a.h", "include/b.h"'))
    write(factory, "include/a.h", '#pragma once\n#include "b.h"\n')
    write(factory, "include/b.h", '#pragma once\n#include "a.h"\n#  include "torch/extension.h"\n')
    for name in ("add.cu", "scale.cu"):
        write(factory, name, '#include "include/a.h"\n')
    (factory.folder / "matrix.yaml").write_text(MATRIX)
    (line,) = told(factory, "plan")
    assert line.startswith("add.cu and 1 other .cu file include torch/extension.h, which costs")
    assert ": 4m of CPU time in 2 builds, " in line


@pytest.mark.parametrize("text", ["#include <torch/types.h>\n", f"// {ALL}", "#include <torch/all.hpp>\n"])
def test_not_for_other_headers(text, factory):
    write(factory, "add.cu", text)
    write(factory, "torch-ext/binding.cpp", ALL)  # costs half a minute once, for a CPU
    (factory.folder / "matrix.yaml").write_text(MATRIX)
    assert told(factory, "plan") == []
