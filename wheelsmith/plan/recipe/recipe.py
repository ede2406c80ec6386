"""One kernel's recipe for one cell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from wheelsmith.base.errors import BuildTomlError, Place
from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import Recipe, SourceId
from wheelsmith.plan.recipe.compile import (
    OWN_HEADERS,
    CompileTarget,
    SourceGroup,
    compile_steps,
    is_known_source,
    link_step,
    stub_steps,
)
from wheelsmith.plan.recipe.generated import LIGHT_ALL, NOARCH_OPS, PYCONFIG, PYPROJECT
from wheelsmith.plan.recipe.spec import KernelSpec

_LICENCE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)([.-][A-Za-z0-9.-]+)?")
_UNIQUE = 10  # hex digits of a digest in the operators' namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource(Record):
    """What planning needs to know of a kernel's files.

    :param paths: every file, relative to the kernel's folder, sorted.
    :param readme: the text that becomes the wheel's description.
    :param python_backends: those whose sources include CPython's headers.
    :param code: sha256 of what may be compiled or imported, without comments; empty where nothing is compiled.
    """

    id: SourceId
    paths: tuple[str, ...]
    readme: str | None
    python_backends: tuple[str, ...] = ()
    code: str = ""

    @property
    def licences(self) -> tuple[str, ...]:
        """Return the files that hold licence texts: those at the top that are named like one."""
        return tuple(path for path in self.paths if is_licence(path))


def is_licence(path: str) -> bool:
    """Say whether a file is called as a licence's text at the top of a source is."""
    return _LICENCE.fullmatch(path) is not None


def namespace(spec: KernelSpec, backend: str, source: KernelSource) -> str:
    """Return the name of the operators' namespace, unique per kernel, backend and code.

    Two versions of a kernel can then be loaded in one process, if they differ in more than what is written about them.
    """
    return f"_{spec.module}_{backend}_{source.code[:_UNIQUE]}"


def compiled_recipe(
    spec: KernelSpec, source: KernelSource, groups: tuple[SourceGroup, ...], target: CompileTarget
) -> Recipe:
    """Return the steps, generated files and contents of a wheel with a compiled extension.

    :raises BuildTomlError: a source that build.toml names is not there or of a kind that is not compiled.
    """
    _check_sources(groups, source)
    compiled = tuple(compile_steps(groups, target))
    stubs = stub_steps(target)
    framework = target.framework
    module_file = f"build/{target.namespace}{framework.suffix}"
    objects = tuple(step.output for step in compiled)
    link = link_step(objects, tuple(step.output for step in stubs), module_file, target)
    extension = f"{spec.module}/{target.namespace}{framework.suffix}"
    files = framework.files(spec.package, target.namespace)
    return Recipe(
        steps=(*compiled, *stubs, link),
        generated={
            "pyproject.toml": PYPROJECT,
            **{f"{framework.packages}/{path}": text for path, text in files.items()},
            **({f"{OWN_HEADERS}/torch/all.h": LIGHT_ALL} if target.light_headers else {}),
            **({f"{OWN_HEADERS}/pyconfig.h": PYCONFIG.format(framework.limited_api)} if target.python else {}),
        },
        contents={**_python_files(spec, source, _suffixes(spec)), extension: module_file},
        namespace=target.namespace,
        extension=extension,
    )


def noarch_recipe(spec: KernelSpec, source: KernelSource) -> Recipe:
    """Return the recipe of a kernel with nothing compiled: its Python package, with every file in it.

    Such kernels hold data and headers that they read or compile at run time; kernel-builder ships them all.
    """
    unique = source.id.tree[:_UNIQUE]
    ops = NOARCH_OPS.format(module=spec.module, unique=unique)
    return Recipe(
        steps=(),
        generated={"pyproject.toml": PYPROJECT, f"{spec.root}/_ops.py": ops},
        contents=_python_files(spec, source, None),
        namespace=f"_{spec.module}_{unique}",
        extension=None,
    )


def _suffixes(spec: KernelSpec) -> frozenset[str]:
    return frozenset({".py", ".pyi", *("." + extension.lstrip(".") for extension in spec.pyext)})


def _python_files(spec: KernelSpec, source: KernelSource, suffixes: frozenset[str] | None) -> dict[str, str]:
    """Return the files of the kernel's Python package: path in the wheel → path in the work folder.

    :param suffixes: those that are shipped; None ships every file but bytecode.
    """
    root = f"{spec.root}/"
    found = {
        f"{spec.module}/{path.removeprefix(root)}": f"src/{path}"
        for path in source.paths
        if path.startswith(root) and _shipped(PurePosixPath(path), suffixes)
    }
    if f"{spec.module}/__init__.py" not in found:
        raise BuildTomlError(
            f"the kernel has no {root}__init__.py",
            where=Place(file="build.toml"),
            remedy=f"put the Python package of a kernel called {spec.name} there",
        )
    return {**found, f"{spec.module}/_ops.py": f"src/{root}_ops.py"}


def _shipped(path: PurePosixPath, suffixes: frozenset[str] | None) -> bool:
    if suffixes is None:
        return path.suffix != ".pyc" and "__pycache__" not in path.parts
    return path.suffix in suffixes


def _check_sources(groups: tuple[SourceGroup, ...], source: KernelSource) -> None:
    there = frozenset(source.paths)
    for path in (path for group in groups for path in group.src):
        if path not in there:
            raise BuildTomlError(f"src names {path}, which is not there", where=Place(file="build.toml"))
        if not is_known_source(path):
            raise BuildTomlError(
                f"src names {path}, which is neither C, C++, CUDA nor a header",
                where=Place(file="build.toml"),
            )
