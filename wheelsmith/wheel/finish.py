"""Repair and check one wheel, as a program of its own: ``python -m wheelsmith.wheel.finish FOLDER``.

What a build left is read here, never in the process that runs builds: whatever it makes of its reader, the reader has
the limits that the build had. Where all is well, the finished wheel comes to lie under ``packed``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wheelsmith.wheel.finished import CHECKING, RepairRequest
from wheelsmith.wheel.orders import run_repair
from wheelsmith.wheel.repair import repair


def repaired(order: RepairRequest, left: Path) -> Path:
    """Return the wheel that a build left, repaired, and say that its check begins."""
    wheel = repair(left, order, left.parents[1])
    sys.stdout.write(f"{CHECKING}\n")
    sys.stdout.flush()
    return wheel


if __name__ == "__main__":
    run_repair(repaired)
