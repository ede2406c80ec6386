"""What the loader would refuse, or do behind everybody's back."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# The version of glibc 2.36 that says that packed relocations are there.
_PACKED = "GLIBC_ABI_DT_RELR"
_HEAD = 4096  # bytes
_GLIBC = re.compile(r"GLIBC_2\.(\d+)")
_READS_ONLY = 35  # the minor of glibc 2 from which on the loader leaves a dynamic table as it is
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_INTERPRETERS = {
    "x86_64": ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
    "aarch64": ("/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"),
}
# What a linker reads in place of a library, and nothing loads.
_LINKER_SCRIPT = re.compile(rb"\s*(/\*.*?\*/\s*)*(INPUT|GROUP|OUTPUT_FORMAT)\s*\(", re.DOTALL)
_MODULE = re.compile(r"\.(abi3t?|cpython-[\w-]+|pypy[\w-]+|graalpy[\w-]+)\.so$")


def _examine(wheel: Inspection) -> Iterator[Finding]:
    for name, message in wheel.broken_extensions.items():
        yield finding("elf", [message if name in message else f"{name}: {message}"], "")
    yield from (finding("elf", [f"{name} {why}"], "") for name, why in _no_libraries(wheel))
    for name, extension in wheel.extensions.items():
        wrong = [f"{name} {mistake}" for mistake in mistakes(name, extension)]
        yield finding("elf", wrong, f"{name}: a {extension.kind}, as the loader reads it")


def _no_libraries(wheel: Inspection) -> Iterator[tuple[str, str]]:
    """Find files that Python would take for a module, and no loader does."""
    if not any("linux" in tag.platform or tag.platform == "any" for tag in wheel.name.tags):
        return
    taken = set(wheel.elf_files)
    for name in wheel.files:
        if name.endswith(".so") and name not in taken:
            head = next(iter(wheel.archive.chunks(name)), b"")[:_HEAD]
            if _MODULE.search(name) or not _LINKER_SCRIPT.match(head):
                yield name, "is named as a library, and is none that the loader takes"


def mistakes(name: str, extension: Extension) -> Iterator[str]:
    """Return what is wrong with one ELF file for itself."""
    if _LIBRARY.search(posixpath.basename(name)):
        yield from _not_loadable(extension)
    elif extension.interpreter not in {None, *_INTERPRETERS[extension.arch]}:
        yield f"is started by {extension.interpreter!r}, which no platform tag promises"
    yield from (f"has the loader put another library in between: {hook}" for hook in extension.hooks)
    if extension.kind != "object" and extension.dynamic and extension.executable_stack:
        yield "asks for an executable stack"
    yield from _not_taken_everywhere(extension)
    if extension.catches_nothing:
        yield "has a part in C++ exceptions and no table for them (PT_GNU_EH_FRAME): whoever throws ends the process"
    if extension.text_relocations:
        yield "has its code written to when it is loaded (TEXTREL)"
    for library in extension.needed:
        if not library or "/" in library or "$" in library:
            yield f"needs {library!r}, which is a path and no library's name"


def _not_taken_everywhere(extension: Extension) -> Iterator[str]:
    """Return why some machines of the tag have a loader that refuses the file, or stops."""
    if extension.cpu:
        yield f"asks for a CPU of the level {extension.cpu}: on others the loader refuses it, and no tag says so"
    if extension.packed_relocations and not _needs_new_loader(extension):
        yield f"has packed relocations (DT_RELR) without needing {_PACKED}: an older loader passes over them"
    if extension.read_only_dynamic and not _loaded_without_writing(extension):
        yield f"has a dynamic table that cannot be written: the loader before glibc 2.{_READS_ONLY} writes to it"
    if extension.system and not extension.system.linux:
        yield "says by a note (NT_GNU_ABI_TAG) that it is for another system: glibc's loader did not take it until 2.36"


def _needs_new_loader(extension: Extension) -> bool:
    """Say whether only a loader that knows packed relocations takes it; musl's tells nobody whether it does."""
    musl = any(library.startswith("libc.musl-") for library in extension.needed)
    return musl or any(version.name == _PACKED and not version.weak for version in extension.needed_versions)


def _loaded_without_writing(extension: Extension) -> bool:
    """Say whether only loaders take it that leave the dynamic table as it is; musl's always did."""
    if any(library.startswith("libc.musl-") for library in extension.needed):
        return True
    found = (_GLIBC.fullmatch(version.name) for version in extension.needed_versions if not version.weak)
    return any(int(match[1]) >= _READS_ONLY for match in found if match)


def _not_loadable(extension: Extension) -> Iterator[str]:
    if extension.kind == "object":
        yield "is an object file (ET_REL), which nothing can load"
    elif extension.kind == "program":
        yield "is a program, which nothing can load as a library"
    elif not extension.dynamic:
        yield "has no dynamic table, so that nothing can load it"
    if extension.not_to_open:
        yield "forbids to be loaded (DF_1_NOOPEN)"


RULE = Rule(
    name="elf",
    proves="every ELF file is one that glibc's loader takes, read by program headers and PT_DYNAMIC as the loader "
    "reads it; where there are section headers they say the same; no DT_AUXILIARY, DT_FILTER, DT_AUDIT or DT_DEPAUDIT, "
    "no segment, relocation, initialiser or function lies where the loader or the machine stops; a program is started "
    "by the platform's loader; every `*.so` is such a file, or a linker's script that no Python takes for a module; no "
    "executable stack, no TEXTREL, no path in DT_NEEDED, no packed relocations that an older loader passes over; no "
    "note asks for a newer CPU than every machine of the tag is, or for another system; the table by which exceptions "
    "find their way (PT_GNU_EH_FRAME) is whole and in order, and is there where C++ exceptions are",
    leaves_open="what the machine code does, and which CPU it needs without saying so",
    in_the_wild="nvidia-nvtx 13.0.85: `libnvtx3interop.so.1` has DT_AUXILIARY `visibility=hidden`",
    examine=_examine,
)
