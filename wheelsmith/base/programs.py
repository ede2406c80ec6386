"""Short programs that are asked something: what they print is the answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

_PATIENCE = 60.0  # seconds: a first start of a Python on a cold disk, or of a driver that wakes its GPUs


def output_of(argv: Sequence[str]) -> str:
    """Return what a program printed; nothing where it cannot be run or does not end."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def answer_of(argv: Sequence[str]) -> Any:
    """Return the JSON of a program's last line; None where that is none."""
    try:
        # A site hook may have printed something before.
        return json.loads(output_of(argv).strip().rpartition("\n")[2])
    except ValueError:
        return None
