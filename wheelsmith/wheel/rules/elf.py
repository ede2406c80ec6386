"""Check each ELF file by itself: that the loader accepts it, its architecture and its search path."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from wheelsmith.wheel.bundled_libraries import folder_of
from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

_PACKED = "GLIBC_ABI_DT_RELR"  # glibc 2.36 defines this version for files with packed relocations
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_INTERPRETERS = {
    "x86_64": ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
    "aarch64": ("/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"),
}
_LINKER_SCRIPT = (b"INPUT", b"GROUP", b"OUTPUT_FORMAT", b"/*")
# glibc reserves 1,664 bytes for libraries that are loaded later; 512 more are optional.
_MOST_STATIC_TLS = 4096  # bytes


def _elf(wheel: Inspection) -> Iterator[Finding]:
    for message in wheel.broken_extensions.values():
        yield finding("elf", [message], "")
    for name in _other_files(wheel):
        yield finding("elf", [f"{name} is named as a shared library, and is none that the loader accepts"], "")
    for name, extension in wheel.extensions.items():
        wrong = [f"{name} {mistake}" for mistake in _mistakes(name, extension)]
        yield finding("elf", wrong, f"{name}: a {extension.kind}, as the loader reads it")


def _other_files(wheel: Inspection) -> Iterator[str]:
    """Yield the files that are named as shared libraries and are none; linker scripts are allowed."""
    if any("linux" in tag.platform or tag.platform == "any" for tag in wheel.name.tags):
        for name in sorted({name for name in wheel.files if name.endswith(".so")} - {*wheel.elf_files}):
            if not next(iter(wheel.archive.chunks(name)), b"").lstrip().startswith(_LINKER_SCRIPT):
                yield name


def _mistakes(name: str, extension: Extension) -> Iterator[str]:
    if _LIBRARY.search(posixpath.basename(name)):
        yield from _library_mistakes(extension)
    elif extension.interpreter not in {None, *_INTERPRETERS[extension.arch]}:
        yield f"is started by {extension.interpreter!r}, which no platform tag promises"
    yield from (f"makes the loader search another library: {library}" for library in extension.interposed)
    if extension.kind != "object" and extension.dynamic and extension.executable_stack:
        yield "needs an executable stack"
    if extension.text_relocations:
        yield "has text relocations (TEXTREL): the loader must write into its code"
    if extension.cpu:
        yield f"requires {extension.cpu} by a note: the loader refuses it on older CPUs, and no tag says so"
    if extension.packed_relocations and not _needs_new_loader(extension):
        yield f"has packed relocations (DT_RELR) without needing {_PACKED}: older loaders ignore them"
    paths = (library for library in extension.needed if "/" in library)
    yield from (f"needs {library!r}, which is a path and no library's name" for library in paths)


def _library_mistakes(extension: Extension) -> Iterator[str]:
    if extension.kind == "object":
        yield "is an object file (ET_REL), which cannot be loaded"
    elif extension.kind == "program":
        yield "is a program, which cannot be loaded as a library"
    elif not extension.dynamic:
        yield "has no dynamic table, so that it cannot be loaded"
    elif extension.static_tls > _MOST_STATIC_TLS:
        yield f"needs {extension.static_tls} bytes of static thread-local storage, more than dlopen finds free"


def _needs_new_loader(extension: Extension) -> bool:
    """Return True if only loaders that know packed relocations accept the file; musl does not tell."""
    musl = any(library.startswith("libc.musl-") for library in extension.needed)
    return musl or any(version.name == _PACKED for version in extension.needed_versions)


def _architecture(wheel: Inspection) -> Iterator[Finding]:
    platforms = {tag.platform for tag in wheel.name.tags}
    for name, extension in wheel.extensions.items():
        fits = all("linux" in platform and platform.endswith(f"_{extension.arch}") for platform in platforms)
        message = f"{name} is for {extension.arch}, and for Linux"
        yield finding("architecture", [] if fits else [message], message)


def _search_path(wheel: Inspection) -> Iterator[Finding]:
    for name, extension in wheel.extensions.items():
        folders = [*extension.rpath, *extension.runpath]
        outside = [folder or "the working directory" for folder in folders if folder_of(name, folder) is None]
        wrong = [f"{name} looks for libraries in {folder}" for folder in outside]
        right = f"{name} looks for libraries in {', '.join(folders)}" if folders else "no RPATH and no RUNPATH"
        yield finding("search-path", wrong, right)


ELF = Rule(
    name="elf",
    proves="every ELF file can be read by its dynamic table, and a library is one that can be loaded; no "
    "DT_AUXILIARY, DT_FILTER, DT_AUDIT or DT_DEPAUDIT; a program is started by the platform's loader; every `*.so` is "
    "an ELF file or a linker script; no executable stack, no TEXTREL, no path in DT_NEEDED, no more static "
    "thread-local storage than dlopen finds free, no packed relocations that an older loader ignores; no note requires "
    "a newer CPU than the tag",
    leaves_open="what a linker does not get wrong: that relocations, segments, exception tables and section headers "
    "fit each other (load the library once in a test); what the machine code does, and which CPU it needs without "
    "saying so",
    in_the_wild="nvidia-nvtx 13.0.85: `libnvtx3interop.so.1` has DT_AUXILIARY `visibility=hidden`",
    examine=_elf,
)
ARCHITECTURE = Rule(
    name="architecture",
    proves="each ELF file is for the tag's architecture, and the tag for Linux",
    leaves_open="machine code in archives or behind other bytes of a file; which instructions are used",
    in_the_wild="selenium 4.50.0: a wheel for any platform holds programs for x86_64 and aarch64 (it is meant)",
    examine=_architecture,
)
SEARCH_PATH = Rule(
    name="search-path",
    proves="every entry of RPATH and RUNPATH begins with `$ORIGIN` and stays inside of what pip installs into: no path "
    "of the machine that built it, none relative to the working directory",
    leaves_open="which other project's libraries lie in such a folder",
    in_the_wild="torchvision 0.29.2: a RUNPATH of the machine that built it",
    examine=_search_path,
)
