"""What the loader writes and calls when it loads a file: relocations, and what runs first and last.

Which types there are: glibc's ``elf_machine_rela`` of ``sysdeps/x86_64`` and ``sysdeps/aarch64``; what it takes for
granted of the dynamic table: ``elf_get_dynamic_info`` of ``elf/get-dynamic-info.h``, which ends the process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from wheelsmith.wheel.elf.dynamic import (
    DT_FINI,
    DT_FINI_ARRAY,
    DT_FINI_ARRAYSZ,
    DT_FLAGS,
    DT_INIT,
    DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ,
    DT_JMPREL,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_PREINIT_ARRAY,
    DT_PREINIT_ARRAYSZ,
    DT_RELA,
    DT_RELAENT,
    DT_RELASZ,
    DT_RELR,
    DT_RELRENT,
    DT_RELRSZ,
    DT_RELSZ,
    DT_TEXTREL,
    FLAG_TEXTREL,
    Dynamic,
)
from wheelsmith.wheel.elf.image import ET_EXEC, PF_W, PF_X, PT_TLS, ElfError, ElfImage, Segment
from wheelsmith.wheel.elf.segments import MOST_STATIC

_SIZE, _WORD = 24, 8  # bytes
_TYPES = {
    "x86_64": frozenset({0, 1, 2, 5, 6, 7, 8, 10, 16, 17, 18, 24, 32, 33, 36, 37, 38}),
    "aarch64": frozenset({0, 256, 257, 258, *range(1024, 1033)}),
}
_NONE = {0, 256}
_RELATIVE = {"x86_64": 8, "aarch64": 1027}
_IRELATIVE = {"x86_64": 37, "aarch64": 1032}
# Of what lies in the memory that is kept for threads from the start on: R_X86_64_TPOFF64, R_AARCH64_TLS_TPREL.
_STATIC = {"x86_64": 18, "aarch64": 1030}
_HEADER = 64  # bytes; nothing of it is code


def check_relocations(image: ElfImage, dynamic: Dynamic) -> None:
    """Refuse what the loader cannot write, and what it would call where there is no code.

    :raises ElfError: it would end the process, or refuse the file.
    """
    if dynamic.get(DT_RELSZ):
        raise ElfError("it has relocations of a kind (DT_REL) that the loader of this machine passes over")
    if dynamic.get(DT_RELA) is not None and dynamic.get(DT_RELAENT) != _SIZE:
        raise ElfError(f"its relocations are of {dynamic.get(DT_RELAENT)} bytes, not {_SIZE}")
    if dynamic.get(DT_PLTREL) not in {None, DT_RELA} or (dynamic.get(DT_PLTRELSZ) and dynamic.get(DT_PLTREL) is None):
        raise ElfError("its relocations of functions are not of the kind that the machine has")
    calls = list(_calls(image, dynamic))
    arrays = list(_arrays(image, dynamic))
    targets = list(image.loaded) if _writes_to_code(dynamic) else [s for s in image.loaded if s.flags & PF_W]
    relocated: set[int] = set()
    for table, size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
        address, length = dynamic.get(table), dynamic.get(size) or 0
        if address is not None and length:
            calls += _check_table(image, image.mapped(address, length), targets, arrays, relocated)
    packed = set(_check_packed(image, dynamic, targets, arrays))
    calls += _called(image, arrays, relocated, packed)
    for address in calls:
        if not is_code(image, address):
            raise ElfError(f"the loader would call what is no code, at {address:#x}")


def is_code(image: ElfImage, address: int) -> bool:
    """Say whether an address lies where the file has what can be executed."""
    return any(
        segment.flags & PF_X and segment.address <= address < segment.address + segment.file_size
        for segment in image.loaded
    ) and address >= image.loaded[0].address + (0 if image.loaded[0].offset else _HEADER)


def _writes_to_code(dynamic: Dynamic) -> bool:
    return dynamic.get(DT_TEXTREL) is not None or bool((dynamic.get(DT_FLAGS) or 0) & FLAG_TEXTREL)


def _calls(image: ElfImage, dynamic: Dynamic) -> Iterator[int]:
    """Return what is called by its address in the dynamic table."""
    for tag in (DT_INIT, DT_FINI):
        if (address := dynamic.get(tag)) is not None and image.loaded:
            yield address


def _arrays(image: ElfImage, dynamic: Dynamic) -> Iterator[range]:
    """Return where the addresses lie of what is called first and last."""
    # glibc runs DT_PREINIT_ARRAY of what `dlopen` opens, too: _dl_init.
    tables = (
        (DT_INIT_ARRAY, DT_INIT_ARRAYSZ),
        (DT_FINI_ARRAY, DT_FINI_ARRAYSZ),
        (DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ),
    )
    for tag, size in tables:
        address, length = dynamic.get(tag), dynamic.get(size) or 0
        if address is not None and length:
            image.offset(address, length)
            yield range(address, address + length // _WORD * _WORD, _WORD)


def _called(image: ElfImage, arrays: list[range], relocated: set[int], packed: set[int]) -> Iterator[int]:
    """Return what is called by addresses that stand in the file.

    :param relocated: where relocations write one, ``packed`` where they only add to what is there.
    :raises ElfError: a library's address is never made one.
    """
    for array in arrays:
        for place in array:
            if place not in relocated:
                if place not in packed and image.kind != ET_EXEC:
                    raise ElfError(f"nothing makes what stands at {place:#x} an address, and the loader calls it")
                yield int.from_bytes(image.mapped(place, _WORD), "little")


def _check_table(
    image: ElfImage, table: bytes, targets: list[Segment], arrays: list[range], relocated: set[int]
) -> Iterator[int]:
    """Check one table of relocations, and return the addresses that it gives to be called.

    :param relocated: places in the arrays of what is called, to which those of this table are added.
    """
    if len(table) % _SIZE:
        raise ElfError("its relocations are cut off")
    places, kinds = memoryview(table).cast("Q")[0::3], memoryview(table).cast("I")[2::6]
    addends = memoryview(table).cast("Q")[2::3]
    found = set(kinds)
    if unknown := found - _TYPES[image.arch]:
        raise ElfError(f"it has a relocation of the type {min(unknown)}, which no loader knows")
    _check_places(places if not found & _NONE else [p for p, k in zip(places, kinds, strict=True) if k], targets)
    if (static := _STATIC[image.arch]) in found:
        _check_static(image, table, static)
    if (resolved := _IRELATIVE[image.arch]) in found:
        yield from {addend for kind, addend in zip(kinds, addends, strict=True) if kind == resolved}
    for array in arrays:
        for number, place in enumerate(places):
            if array.start <= place < array.stop and kinds[number] not in _NONE:
                relocated.add(place)
                if kinds[number] == _RELATIVE[image.arch]:
                    yield addends[number]


def _check_static(image: ElfImage, table: bytes, static: int) -> None:
    """Refuse more thread-local data of its own than is kept free for what is loaded later, whatever DT_FLAGS says."""
    size = max((segment.memory_size for segment in image.segments if segment.kind == PT_TLS), default=0)
    words = memoryview(table).cast("I")
    own = any(kind == static and not symbol for kind, symbol in zip(words[2::6], words[3::6], strict=True))
    if own and size > MOST_STATIC:
        raise ElfError(f"it has {size} bytes of static thread-local data, more than are kept free")


def _check_places(places: memoryview[int] | list[int], targets: list[Segment]) -> None:
    """Refuse relocations that write to where nothing may be written; a linker has them nearly sorted."""
    ordered = sorted(places)
    within = 0
    for segment in targets:
        last = segment.address + segment.memory_size - _WORD
        within += bisect_left(ordered, last + 1) - bisect_left(ordered, segment.address)
    if within != len(ordered):
        raise ElfError("a relocation writes to where nothing may be written")


def _check_packed(image: ElfImage, dynamic: Dynamic, targets: list[Segment], arrays: list[range]) -> Iterator[int]:
    """Check the packed relocations, and return where they add to what is called."""
    address, length = dynamic.get(DT_RELR), dynamic.get(DT_RELRSZ) or 0
    if not length:
        return
    if address is None or length % _WORD or dynamic.get(DT_RELRENT) not in {None, _WORD}:
        raise ElfError("its packed relocations are cut off")
    place, within = 0, range(0)  # where the last one was written: most are beside each other
    for entry in memoryview(image.mapped(address, length)).cast("Q"):
        if not entry & 1:
            first, bits, place = entry, 1, entry + _WORD
        else:
            first, bits, place = place, entry >> 1, place + 63 * _WORD
        if not bits:
            continue
        # The first and the last of what the bits stand for; segments have no holes.
        lowest, last = first + _WORD * ((bits & -bits).bit_length() - 1), first + _WORD * (bits.bit_length() - 1)
        if lowest not in within or last not in within:
            within = _span(lowest, last, targets)
        for array in arrays:
            if lowest < array.stop and last >= array.start:
                yield from (first + _WORD * n for n in range(63) if bits >> n & 1 and first + _WORD * n in array)


def _span(lowest: int, last: int, targets: list[Segment]) -> range:
    """Return where words may be written that hold two places."""
    found = range(0)
    for place in (last, lowest):
        spans = (range(s.address, s.address + s.memory_size - _WORD + 1) for s in targets)
        found = next((span for span in spans if place in span), range(0))
        if not found:
            raise ElfError("a relocation writes to where nothing may be written")
    return found
