"""Read build.toml, editions 3, 4 and 5. Unknown keys and invalid values are errors with their place.

The rules are those of kernel-builder: huggingface/kernels, kernels-data/src/config.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import replace
from pathlib import PurePosixPath

from wheelsmith.base.errors import BuildTomlError, MatrixMistakesError, Place
from wheelsmith.base.suggest import closest, did_you_mean
from wheelsmith.frameworks import frameworks
from wheelsmith.model import TORCH
from wheelsmith.plan.recipe.spec import BUILT_BACKENDS, Binding, KernelSpec, Section
from wheelsmith.plan.recipe.toml_reader import TableReader, TomlPlaces, load_toml
from wheelsmith.platforms import header_libraries, platforms

BACKENDS = ("cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu")
_COMPILED = ("cpu", "cuda", "metal", "rocm", "xpu")  # backends of sections
_NEWEST_EDITION = 5
_NOARCH = "torch-noarch"
_RELEASE = "0123456789_"  # the end of a library's name
_NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
_STABLE = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_FUNCTION = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_UPDATE = "update the file with: kernel-builder update-build"


def parse_build_toml(text: str, *, file: str = "build.toml") -> KernelSpec:
    """Parse a kernel's build.toml.

    :raises MatrixMistakesError: all mistakes in the file.
    :raises BuildTomlError: it is not TOML, or its edition is not supported.
    """
    data = load_toml(text, file, BuildTomlError)
    mistakes: list[BuildTomlError] = []
    root = TableReader(data, (), TomlPlaces.scan(text, file), mistakes)
    spec = replace(_kernel(root, file), file=file)
    root.check_unknown_keys()
    if mistakes:
        mistakes.sort(key=lambda m: (m.where.line, m.where.column) if m.where else (0, 0))
        raise MatrixMistakesError(tuple(mistakes))
    return spec


def _kernel(root: TableReader, file: str) -> KernelSpec:
    general = root.table("general")
    if general is None:
        raise BuildTomlError("[general] is missing", where=Place(file=file, line=1), remedy=_UPDATE)
    edition = _edition(root, general)
    name = general.required("name")
    if "name" in general and not _NAME.fullmatch(name):
        general.add_mistake(f"{name!r} is not a kernel name: use lower-case letters, digits and dashes", "name")
    if edition == _NEWEST_EDITION:
        _require_backends(general)
    backends = general.texts("backends")
    for backend in backends:
        if backend not in BACKENDS:
            general.add_mistake(f"unknown backend {backend!r}", "backends", did_you_mean(backend, BACKENDS))
    python_depends = {"": general.texts("python-depends")}
    kernel_depends = {"": _kernel_depends(general)}
    bounds = _backend_tables(general, python_depends, kernel_depends)
    framework, binding, pyext = _framework(root, general, edition)
    spec = KernelSpec(
        name=name,
        edition=edition,
        version=general.integer("version"),
        license=general.text("license"),
        backends=backends,
        upstream=general.text("upstream"),
        source=general.text("source"),
        framework=framework,
        binding=binding,
        pyext=pyext,
        sections=_sections(root),
        toolkit_bounds=bounds,
        python_depends=python_depends,
        kernel_depends=kernel_depends,
        repo_id=_hub(general),
    )
    general.check_unknown_keys()
    if edition > 3:  # noqa: PLR2004  # both are optional in edition 3
        for key in ("version", "license"):
            if key not in general:
                general.add_mistake(f"{key} is missing in [general]")
    return spec


def _edition(root: TableReader, general: TableReader) -> int:
    """Return the edition by kernel-builder's rule: the file contains it only from edition 5 on."""
    edition = general.integer("edition")
    if edition is not None:
        if edition != _NEWEST_EDITION:
            remedy = "write edition = 5, or remove the key: files of edition 3 and 4 do not have it"
            general.add_mistake(f"edition = {edition} is not supported: only edition 5 has this key", "edition", remedy)
        return _NEWEST_EDITION
    torch = root.raw("torch")
    if "universal" in general or (isinstance(torch, dict) and "universal" in torch):
        general.add_mistake("this build.toml has edition 1 or 2, which is no longer supported", remedy=_UPDATE)
        for key in ("universal", "cuda-minver", "cuda-maxver"):
            general.raw(key)
    else:
        _require_backends(general)
    return 4 if "version" in general and "license" in general else 3


