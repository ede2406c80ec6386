"""Write ELF files, honest and forged, without a compiler: what is asked for is written, whatever a loader thinks."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

MACHINES = {"x86_64": 62, "aarch64": 183, "i386": 3, "cuda": 190, "riscv64": 243}
_GLOB_DAT = {"x86_64": 6, "aarch64": 1025}

ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK = 1, 2, 3, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4
GLOBAL, WEAK = 1, 2
DT_NULL, DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = (
    0,
    1,
    2,
    4,
    5,
    6,
    7,
    8,
    9,
)
DT_STRSZ, DT_SYMENT, DT_SONAME, DT_RPATH, DT_TEXTREL, DT_RUNPATH, DT_FLAGS = 10, 11, 14, 15, 22, 29, 30
DT_GNU_HASH, DT_DEPAUDIT, DT_AUDIT, DT_VERSYM, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFEFB, 0x6FFFFEFC, 0x6FFFFFF0, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DT_AUXILIARY, DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF

_SECTION_TYPES = {
    ".dynsym": 11,
    ".dynstr": 3,
    ".gnu.hash": 0x6FFFFFF6,
    ".hash": 5,
    ".gnu.version": 0x6FFFFFFF,
    ".gnu.version_r": 0x6FFFFFFE,
    ".gnu.version_d": 0x6FFFFFFD,
    ".rela.dyn": 4,
    ".dynamic": 6,
}
_ENTRIES = {".dynsym": 24, ".gnu.version": 2, ".rela.dyn": 24, ".dynamic": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """An entry of the table of symbols.

    :param version: and ``library`` as DT_VERNEED has them, of an undefined symbol; ``version`` alone as DT_VERDEF has
        it, of a defined one.
    """

    name: str
    defined: bool = False
    weak: bool = False
    version: str | None = None
    library: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """What to write.

    :param strings: further dynamic entries that name a string: ``((DT_AUXILIARY, "libevil.so"),)``.
    :param numbers: further dynamic entries with a number: ``((DT_FLAGS, 4),)``.
    :param hashes: which tables of hashes: ``gnu``, ``sysv``.
    :param stack: the flags of PT_GNU_STACK; None leaves the header out.
    :param sections: whether there are section headers.
    :param renamed: section name → the name to give it instead.
    :param contents: further sections that are loaded, by name.
    """

    machine: str = "x86_64"
    kind: int = ET_DYN
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    symbols: tuple[Symbol, ...] = ()
    strings: tuple[tuple[int, str], ...] = ()
    numbers: tuple[tuple[int, int], ...] = ()
    hashes: tuple[str, ...] = ("gnu",)
    stack: int | None = PF_R | PF_W
    interpreter: str | None = None
    relocated: bool = True
    sections: bool = True
    renamed: dict[str, str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)


def undefined(*names: str, weak: bool = False) -> tuple[Symbol, ...]:
    """Return undefined symbols, ``name`` or ``name@VERSION@library``."""
    parts = [(*name.split("@"), None, None)[:3] for name in names]
    return tuple(Symbol(name=name, version=version, library=library, weak=weak) for name, version, library in parts)


def defined(*names: str) -> tuple[Symbol, ...]:
    """Return defined symbols, ``name`` or ``name@VERSION``."""
    parts = [(*name.split("@"), None)[:2] for name in names]
    return tuple(Symbol(name=name, version=version, defined=True) for name, version in parts)


def write_elf(elf: Elf) -> bytes:
    """Return the file."""
    return _Layout(elf).data()


def places(elf: Elf) -> dict[str, range]:
    """Return where the parts lie in the file, by section name, so that a forger can reach them.

    Besides the sections: ``phdr`` and ``shdr``, the two tables of headers.
    """
    layout = _Layout(elf)
    layout.data()
    return layout.where


def sysv_hash(name: str) -> int:
    """Return the hash of the System V ABI."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def gnu_hash(name: str) -> int:
    """Return the hash of DT_GNU_HASH."""
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self.known: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        if text not in self.known:
            self.known[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.known[text]


class _Layout:
    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self.strings = _Strings()
        self.buckets = max(1, sum(symbol.defined for symbol in elf.symbols) // 2)
        # DT_GNU_HASH wants the symbols that can be found after the others, one bucket's beside each other.
        wanted = sorted((s for s in elf.symbols if s.defined), key=lambda s: gnu_hash(s.name) % self.buckets)
        self.symbols = [*(s for s in elf.symbols if not s.defined), *wanted]
        self.where: dict[str, range] = {}

    def data(self) -> bytes:
        if self.elf.kind == ET_REL:
            return self._relocatable()
        first = self._parts({})
        headers = 64 + 56 * self._segment_count()
        self._place(first, headers)
        parts = self._parts(self.where)
        body = bytearray(headers)
        for name, part in parts.items():
            place = self.where[name]
            body += bytes(place.start - len(body)) + part
        end = len(body)
        body[64:headers] = b"".join(self._segments(end))
        self.where["phdr"] = range(64, headers)
        tail = self._section_headers(parts, end) if self.elf.sections else (b"", 0, 0, 0)
        body += tail[0]
        body[:64] = self._header(*tail[1:])
        return bytes(body)

    def _relocatable(self) -> bytes:
        return replace_header(self._header(0, 0, 0), phoff=0, phnum=0)

    def _header(self, offset: int, count: int, names: int) -> bytes:
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        machine = MACHINES[self.elf.machine]
        count_of_segments = self._segment_count() if self.elf.kind != ET_REL else 0
        return ident + struct.pack(
            "<HHIQQQIHHHHHH",
            *(self.elf.kind, machine, 1, 0, 64, offset, 0),
            *(64, 56, count_of_segments, 64, count, names),
        )

    def _segment_count(self) -> int:
        return 2 + (self.elf.stack is not None) + (self.elf.interpreter is not None)

    def _segments(self, end: int) -> Iterable[bytes]:
        def header(kind: int, flags: int, place: range, align: int) -> bytes:
            start, size = place.start, len(place)
            return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)

        if self.elf.interpreter is not None:
            yield header(PT_INTERP, PF_R, self.where[".interp"], 1)
        yield header(PT_LOAD, PF_R | PF_W | PF_X, range(end), 0x10000)
        yield header(PT_DYNAMIC, PF_R | PF_W, self.where[".dynamic"], 8)
        if self.elf.stack is not None:
            yield struct.pack("<IIQQQQQQ", PT_GNU_STACK, self.elf.stack, 0, 0, 0, 0, 0, 16)

    def _place(self, parts: dict[str, bytes], start: int) -> None:
        for name, part in parts.items():
            start = -(-start // 8) * 8
            self.where[name] = range(start, start + len(part))
            start += len(part)

    def _parts(self, where: dict[str, range]) -> dict[str, bytes]:
        """Return each section's content; addresses are right once ``where`` says where everything lies."""
        parts: dict[str, bytes] = {}
        if self.elf.interpreter is not None:
            parts[".interp"] = self.elf.interpreter.encode() + b"\0"
        parts[".dynsym"] = self._dynsym()
        if "gnu" in self.elf.hashes:
            parts[".gnu.hash"] = self._gnu_hash()
        if "sysv" in self.elf.hashes:
            parts[".hash"] = self._sysv_hash()
        needs, definitions = self._needs(), self._definitions()
        if needs or definitions:
            parts[".gnu.version"] = b"".join(struct.pack("<H", self._index(s)) for s in [None, *self.symbols])
        if needs:
            parts[".gnu.version_r"] = needs
        if definitions:
            parts[".gnu.version_d"] = definitions
        if self.elf.relocated and any(not s.defined for s in self.symbols):
            parts[".rela.dyn"] = self._relocations(where)
        parts[".dynamic"] = self._dynamic(where, parts)
        parts[".dynstr"] = bytes(self.strings.data)
        parts[".got"] = bytes(8 * len(self.symbols))
        return parts | self.elf.contents

    def _dynsym(self) -> bytes:
        rows = [bytes(24)]
        for symbol in self.symbols:
            info = (WEAK if symbol.weak else GLOBAL) << 4 | 2
            section, value = (1, 0x40) if symbol.defined else (0, 0)
            rows.append(
                struct.pack("<IBBHQQ", self.strings.add(symbol.name), info, 2 * symbol.hidden, section, value, 0)
            )
        return b"".join(rows)

    def _gnu_hash(self) -> bytes:
        first = 1 + sum(not s.defined for s in self.symbols)
        hashes = [gnu_hash(s.name) for s in self.symbols if s.defined]
        buckets = [0] * self.buckets
        for number, value in reversed(list(enumerate(hashes))):
            buckets[value % self.buckets] = first + number
        ends = [n + 1 == len(hashes) or hashes[n + 1] % self.buckets != v % self.buckets for n, v in enumerate(hashes)]
        chain = [value & ~1 | end for value, end in zip(hashes, ends, strict=True)]
        bloom = 0
        for value in hashes:
            bloom |= 1 << value % 64 | 1 << (value >> 6) % 64
        head = struct.pack("<IIIIQ", self.buckets, first, 1, 6, bloom)
        return head + struct.pack(f"<{len(buckets)}I", *buckets) + struct.pack(f"<{len(chain)}I", *chain)

    def _sysv_hash(self) -> bytes:
        count = 1 + len(self.symbols)
        buckets, chain = [0] * self.buckets, [0] * count
        for number, symbol in enumerate(self.symbols, 1):
            bucket = sysv_hash(symbol.name) % self.buckets
            chain[number], buckets[bucket] = buckets[bucket], number
        return struct.pack(f"<{2 + len(buckets) + count}I", len(buckets), count, *buckets, *chain)

    def _needed_versions(self) -> dict[str, list[str]]:
        wanted: dict[str, list[str]] = {}
        for symbol in self.symbols:
            if not symbol.defined and symbol.version is not None:
                versions = wanted.setdefault(symbol.library or "", [])
                if symbol.version not in versions:
                    versions.append(symbol.version)
        return wanted

    def _defined_versions(self) -> list[str]:
        return list(dict.fromkeys(s.version for s in self.symbols if s.defined and s.version is not None))

    def _index(self, symbol: Symbol | None) -> int:
        if symbol is None:
            return 0
        if symbol.version is None:
            return 1
        if symbol.defined:
            return 2 + self._defined_versions().index(symbol.version)
        pairs = [(library, v) for library, versions in self._needed_versions().items() for v in versions]
        return 2 + len(self._defined_versions()) + pairs.index((symbol.library or "", symbol.version))

    def _needs(self) -> bytes:
        number = 2 + len(self._defined_versions())
        wanted = self._needed_versions()
        result = b""
        for place, (library, versions) in enumerate(wanted.items(), 1):
            size = 16 + 16 * len(versions)
            following = size if place < len(wanted) else 0
            result += struct.pack("<HHIII", 1, len(versions), self.strings.add(library), 16, following)
            for nth, version in enumerate(versions, 1):
                more = 16 if nth < len(versions) else 0
                result += struct.pack("<IHHII", sysv_hash(version), 0, number, self.strings.add(version), more)
                number += 1
        return result

    def _definitions(self) -> bytes:
        names = self._defined_versions()
        if not names:
            return b""
        every = [self.elf.soname or "base", *names]
        result = b""
        for number, name in enumerate(every, 1):
            following = 28 if number < len(every) else 0
            base = int(number == 1)
            result += struct.pack("<HHHHIII", 1, base, number, 1, sysv_hash(name), 20, following)
            result += struct.pack("<II", self.strings.add(name), 0)
        return result

    def _relocations(self, where: dict[str, range]) -> bytes:
        got = where[".got"].start if where else 0
        kind = _GLOB_DAT.get(self.elf.machine, 6)
        numbers = [number for number, symbol in enumerate(self.symbols, 1) if not symbol.defined]
        return b"".join(struct.pack("<QQq", got + 8 * place, n << 32 | kind, 0) for place, n in enumerate(numbers))

    def _dynamic(self, where: dict[str, range], parts: dict[str, bytes]) -> bytes:
        def start(name: str) -> int:
            return where[name].start if where else 0

        named = [(DT_NEEDED, name) for name in self.elf.needed]
        named += [(DT_SONAME, self.elf.soname)] if self.elf.soname is not None else []
        named += [(DT_RPATH, self.elf.rpath)] if self.elf.rpath is not None else []
        named += [(DT_RUNPATH, self.elf.runpath)] if self.elf.runpath is not None else []
        rows = [(tag, self.strings.add(text)) for tag, text in (*named, *self.elf.strings)]
        tables = {
            ".gnu.hash": DT_GNU_HASH,
            ".hash": DT_HASH,
            ".gnu.version": DT_VERSYM,
            ".gnu.version_r": DT_VERNEED,
            ".gnu.version_d": DT_VERDEF,
            ".rela.dyn": DT_RELA,
            ".dynsym": DT_SYMTAB,
        }
        rows += [(tag, start(name)) for name, tag in tables.items() if name in parts]
        if ".rela.dyn" in parts:
            rows += [(DT_RELASZ, len(parts[".rela.dyn"])), (DT_RELAENT, 24)]
        if ".gnu.version_r" in parts:
            rows.append((DT_VERNEEDNUM, len(self._needed_versions())))
        if ".gnu.version_d" in parts:
            rows.append((DT_VERDEFNUM, 1 + len(self._defined_versions())))
        rows += [(DT_STRTAB, start(".dynstr")), (DT_STRSZ, len(self.strings.data)), (DT_SYMENT, 24)]
        rows += [*self.elf.numbers, (DT_NULL, 0)]
        return b"".join(struct.pack("<qQ", tag, value) for tag, value in rows)

    def _section_headers(self, parts: dict[str, bytes], end: int) -> tuple[bytes, int, int, int]:
        names = _Strings()
        order = list(parts)
        rows = [bytes(64)]
        for name, part in parts.items():
            link = (
                order.index(".dynstr") + 1 if name in {".dynsym", ".dynamic", ".gnu.version_r", ".gnu.version_d"} else 0
            )
            link = order.index(".dynsym") + 1 if name in {".gnu.hash", ".hash", ".gnu.version", ".rela.dyn"} else link
            info = {".gnu.version_r": len(self._needed_versions()), ".dynsym": 1}.get(name, 0)
            info = 1 + len(self._defined_versions()) if name == ".gnu.version_d" else info
            start = self.where[name].start
            rows.append(
                struct.pack(
                    "<IIQQQQIIQQ",
                    *(names.add(self.elf.renamed.get(name, name)), _SECTION_TYPES.get(name, 1), 3),
                    *(start, start, len(part), link, info, 8, _ENTRIES.get(name, 0)),
                )
            )
        own = names.add(".shstrtab")
        rows.append(struct.pack("<IIQQQQIIQQ", own, 3, 0, 0, end, len(names.data), 0, 0, 1, 0))
        padding = bytes(-(end + len(names.data)) % 8)
        offset = end + len(names.data) + len(padding)
        self.where["shdr"] = range(offset, offset + 64 * len(rows))
        return bytes(names.data) + padding + b"".join(rows), offset, len(rows), len(rows) - 1


def replace_header(data: bytes, **values: int) -> bytes:
    """Return the file with these fields of its header replaced: ``kind``, ``machine``, ``shoff`` and so on."""
    layout = {
        "kind": ("<H", 16),
        "machine": ("<H", 18),
        "phoff": ("<Q", 32),
        "shoff": ("<Q", 40),
        "flags": ("<I", 48),
        "phnum": ("<H", 56),
        "shnum": ("<H", 60),
        "shstrndx": ("<H", 62),
    }
    result = bytearray(data)
    for name, value in values.items():
        struct.pack_into(layout[name][0], result, layout[name][1], value)
    return bytes(result)


def without_sections(data: bytes) -> bytes:
    """Return the file with no section headers; the loader does not look at them."""
    return replace_header(data, shoff=0, shnum=0, shstrndx=0)


def extension(name: str = "kernel", **changes: object) -> Elf:
    """Return a small extension module for Python, as honest as can be."""
    oldest = "GLIBC_2.17" if changes.get("machine") == "aarch64" else "GLIBC_2.2.5"
    symbols = (*undefined(f"malloc@{oldest}@libc.so.6"), *defined(f"PyInit_{name}"))
    return replace(Elf(needed=("libc.so.6",), symbols=symbols), **changes)  # type: ignore[arg-type]  # the caller's own
