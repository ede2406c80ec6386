"""Kernels that include Python.h get CPython's headers, cut to the stable ABI that their wheels claim."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from kernels import matrix, tiny_kernel
from wants import absent

from wheelsmith.cli.doctor import _toolchains
from wheelsmith.frameworks import framework
from wheelsmith.model import StepKind
from wheelsmith.plan.recipe.recipe import PYCONFIG
from wheelsmith.platforms import header_libraries, python_headers
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.wheel.rules.symbols import outside_abi3

OWN_MODULE = """\
#include <Python.h>
static PyObject *count(PyObject *, PyObject *given) { return PyLong_FromSsize_t(PyTuple_Size(given)); }
static PyMethodDef methods[] = {{"count", count, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyMODINIT_FUNC PyInit_own() {
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "own", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&module);
}
"""


def plan_of(folder, **changes):
    tiny_kernel(folder / "k", **changes)
    request = Request(matrix=matrix(folder, "k"), cache=folder / "cache", engine="local")
    (made,) = prepare(request, lambda event: None).plans
    return made


def test_only_a_kernel_that_includes_them_is_built_with_them(tmp_path):
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    plain = plan_of(tmp_path / "without")
    assert plain.libraries == ()
    assert "pyconfig" not in str(plain.to_json())
    made = plan_of(tmp_path / "with", **{"tiny.cpp": '#include "deep/own.h"\n', "deep/own.h": "#include <Python.h>\n"})
    assert made.libraries == (python_headers().prefix,)
    assert "Py_LIMITED_API + 0 > 0x03090000" in made.recipe.generated["wheelsmith-headers/pyconfig.h"]
    for step in made.recipe.steps:
        if step.kind is StepKind.CXX:
            folders = [step.argv[n + 1] for n, word in enumerate(step.argv) if word == "-isystem"]
            assert folders[0] == "/work/src/wheelsmith-headers"
            assert folders[-1] == f"/opt/libraries/{python_headers().name}/include"
            assert "-DPy_LIMITED_API=0x03090000" in step.argv


def test_they_are_none_that_a_section_may_depend_on():
    assert python_headers().name not in header_libraries()


def test_doctor_says_whether_they_are_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WHEELSMITH_ARCHIVES", str(tmp_path))

    def told():
        return [python_headers().name in symptom.found.split(", ") for symptom in _toolchains()]

    assert told() == [False, True]
    (tmp_path / python_headers().archive.filename).touch()
    assert told() == [True, False]


@pytest.fixture
def compile_module(tmp_path):
    """Compile a module with some CPython's headers and our pyconfig.h; return what the compiler says."""
    headers = Path(sysconfig.get_paths()["include"])
    if shutil.which("g++") is None or not (headers / "Python.h").is_file():
        absent("no g++, or no python3-dev")
    shutil.copytree(headers, tmp_path / "headers", ignore=shutil.ignore_patterns("pyconfig.h"))
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/pyconfig.h").write_text(PYCONFIG.format(framework("torch").limited_api))
    (tmp_path / "own.cpp").write_text(OWN_MODULE)

    def run(*options):
        argv = ["g++", "-std=c++17", "-Wall", "-Werror", "-O2", "-fPIC", "-shared", *options]
        argv += ["-isystem", "ours", "-isystem", "headers", "own.cpp", "-o", "own.abi3.so"]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("limited", ["0x03090000", "3"])
def test_what_is_compiled_with_them_needs_the_stable_abi_alone(compile_module, tmp_path, limited):
    answer = compile_module(f"-DPy_LIMITED_API={limited}")
    assert answer.returncode == 0, answer.stderr
    listed = subprocess.run(["nm", "-D", "--undefined-only", tmp_path / "own.abi3.so"], capture_output=True, text=True)
    symbols = [word for word in listed.stdout.split() if word.startswith(("Py", "_Py"))]
    assert {"PyTuple_Size", "PyModule_Create2"} <= set(symbols)
    assert outside_abi3(symbols, "cp39") == []


# Macros read what they want of a structure, so the wheel would name no symbol that its check could refuse.
@pytest.mark.parametrize("options", [(), ("-DPy_LIMITED_API=0x030a0000",)], ids=["no bound", "of a newer Python"])
def test_more_than_the_wheels_stable_abi_is_refused(compile_module, options):
    answer = compile_module(*options)
    assert answer.returncode
    assert "Py_LIMITED_API must stay 0x03090000, or be older" in answer.stderr
