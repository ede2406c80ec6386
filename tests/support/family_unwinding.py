"""What the unwinder of exceptions reads, and which Linux a file asks for: libgcc 12's and glibc 2.28's ways."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from forge import Wheel, legal, legals, lie, lies
from forge_elf import PF_R, PT_NOTE, Image

_PT_GNU_EH_FRAME = 0x6474E550
_COMMON = struct.pack("<IIB3sBBBBB", 16, 0, 1, b"zR\0", 1, 0x78, 16, 1, 0x1B) + bytes(3)
_FRAME = 16  # bytes
_FUNCTIONS = (0, 4, 8)  # places in .text, which has 16 bytes


@dataclass(kw_only=True)
class Frames:
    """The table for exceptions and the frames that it leads to, in ``.rodata``; each field is free to be changed.

    :param rows: place in .text and number of its frame, in the table's order.
    :param segment: moves PT_GNU_EH_FRAME; gets its address and size.
    """

    version: int = 1
    encodings: tuple[int, int, int] = (0x1B, 0x03, 0x3B)
    rows: list[tuple[int, int]] = field(default_factory=lambda: [(place, n) for n, place in enumerate(_FUNCTIONS)])
    count: int | None = None
    to_frames: int = 0
    away: int = 0
    back: int = 0
    segment: Callable[[int, int], tuple[int, int]] | None = None

    def into(self, wheel: Wheel) -> None:
        """Return the frames to the wheel's library."""
        library = wheel.library
        size = 12 + 8 * len(_FUNCTIONS)
        library.constants = bytes(size + len(_COMMON) + _FRAME * len(_FUNCTIONS) + 4)
        library.segments.append((_PT_GNU_EH_FRAME, PF_R, 0, 0, 0, 0, 0, 4))
        library.change = self._write

    def _write(self, image: Image) -> None:
        start, text = image.at[".rodata"], image.at[".text"]
        common = start + 12 + 8 * len(_FUNCTIONS)
        first = common + len(_COMMON)
        rows = len(self.rows) if self.count is None else self.count
        table = struct.pack("<BBBBi", self.version, *self.encodings, common - start - 4 + self.to_frames)
        table += struct.pack("<I", rows)
        for place, number in self.rows:
            table += struct.pack("<ii", text + place - start, first + _FRAME * number - start + self.away)
        frames = b""
        for number, place in enumerate(_FUNCTIONS):
            here = first + _FRAME * number
            frames += struct.pack("<IIiII", 12, here + 4 - common + self.back, text + place - here - 8, 4, 0)[:_FRAME]
        data = table.ljust(common - start, b"\0") + _COMMON + frames + bytes(4)
        image.data[start : start + len(data)] = data
        address, held = self.segment(start, len(table)) if self.segment else (start, len(table))
        image.pack("<QQQQQ", image.segment(_PT_GNU_EH_FRAME) + 8, start, address, address, held, held)


def _nowhere(where: str) -> Callable[[int, int], tuple[int, int]]:
    places = {"zero": 0, "far": 0x7000_0000, "between": 0x9000, "beyond 47 bits": 1 << 48}
    return lambda start, size: (places[where], size)


