"""results.json: everything that a pipeline needs to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wheelsmith import __version__
from wheelsmith.model import SCHEMA_VERSION, TORCH, BuildPlan, BuildResult, Excluded, Folded


def results_json(
    kernel: str,
    plans: Sequence[BuildPlan],
    results: Sequence[BuildResult],
    excluded: Sequence[Excluded],
    folded: Mapping[str, Folded],
    not_folded: Mapping[str, str],
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """Return the run's outcome as data; every selected cell is in it, by its id.

    :param folded: cell id → whose wheel it shares.
    :param not_folded: cell id → why no older minor of its CUDA answers for it.
    """
    answered = {result.cell.id: result for result in results}
    cells: dict[str, dict[str, Any]] = {}
    for plan in plans:
        result = answered.get(plan.cell.id)
        cells[plan.cell.id] = {
            **(result.to_json() if result else {"cell": plan.cell.to_json(), "status": "cancelled"}),
            "folded": folded[plan.cell.id].to_json() if plan.cell.id in folded else None,
            "not_folded": not_folded.get(plan.cell.id),
            "version": plan.wheel.version,
            "requires_torch": (plan.wheel.stable_abi or plan.wheel.release) if plan.cell.framework == TORCH else None,
            "gpu_archs": list(plan.wheel.gpu_archs),
            "source": plan.source.to_json(),
            "image": plan.image.to_json() if plan.image else None,
            "compiler": plan.toolset.version if plan.toolset else None,
            "toolkit": plan.toolkit.version if plan.toolkit else None,
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
