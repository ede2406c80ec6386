"""What a test needs of the machine: without it the test is skipped, and fails in CI, where nothing is left out."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import NoReturn

import pytest

# Whether the kernel counts memory. For an ordinary user wheelsmith looks ten times a second, so a burst can overshoot,
# and one process is refused more than the limit, which it may answer in words of its own.
COUNTED = os.getuid() == 0
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"


def absent(what: str) -> NoReturn:
    """Skip for want of something; fail in CI, which installs all that its tier needs."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(what)


def program(name: str) -> None:
    """Need a program on PATH, or where Debian keeps servers."""
    if shutil.which(name, path=PATH) is None:
        absent(f"{name} is not installed")


def root(what: str) -> None:
    """Need to be root: what only root may do is skipped for everybody else, in CI too."""
    if os.getuid():
        pytest.skip(f"{what} needs root")


def script(name: str) -> Path:
    """Need a program that comes with a Python package of the tests."""
    path = Path(sysconfig.get_path("scripts"), name)
    if not path.exists():
        absent(f"{name} is not installed")
    return path
