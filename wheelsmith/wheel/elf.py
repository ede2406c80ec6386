"""Read ELF files as the dynamic loader does: needed libraries, search paths, symbols and their versions."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from elftools.elf.constants import P_FLAGS
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS, ENUM_DT_FLAGS_1
from elftools.elf.segments import InterpSegment, NoteSegment, Segment

from wheelsmith.base.errors import WheelError

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_SYSTEMS = {"ELFOSABI_SYSV", "ELFOSABI_LINUX"}
# Machines that are not CPUs: NVIDIA's and AMD's GPUs, and BPF.
_GPU_AND_BPF = {190, 224, 247}
_INTERPOSING = ("DT_AUXILIARY", "DT_FILTER", "DT_AUDIT", "DT_DEPAUDIT")
_CPU_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))

# Layouts: the System V ABI, gABI chapter 5, and the LSB on symbol versions.
_SYMBOL = struct.Struct("<IBBHQQ")
_NEED, _NEEDED_NAME = struct.Struct("<HHIII"), struct.Struct("<IHHII")
_DEFINITION, _DEFINED_NAME = struct.Struct("<HHHHIII"), struct.Struct("<II")
_LOCAL, _WEAK = 0, 2  # bindings
_HIDDEN = {1, 2}  # visibilities: internal and hidden
_BASE, _WEAK_VERSION = 1, 2  # flags of versions
_VERSION_INDEX = 0x7FFF  # mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A symbol that another file must provide.

    :param version: required version; None accepts any.
    :param library: the library that must provide the version.
    :param weak: True if the file loads without the symbol.
    """

    name: str
    version: str | None = None
    library: str | None = None
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededVersion:
    """A symbol version that a library must have.

    :param weak: True if the loader only warns about a missing version.
    """

    library: str
    name: str
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An ELF file for a CPU: an extension module, another shared library, a program or an object file.

    :param arch: CPU architecture in the form of ``uname -m``.
    :param kind: ``library``, ``program`` or ``object``.
    :param dynamic: True if it has a dynamic table. The loader refuses libraries without one.
    :param soname: DT_SONAME.
    :param needed: DT_NEEDED.
    :param rpath: folders of DT_RPATH; the loader ignores them if there is a DT_RUNPATH.
    :param runpath: folders of DT_RUNPATH.
    :param interposed: libraries that the loader searches before this one, e.g. ``DT_AUXILIARY libx.so``.
    :param references: undefined symbols, including weak ones.
    :param needed_versions: symbol versions that other libraries must have.
    :param exported: names of the symbols that it exports.
    :param versioned: name and version of each exported symbol that has a version.
    :param defined_versions: versions that it defines.
    :param packed_relocations: True if it has DT_RELR, which loaders before glibc 2.36 ignore.
    :param cpu: x86-64 level that a note requires, e.g. ``x86-64-v3``; empty if there is none.
    :param linux: oldest Linux that a note (NT_GNU_ABI_TAG) allows; None without such a note.
    :param executable_stack: True if the loader makes the stack executable: PT_GNU_STACK requires it or is missing.
    :param text_relocations: True if the loader must write into its code.
    :param static_tls: bytes of thread-local storage that must be free when the process starts.
    :param interpreter: the loader in PT_INTERP.
    """

    arch: str
    kind: str = "library"
    dynamic: bool = True
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    interposed: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    needed_versions: tuple[NeededVersion, ...] = ()
    exported: frozenset[str] = frozenset()
    versioned: frozenset[tuple[str, str]] = frozenset()
    defined_versions: frozenset[str] = frozenset()
    packed_relocations: bool = False
    cpu: str = ""
    linux: tuple[int, int, int] | None = None
    executable_stack: bool = False
    text_relocations: bool = False
    static_tls: int = 0
    interpreter: str | None = None

    @property
    def search_paths(self) -> tuple[str, ...]:
        """Return the folders in which the loader looks for needed libraries."""
        return self.runpath or self.rpath

    def provides(self, reference: Reference) -> bool:
        """Return True if the file exports a symbol. If the file has versions, the version must match."""
        symbol, version = reference.name, reference.version
        if version is None or not self.defined_versions:
            return symbol in self.exported
        return (symbol, version) in self.versioned


def is_cpu_elf(head: bytes) -> bool:
    """Return True if a file is an ELF file for a CPU, not for a GPU.

    :param head: at least the first 20 bytes of the file.
    """
    return head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") not in _GPU_AND_BPF


def read_extension(name: str, file: BinaryIO) -> Extension:
    """Read an ELF file.

    :param name: for messages.
    :param file: seekable.
    :raises WheelError: it cannot be read, or is for an unsupported machine or system.
    """
    try:
        elf = ELFFile(file)
        unsupported = _unsupported_machine(elf)
        extension = None if unsupported else _read_elf(elf)
    except Exception as error:  # pyelftools raises errors of any kind on corrupt bytes
        raise WheelError(f"{name} cannot be read as an ELF file") from error
    if extension is None:
        raise WheelError(f"{name} is an ELF file for an unsupported machine: {unsupported}")
    return extension


def section_at(file: BinaryIO, place: int) -> str | None:
    """Return the name of the section that contains a byte of an ELF file, or None if none does.

    Return None also if the file cannot be read.

    :param place: offset of the byte in the file.
    """
    try:
        sections = [(s["sh_offset"], s["sh_size"], s.name) for s in ELFFile(file).iter_sections() if s.name]
    except Exception:  # noqa: BLE001  # as in read_extension
        return None
    return next((name for start, size, name in sections if start <= place < start + size), None)


def _unsupported_machine(elf: ELFFile) -> str:
    machine, system = elf["e_machine"], elf["e_ident"]["EI_OSABI"]
    if machine not in _MACHINES or elf.elfclass != 64 or not elf.little_endian:  # noqa: PLR2004  # bits
        return f"{machine}, {elf.elfclass} bits, {'little' if elf.little_endian else 'big'}-endian"
    return "" if system in _SYSTEMS else str(system)


def _read_elf(elf: ELFFile) -> Extension:
    arch = _MACHINES[elf["e_machine"]]
    if elf["e_type"] == "ET_REL":
        return Extension(arch=arch, kind="object", dynamic=False)
    segments = tuple(elf.iter_segments())
    dynamic = _DynamicTable(elf, segments)
    needed, defined = dynamic.needed_versions(), dynamic.defined_versions()
    references, exported, versioned = dict[Reference, None](), set[str](), set[tuple[str, str]]()
    for symbol in dynamic.symbols():
        if symbol.defined:
            exported.add(symbol.name)
            if symbol.version in defined:
                versioned.add((symbol.name, defined[symbol.version]))
        else:
            need = needed.get(symbol.version)
            version, library = (need.name, need.library) if need else (None, None)
            references[Reference(name=symbol.name, version=version, library=library, weak=symbol.weak)] = None
    linux, cpu = _read_notes(segments)
    flags, flags_1 = dynamic.number("DT_FLAGS"), dynamic.number("DT_FLAGS_1")
    return Extension(
        arch=arch,
        kind="program" if elf["e_type"] == "ET_EXEC" or flags_1 & ENUM_DT_FLAGS_1["DF_1_PIE"] else "library",
        dynamic=dynamic.exists,
        soname=next(iter(dynamic.texts("DT_SONAME")), None),
        needed=tuple(dict.fromkeys(dynamic.texts("DT_NEEDED"))),
        rpath=dynamic.folders("DT_RPATH"),
        runpath=dynamic.folders("DT_RUNPATH"),
        interposed=tuple(f"{tag} {library}" for tag in _INTERPOSING for library in dynamic.texts(tag)),
        references=tuple(references),
        needed_versions=tuple(needed.values()),
        exported=frozenset(exported),
        versioned=frozenset(versioned),
        defined_versions=frozenset(defined.values()),
        packed_relocations=dynamic.number("DT_RELRSZ") > 0,
        cpu=cpu,
        linux=linux,
        executable_stack=_needs_executable_stack(segments),
        text_relocations=dynamic.has("DT_TEXTREL") or bool(flags & ENUM_DT_FLAGS["DF_TEXTREL"]),
        static_tls=_thread_local_size(segments) if flags & ENUM_DT_FLAGS["DF_STATIC_TLS"] else 0,
        interpreter=next((s.get_interp_name() for s in segments if isinstance(s, InterpSegment)), None),
    )


def _needs_executable_stack(segments: Iterable[Segment]) -> bool:
    stacks = [segment["p_flags"] for segment in segments if segment["p_type"] == "PT_GNU_STACK"]
    # Without PT_GNU_STACK, glibc makes the stack executable on both architectures.
    return not stacks or any(flags & P_FLAGS.PF_X for flags in stacks)


def _thread_local_size(segments: Iterable[Segment]) -> int:
    return sum(segment["p_memsz"] for segment in segments if segment["p_type"] == "PT_TLS")


def _read_notes(segments: Iterable[Segment]) -> tuple[tuple[int, int, int] | None, str]:
    """Return the oldest Linux and the x86-64 level that notes require."""
    linux, needed = None, 0
    for note in (note for segment in segments if isinstance(segment, NoteSegment) for note in segment.iter_notes()):
        content = note["n_desc"]
        if (note["n_name"], note["n_type"]) == ("GNU", "NT_GNU_ABI_TAG"):
            linux = linux or (content["abi_major"], content["abi_minor"], content["abi_tiny"])
        elif (note["n_name"], note["n_type"]) == ("GNU", "NT_GNU_PROPERTY_TYPE_0"):
            values = (p["pr_data"] for p in content if p["pr_type"] == "GNU_PROPERTY_X86_ISA_1_NEEDED")
            needed |= next(values, 0)
    return linux, next((name for bit, name in _CPU_LEVELS if needed & bit), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Symbol:
    name: str
    version: int
    weak: bool
    defined: bool


class _DynamicTable:
    """The dynamic table and the tables that it refers to.

    This class reads each table with one ``struct`` call. pyelftools parses each symbol separately, which takes minutes
    for torch's libraries.
    """

    def __init__(self, elf: ELFFile, segments: tuple[Segment, ...]) -> None:
        self._elf = elf
        self._loaded = [segment for segment in segments if segment["p_type"] == "PT_LOAD"]
        self._segment = next((segment for segment in segments if isinstance(segment, DynamicSegment)), None)
        self._tags: dict[str | int, list[int]] = {}
        for tag in self._segment.iter_tags() if self._segment else ():
            self._tags.setdefault(tag.entry.d_tag, []).append(tag.entry.d_val)
        self._strings = self._table("DT_STRTAB", self.number("DT_STRSZ"))

    @property
    def exists(self) -> bool:
        return bool(self._tags)

    def has(self, tag: str) -> bool:
        return tag in self._tags

    def number(self, tag: str) -> int:
        return self._tags.get(tag, [0])[-1]

    def texts(self, tag: str) -> list[str]:
        return [self._text(offset) for offset in self._tags.get(tag, ())]

    def folders(self, tag: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(folder for path in self.texts(tag) for folder in path.split(":")))

    def symbols(self) -> Iterator[_Symbol]:
        """Yield the symbols that other files can define or use."""
        count = self._symbol_count()
        indices = memoryview(self._table("DT_VERSYM", 2 * count)).cast("H") if self.has("DT_VERSYM") else [0] * count
        rows = _SYMBOL.iter_unpack(self._table("DT_SYMTAB", count * _SYMBOL.size))
        for (name, info, other, section, _, _), index in zip(rows, indices, strict=True):
            if name and info >> 4 != _LOCAL and not (section and other & 3 in _HIDDEN):
                yield _Symbol(
                    name=self._text(name),
                    version=index & _VERSION_INDEX,
                    weak=info >> 4 == _WEAK,
                    defined=bool(section),
                )

    def needed_versions(self) -> dict[int, NeededVersion]:
        """Return the versions of DT_VERNEED: index → version."""
        found: dict[int, NeededVersion] = {}
        for entry in self._entries("DT_VERNEED", _NEED):
            _, count, library, following, _ = self._unpack(_NEED, entry)
            place = entry
            for _ in range(count):
                place += following
                _, flags, index, name, following = self._unpack(_NEEDED_NAME, place)
                found[index & _VERSION_INDEX] = NeededVersion(
                    library=self._text(library), name=self._text(name), weak=bool(flags & _WEAK_VERSION)
                )
        return found

    def defined_versions(self) -> dict[int, str]:
        """Return the versions of DT_VERDEF: index → version. The base version, the library's name, is left out."""
        found: dict[int, str] = {}
        for place in self._entries("DT_VERDEF", _DEFINITION):
            _, flags, index, _, _, first, _ = self._unpack(_DEFINITION, place)
            if not flags & _BASE:
                found[index & _VERSION_INDEX] = self._text(self._unpack(_DEFINED_NAME, place + first)[0])
        return found

    def _entries(self, tag: str, layout: struct.Struct) -> Iterator[int]:
        """Yield the file offset of each entry of a table. The last field of an entry is the distance to the next."""
        if not self.has(tag):
            return
        place, following = self._offset(tag), 1
        while following:
            yield place
            following = self._unpack(layout, place)[-1]
            place += following

    def _symbol_count(self) -> int:
        # In a file without exports, the hash tables do not count the undefined symbols.
        sections = [section["sh_size"] // _SYMBOL.size for section in self._elf.iter_sections("SHT_DYNSYM")]
        if sections or self._segment is None or not self.has("DT_SYMTAB"):
            return max(sections, default=0)
        return self._segment.num_symbols()

    def _text(self, offset: int) -> str:
        return self._strings[offset : self._strings.index(b"\0", offset)].decode()

    def _table(self, tag: str, size: int) -> bytes:
        return self._at(self._offset(tag), size) if size else b""

    def _offset(self, tag: str) -> int:
        # ELFFile.address_offsets would read all segments and sections each time.
        distances = ((self.number(tag) - segment["p_vaddr"], segment) for segment in self._loaded)
        return next(at + segment["p_offset"] for at, segment in distances if 0 <= at < segment["p_filesz"])

    def _unpack(self, layout: struct.Struct, place: int) -> tuple[int, ...]:
        return layout.unpack(self._at(place, layout.size))

    def _at(self, place: int, size: int) -> bytes:
        self._elf.stream.seek(place)
        return self._elf.stream.read(size)
