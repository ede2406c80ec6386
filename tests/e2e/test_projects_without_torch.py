"""Projects whose builds use no torch: those that compile, and those that compile nothing."""

import subprocess
import sys

import pytest
from factory import Factory
from kernels import write

pytestmark = [pytest.mark.e2e, pytest.mark.network]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SETUP = """
from setuptools import {names}setup

setup(name="plain-thing", version="1.2", packages=["plain_thing"], install_requires=["packaging>=20"], {more})
"""
CODE = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", NULL, -1, methods};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""


def built(folder, files, matrix):
    """Write the matrix that ``init`` writes, and build and test its wheels."""
    factory = Factory.at(folder)
    write(folder / "k", files)
    written = factory.run("init", "k")
    assert written.returncode == 0, written.stderr
    text = (folder / "matrix.yaml").read_text()
    assert all(line in text for line in matrix), text
    test = "  test: python3 -c 'import plain_thing; assert plain_thing.answer() == 42'\n"
    (folder / "matrix.yaml").write_text(text.replace("kernel:\n", f"kernel:\n{test}"))
    answer = factory.run("build-matrix", "--engine", "bwrap", "--test")
    assert answer.returncode == 0, answer.stderr
    return factory


def test_one_that_compiles_gets_a_wheel_for_each_platform(tmp_path):
    files = {
        "setup.py": SETUP.format(names="Extension, ", more='ext_modules=[Extension("plain_thing._c", ["plain.c"])]'),
        "plain.c": CODE,
        "plain_thing/__init__.py": "from plain_thing._c import answer\n",
    }
    factory = built(tmp_path, files, ["\nframework: none", "\n  cuda: [cpu]\n"])
    (wheel,) = (tmp_path / "dist/wheels").iterdir()
    tag = "cp" + PYTHON.replace(".", "")
    assert wheel.name == f"plain_thing-1.2+cpu-{tag}-{tag}-manylinux_2_28_x86_64.whl"
    picked = factory.run("pick", "plain-thing", "--index", "dist/index", "--python", sys.executable)
    assert picked.returncode == 0, picked.stderr
    assert f"{wheel.name}: for any framework, CPU, x86_64, Python {PYTHON}" in picked.stderr
    assert "torch" not in picked.stdout


@pytest.mark.release("another build of a project")
def test_one_that_compiles_nothing_gets_one_wheel(tmp_path):
    """With a torch or without one: flash-linear-attention requires it of its users."""
    files = {
        "setup.py": SETUP.format(names="", more="").replace("packaging>=20", "packaging"),
        "plain_thing/__init__.py": "def answer():\n    return 42\n",
    }
    factory = built(tmp_path, files, ["\nframework: none", "\n  cuda: [cpu, 13."])
    assert "python:" not in (tmp_path / "matrix.yaml").read_text()
    (wheel,) = (tmp_path / "dist/wheels").iterdir()
    assert wheel.name == "plain_thing-1.2-py3-none-any.whl"
    matrix = "kernel: {path: k}\naxes: {torch: [2.13, 2.14], cuda: [cpu, 13.0], python: [3.11, 3.12]}\n"
    (tmp_path / "matrix.yaml").write_text(matrix)
    planned = factory.run("plan")
    assert "8 combinations → 1 build (1 cached)\n" in planned.stdout
    folder = tmp_path / "site"
    index = (tmp_path / "dist/index/simple").as_uri()
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, "--index-url", index]
    subprocess.run([*command, "plain-thing"], check=True)
    assert (folder / "plain_thing" / "__init__.py").exists()
