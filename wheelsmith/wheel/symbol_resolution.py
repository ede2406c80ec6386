"""Who brings a library, and who offers a symbol: the wheel itself, the platform, torch, CUDA, Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from packaging.specifiers import SpecifierSet

from wheelsmith.frameworks import Exports, Framework, cuda_major, frameworks, names_cuda
from wheelsmith.wheel.bundled_libraries import OwnLibraries
from wheelsmith.wheel.elf import Extension, NeededVersion, Reference
from wheelsmith.wheel.manylinux import policies, policy_of
from wheelsmith.wheel.symbols import SymbolTable, cuda_exports, platform_exports, symbol_table
from wheelsmith.wheel.torch_libraries import why_not_brought

CUDA_MAJORS = (11, 12, 13)
_MOST_NAMED = 5  # versions in a message
_LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
# What Python itself is linked with on every Linux, and what any of it needs.
_PYTHON = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1")
# Of torch's libraries, those that only a torch for CUDA has.
TORCH_CUDA = {
    *("libtorch_cuda.so", "libc10_cuda.so", "libcaffe2_nvrtc.so"),
    *("libtorch_nvshmem.so", "libtorch_cuda_linalg.so"),
}
# torch/__init__.py loads this one for all to see (RTLD_GLOBAL), and everything else for itself alone.
_TORCH_GLOBAL = "libtorch_global_deps.so"


def cuda_releases(library: str) -> list[int]:
    """Return the major releases of CUDA, of those that are known, that have a library of exactly this name."""
    return [major for major in CUDA_MAJORS if (found := cuda_exports(major)) and library in found.symbols]


@dataclass(slots=True, kw_only=True)
class LookupScope:
    """Where the loader looks for one file's symbols: what it needs, and what that needs, and what is there anyway.

    :param own: paths of the wheel's libraries.
    :param others: names of the platform's and CUDA's libraries.
    :param torch: release → file names of torch's libraries.
    :param brought: names of libraries that a project brings which the wheel requires.
    :param unknown: names of libraries of which nothing is known.
    """

    own: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    torch: dict[str, set[str]] = field(default_factory=dict)
    brought: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def widen(self, other: LookupScope) -> None:
        """Add where another file's symbols are looked for."""
        self.own |= other.own
        self.others |= other.others
        self.brought |= other.brought
        self.unknown |= other.unknown
        for release, files in other.torch.items():
            self.torch.setdefault(release, set()).update(files)