def _require_backends(general: TableReader) -> None:
    if "backends" not in general:
        remedy = f'list the supported backends, such as backends = ["cpu", "cuda"]; in an older file, {_UPDATE}'
        general.add_mistake("backends is missing in [general]", remedy=remedy)


def _backend_tables(
    general: TableReader, python: dict[str, tuple[str, ...]], kernels: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str | None, str | None]]:
    """Read ``[general.<backend>]``. Tables of backends that wheelsmith does not build are read and ignored."""
    bounds: dict[str, tuple[str | None, str | None]] = {}
    for backend in ("cuda", "xpu", "neuron", "tpu"):
        table = general.table(backend)
        if table is None:
            continue
        python[backend] = table.texts("python-depends")
        if backend != "tpu":
            kernels[backend] = _kernel_depends(table)
        if backend in platforms() and platforms()[backend].section_keys[-1]:
            bounds[backend] = (table.version("minver"), table.version("maxver"))
        table.check_unknown_keys()
    return bounds


def _kernel_depends(table: TableReader) -> tuple[str, ...]:
    value = table.raw("kernel-depends")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) and "repo-id" in item for item in value):
        table.add_mistake("kernel-depends must be a list of tables with repo-id", "kernel-depends")
        return ()
    for item in value:
        if ("version" in item) == ("revision" in item) or item.keys() - {"repo-id", "version", "revision"}:
            table.add_mistake("a kernel dependency has repo-id and one of version and revision", "kernel-depends")
    return tuple(str(item["repo-id"]) for item in value)


def _hub(general: TableReader) -> str | None:
    """Return the Hub repo of the kernel. Only the wheel's description uses it."""
    hub = general.table("hub")
    if hub is None:
        return None
    repo = hub.text("repo-id")
    hub.text("branch")
    hub.check_unknown_keys()
    return repo


def _framework(root: TableReader, general: TableReader, edition: int) -> tuple[str, Binding | None, tuple[str, ...]]:
    """Return the framework, the binding, and the file types that are shipped with the Python package."""
    found = {name: table for name in (*frameworks(), _NOARCH) if (table := root.table(name))}
    if len(found) > 1:
        root.add_mistake(f"use only one framework: {' or '.join(f'[{name}]' for name in found)}", list(found)[-1])
    for name, table in found.items():
        if name == _NOARCH:
            return TORCH, None, _noarch(table)
        binding = _binding(name, table)
        return name, binding, binding.pyext
    if edition == _NEWEST_EDITION:
        general.add_mistake(f"a framework is missing: {', '.join(f'[{name}]' for name in (*frameworks(), _NOARCH))}")
    return TORCH, None, ()


def _noarch(table: TableReader) -> tuple[str, ...]:
    pyext = table.texts("pyext")
    # kernel-builder spells these two keys with underscores.
    for key in ("cuda_capabilities", "rocm_archs"):
        table.texts(key)
    table.check_unknown_keys()
    return pyext


def _binding(framework: str, table: TableReader) -> Binding:
    common = Binding(
        src=_paths(table, "src"),
        include=_paths(table, "include"),
        pyext=table.texts("pyext"),
        cxx_flags=table.texts("cxx-flags"),
    )
    used = frameworks()[framework]
    if used.has_stable_abi:
        common = replace(common, stable_abi=_stable_abi(table))
    if used.calls_functions:
        common = replace(common, functions=_functions(table))
    if framework == TORCH:
        common = replace(common, minver=table.version("minver"), maxver=table.version("maxver"))
    table.check_unknown_keys()
    return common


