"""Check that the loader accepts ELF files and finds their libraries, and that the platform tag fits them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from wheelsmith.base.sanitize import join_truncated
from wheelsmith.base.units import counted, listed
from wheelsmith.frameworks import frameworks
from wheelsmith.platforms import cuda_packages
from wheelsmith.wheel.bundled_libraries import installed_folder, is_always_loaded
from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.manylinux import (
    implies_tag,
    lowest_satisfied_policy,
    newest_policy,
    oldest_kernel,
    oldest_version,
    promises_versions,
)
from wheelsmith.wheel.report import Finding, finding, readable
from wheelsmith.wheel.requirements import applies
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.symbol_resolution import LookupScope, SymbolResolver, cuda_releases, torch_names
from wheelsmith.wheel.symbols import platform_exports

_PACKED = "GLIBC_ABI_DT_RELR"  # glibc 2.36 defines this version for files with packed relocations
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_INTERPRETERS = {
    "x86_64": ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
    "aarch64": ("/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"),
}
_NOWHERE = "not in the wheel, the platform, torch or CUDA"
# The first word of a library's name, unless auditwheel renamed it, and what the names of projects add to it.
_NAME = re.compile(r"lib(?P<word>[A-Za-z0-9]+)(?!.*-[0-9a-f]{8}\.)[\w+-]*\.so(\.\d+)*")
_AFFIXES = re.compile(r"^(lib|py)|-cu\d+$")
_LINKER_SCRIPT = (b"INPUT", b"GROUP", b"OUTPUT_FORMAT", b"/*")
# glibc reserves 1,664 bytes for libraries loaded later, and 512 optional bytes.
_MAX_STATIC_TLS = 4096  # bytes


def _check_elf(wheel: Inspection) -> Iterator[Finding]:
    for message in wheel.broken_extensions.values():
        yield finding("elf", [message], "")
    for name in _invalid_libraries(wheel):
        yield finding("elf", [f"{name} has the name of a shared library, but the loader cannot load it"], "")
    for name, extension in wheel.extensions.items():
        mistakes = [f"{name} {mistake}" for mistake in _elf_mistakes(name, extension)]
        yield finding("elf", mistakes, f"{name}: a valid {extension.kind}")


def _invalid_libraries(wheel: Inspection) -> Iterator[str]:
    """Yield the files named ``*.so`` that are neither ELF files for a CPU nor linker scripts."""
    if any("linux" in tag.platform or tag.platform == "any" for tag in wheel.name.tags):
        for name in sorted({name for name in wheel.files if name.endswith(".so")} - {*wheel.elf_files}):
            if not next(iter(wheel.archive.chunks(name)), b"").lstrip().startswith(_LINKER_SCRIPT):
                yield name


def _elf_mistakes(name: str, extension: Extension) -> Iterator[str]:
    if _LIBRARY.search(posixpath.basename(name)):
        yield from _library_mistakes(extension)
    elif extension.interpreter not in {None, *_INTERPRETERS[extension.arch]}:
        yield f"needs the loader {extension.interpreter!r}, which no platform tag promises"
    yield from (f"makes the loader search another library: {library}" for library in extension.interposed)
    if extension.kind != "object" and extension.dynamic and extension.executable_stack:
        yield "needs an executable stack"
    if extension.text_relocations:
        yield "has text relocations (TEXTREL): the loader must write into its code"
    if extension.cpu:
        yield f"requires {extension.cpu} in a note: the loader refuses it on older CPUs, which no tag can express"
    if extension.packed_relocations and not _needs_new_loader(extension):
        yield f"has packed relocations (DT_RELR) without needing {_PACKED}: older loaders ignore them"
    paths = (library for library in extension.needed if "/" in library)
    yield from (f"needs {library!r}, which is a path, not the name of a library" for library in paths)


def _library_mistakes(extension: Extension) -> Iterator[str]:
    if extension.kind == "object":
        yield "is an object file (ET_REL), which cannot be loaded"
    elif extension.kind == "program":
        yield "is a program, which cannot be loaded as a library"
    elif not extension.dynamic:
        yield "has no dynamic table, so it cannot be loaded"
    elif extension.static_tls > _MAX_STATIC_TLS:
        yield f"needs {extension.static_tls} bytes of static thread-local storage, more than dlopen has"


def _needs_new_loader(extension: Extension) -> bool:
    """Return True if only loaders that support packed relocations accept the file, or if it is linked with musl.

    musl has no symbol versions that could show it.
    """
    musl = any(library.startswith("libc.musl-") for library in extension.needed)
    return musl or any(version.name == _PACKED for version in extension.needed_versions)


def _check_architecture(wheel: Inspection) -> Iterator[Finding]:
    platforms = {tag.platform for tag in wheel.name.tags}
    for name, extension in wheel.extensions.items():
        fits = all("linux" in platform and platform.endswith(f"_{extension.arch}") for platform in platforms)
        message = f"{name} is for Linux on {extension.arch}"
        mistakes = [] if fits else [f"{message}, but the tag is for {', '.join(sorted(platforms))}"]
        yield finding("architecture", mistakes, message)


def _check_search_path(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        folders = [*extension.rpath, *extension.runpath]
        outside = [folder or "the working directory" for folder in folders if installed_folder(name, folder) is None]
        mistakes = [f"{name} looks for libraries in {folder}" for folder in outside]
        right = f"{name} looks for libraries in {', '.join(folders)}" if folders else "no RPATH and no RUNPATH"
        yield finding("search-path", mistakes, right)


ELF = Rule(
    name="elf",
    proves="every ELF file has a readable dynamic table, and libraries can be loaded; no DT_AUXILIARY, DT_FILTER, "
    "DT_AUDIT or DT_DEPAUDIT; programs use the platform's loader; every `*.so` is an ELF file or a linker script; no "
    "executable stack, no TEXTREL, no path in DT_NEEDED, no more static thread-local storage than dlopen has, no "
    "packed relocations that an older loader ignores; no note requires a newer CPU than the tag",
    leaves_open="whether relocations, segments, exception tables and section headers are consistent (load the library "
    "once in a test); the machine code; the CPU that it needs if no note names it",
    examine=_check_elf,
)


ARCHITECTURE = Rule(
    name="architecture",
    proves="each ELF file is for the tag's architecture, and the tag for Linux",
    leaves_open="machine code in archives or after other bytes of a file; the instructions that the code uses",
    examine=_check_architecture,
)


SEARCH_PATH = Rule(
    name="search-path",
    proves="every entry of RPATH and RUNPATH begins with `$ORIGIN` and stays inside the folders that pip installs into",
    leaves_open="the libraries of other projects in such a folder",
    examine=_check_search_path,
)


def _check_libraries(wheel: Inspection) -> Iterator[Finding]:
    resolver = wheel.resolver
    missing: dict[str, _Missing] = {}
    foreign = _foreign_libraries(wheel)
    for library, origin in foreign.items():
        yield Finding(rule="libraries", ok=True, note=True, message=readable(f"{library} {origin}, not judged"))
    for name, extension in wheel.extensions.items():
        right = True
        for library in (each for each in extension.needed if each not in foreign):
            if why := _why_not_found(wheel, name, library) or _why_not_provided(resolver, name, library):
                right = False
                found = missing.setdefault(why, _Missing(files={}, libraries={}))
                found.files[name] = found.libraries[library] = None
        if right:
            others = sorted(lib for lib in extension.needed if not resolver.is_platform_library(extension.arch, lib))
            shown = f"{', '.join(others)}, and the platform's" if others else "only the platform's"
            yield finding("libraries", [], f"{name}: {shown}")
    # One finding for all files with the same mistake.
    yield from (finding("libraries", [_missing_message(why, found)], "") for why, found in missing.items())
    if mistakes := [*_unused_copies(wheel), *_loaded_twice(wheel)]:
        yield finding("libraries", mistakes, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missing:
    """The libraries that are missing for one reason, and the files that need them, in order."""

    files: dict[str, None]
    libraries: dict[str, None]


def _missing_message(why: str, missing: _Missing) -> str:
    files, libraries = list(missing.files), list(missing.libraries)
    others = f" and {counted(len(files) - 1, 'more file')} need" if len(files) > 1 else " needs"
    return f"{files[0]}{others} {join_truncated(libraries)}: {why}"


def _unused_copies(wheel: Inspection) -> Iterator[str]:
    """Yield a mistake for each bundled library that every process has already loaded from the platform."""
    for name, extension in wheel.extensions.items():
        library = posixpath.basename(name)
        if extension.kind == "library" and is_always_loaded(library):
            yield f"{name} is never loaded: every process already has the platform's {library}"


def _loaded_twice(wheel: Inspection) -> Iterator[str]:
    """Yield a mistake for each torch or CUDA library that a process loads twice, because a copy has another name."""
    bundled = wheel.resolver.bundled
    for name, extension in wheel.extensions.items():
        for library in extension.needed:
            copy = bundled.find(name, library)
            soname = (wheel.extensions[copy].soname if copy else None) or library
            if soname == library or not (cuda_releases(soname) or soname in torch_names(extension.arch)):
                continue
            others = (path for path, other in wheel.extensions.items() if soname in other.needed and path != copy)
            if other := next((path for path in others if bundled.find(path, soname) is None), None):
                copies = f"{name} needs the wheel's copy {library}, and {other} the one of torch or CUDA"
                yield f"{soname} is loaded twice: {copies}"


def _why_not_found(wheel: Inspection, name: str, library: str) -> str | None:
    """Return why the loader does not find a library of the wheel, or None.

    Return None also if the wheel does not contain the library, or if its Python code may load it first.
    """
    bundled = wheel.resolver.bundled
    if place := bundled.find(name, library):
        found = wheel.extensions[place]
        if found.kind == "library" and found.dynamic:
            return None
        kind = "library without a dynamic table" if found.kind == "library" else found.kind
        return f"in the wheel as {place}, which is a {kind}"
    place = bundled.find_anywhere(library)
    names = {None, library, posixpath.basename(place or "")}
    if place is None or any(load.library in names for load in wheel.library_loads):
        return None
    return f"in the wheel as {place}, where the loader does not search"


def _foreign_libraries(wheel: Inspection) -> dict[str, str]:
    """Return the libraries that another project provides, or that are declared: library → its origin."""
    needed = ((name, library) for name, extension in wheel.extensions.items() for library in extension.needed)
    unknown = [lib for name, lib in needed if _why_not_provided(wheel.resolver, name, lib) == _NOWHERE]
    found = {lib: project for lib in unknown if (project := _project_named_after(wheel, lib))}
    # A project loads the libraries of its own requirements too.
    others = dict.fromkeys(unknown if found else (), f"may come with {listed(sorted({*found.values()}))}")
    declared = [lib for lib in unknown if any(fnmatchcase(lib, pattern) for pattern in wheel.declared)]
    named = {lib: f"comes from {project}" for lib, project in found.items()}
    return others | named | dict.fromkeys(declared, "is declared")


def _project_named_after(wheel: Inspection, library: str) -> str | None:
    """Return the project that every environment requires and a library is named after: ``librmm-cu13``; or None."""
    match, cuda, everywhere = _NAME.fullmatch(library), cuda_packages(), wheel.environments
    known = {*(each.project for each in frameworks().values()), *cuda.by_major, *cuda.first_of_13, *cuda.libraries}
    lines = (line for line in wheel.requirements.lines if match and all(applies(line, each) for each in everywhere))
    own = {name: _AFFIXES.sub("", name) for name in (canonicalize_name(line.name) for line in lines)}
    fitting = (name for name, short in own.items() if match and match["word"].lower() in short.split("-"))
    return next((name for name in fitting if own[name] not in known), None)


def _why_not_provided(resolver: SymbolResolver, name: str, library: str) -> str | None:
    """Return why nothing provides a library to a file, or None if something does."""
    arch = resolver.extensions[name].arch
    if resolver.bundled.find_provider(name, library) or resolver.is_platform_library(arch, library):
        return None
    if resolver.is_framework_library(library) or resolver.is_rocm_library(library):
        return None
    if library in torch_names(arch):
        return resolver.why_not_in_torch(name, library)
    if cuda_releases(library):
        return resolver.why_not_in_cuda(arch, library)
    return _NOWHERE


LIBRARIES = Rule(
    name="libraries",
    proves="every library in DT_NEEDED exists under its exact name: in the wheel, the tag's platform, all required "
    "torch releases, or CUDA. A CUDA library has the version's major release, and torch loads it, its package is "
    "required, or the driver has it. No file needs the wheel's copy of a torch or CUDA library while another file "
    "needs the original. No library is a copy of one that every process has. A library that is named after a required "
    "project (`librmm.so` of `librmm-cu13`), comes with such a one, or is declared is a note",
    leaves_open="libraries that Python code loads by a computed name; whether a literal name exists; whether a CUDA "
    "library is already loaded if its package is required, if torch loads it lazily, or if no torch is required; a "
    "library that only some of its users find by their DT_RPATH",
    examine=_check_libraries,
)


def _check_platform(wheel: Inspection) -> Iterator[Finding]:
    if not wheel.extensions:
        return
    claimed = sorted({tag.platform for tag in wheel.name.tags})
    mistakes: list[str] = []
    policies: set[str] = set()
    for name, extension in wheel.extensions.items():
        if not _is_static(extension):
            implied = _implied_versions(wheel, name, extension)
            needs = _platform_needs(wheel, name, implied)
            policies.add(policy := lowest_satisfied_policy(*needs))
            mistakes += [
                f"the tag is {tag}, but the symbols of {name} need {policy}"
                + _describe_unversioned(implied, tag, *needs[1:])
                for tag in claimed
                if not implies_tag(tag, policy) and not promises_versions(tag, *needs)
            ]
        mistakes += [mistake for tag in claimed for mistake in _platform_violations(name, extension, tag)]
    needed = ", ".join(sorted(policies)) or "no platform"
    yield finding("platform-tag", mistakes, f"{', '.join(claimed)}: the symbols need {needed}")


def _describe_unversioned(implied: dict[str, str], tag: str, arch: str, family: str) -> str:
    """Describe an unversioned symbol that the tag does not promise: other tools show only symbol versions."""
    broken = (v for v in sorted(implied) if not promises_versions(tag, {v}, arch, family))
    return next((f": {implied[version]} exists since {version}" for version in broken), "")


def _is_static(extension: Extension) -> bool:
    """Return True if a file needs no libc, e.g. a statically linked program."""
    references = (reference for reference in extension.references if not reference.weak)
    return not (extension.needed or extension.needed_versions or extension.interpreter or any(references))


def _platform_needs(wheel: Inspection, name: str, implied: Iterable[str]) -> tuple[set[str], str, str]:
    """Return the symbol versions that a file needs from the platform, its architecture, and the family of tags.

    :param implied: versions of the symbols that the file needs without a version.
    """
    extension, bundled = wheel.extensions[name], wheel.resolver.bundled
    versions = {
        need.name
        for need in extension.needed_versions
        if "ld-linux" not in need.library and bundled.find_provider(name, need.library) is None
    }
    musl = any(library.startswith("libc.musl-") for library in extension.needed)
    return versions | {*implied}, extension.arch, "musllinux" if musl else "manylinux"


def _implied_versions(wheel: Inspection, name: str, extension: Extension) -> dict[str, str]:
    """Return the symbols that a file needs without a version: oldest version of the symbol → one such symbol.

    The linker writes no version if the library at link time lacks the symbol. The loader then accepts any version.
    Symbols that torch, the wheel or an unknown library may provide are left out.
    """
    exports, scope = platform_exports(extension.arch), wheel.resolver.scope(name)
    libraries = [name for name in exports.symbols if name in extension.needed or is_always_loaded(name)]
    found: dict[str, str] = {}
    for reference in extension.references if not scope.unknown else ():
        if reference.version is not None or reference.weak or wheel.resolver.wheel_provides(scope, reference):
            continue
        versions = [v for library in libraries for v in exports.versions(library, reference.name)]
        if versions and all(versions) and not _torch_exports(wheel, scope, extension, reference.name):
            found.setdefault(oldest_version(versions, extension.arch), reference.name)
    return found


def _torch_exports(wheel: Inspection, scope: LookupScope, extension: Extension, symbol: str) -> bool:
    return len(wheel.resolver.torch_releases_without(scope, extension.arch, symbol)) < len(scope.torch)


def _platform_violations(name: str, extension: Extension, tag: str) -> Iterator[str]:
    policy, promised = newest_policy(tag), oldest_kernel(tag, extension.arch)
    for library in extension.needed:
        banned = policy.blacklist.get(library, frozenset()) if policy else frozenset()
        if taken := sorted(r.name for r in extension.references if r.name in banned and not r.weak):
            yield f"{name} needs {', '.join(taken)} from {library}, which {tag} does not promise"
    # For programs, the loader does not compare the kernel.
    if promised and extension.kind == "library" and extension.linux and extension.linux > promised:
        wanted, first = (".".join(map(str, numbers)) for numbers in (extension.linux, promised))
        yield (
            f"{name} requires Linux {wanted} (NT_GNU_ABI_TAG), but {tag} allows {first}, where the loader ignores "
            "the file"
        )


PLATFORM_TAG = Rule(
    name="platform-tag",
    proves="the tag's platform has all symbol versions that the files need, according to auditwheel's policies; a "
    "symbol without a version counts as its oldest version; no library requires a newer Linux than the platform "
    "allows",
    leaves_open="the processor instructions that the code uses",
    examine=_check_platform,
)
