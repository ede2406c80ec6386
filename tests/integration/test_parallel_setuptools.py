"""Projects of setuptools compile in parallel in the sandbox: a compiler waits there for other calls."""

import os
import subprocess
import sys

import pytest

from wheelsmith.toolchain.build_tools import install_tools

# Each call waits until the expected number of calls has started, so it fails if setuptools waits for the first.
COMPILER = """#!/bin/sh
case " $* " in *" -c "*)
  touch "{folder}/call-$$"
  for i in $(seq 200); do
    [ "$(ls "{folder}" | grep -c call-)" -ge {calls} ] && exec cc "$@"
    sleep 0.1
  done
  echo "no other call" >&2; exit 1
esac
exec cc "$@"
"""
SETUP = "from setuptools import Extension, setup\n"
TWO_SOURCES = 'setup(name="p", version="1", ext_modules=[Extension("p", ["a.c", "b.c"])])'
TWO_EXTENSIONS = 'setup(name="p", version="1", ext_modules=[Extension("p", ["a.c"]), Extension("q", ["b.c"])])'
ONE_SOURCE_TWICE = (
    'setup(name="p", version="1", ext_modules=[Extension(name, ["v.c"], define_macros=[("V", name)]) for name in "pq"])'
)
# Reads an extension right after its build, so none may be built in the background.
READS_ITS_EXTENSIONS = """
from pathlib import Path
from setuptools.command.build_ext import build_ext

class Build(build_ext):
    def build_extension(self, extension):
        super().build_extension(extension)
        self.seen = getattr(self, "seen", []) + [Path(self.get_ext_fullpath(extension.name)).stat().st_size]

    def run(self):
        super().run()
        assert len(self.seen) == 2

setup(name="p", version="1", cmdclass={"build_ext": Build},
      ext_modules=[Extension("p", ["a.c"]), Extension("q", ["b.c"])])
"""


@pytest.fixture
def build(tmp_path):
    """Return a function that builds the extensions of a setup.py with the tools of a sandbox."""
    install_tools(tmp_path / "tools")
    project = tmp_path / "project"
    project.mkdir()
    for name in ("a", "b"):
        (project / f"{name}.c").write_text(f"int {name}(void) {{ return 1; }}\n")
    (project / "v.c").write_text('#define S(v) #v\n#define T(v) S(v)\nconst char *text = "made for " T(V);\n')

    def run(setup, calls=1, **variables):
        compiler = tmp_path / "cc"
        compiler.write_text(COMPILER.format(folder=tmp_path, calls=calls))
        compiler.chmod(0o755)
        (project / "setup.py").write_text(SETUP + setup)
        env = {**os.environ, "CC": str(compiler), "PYTHONPATH": str(tmp_path / "tools" / "site"), "MAX_JOBS": "2"}
        env |= {"WHEELSMITH_LAUNCH": "unused", **variables}
        command = [sys.executable, "setup.py", "build_ext", "--inplace"]
        return project, subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("setup", [TWO_SOURCES, TWO_EXTENSIONS], ids=["sources", "extensions"])
def test_setuptools_compiles_in_parallel(build, setup):
    project, answer = build(setup, calls=2)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len(list(project.glob("*.so"))) == setup.count("Extension(")


def test_extensions_with_a_common_source_have_their_own_code(build):
    """Both write the same object, so one must be built after the other."""
    project, answer = build(ONE_SOURCE_TWICE)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert {name: b"made for " + name.encode() in library(project, name) for name in "pq"} == {"p": True, "q": True}


def library(project, name):
    (path,) = project.glob(f"{name}.*.so")
    return path.read_bytes()


def test_a_source_with_an_error_ends_the_build(build):
    project, answer = build(TWO_SOURCES.replace("b.c", "missing.c"))
    assert answer.returncode != 0
    assert "missing.c" in answer.stderr
    assert not list(project.glob("*.so"))


def test_a_command_that_reads_its_extensions_finds_them(build):
    project, answer = build(READS_ITS_EXTENSIONS)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert len(list(project.glob("*.so"))) == 2
