"""One pass over every file of a wheel: hash it, and keep apart what may hold machine code."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.errors import WheelError
from wheelsmith.wheel.archive.packed import Watcher
from wheelsmith.wheel.archive.reader import Archive
from wheelsmith.wheel.archive.record import Digest, Hasher, RecordFile
from wheelsmith.wheel.elf import is_for_the_cpu
from wheelsmith.wheel.gpu import GpuCodeMarks, other_maker
from wheelsmith.wheel.packed_gpu_code import PackedGpuCode

_ELF = b"\x7fELF"
_GPU_FILES = (".ptx", ".cubin", ".fatbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the pass gave.

    :param digests: file → its size and hash, of the kind that RECORD has.
    :param binaries: file → where its content lies, of those that hold machine code; what is packed within a file
        stands behind its name.
    :param elf: which of them are ELF files for a CPU.
    :param unseen: file → why what is packed within it cannot be looked through.
    """

    digests: dict[str, Digest]
    binaries: dict[str, Path]
    elf: tuple[str, ...]
    unseen: dict[str, str]


def survey(archive: Archive, record: RecordFile, folder: Callable[[], Path]) -> Survey:
    """Read every file once, in pieces.

    :param folder: gives where to unpack to; it is asked only when there is something.
    :raises WheelError: a file is not what the archive says, or there is no room to unpack it.
    """
    digests, binaries, elf = {}, {}, []
    packed = PackedGpuCode(archive.path.stat().st_size)
    for number, name in enumerate(archive.files):
        hasher, marks = Hasher(record.algorithm(name)), GpuCodeMarks()
        pieces = archive.chunks(name)
        first = next(pieces, b"")
        whole = itertools.chain((first,), pieces)
        if first.startswith(_ELF) or other_maker(first) or name.lower().endswith(_GPU_FILES):
            binaries[name] = _unpack(_seen_by(whole, hasher), folder() / str(number), name)
        else:
            deque(_seen_by(whole, hasher, marks, packed.look_into(name)), maxlen=0)
        if marks.found:  # perhaps not before its end; such files are rare, and read again
            binaries[name] = _unpack(archive.chunks(name), folder() / str(number), name)
        if is_for_the_cpu(first):
            elf.append(name)
        digests[name] = hasher.digest()
    for name in packed.files:
        targets = (folder() / f"packed-{number}" for number in itertools.count(len(binaries)))
        try:
            binaries.update(packed.unpack(archive, name, targets))
        except OSError as error:
            raise _no_room(name, folder(), error) from None
    return Survey(digests=digests, binaries=binaries, elf=tuple(elf), unseen=packed.unseen)


def _seen_by(pieces: Iterable[bytes], *watchers: Watcher) -> Iterator[bytes]:
    for piece in pieces:
        for watcher in watchers:
            watcher.update(piece)
        yield piece


def _unpack(pieces: Iterable[bytes], target: Path, name: str) -> Path:
    try:
        with target.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise _no_room(name, target.parent, error) from None
    return target


def _no_room(name: str, folder: Path, error: OSError) -> WheelError:
    return WheelError(
        f"{name} cannot be unpacked to {folder}: {error.strerror or error}",
        remedy="name a folder with more room in TMPDIR",
    )
