"""Standard streams that never fail, so that a run continues after the reader of its output has closed the pipe."""

from __future__ import annotations

import errno
import io
import os
import sys
from dataclasses import dataclass, field
from typing import Self, TextIO, cast

from wheelsmith.base.errors import MachineError


class _LossyFile(io.FileIO):
    """A file descriptor that drops data that it cannot write, and remembers the last error."""

    error: OSError | None = None

    def write(self, data: object) -> int:
        """Write the data. Data that cannot be written counts as written."""
        view = memoryview(cast("bytes", data))
        try:
            return super().write(view) or 0
        except OSError as error:
            self.error = error
            return view.nbytes


@dataclass(slots=True)
class SafeStreams:
    """A context in which writing to stdout and stderr never raises.

    Characters that the encoding lacks are escaped.
    """

    _originals: tuple[TextIO, TextIO] = field(default_factory=lambda: (sys.stdout, sys.stderr))
    _files: list[_LossyFile | None] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Replace both streams."""
        self._files = [_lossy_file(stream) for stream in self._originals]
        sys.stdout, sys.stderr = (
            _wrap(stream, file) for stream, file in zip(self._originals, self._files, strict=True)
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Flush and restore both streams."""
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = self._originals

    def check(self) -> None:
        """Check that stdout was written completely.

        A closed pipe is no error: readers such as ``head`` stop early.

        :raises MachineError: a write failed, for example on a full disk.
        """
        sys.stdout.flush()
        file = self._files[0]
        if file and file.error and file.error.errno != errno.EPIPE:
            raise MachineError(
                f"cannot write to stdout: {file.error.strerror}",
                remedy="free disk space and run the command again",
            )


def _lossy_file(stream: TextIO | None) -> _LossyFile | None:
    if stream is None:
        # Without a descriptor here, the next opened file would get the number of the stream.
        return _LossyFile(os.devnull, "wb")
    try:
        return _LossyFile(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):  # closed, or without a descriptor
        return None


def _wrap(stream: TextIO, file: _LossyFile | None) -> TextIO:
    if file is None:
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )
