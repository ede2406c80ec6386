"""Executors run the builds of a run. All of them implement one protocol."""

from wheelsmith.run.executors.protocol import EXECUTORS, BuildRequest, Executor, KernelInputs, open_executor
