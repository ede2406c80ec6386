"""What an ELF file says to the loader."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.elf.dynamic import (
    DT_AUDIT,
    DT_AUXILIARY,
    DT_DEPAUDIT,
    DT_FILTER,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_NEEDED,
    DT_RELRSZ,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_TEXTREL,
    FLAG_TEXTREL,
    Dynamic,
)
from wheelsmith.wheel.elf.image import ET_EXEC, ET_REL, PF_X, PT_GNU_STACK, ElfError, ElfImage, OtherMachineError
from wheelsmith.wheel.elf.lookup import Lookup
from wheelsmith.wheel.elf.properties import System, asked_system, check_notes, needed_cpu
from wheelsmith.wheel.elf.relocations import check_relocations
from wheelsmith.wheel.elf.sections import check_sections, read_sections
from wheelsmith.wheel.elf.segments import check_segments, interpreter
from wheelsmith.wheel.elf.symbols import Reference, read_symbols, symbol_count
from wheelsmith.wheel.elf.unwinding import check_unwinding, has_unwinding
from wheelsmith.wheel.elf.versions import NeededVersion, defined_versions, needed_versions

_FLAG_1_NOOPEN, _FLAG_1_NODEFLIB, _FLAG_1_PIE = 0x40, 0x800, 0x08000000
_EXCEPTIONS = {"__cxa_throw", "__cxa_rethrow", "__gxx_personality_v0"}
_MOST_NAMES = 1000  # of libraries or folders; the largest real wheels have fifty
# Numbers of machines whose code the CPU's loader never sees: NVIDIA's and AMD's GPUs, and BPF.
_OTHERS_MACHINES = {190, 224, 247}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An ELF file's outward face.

    :param arch: CPU architecture as ``uname -m`` names it.
    :param kind: ``library``, ``program`` (which no process can load as a library) or ``object`` (which none can load).
    :param dynamic: whether there is a dynamic table; without one no loader takes it as a library.
    :param soname: what it calls itself.
    :param needed: DT_NEEDED.
    :param rpath: DT_RPATH's folders; the loader heeds them only where there is no DT_RUNPATH.
    :param runpath: DT_RUNPATH's folders.
    :param hooks: libraries that the loader would put before, into or over this one, as ``DT_AUXILIARY libx.so``.
    :param references: symbols that something else must provide, weak ones among them.
    :param needed_versions: the versions that libraries must have, by which the loader refuses the file at once.
    :param exported: symbols that it offers.
    :param versioned: symbols that it offers, each with a version that it has.
    :param lookup: how the loader finds them; None where nobody asks.
    :param packed_relocations: it has DT_RELR, which a loader before glibc 2.36 passes over.
    :param cpu: the level of CPU that it asks for, as ``x86-64-v3``; empty where it asks for none.
    :param defined_versions: the versions that it offers.
    :param executable_stack: it asks for a stack that can be executed, or does not say that it needs none.
    :param text_relocations: it asks to write into its code.
    :param read_only_dynamic: its dynamic table cannot be written, and a loader before glibc 2.35 writes to it.
    :param system: the kernel that a note asks for; None where none does.
    :param catches_nothing: it has a part in C++'s exceptions, and no table by which one finds its way.
    :param no_default_folders: the loader is told not to look where the platform's libraries are.
    :param not_to_open: it forbids to be loaded by ``dlopen``, which is how Python loads.
    :param interpreter: the program that has to start it; None where it names none.
    """

    arch: str
    kind: str = "library"
    dynamic: bool = True
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    needed_versions: tuple[NeededVersion, ...] = ()
    exported: frozenset[str] = frozenset()
    versioned: frozenset[tuple[str, str]] = frozenset()
    lookup: Lookup | None = field(default=None, compare=False, repr=False)
    packed_relocations: bool = False
    cpu: str = ""
    defined_versions: frozenset[str] = frozenset()
    executable_stack: bool = False
    text_relocations: bool = False
    read_only_dynamic: bool = False
    system: System | None = None
    catches_nothing: bool = False
    no_default_folders: bool = False
    not_to_open: bool = False
    interpreter: str | None = None

    @property
    def search_paths(self) -> tuple[str, ...]:
        """Return the folders in which the loader looks for what it needs."""
        return self.runpath or self.rpath

    def offers(self, reference: Reference) -> bool:
        """Say whether the loader finds a symbol here, in the version that is asked for, or in any where it has none."""
        symbol, version = reference.name, reference.version
        if symbol not in self.exported or (self.lookup is not None and not self.lookup.finds(symbol)):
            return False
        return version is None or not self.defined_versions or (symbol, version) in self.versioned


