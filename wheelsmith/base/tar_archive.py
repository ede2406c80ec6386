"""Read a .tar.gz from others, member by member."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 16  # bytes
# RecursionError: tarfile reads a header that tells of the next one together with that.
_FAILURES = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError, RecursionError)


class BadArchiveError(Exception):
    """An archive cannot be unpacked; the message lacks the file's name."""


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member of an archive that is being read."""

    info: tarfile.TarInfo
    _archive: tarfile.TarFile

    def chunks(self) -> Iterator[bytes]:
        """Yield the content of a regular file.

        :raises BadArchiveError: it cannot be unpacked.
        """
        with _explained():
            content = self._archive.extractfile(self.info)
            while content and (chunk := content.read(_CHUNK)):
                yield chunk


def tar_members(path: Path, *, most_bytes: int) -> Iterator[TarMember]:
    """Yield the members of an archive, in its order; their names may be unsafe.

    :param most_bytes: that it may unpack to, headers and members that are skipped among them.
    :raises BadArchiveError: it is no .tar.gz, or has more.
    """
    with _explained(), _LimitedGzip(path, most_bytes) as stream:
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
            for info in archive:
                if info.issparse() or info.size < 0:
                    raise BadArchiveError(f"{info.name!r} is a file with holes")
                yield TarMember(info, archive)
        while stream.read(_CHUNK):  # the checksum is behind what tarfile reads
            pass


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise BadArchiveError(f"it cannot be unpacked: {error}") from error


class _LimitedGzip(gzip.GzipFile):
    """A packed file that is not read beyond a limit: to skip a member is to unpack it."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path)
        self._most = most

    def read(self, size: int | None = -1) -> bytes:
        self._allow(self.tell() + (size or 0))
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._allow(offset)
        return super().seek(offset, whence)

    def _allow(self, end: int) -> None:
        if end > self._most:
            raise BadArchiveError(f"it unpacks to more than {self._most >> 20} MiB")
