"""One pass over every file of a wheel: hash it, keep what a loader may take, and read what else holds GPU code."""

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
from wheelsmith.wheel.archive.packed import Watcher
from wheelsmith.wheel.archive.record import Digest, Hasher, RecordFile
from wheelsmith.wheel.elf import is_for_the_cpu
from wheelsmith.wheel.gpu import GpuCode, GpuCodeMarks, UnpackBudget, other_gpu_vendor, read_gpu_code
from wheelsmith.wheel.packed_gpu_code import PackedGpuCode

_ELF = b"\x7fELF"
_GPU_FILES = (".ptx", ".cubin", ".fatbin")


# Bytes of a file that is read in memory: a wheel may hold thousands of cubins, each of a few dozen kB.
_SMALL = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentScan:
    """What the pass gave.

    :param digests: file → its size and hash, of the kind that RECORD has.
    :param elf: file → where its content lies, of ELF files for a CPU: several rules read them.
    :param gpu_files: other file → the GPU code in it, of those that may hold any; what is packed within a file stands
        behind its name. Their content is not kept.
    :param unseen: file → why what is packed within it cannot be looked through.
    """

    digests: dict[str, Digest]
    elf: dict[str, Path]
    gpu_files: dict[str, GpuCode]
    unscannable: dict[str, str]


def survey(archive: Archive, record: RecordFile, folder: Callable[[], Path], allowance: UnpackBudget) -> ContentScan:
    """Read every file once, in pieces.

    :param folder: gives where to unpack to; it is asked only when there is something.
    :param allowance: for GPU code.
    :raises WheelError: a file is not what the archive says, or there is no room to unpack it.
    """
    digests, elf, gpu_files = {}, {}, {}
    packed = PackedGpuCode(archive.path.stat().st_size)
    for number, name in enumerate(archive.files):
        hasher, marks = Hasher(record.algorithm(name)), GpuCodeMarks()
        pieces = archive.chunks(name)
        first = next(pieces, b"")
        whole = itertools.chain((first,), pieces)
        if is_for_the_cpu(first):
            with _room_for(name):
                elf[name] = folder() / str(number)
                _unpack(_seen_by(whole, hasher, packed.look_behind(name)), elf[name])
        elif first.startswith(_ELF) or other_gpu_vendor(first) or name.lower().endswith(_GPU_FILES):
            gpu_files[name] = _gpu_code(
                _seen_by(whole, hasher, packed.look_behind(name)), archive.members[name], allowance
            )
        else:
            deque(_seen_by(whole, hasher, marks, packed.look_into(name)), maxlen=0)
        if marks.found:  # perhaps not before its end; such files are rare, and read again
            gpu_files[name] = _gpu_code(archive.chunks(name), archive.members[name], allowance)
        digests[name] = hasher.digest()
    for name in packed.files:
        gpu_files |= _packed_gpu_code(packed, archive, name, folder, allowance)
    return ContentScan(digests=digests, elf=elf, gpu_files=gpu_files, unscannable=packed.unscannable)


def _seen_by(pieces: Iterable[bytes], *watchers: Watcher) -> Iterator[bytes]:
    for piece in pieces:
        for watcher in watchers:
            watcher.update(piece)
        yield piece


def _gpu_code(pieces: Iterable[bytes], member: Member, allowance: UnpackBudget) -> GpuCode:
    with _room_for(member.name), _scratch(member.size) as file:
        file.writelines(pieces)
        file.flush()
        return read_gpu_code(file, member.size, allowance, member.name)


def _packed_gpu_code(
    packed: PackedGpuCode, archive: Archive, name: str, folder: Callable[[], Path], allowance: UnpackBudget
) -> dict[str, GpuCode]:
    found = {}
    with _room_for(name):
        targets = (folder() / f"packed-{number}" for number in itertools.count())
        for inner, path in packed.unpack(archive, name, targets).items():
            with path.open("rb") as file:
                found[inner] = read_gpu_code(file, path.stat().st_size, allowance, inner)
            path.unlink()
    return found


def _scratch(size: int) -> BinaryIO:
    # A temporary file has all that is asked of it, and its type is wider.
    return io.BytesIO() if size <= _SMALL else cast("BinaryIO", tempfile.TemporaryFile())


def _unpack(pieces: Iterable[bytes], target: Path) -> None:
    with target.open("wb") as file:
        file.writelines(pieces)


@contextmanager
def _room_for(name: str) -> Iterator[None]:
    """Say what can be done where there is no room for a file."""
    try:
        yield
    except OSError as error:
        raise WheelError(
            f"{name} cannot be unpacked to be read: {error.strerror or error}",
            remedy="name a folder with more room in TMPDIR",
        ) from None
