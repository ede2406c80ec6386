"""Plans that nobody builds."""

from __future__ import annotations

from wheelsmith.model import BuildPlan, Cell, Recipe, SourceId, WheelSpec
from wheelsmith.plan.planned_run import PlannedRun


def plan(number: int, torch: str = "2.11") -> BuildPlan:
    """Return the plan of a pure kernel; those of one number make the same wheel."""
    spec = WheelSpec(
        distribution=f"k{number}",
        version="1",
        python_tag="py3",
        abi_tag="none",
        platform="any",
        metadata="",
        module="k",
        gpu_archs=(),
        release=None,
        toolkit=None,
        arch="any",
        stable_abi=None,
    )
    return BuildPlan(
        cell=Cell(release=torch, toolkit=None, arch=f"a{number}"),
        source=SourceId(origin="path", revision=None, commit=None, tree="t"),
        image=None,
        toolset=None,
        toolkit=None,
        headers=None,
        recipe=Recipe(steps=(), generated={}, contents={}, namespace="n", extension=None),
        environment={},
        wheel=spec,
        recipe_version=1,
    )


def planned_run(plans=(), excluded=(), **fields) -> PlannedRun:
    """Return a run of some plans."""
    usual = {
        "kernel": "k @0123456",
        "distribution": "k",
        "version": "1",
        "cells": tuple(sorted(plan.cell.id for plan in plans)),
        "offered": tuple(sorted(plan.cell.id for plan in plans)),
        "trees": ("t",),
        "commit": None,
        "not_folded": {},
        "variants": False,
        "matrix_sha256": None,
    }
    return PlannedRun(plans=tuple(plans), excluded=tuple(excluded), **(usual | fields))
