"""results.json and the summary that GitHub shows: everything a pipeline needs to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wheelsmith import __version__
from wheelsmith.model import SCHEMA_VERSION, BuildPlan, BuildResult, Excluded
from wheelsmith.report.style import wall_time
from wheelsmith.schedule import fold, folded
from wheelsmith.units import show_size


def results_json(
    kernel: str,
    plans: Sequence[BuildPlan],
    results: Sequence[BuildResult],
    excluded: Sequence[Excluded],
    apart: Mapping[str, str],
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """Give the run's outcome as data; every selected cell is in it, by its id.

    :param apart: cell id → why no older minor of its CUDA answers for it.
    """
    shared = folded(fold(plans))
    answered = {result.cell.id: result for result in results}
    cells: dict[str, dict[str, Any]] = {}
    for plan in plans:
        result = answered.get(plan.cell.id)
        cells[plan.cell.id] = {
            **(result.to_json() if result else {"cell": plan.cell.to_json(), "status": "cancelled"}),
            "folded": shared[plan.cell.id].to_json() if plan.cell.id in shared else None,
            "not_folded": apart.get(plan.cell.id),
            "version": plan.wheel.version,
            "requires_torch": plan.wheel.stable_abi or plan.wheel.torch,
            "gpu_archs": list(plan.wheel.gpu_archs),
            "source": plan.source.to_json(),
            "image": plan.image.to_json() if plan.image else None,
            "compiler": plan.toolset.version if plan.toolset else None,
            "toolkit": plan.cuda.version if plan.cuda else None,
        }
    for item in excluded:
        cells[item.cell.id] = {"cell": item.cell.to_json(), "status": "excluded", "reason": item.reason}
    return {
        "schema_version": SCHEMA_VERSION,
        "wheelsmith": __version__,
        "kernel": kernel,
        "interrupted": interrupted,
        "cells": cells,
    }


def github_summary(results: Sequence[BuildResult], excluded: Sequence[Excluded]) -> str:
    """Give a Markdown table for GITHUB_STEP_SUMMARY."""
    rows = ["| cell | status | wheel | size | time |", "| --- | --- | --- | --- | --- |"]
    for result in results:
        wheel = result.wheel
        what = f"`{wheel.filename}`" if wheel else _cell(result.failure.message if result.failure else "")
        bytes_ = show_size(wheel.size) if wheel else ""
        rows.append(f"| `{result.cell.id}` | {result.status} | {what} | {bytes_} | {_time(result)} |")
    rows += [f"| `{item.cell.id}` | excluded | {_cell(item.reason)} | | |" for item in excluded]
    return "\n".join(rows) + "\n"


def _time(result: BuildResult) -> str:
    if result.built_in:
        return f"{wall_time(result.built_in)} before"
    return wall_time(result.timings) if result.timings else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
