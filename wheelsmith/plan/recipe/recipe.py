"""The recipe of a kernel for one cell: steps, generated files, contents and metadata of the wheel."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from posixpath import splitext

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from wheelsmith.base.errors import BuildTomlError, Place
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.suggest import closest
from wheelsmith.frameworks import LoaderInputs, framework
from wheelsmith.model import Recipe, SourceId
from wheelsmith.plan.recipe.compile import (
    OWN_HEADERS,
    CompileTarget,
    SourceGroup,
    check_step,
    compile_steps,
    is_known_source,
    link_step,
    stub_steps,
)
from wheelsmith.plan.recipe.spec import KernelSpec

PYPROJECT = """\
[build-system]
requires = []
build-backend = "wheelsmith.engine.backend"
"""

NOARCH_OPS = '''\
"""The operators of this kernel, which its Python code registers."""

import torch


def get_backend() -> str:
    """Name the backend that this torch was built for."""
    if hasattr(torch.backends, "tpu"):
        return "tpu"
    if hasattr(torch, "neuron"):
        return "neuron"
    if torch.version.cuda is not None:
        return "cuda"
    if torch.version.hip is not None:
        return "rocm"
    if torch.backends.mps.is_available():
        return "metal"
    if getattr(torch.version, "xpu", None) is not None:
        return "xpu"
    return "cpu"


_NAMESPACE = f"_{module}_{{get_backend()}}_{unique}"

ops = getattr(torch.ops, _NAMESPACE)


def add_op_namespace_prefix(op_name: str) -> str:
    """Give the operator's full name, e.g. for torch.library.custom_op."""
    return f"{{_NAMESPACE}}::{{op_name}}"
