"""The log and the progress reports of one cell."""

from __future__ import annotations

import re
import shlex
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.sanitize import visible
from wheelsmith.model import CellLine, CellProgress, CellStage, CommandStarted, Listener, Timing

HEAD_LINES = 100
TAIL_LINES = 30
_ERROR_LINES, _LAST_LINES = 12, 3  # of an excerpt
_LONGEST_SEARCHED = 1000  # characters of a line
# How compilers, linkers, CMake and Meson begin an error. "error: command 'g++' failed" is setuptools' last line.
_ERROR = re.compile(
    r"\S.*?(:\d+|\(\d+\)): *((fatal|catastrophic|internal compiler) )?(error|Error|ERROR)\b"
    r"|\S*(nvcc|ptxas|nvlink|fatbinary|cicc)( \S+, line \d+;)? +(fatal|error) *:"
    r"|\S*(g\+\+|gcc|c\+\+|cc|clang|cc1|cc1plus|ld|lld): (fatal |internal compiler )?error: "
    r"|\S*ld(\.\w+)?: cannot find |\S.*: undefined reference to |CMake Error"
)
# The backend sets NINJA_STATUS to this format. The length is limited, because a build can print any number.
_NINJA_STATUS = re.compile(r"\[wheelsmith ([0-9]{1,6})/([0-9]{1,6})\] (.*)")
_AFTER_ERROR = re.compile(r"error: |Traceback |TIP |ERROR ")  # of setuptools, Python and the package build


class CellLog:
    """Writes the log of a cell, measures its stages and reports its progress. Several threads may use it.

    :param path: path of the log file.
    :param listen: receives the events.
    """

    def __init__(self, cell_id: str, path: Path, listen: Listener) -> None:
        self._cell_id = cell_id
        self._path = path
        self._listen = listen
        self._lock = threading.Lock()
        self._begun = False
        self._steps = [0, 0]
        self._timings: list[Timing] = []
        self._since: float | None = None
        self.stage = "fetch"

    @property
    def timings(self) -> tuple[Timing, ...]:
        """Return the durations of the completed stages."""
        return tuple(self._timings)

    def enter(self, stage: str) -> None:
        """Begin a stage and end the previous one."""
        with self._lock:
            self._switch_stage(stage)
        self._listen(CellStage(cell_id=self._cell_id, stage=stage))

    def close(self) -> None:
        """End the last stage."""
        with self._lock:
            self._switch_stage(self.stage)

    def expect(self, steps: int) -> None:
        """Add steps to the expected total."""
        with self._lock:
            self._steps[1] += steps

    def step(self, name: str) -> None:
        """Report that a step is done."""
        with self._lock:
            self._steps[0] += 1
            done, total = self._steps
        self._listen(CellProgress(cell_id=self._cell_id, done=done, total=total, step=name))

    def start_command(self, argv: Iterable[str]) -> None:
        """Report that a command starts."""
        self._listen(CommandStarted(cell_id=self._cell_id, command=visible(shlex.join(argv))))

    @contextmanager
    def command(self, name: str, argv: Iterable[str]) -> Iterator[CommandOutput]:
        """Yield a reader for the lines of one command. They are written to the log together when the command ends."""
        self.start_command(argv)
        # In a file, because a build can print any amount.
        with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
            try:
                yield CommandOutput(self._cell_id, self._listen, spool)
            finally:
                spool.seek(0)
                self._write(name, spool)

    def reuse(self, name: str, lines: tuple[str, ...]) -> None:
        """Write the cached lines of a command to the log, escaped because another machine may have filled the cache."""
        self._write(f"{name}: from the cache", (visible(line) + "\n" for line in lines))

    def _write(self, name: str, lines: Iterable[str]) -> None:
        with self._lock:
            if not self._begun:
                # Replace an existing file or link: the folder may be part of the kernel's source.
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with WorkFolder(self._path.parent) as folder:
                    folder.create(self._path.name).close()
                self._begun = True
            with self._path.open("a", encoding="utf-8") as log:
                log.write(f"── {name}\n")
                log.writelines(lines)

    def _switch_stage(self, stage: str) -> None:
        now = time.monotonic()
        if self._since is not None:
            self._timings.append(Timing(stage=self.stage, seconds=round(now - self._since, 3)))
        self.stage, self._since = stage, now


class CommandOutput:
    """Reads the lines of one command, and keeps the first and the last ones."""

    def __init__(self, cell_id: str, listen: Listener, spool: TextIO) -> None:
        self._cell_id = cell_id
        self._listen = listen
        self._spool = spool
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._error: list[str] = []
        self._error_ended = False

    @property
    def head(self) -> tuple[str, ...]:
        """Return the first lines."""
        return tuple(self._head)

    @property
    def tail(self) -> tuple[str, ...]:
        """Return the last lines, without progress lines."""
        return tuple(self._tail)

    @property
    def excerpt(self) -> tuple[str, ...]:
        """Return the first error of a compiler or build system, and how the command ended; nothing without one."""
        if not self._error:
            return ()
        # A traceback is indented, but for its first line and the exception.
        ends = [line for line in self._tail if line[:1].strip() and line not in self._error][-_LAST_LINES:]
        return (*self._error, *ends)

    def read(self, line: str) -> None:
        """Write one line to the log and report it."""
        self._spool.write(line + "\n")
        if match := _NINJA_STATUS.match(line):
            self._listen(CellProgress(cell_id=self._cell_id, done=int(match[1]), total=int(match[2]), step=match[3]))
            return
        if len(self._head) < HEAD_LINES:
            self._head.append(line)
        self._tail.append(line)
        if self._error and _AFTER_ERROR.match(line):
            self._error_ended = True
        elif not self._error_ended and (self._error or _ERROR.match(line[:_LONGEST_SEARCHED])):
            self._error.append(line)
            self._error_ended = len(self._error) == _ERROR_LINES
        self._listen(CellLine(cell_id=self._cell_id, line=line))
