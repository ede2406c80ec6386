"""What a project's files say of its build: whether it needs torch, and whether it compiles anything."""

import pytest

from wheelsmith.plan.recipe.project import read_project
from wheelsmith.plan.recipe.project_build import uses_torch

SETUP = "from setuptools import setup\nsetup(name='p', version='1', packages=['p'], install_requires=['torch'])\n"
BACKEND = '[build-system]\nrequires = ["{}"]\nbuild-backend = "{}"\n'


def spec(**files):
    files = {name.replace("_toml", ".toml").replace("_py", ".py"): text for name, text in files.items()}
    return read_project(tuple(files), lambda path: files[path].encode())


PURE = {
    "sageattention 1.0.6": {"setup_py": SETUP},
    "flash-linear-attention": {"pyproject_toml": BACKEND.format("setuptools>=64", "setuptools.build_meta")},
    "no word of a backend": {"pyproject_toml": '[project]\nname = "p"\n'},
    "hatchling": {"pyproject_toml": BACKEND.format("hatchling", "hatchling.build")},
    "flit": {"pyproject_toml": BACKEND.format("flit_core>=3", "flit_core.buildapi")},
    "poetry": {
        "pyproject_toml": BACKEND.format("poetry-core", "poetry.core.masonry.api") + "[tool.poetry.scripts]\np = 'p'\n"
    },
}
# Each compiles, or may.
COMPILED = {
    "an extension": {"setup_py": SETUP.replace("packages=", "ext_modules=[], packages=")},
    "arguments from elsewhere": {"setup_py": SETUP.replace("packages=['p']", "**more")},
    "a command of its own": {"setup_py": SETUP.replace("packages=", "cmdclass={}, packages=")},
    "two calls": {"setup_py": SETUP + "if 1: setup(name='p')\n"},
    "another setup": {"setup_py": SETUP.replace("from setuptools", "from skbuild")},
    "torch in setup.py": {"setup_py": f"import torch\n{SETUP}"},
    "no Python": {"setup_py": "setup("},
    "torch": {"pyproject_toml": BACKEND.format("torch", "setuptools.build_meta")},
    "Cython": {"pyproject_toml": BACKEND.format("Cython>=3", "setuptools.build_meta")},
    "CMake": {"pyproject_toml": BACKEND.format("scikit-build-core", "scikit_build_core.build")},
    "a CMakeLists.txt": {"setup_py": SETUP, "CMakeLists.txt": ""},
    "its own backend": {"pyproject_toml": BACKEND.format("setuptools", "own") + "backend-path = ['.']\n"},
    "setuptools' extensions": {"pyproject_toml": "[[tool.setuptools.ext-modules]]\nname = 'p'\nsources = ['p.c']\n"},
    "Rust": {"pyproject_toml": "[tool.setuptools-rust]\n"},
    "a hook": {
        "pyproject_toml": BACKEND.format("hatchling", "hatchling.build")
        + "[tool.hatch.build.targets.wheel.hooks.custom]\n"
    },
    "a script": {
        "pyproject_toml": BACKEND.format("poetry-core", "poetry.core.masonry.api") + "[tool.poetry]\nbuild = 'b.py'\n"
    },
    "a setup.cfg": {"setup_py": SETUP, "setup.cfg": "[options]\ncmdclass = build_ext = own.Build\n"},
}


@pytest.mark.parametrize("name", [*PURE, *COMPILED])
def test_a_project_that_compiles_nothing_says_so(name):
    assert spec(**{**PURE, **COMPILED}[name]).is_pure is (name in PURE)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("setup.py", "from torch.utils.cpp_extension import CUDAExtension"),
        ("csrc/CMakeLists.txt", "find_package( Torch REQUIRED)"),
        ("cmake/find.cmake", 'COMMAND python -c "import torch; print(torch.__file__)"'),
        ("csrc/ops.cu", "#  include <ATen/ATen.h>"),
        ("csrc/ops.h", '#include "torch/extension.h"'),
    ],
)
def test_a_build_that_uses_torch(path, text):
    assert uses_torch((path,), lambda _: text.encode())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("setup.py", "setup(install_requires=['torch'])"),
        ("CMakeLists.txt", "# PyTorch was built with another ROCm"),
        ("csrc/ops.cu", "// like torch/extension.h"),
        ("README.md", "#include <torch/all.h>"),
    ],
)
def test_a_build_that_only_names_torch(path, text):
    assert not uses_torch((path,), lambda _: text.encode())


def test_torch_among_the_build_requirements():
    assert spec(**COMPILED["torch"]).builds_with_torch
    assert spec(setup_py="from setuptools import setup\nsetup(setup_requires=['torch>=2'])").builds_with_torch
    assert not spec(**PURE["sageattention 1.0.6"]).builds_with_torch
