"""Run the build of one plan, as a run of many does."""

import threading

from wheelsmith.model import BuildPlan, BuildResult
from wheelsmith.pipeline import BuildContext, CellBuild
from wheelsmith.run.schedule import Capacity, run_builds


def build_one(plan: BuildPlan, context: BuildContext, *, cores: int = 2) -> BuildResult:
    results: list[BuildResult] = []
    run_builds(
        [CellBuild(plan, context, ())],
        (),
        machine=Capacity(cores=cores, memory=context.memory),
        on_result=lambda _, result: results.append(result),
        fail_fast=False,
        cancel=threading.Event(),
    )
    (result,) = results
    return result
