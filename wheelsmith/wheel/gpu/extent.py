"""A stretch of a file, read piece by piece."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO

from wheelsmith.base.errors import WheelError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """Bytes of a file that belong together.

    :param file: seekable.
    :param start: of the first byte in the file.
    :param size: in bytes.
    """

    file: BinaryIO
    start: int
    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes, all that are asked for.

        :raises WheelError: they are not all within the extent.
        """
        if offset < 0 or size < 0 or offset + size > self.size:
            raise WheelError("it is cut short")
        self.file.seek(self.start + offset)
        data = self.file.read(size)
        if len(data) != size:
            raise WheelError("it is cut short")
        return data

    def part(self, offset: int, size: int) -> FileSlice:
        """Return a stretch within this one.

        :raises WheelError: it is not within.
        """
        if offset < 0 or size < 0 or offset + size > self.size:
            raise WheelError("it is cut short")
        return FileSlice(file=self.file, start=self.start + offset, size=size)


def extent_of(data: bytes) -> FileSlice:
    """Return bytes that are in memory as an extent."""
    return FileSlice(file=io.BytesIO(data), start=0, size=len(data))
