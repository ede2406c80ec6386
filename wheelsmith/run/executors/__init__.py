"""Executors make the builds of a run, behind one protocol."""

from wheelsmith.run.executors.protocol import EXECUTORS, BuildRequest, Executor, open_executor
