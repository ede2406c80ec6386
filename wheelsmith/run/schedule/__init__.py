"""Which task when: the longest first, within the machine's cores and memory."""

from wheelsmith.run.schedule.board import Capacity, TaskQueue
from wheelsmith.run.schedule.expect import BuildCosts
from wheelsmith.run.schedule.pool import run_builds
from wheelsmith.run.schedule.simulate import Forecast, simulate

__all__ = [
    "BuildCosts",
    "Capacity",
    "Forecast",
    "TaskQueue",
    "run_builds",
    "simulate",
]
