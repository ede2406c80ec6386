"""wheelsmith's own pip, which knows the user's indexes and how to choose from them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files

from wheelsmith.base.errors import ToolchainError

_PROGRAM = str(files("wheelsmith.toolchain") / "wheels_only.py")


def run_pip(*argv: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run pip to its end; it runs nothing of what it fetches.

    :param seconds: that it may take.
    :raises ToolchainError: there is no pip, or it takes longer.
    """
    # Where it breaks its lines would hide a word of its help.
    env = {**os.environ, "COLUMNS": "200"}
    # -P: the folder that wheelsmith was started in may be a stranger's, and hold a pip.py.
    command = [sys.executable, "-P", _PROGRAM, *argv, "--disable-pip-version-check"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"pip {argv[0]} took longer than {seconds:g} s",
            remedy="does the index answer? python3 -m pip config list names it",
        ) from None
    if answer.returncode and "No module named pip" in answer.stderr:
        raise ToolchainError(
            f"pip is not installed beside wheelsmith ({sys.executable})",
            remedy=f"uv pip install --python {sys.executable} pip, or {sys.executable} -m ensurepip",
        )
    return answer
