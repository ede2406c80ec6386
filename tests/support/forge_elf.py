"""Write shared libraries byte by byte: what the loader reads, and what section headers say of it, each for itself.

No compiler is asked, so a library can say what no linker would write. What is written without a change loads: every
import has a relocation, so the loader looks for it.

Layouts: the System V ABI, gABI chapter 5, and the LSB on symbol versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
EM_386, EM_X86_64, EM_AARCH64, EM_RISCV = 3, 62, 183, 243
PT_NULL, PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_STACK, PT_GNU_RELRO = 0, 1, 2, 3, 4, 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
LOCAL, GLOBAL, WEAK, UNIQUE = 0, 1, 2, 10
NOTYPE, OBJECT, FUNC, TLS, IFUNC = 0, 1, 2, 6, 10
DEFAULT, INTERNAL, HIDDEN, PROTECTED = 0, 1, 2, 3
UNDEF, ABS = 0, 0xFFF1

DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 1, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_INIT, DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_TEXTREL = 10, 11, 12, 14, 15, 16, 22
DT_JMPREL, DT_PLTRELSZ, DT_PLTREL = 23, 2, 20
DT_RUNPATH, DT_FLAGS, DT_RELRSZ, DT_RELR, DT_RELRENT = 29, 30, 35, 36, 37
DT_GNU_HASH, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFFB
DT_CONFIG, DT_DEPAUDIT, DT_AUDIT = 0x6FFFFEFA, 0x6FFFFEFB, 0x6FFFFEFC
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    *(0x6FFFFFF0, 0x6FFFFFFC),
    *(0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF),
)
DT_AUXILIARY, DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF

MACHINES = {"x86_64": EM_X86_64, "aarch64": EM_AARCH64}
_GLOB_DAT = {"x86_64": 6, "aarch64": 1025}
_JUMP_SLOT = {"x86_64": 7, "aarch64": 1026}
_RETURN = {"x86_64": b"\x31\xc0\xc3" + b"\x90" * 13, "aarch64": bytes.fromhex("e0031faac0035fd6") + bytes(8)}
_PAGE = {"x86_64": 0x1000, "aarch64": 0x10000}
_AWAY = 0x10000  # bytes between a writable byte's place in the file and its address
_EHDR, _PHDR, _SHDR, _SYM, _RELA = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IIQQQQIIQQ"),
    struct.Struct("<IBBHQQ"),
    struct.Struct("<QQq"),
)


@dataclass(kw_only=True)
class Symbol:
    """An import or an export.

    :param version: of an import: library and version; of an export: its own version.
    :param looked_up: whether a relocation makes the loader look for it.
    """

    name: str
    version: tuple[str, str] | None = None
    bind: int = GLOBAL
    kind: int = FUNC
    visibility: int = DEFAULT
    looked_up: bool = True
    weak_version: bool = False


@dataclass(kw_only=True)
class Library:
    """A shared library.

    :param dynamic: entries after the usual ones; a string becomes its place in the string table.
    :param dynamic_first: entries before the usual ones.
    :param imports_last: whether undefined symbols stand behind those that DT_GNU_HASH counts.
    :param stack: flags of PT_GNU_STACK; None leaves it out.
    :param sections: whether there are section headers.
    :param section_names: what sections are called instead.
    :param witness: a library whose tables the section headers show instead of those that the loader reads.
    :param fatbin: content of ``.nv_fatbin``, and ``.nvFatBinSegment`` beside it.
    :param constants: content of ``.rodata``.
    :param writable: content of ``.data``.
    :param loose: content of a section that no segment loads.
    :param lazily: whether imports are of DT_JMPREL.
    :param change: the last word on the finished bytes.
    """

    arch: str = "x86_64"
    type: int = ET_DYN
    machine: int | None = None
    flags: int = 0
    ident: bytes = b"\x7fELF\x02\x01\x01\x00" + bytes(8)
    soname: str | None = None
    needed: list[str] = field(default_factory=list)
    imports: list[Symbol] = field(default_factory=list)
    exports: list[Symbol] = field(default_factory=list)
    rpath: str | None = None
    runpath: str | None = None
    dynamic: list[tuple[int, int | str]] = field(default_factory=list)
    dynamic_first: list[tuple[int, int | str]] = field(default_factory=list)
    segments: list[tuple[int, int, int, int, int, int, int, int]] = field(default_factory=list)
    imports_last: bool = False
    lazily: bool = False
    gnu_hash: bool = True
    sysv_hash: bool = False
    stack: int | None = PF_R | PF_W
    load_flags: tuple[int, int] = (PF_R | PF_X, PF_R | PF_W)
    sections: bool = True
    section_names: dict[str, str] = field(default_factory=dict)
    witness: Library | None = None
    fatbin: bytes = b""
    relocatable_fatbin: bytes = b""
    constants: bytes = b"wheel"
    loose: tuple[str, bytes] | None = None
    writable: bytes = b""
    change: Callable[[Image], None] | None = None

    def import_(self, *names: str, version: tuple[str, str] | None = None, **how: object) -> None:
        """Need symbols of a library, ``version=("libc.so.6", "GLIBC_2.17")``, or of whatever has them."""
        self.imports += [Symbol(name=name, version=version, **how) for name in names]

    def needs(self, name: str) -> Symbol:
        """Return the import of that name."""
        return next(symbol for symbol in self.imports if symbol.name == name)

    def build(self) -> bytes:
        """Return the file."""
        image = Image(self)
        if self.change:
            self.change(image)
        return bytes(image.data)


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


def _gnu(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _sysv(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


class _Tables:
    """What the dynamic segment points at; only addresses are missing."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.strings = _Strings()
        self.hashed = sorted(library.exports, key=lambda s: _gnu(s.name.encode()) % self._buckets())
        order = [self.hashed, library.imports] if library.imports_last else [library.imports, self.hashed]
        self.symbols = [symbol for group in order for symbol in group]
        self.first_hashed = 1 if library.imports_last else 1 + len(library.imports)
        self.numbers: dict[tuple[str, str], int] = {}
        own = sorted({s.version[1] for s in library.exports if s.version})
        self.own = {version: 2 + n for n, version in enumerate(own)}
        for symbol in library.imports:
            if symbol.version and symbol.version not in self.numbers:
                self.numbers[symbol.version] = 2 + len(own) + len(self.numbers)
        self.needed = self._verneed()
        self.defined = self._verdef()
        self.versym = self._versym()
        entries = [*library.dynamic_first, *((DT_NEEDED, name) for name in library.needed)]
        for tag, text in ((DT_SONAME, library.soname), (DT_RPATH, library.rpath), (DT_RUNPATH, library.runpath)):
            if text is not None:
                entries.append((tag, text))
        self.named = [(tag, self._value(value)) for tag, value in entries]
        self.extra = [(tag, self._value(value)) for tag, value in library.dynamic]
        self.names = [self.strings.add(symbol.name) for symbol in self.symbols]

    def _value(self, value: int | str) -> int:
        return self.strings.add(value) if isinstance(value, str) else value

    def _buckets(self) -> int:
        return max(1, len(self.library.exports) // 2)

    def dynsym(self, code: int) -> bytes:
        rows = [_SYM.pack(0, 0, 0, 0, 0, 0)]
        imports = {id(symbol) for symbol in self.library.imports}
        for symbol, name in zip(self.symbols, self.names, strict=True):
            info = symbol.bind << 4 | symbol.kind
            place = (UNDEF, 0, 0) if id(symbol) in imports else (1, code, 16)
            rows.append(_SYM.pack(name, info, symbol.visibility, *place))
        return b"".join(rows)

    def gnu_hash(self) -> bytes:
        count, hashes = self._buckets(), [_gnu(s.name.encode()) for s in self.hashed]
        bloom, buckets, chain = 0, [0] * count, []
        for n, value in enumerate(hashes):
            bloom |= 1 << value % 64 | 1 << (value >> 6) % 64
            buckets[value % count] = buckets[value % count] or self.first_hashed + n
            last = n + 1 == len(hashes) or hashes[n + 1] % count != value % count
            chain.append(value & ~1 | last)
        head = struct.pack("<IIIIQ", count, self.first_hashed, 1, 6, bloom)
        return head + struct.pack(f"<{count + len(chain)}I", *buckets, *chain)

    def sysv_hash(self) -> bytes:
        count = len(self.symbols) + 1
        bucket, chain = [0], [0] * count
        for number in range(count - 1, 0, -1):
            chain[number], bucket[0] = bucket[0], number
        return struct.pack(f"<{3 + count}I", 1, count, *bucket, *chain)

    def _versym(self) -> bytes:
        if not self.numbers and not self.own:
            return b""
        numbers = [0]
        imports = {id(symbol) for symbol in self.library.imports}
        for symbol in self.symbols:
            if id(symbol) in imports:
                numbers.append(self.numbers[symbol.version] if symbol.version else 0)
            else:
                numbers.append(self.own[symbol.version[1]] if symbol.version else 1)
        return struct.pack(f"<{len(numbers)}H", *numbers)

    def _verneed(self) -> bytes:
        libraries: dict[str, list[tuple[str, int, int]]] = {}
        for (library, version), number in self.numbers.items():
            weak = all(s.weak_version for s in self.library.imports if s.version == (library, version))
            libraries.setdefault(library, []).append((version, number, 2 if weak else 0))
        self.libraries = len(libraries)
        out = b""
        for n, (library, versions) in enumerate(libraries.items()):
            size = 16 * (1 + len(versions))
            out += struct.pack(
                "<HHIII", 1, len(versions), self.strings.add(library), 16, 0 if n + 1 == len(libraries) else size
            )
            for m, (version, number, flags) in enumerate(versions):
                follows = 0 if m + 1 == len(versions) else 16
                name = self.strings.add(version)
                out += struct.pack("<IHHII", _sysv(version.encode()), flags, number, name, follows)
        return out

    def _verdef(self) -> bytes:
        if not self.own:
            return b""
        base = self.library.soname or "none"
        names = [(base, 1, 1), *((version, 0, number) for version, number in self.own.items())]
        out = b""
        for n, (name, flags, number) in enumerate(names):
            follows = 0 if n + 1 == len(names) else 28
            out += struct.pack("<HHHHIII", 1, flags, number, 1, _sysv(name.encode()), 20, follows)
            out += struct.pack("<II", self.strings.add(name), 0)
        return out


@dataclass
class _Block:
    name: str
    kind: int
    flags: int
    data: bytes
    link: str = ""
    info: int = 0
    each: int = 0
    at: int = 0
    address: int = 0


class Image:
    """A library's bytes, and where everything lies in them.

    :ivar at: section name → place in the file.
    :ivar dynamic_at: where the dynamic segment lies; 16 bytes an entry.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.tables = _Tables(library)
        self.blocks: list[_Block] = []
        self.at: dict[str, int] = {}
        segments = 4 + (library.stack is not None) + len(library.segments)
        self.place = 64 + 56 * segments
        self._readable()
        self.boundary = self.place
        self._writable()
        self.loaded = self.place
        self.data = bytearray(self._header(segments))
        for block in self.blocks:
            self._put(block)
        if library.witness:
            self._show(library.witness)
        if library.loose:
            self._add(_Block(library.loose[0], 1, 0, library.loose[1]), shift=None)
            self._put(self.blocks[-1])
        if library.sections:
            self._section_headers()

    # --- layout -------------------------------------------------------------------------------------------------

    def _add(self, block: _Block, *, shift: int | None = 0) -> _Block:
        align = 4 if block.name.startswith(".note") else 8
        self.place += -self.place % align
        block.at = self.place
        block.address = 0 if shift is None else self.place + shift
        self.at.setdefault(block.name, block.at)
        self.blocks.append(block)
        self.place += len(block.data)
        return block

    def _readable(self) -> None:
        library, tables = self.library, self.tables
        if library.gnu_hash:
            self._add(_Block(".gnu.hash", 0x6FFFFFF6, 2, tables.gnu_hash(), ".dynsym"))
        if library.sysv_hash:
            self._add(_Block(".hash", 5, 2, tables.sysv_hash(), ".dynsym", each=4))
        self._add(_Block(".dynsym", 11, 2, bytes(24 * (1 + len(tables.symbols))), ".dynstr", 1, 24))
        self._add(_Block(".dynstr", 3, 2, bytes(tables.strings.data)))
        if tables.versym:
            self._add(_Block(".gnu.version", 0x6FFFFFFF, 2, tables.versym, ".dynsym", each=2))
        if tables.needed:
            self._add(_Block(".gnu.version_r", 0x6FFFFFFE, 2, tables.needed, ".dynstr", tables.libraries))
        if tables.defined:
            self._add(_Block(".gnu.version_d", 0x6FFFFFFD, 2, tables.defined, ".dynstr", 1 + len(tables.own)))
        name = ".rela.plt" if library.lazily else ".rela.dyn"
        self._add(_Block(name, 4, 2, bytes(24 * len(self._looked_up())), ".dynsym", each=24))
        self._add(_Block(".text", 1, 6, _RETURN[library.arch]))
        self._add(_Block(".rodata", 1, 2, library.constants))
        if library.fatbin:
            self._add(_Block(".nv_fatbin", 1, 2, library.fatbin))
        if library.relocatable_fatbin:
            self._add(_Block("__nv_relfatbin", 1, 2, library.relocatable_fatbin))
        self._block(".dynsym").data = tables.dynsym(self._block(".text").address)

    def _writable(self) -> None:
        library = self.library
        looked_up = self._looked_up()
        count = len(self._dynamic())
        self._add(_Block(".dynamic", 6, 3, bytes(16 * count), ".dynstr", each=16), shift=_AWAY)
        slots = self._add(_Block(".got", 1, 3, bytes(8 * max(1, len(looked_up)))), shift=_AWAY)
        if library.writable:
            self._add(_Block(".data", 1, 3, library.writable), shift=_AWAY)
        if library.fatbin:
            wrapper = struct.pack("<IIQQ", 0x466243B1, 1, self._block(".nv_fatbin").address, 0)
            self._add(_Block(".nvFatBinSegment", 1, 3, wrapper), shift=_AWAY)
        kind = (_JUMP_SLOT if library.lazily else _GLOB_DAT)[library.arch]
        rows = [_RELA.pack(slots.address + 8 * n, number << 32 | kind, 0) for n, number in enumerate(looked_up)]
        self._block(".rela.plt" if library.lazily else ".rela.dyn").data = b"".join(rows)
        self._block(".dynamic").data = b"".join(struct.pack("<QQ", *entry) for entry in self._dynamic())

    def _looked_up(self) -> list[int]:
        imports = {id(symbol) for symbol in self.library.imports}
        numbered = enumerate(self.tables.symbols, 1)
        return [number for number, symbol in numbered if id(symbol) in imports and symbol.looked_up]

    def _block(self, name: str) -> _Block:
        return next(block for block in self.blocks if block.name == name)

    def _address(self, name: str) -> int:
        return next((block.address for block in self.blocks if block.name == name), 0)

    def _dynamic(self) -> list[tuple[int, int]]:
        tables, library = self.tables, self.library
        entries = list(tables.named)
        if library.gnu_hash:
            entries.append((DT_GNU_HASH, self._address(".gnu.hash")))
        if library.sysv_hash:
            entries.append((DT_HASH, self._address(".hash")))
        entries += [(DT_STRTAB, self._address(".dynstr")), (DT_SYMTAB, self._address(".dynsym"))]
        entries += [(DT_STRSZ, len(tables.strings.data)), (DT_SYMENT, 24)]
        size = 24 * len(self._looked_up())
        if size and library.lazily:
            entries += [(DT_JMPREL, self._address(".rela.plt")), (DT_PLTRELSZ, size), (DT_PLTREL, DT_RELA)]
        elif size:
            entries += [(DT_RELA, self._address(".rela.dyn")), (DT_RELASZ, size), (DT_RELAENT, 24)]
        if tables.versym:
            entries.append((DT_VERSYM, self._address(".gnu.version")))
        if tables.needed:
            entries += [(DT_VERNEED, self._address(".gnu.version_r")), (DT_VERNEEDNUM, tables.libraries)]
        if tables.defined:
            entries += [(DT_VERDEF, self._address(".gnu.version_d")), (DT_VERDEFNUM, 1 + len(tables.own))]
        return [*entries, *tables.extra, (0, 0)]

    # --- writing ------------------------------------------------------------------------------------------------

    def _header(self, segments: int) -> bytes:
        library, page = self.library, _PAGE[self.library.arch]
        machine = MACHINES[library.arch] if library.machine is None else library.machine
        counts = (64, 56, segments, 64, 0, 0)
        head = _EHDR.pack(library.ident, library.type, machine, 1, 0, 64, 0, library.flags, *counts)
        dynamic = self._block(".dynamic")
        readable, writable = library.load_flags
        start, end = self.boundary, self.loaded
        rows = [
            (PT_LOAD, readable, 0, 0, 0, start, start, page),
            (PT_LOAD, writable, start, start + _AWAY, start + _AWAY, end - start, end - start, page),
            (PT_DYNAMIC, 6, dynamic.at, dynamic.address, dynamic.address, *[len(dynamic.data)] * 2, 8),
            (PT_NULL, 0, 0, 0, 0, 0, 0, 0),
        ]
        if library.stack is not None:
            rows.append((PT_GNU_STACK, library.stack, 0, 0, 0, 0, 0, 16))
        return head + b"".join(_PHDR.pack(*row) for row in [*rows, *library.segments])

    def _put(self, block: _Block) -> None:
        end = block.at + len(block.data)
        self.data.extend(bytes(max(0, end - len(self.data))))
        self.data[block.at : end] = block.data

    def _show(self, witness: Library) -> None:
        """Let section headers show another library's tables, which no segment loads."""
        other = Image(replace(witness, sections=False, witness=None))
        shown = [replace(block) for block in other.blocks]
        kept = {block.name for block in shown}
        base = len(self.data) + -len(self.data) % 8
        self.data.extend(bytes(base - len(self.data)))
        self.data.extend(other.data)
        for block in shown:
            block.at += base
        self.blocks = [*(block for block in self.blocks if block.name not in kept), *shown]
        self.place = len(self.data)

    def _section_headers(self) -> None:
        names = _Strings()
        called = self.library.section_names
        titles = [called.get(block.name, block.name) for block in self.blocks]
        numbers = {block.name: n for n, block in enumerate(self.blocks, 1)}
        offsets = [names.add(title) for title in titles]
        own = names.add(".shstrtab")
        at = len(self.data)
        self.data += names.data
        self.data += bytes(-len(self.data) % 8)
        start = len(self.data)
        self.data += bytes(64)
        for block, name in zip(self.blocks, offsets, strict=True):
            link = numbers.get(block.link, 0)
            row = (name, block.kind, block.flags, block.address, block.at, len(block.data), link, block.info, 8)
            self.data += _SHDR.pack(*row, block.each)
        self.data += _SHDR.pack(own, 3, 0, 0, at, len(names.data), 0, 0, 1, 0)
        self.section_headers_at = start
        struct.pack_into("<Q", self.data, 40, start)
        struct.pack_into("<HH", self.data, 60, len(self.blocks) + 2, len(self.blocks) + 1)

    # --- changes to finished bytes ------------------------------------------------------------------------------

    def pack(self, layout: str, at: int, *values: int) -> None:
        """Overwrite bytes."""
        struct.pack_into(layout, self.data, at, *values)

    def dynamic_entry(self, tag: int) -> int:
        """Return where an entry of the dynamic segment lies."""
        at = self.at[".dynamic"]
        while True:
            found = struct.unpack_from("<Q", self.data, at)[0]
            if found == tag:
                return at
            if found == 0:
                raise LookupError(tag)
            at += 16

    def set_dynamic(self, tag: int, value: int, *, new_tag: int | None = None) -> None:
        """Overwrite an entry of the dynamic segment."""
        self.pack("<QQ", self.dynamic_entry(tag), tag if new_tag is None else new_tag, value)

    def segment(self, kind: int) -> int:
        """Return where the first program header of a kind lies."""
        count = struct.unpack_from("<H", self.data, 56)[0]
        places = (64 + 56 * n for n in range(count))
        return next(at for at in places if struct.unpack_from("<I", self.data, at)[0] == kind)

    def section(self, name: str) -> int:
        """Return where a section's header lies."""
        number = next(n for n, block in enumerate(self.blocks, 1) if block.name == name)
        return self.section_headers_at + 64 * number

    def symbol(self, name: str) -> int:
        """Return where a dynamic symbol lies; 24 bytes."""
        number = next(n for n, symbol in enumerate(self.tables.symbols, 1) if symbol.name == name)
        return self.at[".dynsym"] + 24 * number
