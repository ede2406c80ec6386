"""What the loader asks of the program headers before it maps anything, and after."""

from __future__ import annotations

from wheelsmith.wheel.elf.dynamic import DT_FLAGS, Dynamic
from wheelsmith.wheel.elf.image import PF_X, PT_GNU_RELRO, PT_INTERP, PT_PHDR, PT_TLS, ElfError, ElfImage

_PAGE = 4096
_MOST_MEMORY = 2**34  # bytes; the largest libraries of torch have a fifth of that
_STATIC_TLS = 0x10  # of DT_FLAGS
# What glibc keeps for libraries that are loaded later is 1,664 bytes (glibc.rtld.optional_static_tls adds 512).
MOST_STATIC = 4096
_LONGEST_PATH = 4096


def check_segments(image: ElfImage, dynamic: Dynamic) -> None:
    """Refuse segments that glibc's ``_dl_map_object_from_fd`` refuses, or that lie where nothing is.

    :raises ElfError: the loader does not take them.
    """
    for segment in image.loaded:
        if segment.align % _PAGE:
            raise ElfError(f"the alignment of a segment, {segment.align}, is no page's")
        if segment.align & (segment.align - 1) or (segment.address - segment.offset) % (segment.align or 2**64):
            raise ElfError("a segment does not lie as its alignment says")
    if not image.loaded:
        return
    start, end = image.loaded[0].address, image.loaded[-1].address + image.loaded[-1].memory_size
    if end - start > _MOST_MEMORY:
        raise ElfError(f"it wants {end - start} bytes of memory")
    _check_headers(image)
    _check_relro(image, start - start % _PAGE, -(-end // _PAGE) * _PAGE)
    for segment in image.segments:
        if segment.kind != PT_TLS or not segment.memory_size:
            continue
        if segment.file_size > segment.memory_size or segment.file_size > image.room(segment.address):
            raise ElfError("the first values of its thread-local data lie in no segment")
        if (dynamic.get(DT_FLAGS) or 0) & _STATIC_TLS and segment.memory_size > MOST_STATIC:
            raise ElfError(f"it has {segment.memory_size} bytes of static thread-local data, more than are kept free")


def interpreter(image: ElfImage) -> str | None:
    """Return the program that PT_INTERP names to start this one; None where it names none.

    :raises ElfError: it does not lie in the file.
    """
    for segment in image.segments:
        if segment.kind == PT_INTERP:
            name = image.at(segment.offset, min(segment.file_size, _LONGEST_PATH))
            return name.split(b"\0")[0].decode("utf-8", "replace")
    return None


def _check_headers(image: ElfImage) -> None:
    headers = image.program_headers
    if any(s.kind == PT_PHDR and image.mapped(s.address, len(headers)) != headers for s in image.segments):
        raise ElfError("its program headers are not where it says that the loader has them (PT_PHDR)")


def _check_relro(image: ElfImage, start: int, end: int) -> None:
    for segment in image.segments:
        if segment.kind != PT_GNU_RELRO:
            continue
        first = segment.address // _PAGE * _PAGE
        last = (segment.address + segment.memory_size) // _PAGE * _PAGE
        if first >= last:
            continue
        # Linkers round it up to the largest page that they know, beyond the end of the last segment.
        most = max(-(-end // align) * align for align in (loaded.align or _PAGE for loaded in image.loaded))
        if first < start or last > most:
            raise ElfError("what is to be protected (PT_GNU_RELRO) lies in no segment")
        if any(s.flags & PF_X and s.address < last and first < s.address + s.memory_size for s in image.loaded):
            raise ElfError("its code is to be protected (PT_GNU_RELRO) from being executed")