def is_for_the_cpu(head: bytes) -> bool:
    """Say whether a file that begins like this is an ELF file for a CPU; one for a GPU is data to the loader.

    :param head: the first 20 bytes of the file, or more.
    """
    return head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") not in _OTHERS_MACHINES


def read_extension(name: str, file: BinaryIO) -> Extension:
    """Read an ELF file as the loader does.

    :param name: for the message of an error.
    :param file: seekable; it is never held whole.
    :raises WheelError: no loader takes it, or its sections tell another story than what the loader reads.
    """
    size = file.seek(0, os.SEEK_END)
    try:
        return _read(ElfImage(file, size))
    except OtherMachineError as error:
        raise WheelError(f"{name} is an ELF file for another machine: {error}") from None
    except (ElfError, struct.error) as error:
        raise WheelError(f"{name} is a broken ELF file: {error}") from None


def _read(image: ElfImage) -> Extension:
    sections = read_sections(image)
    if image.kind == ET_REL:
        return Extension(arch=image.arch, kind="object", dynamic=False)
    dynamic = Dynamic(image)
    check_segments(image, dynamic)
    versions = needed_versions(image, dynamic)
    defined = defined_versions(image, dynamic)
    references, exported, versioned, lookup = read_symbols(image, dynamic, versions, defined)
    check_relocations(image, dynamic)
    check_unwinding(image)
    check_notes(image)
    check_sections(sections, image, dynamic, symbol_count(image, dynamic))
    flags = dynamic.get(DT_FLAGS_1) or 0
    return Extension(
        arch=image.arch,
        kind="program" if image.kind == ET_EXEC or flags & _FLAG_1_PIE else "library",
        dynamic=bool(dynamic.entries),
        soname=next(iter(dynamic.all(DT_SONAME)), None),
        needed=_unique(dynamic.all(DT_NEEDED)),
        rpath=_folders(dynamic, DT_RPATH),
        runpath=_folders(dynamic, DT_RUNPATH),
        hooks=tuple(_hooks(dynamic)),
        references=references,
        needed_versions=tuple(versions.values()),
        exported=exported,
        versioned=versioned,
        lookup=lookup,
        packed_relocations=bool(dynamic.get(DT_RELRSZ)),
        cpu=needed_cpu(image),
        defined_versions=frozenset(defined.values()),
        executable_stack=_executable_stack(image),
        text_relocations=dynamic.get(DT_TEXTREL) is not None or bool((dynamic.get(DT_FLAGS) or 0) & FLAG_TEXTREL),
        read_only_dynamic=dynamic.read_only,
        system=asked_system(image),
        catches_nothing=not has_unwinding(image) and _takes_part_in_exceptions(references),
        no_default_folders=bool(flags & _FLAG_1_NODEFLIB),
        not_to_open=bool(flags & _FLAG_1_NOOPEN),
        interpreter=interpreter(image),
    )


def _folders(dynamic: Dynamic, tag: int) -> tuple[str, ...]:
    return _unique(folder for path in dynamic.all(tag) for folder in path.split(":"))


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(names))
    if len(found) > _MOST_NAMES:
        raise ElfError(f"it names {len(found)} libraries or folders to look for them")
    return found


def _takes_part_in_exceptions(references: Iterable[Reference]) -> bool:
    """Say whether C++'s exceptions begin or are met in a file that does not hand its own frames to the unwinder."""
    names = {reference.name for reference in references}
    registers = any(name.startswith("__register_frame") for name in names)
    return bool(names & _EXCEPTIONS) and not registers


def _hooks(dynamic: Dynamic) -> list[str]:
    tags = {"DT_AUXILIARY": DT_AUXILIARY, "DT_FILTER": DT_FILTER, "DT_AUDIT": DT_AUDIT, "DT_DEPAUDIT": DT_DEPAUDIT}
    return [f"{tag} {library}" for tag, number in tags.items() for library in dynamic.all(number)]


def _executable_stack(image: ElfImage) -> bool:
    stacks = [segment.flags for segment in image.segments if segment.kind == PT_GNU_STACK]
    # Without a word of it glibc takes the architecture's default, which has PF_X on both.
    return not stacks or any(flags & PF_X for flags in stacks)