class Providers:
    """Everything that a wheel may count on.

    :param extensions: every ELF file, by its path in the wheel.
    :param platforms: the platform tags.
    :param compute: ``cpu``, ``cu130``, or None where the version does not say.
    :param torch: the known torch releases, as ``2.11``, beside which the wheel may be installed; None where it does not
        require torch.
    :param projects: the frameworks that it requires, by their normalized names → the versions that are allowed.
    :param required: normalized names of all that it requires.
    """

    def __init__(
        self,
        extensions: Mapping[str, Extension],
        platforms: frozenset[str],
        compute: str | None,
        torch: tuple[str, ...] | None,
        projects: Mapping[str, SpecifierSet] | None = None,
        required: frozenset[str] = frozenset(),
    ) -> None:
        self.extensions = extensions
        self.compute = compute
        self.torch = torch
        self._projects = projects or {}
        self._required = required
        self._platforms = platforms

    @cached_property
    def own(self) -> OwnLibraries:
        """The wheel's own libraries."""
        return OwnLibraries(self.extensions)

    def is_platforms(self, arch: str, library: str) -> bool:
        """Say whether every machine that the platform tags name has a library."""
        if library == f"libc.musl-{arch}.so.1":
            return all(platform.startswith(("musllinux_", "linux_")) for platform in self._platforms)
        return library == _LOADERS.get(arch) or library in self._platform_libraries

    def is_a_projects(self, library: str) -> bool:
        """Say whether a framework that the wheel requires loads a library when it is imported."""
        return any(each.project in self._projects for each, _ in _brought(library))

    def projects_without(self, scope: LookupScope, symbol: str) -> str | None:
        """Return which versions of a framework lack a symbol of its libraries; empty where none does.

        None where the symbol is none of theirs, or nothing brings them.
        """
        for library in sorted(scope.brought):
            for each, exports in _brought(library):
                if symbol in exports.since:
                    lacking = exports.lacking(symbol, self._projects[each.project])
                    return f"{each.project} {', '.join(lacking[:_MOST_NAMED])}" if lacking else ""
        return None

    def without_torch(self, arch: str, library: str) -> str | None:
        """Return why torch does not bring one of its libraries; None where it does."""
        if self.torch is None:
            return "torch's, which the wheel does not require"
        table = symbol_table(arch)
        lacking = [r for r in self.torch if table and not self._torch_file(table, r, library)]
        if not lacking:
            return None
        renamed = table.renamed(lacking[-1], library) if table else None
        kind = " for cpu" if self.compute == "cpu" else ""
        # Found by its symbols all the same: torch's libraries need it, and they are searched.
        remedy = f" ({lacking[-1]} has it as {renamed}: link without it, that one is found)" if renamed else ""
        return f"not in torch {', '.join(lacking)}{kind}{remedy}"

    def without_cuda(self, arch: str, library: str) -> str | None:
        """Return why CUDA does not bring one of its libraries; None where it does, or nobody can know."""
        majors = cuda_releases(library)
        if self.compute == "cpu":
            return "CUDA's, and the version says cpu"
        if self.compute and names_cuda(self.compute) and cuda_major(self.compute) not in majors:
            return f"of CUDA {', '.join(map(str, majors))}, and the version says {self.compute}"
        return None if self.torch is None else why_not_brought(arch, library, self.torch, self._required)

    def scope(self, path: str) -> LookupScope:
        """Return where the loader looks for the symbols of one file.

        It looks where it looks for the library or extension that brought the file, too: `man 3 dlopen`.
        """
        scope = self._scope_of(path)
        whole = LookupScope()
        whole.widen(scope)
        for other in self._needed_by.get(path, ()):
            whole.widen(self._scope_of(other))
        return whole

    def loaded_for_all(self, *, cuda: bool) -> LookupScope:
        """Return where the loader looks once all that can be loaded is loaded for all to see (RTLD_GLOBAL).

        :param cuda: whether CUDA's libraries are, and not the wheel's own alone; a wheel for cpu never has them.
        """
        majors = self._majors if cuda and self.compute != "cpu" else ()
        tables = [found for major in majors if (found := cuda_exports(major))]
        return LookupScope(own=set(self.extensions), others={library for table in tables for library in table.symbols})

    def offers(self, scope: LookupScope, arch: str, reference: Reference) -> bool:
        """Say whether the wheel, the platform or CUDA has a symbol where the loader looks for it."""
        if self.wheel_offers(scope, reference):
            return True
        tables = [platform_exports(arch), *(found for major in self._majors if (found := cuda_exports(major)))]
        for table in tables:
            for library_name in scope.others & table.symbols.keys():
                versions = table.versions(library_name, reference.name)
                # A library that gives its symbols no versions is taken for any version.
                if versions and (reference.version in {None, *versions} or versions == ("",)):
                    return True
        return False

    def wheel_offers(self, scope: LookupScope, reference: Reference) -> bool:
        """Say whether the wheel itself has a symbol where the loader looks for it."""
        return any(self.extensions[path].offers(reference) for path in scope.own)

    def has_version(self, scope: LookupScope, path: str, need: NeededVersion) -> bool:
        """Say whether the loader finds a version in the library that one file wants it of.

        It goes by the library's name, whether any symbol has the version or not: `_dl_check_map_versions`. Of one
        without versions it takes any.
        """
        if own := self.own.provider(path, need.library):
            defined = self.extensions[own].defined_versions
            return own in scope.own and (not defined or need.name in defined)
        arch = self.extensions[path].arch
        torchs = {file for files in scope.torch.values() for file in files}
        if need.library not in scope.others and need.library not in torchs:
            return False
        tables = [platform_exports(arch), *(table for major in self._majors if (table := cuda_exports(major)))]
        defined_by = [table.defined(need.library) for table in tables if need.library in table.symbols]
        if not defined_by or not all(defined_by) or any(need.name in versions for versions in defined_by):
            return True
        # A library may have a version without a symbol in it: the loader's marks, and what auditwheel's policies know.
        family = need.name.partition("_")[0]
        known = need.name.startswith("GLIBC_ABI_") or policies("manylinux")[-1].allows([need.name], arch)
        return known and any(version.partition("_")[0] == family for found in defined_by for version in found)

    def torch_without(self, scope: LookupScope, arch: str, symbol: str) -> list[str]:
        """Return the torch releases that do not offer a symbol where the loader looks for it."""
        table = symbol_table(arch)
        found: dict[frozenset[str], frozenset[str]] = {}
        lacking = []
        for release, files in scope.torch.items():
            among = frozenset(files)
            if among not in found:
                found[among] = table.exported_by(symbol, among) if table else frozenset()
            if release not in found[among]:
                lacking.append(release)
        return lacking

    def torch_brings(self, scope: LookupScope, arch: str, symbols: Iterable[str], needed: Iterable[str]) -> list[str]:
        """Return which of torch's libraries have symbols that no library has which a file itself needs.

        It is told of the newest release that the wheel may be installed beside.
        """
        table = symbol_table(arch)
        release = next((name for name in reversed(table.releases) if name in scope.torch), None) if table else None
        if table is None or release is None:
            return []
        own = {file for library in needed if (file := self._torch_file(table, release, library))}
        brought = scope.torch[release] - own
        absent = [symbol for symbol in symbols if release not in table.exported_by(symbol, own)]
        return sorted(file for file in brought if any(release in table.exported_by(s, [file]) for s in absent))

    @property
    def _majors(self) -> tuple[int, ...]:
        return (cuda_major(self.compute),) if self.compute and names_cuda(self.compute) else CUDA_MAJORS

    @cached_property
    def _platform_libraries(self) -> frozenset[str]:
        found = [policy.libraries for tag in self._platforms if (policy := policy_of(tag))]
        # A plain linux tag promises nothing; what the newest policy has is then the most that can be expected.
        return frozenset.intersection(*found) if found else policies("manylinux")[-1].libraries

    @cached_property
    def _needed_by(self) -> dict[str, list[str]]:
        """Path → the other files that need it, directly or not."""
        found: dict[str, list[str]] = {}
        for path in self.extensions:
            for own in self._scope_of(path).own - {path}:
                found.setdefault(own, []).append(path)
        return found

    @cached_property
    def _scopes(self) -> dict[str, LookupScope]:
        return {}

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
            if own := self.own.provider(needing, library):
                if own not in scope.own:
                    scope.own.add(own)
                    wanted += [(own, more) for more in self.extensions[own].needed]
            else:
                names.append(library)
        scope.others.update(names)
        torchs = [library for library in names if library in torch_names(extension.arch)]
        if torchs or self.torch:
            self._add_torch(scope, extension.arch, [*torchs, _TORCH_GLOBAL] if self.torch else torchs)
        known = platform_exports(extension.arch).symbols
        strangers = {lib for lib in names if lib not in known and lib not in torchs and not cuda_releases(lib)}
        scope.brought.update(library for library in strangers if self.is_a_projects(library))
        scope.unknown.update(strangers - scope.brought)
        return scope

    def _add_torch(self, scope: LookupScope, arch: str, libraries: list[str]) -> None:
        """Add what torch's libraries bring along; of every known release where the wheel requires none."""
        table = symbol_table(arch)
        for release in (table.releases if self.torch is None else self.torch) if table else ():
            assert table is not None  # noqa: S101  # there are no releases without it
            files = scope.torch.setdefault(release, set())
            wanted = list(libraries)
            while wanted:
                file = self._torch_file(table, release, wanted.pop())
                if file and file not in files:
                    files.add(file)
                    needed = table.libraries[release][file].needed
                    # Of torch for cpu too, only the library that torch has with CUDA's was looked into.
                    scope.others.update(n for n in needed if self.compute != "cpu" or not cuda_releases(n))
                    wanted += needed

    def _torch_file(self, table: SymbolTable, release: str, library: str) -> str | None:
        file = table.library(release, library)
        return None if self.compute == "cpu" and file in TORCH_CUDA else file


def _brought(library: str) -> Iterator[tuple[Framework, Exports]]:
    for each in frameworks().values():
        yield from ((each, exports) for exports in each.exports() if exports.library == library)


@cache
def torch_names(arch: str) -> frozenset[str]:
    """Return every name under which some torch release has a library."""
    table = symbol_table(arch)
    found = (library for libraries in table.libraries.values() for library in libraries.items()) if table else ()
    return frozenset(name for file, library in found for name in (file, library.soname))
