"""Read untrusted zip archives, and refuse those that unzippers read differently.

zipfile reads the central directory, but other unzippers read the local headers. So every local header must agree with
the directory, and the archive must have no bytes before, between or after its members.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self

from wheelsmith.base.errors import Place, WheelError

# Magic, flags, method, crc, packed size, size, lengths of the name and the extra field.
_LOCAL = struct.Struct("<4s2xHH4xLLLHH")
_END = struct.Struct("<4s16xH")  # magic, and the length of the comment
_LOCAL_MAGIC, _END_MAGIC = b"PK\3\4", b"PK\5\6"
_DESCRIPTORS = (12, 16, 20, 24)  # bytes; the possible lengths of a data descriptor
_DESCRIPTOR, _UTF8 = 1 << 3, 1 << 11
_FLAGS = _DESCRIPTOR | _UTF8 | 0b110  # 0b110 is the compression level
_IN_ZIP64 = 0xFFFFFFFF  # marks a value that is in the zip64 field
_CHUNK = 1 << 20  # bytes
_DRIVE = re.compile(r"[A-Za-z]:")
# zipfile raises RuntimeError for encryption, and its subclass NotImplementedError for unknown methods and versions.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError, RuntimeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file or folder of an archive.

    :param name: as in the archive; the name of a folder ends with a slash.
    :param size: in bytes.
    :param mode: the Unix mode; 0 if the archive has none.
    """

    name: str
    size: int
    mode: int


