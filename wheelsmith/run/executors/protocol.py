"""Builds go through one small interface, ``Executor``; a further one is a module here and a line in ``EXECUTORS``."""

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
from wheelsmith.model import BuildPlan, BuildResult, Listener
from wheelsmith.source.tree import SourceTree


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest(Record):
    """The builds that a run needs, and all that they are made with. Only plans and source decide the bytes of a wheel.

    Plain data: written as JSON, all of it or one plan of it may travel to where a build is made. Paths are of this
    machine, those of the source's files too: where they lead elsewhere, others take their place.

    :param to_build: plans to build, or whose wheel is to be tested.
    :param to_recheck: plans whose wheel is in the store, to be checked again; that needs no toolchain.
    :param engine: its name.
    :param cache: the folder with the store, toolchains and compiled pieces.
    :param folder: a scratch folder of this run alone.
    :param logs: where each build that ran leaves its log.
    :param limits: of one build, as the matrix has them; the machine decides what is left open.
    :param jobs: cores that builds may keep busy together on one machine; None takes all that are granted.
    :param cores_per_cell: of them, for a build in one piece; None shares them out among the builds.
    :param memory: bytes that builds may use together on one machine; None takes four fifths of what is free.
    :param test: a command that must succeed with each wheel installed, or None.
    :param force: build also what the store has.
    :param reuse: take compiled pieces that were made before, and keep those that are made.
    :param fail_fast: begin nothing more once a build has failed.
    """

    to_build: tuple[BuildPlan, ...] = ()
    to_recheck: tuple[BuildPlan, ...] = ()
    source: SourceTree
    engine: str
    cache: Path
    folder: Path
    logs: Path
    limits: Limits = field(default_factory=Limits)
    jobs: int | None = None
    cores_per_cell: int | None = None
    memory: int | None = None
    test: str | None = None
    force: bool = False
    reuse: bool = True
    fail_fast: bool = False


class Executor(Protocol):
    """Makes builds, here or elsewhere.

    What a run promises is not for it to keep: the run looks up the store, answers folded cells, takes a build's first
    answer only, proves that its wheel is in the store, and answers for whatever an executor left unanswered.
    """

    def build(
        self,
        work: BuildRequest,
        *,
        listen: Listener,
        on_result: Callable[[BuildResult], None],
        cancel: Event,
    ) -> None:
        """Build, test or check every plan; nothing runs any more when this returns or raises.

        :param listen: hears in any thread of what happens meanwhile.
        :param on_result: takes answers in the calling thread, as they come and in any order. By then a wheel is in the
            store of ``work.cache``, and the log in ``work.logs``. Where it raises, builds are ended and the error is
            passed on.
        :param cancel: once it is set, what runs is killed and nothing more is begun.
        :raises WheelsmithError: no build can be made in this way at all; one that fails is an answer.
        """


# Name → module and class, so that an executor is imported when it is opened.
EXECUTORS = {
    "local": ("wheelsmith.run.executors.local", "LocalExecutor"),
}


def open_executor(name: str) -> Executor:
    """Return the executor called ``name``.

    :raises SettingError: there is none.
    """
    if name not in EXECUTORS:
        raise SettingError(f"there is no executor {name!r}", remedy=f"use {' or '.join(EXECUTORS)}")
    module, class_name = EXECUTORS[name]
    made: Executor = getattr(import_module(module), class_name)()
    return made