def _stable_abi(table: TableReader) -> dict[str, str]:
    value = table.raw("stable-abi")
    if value is None:
        return {}
    named = dict.fromkeys(BUILT_BACKENDS, value) if isinstance(value, str) else value
    if not isinstance(named, dict):
        table.add_mistake("stable-abi must be a release such as 2.11, or a table of them by backend", "stable-abi")
        return {}
    for backend, release in named.items():
        if backend not in BACKENDS:
            table.add_mistake(f"unknown backend {backend!r}", "stable-abi", did_you_mean(backend, BACKENDS))
        if not isinstance(release, str) or not _STABLE.fullmatch(release):
            table.add_mistake(f"stable-abi must be a release such as 2.11, not {release!r}", "stable-abi")
            return {}
    return {backend: release for backend, release in named.items() if backend in BUILT_BACKENDS}


def _functions(table: TableReader) -> tuple[str, ...]:
    """Return the C functions that the framework calls. Their names become Python names, too."""
    names = table.texts("functions")
    if not names:
        table.add_mistake("functions is missing or empty", remedy='list the C functions, e.g. functions = ["Scale"]')
    for name in names:
        if not _FUNCTION.fullmatch(name) or keyword.iskeyword(name):
            table.add_mistake(f"{name!r} is not the name of a C function", "functions")
    return names


def _sections(root: TableReader) -> tuple[Section, ...]:
    kernels = root.table("kernel")
    if kernels is None:
        return ()
    found = (_section(name, table) for name, table in kernels.tables())
    return tuple(section for section in found if section)


def _section(name: str, table: TableReader) -> Section | None:
    if "language" in table:
        table.add_mistake("kernel sections with a language belong to edition 1", "language", _UPDATE)
        return None
    backend = table.required("backend")
    if backend not in _COMPILED:
        table.add_mistake(f"unknown backend {backend!r}", "backend", did_you_mean(backend, _COMPILED))
        return None
    if "depends" not in table:
        table.add_mistake(f"depends is missing in [kernel.{name}]", remedy='depends = ["torch"], or [] for none')
    flags, capabilities, minver = _device_keys(backend, table)
    section = Section(
        name=name,
        backend=backend,
        src=_paths(table, "src"),
        depends=table.texts("depends"),
        include=_paths(table, "include"),
        cxx_flags=table.texts("cxx-flags"),
        device_flags=flags,
        capabilities=capabilities or None,
        toolkit_minver=minver,
    )
    if not section.src:
        table.add_mistake(f"src is missing or empty in [kernel.{name}]", "src")
    for dependency in section.depends:
        _check_spelling(dependency, table)
    table.check_unknown_keys()
    return section if backend in BUILT_BACKENDS else None


def _check_spelling(dependency: str, table: TableReader) -> None:
    """Add a mistake if a dependency is a misspelled known one. An unknown release of a library is no mistake."""
    known = (*frameworks(), *header_libraries())
    libraries = {name.rstrip(_RELEASE) for name in known}
    if dependency.rstrip(_RELEASE) not in libraries and (meant := closest(dependency, known, cutoff=0.75)):
        table.add_mistake(f"unknown dependency {dependency!r}", "depends", f"did you mean {meant!r}?")


def _device_keys(backend: str, table: TableReader) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
    """Read a section's keys for the platform's compiler: flags, capabilities and the oldest toolkit."""
    platform = platforms().get(backend)
    if platform is None:
        return (), (), None
    flags, archs, minver = platform.section_keys
    capabilities = table.texts(archs) if archs else ()
    for capability in capabilities:
        try:
            platform.check_capability(capability)
        except ValueError as error:
            table.add_mistake(str(error), archs)
    return table.texts(flags), capabilities, table.version(minver) if minver else None


def _paths(table: TableReader, key: str) -> tuple[str, ...]:
    paths = table.texts(key)
    for path in paths:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not path or path.startswith("-"):
            table.add_mistake(f"{path!r} is not a path inside the kernel's folder", key)
    return paths
