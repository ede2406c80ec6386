"""Short programs that are asked something: what they print is the answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

_PATIENCE = 60.0  # seconds: a first start of a Python on a cold disk, or of a driver that wakes its GPUs


def output_of(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Return what a program printed; nothing where it cannot be run or does not end.

    :param variables: all that it has; None gives it this process's own.
    """
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE, check=False, env=variables)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout


def answer_of(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> Any:
    """Return the JSON of a program's last line; None where that is none.

    :param variables: as ``output_of`` takes them.
    """
    try:
        # A site hook may have printed something before.
        return json.loads(output_of(argv, variables).strip().rpartition("\n")[2])
    except ValueError:
        return None