_LIES = {
    **{f"it lies nowhere: {where}": {"segment": _nowhere(where)} for where in ("zero", "far", "beyond 47 bits")},
    "it lies on two bytes before": {"segment": lambda start, size: (start - 2, size)},
    "version 0": {"version": 0},
    "version 2": {"version": 2},
    "its frames are nowhere": {"to_frames": 0x5000_0000},
    "its frames are before the file": {"to_frames": -0x5000_0000},
    "rows without end": {"count": 0x0FFF_FFFF},
    "more rows than are mapped": {"count": 100_000},
    "not in order": {"rows": [(8, 2), (4, 1), (0, 0)]},
    "the last first": {"rows": [(8, 2), (0, 0), (4, 1)]},
    "rows for no code": {"rows": [(0x4000_0000 + place, n) for n, place in enumerate(_FUNCTIONS)]},
    "frames far away": {"away": 0x4000_0000},
    "frames before the file": {"away": -0x4000_0000},
    "frames that are none": {"away": 8},
    "frames of no common one": {"back": 4},
    "frames of a common one that is nowhere": {"back": 0x4000_0000},
    "a pointer of no known format": {"encodings": (0x1F, 0x03, 0x3B)},
    "an address that nothing relocates": {"encodings": (0x03, 0x03, 0x3B), "to_frames": 0x5000_0000},
}
_ODDITIES = {
    "as linkers write it": {},
    "an empty table": {"rows": [], "count": 0},
    "one row": {"rows": [(0, 0)]},
    "two rows for one place": {"rows": [(0, 0), (0, 0), (4, 1)]},
    "no table: each frame is looked at": {"encodings": (0x1B, 0xFF, 0xFF)},
    "a size that nobody reads": {"segment": lambda start, size: (start, 0)},
}
for _name, _fields in _LIES.items():
    lie("elf", "whoever throws through it ends the process", name=f"exceptions: {_name}")(Frames(**_fields).into)
for _name, _fields in _ODDITIES.items():
    legal("the unwinder follows it", name=f"exceptions: {_name}")(Frames(**_fields).into)


@lie("elf", "nobody can say which of the two is used")
def two_tables_for_exceptions(wheel: Wheel) -> None:
    Frames().into(wheel)
    wheel.library.segments.append((_PT_GNU_EH_FRAME, PF_R, 0, 0, 0, 16, 16, 4))


_OF_EXCEPTIONS = {"__cxa_throw": "CXXABI_1.3", "__cxa_rethrow": "CXXABI_1.3", "__gxx_personality_v0": "CXXABI_1.3"}


def _throws(wheel: Wheel, name: str) -> None:
    wheel.library.needed.insert(0, "libstdc++.so.6")
    wheel.library.import_(name, version=("libstdc++.so.6", _OF_EXCEPTIONS[name]))


def _throws_and_has_a_table(wheel: Wheel, name: str) -> None:
    _throws(wheel, name)
    Frames().into(wheel)


lies("elf", "{} and no table: whoever throws ends the process", _OF_EXCEPTIONS, _throws)
legals("{} and a table for it", _OF_EXCEPTIONS, _throws_and_has_a_table)


@legal("it hands its frames to the unwinder itself, as compilers of old had it")
def registers_its_frames(wheel: Wheel) -> None:
    _throws(wheel, "__cxa_throw")
    wheel.library.import_("__register_frame_info", bind=2)


# --- Which Linux --------------------------------------------------------------------------------------------


def _note(wheel: Wheel, release: str, *, before: bytes = b"", align: int = 4, elsewhere: bool = False) -> None:
    words = [int(part) for part in release.split(".")]
    note = before + struct.pack("<III4sIIII", 4, 16, 1, b"GNU\0", 0, *words)
    wheel.library.constants = note
    wheel.library.segments.append((PT_NOTE, PF_R, 0, 0, 0, len(note), len(note), align))

    def put(image: Image) -> None:
        place = image.at[".rodata"]
        address = image.at[".text"] if elsewhere else place
        image.pack("<QQQ", image.segment(PT_NOTE) + 8, place, address, address)

    wheel.library.change = put


def _asks(wheel: Wheel, text: str) -> None:
    platform, release = text.split()
    _note(wheel, release)
    if platform.startswith("musllinux"):
        wheel.library.needed = [f"libc.musl-{wheel.arch}.so.1"]
        for symbol in wheel.library.imports:
            symbol.version = None
    wheel.tag(platform=f"{platform}_{wheel.arch}")


