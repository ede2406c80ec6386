"""Which task when: cells that give the same wheel are one build; the longest first, within the machine's memory."""

from wheelsmith.schedule.board import Board, Machine
from wheelsmith.schedule.expect import BuildCosts
from wheelsmith.schedule.fold import Build, Folded, fold, folded
from wheelsmith.schedule.pool import run_builds
from wheelsmith.schedule.simulate import Forecast, simulate

__all__ = ["Board", "Build", "BuildCosts", "Folded", "Forecast", "Machine", "fold", "folded", "run_builds", "simulate"]
