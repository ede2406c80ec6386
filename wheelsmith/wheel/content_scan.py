"""Read every file of a wheel once: hash it, keep what a loader may take, and read what else holds GPU code."""

from __future__ import annotations

import io
import itertools
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from wheelsmith.base.errors import WheelError
from wheelsmith.base.zip_archive import Archive, Member
from wheelsmith.wheel.archive.record import Digest, Hasher, RecordFile
from wheelsmith.wheel.elf import is_for_the_cpu
from wheelsmith.wheel.gpu import GpuCode, GpuCodeMarks, UnpackBudget, other_gpu_vendor, read_gpu_code

_ELF = b"\x7fELF"
_GPU_FILES = (".ptx", ".cubin", ".fatbin")
# Bytes of a file that is read in memory: a wheel may hold thousands of cubins, each of a few dozen kB.
_SMALL = 8 << 20


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


def scan_contents(
    archive: Archive, record: RecordFile, folder: Callable[[], Path], allowance: UnpackBudget
) -> ContentScan:
    """Read every file once, in pieces.

    :param folder: gives the folder to unpack to; it is called only when there is something to unpack.
    :param allowance: for GPU code.
    :raises WheelError: a file differs from the archive's directory, or there is no room to unpack it.
    """
    digests, elf, gpu_files = {}, {}, {}
    for number, name in enumerate(archive.files):
        hasher, marks = Hasher(record.algorithm(name)), GpuCodeMarks()
        pieces = archive.chunks(name)
        first = next(pieces, b"")
        whole = hasher.hashed(itertools.chain((first,), pieces))
        if is_for_the_cpu(first):
            with _room_for(name):
                elf[name] = folder() / str(number)
                with elf[name].open("wb") as file:
                    file.writelines(whole)
        elif first.startswith(_ELF) or other_gpu_vendor(first) or name.lower().endswith(_GPU_FILES):
            gpu_files[name] = _gpu_code(whole, archive.members[name], allowance)
        else:
            deque(map(marks.update, whole), maxlen=0)
        if marks.found:  # perhaps not before its end; such files are rare, and read again
            gpu_files[name] = _gpu_code(archive.chunks(name), archive.members[name], allowance)
        digests[name] = hasher.digest()
    return ContentScan(digests=digests, elf=elf, gpu_files=gpu_files)


def _gpu_code(pieces: Iterable[bytes], member: Member, allowance: UnpackBudget) -> GpuCode:
    with _room_for(member.name), _scratch(member.size) as file:
        file.writelines(pieces)
        file.flush()
        return read_gpu_code(file, member.size, allowance, member.name)


def _scratch(size: int) -> BinaryIO:
    # A temporary file has all that is asked of it, and its type is wider.
    return io.BytesIO() if size <= _SMALL else cast("BinaryIO", tempfile.TemporaryFile())


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
