"""A wheel that is larger than the matrix allows fails, and the next plan says so before it is built again."""

import containers
import pytest
from factory import Factory
from kernels import matrix, tiny_kernel


@pytest.fixture
def factory(tmp_path):
    containers.wanted("bwrap")
    factory = Factory.at(tmp_path)
    tiny_kernel(tmp_path / "k")
    return factory


def build(factory, more):
    matrix(factory.folder, "k", torch="2.12, 2.13", more=f"toolchain: host\n{more}")
    return factory.run("build-matrix", "--engine", "bwrap")


def test_a_wheel_over_the_limit_fails_until_the_limit_is_raised(factory):
    assert build(factory, "rules: [{where: {torch: '2.13'}, set: {max-size: 1KB}}]\n").returncode == 1
    first, second = factory.results().values()
    assert (first["status"], second["status"]) == ("built", "failed")
    assert second["failure"]["stage"] == "check"
    assert second["failure"]["message"].endswith(", and max-size is 1.0 kB")
    assert len([*(factory.folder / "dist/wheels").iterdir()]) == 1
    raised = build(factory, "max-size: 1GB\n")
    assert "2 cached" in raised.stderr, raised.stderr


@pytest.mark.parametrize("changed", [False, True])
def test_a_plan_warns_of_a_wheel_that_was_too_large(factory, changed):
    assert build(factory, "").returncode == 0
    if changed:
        (factory.folder / "k/torch-ext/tiny/more.py").write_text("")
    matrix(factory.folder, "k", torch="2.12, 2.13", more="toolchain: host\nmax-size: 1KB\n")
    warned = factory.run("plan", "--engine", "bwrap").stderr
    assert warned.count(" when it was last built, and max-size is 1.0 kB") == 2
