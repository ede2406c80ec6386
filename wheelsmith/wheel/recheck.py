"""Check a wheel that was finished before, as a program of its own: ``python -m wheelsmith.wheel.recheck FOLDER``.

The folder holds ``order.json`` and the wheel, under ``left``; it comes to hold ``finished.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wheelsmith.errors import WheelError
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.finished import FINISHED, LEFT, ORDER, Finished, Order


def main() -> None:
    """Do what the order in a folder says."""
    folder = Path(sys.argv[1])
    order = Order.from_json(json.loads((folder / ORDER).read_bytes()))
    (folder / FINISHED).write_text(json.dumps(recheck(order, folder).to_json()), encoding="utf-8")


def recheck(order: Order, folder: Path) -> Finished:
    """Check the one wheel that lies under ``left``."""
    (wheel,) = (folder / LEFT).iterdir()
    try:
        report = check_wheel(wheel, order.spec)
        return Finished(wheel=wheel_file(wheel) if report.ok else None, report=report)
    except WheelError as error:
        return Finished(refusal=str(error), remedy=error.remedy)


if __name__ == "__main__":
    main()
