"""Run the build of one plan, as a run of many does."""

import threading

from wheelsmith.model import BuildPlan, BuildResult
from wheelsmith.pipeline import CellBuild, Workshop
from wheelsmith.schedule import Machine, run_builds


def build_one(plan: BuildPlan, workshop: Workshop, *, cores: int = 2) -> BuildResult:
    results: list[BuildResult] = []
    run_builds(
        [CellBuild(plan, workshop, ())],
        (),
        machine=Machine(cores=cores, memory=workshop.memory),
        on_result=results.append,
        fail_fast=False,
        cancel=threading.Event(),
    )
    (result,) = results
    return result
