"""Standard streams that outlive their readers: a run goes on when nobody watches it any more."""

from __future__ import annotations

import errno
import io
import os
import sys
from dataclasses import dataclass, field
from typing import Self, TextIO, cast

from wheelsmith.base.errors import MachineError


class _Lossy(io.FileIO):
    """A stream's descriptor; what it does not take is lost, and why is kept."""

    lost: OSError | None = None

    def write(self, data: object) -> int:
        """Write what can be written; all of it counts as written."""
        view = memoryview(cast("bytes", data))
        try:
            return super().write(view) or 0
        except OSError as error:
            self.lost = error
            return view.nbytes


@dataclass(slots=True)
class SteadyStreams:
    """While it is entered, no write to stdout or stderr fails, nor any character that their encoding lacks."""

    _before: tuple[TextIO, TextIO] = field(default_factory=lambda: (sys.stdout, sys.stderr))
    _files: list[_Lossy | None] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Take the place of both streams."""
        self._files = [_descriptor(stream) for stream in self._before]
        sys.stdout, sys.stderr = (_stream(stream, file) for stream, file in zip(self._before, self._files, strict=True))
        return self

    def __exit__(self, *_: object) -> None:
        """Write what was held back, and put both streams back."""
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = self._before

    def check(self) -> None:
        """See that all of stdout was written.

        :raises MachineError: something was not, for instance on a full disk. A reader that went away, as ``head`` does,
            did not want it.
        """
        sys.stdout.flush()
        file = self._files[0]
        if file and file.lost and file.lost.errno != errno.EPIPE:
            raise MachineError(
                f"what belongs on stdout could not be written: {file.lost.strerror}",
                remedy="free some disk, and run the command again",
            )


def _descriptor(stream: TextIO | None) -> _Lossy | None:
    if stream is None:
        # Else the next file that is opened would be taken for it.
        return _Lossy(os.devnull, "wb")
    try:
        return _Lossy(stream.fileno(), "wb", closefd=False)
    except (OSError, ValueError):  # closed, or none of the system's
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
