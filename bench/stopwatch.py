"""Measure the cost of a command and the files that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.json_dataclass import Record

# The peak memory of a process includes that before exec, so a small process starts the command. It also measures the
# time, so that its own start is not included.
_START = """
import json, os, sys, time
start = time.monotonic()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
wall = time.monotonic() - start
took = {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak_memory": usage.ru_maxrss * 1024}
with open(sys.argv[1], "w") as file:
    json.dump(took, file)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCost(Record):
    """The cost of a command.

    :param wall: seconds of wall time.
    :param cpu: seconds of user and system time.
    :param peak_memory: the peak memory in bytes of its largest process, including program text.
    """

    wall: float
    cpu: float
    peak_memory: int


@dataclass(slots=True)
class Written:
    """The number and bytes of files that were created or replaced."""

    files: int = 0
    bytes: int = 0


def busy_seconds() -> float:
    """Return the seconds for which this machine's cores were busy since it started, without work at a lower priority.

    Unlike the time of child processes, this includes processes in sandboxes.
    """
    user, _niced, system = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:4])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def run_timed(
    argv: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    outputs: list[str] | None = None,
    ok_codes: Collection[int] = (0,),
) -> CommandCost:
    """Run a command and return its cost.

    :param outputs: a list to which the output is appended.
    :param ok_codes: exit codes that are not failures.
    :raises WheelsmithError: the command failed.
    """
    with tempfile.NamedTemporaryFile(prefix="took-", suffix=".json") as out:
        starter = (sys.executable, "-SE", "-c", _START, out.name)
        answer = subprocess.run(
            [*starter, *map(str, argv)], env=dict(environment), capture_output=True, text=True, check=False
        )
        if answer.returncode not in ok_codes:
            raise WheelsmithError(
                f"{' '.join(map(str, argv))} failed with {answer.returncode}\n{answer.stderr[-2000:]}"
            )
        if outputs is not None:
            outputs.append(answer.stdout)
        return CommandCost.from_json(json.loads(Path(out.name).read_text()))


@contextmanager
def count_written(folder: Path) -> Iterator[Written]:
    """Count the files that the block creates or replaces in a folder. The count itself takes time."""
    before, found = _files(folder), Written()
    yield found
    for path, (identity, size) in _files(folder).items():
        if before.get(path, (None, 0))[0] != identity:
            found.files += 1
            found.bytes += size


def _files(folder: Path) -> dict[Path, tuple[tuple[int, int], int]]:
    found = {}
    for path in folder.rglob("*"):
        stat = path.lstat()
        if not path.is_dir():
            found[path] = ((stat.st_ino, stat.st_mtime_ns), stat.st_size)
    return found
