"""Which cell when: folded, longest first, within the machine's memory."""

from wheelsmith.schedule.fold import Build, fold
from wheelsmith.schedule.pool import run_builds

__all__ = ["Build", "fold", "run_builds"]
