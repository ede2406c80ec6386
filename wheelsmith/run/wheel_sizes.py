"""The limit of the matrix for the size of a wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from wheelsmith.base.units import show_size
from wheelsmith.model import BuildPlan, BuildResult, Failure, Notice, WheelRecord
from wheelsmith.model.run_record import RunRecord
from wheelsmith.store import Store


def size_failure(result: BuildResult) -> Failure | None:
    """Return the failure of a cell whose wheel is larger than its ``max-size``, or None."""
    limit = result.cell.settings.max_size
    if result.wheel is None or limit is None or result.wheel.size <= limit:
        return None
    text = f"the wheel has {show_size(result.wheel.size)}, and max-size is {show_size(limit)}"
    return Failure(stage="check", message=text, remedy="build for fewer gpu-archs, or raise max-size")


def oversized_wheels(plans: Iterable[BuildPlan], out: Path, store: Store) -> Iterator[Notice]:
    """Yield a warning for each plan whose wheel was larger than ``max-size`` when it was last built.

    :param out: the output folder, with the record of the last run.
    """
    limited = [plan for plan in plans if plan.cell.settings.max_size is not None]
    last = _last_wheels(out) if limited else {}
    for plan in limited:
        stored, limit = store.find(plan.build_digest), plan.cell.settings.max_size
        wheel = stored.wheel if stored else last.get(plan.cell.id)
        if wheel and limit and wheel.size > limit:
            sizes = f"{show_size(wheel.size)} when it was last built, and max-size is {show_size(limit)}"
            yield Notice(level="warning", text=f"{plan.cell.id}: the wheel had {sizes}")


def _last_wheels(out: Path) -> dict[str, WheelRecord]:
    try:
        results = RunRecord.read(out).results
    except (OSError, ValueError):  # there is no run, or the next one writes the record anew
        return {}
    return {result.cell.id: result.wheel for result in results if result.wheel}
