"""The schedule of tasks: longest path first, within the machine's cores and memory."""

from wheelsmith.run.schedule.build_costs import BuildCosts
from wheelsmith.run.schedule.pool import run_builds
from wheelsmith.run.schedule.task_queue import Capacity, TaskQueue