'''

# The part of torch/all.h that kernels use: tensors, factories, operators, TORCH_CHECK and TORCH_LIBRARY. The rest (nn,
# optim, data, serialize, jit) takes more than half of the compile time.
LIGHT_ALL = """\
#pragma once

#include <torch/types.h>
#include <torch/version.h>
"""

# The values of configure that the stable ABI needs; sizes are those of the target machine. The #error is needed because
# CPython's macros access structures without symbols, so the wheel check cannot detect them in the binary.
PYCONFIG = """\
#pragma once

#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 > {0}
#error "the wheel is for every Python from that of its tag on: Py_LIMITED_API must stay {0}, or be older"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#define SIZEOF_SHORT __SIZEOF_SHORT__
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_VOID_P __SIZEOF_POINTER__
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
"""


_LICENCE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)([.-][A-Za-z0-9.-]+)?")
_CHECKED = "build/checked"  # written by the framework's check of the extension
_UNIQUE = 10  # hex digits of a digest in the operators' namespace
# Documentation in any folder, and top-level folders without code.
_DOCUMENT = re.compile(r"(README|CHANGELOG|CHANGES|HISTORY|NEWS|AUTHORS|CONTRIBUTING|CITATION)([.-].*)?", re.IGNORECASE)
_DOCUMENT_SUFFIXES = frozenset({".lock", ".md", ".nix", ".rst", ".txt"})
_NOT_CODE = frozenset({"benchmark", "benchmarks", "doc", "docs", "example", "examples", "media", "test", "tests"})
_PYTHON_H = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[<\"]Python\.h[>\"]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource(Record):
    """The facts about a kernel's files that planning needs.

    :param paths: every file, relative to the kernel's folder, sorted.
    :param readme: the text that becomes the wheel's description.
    :param includes_python: a file that may be compiled includes CPython's headers.
    :param code: sha256 of the files that may be compiled or imported; empty if nothing is compiled.
    """

    id: SourceId
    paths: tuple[str, ...]
    readme: str | None
    includes_python: bool = False
    code: str = ""

    @property
    def licences(self) -> tuple[str, ...]:
        """The licence files: files at the top that have the name of one."""
        return tuple(path for path in self.paths if is_licence(path))


def is_licence(path: str) -> bool:
    """Return True if a file name is that of a licence."""
    return _LICENCE.fullmatch(path) is not None


def code_digest(spec: KernelSpec, files: Mapping[str, str]) -> str:
    """Return the sha256 of all files that may be compiled, included or shipped.

    Source files and the Python package always count. Other documentation, licences, tests and hidden files are ignored.

    :param files: every file of the kernel, path → sha256.
    """
    lines = (
        f"{path}\0{sha256}\n"
        for path, sha256 in sorted(files.items())
        if is_known_source(path) or path.startswith(f"{spec.root}/") or not _is_documentation(PurePosixPath(path))
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _is_documentation(path: PurePosixPath) -> bool:
    if is_licence(path.name) or _DOCUMENT.fullmatch(path.name) or path.suffix in _DOCUMENT_SUFFIXES:
        return True
    return path.parts[0] in _NOT_CODE or any(part.startswith(".") for part in path.parts)


def includes_python(spec: KernelSpec, paths: Iterable[str], read: Callable[[str], bytes]) -> bool:
    """Return True if a source or header of the kernel includes ``Python.h``.

    :param paths: every file of the kernel.
    :param read: returns the content of a file.
    """
    target_framework = framework(spec.framework)
    if spec.binding is None or target_framework.limited_api is None:
        return False
    # The build overwrites these files.
    written = target_framework.files(LoaderInputs(package=spec.package, namespace="", backend="", release="0"))
    generated = {f"{target_framework.packages}/{path}" for path in written}
    sources = (path for path in paths if is_known_source(path) and path not in generated)
    return any(_PYTHON_H.search(read(path)) for path in sources)


def namespace(spec: KernelSpec, backend: str, source: KernelSource) -> str:
    """Return the name of the operators' namespace, unique per kernel, backend and code.

    Two versions of a kernel with different code can then be loaded in one process.
    """
    return f"_{spec.module}_{backend}_{source.code[:_UNIQUE]}"


def compiled_recipe(
    spec: KernelSpec, source: KernelSource, groups: tuple[SourceGroup, ...], target: CompileTarget
) -> Recipe:
    """Return the steps, generated files and contents of a wheel with a compiled extension.

    :raises BuildTomlError: a source in build.toml does not exist or has an unknown type.
    """
    _check_sources(groups, source, spec.file)
    compiled = tuple(compile_steps(groups, target))
    stubs = stub_steps(target)
    target_framework = target.framework
    module_file = f"build/{target.namespace}{target_framework.suffix}"
    suffixes = {".py", ".pyi", *("." + extension.lstrip(".") for extension in spec.pyext)}
    objects = tuple(step.output for step in compiled)
    link = link_step(objects, tuple(step.output for step in stubs), module_file, target)
    extension = f"{spec.module}/{target.namespace}{target_framework.suffix}"
    inputs = LoaderInputs(
        package=spec.package,
        namespace=target.namespace,
        backend=target.backend,
        release=target.release,
        floor=target.stable_abi,
        functions=target.functions,
    )
    files = target_framework.files(inputs)
    command = target_framework.check_command(inputs, module_file, _CHECKED)
    checks = (check_step(command, module_file, _CHECKED),) if command else ()
    return Recipe(
        steps=(*compiled, *stubs, link, *checks),
        generated={
            "pyproject.toml": PYPROJECT,
            **{f"{target_framework.packages}/{path}": text for path, text in files.items()},
            **({f"{OWN_HEADERS}/torch/all.h": LIGHT_ALL} if target.light_headers else {}),
            **({f"{OWN_HEADERS}/pyconfig.h": PYCONFIG.format(target_framework.limited_api)} if target.python else {}),
        },
        contents={**_python_files(spec, source, suffixes), extension: module_file},
        namespace=target.namespace,
        extension=extension,
    )


def noarch_recipe(spec: KernelSpec, source: KernelSource) -> Recipe:
    """Return the recipe of a kernel without compiled code: its complete Python package.

    Such kernels contain data and headers that they read or compile at run time. kernel-builder ships every file too.
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


def is_bytecode(path: str) -> bool:
    """Return True for Python bytecode."""
    return path.endswith(".pyc") or "__pycache__" in PurePosixPath(path).parts


def _python_files(spec: KernelSpec, source: KernelSource, suffixes: set[str] | None) -> dict[str, str]:
    """Return the files of the kernel's Python package: path in the wheel → path in the work folder.

    :param suffixes: file suffixes that are shipped; None for every file except bytecode.
    """
    root = f"{spec.root}/"
    found = {
        f"{spec.module}/{path.removeprefix(root)}": f"src/{path}"
        for path in source.paths
        if path.startswith(root) and (not is_bytecode(path) if suffixes is None else splitext(path)[1] in suffixes)
    }
    if f"{spec.module}/__init__.py" not in found:
        raise BuildTomlError(
            f"the kernel has no {root}__init__.py",
            where=Place(file=spec.file),
            remedy=f"put the Python package of the kernel {spec.name} there",
        )
    return {**found, f"{spec.module}/_ops.py": f"src/{root}_ops.py"}


def _check_sources(groups: tuple[SourceGroup, ...], source: KernelSource, file: str) -> None:
    there = frozenset(source.paths)
    for path in (path for group in groups for path in group.src):
        if path not in there:
            close = closest(path, there)
            remedy = f"did you mean {close!r}?" if close else None
            raise BuildTomlError(f"src contains {path}, which does not exist", where=Place(file=file), remedy=remedy)
        if not is_known_source(path):
            raise BuildTomlError(
                f"src contains {path}, which is neither C, C++, CUDA nor a header",
                where=Place(file=file),
            )


REQUIRES_PYTHON = ">=3.9"


def render_metadata(
    spec: KernelSpec,
    source: KernelSource,
    distribution: str,
    version: str,
    requirements: tuple[str, ...],
    extras: Mapping[str, tuple[str, ...]] | None = None,
) -> str:
    """Return the content of METADATA, version 2.4 (core metadata specification).

    :param extras: extra → its additional requirements.
    """
    fields = [("Metadata-Version", "2.4"), ("Name", distribution), ("Version", version)]
    fields += [("Summary", f"The {spec.name} kernel for {spec.framework}"), *_licence(spec.license)]
    fields += [("License-File", path) for path in source.licences]
    fields += [
        ("Project-URL", f"{label}, {url}")
        for label, url in (("Upstream", spec.upstream), ("Source", spec.source))
        if url and url.startswith(("https://", "http://")) and url.isprintable()
    ]
    fields.append(("Requires-Python", REQUIRES_PYTHON))
    fields += [("Requires-Dist", text) for text in requirements]
    for extra, texts in sorted((extras or {}).items()):
        fields.append(("Provides-Extra", extra))
        fields += [("Requires-Dist", f'{text}; extra == "{extra}"') for text in texts]
    fields.append(("Description-Content-Type", "text/markdown"))
    head = "".join(f"{name}: {value}\n" for name, value in fields)
    return f"{head}\n{_description(spec, source.readme)}"


@cache
def _licence(licence: str | None) -> tuple[tuple[str, str], ...]:
    if not licence:
        return ()
    try:
        return (("License-Expression", canonicalize_license_expression(licence)),)
    except InvalidLicenseExpression:
        # Old build.toml files contain free text, for which METADATA has another field.
        return (("License", " ".join(licence.split())),)


def _description(spec: KernelSpec, readme: str | None) -> str:
    """Return the readme without the YAML block that the Hub adds at the top."""
    text = (readme or f"# {spec.name}\n").replace("\r\n", "\n")
    if text.startswith("---\n") and "\n---\n" in text:
        text = text.split("\n---\n", 1)[1]
    return text.lstrip("\n") or f"# {spec.name}\n"
