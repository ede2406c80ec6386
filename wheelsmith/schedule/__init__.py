"""Which cell when: folded, longest first, within the machine's memory."""

from wheelsmith.schedule.fold import Build, Folded, fold, folded
from wheelsmith.schedule.pool import run_builds

__all__ = ["Build", "Folded", "fold", "folded", "run_builds"]
