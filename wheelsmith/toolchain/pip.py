"""wheelsmith's own pip, which knows the user's indexes and how to choose from them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib.resources import files
from threading import Event

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.offline import is_offline

_TICK = 0.2  # seconds between looks at the cancel flag
_PROGRAM = str(files("wheelsmith.toolchain") / "pip_no_build.py")


def run_pip(*argv: str, seconds: float, cancel: Event | None = None) -> subprocess.CompletedProcess[str]:
    """Run pip to its end; it runs nothing of what it fetches.

    :param seconds: that it may take.
    :param cancel: ends it, once it is set.
    :raises ToolchainError: there is no pip, it takes longer, or it was cancelled.
    """
    # -P: the folder that wheelsmith was started in may be a stranger's, and hold a pip.py.
    command = [sys.executable, "-P", _PROGRAM, *argv, "--disable-pip-version-check"]
    answer = _run(command, _environment(), time.monotonic() + seconds, cancel or Event())
    if answer is None:
        raise ToolchainError(
            f"pip {argv[0]} took longer than {seconds:g} s",
            remedy="does the index answer? python3 -m pip config list names it",
        )
    if answer.returncode and "No module named pip" in answer.stderr:
        raise ToolchainError(
            f"pip is not installed beside wheelsmith ({sys.executable})",
            remedy=f"uv pip install --python {sys.executable} pip, or {sys.executable} -m ensurepip",
        )
    return answer


def _environment() -> dict[str, str]:
    """Return the environment; where there is no network, one in which pip has nobody to ask."""
    if not is_offline():
        return dict(os.environ)
    # Its other settings may name files on the network, too.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**own, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def _run(
    command: list[str], env: dict[str, str], deadline: float, cancel: Event
) -> subprocess.CompletedProcess[str] | None:
    """Return what came of a command, or None where it takes too long."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            while time.monotonic() < deadline:
                if cancel.is_set():
                    raise ToolchainError("pip was cancelled")
                with suppress(subprocess.TimeoutExpired):
                    printed, said = process.communicate(timeout=_TICK)
                    return subprocess.CompletedProcess(command, process.returncode, printed, said)
        finally:
            process.kill()
    return None
