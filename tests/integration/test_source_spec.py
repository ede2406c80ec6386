"""What a source says of itself is read where it is needed, and a matrix that is for the other kind is refused."""

import pytest
from kernels import matrix, pure_kernel

from wheelsmith.base.errors import MatrixError, SourceError
from wheelsmith.run.prepare import Request, prepare

PROJECT = "version: 1\nkernel: {path: k}\naxes: {torch: [2.13], cuda: [cpu], python: ['3.99']}\n"


def ask(folder, text):
    (folder / "matrix.yaml").write_text(text)
    return prepare(Request(matrix=folder / "matrix.yaml", cache=folder / "cache", engine="local"), lambda event: None)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "k").mkdir()
    (tmp_path / "k/setup.py").write_text("raise SystemExit('never run to plan')")
    return tmp_path / "k"


def test_pkg_info_says_what_nobody_else_does(project):
    (project / "PKG-INFO").write_text("Name: My.Project\nVersion: 1.2+cu118\n")
    found = ask(project.parent, PROJECT.removeprefix("version: 1\n"))
    assert (found.distribution, found.version) == ("My.Project", "1.2")


def test_pkg_info_that_nobody_needs_is_not_read(project):
    (project / "PKG-INFO").write_bytes(b"Name: \xff\n")
    (project / "pyproject.toml").write_text('[project]\nname = "own"\nversion = "3"\n')
    found = ask(project.parent, PROJECT.removeprefix("version: 1\n"))
    assert (found.distribution, found.version) == ("own", "3")
    (project / "pyproject.toml").unlink()
    with pytest.raises(SourceError, match="PKG-INFO is not UTF-8"):
        ask(project.parent, PROJECT)


def test_what_a_known_project_wants_to_be_told_is_said_where_it_is_not(project):
    (project / "setup.py").write_text("from setuptools import setup\nsetup(name='NATTEN', version='1')")
    path, told = project.parent / "matrix.yaml", []

    def said(text):
        path.write_text(text)
        told.clear()
        prepare(Request(matrix=path, cache=project.parent / "cache", engine="local"), told.append)
        return [notice.text for notice in told if "known to want" in notice.text]

    (line,) = said(PROJECT)
    assert line.startswith('natten is known to want env: {"NATTEN_CUDA_ARCH": "{capabilities}"}; ')
    assert said(PROJECT + "env: {NATTEN_CUDA_ARCH: '90'}\n") == []
    assert said(PROJECT + "rules: [{where: {cuda: cpu}, set: {env: {NATTEN_CUDA_ARCH: '90'}}}]\n") == []


@pytest.mark.parametrize(
    "more",
    ["env: {A: '1'}", "build-requires: [ninja]", "rules: [{where: {cuda: cpu}, set: {env: {A: '1'}}}]"],
)
def test_a_kernels_build_toml_says_how_it_is_compiled(tmp_path, more):
    pure_kernel(tmp_path / "k")
    path = matrix(tmp_path, "k", more=more + "\n")
    with pytest.raises(MatrixError, match="env, build-requires and the like are for projects") as raised:
        ask(tmp_path, path.read_text())
    assert "build.toml" in raised.value.remedy
