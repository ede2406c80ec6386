"""A source may have a build.toml for each framework, in folders of its own."""

from __future__ import annotations

import pytest
from factory import Factory
from kernels import stable_kernel

MATRIX = "kernel: {{path: k{more}}}\naxes: {{torch: [2.13], cuda: [cpu]}}\ntoolchain: host\n"


@pytest.fixture
def factory(tmp_path):
    """A kernel whose build.toml is in a folder."""
    kernel = stable_kernel(tmp_path / "k")
    (kernel / "faces").mkdir()
    (kernel / "build.toml").rename(kernel / "faces/build.toml")
    return Factory.at(tmp_path)


def plan(factory, more):
    (factory.folder / "matrix.yaml").write_text(MATRIX.format(more=more))
    return factory.run_in_process("plan", "--engine", "local")


def test_the_matrix_names_it(factory):
    answer = plan(factory, ", build-toml: faces/build.toml")
    assert answer.returncode == 0, answer.stderr
    assert "affine 1+cpu.torchstable" in answer.stdout


@pytest.mark.parametrize(
    ("more", "mistake", "remedy"),
    [
        ("", "the kernel has no build.toml in its folder", "add build-toml: faces/build.toml under kernel"),
        (", build-toml: face/build.toml", "the kernel has no face/build.toml", "write its path in the kernel's folder"),
        (", build-toml: ../build.toml", "'../build.toml' is not a path below the top folder", ""),
    ],
)
def test_a_wrong_path_is_a_mistake_with_its_place(factory, more, mistake, remedy):
    answer = plan(factory, more)
    assert answer.returncode != 0
    assert "error: matrix.yaml:1:" in answer.stderr
    assert mistake in answer.stderr
    assert remedy in answer.stderr


def test_a_source_that_is_not_there_is_told_with_its_file_and_a_similar_one(factory):
    toml = factory.folder / "k/faces/build.toml"
    toml.write_text(toml.read_text().replace("torch-ext/binding.cpp", "torch-ext/bindng.cpp"))
    answer = plan(factory, ", build-toml: faces/build.toml")
    assert answer.returncode == 2
    assert "faces/build.toml: src contains torch-ext/bindng.cpp, which does not exist" in answer.stderr
    assert "did you mean 'torch-ext/binding.cpp'?" in answer.stderr
