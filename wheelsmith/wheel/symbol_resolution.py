"""Resolve libraries and symbols as the loader does: in the wheel, the platform, torch, CUDA and Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from packaging.specifiers import SpecifierSet

from wheelsmith.frameworks import Exports, Framework, cuda_major, frameworks, names_cuda, read_local_version
from wheelsmith.platforms import DRIVER_LIBRARIES, Rocm, cuda_packages, is_runtime_library, runtime_library
from wheelsmith.wheel.bundled_libraries import BundledLibraries
from wheelsmith.wheel.elf import Extension, NeededVersion, Reference
from wheelsmith.wheel.manylinux import newest_policy, policies
from wheelsmith.wheel.symbols import (
    LibraryExports,
    SymbolTable,
    cuda_exports,
    platform_exports,
    prerelease_table,
    symbol_table,
)

CUDA_MAJORS = (11, 12, 13)
# The libraries that only torch's CUDA builds have.
TORCH_CUDA = {
    *("libtorch_cuda.so", "libc10_cuda.so", "libcaffe2_nvrtc.so"),
    *("libtorch_nvshmem.so", "libtorch_cuda_linalg.so"),
}
# The libraries that only torch's ROCm builds have.
TORCH_ROCM = ("libtorch_hip.so", "libc10_hip.so")
# Mangled C++ names in the namespaces that torch's hipify used before its version 2.
_ROCM_SYMBOL = re.compile(r"_Z(?:T[ISVT])?N?[KVRO]*(?:2at|3c10|5torch)3hip")
# auditwheel adds a hash to the names of the libraries that it copies.
CUDA_LIBRARY = re.compile(r"lib(?P<stem>[\w-]+?)(?:[-.][0-9a-f]{8})?\.so(?:\.(?P<major>\d{1,4})(?:\.[\d.]+)?)?")
# CUDA library → the library of another package that it needs.
_NEEDS = {"cusparse": "nvJitLink"}
_TOOLKIT = "cuda-toolkit"  # its extras require the other packages
_LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
# The libraries that Python needs on every Linux, and those that these need.
_PYTHON = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1")
# The only library that torch/__init__.py loads with RTLD_GLOBAL.
_TORCH_GLOBAL = "libtorch_global_deps.so"


def cuda_releases(library: str) -> list[int]:
    """Return the known major releases of CUDA with a library of exactly this name."""
    return [major for major in CUDA_MAJORS if (found := cuda_exports(major)) and library in found.symbols]


def why_cuda_lacks(
    table: SymbolTable | None, library: str, torch: Iterable[str], required: Collection[str]
) -> str | None:
    """Return why nothing provides a CUDA library to a wheel that requires torch, or None if something does.

    :param table: the libraries of torch.
    :param torch: known torch releases that the requirement admits, e.g. ``2.11``.
    :param required: normalized names of all projects that the wheel requires.
    """
    match = CUDA_LIBRARY.fullmatch(library)
    if match is None or library in DRIVER_LIBRARIES:
        return None
    lacking = [
        release
        for release in torch
        if match["stem"] not in (_cuda_libraries_of_torch(table, release) or {match["stem"]})
    ]
    package = next((name for name, stems in cuda_packages().libraries.items() if match["stem"] in stems), None)
    if not lacking or (package and any(_provides_package(name, package) for name in required)):
        return None
    remedy = f"; require {package}" if package else ""
    return f"a CUDA library that torch {', '.join(lacking)} does not load{remedy}"


def _provides_package(name: str, package: str) -> bool:
    """Return True if a required project is a CUDA package, for any CUDA release, or the package of all of them."""
    return name in {_TOOLKIT, package} or bool(re.fullmatch(rf"{re.escape(package)}-cu\d\d", name))


def _cuda_libraries_of_torch(table: SymbolTable | None, release: str) -> frozenset[str]:
    """Return the CUDA libraries that a torch release loads, without ``lib`` and version numbers.

    Return none if the symbol table has only the CPU build of the release.
    """
    libraries = table.libraries.get(release, {}) if table else {}
    needed = {match["stem"] for each in libraries.values() for n in each.needed if (match := CUDA_LIBRARY.fullmatch(n))}
    if "cudart" not in needed:
        return frozenset()
    return frozenset(needed | {more for stem, more in _NEEDS.items() if stem in needed})


@dataclass(slots=True, kw_only=True)
class LookupScope:
    """The libraries in which the loader searches for the symbols of a file.

    :param own: paths of the wheel's libraries.
    :param others: names of the platform's and CUDA's libraries.
    :param torch: release → file names of torch's libraries.
    :param frameworks: names of libraries of frameworks that the wheel requires.
    :param unknown: names of libraries with unknown symbols.
    """

    own: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    torch: dict[str, set[str]] = field(default_factory=dict)
    frameworks: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def add(self, other: LookupScope) -> None:
        """Add the scope of another file."""
        self.own |= other.own
        self.others |= other.others
        self.frameworks |= other.frameworks
        self.unknown |= other.unknown
        for release, files in other.torch.items():
            self.torch.setdefault(release, set()).update(files)


class SymbolResolver:
    """Finds the providers of the libraries and symbols that a wheel needs.

    :param extensions: path in the wheel → ELF file.
    :param platforms: platform tags.
    :param compute: ``cpu``, ``cu130``, or None if the version does not name one.
    :param torch: known torch releases that the requirement admits, e.g. ``2.11``; None if the wheel does not require
        torch.
    :param projects: normalized name of each required framework → allowed versions.
    :param required: normalized names of all required projects.
    :param prerelease: the build of torch, ``2.16.0rc2+cu130``, if the wheel is for a pre-release.
    """

    def __init__(
        self,
        extensions: Mapping[str, Extension],
        platforms: frozenset[str],
        compute: str | None,
        torch: tuple[str, ...] | None,
        projects: Mapping[str, SpecifierSet] | None = None,
        required: frozenset[str] = frozenset(),
        prerelease: str | None = None,
    ) -> None:
        self.extensions = extensions
        self.compute = compute
        self.torch = torch
        self.bundled = BundledLibraries(extensions)
        self._projects = projects or {}
        self._required = required
        self.prerelease = prerelease
        self._tables_of_torch: dict[str, SymbolTable | None] = {}
        self._platforms = platforms
        self._scopes: dict[str, LookupScope] = {}
        named = {path: read_local_version(re.sub("[-_/]+", ".", path.lower())).torch for path in extensions}
        self._named_torch = named if len({*named.values()} - {None}) > 1 else {}

    def torch_table(self, arch: str) -> SymbolTable | None:
        """Return the exports of torch: of all releases, or of the pre-release that the wheel is for."""
        if self.prerelease is None:
            return symbol_table(arch)
        if arch not in self._tables_of_torch:
            self._tables_of_torch[arch] = prerelease_table(self.prerelease, arch)
        return self._tables_of_torch[arch]

    def torch_of(self, path: str) -> tuple[str, ...] | None:
        """Return the known torch releases that may load a file, or None if the wheel does not require torch.

        Of several libraries for one release each, the path names the release: ``torch-2.10/lib/x.so``.
        """
        named, table = self._named_torch.get(path), self.torch_table(self.extensions[path].arch)
        if named is None or self.torch is None:
            return self.torch
        is_known = table is None or named in table.releases
        return ((named,) if named in self.torch else self.torch) if is_known else ()

    def is_platform_library(self, arch: str, library: str) -> bool:
        """Return True if every machine of the platform tags has a library."""
        if library == f"libc.musl-{arch}.so.1":
            return all(platform.startswith(("musllinux_", "linux_")) for platform in self._platforms)
        return library == _LOADERS.get(arch) or library in self._platform_libraries

    def is_framework_library(self, library: str) -> bool:
        """Return True if a required framework loads a library when it is imported."""
        return any(each.project in self._projects for each, _ in _frameworks_with(library))

    def frameworks_without(self, scope: LookupScope, symbol: str) -> str | None:
        """Return the framework and those of its allowed versions that lack a symbol; empty if none lacks it.

        Return None if the symbol does not belong to a required framework.
        """
        for library in sorted(scope.frameworks):
            for each, exports in _frameworks_with(library):
                if exports.has(symbol):
                    lacking = exports.versions_without(symbol, self._projects[each.project])
                    return f"{each.project} {', '.join(lacking[:5])}" if lacking else ""
        return None

    def why_not_in_torch(self, path: str, library: str) -> str | None:
        """Return why torch does not provide one of its libraries to a file, or None if it does."""
        releases, table = self.torch_of(path), self.torch_table(self.extensions[path].arch)
        if releases is None:
            return "a torch library, but the wheel does not require torch"
        lacking = [r for r in releases if table and not self._torch_file(table, r, library)]
        if not lacking:
            return None
        renamed = table.renamed_library(lacking[-1], library) if table else None
        kind = " for cpu" if self.compute == "cpu" else ""
        # Its symbols are available without a link: torch's libraries need it, so the loader searches it.
        remedy = f" ({lacking[-1]} has it as {renamed}: do not link with {library})" if renamed else ""
        return f"not in torch {', '.join(lacking)}{kind}{remedy}"

    def is_rocm_library(self, library: str) -> bool:
        """Return True if torch's build for the ROCm of the version loads a library."""
        release = Rocm().version_of(self.compute or "")
        return bool(release and self.torch is not None and library in {*TORCH_ROCM, runtime_library(release)})

    def is_rocm_symbol(self, reference: Reference) -> bool:
        """Return True if only torch's ROCm build can have a symbol, or HIP's runtime, whose symbols have versions."""
        if not Rocm().version_of(self.compute or ""):
            return False
        return is_runtime_library(reference.library or "") or bool(_ROCM_SYMBOL.match(reference.name))

    def why_not_in_cuda(self, arch: str, library: str) -> str | None:
        """Return why CUDA does not provide one of its libraries, or None if it does or if that is unknown."""
        majors = cuda_releases(library)
        if self.compute == "cpu":
            return "a CUDA library, but the version is for cpu"
        if self.compute and names_cuda(self.compute) and cuda_major(self.compute) not in majors:
            return f"a library of CUDA {', '.join(map(str, majors))}, but the version is for {self.compute}"
        table = self.torch_table(arch)
        return None if self.torch is None else why_cuda_lacks(table, library, self.torch, self._required)

    def scope(self, path: str) -> LookupScope:
        """Return the libraries in which the loader searches for the symbols of a file.

        These are the file's own, and those of each file that loads it (``man 3 dlopen``).
        """
        combined = LookupScope()
        for file in (path, *self._needed_by.get(path, ())):
            combined.add(self._scope_of(file))
        return combined

    @property
    def cuda_libraries(self) -> frozenset[str]:
        """The names of the CUDA libraries that a process may have loaded; none for ``cpu``."""
        tables = [found for major in self._majors if (found := cuda_exports(major))] if self.compute != "cpu" else []
        return frozenset(library for table in tables for library in table.symbols)

    def provides(self, scope: LookupScope, arch: str, reference: Reference) -> bool:
        """Return True if a library of the wheel, the platform or CUDA in the scope exports a symbol."""
        if self.wheel_provides(scope, reference):
            return True
        for table in self._tables(arch):
            for library in scope.others & table.symbols.keys():
                versions = table.versions(library, reference.name)
                # A library without versions satisfies any version.
                if versions and (reference.version in {None, *versions} or versions == ("",)):
                    return True
        return False

    def wheel_provides(self, scope: LookupScope, reference: Reference) -> bool:
        """Return True if a library of the wheel in the scope exports a symbol."""
        return any(self.extensions[path].provides(reference) for path in scope.own)

    def has_version(self, scope: LookupScope, path: str, need: NeededVersion) -> bool:
        """Return True if the loader finds a needed version in its library.

        The loader searches the versions that the library defines (``_dl_check_map_versions``). It accepts any version
        if the library defines none.

        :param path: the file that needs the version.
        """
        if own := self.bundled.find_provider(path, need.library):
            defined = self.extensions[own].defined_versions
            return own in scope.own and (not defined or need.name in defined)
        if need.library not in scope.others.union(*scope.torch.values()):
            return False
        arch = self.extensions[path].arch
        defined_by = [table.defined(need.library) for table in self._tables(arch) if need.library in table.symbols]
        if not defined_by or not all(defined_by) or any(need.name in versions for versions in defined_by):
            return True
        # A library may define versions without symbols, such as GLIBC_ABI_…. auditwheel's policies list others.
        family = need.name.partition("_")[0]
        known = need.name.startswith("GLIBC_ABI_") or policies("manylinux")[-1].allows([need.name], arch)
        return known and any(version.partition("_")[0] == family for found in defined_by for version in found)

    def torch_releases_without(self, scope: LookupScope, arch: str, symbol: str) -> list[str]:
        """Return the torch releases that do not export a symbol in the scope."""
        table = self.torch_table(arch)
        found = {
            files: table.exported_by(symbol, files) if table else frozenset()
            for files in {frozenset(files) for files in scope.torch.values()}
        }
        return [release for release, files in scope.torch.items() if release not in found[frozenset(files)]]

    @property
    def _majors(self) -> tuple[int, ...]:
        return (cuda_major(self.compute),) if self.compute and names_cuda(self.compute) else CUDA_MAJORS

    def _tables(self, arch: str) -> list[LibraryExports]:
        return [platform_exports(arch), *(found for major in self._majors if (found := cuda_exports(major)))]

    @cached_property
    def _platform_libraries(self) -> frozenset[str]:
        found = [policy.libraries for tag in self._platforms if (policy := newest_policy(tag))]
        # A plain linux tag promises nothing. Then the newest policy is the best assumption.
        return frozenset.intersection(*found) if found else policies("manylinux")[-1].libraries

    @cached_property
    def _needed_by(self) -> dict[str, list[str]]:
        """Path → the other files that need it, directly or indirectly."""
        found: dict[str, list[str]] = {}
        for path in self.extensions:
            for own in self._scope_of(path).own - {path}:
                found.setdefault(own, []).append(path)
        return found

    def _scope_of(self, path: str) -> LookupScope:
        if path not in self._scopes:
            self._scopes[path] = self._read_scope(path, self.extensions[path])
        return self._scopes[path]

    def _read_scope(self, path: str, extension: Extension) -> LookupScope:
        scope = LookupScope(own={path}, others={_LOADERS[extension.arch]})
        if extension.kind != "program":
            scope.others.update(_PYTHON)
        wanted = [(path, library) for library in extension.needed]
        names: list[str] = []
        while wanted:
            needing, library = wanted.pop()
            own = self.bundled.find_provider(needing, library)
            if own is None:
                names.append(library)
            elif own not in scope.own:
                scope.own.add(own)
                wanted += [(own, more) for more in self.extensions[own].needed]
        scope.others.update(names)
        torch_libraries = [library for library in names if library in torch_names(extension.arch)]
        if torch_libraries or self.torch:
            self._add_torch(scope, path, [*torch_libraries, _TORCH_GLOBAL] if self.torch else torch_libraries)
        known = platform_exports(extension.arch).symbols
        unrecognized = {
            lib for lib in names if lib not in known and lib not in torch_libraries and not cuda_releases(lib)
        }
        scope.frameworks.update(library for library in unrecognized if self.is_framework_library(library))
        scope.unknown.update(lib for lib in unrecognized - scope.frameworks if not self.is_rocm_library(lib))
        return scope

    def _add_torch(self, scope: LookupScope, path: str, libraries: list[str]) -> None:
        """Add the libraries that torch's libraries load, for each release that may load a file, or all known ones."""
        table, releases = self.torch_table(self.extensions[path].arch), self.torch_of(path)
        if table is None:
            return
        for release in table.releases if releases is None else releases:
            files = scope.torch.setdefault(release, set())
            wanted = list(libraries)
            while wanted:
                file = self._torch_file(table, release, wanted.pop())
                if file and file not in files:
                    files.add(file)
                    needed = table.libraries[release][file].needed
                    # The table has only torch's CUDA builds. CPU builds need no CUDA library.
                    scope.others.update(n for n in needed if self.compute != "cpu" or not cuda_releases(n))
                    wanted += needed

    def _torch_file(self, table: SymbolTable, release: str, library: str) -> str | None:
        file = table.find_library(release, library)
        return None if self.compute == "cpu" and file in TORCH_CUDA else file


def _frameworks_with(library: str) -> Iterator[tuple[Framework, Exports]]:
    for each in frameworks().values():
        yield from ((each, exports) for exports in each.exports() if exports.library == library)


@cache
def torch_names(arch: str) -> frozenset[str]:
    """Return the file names and sonames of the libraries of all torch releases."""
    table = symbol_table(arch)
    found = (library for libraries in table.libraries.values() for library in libraries.items()) if table else ()
    return frozenset(name for file, library in found for name in (file, library.soname))
