"""Operations of the worker on wheels. Each takes and returns JSON data.

An operation writes only to its working folder.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from wheelsmith.model import WheelSpec
from wheelsmith.wheel.check import check_wheel, check_with_capabilities
from wheelsmith.wheel.facts import wheel_facts, wheel_file
from wheelsmith.wheel.recorded_plan import read_plan
from wheelsmith.wheel.report import CHECKING, LEFT, RepairRequest, RepairResponse


def repair_and_check(request: dict[str, Any]) -> dict[str, Any]:
    """Repair the raw wheel of a build, check the result, and leave it under ``packed``."""
    from wheelsmith.wheel.repair import repair

    repair_request = RepairRequest.from_json(request)
    wheel = repair(_raw_wheel(), repair_request, Path.cwd())
    print(CHECKING, flush=True)  # noqa: T201  # the parent process reads this line
    return _check_response(wheel, repair_request.spec)


def check_again(request: dict[str, Any]) -> dict[str, Any]:
    """Check a finished wheel from the cache."""
    return _check_response(_raw_wheel(), RepairRequest.from_json(request).spec)


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Check a wheel that wheelsmith did not build in this run."""
    expected = WheelSpec.from_json(request["expected"]) if request["expected"] else None
    return check_wheel(Path(request["path"]), expected, request["declared"]).to_json()


def torch_facts(request: dict[str, Any]) -> dict[str, Any]:
    """Read the facts about torch from its wheel."""
    from wheelsmith.wheel.torch_wheel import read_facts

    return read_facts(Path(request["path"]), request["release"], request["source"], request["date"]).to_json()


def facts(request: dict[str, Any]) -> dict[str, Any]:
    """Read the facts about a wheel that an index lists."""
    return wheel_facts(Path(request["path"])).to_json()


def recorded_plan(request: dict[str, Any]) -> dict[str, Any]:
    """Read the plan that a wheel records."""
    plan = read_plan(Path(request["path"]))
    return {"plan": plan.to_json() if plan else None}


def differences(request: dict[str, Any]) -> dict[str, Any]:
    """Compare a wheel with its rebuild."""
    from wheelsmith.wheel.diff import wheel_differences

    return {"differences": wheel_differences(Path(request["path"]), Path(request["rebuilt"]))}


def relabel(request: dict[str, Any]) -> dict[str, Any]:
    """Copy a wheel without its local version, and leave the copy under ``packed`` in a folder of its own."""
    from wheelsmith.wheel.relabel import relabel as relabel_wheel

    work = Path(request["work"])
    work.mkdir()
    return {"wheel": relabel_wheel(Path(request["path"]), work).name}


def _raw_wheel() -> Path:
    (wheel,) = (Path.cwd() / LEFT).iterdir()
    return wheel


def _check_response(wheel: Path, spec: WheelSpec) -> dict[str, Any]:
    report, archs = check_with_capabilities(wheel, spec)
    file = replace(wheel_file(wheel), gpu_archs=archs) if report.ok else None
    return RepairResponse(report=report, wheel=file).to_json()
