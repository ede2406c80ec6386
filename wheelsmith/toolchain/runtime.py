"""A whole torch, installed as its users install it, for the smoke test of a wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wheelsmith.errors import ToolchainError


def install_runtime(torch_version: str, folder: Path) -> None:
    """Install torch and what it needs under ``folder``, with the user's own pip configuration.

    :raises ToolchainError: pip could not.
    """
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--only-binary", ":all:", "--no-compile", "--target", str(folder), f"torch=={torch_version}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise ToolchainError(
            f"torch {torch_version} could not be installed for the test: {errors[-1] if errors else 'pip failed'}",
            remedy=f"see why: python3 -m pip install --dry-run torch=={torch_version}",
        )


def runtime_has_cuda(folder: Path) -> bool:
    """Say whether the torch in ``folder`` was built with CUDA."""
    return any((folder / "torch" / "lib").glob("libtorch_cuda*"))
