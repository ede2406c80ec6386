"""By what the builds of a run are made: ways behind one protocol."""

from wheelsmith.run.executors.known import EXECUTORS, open_executor
from wheelsmith.run.executors.protocol import Executor, Terms, Work

__all__ = ["EXECUTORS", "Executor", "Terms", "Work", "open_executor"]
