"""What is made once and used by many: tests, workers of one run, later runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Make a folder where it stands, unless it was made before; whoever comes meanwhile waits.

    :param make: fills the folder, which exists and is empty. A folder that is half made is made again.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with FileLock(f"{folder}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run share."""
    base = factory.getbasetemp()
    # Each worker of pytest-xdist has a folder of its own beneath the run's.
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
