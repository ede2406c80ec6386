"""The machine's processes, as tests look for those that should be gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
# Seconds; long enough for a machine that is busy with other things, and nobody waits for it where all is well.
PATIENCE = 60.0


def with_words(text: str) -> list[int]:
    """Return the processes, but this one, whose command line contains ``text``."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                found += [int(process.name)] if text.encode() in (process / "cmdline").read_bytes() else []
            except OSError:  # it ended while we looked
                continue
    return found


def in_folder(folder: Path) -> list[int]:
    """Return the processes, but this one, that name a folder in their command line or work in it."""
    found = set(with_words(str(folder)))
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                found |= {int(process.name)} if str(folder) in str((process / "cwd").readlink()) else set()
            except OSError:
                continue
    return sorted(found)


def left(look: Callable[[], list[T]]) -> list[T]:
    """Wait until ``look`` finds nothing; returns what it still finds in the end."""
    end = time.monotonic() + PATIENCE
    while (found := look()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def seen(look: Callable[[], list[T]]) -> bool:
    """Wait until ``look`` finds something, and say whether it did."""
    end = time.monotonic() + PATIENCE
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)
