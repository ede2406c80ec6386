"""The executor protocol. A new executor needs a module in this package and a line in ``EXECUTORS``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Protocol

from wheelsmith.base.errors import SettingError
from wheelsmith.base.json_dataclass import Record
from wheelsmith.engine import Limits
from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.model import BuildPlan, BuildResult, Listener
from wheelsmith.source.tree import SourceTree


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInputs(Record):
    """What the builds of one kernel share.

    :param builds: the builds of upstream that the run takes; None if it takes none.
    :param test: a command that must succeed with each wheel installed, or None.
    """

    source: SourceTree
    builds: SourceTree | None = None
    test: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest(Record):
    """The builds of a run, and the resources for them. Only plans and source decide the bytes of a wheel.

    The request is plain data. An executor can send it to another machine as JSON, complete or with one plan. Its paths,
    including those of the sources' files, are valid on this machine only and must be replaced on another one.

    :param to_build: plans to build, or with a wheel to test.
    :param to_recheck: plans with a stored wheel to check again, which needs no toolchain.
    :param kernels: the kernel's name in a cell, or an empty text for a cell without one → inputs of its builds.
    :param engine: the engine's name.
    :param cache: the folder with the store, toolchains and compiled objects.
    :param folder: a scratch folder for this run only.
    :param logs: the folder for the logs of builds.
    :param limits: limits of one build from the matrix; the machine decides the ones that are None.
    :param jobs: number of cores that all builds together may use on one machine; None for all available ones.
    :param cores_per_cell: number of these cores for a build in one piece; None for an equal share.
    :param memory: bytes that all builds together may use on one machine; None for four fifths of the free memory.
    :param force: build even if the wheel is in the store.
    :param reuse: use compiled objects from the cache, and add new ones to it.
    :param fail_fast: start no more builds after a failure.
    :param remote_cache: a cache for compiled objects that machines share. Its files of keys are of this machine, too.
    """

    to_build: tuple[BuildPlan, ...] = ()
    to_recheck: tuple[BuildPlan, ...] = ()
    kernels: dict[str, KernelInputs]
    engine: str
    cache: Path
    folder: Path
    logs: Path
    limits: Limits = field(default_factory=Limits)
    jobs: int | None = None
    cores_per_cell: int | None = None
    memory: int | None = None
    force: bool = False
    reuse: bool = True
    fail_fast: bool = False
    remote_cache: RemoteCacheSettings = field(default_factory=RemoteCacheSettings)


class Executor(Protocol):
    """Runs builds, on this machine or on another one.

    The run itself looks up the store, reports the cells that share a wheel, uses only the first result of a build,
    verifies that its wheel is in the store, and reports a failure for each build without a result.
    """

    def build(
        self,
        work: BuildRequest,
        *,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
        cancel: Event,
    ) -> None:
        """Build, test or check every plan. No build is running when this returns or raises.

        :param listen: receives events, in any thread.
        :param on_result: receives results in the calling thread, in any order. Before each call, the wheel must be in
            the store of ``work.cache`` and the log in ``work.logs``. If it raises, all builds are stopped and the error
            propagates.
        :param cancel: once it is set, running builds are killed and no more are started.
        :raises WheelsmithError: no build is possible at all. A single failed build is a result.
        """


LOCAL = "local"
# Name → module and class. An executor is imported only when it is opened.
EXECUTORS = {
    LOCAL: ("wheelsmith.run.executors.local", "LocalExecutor"),
    "dask": ("wheelsmith.run.executors.dask", "DaskExecutor"),
}


def open_executor(text: str) -> Executor:
    """Return an executor.

    :param text: its name, or ``NAME://ADDRESS`` for one on other machines.
    :raises SettingError: there is none.
    """
    name, separator, address = text.partition("://")
    if name not in EXECUTORS or (separator and (name == LOCAL or not address)):
        raise SettingError(f"there is no executor {text!r}", remedy="use local, dask or dask://HOST:PORT")
    module, class_name = EXECUTORS[name]
    executor_class = getattr(import_module(module), class_name)
    made: Executor = executor_class(address) if address else executor_class()
    return made
