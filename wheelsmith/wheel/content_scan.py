"""Read every file of a wheel once: hash it, keep what a loader may take, and read what else holds GPU code."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from wheelsmith.base.errors import WheelError
from wheelsmith.base.zip_archive import Archive, Member
from wheelsmith.wheel.archive import Digest, Hasher, RecordFile
from wheelsmith.wheel.elf import is_for_the_cpu
from wheelsmith.wheel.gpu import GpuCode, read_gpu_code

_ELF = b"\x7fELF"
_GPU_FILES = (".ptx", ".cubin", ".fatbin")
_IN_MEMORY = 8 << 20  # bytes of a file that is not written to a temporary one


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentScan:
    """The result of the pass.

    :param digests: file → its size and hash, of the kind that RECORD has.
    :param elf: file → the place of its content, of ELF files for a CPU: several rules read them.
    :param gpu_files: other file → the GPU code in it. Their content is not kept.
    """

    digests: dict[str, Digest]
    elf: dict[str, Path]
    gpu_files: dict[str, GpuCode]


def scan_contents(archive: Archive, record: RecordFile, folder: Callable[[], Path]) -> ContentScan:
    """Read every file once, in pieces.

    :param folder: gives the folder to unpack to; it is called only when there is something to unpack.
    :raises WheelError: a file differs from the archive's directory, or there is no room to unpack it.
    """
    digests, elf, gpu_files = {}, {}, {}
    for number, (name, member) in enumerate(archive.files.items()):
        hasher = Hasher(record.algorithm(name))
        pieces = hasher.hashed(archive.chunks(name))
        first = next(pieces, b"")
        whole = itertools.chain((first,), pieces)
        with _room_for(name):
            if is_for_the_cpu(first):
                elf[name] = folder() / str(number)
                with elf[name].open("wb") as file:
                    file.writelines(whole)
            else:
                code = _gpu_code(whole, member)
                if code.present or first.startswith(_ELF) or name.lower().endswith(_GPU_FILES):
                    gpu_files[name] = code
        digests[name] = hasher.digest()
    return ContentScan(digests=digests, elf=elf, gpu_files=gpu_files)


def _gpu_code(pieces: Iterable[bytes], member: Member) -> GpuCode:
    # A wheel may hold thousands of cubins, each of a few dozen kB.
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spooled:
        spooled.writelines(pieces)
        # It has all that is asked of a file, and its type is narrower.
        return read_gpu_code(cast("BinaryIO", spooled), member.size, member.name)


@contextmanager
def _room_for(name: str) -> Iterator[None]:
    """Tell the user what to do when there is no room for a file."""
    try:
        yield
    except OSError as error:
        raise WheelError(
            f"{name} cannot be unpacked to be read: {error.strerror or error}",
            remedy="name a folder with more room in TMPDIR",
        ) from None
