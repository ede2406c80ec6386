"""By what the builds of a run are made: ways behind one protocol."""

from wheelsmith.run.executors.known import EXECUTORS, open_executor
from wheelsmith.run.executors.protocol import BuildOptions, BuildRequest, Executor

__all__ = ["EXECUTORS", "BuildOptions", "BuildRequest", "Executor", "open_executor"]
