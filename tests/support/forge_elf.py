"""Write ELF files without a compiler, as linkers lay them out: one segment, the dynamic table and what it leads to.

Layouts: the System V ABI, gABI chapter 5, and the LSB on symbol versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
EM_386, EM_X86_64, EM_AARCH64, EM_RISCV = 3, 62, 183, 243
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_TLS, PT_GNU_STACK = 1, 2, 3, 4, 7, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4
LOCAL, GLOBAL, WEAK, UNIQUE = 0, 1, 2, 10
NOTYPE, OBJECT, FUNC, TLS, IFUNC = 0, 1, 2, 6, 10
DEFAULT, INTERNAL, HIDDEN, PROTECTED = 0, 1, 2, 3

DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT = 1, 4, 5, 6, 10, 11
DT_SONAME, DT_RPATH, DT_TEXTREL, DT_RUNPATH, DT_FLAGS, DT_RELRSZ = 14, 15, 22, 29, 30, 35
DT_GNU_HASH, DT_FLAGS_1, DT_DEPAUDIT, DT_AUDIT = 0x6FFFFEF5, 0x6FFFFFFB, 0x6FFFFEFB, 0x6FFFFEFC
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    *(0x6FFFFFF0, 0x6FFFFFFC),
    *(0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF),
)
DT_AUXILIARY, DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF
DF_1_PIE = 0x08000000

MACHINES = {"x86_64": EM_X86_64, "aarch64": EM_AARCH64}
_CODE = bytes(16)
_EHDR, _PHDR, _SHDR, _SYM = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IIQQQQIIQQ"),
    struct.Struct("<IBBHQQ"),
)
# Section → its type, the section that it belongs to, and the size of an entry.
_SECTIONS = {
    ".gnu.hash": (0x6FFFFFF6, ".dynsym", 0),
    ".hash": (5, ".dynsym", 4),
    ".dynsym": (11, ".dynstr", 24),
    ".dynstr": (3, "", 0),
    ".gnu.version": (0x6FFFFFFF, ".dynsym", 2),
    ".gnu.version_r": (0x6FFFFFFE, ".dynstr", 0),
    ".gnu.version_d": (0x6FFFFFFD, ".dynstr", 0),
    ".dynamic": (6, ".dynstr", 16),
}


@dataclass(kw_only=True)
class Symbol:
    """An import or an export.

    :param version: of an import: library and version; of an export: its own version.
    """

    name: str
    version: tuple[str, str] | None = None
    bind: int = GLOBAL
    kind: int = FUNC
    visibility: int = DEFAULT
    weak_version: bool = False


@dataclass(kw_only=True)
class Segment:
    """A program header with its content; ``memory`` is its size if it is larger."""

    kind: int
    content: bytes = b""
    flags: int = PF_R
    memory: int = 0
    align: int = 8


@dataclass(kw_only=True)
class Library:
    """A shared library.

    :param dynamic: entries after the usual ones; a string becomes its place in the string table.
    :param stack: flags of PT_GNU_STACK; None leaves it out.
    :param sections: it has section headers.
    :param section_names: other names of sections.
    :param fatbin: content of ``.nv_fatbin``, and ``.nvFatBinSegment`` beside it.
    :param constants: content of ``.rodata``.
    :param writable: content of ``.data``.
    :param loose: name and content of a section that no segment loads.
    :param change: changes the finished bytes.
    """

    arch: str = "x86_64"
    type: int = ET_DYN
    machine: int | None = None
    ident: bytes = b"\x7fELF\x02\x01\x01\x00" + bytes(8)
    soname: str | None = None
    needed: list[str] = field(default_factory=list)
    imports: list[Symbol] = field(default_factory=list)
    exports: list[Symbol] = field(default_factory=list)
    rpath: str | None = None
    runpath: str | None = None
    dynamic: list[tuple[int, int | str]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    gnu_hash: bool = True
    sysv_hash: bool = False
    stack: int | None = PF_R | PF_W
    sections: bool = True
    section_names: dict[str, str] = field(default_factory=dict)
    fatbin: bytes = b""
    relocatable_fatbin: bytes = b""
    constants: bytes = b"wheel"
    loose: tuple[str, bytes] | None = None
    writable: bytes = b""
    change: Callable[[bytearray], object] | None = None

    def import_(self, *names: str, version: tuple[str, str] | None = None, **how: object) -> None:
        """Need symbols of a library, ``version=("libc.so.6", "GLIBC_2.17")``, or of any."""
        self.imports += [Symbol(name=name, version=version, **how) for name in names]

    def needs(self, name: str) -> Symbol:
        """Return the import of that name."""
        return next(symbol for symbol in self.imports if symbol.name == name)

    def build(self) -> bytes:
        """Return the file."""
        data = _Image(self).data
        if self.change:
            self.change(data)
        return bytes(data)


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, text: str) -> int:
        raw = text.encode("utf-8", "surrogateescape") + b"\0"
        at = self.data.find(b"\0" + raw)
        if at >= 0:
            return at + 1
        self.data += raw
        return len(self.data) - len(raw)


def _gnu(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


class _Image:
    """The bytes of a library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.strings = _Strings()
        self.buckets = max(1, len(library.exports) // 2)
        # DT_GNU_HASH counts only what stands behind the imports, in the order of its buckets.
        self.exports = sorted(library.exports, key=lambda symbol: _gnu(symbol.name) % self.buckets)
        own = dict.fromkeys(symbol.version[1] for symbol in library.exports if symbol.version)
        self.own = {version: number for number, version in enumerate(own, 2)}
        wanted = dict.fromkeys(symbol.version for symbol in library.imports if symbol.version)
        self.wanted = {version: number for number, version in enumerate(wanted, 2 + len(own))}
        self.segments = [Segment(kind=PT_LOAD, flags=7, align=0x10000), Segment(kind=PT_DYNAMIC, flags=6)]
        if library.stack is not None:
            self.segments.append(Segment(kind=PT_GNU_STACK, flags=library.stack, align=16))
        self.segments += library.segments
        self.data = bytearray(64 + 56 * len(self.segments))
        self.at: dict[str, range] = {}
        self._write_tables()
        self._write_contents()
        loaded = len(self.data)
        if library.loose:
            self._add(library.loose[0], library.loose[1])
        sections = self._write_sections() if library.sections else (0, 0, 0)
        self._write_headers(loaded, *sections)

    def _add(self, name: str, content: bytes) -> None:
        self.data += bytes(-len(self.data) % 8)
        self.at[name] = range(len(self.data), len(self.data) + len(content))
        self.data += content

    def _write_tables(self) -> None:
        library = self.library
        named = [(DT_NEEDED, name) for name in library.needed]
        texts = ((DT_SONAME, library.soname), (DT_RPATH, library.rpath), (DT_RUNPATH, library.runpath))
        named += [(tag, text) for tag, text in texts if text is not None]
        given = [(tag, self.strings.add(text)) for tag, text in named]
        more = [(tag, self.strings.add(value) if isinstance(value, str) else value) for tag, value in library.dynamic]
        tables = {DT_SYMTAB: (".dynsym", self._dynsym())}
        if library.gnu_hash:
            tables[DT_GNU_HASH] = (".gnu.hash", self._gnu_hash())
        if library.sysv_hash:
            count = 1 + len(library.imports) + len(self.exports)
            tables[DT_HASH] = (".hash", struct.pack(f"<{3 + count}I", 1, count, *([0] * (1 + count))))
        if self.wanted or self.own:
            tables[DT_VERSYM] = (".gnu.version", self._versym())
        if self.wanted:
            tables[DT_VERNEED] = (".gnu.version_r", self._verneed())
            given.append((DT_VERNEEDNUM, len({name for name, _ in self.wanted})))
        if self.own:
            tables[DT_VERDEF] = (".gnu.version_d", self._verdef())
            given.append((DT_VERDEFNUM, 1 + len(self.own)))
        tables[DT_STRTAB] = (".dynstr", bytes(self.strings.data))
        for name, content in tables.values():
            self._add(name, content)
        given += [(tag, self.at[name].start) for tag, (name, _) in tables.items()]
        given += [(DT_STRSZ, len(self.strings.data)), (DT_SYMENT, 24), *more, (0, 0)]
        self._add(".dynamic", b"".join(struct.pack("<QQ", *entry) for entry in given))

    def _write_contents(self) -> None:
        library = self.library
        self._add(".text", _CODE)
        self._add(".rodata", library.constants)
        for name, content in (("__nv_relfatbin", library.relocatable_fatbin), (".data", library.writable)):
            if content:
                self._add(name, content)
        if library.fatbin:
            self._add(".nv_fatbin", library.fatbin)
            self._add(".nvFatBinSegment", struct.pack("<IIQQ", 0x466243B1, 1, self.at[".nv_fatbin"].start, 0))
        for number, segment in enumerate(library.segments):
            self._add(f".segment{number}", segment.content)

    def _dynsym(self) -> bytes:
        rows = [bytes(24)]
        for symbols, place in ((self.library.imports, (0, 0, 0)), (self.exports, (1, 64, 16))):
            for symbol in symbols:
                info = symbol.bind << 4 | symbol.kind
                rows.append(_SYM.pack(self.strings.add(symbol.name), info, symbol.visibility, *place))
        return b"".join(rows)

    def _gnu_hash(self) -> bytes:
        first, count = 1 + len(self.library.imports), self.buckets
        hashes = [_gnu(symbol.name) for symbol in self.exports]
        buckets, chain = [0] * count, []
        for number, value in enumerate(hashes):
            buckets[value % count] = buckets[value % count] or first + number
            last = number + 1 == len(hashes) or hashes[number + 1] % count != value % count
            chain.append(value & ~1 | last)
        return struct.pack(f"<IIIIQ{count + len(chain)}I", count, first, 1, 6, 2**64 - 1, *buckets, *chain)

    def _versym(self) -> bytes:
        numbers = [0, *(self.wanted[s.version] if s.version else 0 for s in self.library.imports)]
        numbers += [self.own[s.version[1]] if s.version else 1 for s in self.exports]
        return struct.pack(f"<{len(numbers)}H", *numbers)

    def _verneed(self) -> bytes:
        libraries: dict[str, list[tuple[str, int, int]]] = {}
        for (library, version), number in self.wanted.items():
            weak = all(s.weak_version for s in self.library.imports if s.version == (library, version))
            libraries.setdefault(library, []).append((version, number, 2 if weak else 0))
        out = b""
        for left, (library, versions) in zip(range(len(libraries), 0, -1), libraries.items(), strict=True):
            following = 16 * (1 + len(versions)) if left > 1 else 0
            out += struct.pack("<HHIII", 1, len(versions), self.strings.add(library), 16, following)
            for more, (version, number, flags) in zip(range(len(versions), 0, -1), versions, strict=True):
                out += struct.pack("<IHHII", 0, flags, number, self.strings.add(version), 16 if more > 1 else 0)
        return out

    def _verdef(self) -> bytes:
        names = [(self.library.soname or "none", 1, 1), *((version, 0, number) for version, number in self.own.items())]
        out = b""
        for left, (name, flags, number) in zip(range(len(names), 0, -1), names, strict=True):
            out += struct.pack("<HHHHIII", 1, flags, number, 1, 0, 20, 28 if left > 1 else 0)
            out += struct.pack("<II", self.strings.add(name), 0)
        return out

    def _write_sections(self) -> tuple[int, int, int]:
        """Return where the section headers begin, how many there are, and the number of the names'."""
        names, order = _Strings(), list(self.at)
        rows = [bytes(64)]
        for name, place in self.at.items():
            kind, link, each = _SECTIONS.get(name, (1, "", 0))
            number = order.index(link) + 1 if link else 0
            flags = 0 if self.library.loose and name == self.library.loose[0] else 2
            text = names.add(self.library.section_names.get(name, name))
            start = place.start
            rows.append(_SHDR.pack(text, kind, flags, start if flags else 0, start, len(place), number, 1, 8, each))
        own = names.add(".shstrtab")
        rows.append(_SHDR.pack(own, 3, 0, 0, len(self.data), len(names.data), 0, 0, 1, 0))
        self.data += names.data
        self.data += bytes(-len(self.data) % 8)
        start = len(self.data)
        self.data += b"".join(rows)
        return start, len(rows), len(rows) - 1

    def _write_headers(self, loaded: int, *sections: int) -> None:
        library = self.library
        machine = MACHINES[library.arch] if library.machine is None else library.machine
        tail = (0, 64, 56, len(self.segments), 64, *sections[1:])
        rows = [_EHDR.pack(library.ident, library.type, machine, 1, 0, 64, sections[0], *tail)]
        places = {PT_LOAD: range(loaded), PT_DYNAMIC: self.at[".dynamic"], PT_GNU_STACK: range(0)}
        own = [self.at[f".segment{number}"] for number in range(len(library.segments))]
        found = [places[segment.kind] for segment in self.segments[: -len(own) or None]]
        for segment, place in zip(self.segments, [*found, *own], strict=True):
            size, start = max(segment.memory, len(place)), place.start
            row = (segment.kind, segment.flags, start, start, start, len(place), size, segment.align)
            rows.append(_PHDR.pack(*row))
        self.data[: 64 + 56 * len(self.segments)] = b"".join(rows)