lies(
    "platform",
    "glibc on an older Linux: ELF file OS ABI invalid ({})",
    (
        *("manylinux_2_28 3.7.1", "manylinux_2_28 3.17.0", "manylinux_2_28 4.18.0", "manylinux_2_17 5.0.0"),
        *("manylinux2014 4.0.0", "manylinux_2_31 6.1.0", "manylinux_2_34 255.255.255", "manylinux_2_35 4.0.0"),
        *("manylinux_2_34.manylinux_2_36 4.0.0",),
    ),
    lambda wheel, text: _asks_of_all(wheel, text),
    name="asks for Linux",
)
legals(
    "glibc itself asks for as much, or for nothing ({})",
    (
        *("manylinux_2_28 2.6.32", "manylinux_2_28 3.2.0", "manylinux_2_17 3.2.0", "manylinux_2_28 0.0.0"),
        *("manylinux_2_36 6.1.0", "manylinux_2_39 99.0.0", "linux 6.1.0", "musllinux_1_2 6.1.0"),
        # The loader reads a byte of each number.
        *("manylinux_2_28 256.0.0", "manylinux_2_28 3.256.0"),
    ),
    _asks,
    name="asks for Linux",
)
lies(
    "platform",
    "no Linux for x86_64 is older than glibc asks ({})",
    ("manylinux_2_28 3.7.0", "manylinux_2_28 3.2.1"),
    _asks,
    arches=("x86_64",),
    name="asks for Linux, x86_64",
)
legals(
    "the first Linux for arm64 ({})",
    ("manylinux_2_28 3.7.0", "manylinux_2_17 3.7.0", "manylinux_2_34 3.7.0"),
    _asks,
    arches=("aarch64",),
    name="asks for Linux, arm64",
)


def _asks_of_all(wheel: Wheel, text: str) -> None:
    platforms, release = text.split()
    _note(wheel, release)
    wheel.tag(platform=".".join(f"{platform}_{wheel.arch}" for platform in platforms.split(".")))


@lie("platform elf", "the loader reads the note by its place in the file, whatever its address says")
def note_at_another_address(wheel: Wheel) -> None:
    _note(wheel, "6.1.0", elsewhere=True)


@lie("platform", "it stands behind another note")
def note_behind_another(wheel: Wheel) -> None:
    _note(wheel, "6.1.0", before=struct.pack("<III4sI", 4, 4, 3, b"GNU\0", 1))


@lie("elf", "glibc before 2.36: cannot read file data")
def note_beyond_the_file(wheel: Wheel) -> None:
    wheel.library.segments.append((PT_NOTE, PF_R, 1 << 30, 0, 0, 64, 64, 4))


@legal("the loader passes over notes of a byte's alignment")
def note_that_nobody_reads(wheel: Wheel) -> None:
    _note(wheel, "6.1.0", align=1)


# --- Notes that are read where they are mapped --------------------------------------------------------------

_PT_GNU_PROPERTY = 0x6474E553


def _notes_at(kind: int, address: int | None, size: int, align: int = 8) -> Callable[[Wheel], None]:
    def change(wheel: Wheel) -> None:
        wheel.library.constants = bytes(64)
        wheel.library.segments.append((kind, PF_R, 0, 0, 0, 0, 0, align))

        def put(image: Image) -> None:
            place = image.at[".rodata"]
            mapped = place if address is None else address
            image.pack("<QQQQQ", image.segment(kind) + 8, place, mapped, mapped, 0, size)

        wheel.library.change = put

    return change


_DIES = "glibc 2.36 dies of it"
lie("elf", _DIES, name="properties nowhere")(_notes_at(_PT_GNU_PROPERTY, 0x7000_0000, 32))
lie("elf", _DIES, name="properties without end")(_notes_at(_PT_GNU_PROPERTY, None, 1 << 26))
lie("elf", _DIES, name="notes nowhere", arches=("x86_64",))(_notes_at(PT_NOTE, 0x7000_0000, 32))
legal("only x86 reads them", name="notes nowhere", arches=("aarch64",))(_notes_at(PT_NOTE, 0x7000_0000, 32))
legal("nobody reads notes of this alignment", name="properties of four")(
    _notes_at(_PT_GNU_PROPERTY, 0x7000_0000, 32, 4)
)
legal("there is nothing to read", name="no properties")(_notes_at(_PT_GNU_PROPERTY, 0x7000_0000, 0))
legal("they are there", name="properties")(_notes_at(_PT_GNU_PROPERTY, None, 32))
