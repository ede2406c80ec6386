"""What a source says of itself is read where it is needed, and a matrix that is for the other kind is refused."""

import pytest
from kernels import matrix, pure_kernel

from wheelsmith.base.errors import MatrixError, SourceError
from wheelsmith.model import Notice
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
    with pytest.raises(SourceError, match="is not a project name"):
        ask(project.parent, PROJECT)


@pytest.fixture
def wants(project):
    """Return a function: what is said that a known project wants, of a matrix."""
    path, told = project.parent / "matrix.yaml", []

    def said(name, text):
        (project / "setup.py").write_text(f"from setuptools import setup\nsetup(name='{name}', version='1')")
        path.write_text(text)
        told.clear()
        prepare(Request(matrix=path, cache=project.parent / "cache", engine="local"), told.append)
        notices = (event for event in told if isinstance(event, Notice))
        return [notice.text for notice in notices if "known to need" in notice.text]

    return said


def test_what_a_known_project_wants_to_be_told_is_said_where_it_is_not(wants):
    (line,) = wants("NATTEN", PROJECT)
    assert line.startswith('natten is known to need env: {"NATTEN_CUDA_ARCH": "{capabilities}"}; ')
    assert wants("NATTEN", PROJECT + "env: {NATTEN_CUDA_ARCH: '90'}\n") == []
    assert wants("NATTEN", PROJECT + "rules: [{where: {cuda: cpu}, set: {env: {NATTEN_CUDA_ARCH: '90'}}}]\n") == []


def test_a_command_that_a_known_project_cannot_do_without_is_said_where_there_is_none(wants):
    env, command = "env: {BUILD_CUDA_EXT: '1'}\n", "before-build: sed -i s/a/b/ a.cu"
    (line,) = wants("auto_gptq", PROJECT + env)
    assert line.startswith("auto-gptq is known to need before-build: \"sed -i 's/vec")
    assert wants("auto_gptq", PROJECT + env + command) == []
    assert wants("auto_gptq", f"{PROJECT}{env}rules: [{{where: {{cuda: cpu}}, set: {{{command}}}}}]") == []
    # causal-conv1d's makes it obey gpu-archs; it has a wheel without.
    assert wants("causal-conv1d", PROJECT + "env: {CAUSAL_CONV1D_FORCE_BUILD: 'TRUE'}\n") == []


@pytest.mark.parametrize(
    "more",
    ["env: {A: '1'}", "build-requires: [ninja]", "rules: [{where: {cuda: cpu}, set: {env: {A: '1'}}}]"],
)
def test_a_kernels_build_toml_says_how_it_is_compiled(tmp_path, more):
    pure_kernel(tmp_path / "k")
    path = matrix(tmp_path, "k", more=more + "\n")
    with pytest.raises(MatrixError, match="env, build-requires and similar settings are for projects") as raised:
        ask(tmp_path, path.read_text())
    assert "build.toml" in raised.value.remedy
