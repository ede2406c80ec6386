"""Projects that fail as many do, and what helps them: real setuptools and compilers, and a real torch's headers."""

import platform
import re
import subprocess
import sys

import pytest
import wants
from factory import Factory
from wheels import make_wheel

from wheelsmith.base.files import default_cache
from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.toolchain import Toolchains

pytestmark = [pytest.mark.e2e, pytest.mark.network, pytest.mark.xdist_group("own torch")]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
VERSION = {"2.13": "2.13.0", "2.14": "2.14.1"}
SETUP = """\
from setuptools import Extension, setup
{code}
setup(name="k", version="1", packages=["k"], ext_modules=[{extensions}])
"""
EXTENSION = 'Extension("k._C", ["csrc/k.cpp"], extra_compile_args={args}, include_dirs=[TORCH])'
FIND_TORCH = 'import torch, os\nTORCH = os.path.dirname(torch.__file__) + "/include"\n'
SOURCE = """\
#include <Python.h>
#include <ATen/ATen.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def project(tmp_path):
    """Return a function: the run of a project for the CPU, beside a torch with the real headers, or with none."""
    wants.program("bwrap")
    factory = Factory.at(tmp_path / "factory")
    factory.resolves_alone()

    def run(*argv, setup, torch="2.13", headers=False, files=(), more=""):
        for name, text in {"k/__init__.py": "", "csrc/k.cpp": SOURCE, "setup.py": setup, **dict(files)}.items():
            path = factory.folder / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (factory.folder / "matrix.yaml").write_text(
            f"kernel: {{path: source}}\naxes: {{torch: [{torch}], cuda: [cpu], python: ['{PYTHON}']}}\n{more}"
        )
        inside = {f"torch/{name}": data for name, data in (_headers(torch) if headers else {}).items()}
        make_wheel(tmp_path / "links", "torch", f"{VERSION[torch]}+cpu", files={"torch/__init__.py": b"", **inside})
        command = factory.command(*(argv or ("build-matrix", "--engine", "bwrap")))
        env = factory.environment(PIP_FIND_LINKS=str(tmp_path / "links"))
        # Not by `run`, since the end of a build's log may be a traceback.
        return subprocess.run(command, cwd=factory.folder, env=env, capture_output=True, text=True)

    return run


def _headers(torch):
    folder = Toolchains(default_cache(), lambda event: None).prepare(
        framework("torch").prefix(torch_releases()[torch], platform.machine())
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_first_error_of_a_compiler_is_shown(project):
    source = SOURCE.replace("#include <ATen/ATen.h>", "int nonsense() { return missing; }")
    extension = EXTENSION.replace(", include_dirs=[TORCH]", "").format(args="[]")
    answer = project(setup=SETUP.format(code="", extensions=extension), files={"csrc/k.cpp": source})
    assert answer.returncode == 1
    shown = [line for line in answer.stderr.splitlines() if line.startswith("  │ ")]
    assert shown[0].startswith("  │ csrc/k.cpp:2:25: error: ")
    assert not [line for line in shown if 'File "/' in line]


OLD = ["-std=c++17"], ["--std=gnu++17"], ["-O1"]  # the last has the compiler's own, which is C++17


@pytest.mark.release("it compiles all of torch's headers")
@pytest.mark.parametrize("args", OLD)
def test_an_older_standard_is_raised_to_the_one_that_torchs_headers_need(project, args):
    setup = SETUP.format(code=FIND_TORCH, extensions=EXTENSION.format(args=args))
    told = "setup.py:5 names C++17, but torch 2.14 needs C++20; add to matrix.yaml: cxx-standard: torch"
    if args == OLD[0]:
        failed = project(setup=setup, torch="2.14", headers=True)
        assert failed.returncode == 1
        assert f"info: {told}" in failed.stderr
        assert re.search(r"│ \S+/ATen\.h:\d+:\d+: error: #error C\+\+20 or later", failed.stderr)
        assert f"  help: {told}" in failed.stderr
    built = project(setup=setup, torch="2.14", headers=True, more="cxx-standard: torch\n")
    assert built.returncode == 0, built.stderr
    assert told not in built.stderr


def test_without_a_sandbox_nothing_can_be_raised(project):
    setup = SETUP.format(code="", extensions="")
    refused = project("plan", "--engine", "local", setup=setup, more="cxx-standard: torch\n")
    assert refused.returncode == 2
    assert "cxx-standard: torch needs a sandbox" in refused.stderr


@pytest.mark.release("five builds of projects")
def test_a_failed_build_ends_with_what_helps(project):
    one = EXTENSION.replace(", include_dirs=[TORCH]", "").format(args="[]")
    plain = {"csrc/k.cpp": SOURCE.replace("#include <ATen/ATen.h>\n", "")}
    option = 'import sys\nMODULES = []\nif "--with-it" in sys.argv:\n    sys.argv.remove("--with-it")\n'
    option = SETUP.format(code=f"{option}    MODULES.append({one})", extensions="*MODULES")
    cases = {
        'config-settings: {"--build-option": ["--with-it"]}': option,
        'build-requires: ["colorama"]': SETUP.format(code="import colorama", extensions=one),
        "the source lacks csrc/lost.cpp: add it": SETUP.format(code="", extensions=one.replace("k.cpp", "lost.cpp")),
    }
    for remedy, setup in cases.items():
        failed = project(setup=setup, files=plain)
        assert failed.returncode == 1
        (line,) = re.findall("  help: (.*)", failed.stderr)
        assert remedy in line
        if "lost" not in remedy:
            more = re.search(r"(build-requires|config-settings): .*", line)[0]
            built = project(setup=setup, files=plain, more=f"{more}\n")
            assert built.returncode == 0, built.stderr
