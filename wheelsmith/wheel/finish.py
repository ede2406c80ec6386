"""Repair and check one wheel, as a program of its own: ``python -m wheelsmith.wheel.finish FOLDER``.

What a build left is read here, never in the process that runs builds: whatever it makes of its reader, the reader has
the limits that the build had. The folder holds ``order.json`` and the wheel, under ``left``; it comes to hold
``finished.json`` and, where all is well, the finished wheel under ``packed``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wheelsmith.errors import WheelError
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.finished import CHECKING, FINISHED, LEFT, ORDER, Finished, Order
from wheelsmith.wheel.repair import repair


def main() -> None:
    """Do what the order in a folder says."""
    folder = Path(sys.argv[1])
    order = Order.from_json(json.loads((folder / ORDER).read_bytes()))
    finished = finish(order, folder)
    (folder / FINISHED).write_text(json.dumps(finished.to_json()), encoding="utf-8")


def finish(order: Order, folder: Path) -> Finished:
    """Repair and check the one wheel that lies under ``left``."""
    (left,) = (folder / LEFT).iterdir()
    members = None if order.members is None else frozenset(order.members)
    try:
        wheel = repair(left, order.spec, folder, members=members)
        sys.stdout.write(f"{CHECKING}\n")
        sys.stdout.flush()
        report = check_wheel(wheel, order.spec)
        return Finished(wheel=wheel_file(wheel) if report.ok else None, report=report)
    except WheelError as error:
        return Finished(refusal=str(error), remedy=error.remedy)


if __name__ == "__main__":
    main()
