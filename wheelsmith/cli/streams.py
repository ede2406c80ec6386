"""Standard streams that never fail, so that a run continues after the reader of its output has closed the pipe."""

from __future__ import annotations

import errno
import io
import os
import sys
from dataclasses import dataclass, field
from typing import Self, TextIO, cast

from wheelsmith.base.errors import MachineError


class _Lossy(io.FileIO):
    """A file descriptor that drops data that it cannot write, and remembers the last error."""

    lost: OSError | None = None

    def write(self, data: object) -> int:
        """Write the data. Data that cannot be written counts as written."""
        view = memoryview(cast("bytes", data))
        try:
            return super().write(view) or 0
        except OSError as error:
            self.lost = error
            return view.nbytes


@dataclass(slots=True)
class SteadyStreams:
    """A context in which writing to stdout and stderr never raises.

    Characters that the encoding lacks are escaped.
    """

    _before: tuple[TextIO, TextIO] = field(default_factory=lambda: (sys.stdout, sys.stderr))
    _files: list[_Lossy | None] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Replace both streams."""
        self._files = [_descriptor(stream) for stream in self._before]
        sys.stdout, sys.stderr = (_stream(stream, file) for stream, file in zip(self._before, self._files, strict=True))
        return self

    def __exit__(self, *_: object) -> None:
        """Flush and restore both streams."""
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = self._before

    def check(self) -> None:
        """Check that stdout was written completely.

        A closed pipe is no error: readers such as ``head`` stop early.

        :raises MachineError: a write failed, for example on a full disk.
        """
        sys.stdout.flush()
        file = self._files[0]
        if file and file.lost and file.lost.errno != errno.EPIPE:
            raise MachineError(
                f"cannot write to stdout: {file.lost.strerror}",
                remedy="free disk space and run the command again",
            )


def _descriptor(stream: TextIO | None) -> _Lossy | None:
    if stream is None:
        # Without a descriptor here, the next opened file would get the number of the stream.
        return _Lossy(os.devnull, "wb")
    try:
        return _Lossy(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):  # closed, or without a descriptor
        return None


def _stream(stream: TextIO, file: _Lossy | None) -> TextIO:
    if file is None:
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )
