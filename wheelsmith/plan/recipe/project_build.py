"""Facts about a project's build, from its files: whether it needs torch, and whether it compiles anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection
from typing import Any

from wheelsmith.model import TORCH
from wheelsmith.plan.recipe.static_setup_metadata import may_import, parse_code

# Build systems that only copy Python files, and their tables in pyproject.toml that add code to a build.
_PURE_BACKENDS = {
    "flit_core.buildapi": (),
    "hatchling.build": ("hatch",),
    "pdm.backend": ("pdm",),
    "poetry.core.masonry.api": ("poetry",),
    "uv_build": (),
}
_SETUPTOOLS = {"setuptools.build_meta", "setuptools.build_meta:__legacy__"}
# Requirements of builds that compile, some of them without a word in setup.py.
_COMPILING = re.compile(
    r"cython|cffi|pybind11|nanobind|numpy|cmake|ninja|meson.*|maturin|mypy|scikit-build.*|setuptools-(rust|golang)"
)
_COMPILING_TABLES = {"scikit-build", "setuptools-rust", "cython"}
# Arguments of setup() that add no code to a build.
_METADATA = frozenset(
    (  # noqa: SIM905  # shorter as a text
        "author author_email classifiers description download_url entry_points exclude_package_data extras_require "
        "include_package_data install_requires keywords license license_files long_description maintainer "
        "long_description_content_type maintainer_email name namespace_packages package_data package_dir packages "
        "platforms project_urls py_modules python_requires scripts setup_requires test_suite tests_require url "
        "use_scm_version version zip_safe"
    ).split()
)
_CMAKE_TORCH = re.compile(rb"find_package\s*\(\s*Torch\b|import torch\b")
_INCLUDES_TORCH = re.compile(rb"#\s*include\s*[<\"](torch|ATen|c10)/")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp")


def uses_torch(paths: Collection[str], read: Callable[[str], bytes]) -> bool:
    """Return True if a project's setup.py, CMake files or sources use torch.

    Its wheel may require torch although its build does not use it, as that of bitsandbytes does.

    :param read: path → content.
    """
    if "setup.py" in paths and may_import(read("setup.py"), TORCH):
        return True
    cmake = (path for path in paths if path.endswith(("CMakeLists.txt", ".cmake", "meson.build")))
    if any(_CMAKE_TORCH.search(read(path)) for path in cmake):
        return True
    return any(_INCLUDES_TORCH.search(read(path)) for path in paths if path.endswith(_SOURCES))


def compiles_nothing(
    data: dict[str, Any], requires: Collection[str], paths: Collection[str], read: Callable[[str], bytes]
) -> bool:
    """Return True if a project says itself that its wheel has no compiled code. In doubt, it is False.

    :param data: pyproject.toml.
    :param requires: the names of its build requirements.
    :param read: path → content.
    """
    system, tools = data.get("build-system", {}), data.get("tool", {})
    tools = tools if isinstance(tools, dict) else {}
    if "CMakeLists.txt" in paths or "backend-path" in system or any(map(_COMPILING.fullmatch, requires)):
        return False
    backend = system.get("build-backend", "setuptools.build_meta")
    if backend in _PURE_BACKENDS:
        return not any(_adds_code(tools.get(name)) for name in _PURE_BACKENDS[backend]) and "pdm_build.py" not in paths
    own = tools.get("setuptools", {})
    if backend not in _SETUPTOOLS or _COMPILING_TABLES & tools.keys() or {"ext-modules", "cmdclass"} & {*own}:
        return False
    if "setup.cfg" in paths and re.search(rb"cmdclass|setup_hooks", read("setup.cfg")):
        return False
    return "setup.py" not in paths or _only_metadata(read("setup.py"))


def _adds_code(table: object) -> bool:
    """Return True if a table has a build hook or a build script at any depth."""
    if not isinstance(table, dict):
        return False
    named = {"hooks", "script", "run-setuptools", "custom-hook"} & table.keys() or isinstance(table.get("build"), str)
    return bool(named) or any(map(_adds_code, table.values()))


def _only_metadata(setup_py: bytes) -> bool:
    """Return True if setup.py calls ``setup`` of setuptools once, with metadata and lists of Python files only."""
    tree = parse_code(setup_py)
    nodes = list(ast.walk(tree)) if tree else []
    modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    called = (node for node in nodes if isinstance(node, ast.Call))
    calls = [node for node in called if getattr(node.func, "id", getattr(node.func, "attr", None)) == "setup"]
    return (
        {"setuptools"} == {*modules} & {"setuptools", TORCH}
        and len(calls) == 1
        and {word.arg for word in calls[0].keywords} <= _METADATA
    )