class Archive:
    """An open archive with checked names, headers and kinds of members.

    :param path: the file.
    :raises WheelError: it is not an archive, or unzippers may read it differently.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open_plain_file(path)
        try:
            with self._wrap_errors("not a readable zip archive"):
                self._zip = zipfile.ZipFile(self._file)
                infos = self._zip.infolist()
                _check_names(infos)
                _check_headers(self._file, infos, self._zip.start_dir)
                _check_end(self._file, self._zip)
        except BaseException:
            self.close()
            raise
        self.members = {
            info.filename: Member(name=info.filename, size=info.file_size, mode=info.external_attr >> 16)
            for info in infos
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def files(self) -> dict[str, Member]:
        """Every member that is not a folder, by name."""
        return {name: member for name, member in self.members.items() if not name.endswith("/")}

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a member's content in pieces of at most 1 MiB.

        :raises WheelError: it cannot be unpacked, or its size or checksum differs from the directory.
        """
        remaining = self.members[name].size
        with self._wrap_errors(f"{name!r} cannot be unpacked"), self._zip.open(name) as member:
            while chunk := member.read(_CHUNK):
                remaining -= len(chunk)
                yield chunk
            if remaining:
                raise WheelError(f"{name!r} is {remaining} bytes shorter than its size in the directory")

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return a member's content.

        :param most: the largest allowed size in bytes.
        :raises WheelError: it is larger, or as for ``chunks``.
        """
        if most is not None and (size := self.members[name].size) > most:
            raise WheelError(f"{name!r} has {size} bytes; the limit is {most}", where=self._where)
        return b"".join(self.chunks(name))

    @property
    def _where(self) -> Place:
        return Place(file=self.path.name)

    @contextmanager
    def _wrap_errors(self, message: str) -> Iterator[None]:
        remedy = "build or download it again"
        try:
            yield
        except WheelError as error:
            raise WheelError(error.message, where=self._where, remedy=remedy) from None
        except UnicodeDecodeError:
            raise WheelError("a name is marked as UTF-8 but is not UTF-8", where=self._where, remedy=remedy) from None
        except _ZIP_ERRORS as error:
            raise WheelError(f"{message}: {error}", where=self._where, remedy=remedy) from None


def _open_plain_file(path: Path) -> BinaryIO:
    """Open a plain file. Opening a pipe would block."""
    try:
        if path.is_dir():
            raise WheelError(f"{path} is a folder")
        if path.exists() and not path.is_file():
            raise WheelError(f"{path} is not a plain file")
        return path.open("rb")
    except FileNotFoundError:
        raise WheelError(f"there is no {path}") from None
    except (OSError, ValueError) as error:
        raise WheelError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _check_names(infos: list[zipfile.ZipInfo]) -> None:
    """Refuse unsafe and conflicting names, and members that are neither a plain file nor a folder."""
    paths: set[str] = set()
    for info in infos:
        _check_name(info)
        _check_kind(info)
        path = info.filename.removesuffix("/")
        if path in paths:
            raise WheelError(f"it contains {path!r} twice")
        paths.add(path)
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    for info in infos:
        if info.filename in folders:
            raise WheelError(f"{info.filename!r} is both a file and a folder")


def _check_name(info: zipfile.ZipInfo) -> None:
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    if {"", ".", ".."} & set(parts) or "\\" in name or not name.isprintable() or _DRIVE.match(name):
        raise WheelError(f"it contains a file with an unsafe name: {name!r}")
    if name != info.filename or not (name.isascii() or info.flag_bits & _UTF8):
        raise WheelError(f"the name {name!r} is neither ASCII nor marked as UTF-8, or the entry has a second name")
    if info.comment:
        # uv up to 0.9.5 read it as the next entry: https://advisories.gitlab.com/pkg/pypi/uv/
        raise WheelError(f"{name!r} has a comment in the directory, which some readers interpret as an entry")


def _check_kind(info: zipfile.ZipInfo) -> None:
    name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        raise WheelError(f"{name!r} is a link")
    if kind not in {0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG} or (info.is_dir() and info.file_size):
        raise WheelError(f"{name!r} is neither a plain file nor a folder")
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or info.flag_bits & ~_FLAGS:
        raise WheelError(f"{name!r} is encrypted or packed by method {info.compress_type}; only 0 and 8 are supported")


def _check_headers(file: BinaryIO, infos: list[zipfile.ZipInfo], end: int) -> None:
    """Refuse local headers that disagree with the directory, and bytes outside of the members.

    :param end: offset of the directory.
    """
    ordered = sorted(infos, key=lambda info: info.header_offset)
    offsets = [*(info.header_offset for info in ordered), end]
    if offsets[0]:
        raise WheelError("there is data before the first member")
    for info, following in zip(ordered, offsets[1:], strict=True):
        start = _check_header(file, info)
        gap = following - start - info.compress_size
        if gap not in (_DESCRIPTORS if info.flag_bits & _DESCRIPTOR else (0,)):
            raise WheelError(f"{info.filename!r} does not end where the next member or the directory begins")


def _check_header(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Compare a member's local header with the directory. Return the offset of its data."""
    file.seek(info.header_offset)
    magic, flags, method, crc, packed, size, length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    name = file.read(length)
    if magic != _LOCAL_MAGIC or name != info.filename.encode():
        raise WheelError(f"{info.filename!r} has another name in its local header")
    compared = _DESCRIPTOR if name.isascii() else _DESCRIPTOR | _UTF8
    if method != info.compress_type or flags & ~_FLAGS or (flags ^ info.flag_bits) & compared:
        raise WheelError(f"{info.filename!r} has another compression method or other flags in its local header")
    is_same = crc == info.CRC and packed in {info.compress_size, _IN_ZIP64} and size in {info.file_size, _IN_ZIP64}
    is_in_descriptor = flags & _DESCRIPTOR and not crc and {packed, size} <= {0, _IN_ZIP64}
    if not is_same and not is_in_descriptor:
        raise WheelError(f"{info.filename!r} has another checksum or size in its local header")
    return file.tell() + int(extra)


def _check_end(file: BinaryIO, archive: zipfile.ZipFile) -> None:
    """Refuse an archive with data after its end record."""
    file.seek(-_END.size - len(archive.comment), os.SEEK_END)
    magic, length = _END.unpack(file.read(_END.size))
    if magic != _END_MAGIC or length != len(archive.comment) or b"PK" in archive.comment:
        raise WheelError("there is data after its end record, or the file contains two archives")
