"""A kernel whose default name is another project's on pip's index is planned, and another name is suggested."""

import platform

import pytest
from build_folders import lay_out, pure
from factory import Factory
from kernels import NOARCH_TOML, write

from wheelsmith.run.prepare import Request
from wheelsmith.run.repack import RepackRequest, prepare_repack

AXES = "axes: {torch: [2.13], cuda: [cpu], arch: [" + platform.machine() + "]}\n"


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Return a function that plans a kernel called msa, with an index that has a project of this name."""
    write(tmp_path / "pypi", {"msa/index.html": '<a href="msa-1.0-py3-none-any.whl">msa-1.0-py3-none-any.whl</a>'})
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "pypi").as_uri())
    factory = Factory.at(tmp_path / "run")
    write(factory.folder / "k", {"build.toml": NOARCH_TOML.replace('"pure"', '"msa"'), "torch-ext/msa/__init__.py": ""})

    def plan(kernel="path: k", *options):
        (factory.folder / "matrix.yaml").write_text(f"kernel: {{{kernel}}}\n{AXES}")
        answer = factory.run_in_process("plan", "--engine", "local", *options)
        assert answer.returncode == 0, answer.stderr
        return answer.stderr

    return plan


def test_another_name_is_suggested(plan):
    said = " ".join(plan().split())
    assert "info: msa is a project on PyPI, too, and installers choose the higher version of the two" in said
    assert "if it is not yours, set distribution: msa-kernel under kernel" in said


def test_an_own_name_is_meant(plan):
    for name in ("msa", "my-msa"):
        assert "PyPI" not in plan(f"path: k, distribution: {name}")


def test_a_name_that_nobody_has_is_good(plan, tmp_path):
    (tmp_path / "pypi" / "msa" / "index.html").unlink()
    assert "PyPI" not in plan()


def test_an_index_that_was_not_asked_is_named(plan, monkeypatch):
    question = "PyPI was not asked whether it has another project msa: "
    assert f"{question}wheelsmith is offline" in " ".join(plan("path: k", "--offline").split())
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert f"{question}127.0.0.1: " in " ".join(plan().split())


def test_repacked_builds_are_asked_for_too(plan, tmp_path):
    lay_out(tmp_path / "repo", "torch-cuda", "msa", pure())
    run, told = Request(matrix=tmp_path, cache=tmp_path / "cache", engine="local"), []
    prepare_repack(RepackRequest(repo=str(tmp_path / "repo"), run=run), told.append)
    assert [notice.text for notice in told if notice.text.endswith("set --distribution msa-kernel")]
    told.clear()
    prepare_repack(RepackRequest(repo=str(tmp_path / "repo"), run=run, distribution="msa"), told.append)
    assert not [notice.text for notice in told if "PyPI" in notice.text]
