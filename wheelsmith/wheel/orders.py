"""What the programs that finish wheels have in common: an order, a check and an answer.

The folder that they are given holds ``order.json`` and the wheel, under ``left``; it comes to hold ``finished.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.check import check_and_read
from wheelsmith.wheel.facts import wheel_file
from wheelsmith.wheel.finished import FINISHED, LEFT, ORDER, RepairRequest, RepairResponse


def run_repair(prepare: Callable[[RepairRequest, Path], Path]) -> None:
    """Check what is made of the one wheel in the folder that the command line names, and write what came of it.

    :param prepare: makes the wheel that is checked, given the order and the wheel that lies there.
    """
    folder = Path(sys.argv[1])
    order = RepairRequest.from_json(json.loads((folder / ORDER).read_bytes()))
    (left,) = (folder / LEFT).iterdir()
    (folder / FINISHED).write_text(json.dumps(_finished(prepare, order, left).to_json()), encoding="utf-8")


def _finished(prepare: Callable[[RepairRequest, Path], Path], order: RepairRequest, left: Path) -> RepairResponse:
    try:
        wheel = prepare(order, left)
        report, archs = check_and_read(wheel, order.spec)
        return RepairResponse(wheel=replace(wheel_file(wheel), gpu_archs=archs) if report.ok else None, report=report)
    except WheelError as error:
        return RepairResponse(refusal=str(error), remedy=error.remedy)
