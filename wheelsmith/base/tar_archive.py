"""Read a .tar.gz that nobody trusts, member by member, in bounded time and memory."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, cast

_GZIP = 31  # wbits of zlib
_CHUNK = 1 << 16  # bytes
_MOST_STREAMS = 20_000  # in one file: bgzip begins one every 64 KiB
_LONGEST_HEADER = 1 << 16  # bytes that tell of one member; tarfile reads and remembers them all
_MOST_GLOBAL = 100  # fields that are told of all members; tarfile copies them for each
# tarfile reads on after the end, as far as a header says that its file goes.
_READS_AFTER_END = 16
_FAILURES = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError, RecursionError)


class BadArchiveError(Exception):
    """An archive cannot be unpacked within bounds; the message lacks the file's name."""


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member of an archive that is being read: its header, and its content until the next one is asked for."""

    info: tarfile.TarInfo
    _archive: tarfile.TarFile

    def chunks(self) -> Iterator[bytes]:
        """Yield what a regular file holds.

        :raises BadArchiveError: it cannot be unpacked.
        """
        with _explained():
            content = self._archive.extractfile(self.info)
            while content and (chunk := content.read(_CHUNK)):
                yield chunk


def tar_members(path: Path, *, most_members: int, most_bytes: int) -> Iterator[TarMember]:
    """Yield what an archive holds, in its order; nobody has looked at the names.

    :param most_members: that it may have.
    :param most_bytes: that it may unpack to, headers and what is skipped among them.
    :raises BadArchiveError: it is no .tar.gz, or has more.
    """
    with _explained(), path.open("rb") as file:
        stream = _Unpacked(file, most_bytes)
        kind = _bounded_header(stream)
        # It asks for bytes, and nothing else of a file.
        plain = cast("BinaryIO", stream)
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=kind, encoding="utf-8") as archive:
            for number, info in enumerate(archive):
                if number >= most_members:
                    raise BadArchiveError(f"it holds more than {most_members} files")
                if len(archive.pax_headers) > _MOST_GLOBAL:
                    raise BadArchiveError("a header is larger than any name")
                if info.issparse() or info.size < 0:
                    raise BadArchiveError(f"{info.name!r} is a file with holes")
                yield TarMember(info, archive)
                info.pax_headers = {}  # tarfile keeps every header to the end
        while stream.read(_CHUNK):  # the checksum is behind what tarfile reads
            pass


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise BadArchiveError(f"it cannot be unpacked: {error}") from error


def _bounded_header(stream: _Unpacked) -> type[tarfile.TarInfo]:
    class BoundedHeader(tarfile.TarInfo):
        @classmethod
        def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
            with stream.one_header():
                return super().fromtarfile(tarfile)

    return BoundedHeader


class _Unpacked:
    """A packed stream that is given up where it is too long: what is skipped is unpacked too."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = self._left = most
        self._header_left: int | None = None
        self._reads_after_end = _READS_AFTER_END
        self._streams = 1
        self._inflater = zlib.decompressobj(_GZIP)

    @contextmanager
    def one_header(self) -> Iterator[None]:
        """Read no more than a header may have; one that tells of the next one is read with that."""
        outermost = self._header_left is None
        if outermost:
            self._header_left = _LONGEST_HEADER
        try:
            yield
        finally:
            if outermost:
                self._header_left = None

    def read(self, size: int) -> bytes:
        """Return the next bytes, none at the end."""
        data = self._unpack(size)
        self._left -= len(data)
        if self._left < 0:
            raise BadArchiveError(f"it unpacks to more than {self._most >> 20} MiB")
        if self._header_left is not None:
            self._header_left -= len(data)
            if self._header_left < 0:
                raise BadArchiveError("a header is larger than any name")
        if not data:
            self._reads_after_end -= 1
            if self._reads_after_end < 0:
                raise EOFError("it ends within a file")
        return data

    def _unpack(self, size: int) -> bytes:
        while True:
            packed = self._inflater.unconsumed_tail or self._inflater.unused_data or self._file.read(_CHUNK)
            if self._inflater.eof:
                while packed and not packed.strip(b"\0"):
                    packed = self._file.read(_CHUNK)
                if not packed:
                    return b""
                self._begin_another()
            data = self._inflater.decompress(packed, size)
            if data:
                return data
            if not packed and not self._inflater.eof:
                raise EOFError("it is cut short")

    def _begin_another(self) -> None:
        self._streams += 1
        if self._streams > _MOST_STREAMS:
            raise BadArchiveError(f"it is packed in more than {_MOST_STREAMS} pieces")
        self._inflater = zlib.decompressobj(_GZIP)
