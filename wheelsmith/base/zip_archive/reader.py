"""Read the members of an archive one at a time, in pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from wheelsmith.base.errors import Place, WheelError
from wheelsmith.base.zip_archive.end import find_directory
from wheelsmith.base.zip_archive.members import STORED, Member, read_entries, read_members
from wheelsmith.base.zip_archive.safe_names import check_names

MOST_MEMBERS = 20_000
MOST_BYTES = 8 * 2**30

_GROWTH = 100
_HARMLESS = 256 * 2**20
_CHUNK = 1 << 20  # bytes


class Archive:
    """An open archive, whose names, sizes and kinds of members were checked.

    :param path: of the file.
    :raises WheelError: it is no archive, or none that every unzipper reads the same, or more than may be unpacked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open(path)
        try:
            self.members = {member.name: member for member in self._read()}
        except WheelError as error:
            self.close()
            raise WheelError(error.message, where=Place(file=path.name), remedy="build or download it again") from None
        except OSError as error:
            self.close()
            raise WheelError(f"{path} cannot be read: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def files(self) -> dict[str, Member]:
        """Every member that is not a folder, by its name."""
        return {name: member for name, member in self.members.items() if not name.endswith("/")}

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a member's content in pieces of at most a MiB.

        :raises WheelError: it is not what the archive's directory says.
        """
        member = self.members[name]
        size = crc = 0
        try:
            for chunk in self._unpacked(member):
                size += len(chunk)
                crc = zlib.crc32(chunk, crc)
                yield chunk
        except (zlib.error, EOFError) as error:
            raise self._broken(f"{name!r} cannot be unpacked: {error}") from None
        except OSError as error:
            raise WheelError(f"{self.path} cannot be read: {error.strerror or error}") from None
        if size != member.size:
            raise self._broken(f"{name!r} has {size} bytes, and the directory says {member.size}")
        if crc != member.crc:
            raise self._broken(f"{name!r} has checksum {crc:08x}, and the directory says {member.crc:08x}")

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Return a member's content.

        :param most: bytes that it may have.
        :raises WheelError: it has more, or is not what the archive's directory says.
        """
        if self.members[name].size > most:
            raise self._broken(f"{name!r} has {self.members[name].size} bytes, and more than {most} are not read")
        return b"".join(self.chunks(name))

    def _read(self) -> tuple[Member, ...]:
        length = self._file.seek(0, 2)
        directory = find_directory(self._file, length)
        entries = read_entries(self._file, directory, MOST_MEMBERS)
        total = sum(entry.size for entry in entries)
        if total > MOST_BYTES:
            raise WheelError(f"it unpacks to more than {MOST_BYTES >> 30} GiB: {total} bytes")
        # An archive that is small only because it is made to burst; compiled code shrinks by ten at the most.
        if total > _HARMLESS and total > _GROWTH * length:
            raise WheelError(f"it unpacks to {total // length} times its size")
        members = read_members(self._file, entries, directory.start)
        check_names(members)
        return members

    def _unpacked(self, member: Member) -> Iterator[bytes]:
        pieces = self._packed(member)
        if member.method == STORED:
            yield from pieces
            return
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        left = member.size
        for piece in pieces:
            if inflater.eof:
                raise EOFError("there are bytes behind its end")
            rest, more = piece, True
            while more and not inflater.eof:
                # One byte more than there may be: a stream that goes on is found, and costs nothing.
                most = min(_CHUNK, left + 1)
                chunk = inflater.decompress(rest, most)
                rest = inflater.unconsumed_tail
                # It may hold back what it has read and had no room to give.
                more = bool(rest) or len(chunk) == most
                left -= len(chunk)
                if left < 0:
                    raise EOFError(f"it goes on after the {member.size} bytes that the directory says")
                yield chunk
        if not inflater.eof or inflater.unused_data:
            raise EOFError("there are bytes behind its end" if inflater.eof else "it is cut short")

    def _packed(self, member: Member) -> Iterator[bytes]:
        for at in range(member.start, member.start + member.packed, _CHUNK):
            # Another member may have been read since.
            self._file.seek(at)
            piece = self._file.read(min(_CHUNK, member.start + member.packed - at))
            if not piece:
                raise EOFError("the file ends before it")
            yield piece

    def _broken(self, message: str) -> WheelError:
        return WheelError(message, where=Place(file=self.path.name), remedy="build or download it again")


def _open(path: Path) -> BinaryIO:
    """Open a plain file: a pipe would be waited for."""
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
