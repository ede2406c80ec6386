"""Kernels in their own folder, with what lies there besides: keys, workflows, logs and outputs."""

import os
import subprocess
import sys

import pytest
from factory import Factory
from kernels import matrix, pure_kernel, write

PRIVATE = {".env": "TOKEN=1", "release.key": "-----BEGIN PRIVATE KEY-----"}
WORKFLOW = ".github/workflows/wheels.yml"


@pytest.fixture
def own(stored, tmp_path, monkeypatch):
    """The folder of a kernel whose wheels are in the cache, with its matrix and private files."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # where another project may have the name
    folder = pure_kernel(tmp_path / "own")
    matrix(folder, ".", torch="2.12, 2.13", cuda="cpu, 13.0")
    return Factory(folder=folder, cache=stored)


def in_repository(own):
    """Track all but private files."""
    for argv in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *argv], cwd=own.folder, check=True)
    write(own.folder, {**PRIVATE, ".git/info/exclude": ".env\n*.key\n"})
    return own


def shell(own, line):
    answer = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f'"{sys.executable}" -m wheelsmith {line}'],
        cwd=own.folder,
        env=own.environment(),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer


def planned(own, *, cached=True):
    answer = own.run_in_process("plan")
    assert answer.returncode == 0, answer.stderr
    assert ("1 build (1 cached)" in answer.stdout) == cached, answer.stdout
    return answer.stderr


@pytest.mark.parametrize("place", [in_repository, lambda own: own], ids=["repository", "folder"])
def test_a_log_in_the_folder_stops_no_build(place, own):
    """The log grew while the kernel was built, so that every run failed."""
    place(own)
    build = "build-matrix --engine local --force --only '*213*cpu*'"
    shell(own, f"{build} > log 2>&1")
    assert "1 built" in (own.folder / "log").read_text()
    shell(own, f"{build} 2>&1 | tee build.log")
    planned(own)


def test_private_files_and_workflows_of_a_repository_change_nothing(own):
    in_repository(own)
    assert planned(own) == ""
    assert own.run_in_process("ci", "github", "--wheelsmith", "wheelsmith-factory==1").returncode == 0
    with (own.folder / WORKFLOW).open("a") as file:
        file.write("# a comment\n")
    write(own.folder, {"plan.json": "{}", "cuda.yaml": (own.folder / "matrix.yaml").read_text()})
    assert planned(own) == "info: untracked files are not in the source: plan.json; see kernel.include\n"
    subprocess.run(["git", "add", WORKFLOW, "cuda.yaml"], cwd=own.folder, check=True)
    planned(own)
    assert own.run_in_process("plan", "--matrix", "cuda.yaml").stdout == own.run_in_process("plan").stdout


def test_without_a_repository_private_files_are_named_and_can_be_left_out(own):
    write(own.folder, {**PRIVATE, WORKFLOW: "x", "wheelsmith.lock.d/pylock.a.toml": ""})
    warning = "warning: files that look like secrets are in the source: .env, release.key; see kernel.exclude\n"
    assert planned(own, cached=False) == warning
    text = (own.folder / "matrix.yaml").read_text()
    write(own.folder, {"matrix.yaml": text.replace("path: .", "path: ., exclude: [.env, '*.key']")})
    assert planned(own) == ""


def test_ignored_files_can_be_named(own):
    in_repository(own)
    text = (own.folder / "matrix.yaml").read_text()
    write(own.folder, {"matrix.yaml": text.replace("path: .", "path: ., include: [.env]")})
    assert planned(own, cached=False) == ""


def test_a_wheel_of_an_older_source_is_not_rebuilt_with_a_reason(own):
    shell(own, "build-matrix --engine local")
    write(own.folder, {"more.py": ""})
    answer = own.run_in_process("verify-rebuild", "dist/wheels")
    assert answer.returncode == 1
    assert "an older wheelsmith may have taken other files" in answer.stdout + answer.stderr
