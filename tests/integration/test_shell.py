"""wheelsmith shell: the sandbox of a cell, for a person."""

import subprocess

import pytest
from factory import Factory
from kernels import pure_kernel


@pytest.fixture
def shell(tmp_path):
    """Enter the shell of the only cell, and type there."""
    factory = Factory.at(tmp_path)
    pure_kernel(tmp_path / "k")
    (tmp_path / "matrix.yaml").write_text("kernel: {path: k}\naxes: {torch: [2.13], cuda: [cpu]}\n")

    def shell(typed, *argv, cell="*"):
        return subprocess.run(
            factory.command("shell", cell, "--engine", "bwrap", *argv),
            cwd=factory.folder,
            env=factory.environment(),
            input=typed,
            capture_output=True,
            text=True,
        )

    return shell


@pytest.mark.release("opens a shell in the sandbox of a whole build")
def test_it_says_the_command_that_builds(shell):
    answer = shell("exit 7\n")
    assert answer.returncode == 7, answer.stderr
    _, _, build = answer.stderr.partition("build command: ")
    answer = shell(f"{build.splitlines()[0]} >&2 && ls /work/dist\n")
    assert answer.stdout == "pure-1-py3-none-any.whl\n", answer.stderr


def test_one_command_is_run(shell):
    answer = shell(None, "--", "ls")
    assert (answer.returncode, answer.stdout) == (0, "build\ndist\nplan.json\nsrc\n"), answer.stderr
    assert "build command" not in answer.stderr


def test_a_combination_of_a_set_is_chosen_with_its_kernel(shell, tmp_path):
    kernels = "kernels: {pure: {path: k}, same: {path: k, distribution: same}}\naxes: {torch: [2.13], cuda: [cpu]}\n"
    (tmp_path / "matrix.yaml").write_text(kernels)
    answer = shell(None)
    assert answer.returncode == 2
    assert "choose one of pure/torch213-cxx11-cpu-x86_64-linux, same/torch213-cxx11-cpu-x86_64-linux" in answer.stderr
    answer = shell(None, "--", "ls", "src/torch-ext", cell="same/*")
    assert (answer.returncode, answer.stdout) == (0, "pure\n"), answer.stderr
