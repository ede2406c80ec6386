"""Read clang's offload bundles, in which HIP programs contain their code for AMD GPUs.

https://clang.llvm.org/docs/ClangOffloadBundler.html describes the bundles and their compressed form, and
https://llvm.org/docs/AMDGPUUsage.html the flags of a code object, which is an ELF file.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator

from wheelsmith.base.errors import WheelError
from wheelsmith.platforms import amd_processor
from wheelsmith.wheel.gpu.code import Container, FileSlice, GpuCode
from wheelsmith.wheel.gpu.compression import decompress_zstandard

BUNDLE_MARK, COMPRESSED_MARK = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
EM_AMDGPU = 224
_COUNT, _ENTRY = struct.Struct("<Q"), struct.Struct("<QQQ")  # number of entries; offset, size, size of the name
_MAX_ENTRIES = 1000  # more are the text after a mark in a program that reads bundles
_NAME = re.compile(r"(?P<kind>host|hipv4|hip|openmp)-(?P<target>[\x21-\x7e]*)", re.ASCII)
_DEVICE = re.compile(r"amdgcn-amd-amdhsa-(?:unknown)?-(?P<processor>gfx[0-9a-z-]+)")
_COMPRESSED = struct.Struct("<4sHH")  # magic, version, method
# Version → the sizes after this header: of the bundle if the version has it, of its content, and a hash.
_SIZES = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
_ZLIB, _ZSTANDARD = 0, 1
_ELF_HEADER = struct.Struct("<4s14xH28xI")  # magic, machine, flags
_PROCESSOR = 0xFF  # EF_AMDGPU_MACH in the flags


def read_bundle(data: FileSlice) -> Container | None:
    """Read the bundle at the beginning of a slice; return None if it is none."""
    try:
        entries = list(_read_entries(data))
    except WheelError:
        return None
    size = max((offset + length for _, offset, length in entries), default=0)
    codes = (_read_code(name, data, offset, length) for name, offset, length in entries)
    return Container(size=size, codes=tuple(code for code in codes if code))


def read_compressed_bundle(data: FileSlice) -> Container | None:
    """Read the compressed bundle at the beginning of a slice; return None if it is none."""
    try:
        _, version, method = _COMPRESSED.unpack(data.read(0, _COMPRESSED.size))
        if version not in _SIZES or method not in {_ZLIB, _ZSTANDARD}:
            return None
        sizes = _SIZES[version]
        *total, unpacked, _ = sizes.unpack(data.read(_COMPRESSED.size, sizes.size))
        start = _COMPRESSED.size + sizes.size
        stored = data.read(start, total[0] - start if total else data.size - start)
        content = _decompress(stored, unpacked, method)
    except (WheelError, ValueError):
        return None
    found = read_bundle(FileSlice(file=io.BytesIO(content), start=0, size=len(content)))
    return found and Container(size=total[0] if total else start, codes=found.codes)


def _decompress(stored: bytes, size: int, method: int) -> bytes:
    if method == _ZSTANDARD:
        return decompress_zstandard(stored, size)
    try:
        return zlib.decompressobj().decompress(stored, size)
    except zlib.error as error:
        raise WheelError(f"it cannot be decompressed: {error}") from None


def _read_entries(data: FileSlice) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the offset and the size of each entry.

    :raises WheelError: it is not a bundle.
    """
    at = len(BUNDLE_MARK)
    (count,) = _COUNT.unpack(data.read(at, _COUNT.size))
    at += _COUNT.size
    if not 0 < count <= _MAX_ENTRIES:
        raise WheelError("it is not a bundle")
    for _ in range(count):
        offset, size, length = _ENTRY.unpack(data.read(at, _ENTRY.size))
        name = data.read(at + _ENTRY.size, length).decode("ascii", "replace")
        data.part(offset, size)
        if not _NAME.fullmatch(name):
            raise WheelError("it is not a bundle")
        yield name, offset, size
        at += _ENTRY.size + length


def _read_code(name: str, data: FileSlice, offset: int, size: int) -> GpuCode | None:
    """Return the code of an entry, or None if it is not for a GPU."""
    entry = _NAME.fullmatch(name)
    if entry is None or entry["kind"] == "host":
        return None
    device = _DEVICE.match(entry["target"])
    if device is None:
        return GpuCode(other_vendors=frozenset({entry["target"]}))
    label = device["processor"]
    try:
        own = read_processor(data.part(offset, size))
    except WheelError as error:
        return GpuCode(mistakes=(f"code labelled {label}, at {offset:#x} of a bundle: {error.message}",))
    if own != label:
        mistake = f"code labelled {label}, at {offset:#x} of a bundle: the code object itself is for {own}"
        return GpuCode(mistakes=(mistake,))
    return GpuCode(machine_code=frozenset({label}))


def read_processor(data: FileSlice) -> str:
    """Return the GPU architecture of a code object, e.g. ``gfx942``.

    :raises WheelError: it is not a code object, or its architecture is unknown.
    """
    magic, machine, flags = _ELF_HEADER.unpack(data.read(0, _ELF_HEADER.size))
    if magic != b"\x7fELF" or machine != EM_AMDGPU:
        raise WheelError("it is not a code object for AMD GPUs")
    processor = amd_processor(flags & _PROCESSOR)
    if processor is None:
        raise WheelError(f"its architecture {flags & _PROCESSOR:#x} is unknown")
    return processor
