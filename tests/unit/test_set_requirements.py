"""Kernels of a set that require one another: their order, their wheels for each other, and cycles."""

from dataclasses import replace

import pytest
from kernels import BUILD_TOML
from plans import plan

from wheelsmith.base.errors import MatrixError
from wheelsmith.matrix.load import load_matrices
from wheelsmith.model import RequiredWheel
from wheelsmith.plan.feasibility import NotBuildableError, check_depends, python_depends
from wheelsmith.plan.planned_run import fold, in_order
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.project import ProjectSpec, parse_project
from wheelsmith.plan.set_requirements import RequiredKernel, order_kernels, with_required

SET = """\
axes: {torch: [2.13], cuda: [cpu]}
kernels:
  top: {path: top}
  base: {path: base, distribution: Base.Kernel}
  ops: {hub: org/ops, revision: v1}
"""
DEPENDS = 'kernel-depends = [{repo-id = "org/ops", version = 1}]\n'
PROJECT = '[build-system]\nrequires = ["setuptools", "base-kernel>=1"]\n[project]\nname = "top"\nversion = "3"\n'
REQUIRED = RequiredKernel(
    name="base", distribution="Base.Kernel", version="1", repos=frozenset({"org/ops"}), plans=(plan(0),)
)


def kernel(general=""):
    return parse_build_toml(BUILD_TOML.replace("edition = 5\n", f"edition = 5\n{general}"), file="build.toml")


@pytest.fixture
def matrices(tmp_path):
    (tmp_path / "matrix.yaml").write_text(SET)
    return {each.name: each for each in load_matrices(tmp_path / "matrix.yaml")}


def order(matrices, **specs):
    return order_kernels({name: (matrix, specs[name]) for name, matrix in matrices.items()})


def test_what_is_required_comes_first(matrices):
    found = order(matrices, top=parse_project(PROJECT), base=kernel(DEPENDS), ops=kernel())
    assert list(found.items()) == [("ops", ()), ("base", ("ops",)), ("top", ("base",))]


@pytest.mark.parametrize("text", ['dependencies = ["base_kernel"]', 'dependencies = ["BASE-kernel==1"]'])
def test_a_requirement_of_the_wheel_counts_too(text, matrices):
    project = parse_project(f'[build-system]\nrequires = []\n[project]\nname = "top"\nversion = "3"\n{text}\n')
    assert order(matrices, top=project, base=kernel(), ops=kernel())["top"] == ("base",)


def test_a_cycle_has_its_place(matrices):
    project = ProjectSpec(name="base-kernel", version="1", requires=(), named=("top",))
    with pytest.raises(MatrixError, match="kernels require each other: ") as raised:
        order(matrices, top=parse_project(PROJECT), base=project, ops=kernel())
    assert str(raised.value.where) in {"matrix.yaml:3:15", "matrix.yaml:4:16"}
    assert raised.value.exit_code == 2


def test_kernel_depends_becomes_a_requirement_of_the_wheel():
    made = with_required(kernel(DEPENDS), [REQUIRED])
    check_depends(plan(0).cell, made)
    assert python_depends(made, "") == ("Base.Kernel==1",)
    with pytest.raises(NotBuildableError, match="org/ops from the Hub at run time"):
        check_depends(plan(0).cell, with_required(kernel(DEPENDS), []))


def test_a_project_takes_the_wheel_in_place_of_its_requirement():
    spec = parse_project(PROJECT)
    assert with_required(spec, [REQUIRED]).requires == ("setuptools",)
    with pytest.raises(NotBuildableError, match=r"requires base-kernel>=1, but base of this file has version 0.9"):
        with_required(spec, [replace(REQUIRED, version="0.9")])


def test_the_wheel_is_that_of_the_same_cell():
    given = plan(0)
    wheel = RequiredWheel(project="base-kernel", digest=given.build_digest)
    assert REQUIRED.wheels_for(given.cell) == (wheel,)
    assert REQUIRED.wheels_for(replace(given.cell, python="3.12", kernel="top")) == (wheel,)
    own = RequiredWheel(project="ops", digest="0")
    assert replace(REQUIRED, plans=(replace(given, requires=(own,)),)).wheels_for(given.cell)[1:] == (own,)
    with pytest.raises(NotBuildableError, match="it requires base of this file, which has no wheel"):
        REQUIRED.wheels_for(replace(given.cell, toolkit="12.8"))


def test_a_build_follows_what_it_requires():
    first, second = plan(0), plan(1)
    second = replace(second, requires=(RequiredWheel(project="base-kernel", digest=first.build_digest),))
    groups = in_order(fold((second, first)))
    assert [[build.plan.cell.id for build in group] for group in groups] == [[first.cell.id], [second.cell.id]]
